//! `monopile cloud-check`: compares the record with the CPI and the agent, and repairs differences.

use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use super::duration;
use super::env_vars;
use super::finish::CommandResult;
use super::replacement_args::ReplacementArgs;
use super::session::Session;
use super::table::Table;
use crate::ui;
use base::Result;
use engine::inspection::{
    self, CloudCheckRequest, CloudCheckResult, CloudReport, Decision, Finding, FindingStatus, Repair,
    RepairChoice, ReportRequest, TreatedProblem,
};
use engine::run_context::RunContext;

#[derive(Debug, Clone, Args)]
pub(super) struct CloudCheckArgs {
    #[command(flatten)]
    replacement: ReplacementArgs,

    /// Make all repairs without asking, except delete_disk_reference
    ///
    /// It may replace the VM: all data outside its persistent disk is then lost.
    #[arg(short = 'a', long, conflicts_with_all = ["report", "resolution"])]
    auto: bool,

    /// List everything on record with its actual status; change nothing
    #[arg(short = 'r', long, conflicts_with = "resolution")]
    report: bool,

    /// Do this repair without asking, and no other (repeatable)
    #[arg(long, value_name = "REPAIR",
          value_parser = PossibleValuesParser::new(Repair::ALL.map(possible_value)))]
    resolution: Vec<String>,

    /// Give up the agent if it does not answer within this time
    ///
    /// The last attempt may take up to 10 seconds more.
    #[arg(long, value_name = "DURATION", default_value = "10s",
          value_parser = duration::parse)]
    agent_timeout: Duration,
}

impl CloudCheckArgs {
    /// Returns true for `--auto` and `--resolution`.
    pub(super) fn repairs_without_asking(&self) -> bool {
        self.auto || !self.resolution.is_empty()
    }

    /// Lists problems (`--report`), or repairs them as the operator or `--auto` decides. Problems that stay
    /// are an error, unless the operator chose so on a terminal.
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        session.begin_log("cloud-check");
        let (deploy, prepared_run) = self.replacement.prepare(session, "cloud-check")?;
        let history_directory = env_vars::HISTORY.path().ok();
        let request = CloudCheckRequest { deploy, agent_timeout: self.agent_timeout, history_directory };
        if self.report {
            return report(&request.report_request(), &prepared_run.run, session);
        }
        let mut interrupt_message = ui::prompt::NOTHING_DONE_MESSAGE;
        let choose = &mut |choice: &RepairChoice<'_>| {
            let asks = || self.choose(session, choice, interrupt_message);
            let decision = prepared_run.run.paths.storage.while_prompting(asks)?;
            if matches!(decision, Decision::Repair(_)) {
                interrupt_message = "interrupted: the repairs before this question are done";
            }
            Ok(decision)
        };
        let check_result = inspection::cloud_check(&request, &prepared_run.run, choose)?;
        let output = match session.globals.prints_json() {
            true => CommandResult::json(&check_result.problems)?,
            false => CommandResult::Output(problems_table(&check_result, session).into_bytes()),
        };
        let output = output.with_summary(summary(&check_result));
        Ok(match check_result.remaining_error() {
            Some(error) if session.is_interactive() || !check_result.has_safe_repairs() => {
                output.with_problem(error)
            }
            Some(error) => output.with_problem(error.with_hint(
                "to make all repairs that keep the persistent disk: `monopile SAME-COMMAND --auto`",
            )),
            None => output,
        })
    }

    fn choose(
        &self,
        session: &Session,
        choice: &RepairChoice<'_>,
        interrupt_message: &'static str,
    ) -> Result<Decision> {
        let RepairChoice { problem, repairs, .. } = choice;
        let choose_first = |is_wanted: &dyn Fn(&Repair) -> bool| {
            repairs.iter().copied().find(|repair| is_wanted(repair)).map_or(Decision::Leave, Decision::Repair)
        };
        if self.auto {
            return Ok(choose_first(&|repair| repair.is_safe()));
        }
        if !self.resolution.is_empty() {
            return Ok(choose_first(&|repair| self.resolution.iter().any(|name| name == repair.name())));
        }
        if !session.is_interactive() {
            return Ok(Decision::Leave);
        }
        session.reporter.warn(&problem.description);
        for repair in *repairs {
            if ui::prompt::confirm_or(&repair.question(choice), interrupt_message)? {
                return Ok(Decision::Repair(*repair));
            }
        }
        Ok(Decision::Declined)
    }
}

