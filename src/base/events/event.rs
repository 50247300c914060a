//! The events of a run, as data.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::timing::Timings;

/// A step of a plan as it is shown: on the terminal, in JSON, and in the record of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedStep {
    /// The name of its kind, such as `create_vm`.
    #[serde(rename = "step")]
    pub step_kind: String,
    /// A description for the operator.
    #[serde(alias = "what")]
    pub description: String,
    /// The reason for the step.
    pub reason: String,
}

/// A step of a plan in words, for the report at the end of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepText {
    /// The step as it is first tried: "Grow disk 'd' to 9 MiB in place". Its description also says what is
    /// done if that is impossible.
    pub imperative: String,
    /// The step in the past tense: "Grew disk 'd' to 9 MiB in place".
    pub past_tense: String,
    /// The step if it was skipped: "Did not grow disk 'd' to 9 MiB in place".
    pub negation: String,
}

/// Identifies a stage within one run.
pub type StageId = u64;

/// A fact that a run reports. `docs/events.md` describes the JSON form.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A stage started.
    StageStarted {
        /// The stage.
        id: StageId,
        /// The enclosing stage. `None` at the top level.
        parent: Option<StageId>,
        /// The stage's title, a gerund such as "Creating VM".
        name: String,
        /// The stage's usual duration. `None` if not known.
        #[serde(
            rename = "usual_ms",
            skip_serializing_if = "Option::is_none",
            serialize_with = "serialize_optional_milliseconds"
        )]
        usual_duration: Option<Duration>,
    },
    /// A stage made progress.
    StageProgress {
        /// The stage.
        id: StageId,
        /// The amount done so far.
        #[serde(rename = "done")]
        amount: u64,
        /// The amount in total. `None` if not known.
        total: Option<u64>,
        /// The unit of both amounts.
        unit: Unit,
    },
    /// The newest log line of the process for which a stage waits (CPI, packaging script).
    StageLog {
        /// The stage.
        id: StageId,
        /// The line, without its newline.
        line: String,
    },
    /// A stage ended.
    StageFinished {
        /// The stage.
        id: StageId,
        /// Done, skipped or unsuccessful with a reason, or failed.
        #[serde(flatten)]
        outcome: Outcome,
        /// The duration of the stage.
        #[serde(rename = "elapsed_ms", serialize_with = "serialize_milliseconds")]
        elapsed: Duration,
    },
    /// A plan was made. It replaces an earlier plan of the run.
    Planned {
        /// A summary of the plan.
        headline: String,
        /// The steps in their order. Empty if there is nothing to do.
        steps: Vec<ReportedStep>,
    },
    /// A step of the plan started.
    #[serde(rename = "step_begun")]
    StepStarted {
        /// Number of the step, from 1.
        number: usize,
        /// Number of steps in the plan.
        count: usize,
        /// The name of the step's kind, such as `create_vm`.
        #[serde(rename = "step")]
        step_kind: &'static str,
        /// A description for the operator.
        description: String,
        /// The words for the report.
        #[serde(skip)]
        text: StepText,
        /// The reason for the step.
        reason: String,
    },
    /// The effect of the step that started last is done and on record. The rest of the step, such as the wait
    /// for the agent of a new VM, may still fail.
    StepApplied,
    /// The run begins to change something without a step of a plan: it stops or starts jobs, boots the VM, or
    /// repairs something.
    #[serde(rename = "change_begun")]
    ChangeStarted,
    /// The plan as text for people.
    PlanShown {
        /// Its lines.
        lines: Vec<String>,
    },
    /// The state that the run uses.
    State {
        /// Its path or URL.
        path: String,
    },
    /// Information that is neither a stage nor a failure.
    Note {
        /// The fact, in one sentence.
        text: String,
    },
    /// The run continues, but the operator should check something.
    Warning(Warning),
    /// The run ended.
    RunFinished {
        /// True if the run succeeded.
        #[serde(rename = "success")]
        has_succeeded: bool,
        /// The result in one sentence.
        summary: String,
        /// The duration of the run.
        #[serde(rename = "elapsed_ms", serialize_with = "serialize_milliseconds")]
        elapsed: Duration,
        /// The error's message and causes, outermost first. Empty on success.
        errors: Vec<String>,
        /// Facts about the failure, such as "nothing was changed".
        notes: Vec<String>,
        /// The next actions for the operator.
        hints: Vec<String>,
        /// The exit code of the process.
        exit_code: u8,
        /// Durations by activity. Only commands that call a CPI or an agent have them.
        #[serde(skip_serializing_if = "Option::is_none")]
        timings: Option<Box<Timings>>,
        /// Path of the run log. Absent if the command writes none, and for errors of the command line or
        /// input before the first step.
        #[serde(skip_serializing_if = "Option::is_none")]
        log: Option<String>,
        /// The steps and stages of the run. Only commands with a run log have it.
        #[serde(skip_serializing_if = "Option::is_none")]
        report: Option<Box<RunReport>>,
    },
}

