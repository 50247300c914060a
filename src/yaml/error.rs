//! The error type for reading and converting YAML.

use std::path::{Path, PathBuf};

use super::position::{LineColumn, Position, widen};

/// An error in a YAML document: the problem, its place, and a suggestion.
///
/// It may quote keys. It never quotes string values, because they may be secrets. `Display` shows the place
/// and the problem, not the hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", prefix(.file.as_deref(), *.line, *.column))]
pub struct Error {
    /// The file or label that the caller passed. `None` if the caller passed none.
    pub file: Option<PathBuf>,
    /// Line, from 1. 0 for a value that was not read from a document.
    pub line: usize,
    /// Column in characters, from 1. 0 for a value that was not read from a document.
    pub column: usize,
    /// The problem, without its place.
    pub problem: String,
    /// A way to correct the problem.
    pub hint: Option<String>,
}

impl Error {
    pub(crate) fn at_line_column(position: LineColumn, problem: impl Into<String>) -> Self {
        Error {
            file: None,
            line: widen(position.line),
            column: widen(position.column),
            problem: problem.into(),
            hint: None,
        }
    }

    pub(crate) fn at_position(position: &Position, problem: impl Into<String>) -> Self {
        let Position { source, line, column } = position;
        let file = source.as_deref().cloned();
        Error { file, line: widen(*line), column: widen(*column), problem: problem.into(), hint: None }
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
