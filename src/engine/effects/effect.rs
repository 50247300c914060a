//! The effects of CPI calls, and the changes of the state that their answers mean.
//!
//! An effect is announced in the journal with everything needed to record its outcome, because a later run
//! may read the answer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cpi::{Answer, CpiError, CreatedVm, Method, message_or_placeholder};
use crate::protocol::{ResourceKind, Unnamed, VmCid};
use crate::state::{
    Change, DiskHandle, DiskRecord, RenamedDisk, Resource, SnapshotHandle, SnapshotRecord, StemcellHandle,
    StemcellRecord, Suspect, VmHandle, VmRecord, describe_in_iaas,
};

/// The change that a CPI call makes on record, with the record to store when it succeeds. Records have no CID
/// until the CPI has answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub(crate) enum Effect {
    CreateStemcell {
        /// The record to store when the call succeeds.
        record: StemcellRecord<Unnamed>,
    },
    CreateVm {
        /// The record to store when the call succeeds.
        record: VmRecord<Unnamed>,
        /// The address in the manifest, if the network is manual, to find the VM by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<String>,
    },
    DeleteVm(VmHandle),
    CreateDisk {
        /// The record to store when the call succeeds.
        record: DiskRecord<Unnamed>,
    },
    AttachDisk {
        vm: VmCid,
        #[serde(flatten)]
        disk: DiskHandle,
    },
    DetachDisk {
        vm: VmCid,
        #[serde(flatten)]
        disk: DiskHandle,
    },
    ResizeDisk {
        #[serde(flatten)]
        disk: DiskHandle,
        /// The new size in MiB.
        size: u64,
    },
    UpdateDisk {
        #[serde(flatten)]
        disk: DiskHandle,
        /// The new size in MiB.
        size: u64,
        /// The new cloud properties.
        cloud_properties: Map<String, Value>,
        /// The id of a record for the old CID, if the CPI answers with another CID.
        #[serde(alias = "left_id")]
        old_record_id: String,
    },
    DeleteDisk(DiskHandle),
    SnapshotDisk {
        /// The record to store when the call succeeds.
        record: SnapshotRecord<Unnamed>,
    },
    DeleteSnapshot(SnapshotHandle),
    DeleteStemcell(StemcellHandle),
}

impl Effect {
    /// Returns the effect that deletes a resource on record.
    pub(crate) fn deletion_of(resource: Resource) -> Self {
        match resource {
            Resource::Vm(vm) => Effect::DeleteVm(vm),
            Resource::Disk(disk) => Effect::DeleteDisk(disk),
            Resource::Stemcell(stemcell) => Effect::DeleteStemcell(stemcell),
            Resource::Snapshot(snapshot) => Effect::DeleteSnapshot(snapshot),
        }
    }

    /// Returns the name of the CPI that has the resource or is to create it; `None` for the default CPI.
    pub(crate) fn cpi(&self) -> Option<&str> {
        match self {
            Effect::CreateStemcell { record } => record.cpi.as_deref(),
            Effect::CreateVm { record, .. } => record.cpi.as_deref(),
            Effect::CreateDisk { record } => record.cpi.as_deref(),
            Effect::SnapshotDisk { record } => record.cpi.as_deref(),
            Effect::AttachDisk { disk, .. }
            | Effect::DetachDisk { disk, .. }
            | Effect::ResizeDisk { disk, .. }
            | Effect::UpdateDisk { disk, .. }
            | Effect::DeleteDisk(disk) => disk.cpi(),
            Effect::DeleteVm(vm) => vm.cpi(),
            Effect::DeleteSnapshot(snapshot) => snapshot.cpi(),
            Effect::DeleteStemcell(stemcell) => stemcell.cpi(),
        }
    }

