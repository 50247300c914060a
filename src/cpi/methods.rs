//! Every method of the CPI API, v1 to v3, in one table: its arguments, whether it changes the world, what it
//! answers, who calls it and whether a CPI may leave it out.
//!
//! Sources: the method pages below `cpi-api-v1.md`, `cpi-api-v2.md` and `cpi-api-v3.md` of the BOSH
//! documentation, and what the director (`external_cpi.rb` and its callers) and `bosh create-env`
//! (`cloud/cloud.go`) do with them.

use std::fmt;
use std::str::FromStr;

use super::answer::Shape;

/// A method of the CPI API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is described by its facts")]
pub enum Method {
    Info,
    CreateStemcell,
    DeleteStemcell,
    CreateVm,
    DeleteVm,
    HasVm,
    RebootVm,
    SetVmMetadata,
    CalculateVmCloudProperties,
    CreateDisk,
    DeleteDisk,
    ResizeDisk,
    UpdateDisk,
    HasDisk,
    AttachDisk,
    DetachDisk,
    SetDiskMetadata,
    GetDisks,
    SnapshotDisk,
    DeleteSnapshot,
    CreateNetwork,
    DeleteNetwork,
    ConfigureNetworks,
    CurrentVmId,
    Ping,
}

/// What is known of a method.
#[derive(Debug)]
pub struct Facts {
    /// Which method it is.
    pub method: Method,
    /// Its name in requests.
    pub name: &'static str,
    /// What it does, in a few words.
    pub purpose: &'static str,
    /// Its arguments, in order.
    pub arguments: &'static [Argument],
    /// Whether it changes anything in the IaaS.
    pub changes: bool,
    /// What it answers to requests with `api_version` 1.
    pub v1: Shape,
    /// What it answers to requests with `api_version` 2 or higher.
    pub v2: Shape,
    /// What becomes of a caller when the CPI does not implement it.
    pub absence: Absence,
    /// Who calls it, and when.
    pub callers: &'static str,
    /// Whether only contract v1 has it; a new CPI does without.
    pub deprecated: bool,
}

/// What a missing method means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// No caller gets by without it.
    Breaks,
    /// Every caller gets by without it.
    Tolerated,
    /// Callers get by without it, and the feature that is made of it does not exist.
    Feature,
}

/// One argument of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// Its name in the documentation; requests carry arguments by position.
    pub name: &'static str,
    /// What it is.
    pub kind: ArgumentKind,
    /// The lowest `api_version` whose requests carry it.
    pub since: u32,
    /// Whether a caller may leave it out.
    pub optional: bool,
}

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentKind {
    /// Text.
    Text,
    /// The cloud ID of something that exists; never empty.
    Cid,
    /// A whole number.
    Integer,
    /// A hash.
    Hash,
    /// An array of cloud IDs.
    Cids,
}

impl ArgumentKind {
    /// Whether a value is one.
    pub fn fits(self, value: &serde_json::Value) -> bool {
        match self {
            ArgumentKind::Text => value.is_string(),
            ArgumentKind::Cid => value.as_str().is_some_and(|cid| !cid.trim().is_empty()),
            ArgumentKind::Integer => value.is_u64(),
            ArgumentKind::Hash => value.is_object(),
            ArgumentKind::Cids => {
                value.as_array().is_some_and(|cids| cids.iter().all(|cid| ArgumentKind::Cid.fits(cid)))
            }
        }
    }
}

impl fmt::Display for ArgumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArgumentKind::Text => "a string",
            ArgumentKind::Cid => "a cloud ID that is not empty",
            ArgumentKind::Integer => "a whole number",
            ArgumentKind::Hash => "a hash",
            ArgumentKind::Cids => "an array of cloud IDs",
        })
    }
}

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

/// The table, in the order of a life.
const TABLE: [Facts; 25] = [
    Facts {
        method: Method::Info,
        name: "info",
        purpose: "say which API version and stemcell formats the CPI takes",
        v1: Shape::Info,
        v2: Shape::Info,
        // It means API version 1.
        absence: Absence::Tolerated,
        callers: "every command that uses a CPI, first of all",
        ..COMMON
    },
    Facts {
        method: Method::CreateStemcell,
        name: "create_stemcell",
        purpose: "make an image of a stemcell",
        arguments: &[
            argument("image_path", ArgumentKind::Text),
            CLOUD_PROPERTIES,
            Argument { name: "env", kind: ArgumentKind::Hash, since: 3, optional: true },
        ],
        changes: true,
        v1: Shape::Cid,
        v2: Shape::Cid,
        callers: "create-env and a director's upload-stemcell, to make VMs from it",
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
        purpose: "make and start a VM",
        arguments: &[
            argument("agent_id", ArgumentKind::Text),
            STEMCELL,
            CLOUD_PROPERTIES,
            argument("networks", ArgumentKind::Hash),
            argument("disk_cids", ArgumentKind::Cids),
            Argument { optional: true, ..argument("environment", ArgumentKind::Hash) },
        ],
        changes: true,
        v1: Shape::Cid,
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
        purpose: "say whether a VM exists",
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
        purpose: "make a disk",
        arguments: &[
            argument("size", ArgumentKind::Integer),
            CLOUD_PROPERTIES,
            Argument { optional: true, ..VM },
        ],
        changes: true,
        v1: Shape::Cid,
        v2: Shape::Cid,
        callers: "create-env and a director, for instance groups with a persistent disk",
        ..COMMON
    },
    Facts {
        method: Method::HasDisk,
        name: "has_disk",
        purpose: "say whether a disk exists",
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
        v1: Shape::Cids,
        v2: Shape::Cids,
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
        v1: Shape::Cid,
        v2: Shape::Cid,
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
        v1: Shape::CidOrNothing,
        v2: Shape::CidOrNothing,
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
        callers: "create-env before it makes a new VM, delete-env, and a director's deploy",
        ..COMMON
    },
    Facts {
        method: Method::CreateNetwork,
        name: "create_network",
        purpose: "make a network",
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
        callers: "a director of long ago; today's makes a new VM",
        deprecated: true,
        ..COMMON
    },
    Facts {
        method: Method::CurrentVmId,
        name: "current_vm_id",
        purpose: "say which VM the CPI runs on",
        v1: Shape::Cid,
        v2: Shape::Cid,
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
        callers: "nobody; a director knows it",
        deprecated: true,
        ..COMMON
    },
];

