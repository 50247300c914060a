//! JSON files that this program writes for itself.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::durable::write_atomically;
use crate::text::json_problem;
use crate::{Error, Result};

/// The maximum size of a file in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The layout of a JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonLayout {
    /// On one line.
    Compact,
    /// Indented, for operators who read it.
    Indented,
}

/// Reads a JSON file, or returns `None` if the file does not exist.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let read_error = |error| Error::io(format!("reading '{}'", path.display()), error);
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(read_error)?,
    };
    let mut text = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(read_error)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(read_error(io::Error::other(format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20))));
    }
    serde_json::from_slice(&text).map(Some).map_err(|error| {
        Error::failure(format!("'{}' is damaged: not valid JSON", path.display()))
            .with_source(json_problem(&error))
    })
}

/// Replaces a file with a JSON document, atomically, durably and with mode 0600.
pub fn write_json(path: &Path, document: &impl Serialize, layout: JsonLayout) -> Result<()> {
    let text = match layout {
        JsonLayout::Compact => serde_json::to_vec(document),
        JsonLayout::Indented => serde_json::to_vec_pretty(document),
    };
    text.map_err(io::Error::from)
        .and_then(|text| write_atomically(path, &text))
        .map_err(|error| Error::io(format!("writing '{}'", path.display()), error))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn json_round_trips() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        assert_eq!(read_json::<Vec<u8>>(&path).unwrap(), None);
        write_json(&path, &vec![1, 2], JsonLayout::Indented).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "[\n  1,\n  2\n]");
        write_json(&path, &vec![3], JsonLayout::Compact).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "[3]");
        assert_eq!(read_json::<Vec<u8>>(&path).unwrap(), Some(vec![3]));
    }

    #[test]
    fn error_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        let message_for = |path: &Path| read_json::<Vec<u8>>(path).unwrap_err().chain().join(": ");
        fs::write(&path, "[").unwrap();
        assert!(
            message_for(&path).contains("a.json' is damaged: not valid JSON: line 1: it ends"),
            "{}",
            message_for(&path)
        );
        File::create(&path).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(
            message_for(&path).contains("a.json' failed: it is larger than 64 MiB"),
            "{}",
            message_for(&path)
        );
        assert!(message_for(directory.path()).contains("reading"), "a directory");
        let error = write_json(&directory.path().join("none/a.json"), &1, JsonLayout::Compact).unwrap_err();
        assert!(error.to_string().contains("none/a.json"), "{error}");
    }
}
