//! Where a state is kept, with all that belongs to it: a directory, or a bucket that several machines share.
//!
//! What belongs to a state are documents whose names begin with the state's own, so that both places are alike:
//!
//! | document | what it is |
//! |---|---|
//! | `` | the state |
//! | `.bak` | the version before the last write; in a directory alone |
//! | `.versions/N.json` | an earlier version |
//! | `.journal/ID.intent` | a call that is announced |
//! | `.journal/registry.json` | what the registry of contract v1 holds |
//! | `.lock` | who may write |
//!
//! A CPI process writes its answer into a file of this machine in any case ([`Storage::calls`]).

mod address;
mod bucket;
mod directory;
mod http;
mod keeper;
mod lease;
mod objects;
mod settings;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

pub use address::Address;
pub use keeper::keep;
pub(super) use lease::Lease;
pub use settings::{BUCKET_REQUEST, BUCKET_RETRIES, Shared};

use super::lock::{FileLock, Holder, Lock, Waiting};
use base::encryption::{Encryption, StoredForm};
use base::{Error, Result};
use bucket::Bucket;
use directory::Directory;

/// Where a state is kept. Copies are of the same place.
#[derive(Debug, Clone)]
pub struct Storage(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    backend: Backend,
    /// Where CPI processes write their answers.
    calls: PathBuf,
    /// That is not the journal itself, so that a run on another machine does not find them.
    apart: bool,
    encryption: Encryption,
}

/// The kind of place that a state is kept in.
#[derive(Debug)]
enum Backend {
    Directory(Directory),
    Bucket(Bucket),
}

/// A document as it was read.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) bytes: Vec<u8>,
    pub(super) written: SystemTime,
    /// How it is kept there.
    pub(super) kept: StoredForm,
}

/// One document that belongs to a state.
#[derive(Debug, Clone)]
pub struct Document {
    storage: Storage,
    name: String,
}

/// The folder of announced calls.
pub(super) const JOURNAL: &str = ".journal";
/// The folder of earlier versions.
pub(super) const VERSIONS: &str = ".versions";
/// The version before the last write.
pub(super) const BACKUP: &str = ".bak";
const LOCK: &str = ".lock";

impl From<&Path> for Storage {
    /// A state file; what belongs to it is beside it.
    fn from(state: &Path) -> Self {
        Storage::beside(Directory::of(state))
    }
}

impl std::fmt::Display for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name(""))
    }
}

impl Storage {
    fn beside(directory: Directory) -> Self {
        let calls = directory.path(JOURNAL);
        let backend = Backend::Directory(directory);
        Storage(Arc::new(Inner { backend, calls, apart: false, encryption: Encryption::default() }))
    }

    /// The same with documents that are sealed. CPI processes, which seal nothing, write their answers into `calls` then.
    #[must_use]
    pub fn sealed(self, encryption: Encryption, calls: PathBuf) -> Self {
        match &self.0.backend {
            Backend::Directory(directory) => {
                let apart = encryption.seals();
                let calls = if apart { calls } else { directory.path(JOURNAL) };
                let backend = Backend::Directory(directory.clone());
                Storage(Arc::new(Inner { backend, calls, apart, encryption }))
            }
            Backend::Bucket(_) => self,
        }
    }

    /// A state in a bucket. CPI processes write their answers into `calls`.
    pub fn shared(shared: &Shared, encryption: Encryption, calls: PathBuf) -> Result<Self> {
        let backend = Backend::Bucket(Bucket::open(shared)?);
        Ok(Storage(Arc::new(Inner { backend, calls, apart: true, encryption })))
    }

    /// Where the state really is. Two names for one file must mean one lock, and writing must not replace a link by
    /// a second state.
    pub fn resolved(&self) -> Result<Self> {
        match &self.0.backend {
            Backend::Bucket(_) => Ok(self.clone()),
            Backend::Directory(directory) => {
                let place = directory.resolved().map_err(|error| {
                    Error::io(format!("following the link '{}'", directory.state().display()), error)
                })?;
                Ok(Storage::beside(place).sealed(self.0.encryption.clone(), self.0.calls.clone()))
            }
        }
    }

    /// Whether several machines may share the state, so that every look at it is a request.
    pub fn is_shared(&self) -> bool {
        matches!(self.0.backend, Backend::Bucket(_))
    }

    /// Where it is, as the records of runs say it: a path, or a URL in the form of one.
    pub fn place(&self) -> PathBuf {
        match &self.0.backend {
            Backend::Directory(directory) => directory.state().to_owned(),
            Backend::Bucket(bucket) => bucket.url("").into(),
        }
    }

    /// What a document is called: a path or a URL.
    pub fn name(&self, document: &str) -> String {
        match &self.0.backend {
            Backend::Directory(directory) => directory.path(document).display().to_string(),
            Backend::Bucket(bucket) => bucket.url(document),
        }
    }

