//! The scratch directory of a run: an option of `create-env`, `plan` and `delete-env`.

use clap::Args;

/// The scratch directory of a run.
#[derive(Debug, Clone, Args)]
pub(super) struct ScratchArgs {
    /// Keep the scratch directory of this run for debugging; it holds credentials
    #[arg(long = "keep-scratch", alias = "keep-workdir", hide_short_help = true)]
    pub(super) keep_scratch: bool,
}