    /// Returns the CPI method.
    pub(crate) fn method(&self) -> Method {
        match self {
            Effect::CreateStemcell { .. } => Method::CreateStemcell,
            Effect::CreateVm { .. } => Method::CreateVm,
            Effect::DeleteVm(_) => Method::DeleteVm,
            Effect::CreateDisk { .. } => Method::CreateDisk,
            Effect::AttachDisk { .. } => Method::AttachDisk,
            Effect::DetachDisk { .. } => Method::DetachDisk,
            Effect::ResizeDisk { .. } => Method::ResizeDisk,
            Effect::UpdateDisk { .. } => Method::UpdateDisk,
            Effect::DeleteDisk(_) => Method::DeleteDisk,
            Effect::SnapshotDisk { .. } => Method::SnapshotDisk,
            Effect::DeleteSnapshot(_) => Method::DeleteSnapshot,
            Effect::DeleteStemcell(_) => Method::DeleteStemcell,
        }
    }

    /// Returns true for a call that creates something, which would be untracked if the answer were lost.
    /// Other effects are about recorded resources and can be repeated.
    pub(crate) fn creates(&self) -> bool {
        self.created_kind().is_some()
    }

    /// Returns the kind of resource that a creating call creates. `update_disk` may replace the disk.
    fn created_kind(&self) -> Option<ResourceKind> {
        match self {
            Effect::CreateStemcell { .. } => Some(ResourceKind::Stemcell),
            Effect::CreateVm { .. } => Some(ResourceKind::Vm),
            Effect::CreateDisk { .. } | Effect::UpdateDisk { .. } => Some(ResourceKind::Disk),
            Effect::SnapshotDisk { .. } => Some(ResourceKind::Snapshot),
            Effect::AttachDisk { .. }
            | Effect::DetachDisk { .. }
            | Effect::ResizeDisk { .. }
            | Effect::DeleteVm(_)
            | Effect::DeleteDisk(_)
            | Effect::DeleteSnapshot(_)
            | Effect::DeleteStemcell(_) => None,
        }
    }

    /// Describes what a call with a failed or an unknown outcome may have created. For a call that creates
    /// nothing, names only its method.
    fn possible_creation(&self) -> String {
        match self {
            Effect::CreateVm { record, address: Some(address) } => {
                format!("a VM with the address {address} (agent ID {})", record.agent_id)
            }
            Effect::CreateVm { record, address: None } => {
                format!("a VM with the agent ID {}", record.agent_id)
            }
            Effect::CreateDisk { record } => format!("an unattached disk of {} MiB", record.size),
            Effect::CreateStemcell { record } => format!("a stemcell of {}/{}", record.name, record.version),
            Effect::UpdateDisk { disk, size, .. } => {
                format!("a disk of {size} MiB in place of disk '{}'", disk.cid)
            }
            Effect::SnapshotDisk { record } => format!("a snapshot of disk '{}'", record.disk),
            Effect::AttachDisk { .. }
            | Effect::DetachDisk { .. }
            | Effect::ResizeDisk { .. }
            | Effect::DeleteVm(_)
            | Effect::DeleteDisk(_)
            | Effect::DeleteSnapshot(_)
            | Effect::DeleteStemcell(_) => format!("the resource of `{}`", self.method()),
        }
    }

    /// Describes the resource that the call creates, changes or deletes.
    pub(crate) fn target(&self) -> String {
        match self {
            Effect::DeleteVm(vm) => format!("VM {vm}"),
            Effect::AttachDisk { disk, .. }
            | Effect::DetachDisk { disk, .. }
            | Effect::ResizeDisk { disk, .. }
            | Effect::UpdateDisk { disk, .. }
            | Effect::DeleteDisk(disk) => format!("disk {disk}"),
            Effect::DeleteSnapshot(snapshot) => format!("snapshot {snapshot}"),
            Effect::DeleteStemcell(stemcell) => format!("stemcell {stemcell}"),
            Effect::CreateStemcell { record } => {
                describe_in_iaas(&format!("stemcell {}/{}", record.name, record.version), self.cpi())
            }
            Effect::CreateVm { .. } | Effect::CreateDisk { .. } | Effect::SnapshotDisk { .. } => {
                self.describe_in_iaas()
            }
        }
    }

    /// Describes what an unanswered call may have created, so that an operator can find it in the IaaS.
    pub(crate) fn describe_in_iaas(&self) -> String {
        describe_in_iaas(&self.possible_creation(), self.cpi())
    }

