//! Handles: a CID identifies a resource only together with the CPI that assigned it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::protocol::{Cid, CidKind, DiskKind, EmptyCid, ResourceKind, SnapshotKind, StemcellKind, VmKind};

/// The handle of a resource of kind `K`: its CID, and the CPI that assigned it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(bound = "K: CidKind")]
pub struct Handle<K> {
    /// The CID, which is unique only within the CPI.
    pub cid: Cid<K>,
    /// The name of that CPI; `None` for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
}

/// The handle of a VM.
pub type VmHandle = Handle<VmKind>;
/// The handle of a persistent disk.
pub type DiskHandle = Handle<DiskKind>;
/// The handle of a stemcell.
pub type StemcellHandle = Handle<StemcellKind>;
/// The handle of a snapshot.
pub type SnapshotHandle = Handle<SnapshotKind>;

impl<K> Handle<K> {
    /// Creates the handle of a resource of this CPI.
    pub fn new(cid: Cid<K>, cpi: Option<&str>) -> Self {
        Handle { cid, cpi: cpi.map(str::to_owned) }
    }

    /// Returns the name of its CPI; `None` for the default CPI.
    pub fn cpi(&self) -> Option<&str> {
        self.cpi.as_deref()
    }

    /// Returns true if the resource belongs to the CPI that an operator named. `None` stands for any CPI, the
    /// empty name for the default one.
    pub fn is_of(&self, cpi: Option<&str>) -> bool {
        cpi.is_none_or(|cpi| self.cpi().unwrap_or_default() == cpi)
    }
}

/// Shows `'CID'`, with the name of the CPI if it is not the default one.
impl<K> fmt::Display for Handle<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cpi {
            None => write!(f, "'{}'", self.cid),
            Some(cpi) => write!(f, "'{}' of CPI '{cpi}'", self.cid),
        }
    }
}

/// A resource of any kind, by its handle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", try_from = "ResourceFields")]
pub enum Resource {
    /// A VM.
    Vm(VmHandle),
    /// A persistent disk.
    Disk(DiskHandle),
    /// A stemcell.
    Stemcell(StemcellHandle),
    /// A snapshot of a disk.
    Snapshot(SnapshotHandle),
}

/// The fields of a [`Resource`] as a state has them. They are read into a struct because the tag of an enum
/// can have no second name.
#[derive(Deserialize)]
struct ResourceFields {
    #[serde(alias = "what")]
    kind: ResourceKind,
    cid: String,
    #[serde(default)]
    cpi: Option<String>,
}

impl TryFrom<ResourceFields> for Resource {
    type Error = EmptyCid;

    fn try_from(fields: ResourceFields) -> Result<Self, EmptyCid> {
        let ResourceFields { kind, cid, cpi } = fields;
        Ok(match kind {
            ResourceKind::Vm => Resource::Vm(Handle { cid: cid.parse()?, cpi }),
            ResourceKind::Disk => Resource::Disk(Handle { cid: cid.parse()?, cpi }),
            ResourceKind::Stemcell => Resource::Stemcell(Handle { cid: cid.parse()?, cpi }),
            ResourceKind::Snapshot => Resource::Snapshot(Handle { cid: cid.parse()?, cpi }),
        })
    }
}

impl Resource {
    /// Returns the kind of resource that it identifies.
    pub fn kind(&self) -> ResourceKind {
        match self {
            Resource::Vm(_) => ResourceKind::Vm,
            Resource::Disk(_) => ResourceKind::Disk,
            Resource::Stemcell(_) => ResourceKind::Stemcell,
            Resource::Snapshot(_) => ResourceKind::Snapshot,
        }
    }

    /// Returns the text of its CID.
    pub fn cid(&self) -> &str {
        match self {
            Resource::Vm(vm) => vm.cid.as_str(),
            Resource::Disk(disk) => disk.cid.as_str(),
            Resource::Stemcell(stemcell) => stemcell.cid.as_str(),
            Resource::Snapshot(snapshot) => snapshot.cid.as_str(),
        }
    }

    /// Returns the name of its CPI; `None` for the default CPI.
    pub fn cpi(&self) -> Option<&str> {
        match self {
            Resource::Vm(vm) => vm.cpi(),
            Resource::Disk(disk) => disk.cpi(),
            Resource::Stemcell(stemcell) => stemcell.cpi(),
            Resource::Snapshot(snapshot) => snapshot.cpi(),
        }
    }

    /// Returns its handle for display without its kind.
    pub fn handle(&self) -> &dyn fmt::Display {
        match self {
            Resource::Vm(vm) => vm,
            Resource::Disk(disk) => disk,
            Resource::Stemcell(stemcell) => stemcell,
            Resource::Snapshot(snapshot) => snapshot,
        }
    }

    /// Returns the resource with the same CID at another CPI.
    #[must_use]
    pub fn at_cpi(&self, cpi: Option<&str>) -> Self {
        match self {
            Resource::Vm(vm) => Resource::Vm(Handle::new(vm.cid.clone(), cpi)),
            Resource::Disk(disk) => Resource::Disk(Handle::new(disk.cid.clone(), cpi)),
            Resource::Stemcell(stemcell) => Resource::Stemcell(Handle::new(stemcell.cid.clone(), cpi)),
            Resource::Snapshot(snapshot) => Resource::Snapshot(Handle::new(snapshot.cid.clone(), cpi)),
        }
    }
}

/// Shows the kind, then the handle: `disk 'CID'`.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.handle())
    }
}

impl From<VmHandle> for Resource {
    fn from(vm: VmHandle) -> Self {
        Resource::Vm(vm)
    }
}

impl From<DiskHandle> for Resource {
    fn from(disk: DiskHandle) -> Self {
        Resource::Disk(disk)
    }
}

impl From<StemcellHandle> for Resource {
    fn from(stemcell: StemcellHandle) -> Self {
        Resource::Stemcell(stemcell)
    }
}

impl From<SnapshotHandle> for Resource {
    fn from(snapshot: SnapshotHandle) -> Self {
        Resource::Snapshot(snapshot)
    }
}

/// Describes the appearance of a resource without a known CID, and its CPI if it is not the default one.
pub fn describe_in_iaas(description: &str, cpi: Option<&str>) -> String {
    match cpi {
        Some(cpi) => format!("{description}, in the IaaS of CPI '{cpi}'"),
        None => description.to_owned(),
    }
}
