//! A cache that a team shares: a bucket or a directory in which a run looks up what the cache of this machine
//! lacks, and to which it uploads what it has downloaded or compiled.
//!
//! ```text
//! downloads/<algorithm>-<digest>    a download, verified by the digest in the manifest
//! compiled/<key>.json               the signed digest of a package that was compiled on a VM
//! compiled/<key>.<SHA-256>.tgz      the package
//! cpi/…                             the same for packages of CPIs that were compiled in a userland
//! ```
//!
//! A user who can write there must not be able to plant code. So a download is verified by its digest, and a
//! compiled package by a signature over its key and its digest; see [`trust`].
//!
//! A failure of the cache is a warning and never fails the run. After a failure to reach it, the run goes on
//! without the cache. After a failed upload, it uploads nothing more. An entry that cannot be verified is
//! skipped. Each request has a timeout, and all searches together have one, so a failure costs a limited
//! time.

mod bundle;
mod maintenance;
mod storage;
mod trust;
mod uploads;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{fmt, fs, io};

use parking_lot::Mutex;

use crate::InterruptCheck;
use crate::archive::UnpackLimits;
use crate::digest::{Algorithm, Digest, Hasher};
use base::events::Reporter;
use base::files::read_json;
use base::text::format_duration;
use base::{Error, Result};
use uploads::{Upload, UploadContent, UploadQueue};

pub use bundle::{Bundle, BundleContent, BundleWriter, BundledPackage};
pub use maintenance::{SharedEntry, list, prune, verify};
pub use net::ssh::{KeyError, SshKey, VerifyingKey};
pub use storage::{ObjectPart, SharedDirectory, SharedStorage, StoredObject};
pub use trust::{PackageId, PackageKind, SignedDigest};
pub use uploads::END_TIMEOUT;

/// The folder of downloads.
const DOWNLOADS_DIRECTORY: &str = "downloads";
/// The number of bytes that one request reads.
const PART_BYTES: u64 = 4 << 20;
/// The maximum size of a signed digest in bytes.
const MAX_SIGNED_DIGEST_BYTES: u64 = 16 << 10;
/// The time that all searches for packages of a run may take together, over all threads. Tests wait less.
pub const SEARCH_TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 2_000 } else { 60_000 });

/// Opens the storage of a shared cache. Its requests end when the check returns an error.
pub type OpenStorage = Box<dyn Fn(InterruptCheck) -> Result<Arc<dyn SharedStorage>> + Send + Sync>;

/// A shared cache, or none. Cheap to clone; clones share it.
#[derive(Clone, Default)]
pub struct SharedCache(Arc<SharedCacheData>);

/// The content of a [`SharedCache`].
#[derive(Default)]
struct SharedCacheData {
    /// The keys whose signatures are accepted, also for packages that an earlier run took from a shared
    /// cache.
    trusted_keys: Vec<VerifyingKey>,
    backend: Option<SharedBackend>,
}

/// The settings of a shared cache.
pub struct SharedCacheSettings {
    /// The URL, for messages.
    pub url: String,
    /// True for a bucket, and false for a directory.
    pub needs_network: bool,
    /// Opens the storage on first use.
    pub open: OpenStorage,
    /// True to upload what the run downloads and compiles.
    pub may_upload: bool,
    /// The key that signs compiled packages. Without it, only downloads are uploaded.
    pub signing_key: Option<SshKey>,
    /// Receives warnings.
    pub reporter: Reporter,
    /// Returns an error if the run was interrupted.
    pub interrupt_check: InterruptCheck,
}

/// The bucket or directory of a shared cache, and what this run knows about it.
struct SharedBackend {
    settings: SharedCacheSettings,
    storage: OnceLock<Option<Arc<dyn SharedStorage>>>,
    /// True at the end of the run, when uploads must end.
    is_cancelled: Arc<AtomicBool>,
    /// True after a failure, when nothing more is read.
    is_unreadable: AtomicBool,
    /// True after a failure, when nothing more is uploaded.
    is_unwritable: AtomicBool,
    has_warned_of_failure: AtomicBool,
    has_warned_of_entry: AtomicBool,
    /// The time that searches for packages have taken, over all threads.
    search_duration: Mutex<Duration>,
    /// The results of all searches for packages, by the object with the signed digest of the package.
    packages: Mutex<HashMap<String, Option<SharedPackage>>>,
    /// The queue of uploads, from the first one on.
    upload_queue: Mutex<Option<UploadQueue>>,
}

