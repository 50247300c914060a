//! Chooses a renderer, and redacts every event before it is rendered.

use std::sync::Arc;

use super::bosh::BoshDocument;
use super::json::Json;
use super::plain::Plain;
use super::progress::Progress;
use super::text::OutputStreams;
use base::events::{Event, FinishedStage, Outcome, ReportedStep, RunReport, Sink, StartedStep, StepText};
use base::redact::Redactor;

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Lines of text. With [`Options::prints_stages`] or [`Options::is_verbose`], also a line for the start
    /// and the end of each stage. Lines begin with the time, unless standard output is reserved.
    Plain,
    /// A live tree of stages, for terminals.
    Progress,
    /// One JSON object per line.
    Json,
    /// The JSON document of the bosh CLI, at the end.
    Bosh,
}

/// The options of a renderer.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The format of the output.
    pub format: Format,
    /// True if colours are allowed.
    pub allows_color: bool,
    /// True if the terminal shows Unicode.
    pub shows_unicode: bool,
    /// True if the terminal can only append text.
    pub is_dumb: bool,
    /// True if every log line of stages is printed, not only the last one.
    pub is_verbose: bool,
    /// True if standard output is reserved for the output of the command (a manifest, a script). All other
    /// text goes to standard error.
    pub is_stdout_reserved: bool,
    /// True if [`Format::Plain`] prints a line for the start and the end of each stage.
    pub prints_stages: bool,
}

/// A sink that also prints log lines without disturbing the live part.
pub(super) trait RenderSink: Sink {
    /// Prints a log line on standard error.
    fn log_line(&self, line: &str);
}

/// A renderer with its redactor. Cheap to clone; clones share the sink.
#[derive(Clone)]
pub struct Renderer {
    sink: Arc<dyn RenderSink>,
    document: Option<BoshDocument>,
    redactor: Redactor,
}

impl Renderer {
    /// Returns the sink for a [`Reporter`](base::events::Reporter).
    pub fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(self.clone())
    }

    /// Returns the document of [`Format::Bosh`].
    pub fn document(&self) -> Option<&BoshDocument> {
        self.document.as_ref()
    }

    /// Prints a redacted log line.
    pub fn log_line(&self, line: &str) {
        self.sink.log_line(&self.redactor.clean_and_redact(line));
    }
}

impl Sink for Renderer {
    fn receive(&self, event: &Event) {
        self.sink.receive(&redact_event(event, &self.redactor));
    }
}

/// Creates the renderer of this format. It redacts the texts of events before it renders them.
pub fn create_renderer(options: Options, redactor: Redactor) -> Renderer {
    let output = OutputStreams::standard(options.is_stdout_reserved);
    let mut document = None;
    let sink: Arc<dyn RenderSink> = match options.format {
        Format::Plain => Arc::new(Plain::new(options, output)),
        Format::Progress => Arc::new(Progress::new(options, output)),
        Format::Json => Arc::new(Json::new(output)),
        Format::Bosh => {
            Arc::new(document.insert(BoshDocument::new(options.is_stdout_reserved, output)).clone())
        }
    };
    Renderer { sink, document, redactor }
}

/// Cleans and redacts every text of an event before it is rendered, except paths. If a secret is the word
/// `event`, redacting rendered JSON would replace its key.
fn redact_event(event: &Event, redactor: &Redactor) -> Event {
    let redact = |text: &String| redactor.clean_and_redact(text);
    let redact_all = |texts: &Vec<String>| texts.iter().map(redact).collect();
    match event {
        Event::StageStarted { id, parent, name, usual_duration } => Event::StageStarted {
            id: *id,
            parent: *parent,
            name: redact(name),
            usual_duration: *usual_duration,
        },
        Event::StageLog { id, line } => Event::StageLog { id: *id, line: redact(line) },
        Event::StageFinished { id, outcome, elapsed } => Event::StageFinished {
            id: *id,
            outcome: match outcome {
                Outcome::Skipped { reason } => Outcome::Skipped { reason: redact(reason) },
                Outcome::Unsuccessful { reason } => Outcome::Unsuccessful { reason: redact(reason) },
                Outcome::Done => Outcome::Done,
                Outcome::Failed => Outcome::Failed,
            },
            elapsed: *elapsed,
        },
        Event::Planned { headline, steps } => {
            let step = |planned_step: &ReportedStep| ReportedStep {
                step_kind: planned_step.step_kind.clone(),
                description: redact(&planned_step.description),
                reason: redact(&planned_step.reason),
            };
            Event::Planned { headline: redact(headline), steps: steps.iter().map(step).collect() }
        }
        Event::StepStarted { number, count, step_kind, description, text, reason } => Event::StepStarted {
            number: *number,
            count: *count,
            step_kind,
            description: redact(description),
            text: redact_step_text(text, &redact),
            reason: redact(reason),
        },
        Event::PlanShown { lines } => Event::PlanShown { lines: redact_all(lines) },
        Event::State { path } => Event::State { path: path.clone() },
        Event::Note { text } => Event::Note { text: redact(text) },
        Event::Warning(warning) => Event::Warning(warning.map_texts(redact)),
        Event::RunFinished {
            has_succeeded,
            summary,
            elapsed,
            errors,
            notes,
            hints,
            exit_code,
            timings,
            log,
            report,
        } => Event::RunFinished {
            has_succeeded: *has_succeeded,
            summary: redact(summary),
            elapsed: *elapsed,
            errors: redact_all(errors),
            notes: redact_all(notes),
            hints: redact_all(hints),
            exit_code: *exit_code,
            timings: timings.clone(),
            log: log.clone(),
            report: report.as_deref().map(|report| Box::new(redact_report(report, &redact))),
        },
        Event::StageProgress { .. } | Event::StepApplied | Event::ChangeStarted => event.clone(),
    }
}

