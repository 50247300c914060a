//! What CPI calls do to the world, and how their answers change the state.
//!
//! An effect is announced in the journal with everything needed to record its outcome, so that the run that
//! reads the answer may be another one than the run that asked.

use serde::{Deserialize, Serialize};

use crate::cpi::{Answer, CpiError, CpiErrorKind, CreatedVm, Method};
use crate::state::{Change, Disk, Handle, Kind, Snapshot, Stemcell, Suspect, Vm, in_iaas};

/// A call that changes the world. Records hold an empty CID until the CPI has said it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub(crate) enum Effect {
    /// `create_stemcell`.
    CreateStemcell {
        /// What will be recorded.
        record: Stemcell,
    },
    /// `create_vm`.
    CreateVm {
        /// What will be recorded.
        record: Vm,
    },
    /// `delete_vm`.
    DeleteVm(Handle),
    /// `create_disk`.
    CreateDisk {
        /// What will be recorded.
        record: Disk,
    },
    /// `attach_disk`.
    AttachDisk {
        /// The VM's CID.
        vm: String,
        /// The disk.
        #[serde(flatten)]
        disk: Handle,
    },
    /// `detach_disk`.
    DetachDisk {
        /// The VM's CID.
        vm: String,
        /// The disk.
        #[serde(flatten)]
        disk: Handle,
    },
    /// `delete_disk`.
    DeleteDisk(Handle),
    /// `snapshot_disk`.
    SnapshotDisk {
        /// What will be recorded.
        record: Snapshot,
    },
    /// `delete_snapshot`.
    DeleteSnapshot(Handle),
    /// `delete_stemcell`.
    DeleteStemcell(Handle),
}

impl Effect {
    /// The deletion of something on record.
    pub(crate) fn delete(what: Kind, handle: Handle) -> Self {
        match what {
            Kind::Vm => Effect::DeleteVm(handle),
            Kind::Disk => Effect::DeleteDisk(handle),
            Kind::Stemcell => Effect::DeleteStemcell(handle),
            Kind::Snapshot => Effect::DeleteSnapshot(handle),
        }
    }

    /// The name of the CPI that it is on record with; none for the default CPI.
    pub(crate) fn cpi(&self) -> Option<&str> {
        match self {
            Effect::CreateStemcell { record } => record.cpi.as_deref(),
            Effect::CreateVm { record } => record.cpi.as_deref(),
            Effect::CreateDisk { record } => record.cpi.as_deref(),
            Effect::SnapshotDisk { record } => record.cpi.as_deref(),
            Effect::AttachDisk { disk: handle, .. }
            | Effect::DetachDisk { disk: handle, .. }
            | Effect::DeleteVm(handle)
            | Effect::DeleteDisk(handle)
            | Effect::DeleteSnapshot(handle)
            | Effect::DeleteStemcell(handle) => handle.cpi(),
        }
    }

    /// The CPI method.
    pub(crate) fn method(&self) -> Method {
        match self {
            Effect::CreateStemcell { .. } => Method::CreateStemcell,
            Effect::CreateVm { .. } => Method::CreateVm,
            Effect::DeleteVm(_) => Method::DeleteVm,
            Effect::CreateDisk { .. } => Method::CreateDisk,
            Effect::AttachDisk { .. } => Method::AttachDisk,
            Effect::DetachDisk { .. } => Method::DetachDisk,
            Effect::DeleteDisk(_) => Method::DeleteDisk,
            Effect::SnapshotDisk { .. } => Method::SnapshotDisk,
            Effect::DeleteSnapshot(_) => Method::DeleteSnapshot,
            Effect::DeleteStemcell(_) => Method::DeleteStemcell,
        }
    }

    /// Whether something may exist that nobody knows of when the answer is lost. The other effects are about
    /// things on record and are simply repeated.
    pub(crate) fn creates(&self) -> bool {
        matches!(
            self,
            Effect::CreateStemcell { .. }
                | Effect::CreateVm { .. }
                | Effect::CreateDisk { .. }
                | Effect::SnapshotDisk { .. }
        )
    }

    /// What a lost call may have made looks like.
    fn looks_like(&self) -> String {
        match self {
            Effect::CreateVm { record } => format!("a VM whose agent id is {}", record.agent_id),
            Effect::CreateDisk { record } => format!("an unattached disk of {} MiB", record.size),
            Effect::CreateStemcell { record } => format!("an image of {}/{}", record.name, record.version),
            Effect::SnapshotDisk { record } => format!("a snapshot of disk '{}'", record.disk),
            other => format!("whatever `{}` touches", other.method()),
        }
    }

    /// How to find what a lost call may have made.
    pub(crate) fn how_to_find(&self) -> String {
        in_iaas(&self.looks_like(), self.cpi())
    }

