//! The summary of a run: its steps, and the durations of its stages.

use std::time::Duration;

use super::styled::{NO_BREAK_SPACE, Styled};
use super::text::Color;
use base::ErrorKind;
use base::events::{FinishedStage, RunReport, StartedStep};

/// The minimum duration of a run with the full summary.
pub(super) const LONG_RUN_DURATION: Duration = Duration::from_secs(60);
/// The most stages to list: the longest ones.
const MAX_STAGES: usize = 12;
/// The minimum duration of a listed stage.
const MIN_LISTED_DURATION: Duration = Duration::from_millis(100);
/// The width of a duration in columns.
const DURATION_COLUMNS: usize = 13;

/// A line with the indentation of its continuation lines.
type SummaryLine = (Styled, usize);

/// Returns the lines for a run that ended with this exit code. Unless `shows_all`, only the steps of a failed
/// run are listed.
pub(super) fn lines(report: &RunReport, exit_code: u8, shows_all: bool) -> Vec<SummaryLine> {
    let has_failed = exit_code != 0;
    let is_interrupted =
        [2, 15].map(|signal| ErrorKind::Interrupted(signal).exit_code()).contains(&exit_code);
    let failure_label = if is_interrupted { "INTERRUPTED" } else { "FAILED" };
    let mut lines = Vec::new();
    if !report.steps.is_empty() && (has_failed || shows_all) {
        lines.push(heading_line("Steps"));
        lines.extend(steps(report, failure_label));
    }
    // A run that failed before its first step did nothing that took long.
    if !report.stages.is_empty() && shows_all && !(has_failed && report.steps.is_empty()) {
        lines.push(heading_line("How long it took"));
        lines.extend(stages(&report.stages, failure_label));
    }
    lines
}

fn heading_line(text: &str) -> SummaryLine {
    (Styled::default().colored(Color::Bold, text), 0)
}

/// Returns a numbered line for each step of the plan that began, and one for the number of others.
fn steps(report: &RunReport, failure_label: &'static str) -> impl Iterator<Item = SummaryLine> {
    let steps = report.steps.iter().enumerate().map(move |(index, step)| {
        let number = format!("  {}. ", index + 1);
        let text = base::text::clean_line(&step_text(step));
        let line = match step {
            StartedStep { is_done: false, .. } => {
                Styled::plain(number).colored(Color::Red, failure_label).and(": ").and(text)
            }
            StartedStep { has_failed_later: true, .. } => {
                Styled::plain(number + &text).and(", then ").colored(Color::Red, failure_label)
            }
            StartedStep { .. } => Styled::plain(number + &text),
        };
        (line, 5)
    });
    let not_started = match report.unstarted_step_count {
        0 => None,
        1 => Some("  1 more step was not started".to_owned()),
        count => Some(format!("  {count} more steps were not started")),
    };
    steps.chain(not_started.map(|line| (Styled::plain(line), 5)))
}

/// Describes a step, in the past tense if it is done or was skipped.
fn step_text(step: &StartedStep) -> String {
    match &step.skip_reason {
        Some(reason) => format!("{}: {reason}", step.text.negation),
        None if step.is_done => step.text.past_tense.clone(),
        None => step.text.imperative.clone(),
    }
}

/// Returns the longest stages in their order, and the total of the others.
fn stages(stages: &[FinishedStage], failure_label: &str) -> Vec<SummaryLine> {
    let is_inner = |index: &usize| stages.get(*index).is_some_and(|stage| stage.depth > 0);
    let elapsed = |index: &usize| stages.get(*index).map(|stage| stage.elapsed).unwrap_or_default();
    let mut by_length: Vec<usize> = (0..stages.len()).filter(is_inner).collect();
    by_length.sort_by_key(|index| std::cmp::Reverse(elapsed(index)));
    let long_count = by_length.iter().take_while(|index| elapsed(index) >= MIN_LISTED_DURATION).count();
    let short_stages = by_length.split_off(long_count.min(MAX_STAGES));
    let long_stages =
        stages.iter().enumerate().filter(|(index, _)| !short_stages.contains(index)).map(|(_, stage)| stage);
    let mut lines: Vec<SummaryLine> = long_stages.map(|stage| line(stage, failure_label)).collect();
    if !short_stages.is_empty() {
        let time = base::text::format_duration(short_stages.iter().map(elapsed).sum());
        let stages = if short_stages.len() == 1 { "stage" } else { "stages" };
        lines.push((
            Styled::plain(format!("{time:>DURATION_COLUMNS$}    {} other {stages}", short_stages.len())),
            DURATION_COLUMNS + 6,
        ));
    }
    lines
}

