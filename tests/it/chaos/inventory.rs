//! The fake cloud's own inventory, compared with the records and reports that an operator can see.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::Run;
use crate::support::hello::Hello;

/// Parts of lines that tell the operator that a thing may be left. Other lines may also name a thing, but do
/// not report it as left.
const REPORTS: [&str; 9] = [
    "does not find",
    "not on record",
    "cannot confirm that it is gone",
    "may have created",
    "untracked VM",
    "look in the IaaS for",
    "if no environment uses it, delete it",
    "to forget the record without deleting the VM",
    "stays on record",
];

/// The things in the cloud, as far as the suite knows them.
#[derive(Default)]
pub(super) struct Inventory {
    /// Things in the cloud that have nothing to do with the environment.
    pub bystanders: BTreeSet<String>,
    /// The agent id of each `create_vm` call, by request id.
    agents: BTreeMap<String, String>,
    /// The reports of each run.
    reports: Vec<String>,
    /// For each thing, the number of runs before which it was on record.
    known_until: BTreeMap<String, usize>,
    /// Things that need not be on record, because the CPI reported that it deleted them, or because the
    /// operator dropped their records.
    unrecorded_allowed: BTreeSet<String>,
}

/// Returns the kind of a thing by its CID.
pub(super) fn kind(cid: &str) -> &str {
    cid.split('-').next().unwrap_or_default()
}

impl Inventory {
    /// Returns the names by which an operator can find a thing: its CID, the request that created it, and the
    /// id of its agent.
    pub(super) fn names(&self, hello: &Hello, cid: &str) -> Vec<String> {
        let mut names = vec![cid.to_owned()];
        for (_, request) in hello.makers().into_iter().filter(|(created_cid, _)| created_cid == cid) {
            names.extend(self.agents.get(&request).cloned());
            names.push(request);
        }
        names
    }

    /// Takes the requests and the output of a run. Returns the requests.
    pub(super) fn observe_run(&mut self, hello: &Hello, run: &Run) -> Vec<Value> {
        let requests = hello.take_requests();
        for request in requests.iter().filter(|request| request["method"] == "create_vm") {
            let (id, agent) = (&request["context"]["request_id"], &request["arguments"][0]);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            self.agents.insert(text(id), text(agent));
        }
        let lines = run.stdout.lines().chain(run.stderr.lines());
        let reports = lines.filter(|line| REPORTS.iter().any(|report| line.contains(report)));
        self.reports.push(reports.collect::<Vec<_>>().join("\n"));
        requests
    }

    /// Allows a thing to be off the record.
    pub(super) fn allow_unrecorded(&mut self, cid: &str) {
        self.unrecorded_allowed.insert(cid.to_owned());
    }

    pub(super) fn may_be_unrecorded(&self, cid: &str) -> bool {
        self.unrecorded_allowed.contains(cid)
    }

    /// Returns the things of the environment that exist.
    pub(super) fn present_cids(&self, hello: &Hello) -> BTreeSet<String> {
        hello.cloud().difference(&self.bystanders).cloned().collect()
    }

    /// Returns the things that are neither on record nor reported. A report counts if it was made when its
    /// record was dropped, or later.
    pub(super) fn unreported_resources(&mut self, hello: &Hello) -> Vec<String> {
        let records = hello.announced_or_recorded();
        let mut unreported_resources = Vec::new();
        for cid in self.present_cids(hello) {
            let names = self.names(hello, &cid);
            let runs = self.reports.len();
            if names.iter().any(|name| records.contains(name)) {
                self.known_until.insert(cid, runs);
                continue;
            }
            let first_report = *self.known_until.entry(cid.clone()).or_insert(runs.saturating_sub(1));
            let is_named = |report: &String| names.iter().any(|name| report.contains(name));
            if !self.may_be_unrecorded(&cid) && !self.reports[first_report..].iter().any(is_named) {
                unreported_resources.push(format!("{cid} (known as {})", names[1..].join(", ")));
            }
        }
        unreported_resources
    }
}