fn redact_step_text(text: &StepText, redact: &dyn Fn(&String) -> String) -> StepText {
    let StepText { imperative, past_tense, negation } = text;
    StepText { imperative: redact(imperative), past_tense: redact(past_tense), negation: redact(negation) }
}

/// Redacts the texts of a report. The path of the state comes from the command line and is not redacted.
fn redact_report(report: &RunReport, redact: &dyn Fn(&String) -> String) -> RunReport {
    let RunReport { steps, unstarted_step_count, stages, state } = report;
    let step = |step: &StartedStep| StartedStep {
        description: redact(&step.description),
        text: redact_step_text(&step.text, redact),
        reason: redact(&step.reason),
        is_done: step.is_done,
        has_failed_later: step.has_failed_later,
        skip_reason: step.skip_reason.as_ref().map(redact),
    };
    let stage = |stage: &FinishedStage| FinishedStage { name: redact(&stage.name), ..stage.clone() };
    RunReport {
        steps: steps.iter().map(step).collect(),
        unstarted_step_count: *unstarted_step_count,
        stages: stages.iter().map(stage).collect(),
        state: state.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::events::Warning;
    use std::time::Duration;

    #[test]
    fn no_event_shows_a_secret() {
        let redactor = Redactor::default();
        redactor.add("hunter22");
        let secret = || "x hunter22 y".to_owned();
        let events = [
            Event::StageStarted { id: 1, parent: None, name: secret(), usual_duration: None },
            Event::StageLog { id: 1, line: secret() },
            Event::StageFinished {
                id: 1,
                outcome: Outcome::Skipped { reason: secret() },
                elapsed: Duration::ZERO,
            },
            Event::StageFinished {
                id: 1,
                outcome: Outcome::Unsuccessful { reason: secret() },
                elapsed: Duration::ZERO,
            },
            Event::Planned {
                headline: secret(),
                steps: vec![ReportedStep {
                    step_kind: "create_vm".to_owned(),
                    description: secret(),
                    reason: secret(),
                }],
            },
            Event::StepStarted {
                number: 1,
                count: 1,
                step_kind: "create_vm",
                description: secret(),
                text: StepText { imperative: secret(), past_tense: secret(), negation: secret() },
                reason: secret(),
            },
            Event::PlanShown { lines: vec![secret()] },
            Event::Note { text: secret() },
            Event::Warning(Warning::new("risk").with_hint(secret())),
            Event::Warning(secret().into()),
            Event::RunFinished {
                has_succeeded: false,
                summary: secret(),
                elapsed: Duration::ZERO,
                errors: vec![secret(), secret()],
                notes: vec![secret()],
                hints: vec![secret()],
                exit_code: 1,
                timings: None,
                log: None,
                report: Some(Box::new(RunReport {
                    steps: vec![StartedStep {
                        description: secret(),
                        text: StepText { imperative: secret(), past_tense: secret(), negation: secret() },
                        reason: secret(),
                        is_done: true,
                        has_failed_later: false,
                        skip_reason: Some(secret()),
                    }],
                    stages: vec![FinishedStage {
                        name: secret(),
                        depth: 0,
                        outcome: "done",
                        elapsed: Duration::ZERO,
                        usual_duration: None,
                    }],
                    ..RunReport::default()
                })),
            },
        ];
        for event in events {
            let json = serde_json::to_string(&redact_event(&event, &redactor)).unwrap();
            assert!(json.contains("x <redacted> y") && !json.contains("hunter22"), "{json}");
        }
    }

    #[test]
    fn escape_sequence_does_not_hide_a_secret() {
        let redactor = Redactor::default();
        redactor.add("hunter22");
        let event = Event::Note { text: "x hun\x1b[0mter22 y".to_owned() };
        assert!(matches!(redact_event(&event, &redactor), Event::Note { text } if text == "x <redacted> y"));
    }
}
