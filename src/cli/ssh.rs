//! `monopile ssh`.

use clap::{Args, ValueHint};

use super::finish::Finished;
use super::gateway_args::GatewayArgs;
use super::session::Session;
use super::{AgentArgs, ConfigArgs, ManifestArgs, StateArgs};
use crate::Result;
use crate::apply::visit::{self, Errand};

#[derive(Debug, Clone, Args)]
#[command(after_help = "The exit code is that of the command on the VM, or of ssh (255).")]
pub struct SshArgs {
    #[command(flatten)]
    manifest: ManifestArgs,

    #[command(flatten)]
    configs: ConfigArgs,

    #[command(flatten)]
    state: StateArgs,

    #[command(flatten)]
    agent: AgentArgs,

    /// Run this command there instead of a login shell; several times for the words of one command
    #[arg(short = 'c', long, value_name = "COMMAND", allow_hyphen_values = true, value_hint = ValueHint::Other)]
    command: Vec<String>,

    #[command(flatten)]
    gateway: GatewayArgs,
}

impl SshArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let state = self.state.path(&self.manifest.manifest)?;
        let inputs = self.configs.beside(self.manifest.inputs_beside(&state));
        let request = self.gateway.request(inputs, Errand::Run(self.command))?;
        let mut surroundings = session.surroundings(state, None, false)?;
        self.agent.apply(&mut surroundings.environment);
        let code = visit::ssh(&request, &surroundings.environment)?;
        Ok(Finished::Output(Vec::new()).with_exit_code(code))
    }
}
