//! The origin of a variable's value, for messages about a value that cannot be used.

use std::path::{Path, PathBuf};

use super::{Definitions, GivenValues};
use crate::vars_store::{VarsStore, command_line};
use base::Error;
use base::text::shell_word;

/// A variable with the source of its value.
#[derive(Debug, Clone)]
pub struct VariableOrigin {
    /// The name.
    pub name: String,
    /// The source of the value.
    pub source: VariableSource,
    /// The path of the manifest whose `variables:` declares the variable with a type.
    pub manifest: Option<PathBuf>,
}

/// The source of a variable's value.
#[derive(Debug, Clone)]
pub enum VariableSource {
    /// The vars store, which `monopile vars rotate` changes.
    VarsStore(PathBuf),
    /// A file with given values.
    File(PathBuf),
    /// The command line, the environment or a program.
    Given,
}

impl VariableOrigin {
    /// Returns the origin of the value that `((name))` stands for. Returns `None` if it has no value.
    pub(crate) fn of(
        name: &str,
        given_values: &GivenValues,
        store: Option<&VarsStore>,
        definitions: &Definitions,
    ) -> Option<Self> {
        let source = match (given_values.get(name), store.filter(|store| store.get(name).is_some())) {
            (Some(value), _) => match value.position.file() {
                Some(file) => VariableSource::File(file.to_owned()),
                None => VariableSource::Given,
            },
            (None, Some(store)) => VariableSource::VarsStore(store.path().to_owned()),
            (None, None) => return None,
        };
        let is_declared = definitions.get(name).is_some_and(|definition| definition.kind.is_some());
        let manifest = definitions.manifest().filter(|_| is_declared).map(Path::to_owned);
        Some(VariableOrigin { name: name.to_owned(), source, manifest })
    }

    /// Describes the variable with its file.
    pub fn describe(&self) -> String {
        match &self.source {
            VariableSource::VarsStore(file) | VariableSource::File(file) => {
                format!("variable '{}' ('{}')", self.name, file.display())
            }
            VariableSource::Given => format!("variable '{}'", self.name),
        }
    }

    /// Returns the note for an error about the value at the place of the reference.
    pub(crate) fn note(&self) -> String {
        format!("the value is that of {}", self.describe())
    }

    /// Adds to an error about the value the variable that has it, and the hint to correct it there.
    #[must_use]
    pub fn explain(&self, error: Error) -> Error {
        let hint = match (self.store(), &self.manifest) {
            (Some(_), Some(_)) => {
                let command = self.rotate_command().unwrap_or_default();
                format!("put the vars store back from a copy, or generate a new value: `{command}`")
            }
            (Some(_), None) => "put the vars store back from a copy, or correct the value in it".to_owned(),
            (None, _) => "correct the value of this variable".to_owned(),
        };
        error.with_note(self.note()).with_hint(hint)
    }

    /// Returns the vars store, if it has the variable.
    pub fn store(&self) -> Option<&Path> {
        match &self.source {
            VariableSource::VarsStore(store) => Some(store),
            VariableSource::File(_) | VariableSource::Given => None,
        }
    }

    /// Returns the command that generates a new value, if the vars store has the variable.
    pub fn rotate_command(&self) -> Option<String> {
        let command = command_line("rotate", self.store()?, &self.name);
        Some(match &self.manifest {
            Some(manifest) => format!("{command} -m {}", shell_word(&manifest.to_string_lossy())),
            None => command,
        })
    }
}
