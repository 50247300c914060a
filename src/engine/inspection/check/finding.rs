//! The findings of a check: everything on record with its actual status.

use std::collections::BTreeSet;

use serde::Serialize;

use super::diagnose::{UncheckedResources, UnfinishedChange};
use super::{Problem, ProblemKind, Repair};
use base::text;
use base::{Error, ErrorKind};

/// The actual status of something on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingStatus {
    /// The actual status is as recorded.
    AsRecorded,
    /// The actual status differs from the record.
    Drifted,
    /// Neither the CPI nor the agent knows.
    Unknown,
}

/// Something on record, or an untracked disk, with its actual status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind: VM, disk, stemcell, snapshot, agent, open call or failed call.
    pub kind: &'static str,
    /// Its CID; for an agent the CID of the VM, for calls their request ids.
    pub cid: String,
    /// The name of its CPI; `None` for the default CPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// Its actual status.
    pub status: FindingStatus,
    /// Details as text.
    pub detail: String,
    /// The difference from the record in a few words, if it is that of a problem or of an open call.
    #[serde(skip)]
    pub(super) short_description: Option<String>,
    /// The kind of the problem, if the actual status differs from the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<ProblemKind>,
    /// The possible repairs, the least disruptive first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
}

impl Finding {
    /// Returns the number of calls that the finding is about, if it is about calls.
    pub fn calls(&self) -> Option<usize> {
        [OPEN_CALL, FAILED_CALL].contains(&self.kind).then(|| self.cid.split(", ").count())
    }

    /// Creates a finding without a problem.
    pub(super) fn new(
        kind: &'static str,
        cid: String,
        cpi: Option<&str>,
        status: FindingStatus,
        detail: String,
    ) -> Self {
        let cpi = cpi.map(str::to_owned);
        let (short_description, problem, repairs) = (None, None, Vec::new());
        Finding { kind, cid, cpi, status, detail, short_description, problem, repairs }
    }

    pub(super) fn of(problem: &Problem, kind: &'static str, cid: String, cpi: Option<&str>) -> Self {
        let detail = match problem.kind {
            // The kind and the CID are shown beside it.
            ProblemKind::MissingVm | ProblemKind::MissingDisk => "the CPI does not find it".to_owned(),
            ProblemKind::StoppedVm => "it is stopped: its processes on this machine have ended".to_owned(),
            ProblemKind::UnresponsiveAgent | ProblemKind::RefusedCredentials => {
                let start = format!("{}: ", problem.short_text());
                problem.description.strip_prefix(&start).unwrap_or(&problem.description).to_owned()
            }
            _ => problem.description.clone(),
        };
        Finding {
            short_description: Some(problem.short_text().to_owned()),
            problem: Some(problem.kind),
            repairs: problem.repairs.clone(),
            ..Finding::new(kind, cid, cpi, FindingStatus::Drifted, detail)
        }
    }
}

/// The kind of a finding about an open call.
pub(super) const OPEN_CALL: &str = "open call";
/// The kind of a finding about failed calls that may have created something.
pub(super) const FAILED_CALL: &str = "failed call";

/// The result of a check that repairs nothing.
#[derive(Debug)]
pub struct CloudReport {
    /// One finding for everything on record, and for untracked disks.
    pub findings: Vec<Finding>,
    /// Hints for the operator about problems that no repair solves.
    pub(super) hints: Vec<String>,
    /// True if the agent failed at an address that is not on record, so the VM may be healthy.
    pub(super) has_other_address: bool,
    /// The resources about which the CPI could not be asked.
    pub(super) unchecked_resources: UncheckedResources,
    /// The change of the VM that did not finish.
    pub(super) unfinished_change: Option<UnfinishedChange>,
}

impl CloudReport {
    /// Returns the error for drift, or else for what could not be checked, or for a change that did not
    /// finish.
    pub fn problem_error(&self) -> Option<Error> {
        self.drift_error()
            .or_else(|| self.unchecked_resources.unchecked_error())
            .or_else(|| self.unfinished_change.map(UnfinishedChange::error))
    }

    fn drift_error(&self) -> Option<Error> {
        let drifted_findings: Vec<&Finding> =
            self.findings.iter().filter(|finding| finding.status == FindingStatus::Drifted).collect();
        if drifted_findings.is_empty() {
            return None;
        }
        // An agent has the CID of its VM.
        let mut cids = BTreeSet::new();
        let distinct = drifted_findings.iter().filter(|finding| cids.insert(&finding.cid));
        let differences: Vec<&str> =
            distinct.map(|finding| finding.short_description.as_deref().unwrap_or(&finding.detail)).collect();
        let error = Error::new(
            ErrorKind::Drift,
            format!("the environment is not as recorded: {}", text::comma_list(&differences)),
        );
        let has_repairs = drifted_findings.iter().any(|finding| !finding.repairs.is_empty());
        let error = self.unchecked_resources.explain(error).with_hints(&self.hints);
        Some(match has_repairs && !self.has_other_address {
            false if !self.hints.is_empty() => error,
            true => error
                .with_hint("repair it, with a question before each repair: `monopile cloud-check MANIFEST`"),
            false => error
                .with_hint("to forget a record without deleting anything: `monopile state forget --help`"),
        })
    }
}
