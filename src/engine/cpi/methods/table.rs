//! The facts about each method, in the order in which the life of a VM uses the methods.

use super::{Argument, ArgumentKind, Method, MethodFacts, MissingMethodConsequence};
use crate::cpi::answer::ResultShape;
use crate::protocol::ResourceKind;

const fn argument(name: &'static str, kind: ArgumentKind) -> Argument {
    Argument { name, kind, min_api_version: 1, is_optional: false }
}

const VM: Argument = argument("vm_cid", ArgumentKind::Cid);
const DISK: Argument = argument("disk_cid", ArgumentKind::Cid);
const STEMCELL: Argument = argument("stemcell_cid", ArgumentKind::Cid);
const CLOUD_PROPERTIES: Argument = argument("cloud_properties", ArgumentKind::Hash);
const METADATA: Argument = argument("metadata", ArgumentKind::Hash);
const NEW_SIZE: Argument = argument("new_size", ArgumentKind::Integer);

/// Facts that most methods share.
const DEFAULT_FACTS: MethodFacts = MethodFacts {
    name: "",
    purpose: "",
    arguments: &[],
    changes_iaas: false,
    result_in_v1: ResultShape::Nothing,
    result_since_v2: ResultShape::Nothing,
    if_missing: MissingMethodConsequence::Breaks,
    callers: "",
};

/// Returns the facts about a method.
pub(super) fn facts(method: Method) -> &'static MethodFacts {
    match method {
        Method::Info => &INFO,
        Method::CreateStemcell => &CREATE_STEMCELL,
        Method::DeleteStemcell => &DELETE_STEMCELL,
        Method::CreateVm => &CREATE_VM,
        Method::SetVmMetadata => &SET_VM_METADATA,
        Method::HasVm => &HAS_VM,
        Method::RebootVm => &REBOOT_VM,
        Method::CalculateVmCloudProperties => &CALCULATE_VM_CLOUD_PROPERTIES,
        Method::CreateDisk => &CREATE_DISK,
        Method::HasDisk => &HAS_DISK,
        Method::AttachDisk => &ATTACH_DISK,
        Method::SetDiskMetadata => &SET_DISK_METADATA,
        Method::GetDisks => &GET_DISKS,
        Method::SnapshotDisk => &SNAPSHOT_DISK,
        Method::DeleteSnapshot => &DELETE_SNAPSHOT,
        Method::ResizeDisk => &RESIZE_DISK,
        Method::UpdateDisk => &UPDATE_DISK,
        Method::DetachDisk => &DETACH_DISK,
        Method::DeleteDisk => &DELETE_DISK,
        Method::DeleteVm => &DELETE_VM,
        Method::CreateNetwork => &CREATE_NETWORK,
        Method::DeleteNetwork => &DELETE_NETWORK,
        Method::ConfigureNetworks => &CONFIGURE_NETWORKS,
        Method::CurrentVmId => &CURRENT_VM_ID,
        Method::Ping => &PING,
    }
}

static INFO: MethodFacts = MethodFacts {
    name: "info",
    purpose: "return the API version and stemcell formats of the CPI",
    result_in_v1: ResultShape::Info,
    result_since_v2: ResultShape::Info,
    // A CPI without `info` has API version 1.
    if_missing: MissingMethodConsequence::Tolerated,
    callers: "every command that uses a CPI, as its first call",
    ..DEFAULT_FACTS
};

static CREATE_STEMCELL: MethodFacts = MethodFacts {
    name: "create_stemcell",
    purpose: "create the image of a stemcell",
    arguments: &[
        argument("image_path", ArgumentKind::Text),
        CLOUD_PROPERTIES,
        Argument { name: "env", kind: ArgumentKind::Hash, min_api_version: 3, is_optional: true },
    ],
    changes_iaas: true,
    result_in_v1: ResultShape::Cid(ResourceKind::Stemcell),
    result_since_v2: ResultShape::Cid(ResourceKind::Stemcell),
    callers: "create-env, upload-stemcell and a director, to create VMs from it",
    ..DEFAULT_FACTS
};

static DELETE_STEMCELL: MethodFacts = MethodFacts {
    name: "delete_stemcell",
    purpose: "delete the image of a stemcell",
    arguments: &[STEMCELL],
    changes_iaas: true,
    callers: "create-env when a newer stemcell is deployed, upload-stemcell --fix, delete-env, \
        delete-stemcell, and a director's clean-up",
    ..DEFAULT_FACTS
};