    /// A document on its own.
    pub(super) fn document(&self, name: &str) -> Document {
        Document { storage: self.clone(), name: name.to_owned() }
    }

    /// Where CPI processes write their answers.
    pub(super) fn calls(&self) -> &Path {
        &self.0.calls
    }

    /// The state file, if CPI processes write their answers into a directory beside it.
    pub(super) fn state_beside_calls(&self) -> Option<&Path> {
        match &self.0.backend {
            Backend::Directory(directory) if !self.0.apart => Some(directory.state()),
            Backend::Directory(_) | Backend::Bucket(_) => None,
        }
    }

    /// Whether CPI processes write their answers somewhere else than into the journal, so that a run on another
    /// machine does not find them.
    pub(super) fn answers_apart(&self) -> bool {
        self.0.apart
    }

    /// Whether the version before each write is kept in a document of its own.
    pub(super) fn keeps_backup(&self) -> bool {
        matches!(self.0.backend, Backend::Directory(_))
    }

    /// Reads a document, if there is one.
    pub(super) fn read(&self, document: &str) -> io::Result<Option<Found>> {
        let Some(mut found) = self.read_as_it_is(document)? else { return Ok(None) };
        found.bytes = self.0.encryption.open(found.bytes)?;
        Ok(Some(found))
    }

    /// How the state is kept, if there is one.
    pub(super) fn kept(&self) -> io::Result<Option<StoredForm>> {
        Ok(self.read_as_it_is("")?.map(|found| found.kept))
    }

    fn read_as_it_is(&self, document: &str) -> io::Result<Option<Found>> {
        let found = match &self.0.backend {
            Backend::Directory(directory) => directory.read(document),
            Backend::Bucket(bucket) => bucket.read(document),
        }?;
        Ok(found.map(|(bytes, written)| Found { kept: self.0.encryption.kept(&bytes), bytes, written }))
    }

