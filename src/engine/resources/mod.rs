//! Single stemcells, VMs, disks and snapshots of an environment, at any CPI: list, create, attach and delete
//! them by hand.
//!
//! Entry points: [`upload_stemcell`], [`take_snapshot`], [`attach_disk`], [`delete()`], and the lists.
//!
//! Each command that changes a resource treats the state like `create-env`: it takes the lock, settles open
//! calls first, and announces and records every effect. The lists only read the state.

mod attach;
mod cpis;
mod delete;
mod list;
mod snapshot;
mod target;
mod upload;

pub use attach::{AttachDiskRequest, attach_disk};
pub use cpis::{ListedCpi, list_cpis};
pub use delete::{DeleteRequest, DeleteTarget, delete};
pub use list::{DiskUse, ListedDisk, ListedStemcell, list_disks, list_snapshots, list_stemcells};
pub use snapshot::{TakeSnapshotRequest, take_snapshot};
pub use target::TargetEnvironment;
pub use upload::{UploadStemcellRequest, upload_stemcell};
