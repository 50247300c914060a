//! Calls as far as they are on this machine: files in one directory, into which the CPI's process writes.
//!
//! The answer file is locked (flock) through the descriptor the process inherits as its standard output: as long as the
//! process lives, the lock is held, whoever started it and whatever its pid. It is made under the name `….prepared`, and
//! the new process itself gives it the name `….answer` in its last act before it becomes the CPI. So a call without an
//! answer file was certainly never made, even when the run was killed while it started the process.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::storage::JOURNAL;
use crate::protocol::RequestId;
use base::files::durable::{
    create_private, give_directory_to_owner_of, give_file_to_owner_of, sync_directory,
};

/// What a call is announced by.
pub(super) const INTENT: &str = "intent";
/// The answer to a call, in the journal as well where answers are written apart from it.
pub(super) const ANSWER: &str = "answer";
/// Says in the journal that a call was never made.
pub(super) const UNASKED: &str = "unasked";
/// Where answers are written apart from the journal: this machine is where the call was to be made.
const ANNOUNCED: &str = "announced";
const PREPARED: &str = "prepared";
const LOG: &str = "log";

/// The document of the journal that says this about a call.
pub(super) fn document(request_id: &RequestId, kind: &str) -> String {
    format!("{JOURNAL}/{request_id}.{kind}")
}

/// The files of a call on this machine.
#[derive(Debug, Clone)]
pub(super) struct CallFiles {
    directory: PathBuf,
    request_id: RequestId,
}

/// What is known of a call's process.
#[derive(Debug)]
pub(super) enum Progress {
    /// The process was never started.
    NeverAsked,
    /// The process still runs.
    Pending,
    /// The process has ended; this is what it wrote, in full or not.
    Ended(Vec<u8>),
}

/// A call whose files are held open: what its process writes is read although somebody removes them meanwhile, as with
/// the home directory of a CI job.
#[derive(Debug)]
pub(super) struct Watched {
    files: CallFiles,
    file: Option<File>,
}

/// The calls that were announced on this machine and apart from the journal.
pub(super) fn announced(directory: &Path) -> Vec<CallFiles> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let marks = entries.map(|entry| entry.path()).filter(|path| is(path, ANNOUNCED));
    let ids = marks.filter_map(|path| path.file_stem()?.to_str()?.parse().ok());
    ids.map(|request_id| CallFiles { directory: directory.to_owned(), request_id }).collect()
}

/// Removes the files of calls that are not open, and the directory if it is empty then.
pub(super) fn sweep(directory: &Path, is_open: &dyn Fn(&str) -> bool) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        if !path.file_stem().and_then(|stem| stem.to_str()).is_some_and(is_open) {
            fs::remove_file(&path)?;
        }
    }
    let _ = fs::remove_dir(directory);
    Ok(())
}

pub(super) fn is(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|extension| extension == kind)
}

impl CallFiles {
    pub(super) fn new(directory: &Path, request_id: &RequestId) -> Self {
        CallFiles { directory: directory.to_owned(), request_id: request_id.clone() }
    }

    pub(super) fn request_id(&self) -> &RequestId {
        &self.request_id
    }

    /// Leaves word that the call is to be made from here, before it is announced to all. The directory belongs to the
    /// owner of `state` if it is beside it.
    pub(super) fn announce(&self, state: Option<&Path>) -> io::Result<()> {
        DirBuilder::new().mode(0o700).recursive(true).create(&self.directory)?;
        if let Some(state) = state {
            give_directory_to_owner_of(&self.directory, state)?;
        }
        let announced = create_private(&self.file(ANNOUNCED))?;
        give_file_to_owner_of(&announced, &self.directory)
    }

    /// Whether anything on this machine tells of the call.
    pub(super) fn is_known(&self) -> bool {
        [ANNOUNCED, PREPARED, ANSWER].iter().any(|kind| self.file(kind).exists())
    }

