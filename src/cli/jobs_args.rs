//! The environment whose agent is to stop or start jobs: what `stop-env`, `start-env` and `restart` are told alike.

use std::time::Duration;

use clap::Args;

use super::session::{Session, Surroundings};
use super::{AgentArgs, ConfigArgs, ManifestArgs, StateArgs, duration};
use crate::{Result, apply};

/// An environment whose VM runs.
#[derive(Debug, Clone, Args)]
pub struct JobsArgs {
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

impl JobsArgs {
    /// What the library is asked for, and what it needs for that.
    pub(super) fn begin(&self, session: &Session, command: &str) -> Result<(apply::OnJobs, Surroundings)> {
        let state = self.state.path(&self.manifest.manifest)?;
        let request = apply::OnJobs {
            inputs: self.configs.beside(self.manifest.inputs_beside(&state)),
            agent_timeout: self.agent_timeout,
        };
        session.keep_log(command);
        let mut surroundings = session.surroundings(state, None, false)?;
        self.state.apply(&mut surroundings.environment);
        self.agent.apply(&mut surroundings.environment);
        Ok((request, surroundings))
    }
}
