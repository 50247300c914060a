//! The table of methods, one row each.

use super::{Absence, Argument, ArgumentKind, Facts, Method};
use crate::cpi::answer::Shape;
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
const COMMON: Facts = Facts {
    method: Method::Info,
    name: "",
    purpose: "",
    arguments: &[],
    changes: false,
    v1: Shape::Nothing,
    v2: Shape::Nothing,
    absence: Absence::Breaks,
    callers: "",
    deprecated: false,
};

/// The table, in the order in which the life of a VM uses the methods.
pub(super) static TABLE: [Facts; 25] = [
    Facts {
        method: Method::Info,
        name: "info",
        purpose: "return the API version and stemcell formats of the CPI",
        v1: Shape::Info,
        v2: Shape::Info,
        // A CPI without `info` has API version 1.
        absence: Absence::Tolerated,
        callers: "every command that uses a CPI, as its first call",
        ..COMMON
    },
    Facts {
        method: Method::CreateStemcell,
        name: "create_stemcell",
        purpose: "create the image of a stemcell",
        arguments: &[
            argument("image_path", ArgumentKind::Text),
            CLOUD_PROPERTIES,
            Argument { name: "env", kind: ArgumentKind::Hash, since: 3, optional: true },
        ],
        changes: true,
        v1: Shape::Cid(ResourceKind::Stemcell),
        v2: Shape::Cid(ResourceKind::Stemcell),
        callers: "create-env and a director's upload-stemcell, to create VMs from it",
        ..COMMON
    },
    Facts {
        method: Method::DeleteStemcell,
        name: "delete_stemcell",
        purpose: "delete the image of a stemcell",
        arguments: &[STEMCELL],
        changes: true,
        callers: "create-env when a newer stemcell is deployed, delete-env, and a director's clean-up",
        ..COMMON
    },
    Facts {
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
        changes: true,
        v1: Shape::Cid(ResourceKind::Vm),
        v2: Shape::CidAndNetworks,
        callers: "create-env and a director's deploy, for every VM",
        ..COMMON
    },
    Facts {
        method: Method::SetVmMetadata,
        name: "set_vm_metadata",
        purpose: "tag a VM",
        arguments: &[VM, METADATA],
        changes: true,
        absence: Absence::Tolerated,
        callers: "create-env and a director, after create_vm",
        ..COMMON
    },
    Facts {
        method: Method::HasVm,
        name: "has_vm",
        purpose: "check whether a VM exists",
        arguments: &[VM],
        v1: Shape::Boolean,
        v2: Shape::Boolean,
        absence: Absence::Tolerated,
        callers: "create-env and delete-env before they stop a VM, and a director's cloud check",
        ..COMMON
    },
    Facts {
        method: Method::RebootVm,
        name: "reboot_vm",
        purpose: "reboot a VM",
        arguments: &[VM],
        changes: true,
        callers: "a director's cloud check, when it repairs a VM",
        ..COMMON
    },
    Facts {
        method: Method::CalculateVmCloudProperties,
        name: "calculate_vm_cloud_properties",
        purpose: "turn CPUs, memory and disk into cloud properties",
        arguments: &[argument("desired_instance_size", ArgumentKind::Hash)],
        v1: Shape::Hash,
        v2: Shape::Hash,
        absence: Absence::Feature,
        callers: "a director, for instance groups with `vm_resources`",
        ..COMMON
    },
    Facts {
        method: Method::CreateDisk,
        name: "create_disk",
        purpose: "create a disk",
        arguments: &[
            argument("size", ArgumentKind::Integer),
            CLOUD_PROPERTIES,
            Argument { optional: true, ..VM },
        ],
        changes: true,
        v1: Shape::Cid(ResourceKind::Disk),
        v2: Shape::Cid(ResourceKind::Disk),
        callers: "create-env and a director, for instance groups with a persistent disk",
        ..COMMON
    },
    Facts {
        method: Method::HasDisk,
        name: "has_disk",
        purpose: "check whether a disk exists",
        arguments: &[DISK],
        v1: Shape::Boolean,
        v2: Shape::Boolean,
        absence: Absence::Tolerated,
        callers: "create-env and delete-env after a disk was not found, and a director's cloud check",
        ..COMMON
    },
    Facts {
        method: Method::AttachDisk,
        name: "attach_disk",
        purpose: "attach a disk to a VM",
        arguments: &[VM, DISK],
        changes: true,
        v2: Shape::Hint,
        callers: "create-env and a director, for instance groups with a persistent disk",
        ..COMMON
    },
    Facts {
        method: Method::SetDiskMetadata,
        name: "set_disk_metadata",
        purpose: "tag a disk",
        arguments: &[DISK, METADATA],
        changes: true,
        absence: Absence::Tolerated,
        callers: "create-env and a director, after attach_disk",
        ..COMMON
    },
    Facts {
        method: Method::GetDisks,
        name: "get_disks",
        purpose: "list the disks that are attached to a VM",
        arguments: &[VM],
        v1: Shape::DiskCids,
        v2: Shape::DiskCids,
        absence: Absence::Feature,
        callers: "a director, for snapshots of its own disks",
        ..COMMON
    },
    Facts {
        method: Method::SnapshotDisk,
        name: "snapshot_disk",
        purpose: "take a snapshot of a disk",
        arguments: &[DISK, METADATA],
        changes: true,
        v1: Shape::Cid(ResourceKind::Snapshot),
        v2: Shape::Cid(ResourceKind::Snapshot),
        absence: Absence::Feature,
        callers: "a director that takes snapshots",
        ..COMMON
    },
    Facts {
        method: Method::DeleteSnapshot,
        name: "delete_snapshot",
        purpose: "delete a snapshot",
        arguments: &[argument("snapshot_cid", ArgumentKind::Cid)],
        changes: true,
        absence: Absence::Feature,
        callers: "a director that takes snapshots",
        ..COMMON
    },
    Facts {
        method: Method::ResizeDisk,
        name: "resize_disk",
        purpose: "change the size of a disk that is not attached",
        arguments: &[DISK, NEW_SIZE],
        changes: true,
        absence: Absence::Tolerated,
        callers: "a director that may resize disks natively; it copies to a new disk otherwise",
        ..COMMON
    },
    Facts {
        method: Method::UpdateDisk,
        name: "update_disk",
        purpose: "change size and cloud properties of a disk",
        arguments: &[DISK, NEW_SIZE, CLOUD_PROPERTIES],
        changes: true,
        v1: Shape::DiskCidOrNothing,
        v2: Shape::DiskCidOrNothing,
        absence: Absence::Tolerated,
        callers: "a director that may update disks natively; it copies to a new disk otherwise",
        ..COMMON
    },
    Facts {
        method: Method::DetachDisk,
        name: "detach_disk",
        purpose: "detach a disk from a VM",
        arguments: &[VM, DISK],
        changes: true,
        callers: "create-env and a director, when a disk is replaced",
        ..COMMON
    },
    Facts {
        method: Method::DeleteDisk,
        name: "delete_disk",
        purpose: "delete a disk",
        arguments: &[DISK],
        changes: true,
        callers: "create-env when a disk was replaced, delete-env, and a director's clean-up",
        ..COMMON
    },
    Facts {
        method: Method::DeleteVm,
        name: "delete_vm",
        purpose: "delete a VM",
        arguments: &[VM],
        changes: true,
        callers: "create-env before it creates a new VM, delete-env, and a director's deploy",
        ..COMMON
    },
    Facts {
        method: Method::CreateNetwork,
        name: "create_network",
        purpose: "create a network",
        arguments: &[argument("subnet_definition", ArgumentKind::Hash)],
        changes: true,
        v1: Shape::Network,
        v2: Shape::Network,
        absence: Absence::Feature,
        callers: "a director, for managed networks",
        ..COMMON
    },
    Facts {
        method: Method::DeleteNetwork,
        name: "delete_network",
        purpose: "delete a network",
        arguments: &[argument("network_id", ArgumentKind::Cid)],
        changes: true,
        absence: Absence::Feature,
        callers: "a director, for managed networks",
        ..COMMON
    },
    Facts {
        method: Method::ConfigureNetworks,
        name: "configure_networks",
        purpose: "change the networks of a VM",
        arguments: &[VM, argument("networks", ArgumentKind::Hash)],
        changes: true,
        absence: Absence::Tolerated,
        callers: "old directors; newer ones create a new VM",
        deprecated: true,
        ..COMMON
    },
    Facts {
        method: Method::CurrentVmId,
        name: "current_vm_id",
        purpose: "return the VM on which the CPI runs",
        v1: Shape::Cid(ResourceKind::Vm),
        v2: Shape::Cid(ResourceKind::Vm),
        absence: Absence::Feature,
        callers: "a director, for snapshots of its own disks",
        deprecated: true,
        ..COMMON
    },
    Facts {
        method: Method::Ping,
        name: "ping",
        purpose: "answer",
        v1: Shape::Anything,
        v2: Shape::Anything,
        absence: Absence::Tolerated,
        callers: "only directors",
        deprecated: true,
        ..COMMON
    },
];
