//! Errors of reading and converting YAML.

use std::path::{Path, PathBuf};

use super::position::{Place, Position};

/// An error in a YAML document: the problem, its place, and a suggestion.
///
/// It quotes none of the document's values, because they may be secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", prefix(.file.as_deref(), *.line, *.column))]
pub struct Error {
    /// The file, if the caller named one.
    pub file: Option<PathBuf>,
    /// Line, from 1. 0 for a value that was not read from a document.
    pub line: usize,
    /// Column in characters, from 1. 0 for a value that was not read from a document.
    pub column: usize,
    /// The problem in one sentence.
    pub problem: String,
    /// A way to correct it.
    pub hint: Option<String>,
}

impl Error {
    pub(crate) fn at(place: Place, problem: impl Into<String>) -> Self {
        Error { file: None, line: place.line, column: place.column, problem: problem.into(), hint: None }
    }

    pub(crate) fn at_position(position: &Position, problem: impl Into<String>) -> Self {
        let Position { source, line, column } = position;
        let file = source.as_deref().cloned();
        Error { file, line: *line, column: *column, problem: problem.into(), hint: None }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn in_file(mut self, file: &Path) -> Self {
        self.file = Some(file.to_owned());
        self
    }
}

fn prefix(file: Option<&Path>, line: usize, column: usize) -> String {
    match (file, line) {
        (Some(file), 0) => format!("{}: ", file.display()),
        (Some(file), _) => format!("{}:{line}:{column}: ", file.display()),
        (None, 0) => "<generated>: ".to_owned(),
        (None, _) => format!("line {line}, column {column}: "),
    }
}
