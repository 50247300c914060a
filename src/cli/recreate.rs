//! `monopile recreate`.

use clap::Args;

use super::deploy_args::DeployArgs;
use super::finish::Finished;
use super::{AgentArgs, ManifestArgs, StateArgs, session::Session};
use crate::{Result, apply};

/// Deploy what is deployed with a new VM; persistent disks keep their data
#[derive(Debug, Clone, Args)]
pub struct RecreateArgs {
    #[command(flatten)]
    manifest: ManifestArgs,

    #[command(flatten)]
    state: StateArgs,

    #[command(flatten)]
    agent: AgentArgs,

    #[command(flatten)]
    deploy: DeployArgs,
}

impl RecreateArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let state = self.state.path(&self.manifest.manifest)?;
        let request = self.deploy.request(self.manifest.inputs_beside(&state));
        session.keep_log("recreate");
        let mut surroundings = self.deploy.surroundings(session, state)?;
        self.state.apply(&mut surroundings.environment);
        self.agent.apply(&mut surroundings.environment);
        apply::recreate(&request, &surroundings.environment).map(Finished::Summary)
    }
}
