//! Downloads artifacts into the [`Cache`], each once: files of `http://` and `https://` URLs, and OCI images
//! (`oci://`).
//!
//! A [`Fetcher`] serves a whole run and several threads. Requests use the proxies of the environment
//! variables. A broken transfer is resumed, by this run or the next one, and then verified as a whole. A file
//! is used only if it has the expected digest.

mod arriving;
mod connection;
mod document;
mod download;
mod image;
mod jumpbox;
mod proxy;
mod redirect;
mod relay;
mod shared_copy;
mod socks5;

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use super::cache::Cache;
use super::digest::{Algorithm, Digest};
use super::http_url::HttpUrl;
use super::shared_cache::SharedCache;
use super::{ArtifactUrl, InterruptCheck, Source};
use arriving::{Arrival, BreakOnDrop};
use base::events::{Reporter, Stage};
use base::files::is_in_place;
use base::{Error, Result};
use connection::ProxyDialer;
use download::Download;
use image::RegistryAccess;
use net::http_client;
use proxy::Proxies;
use rustls::ClientConfig;

pub use arriving::ArrivingFile;
pub use connection::ProxyFailure;
pub use document::fetch_document;
pub use relay::relay;

/// Creates an HTTP client for many small requests, without redirects. Also returns the passwords of its
/// proxies, which must be redacted.
///
/// `env_vars` are environment variables, from which it takes its proxies. `timeout` is for a whole request,
/// which also ends when `interrupt_check` returns an error.
pub fn create_client(
    env_vars: &[(String, String)],
    timeout: Duration,
    interrupt_check: InterruptCheck,
) -> Result<(ureq::Agent, Vec<String>)> {
    let proxies = Proxies::from_variables(env_vars)?;
    let secrets = proxies.secrets();
    let dialer = ProxyDialer::new(proxies, interrupt_check);
    let config = download::client_config().timeout_global(Some(timeout)).max_redirects(0);
    let config = config.max_redirects_will_error(false).build();
    Ok((http_client::create_client_over(config, None, dialer), secrets))
}

/// The proxy or jumpbox of `BOSH_ALL_PROXY`, for connections to an agent. Cheap to clone; clones share the
/// session with the jumpbox.
#[derive(Clone)]
pub struct AgentProxy(ProxyDialer);

impl AgentProxy {
    /// Reads the environment variables `env_vars`. Also returns the passwords of the proxy, which must be
    /// redacted.
    pub fn from_variables(
        env_vars: &[(String, String)],
        interrupt_check: InterruptCheck,
    ) -> Result<Option<(Self, Vec<String>)>> {
        let proxies = Proxies::from_bosh_all_proxy(env_vars)?;
        Ok(proxies.map(|proxies| {
            let secrets = proxies.secrets();
            (AgentProxy(ProxyDialer::new(proxies, interrupt_check)), secrets)
        }))
    }

    /// Creates an HTTP client whose connections go through the proxy. `tls` replaces the TLS settings of
    /// `config`.
    pub fn create_http_client(
        &self,
        config: ureq::config::Config,
        tls: Option<Arc<ClientConfig>>,
    ) -> ureq::Agent {
        http_client::create_client_over(config, tls, self.0.clone())
    }
}

