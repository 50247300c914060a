//! Calls that change the world are announced here before they are made and settled after their outcome is in
//! the state, so that a run killed in between is finished by the next one.
//!
//! Each open call is an intent file plus the file its CPI process writes the answer into. The answer file is
//! locked (flock) through the descriptor the process inherits as its standard output: as long as the process
//! lives, the lock is held, whoever started it and whatever its pid.
//!
//! The answer file is made under the name `….prepared`, and the new process itself gives it the name `….answer`
//! in its last act before it becomes the CPI. So a call without an answer file was certainly never made, even
//! when the run was killed while it started the process.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::agent::registry::Entrance;
use crate::cpi::Terms;
use crate::durable::{create_private, remove_durably, sync_directory, sync_parent, write_atomically};
use crate::{Error, Result};

/// What a call is about to do. `E` is the caller's description of the effect, enough to record its outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Intent<E> {
    /// The request id sent to the CPI.
    pub request_id: String,
    /// The CPI method.
    pub method: String,
    /// What was in force: its answer is read by it.
    pub terms: Terms,
    /// The name of the CPI that is called; none for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// Why it is called, for a person.
    pub why: String,
    /// What it will have done.
    pub effect: E,
    /// The registry that the CPI may need while it is at work: it ends with the run, and the next one starts it
    /// again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<Entrance>,
}

/// What the registry of contract v1 holds, in the journal's directory: it must outlive a killed run as the calls do.
const REGISTRY: &str = "registry.json";

/// The journal of one state file.
#[derive(Debug, Clone)]
pub struct Journal {
    directory: PathBuf,
}

/// A call announced and not yet settled.
#[derive(Debug)]
pub struct OpenCall {
    directory: PathBuf,
    request_id: String,
}

/// What is known of an open call's process.
#[derive(Debug)]
pub enum Answer {
    /// The process was never started.
    NeverAsked,
    /// The process still runs.
    Pending,
    /// The process has ended; this is what it wrote, in full or not.
    Ended(Vec<u8>),
}

impl Journal {
    /// The journal of the state file at `state`.
    pub fn at(state: &Path) -> Self {
        let mut name = state.as_os_str().to_owned();
        name.push(".journal");
        Journal { directory: name.into() }
    }

    /// Announces a call; durable when this returns.
    pub fn begin<E: Serialize>(&self, intent: &Intent<E>) -> Result<OpenCall> {
        let failed = |error| Error::io(format!("announcing a call in '{}'", self.directory.display()), error);
        match fs::DirBuilder::new().mode(0o700).create(&self.directory) {
            Ok(()) => sync_parent(&self.directory).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        let call = OpenCall { directory: self.directory.clone(), request_id: intent.request_id.clone() };
        let text = serde_json::to_vec_pretty(intent)
            .map_err(|error| Error::environment("encoding an intent failed").with_source(error))?;
        write_atomically(&call.file("intent"), &text).map_err(failed)?;
        Ok(call)
    }

    /// The file of the registry that serves the VM. Neither it nor the directory need exist.
    pub fn registry_file(&self) -> PathBuf {
        self.directory.join(REGISTRY)
    }

    /// Removes what the registry holds: there is no VM that could ask for it.
    pub(super) fn forget_registry(&self) -> io::Result<()> {
        if !self.directory.exists() {
            return Ok(());
        }
        remove_durably(&self.registry_file())?;
        // Succeeds when no call is open.
        let _ = fs::remove_dir(&self.directory);
        Ok(())
    }

    /// Removes what belongs to no announced call: the rest of a write that was killed, the answer to a call that
    /// was settled. An empty journal goes with it.
    pub(super) fn sweep(&self) -> io::Result<()> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = entry?.path();
            if path != self.registry_file() && !path.with_extension("intent").exists() {
                fs::remove_file(&path)?;
            }
        }
        // Succeeds when no call is open.
        let _ = fs::remove_dir(&self.directory);
        Ok(())
    }

    /// Whether no call is open.
    pub(super) fn is_settled(&self) -> Result<bool> {
        let failed = |error| Error::io(format!("reading the journal '{}'", self.directory.display()), error);
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            if entry.map_err(failed)?.path().extension().is_some_and(|extension| extension == "intent") {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The calls of earlier runs that were never settled, oldest first.
    pub fn open_calls<E: DeserializeOwned>(&self) -> Result<Vec<(Intent<E>, OpenCall)>> {
        let failed = |error| Error::io(format!("reading the journal '{}'", self.directory.display()), error);
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut calls = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_none_or(|extension| extension != "intent") {
                continue;
            }
            let bytes = fs::read(&path).map_err(failed)?;
            let modified = fs::metadata(&path).and_then(|metadata| metadata.modified()).map_err(failed)?;
            let intent: Intent<E> = serde_json::from_slice(&bytes).map_err(|error| {
                Error::invalid(format!("'{}' is not a valid intent", path.display()))
                    .with_source(error)
                    .with_hint("it announces a CPI call that may have made something: use the version of monopile that wrote it")
                    .with_hint("or look in the IaaS for what it describes, and remove the file")
            })?;
            let call = OpenCall { directory: self.directory.clone(), request_id: intent.request_id.clone() };
            calls.push((modified, intent, call));
        }
        calls.sort_by_key(|(modified, ..)| *modified);
        Ok(calls.into_iter().map(|(_, intent, call)| (intent, call)).collect())
    }

    /// Removes the journal, which must have no open calls: they are all that is known of what they may have made.
    pub(super) fn remove(&self) -> Result<()> {
        if !self.open_calls::<serde_json::Value>()?.is_empty() {
            return Err(Error::environment(format!(
                "the journal '{}' still has open calls, so the state is kept",
                self.directory.display()
            )));
        }
        match fs::remove_dir_all(&self.directory) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => {
                Err(Error::io(format!("removing the journal '{}'", self.directory.display()), error))
            }
        }
    }
}

