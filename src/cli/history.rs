//! `monopile history`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::finish::Finished;
use super::session::Session;
use super::table::Table;
use super::{StateArgs, paths};
use crate::history::{self, Fate, Run};
use crate::{Result, ui};

/// Show the runs on this machine: when, how long, what came of them
#[derive(Debug, Clone, Args)]
pub struct HistoryArgs {
    /// Path to the manifest, which is not read; the runs of all environments if it is left out
    #[arg(value_name = "PATH", value_hint = ValueHint::FilePath)]
    manifest: Option<PathBuf>,

    #[command(flatten)]
    state: StateArgs,

    /// How many runs, the newest
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,

    /// Show the steps of each run, with their durations
    #[arg(long)]
    steps: bool,
}

impl HistoryArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let directory = Session::history_dir()?;
        let state = match (&self.manifest, self.state.is_named()) {
            (None, false) => None,
            (manifest, _) => {
                let state = self.state.path(&manifest.clone().unwrap_or_default())?;
                Some(session.depot(&state)?.resolved()?.place())
            }
        };
        let mut runs = history::list(&directory, state.as_deref())?;
        runs.truncate(self.limit);
        match session.globals.json {
            true => Finished::json(&runs),
            false => Ok(Finished::Output(shown(&runs, state.is_none(), self.steps).into_bytes())),
        }
    }
}

/// A table of runs.
pub(super) fn shown(runs: &[Run], with_state: bool, with_steps: bool) -> String {
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
            details(run, with_steps),
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

fn details(run: &Run, with_steps: bool) -> String {
    let mut lines = Vec::new();
    match (&run.record.end, run.result) {
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
        (None, Fate::Running) => lines.push(format!("process {}", run.record.pid)),
        (None, _) => {
            lines.push("it ended without a word; run the command again to go on from there".to_owned())
        }
    }
    let log = run.record.log.as_ref().filter(|log| with_steps && log.exists());
    lines.extend(log.map(|log| format!("  log {}", log.display())));
    lines.join("\n")
}
