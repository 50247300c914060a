//! The common arguments of `stop-env`, `start-env` and `restart`.

use clap::Args;

use super::agent_args::AgentTimeoutArgs;
use super::session::{PreparedRun, Session};
use super::vm_args::VmArgs;
use base::Result;
use engine::deploy;

/// An environment with jobs to stop or start.
#[derive(Debug, Clone, Args)]
pub(super) struct JobsArgs {
    #[command(flatten)]
    vm: VmArgs,

    #[command(flatten)]
    timeout_args: AgentTimeoutArgs,
}

impl JobsArgs {
    /// Begins the run and returns the request.
    pub(super) fn begin(
        &self,
        session: &Session,
        command: &str,
    ) -> Result<(deploy::JobsRequest, PreparedRun)> {
        let (state, inputs) = self.vm.inputs()?;
        session.begin_document(&self.vm.manifest.manifest);
        session.begin_log(command);
        let prepared_run = self.vm.prepare_run(session, state)?;
        Ok((deploy::JobsRequest { inputs, agent_timeout: self.timeout_args.agent_timeout }, prepared_run))
    }
}
