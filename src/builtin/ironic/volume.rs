//! Names of volumes, made of the volume's kind and a UUID.

use std::fmt;

use uuid::Uuid;

use crate::cpi::failure::{CpiFailure, FailureKind};

/// The content of a volume.
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
            // LVM reserves volume names that begin with "snapshot".
            VolumeKind::Snapshot => "snap",
        }
    }
}

/// A volume's name, `disk-<uuid>`. It is valid as a file name and as an LVM name. The CID is only the UUID,
/// because the `volume_id` of Ironic has room for 36 characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VolumeName {
    kind: VolumeKind,
    uuid: Uuid,
}

impl VolumeName {
    /// Creates an unused name.
    pub(super) fn new(kind: VolumeKind) -> VolumeName {
        VolumeName { kind, uuid: Uuid::new_v4() }
    }

    /// Returns the name of the volume with this CID, or `None` if the CID is not in the form of this CPI.
    pub(super) fn parse(kind: VolumeKind, cid: &str) -> Option<VolumeName> {
        let uuid = Uuid::try_parse(cid).ok()?;
        // `Uuid` also parses upper case and other forms, which would be different names in the storage.
        (uuid.hyphenated().to_string() == cid).then_some(VolumeName { kind, uuid })
    }

    /// Returns the CID: the UUID in lower case with hyphens, 36 characters.
    pub(super) fn cid(&self) -> String {
        self.uuid.hyphenated().to_string()
    }

    /// Returns `disk-<last 12 digits of the UUID>`: the end of the target's IQN, and the user of its login.
    /// It is short because iPXE has little room for names, see [`super::storage::FIRMWARE_ROOM_BYTES`].
    pub(super) fn short_name(&self) -> String {
        format!("{}-{:012x}", self.kind.prefix(), self.uuid.as_u128() & 0xffff_ffff_ffff)
    }

    /// Returns the error for a volume that does not exist.
    pub(super) fn not_found_error(&self) -> CpiFailure {
        not_found_error(self.kind, &self.cid())
    }
}

/// Returns the error for a CID that does not exist.
pub(super) fn not_found_error(kind: VolumeKind, cid: &str) -> CpiFailure {
    let cid = cid.escape_debug();
    match kind {
        VolumeKind::Stemcell => {
            CpiFailure::new(FailureKind::StemcellNotFound, format!("stemcell '{cid}' not found"))
        }
        VolumeKind::Root | VolumeKind::Config => {
            CpiFailure::new(FailureKind::VmNotFound, format!("VM '{cid}' not found"))
        }
        VolumeKind::Disk => CpiFailure::new(FailureKind::DiskNotFound, format!("disk '{cid}' not found")),
        VolumeKind::Snapshot => CpiFailure::cloud(format!("snapshot '{cid}' not found")),
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.kind.prefix(), self.uuid.hyphenated())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cids_have_36_characters_and_one_spelling() {
        let volume = VolumeName::new(VolumeKind::Disk);
        assert_eq!(volume.cid().len(), 36);
        assert_eq!(VolumeName::parse(VolumeKind::Disk, &volume.cid()), Some(volume));
        assert_eq!(volume.short_name(), format!("disk-{}", &volume.cid()[24..]));
        for bad in ["", "x", "../../etc/passwd", &volume.cid().to_uppercase(), &volume.cid().replace('-', "")]
        {
            assert_eq!(VolumeName::parse(VolumeKind::Disk, bad), None, "{bad}");
        }
    }
}
