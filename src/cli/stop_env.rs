//! `monopile stop-env`.

use std::time::Duration;

use clap::Args;

use super::finish::Finished;
use super::{AgentArgs, ConfigArgs, ManifestArgs, StateArgs, duration, session::Session};
use crate::{Result, apply};

/// Stop the jobs of an environment; VM and disks stay
#[derive(Debug, Clone, Args)]
pub struct StopEnvArgs {
    #[command(flatten)]
    manifest: ManifestArgs,

    #[command(flatten)]
    configs: ConfigArgs,

    #[command(flatten)]
    state: StateArgs,

    #[command(flatten)]
    agent: AgentArgs,

    /// Don't run drain and pre-stop scripts
    #[arg(long)]
    skip_drain: bool,

    /// Stop jobs that still drain after this time
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration::parse)]
    drain_timeout: Duration,

    /// How long the agent on the VM may take to answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    agent_timeout: Duration,
}

impl StopEnvArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let state = self.state.path(&self.manifest.manifest)?;
        let request = apply::StopEnv {
            inputs: self.configs.beside(self.manifest.inputs_beside(&state)),
            stopping: apply::Stopping { skip_drain: self.skip_drain, drain_timeout: self.drain_timeout },
            agent_timeout: self.agent_timeout,
        };
        session.keep_log("stop-env");
        let mut surroundings = session.surroundings(state, None, false)?;
        self.state.apply(&mut surroundings.environment);
        self.agent.apply(&mut surroundings.environment);
        apply::stop_env(&request, &surroundings.environment).map(Finished::Summary)
    }
}
