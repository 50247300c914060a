//! The storage of a state: a directory, or a bucket that several machines share.
//!
//! A storage holds documents. Their names begin with the name of the state, both in directories and in
//! buckets:
//!
//! | document | content |
//! |---|---|
//! | `` | the state |
//! | `.bak` | the version before the last write; in a directory only |
//! | `.versions/N.json` | an earlier version |
//! | `.journal/ID.intent` | the announcement of a call |
//! | `.journal/ID.answer` | the answer of a call, which the keeper copies into a bucket |
//! | `.journal/ID.unasked` | the keeper's note that a call was never made; in a bucket only |
//! | `.journal/ID.prepared` | the file for the answer, until its call begins; in a directory only |
//! | `.journal/ID.log` | the log of the CPI; in a directory only |
//! | `.journal/ID.end` | the ending of a CPI process that gave no usable answer; in a directory only |
//! | `.journal/registry.json` | the content of the registry of contract v1 |
//! | `.lock` | the holder of the lock |
//!
//! A CPI process always writes its answer and its log to files on this machine, in
//! [`Storage::calls_directory`]. If that directory is not the journal, it also has the mark `ID.announced` of
//! each call that this machine is to make.

mod address;
mod bucket;
mod bucket_client;
mod directory;
mod http;
mod keeper;
mod lease;
mod settings;
mod shared_bucket;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

pub use address::{BucketPrefix, BucketUrl};
pub use keeper::run_keeper;
pub(super) use lease::Lease;
pub use settings::{BUCKET_REQUEST_TIMEOUT, BUCKET_RETRY_TIMEOUT, BucketSettings};
pub use shared_bucket::{SHARED_CACHE_PART_TIMEOUT, SharedBucket};

use super::call_rules;
use super::lock::{self, FileLock, HeldLockFile, Holder, LockConflictHandler, StateLock};
use base::encryption::{Encryption, StoredForm};
use base::{Error, Result};
use bucket::BucketDocuments;
use bucket_client::BucketClient;
use directory::Directory;

/// The storage of one state: a directory or a bucket. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Storage(Arc<StorageData>);

/// The data that the clones of a storage share.
#[derive(Debug)]
struct StorageData {
    backend: Backend,
    /// The directory to which CPI processes write their answers.
    calls_directory: PathBuf,
    /// True if that directory is not the journal, so other machines cannot see the answers.
    answers_outside_journal: bool,
    encryption: Encryption,
    /// The lock file that this run holds, if the state is in a directory.
    lock_file: OnceLock<HeldLockFile>,
}

/// The kind of storage.
#[derive(Debug)]
enum Backend {
    Directory(Directory),
    Bucket(BucketDocuments),
}

/// A document as it was read.
#[derive(Debug)]
pub(super) struct ReadDocument {
    pub(super) bytes: Vec<u8>,
    pub(super) written_at: SystemTime,
    /// Its stored form: plain or encrypted.
    pub(super) stored_form: StoredForm,
}

/// One document that belongs to a state.
#[derive(Debug, Clone)]
pub struct Document {
    storage: Storage,
    name: String,
}

/// The document with the state itself.
pub(super) const STATE_DOCUMENT: &str = "";
pub(super) const JOURNAL_FOLDER: &str = ".journal";
/// The folder of earlier versions.
pub(super) const VERSIONS_FOLDER: &str = ".versions";
/// The document with the version before the last write.
pub(super) const BACKUP_DOCUMENT: &str = ".bak";
/// The document with the holder of the lock.
const LOCK_DOCUMENT: &str = ".lock";

/// The suffixes of the files and folders beside a state, with their descriptions.
pub const COMPANION_FILES: [(&str, &str); 4] = [
    (BACKUP_DOCUMENT, "The state before the last write"),
    (VERSIONS_FOLDER, "The states before each of the last 10 runs that changed it, a directory"),
    (JOURNAL_FOLDER, "The open CPI calls with their answers and logs, a directory"),
    (LOCK_DOCUMENT, "The lock, with the run that holds it"),
];

