//! The table of methods, one row each.

use super::{Argument, ArgumentKind, Method, MethodFacts, MissingMethodPolicy};
use crate::cpi::answer::ResultShape;
use crate::protocol::ResourceKind;

const fn argument(name: &'static str, kind: ArgumentKind) -> Argument {
    Argument { name, kind, since: 1, optional: false }
}

const VM: Argument = argument("vm_cid", ArgumentKind::Cid);
const DISK: Argument = argument("disk_cid", ArgumentKind::Cid);
const STEMCELL: Argument = argument("stemcell_cid", ArgumentKind::Cid);
const CLOUD_PROPERTIES: Argument = argument("cloud_properties", ArgumentKind::Hash);
const METADATA: Argument = argument("metadata", ArgumentKind::Hash);
const NEW_SIZE: Argument = argument("new_size", ArgumentKind::Integer);

/// Facts that most methods share.
const COMMON: MethodFacts = MethodFacts {
    method: Method::Info,
    name: "",
    purpose: "",
    arguments: &[],
    changes_iaas: false,
    v1: ResultShape::Nothing,
    v2: ResultShape::Nothing,
    absence: MissingMethodPolicy::Breaks,
    callers: "",
    deprecated: false,
};

/// The table, in the order in which the life of a VM uses the methods.
pub(super) static TABLE: [MethodFacts; 25] = [
    MethodFacts {
        method: Method::Info,
        name: "info",
        purpose: "return the API version and stemcell formats of the CPI",
        v1: ResultShape::Info,
        v2: ResultShape::Info,
        // A CPI without `info` has API version 1.
        absence: MissingMethodPolicy::Tolerated,
        callers: "every command that uses a CPI, as its first call",
        ..COMMON
    },
    MethodFacts {
        method: Method::CreateStemcell,
        name: "create_stemcell",
        purpose: "create the image of a stemcell",
        arguments: &[
            argument("image_path", ArgumentKind::Text),
            CLOUD_PROPERTIES,
            Argument { name: "env", kind: ArgumentKind::Hash, since: 3, optional: true },
        ],
        changes_iaas: true,
        v1: ResultShape::Cid(ResourceKind::Stemcell),
        v2: ResultShape::Cid(ResourceKind::Stemcell),
        callers: "create-env and a director's upload-stemcell, to create VMs from it",
        ..COMMON
    },
    MethodFacts {
        method: Method::DeleteStemcell,
        name: "delete_stemcell",
        purpose: "delete the image of a stemcell",
        arguments: &[STEMCELL],
        changes_iaas: true,
        callers: "create-env when a newer stemcell is deployed, delete-env, and a director's clean-up",
        ..COMMON
    },
    MethodFacts {
        method: Method::CreateVm,
        name: "create_vm",
        purpose: "create and start a VM",
        arguments: &[
            argument("agent_id", ArgumentKind::Text),
            STEMCELL,
            CLOUD_PROPERTIES,
            argument("networks", ArgumentKind::Hash),
            argument("disk_cids", ArgumentKind::Cids),
            Argument { optional: true, ..argument("environment", ArgumentKind::Hash) },
        ],
        changes_iaas: true,
        v1: ResultShape::Cid(ResourceKind::Vm),
        v2: ResultShape::CidAndNetworks,
        callers: "create-env and a director's deploy, for every VM",
        ..COMMON
    },
    MethodFacts {
        method: Method::SetVmMetadata,
        name: "set_vm_metadata",
        purpose: "tag a VM",
        arguments: &[VM, METADATA],
        changes_iaas: true,
        absence: MissingMethodPolicy::Tolerated,
        callers: "create-env and a director, after create_vm",
        ..COMMON
    },
    MethodFacts {
        method: Method::HasVm,
        name: "has_vm",
        purpose: "check whether a VM exists",
        arguments: &[VM],
        v1: ResultShape::Boolean,
        v2: ResultShape::Boolean,
        absence: MissingMethodPolicy::Tolerated,
        callers: "create-env and delete-env before they stop a VM, and a director's cloud check",
        ..COMMON
    },
    MethodFacts {
        method: Method::RebootVm,
        name: "reboot_vm",
        purpose: "reboot a VM",
        arguments: &[VM],
        changes_iaas: true,
        callers: "a director's cloud check, when it repairs a VM",
        ..COMMON
    },
    MethodFacts {
        method: Method::CalculateVmCloudProperties,
        name: "calculate_vm_cloud_properties",
        purpose: "turn CPUs, memory and disk into cloud properties",
        arguments: &[argument("desired_instance_size", ArgumentKind::Hash)],
        v1: ResultShape::Hash,
        v2: ResultShape::Hash,
        absence: MissingMethodPolicy::Feature,
        callers: "create-env and a director, for instance groups with `vm_resources`",
        ..COMMON
    },
    MethodFacts {
        method: Method::CreateDisk,
        name: "create_disk",
        purpose: "create a disk",
        arguments: &[
            argument("size", ArgumentKind::Integer),
            CLOUD_PROPERTIES,
            Argument { optional: true, ..VM },
        ],
        changes_iaas: true,
        v1: ResultShape::Cid(ResourceKind::Disk),
        v2: ResultShape::Cid(ResourceKind::Disk),
        callers: "create-env and a director, for instance groups with a persistent disk",
        ..COMMON
    },
    MethodFacts {
        method: Method::HasDisk,
        name: "has_disk",
        purpose: "check whether a disk exists",
        arguments: &[DISK],
        v1: ResultShape::Boolean,
        v2: ResultShape::Boolean,
        absence: MissingMethodPolicy::Tolerated,
        callers: "create-env and delete-env after a disk was not found, and a director's cloud check",
        ..COMMON
    },
    MethodFacts {
        method: Method::AttachDisk,
        name: "attach_disk",
        purpose: "attach a disk to a VM",
        arguments: &[VM, DISK],
        changes_iaas: true,
        v2: ResultShape::Hint,
        callers: "create-env and a director, for instance groups with a persistent disk",
        ..COMMON
    },
    MethodFacts {
        method: Method::SetDiskMetadata,
        name: "set_disk_metadata",
        purpose: "tag a disk",
        arguments: &[DISK, METADATA],
        changes_iaas: true,
        absence: MissingMethodPolicy::Tolerated,
        callers: "create-env and a director, after attach_disk",
        ..COMMON
    },
    MethodFacts {
        method: Method::GetDisks,
        name: "get_disks",
        purpose: "list the disks that are attached to a VM",
        arguments: &[VM],
        v1: ResultShape::DiskCids,
        v2: ResultShape::DiskCids,
        absence: MissingMethodPolicy::Feature,
        callers: "a director, for snapshots of its own disks",
        ..COMMON
    },
    MethodFacts {
        method: Method::SnapshotDisk,
        name: "snapshot_disk",
        purpose: "take a snapshot of a disk",
        arguments: &[DISK, METADATA],
        changes_iaas: true,
        v1: ResultShape::Cid(ResourceKind::Snapshot),
        v2: ResultShape::Cid(ResourceKind::Snapshot),
        absence: MissingMethodPolicy::Feature,
        callers: "a director that takes snapshots",
        ..COMMON
    },
    MethodFacts {
        method: Method::DeleteSnapshot,
        name: "delete_snapshot",
        purpose: "delete a snapshot",
        arguments: &[argument("snapshot_cid", ArgumentKind::Cid)],
        changes_iaas: true,
        absence: MissingMethodPolicy::Feature,
        callers: "a director that takes snapshots",
        ..COMMON
    },
    MethodFacts {
        method: Method::ResizeDisk,
        name: "resize_disk",
        purpose: "change the size of a disk that is not attached",
        arguments: &[DISK, NEW_SIZE],
        changes_iaas: true,
        absence: MissingMethodPolicy::Tolerated,
        callers: "create-env and a director, when a disk grows; they copy it to a new disk otherwise",
        ..COMMON
    },
    MethodFacts {
        method: Method::UpdateDisk,
        name: "update_disk",
        purpose: "change size and cloud properties of a disk",
        arguments: &[DISK, NEW_SIZE, CLOUD_PROPERTIES],
        changes_iaas: true,
        v1: ResultShape::DiskCidOrNothing,
        v2: ResultShape::DiskCidOrNothing,
        absence: MissingMethodPolicy::Tolerated,
        callers: "create-env and a director, when a disk changes; they copy it to a new disk otherwise",
        ..COMMON
    },
    MethodFacts {
        method: Method::DetachDisk,
        name: "detach_disk",
        purpose: "detach a disk from a VM",
        arguments: &[VM, DISK],
        changes_iaas: true,
        callers: "create-env and a director, when a disk is replaced",
        ..COMMON
    },
    MethodFacts {
        method: Method::DeleteDisk,
        name: "delete_disk",
        purpose: "delete a disk",
        arguments: &[DISK],
        changes_iaas: true,
        callers: "create-env when a disk was replaced, delete-env, and a director's clean-up",
        ..COMMON
    },
    MethodFacts {
        method: Method::DeleteVm,
        name: "delete_vm",
        purpose: "delete a VM",
        arguments: &[VM],
        changes_iaas: true,
        callers: "create-env before it creates a new VM, delete-env, and a director's deploy",
        ..COMMON
    },
    MethodFacts {
        method: Method::CreateNetwork,
        name: "create_network",
        purpose: "create a network",
        arguments: &[argument("subnet_definition", ArgumentKind::Hash)],
        changes_iaas: true,
        v1: ResultShape::Network,
        v2: ResultShape::Network,
        absence: MissingMethodPolicy::Feature,
        callers: "a director, for managed networks",
        ..COMMON
    },
    MethodFacts {
        method: Method::DeleteNetwork,
        name: "delete_network",
        purpose: "delete a network",
        arguments: &[argument("network_id", ArgumentKind::Cid)],
        changes_iaas: true,
        absence: MissingMethodPolicy::Feature,
        callers: "a director, for managed networks",
        ..COMMON
    },
    MethodFacts {
        method: Method::ConfigureNetworks,
        name: "configure_networks",
        purpose: "change the networks of a VM",
        arguments: &[VM, argument("networks", ArgumentKind::Hash)],
        changes_iaas: true,
        absence: MissingMethodPolicy::Tolerated,
        callers: "old directors; newer ones create a new VM",
        deprecated: true,
        ..COMMON
    },
    MethodFacts {
        method: Method::CurrentVmId,
        name: "current_vm_id",
        purpose: "return the VM on which the CPI runs",
        v1: ResultShape::Cid(ResourceKind::Vm),
        v2: ResultShape::Cid(ResourceKind::Vm),
        absence: MissingMethodPolicy::Feature,
        callers: "a director, for snapshots of its own disks",
        deprecated: true,
        ..COMMON
    },
    MethodFacts {
        method: Method::Ping,
        name: "ping",
        purpose: "answer",
        v1: ResultShape::Anything,
        v2: ResultShape::Anything,
        absence: MissingMethodPolicy::Tolerated,
        callers: "only directors",
        deprecated: true,
        ..COMMON
    },
];
