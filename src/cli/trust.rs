//! `monopile trust`: allows an env file, or stops trusting it.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::env_file::{self, Revocation};
use super::finish::CommandResult;
use super::session::Session;
use crate::ui;
use base::{Result, text};

#[derive(Debug, Clone, Args)]
pub(super) struct TrustArgs {
    /// Env file to trust [default: .monopile.yml, here or in a directory above]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// Stop trusting the env file
    #[arg(long)]
    revoke: bool,
}

impl TrustArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let (path, is_trusted, text) = if self.revoke {
            let Revocation { path, was_trusted } = env_file::revoke(self.file.as_deref())?;
            let text = match was_trusted {
                true => format!("The env file '{}' is not trusted any more.\n", path.display()),
                false => format!("The env file '{}' was not trusted.\n", path.display()),
            };
            (path, false, text)
        } else {
            let (path, description) = env_file::trust(self.file.as_deref())?;
            let text = format!("The env file '{}' is trusted.\n{description}\n", path.display());
            (path, true, text)
        };
        if session.globals.prints_json() {
            return CommandResult::json(&serde_json::json!({
                "path": path.display().to_string(),
                "trusted": is_trusted,
            }));
        }
        let text = text::clean(&text);
        let text =
            session.columns().map_or_else(|| text.clone().into_owned(), |width| ui::wrap(&text, width));
        Ok(CommandResult::Output(text.into_bytes()))
    }
}
