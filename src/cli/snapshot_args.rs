//! `--snapshot`.

use std::time::Duration;

use clap::Args;

use super::duration;
use engine::deploy::SnapshotPolicy;

/// The snapshot before a VM is replaced.
#[derive(Debug, Clone, Args)]
pub(super) struct SnapshotArgs {
    /// Take a snapshot of the persistent disk before the VM is replaced, if the CPI can
    ///
    /// The jobs are stopped before. The snapshot stays until delete-snapshot or delete-env; with an age, such
    /// as --snapshot=7d, until the first create-env or recreate after that time.
    #[arg(long, value_name = "AGE", num_args = 0..=1, require_equals = true,
          value_parser = duration::parse_age)]
    snapshot: Option<Option<Duration>>,
}

impl SnapshotArgs {
    /// Returns the policy that the option asks for.
    pub(super) fn policy(&self) -> SnapshotPolicy {
        match self.snapshot {
            None => SnapshotPolicy::Never,
            Some(None) => SnapshotPolicy::Keep,
            Some(Some(age)) => SnapshotPolicy::KeepFor(age),
        }
    }
}
