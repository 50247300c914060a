//! Shells that need more than the completion library's script: bash splits words at `=` and `:`, which paths and
//! variables have in them, and zsh puts a space after `name=`.

use std::ffi::OsString;
use std::io::{Error, Write};
use std::path::Path;

use clap::Command;
use clap_complete::env::{self, EnvCompleter};

pub(super) struct Bash;
pub(super) struct Zsh;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        env::Bash.is(name)
    }

    fn write_registration(
        &self,
        _: &str,
        _: &str,
        _: &str,
        _: &str,
        script: &mut dyn Write,
    ) -> Result<(), Error> {
        script.write_all(include_bytes!("monopile.bash"))
    }

    fn write_complete(
        &self,
        grammar: &mut Command,
        words: Vec<OsString>,
        here: Option<&Path>,
        answer: &mut dyn Write,
    ) -> Result<(), Error> {
        env::Bash.write_complete(grammar, words, here, answer)
    }
}

impl EnvCompleter for Zsh {
    fn name(&self) -> &'static str {
        "zsh"
    }

    fn is(&self, name: &str) -> bool {
        env::Zsh.is(name)
    }

    fn write_registration(
        &self,
        _: &str,
        _: &str,
        _: &str,
        _: &str,
        script: &mut dyn Write,
    ) -> Result<(), Error> {
        script.write_all(include_bytes!("monopile.zsh"))
    }

    fn write_complete(
        &self,
        grammar: &mut Command,
        words: Vec<OsString>,
        here: Option<&Path>,
        answer: &mut dyn Write,
    ) -> Result<(), Error> {
        env::Zsh.write_complete(grammar, words, here, answer)
    }
}
