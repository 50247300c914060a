//! The journal: CPI calls that change something on record are announced here before they are made, and
//! settled after their outcome is in the state. So the next run can finish what a killed run began.
//!
//! Each open call is an intent, which is a document beside the state, and the files that its CPI process
//! writes on this machine: see [`calls`](super::calls). If several machines share the state, these files are
//! outside the journal, and a process that outlives a killed run copies the answer into the journal.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::call_rules::{self, Evidence, PublishedDocument};
use super::calls::{self, ANSWER_KIND, CallFiles, INTENT_KIND, LocalProgress, NEVER_STARTED_KIND};
use super::lock::Holder;
use super::storage::{Document, JOURNAL_FOLDER, Storage};
use crate::protocol::{RegistryEndpoint, RequestId, Terms};
use base::redact::Redactor;
use base::text::json_problem;
use base::{Error, Result};

/// The announcement of a call. `E` describes its effect, in enough detail to record the outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Intent<E> {
    /// The request id sent to the CPI.
    pub request_id: RequestId,
    /// The CPI method.
    pub method: String,
    /// The terms by which its answer is read.
    pub terms: Terms,
    /// The name of the CPI that is called; `None` for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// The reason for the call, as text for the operator.
    #[serde(alias = "why")]
    pub reason: String,
    /// The effect of the call.
    pub effect: E,
    /// The registry that the CPI may use during the call. It ends with the run, so the next run starts it
    /// again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistryEndpoint>,
    /// The holder of the lock that announced it, if known.
    // `Announcement` writes it, so that the journal decides which holder announces.
    #[serde(default, skip_serializing, alias = "by")]
    pub holder: Option<Holder>,
}

/// An intent as it is written.
#[derive(Serialize)]
struct Announcement<'a, E> {
    #[serde(flatten)]
    intent: &'a Intent<E>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<&'a Holder>,
}

/// The document with the content of the registry of contract v1. It is a part of the journal because it must
/// outlive a killed run.
const REGISTRY_DOCUMENT: &str = "registry.json";

/// The journal of one state.
#[derive(Debug, Clone)]
pub struct Journal {
    storage: Storage,
    /// The holder of the lock, which announces calls.
    holder: Option<Holder>,
}

/// A call and its files, from shortly before its announcement until it is settled.
#[derive(Debug)]
pub struct OpenCall {
    storage: Storage,
    files: CallFiles,
    /// True if an earlier run announced the call. A process of that run may have put the answer into the
    /// journal.
    is_inherited: bool,
}

/// The progress of an open call's process, by the files on this machine or, if another machine was to make
/// the call, by the journal.
#[derive(Debug)]
pub enum CallProgress {
    /// The process was never started.
    NeverStarted,
    /// The process is about to start, or runs.
    Running,
    /// The process has ended. Holds its output, which may be incomplete.
    Ended(Vec<u8>),
    /// Another machine was to make the call, and its progress is unknown here.
    OnOtherMachine,
}

impl Journal {
    /// Returns the journal of the state in this storage.
    pub fn of(storage: &Storage) -> Self {
        Journal { storage: storage.clone(), holder: None }
    }

    /// Returns the journal for the holder of the lock, which is named in its intents.
    pub(super) fn held_by(storage: &Storage, holder: &Holder) -> Self {
        Journal { storage: storage.clone(), holder: Some(holder.clone()) }
    }

    /// Creates the open call for a request that is not announced yet.
    pub fn new_call(&self, request_id: &RequestId) -> OpenCall {
        self.open(request_id, false)
    }

    /// Announces a call. The announcement is durable when this returns.
    pub fn announce<E: Serialize>(&self, open_call: &OpenCall, intent: &Intent<E>) -> Result<()> {
        let announce_error = |error| {
            let (journal, method) = (self.storage.path_or_url_of(JOURNAL_FOLDER), &intent.method);
            Error::io(format!("recording the next CPI call in '{journal}'"), error)
                .with_note(format!("this call of `{method}` was not made"))
        };
        let announcement = Announcement { intent, holder: self.holder.as_ref() };
        let text = serde_json::to_vec_pretty(&announcement)
            .map_err(|error| Error::failure("encoding an intent failed").with_source(error))?;
        self.storage.verify_server_locks()?;
        if self.storage.answers_outside_journal() {
            open_call.files.mark(self.storage.state_beside_calls()).map_err(announce_error)?;
        }
        self.storage
            .write(&calls::document_name(&intent.request_id, INTENT_KIND), &text)
            .map_err(|error| self.storage.with_path_hint(announce_error(error)).with_retry_hint())
    }

