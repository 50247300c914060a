//! `monopile state import`.

use std::time::Duration;

use clap::Args;

use crate::Result;
use crate::apply::records::{self, ImportedStemcell};
use crate::cli::finish::Finished;
use crate::cli::session::Session;
use crate::cli::{AgentArgs, ConfigArgs, CpiArgs, ManifestArgs, StateArgs, duration};
use crate::template::Mode;

/// Make a state file from CIDs, for an environment whose state is lost
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("known").args(["vm", "disk", "stemcells"]).required(true).multiple(true))]
pub struct ImportArgs {
    #[command(flatten)]
    manifest: ManifestArgs,

    #[command(flatten)]
    configs: ConfigArgs,

    /// The VM
    #[arg(long, value_name = "CID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    vm: Option<String>,

    /// The persistent disk, of the size that the manifest says
    #[arg(long, value_name = "CID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    disk: Option<String>,

    /// A stemcell; the first is the one the VM was made from, the next create-env deletes the others
    #[arg(long = "stemcell", value_name = "CID=NAME/VERSION")]
    stemcells: Vec<ImportedStemcell>,

    /// The api_version of the stemcells
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    stemcell_api_version: u32,

    #[command(flatten)]
    state: StateArgs,

    /// How long the agent on the VM may take to answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    agent_timeout: Duration,

    /// What renders job templates
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    templates: Mode,

    #[command(flatten)]
    agent: AgentArgs,

    #[command(flatten)]
    cpi: CpiArgs,
}

impl ImportArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let path = self.state.path(&self.manifest.manifest)?;
        let request = records::Import {
            inputs: self.configs.beside(self.manifest.inputs_beside(&path)),
            vm: self.vm,
            disk: self.disk,
            stemcells: self.stemcells,
            stemcell_api_version: self.stemcell_api_version,
            templates: self.templates,
            cpi_api_version: self.cpi.version.cpi_api_version,
            agent_timeout: self.agent_timeout,
        };
        session.keep_log("state-import");
        let mut surroundings = session.surroundings(path, None, false)?;
        self.state.apply(&mut surroundings.environment);
        self.agent.apply(&mut surroundings.environment);
        self.cpi.apply(&mut surroundings.environment);
        records::import(&request, &surroundings.environment).map(Finished::Summary)
    }
}
