//! Identifies stemcells and releases, from the cache if their files have not changed.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::Cache;
use super::digests::{ArtifactName, DigestEntry};
use crate::digest::{Algorithm, Digest};
use crate::{ArtifactIdentity, Source, Stamp, Stemcell, release, source_form, stemcell};
use base::Result;
use base::events::{Reporter, Unit};
use base::files::input;

/// The minimum size in bytes of a file whose reading is shown as a stage.
const MIN_STAGE_BYTES: u64 = 64 << 20;

/// The kind of an artifact, in the index of digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// A release.
    Release,
    /// A stemcell.
    Stemcell,
}

impl ArtifactKind {
    fn name(self) -> &'static str {
        match self {
            ArtifactKind::Release => "release",
            ArtifactKind::Stemcell => "stemcell",
        }
    }
}

impl Cache {
    /// Returns the name, version and digest of a source, and checks its digest against `expected`.
    ///
    /// A tarball with an unchanged stamp is not read again. The stage shows `title` ("release 'bosh'").
    pub fn identify(
        &self,
        kind: ArtifactKind,
        source: &Source,
        expected: Option<&Digest>,
        title: &str,
        reporter: &Reporter,
    ) -> Result<ArtifactIdentity> {
        if source.is_directory {
            source.refuse_digest(kind.name(), expected)?;
            let source_name = source.describe(kind.name());
            return match kind {
                ArtifactKind::Release => source_form::release::identify(&source.path, &source_name),
                ArtifactKind::Stemcell => stemcell::source_form::identify(&source.path, &source_name),
            };
        }
        let algorithms = algorithms(expected);
        let read_error = |error| input::read_error(kind.name(), &source.path, error);
        let stamp = Stamp::of(&source.path).map_err(read_error)?;
        let entry = self.lookup(&stamp);
        let stage = needs_long_read(&stamp, entry.as_ref(), &algorithms)
            .then(|| reporter.begin_stage(format!("Reading {title}")));
        let digest = self.obtain_digest(&source.path, &algorithms, &mut |bytes, total| {
            if let Some(stage) = &stage {
                stage.report_progress(bytes, Some(total), Unit::Bytes);
            }
        })?;
        if let Some(expected) = expected {
            expected.check_with_hint(&digest, &source.describe(kind.name()))?;
        }
        if let Some(stage) = stage {
            stage.finish();
        }
        let entry = self.lookup(&stamp);
        let name_and_version = entry
            .as_ref()
            .and_then(|entry| entry.artifact.as_ref())
            .filter(|name_and_version| name_and_version.kind == kind);
        let (name, version) = match name_and_version {
            Some(name_and_version) => (name_and_version.name.clone(), name_and_version.version.clone()),
            None => match kind {
                ArtifactKind::Release => release::read_name_and_version(source)?,
                ArtifactKind::Stemcell => stemcell::read_name_and_version(source)?,
            },
        };
        if let Some(entry) = &entry
            && name_and_version.is_none()
        {
            let artifact = Some(ArtifactName { kind, name: name.clone(), version: version.clone() });
            self.store(&DigestEntry { artifact, ..entry.clone() });
        }
        let digest = digest.part_for(Algorithm::Sha256).unwrap_or(digest);
        Ok(ArtifactIdentity { name, version, digest, stamp: Some(stamp) })
    }

    /// Returns true if [`Cache::identify`] would have to read a large tarball.
    pub fn takes_long(&self, source: &Source, expected: Option<&Digest>) -> bool {
        let stamp = source.stamp();
        stamp
            .is_some_and(|stamp| needs_long_read(&stamp, self.lookup(&stamp).as_ref(), &algorithms(expected)))
    }

    /// Stores the identity of a stemcell whose unpacking began at `start`. Its tarball is then not read
    /// again.
    pub fn store_stemcell_identity(&self, stemcell: &Stemcell, start: SystemTime) {
        if let Some(stamp) = &stemcell.stamp {
            let (name, version) = (stemcell.name.clone(), stemcell.version.clone());
            self.store_if_unchanged(
                stamp,
                start,
                &stemcell.digest,
                Some(ArtifactName { kind: ArtifactKind::Stemcell, name, version }),
            );
        }
    }
}

/// Returns the algorithms for a tarball: SHA-256 and the strongest of `expected`.
fn algorithms(expected: Option<&Digest>) -> Vec<Algorithm> {
    let mut algorithms = vec![Algorithm::Sha256];
    algorithms.extend(expected.map(Digest::strongest));
    algorithms
}

/// Returns true if the file is large and the cache lacks its digest with one of `algorithms`.
fn needs_long_read(stamp: &Stamp, entry: Option<&DigestEntry>, algorithms: &[Algorithm]) -> bool {
    let lacks_digest =
        |entry: &DigestEntry| algorithms.iter().any(|algorithm| entry.digest.hex(*algorithm).is_none());
    stamp.size >= MIN_STAGE_BYTES && entry.is_none_or(lacks_digest)
}
