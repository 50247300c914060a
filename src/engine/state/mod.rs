//! The state file, its lock and its journal.
//!
//! A run reads the state with [`State::read`], or takes the lock and gets a [`Store`], the only type with
//! write methods. Every change goes through one transition function, [`State::apply`]. A call that changes
//! something on record is announced in the [`Journal`] before it is made, and settled after its outcome is in
//! the state.

pub(crate) mod call_rules;
mod calls;
mod change;
mod credentials;
mod durations;
mod handle;
mod identity;
mod journal;
mod location;
mod lock;
mod records;
mod salted_digests;
mod storage;
mod store;
mod suspect_group;
mod versions;
mod wait;

pub use change::{Change, Rejection, RenamedDisk};
pub use credentials::{CredentialDigests, RunCredentials};
pub use durations::Durations;
pub use handle::{DiskHandle, Handle, Resource, SnapshotHandle, StemcellHandle, VmHandle, describe_in_iaas};
pub use identity::IdentityMatch;
pub use journal::{CallProgress, Intent, Journal, OpenCall};
pub use location::{CpiLocation, CurrentLocation, is_other_kind};
pub use lock::{Holder, LockConflictHandler};
pub(crate) use records::COMPARE_HINT;
pub use records::{
    AbsentMethod, AgentTask, DiskRecord, FORMAT_VERSION, MonopileSection, ReleaseRecord, STATE_SUFFIX,
    SnapshotRecord, State, StemcellRecord, Suspect, UndeletedResource, UndeployedBy, VmAtReplacement,
    VmRecord,
};
pub use salted_digests::{Leaves, VmProperties, VmPropertiesDigests, VmPropertiesPart};
pub use storage::{
    BUCKET_REQUEST_TIMEOUT, BUCKET_RETRY_TIMEOUT, BucketPrefix, BucketSettings, BucketUrl, COMPANION_FILES,
    Document, SHARED_CACHE_PART_TIMEOUT, SharedBucket, Storage, list_states_below, run_keeper,
};
pub use store::Store;
pub use suspect_group::SuspectGroup;
pub(crate) use versions::version_paths;
pub use versions::{KEPT_VERSIONS, Version, read_versions};
pub use wait::wait_for_answer;
