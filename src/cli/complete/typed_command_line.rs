//! A partial command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Command};

use crate::cli::{env_file, paths};
use base::encryption::Encryption;
use manifest::vars_store::VarsStore;

/// A command line without the word to complete.
pub(super) struct TypedCommandLine {
    /// The words of the command, such as `state`, `show`.
    command: Vec<String>,
    matches: Option<ArgMatches>,
}

impl TypedCommandLine {
    /// Parses as much of the words as possible, and the env file.
    pub(super) fn of(grammar: &Command, words: &[OsString]) -> TypedCommandLine {
        match env_file::parse_partial_command_line(grammar, words) {
            Some((command, matches)) => TypedCommandLine { command, matches: Some(matches) },
            None => TypedCommandLine { command: Vec::new(), matches: None },
        }
    }

    /// Returns true if this is the command.
    pub(super) fn is(&self, command: &[&str]) -> bool {
        self.command == command
    }

    pub(super) fn matches(&self) -> Option<&ArgMatches> {
        self.matches.as_ref()
    }

    /// Returns the first path of an argument.
    pub(super) fn path(&self, id: &str) -> Option<PathBuf> {
        let mut paths = self.matches()?.try_get_many::<PathBuf>(id).ok()??;
        paths.find(|path| path.as_os_str() != "-").cloned()
    }

    /// Returns the words of `cpi call`.
    pub(super) fn words(&self) -> Vec<&String> {
        let words = self.matches().and_then(|matches| matches.try_get_many::<String>("words").ok().flatten());
        words.into_iter().flatten().collect()
    }

    /// Returns the vars store of `vars rotate` or `vars get`, if it can be read without an identity. A single
    /// word is parsed as the name of a variable, or as the path to a value. It is the path of the store if
    /// that file exists.
    pub(super) fn vars_store(&self) -> Option<VarsStore> {
        let word = |id| self.matches().and_then(|matches| matches.try_get_one::<String>(id).ok().flatten());
        let word = word("name").or_else(|| word("path")).filter(|word| paths::exists(word));
        let path = word.map(PathBuf::from).or_else(|| self.path("store"))?;
        VarsStore::open(&path, &Encryption::default()).ok()
    }

    pub(super) fn manifest(&self) -> Option<PathBuf> {
        let word = || self.words().first().filter(|word| paths::exists(word)).map(PathBuf::from);
        self.path("manifest").or_else(word)
    }

    /// Returns the path of the state file.
    pub(super) fn state(&self) -> Option<PathBuf> {
        let option_path = self.path("state");
        let manifest = if option_path.is_some() { Some(PathBuf::new()) } else { self.manifest() };
        paths::state(option_path.as_deref(), &manifest?).ok()
    }
}
