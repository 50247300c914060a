//! The files of CPI calls on this machine: one directory, into which the CPI processes write.
//!
//! The answer file is locked (flock) through the descriptor that the CPI process inherits as its standard
//! output, so the lock is held as long as the process lives. The file is created under the name `….prepared`.
//! Just before the new process becomes the CPI, it renames the file to `….answer`. So a call without an
//! answer file was certainly never made, even if the run was killed while it started the process.
//!
//! `….log` has the log of the process, and `….end` the ending of one that gave no usable answer.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::call_rules::{self, Evidence, FileState};
use super::storage::JOURNAL_FOLDER;
use crate::protocol::RequestId;
use base::files::durable::{
    create_private_directory, create_private_file, give_directory_to_owner_of, give_file_to_owner_of,
    sync_directory,
};
use base::files::is_same_file;

/// The kind of document that announces a call.
pub(super) const INTENT_KIND: &str = "intent";
/// The kind of file with the answer to a call. It is also a document of the journal if CPI processes write
/// elsewhere.
pub(super) const ANSWER_KIND: &str = "answer";
/// The kind of document that states that a call was never made.
pub(super) const NEVER_STARTED_KIND: &str = "unasked";
/// The mark of a call that this machine is to make. It exists only if answers are written outside the
/// journal.
const MARK_KIND: &str = "announced";
/// The kind of the answer file until the process becomes the CPI.
const PREPARED_KIND: &str = "prepared";
/// The kind of file with the log of the CPI process.
const LOG_KIND: &str = "log";
/// The kind of file with the ending of a CPI process that gave no usable answer.
const END_KIND: &str = "end";

/// Returns the name of the journal document of this kind about a call.
pub(super) fn document_name(request_id: &RequestId, kind: &str) -> String {
    format!("{JOURNAL_FOLDER}/{request_id}.{kind}")
}

/// The files of a call on this machine.
#[derive(Debug, Clone)]
pub(super) struct CallFiles {
    directory: PathBuf,
    request_id: RequestId,
}

/// The progress of a call's process, by the files on this machine, with its output.
#[derive(Debug)]
pub(super) enum LocalProgress {
    /// The process was never started.
    NeverStarted,
    /// The process is about to start, or runs.
    Running,
    /// The process has ended. Holds its output, which may be incomplete.
    Ended(Vec<u8>),
}

/// A call with its file held open, so that the answer can be read even if the file is removed meanwhile, for
/// example with the home directory of a CI job.
#[derive(Debug)]
pub(super) struct WatchedCall {
    files: CallFiles,
    /// The file for the answer, under either name; `None` if it was removed before it was opened.
    file: Option<File>,
}

/// Returns the calls with the mark of this machine. There are none if answers are written in the journal.
pub(super) fn find_marked_calls(directory: &Path) -> Vec<CallFiles> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let marks = entries.map(|entry| entry.path()).filter(|path| has_kind(path, MARK_KIND));
    let ids = marks.filter_map(|path| path.file_stem()?.to_str()?.parse().ok());
    ids.map(|request_id| CallFiles { directory: directory.to_owned(), request_id }).collect()
}

/// Removes the files of calls that are not open, and the directory if it is empty.
pub(super) fn clean_up(directory: &Path, is_open: &dyn Fn(&str) -> bool) -> io::Result<()> {
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

pub(super) fn has_kind(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|extension| extension == kind)
}

impl CallFiles {
    pub(super) fn new(directory: &Path, request_id: &RequestId) -> Self {
        CallFiles { directory: directory.to_owned(), request_id: request_id.clone() }
    }

    pub(super) fn request_id(&self) -> &RequestId {
        &self.request_id
    }

    /// Records that this machine is to make the call. The caller does this before it announces the call in
    /// the journal.
    ///
    /// If the directory is beside `state`, it gets the owner of `state`.
    pub(super) fn mark(&self, state: Option<&Path>) -> io::Result<()> {
        create_private_directory(&self.directory)?;
        if let Some(state) = state {
            give_directory_to_owner_of(&self.directory, state)?;
        }
        let mark = create_private_file(&self.file(MARK_KIND))?;
        give_file_to_owner_of(&mark, &self.directory)
    }

    /// Returns true if this machine has a file of the call.
    pub(super) fn is_known(&self) -> bool {
        [MARK_KIND, PREPARED_KIND, ANSWER_KIND].iter().any(|kind| self.file(kind).exists())
    }

    /// Creates the file for the CPI's answer, locked, with space reserved for an answer of usual size.
    pub(super) fn create_answer_file(&self) -> io::Result<File> {
        let file = create_private_file(&self.prepared_path())?;
        give_file_to_owner_of(&file, &self.directory)?;
        file.lock()?;
        reserve(&file)?;
        sync_directory(&self.directory)?;
        Ok(file)
    }

    /// Returns the path of the answer file until the process becomes the CPI.
    pub(super) fn prepared_path(&self) -> PathBuf {
        self.file(PREPARED_KIND)
    }

