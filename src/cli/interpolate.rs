//! `monopile interpolate`: prints a manifest with its ops files and variables applied.

use clap::{Args, ValueHint};

use super::finish::CommandResult;
use super::{ManifestArgs, session::Session, signals};
use base::Result;
use manifest::{self, LoadOptions};

#[derive(Debug, Clone, Args)]
pub(super) struct InterpolateArgs {
    #[command(flatten)]
    manifest: ManifestArgs,

    /// Print only the value at this path, such as /instance_groups/name=bosh/jobs/0
    #[arg(id = "op-path", long = "path", value_name = "OP-PATH", value_hint = ValueHint::Other)]
    op_path: Option<String>,

    /// Fail if a variable has no value
    #[arg(long)]
    var_errs: bool,

    /// Fail if the manifest does not use a given variable
    #[arg(long)]
    var_errs_unused: bool,
}

impl InterpolateArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let options = LoadOptions {
            requires_values: self.var_errs,
            requires_use: self.var_errs_unused,
            path: self.op_path.filter(|path| !path.is_empty()),
            warns_of_unused: false,
            refuses_other_files: false,
        };
        let inputs = self.manifest.inputs()?;
        let interpolate = || manifest::interpolate(&inputs, &options, &session.redactor);
        let (text, manifest) = match inputs.has_programs() {
            true => signals::count_during(interpolate)?,
            false => interpolate()?,
        };
        manifest.report_messages(&session.reporter);
        // The process ends soon, and freeing a large tree takes time.
        std::mem::forget(manifest);
        if let Some(document) = session.document() {
            document.add_block(text);
            return Ok(CommandResult::Document);
        }
        Ok(CommandResult::Output(text.into_bytes()))
    }
}
