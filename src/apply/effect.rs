//! What CPI calls do to the world, and how their answers change the state.
//!
//! An effect is announced in the journal with everything needed to record its outcome, so that the run that
//! reads the answer may be another one than the run that asked.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cpi::{self, CreatedVm};
use crate::state::{Change, Disk, Stemcell, Vm};

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
    pub fn method(&self) -> &'static str {
        match self {
            Effect::CreateStemcell { .. } => "create_stemcell",
            Effect::CreateVm { .. } => "create_vm",
            Effect::DeleteVm { .. } => "delete_vm",
            Effect::CreateDisk { .. } => "create_disk",
            Effect::AttachDisk { .. } => "attach_disk",
            Effect::DetachDisk { .. } => "detach_disk",
            Effect::DeleteDisk { .. } => "delete_disk",
            Effect::DeleteStemcell { .. } => "delete_stemcell",
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

    /// The changes that a successful answer means; an answer of the wrong shape is described instead.
    pub fn changes(&self, result: &Value) -> Result<Vec<Change>, String> {
        Ok(match self {
            Effect::CreateStemcell { record } => {
                vec![Change::StemcellCreated(Stemcell {
                    cid: cpi::cid(self.method(), result)?,
                    ..record.clone()
                })]
            }
            Effect::CreateVm { record } => {
                let CreatedVm { cid, networks } = CreatedVm::from_result(result)?;
                vec![Change::VmCreated(Box::new(Vm { cid, networks, ..record.clone() }))]
            }
            Effect::CreateDisk { record } => {
                vec![Change::DiskCreated(Disk { cid: cpi::cid(self.method(), result)?, ..record.clone() })]
            }
            Effect::AttachDisk { cid, .. } => {
                let hint = match result {
                    Value::Null => None,
                    Value::String(text) if text.is_empty() => None,
                    hint @ (Value::String(_) | Value::Object(_)) => Some(hint.clone()),
                    other => {
                        return Err(format!("`attach_disk` must answer a string or a hash, not {other}"));
                    }
                };
                vec![Change::DiskAttached { cid: cid.clone(), hint }]
            }
            Effect::DetachDisk { .. } => Vec::new(),
            effect => effect.deleted(),
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
