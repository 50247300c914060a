//! A shared cache in a bucket. Its objects are larger than documents of a state, so they are read and written
//! in parts.

use std::future::Future;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use object_store::path::Path;
use object_store::{GetOptions, GetRange, MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};

use super::address::BucketPrefix;
use super::bucket_client::{BucketClient, is_missing_bucket};
use super::http::run_until;
use super::settings::BucketSettings;
use artifact::InterruptCheck;
use artifact::shared_cache::{ObjectPart, SharedStorage, StoredObject};
use base::Result;
use base::redact::Redactor;
use base::text::format_duration;

/// The number of bytes that one request writes: the fewest that services accept.
const PART_BYTES: u64 = 5 << 20;

/// The timeout of reading or writing one part, with all attempts.
pub const SHARED_CACHE_PART_TIMEOUT: Duration = Duration::from_secs(10);

/// The objects of a shared cache below a prefix of a bucket.
#[derive(Debug)]
pub struct SharedBucket {
    client: BucketClient,
}

impl SharedBucket {
    /// Creates the access to the objects below `prefix`. Makes no request. Adds the secrets among `env_vars`
    /// to the redactor.
    pub fn open(
        prefix: &BucketPrefix,
        env_vars: &[(String, String)],
        interrupt_check: InterruptCheck,
        redactor: &Redactor,
    ) -> Result<Self> {
        let BucketPrefix(address) = prefix;
        let key = if address.key.is_empty() { String::new() } else { format!("{}/", address.key) };
        let settings = BucketSettings::new(address.sibling(&key), env_vars, None, redactor);
        let client = BucketClient::open(&settings.with_interruption(interrupt_check))?;
        Ok(SharedBucket { client })
    }

    /// Runs requests that are repeated after a failure for a limited time.
    fn run<T>(
        &self,
        action: &str,
        object: &str,
        requests: impl Future<Output = object_store::Result<T>>,
    ) -> io::Result<object_store::Result<T>> {
        let requests = run_until(Instant::now() + SHARED_CACHE_PART_TIMEOUT, requests);
        let answer = self.client.run_request(async {
            // The library also sleeps between attempts.
            Ok(tokio::time::timeout(SHARED_CACHE_PART_TIMEOUT, requests).await.ok())
        })?;
        let timeout_error = || {
            let (url, timeout) = (self.client.url(object), format_duration(SHARED_CACHE_PART_TIMEOUT));
            io::Error::new(io::ErrorKind::TimedOut, format!("{action} '{url}': no answer within {timeout}"))
        };
        answer.ok().flatten().ok_or_else(timeout_error)
    }

    /// Like [`Self::run`], for requests that write.
    fn run_write<T>(
        &self,
        object: &str,
        requests: impl Future<Output = object_store::Result<T>>,
    ) -> io::Result<T> {
        self.run("writing", object, requests)?
            .map_err(|error| self.client.storage_error("writing", object, &error))
    }

    fn write_parts(
        &self,
        object: &str,
        upload: &mut Box<dyn MultipartUpload>,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        loop {
            let part = read_part(content)?;
            if part.is_empty() {
                return self.run_write(object, upload.complete()).map(drop);
            }
            self.run_write(object, upload.put_part(PutPayload::from(part)))?;
        }
    }
}

impl SharedStorage for SharedBucket {
    fn read(&self, object: &str, offset: u64, length: u64) -> io::Result<Option<ObjectPart>> {
        let path = self.client.path(object)?;
        let range = Some(GetRange::Bounded(offset..offset.saturating_add(length)));
        let read = self.run("reading", object, async {
            let answer =
                self.client.store.get_opts(&path, GetOptions { range, ..Default::default() }).await?;
            let total = answer.meta.size;
            let bytes = answer.bytes().await?.to_vec();
            Ok(ObjectPart { bytes, total })
        })?;
        match read {
            Ok(part) => Ok(Some(part)),
            Err(object_store::Error::NotFound { source, .. }) if !is_missing_bucket(&source.to_string()) => {
                Ok(None)
            }
            Err(error) => Err(self.client.storage_error("reading", object, &error)),
        }
    }

    fn write(&self, object: &str, content: &mut dyn Read, size: u64) -> io::Result<()> {
        let path: Path = self.client.path(object)?;
        if size <= PART_BYTES {
            let bytes = read_part(content)?;
            return self.run_write(object, self.client.store.put(&path, PutPayload::from(bytes))).map(drop);
        }
        let mut upload = self.run_write(object, self.client.store.put_multipart(&path))?;
        self.write_parts(object, &mut upload, content).inspect_err(|_| {
            // Services keep the parts of an upload that is neither completed nor aborted. The first error is
            // the one to report.
            let _ = self.run_write(object, upload.abort());
        })
    }

    fn list(&self, folder: &str) -> io::Result<Vec<StoredObject>> {
        let path = self.client.path(folder)?;
        let listing = self.client.run_request(self.client.store.list_with_delimiter(Some(&path)))?;
        let listing = listing.map_err(|error| self.client.storage_error("listing", folder, &error))?;
        let objects = listing.objects.into_iter().filter_map(|object| {
            let name = object.location.filename()?.to_owned();
            Some(StoredObject { name, size: object.size, write_time: object.last_modified.into() })
        });
        Ok(objects.collect())
    }

    fn remove(&self, object: &str) -> io::Result<()> {
        self.client.delete(object, None).map(drop)
    }
}

/// Reads the next [`PART_BYTES`], or fewer at the end.
fn read_part(content: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    content.take(PART_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
