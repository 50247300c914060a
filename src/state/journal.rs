//! Calls that change the world are announced here before they are made and settled after their outcome is in
//! the state, so that a run killed in between is finished by the next one.
//!
//! Each open call is an intent file plus the file its CPI process writes the answer into. The answer file is
//! locked (flock) through the descriptor the process inherits as its standard output: as long as the process
//! lives, the lock is held, whoever started it and whatever its pid.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::durable::{create_private, remove_durably, sync_directory, sync_parent, write_atomically};
use crate::{Error, Result};

/// What a call is about to do. `E` is the caller's description of the effect, enough to record its outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Intent<E> {
    /// The request id sent to the CPI.
    pub request_id: String,
    /// The CPI method.
    pub method: String,
    /// Why it is called, for a person.
    pub why: String,
    /// What it will have done.
    pub effect: E,
}

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
    pub(super) fn at(state: &Path) -> Self {
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
            if !path.with_extension("intent").exists() {
                fs::remove_file(&path)?;
            }
        }
        // Succeeds when no call is open.
        let _ = fs::remove_dir(&self.directory);
        Ok(())
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
                Error::invalid(format!("'{}' is not a valid intent", path.display())).with_source(error)
            })?;
            let call = OpenCall { directory: self.directory.clone(), request_id: intent.request_id.clone() };
            calls.push((modified, intent, call));
        }
        calls.sort_by_key(|(modified, ..)| *modified);
        Ok(calls.into_iter().map(|(_, intent, call)| (intent, call)).collect())
    }

    /// Removes the journal, which must have no open calls worth keeping.
    pub(super) fn remove(&self) -> Result<()> {
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
    /// Creates the file the CPI writes its answer into, locked. Give the file itself to the process as standard
    /// output, so that the lock lives as long as the process does.
    pub fn answer_file(&self) -> io::Result<File> {
        let path = self.file("answer");
        let file = create_private(&path)?;
        file.lock()?;
        sync_directory(&self.directory)?;
        Ok(file)
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
        let path = self.answer_path();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Answer::NeverAsked),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => fs::read(&path).map(Answer::Ended),
            Err(TryLockError::WouldBlock) => Ok(Answer::Pending),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The call's outcome is in the state: forget it.
    pub fn settle(self) -> Result<()> {
        remove_durably(&self.file("intent"))
            .map_err(|error| Error::io(format!("settling call {}", self.request_id), error))?;
        for kind in ["answer", "log"] {
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