/// A compiled package in a shared cache, whose digest is signed by a trusted key.
#[derive(Debug, Clone)]
pub struct SharedPackage {
    /// The signed digest, which stays beside the package in the cache of this machine.
    pub signed_digest: SignedDigest,
    /// The SHA-256 of the archive.
    pub digest: Digest,
    object: String,
}

/// A part of a file that is copied from a shared cache.
#[derive(Debug, Clone, Copy)]
pub struct CopiedPart<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The number of bytes before it. 0 begins a file.
    pub offset: u64,
    /// The size of the whole file in bytes.
    pub total: u64,
}

/// Writes the parts of a file. The file is unverified until the whole copy has succeeded.
pub type WritePart<'w> = &'w mut dyn FnMut(CopiedPart<'_>) -> Result<()>;

impl fmt::Debug for SharedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.0.backend.as_ref().map(|backend| backend.settings.url.as_str());
        f.debug_tuple("SharedCache").field(&url).finish()
    }
}

impl SharedCache {
    /// Returns a shared cache without a bucket or directory, which only checks signatures with these keys.
    pub fn for_keys(trusted_keys: Vec<VerifyingKey>) -> Self {
        SharedCache(Arc::new(SharedCacheData { trusted_keys, backend: None }))
    }

    /// Returns a shared cache. Makes no request. Signatures of `trusted_keys` are accepted, and those of the
    /// signing key.
    pub fn new(mut trusted_keys: Vec<VerifyingKey>, settings: SharedCacheSettings) -> Self {
        let own_key = settings.signing_key.as_ref().and_then(|key| key.verifying_key().ok());
        trusted_keys.extend(own_key);
        let backend = SharedBackend {
            settings,
            storage: OnceLock::new(),
            is_cancelled: Arc::default(),
            is_unreadable: AtomicBool::new(false),
            is_unwritable: AtomicBool::new(false),
            has_warned_of_failure: AtomicBool::new(false),
            has_warned_of_entry: AtomicBool::new(false),
            search_duration: Mutex::default(),
            packages: Mutex::default(),
            upload_queue: Mutex::default(),
        };
        SharedCache(Arc::new(SharedCacheData { trusted_keys, backend: Some(backend) }))
    }

    /// Returns the same cache if it needs no network, and otherwise only its keys.
    #[must_use]
    pub fn without_network(&self) -> Self {
        match &self.0.backend {
            Some(backend) if backend.settings.needs_network => {
                SharedCache::for_keys(self.0.trusted_keys.clone())
            }
            _ => self.clone(),
        }
    }

    /// Returns true if a package in the cache of this machine may be used: if it was made here, and so has no
    /// file `signature_path`, or if a trusted key has signed the digest in that file.
    pub fn trusts(&self, id: &PackageId<'_>, signature_path: &Path) -> bool {
        match read_json::<SignedDigest>(signature_path) {
            Ok(None) => true,
            Ok(Some(signed_digest)) => signed_digest.verify(id, &self.0.trusted_keys).is_ok(),
            Err(_) => false,
        }
    }

    /// Copies the file with this digest to `write`. Returns its verified digest: SHA-256, and the strongest
    /// algorithm of `expected`. Returns `None` if the cache lacks the file or cannot be used, maybe after
    /// some parts were written. An error is one of `write`.
    pub fn copy_download(&self, expected: &Digest, write: WritePart<'_>) -> Result<Option<Digest>> {
        let Some(backend) = &self.0.backend else { return Ok(None) };
        backend.copy(&download_object(expected), expected, None, write)
    }

