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
pub(crate) struct UploadStemcellArgs {
    #[command(flatten)]
    change: ChangeArgs,

    /// The stemcell: a URL, or a path to a tarball or a directory in source form
    #[arg(value_name = "URL|PATH", value_hint = ValueHint::AnyPath)]
    stemcell: String,

    /// What the tarball hashes to
    #[arg(long, value_name = "DIGEST", value_hint = ValueHint::Other)]
    sha1: Option<String>,

    /// Its name: where stemcell NAME/VERSION is uploaded already, nothing is fetched
    #[arg(long, value_name = "NAME", requires = "version", value_hint = ValueHint::Other)]
    name: Option<String>,

    /// Its version
    #[arg(long, value_name = "VERSION", requires = "name", value_hint = ValueHint::Other)]
    version: Option<String>,

    /// Only to this CPI, several times to several; '' is the default CPI
    #[arg(long = "cpi", value_name = "NAME", value_hint = ValueHint::Other)]
    cpis: Vec<String>,

    /// Upload it again where it is already, in the place of what is there
    #[arg(long)]
    fix: bool,
}

impl UploadStemcellArgs {
    pub(in crate::cli) fn run(self, session: &Session) -> Result<Finished> {
        let (on, surroundings) = self.change.begin(session, "upload-stemcell")?;
        let request = UploadStemcell {
            on,
            url: self.stemcell,
            sha1: self.sha1,
            directory: paths::absolute(Path::new("."))?,
            identity: self.name.zip(self.version),
            cpis: self.cpis,
            fix: self.fix,
        };
        resources::upload_stemcell(&request, &surroundings.environment).map(Finished::Summary)
    }
}
