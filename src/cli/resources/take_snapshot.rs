//! `monopile take-snapshot`.

use clap::Args;

use super::{ChangeArgs, OfCpiArgs};
use crate::cli::cid::cid;
use crate::cli::finish::Finished;
use crate::cli::session::Session;
use base::Result;
use engine::protocol::{DiskCid, DiskKind};
use engine::resources::{self, TakeSnapshot};

#[derive(Debug, Clone, Args)]
#[command(
    after_help = "The snapshot is as consistent as a disk after a power loss. stop-env stops the jobs first."
)]
pub(crate) struct TakeSnapshotArgs {
    #[command(flatten)]
    change: ChangeArgs,

    /// Disk to copy [default: the persistent disk]
    #[arg(value_name = "DISK-CID", value_parser = cid::<DiskKind>())]
    disk: Option<DiskCid>,

    #[command(flatten)]
    cpi: OfCpiArgs,
}

impl TakeSnapshotArgs {
    pub(in crate::cli) fn run(self, session: &Session) -> Result<Finished> {
        let (on, run_context) = self.change.begin(session, "take-snapshot")?;
        let request = TakeSnapshot { on, disk: self.disk, cpi: self.cpi.cpi };
        resources::take_snapshot(&request, &run_context.environment).map(Finished::Summary)
    }
}