    fn open(&self, request_id: &RequestId, is_inherited: bool) -> OpenCall {
        let files = CallFiles::new(self.storage.calls_directory(), request_id);
        OpenCall { storage: self.storage.clone(), files, is_inherited }
    }

    /// Returns the document with the content of the VM's registry. It may not exist.
    pub fn registry_document(&self) -> Document {
        self.storage.document(&format!("{JOURNAL_FOLDER}/{REGISTRY_DOCUMENT}"))
    }

    /// Removes the content of the registry. The caller ensures that no VM can ask for the content.
    pub(super) fn remove_registry(&self) -> io::Result<()> {
        if self.list_names()?.iter().any(|name| name == REGISTRY_DOCUMENT) {
            self.registry_document().remove()?;
            // Succeeds only if the folder is empty.
            self.storage.remove_if_empty(JOURNAL_FOLDER);
        }
        Ok(())
    }

    fn list_names(&self) -> io::Result<Vec<String>> {
        Ok(self.storage.list(JOURNAL_FOLDER)?.into_iter().map(|(name, _)| name).collect())
    }

    /// Removes files that belong to no open call, such as the rest of a killed write or an answer to a
    /// settled call. Then removes the journal if it is empty. Returns true if no call is open.
    pub(super) fn clean_up(&self) -> io::Result<bool> {
        let names = self.list_names()?;
        let id_of = |name: &str, kind: &str| Some(name.strip_suffix(kind)?.strip_suffix('.')?.to_owned());
        let open_ids: BTreeSet<String> = names.iter().filter_map(|name| id_of(name, INTENT_KIND)).collect();
        let is_open = |id: &str| open_ids.contains(id);
        for name in &names {
            let id = Path::new(name).file_stem().and_then(|stem| stem.to_str());
            if name != REGISTRY_DOCUMENT && !id.is_some_and(is_open) {
                self.storage.remove(&format!("{JOURNAL_FOLDER}/{name}"))?;
            }
        }
        // Succeeds only if the folder is empty.
        self.storage.remove_if_empty(JOURNAL_FOLDER);
        if self.storage.answers_outside_journal() {
            calls::clean_up(self.storage.calls_directory(), &is_open)?;
        }
        Ok(open_ids.is_empty())
    }

    /// Returns the calls of earlier runs that were never settled, oldest first.
    pub fn read_open_calls<E: DeserializeOwned>(&self) -> Result<Vec<(Intent<E>, OpenCall)>> {
        let read_error = |error| {
            Error::io(format!("reading the journal '{}'", self.storage.path_or_url_of(JOURNAL_FOLDER)), error)
        };
        let mut calls = Vec::new();
        for (name, written_at) in self.storage.list(JOURNAL_FOLDER).map_err(read_error)? {
            if !calls::has_kind(Path::new(&name), INTENT_KIND) {
                continue;
            }
            let document = format!("{JOURNAL_FOLDER}/{name}");
            // `None` if another run has just settled the call: this reader may have no lock.
            let Some(read_document) = self.storage.read(&document).map_err(read_error)? else { continue };
            let intent: Intent<E> = serde_json::from_slice(&read_document.bytes).map_err(|error| {
                Error::invalid(format!(
                    "'{}' is not a valid record of a CPI call",
                    self.storage.path_or_url_of(&document)
                ))
                .with_source(json_problem(&error))
                .with_note("the call may have created something")
                .with_hint("use the version of monopile that wrote the record")
                .with_hint("or look in the IaaS for the resource that it describes, then remove the file")
            })?;
            let call = self.open(&intent.request_id, true);
            calls.push((written_at, intent, call));
        }
        calls.sort_by_key(|(written_at, ..)| *written_at);
        Ok(calls.into_iter().map(|(_, intent, call)| (intent, call)).collect())
    }

