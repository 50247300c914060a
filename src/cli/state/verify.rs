//! `monopile state verify`.

use std::time::Duration;

use clap::Args;

use crate::cli::environment_args::EnvironmentArgs;
use crate::cli::finish::Finished;
use crate::cli::session::Session;
use crate::cli::table::{Layout, Table};
use crate::cli::{AgentArgs, duration};
use base::Result;
use engine::records::{self, Checked, Status};

/// Ask CPI and agent whether what is on record exists
#[derive(Debug, Clone, Args)]
#[command(after_help = "Exit codes: 0 everything exists, as far as anybody can tell, 6 something does not.")]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    on: EnvironmentArgs,

    /// How long the agent on the VM may take to answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    agent_timeout: Duration,

    #[command(flatten)]
    agent: AgentArgs,
}

impl VerifyArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        session.keep_log("state-verify");
        let (inputs, mut surroundings) = self.on.begin(session, false)?;
        self.agent.apply(&mut surroundings.environment);
        let request = records::Verify {
            inputs,
            templates: self.on.templates.into(),
            cpi_api_version: self.on.cpi_api_version(),
            agent_timeout: self.agent_timeout,
        };
        let checked = records::verify(&request, &surroundings.environment)?;
        let output = match session.globals.json {
            true => Finished::json(&checked.findings)?,
            false => Finished::Output(shown(&checked, &session.layout()).into_bytes()),
        };
        Ok(match checked.drift() {
            Some(error) => output.but(error),
            None => output,
        })
    }
}

fn shown(checked: &Checked, layout: &Layout) -> String {
    let mut table = Table::new(["What", "CID", "Status", "Details"]);
    for finding in &checked.findings {
        let status = match finding.status {
            Status::There => "as recorded",
            Status::Drifted => "NOT AS RECORDED",
            Status::Unknown => "cannot tell",
        };
        let cpi = finding.cpi.iter().map(|cpi| format!("CPI {cpi}"));
        let details: Vec<String> =
            cpi.chain(Some(finding.detail.clone()).filter(|text| !text.is_empty())).collect();
        table.row([finding.what.to_owned(), finding.cid.clone(), status.to_owned(), details.join(", ")]);
    }
    table.print(layout)
}
