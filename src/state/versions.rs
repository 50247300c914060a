//! Earlier versions of a state file, beside it in `<state>.versions/`: what it said before each run that changed
//! it. The newest [`KEPT`] stay; a number that only grows names each.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::file::{State, backup_path};
use crate::durable::{sync_parent, write_atomically};
use crate::{Error, Result};

/// How many versions are kept.
pub const KEPT: usize = 10;
/// The name of the version before the last write, which is kept as `<state>.bak`.
const BACKUP: &str = "bak";

/// A version that is kept.
#[derive(Debug)]
pub struct Version {
    /// Its number, or `bak`.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// When it was written.
    pub written: SystemTime,
    /// What it says, unless it cannot be read.
    pub state: Result<State>,
}

/// The versions of the state file at `state`, newest first.
pub fn versions(state: &Path) -> Result<Vec<Version>> {
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    let backup = backup_path(state);
    if backup.exists() {
        found.push((BACKUP.to_owned(), backup));
    }
    let mut numbers = numbers(state).map_err(|error| failed(state, error))?;
    numbers.reverse();
    found.extend(numbers.into_iter().map(|number| (number.to_string(), path_of(state, number))));
    found
        .into_iter()
        .map(|(name, path)| {
            let written = fs::metadata(&path)
                .and_then(|metadata| metadata.modified())
                .map_err(|error| failed(state, error))?;
            let bytes = fs::read(&path).map_err(|error| failed(state, error))?;
            Ok(Version { name, path, written, state: State::parse(&bytes) })
        })
        .collect()
}

/// Keeps what the state file says now, whether it can be used or not, and removes the oldest version there are too
/// many of. Returns its number. For the holder of the lock.
pub(super) fn keep(state: &Path) -> io::Result<u64> {
    let directory = directory(state);
    match DirBuilder::new().mode(0o700).create(&directory) {
        Ok(()) => sync_parent(&directory)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let numbers = numbers(state)?;
    let bytes = fs::read(state)?;
    let newest = numbers.last().copied().unwrap_or(0);
    // Kept by a run that was killed before it wrote anything, or on request.
    if fs::read(path_of(state, newest)).is_ok_and(|kept| kept == bytes) {
        return Ok(newest);
    }
    let number = newest + 1;
    let path = path_of(state, number);
    // A copy and no link: whoever edits the file in place must not edit what is kept.
    write_atomically(&path, &bytes)?;
    let written = fs::metadata(state)?.modified()?;
    // Only for show.
    let _ = fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(written));
    for old in numbers.iter().rev().skip(KEPT - 1) {
        fs::remove_file(path_of(state, *old))?;
    }
    Ok(number)
}

/// Removes what a killed run left half written.
pub(super) fn sweep(state: &Path) -> io::Result<()> {
    for entry in entries(&directory(state))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "tmp") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Removes all versions: nothing that they describe exists any more.
pub(super) fn remove(state: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory(state)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn directory(state: &Path) -> PathBuf {
    let mut name = state.as_os_str().to_owned();
    name.push(".versions");
    name.into()
}

fn path_of(state: &Path, number: u64) -> PathBuf {
    directory(state).join(format!("{number}.json"))
}

/// Oldest first.
fn numbers(state: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in entries(&directory(state))? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_suffix(".json"))
            .and_then(|name| name.parse::<u64>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn entries(directory: &Path) -> io::Result<impl Iterator<Item = io::Result<fs::DirEntry>>> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(Some(entries).into_iter().flatten()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None.into_iter().flatten()),
        Err(error) => Err(error),
    }
}

fn failed(state: &Path, error: io::Error) -> Error {
    Error::io(format!("reading the kept versions of '{}'", state.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn write(path: &Path, sha: usize) {
        let state = State { current_manifest_sha: sha.to_string(), ..State::new() };
        write_atomically(path, &state.to_bytes().unwrap()).unwrap();
    }

    #[test]
    fn the_newest_are_kept_under_growing_numbers() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("m-state.json");
        for run in 1..=13 {
            write(&path, run);
            assert_eq!(keep(&path).unwrap(), run as u64);
            assert_eq!(keep(&path).unwrap(), run as u64, "the same version twice");
        }
        let kept = versions(&path).unwrap();
        let names: Vec<&str> = kept.iter().map(|version| version.name.as_str()).collect();
        assert_eq!(names, ["13", "12", "11", "10", "9", "8", "7", "6", "5", "4"]);
        for version in &kept {
            assert_eq!(version.state.as_ref().unwrap().current_manifest_sha, version.name);
            assert_eq!(fs::metadata(&version.path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::metadata(directory(&path)).unwrap().permissions().mode() & 0o777, 0o700);
        remove(&path).unwrap();
        assert!(versions(&path).unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_used_is_kept_as_well() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("m-state.json");
        fs::write(&path, "{").unwrap();
        keep(&path).unwrap();
        fs::write(directory(&path).join(".2.json.x.tmp"), "").unwrap();
        sweep(&path).unwrap();
        let kept = versions(&path).unwrap();
        assert!(kept.len() == 1 && kept[0].state.is_err());
        assert_eq!(fs::read_dir(directory(&path)).unwrap().count(), 1);
    }
}