/// Returns the option that selects another state file, for a hint. Returns an empty text if the state exists,
/// because without its state an environment would be created again.
pub(super) fn other_state_option(state: &Path) -> &'static str {
    if state.exists() { "" } else { "--state FILE" }
}

/// Lists the URLs of the states below a prefix of a bucket, sorted. Returns at most `limit` of them.
pub fn list_states_below(settings: &BucketSettings, limit: usize) -> Result<Vec<String>> {
    let states = BucketClient::open(settings)?.list_states(limit);
    states.map_err(|error| Error::io(format!("finding the states below '{}'", settings.address), error))
}

impl From<&Path> for Storage {
    /// Creates the storage of a state file, with the other documents beside it.
    fn from(state: &Path) -> Self {
        Storage::in_directory(Directory::of(state))
    }
}

impl std::fmt::Display for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path_or_url_of(STATE_DOCUMENT))
    }
}

impl Storage {
    fn in_directory(directory: Directory) -> Self {
        let calls_directory = directory.path(JOURNAL_FOLDER);
        let (backend, lock_file) = (Backend::Directory(directory), OnceLock::new());
        Storage(Arc::new(StorageData {
            backend,
            calls_directory,
            answers_outside_journal: false,
            encryption: Encryption::default(),
            lock_file,
        }))
    }

    /// Returns the same storage with encrypted documents. CPI processes do not encrypt, so with encryption
    /// they write their answers to `calls_directory`. A bucket is returned unchanged: it gets its encryption
    /// in [`Storage::in_bucket`].
    #[must_use]
    pub fn with_encryption(self, encryption: Encryption, calls_directory: PathBuf) -> Self {
        match &self.0.backend {
            Backend::Directory(directory) => {
                let answers_outside_journal = encryption.encrypts();
                let calls_directory =
                    if answers_outside_journal { calls_directory } else { directory.path(JOURNAL_FOLDER) };
                let (backend, lock_file) = (Backend::Directory(directory.clone()), OnceLock::new());
                Storage(Arc::new(StorageData {
                    backend,
                    calls_directory,
                    answers_outside_journal,
                    encryption,
                    lock_file,
                }))
            }
            Backend::Bucket(_) => self,
        }
    }

    /// Opens the storage of a state in a bucket. CPI processes write their answers to `calls_directory`.
    pub fn in_bucket(
        settings: &BucketSettings,
        encryption: Encryption,
        calls_directory: PathBuf,
    ) -> Result<Self> {
        let (backend, lock_file) = (Backend::Bucket(BucketDocuments::open(settings)?), OnceLock::new());
        Ok(Storage(Arc::new(StorageData {
            backend,
            calls_directory,
            answers_outside_journal: true,
            encryption,
            lock_file,
        })))
    }

    /// Follows symbolic links to the state file. Two names for one file must mean one lock, and a write must
    /// not replace a link with a second state.
    pub fn resolve_links(&self) -> Result<Self> {
        match &self.0.backend {
            Backend::Bucket(_) => Ok(self.clone()),
            Backend::Directory(directory) => {
                let target = directory.resolve_links().map_err(|error| {
                    Error::io(format!("following the link '{}'", directory.state().display()), error)
                })?;
                Ok(Storage::in_directory(target)
                    .with_encryption(self.0.encryption.clone(), self.0.calls_directory.clone()))
            }
        }
    }

    /// Returns true if several machines may share the state. Every access is then a request.
    pub fn is_shared(&self) -> bool {
        matches!(self.0.backend, Backend::Bucket(_))
    }

    /// Adds the hint of [`Error::with_path_hint`]. A bucket has no owner on this machine.
    pub(super) fn with_path_hint(&self, error: Error) -> Error {
        match &self.0.backend {
            Backend::Directory(directory) => {
                let state = directory.state();
                error.with_path_hint(state, other_state_option(state))
            }
            Backend::Bucket(_) => error,
        }
    }

    /// Returns the path or URL of the state as a `PathBuf`, as run records store it.
    pub fn path_or_url(&self) -> PathBuf {
        match &self.0.backend {
            Backend::Directory(directory) => directory.state().to_owned(),
            Backend::Bucket(bucket) => bucket.url(STATE_DOCUMENT).into(),
        }
    }

