//! One check: the calls that it makes, what it expects of them, and what is wrong with what it hears.

use std::time::Duration;

use serde_json::{Value, json};

use super::CheckSettings;
use super::ledger::{ResourceKind, Thing};
use super::run::Run;
use crate::conformance::bench::Source;
use crate::conformance::exchange::{Ended, Exchange, Watching};
use crate::conformance::reply::{self, Refusal, Said};
use base::events::Stage;
use base::{Error, Result};
use engine::cpi::{Absence, Answer, CpiErrorKind, Method, Reading};
use engine::protocol::Terms;

/// How often a call is made again when the CPI says that this may help.
const RETRIES: u32 = 3;
/// After how long a CPI that was sent no ordinary request is killed.
const REFUSAL_LIMIT: Duration = Duration::from_secs(60);

/// Why a check ends before its end.
pub(super) enum Halt {
    /// The CPI did not do as it should.
    Failed(String),
    /// There is no sense in it.
    Skipped(String),
    /// Something on this machine does not work.
    Broken(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt::Broken(error)
    }
}

pub(super) type Checked<T = ()> = std::result::Result<T, Halt>;

/// The check fails for this reason.
pub(super) fn failed<T>(reason: impl Into<String>) -> Checked<T> {
    Err(Halt::Failed(reason.into()))
}

/// What was heard from one call.
#[derive(Debug)]
pub(super) enum Heard {
    /// A result, of whatever shape.
    Result(Value),
    Refused(Refusal),
    /// Nothing of use; why is among the problems of the check.
    Nothing,
}

/// One check under way.
pub(super) struct Step<'r, 'a> {
    pub(super) run: &'r mut Run<'a>,
    pub(super) stage: &'r Stage,
    pub(super) problems: Vec<String>,
    pub(super) notes: Vec<String>,
    pub(super) duration: Duration,
    /// What the check made, the last one last.
    pub(super) made: Vec<Thing>,
}

impl Step<'_, '_> {
    /// The settings of the run.
    pub(super) fn settings(&self) -> &CheckSettings {
        self.run.settings
    }

    /// What the check has made so far.
    pub(super) fn made(&self) -> &[Thing] {
        &self.made
    }

    /// A request of any method, with the versions of the hour.
    pub(super) fn request(&self, method: &str, arguments: &[Value]) -> Vec<u8> {
        self.run.bench.request(method, arguments, self.run.versions).to_string().into_bytes()
    }

