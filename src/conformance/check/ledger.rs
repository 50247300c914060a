//! The resources of a run. A resource is recorded before the answer that names it is checked, and removed
//! once it is certainly gone.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::leftover_log::{LeftoverLog, Leftovers};
use super::report::LeftoverResource;
use base::Result;
use engine::cpi::Method;
use engine::protocol::ResourceKind;

/// Returns the kind of resource that a method creates.
pub(super) fn kind_created_by(method: Method) -> Option<ResourceKind> {
    match method {
        Method::CreateStemcell => Some(ResourceKind::Stemcell),
        Method::CreateVm => Some(ResourceKind::Vm),
        // `update_disk` may replace the disk.
        Method::CreateDisk | Method::UpdateDisk => Some(ResourceKind::Disk),
        Method::SnapshotDisk => Some(ResourceKind::Snapshot),
        Method::Info
        | Method::DeleteStemcell
        | Method::DeleteVm
        | Method::HasVm
        | Method::RebootVm
        | Method::SetVmMetadata
        | Method::CalculateVmCloudProperties
        | Method::DeleteDisk
        | Method::ResizeDisk
        | Method::HasDisk
        | Method::AttachDisk
        | Method::DetachDisk
        | Method::SetDiskMetadata
        | Method::GetDisks
        | Method::DeleteSnapshot
        | Method::CreateNetwork
        | Method::DeleteNetwork
        | Method::ConfigureNetworks
        | Method::CurrentVmId
        | Method::Ping => None,
    }
}

/// Returns the name of a kind in documents and in the names of checks.
pub(super) fn json_name(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Snapshot => "snapshot",
        ResourceKind::Vm => "vm",
        ResourceKind::Disk => "disk",
        ResourceKind::Stemcell => "stemcell",
    }
}

/// Returns the rank of a kind in the order of deletion: a resource comes before those that it uses.
fn deletion_rank(kind: ResourceKind) -> u8 {
    match kind {
        ResourceKind::Snapshot => 0,
        ResourceKind::Vm => 1,
        ResourceKind::Disk => 2,
        ResourceKind::Stemcell => 3,
    }
}

/// Returns the method that deletes such a resource.
pub(super) fn delete_method(kind: ResourceKind) -> Method {
    match kind {
        ResourceKind::Snapshot => Method::DeleteSnapshot,
        ResourceKind::Vm => Method::DeleteVm,
        ResourceKind::Disk => Method::DeleteDisk,
        ResourceKind::Stemcell => Method::DeleteStemcell,
    }
}

/// Returns the method that reports existence.
pub(super) fn existence_method(kind: ResourceKind) -> Option<Method> {
    match kind {
        ResourceKind::Vm => Some(Method::HasVm),
        ResourceKind::Disk => Some(Method::HasDisk),
        ResourceKind::Snapshot | ResourceKind::Stemcell => None,
    }
}

/// Returns the error type for a missing resource.
pub(super) fn not_found_type(kind: ResourceKind) -> Option<&'static str> {
    match kind {
        ResourceKind::Vm => Some("VMNotFound"),
        ResourceKind::Disk => Some("DiskNotFound"),
        ResourceKind::Stemcell => Some("StemcellNotFound"),
        ResourceKind::Snapshot => None,
    }
}

/// A resource that the CPI created and the run must delete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CreatedResource {
    pub(super) kind: ResourceKind,
    pub(super) cid: String,
}

/// The resources that a run created and has not deleted.
#[derive(Debug, Default)]
pub(super) struct ResourceLedger {
    resources: Vec<CreatedResource>,
    /// Calls that may have created a resource with an unknown CID.
    suspects: Vec<LeftoverResource>,
    deleted_count: usize,
    /// The copy on disk for a later run.
    leftover_log: Option<LeftoverLog>,
}

impl ResourceLedger {
    /// Creates a ledger with a leftover log. It starts with the leftovers of earlier runs, which are also
    /// returned.
    pub(super) fn on_disk(directory: &Path, cpi: &str) -> Result<(Self, Leftovers)> {
        let (leftover_log, earlier_leftovers) = LeftoverLog::begin(directory, cpi)?;
        let ledger = ResourceLedger {
            resources: earlier_leftovers.resources.clone(),
            leftover_log: Some(leftover_log),
            ..ResourceLedger::default()
        };
        Ok((ledger, earlier_leftovers))
    }

    /// Records a creating call before it is made.
    pub(super) fn record_call(&mut self, method: Method, request_id: &str) -> Result<()> {
        self.leftover_log
            .as_mut()
            .map_or(Ok(()), |leftover_log| leftover_log.record_call(method.name(), request_id))
    }

    /// Records the end of a call, after its resources.
    pub(super) fn record_answer(&mut self, request_id: &str) {
        self.write_log(|leftover_log| leftover_log.record_answer(request_id));
    }

