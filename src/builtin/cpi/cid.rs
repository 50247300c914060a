//! Cloud IDs: a prefix for the kind of object, and a UUID. They become directory names, so no other text is
//! accepted.

use uuid::Uuid;

use super::args::Arguments;
use super::failure::{CpiFailure, CpiResult, FailureKind};

/// The kinds of objects. Each kind has its own directory in the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Stemcell,
    Vm,
    Disk,
    Snapshot,
}

impl ObjectKind {
    /// All kinds, in the order in which they are created.
    pub(crate) const ALL: [ObjectKind; 4] =
        [ObjectKind::Stemcell, ObjectKind::Vm, ObjectKind::Disk, ObjectKind::Snapshot];

    fn prefix(self) -> &'static str {
        match self {
            ObjectKind::Stemcell => "stemcell-",
            ObjectKind::Vm => "vm-",
            ObjectKind::Disk => "disk-",
            ObjectKind::Snapshot => "snapshot-",
        }
    }

    /// Returns the directory of the kind, below the cloud's root.
    pub(crate) fn directory(self) -> &'static str {
        match self {
            ObjectKind::Stemcell => "stemcells",
            ObjectKind::Vm => "vms",
            ObjectKind::Disk => "disks",
            ObjectKind::Snapshot => "snapshots",
        }
    }

    /// Returns the word for the kind, for messages.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            ObjectKind::Stemcell => "stemcell",
            ObjectKind::Vm => "VM",
            ObjectKind::Disk => "disk",
            ObjectKind::Snapshot => "snapshot",
        }
    }

    /// Creates an unused CID.
    pub(crate) fn new_cid(self) -> Cid {
        Cid { kind: self, text: format!("{}{}", self.prefix(), Uuid::new_v4().hyphenated()) }
    }

    /// Parses a CID. Returns `None` if it is not in the form of this CPI.
    pub(crate) fn parse(self, text: &str) -> Option<Cid> {
        let id = text.strip_prefix(self.prefix())?;
        let uuid = Uuid::try_parse(id).ok()?;
        // `Uuid` also parses other spellings, which would be different file names.
        (uuid.hyphenated().to_string() == id).then(|| Cid { kind: self, text: text.to_owned() })
    }

    /// Returns the error for a CID that does not exist.
    pub(crate) fn not_found_error(self, cid: &str) -> CpiFailure {
        let kind = match self {
            ObjectKind::Stemcell => FailureKind::StemcellNotFound,
            ObjectKind::Vm => FailureKind::VmNotFound,
            ObjectKind::Disk => FailureKind::DiskNotFound,
            // The contract has no error type for snapshots.
            ObjectKind::Snapshot => FailureKind::Cloud,
        };
        CpiFailure::new(kind, format!("{} '{cid}' not found", self.noun()))
    }
}

/// A well-formed CID. An object with this CID need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cid {
    kind: ObjectKind,
    text: String,
}

impl Cid {
    pub(crate) fn kind(&self) -> ObjectKind {
        self.kind
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the error for a CID that does not exist.
    pub(crate) fn not_found_error(&self) -> CpiFailure {
        self.kind.not_found_error(&self.text)
    }
}

impl std::fmt::Display for Cid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Arguments<'_> {
    /// Takes a CID. The inner error is the text of a malformed CID, which callers treat like an unknown one.
    pub(crate) fn take_cid(&mut self, kind: ObjectKind) -> CpiResult<Result<Cid, String>> {
        let text = self.take_string(match kind {
            ObjectKind::Stemcell => "stemcell_cid",
            ObjectKind::Vm => "vm_cid",
            ObjectKind::Disk => "disk_cid",
            ObjectKind::Snapshot => "snapshot_cid",
        })?;
        Ok(kind.parse(&text).ok_or(text))
    }

    /// Takes a CID. Fails with "not found" if it is malformed.
    pub(crate) fn take_own_cid(&mut self, kind: ObjectKind) -> CpiResult<Cid> {
        self.take_cid(kind)?.map_err(|text| kind.not_found_error(&text).before_any_effect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_cid_can_be_parsed() {
        for kind in ObjectKind::ALL {
            let cid = kind.new_cid();
            assert_eq!(kind.parse(cid.as_str()), Some(cid));
        }
    }

    #[test]
    fn rejects_malformed_cids() {
        let good = ObjectKind::Vm.new_cid();
        let upper = good.as_str().to_uppercase();
        for text in ["", "vm-", "vm-..", "../vm-x", "i-12345", upper.as_str(), "vm-{}", &format!("{good}/..")]
        {
            assert_eq!(ObjectKind::Vm.parse(text), None, "{text}");
        }
        assert_eq!(ObjectKind::Disk.parse(good.as_str()), None);
    }

    #[test]
    fn foreign_cids_are_not_found() {
        let mut arguments = Arguments::new("m", vec!["../../etc".into()], 1, 1).unwrap();
        assert_eq!(arguments.take_own_cid(ObjectKind::Disk).unwrap_err().kind, FailureKind::DiskNotFound);
    }
}
