//! `monopile start-env`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::finish::Finished;
use super::{ManifestArgs, duration, paths, session::Session};
use crate::{Result, apply};

/// Start the jobs that stop-env stopped
#[derive(Debug, Clone, Args)]
pub struct StartEnvArgs {
    #[command(flatten)]
    manifest: ManifestArgs,

    /// State file [default: PATH without its extension, and -state.json]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    state: Option<PathBuf>,

    /// How long the agent on the VM may take to answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    agent_timeout: Duration,
}

impl StartEnvArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let state = paths::state(self.state.as_deref(), &self.manifest.manifest)?;
        let request = apply::StartEnv {
            inputs: self.manifest.inputs_beside(&state),
            agent_timeout: self.agent_timeout,
        };
        let surroundings = session.surroundings(state, None, false)?;
        apply::start_env(&request, &surroundings.environment).map(Finished::Summary)
    }
}
