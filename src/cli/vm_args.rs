//! The environment whose VM runs and whose agent is asked: what `logs`, `ssh`, `scp` and the commands for jobs are
//! told alike.

use std::path::PathBuf;

use clap::Args;

use super::session::{RunContext, Session};
use super::{AgentArgs, ConfigArgs, ManifestArgs, StateArgs};
use base::Result;
use manifest::Inputs;

/// An environment whose VM runs.
#[derive(Debug, Clone, Args)]
pub(super) struct VmArgs {
    #[command(flatten)]
    pub(super) manifest: ManifestArgs,

    #[command(flatten)]
    configs: ConfigArgs,

    #[command(flatten)]
    state: StateArgs,

    #[command(flatten)]
    agent: AgentArgs,
}

impl VmArgs {
    /// Where its state is, and what describes it.
    pub(super) fn inputs(&self) -> Result<(PathBuf, Inputs)> {
        let state = self.state.path(&self.manifest.manifest)?;
        let inputs = self.configs.beside(self.manifest.inputs_beside(&state));
        Ok((state, inputs))
    }

    /// What the library needs to get at it.
    pub(super) fn surroundings(&self, session: &Session, state: PathBuf) -> Result<RunContext> {
        let mut surroundings = session.surroundings(state, None, false)?;
        self.state.apply(&mut surroundings.environment);
        self.agent.apply(&mut surroundings.environment);
        Ok(surroundings)
    }
}
