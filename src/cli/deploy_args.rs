//! How a VM is made anew: flags of commands that do so without being asked for a change.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::session::{Session, Surroundings};
use super::{CpiArgs, StoppingArgs, duration};
use crate::Result;
use crate::apply::CreateEnv;
use crate::manifest::Inputs;
use crate::template::Mode;

/// How a VM is made anew.
#[derive(Debug, Clone, Args)]
pub struct DeployArgs {
    #[command(flatten)]
    stopping: StoppingArgs,

    /// How long the agent on the new VM may take to answer
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    boot_timeout: Duration,

    /// Drop calls of an interrupted run whose outcome cannot be known
    #[arg(long)]
    forget_open_calls: bool,

    /// What renders job templates
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    templates: Mode,

    /// Where the CPI's packages are installed, instead of the cache
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    package_dir: Option<PathBuf>,

    #[command(flatten)]
    cpi: CpiArgs,
}

impl DeployArgs {
    /// The request for a new VM.
    pub(super) fn request(&self, inputs: Inputs) -> CreateEnv {
        CreateEnv {
            inputs,
            recreate: true,
            recreate_persistent_disks: false,
            stopping: self.stopping.stopping(),
            verify: true,
            agent_timeout: self.boot_timeout,
            forget_open_calls: self.forget_open_calls,
            templates: self.templates,
            cpi_api_version: self.cpi.version.cpi_api_version,
        }
    }

    /// What the command runs in.
    pub(super) fn surroundings(&self, session: &Session, state: PathBuf) -> Result<Surroundings> {
        let mut surroundings = session.surroundings(state, self.package_dir.as_deref(), false)?;
        self.cpi.apply(&mut surroundings.environment);
        Ok(surroundings)
    }
}
