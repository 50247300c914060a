//! Compares records with the artifacts of a manifest.

use super::records::{ReleaseRecord, State, StemcellRecord};
use artifact::ArtifactIdentity;

/// The result of comparing a record with an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityMatch {
    /// The record describes this artifact.
    Same,
    /// Name and version match, but the content differs.
    OtherContent,
    /// The name or the version differs.
    Other,
}

impl IdentityMatch {
    /// Compares a record with an artifact. A record without a digest, as other tools write it, matches by
    /// name and version.
    fn of(name: &str, version: &str, digest: Option<&str>, identity: &ArtifactIdentity) -> Self {
        match digest {
            _ if name != identity.name || version != identity.version => IdentityMatch::Other,
            Some(digest) if digest != identity.digest.to_string() => IdentityMatch::OtherContent,
            _ => IdentityMatch::Same,
        }
    }
}

impl StemcellRecord {
    /// Compares the record with an artifact.
    pub fn compare(&self, identity: &ArtifactIdentity) -> IdentityMatch {
        IdentityMatch::of(&self.name, &self.version, self.digest.as_deref(), identity)
    }
}

impl ReleaseRecord {
    /// Compares the record with an artifact.
    pub fn compare(&self, identity: &ArtifactIdentity) -> IdentityMatch {
        IdentityMatch::of(&self.name, &self.version, self.digest.as_deref(), identity)
    }
}

impl State {
    /// Finds the newest record of this stemcell at a CPI. `upload-stemcell --fix` leaves an older record
    /// while the VM is made from it.
    pub fn stemcell_at(&self, cpi: Option<&str>, identity: &ArtifactIdentity) -> Option<&StemcellRecord> {
        let mut at_cpi = self.stemcells.iter().rev().filter(|record| record.cpi.as_deref() == cpi);
        at_cpi.find(|record| record.compare(identity) == IdentityMatch::Same)
    }

    /// Returns true if a CPI has another stemcell under the same name and version.
    pub fn has_other_content_at(&self, cpi: Option<&str>, identity: &ArtifactIdentity) -> bool {
        let mut at_cpi = self.stemcells.iter().filter(|record| record.cpi.as_deref() == cpi);
        at_cpi.any(|record| record.compare(identity) == IdentityMatch::OtherContent)
    }
}