fn line(stage: &FinishedStage, failure_label: &str) -> SummaryLine {
    let indent = 2 * (stage.depth + 1);
    let time = base::text::format_duration(stage.elapsed);
    let name = base::text::clean_line(&stage.name);
    let line = Styled::plain(format!("{time:>DURATION_COLUMNS$}{}{name}", " ".repeat(indent)));
    let line = match stage.usual_duration.filter(|duration| *duration >= MIN_LISTED_DURATION) {
        Some(duration) => {
            let remark = format!("(usually {})", base::text::format_duration(duration))
                .replace(' ', &NO_BREAK_SPACE.to_string());
            line.and(" ").colored(Color::Dim, remark)
        }
        None => line,
    };
    let line = match stage.outcome {
        "done" => line,
        "skipped" => line.and(" ").colored(Color::Dim, "(skipped)"),
        "unsuccessful" => line.and(" ").colored(Color::Dim, "(unsuccessful)"),
        _ => line.and(" ").colored(Color::Red, failure_label),
    };
    (line, DURATION_COLUMNS + indent + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::events::StepText;

    #[test]
    fn failed_run_lists_its_steps() {
        let step = |attempt: &str, past: &str, reason: &str, is_done| StartedStep {
            description: String::new(),
            text: StepText {
                imperative: attempt.into(),
                past_tense: past.into(),
                negation: format!("Did not {}{}", attempt[..1].to_lowercase(), &attempt[1..]),
            },
            reason: reason.into(),
            is_done,
            has_failed_later: false,
            skip_reason: None,
        };
        let stage = |depth, name: &str, outcome, seconds, usual_seconds: Option<u64>| FinishedStage {
            name: name.into(),
            depth,
            outcome,
            elapsed: Duration::from_secs(seconds),
            usual_duration: usual_seconds.map(Duration::from_secs),
        };
        let mut stages = vec![
            stage(0, "Validating", "done", 3, None),
            stage(0, "Deploying", "failed", 95, Some(240)),
            stage(1, "Deleting VM vm-1", "skipped", 12, None),
            stage(1, "Waiting for the agent on VM vm-1", "unsuccessful", 10, None),
            stage(1, "Compiling package 'ruby'", "done", 80, Some(75)),
        ];
        stages.extend(
            (0..30).map(|number| stage(1, &format!("Uploading package '{number}'"), "done", 1, None)),
        );
        let report = RunReport {
            steps: vec![
                step("Stop the jobs on VM vm-1", "Stopped the jobs on VM vm-1", "--recreate", true),
                step("Take a snapshot of disk disk-1", "Took a snapshot of disk disk-1", "--snapshot", true),
                StartedStep {
                    skip_reason: Some("it does not exist any more".into()),
                    ..step("Delete VM vm-1", "Deleted VM vm-1", "--recreate", true)
                },
                step(
                    "Grow disk disk-1 to 9 MiB in place",
                    "Grew disk disk-1 to 9 MiB in place",
                    "size",
                    true,
                ),
                step("Create the VM of 'hello/0'", "Created the VM of 'hello/0'", "there is no VM", false),
                StartedStep {
                    has_failed_later: true,
                    ..step("Attach disk disk-1", "Attached disk disk-1", "the VM is new", true)
                },
            ],
            unstarted_step_count: 2,
            stages,
            state: Some("/env/state.json".into()),
        };
        let texts: Vec<String> =
            lines(&report, 1, true).iter().map(|(line, _)| line.to_text(false)).collect();
        insta::assert_snapshot!(texts.join("\n"), @r"
        Steps
          1. Stopped the jobs on VM vm-1
          2. Took a snapshot of disk disk-1
          3. Did not delete VM vm-1: it does not exist any more
          4. Grew disk disk-1 to 9 MiB in place
          5. FAILED: Create the VM of 'hello/0'
          6. Attached disk disk-1, then FAILED
          2 more steps were not started
        How long it took
                3.0 s  Validating
           1 min 35 s  Deploying (usually 4 min 00 s) FAILED
                 12 s    Deleting VM vm-1 (skipped)
                 10 s    Waiting for the agent on VM vm-1 (unsuccessful)
           1 min 20 s    Compiling package 'ruby' (usually 1 min 15 s)
                1.0 s    Uploading package '0'
                1.0 s    Uploading package '1'
                1.0 s    Uploading package '2'
                1.0 s    Uploading package '3'
                1.0 s    Uploading package '4'
                1.0 s    Uploading package '5'
                1.0 s    Uploading package '6'
                1.0 s    Uploading package '7'
                1.0 s    Uploading package '8'
                 21 s    21 other stages
        ");
        let interrupted_lines = lines(&report, 130, false);
        assert_eq!(interrupted_lines[5].0.to_text(false), "  5. INTERRUPTED: Create the VM of 'hello/0'");
        assert_eq!(interrupted_lines.len(), 8, "durations are shown after an interruption");
        assert!(lines(&report, 0, false).is_empty(), "a short success has lines");
    }

    #[test]
    fn failure_before_the_first_step_has_no_summary() {
        let stage = FinishedStage {
            name: "Validating".into(),
            depth: 0,
            outcome: "done",
            elapsed: Duration::from_secs(3),
            usual_duration: None,
        };
        let report = RunReport { stages: vec![stage], ..RunReport::default() };
        assert!(lines(&report, 1, true).is_empty());
        assert!(!lines(&report, 0, true).is_empty());
    }
}
