//! `monopile history`: lists the runs on this machine.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::finish::CommandResult;
use super::session::Session;
use super::table::{Layout, Table};
use super::{StateSelectionArgs, env_vars, paths};
use crate::ui;
use base::Result;
use engine::history::{self, RecordedRun, RunOutcome};

#[derive(Debug, Clone, Args)]
pub(super) struct HistoryArgs {
    #[command(flatten)]
    selection: StateSelectionArgs,

    /// List at most the newest N runs
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "20",
          value_parser = parse_limit)]
    limit: std::num::NonZeroUsize,

    /// Show the planned steps of each run, how long its stages took, and its log
    #[arg(long)]
    steps: bool,
}

impl HistoryArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let directory = env_vars::HISTORY.path()?;
        let state = match self.selection.named()? {
            Some(state) => Some(session.storage(&state)?.resolve_links()?.path_or_url()),
            None => None,
        };
        let mut runs = history::list(&directory, state.as_deref())?;
        runs.truncate(self.limit.get());
        match session.globals.prints_json() {
            true => CommandResult::json(&runs),
            false if runs.is_empty() => {
                if state.is_some() {
                    self.selection.path()?;
                }
                Ok(CommandResult::Output(no_runs_text(state.as_deref()).into_bytes()))
            }
            false => {
                let text = match self.steps {
                    true => {
                        let text = with_steps(&runs, state.is_none());
                        session.columns().map(|columns| ui::wrap(&text, columns)).unwrap_or(text)
                    }
                    false => runs_table(&runs, state.is_none(), &session.layout()),
                };
                Ok(CommandResult::Output(text.into_bytes()))
            }
        }
    }
}

/// Parses `--limit`.
fn parse_limit(text: &str) -> Result<std::num::NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a whole number of at least 1, such as 20".to_owned())
}

fn no_runs_text(state: Option<&Path>) -> String {
    let state_phrase = state.map(|state| format!(" of '{}'", state.display())).unwrap_or_default();
    format!("No runs{state_phrase} are recorded on this machine.\n")
}

/// Formats runs as a table, optionally with the state.
fn runs_table(runs: &[RecordedRun], shows_state: bool, layout: &Layout) -> String {
    let mut header = vec!["Started", "Command", "Took", "Result", "Plan", "Details"];
    if shows_state {
        header.insert(1, "State");
    }
    let mut table = Table::new(header).with_details("Details");
    for recorded_run in runs {
        let record = &recorded_run.record;
        let details = end_summary(recorded_run).unwrap_or_default();
        // The result of a run without steps repeats its plan.
        let plan = record.plan.as_ref().filter(|plan| !details.starts_with(&plan.headline));
        let mut row = vec![
            record.started_at.clone(),
            record.command.clone(),
            run_duration(recorded_run),
            outcome_label(recorded_run),
            plan.map(|plan| plan.headline.clone()).unwrap_or_default(),
            details,
        ];
        if shows_state {
            row.insert(1, paths::shorten_home(&record.state));
        }
        table.add_row(row);
    }
    table.format(layout)
}

/// Formats runs with their planned steps and stages, which are too long for a table.
fn with_steps(runs: &[RecordedRun], shows_state: bool) -> String {
    let mut lines = Vec::new();
    for recorded_run in runs {
        let record = &recorded_run.record;
        let mut head = vec![
            record.started_at.clone(),
            record.command.clone(),
            run_duration(recorded_run),
            outcome_label(recorded_run),
        ];
        head.retain(|part| !part.is_empty());
        lines.push(head.join("  "));
        lines.extend(shows_state.then(|| format!("  State: {}", paths::shorten_home(&record.state))));
        if let Some(plan) = &record.plan {
            lines.push(format!("  Plan: {}", base::text::clean(&plan.headline)));
            let steps = plan.steps.iter().enumerate();
            lines.extend(
                steps.map(|(index, step)| {
                    format!("    {}. {}", index + 1, base::text::clean(&step.description))
                }),
            );
        }
        lines.extend(record.end.iter().flat_map(|end| &end.stages).map(|stage| {
            let ending = if stage.outcome == "done" { String::new() } else { format!(", {}", stage.outcome) };
            let (indent, name) = ("  ".repeat(stage.depth + 2), base::text::clean(&stage.name));
            format!("{indent}{name} ({}{ending})", duration(stage.elapsed_ms))
        }));
        lines.extend(end_summary(recorded_run).map(|line| format!("  {line}")));
        let log = record.log.as_ref().filter(|log| log.exists());
        lines.extend(log.map(|log| format!("  Log: {}", log.display())));
        lines.push(String::new());
    }
    lines.join("\n")
}

fn duration(milliseconds: u64) -> String {
    base::text::format_duration(Duration::from_millis(milliseconds))
}

/// Formats the time since a start in RFC 3339, such as `3 min ago`.
pub(super) fn age(start: &str, now: OffsetDateTime) -> String {
    let Ok(start_time) = OffsetDateTime::parse(start, &Rfc3339) else { return start.to_owned() };
    let elapsed = now - start_time;
    match elapsed.whole_minutes() {
        ..1 => "just now".to_owned(),
        minutes @ 1..60 => format!("{minutes} min ago"),
        60..2880 => format!("{} h ago", elapsed.whole_hours()),
        _ => format!("{} days ago", elapsed.whole_days()),
    }
}

pub(super) fn run_duration(recorded_run: &RecordedRun) -> String {
    recorded_run.record.end.as_ref().map(|end| duration(end.elapsed_ms)).unwrap_or_default()
}

pub(super) fn outcome_label(recorded_run: &RecordedRun) -> String {
    let code = recorded_run.record.end.as_ref().map_or(0, |end| end.exit_code);
    match recorded_run.outcome {
        RunOutcome::Running => "running".to_owned(),
        RunOutcome::Succeeded => "ok".to_owned(),
        RunOutcome::Failed => format!("failed, exit code {code}"),
        RunOutcome::Declined => "declined".to_owned(),
        RunOutcome::Interrupted => format!("interrupted, exit code {code}"),
        RunOutcome::Killed => "killed".to_owned(),
    }
}

/// Returns the result of a run in one line. The log has the complete error.
fn end_summary(recorded_run: &RecordedRun) -> Option<String> {
    match (&recorded_run.record.end, recorded_run.outcome) {
        (Some(end), _) => {
            let mut lines = end.summary.lines().filter(|line| !line.is_empty());
            let first_line = lines.next();
            // An error that announces a list has its first item in the next line.
            let second_line = first_line.filter(|line| line.ends_with(':')).and(lines.next());
            let summary =
                first_line.into_iter().chain(second_line.map(str::trim)).collect::<Vec<_>>().join(" ");
            (!summary.is_empty()).then(|| base::text::clean(&summary).into_owned())
        }
        (None, RunOutcome::Running) => Some(format!("process {}", recorded_run.record.pid)),
        (None, _) if recorded_run.record.begun_change_count == Some(0) => {
            Some("killed before it began a step".to_owned())
        }
        (None, _) => Some("killed before its end".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_of_a_run_has_one_unit() {
        let now = OffsetDateTime::parse("2026-03-05T12:00:00Z", &Rfc3339).unwrap();
        for (start, expected) in [
            ("2026-03-05T11:59:30Z", "just now"),
            ("2026-03-05T12:00:05Z", "just now"),
            ("2026-03-05T11:57:00Z", "3 min ago"),
            ("2026-03-04T11:00:00Z", "25 h ago"),
            ("2026-03-01T12:00:00Z", "4 days ago"),
            ("earlier", "earlier"),
        ] {
            assert_eq!(age(start, now), expected);
        }
    }
}
