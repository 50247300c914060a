//! The objects of a bucket: single requests, with errors that say which object and what to do.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};
use tokio::runtime::Runtime;

use super::http::ServerTime;
use super::settings::Shared;
use crate::{Error, Result};

/// How often a write is made whose outcome is not known.
const ATTEMPTS: u32 = 3;

/// A bucket.
pub(super) struct Objects {
    pub(super) shared: Shared,
    store: Arc<dyn ObjectStore>,
    runtime: Runtime,
}

/// An object as it was read.
pub(super) struct Object {
    pub(super) bytes: Vec<u8>,
    pub(super) version: UpdateVersion,
    /// When it was written, by the server's clock.
    pub(super) written: SystemTime,
    /// What that clock shows now, if the server says so.
    pub(super) now: Option<SystemTime>,
}

/// What a write replaces.
#[derive(Debug, Clone)]
pub(super) enum Over {
    /// Nothing: there must be no such object.
    Nothing,
    /// This version of it and no other.
    This(UpdateVersion),
}

/// What came of a write.
pub(super) enum Written {
    Done(UpdateVersion),
    /// The object is not what was to be replaced.
    Conflict,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

impl Objects {
    pub(super) fn open(shared: &Shared) -> Result<Self> {
        let store = shared.store()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(|error| Error::io("preparing requests to a bucket", error))?;
        Ok(Objects { shared: shared.clone(), store, runtime })
    }

    pub(super) fn url(&self, document: &str) -> String {
        format!("{}{document}", self.shared.address)
    }

    fn path(&self, document: &str) -> io::Result<Path> {
        Path::parse(format!("{}{document}", self.shared.address.key)).map_err(io::Error::other)
    }

    pub(super) fn get(&self, document: &str) -> io::Result<Option<Object>> {
        let path = self.path(document)?;
        let read = self.runtime.block_on(async {
            let found = self.store.get(&path).await?;
            let version =
                UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
            let written = found.meta.last_modified.into();
            let now = found.extensions.get::<ServerTime>().map(|now| now.0);
            let bytes = found.bytes().await?.to_vec();
            Ok(Object { bytes, version, written, now })
        });
        match read {
            Ok(object) => Ok(Some(object)),
            Err(object_store::Error::NotFound { source, .. }) if !is_bucket(&source.to_string()) => Ok(None),
            Err(error) => Err(self.failed("reading", document, &error)),
        }
    }

    /// Writes an object if it is still what is to be replaced.
    pub(super) fn put(&self, document: &str, bytes: &[u8], over: &Over) -> io::Result<Written> {
        let path = self.path(document)?;
        let mode = match over {
            Over::Nothing => PutMode::Create,
            Over::This(version) => PutMode::Update(version.clone()),
        };
        let mut attempt = 0;
        loop {
            attempt += 1;
            let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
            let payload = PutPayload::from(bytes.to_vec());
            let written = self.runtime.block_on(self.store.put_opts(&path, payload, options));
            match written {
                Ok(result) => return Ok(Written::Done(result.into())),
                // That may be an earlier attempt, whose answer did not get here.
                Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                    return Ok(match self.get(document)? {
                        Some(present) if present.bytes == bytes => Written::Done(present.version),
                        _ => Written::Conflict,
                    });
                }
                Err(error @ object_store::Error::Generic { .. }) if attempt < ATTEMPTS => {
                    tracing::warn!(document, %error, "a write to the bucket is tried again");
                    std::thread::sleep(Duration::from_millis(300) * attempt);
                }
                Err(error) => return Err(self.failed("writing", document, &error)),
            }
        }
    }

    /// Removes an object; that it does not exist is as good.
    pub(super) fn delete(&self, document: &str) -> io::Result<()> {
        let path = self.path(document)?;
        match self.runtime.block_on(self.store.delete(&path)) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("removing", document, &error)),
        }
    }

    /// The names below a folder, with when each was written.
    pub(super) fn list(&self, folder: &str) -> io::Result<Vec<(String, SystemTime)>> {
        let path = self.path(folder)?;
        let listed = self.runtime.block_on(self.store.list_with_delimiter(Some(&path)));
        let listed = listed.map_err(|error| self.failed("listing", folder, &error))?;
        let names = listed
            .objects
            .into_iter()
            .filter_map(|object| Some((object.location.filename()?.to_owned(), object.last_modified.into())));
        Ok(names.collect())
    }

    fn failed(&self, doing: &str, document: &str, error: &object_store::Error) -> io::Error {
        use object_store::Error as E;

        let advice = self.shared.advice();
        let mut cause = error.to_string();
        let mut next = std::error::Error::source(error);
        while let Some(source) = next {
            let text = source.to_string();
            if !cause.contains(&text) {
                cause = format!("{cause}: {text}");
            }
            next = source.source();
        }
        let (kind, why) = match error {
            _ if is_bucket(&cause) => (
                io::ErrorKind::NotFound,
                format!(
                    "the bucket '{}' does not exist; create it, or correct its name",
                    self.shared.address.bucket
                ),
            ),
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
                (io::ErrorKind::PermissionDenied, format!("access is denied; {advice}"))
            }
            E::NotImplemented { .. } | E::NotSupported { .. } => (
                io::ErrorKind::Unsupported,
                "the server cannot write on condition, and without that there is no lock".to_owned(),
            ),
            _ => (
                io::ErrorKind::Other,
                format!("the server cannot be reached or does not do as asked; {advice}"),
            ),
        };
        io::Error::new(kind, format!("{doing} '{}': {why}: {cause}", self.url(document)))
    }
}

/// Whether a server says that there is no such bucket.
fn is_bucket(answer: &str) -> bool {
    ["NoSuchBucket", "ContainerNotFound", "bucket does not exist"].iter().any(|said| answer.contains(said))
}
