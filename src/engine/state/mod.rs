//! The state file, its lock and its journal.
//!
//! A run reads the state with [`State::read`], or takes the lock and gets a [`Store`], the only type with
//! write methods. Every change goes through one transition function, [`State::apply`]. A call that changes
//! something in the IaaS is announced in the [`Journal`] before it is made, and settled after its outcome is
//! in the state.

pub(crate) mod call_rules;
mod calls;
mod change;
mod credentials;
mod durations;
mod file;
mod handle;
mod identity;
mod journal;
mod lock;
mod place;
mod salted;
mod storage;
mod store;
mod suspect_group;
mod versions;
mod wait;

pub use change::{Change, Rejected};
pub use credentials::Credentials;
pub use durations::Durations;
pub use file::{
    AbsentMethod, AgentTask, Disk, Extension, FORMAT, Release, ReplacedOn, Snapshot, State, Stemcell,
    Suspect, Undeleted, Vm,
};
pub use handle::{DiskHandle, Handle, Resource, SnapshotHandle, StemcellHandle, VmHandle, in_iaas};
pub use identity::IdentityMatch;
pub use journal::{CallProgress, Intent, Journal, OpenCall};
pub use lock::{HeldLockHandler, Holder};
pub use place::{CpiPlace, CurrentPlace};
pub use salted::{Leaves, VmSpec, VmSpecDigests, VmSpecPart};
pub use storage::{
    Address, BUCKET_REQUEST, BUCKET_RETRIES, BucketSettings, COMPANION_FILES, Document, Storage, run_keeper,
};
pub use store::Store;
pub use suspect_group::SuspectGroup;
pub use versions::{KEPT_VERSIONS, Version, versions};
pub use wait::wait_for_answer;
