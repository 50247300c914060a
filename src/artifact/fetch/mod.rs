//! Brings artifacts to this machine: `http://` and `https://` URLs are downloaded into the [`Cache`], once.
//!
//! A [`Fetcher`] serves a whole run, from several threads at once. Requests go the way the proxy variables
//! say; a broken transfer is resumed, by this run or the next, and verified as a whole afterwards. Nothing is
//! used whose digest is not the expected one, wherever it comes from.

mod download;
mod proxy;
mod relay;
mod socks5;
#[cfg(unix)]
mod tunnel;
mod wire;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::cache::Cache;
use super::digest::{Algorithm, Digest};
use super::url::HttpUrl;
use super::{Location, Source};
use base::events::{Reporter, Stage};
use base::{Error, Result};
use download::Download;
use proxy::Proxies;
use ureq::unversioned::transport::{Connector as _, RustlsConnector};
use wire::{Dialer, Unresolved};

pub use relay::relay;

/// An HTTP client for requests that are small, many, and not to be redirected. It goes the way that `variables` (an
/// environment) say, and gives each request `patience`. Also returns what must not be shown: passwords of proxies.
pub fn client(variables: &[(String, String)], patience: Duration) -> Result<(ureq::Agent, Vec<String>)> {
    let proxies = Proxies::from_variables(variables)?;
    let secrets = proxies.secrets();
    let dialer = Dialer::new(proxies, Arc::new(|| Ok(())));
    let config = download::config().timeout_global(Some(patience)).max_redirects(0);
    let config = config.max_redirects_will_error(false).build();
    Ok((ureq::Agent::with_parts(config, dialer.chain(RustlsConnector::default()), Unresolved), secrets))
}

/// Answers with an error when the run is to stop.
pub type Interrupted = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// How often to look whether another process is done with the same download.
const POLL: Duration = Duration::from_millis(100);

/// Downloads artifacts into a cache.
pub struct Fetcher<'c> {
    cache: &'c Cache,
    dialer: Dialer,
    /// Made for the first download: reading whom the operating system trusts takes a run longer than all the rest.
    agent: OnceLock<ureq::Agent>,
    secrets: Vec<String>,
    interrupted: Interrupted,
}

impl<'c> Fetcher<'c> {
    /// A fetcher that fills `cache` and goes the way that `variables` (an environment) say.
    pub fn new(cache: &'c Cache, variables: &[(String, String)], interrupted: Interrupted) -> Result<Self> {
        let proxies = Proxies::from_variables(variables)?;
        let secrets = proxies.secrets();
        let dialer = Dialer::new(proxies, Arc::clone(&interrupted));
        Ok(Fetcher { cache, dialer, agent: OnceLock::new(), secrets, interrupted })
    }

    /// What must not be shown: passwords of proxies.
    pub fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// Makes sure that the artifact is on this machine. A remote one is downloaded, unless the cache has it,
    /// under a stage of its own that names `what` ("release 'bosh'"), and is what `expected` says. A local one
    /// is only looked at: [`Cache::identify`] checks it.
    pub fn obtain(
        &self,
        location: &Location,
        expected: Option<&Digest>,
        what: &str,
        reporter: &Reporter,
    ) -> Result<Source> {
        match location {
            Location::Local(path) => Source::local(path),
            Location::Http(url) => Source::downloaded(&self.download(url, expected, what, reporter)?, url),
        }
    }

    fn download(
        &self,
        url: &HttpUrl,
        expected: Option<&Digest>,
        what: &str,
        reporter: &Reporter,
    ) -> Result<PathBuf> {
        if let Some(path) = self.kept(expected)? {
            return Ok(path);
        }
        let stage = reporter.stage(format!("Downloading {what}"));
        let body = self.cache.partial(&format!(
            "{} {}",
            url.with_credentials(),
            expected.map(ToString::to_string).unwrap_or_default()
        ))?;
        let file = self.lock(&body, &stage)?;
        // Another process may have fetched it while this one waited.
        if let Some(path) = self.kept(expected)? {
            let _ = fs::remove_file(&body);
            stage.skip("another run has downloaded it");
            return Ok(path);
        }
        if let Some(path) = expected.and_then(|expected| self.cache.find(expected)) {
            stage.log_line(format!("'{}' is damaged and is fetched again", path.display()));
            self.cache.discard(&path);
        }
        let agent = self.agent.get_or_init(|| download::agent(self.dialer.clone()));
        let download = Download { agent, url, expected, stage: &stage, interrupted: &self.interrupted };
        let digest = download.run(&file, &body)?;
        let path = self.cache.adopt(&body, &digest, &url.to_string())?;
        stage.finish();
        Ok(path)
    }

    /// The file with this digest that the cache has, verified.
    fn kept(&self, expected: Option<&Digest>) -> Result<Option<PathBuf>> {
        let Some(expected) = expected else { return Ok(None) };
        let Some(path) = self.cache.find(expected) else { return Ok(None) };
        let wanted = [Algorithm::Sha256, expected.strongest()];
        match self.cache.digest(&path, &wanted, &mut |_, _| {}) {
            Ok(digest) if expected.check(&digest, "it").is_ok() => {
                self.cache.touch(&path);
                Ok(Some(path))
            }
            Ok(_) => Ok(None),
            // Pruned a moment ago, perhaps.
            Err(_) if !path.exists() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the file that is to be downloaded, when no other process is at it.
    fn lock(&self, body: &Path, stage: &Stage) -> Result<File> {
        let failed = |error| Error::io(format!("opening '{}'", body.display()), error);
        let mut told = false;
        loop {
            let mut options = File::options();
            let file =
                options.read(true).write(true).create(true).truncate(false).open(body).map_err(failed)?;
            match file.try_lock() {
                // The one before may have moved the file away.
                Ok(()) if same_file(&file, body) => return Ok(file),
                Ok(()) => continue,
                // Without locks, digests still keep what is wrong out.
                Err(TryLockError::Error(_)) => return Ok(file),
                Err(TryLockError::WouldBlock) => {}
            }
            if !told {
                told = true;
                stage.log_line("another run is downloading it; waiting");
            }
            (self.interrupted)()?;
            std::thread::sleep(POLL);
        }
    }
}

#[cfg(unix)]
fn same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    matches!((file.metadata().map(id), fs::metadata(path).map(id)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(not(unix))]
fn same_file(_: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests;
