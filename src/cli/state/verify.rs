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

/// Check with CPI and agent that recorded resources exist
#[derive(Debug, Clone, Args)]
#[command(after_help = "Exit codes: 0 no drift found; 6 drift detected.")]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    on: EnvironmentArgs,

    /// Wait for the agent on the VM at most this long
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    agent_timeout: Duration,

    #[command(flatten)]
    agent: AgentArgs,
}

impl VerifyArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        session.keep_log("state-verify");
        let (mut inputs, mut run_context) = self.on.begin(session, false)?;
        inputs.discard_generated = true;
        self.agent.apply(&mut run_context.environment);
        let request = records::Verify {
            inputs,
            templates: self.on.templates.into(),
            cpi_api_version: self.on.cpi_api_version(),
            agent_timeout: self.agent_timeout,
        };
        let checked = records::verify(&request, &run_context.environment)?;
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
    let mut table = Table::new(["Kind", "CID", "Status", "Details"]);
    for finding in &checked.findings {
        let status = match finding.status {
            Status::There => "as recorded",
            Status::Drifted => "NOT AS RECORDED",
            Status::Unknown => "unknown",
        };
        let cpi = finding.cpi.iter().map(|cpi| format!("CPI {cpi}"));
        let details: Vec<String> =
            cpi.chain(Some(finding.detail.clone()).filter(|text| !text.is_empty())).collect();
        table.row([finding.what.to_owned(), finding.cid.clone(), status.to_owned(), details.join(", ")]);
    }
    table.print(layout)
}