impl Method {
    /// Every method, in the order of a life.
    pub fn all() -> impl Iterator<Item = Method> {
        TABLE.iter().map(|facts| facts.method)
    }

    /// What is known of it.
    pub fn facts(self) -> &'static Facts {
        static FACTS: [Facts; TABLE.len()] = TABLE;
        // The table has every method: a test holds it to that, and the first row stands in for none.
        FACTS.iter().find(|facts| facts.method == self).unwrap_or(&FACTS[0])
    }

    /// Its name in requests.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// The arguments that requests with this `api_version` carry.
    pub fn arguments(self, api_version: u32) -> impl Iterator<Item = &'static Argument> {
        self.facts().arguments.iter().filter(move |argument| argument.since <= api_version)
    }

    /// What it answers to requests with this `api_version`.
    pub fn answer(self, api_version: u32) -> Shape {
        if api_version >= 2 { self.facts().v2 } else { self.facts().v1 }
    }

    /// How it is called: `create_disk SIZE CLOUD_PROPERTIES [VM_CID]`.
    pub fn usage(self, api_version: u32) -> String {
        self.arguments(api_version).fold(self.name().to_owned(), |usage, argument| {
            let name = argument.name.to_uppercase();
            if argument.optional { format!("{usage} [{name}]") } else { format!("{usage} {name}") }
        })
    }

    /// Says what is wrong with the arguments of a request with this `api_version`.
    pub fn check_arguments(self, api_version: u32, values: &[serde_json::Value]) -> Result<(), String> {
        let known: Vec<&Argument> = self.arguments(api_version).collect();
        let least = known.iter().filter(|argument| !argument.optional).count();
        if values.len() < least || values.len() > known.len() {
            return Err(format!(
                "`{}` does not take {} arguments; it is {}",
                self.name(),
                values.len(),
                self.usage(api_version)
            ));
        }
        match known.iter().zip(values).find(|(argument, value)| !argument.kind.fits(value)) {
            Some((argument, _)) => {
                Err(format!("`{}`: {} must be {}", self.name(), argument.name, argument.kind))
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        Method::all().find(|method| method.name() == name).ok_or_else(|| UnknownMethod(name.to_owned()))
    }
}

/// No method has this name.
#[derive(Debug, thiserror::Error)]
#[error("the CPI API has no method '{0}'")]
pub struct UnknownMethod(pub String);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_method_has_facts_and_a_name_of_its_own() {
        let names: std::collections::HashSet<&str> = Method::all().map(Method::name).collect();
        assert_eq!(names.len(), TABLE.len());
        for (row, method) in TABLE.iter().zip(Method::all()) {
            assert_eq!(method.facts().name, row.name);
            assert_eq!(row.name.parse::<Method>().unwrap(), method);
            assert!(!row.purpose.is_empty() && !row.callers.is_empty(), "{method}");
        }
        // The last variant: as many rows as variants.
        assert_eq!(Method::Ping as usize + 1, TABLE.len());
        assert!("create_vms".parse::<Method>().is_err());
    }

    #[test]
    fn arguments_follow_the_version_of_the_request() {
        assert_eq!(Method::CreateStemcell.usage(2), "create_stemcell IMAGE_PATH CLOUD_PROPERTIES");
        assert_eq!(Method::CreateStemcell.usage(3), "create_stemcell IMAGE_PATH CLOUD_PROPERTIES [ENV]");
        assert_eq!(Method::Info.usage(1), "info");
    }

    #[test]
    fn arguments_are_checked_in_number_and_type() {
        let check = |method: Method, values: &[serde_json::Value]| method.check_arguments(2, values);
        assert_eq!(check(Method::CreateDisk, &[json!(1024), json!({})]), Ok(()));
        assert_eq!(check(Method::CreateDisk, &[json!(1024), json!({}), json!("vm")]), Ok(()));
        for (method, values, problem) in [
            (Method::DeleteVm, vec![], "DELETE"),
            (Method::DeleteVm, vec![json!("")], "vm_cid must be"),
            (Method::DeleteVm, vec![json!(7)], "vm_cid must be"),
            (Method::CreateDisk, vec![json!("1"), json!({})], "size must be"),
            (Method::CreateStemcell, vec![json!("i"), json!({}), json!({})], "does not take 3"),
            (
                Method::CreateVm,
                vec![json!("a"), json!("s"), json!({}), json!({}), json!([""])],
                "disk_cids must be",
            ),
        ] {
            let found = check(method, &values).unwrap_err();
            let problem = problem.replace("DELETE", "it is delete_vm VM_CID");
            assert!(found.contains(&problem), "{found}");
        }
    }
}
