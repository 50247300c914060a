//! The results of a conformance run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use engine::cpi::Info;

/// The result of a conformance run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The CPI: the path of the executable or of the transcript, or the name of the manifest.
    pub cpi: String,
    /// Its result of `info`.
    #[serde(serialize_with = "serialize_info")]
    pub info: Option<Info>,
    /// The number of checks per verdict.
    pub counts: Counts,
    /// Every check, in the order of the run.
    pub checks: Vec<Check>,
    /// The durations by method.
    pub timings: Vec<Timing>,
    /// The number of resources that were created and deleted.
    #[serde(rename = "deleted")]
    pub deleted_count: usize,
    /// Resources that could not be deleted, and calls that may have created one.
    #[serde(rename = "left_behind")]
    pub leftovers: Vec<LeftoverResource>,
    /// The signal that ended the run early.
    #[serde(rename = "interrupted")]
    pub signal: Option<u8>,
}

/// One check.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// The group: `rpc`, `stemcell`, `contract v2`, `contract v1`, `cleanup`.
    pub group: String,
    /// The name: `attach_disk again`.
    pub name: String,
    /// The verdict.
    #[serde(rename = "result")]
    pub verdict: Verdict,
    /// The kind of rule that a failed check breaks.
    pub deviation: Option<Deviation>,
    /// The reasons for a failure or a skip, or remarks, one sentence each.
    pub reasons: Vec<String>,
    /// The last call of a failed check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_call: Option<LastCall>,
    /// The duration of its calls.
    #[serde(rename = "duration_ms", serialize_with = "serialize_milliseconds")]
    pub duration: Duration,
}

/// The last call of a check.
#[derive(Debug, Clone, Serialize)]
pub struct LastCall {
    /// Its request ID; empty if the input was malformed on purpose.
    pub request_id: String,
    /// The method and the arguments, with which `cpi call` repeats it. Empty if a repetition would create a
    /// resource.
    #[serde(skip)]
    pub words: Vec<String>,
    /// The last lines of its log.
    pub log: Vec<String>,
}

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The CPI conforms.
    Pass,
    /// The CPI does not conform.
    Fail,
    /// The check was impossible or unnecessary.
    Skip,
}

impl Verdict {
    /// Returns the verdict as a word.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "FAIL",
            Verdict::Skip => "skip",
        }
    }
}

/// The kind of rule that a failed check breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Deviation {
    /// The CPI violates the contract.
    Violation,
    /// The contract does not promise this, but some caller expects it.
    NotPromised,
}

impl Deviation {
    /// Returns `Violation` if there is one, else `NotPromised` if there is one, else `None`.
    pub(super) fn of(violations: &[String], unmet_expectations: &[String]) -> Option<Self> {
        match (violations.is_empty(), unmet_expectations.is_empty()) {
            (false, _) => Some(Deviation::Violation),
            (true, false) => Some(Deviation::NotPromised),
            (true, true) => None,
        }
    }

    /// Returns the text for reports.
    pub fn name(self) -> &'static str {
        match self {
            Deviation::Violation => "violates the contract",
            Deviation::NotPromised => "expected by some callers, not required by the contract",
        }
    }
}

impl Check {
    /// Returns the reasons without the method that they begin with, so that equal ones can be grouped.
    pub fn plain_reasons(&self) -> impl Iterator<Item = &str> {
        self.reasons.iter().map(|reason| {
            let rest = reason.strip_prefix('`').and_then(|rest| rest.split_once("`: "));
            rest.map_or(reason.as_str(), |(_, rest)| rest)
        })
    }

    /// Returns the verdict, with the kind of rule that a failed check breaks.
    pub fn verdict_text(&self) -> String {
        match self.deviation {
            Some(deviation) => format!("{}: {}", self.verdict.name(), deviation.name()),
            None => self.verdict.name().to_owned(),
        }
    }
}

/// The number of checks per verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Checks that passed.
    pub pass: usize,
    /// Checks that failed.
    pub fail: usize,
    /// Checks that were skipped.
    pub skip: usize,
}

