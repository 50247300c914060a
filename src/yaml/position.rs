//! Positions in documents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use granit_parser::Marker;

/// The position of a node: file, line and column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    /// The file, or a label for other input, such as `--var`. `None` for generated nodes.
    pub source: Option<Arc<PathBuf>>,
    /// Line, from 1. 0 for generated nodes.
    pub line: u32,
    /// Column in characters, from 1. 0 for generated nodes.
    pub column: u32,
}

impl Position {
    /// Returns `file:line:column` for messages. A generated node has only the file, or `<generated>` without
    /// a file.
    pub fn describe(&self) -> String {
        let file =
            self.source.as_deref().map_or("<generated>".into(), |path: &PathBuf| path.display().to_string());
        if self.line == 0 { file } else { format!("{file}:{}:{}", self.line, self.column) }
    }

    /// Returns the file or label that the node was read from.
    pub fn file(&self) -> Option<&Path> {
        self.source.as_deref().map(PathBuf::as_path)
    }
}

/// A line and a column.
#[derive(Clone, Copy)]
pub struct LineColumn {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl From<Marker> for LineColumn {
    fn from(mark: Marker) -> Self {
        LineColumn { line: narrow(mark.line()), column: narrow(mark.col() + 1) }
    }
}

/// Converts a line or column to the stored type. No input is long enough to exceed it.
pub(crate) fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Converts a stored line or column.
pub(crate) fn widen(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
