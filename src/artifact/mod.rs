//! Locates, verifies and unpacks stemcells and releases; digests; the rules for hostile archives.
//!
//! A manifest's `url` becomes a [`Location`]; [`Location::obtain`] makes a [`Source`] of it, a file or a
//! directory on this machine, downloading where necessary. [`stemcell::open`] and [`release::open`] verify
//! and unpack a source; [`stemcell::identify`] and [`release::identify`] only say what it is, which is
//! enough to see that nothing changed.
//!
//! ```no_run
//! # fn f(stage: &monopile::ui::Stage, work: &std::path::Path) -> monopile::Result<()> {
//! use monopile::artifact::{Digest, Location, release};
//! let location = Location::parse("file://hello.tgz", work, None)?;
//! let expected: Digest = "a9993e364706816aba3e25717850c26c9cd0d89d".parse()?;
//! let source = location.obtain(Some(&expected), work, stage)?;
//! let release = release::open(&source, Some(&expected), work, stage)?;
//! for level in release.package_levels(&["hello"])? {
//!     for package in level { /* independent of each other: compile at once */ }
//! }
//! # Ok(()) }
//! ```

pub mod archive;
pub mod digest;
mod documents;
mod fetch;
mod location;
pub mod release;
mod source_form;
pub mod stemcell;
mod url;

#[cfg(test)]
#[path = "../../tests/it/support/tarballs.rs"]
pub(crate) mod tarballs;

pub use digest::{Algorithm, Digest};
pub use location::{Identity, Location, Source, Stamp};
pub use release::Release;
pub use stemcell::Stemcell;
pub use url::HttpUrl;

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::Arc;

    use crate::ui::{Event, Reporter, Sink, Stage};

    struct Silent;

    impl Sink for Silent {
        fn emit(&self, _event: &Event) {}
    }

    /// A stage nobody looks at.
    pub(crate) fn stage() -> Stage {
        Reporter::new(Arc::new(Silent)).stage("testing")
    }
}
