//! `monopile interpolate`: prints a manifest with its ops files and variables applied.

use std::convert::Infallible;
use std::mem::ManuallyDrop;

use clap::{Args, ValueHint};

use super::finish::{CommandResult, write_output_with};
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
        let load = || manifest::load_with_options(&inputs, &options, &session.redactor);
        let manifest = match inputs.has_programs() {
            true => signals::count_during(load)?,
            false => load()?,
        };
        // The process ends soon, and freeing a large tree takes time.
        let manifest = ManuallyDrop::new(manifest);
        manifest.report_messages(&session.reporter);
        if let Some(document) = session.document() {
            let mut text = String::new();
            let Ok(()) = manifest.emit(&options, |piece| {
                text.push_str(piece);
                Ok::<(), Infallible>(())
            });
            document.add_block(text);
            return Ok(CommandResult::Document);
        }
        // The text can be as large as the tree, so it is never in memory as a whole.
        write_output_with(|out| manifest.emit(&options, |piece| out.write_all(piece.as_bytes())))?;
        Ok(CommandResult::Output(Vec::new()))
    }
}