impl OpenCall {
    /// Creates the file the CPI writes its answer into, locked, with room for an answer of usual size. Give the
    /// file itself to the process as standard output, so that the lock lives as long as the process does, and
    /// have the process rename it from [`OpenCall::prepared_path`] to [`OpenCall::answer_path`].
    pub fn answer_file(&self) -> io::Result<File> {
        let file = create_private(&self.prepared_path())?;
        file.lock()?;
        reserve(&file)?;
        sync_directory(&self.directory)?;
        Ok(file)
    }

    /// The name of the answer file until a process runs.
    pub fn prepared_path(&self) -> PathBuf {
        self.file("prepared")
    }

    /// Where the answer is written.
    pub fn answer_path(&self) -> PathBuf {
        self.file("answer")
    }

    /// Where the CPI's log goes.
    pub fn log_path(&self) -> PathBuf {
        self.file("log")
    }

    /// What became of the process.
    pub fn answer(&self) -> io::Result<Answer> {
        // In this order, because the file changes its name in one direction only.
        if let Some(prepared) = open_if_there(&self.prepared_path())?
            && is_held(&prepared)?
        {
            // A process was forked and is about to become the CPI.
            return Ok(Answer::Pending);
        }
        let Some(file) = open_if_there(&self.answer_path())? else { return Ok(Answer::NeverAsked) };
        if is_held(&file)? {
            return Ok(Answer::Pending);
        }
        self.written(file).map(Answer::Ended)
    }

    /// What is written so far, of a process that may still run.
    pub fn answer_so_far(&self) -> io::Result<Vec<u8>> {
        match open_if_there(&self.answer_path())? {
            Some(file) => self.written(file),
            None => Ok(Vec::new()),
        }
    }

    fn written(&self, file: File) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        file.take(crate::cpi::ANSWER_LIMIT + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Takes secrets out of what a process that has ended wrote, where the call stays open for a person to look into.
    pub fn redact(&self, hide: &dyn Fn(&str) -> String) {
        for path in [self.answer_path(), self.log_path()] {
            if let Err(error) = crate::durable::rewrite(&path, hide) {
                tracing::warn!(path = %path.display(), %error, "it may hold secrets, and cannot be rewritten");
            }
        }
    }

    /// The call's outcome is in the state: forget it.
    pub fn settle(self) -> Result<()> {
        remove_durably(&self.file("intent"))
            .map_err(|error| Error::io(format!("settling call {}", self.request_id), error))?;
        for kind in ["prepared", "answer", "log"] {
            let _ = fs::remove_file(self.file(kind));
        }
        // Succeeds when this was the last open call.
        let _ = fs::remove_dir(&self.directory);
        Ok(())
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.directory.join(format!("{}.{kind}", self.request_id))
    }
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
        Ok(()) => Ok(false),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn call(directory: &Path) -> (Journal, OpenCall) {
        let journal = Journal::at(&directory.join("state.json"));
        let intent = Intent {
            request_id: "r".into(),
            method: "create_vm".into(),
            terms: Terms::new(2, None),
            cpi: None,
            why: "test".into(),
            effect: serde_json::json!({}),
            registry: None,
        };
        let call = journal.begin(&intent).unwrap();
        (journal, call)
    }

    /// A process that another test is about to start holds what was open when it was forked, for a moment.
    fn eventually(what: &str, holds: impl Fn() -> bool) {
        let begun = std::time::Instant::now();
        while !holds() {
            assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{what}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    #[test]
    fn a_call_is_made_only_once_its_process_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let (journal, call) = call(directory.path());
        assert!(matches!(call.answer().unwrap(), Answer::NeverAsked), "announced only");
        let file = call.answer_file().unwrap();
        assert!(matches!(call.answer().unwrap(), Answer::Pending), "somebody is about to start it");
        drop(file);
        eventually("killed before it started", || matches!(call.answer().unwrap(), Answer::NeverAsked));

        fs::rename(call.prepared_path(), call.answer_path()).unwrap();
        let running = File::open(call.answer_path()).unwrap();
        running.lock().unwrap();
        assert!(matches!(call.answer().unwrap(), Answer::Pending));
        fs::write(call.answer_path(), "half").unwrap();
        assert_eq!(call.answer_so_far().unwrap(), b"half");
        drop(running);
        let ended = || matches!(call.answer().unwrap(), Answer::Ended(bytes) if bytes == b"half");
        eventually("it has ended", ended);

        assert_eq!(journal.open_calls::<serde_json::Value>().unwrap().len(), 1);
        call.settle().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "a settled call leaves nothing");
    }

    #[test]
    fn an_endless_answer_is_not_read_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let (_, call) = call(directory.path());
        File::create(call.answer_path()).unwrap().set_len(1 << 40).unwrap();
        let Answer::Ended(bytes) = call.answer().unwrap() else { panic!("it has ended") };
        assert_eq!(bytes.len() as u64, crate::cpi::ANSWER_LIMIT + 1);
    }

    #[test]
    fn an_intent_that_cannot_be_read_is_named_and_not_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let (journal, _) = call(directory.path());
        let error = journal.open_calls::<u8>().unwrap_err();
        assert!(error.to_string().contains("r.intent"), "{error}");
        assert!(!error.hints().is_empty());
        assert!(directory.path().join("state.json.journal/r.intent").exists());
    }
}
