//! `monopile completion`.

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use super::finish::Finished;
use crate::Result;

/// Print the completion script of a shell
#[derive(Debug, Clone, Args)]
pub struct CompletionArgs {
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
            ShellName::Bash => Shell::Bash,
            ShellName::Zsh => Shell::Zsh,
            ShellName::Fish => Shell::Fish,
            ShellName::Powershell => Shell::PowerShell,
            ShellName::Elvish => Shell::Elvish,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut super::command(), "monopile", &mut script);
        Ok(Finished::Output(script))
    }
}
