//! Trust in the agent: a flag of commands that call it.

use clap::Args;

use engine::environment::Environment;

/// Options for the agent.
#[derive(Debug, Clone, Args)]
pub struct AgentArgs {
    /// Use the agent even if the manifest has no `cloud_provider.cert.ca` to verify it
    #[arg(long)]
    insecure_agent: bool,
}

impl AgentArgs {
    /// Applies the flag to a run.
    pub(super) fn apply(&self, environment: &mut Environment) {
        environment.insecure_agent = self.insecure_agent;
    }
}
