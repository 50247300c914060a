//! How far to trust the agent: a flag of every command that speaks to one.

use clap::Args;

use engine::environment::Environment;

/// How to speak with the agent.
#[derive(Debug, Clone, Args)]
pub struct AgentArgs {
    /// Speak to the agent even if the manifest has no `cloud_provider.cert.ca` to verify it with
    #[arg(long)]
    insecure_agent: bool,
}

impl AgentArgs {
    /// Has a run trust the agent as told.
    pub(super) fn apply(&self, environment: &mut Environment) {
        environment.insecure_agent = self.insecure_agent;
    }
}