    /// Returns the path or URL of a document.
    pub fn path_or_url_of(&self, document: &str) -> String {
        match &self.0.backend {
            Backend::Directory(directory) => directory.path(document).display().to_string(),
            Backend::Bucket(bucket) => bucket.url(document),
        }
    }

    /// Returns a document by its name.
    pub(super) fn document(&self, name: &str) -> Document {
        Document { storage: self.clone(), name: name.to_owned() }
    }

    /// Returns the directory to which CPI processes write their answers.
    pub(super) fn calls_directory(&self) -> &Path {
        &self.0.calls_directory
    }

    /// Returns the state file if CPI processes write their answers to a directory beside it.
    pub(super) fn state_beside_calls(&self) -> Option<&Path> {
        match &self.0.backend {
            Backend::Directory(directory) if !self.0.answers_outside_journal => Some(directory.state()),
            Backend::Directory(_) | Backend::Bucket(_) => None,
        }
    }

    /// Returns true if CPI processes write their answers outside the journal, where other machines cannot see
    /// them.
    pub(super) fn answers_outside_journal(&self) -> bool {
        self.0.answers_outside_journal
    }

    /// Returns true if the version before each write is kept in a separate document.
    pub(super) fn keeps_backup(&self) -> bool {
        matches!(self.0.backend, Backend::Directory(_))
    }

    /// Fails if this run would write documents that it cannot read again.
    pub(super) fn check_decrypts_own(&self) -> Result<()> {
        self.0.encryption.check_decrypts_own(&format!("the state '{self}'"))
    }

    /// Reads a document, if it exists.
    pub(super) fn read(&self, document: &str) -> io::Result<Option<ReadDocument>> {
        let Some(mut read_document) = self.read_as_it_is(document)? else { return Ok(None) };
        read_document.bytes = self.0.encryption.decrypt(read_document.bytes)?;
        Ok(Some(read_document))
    }

    /// Returns the stored form of the state, if it exists.
    pub(super) fn read_stored_form(&self) -> io::Result<Option<StoredForm>> {
        Ok(self.read_as_it_is(STATE_DOCUMENT)?.map(|read_document| read_document.stored_form))
    }

    fn read_as_it_is(&self, document: &str) -> io::Result<Option<ReadDocument>> {
        let document_read = match &self.0.backend {
            Backend::Directory(directory) => directory.read(document),
            Backend::Bucket(bucket) => bucket.read(document),
        }?;
        Ok(document_read.map(|(bytes, written_at)| ReadDocument {
            stored_form: self.0.encryption.stored_form(&bytes),
            bytes,
            written_at,
        }))
    }

    /// Encrypts all documents for the current recipients, if the state is plain or encrypted for others.
    /// `stored_form` is the stored form of the state, if it exists.
    ///
    /// Fails if the state is encrypted and this run has no recipients, or if it is plain and has open calls.
    /// Writes the state last, so that the next run continues the work of a killed one.
    pub(super) fn reencrypt(&self, stored_form: Option<StoredForm>) -> Result<()> {
        let encrypt_error = |error| Error::io(format!("encrypting '{self}'"), error);
        let encrypts = self.0.encryption.encrypts();
        let is_first_encryption = match stored_form {
            Some(StoredForm::OtherRecipients | StoredForm::CurrentRecipients) if !encrypts => {
                return Err(Error::usage(format!(
                    "the state '{self}' is encrypted, but this run has no recipients and would write it in \
                     plain text"
                ))
                .with_hint(
                    "name its recipients: `monopile SAME-COMMAND --encrypt-to RECIPIENT`, or \
                     MONOPILE_ENCRYPT_TO",
                ));
            }
            Some(StoredForm::Plain) if encrypts => true,
            Some(StoredForm::OtherRecipients) => false,
            Some(StoredForm::Plain | StoredForm::CurrentRecipients) | None => return Ok(()),
        };
        let mut documents = vec![BACKUP_DOCUMENT.to_owned()];
        for folder in [JOURNAL_FOLDER, VERSIONS_FOLDER] {
            for (name, _) in self.list(folder).map_err(encrypt_error)? {
                if is_first_encryption && folder == JOURNAL_FOLDER && name.ends_with(".intent") {
                    return Err(Error::usage(format!(
                        "an interrupted run must be completed before '{self}' can be encrypted"
                    ))
                    .with_hint("run the same command without --encrypt-to first"));
                }
                // Temporary files of a killed writer are removed later. So are plain answers to settled
                // calls.
                if name.ends_with(".json") || (!is_first_encryption && !name.ends_with(".tmp")) {
                    documents.push(format!("{folder}/{name}"));
                }
            }
        }
        documents.push(STATE_DOCUMENT.to_owned());
        for document in documents {
            let Some(read_document) = self.read_as_it_is(&document).map_err(encrypt_error)? else { continue };
            if read_document.stored_form == StoredForm::CurrentRecipients {
                continue;
            }
            match self.0.encryption.decrypt(read_document.bytes) {
                Ok(bytes) => self.write(&document, &bytes).map_err(encrypt_error)?,
                // An earlier version may be encrypted only for other recipients.
                Err(error) if document != STATE_DOCUMENT => {
                    tracing::warn!(document, %error,
                        "this document stays encrypted for its earlier recipients");
                }
                Err(error) => return Err(encrypt_error(error)),
            }
        }
        Ok(())
    }

