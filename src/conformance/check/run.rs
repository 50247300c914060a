//! Runs the checks of a conformance run one after the other, then deletes all resources.

use std::time::Duration;

use super::ledger::{self, CreatedResource, ResourceLedger};
use super::report::{Check, Counts, Deviation, LastCall, LeftoverResource, Report, Verdict, timings};
use super::running_check::{CheckOutcome, CheckStop, RunningCheck};
use super::{CheckContext, CheckSettings};
use crate::conformance::cpi_under_test::{CpiUnderTest, Versions};
use base::events::Warning;
use base::{Error, Result};
use engine::cpi::{Info, Method};

/// A conformance run.
pub(super) struct Run<'a> {
    pub(super) cpi: &'a CpiUnderTest,
    pub(super) settings: &'a CheckSettings,
    pub(super) context: &'a CheckContext<'a>,
    pub(super) ledger: ResourceLedger,
    /// The group of the next checks.
    pub(super) group: String,
    /// The versions of the next requests.
    pub(super) versions: Versions,
    pub(super) info: Option<Info>,
    pub(super) checks: Vec<Check>,
    /// The method and the duration of each call so far.
    pub(super) calls: Vec<(String, Duration)>,
    /// Methods that the CPI does not implement.
    pub(super) unimplemented: Vec<Method>,
    /// True if `info` exceeded its timeout, so every other call would do so too.
    pub(super) is_unresponsive: bool,
    /// The failure that ended the run, such as a missing executable.
    failure: Option<Error>,
}

impl<'a> Run<'a> {
    /// Begins a run, and takes over the resources of killed runs.
    pub(super) fn begin(
        cpi: &'a CpiUnderTest,
        settings: &'a CheckSettings,
        context: &'a CheckContext<'a>,
    ) -> Result<Self> {
        let (ledger, earlier_leftovers) = match &context.leftover_log {
            Some(log) => ResourceLedger::on_disk(log.directory, log.cpi)?,
            None => Default::default(),
        };
        for (method, request_id) in &earlier_leftovers.unanswered_calls {
            let warning =
                Warning::new(format!("an earlier run was killed during `{method}` (request {request_id})"));
            context.stage.reporter().warn(
                warning.with_hint("look in the IaaS for a resource that this call created, and delete it"),
            );
        }
        Ok(Run {
            cpi,
            settings,
            context,
            ledger,
            group: "rpc".to_owned(),
            versions: Versions::default(),
            info: None,
            checks: Vec::new(),
            calls: Vec::new(),
            unimplemented: Vec::new(),
            is_unresponsive: false,
            failure: None,
        })
    }

    /// Deletes the resources of earlier runs, before this run creates any.
    pub(super) fn delete_earlier_leftovers(&mut self) {
        let group = std::mem::replace(&mut self.group, "cleanup".to_owned());
        for resource in self.ledger.resources_in_deletion_order() {
            let name = format!("delete {} '{}' of an earlier run", resource.kind, resource.cid);
            self.check(&name, |check| check.delete_at_end(&resource));
        }
        self.group = group;
    }

    /// Returns the API version that both sides support.
    pub(super) fn api_version(&self) -> u32 {
        self.info.as_ref().map_or(1, |info| info.api_version).min(self.settings.highest_api_version)
    }

