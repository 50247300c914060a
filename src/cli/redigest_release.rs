//! `monopile sha1ify-release` and `monopile sha2ify-release`: convert the digests of a release tarball.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::finish::CommandResult;
use super::{inspect_local_release, paths, session::Session};
use artifact::inspect::ReleaseReport;
use artifact::{Algorithm, Source, rewrite};
use base::Result;

#[derive(Debug, Clone, Args)]
pub(super) struct RedigestReleaseArgs {
    /// Release tarball to convert
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    path: PathBuf,

    /// File for the new tarball
    #[arg(value_name = "RESULT", value_hint = ValueHint::FilePath)]
    destination: PathBuf,
}

impl RedigestReleaseArgs {
    pub(super) fn run(self, session: &Session, algorithm: Algorithm) -> Result<CommandResult> {
        let home = paths::home();
        let path = paths::expand(&self.path, home.as_deref());
        let destination = paths::absolute(&paths::expand(&self.destination, home.as_deref()))?;
        let scratch = session.create_scratch()?;
        let stage = session.reporter.begin_stage(format!("Converting '{}'", path.display()));
        let source = Source::from_command_line("the release", &path, paths::absolute(&path)?)?;
        let release = rewrite::redigest_release(&source, algorithm, &destination, scratch.path(), &stage)?;
        stage.finish();
        inspect_local_release::show(
            session,
            &ReleaseReport::new(&release, &destination.display().to_string()),
        )
    }
}