    /// Sees to it that what is written is sealed if the state is, and that everything is to whom it is to be if the state
    /// is not: what belongs to it first, so that a run that is killed meanwhile leaves that to the next. `kept` is how the
    /// state is, if there is one. For the holder of the lock.
    pub(super) fn settle_sealing(&self, kept: Option<StoredForm>) -> Result<()> {
        let failed = |error| Error::io(format!("encrypting '{self}'"), error);
        let seals = self.0.encryption.seals();
        let plain = match kept {
            Some(StoredForm::ToOthers | StoredForm::AsWanted) if !seals => {
                return Err(Error::usage(format!(
                    "the state '{self}' is encrypted, and would be written in plain"
                ))
                .with_hint("name the recipients that it is for with --encrypt-to, or MONOPILE_ENCRYPT_TO"));
            }
            Some(StoredForm::Plain) if seals => true,
            Some(StoredForm::ToOthers) => false,
            Some(StoredForm::Plain | StoredForm::AsWanted) | None => return Ok(()),
        };
        let mut documents = vec![BACKUP.to_owned()];
        for folder in [JOURNAL, VERSIONS] {
            for (name, _) in self.list(folder).map_err(failed)? {
                if plain && folder == JOURNAL && name.ends_with(".intent") {
                    return Err(Error::usage(format!(
                        "a run was interrupted, and is to be finished before '{self}' is encrypted"
                    ))
                    .with_hint("run the same command without --encrypt-to first"));
                }
                // What a killed writer left is swept later, and so are answers in plain, to calls that were settled.
                if name.ends_with(".json") || (!plain && !name.ends_with(".tmp")) {
                    documents.push(format!("{folder}/{name}"));
                }
            }
        }
        documents.push(String::new());
        for document in documents {
            let Some(found) = self.read_as_it_is(&document).map_err(failed)? else { continue };
            if found.kept == StoredForm::AsWanted {
                continue;
            }
            match self.0.encryption.open(found.bytes) {
                Ok(bytes) => self.write(&document, &bytes).map_err(failed)?,
                // An earlier version, of a time when it was not for whoever runs this.
                Err(error) if !document.is_empty() => {
                    tracing::warn!(document, %error, "it stays encrypted to whom it was");
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    /// Writes a document, or replaces the one that was read or written before; durable when this returns, and the old
    /// or the new one at any time.
    pub(super) fn write(&self, document: &str, bytes: &[u8]) -> io::Result<()> {
        let bytes = self.0.encryption.seal(bytes)?;
        match &self.0.backend {
            Backend::Directory(directory) => directory.write(document, &bytes),
            Backend::Bucket(bucket) => {
                self.check_lock().map_err(io::Error::other)?;
                bucket.write(document, &bytes)
            }
        }
    }

    /// Removes a document, if there is one; durable when this returns.
    pub(super) fn remove(&self, document: &str) -> io::Result<()> {
        match &self.0.backend {
            Backend::Directory(directory) => directory.remove(document),
            Backend::Bucket(bucket) => {
                self.check_lock().map_err(io::Error::other)?;
                bucket.remove(document)
            }
        }
    }

    /// Removes a folder that is empty; one that is not stays.
    pub(super) fn tidy(&self, folder: &str) {
        if let Backend::Directory(directory) = &self.0.backend {
            let _ = std::fs::remove_dir(directory.path(folder));
        }
    }

    /// Removes a folder with all that is in it; durable when this returns.
    pub(super) fn remove_folder(&self, folder: &str) -> io::Result<()> {
        match &self.0.backend {
            Backend::Directory(directory) => directory.remove_folder(folder),
            Backend::Bucket(_) => {
                self.list(folder)?.iter().try_for_each(|(name, _)| self.remove(&format!("{folder}/{name}")))
            }
        }
    }

    /// The names in a folder, with when each was written. One that does not exist is empty.
    pub(super) fn list(&self, folder: &str) -> io::Result<Vec<(String, SystemTime)>> {
        match &self.0.backend {
            Backend::Directory(directory) => directory.list(folder),
            Backend::Bucket(bucket) => bucket.list(folder),
        }
    }

    /// Keeps the present version as [`Storage::keeps_backup`] says.
    pub(super) fn keep_backup(&self) -> io::Result<()> {
        match &self.0.backend {
            Backend::Directory(directory) => directory.keep_backup(),
            Backend::Bucket(_) => Ok(()),
        }
    }

    /// Gives a document another time than that of its writing, where that can be done.
    pub(super) fn date(&self, document: &str, written: SystemTime) {
        if let Backend::Directory(directory) = &self.0.backend {
            // Only for show.
            let _ = std::fs::File::options()
                .write(true)
                .open(directory.path(document))
                .and_then(|file| file.set_modified(written));
        }
    }

    /// Removes what a writer that was killed left half written. For the holder of the lock.
    pub(super) fn sweep(&self) -> io::Result<()> {
        match &self.0.backend {
            Backend::Directory(directory) => directory.sweep(),
            Backend::Bucket(_) => Ok(()),
        }
    }

    /// Takes the lock. While another run holds it, `held` hears the error that says who, and passes it on or returns
    /// to have it tried again.
    pub(super) fn lock(&self, holder: &Holder, held: &mut Waiting<'_>) -> Result<Lock> {
        match &self.0.backend {
            Backend::Directory(directory) => {
                directory.check()?;
                FileLock::take(&directory.path(LOCK), directory.state(), holder, held).map(Lock::File)
            }
            Backend::Bucket(bucket) => {
                let lease = bucket.take_lease(holder, self.calls(), &self.0.encryption, held)?;
                if lease.taken_over.is_some() {
                    bucket.fence().map_err(|error| Error::io(format!("taking over '{self}'"), error))?;
                }
                Ok(Lock::Lease(lease))
            }
        }
    }

    /// Fails when this run took the lock and holds it no longer: then it may change nothing any more. A lock in a
    /// directory cannot be lost.
    pub fn check_lock(&self) -> Result<()> {
        match &self.0.backend {
            Backend::Directory(_) => Ok(()),
            Backend::Bucket(bucket) => bucket.check_lease(),
        }
    }

    /// As [`Storage::check_lock`], by asking the server as well. What this run announced before, every later holder of the
    /// lock finds: so an effect between whose announcement and beginning this stands is known to whoever comes next,
    /// whatever became of the lock meanwhile.
    pub fn confirm_lock(&self) -> Result<()> {
        match &self.0.backend {
            Backend::Directory(_) => Ok(()),
            Backend::Bucket(bucket) => bucket.confirm_lease(),
        }
    }

    /// Makes sure, before the first effect of a run, that what is a lock elsewhere is one there.
    pub(super) fn prove_lock(&self) -> Result<()> {
        match &self.0.backend {
            Backend::Directory(_) => Ok(()),
            Backend::Bucket(bucket) => bucket.prove_conditions(),
        }
    }
}

impl From<&Path> for Document {
    /// A file on its own.
    fn from(path: &Path) -> Self {
        Storage::from(path).document("")
    }
}

impl std::fmt::Display for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.storage.name(&self.name))
    }
}

impl Document {
    /// Its content, if it exists.
    pub(crate) fn read(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.storage.read(&self.name)?.map(|found| found.bytes))
    }

    /// Replaces its content; durable when this returns.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.storage.write(&self.name, bytes)
    }

    /// Removes it, if it exists; durable when this returns.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.storage.remove(&self.name)
    }
}