    /// Writes a new document, or replaces the one that was last read or written. Durable when this returns. A
    /// reader sees either the old or the new content.
    pub(super) fn write(&self, document: &str, bytes: &[u8]) -> io::Result<()> {
        let bytes = self.0.encryption.encrypt(bytes)?;
        match &self.0.backend {
            Backend::Directory(directory) => directory.write(document, &bytes),
            Backend::Bucket(bucket) => {
                self.check_lock().map_err(io::Error::other)?;
                bucket.write(document, &bytes)
            }
        }
    }

    /// Removes a document, if it exists. Durable when this returns.
    pub(super) fn remove(&self, document: &str) -> io::Result<()> {
        match &self.0.backend {
            Backend::Directory(directory) => directory.remove(document),
            Backend::Bucket(bucket) => {
                self.check_lock().map_err(io::Error::other)?;
                bucket.remove(document)
            }
        }
    }

    /// Removes a folder if it is empty.
    pub(super) fn remove_if_empty(&self, folder: &str) {
        if let Backend::Directory(directory) = &self.0.backend {
            let _ = std::fs::remove_dir(directory.path(folder));
        }
    }

    /// Removes a folder with its documents. Durable when this returns.
    pub(super) fn remove_folder(&self, folder: &str) -> io::Result<()> {
        match &self.0.backend {
            Backend::Directory(directory) => directory.remove_folder(folder),
            Backend::Bucket(_) => {
                self.list(folder)?.iter().try_for_each(|(name, _)| self.remove(&format!("{folder}/{name}")))
            }
        }
    }

    /// Lists the names in a folder with the times at which they were written. Returns an empty list for a
    /// missing folder.
    pub(super) fn list(&self, folder: &str) -> io::Result<Vec<(String, SystemTime)>> {
        match &self.0.backend {
            Backend::Directory(directory) => directory.list(folder),
            Backend::Bucket(bucket) => bucket.list(folder),
        }
    }

    /// Keeps a backup of the current version, if [`Storage::keeps_backup`] is true.
    pub(super) fn keep_backup(&self) -> io::Result<()> {
        match &self.0.backend {
            Backend::Directory(directory) => directory.keep_backup(),
            Backend::Bucket(_) => Ok(()),
        }
    }

    /// Sets the modification time of a document, if the storage supports it.
    pub(super) fn set_written_time(&self, document: &str, written_at: SystemTime) {
        if let Backend::Directory(directory) = &self.0.backend {
            // The time is only for display, so errors do not matter.
            let _ = std::fs::File::options()
                .write(true)
                .open(directory.path(document))
                .and_then(|file| file.set_modified(written_at));
        }
    }

