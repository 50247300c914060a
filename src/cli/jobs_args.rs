//! The common arguments of `stop-env`, `start-env` and `restart`.

use std::time::Duration;

use clap::Args;

use super::duration;
use super::session::{RunContext, Session};
use super::vm_args::VmArgs;
use base::Result;
use engine::deploy;

/// An environment with jobs to stop or start.
#[derive(Debug, Clone, Args)]
pub(super) struct JobsArgs {
    #[command(flatten)]
    vm: VmArgs,

    /// Wait for the agent on the VM at most this long
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    agent_timeout: Duration,
}

impl JobsArgs {
    /// Begins the run and returns the request.
    pub(super) fn begin(
        &self,
        session: &Session,
        command: &str,
    ) -> Result<(deploy::JobsRequest, RunContext)> {
        let (state, inputs) = self.vm.inputs()?;
        session.name_manifest(&self.vm.manifest.manifest);
        session.keep_log(command);
        let run_context = self.vm.run_context(session, state)?;
        Ok((deploy::JobsRequest { inputs, agent_timeout: self.agent_timeout }, run_context))
    }
}
