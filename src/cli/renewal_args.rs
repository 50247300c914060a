//! How a VM is made anew: what `recreate` and `cloud-check` are told alike.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::session::{Session, Surroundings};
use super::{AgentArgs, ConfigArgs, CpiArgs, ManifestArgs, StateArgs, StoppingArgs, duration};
use crate::plan::Strategy;
use crate::template::Mode;
use crate::{Result, apply};

/// What is deployed, and how a new VM for it is made.
#[derive(Debug, Clone, Args)]
pub struct RenewalArgs {
    #[command(flatten)]
    manifest: ManifestArgs,

    #[command(flatten)]
    configs: ConfigArgs,

    #[command(flatten)]
    state: StateArgs,

    #[command(flatten)]
    agent: AgentArgs,

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

impl RenewalArgs {
    /// What the library is asked for, and what it needs for that.
    pub(super) fn prepare(&self, session: &Session) -> Result<(apply::CreateEnv, Surroundings)> {
        let state = self.state.path(&self.manifest.manifest)?;
        let request = apply::CreateEnv {
            inputs: self.configs.beside(self.manifest.inputs_beside(&state)),
            recreate: true,
            recreate_persistent_disks: false,
            strategy: Strategy::Recreate,
            plan: None,
            stopping: self.stopping.stopping(),
            verify: true,
            agent_timeout: self.boot_timeout,
            forget_open_calls: self.forget_open_calls,
            templates: self.templates,
            cpi_api_version: self.cpi.version.cpi_api_version,
        };
        let mut surroundings = session.surroundings(state, self.package_dir.as_deref(), false)?;
        self.state.apply(&mut surroundings.environment);
        self.agent.apply(&mut surroundings.environment);
        self.cpi.apply(&mut surroundings.environment);
        Ok((request, surroundings))
    }
}
