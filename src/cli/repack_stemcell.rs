//! `monopile repack-stemcell`: writes a changed copy of a stemcell.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueHint};

use super::finish::CommandResult;
use super::{paths, session::Session};
use artifact::Source;
use artifact::rewrite::{self, StemcellChanges};
use base::Result;

#[derive(Debug, Clone, Args)]
pub(super) struct RepackStemcellArgs {
    /// Stemcell to copy
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    stemcell: PathBuf,

    /// File for the changed copy
    #[arg(value_name = "RESULT", value_hint = ValueHint::FilePath)]
    result: PathBuf,

    /// Set this name
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,

    /// Set this version
    #[arg(long, value_name = "VERSION", value_parser = NonEmptyStringValueParser::new())]
    version: Option<String>,

    /// Merge this YAML mapping into the cloud properties
    #[arg(long, value_name = "YAML")]
    cloud_properties: Option<String>,

    /// Replace the image with an empty one
    #[arg(long)]
    empty_image: bool,

    /// Replace the formats with this one (repeatable)
    #[arg(long = "format", value_name = "FORMAT")]
    formats: Vec<String>,
}

impl RepackStemcellArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let home = paths::home();
        let stemcell = paths::expand(&self.stemcell, home.as_deref());
        let source = Source::from_command_line("the stemcell", &stemcell, paths::absolute(&stemcell)?)?;
        let result = paths::expand(&self.result, home.as_deref());
        let changes = StemcellChanges {
            name: self.name,
            version: self.version,
            cloud_properties: self.cloud_properties,
            empties_image: self.empty_image,
            formats: self.formats,
        };
        let scratch = session.create_scratch()?;
        let stage = session.reporter.begin_stage(format!("Repacking '{}'", stemcell.display()));
        rewrite::repack_stemcell(&source, &changes, &result, scratch.path(), &stage)?;
        stage.finish();
        Ok(CommandResult::Summary(format!("Wrote '{}'", result.display())))
    }
}
