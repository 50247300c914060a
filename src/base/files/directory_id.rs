//! The id of a directory in which a built-in CPI keeps its resources. The CPI writes it; a state records it,
//! so that a run that uses another directory notices.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// The name of the file with the id.
pub const ID_FILE: &str = "id";
/// The maximum size of an id in bytes.
const MAX_ID_BYTES: u64 = 256;

/// Returns the id of a directory, if it has one.
pub fn read_directory_id(root: &Path) -> io::Result<Option<String>> {
    let file = match fs::File::open(root.join(ID_FILE)) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(MAX_ID_BYTES).read_to_string(&mut text)?;
    let id = text.trim();
    Ok((!id.is_empty()).then(|| id.to_owned()))
}
