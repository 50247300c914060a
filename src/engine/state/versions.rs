//! Earlier versions of a state, kept in `<state>.versions/` before each run that changes it. The newest
//! [`KEPT_VERSIONS`] stay. Numbers increase and are not reused while a version exists.

use std::io;
use std::time::SystemTime;

use super::records::State;
use super::storage::{BACKUP_DOCUMENT, STATE_DOCUMENT, Storage, VERSIONS_FOLDER};
use base::{Error, Result};

/// The number of versions that are kept.
pub const KEPT_VERSIONS: usize = 10;
/// The name of the version before the last write, if the storage keeps one.
const BACKUP_NAME: &str = "bak";

/// An earlier version of a state.
#[derive(Debug)]
pub struct Version {
    /// Its number, or `bak`.
    pub name: String,
    /// Its path or URL.
    pub path_or_url: String,
    /// The time at which it was written.
    pub written_at: SystemTime,
    /// Its state, or the error if it cannot be parsed.
    pub state: Result<State>,
}

/// Returns the paths or URLs of the folder with versions and of the version `bak`.
pub(crate) fn version_paths(storage: &Storage) -> [String; 2] {
    [VERSIONS_FOLDER, BACKUP_DOCUMENT].map(|document| storage.path_or_url_of(document))
}

/// Returns the versions of a state, newest first.
pub fn read_versions(storage: &Storage) -> Result<Vec<Version>> {
    let read_error = |error| Error::io(format!("reading the kept versions of '{storage}'"), error);
    let mut numbers = list_numbers(storage).map_err(read_error)?;
    numbers.reverse();
    let backup = storage.keeps_backup().then(|| (BACKUP_NAME.to_owned(), BACKUP_DOCUMENT.to_owned()));
    let numbered_documents = numbers.into_iter().map(|number| (number.to_string(), document_name(number)));
    let mut versions = Vec::new();
    for (name, document) in backup.into_iter().chain(numbered_documents) {
        if let Some(read_document) = storage.read(&document).map_err(read_error)? {
            let (path_or_url, written_at) = (storage.path_or_url_of(&document), read_document.written_at);
            versions.push(Version {
                name,
                path_or_url,
                written_at,
                state: State::parse(&read_document.bytes),
            });
        }
    }
    Ok(versions)
}

/// Keeps the current state as a version, even if it cannot be parsed, and removes versions beyond
/// [`KEPT_VERSIONS`]. Returns the number of the version. The caller must hold the lock.
pub(super) fn keep(storage: &Storage) -> io::Result<u64> {
    let numbers = list_numbers(storage)?;
    let current_state = storage.read(STATE_DOCUMENT)?.ok_or(io::ErrorKind::NotFound)?;
    let newest_number = numbers.last().copied().unwrap_or(0);
    // The current state is already kept: on request, or by a run that was killed before it wrote.
    if newest_number > 0
        && storage
            .read(&document_name(newest_number))?
            .is_some_and(|document| document.bytes == current_state.bytes)
    {
        return Ok(newest_number);
    }
    let number = newest_number + 1;
    // This is a copy, not a link, because editing the state file in place must not change the kept version.
    storage.write(&document_name(number), &current_state.bytes)?;
    storage.set_written_time(&document_name(number), current_state.written_at);
    for old_number in numbers.iter().rev().skip(KEPT_VERSIONS - 1) {
        storage.remove(&document_name(*old_number))?;
    }
    Ok(number)
}

fn document_name(number: u64) -> String {
    format!("{VERSIONS_FOLDER}/{number}.json")
}

/// Returns the numbers of the kept versions, oldest first.
fn list_numbers(storage: &Storage) -> io::Result<Vec<u64>> {
    let names = storage.list(VERSIONS_FOLDER)?;
    let numbers = names.iter().filter_map(|(name, _)| name.strip_suffix(".json")?.parse::<u64>().ok());
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::files::durable::write_atomically;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn write(path: &Path, sha: usize) {
        let state = State { current_deploy_digest: sha.to_string(), ..State::new() };
        write_atomically(path, &state.to_bytes().unwrap()).unwrap();
    }

    #[test]
    fn newest_versions_are_kept_with_increasing_numbers() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("m-state.json");
        let storage = Storage::from(path.as_path());
        for run in 1..=13 {
            write(&path, run);
            assert_eq!(keep(&storage).unwrap(), run as u64);
            assert_eq!(keep(&storage).unwrap(), run as u64, "an unchanged state became a new version");
        }
        let kept_versions = read_versions(&storage).unwrap();
        let names: Vec<&str> = kept_versions.iter().map(|version| version.name.as_str()).collect();
        assert_eq!(names, ["13", "12", "11", "10", "9", "8", "7", "6", "5", "4"]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for version in &kept_versions {
            assert_eq!(version.state.as_ref().unwrap().current_deploy_digest, version.name);
            assert_eq!(mode(Path::new(&version.path_or_url)), 0o600);
        }
        let directory = base.path().join("m-state.json.versions");
        assert_eq!(mode(&directory), 0o700);
        storage.remove_folder(VERSIONS_FOLDER).unwrap();
        assert!(read_versions(&storage).unwrap().is_empty() && !directory.exists());
    }

    #[test]
    fn unreadable_states_are_kept_as_versions() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("m-state.json");
        let storage = Storage::from(path.as_path());
        fs::write(&path, "{").unwrap();
        keep(&storage).unwrap();
        let directory = base.path().join("m-state.json.versions");
        fs::write(directory.join(".2.json.x.tmp"), "").unwrap();
        storage.clean_up().unwrap();
        let kept_versions = read_versions(&storage).unwrap();
        assert!(kept_versions.len() == 1 && kept_versions[0].state.is_err());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }
}
