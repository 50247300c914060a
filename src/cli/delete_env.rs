//! `monopile delete-env`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::finish::Finished;
use super::{
    AgentArgs, ConfigArgs, CpiArgs, ManifestArgs, StateArgs, StoppingArgs, duration, session::Session,
};
use crate::template::Mode;
use crate::{Error, Result, apply, ui};

/// Delete an environment: its VM, disks, stemcells and state
#[derive(Debug, Clone, Args)]
pub struct DeleteEnvArgs {
    #[command(flatten)]
    manifest: ManifestArgs,

    #[command(flatten)]
    configs: ConfigArgs,

    #[command(flatten)]
    state: StateArgs,

    #[command(flatten)]
    agent: AgentArgs,

    /// Succeed if there is no state file
    #[arg(long)]
    allow_missing: bool,

    #[command(flatten)]
    stopping: StoppingArgs,

    /// How long the agent on the VM may take to answer; after that, the VM is deleted without stopping its jobs
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    agent_timeout: Duration,

    /// Drop calls of an interrupted run whose outcome cannot be known
    #[arg(long)]
    forget_open_calls: bool,

    /// What renders job templates
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    templates: Mode,

    /// Where the CPI's packages are installed, instead of the cache
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    package_dir: Option<PathBuf>,

    /// Keep the scratch directory of this run, for a look at what went wrong; it holds credentials
    #[arg(long)]
    keep_workdir: bool,

    #[command(flatten)]
    cpi: CpiArgs,
}

impl DeleteEnvArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let state = self.state.path(&self.manifest.manifest)?;
        let question =
            format!("Delete the environment recorded in {}, its persistent disks included?", state.display());
        if session.interactive() && !ui::prompt::confirm(&question)? {
            return Err(Error::usage("not confirmed: nothing was deleted"));
        }
        let request = apply::DeleteEnv {
            inputs: self.configs.beside(self.manifest.inputs_beside(&state)),
            stopping: self.stopping.stopping(),
            agent_timeout: self.agent_timeout,
            allow_missing: self.allow_missing,
            forget_open_calls: self.forget_open_calls,
            templates: self.templates,
            cpi_api_version: self.cpi.version.cpi_api_version,
        };
        session.keep_log("delete-env");
        let mut surroundings = session.surroundings(state, self.package_dir.as_deref(), self.keep_workdir)?;
        self.state.apply(&mut surroundings.environment);
        self.agent.apply(&mut surroundings.environment);
        self.cpi.apply(&mut surroundings.environment);
        apply::delete_env(&request, &surroundings.environment).map(Finished::Summary)
    }
}
