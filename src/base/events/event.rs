//! The events of a run, as data.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::timing::Timings;

/// A step of a plan as it is shown: on the terminal, in JSON, and in the record of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnouncedStep {
    /// The name of its kind: `create_vm`.
    pub step: String,
    /// A description for people.
    pub what: String,
    /// The reason for it.
    pub reason: String,
}

/// Identifies a stage within one run.
pub type StageId = u64;

/// One thing that happened.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A stage began.
    StageStarted {
        /// The stage.
        id: StageId,
        /// The stage it belongs to.
        parent: Option<StageId>,
        /// What it does, as a gerund.
        name: String,
        /// How long it usually takes, where that is known.
        #[serde(
            rename = "usual_ms",
            skip_serializing_if = "Option::is_none",
            serialize_with = "maybe_milliseconds"
        )]
        usual: Option<Duration>,
    },
    /// A stage has come this far.
    StageProgress {
        /// The stage.
        id: StageId,
        /// How much is done.
        done: u64,
        /// How much there is, where known.
        total: Option<u64>,
        /// What is counted.
        unit: Unit,
    },
    /// The newest log line of what a stage waits for (CPI, packaging script).
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
        /// How.
        #[serde(flatten)]
        outcome: Outcome,
        /// After how long.
        #[serde(rename = "elapsed_ms", serialize_with = "milliseconds")]
        elapsed: Duration,
    },
    /// The steps are clear now. A later plan takes the place of an earlier one.
    Planned {
        /// What they come to.
        headline: String,
        /// The steps in their order; none if nothing is to be done.
        steps: Vec<AnnouncedStep>,
    },
    /// A step of the plan begins.
    StepBegun {
        /// Which, from 1.
        number: usize,
        /// How many there are.
        count: usize,
        /// What steps of its kind are called.
        step: &'static str,
        /// What it does, for a person.
        what: String,
        /// Why it is taken.
        reason: String,
    },
    /// Neither a stage nor a failure, but worth knowing.
    Note {
        /// The sentence.
        text: String,
    },
    /// The run goes on, but somebody should look.
    Warning {
        /// The sentence.
        text: String,
    },
    /// The run is over.
    RunFinished {
        /// Whether it did what was asked.
        success: bool,
        /// One sentence that says what came of it.
        summary: String,
        /// After how long.
        #[serde(rename = "elapsed_ms", serialize_with = "milliseconds")]
        elapsed: Duration,
        /// The error's message and causes, outermost first; empty on success.
        errors: Vec<String>,
        /// What to do next.
        hints: Vec<String>,
        /// The process's exit code.
        exit_code: u8,
        /// Where the time went, for commands that call a CPI or an agent.
        #[serde(skip_serializing_if = "Option::is_none")]
        timings: Option<Box<Timings>>,
        /// The log of the run, for commands that keep one.
        #[serde(skip_serializing_if = "Option::is_none")]
        log: Option<String>,
        /// What was done, for commands that keep a log.
        #[serde(skip_serializing_if = "Option::is_none")]
        report: Option<Box<Report>>,
    },
}

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The steps of the plan that were taken, in their order.
    pub steps: Vec<StepTaken>,
    /// How many steps of the plan were not begun.
    pub steps_left: usize,
    /// The stages and those right below them, in the order in which they began.
    pub stages: Vec<StageTaken>,
    /// The state file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// A step of the plan that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepTaken {
    /// What it does, for a person.
    pub what: String,
    /// Why it was taken.
    pub reason: String,
    /// Whether it did its work.
    pub done: bool,
}

/// A stage that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageTaken {
    /// What it does.
    pub name: String,
    /// How many stages it is inside of.
    pub depth: usize,
    /// `done`, `skipped` or `failed`.
    pub outcome: &'static str,
    /// How long it took.
    #[serde(rename = "elapsed_ms", serialize_with = "milliseconds")]
    pub elapsed: Duration,
    /// How long it usually takes, where that is known.
    #[serde(
        rename = "usual_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "maybe_milliseconds"
    )]
    pub usual: Option<Duration>,
}

/// What a stage's progress counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes of a file or a transfer.
    Bytes,
    /// Things: packages, templates, disks.
    Items,
}

/// How a stage ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It did its work.
    Done,
    /// There was nothing to do.
    Skipped {
        /// Why.
        reason: String,
    },
    /// It failed; the error follows.
    Failed,
}

impl Outcome {
    /// In one word: `done`, `skipped` or `failed`.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Skipped { .. } => "skipped",
            Outcome::Failed => "failed",
        }
    }
}

fn maybe_milliseconds<S: serde::Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => milliseconds(duration, serializer),
        None => serializer.serialize_none(),
    }
}

fn milliseconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