    /// Runs a check, unless the run is over. Returns its value if it passed.
    pub(super) fn check<T>(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut RunningCheck<'_, 'a>) -> CheckOutcome<T>,
    ) -> Option<T> {
        self.check_with_resources(name, body).0
    }

    /// Like [`Self::check`]. Also returns the resources that the check created, even after a failure.
    pub(super) fn check_with_resources<T>(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut RunningCheck<'_, 'a>) -> CheckOutcome<T>,
    ) -> (Option<T>, Vec<CreatedResource>) {
        if self.is_over() {
            return (None, Vec::new());
        }
        self.check_always(name, body)
    }

    /// Runs a check, even after the end of the run, and records its verdict. Unmet expectations that the
    /// contract does not promise are a deviation of a weaker kind. A broken run, such as an interrupted one,
    /// records no verdict and keeps the created resources.
    fn check_always<T>(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut RunningCheck<'_, 'a>) -> CheckOutcome<T>,
    ) -> (Option<T>, Vec<CreatedResource>) {
        let stage = self.context.stage.reporter().begin_stage(format!("{}: {name}", self.group));
        let mut check = RunningCheck {
            run: self,
            stage: &stage,
            violations: Vec::new(),
            unmet_expectations: Vec::new(),
            is_promised_by_contract: true,
            had_error: false,
            remarks: Vec::new(),
            duration: Duration::ZERO,
            resources: Vec::new(),
            last_call: None,
        };
        let outcome = body(&mut check);
        let RunningCheck {
            mut violations,
            mut unmet_expectations,
            is_promised_by_contract,
            remarks,
            duration,
            resources,
            last_call,
            ..
        } = check;
        let (value, skip_reason) = match outcome {
            Ok(value) => (Some(value), None),
            // Problems of the answer's form may explain the failure.
            Err(CheckStop::Failed(reason)) => {
                if !violations.contains(&reason) && !unmet_expectations.contains(&reason) {
                    let reasons =
                        if is_promised_by_contract { &mut violations } else { &mut unmet_expectations };
                    reasons.insert(0, reason);
                }
                (None, None)
            }
            Err(CheckStop::Skipped(reason)) => (None, Some(reason)),
            Err(CheckStop::Broken(error)) => {
                self.failure = Some(error);
                return (None, resources);
            }
        };
        let deviation = Deviation::of(&violations, &unmet_expectations);
        let (verdict, reasons) = match (deviation, skip_reason) {
            (Some(_), _) => (Verdict::Fail, [violations, unmet_expectations].concat()),
            (None, Some(reason)) => (Verdict::Skip, vec![reason]),
            (None, None) => (Verdict::Pass, remarks),
        };
        match verdict {
            Verdict::Pass => stage.finish(),
            Verdict::Skip => stage.skip(reasons.join("; ")),
            // A dropped stage counts as failed.
            Verdict::Fail => drop(stage),
        }
        let redact = |reason: &String| self.cpi.redactor.clean_and_redact(reason);
        let reasons = reasons.iter().map(redact).collect();
        let last_call = last_call.filter(|_| verdict == Verdict::Fail).map(|call| LastCall {
            request_id: call.request_id,
            words: call.words.iter().map(redact).collect(),
            log: call.log.iter().map(|line| self.cpi.redactor.clean_and_redact_line(line)).collect(),
        });
        self.checks.push(Check {
            group: self.group.clone(),
            name: name.to_owned(),
            verdict,
            deviation,
            reasons,
            last_call,
            duration,
        });
        (value.filter(|_| verdict == Verdict::Pass), resources)
    }

    /// Runs a check that needs a resource, or skips it without the resource. Returns true if it passed.
    pub(super) fn check_or_skip<G: ?Sized>(
        &mut self,
        name: &str,
        resource: Option<&G>,
        skip_reason: &str,
        body: impl FnOnce(&mut RunningCheck<'_, 'a>, &G) -> CheckOutcome,
    ) -> bool {
        self.check(name, |check| match resource {
            Some(resource) => body(check, resource),
            None => Err(CheckStop::Skipped(skip_reason.to_owned())),
        })
        .is_some()
    }

    fn is_over(&self) -> bool {
        self.failure.is_some() || self.is_unresponsive || (self.context.signal_check)().is_some()
    }

    /// Deletes all created resources and returns the report.
    pub(super) fn end(mut self) -> Result<Report> {
        self.group = "cleanup".to_owned();
        let mut leftovers = Vec::new();
        // The failure may have passed, so every deletion is tried.
        let failure = self.failure.take();
        for resource in self.ledger.resources_in_deletion_order() {
            if (self.context.must_stop_waiting)() {
                let (kind, cid) = (ledger::json_name(resource.kind).to_owned(), Some(resource.cid));
                let reason = "not deleted, because a second signal ended the run".to_owned();
                leftovers.push(LeftoverResource { kind, cid, reason });
                continue;
            }
            let name = format!("{} '{}'", resource.kind, resource.cid);
            let (deletion, _) =
                self.check_always(&format!("delete {name}"), |check| check.delete_at_end(&resource));
            if deletion.is_none() {
                let reasons = self.checks.last().map(|check| check.reasons.join("; ")).unwrap_or_default();
                let reason = match self.failure.take() {
                    Some(error) => error.chain().join(": "),
                    None => reasons,
                };
                leftovers.push(LeftoverResource {
                    kind: ledger::json_name(resource.kind).to_owned(),
                    cid: Some(resource.cid.clone()),
                    reason,
                });
            }
        }
        leftovers.extend_from_slice(self.ledger.suspects());
        self.ledger.end();
        for leftover in &mut leftovers {
            leftover.reason = self.cpi.redactor.clean_and_redact(&leftover.reason);
        }
        let signal = (self.context.signal_check)();
        match failure {
            Some(error) if leftovers.is_empty() && self.checks.is_empty() => return Err(error),
            Some(error) => self.checks.push(Check {
                group: "rpc".to_owned(),
                name: "run the CPI".to_owned(),
                verdict: Verdict::Fail,
                deviation: Some(Deviation::Violation),
                reasons: vec![self.cpi.redactor.clean_and_redact(&error.chain().join(": "))],
                last_call: None,
                duration: Duration::ZERO,
            }),
            None => {}
        }
        Ok(Report {
            cpi: self.settings.name.clone(),
            info: self.info,
            counts: Counts::of(&self.checks),
            timings: timings(&self.calls),
            checks: self.checks,
            deleted_count: self.ledger.deleted_count(),
            leftovers,
            signal,
        })
    }
}
