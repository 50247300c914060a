//! `monopile restart`.

use std::time::Duration;

use clap::Args;

use super::finish::Finished;
use super::{AgentArgs, ConfigArgs, ManifestArgs, StateArgs, StoppingArgs, duration, session::Session};
use crate::{Result, apply};

/// Stop the jobs of an environment and start them again
#[derive(Debug, Clone, Args)]
pub struct RestartArgs {
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

    /// How long the agent on the VM may take to answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    agent_timeout: Duration,
}

impl RestartArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let state = self.state.path(&self.manifest.manifest)?;
        let request = apply::Restart {
            inputs: self.configs.beside(self.manifest.inputs_beside(&state)),
            stopping: self.stopping.stopping(),
            agent_timeout: self.agent_timeout,
        };
        session.keep_log("restart");
        let mut surroundings = session.surroundings(state, None, false)?;
        self.state.apply(&mut surroundings.environment);
        self.agent.apply(&mut surroundings.environment);
        apply::restart(&request, &surroundings.environment).map(Finished::Summary)
    }
}