    /// Searches for a compiled package. Returns `None` if the cache lacks it or cannot be used, or if no
    /// trusted key has signed it.
    pub fn find_package(&self, id: &PackageId<'_>) -> Option<SharedPackage> {
        let backend = self.0.backend.as_ref()?;
        if self.0.trusted_keys.is_empty() {
            return None;
        }
        let object = id.signed_digest_object();
        if let Some(package) = backend.packages.lock().get(&object) {
            return package.clone();
        }
        let package = backend.search_package(id, &self.0.trusted_keys);
        backend.packages.lock().insert(object, package.clone());
        package
    }

    /// Copies the archive of a package to `write`. Returns its verified SHA-256, or `None` if the cache lacks
    /// it or cannot be used. An error is one of `write`.
    pub fn copy_package(&self, package: &SharedPackage, write: WritePart<'_>) -> Result<Option<Digest>> {
        let Some(backend) = &self.0.backend else { return Ok(None) };
        backend.copy(&package.object, &package.digest, Some(package.signed_digest.size()), write)
    }

    /// Uploads a download in the background, while the run goes on. The file must stay until
    /// [`Self::finish`].
    pub fn upload_download(&self, digest: &Digest, path: &Path) {
        if self.may_upload() {
            self.upload(vec![(download_object(digest), UploadContent::File(path.to_owned()))]);
        }
    }

    /// Returns true if compiled packages are uploaded.
    pub fn uploads_packages(&self) -> bool {
        let signing_key = self.0.backend.as_ref().and_then(|backend| backend.settings.signing_key.as_ref());
        self.may_upload() && signing_key.is_some()
    }

    /// Signs a compiled package and uploads it in the background, while the run goes on. The archive must
    /// stay until [`Self::finish`]. Does nothing without a signing key.
    pub fn upload_package(&self, id: &PackageId<'_>, archive: &Path, digest: &Digest) {
        let Some(backend) = self.0.backend.as_ref().filter(|_| self.uploads_packages()) else { return };
        let Some(signing_key) = &backend.settings.signing_key else { return };
        let upload = || -> io::Result<Upload> {
            let size = fs::metadata(archive)?.len();
            let signed_digest =
                SignedDigest::sign(id, digest, size, signing_key).map_err(io::Error::other)?;
            let json = serde_json::to_vec(&signed_digest)?;
            let object = id.archive_object(signed_digest.sha256());
            Ok(vec![
                (object, UploadContent::File(archive.to_owned())),
                (id.signed_digest_object(), UploadContent::Bytes(json)),
            ])
        };
        match upload() {
            Ok(upload) => self.upload(upload),
            Err(error) => backend.end_uploads(error),
        }
    }

    /// Waits for the uploads up to [`END_TIMEOUT`], and ends them. Call it at the end of the run.
    pub fn finish(&self) {
        let Some(backend) = &self.0.backend else { return };
        let Some(upload_queue) = backend.upload_queue.lock().take() else { return };
        let settings = &backend.settings;
        let stage = (upload_queue.unfinished_count() > 0)
            .then(|| settings.reporter.begin_stage(format!("Uploading to the cache '{}'", settings.url)));
        let cancel = || backend.is_cancelled.store(true, Ordering::SeqCst);
        let unfinished_count = upload_queue.finish(END_TIMEOUT, &settings.interrupt_check, cancel);
        if let Some(stage) = stage {
            match unfinished_count {
                0 => stage.finish(),
                _ => stage.skip("not finished"),
            }
        }
        if unfinished_count > 0 && (settings.interrupt_check)().is_ok() {
            let plural = if unfinished_count == 1 { "" } else { "s" };
            settings.reporter.warn(format!(
                "{unfinished_count} upload{plural} to the cache '{}' did not end within {}, and were stopped",
                settings.url,
                format_duration(END_TIMEOUT)
            ));
        }
    }

    fn may_upload(&self) -> bool {
        self.0.backend.as_ref().is_some_and(|backend| {
            backend.settings.may_upload && !backend.is_unwritable.load(Ordering::SeqCst)
        })
    }

    fn upload(&self, upload: Upload) {
        let Some(backend) = &self.0.backend else { return };
        let mut upload_queue = backend.upload_queue.lock();
        if upload_queue.is_none() {
            let shared_cache = self.clone();
            let result = UploadQueue::start(move |upload| {
                if let Some(backend) = &shared_cache.0.backend {
                    backend.perform(upload);
                }
            });
            match result {
                Ok(new_queue) => *upload_queue = Some(new_queue),
                Err(error) => return backend.end_uploads(error),
            }
        }
        if let Some(upload_queue) = &*upload_queue {
            upload_queue.add(upload);
        }
    }
}