    /// Creates the file the CPI writes its answer into, locked, with room for an answer of usual size.
    pub(super) fn answer_file(&self) -> io::Result<File> {
        let file = create_private(&self.prepared_path())?;
        give_file_to_owner_of(&file, &self.directory)?;
        file.lock()?;
        reserve(&file)?;
        sync_directory(&self.directory)?;
        Ok(file)
    }

    pub(super) fn prepared_path(&self) -> PathBuf {
        self.file(PREPARED)
    }

    pub(super) fn answer_path(&self) -> PathBuf {
        self.file(ANSWER)
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.file(LOG)
    }

    /// What became of the process.
    pub(super) fn progress(&self) -> io::Result<Progress> {
        // In this order, because the file changes its name in one direction only.
        if let Some(prepared) = open_if_there(&self.prepared_path())?
            && is_held(&prepared)?
        {
            // A process was forked and is about to become the CPI.
            return Ok(Progress::Pending);
        }
        let Some(file) = open_if_there(&self.answer_path())? else { return Ok(Progress::NeverAsked) };
        if is_held(&file)? {
            return Ok(Progress::Pending);
        }
        written(&file).map(Progress::Ended)
    }

    /// Holds what there is of it; for whoever knows that the run that announced it is no more.
    pub(super) fn watch(self) -> io::Result<Watched> {
        // In this order, because the file changes its name in one direction only.
        let file = match open_if_there(&self.prepared_path())? {
            Some(prepared) => Some(prepared),
            None => open_if_there(&self.answer_path())?,
        };
        Ok(Watched { files: self, file })
    }

    /// What is written so far, of a process that may still run.
    pub(super) fn answer_so_far(&self) -> io::Result<Vec<u8>> {
        match open_if_there(&self.answer_path())? {
            Some(file) => written(&file),
            None => Ok(Vec::new()),
        }
    }

    /// The journal says what became of it, so that nothing is left to be told. What the process wrote stays, for whoever
    /// looks into it here.
    pub(super) fn is_published(&self) {
        let _ = fs::remove_file(self.file(ANNOUNCED));
    }

    /// Removes what the process wrote.
    pub(super) fn forget(&self) {
        for kind in [PREPARED, ANSWER, LOG, ANNOUNCED] {
            let _ = fs::remove_file(self.file(kind));
        }
        // Succeeds when this was the last open call.
        let _ = fs::remove_dir(&self.directory);
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.directory.join(format!("{}.{kind}", self.request_id))
    }
}

impl Watched {
    pub(super) fn files(&self) -> &CallFiles {
        &self.files
    }

    /// What is known of its process; none where its files were removed before they told.
    pub(super) fn progress(&self) -> io::Result<Option<Progress>> {
        let Some(file) = &self.file else {
            return Ok(self.files.file(ANNOUNCED).exists().then_some(Progress::NeverAsked));
        };
        if is_held(file)? {
            return Ok(Some(Progress::Pending));
        }
        let bytes = self.answer_so_far()?;
        if !bytes.is_empty() || self.files.answer_path().exists() {
            return Ok(Some(Progress::Ended(bytes)));
        }
        let never_asked = file.metadata()?.nlink() > 0 && self.files.prepared_path().exists();
        Ok(never_asked.then_some(Progress::NeverAsked))
    }

    /// What is written so far, of a process that may still run.
    pub(super) fn answer_so_far(&self) -> io::Result<Vec<u8>> {
        self.file.as_ref().map_or(Ok(Vec::new()), written)
    }
}

fn written(mut file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(crate::cpi::ANSWER_LIMIT + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_held(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Keeps blocks for an answer, so that a disk that fills up while the CPI works does not cost its answer. A file
/// system that cannot do so is no obstacle; one that is full is one now and not later.
#[cfg(target_os = "linux")]
fn reserve(file: &File) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};

    const ROOM: u64 = 64 * 1024;
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, ROOM) {
        Err(error @ (rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT)) => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File) -> io::Result<()> {
    Ok(())
}
