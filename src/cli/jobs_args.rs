//! The environment whose agent is to stop or start jobs: what `stop-env`, `start-env` and `restart` are told alike.

use std::time::Duration;

use clap::Args;

use super::duration;
use super::session::{RunContext, Session};
use super::vm_args::VmArgs;
use base::Result;
use engine::deploy;

/// An environment whose VM runs.
#[derive(Debug, Clone, Args)]
pub(super) struct JobsArgs {
    #[command(flatten)]
    vm: VmArgs,

    /// How long the agent on the VM may take to answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    agent_timeout: Duration,
}

impl JobsArgs {
    /// What the library is asked for, and what it needs for that.
    pub(super) fn begin(
        &self,
        session: &Session,
        command: &str,
    ) -> Result<(deploy::JobsRequest, RunContext)> {
        let (state, inputs) = self.vm.inputs()?;
        session.keep_log(command);
        let surroundings = self.vm.surroundings(session, state)?;
        Ok((deploy::JobsRequest { inputs, agent_timeout: self.agent_timeout }, surroundings))
    }
}