    /// What the effect may have left behind although the CPI answered with this error. A CPI is believed that it lacks
    /// the method, or cannot do this; any other error may have come after the deed.
    pub(crate) fn suspect(&self, error: &CpiError, hide: &dyn Fn(&str) -> String) -> Option<Suspect> {
        let CpiError::Answered { request_id, kind, message, .. } = error else { return None };
        if matches!(kind, CpiErrorKind::NotImplemented | CpiErrorKind::NotSupported) {
            return None;
        }
        let (what, agent_id) = match self {
            Effect::CreateVm { record } => (Kind::Vm, Some(record.agent_id.clone())),
            Effect::CreateDisk { .. } => (Kind::Disk, None),
            Effect::CreateStemcell { .. } => (Kind::Stemcell, None),
            Effect::SnapshotDisk { .. } => (Kind::Snapshot, None),
            _ => return None,
        };
        Some(Suspect {
            what,
            request_id: request_id.clone(),
            cpi: self.cpi().map(str::to_owned),
            agent_id,
            looks_like: self.looks_like(),
            said: hide(message),
            since: base::encoding::now(),
        })
    }

    /// The changes that the answer means; one to another method is described instead.
    pub(crate) fn changes(&self, answer: &Answer) -> Result<Vec<Change>, String> {
        Ok(match (self, answer) {
            (Effect::CreateStemcell { record }, Answer::Cid(cid)) => {
                vec![Change::StemcellCreated(Stemcell { cid: cid.clone(), ..record.clone() })]
            }
            (Effect::CreateVm { record }, Answer::Vm(CreatedVm { cid, networks })) => {
                let made = Vm { cid: cid.clone(), networks: networks.clone(), ..record.clone() };
                vec![Change::VmCreated(Box::new(made))]
            }
            (Effect::CreateDisk { record }, Answer::Cid(cid)) => {
                vec![Change::DiskCreated(Disk { cid: cid.clone(), ..record.clone() })]
            }
            (Effect::SnapshotDisk { record }, Answer::Cid(cid)) => {
                vec![Change::SnapshotCreated(Snapshot { cid: cid.clone(), ..record.clone() })]
            }
            (Effect::AttachDisk { disk, .. }, Answer::Hint(hint)) => {
                vec![Change::DiskAttached { disk: disk.clone(), hint: hint.clone() }]
            }
            // API version 1 knows no hints.
            (Effect::AttachDisk { disk, .. }, Answer::Nothing) => {
                vec![Change::DiskAttached { disk: disk.clone(), hint: None }]
            }
            (effect, Answer::Nothing) => effect.deleted(),
            (effect, answer) => return Err(format!("{answer:?} is no answer to `{}`", effect.method())),
        })
    }

    /// The changes that mean that what the effect was to delete is not there.
    pub(crate) fn deleted(&self) -> Vec<Change> {
        match self {
            Effect::DeleteVm(handle) => vec![Change::VmDeleted(handle.clone())],
            Effect::DeleteDisk(handle) => vec![Change::DiskDeleted(handle.clone())],
            Effect::DeleteStemcell(handle) => vec![Change::StemcellDeleted(handle.clone())],
            Effect::DeleteSnapshot(handle) => vec![Change::SnapshotDeleted(handle.clone())],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_versions_without_cpi_names_announced_is_still_read() {
        for (text, method) in [
            (json!({"effect": "delete_vm", "cid": "vm-1"}), Method::DeleteVm),
            (json!({"effect": "delete_disk", "cid": "disk-1"}), Method::DeleteDisk),
            (json!({"effect": "delete_stemcell", "cid": "sc-1"}), Method::DeleteStemcell),
            (json!({"effect": "attach_disk", "vm": "vm-1", "cid": "disk-1"}), Method::AttachDisk),
            (json!({"effect": "detach_disk", "vm": "vm-1", "cid": "disk-1"}), Method::DetachDisk),
        ] {
            let effect: Effect = serde_json::from_value(text.clone()).unwrap();
            assert_eq!((effect.method(), effect.cpi()), (method, None));
            assert_eq!(serde_json::to_value(&effect).unwrap(), text);
        }
    }

    #[test]
    fn the_cpi_is_announced_with_the_effect() {
        let effect = Effect::delete(Kind::Disk, Handle::new("disk-1", Some("a")));
        let text = serde_json::to_value(&effect).unwrap();
        assert_eq!(text, json!({"effect": "delete_disk", "cid": "disk-1", "cpi": "a"}));
        let read: Effect = serde_json::from_value(text).unwrap();
        assert_eq!(read.cpi(), Some("a"));
        assert!(read.how_to_find().ends_with("of CPI 'a'"), "{}", read.how_to_find());
    }
}
