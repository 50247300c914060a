//! The machinery of a conformance run: one check after the other, each of one or more calls, and at the end
//! everything that was made is deleted.

use std::time::Duration;

use super::ledger::{Ledger, Thing};
use super::report::{Check, Counts, Left, Report, Verdict, timings};
use super::step::{Checked, Halt, Step};
use super::{CheckContext, CheckSettings};
use crate::conformance::bench::{Bench, Versions};
use base::{Error, Result};
use engine::cpi::{Info, Method};

/// A run under way.
pub(super) struct Run<'a> {
    pub(super) bench: &'a Bench,
    pub(super) settings: &'a CheckSettings,
    pub(super) surroundings: &'a CheckContext<'a>,
    pub(super) ledger: Ledger,
    /// What checks belong to from now on.
    pub(super) group: String,
    /// What requests say from now on.
    pub(super) versions: Versions,
    pub(super) info: Option<Info>,
    pub(super) checks: Vec<Check>,
    pub(super) calls: Vec<(String, Duration)>,
    /// Methods that the CPI does not have.
    pub(super) absent: Vec<Method>,
    /// Why there is no sense in going on, such as an executable that cannot be run.
    broken: Option<Error>,
}

impl<'a> Run<'a> {
    /// Takes over what an earlier run left that was killed.
    pub(super) fn begin(
        bench: &'a Bench,
        settings: &'a CheckSettings,
        surroundings: &'a CheckContext<'a>,
    ) -> Result<Self> {
        let (ledger, earlier) = match &surroundings.notes {
            Some(notes) => Ledger::on_disk(notes.directory, notes.cpi)?,
            None => Default::default(),
        };
        for (method, request_id) in &earlier.unanswered {
            surroundings.stage.reporter().warn(format!(
                "an earlier run was killed during `{method}` (request {request_id}): look in the IaaS for what it \
                 may have made"
            ));
        }
        Ok(Run {
            bench,
            settings,
            surroundings,
            ledger,
            group: "rpc".to_owned(),
            versions: Versions::default(),
            info: None,
            checks: Vec::new(),
            calls: Vec::new(),
            absent: Vec::new(),
            broken: None,
        })
    }

    /// Deletes what is on the ledger before the run has made anything: an earlier one left it.
    pub(super) fn delete_earlier(&mut self) {
        let group = std::mem::replace(&mut self.group, "cleanup".to_owned());
        for thing in self.ledger.to_delete() {
            let name = format!("delete {} '{}' of an earlier run", thing.kind.name(), thing.cid);
            self.check(&name, |step| step.delete_for_good(&thing));
        }
        self.group = group;
    }

    /// The API version that both sides speak.
    pub(super) fn api_version(&self) -> u32 {
        self.info.as_ref().map_or(1, |info| info.api_version).min(self.settings.highest_api_version)
    }

    /// Makes a check, unless the run is to end. Returns what it found, if it passed.
    pub(super) fn check<T>(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut Step<'_, 'a>) -> Checked<T>,
    ) -> Option<T> {
        self.check_making(name, body).0
    }

    /// As [`Self::check`]; also returns what the check made, whether it passed or not.
    pub(super) fn check_making<T>(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut Step<'_, 'a>) -> Checked<T>,
    ) -> (Option<T>, Vec<Thing>) {
        if self.is_over() {
            return (None, Vec::new());
        }
        self.check_always(name, body)
    }

    fn check_always<T>(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut Step<'_, 'a>) -> Checked<T>,
    ) -> (Option<T>, Vec<Thing>) {
        let stage = self.surroundings.stage.reporter().stage(format!("{}: {name}", self.group));
        let mut step = Step {
            run: self,
            stage: &stage,
            problems: Vec::new(),
            notes: Vec::new(),
            duration: Duration::ZERO,
            made: Vec::new(),
        };
        let outcome = body(&mut step);
        let Step { mut problems, notes, duration, made, .. } = step;
        let (value, skipped) = match outcome {
            Ok(value) => (Some(value), None),
            // What is wrong with the form of an answer explains why there is none.
            Err(Halt::Failed(reason)) => {
                if !problems.contains(&reason) {
                    problems.insert(0, reason);
                }
                (None, None)
            }
            Err(Halt::Skipped(reason)) => (None, Some(reason)),
            Err(Halt::Broken(error)) => {
                self.broken = Some(error);
                return (None, made);
            }
        };
        let (result, reasons) = match (problems.is_empty(), skipped) {
            (false, _) => (Verdict::Fail, problems),
            (true, Some(reason)) => (Verdict::Skip, vec![reason]),
            (true, None) => (Verdict::Pass, notes),
        };
        match result {
            Verdict::Pass => stage.finish(),
            Verdict::Skip => stage.skip(reasons.join("; ")),
            // Dropped, it counts as failed.
            Verdict::Fail => drop(stage),
        }
        let hide = |reason: &String| self.bench.redactor.apply(reason).into_owned();
        let reasons = reasons.iter().map(hide).collect();
        self.checks.push(Check {
            group: self.group.clone(),
            name: name.to_owned(),
            result,
            reasons,
            duration,
        });
        (value.filter(|_| result == Verdict::Pass), made)
    }

    /// A check of something that may not be there.
    pub(super) fn check_of<G: ?Sized>(
        &mut self,
        name: &str,
        given: Option<&G>,
        otherwise: &str,
        body: impl FnOnce(&mut Step<'_, 'a>, &G) -> Checked,
    ) -> bool {
        self.check(name, |step| match given {
            Some(given) => body(step, given),
            None => Err(Halt::Skipped(otherwise.to_owned())),
        })
        .is_some()
    }

    fn is_over(&self) -> bool {
        self.broken.is_some() || (self.surroundings.interrupted)().is_some()
    }

    /// Deletes everything that was made and says what came of the run.
    pub(super) fn end(mut self) -> Result<Report> {
        self.group = "cleanup".to_owned();
        let mut left = Vec::new();
        // What made the run impossible may pass: all of it is tried.
        let broken = self.broken.take();
        for thing in self.ledger.to_delete() {
            if (self.surroundings.insisted)() {
                let (kind, cid) = (thing.kind.name().to_owned(), Some(thing.cid));
                left.push(Left {
                    kind,
                    cid,
                    why: "not deleted, because nobody was to wait for it".to_owned(),
                });
                continue;
            }
            let what = format!("{} '{}'", thing.kind.name(), thing.cid);
            let (deleted, _) =
                self.check_always(&format!("delete {what}"), |step| step.delete_for_good(&thing));
            if deleted.is_none() {
                let reasons = self.checks.last().map(|check| check.reasons.join("; ")).unwrap_or_default();
                let why = match self.broken.take() {
                    Some(error) => error.chain().join(": "),
                    None => reasons,
                };
                left.push(Left { kind: thing.kind.name().to_owned(), cid: Some(thing.cid.clone()), why });
            }
        }
        left.extend_from_slice(self.ledger.doubtful());
        self.ledger.end();
        for left in &mut left {
            left.why = self.bench.redactor.apply(&left.why).into_owned();
        }
        let interrupted = (self.surroundings.interrupted)();
        match broken {
            Some(error) if left.is_empty() && self.checks.is_empty() => return Err(error),
            Some(error) => self.checks.push(Check {
                group: "rpc".to_owned(),
                name: "run the CPI".to_owned(),
                result: Verdict::Fail,
                reasons: vec![self.bench.redactor.apply(&error.chain().join(": ")).into_owned()],
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
            deleted: self.ledger.deleted(),
            left_behind: left,
            interrupted,
        })
    }
}
