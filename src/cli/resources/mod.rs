//! Commands for single stemcells, VMs, disks and snapshots of an environment.

mod attach_disk;
mod delete;
mod delete_stemcell;
mod take_snapshot;
mod upload_stemcell;
mod views;

use clap::{Args, ValueHint};

use super::environment_args::EnvironmentArgs;
use super::open_calls_args::OpenCallsArgs;
use super::session::{PreparedRun, Session};
use base::Result;
use engine::resources::TargetEnvironment;

pub(super) use attach_disk::AttachDiskArgs;
pub(super) use delete::DeleteArgs;
pub(super) use delete_stemcell::DeleteStemcellArgs;
pub(super) use take_snapshot::TakeSnapshotArgs;
pub(super) use upload_stemcell::UploadStemcellArgs;
pub(super) use views::{ListView, ViewArgs};

/// The environment of a command that changes resources.
#[derive(Debug, Clone, Args)]
pub(super) struct ChangeArgs {
    #[command(flatten)]
    target: EnvironmentArgs,

    #[command(flatten)]
    open_calls: OpenCallsArgs,
}

/// The CPI of a resource.
#[derive(Debug, Clone, Args)]
pub(super) struct ResourceCpiArgs {
    /// Use the resource of this CPI, if several have the same CID; '' is the default CPI
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other)]
    cpi: Option<String>,
}

/// Begins the run of a command and returns its environment.
pub(super) fn begin(
    target: &EnvironmentArgs,
    forget_open_calls: bool,
    session: &Session,
    command: &str,
) -> Result<(TargetEnvironment, PreparedRun)> {
    session.begin_log(command);
    let (inputs, prepared_run) = target.begin(session, false)?;
    let target = TargetEnvironment {
        inputs,
        renderer_choice: target.renderer.into(),
        cpi_api_version: target.cpi_api_version(),
        forget_open_calls,
    };
    Ok((target, prepared_run))
}

impl ChangeArgs {
    fn begin(&self, session: &Session, command: &str) -> Result<(TargetEnvironment, PreparedRun)> {
        begin(&self.target, self.open_calls.forget_open_calls, session, command)
    }
}

/// Formats a boolean for a table.
pub(super) fn yes_or_no(is_true: bool) -> String {
    if is_true { "yes" } else { "no" }.to_owned()
}