    /// Returns the suspect of a creating call that failed. Any error answer counts, because a CPI may report
    /// an error after it has created the resource. Returns `None` if a built-in CPI states that it made
    /// nothing.
    pub(super) fn suspect(&self, error: &CpiError, redact: &dyn Fn(&str) -> String) -> Option<Suspect> {
        let CpiError::Answered { request_id, message, made_nothing: false, .. } = error else { return None };
        let kind = self.created_kind()?;
        let agent_id = match self {
            Effect::CreateVm { record, .. } => Some(record.agent_id.clone()),
            _ => None,
        };
        Some(Suspect {
            kind,
            request_id: request_id.clone(),
            cpi: self.cpi().map(str::to_owned),
            agent_id,
            description: self.possible_creation(),
            cpi_message: redact(message_or_placeholder(message)),
            called_at: base::encoding::now(),
            unknown_keys: Map::new(),
        })
    }

    /// Returns the changes that follow from the answer. Fails with a description if the answer does not fit
    /// the method.
    pub(crate) fn changes(&self, answer: &Answer) -> Result<Vec<Change>, String> {
        let refuse = || Err(format!("{answer:?} is not an answer to `{}`", self.method()));
        let change = match self {
            Effect::CreateStemcell { record } => {
                let Answer::Stemcell(cid) = answer else { return refuse() };
                Change::StemcellCreated(record.clone().named(cid.clone()))
            }
            Effect::CreateVm { record, .. } => {
                let Answer::Vm(CreatedVm { cid, networks }) = answer else { return refuse() };
                Change::VmCreated(Box::new(record.clone().named(cid.clone(), networks.clone())))
            }
            Effect::CreateDisk { record } => {
                let Answer::Disk(cid) = answer else { return refuse() };
                Change::DiskCreated(record.clone().named(cid.clone()))
            }
            Effect::SnapshotDisk { record } => {
                let Answer::Snapshot(cid) = answer else { return refuse() };
                Change::SnapshotCreated(record.clone().named(cid.clone()))
            }
            Effect::AttachDisk { disk, .. } => {
                let hint = match answer {
                    Answer::Hint(hint) => hint.clone(),
                    // API version 1 has no hints.
                    Answer::Nothing => None,
                    _ => return refuse(),
                };
                Change::DiskAttached { disk: disk.clone(), hint }
            }
            Effect::ResizeDisk { disk, size } => {
                let Answer::Nothing = answer else { return refuse() };
                let (disk, size) = (disk.clone(), *size);
                Change::DiskUpdated { disk, size, cloud_properties: None, renamed_disk: None }
            }
            Effect::UpdateDisk { disk, size, cloud_properties, old_record_id } => {
                let renamed_disk = match answer {
                    Answer::Disk(cid) if *cid != disk.cid => {
                        Some(RenamedDisk { cid: cid.clone(), old_record_id: old_record_id.clone() })
                    }
                    Answer::Disk(_) | Answer::Nothing => None,
                    _ => return refuse(),
                };
                let (disk, cloud_properties) = (disk.clone(), Some(cloud_properties.clone()));
                Change::DiskUpdated { disk, size: *size, cloud_properties, renamed_disk }
            }
            Effect::DetachDisk { .. }
            | Effect::DeleteVm(_)
            | Effect::DeleteDisk(_)
            | Effect::DeleteSnapshot(_)
            | Effect::DeleteStemcell(_) => {
                let Answer::Nothing = answer else { return refuse() };
                return Ok(self.changes_of_deletion());
            }
        };
        Ok(vec![change])
    }