    /// Removes the journal. Fails if there are open calls, because they are the only record of what those
    /// calls may have created.
    pub(super) fn remove(&self) -> Result<()> {
        if !self.read_open_calls::<serde_json::Value>()?.is_empty() {
            return Err(Error::failure(format!(
                "the journal '{}' still has open calls, so the state is kept",
                self.storage.path_or_url_of(JOURNAL_FOLDER)
            )));
        }
        self.storage.remove_folder(JOURNAL_FOLDER).map_err(|error| {
            Error::io(
                format!("removing the journal '{}'", self.storage.path_or_url_of(JOURNAL_FOLDER)),
                error,
            )
        })
    }
}

impl OpenCall {
    /// Creates the file for the CPI's answer, locked, with space reserved for an answer of usual size.
    ///
    /// The caller must give this very file to the process as standard output, so that the lock lives as long
    /// as the process. The process must rename it from [`OpenCall::prepared_path`] to
    /// [`OpenCall::answer_path`].
    pub fn create_answer_file(&self) -> io::Result<File> {
        self.files.create_answer_file()
    }

    /// Returns the path of the answer file until the process runs.
    pub fn prepared_path(&self) -> PathBuf {
        self.files.prepared_path()
    }

    /// Returns the path of the answer file of this machine, under its final name.
    pub fn answer_path(&self) -> PathBuf {
        self.files.answer_path()
    }

    /// Returns the path of the CPI's log.
    pub fn log_path(&self) -> PathBuf {
        self.files.log_path()
    }

    /// Returns the path of the file that says how the CPI's process ended.
    pub fn end_path(&self) -> PathBuf {
        self.files.end_path()
    }

    /// Returns the ids of the processes of this machine that hold the answer open: the CPI and its children.
    pub fn find_processes(&self) -> Vec<u32> {
        calls::find_processes_with_open_file(&self.answer_path())
    }

    /// Returns the progress of the process, as far as this machine or the journal shows it.
    pub fn read_progress(&self) -> io::Result<CallProgress> {
        if self.storage.answers_outside_journal() && !self.files.is_known() {
            return self.read_progress_on_other_machine();
        }
        Ok(match self.files.read_progress()? {
            LocalProgress::NeverStarted => CallProgress::NeverStarted,
            LocalProgress::Running => CallProgress::Running,
            LocalProgress::Ended(bytes) => CallProgress::Ended(bytes),
        })
    }

    /// Reads from the journal what another machine recorded about the call.
    fn read_progress_on_other_machine(&self) -> io::Result<CallProgress> {
        let answer = self.storage.read(&self.document_name(ANSWER_KIND))?;
        let published_document = match &answer {
            Some(_) => Some(PublishedDocument::Answer),
            None => self
                .storage
                .read(&self.document_name(NEVER_STARTED_KIND))?
                .map(|_| PublishedDocument::NeverStarted),
        };
        Ok(match call_rules::progress(Evidence::Journal(published_document)) {
            call_rules::EvidentProgress::NeverStarted => CallProgress::NeverStarted,
            call_rules::EvidentProgress::Running => CallProgress::Running,
            call_rules::EvidentProgress::Ended => {
                CallProgress::Ended(answer.map_or_else(Vec::new, |document| document.bytes))
            }
            call_rules::EvidentProgress::OnOtherMachine => CallProgress::OnOtherMachine,
        })
    }

    fn document_name(&self, kind: &str) -> String {
        calls::document_name(self.files.request_id(), kind)
    }

    /// Returns the output so far. The process may still run.
    pub fn read_answer_so_far(&self) -> io::Result<Vec<u8>> {
        self.files.read_answer_so_far()
    }

    /// Removes secrets from the answer and the log of an ended process when the call stays open for the
    /// operator to examine. The rest of the answer stays, because the next run reads it again.
    pub fn redact(&self, redactor: &Redactor) {
        let answer: &dyn Fn(&str) -> String = &|text| redactor.redact(text).into_owned();
        let log: &dyn Fn(&str) -> String = &|text| redactor.clean_and_redact(text);
        for (path, redact) in [(self.answer_path(), answer), (self.log_path(), log)] {
            if let Err(error) = base::files::durable::rewrite(&path, redact) {
                tracing::warn!(path = %path.display(), %error, "removing secrets from this file failed");
            }
        }
    }

