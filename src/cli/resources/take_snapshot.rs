//! `monopile take-snapshot`: takes a snapshot of a disk.

use clap::Args;

use super::{ChangeArgs, ResourceCpiArgs};
use crate::cli::cid::cid;
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use base::Result;
use engine::protocol::{DiskCid, DiskKind};
use engine::resources::{self, TakeSnapshotRequest};

#[derive(Debug, Clone, Args)]
pub(crate) struct TakeSnapshotArgs {
    #[command(flatten)]
    change: ChangeArgs,

    /// CID of the disk [default: the persistent disk]
    ///
    /// Needs the manifest before it, even with an env file.
    #[arg(value_name = "CID", value_parser = cid::<DiskKind>())]
    disk: Option<DiskCid>,

    #[command(flatten)]
    cpi: ResourceCpiArgs,
}

impl TakeSnapshotArgs {
    pub(in crate::cli) fn run(self, session: &Session) -> Result<CommandResult> {
        let (target, prepared_run) = self.change.begin(session, "take-snapshot")?;
        let request = TakeSnapshotRequest { target_environment: target, disk: self.disk, cpi: self.cpi.cpi };
        resources::take_snapshot(&request, &prepared_run.run).map(CommandResult::Summary)
    }
}