    /// Ends the leftover log. Leftovers stay on disk.
    pub(super) fn end(&mut self) {
        if let Some(leftover_log) = self.leftover_log.take() {
            leftover_log.end(!self.resources.is_empty());
        }
    }

    /// Writes to the leftover log. A failure does not stop the run.
    fn write_log(&mut self, write: impl FnOnce(&mut LeftoverLog) -> Result<()>) {
        if let Some(leftover_log) = &mut self.leftover_log
            && let Err(error) = write(leftover_log)
        {
            let problem = error.chain().join(": ");
            tracing::warn!(error = %problem, "the leftover log of the check could not be written");
        }
    }

    /// Records the resource that a result of any shape names.
    pub(super) fn record_resource(&mut self, kind: ResourceKind, result: &Value) -> Option<CreatedResource> {
        let resource = CreatedResource { kind, cid: any_cid(result)? };
        if !self.resources.contains(&resource) {
            self.resources.push(resource.clone());
            self.write_log(|leftover_log| leftover_log.record_resource(&resource));
        }
        Some(resource)
    }

    /// Returns true while the resource may exist.
    pub(super) fn may_exist(&self, resource: &CreatedResource) -> bool {
        self.resources.contains(resource)
    }

    /// Removes a resource that is certainly gone.
    pub(super) fn record_deletion(&mut self, resource: &CreatedResource) {
        let count_before = self.resources.len();
        self.resources.retain(|candidate| candidate != resource);
        if self.resources.len() < count_before {
            self.deleted_count += 1;
            self.write_log(|leftover_log| leftover_log.record_deletion(resource));
        }
    }

    /// Records that a call may have created a resource with an unknown CID.
    pub(super) fn record_suspect(&mut self, kind: ResourceKind, reason: String) {
        self.suspects.push(LeftoverResource { kind: json_name(kind).to_owned(), cid: None, reason });
    }

    /// Returns the resources in the order of deletion: a resource comes before those that it uses, and before
    /// older ones of its kind.
    pub(super) fn resources_in_deletion_order(&self) -> Vec<CreatedResource> {
        let mut resources: Vec<CreatedResource> = self.resources.iter().rev().cloned().collect();
        resources.sort_by_key(|resource| deletion_rank(resource.kind));
        resources
    }

    /// Returns the number of deleted resources.
    pub(super) fn deleted_count(&self) -> usize {
        self.deleted_count
    }

    /// Returns the calls that may have created a resource with an unknown CID.
    pub(super) fn suspects(&self) -> &[LeftoverResource] {
        &self.suspects
    }
}

/// Returns the CID in a result of any shape.
fn any_cid(result: &Value) -> Option<String> {
    match result {
        Value::String(cid) => Some(cid.clone()).filter(|cid| !cid.trim().is_empty()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(values) => values.first().filter(|first| !first.is_array()).and_then(any_cid),
        Value::Object(hash) => {
            ["cid", "id", "vm_cid", "disk_cid"].iter().find_map(|key| match hash.get(*key)? {
                Value::Object(_) => None,
                value => any_cid(value),
            })
        }
        Value::Null | Value::Bool(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finds_the_cid_in_results_of_any_shape() {
        for (result, cid) in [
            (json!("a"), Some("a")),
            (json!(["a", {}]), Some("a")),
            (json!(17), Some("17")),
            (json!({"cid": "a"}), Some("a")),
            (json!(""), None),
            (json!(null), None),
            (json!([[["a"]]]), None),
            (json!([]), None),
        ] {
            assert_eq!(any_cid(&result).as_deref(), cid, "{result}");
        }
    }

    #[test]
    fn resources_are_deleted_after_their_users() {
        let mut ledger = ResourceLedger::default();
        for (kind, cid) in [
            (ResourceKind::Stemcell, "s"),
            (ResourceKind::Disk, "d1"),
            (ResourceKind::Vm, "v"),
            (ResourceKind::Disk, "d2"),
            (ResourceKind::Snapshot, "n"),
            (ResourceKind::Disk, "d2"),
        ] {
            ledger.record_resource(kind, &json!(cid));
        }
        let order: Vec<String> =
            ledger.resources_in_deletion_order().into_iter().map(|resource| resource.cid).collect();
        assert_eq!(order, ["n", "v", "d2", "d1", "s"]);
        ledger.record_deletion(&CreatedResource { kind: ResourceKind::Vm, cid: "v".to_owned() });
        ledger.record_deletion(&CreatedResource { kind: ResourceKind::Vm, cid: "v".to_owned() });
        assert_eq!((ledger.deleted_count(), ledger.resources_in_deletion_order().len()), (1, 4));
    }
}