/// Describes a repair for the help of `--resolution`.
fn possible_value(repair: Repair) -> PossibleValue {
    PossibleValue::new(repair.name()).help(match repair {
        Repair::RebootVm => "Reboot the VM, and start its jobs",
        Repair::RecreateVm => "Delete the VM and create a new one, with the same persistent disk",
        Repair::ReattachDisk => "Stop the jobs without drain, attach and mount the disk, start the jobs",
        Repair::MountDisk => "Stop the jobs without drain, mount the disk, start the jobs",
        Repair::DeleteDiskReference => {
            "Forget a disk that the CPI does not find; the next VM gets an empty one"
        }
    })
}

/// Reports everything on record with its actual status.
pub(super) fn report(request: &ReportRequest, run: &RunContext, session: &Session) -> Result<CommandResult> {
    let cloud_report = inspection::create_report(request, run)?;
    let output = match session.globals.prints_json() {
        true => CommandResult::json(&cloud_report.findings)?,
        false => CommandResult::Output(findings_table(&cloud_report, session).into_bytes()),
    };
    Ok(match cloud_report.problem_error() {
        Some(error) => output.with_problem(error),
        None => output,
    })
}

fn findings_table(report: &CloudReport, session: &Session) -> String {
    let layout = &session.layout();
    let mut table =
        Table::new(["Kind", "CID", "Status", "Details", "Possible repairs"]).with_details("Details");
    for finding in &report.findings {
        let status = match finding.status {
            FindingStatus::AsRecorded => "as recorded",
            FindingStatus::Drifted => "NOT AS RECORDED",
            FindingStatus::Unknown => "unknown",
        };
        // Request ids are no CIDs, and a list of them would leave no room for the details.
        let (cid, requests) = match finding.calls().filter(|_| !layout.is_for_programs()) {
            None => (finding.cid.clone(), None),
            Some(1) => (String::new(), Some(format!("request {}", finding.cid))),
            Some(count) => (String::new(), Some(format!("{count} calls"))),
        };
        let cpi = finding.cpi.iter().map(|cpi| format!("CPI {cpi}"));
        let detail = Some(finding.detail.clone()).filter(|text| !text.is_empty());
        let details: Vec<String> = requests.into_iter().chain(cpi).chain(detail).collect();
        let repairs = names(&finding.repairs);
        table.add_row([finding.kind.to_owned(), cid, status.to_owned(), details.join(", "), repairs]);
    }
    // The CPI API cannot check these.
    let is_unchecked = |finding: &Finding| ["stemcell", "snapshot"].contains(&finding.kind);
    let mut findings = report.findings.iter();
    let is_well =
        findings.all(|finding| finding.status == FindingStatus::AsRecorded || is_unchecked(finding));
    let verdict = match is_well && !layout.is_for_programs() {
        true => "\nEverything that can be checked is as recorded.\n",
        false => "",
    };
    // A table would break the command.
    let has_several_calls =
        report.findings.iter().any(|finding| finding.calls().is_some_and(|count| count > 1));
    let list_command = match has_several_calls && !layout.is_for_programs() {
        true => session.complete_commands("\nTo list the failed calls: `monopile state show MANIFEST`\n"),
        false => String::new(),
    };
    table.format(layout) + verdict + &list_command
}

fn problems_table(check_result: &CloudCheckResult, session: &Session) -> String {
    if let Some(verdict) = check_result.summary_without_problems() {
        return session.complete_commands(&format!("{verdict}\n"));
    }
    let mut table = Table::new(["Problem", "Possible repairs", "Result"]);
    for treated_problem in &check_result.problems {
        let (problem, repairs) = (&treated_problem.problem, names(&treated_problem.problem.repairs));
        table.add_row([problem.description.clone(), repairs, result(treated_problem)]);
    }
    table.format(&session.layout())
}

fn names(repairs: &[Repair]) -> String {
    repairs.iter().map(|repair| repair.name()).collect::<Vec<_>>().join("\n")
}

fn result(treated_problem: &TreatedProblem) -> String {
    let repairs: Vec<&str> = treated_problem.attempts.iter().map(|attempt| attempt.repair.name()).collect();
    let repairs = repairs.join(", then ");
    match (treated_problem.is_solved, repairs.is_empty(), treated_problem.is_declined) {
        (true, true, _) => "solved without a repair".to_owned(),
        (true, false, _) => format!("repaired by {repairs}"),
        (false, true, true) => "declined".to_owned(),
        (false, true, false) => "not repaired".to_owned(),
        (false, false, true) => format!("not solved by {repairs}; the others were declined"),
        (false, false, false) => format!("not solved by {repairs}"),
    }
}

/// Summarises a check without unsolved problems for the history.
fn summary(check_result: &CloudCheckResult) -> String {
    match (check_result.problems.as_slice(), check_result.remaining_error()) {
        ([], None) => "no problem found".to_owned(),
        ([], Some(error)) => error.to_string(),
        (problems, _) => problems.iter().map(result).collect::<Vec<_>>().join("; "),
    }
}
