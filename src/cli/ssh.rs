//! `monopile ssh`: logs in to the VM.

use clap::{Args, ValueHint};

use super::finish::CommandResult;
use super::gateway_args::GatewayArgs;
use super::session::Session;
use super::vm_args::VmArgs;
use base::Result;
use engine::inspection::{self, SshAction};

#[derive(Debug, Clone, Args)]
pub(super) struct SshArgs {
    #[command(flatten)]
    vm: VmArgs,

    /// Run this command instead of a login shell (repeatable; the parts are joined by spaces)
    #[arg(short = 'c', long, value_name = "COMMAND", allow_hyphen_values = true,
          value_hint = ValueHint::Other)]
    command: Vec<String>,

    #[command(flatten)]
    gateway: GatewayArgs,
}

impl SshArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let (state, inputs) = self.vm.inputs()?;
        let request = self.gateway.request(inputs, SshAction::Run(self.command))?;
        let prepared_run = self.vm.prepare_run(session, state)?;
        let code = inspection::ssh(&request, &prepared_run.run)?;
        Ok(CommandResult::Output(Vec::new()).with_exit_code(code))
    }
}