/// A warning: the run continues, but the operator should check something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The risk, in one sentence.
    pub text: String,
    /// The next actions for the operator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
}

impl<T: Into<String>> From<T> for Warning {
    fn from(text: T) -> Self {
        Warning { text: text.into(), hints: Vec::new() }
    }
}

impl From<&crate::error::Error> for Warning {
    fn from(error: &crate::error::Error) -> Self {
        Warning { text: error.chain().join(": "), hints: error.hints().to_vec() }
    }
}

impl Warning {
    /// Creates a warning without hints.
    pub fn new(text: impl Into<String>) -> Self {
        text.into().into()
    }

    /// Adds a hint, which tells the operator what to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds hints like [`Self::with_hint`].
    #[must_use]
    pub fn with_hints(mut self, hints: impl IntoIterator<Item = String>) -> Self {
        self.hints.extend(hints);
        self
    }

    /// Returns the warning with each of its texts changed by `change`.
    #[must_use]
    pub fn map_texts(&self, change: impl Fn(&String) -> String) -> Self {
        Warning { text: change(&self.text), hints: self.hints.iter().map(change).collect() }
    }
}

/// The steps and stages of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RunReport {
    /// The steps of the plan that were started, in their order.
    pub steps: Vec<StartedStep>,
    /// Number of steps of the plan that were not started.
    #[serde(rename = "steps_left")]
    pub unstarted_step_count: usize,
    /// The stages at the top level by their starts, each followed by those directly below it.
    pub stages: Vec<FinishedStage>,
    /// Path or URL of the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// A step of the plan that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StartedStep {
    /// A description for the operator.
    pub description: String,
    /// The words for the report.
    #[serde(skip)]
    pub text: StepText,
    /// The reason for the step.
    pub reason: String,
    /// False if the step failed before its effect was done.
    #[serde(rename = "done")]
    pub is_done: bool,
    /// True if the step failed after its effect was done.
    #[serde(rename = "failed_later", skip_serializing_if = "std::ops::Not::not")]
    pub has_failed_later: bool,
    /// The reason why the step was skipped, a clause such as "it does not exist any more".
    #[serde(rename = "skipped", skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<String>,
}

/// A stage that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FinishedStage {
    /// The title that [`Event::StageStarted`] reported.
    pub name: String,
    /// Number of enclosing stages.
    pub depth: usize,
    /// `done`, `skipped`, `unsuccessful` or `failed`.
    pub outcome: &'static str,
    /// The time from its start to its end.
    #[serde(rename = "elapsed_ms", serialize_with = "serialize_milliseconds")]
    pub elapsed: Duration,
    /// Its usual duration. `None` if not known.
    #[serde(
        rename = "usual_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "serialize_optional_milliseconds"
    )]
    pub usual_duration: Option<Duration>,
}

/// The unit of a stage's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes of a file or a transfer.
    Bytes,
    /// Packages, templates, disks.
    Items,
}

/// The outcome of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The stage succeeded.
    Done,
    /// The stage had nothing to do.
    Skipped {
        /// The reason, a clause such as "it does not exist any more".
        reason: String,
    },
    /// The stage was tried without success, and the run goes on.
    Unsuccessful {
        /// The result, a clause such as "no answer from the agent within 10 s".
        reason: String,
    },
    /// The stage failed. The error is in [`Event::RunFinished`].
    Failed,
}

impl Outcome {
    /// Returns `done`, `skipped`, `unsuccessful` or `failed`.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Skipped { .. } => "skipped",
            Outcome::Unsuccessful { .. } => "unsuccessful",
            Outcome::Failed => "failed",
        }
    }
}

fn serialize_optional_milliseconds<S: serde::Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => serialize_milliseconds(duration, serializer),
        None => serializer.serialize_none(),
    }
}

fn serialize_milliseconds<S: serde::Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
