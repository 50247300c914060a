//! Commands for single stemcells, VMs, disks and snapshots of an environment.

mod attach_disk;
mod delete;
mod delete_stemcell;
mod take_snapshot;
mod upload_stemcell;
mod views;

use std::path::Path;

use clap::{Args, ValueHint};

use super::environment_args::EnvironmentArgs;
use super::open_calls_args::OpenCallsArgs;
use super::paths;
use super::session::{PreparedRun, Session};
use base::text::shell_word;
use base::{Error, Result};
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

    /// Begins the run of a command whose argument `resource` names a resource on record.
    fn begin_with(
        &self,
        session: &Session,
        command: &str,
        resource: &str,
    ) -> Result<(TargetEnvironment, PreparedRun)> {
        self.check_argument_order(command, resource)?;
        self.begin(session, command)
    }

    /// Fails if the manifest was named after the resource.
    fn check_argument_order(&self, command: &str, resource: &str) -> Result<()> {
        let manifest = self.target.manifest();
        let path = paths::expand(Path::new(resource), paths::home().as_deref());
        if paths::exists(manifest) || !manifest::is_manifest(&path) {
            return Ok(());
        }
        let (first, second) = (manifest.to_string_lossy(), resource);
        let (cid, file) = (shell_word(&first), shell_word(second));
        Err(Error::usage(format!("manifest '{first}' does not exist, but '{second}' is a manifest"))
            .with_hint(format!("the manifest comes first: `monopile {command} {file} {cid}`")))
    }
}

/// Formats a boolean for a table.
pub(super) fn yes_or_no(is_true: bool) -> String {
    if is_true { "yes" } else { "no" }.to_owned()
}
