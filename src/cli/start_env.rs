//! `monopile start-env`.

use std::time::Duration;

use clap::Args;

use super::finish::Finished;
use super::{AgentArgs, ConfigArgs, ManifestArgs, StateArgs, duration, session::Session};
use crate::{Result, apply};

/// Start the jobs that stop-env stopped
#[derive(Debug, Clone, Args)]
pub struct StartEnvArgs {
    #[command(flatten)]
    manifest: ManifestArgs,

    #[command(flatten)]
    configs: ConfigArgs,

    #[command(flatten)]
    state: StateArgs,

    #[command(flatten)]
    agent: AgentArgs,

    /// How long the agent on the VM may take to answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    agent_timeout: Duration,
}

impl StartEnvArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let state = self.state.path(&self.manifest.manifest)?;
        let request = apply::StartEnv {
            inputs: self.configs.beside(self.manifest.inputs_beside(&state)),
            agent_timeout: self.agent_timeout,
        };
        session.keep_log("start-env");
        let mut surroundings = session.surroundings(state, None, false)?;
        self.state.apply(&mut surroundings.environment);
        self.agent.apply(&mut surroundings.environment);
        apply::start_env(&request, &surroundings.environment).map(Finished::Summary)
    }
}