    /// Returns the changes for a deleted resource. The list is empty for effects that delete nothing.
    pub(crate) fn changes_of_deletion(&self) -> Vec<Change> {
        match self {
            Effect::DeleteVm(handle) => vec![Change::VmDeleted(handle.clone())],
            Effect::DeleteDisk(handle) => vec![Change::DiskDeleted(handle.clone())],
            Effect::DeleteStemcell(handle) => vec![Change::StemcellDeleted(handle.clone())],
            Effect::DeleteSnapshot(handle) => vec![Change::SnapshotDeleted(handle.clone())],
            Effect::CreateStemcell { .. }
            | Effect::CreateVm { .. }
            | Effect::CreateDisk { .. }
            | Effect::AttachDisk { .. }
            | Effect::DetachDisk { .. }
            | Effect::ResizeDisk { .. }
            | Effect::UpdateDisk { .. }
            | Effect::SnapshotDisk { .. } => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Intent;
    use serde_json::json;

    #[test]
    fn effects_without_cpi_name_are_still_read() {
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
    fn unnamed_records_are_announced_with_an_empty_cid() {
        for text in [
            r#"create_vm","record":{"cid":"","agent_id":"a","contract":"v2","cpi":"c","instance":"bosh/0""#,
            r#"create_disk","record":{"id":"i","cid":"","size":1024,"cloud_properties":{"a":1},"az":"z1""#,
            r#"create_stemcell","record":{"id":"i","name":"n","version":"1","api_version":3,"cid":"""#,
            r#"snapshot_disk","record":{"cid":"","disk":"disk-1","created_at":"2026-01-01T00:00:00Z""#,
        ] {
            let terms = r#"{"api_version":2,"contract":"v2"}"#;
            let text = format!(
                r#"{{"request_id":"r","method":"m","terms":{terms},"reason":"","effect":{{"effect":"{text}}}}}}}"#
            );
            let intent: Intent<Effect> = serde_json::from_str(&text).unwrap();
            assert!(intent.effect.creates());
            assert_eq!(serde_json::to_string(&intent).unwrap(), text);
        }
    }

    #[test]
    fn record_gets_the_cid_from_the_answer() {
        let text = r#"{"effect":"create_disk","record":{"id":"i","cid":"","size":1}}"#;
        let effect: Effect = serde_json::from_str(text).unwrap();
        let changes = effect.changes(&Answer::Disk("disk-1".parse().unwrap())).unwrap();
        let [Change::DiskCreated(disk)] = changes.as_slice() else { panic!("{changes:?}") };
        assert_eq!((disk.id.as_str(), disk.cid.as_str()), ("i", "disk-1"));
        assert!(effect.changes(&Answer::Snapshot("disk-1".parse().unwrap())).is_err());
        assert!(effect.changes(&Answer::Nothing).is_err());
    }

    #[test]
    fn updated_disk_may_have_another_cid() {
        let text =
            r#"{"effect":"update_disk","cid":"disk-1","size":2,"cloud_properties":{},"old_record_id":"i"}"#;
        let effect: Effect = serde_json::from_str(text).unwrap();
        assert!(effect.creates(), "an update that may rename the disk counts as creating nothing");
        let renamed_disk = |answer: Answer| match effect.changes(&answer).unwrap().as_slice() {
            [Change::DiskUpdated { size: 2, cloud_properties: Some(_), renamed_disk: disk, .. }] => {
                disk.clone()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(renamed_disk(Answer::Nothing), None);
        assert_eq!(renamed_disk(Answer::Disk("disk-1".parse().unwrap())), None);
        let other = || "disk-2".parse().unwrap();
        assert_eq!(
            renamed_disk(Answer::Disk(other())),
            Some(RenamedDisk { cid: other(), old_record_id: "i".to_owned() })
        );

        let text = json!({"effect": "resize_disk", "cid": "disk-1", "cpi": "a", "size": 2});
        let effect: Effect = serde_json::from_value(text.clone()).unwrap();
        assert_eq!((effect.method(), effect.cpi(), effect.creates()), (Method::ResizeDisk, Some("a"), false));
        assert_eq!(serde_json::to_value(&effect).unwrap(), text);
        let changes = effect.changes(&Answer::Nothing).unwrap();
        assert!(matches!(changes.as_slice(), [Change::DiskUpdated { size: 2, .. }]), "{changes:?}");
    }

    #[test]
    fn announced_effect_names_its_cpi() {
        let effect =
            Effect::deletion_of(Resource::Disk(DiskHandle::new("disk-1".parse().unwrap(), Some("a"))));
        let text = serde_json::to_value(&effect).unwrap();
        assert_eq!(text, json!({"effect": "delete_disk", "cid": "disk-1", "cpi": "a"}));
        let read: Effect = serde_json::from_value(text).unwrap();
        assert_eq!(read.cpi(), Some("a"));
        assert!(read.describe_in_iaas().ends_with("of CPI 'a'"), "{}", read.describe_in_iaas());
    }
}
