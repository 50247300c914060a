//! The common arguments of `logs`, `ssh`, `scp` and the commands for jobs.

use std::path::PathBuf;

use clap::Args;

use super::session::{PreparedRun, Session};
use super::{AgentArgs, ConfigArgs, ManifestArgs, StateArgs};
use base::Result;
use manifest::{Inputs, SavePolicy};

/// An environment with a running VM.
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
    /// Returns the path or URL of the state, and the inputs of the manifest.
    pub(super) fn inputs(&self) -> Result<(PathBuf, Inputs)> {
        let state = self.state.path_of_deployed(&self.manifest.manifest)?;
        let mut inputs = self.configs.add_to(self.manifest.inputs_with_default_store(&state)?);
        // Only a new VM could use generated values, and none is created here.
        inputs.save_policy = SavePolicy::Never;
        Ok((state, inputs))
    }

    /// Creates the run context.
    pub(super) fn prepare_run(&self, session: &Session, state: PathBuf) -> Result<PreparedRun> {
        let mut prepared_run = session.prepare_run(state, None, false)?;
        self.state.apply(&mut prepared_run.run);
        self.agent.apply(&mut prepared_run.run);
        Ok(prepared_run)
    }
}