/// Reads a file while it is downloaded.
pub type ReadArriving<'a> = &'a (dyn Fn(ArrivingFile<'_>) + Sync);

/// The pause between attempts to lock a download that another process holds.
const POLL_PAUSE: Duration = Duration::from_millis(100);

/// Downloads artifacts into a cache.
pub struct Fetcher<'c> {
    cache: &'c Cache,
    shared_cache: SharedCache,
    dialer: ProxyDialer,
    /// The HTTP client. The first download creates it, because loading the system's certificate authorities
    /// takes long.
    http: OnceLock<ureq::Agent>,
    secrets: Vec<String>,
    interrupt_check: InterruptCheck,
    is_offline: bool,
}

impl<'c> Fetcher<'c> {
    /// Creates a fetcher that fills `cache` and takes its proxies from the environment variables `env_vars`.
    /// An error names the variable that is not valid.
    pub fn new(
        cache: &'c Cache,
        env_vars: &[(String, String)],
        interrupt_check: InterruptCheck,
    ) -> Result<Self> {
        let proxies = Proxies::from_variables(env_vars)?;
        let secrets = proxies.secrets();
        let dialer = ProxyDialer::new(proxies, Arc::clone(&interrupt_check));
        let shared_cache = SharedCache::default();
        let (http, is_offline) = (OnceLock::new(), false);
        Ok(Fetcher { cache, shared_cache, dialer, http, secrets, interrupt_check, is_offline })
    }

    /// Forbids downloads. A file that is in no cache is then an error.
    #[must_use]
    pub fn offline(self) -> Self {
        Fetcher { is_offline: true, ..self }
    }

    /// Sets the shared cache that is searched before a download, and that gets what was downloaded.
    #[must_use]
    pub fn with_shared_cache(self, shared_cache: &SharedCache) -> Self {
        Fetcher { shared_cache: shared_cache.clone(), ..self }
    }

    /// Returns the passwords of the proxies, which must be redacted.
    pub fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// Returns the artifact as a file or directory on this machine.
    ///
    /// Downloads a remote artifact unless the cache or the shared cache has it, and checks its digest against
    /// `expected`. The stage of a download names `title` ("release 'bosh'"). [`Cache::identify`] checks the
    /// digest of a local artifact.
    pub fn obtain(
        &self,
        url: &ArtifactUrl,
        expected: Option<&Digest>,
        title: &str,
        reporter: &Reporter,
    ) -> Result<Source> {
        self.obtain_and_read(url, expected, title, reporter, None)
    }

    /// Obtains the artifact like [`Self::obtain`]. If it must be downloaded, `read` gets the file while it
    /// arrives, on a thread of its own, and must return when the file ends.
    pub fn obtain_and_read(
        &self,
        url: &ArtifactUrl,
        expected: Option<&Digest>,
        title: &str,
        reporter: &Reporter,
        read: Option<ReadArriving<'_>>,
    ) -> Result<Source> {
        match url {
            ArtifactUrl::Local(path) => Source::local(path),
            ArtifactUrl::Http(url) => {
                Source::from_download(&self.download(url, None, expected, title, reporter, read)?, url)
            }
            ArtifactUrl::Image(url) => self.obtain_image(url, expected, title, reporter),
        }
    }

    /// Returns the file of the cache with this digest, and downloads it first if it is missing. `registry` is
    /// given for a file of an image. Runs that want the same file wait for each other, so that it is
    /// downloaded once.
    fn download(
        &self,
        url: &HttpUrl,
        registry: Option<&RegistryAccess<'_>>,
        expected: Option<&Digest>,
        title: &str,
        reporter: &Reporter,
        read: Option<ReadArriving<'_>>,
    ) -> Result<PathBuf> {
        if let Some(path) = self.find_in_cache(expected)? {
            return Ok(path);
        }
        let stage = reporter.begin_stage(format!("Downloading {title}"));
        let body_path = self.cache.create_partial_path(&format!(
            "{} {}",
            url.with_credentials(),
            expected.map(ToString::to_string).unwrap_or_default()
        ))?;
        let file = self.lock(&body_path, &stage)?;
        // Another process may have downloaded it while this one waited for the lock.
        if let Some(path) = self.find_in_cache(expected)? {
            let _ = fs::remove_file(&body_path);
            stage.skip("another run has downloaded it");
            return Ok(path);
        }
        if let Some(path) = expected.and_then(|expected| self.cache.find(expected)) {
            stage.log_line(format!("'{}' is damaged; downloading it again", path.display()));
            self.cache.discard(&path);
        }
        let http = self.http.get_or_init(|| download::create_client(self.dialer.clone()));
        let arrival = Arrival::default();
        thread::scope(|scope| {
            if let Some(read) = read {
                let arriving_file = ArrivingFile::open(&body_path, &arrival)
                    .map_err(|error| Error::io(format!("opening '{}'", body_path.display()), error))?;
                scope.spawn(move || read(arriving_file));
            }
            // The scope waits for the thread. Its reads fail once the arrival is broken.
            let _break_guard = BreakOnDrop(&arrival);
            let (interrupt_check, arrival) = (&self.interrupt_check, &arrival);
            let download =
                Download { http, url, registry, expected, stage: &stage, interrupt_check, arrival };
            let copied_digest = download.copy_from(&self.shared_cache, &file, &body_path)?;
            let is_copied = copied_digest.is_some();
            if !is_copied && self.is_offline {
                if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
                    let _ = fs::remove_file(&body_path);
                }
                return Err(missing_error(url, expected));
            }
            let digest = copied_digest.map_or_else(|| download.run(&file, &body_path), Ok)?;
            let path = self.cache.keep_download(&body_path, &digest, &url.to_string())?;
            arrival.mark_verified();
            if let Some(expected) = expected.filter(|_| !is_copied) {
                self.shared_cache.upload_download(expected, &path);
            }
            stage.finish();
            Ok(path)
        })
    }

    /// Returns the verified file with this digest from the cache.
    fn find_in_cache(&self, expected: Option<&Digest>) -> Result<Option<PathBuf>> {
        let Some(expected) = expected else { return Ok(None) };
        let Some(path) = self.cache.find(expected) else { return Ok(None) };
        let algorithms = [Algorithm::Sha256, expected.strongest()];
        match self.cache.obtain_digest(&path, &algorithms, &mut |_, _| {}) {
            Ok(digest) if expected.check(&digest, "it").is_ok() => {
                self.cache.touch(&path);
                Ok(Some(path))
            }
            Ok(_) => Ok(None),
            // Another process may have removed it.
            Err(_) if !path.exists() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens and locks the file of an unfinished download. Waits while another process holds the lock.
    fn lock(&self, body_path: &Path, stage: &Stage) -> Result<File> {
        let open_error = |error| Error::io(format!("opening '{}'", body_path.display()), error);
        let mut is_reported = false;
        loop {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(body_path).map_err(open_error)?;
            match file.try_lock() {
                // The previous holder of the lock may have moved the file into the cache.
                Ok(()) if is_in_place(&file, body_path).unwrap_or(false) => return Ok(file),
                Ok(()) => continue,
                // On a file system without locks, the digest still detects a damaged file.
                Err(TryLockError::Error(_)) => return Ok(file),
                Err(TryLockError::WouldBlock) => {}
            }
            if !is_reported {
                is_reported = true;
                stage.log_line("waiting for another run that downloads the same file");
            }
            (self.interrupt_check)()?;
            std::thread::sleep(POLL_PAUSE);
        }
    }
}

/// Returns the error for a file that must not be downloaded.
fn missing_error(url: &HttpUrl, expected: Option<&Digest>) -> Error {
    let error = Error::failure(format!("'{url}' is in no cache, and --offline forbids the download"));
    let error = match expected {
        Some(_) => error,
        None => error
            .with_note("a cache finds a file by its digest, which the manifest lacks")
            .with_hint("add its `sha1` to the manifest"),
    };
    error
        .with_hint("on a machine with a network: `monopile cache export MANIFEST bundle.tgz`")
        .with_hint("then on this machine: `monopile cache import bundle.tgz`")
}

#[cfg(test)]
mod tests;
