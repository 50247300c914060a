//! Stemcells and releases: downloads, digests, the cache, and safe unpacking of untrusted archives.
//!
//! Entry points, in the order of use:
//!
//! 1. [`ArtifactUrl::parse`] reads the `url` of a manifest.
//! 2. [`Fetcher::obtain`] turns it into a [`Source`], a file or directory on this machine. It downloads into
//!    the [`Cache`] if necessary, or copies from a [`SharedCache`].
//! 3. [`Cache::identify`] returns the name, version and digest. It does not read a file again that has not
//!    changed.
//! 4. [`stemcell::open`] and [`release::open`] verify and unpack.
//!
//! ```no_run
//! # fn f(reporter: &base::events::Reporter, work: &std::path::Path) -> base::Result<()> {
//! use artifact::{Cache, Digest, Fetcher, ArtifactKind, ArtifactUrl, release};
//! let cache = Cache::open(&work.join("cache"))?;
//! let fetcher = Fetcher::new(&cache, &[], std::sync::Arc::new(|| Ok(())))?;
//! let url = ArtifactUrl::parse("https://example.com/hello.tgz", work, None)?;
//! let expected: Digest = "a9993e364706816aba3e25717850c26c9cd0d89d".parse()?;
//! let title = "release 'hello'";
//! let source = fetcher.obtain(&url, Some(&expected), title, reporter)?;
//! let identity = cache.identify(ArtifactKind::Release, &source, Some(&expected), title, reporter)?;
//! let stage = reporter.begin_stage("Unpacking");
//! let release = release::open(&source, Some(&expected), work, &stage)?;
//! for level in release.package_levels(&["hello"])? {
//!     for package in level { /* independent of each other: compile at once */ }
//! }
//! # Ok(()) }
//! ```

pub mod archive;
pub mod cache;
pub mod digest;
pub mod disk_image;
mod docker_login;
mod documents;
mod fetch;
mod http_url;
mod image_url;
pub mod inspect;
pub mod limits;
mod oci;
mod read_ahead;
pub mod release;
pub mod rewrite;
pub mod shared_cache;
mod source;
mod source_form;
pub mod stemcell;
pub mod timeouts;
mod url;
pub mod userland;

#[cfg(test)]
#[path = "../../tests/it/support/tarballs.rs"]
pub(crate) mod tarballs;

#[cfg(test)]
#[path = "../../tests/it/support/hostile.rs"]
pub(crate) mod hostile;

#[cfg(test)]
#[path = "../../tests/it/support/http.rs"]
pub(crate) mod http;

use std::sync::Arc;

use base::Result;

pub use cache::{ArtifactKind, Cache};
pub use digest::{Algorithm, Digest, ParseDigestError};
pub use fetch::{
    AgentProxy, ArrivingFile, Fetcher, ProxyFailure, ReadArriving, create_client, fetch_document, relay,
};
pub use http_url::HttpUrl;
pub use image_url::ImageUrl;
pub use release::Release;
pub use shared_cache::SharedCache;
pub use source::{ArtifactIdentity, ImageBlob, Source, Stamp};
pub use stemcell::Stemcell;
pub use url::{ArtifactUrl, url_problem};
pub use userland::Userland;

/// Returns the error with which the run stops, if it was interrupted.
pub type InterruptCheck = Arc<dyn Fn() -> Result<()> + Send + Sync>;

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::Arc;

    use super::{ArtifactIdentity, ArtifactKind, Cache, Source};
    use base::Result;
    use base::events::{Event, Reporter, Sink, Stage};

    struct Silent;

    impl Sink for Silent {
        fn receive(&self, _event: &Event) {}
    }

    /// Identifies a source with an empty cache.
    pub(crate) fn identify(kind: ArtifactKind, source: &Source) -> Result<ArtifactIdentity> {
        let directory = tempfile::tempdir().unwrap();
        let reporter = Reporter::new(Arc::new(Silent));
        Cache::open(directory.path())?.identify(kind, source, None, "it", &reporter)
    }

    /// Returns a stage whose events are discarded.
    pub(crate) fn stage() -> Stage {
        Reporter::new(Arc::new(Silent)).begin_stage("testing")
    }
}
