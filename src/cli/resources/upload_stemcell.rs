//! `monopile upload-stemcell`: uploads a stemcell and keeps it until delete-stemcell.

use std::path::Path;

use clap::{Args, ValueHint};

use super::ChangeArgs;
use crate::cli::finish::CommandResult;
use crate::cli::paths;
use crate::cli::session::Session;
use base::Result;
use engine::resources::{self, UploadStemcellRequest};

#[derive(Debug, Clone, Args)]
pub(crate) struct UploadStemcellArgs {
    #[command(flatten)]
    change: ChangeArgs,

    /// Stemcell: a tarball, its URL, or a directory in source form
    #[arg(value_name = "PATH|URL", value_hint = ValueHint::AnyPath)]
    stemcell: String,

    /// Verify this digest of the tarball: SHA-1, or with a prefix sha256: or sha512:
    #[arg(long, value_name = "DIGEST", value_hint = ValueHint::Other)]
    sha1: Option<String>,

    /// Fetch nothing if a stemcell with this name and --version is already uploaded
    #[arg(long, value_name = "NAME", requires = "version", value_hint = ValueHint::Other)]
    name: Option<String>,

    /// Version for --name
    #[arg(long, value_name = "VERSION", requires = "name", value_hint = ValueHint::Other)]
    version: Option<String>,

    /// Upload only to this CPI; '' is the default CPI (repeatable)
    #[arg(long = "cpi", value_name = "NAME", value_hint = ValueHint::Other)]
    cpis: Vec<String>,

    /// Upload it again, and delete the upload that it replaces
    ///
    /// If the VM was created from the old upload, that stays until a create-env replaces the VM.
    #[arg(long)]
    fix: bool,
}

impl UploadStemcellArgs {
    pub(in crate::cli) fn run(self, session: &Session) -> Result<CommandResult> {
        let (target, prepared_run) = self.change.begin(session, "upload-stemcell")?;
        let request = UploadStemcellRequest {
            target_environment: target,
            url: self.stemcell,
            sha1: self.sha1,
            directory: paths::absolute(Path::new("."))?,
            identity: self.name.zip(self.version),
            cpis: self.cpis,
            fix: self.fix,
        };
        resources::upload_stemcell(&request, &prepared_run.run).map(CommandResult::Summary)
    }
}
