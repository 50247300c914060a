//! `monopile completion`: prints the completion script of a shell.

use clap::{Args, ValueEnum};

use super::complete;
use super::finish::CommandResult;
use base::Result;

/// The commands that install the script, for each shell.
const INSTALL_NOTE: &str = "\
Install it in one of these shells, and start a new shell:\n
  # bash, with the package bash-completion. Without it, add this to ~/.bashrc:
  # source <(monopile completion bash)
  mkdir -p ~/.local/share/bash-completion/completions
  monopile completion bash \\
      > ~/.local/share/bash-completion/completions/monopile\n
  # zsh, whose ~/.zshrc has `fpath+=~/.zfunc` before `compinit`. If it calls
  # no `compinit`, add: fpath+=~/.zfunc; autoload -Uz compinit; compinit
  mkdir -p ~/.zfunc
  monopile completion zsh > ~/.zfunc/_monopile\n
  # fish
  mkdir -p ~/.config/fish/completions
  monopile completion fish > ~/.config/fish/completions/monopile.fish\n
  # elvish, in ~/.config/elvish/rc.elv
  eval (monopile completion elvish | slurp)\n
  # PowerShell, in $PROFILE
  monopile completion powershell | Out-String | Invoke-Expression";

#[derive(Debug, Clone, Args)]
#[command(after_help = INSTALL_NOTE)]
pub(super) struct CompletionArgs {
    /// Shell that runs the script
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
    pub(super) fn run(self) -> Result<CommandResult> {
        let shell = match self.shell {
            ShellName::Bash => "bash",
            ShellName::Zsh => "zsh",
            ShellName::Fish => "fish",
            ShellName::Powershell => "powershell",
            ShellName::Elvish => "elvish",
        };
        complete::script(shell).map(CommandResult::Output)
    }
}
