//! Documents in a bucket.
//!
//! Each write is conditional: it fails unless the document is still the version that was last read or
//! written. So a change by another writer is noticed, even after the lease was lost.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use object_store::UpdateVersion;
use parking_lot::Mutex;

use super::STATE_DOCUMENT;
use super::bucket_client::{BucketClient, WriteCondition, WriteOutcome};
use super::lease::{Lease, SharedLease};
use super::settings::BucketSettings;
use crate::state::lock::{Holder, LockConflictHandler};
use base::Result;
use base::encryption::Encryption;

/// The documents of one state in a bucket, with their last known versions.
#[derive(Debug)]
pub(super) struct BucketDocuments {
    client: Arc<BucketClient>,
    /// The version of each document as last read or written.
    known_versions: Mutex<HashMap<String, UpdateVersion>>,
    /// The lease that this run took.
    shared_lease: Mutex<Option<Arc<SharedLease>>>,
}

impl BucketDocuments {
    /// Creates the access to the objects of a state. Makes no request.
    pub(super) fn open(settings: &BucketSettings) -> Result<Self> {
        let client = Arc::new(BucketClient::open(settings)?);
        Ok(BucketDocuments { client, known_versions: Mutex::default(), shared_lease: Mutex::default() })
    }

    pub(super) fn url(&self, document: &str) -> String {
        self.client.url(document)
    }

    /// Reads a document, and the time at which it was written.
    pub(super) fn read(&self, document: &str) -> io::Result<Option<(Vec<u8>, SystemTime)>> {
        let object = self.client.get(document)?;
        self.remember_version(document, object.as_ref().map(|object| object.version.clone()));
        Ok(object.map(|object| (object.bytes, object.written_at)))
    }

    /// Writes a document. Fails if it is not the version that was last read or written.
    pub(super) fn write(&self, document: &str, bytes: &[u8]) -> io::Result<()> {
        self.client.interruption.begin_writing();
        let known_version = self.known_versions.lock().get(document).cloned();
        let condition = known_version.map_or(WriteCondition::Absent, WriteCondition::Version);
        match self.client.put(document, bytes, &condition)? {
            WriteOutcome::Done(version) => {
                self.remember_version(document, Some(version));
                Ok(())
            }
            WriteOutcome::Conflict => Err(self.changed_error(document)),
        }
    }

    /// Removes a document. Fails if it is not the version that was last read or written.
    pub(super) fn remove(&self, document: &str) -> io::Result<()> {
        self.client.interruption.begin_writing();
        let known_version = self.known_versions.lock().get(document).cloned();
        if !self.client.delete(document, known_version.as_ref())? {
            return Err(self.changed_error(document));
        }
        self.remember_version(document, None);
        Ok(())
    }

    fn changed_error(&self, document: &str) -> io::Error {
        io::Error::other(format!(
            "'{}' changed since this run read it: another run or program writes there",
            self.url(document)
        ))
    }

    /// Lists the names in a folder with the times at which they were written.
    pub(super) fn list(&self, folder: &str) -> io::Result<Vec<(String, SystemTime)>> {
        self.client.list(folder)
    }

    fn remember_version(&self, document: &str, version: Option<UpdateVersion>) {
        let mut known_versions = self.known_versions.lock();
        match version {
            Some(version) => known_versions.insert(document.to_owned(), version),
            None => known_versions.remove(document),
        };
    }

    /// Takes the lease. While another run holds it, calls `on_conflict` with the error that names the holder.
    pub(super) fn take_lease(
        &self,
        holder: &Holder,
        calls_directory: &Path,
        encryption: &Encryption,
        on_conflict: &mut LockConflictHandler<'_>,
    ) -> Result<Lease> {
        let lease = Lease::take(&self.client, holder, calls_directory, encryption, on_conflict)?;
        *self.shared_lease() = Some(Arc::clone(lease.shared_lease()));
        // Versions read before may have been replaced under another holder of the lease.
        self.known_versions.lock().clear();
        Ok(lease)
    }

    /// Rewrites the state with one more empty line at its end, so that a run which lost its lease unnoticed
    /// cannot overwrite it.
    ///
    /// The content must be new, because in some buckets a version is the digest of the content. The next
    /// write removes the line.
    pub(super) fn fence(&self) -> io::Result<()> {
        let Some((mut bytes, _)) = self.read(STATE_DOCUMENT)? else { return Ok(()) };
        bytes.push(b'\n');
        self.write(STATE_DOCUMENT, &bytes)
    }

    /// Fails if this run took the lease and has lost it.
    pub(super) fn check_lease(&self) -> Result<()> {
        match &*self.shared_lease() {
            Some(shared_lease) => shared_lease.check(),
            None => Ok(()),
        }
    }

    /// Records that the run begins to wait at a prompt, or that it has an answer.
    pub(super) fn set_prompting(&self, is_prompting: bool) {
        if let Some(shared_lease) = &*self.shared_lease() {
            shared_lease.set_prompting(is_prompting);
        }
    }

    /// Like [`BucketDocuments::check_lease`], but also asks the server.
    pub(super) fn confirm_lease(&self) -> Result<()> {
        // The mutex is not held during the request.
        let shared_lease = self.shared_lease().clone();
        shared_lease.map_or(Ok(()), |shared_lease| shared_lease.confirm())
    }

    /// Checks that the server respects conditional writes.
    pub(super) fn verify_conditional_writes(&self) -> Result<()> {
        match &*self.shared_lease() {
            Some(shared_lease) => shared_lease.verify_conditional_writes(),
            None => Ok(()),
        }
    }

    fn shared_lease(&self) -> parking_lot::MutexGuard<'_, Option<Arc<SharedLease>>> {
        self.shared_lease.lock()
    }
}
