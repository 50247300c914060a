//! `monopile completion`.

use clap::{Args, ValueEnum};

use super::complete;
use super::finish::Finished;
use base::Result;

#[derive(Debug, Clone, Args)]
pub(super) struct CompletionArgs {
    /// Shell to complete in
    #[arg(value_name = "SHELL", value_enum)]
    shell: ShellName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
    Powershell,
    Elvish,
}

impl CompletionArgs {
    pub(super) fn run(self) -> Result<Finished> {
        let shell = match self.shell {
            ShellName::Bash => "bash",
            ShellName::Zsh => "zsh",
            ShellName::Fish => "fish",
            ShellName::Powershell => "powershell",
            ShellName::Elvish => "elvish",
        };
        complete::script(shell).map(Finished::Output)
    }
}
