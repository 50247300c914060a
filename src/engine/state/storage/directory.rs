//! Documents in a directory. Each file has either its old or its new content, even after a crash.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{BACKUP_DOCUMENT, JOURNAL_FOLDER, VERSIONS_FOLDER};
use base::files::directory::parent;
use base::files::durable::{
    give_directory_to_owner_of, remove_durably, remove_temporaries, sync_parent, temporary_path,
    write_atomically_owned_like,
};
use base::files::input::list_files_hint;
use base::files::{input, is_same_file};
use base::text::shell_word;
use base::{Error, Result};

/// The directory of a state file.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    state: PathBuf,
}

impl Directory {
    pub(super) fn of(state: &Path) -> Self {
        Directory { state: state.to_owned() }
    }

    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    pub(super) fn path(&self, document: &str) -> PathBuf {
        let mut name = self.state.as_os_str().to_owned();
        name.push(document);
        name.into()
    }

    /// Fails if the directory does not exist, or if the state file has several names (hard links).
    pub(super) fn check(&self) -> Result<()> {
        let directory = parent(&self.state);
        match directory.is_dir() {
            true if self.state.is_dir() => {
                Err(Error::invalid(format!("the state '{}' is a directory", self.state.display()))
                    .with_hint(list_files_hint(&self.state)))
            }
            true => self.check_links(),
            false => Err(Error::invalid(format!(
                "the directory '{}' for the state file does not exist",
                directory.display()
            ))
            .with_hint(format!(
                "create it, or correct --state: `mkdir -p {}`",
                shell_word(&directory.to_string_lossy())
            ))),
        }
    }

    /// Fails if the state is hard-linked from elsewhere. A write replaces the file under one name only, and a
    /// run that uses the other name has another lock.
    fn check_links(&self) -> Result<()> {
        let Ok(state) = fs::metadata(&self.state) else { return Ok(()) };
        if state.nlink() <= 1 {
            return Ok(());
        }
        let versions = self.list(VERSIONS_FOLDER).unwrap_or_default();
        let versions = versions.into_iter().map(|(name, _)| self.path(VERSIONS_FOLDER).join(name));
        let paths = [self.state.clone(), self.path(BACKUP_DOCUMENT), temporary_path(&self.state, "bak")];
        let is_link =
            |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| is_same_file(&metadata, &state));
        let links = paths.into_iter().chain(versions).filter(is_link);
        let other_link_count = state.nlink().saturating_sub(links.count() as u64);
        if other_link_count == 0 {
            return Ok(());
        }
        let path = self.state.display();
        let links = if other_link_count == 1 { "link" } else { "links" };
        Err(Error::invalid(format!("the state '{path}' has {other_link_count} other hard {links}"))
            .with_note("nothing was changed")
            .with_note("a run that uses another link would not see the changes of this run")
            .with_hint(format!(
                "to separate the file from the other links: `cp -p '{path}' '{path}.own' && mv '{path}.own' \
                 '{path}'`"
            )))
    }

    /// Follows symbolic links to the directory of the state file itself, which need not exist.
    pub(super) fn resolve_links(&self) -> io::Result<Self> {
        /// The maximum number of links to follow, as in the kernel.
        const MAX_LINKS: usize = 40;
        let mut path = self.state.clone();
        for _ in 0..MAX_LINKS {
            match fs::read_link(&path) {
                Ok(target) => path = parent(&path).join(target),
                // The path is no link, or does not exist.
                Err(_) => return Ok(Directory { state: path }),
            }
        }
        Err(io::Error::other("too many symbolic links"))
    }

    /// Reads a document, and the time at which it was written.
    pub(super) fn read(&self, document: &str) -> io::Result<Option<(Vec<u8>, SystemTime)>> {
        let path = self.path(document);
        match input::read(&path, input::MAX_FILE_BYTES) {
            Ok(bytes) => {
                // Only the time of an earlier version is ever shown. A file that another run just removed has
                // no time.
                let modified_at = fs::metadata(&path).and_then(|metadata| metadata.modified());
                let written_at = modified_at.unwrap_or(SystemTime::UNIX_EPOCH);
                Ok(Some((bytes, written_at)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn write(&self, document: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(document);
        if document.contains('/') {
            let folder = parent(&path);
            match DirBuilder::new().mode(0o700).create(folder) {
                Ok(()) => {
                    give_directory_to_owner_of(folder, &self.state)?;
                    sync_parent(folder)?;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        write_atomically_owned_like(&path, bytes, &self.state)
    }

    pub(super) fn remove(&self, document: &str) -> io::Result<()> {
        remove_durably(&self.path(document))
    }

    pub(super) fn remove_folder(&self, folder: &str) -> io::Result<()> {
        match fs::remove_dir_all(self.path(folder)) {
            Ok(()) => sync_parent(&self.state),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn list(&self, folder: &str) -> io::Result<Vec<(String, SystemTime)>> {
        let entries = match fs::read_dir(self.path(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                let modified_at = entry.metadata().and_then(|metadata| metadata.modified());
                names.push((name, modified_at.unwrap_or(SystemTime::UNIX_EPOCH)));
            }
        }
        Ok(names)
    }

    /// Links the state and renames the link over the old backup, so that both names always have a whole file.
    pub(super) fn keep_backup(&self) -> io::Result<()> {
        let backup = self.path(BACKUP_DOCUMENT);
        // The name is one that `clean_up` removes if this run is killed.
        let staging = temporary_path(&self.state, "bak");
        remove_if_there(&staging)?;
        match fs::hard_link(&self.state, &staging) {
            Ok(()) => {
                fs::rename(&staging, &backup)?;
                // Renaming a link over another link to the same file does nothing.
                remove_if_there(&staging)
            }
            // File systems without hard links get a copy.
            Err(_) => write_atomically_owned_like(
                &backup,
                &input::read(&self.state, input::MAX_FILE_BYTES)?,
                &self.state,
            ),
        }
    }

    /// Removes half-written files of a killed writer.
    pub(super) fn clean_up(&self) -> io::Result<()> {
        remove_temporaries(&self.state)?;
        remove_temporaries(&self.path(BACKUP_DOCUMENT))?;
        for folder in [JOURNAL_FOLDER, VERSIONS_FOLDER] {
            for (name, _) in self.list(folder)? {
                if name.ends_with(".tmp") {
                    remove_if_there(&self.path(folder).join(name))?;
                }
            }
        }
        Ok(())
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
