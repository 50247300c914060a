//! `monopile interpolate`.

use clap::{Args, ValueHint};

use super::finish::Finished;
use super::{ManifestArgs, session::Session};
use crate::{Error, Result};

/// Print a manifest with ops files applied and variables filled in
#[derive(Debug, Clone, Args)]
pub struct InterpolateArgs {
    #[command(flatten)]
    manifest: ManifestArgs,

    /// Print the value at this path alone, such as /instance_groups/name=bosh/jobs/0
    #[arg(long, value_name = "OP-PATH", value_hint = ValueHint::Other)]
    path: Option<String>,

    /// Fail if a variable has no value
    #[arg(long)]
    var_errs: bool,

    /// Fail if a given variable is not used
    #[arg(long)]
    var_errs_unused: bool,
}

impl InterpolateArgs {
    pub(super) fn run(self, _session: &Session) -> Result<Finished> {
        let inputs = self.manifest.inputs();
        let _ = (&inputs, &self.path, self.var_errs, self.var_errs_unused);
        // CONNECT: manifest::interpolate(...) -> text, then Finished::Output(text)
        Err(Error::environment("not built yet"))
    }
}
