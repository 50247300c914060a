//! Commands on single stemcells, VMs, disks and snapshots of an environment, of whichever CPI.

mod attach_disk;
mod cpis;
mod delete;
mod delete_stemcell;
mod disks;
mod snapshots;
mod stemcells;
mod take_snapshot;
mod upload_stemcell;

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::session::{Session, Surroundings};
use super::{ConfigArgs, CpiArgs, ManifestArgs, StateArgs};
use crate::Result;
use crate::apply::resources::On;
use crate::template::Mode;

pub(super) use attach_disk::AttachDiskArgs;
pub(super) use cpis::CpisArgs;
pub(super) use delete::DeleteArgs;
pub(super) use delete_stemcell::DeleteStemcellArgs;
pub(super) use disks::DisksArgs;
pub(super) use snapshots::SnapshotsArgs;
pub(super) use stemcells::StemcellsArgs;
pub(super) use take_snapshot::TakeSnapshotArgs;
pub(super) use upload_stemcell::UploadStemcellArgs;

/// The environment that a command is on.
#[derive(Debug, Clone, Args)]
pub struct OnArgs {
    #[command(flatten)]
    manifest: ManifestArgs,

    #[command(flatten)]
    configs: ConfigArgs,

    #[command(flatten)]
    state: StateArgs,

    /// What renders job templates
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    templates: Mode,

    /// Where the CPI's packages are installed, instead of the cache
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    package_dir: Option<PathBuf>,

    #[command(flatten)]
    cpi: CpiArgs,
}

/// The environment of a command that changes what is there.
#[derive(Debug, Clone, Args)]
pub struct ChangeArgs {
    #[command(flatten)]
    on: OnArgs,

    /// Drop calls of an interrupted run whose outcome cannot be known
    #[arg(long)]
    forget_open_calls: bool,
}

/// Of which CPI something is.
#[derive(Debug, Clone, Args)]
pub struct OfCpiArgs {
    /// Of this CPI, where several have the same CID; '' is the default CPI
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other)]
    cpi: Option<String>,
}

impl OnArgs {
    fn begin(&self, session: &Session, command: &str) -> Result<(On, Surroundings)> {
        let path = self.state.path(&self.manifest.manifest)?;
        let on = On {
            inputs: self.configs.beside(self.manifest.inputs_beside(&path)),
            templates: self.templates,
            cpi_api_version: self.cpi.version.cpi_api_version,
            forget_open_calls: false,
        };
        session.keep_log(command);
        let mut surroundings = session.surroundings(path, self.package_dir.as_deref(), false)?;
        self.state.apply(&mut surroundings.environment);
        self.cpi.apply(&mut surroundings.environment);
        Ok((on, surroundings))
    }
}

impl ChangeArgs {
    fn begin(&self, session: &Session, command: &str) -> Result<(On, Surroundings)> {
        let (on, surroundings) = self.on.begin(session, command)?;
        Ok((On { forget_open_calls: self.forget_open_calls, ..on }, surroundings))
    }
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}
