//! `monopile upload-stemcell`.

use std::path::Path;

use clap::{Args, ValueHint};

use super::ChangeArgs;
use crate::cli::finish::Finished;
use crate::cli::paths;
use crate::cli::session::Session;
use base::Result;
use engine::resources::{self, UploadStemcell};

#[derive(Debug, Clone, Args)]
#[command(after_help = "Uploads to every CPI of the manifest that supports the formats of the stemcell.")]
pub(crate) struct UploadStemcellArgs {
    #[command(flatten)]
    change: ChangeArgs,

    /// URL or path of a tarball, or directory in source form
    #[arg(value_name = "URL|PATH", value_hint = ValueHint::AnyPath)]
    stemcell: String,

    /// Digest of the tarball
    #[arg(long, value_name = "DIGEST", value_hint = ValueHint::Other)]
    sha1: Option<String>,

    /// Name of the stemcell; nothing is fetched if NAME/VERSION is already uploaded
    #[arg(long, value_name = "NAME", requires = "version", value_hint = ValueHint::Other)]
    name: Option<String>,

    /// Version of the stemcell
    #[arg(long, value_name = "VERSION", requires = "name", value_hint = ValueHint::Other)]
    version: Option<String>,

    /// Upload only to this CPI (can be repeated); '' is the default CPI
    #[arg(long = "cpi", value_name = "NAME", value_hint = ValueHint::Other)]
    cpis: Vec<String>,

    /// Upload it again, and replace the existing one
    #[arg(long)]
    fix: bool,
}

impl UploadStemcellArgs {
    pub(in crate::cli) fn run(self, session: &Session) -> Result<Finished> {
        let (on, run_context) = self.change.begin(session, "upload-stemcell")?;
        let request = UploadStemcell {
            on,
            url: self.stemcell,
            sha1: self.sha1,
            directory: paths::absolute(Path::new("."))?,
            identity: self.name.zip(self.version),
            cpis: self.cpis,
            fix: self.fix,
        };
        resources::upload_stemcell(&request, &run_context.environment).map(Finished::Summary)
    }
}