static CREATE_VM: MethodFacts = MethodFacts {
    name: "create_vm",
    purpose: "create and start a VM",
    arguments: &[
        argument("agent_id", ArgumentKind::Text),
        STEMCELL,
        CLOUD_PROPERTIES,
        argument("networks", ArgumentKind::Hash),
        argument("disk_cids", ArgumentKind::Cids),
        Argument { is_optional: true, ..argument("environment", ArgumentKind::Hash) },
    ],
    changes_iaas: true,
    result_in_v1: ResultShape::Cid(ResourceKind::Vm),
    result_since_v2: ResultShape::CidAndNetworks,
    callers: "create-env and a director's deploy, for every VM",
    ..DEFAULT_FACTS
};

static SET_VM_METADATA: MethodFacts = MethodFacts {
    name: "set_vm_metadata",
    purpose: "tag a VM",
    arguments: &[VM, METADATA],
    changes_iaas: true,
    if_missing: MissingMethodConsequence::Tolerated,
    callers: "create-env and a director, after create_vm and when the tags change",
    ..DEFAULT_FACTS
};

static HAS_VM: MethodFacts = MethodFacts {
    name: "has_vm",
    purpose: "check whether a VM exists",
    arguments: &[VM],
    result_in_v1: ResultShape::Boolean,
    result_since_v2: ResultShape::Boolean,
    if_missing: MissingMethodConsequence::Tolerated,
    callers: "create-env, delete-env and delete-vm before they stop or delete a VM, status, cloud-check, \
        state import, and a director's cloud check",
    ..DEFAULT_FACTS
};

static REBOOT_VM: MethodFacts = MethodFacts {
    name: "reboot_vm",
    purpose: "reboot a VM",
    arguments: &[VM],
    changes_iaas: true,
    callers: "start-env when a VM on this machine is off, and cloud-check or a director's cloud check when \
        it repairs a VM",
    ..DEFAULT_FACTS
};

static CALCULATE_VM_CLOUD_PROPERTIES: MethodFacts = MethodFacts {
    name: "calculate_vm_cloud_properties",
    purpose: "turn CPUs, memory and disk into cloud properties",
    arguments: &[argument("desired_instance_size", ArgumentKind::Hash)],
    result_in_v1: ResultShape::Hash,
    result_since_v2: ResultShape::Hash,
    if_missing: MissingMethodConsequence::LosesFeature,
    callers: "create-env and a director, for instance groups with `vm_resources`",
    ..DEFAULT_FACTS
};

static CREATE_DISK: MethodFacts = MethodFacts {
    name: "create_disk",
    purpose: "create a disk",
    arguments: &[
        argument("size", ArgumentKind::Integer),
        CLOUD_PROPERTIES,
        Argument { is_optional: true, ..VM },
    ],
    changes_iaas: true,
    result_in_v1: ResultShape::Cid(ResourceKind::Disk),
    result_since_v2: ResultShape::Cid(ResourceKind::Disk),
    callers: "create-env and a director, for instance groups with a persistent disk",
    ..DEFAULT_FACTS
};

static HAS_DISK: MethodFacts = MethodFacts {
    name: "has_disk",
    purpose: "check whether a disk exists",
    arguments: &[DISK],
    result_in_v1: ResultShape::Boolean,
    result_since_v2: ResultShape::Boolean,
    if_missing: MissingMethodConsequence::Tolerated,
    callers: "create-env, delete-env and delete-disk after a disk was not found, create-env after \
        update_disk, attach-disk, status, cloud-check, state import, and a director's cloud check",
    ..DEFAULT_FACTS
};

static ATTACH_DISK: MethodFacts = MethodFacts {
    name: "attach_disk",
    purpose: "attach a disk to a VM",
    arguments: &[VM, DISK],
    changes_iaas: true,
    result_since_v2: ResultShape::Hint,
    callers: "create-env and a director, for instance groups with a persistent disk, and cloud-check when it \
        attaches a disk again",
    ..DEFAULT_FACTS
};

static SET_DISK_METADATA: MethodFacts = MethodFacts {
    name: "set_disk_metadata",
    purpose: "tag a disk",
    arguments: &[DISK, METADATA],
    changes_iaas: true,
    if_missing: MissingMethodConsequence::Tolerated,
    callers: "create-env and a director, after attach_disk and when the tags change, and cloud-check when it \
        attaches a disk again",
    ..DEFAULT_FACTS
};

static GET_DISKS: MethodFacts = MethodFacts {
    name: "get_disks",
    purpose: "list the disks that are attached to a VM",
    arguments: &[VM],
    result_in_v1: ResultShape::DiskCids,
    result_since_v2: ResultShape::DiskCids,
    if_missing: MissingMethodConsequence::LosesFeature,
    callers: "cloud-check, and a director for snapshots of its own disks",
    ..DEFAULT_FACTS
};