    /// Removes the intent and the files of the call. The outcome must be in the state.
    pub fn settle(&self) -> Result<()> {
        let settle_error = |error| {
            Error::io(format!("removing the record of the finished call {}", self.files.request_id()), error)
        };
        // Another run that has the lock may be about to make the call.
        self.storage.check_lock()?;
        self.storage.remove(&self.document_name(INTENT_KIND)).map_err(settle_error)?;
        if self.is_inherited && self.storage.answers_outside_journal() {
            // An answer may hold secrets.
            for kind in [ANSWER_KIND, NEVER_STARTED_KIND] {
                self.storage.remove(&self.document_name(kind)).map_err(settle_error)?;
            }
        }
        self.files.remove();
        // Succeeds only after the last open call.
        self.storage.remove_if_empty(JOURNAL_FOLDER);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn call(directory: &Path) -> (Journal, OpenCall) {
        let journal = Journal::of(&Storage::from(directory.join("state.json").as_path()));
        let intent = Intent {
            request_id: "r".parse().unwrap(),
            method: "create_vm".into(),
            terms: Terms::new(2, None),
            cpi: None,
            reason: "test".into(),
            effect: serde_json::json!({}),
            registry: None,
            holder: None,
        };
        let call = journal.new_call(&intent.request_id);
        journal.announce(&call, &intent).unwrap();
        (journal, call)
    }

    /// Retries for a short time, because a process forked by another test briefly holds every open file.
    fn wait_until(condition: &str, is_met: impl Fn() -> bool) {
        let start = std::time::Instant::now();
        while !is_met() {
            assert!(start.elapsed() < std::time::Duration::from_secs(10), "{condition}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    #[test]
    fn call_counts_as_made_after_the_answer_file_rename() {
        let directory = tempfile::tempdir().unwrap();
        let (journal, call) = call(directory.path());
        assert!(
            matches!(call.read_progress().unwrap(), CallProgress::NeverStarted),
            "a call that was only announced counts as started"
        );
        let file = call.create_answer_file().unwrap();
        assert!(
            matches!(call.read_progress().unwrap(), CallProgress::Running),
            "a call that is about to start does not count as running"
        );
        drop(file);
        wait_until("killed before it started", || {
            matches!(call.read_progress().unwrap(), CallProgress::NeverStarted)
        });

        fs::rename(call.prepared_path(), call.answer_path()).unwrap();
        let answer_file = File::open(call.answer_path()).unwrap();
        answer_file.lock().unwrap();
        assert!(matches!(call.read_progress().unwrap(), CallProgress::Running));
        fs::write(call.answer_path(), "half").unwrap();
        assert_eq!(call.read_answer_so_far().unwrap(), b"half");
        drop(answer_file);
        let has_ended =
            || matches!(call.read_progress().unwrap(), CallProgress::Ended(bytes) if bytes == b"half");
        wait_until("it has ended", has_ended);

        assert_eq!(journal.read_open_calls::<serde_json::Value>().unwrap().len(), 1);
        call.settle().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "a settled call left files");
    }

    #[test]
    fn oversized_answers_are_not_read_whole() {
        let directory = tempfile::tempdir().unwrap();
        let (_, call) = call(directory.path());
        File::create(call.answer_path()).unwrap().set_len(1 << 40).unwrap();
        let CallProgress::Ended(bytes) = call.read_progress().unwrap() else { panic!("it has ended") };
        assert_eq!(bytes.len() as u64, crate::cpi::MAX_ANSWER_BYTES + 1);
    }

    #[test]
    fn unreadable_intent_is_reported_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let (journal, _) = call(directory.path());
        let error = journal.read_open_calls::<u8>().unwrap_err();
        assert!(error.to_string().contains("r.intent"), "{error}");
        assert!(!error.hints().is_empty());
        assert!(directory.path().join("state.json.journal/r.intent").exists());
    }
}
