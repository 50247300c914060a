//! `monopile attach-disk`: chooses the disk that the next create-env attaches.

use clap::Args;

use super::{ChangeArgs, ResourceCpiArgs};
use crate::cli::cid::cid;
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use base::Result;
use engine::protocol::{DiskCid, DiskKind};
use engine::resources::{self, AttachDiskRequest};

#[derive(Debug, Clone, Args)]
pub(crate) struct AttachDiskArgs {
    #[command(flatten)]
    change: ChangeArgs,

    /// CID of the disk; one that is not on record must have the size in the manifest
    #[arg(value_name = "CID", value_parser = cid::<DiskKind>())]
    disk: DiskCid,

    #[command(flatten)]
    cpi: ResourceCpiArgs,
}

impl AttachDiskArgs {
    pub(in crate::cli) fn run(self, session: &Session) -> Result<CommandResult> {
        let (target, prepared_run) = self.change.begin_with(session, "attach-disk", self.disk.as_str())?;
        let request = AttachDiskRequest { target_environment: target, disk: self.disk, cpi: self.cpi.cpi };
        resources::attach_disk(&request, &prepared_run.run).map(CommandResult::Summary)
    }
}
