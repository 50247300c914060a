//! `monopile state import`.

use std::time::Duration;

use clap::Args;

use crate::cli::cid::cid;
use crate::cli::environment_args::EnvironmentArgs;
use crate::cli::finish::Finished;
use crate::cli::session::Session;
use crate::cli::{AgentArgs, duration};
use base::Result;
use engine::protocol::{DiskCid, DiskKind, VmCid, VmKind};
use engine::records::{self, ImportedStemcell};

/// Create a state from CIDs, after its loss
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("known").args(["vm", "disk",
          "stemcells"]).required(true).multiple(true))]
pub(super) struct ImportArgs {
    #[command(flatten)]
    on: EnvironmentArgs,

    /// VM to import
    #[arg(long, value_name = "CID", value_parser = cid::<VmKind>())]
    vm: Option<VmCid>,

    /// Persistent disk to import, of the size in the manifest
    #[arg(long, value_name = "CID", value_parser = cid::<DiskKind>())]
    disk: Option<DiskCid>,

    /// Stemcell to import (can be repeated): first that of the VM; the next create-env deletes the others
    #[arg(long = "stemcell", value_name = "CID=NAME/VERSION")]
    stemcells: Vec<ImportedStemcell>,

    /// api_version of the stemcells
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    stemcell_api_version: u32,

    /// Wait for the agent on the VM at most this long
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    agent_timeout: Duration,

    #[command(flatten)]
    agent: AgentArgs,
}

impl ImportArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        session.keep_log("state-import");
        let (inputs, mut run_context) = self.on.begin(session, false)?;
        self.agent.apply(&mut run_context.environment);
        let request = records::Import {
            inputs,
            vm: self.vm,
            disk: self.disk,
            stemcells: self.stemcells,
            stemcell_api_version: self.stemcell_api_version,
            templates: self.on.templates.into(),
            cpi_api_version: self.on.cpi_api_version(),
            agent_timeout: self.agent_timeout,
        };
        records::import(&request, &run_context.environment).map(Finished::Summary)
    }
}
