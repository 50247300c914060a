//! Names of volumes: what they are, and a UUID.

use std::fmt;

use uuid::Uuid;

use crate::cpi::failure::{Failure, FailureKind};

/// What a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VolumeKind {
    Stemcell,
    Root,
    Config,
    Disk,
    Snapshot,
}

impl VolumeKind {
    fn prefix(self) -> &'static str {
        match self {
            VolumeKind::Stemcell => "stemcell",
            VolumeKind::Root => "root",
            VolumeKind::Config => "config",
            VolumeKind::Disk => "disk",
            // LVM keeps names that begin with "snapshot" for itself.
            VolumeKind::Snapshot => "snap",
        }
    }
}

/// A volume's name, `disk-<uuid>`: a file name, an LVM name. Its CID is the UUID alone, because Ironic
/// has room for 36 characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Volume {
    kind: VolumeKind,
    uuid: Uuid,
}

impl Volume {
    /// A volume that nothing has the name of yet.
    pub(super) fn new(kind: VolumeKind) -> Volume {
        Volume { kind, uuid: Uuid::new_v4() }
    }

    /// The volume with this CID; `None` when this CPI cannot have made it.
    pub(super) fn parse(kind: VolumeKind, cid: &str) -> Option<Volume> {
        let uuid = Uuid::try_parse(cid).ok()?;
        // One spelling only.
        (uuid.hyphenated().to_string() == cid).then_some(Volume { kind, uuid })
    }

    /// The CID.
    pub(super) fn cid(&self) -> String {
        self.uuid.hyphenated().to_string()
    }

    /// What machines know it by, `disk-<end of the uuid>`: the end of an IQN, and who logs in. iPXE has little room for
    /// such names, see [`super::storage::FIRMWARE_ROOM`].
    pub(super) fn short(&self) -> String {
        format!("{}-{:012x}", self.kind.prefix(), self.uuid.as_u128() & 0xffff_ffff_ffff)
    }

    /// The error that says it does not exist.
    pub(super) fn not_found(&self) -> Failure {
        not_found(self.kind, &self.cid())
    }
}

/// The error that says that nothing has this CID.
pub(super) fn not_found(kind: VolumeKind, cid: &str) -> Failure {
    let cid = cid.escape_debug();
    match kind {
        VolumeKind::Stemcell => {
            Failure::new(FailureKind::StemcellNotFound, format!("stemcell '{cid}' not found"))
        }
        VolumeKind::Root | VolumeKind::Config => {
            Failure::new(FailureKind::VmNotFound, format!("VM '{cid}' not found"))
        }
        VolumeKind::Disk => Failure::new(FailureKind::DiskNotFound, format!("disk '{cid}' not found")),
        VolumeKind::Snapshot => Failure::cloud(format!("snapshot '{cid}' not found")),
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.kind.prefix(), self.uuid.hyphenated())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cid_fits_and_has_one_spelling() {
        let volume = Volume::new(VolumeKind::Disk);
        assert_eq!(volume.cid().len(), 36);
        assert_eq!(Volume::parse(VolumeKind::Disk, &volume.cid()), Some(volume));
        assert_eq!(volume.short(), format!("disk-{}", &volume.cid()[24..]));
        for bad in ["", "x", "../../etc/passwd", &volume.cid().to_uppercase(), &volume.cid().replace('-', "")]
        {
            assert_eq!(Volume::parse(VolumeKind::Disk, bad), None, "{bad}");
        }
    }
}