    /// Something worth knowing about a check that passes.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Something that makes the check fail, although it goes on.
    pub(super) fn problem(&mut self, problem: impl Into<String>) {
        let problem = problem.into();
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Sends bytes that are no ordinary request.
    pub(super) fn send(&mut self, input: &[u8], method: Option<Method>) -> Checked<Heard> {
        let exchange = exchange(self.run, self.stage, input, method.is_some())?;
        Ok(self.take(exchange, method))
    }

    /// Makes a call, and makes it again where the CPI says that this may help.
    pub(super) fn call(&mut self, method: Method, arguments: &[Value]) -> Checked<Heard> {
        let mut pause = Duration::from_secs(1);
        for retry in 0.. {
            let request = self.announce(method, arguments)?;
            let heard = self.send(&request, Some(method))?;
            match heard {
                Heard::Refused(refusal) if refusal.ok_to_retry && retry < RETRIES => {
                    self.note(format!("`{method}` was called again, as it allowed: {}", refusal.text()));
                    self.wait(pause);
                    pause *= 2;
                }
                heard => return Ok(heard),
            }
        }
        Ok(Heard::Nothing)
    }

    /// The request of a call; if it is to make something, that is noted first.
    fn announce(&mut self, method: Method, arguments: &[Value]) -> Result<Vec<u8>> {
        let request = self.run.bench.request(method.name(), arguments, self.run.versions);
        if ResourceKind::made_by(method).is_some() {
            self.run.ledger.asked(method, request_id(&request))?;
        }
        Ok(request.to_string().into_bytes())
    }

    fn wait(&self, pause: Duration) {
        // A transcript has nothing to wait for.
        if matches!(self.run.bench.source, Source::Program(_)) {
            let end = std::time::Instant::now() + pause;
            while std::time::Instant::now() < end && (self.run.surroundings.interrupted)().is_none() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// Makes several calls at once.
    pub(super) fn calls(&mut self, method: Method, arguments: &[Vec<Value>]) -> Checked<Vec<Heard>> {
        let requests: Vec<Vec<u8>> =
            arguments.iter().map(|arguments| self.announce(method, arguments)).collect::<Result<_>>()?;
        let (run, stage) = (&*self.run, self.stage);
        let exchanges: Vec<Result<Exchange>> = std::thread::scope(|scope| {
            let threads: Vec<_> = requests
                .iter()
                .map(|request| scope.spawn(move || exchange(run, stage, request, true)))
                .collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined
                .map(|result| result.unwrap_or_else(|_| Err(Error::environment("a call panicked"))))
                .collect()
        });
        // All of them are looked at before the first error counts: each may have made something.
        let heard: Vec<Result<Heard>> = exchanges
            .into_iter()
            .map(|exchange| exchange.map(|exchange| self.take(exchange, Some(method))))
            .collect();
        Ok(heard.into_iter().collect::<Result<Vec<Heard>>>()?)
    }

    /// Takes what a process said: what it made goes on the ledger first of all.
    fn take(&mut self, exchange: Exchange, method: Option<Method>) -> Heard {
        self.duration += exchange.duration;
        let reply = reply::read(&exchange);
        if let Some(method) = method {
            self.run.calls.push((method.name().to_owned(), exchange.duration));
            if let Some(kind) = ResourceKind::made_by(method) {
                self.enter(kind, method, &exchange, &reply);
            }
        }
        for problem in reply.problems {
            let problem = match method {
                Some(method) => format!("`{method}`: {problem}"),
                None => problem,
            };
            self.problem(problem);
        }
        match reply.said {
            Said::Result(result) => Heard::Result(result),
            Said::Error(refusal) => Heard::Refused(refusal),
            Said::Nothing => Heard::Nothing,
        }
    }

    fn enter(&mut self, kind: ResourceKind, method: Method, exchange: &Exchange, reply: &reply::Reply) {
        let result = match (&reply.said, &reply.beside) {
            (Said::Result(result), _) => Some(result),
            (_, beside) => beside.as_ref(),
        };
        let request = serde_json::from_slice::<Value>(&exchange.input).unwrap_or_default();
        let id = request_id(&request);
        if let Some(thing) = result.and_then(|result| self.run.ledger.made(kind, result)) {
            if reply.beside.is_some() {
                self.problem(format!("`{method}` failed and left {} '{}' behind", kind.name(), thing.cid));
            }
            self.made.push(thing);
        } else if reply.said == Said::Nothing || (method != Method::UpdateDisk && result.is_some()) {
            let ended = match exchange.ended {
                Ended::Abandoned => " and may still be at work",
                _ => "",
            };
            let why = format!("`{method}` (request {id}) did not say what it made{ended}");
            self.run.ledger.doubt(kind, why);
        }
        self.run.ledger.answered(id);
    }

    /// The answer to a call that must succeed.
    pub(super) fn answer(&mut self, method: Method, arguments: &[Value]) -> Checked<Answer> {
        self.expect_present(method)?;
        match self.call(method, arguments)? {
            Heard::Result(result) => self.reading(method, &result),
            Heard::Refused(refusal) => self.refused(method, refusal),
            Heard::Nothing => failed(format!("`{method}` gave no answer that can be made out")),
        }
    }

    /// Reads a result in the shape that the method and the contract call for.
    pub(super) fn reading(&mut self, method: Method, result: &Value) -> Checked<Answer> {
        let api_version = self.run.versions.api.unwrap_or(1);
        let terms = Terms::new(api_version, self.run.versions.stemcell);
        match Reading::of(method, terms, result) {
            Ok(Reading { answer, remark }) => {
                if let Some(remark) = remark {
                    self.problem(remark);
                }
                Ok(answer)
            }
            Err(problem) => failed(problem),
        }
    }

    /// A call that must succeed did not.
    pub(super) fn refused<T>(&mut self, method: Method, refusal: Refusal) -> Checked<T> {
        if refusal.kind == CpiErrorKind::NotImplemented {
            self.run.absent.push(method);
            return self.expect_present(method).and_then(|()| failed("not implemented"));
        }
        // The answer that callers know how to go on from.
        if is(&refusal, "NotSupported") && method.facts().absence == Absence::Tolerated {
            return Err(Halt::Skipped(format!("not supported, which is allowed: {}", refusal.message)));
        }
        failed(format!("`{method}` failed: {}", refusal.text()))
    }

    /// Ends the check if the method is not there, or not wanted.
    pub(super) fn expect_present(&self, method: Method) -> Checked {
        if self.run.settings.skip.iter().any(|skipped| skipped == method.name()) {
            return Err(Halt::Skipped(format!("`{method}` is left out (--skip)")));
        }
        if !self.run.absent.contains(&method) {
            return Ok(());
        }
        let facts = method.facts();
        match facts.absence {
            Absence::Breaks => {
                failed(format!("`{method}` is not implemented; it is called by {}", facts.callers))
            }
            Absence::Tolerated | Absence::Feature => {
                Err(Halt::Skipped(format!("`{method}` is not implemented, which is allowed")))
            }
        }
    }

    /// Asks `has_vm` or `has_disk`; `None` where the CPI cannot tell.
    pub(super) fn has(&mut self, thing: &Thing) -> Checked<Option<bool>> {
        let Some(method) = thing.kind.has() else { return Ok(None) };
        match self.answer(method, &[json!(thing.cid)]) {
            Ok(Answer::Boolean(there)) => Ok(Some(there)),
            Ok(_) => Ok(None),
            Err(Halt::Skipped(_)) => Ok(None),
            Err(halt) => Err(halt),
        }
    }

    /// Deletes a thing that is there, and looks whether it is gone.
    pub(super) fn delete(&mut self, thing: &Thing) -> Checked {
        self.answer(thing.kind.delete(), &[json!(thing.cid)])?;
        self.gone_if_so(thing)
    }

    /// Something was deleted, or replaced by another, unless the CPI says that it is still there.
    pub(super) fn gone_if_so(&mut self, thing: &Thing) -> Checked {
        if self.has(thing)? == Some(true) {
            return failed(format!("'{}' is still there", thing.cid));
        }
        self.run.ledger.gone(thing);
        Ok(())
    }

    /// As [`Self::delete`], at the end, whatever the CPI's answers look like: what counts is that the thing is gone.
    pub(super) fn delete_for_good(&mut self, thing: &Thing) -> Checked {
        let method = thing.kind.delete();
        let heard = self.call(method, &[json!(thing.cid)])?;
        let problems = std::mem::take(&mut self.problems);
        let gone = match &heard {
            Heard::Result(_) => true,
            Heard::Refused(refusal) => thing.kind.not_found().is_some_and(|kind| is(refusal, kind)),
            Heard::Nothing => false,
        };
        let there = match thing.kind.has() {
            Some(has) if !self.run.absent.contains(&has) => match self.call(has, &[json!(thing.cid)])? {
                Heard::Result(Value::Bool(there)) => Some(there),
                _ => None,
            },
            _ => None,
        };
        self.problems.clear();
        if there.map_or(gone, |there| !there) {
            self.run.ledger.gone(thing);
            return Ok(());
        }
        failed(match heard {
            Heard::Refused(refusal) => refusal.text(),
            Heard::Nothing => problems.join("; "),
            Heard::Result(_) => format!("`{method}` answered success, but it is still there"),
        })
    }
}

/// Whether an error has this type, with or without the namespace.
pub(super) fn is(refusal: &Refusal, error_type: &str) -> bool {
    refusal.error_type.rsplit("::").next() == Some(error_type)
}

fn request_id(request: &Value) -> &str {
    request.pointer("/context/request_id").and_then(Value::as_str).unwrap_or_default()
}

/// Runs the CPI once. What must be refused is refused soon.
fn exchange(run: &Run<'_>, stage: &Stage, input: &[u8], ordinary: bool) -> Result<Exchange> {
    let redactor = &run.bench.redactor;
    let on_log = |line: &str| {
        tracing::debug!(target: "cpi", "{line}");
        stage.log_line(redactor.apply(line));
    };
    let limit = if ordinary { run.bench.limit } else { run.bench.limit.min(REFUSAL_LIMIT) };
    run.bench.exchange(input, &Watching { on_log: &on_log, give_up: run.surroundings.insisted, limit })
}
