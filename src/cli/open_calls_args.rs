//! Open calls of earlier runs: an option of commands that change an environment.

use clap::Args;

/// Open calls of an earlier run.
#[derive(Debug, Clone, Args)]
pub(super) struct OpenCallsArgs {
    /// Forget calls of an earlier run whose outcome is unknown
    ///
    /// Look in the IaaS first for what the error message names, and delete it there: a VM or disk that such a
    /// call created is not on record, and no command finds or deletes it. This cannot be undone. A call whose
    /// CPI process still runs is not forgotten: the run waits for it.
    #[arg(long)]
    pub(super) forget_open_calls: bool,
}
