//! `monopile state import`: creates a state from CIDs.

use clap::Args;

use crate::cli::AgentArgs;
use crate::cli::agent_args::AgentTimeoutArgs;
use crate::cli::choices::number;
use crate::cli::cid::cid;
use crate::cli::environment_args::EnvironmentArgs;
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use base::Result;
use engine::protocol::{DiskCid, DiskKind, VmCid, VmKind};
use engine::record_commands::{self, ImportedStemcell};

/// The heading of the resources to import.
const RESOURCES_HEADING: &str = "Resources (at least one)";

/// Recreate a lost state from CIDs
///
/// CPI and agent must confirm the CIDs that you name. With --vm and without --disk, records the disk that the
/// agent has mounted. Refuses if there is a state already, so nothing is overwritten: if an import missed
/// something, move the state away and import again. Look for a lost state first: bosh-state.json.bak,
/// bosh-state.json.versions, or the machine that deployed last.
///
/// Only writes the record. The next create-env replaces the VM and keeps the data of the disk; that
/// create-env deletes all stemcells but the first. If the agent does not answer, name the disk: otherwise
/// that create-env creates an empty one.
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("resources").args(["vm", "disk",
          "stemcells"]).required(true).multiple(true),
          override_usage = "monopile state import [OPTIONS] [MANIFEST]\n           \
          (--vm <CID> | --disk <CID> | --stemcell <CID=NAME/VERSION>)...")]
pub(super) struct ImportArgs {
    #[command(flatten)]
    target: EnvironmentArgs,

    /// Import this VM
    #[arg(long, help_heading = RESOURCES_HEADING, value_name = "CID", value_parser = cid::<VmKind>())]
    vm: Option<VmCid>,

    /// Import this persistent disk; the manifest must have its size
    #[arg(long, help_heading = RESOURCES_HEADING, value_name = "CID", value_parser = cid::<DiskKind>())]
    disk: Option<DiskCid>,

    /// Import this stemcell (repeatable); give the VM's stemcell first
    #[arg(long = "stemcell", help_heading = RESOURCES_HEADING, value_name = "CID=NAME/VERSION")]
    stemcells: Vec<ImportedStemcell>,

    /// `api_version` of the stemcells
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 2,
          value_parser = number(1_u32, None, 2))]
    stemcell_api_version: u32,

    #[command(flatten)]
    timeout_args: AgentTimeoutArgs,

    #[command(flatten)]
    agent: AgentArgs,
}

impl ImportArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        session.begin_log("state import");
        let (inputs, mut prepared_run) = self.target.begin(session, false)?;
        self.agent.apply(&mut prepared_run.run);
        let request = record_commands::ImportRequest {
            inputs,
            vm: self.vm,
            disk: self.disk,
            stemcells: self.stemcells,
            stemcell_api_version: self.stemcell_api_version,
            renderer_choice: self.target.renderer.into(),
            cpi_api_version: self.target.cpi_api_version(),
            agent_timeout: self.timeout_args.agent_timeout,
        };
        record_commands::import(&request, &prepared_run.run).map(CommandResult::Summary)
    }
}