static SNAPSHOT_DISK: MethodFacts = MethodFacts {
    name: "snapshot_disk",
    purpose: "take a snapshot of a disk",
    arguments: &[DISK, METADATA],
    changes_iaas: true,
    result_in_v1: ResultShape::Cid(ResourceKind::Snapshot),
    result_since_v2: ResultShape::Cid(ResourceKind::Snapshot),
    if_missing: MissingMethodConsequence::LosesFeature,
    callers: "create-env with --snapshot, take-snapshot, and a director that takes snapshots",
};

static DELETE_SNAPSHOT: MethodFacts = MethodFacts {
    name: "delete_snapshot",
    purpose: "delete a snapshot",
    arguments: &[argument("snapshot_cid", ArgumentKind::Cid)],
    changes_iaas: true,
    if_missing: MissingMethodConsequence::LosesFeature,
    callers: "create-env when the time of a snapshot is over, delete-env, delete-snapshot, and a director \
        that takes snapshots",
    ..DEFAULT_FACTS
};

static RESIZE_DISK: MethodFacts = MethodFacts {
    name: "resize_disk",
    purpose: "change the size of a disk that is not attached",
    arguments: &[DISK, NEW_SIZE],
    changes_iaas: true,
    if_missing: MissingMethodConsequence::Tolerated,
    callers: "create-env and a director, when a disk grows; they copy it to a new disk otherwise",
    ..DEFAULT_FACTS
};

static UPDATE_DISK: MethodFacts = MethodFacts {
    name: "update_disk",
    purpose: "change size and cloud properties of a disk",
    arguments: &[DISK, NEW_SIZE, CLOUD_PROPERTIES],
    changes_iaas: true,
    result_in_v1: ResultShape::DiskCidOrNothing,
    result_since_v2: ResultShape::DiskCidOrNothing,
    if_missing: MissingMethodConsequence::Tolerated,
    callers: "create-env and a director, when a disk changes; they copy it to a new disk otherwise",
};

static DETACH_DISK: MethodFacts = MethodFacts {
    name: "detach_disk",
    purpose: "detach a disk from a VM",
    arguments: &[VM, DISK],
    changes_iaas: true,
    callers: "create-env and a director, when a disk is replaced",
    ..DEFAULT_FACTS
};

static DELETE_DISK: MethodFacts = MethodFacts {
    name: "delete_disk",
    purpose: "delete a disk",
    arguments: &[DISK],
    changes_iaas: true,
    callers: "create-env when a disk was replaced, delete-env, delete-disk, and a director's clean-up",
    ..DEFAULT_FACTS
};

static DELETE_VM: MethodFacts = MethodFacts {
    name: "delete_vm",
    purpose: "delete a VM",
    arguments: &[VM],
    changes_iaas: true,
    callers: "create-env before it creates a new VM, delete-env, delete-vm, and a director's deploy",
    ..DEFAULT_FACTS
};

static CREATE_NETWORK: MethodFacts = MethodFacts {
    name: "create_network",
    purpose: "create a network",
    arguments: &[argument("subnet_definition", ArgumentKind::Hash)],
    changes_iaas: true,
    result_in_v1: ResultShape::Network,
    result_since_v2: ResultShape::Network,
    if_missing: MissingMethodConsequence::LosesFeature,
    callers: "a director, for managed networks",
};

static DELETE_NETWORK: MethodFacts = MethodFacts {
    name: "delete_network",
    purpose: "delete a network",
    arguments: &[argument("network_id", ArgumentKind::Cid)],
    changes_iaas: true,
    if_missing: MissingMethodConsequence::LosesFeature,
    callers: "a director, for managed networks",
    ..DEFAULT_FACTS
};

static CONFIGURE_NETWORKS: MethodFacts = MethodFacts {
    name: "configure_networks",
    purpose: "change the networks of a VM",
    arguments: &[VM, argument("networks", ArgumentKind::Hash)],
    changes_iaas: true,
    if_missing: MissingMethodConsequence::Tolerated,
    callers: "old directors; newer ones create a new VM",
    ..DEFAULT_FACTS
};

static CURRENT_VM_ID: MethodFacts = MethodFacts {
    name: "current_vm_id",
    purpose: "return the VM on which the CPI runs",
    result_in_v1: ResultShape::Cid(ResourceKind::Vm),
    result_since_v2: ResultShape::Cid(ResourceKind::Vm),
    if_missing: MissingMethodConsequence::LosesFeature,
    callers: "a director, for snapshots of its own disks",
    ..DEFAULT_FACTS
};

static PING: MethodFacts = MethodFacts {
    name: "ping",
    purpose: "answer",
    result_in_v1: ResultShape::Anything,
    result_since_v2: ResultShape::Anything,
    if_missing: MissingMethodConsequence::Tolerated,
    callers: "only directors",
    ..DEFAULT_FACTS
};
