//! Values that the CPI, agent, state and plan share: CIDs and request ids, networks and disk hints, the
//! contract, the terms of a call, and the endpoint of a registry.

mod builtin_cpi;
mod cid;
mod contract;
mod disk_hint;
mod networks;
mod registry_endpoint;
mod request_id;
mod resource_kind;
mod terms;

pub use builtin_cpi::BuiltinCpi;
pub use cid::{
    AnyCid, Cid, CidKind, DiskCid, DiskKind, EmptyCid, SnapshotCid, SnapshotKind, StemcellCid, StemcellKind,
    Unnamed, VmCid, VmKind, cid_or_empty,
};
pub use contract::{Contract, HIGHEST_API_VERSION};
pub use disk_hint::DiskHint;
pub use networks::Networks;
pub use registry_endpoint::RegistryEndpoint;
pub use request_id::{EmptyRequestId, RequestId};
pub use resource_kind::ResourceKind;
pub use terms::Terms;
