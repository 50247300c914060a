//! `monopile history`.

use std::time::Duration;

use clap::Args;

use super::finish::Finished;
use super::session::Session;
use super::table::Table;
use super::{PlaceArgs, paths};
use crate::history::{self, Fate, Run};
use crate::{Result, ui};

/// Show the runs on this machine: when, how long, what they were to do, what came of them
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Where neither the command line nor an env file names an environment, the runs of all are shown."
)]
pub struct HistoryArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// How many runs, the newest
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,

    /// Show the steps that each run planned, and those it took with their durations
    #[arg(long)]
    steps: bool,
}

impl HistoryArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let directory = Session::history_dir()?;
        let state = self.place.named()?;
        let mut runs = history::list(&directory, state.as_deref())?;
        runs.truncate(self.limit);
        match session.globals.json {
            true => Finished::json(&runs),
            false => {
                let detail = if self.steps { Detail::Steps } else { Detail::Plan };
                Ok(Finished::Output(shown(&runs, state.is_none(), detail).into_bytes()))
            }
        }
    }
}

/// How much is told of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// What came of it.
    Result,
    /// What it was to do besides.
    Plan,
    /// Every step of both.
    Steps,
}

/// A table of runs.
pub(super) fn shown(runs: &[Run], with_state: bool, detail: Detail) -> String {
    if runs.is_empty() {
        return "No runs are on record.\n".to_owned();
    }
    let mut header = vec!["Started", "Command", "Took", "Result", "Details"];
    if with_state {
        header.insert(1, "State");
    }
    let mut table = Table::new(header);
    for run in runs {
        let end = run.record.end.as_ref();
        let took = end.map(|end| ui::duration(Duration::from_millis(end.elapsed_ms))).unwrap_or_default();
        let mut row = vec![
            run.record.started.clone(),
            run.record.command.clone(),
            took,
            result(run),
            details(run, detail),
        ];
        if with_state {
            row.insert(1, paths::shortened(&run.record.state));
        }
        table.row(row);
    }
    table.print()
}

fn result(run: &Run) -> String {
    let code = run.record.end.as_ref().map_or(0, |end| end.exit_code);
    match run.result {
        Fate::Running => "running".to_owned(),
        Fate::Succeeded => "ok".to_owned(),
        Fate::Failed => format!("failed ({code})"),
        Fate::Interrupted => format!("interrupted ({code})"),
        Fate::Killed => "killed".to_owned(),
    }
}

fn details(run: &Run, detail: Detail) -> String {
    let record = &run.record;
    let with_steps = detail == Detail::Steps;
    let mut lines = Vec::new();
    if let Some(plan) = record.plan.as_ref().filter(|_| detail != Detail::Result) {
        lines.push(format!("Plan: {}", ui::clean(&plan.headline)));
        let steps = plan.steps.iter().enumerate().filter(|_| with_steps);
        lines.extend(steps.map(|(number, step)| format!("  {}. {}", number + 1, ui::clean(&step.what))));
    }
    match (&record.end, run.result) {
        (Some(end), _) => {
            // One line each: a cause may have many, and the log has them all.
            let first = end.summary.lines().next().unwrap_or_default();
            lines.extend((!first.is_empty()).then(|| ui::clean(first).into_owned()));
            let steps = end.steps.iter().filter(|_| with_steps);
            lines.extend(steps.map(|step| {
                let took = ui::duration(Duration::from_millis(step.elapsed_ms));
                let outcome =
                    if step.outcome == "done" { String::new() } else { format!(", {}", step.outcome) };
                format!("  {} ({took}{outcome})", ui::clean(&step.name))
            }));
        }
        (None, Fate::Running) => lines.push(format!("process {}", record.pid)),
        (None, _) => {
            lines.push("it ended without a word; run the command again to go on from there".to_owned())
        }
    }
    let log = record.log.as_ref().filter(|log| with_steps && log.exists());
    lines.extend(log.map(|log| format!("  log {}", log.display())));
    lines.join("\n")
}