    /// Returns the path of the answer file once the process is the CPI.
    pub(super) fn answer_path(&self) -> PathBuf {
        self.file(ANSWER_KIND)
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.file(LOG_KIND)
    }

    pub(super) fn end_path(&self) -> PathBuf {
        self.file(END_KIND)
    }

    /// Returns the progress of the process.
    pub(super) fn read_progress(&self) -> io::Result<LocalProgress> {
        // Checked in this order, because the file is only ever renamed from the first name to the second.
        let prepared_file = probe_file(open_if_exists(&self.prepared_path())?.as_ref())?;
        let file = open_if_exists(&self.answer_path())?;
        let answer_file = probe_file(file.as_ref())?;
        Ok(match call_rules::progress(Evidence::Files { prepared_file, answer_file }) {
            call_rules::EvidentProgress::Running => LocalProgress::Running,
            call_rules::EvidentProgress::Ended => {
                LocalProgress::Ended(file.as_ref().map(read_output).transpose()?.unwrap_or_default())
            }
            // Evidence from files never gives `OnOtherMachine`; the compiler asks for it.
            call_rules::EvidentProgress::NeverStarted | call_rules::EvidentProgress::OnOtherMachine => {
                LocalProgress::NeverStarted
            }
        })
    }

    /// Opens the file of the call. Call it only after the run that announced the call has ended.
    pub(super) fn watch(self) -> io::Result<WatchedCall> {
        // Checked in this order, because the file is only ever renamed from the first name to the second.
        let file = match open_if_exists(&self.prepared_path())? {
            Some(file) => Some(file),
            None => open_if_exists(&self.answer_path())?,
        };
        Ok(WatchedCall { files: self, file })
    }

    /// Returns the output so far. The process may still run.
    pub(super) fn read_answer_so_far(&self) -> io::Result<Vec<u8>> {
        match open_if_exists(&self.answer_path())? {
            Some(file) => read_output(&file),
            None => Ok(Vec::new()),
        }
    }

    /// Removes the mark of an announced call whose outcome is in the journal. The output stays for the
    /// operator to read.
    pub(super) fn remove_mark(&self) {
        let _ = fs::remove_file(self.file(MARK_KIND));
    }

    pub(super) fn remove(&self) {
        for kind in [PREPARED_KIND, ANSWER_KIND, LOG_KIND, END_KIND, MARK_KIND] {
            let _ = fs::remove_file(self.file(kind));
        }
        // Succeeds only after the last open call.
        let _ = fs::remove_dir(&self.directory);
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.directory.join(format!("{}.{kind}", self.request_id))
    }
}

impl WatchedCall {
    pub(super) fn files(&self) -> &CallFiles {
        &self.files
    }

    /// Returns the progress of the process, or `None` if its files were removed too early to know.
    pub(super) fn read_progress(&self) -> io::Result<Option<LocalProgress>> {
        let Some(file) = &self.file else {
            return Ok(self.files.file(MARK_KIND).exists().then_some(LocalProgress::NeverStarted));
        };
        if is_held(file)? {
            return Ok(Some(LocalProgress::Running));
        }
        let bytes = self.read_answer_so_far()?;
        if !bytes.is_empty() || self.files.answer_path().exists() {
            return Ok(Some(LocalProgress::Ended(bytes)));
        }
        let was_never_started = file.metadata()?.nlink() > 0 && self.files.prepared_path().exists();
        Ok(was_never_started.then_some(LocalProgress::NeverStarted))
    }

    /// Returns the output so far. The process may still run.
    pub(super) fn read_answer_so_far(&self) -> io::Result<Vec<u8>> {
        self.file.as_ref().map_or(Ok(Vec::new()), read_output)
    }
}

fn read_output(mut file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(crate::cpi::MAX_ANSWER_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the ids of the processes that have this file open, in order. Empty if the system does not show
/// them.
pub(super) fn find_processes_with_open_file(path: &Path) -> Vec<u32> {
    let Ok(target) = path.metadata() else { return Vec::new() };
    let is_target = |file: fs::DirEntry| {
        fs::metadata(file.path()).is_ok_and(|open_file| is_same_file(&open_file, &target))
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| *pid != std::process::id())
        .filter(|pid| {
            let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            files.into_iter().any(is_target)
        })
        .collect();
    pids.sort_unstable();
    pids
}

fn open_if_exists(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn probe_file(file: Option<&File>) -> io::Result<FileState> {
    Ok(match file {
        None => FileState::Missing,
        Some(file) if is_held(file)? => FileState::Held,
        Some(_) => FileState::Free,
    })
}

fn is_held(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Reserves disk space for an answer, so that it is not lost if the disk fills up while the CPI works. Fails
/// if the disk is full, but not if the file system cannot reserve space.
#[cfg(target_os = "linux")]
fn reserve(file: &File) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};

    const ANSWER_ROOM_BYTES: u64 = 64 * 1024;
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, ANSWER_ROOM_BYTES) {
        Err(error @ (rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT)) => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File) -> io::Result<()> {
    Ok(())
}
