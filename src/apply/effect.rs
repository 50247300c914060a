//! What CPI calls do to the world, and how their answers change the state.
//!
//! An effect is announced in the journal with everything needed to record its outcome, so that the run that
//! reads the answer may be another one than the run that asked.

use serde::{Deserialize, Serialize};

use crate::cpi::{Answer, CpiError, CpiErrorKind, CreatedVm, Method};
use crate::state::{Change, Disk, Kind, Stemcell, Suspect, Vm};

/// A call that changes the world. Records hold an empty CID until the CPI has said it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
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
    DeleteVm {
        /// The VM's CID.
        cid: String,
    },
    /// `create_disk`.
    CreateDisk {
        /// What will be recorded.
        record: Disk,
    },
    /// `attach_disk`.
    AttachDisk {
        /// The VM's CID.
        vm: String,
        /// The disk's CID.
        cid: String,
    },
    /// `detach_disk`.
    DetachDisk {
        /// The VM's CID.
        vm: String,
        /// The disk's CID.
        cid: String,
    },
    /// `delete_disk`.
    DeleteDisk {
        /// The disk's CID.
        cid: String,
    },
    /// `delete_stemcell`.
    DeleteStemcell {
        /// The stemcell's CID.
        cid: String,
    },
}

impl Effect {
    /// The CPI method.
    pub fn method(&self) -> Method {
        match self {
            Effect::CreateStemcell { .. } => Method::CreateStemcell,
            Effect::CreateVm { .. } => Method::CreateVm,
            Effect::DeleteVm { .. } => Method::DeleteVm,
            Effect::CreateDisk { .. } => Method::CreateDisk,
            Effect::AttachDisk { .. } => Method::AttachDisk,
            Effect::DetachDisk { .. } => Method::DetachDisk,
            Effect::DeleteDisk { .. } => Method::DeleteDisk,
            Effect::DeleteStemcell { .. } => Method::DeleteStemcell,
        }
    }

    /// Whether something may exist that nobody knows of when the answer is lost. The other effects are about
    /// things on record and are simply repeated.
    pub fn creates(&self) -> bool {
        matches!(self, Effect::CreateStemcell { .. } | Effect::CreateVm { .. } | Effect::CreateDisk { .. })
    }

    /// How to find what a lost call may have made.
    pub fn how_to_find(&self) -> String {
        match self {
            Effect::CreateVm { record } => format!("a VM whose agent id is {}", record.agent_id),
            Effect::CreateDisk { record } => format!("an unattached disk of {} MiB", record.size),
            Effect::CreateStemcell { record } => format!("an image of {}/{}", record.name, record.version),
            other => format!("whatever `{}` touches", other.method()),
        }
    }

    /// What the effect may have left behind although the CPI answered with this error. A CPI is believed that it lacks
    /// the method, or cannot do this; any other error may have come after the deed.
    pub fn suspect(&self, error: &CpiError, hide: &dyn Fn(&str) -> String) -> Option<Suspect> {
        let CpiError::Answered { request_id, kind, message, .. } = error else { return None };
        if matches!(kind, CpiErrorKind::NotImplemented | CpiErrorKind::NotSupported) {
            return None;
        }
        let (what, agent_id) = match self {
            Effect::CreateVm { record } => (Kind::Vm, Some(record.agent_id.clone())),
            Effect::CreateDisk { .. } => (Kind::Disk, None),
            Effect::CreateStemcell { .. } => (Kind::Stemcell, None),
            _ => return None,
        };
        Some(Suspect {
            what,
            request_id: request_id.clone(),
            agent_id,
            looks_like: self.how_to_find(),
            said: hide(message),
            since: crate::notation::now(),
        })
    }

    /// The changes that the answer means; one to another method is described instead.
    pub fn changes(&self, answer: &Answer) -> Result<Vec<Change>, String> {
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
            (Effect::AttachDisk { cid, .. }, Answer::Hint(hint)) => {
                vec![Change::DiskAttached { cid: cid.clone(), hint: hint.clone() }]
            }
            // API version 1 knows no hints.
            (Effect::AttachDisk { cid, .. }, Answer::Nothing) => {
                vec![Change::DiskAttached { cid: cid.clone(), hint: None }]
            }
            (effect, Answer::Nothing) => effect.deleted(),
            (effect, answer) => return Err(format!("{answer:?} is no answer to `{}`", effect.method())),
        })
    }

    /// The changes that mean that what the effect was to delete is not there.
    pub fn deleted(&self) -> Vec<Change> {
        match self {
            Effect::DeleteVm { cid } => vec![Change::VmDeleted { cid: cid.clone() }],
            Effect::DeleteDisk { cid } => vec![Change::DiskDeleted { cid: cid.clone() }],
            Effect::DeleteStemcell { cid } => vec![Change::StemcellDeleted { cid: cid.clone() }],
            _ => Vec::new(),
        }
    }
}