/// The durations of a method.
#[derive(Debug, Clone, Serialize)]
pub struct Timing {
    /// The method.
    pub method: String,
    /// The number of calls.
    pub calls: usize,
    /// The shortest call.
    #[serde(rename = "min_ms", serialize_with = "serialize_milliseconds")]
    pub min: Duration,
    /// The median call.
    #[serde(rename = "median_ms", serialize_with = "serialize_milliseconds")]
    pub median: Duration,
    /// The longest call.
    #[serde(rename = "max_ms", serialize_with = "serialize_milliseconds")]
    pub max: Duration,
}

/// A resource that may still exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftoverResource {
    /// The kind: `vm`, `disk`, `snapshot`, `stemcell`.
    pub kind: String,
    /// The CID; `None` if the CPI returned none.
    pub cid: Option<String>,
    /// The reason, and a way to find the resource.
    pub reason: String,
}

impl Report {
    /// Returns true if nothing failed, nothing is left behind, and the run was not interrupted.
    pub fn has_passed(&self) -> bool {
        self.counts.fail == 0 && self.leftovers.is_empty() && self.signal.is_none()
    }

    /// Summarises the run in one sentence.
    pub fn summary(&self) -> String {
        let Counts { pass, fail, skip } = self.counts;
        let count = |deviation| self.checks.iter().filter(|check| check.deviation == Some(deviation)).count();
        let deviations = match (count(Deviation::Violation), count(Deviation::NotPromised)) {
            (0, 0) => String::new(),
            (_, 0) => " (against the contract)".to_owned(),
            (0, _) => " (against what some callers expect)".to_owned(),
            (violations, unmet_expectations) => {
                format!(
                    " ({violations} against the contract, {unmet_expectations} against what some callers \
                     expect)"
                )
            }
        };
        let mut text = format!("{pass} passed, {fail} failed{deviations}, {skip} skipped");
        if self.signal.is_some() {
            text += "; interrupted before the end";
        }
        let resources =
            |count| if count == 1 { "1 resource".to_owned() } else { format!("{count} resources") };
        text += &match (self.deleted_count, self.leftovers.len()) {
            (0, 0) => String::new(),
            (deleted_count, 0) => format!("; {} deleted, none left", resources(deleted_count)),
            (0, remaining_count) => format!("; {} may be left", resources(remaining_count)),
            (deleted_count, remaining_count) => {
                format!("; {} deleted, {remaining_count} may be left", resources(deleted_count))
            }
        };
        text
    }

    /// Returns the words with which `cpi call` repeats the last call of a failed check: one that violates the
    /// contract if there is any.
    pub fn repeatable_call(&self) -> Option<&[String]> {
        let failed_checks = self.checks.iter().filter_map(|check| {
            let words = check.last_call.as_ref()?.words.as_slice();
            (!words.is_empty()).then_some((check.deviation != Some(Deviation::Violation), words))
        });
        failed_checks.min_by_key(|(is_minor, _)| *is_minor).map(|(_, words)| words)
    }
}

impl Counts {
    /// Counts the checks by verdict.
    pub(super) fn of(checks: &[Check]) -> Counts {
        let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
        Counts { pass: count(Verdict::Pass), fail: count(Verdict::Fail), skip: count(Verdict::Skip) }
    }
}

/// Groups the durations of calls by method, sorted by name.
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

fn serialize_milliseconds<S: serde::Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    // The start of a process varies by more than a tenth of a millisecond.
    serializer.serialize_f64((duration.as_secs_f64() * 1e4).round() / 10.0)
}

fn serialize_info<S: serde::Serializer>(info: &Option<Info>, serializer: S) -> Result<S::Ok, S::Error> {
    let info = info.as_ref().map(|info| {
        serde_json::json!({"api_version": info.api_version, "stemcell_formats": info.stemcell_formats})
    });
    info.serialize(serializer)
}
