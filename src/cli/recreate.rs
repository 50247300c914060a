//! `monopile recreate`: replaces the VM.

use clap::Args;

use super::finish::CommandResult;
use super::replacement_args::ReplacementArgs;
use super::session::Session;
use super::snapshot_args::SnapshotArgs;
use base::Result;
use engine::deploy;

#[derive(Debug, Clone, Args)]
pub(super) struct RecreateArgs {
    #[command(flatten)]
    replacement: ReplacementArgs,

    #[command(flatten)]
    snapshot: SnapshotArgs,
}

impl RecreateArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        session.begin_log("recreate");
        let (mut request, prepared_run) = self.replacement.prepare(session, "recreate")?;
        request.snapshot = self.snapshot.policy();
        deploy::recreate(&request, &prepared_run.run).map(CommandResult::Summary)
    }
}