    /// Removes half-written files of a killed writer. The caller must hold the lock.
    pub(super) fn clean_up(&self) -> io::Result<()> {
        match &self.0.backend {
            Backend::Directory(directory) => directory.clean_up(),
            Backend::Bucket(_) => Ok(()),
        }
    }

    /// Takes the lock. While another run holds it, calls `on_conflict` with the error that names the holder,
    /// and tries again if it returns `Ok`.
    pub(super) fn lock(
        &self,
        holder: &Holder,
        on_conflict: &mut LockConflictHandler<'_>,
    ) -> Result<StateLock> {
        match &self.0.backend {
            Backend::Directory(directory) => {
                directory.check()?;
                let lock =
                    FileLock::take(&directory.path(LOCK_DOCUMENT), directory.state(), holder, on_conflict)?;
                // Each storage that is locked was resolved for this purpose, so it is locked only once.
                let _ = self.0.lock_file.set(lock.lock_file());
                Ok(StateLock::File(lock))
            }
            Backend::Bucket(bucket) => {
                let lease =
                    bucket.take_lease(holder, self.calls_directory(), &self.0.encryption, on_conflict)?;
                if call_rules::must_fence(lease.previous_holder.is_some()) {
                    bucket.fence().map_err(|error| Error::io(format!("taking over '{self}'"), error))?;
                    lease.shared_lease().mark_fenced();
                }
                Ok(StateLock::Lease(lease))
            }
        }
    }

    /// Asks the operator. The lock tells other runs meanwhile. If the answer takes long, a run that has a
    /// lease gives it back. The run can then change nothing any more, and this fails with the reason.
    pub fn while_prompting<T>(&self, ask: impl FnOnce() -> Result<T>) -> Result<T> {
        self.set_prompting(true);
        let answer = ask();
        self.set_prompting(false);
        let answer = answer?;
        self.check_lock()?;
        Ok(answer)
    }

    fn set_prompting(&self, is_prompting: bool) {
        match &self.0.backend {
            // Other runs only report it, so a failure is ignored.
            Backend::Directory(directory) => {
                let _ = directory
                    .resolve_links()
                    .and_then(|target| lock::set_prompting(&target.path(LOCK_DOCUMENT), is_prompting));
            }
            Backend::Bucket(bucket) => bucket.set_prompting(is_prompting),
        }
    }

    /// Fails if this run took the lock and has lost it. The run may then change nothing any more. The lock of
    /// a directory is lost if its file was removed or replaced.
    pub fn check_lock(&self) -> Result<()> {
        match &self.0.backend {
            Backend::Directory(_) => self.0.lock_file.get().map_or(Ok(()), HeldLockFile::check),
            Backend::Bucket(bucket) => bucket.check_lease(),
        }
    }

    /// Like [`Storage::check_lock`], but also asks the server. If this succeeds, every later holder of the
    /// lock sees what this run announced before.
    ///
    /// The caller has announced an effect and begins it afterwards, so the next run knows of the effect even
    /// if the lock is lost meanwhile.
    pub fn confirm_lock_with_server(&self) -> Result<()> {
        match &self.0.backend {
            Backend::Directory(_) => self.check_lock(),
            Backend::Bucket(bucket) => bucket.confirm_lease(),
        }
    }

    /// Checks, before the first effect of a run, that the server provides a lock.
    pub(super) fn verify_server_locks(&self) -> Result<()> {
        match &self.0.backend {
            Backend::Directory(_) => Ok(()),
            Backend::Bucket(bucket) => bucket.verify_conditional_writes(),
        }
    }
}

impl From<&Path> for Document {
    /// Creates the document for a single file.
    fn from(path: &Path) -> Self {
        Storage::from(path).document(STATE_DOCUMENT)
    }
}

impl std::fmt::Display for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.storage.path_or_url_of(&self.name))
    }
}

impl Document {
    /// Reads its content, if it exists.
    pub(crate) fn read(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.storage.read(&self.name)?.map(|read_document| read_document.bytes))
    }

    /// Replaces its content. Durable when this returns.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.storage.write(&self.name, bytes)
    }

    /// Removes it, if it exists. Durable when this returns.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.storage.remove(&self.name)
    }
}
