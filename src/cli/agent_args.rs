//! The agent: options of commands that send it requests.

use std::time::Duration;

use clap::Args;

use super::duration;
use engine::run_context::RunContext;

/// Options for the agent.
#[derive(Debug, Clone, Args)]
pub struct AgentArgs {
    /// Trust the agent unverified if `cloud_provider.cert.ca` is missing
    ///
    /// Any server at the agent's address then gets the password of the agent.
    #[arg(long, hide_short_help = true)]
    insecure_agent: bool,
}

impl AgentArgs {
    /// Applies the option to a run.
    pub(super) fn apply(&self, run: &mut RunContext) {
        run.insecure_agent = self.insecure_agent;
    }
}

/// The wait for the agent of a VM that exists.
#[derive(Debug, Clone, Args)]
pub(super) struct AgentTimeoutArgs {
    /// Wait this long for the agent; the last attempt may take up to 10 seconds more
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(super) agent_timeout: Duration,
}