impl SharedBackend {
    /// Opens the storage on first use. Returns `None` if it cannot be opened.
    fn open_storage(&self) -> Option<&dyn SharedStorage> {
        let open = || {
            let result = (self.settings.open)(self.end_check());
            result.map_err(|error| self.end_all(io::Error::other(error))).ok()
        };
        self.storage.get_or_init(open).as_deref()
    }

    /// Returns a check that fails if the run was interrupted, or if uploads must end.
    fn end_check(&self) -> InterruptCheck {
        let interrupt_check = Arc::clone(&self.settings.interrupt_check);
        let is_cancelled = Arc::clone(&self.is_cancelled);
        Arc::new(move || match is_cancelled.load(Ordering::SeqCst) {
            true => Err(Error::failure("the run has ended")),
            false => interrupt_check(),
        })
    }

    /// Opens the storage for reading. Returns `None` if it cannot be opened, or if an earlier request failed.
    fn open_for_reading(&self) -> Option<&dyn SharedStorage> {
        if self.is_unreadable.load(Ordering::SeqCst) { None } else { self.open_storage() }
    }

    fn search_package(&self, id: &PackageId<'_>, trusted_keys: &[VerifyingKey]) -> Option<SharedPackage> {
        let storage = self.open_for_reading()?;
        let start = Instant::now();
        let result = read_signed_digest(storage, id, trusted_keys);
        let search_duration = {
            let mut search_duration = self.search_duration.lock();
            *search_duration += start.elapsed();
            *search_duration
        };
        let package = result.map_err(|error| self.end_all(error)).ok()?;
        if search_duration > SEARCH_TIMEOUT {
            let text = format!("its answers have taken {} in this run", format_duration(search_duration));
            self.end_all(io::Error::other(text));
        }
        package?.map_err(|reason| self.warn_of_entry(&id.signed_digest_object(), &reason)).ok()
    }

    /// Copies an object and verifies its digest, and its size if that is known. An error is one of `write`.
    fn copy(
        &self,
        object: &str,
        expected: &Digest,
        size: Option<u64>,
        write: WritePart<'_>,
    ) -> Result<Option<Digest>> {
        let Some(storage) = self.open_for_reading() else { return Ok(None) };
        let end_check = self.end_check();
        match copy(storage, object, expected, size, &end_check, write) {
            Ok(digest) => Ok(Some(digest)),
            Err(ObjectCopyError::Missing | ObjectCopyError::Ended) => Ok(None),
            Err(ObjectCopyError::Storage(error)) => {
                self.end_all(error);
                Ok(None)
            }
            Err(ObjectCopyError::Content(reason)) => {
                self.warn_of_entry(object, &reason);
                Ok(None)
            }
            Err(ObjectCopyError::Write(error)) => Err(error),
        }
    }

    fn perform(&self, upload: Upload) {
        if self.is_unwritable.load(Ordering::SeqCst) || self.is_cancelled.load(Ordering::SeqCst) {
            return;
        }
        let Some(storage) = self.open_storage() else { return };
        if let Err(error) = uploads::perform(upload, storage, &self.end_check()) {
            self.end_uploads(error);
        }
    }

    /// Ends the use of the cache in this run after a failure.
    fn end_all(&self, error: io::Error) {
        self.is_unreadable.store(true, Ordering::SeqCst);
        self.is_unwritable.store(true, Ordering::SeqCst);
        self.warn_of_failure("cannot be used, and the run goes on without it", error);
    }

    /// Ends the uploads of this run after a failure.
    fn end_uploads(&self, error: io::Error) {
        self.is_unwritable.store(true, Ordering::SeqCst);
        self.warn_of_failure("cannot be written, and the run uploads nothing more", error);
    }

