//! The shells with a script of our own in `completions/`, because bash splits words at `=` and `:`, and zsh
//! adds a space after `name=`.

use std::ffi::OsString;
use std::io::{Error, Write};
use std::path::Path;

use clap::Command;
use clap_complete::env::{self, EnvCompleter};

/// A shell of the completion library, with another script.
pub(super) struct OwnScript {
    shell: &'static dyn EnvCompleter,
    script: &'static [u8],
}

pub(super) const BASH: OwnScript =
    OwnScript { shell: &env::Bash, script: include_bytes!("../../../completions/monopile.bash") };
pub(super) const ZSH: OwnScript =
    OwnScript { shell: &env::Zsh, script: include_bytes!("../../../completions/_monopile") };

impl EnvCompleter for OwnScript {
    fn name(&self) -> &'static str {
        self.shell.name()
    }

    fn is(&self, name: &str) -> bool {
        self.shell.is(name)
    }

    fn write_registration(
        &self,
        _: &str,
        _: &str,
        _: &str,
        _: &str,
        script: &mut dyn Write,
    ) -> Result<(), Error> {
        script.write_all(self.script)
    }

    fn write_complete(
        &self,
        grammar: &mut Command,
        words: Vec<OsString>,
        directory: Option<&Path>,
        answer: &mut dyn Write,
    ) -> Result<(), Error> {
        self.shell.write_complete(grammar, words, directory, answer)
    }
}
