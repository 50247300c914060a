//! What a conformance run found, for people and programs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use engine::cpi::Info;

/// The result of a conformance run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The CPI: its path, or the transcript.
    pub cpi: String,
    /// What it says it is, if it said so.
    #[serde(serialize_with = "info")]
    pub info: Option<Info>,
    /// How often each verdict was given.
    pub counts: Counts,
    /// Every check, in the order of the run.
    pub checks: Vec<Check>,
    /// How long the CPI took, by method.
    pub timings: Vec<Timing>,
    /// How many things were made, and deleted again.
    pub deleted: usize,
    /// What was made and could not be deleted, or may have been made.
    pub left_behind: Vec<Left>,
    /// The signal that ended the run early.
    pub interrupted: Option<u8>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What it belongs to: `rpc`, `stemcell`, `contract v2`, `contract v1`, `cleanup`.
    pub group: String,
    /// What it is: `attach_disk again`.
    pub name: String,
    /// How it went.
    pub result: Verdict,
    /// Why it failed or was skipped, or what else is worth knowing; one sentence each.
    pub reasons: Vec<String>,
    /// How long its calls took.
    #[serde(rename = "duration_ms", serialize_with = "milliseconds")]
    pub duration: Duration,
}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should.
    Pass,
    /// Not as it should.
    Fail,
    /// It could not be made, or need not be.
    Skip,
}

impl Verdict {
    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "FAIL",
            Verdict::Skip => "skip",
        }
    }
}

/// How often each verdict was given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Passed.
    pub pass: usize,
    /// Failed.
    pub fail: usize,
    /// Skipped.
    pub skip: usize,
}

/// How long a method took.
#[derive(Debug, Clone, Serialize)]
pub struct Timing {
    /// The method.
    pub method: String,
    /// How often it was called.
    pub calls: usize,
    /// The shortest call.
    #[serde(rename = "min_ms", serialize_with = "milliseconds")]
    pub min: Duration,
    /// Half of the calls were shorter.
    #[serde(rename = "median_ms", serialize_with = "milliseconds")]
    pub median: Duration,
    /// The longest call.
    #[serde(rename = "max_ms", serialize_with = "milliseconds")]
    pub max: Duration,
}

/// Something that may still be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    /// What it is: `vm`, `disk`, `snapshot`, `stemcell`.
    pub kind: String,
    /// Its CID; `None` where the CPI did not say it.
    pub cid: Option<String>,
    /// Why it is there, and how to find it.
    pub why: String,
}

impl Report {
    /// Whether nothing failed and nothing is left behind.
    pub fn passed(&self) -> bool {
        self.counts.fail == 0 && self.left_behind.is_empty() && self.interrupted.is_none()
    }

    /// One sentence that says what came of it.
    pub fn summary(&self) -> String {
        let Counts { pass, fail, skip } = self.counts;
        let mut text = format!("{pass} passed, {fail} failed, {skip} skipped");
        if self.interrupted.is_some() {
            text += "; interrupted before the end";
        }
        match (self.deleted, self.left_behind.len()) {
            (0, 0) => {}
            (deleted, 0) => text += &format!("; all {deleted} things that were made are deleted"),
            (deleted, left) => {
                text += &format!("; {deleted} things that were made are deleted, {left} may be left");
            }
        }
        text
    }
}

impl Counts {
    pub(super) fn of(checks: &[Check]) -> Counts {
        let count = |verdict| checks.iter().filter(|check| check.result == verdict).count();
        Counts { pass: count(Verdict::Pass), fail: count(Verdict::Fail), skip: count(Verdict::Skip) }
    }
}

/// The timings of these calls, in the order of the methods' names.
pub(super) fn timings(calls: &[(String, Duration)]) -> Vec<Timing> {
    let mut by_method: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for (method, duration) in calls {
        by_method.entry(method).or_default().push(*duration);
    }
    by_method
        .into_iter()
        .filter_map(|(method, mut durations)| {
            durations.sort_unstable();
            Some(Timing {
                method: method.to_owned(),
                calls: durations.len(),
                min: *durations.first()?,
                median: *durations.get(durations.len() / 2)?,
                max: *durations.last()?,
            })
        })
        .collect()
}

fn milliseconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    // A tenth of a millisecond is as much as starting a process tells.
    serializer.serialize_f64((duration.as_secs_f64() * 1e4).round() / 10.0)
}

fn info<S: serde::Serializer>(info: &Option<Info>, serializer: S) -> Result<S::Ok, S::Error> {
    let info = info.as_ref().map(|info| {
        serde_json::json!({"api_version": info.api_version, "stemcell_formats": info.stemcell_formats})
    });
    info.serialize(serializer)
}