    fn warn_of_failure(&self, consequence: &str, error: io::Error) {
        let SharedCacheSettings { url, reporter, interrupt_check, .. } = &self.settings;
        let has_ended = self.is_cancelled.load(Ordering::SeqCst) || interrupt_check().is_err();
        if has_ended || self.has_warned_of_failure.swap(true, Ordering::SeqCst) {
            tracing::debug!(%error, url, "the shared cache failed");
            return;
        }
        let error = Error::failure(format!("the cache '{url}' {consequence}")).with_source(error);
        reporter.warn(&error);
    }

    /// Warns once that an entry is not used.
    fn warn_of_entry(&self, object: &str, reason: &str) {
        if self.has_warned_of_entry.swap(true, Ordering::SeqCst) {
            tracing::debug!(object, reason, "an entry of the shared cache is not used");
            return;
        }
        self.settings.reporter.warn(format!(
            "'{object}' in the cache '{}' is not used: {reason}. The run goes on without this entry, and \
             without others that cannot be verified",
            self.settings.url
        ));
    }
}

/// The reason why an object was not copied.
enum ObjectCopyError {
    /// There is no such object.
    Missing,
    /// The run ends.
    Ended,
    /// The storage failed.
    Storage(io::Error),
    /// The object has another content than expected.
    Content(String),
    /// The target failed.
    Write(Error),
}

/// Copies an object to `write` and verifies its digest, and its size if that is known. Returns its digest.
fn copy(
    storage: &dyn SharedStorage,
    object: &str,
    expected: &Digest,
    mut size: Option<u64>,
    end_check: &InterruptCheck,
    write: WritePart<'_>,
) -> Result<Digest, ObjectCopyError> {
    let mut hasher = Hasher::new(&[Algorithm::Sha256, expected.strongest()]);
    let mut offset = 0;
    loop {
        end_check().map_err(|_| ObjectCopyError::Ended)?;
        let part = storage.read(object, offset, PART_BYTES).map_err(ObjectCopyError::Storage)?;
        let ObjectPart { bytes, total } = part.ok_or(ObjectCopyError::Missing)?;
        let end = offset + bytes.len() as u64;
        // The size must not change while the object is read.
        let is_expected = *size.get_or_insert(total) == total && total <= UnpackLimits::default().bytes;
        if !is_expected || end > total || (bytes.is_empty() && total > 0) {
            return Err(ObjectCopyError::Content("it has another size than expected".to_owned()));
        }
        hasher.update(&bytes);
        write(CopiedPart { bytes: &bytes, offset, total }).map_err(ObjectCopyError::Write)?;
        offset = end;
        if offset == total {
            break;
        }
    }
    let digest = hasher.finish();
    expected.check(&digest, "it").map_err(|mismatch| ObjectCopyError::Content(mismatch.to_string()))?;
    Ok(digest)
}

/// Reads the signed digest of a package. Returns `None` if there is no such object, or the reason why it is
/// not used.
fn read_signed_digest(
    storage: &dyn SharedStorage,
    id: &PackageId<'_>,
    trusted_keys: &[VerifyingKey],
) -> io::Result<Option<Result<SharedPackage, String>>> {
    let Some(part) = storage.read(&id.signed_digest_object(), 0, MAX_SIGNED_DIGEST_BYTES)? else {
        return Ok(None);
    };
    let signed_digest = match part.total > MAX_SIGNED_DIGEST_BYTES {
        true => None,
        false => serde_json::from_slice::<SignedDigest>(&part.bytes).ok(),
    };
    let package =
        signed_digest.ok_or_else(|| "it is not a signed digest".to_owned()).and_then(|signed_digest| {
            let digest = signed_digest.verify(id, trusted_keys)?;
            let object = id.archive_object(signed_digest.sha256());
            Ok(SharedPackage { signed_digest, digest, object })
        });
    Ok(Some(package))
}

fn download_object(digest: &Digest) -> String {
    let algorithm = digest.strongest();
    format!("{DOWNLOADS_DIRECTORY}/{}-{}", algorithm.name(), digest.hex(algorithm).unwrap_or_default())
}

/// Returns the digest in the name of a download, without its folder.
fn digest_of_download(name: &str) -> Option<Digest> {
    name.replacen('-', ":", 1).parse().ok()
}

#[cfg(test)]
mod tests;
