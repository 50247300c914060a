//! Single stemcells, VMs, disks and snapshots of an environment, of whichever CPI: for an operator who lists them,
//! makes them or takes them away by hand.
//!
//! Uses `deploy`, `records`, `recovery`, `effects`, `cpis` and `prepare`. Entry points: [`upload_stemcell`],
//! [`take_snapshot`], [`attach_disk`], [`delete()`], and the lists, which only read the state.
//!
//! Each operation works on the environment's state as `create-env` does: locked, what an earlier run left open settled
//! first, every effect announced before and recorded after. The lists only read it.

mod attach;
mod cpis;
mod delete;
mod list;
mod snapshot;
mod target;
mod upload;

pub use attach::{AttachDisk, attach_disk};
pub use cpis::{ListedCpi, cpis};
pub use delete::{Delete, Target, delete};
pub use list::{DiskUse, ListedDisk, ListedStemcell, disks, snapshots, stemcells};
pub use snapshot::{TakeSnapshot, take_snapshot};
pub use target::TargetEnvironment;
pub use upload::{UploadStemcell, upload_stemcell};
