//! Documents in a bucket. Each write is on condition that the document is what was last read or written: whoever
//! changed it meanwhile is noticed, whatever becomes of the lease.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use object_store::UpdateVersion;
use parking_lot::Mutex;

use super::lease::{Lease, Tenure};
use super::objects::{Objects, Over, Written};
use super::settings::Shared;
use crate::state::lock::{Holder, Waiting};
use base::Result;
use base::encryption::Encryption;

/// The objects of one state.
#[derive(Debug)]
pub(super) struct Bucket {
    objects: Arc<Objects>,
    /// The versions that were last read or written.
    known: Mutex<HashMap<String, UpdateVersion>>,
    /// The lease that this run took.
    tenure: Mutex<Option<Arc<Tenure>>>,
}

impl Bucket {
    pub(super) fn open(shared: &Shared) -> Result<Self> {
        let objects = Arc::new(Objects::open(shared)?);
        Ok(Bucket { objects, known: Mutex::default(), tenure: Mutex::default() })
    }

    pub(super) fn url(&self, document: &str) -> String {
        self.objects.url(document)
    }

    /// A document, and when it was written.
    pub(super) fn read(&self, document: &str) -> io::Result<Option<(Vec<u8>, SystemTime)>> {
        let found = self.objects.get(document)?;
        self.know(document, found.as_ref().map(|object| object.version.clone()));
        Ok(found.map(|object| (object.bytes, object.written)))
    }

    pub(super) fn write(&self, document: &str, bytes: &[u8]) -> io::Result<()> {
        let known = self.known.lock().get(document).cloned();
        let over = known.map_or(Over::Nothing, Over::This);
        match self.objects.put(document, bytes, &over)? {
            Written::Done(version) => {
                self.know(document, Some(version));
                Ok(())
            }
            Written::Conflict => Err(self.changed(document)),
        }
    }

    pub(super) fn remove(&self, document: &str) -> io::Result<()> {
        let known = self.known.lock().get(document).cloned();
        if !self.objects.delete(document, known.as_ref())? {
            return Err(self.changed(document));
        }
        self.know(document, None);
        Ok(())
    }

    fn changed(&self, document: &str) -> io::Error {
        io::Error::other(format!(
            "'{}' is not what it was when this run read it: something else writes there",
            self.url(document)
        ))
    }

    pub(super) fn list(&self, folder: &str) -> io::Result<Vec<(String, SystemTime)>> {
        self.objects.list(folder)
    }

    fn know(&self, document: &str, version: Option<UpdateVersion>) {
        let mut known = self.known.lock();
        match version {
            Some(version) => known.insert(document.to_owned(), version),
            None => known.remove(document),
        };
    }

    pub(super) fn take_lease(
        &self,
        holder: &Holder,
        calls: &Path,
        encryption: &Encryption,
        held: &mut Waiting<'_>,
    ) -> Result<Lease> {
        let lease = Lease::take(&self.objects, holder, calls, encryption, held)?;
        *self.tenure() = Some(Arc::clone(lease.tenure()));
        // What was read before is of somebody else's time.
        self.known.lock().clear();
        Ok(lease)
    }

    /// Makes the state another version of itself, with one more empty line at its end until it is written anew: a run
    /// that lost its lease and does not know it yet cannot write over it any more. Never back to what it was, since a
    /// version is the digest of its content in some buckets.
    pub(super) fn fence(&self) -> io::Result<()> {
        let Some((mut bytes, _)) = self.read("")? else { return Ok(()) };
        bytes.push(b'\n');
        self.write("", &bytes)
    }

    pub(super) fn check_lease(&self) -> Result<()> {
        match &*self.tenure() {
            Some(tenure) => tenure.check(),
            None => Ok(()),
        }
    }

    pub(super) fn confirm_lease(&self) -> Result<()> {
        // Nothing of the tenure is locked while the server is asked.
        let tenure = self.tenure().clone();
        tenure.map_or(Ok(()), |tenure| tenure.confirm())
    }

    pub(super) fn prove_conditions(&self) -> Result<()> {
        match &*self.tenure() {
            Some(tenure) => tenure.prove_conditions(),
            None => Ok(()),
        }
    }

    fn tenure(&self) -> parking_lot::MutexGuard<'_, Option<Arc<Tenure>>> {
        self.tenure.lock()
    }
}
