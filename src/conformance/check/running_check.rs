//! One check: its calls, the expected answers, and the problems found.

use std::iter;
use std::time::Duration;

use serde_json::{Value, json};

use super::CheckSettings;
use super::ledger::{self, CreatedResource};
use super::report::LastCall;
use super::run::Run;
use crate::conformance::cpi_under_test::AnswerSource;
use crate::conformance::exchange::{Exchange, ExchangeControl, ProcessEnd};
use crate::conformance::raw_answer::{self, AnswerBody, CpiErrorAnswer};
use base::events::Stage;
use base::{Error, Result};
use engine::cpi::{Answer, CheckedAnswer, CpiErrorKind, Method, MissingMethodConsequence};
use engine::protocol::{ResourceKind, Terms};

/// The maximum number of retries of a call for which the CPI answered `ok_to_retry`.
const MAX_RETRIES: u32 = 3;
/// The timeout of requests that a CPI must reject: malformed ones, and those of an unknown method.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// The reason why a check stops early.
pub(super) enum CheckStop {
    /// The CPI does not conform.
    Failed(String),
    /// The check does not apply.
    Skipped(String),
    /// The check cannot go on: the machine cannot run it, or the run was interrupted.
    Broken(Error),
}

impl From<Error> for CheckStop {
    fn from(error: Error) -> Self {
        CheckStop::Broken(error)
    }
}

/// The result of a check or of a part of it.
pub(super) type CheckOutcome<T = ()> = std::result::Result<T, CheckStop>;

pub(super) fn fail<T>(reason: impl Into<String>) -> CheckOutcome<T> {
    Err(CheckStop::Failed(reason.into()))
}

/// A check while it runs: the resources that it created, and the problems found so far.
pub(super) struct RunningCheck<'r, 'a> {
    pub(super) run: &'r mut Run<'a>,
    pub(super) stage: &'r Stage,
    /// Violations of the contract.
    pub(super) violations: Vec<String>,
    /// Expectations of callers that the CPI does not meet, and that the contract does not promise.
    pub(super) unmet_expectations: Vec<String>,
    /// True if the contract promises the behaviour that the check expects.
    pub(super) is_promised_by_contract: bool,
    /// True if the CPI answered a call of a method that it implements with an error.
    pub(super) had_error: bool,
    /// Remarks of the check for its report.
    pub(super) remarks: Vec<String>,
    /// The duration of its calls so far.
    pub(super) duration: Duration,
    /// The resources that the check created, in order.
    pub(super) resources: Vec<CreatedResource>,
    pub(super) last_call: Option<LastCall>,
}

impl RunningCheck<'_, '_> {
    /// Returns the settings of the run.
    pub(super) fn settings(&self) -> &CheckSettings {
        self.run.settings
    }

    /// Returns the resources that the check has created so far.
    pub(super) fn resources(&self) -> &[CreatedResource] {
        &self.resources
    }

    /// Builds a request of any method with the current versions.
    pub(super) fn request(&self, method: &str, arguments: &[Value]) -> Vec<u8> {
        self.run.cpi.request(method, arguments, self.run.versions).to_string().into_bytes()
    }

    /// Adds a remark, shown if the check passes.
    pub(super) fn add_remark(&mut self, remark: impl Into<String>) {
        self.remarks.push(remark.into());
    }

    /// Marks the following expectations as not promised by the contract.
    pub(super) fn expect_beyond_contract(&mut self) {
        self.is_promised_by_contract = false;
    }

    /// Adds a violation of the contract. The check continues and fails at its end.
    pub(super) fn add_violation(&mut self, problem: impl Into<String>) {
        let problem = problem.into();
        if !self.violations.contains(&problem) {
            self.violations.push(problem);
        }
    }

    /// Adds an unmet expectation that the contract does not promise. The check continues, and fails at its
    /// end.
    fn add_unmet_expectation(&mut self, problem: String) {
        if !self.unmet_expectations.contains(&problem) {
            self.unmet_expectations.push(problem);
        }
    }

    /// Sends bytes that need not be a request.
    pub(super) fn send(&mut self, input: &[u8], method: Option<Method>) -> CheckOutcome<AnswerBody> {
        let exchange = run_exchange(self.run, self.stage, input, method.is_some())?;
        Ok(self.read_answer(exchange, method))
    }

    /// Makes a call, and retries it while the CPI answers `ok_to_retry`.
    pub(super) fn call(&mut self, method: Method, arguments: &[Value]) -> CheckOutcome<AnswerBody> {
        let mut pause = Duration::from_secs(1);
        let mut retry_count = 0;
        loop {
            let request = self.prepare_request(method, arguments)?;
            let answer = self.send(&request, Some(method))?;
            match answer {
                AnswerBody::Error(error_answer) if error_answer.ok_to_retry && retry_count < MAX_RETRIES => {
                    self.add_remark(format!(
                        "`{method}` was retried (`ok_to_retry`): {}",
                        error_answer.text()
                    ));
                    self.pause(pause);
                    pause *= 2;
                    retry_count += 1;
                }
                answer => return Ok(answer),
            }
        }
    }

    /// Builds the request of a call, and records a creating call in the ledger.
    fn prepare_request(&mut self, method: Method, arguments: &[Value]) -> Result<Vec<u8>> {
        let request = self.run.cpi.request(method.name(), arguments, self.run.versions);
        if ledger::kind_created_by(method).is_some() {
            self.run.ledger.record_call(method, request_id(&request))?;
        }
        Ok(request.to_string().into_bytes())
    }

    fn pause(&self, pause: Duration) {
        // A transcript needs no pause.
        if matches!(self.run.cpi.source, AnswerSource::Program(_)) {
            let end = std::time::Instant::now() + pause;
            while std::time::Instant::now() < end && (self.run.context.signal_check)().is_none() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// Makes several calls at once.
    pub(super) fn call_in_parallel(
        &mut self,
        method: Method,
        arguments: &[Vec<Value>],
    ) -> CheckOutcome<Vec<AnswerBody>> {
        let requests: Vec<Vec<u8>> = arguments
            .iter()
            .map(|arguments| self.prepare_request(method, arguments))
            .collect::<Result<_>>()?;
        let (run, stage) = (&*self.run, self.stage);
        let exchanges: Vec<Result<Exchange>> = std::thread::scope(|scope| {
            let threads: Vec<_> = requests
                .iter()
                .map(|request| scope.spawn(move || run_exchange(run, stage, request, true)))
                .collect();
            let results = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            results.map(|result| result.unwrap_or_else(|_| Err(Error::failure("a call panicked")))).collect()
        });
        // Every answer is read before an error is returned, because each call may have created a resource.
        let answers: Vec<Result<AnswerBody>> = exchanges
            .into_iter()
            .map(|exchange| exchange.map(|exchange| self.read_answer(exchange, Some(method))))
            .collect();
        Ok(answers.into_iter().collect::<Result<Vec<AnswerBody>>>()?)
    }

    /// Reads the answer of a process. Records created resources in the ledger first.
    fn read_answer(&mut self, exchange: Exchange, method: Option<Method>) -> AnswerBody {
        self.duration += exchange.duration;
        let raw_answer = raw_answer::read(&exchange);
        self.last_call = Some(last_call(&exchange));
        if method == Some(Method::Info) && exchange.end == ProcessEnd::TimedOut {
            self.run.is_unresponsive = true;
            self.add_violation("`info` did not end, so the CPI was not checked further");
        }
        if let Some(method) = method {
            self.run.calls.push((method.name().to_owned(), exchange.duration));
            if let Some(kind) = ledger::kind_created_by(method) {
                self.record_created_resource(kind, method, &exchange, &raw_answer);
            }
        }
        for problem in raw_answer.problems {
            let problem = match method {
                Some(method) => format!("`{method}`: {problem}"),
                None => problem,
            };
            // A missing answer is a violation only if the contract promises an answer.
            match self.is_promised_by_contract || raw_answer.content != AnswerBody::Unusable {
                true => self.add_violation(problem),
                false => self.add_unmet_expectation(problem),
            }
        }
        for problem in raw_answer.unmet_expectations {
            self.add_unmet_expectation(
                method.map_or_else(|| problem.clone(), |method| format!("`{method}`: {problem}")),
            );
        }
        if let AnswerBody::Error(error_answer) = &raw_answer.content {
            self.had_error |= error_answer.kind != CpiErrorKind::NotImplemented;
        }
        raw_answer.content
    }

    fn record_created_resource(
        &mut self,
        kind: ResourceKind,
        method: Method,
        exchange: &Exchange,
        raw_answer: &raw_answer::RawAnswer,
    ) {
        let result = match (&raw_answer.content, &raw_answer.result_beside_error) {
            (AnswerBody::Result(result), _) => Some(result),
            (_, result_beside_error) => result_beside_error.as_ref(),
        };
        let request = serde_json::from_slice::<Value>(&exchange.input).unwrap_or_default();
        let id = request_id(&request);
        if let Some(resource) = result.and_then(|result| self.run.ledger.record_resource(kind, result)) {
            if raw_answer.result_beside_error.is_some() {
                self.add_violation(format!("`{method}` failed and left {} '{}' behind", kind, resource.cid));
            }
            self.resources.push(resource);
        } else if raw_answer.content == AnswerBody::Unusable
            || (method != Method::UpdateDisk && result.is_some())
        {
            let end_remark = match exchange.end {
                ProcessEnd::Abandoned => ", and is still running",
                _ => "",
            };
            let reason = format!("`{method}` (request {id}) answered no CID{end_remark}");
            self.run.ledger.record_suspect(kind, reason);
        }
        self.run.ledger.record_answer(id);
    }

    /// Makes a call that must succeed. Otherwise stops the check.
    pub(super) fn call_or_stop(&mut self, method: Method, arguments: &[Value]) -> CheckOutcome<Answer> {
        self.require_method(method)?;
        match self.call(method, arguments)? {
            AnswerBody::Result(result) => self.parse_answer(method, &result),
            AnswerBody::Error(error_answer) => self.stop_for_error(method, error_answer),
            AnswerBody::Unusable => fail(format!("`{method}` gave no usable answer")),
        }
    }

    /// Reads a result in the shape that the method and the contract require.
    pub(super) fn parse_answer(&mut self, method: Method, result: &Value) -> CheckOutcome<Answer> {
        let api_version = self.run.versions.api.unwrap_or(1);
        let terms = Terms::new(api_version, self.run.versions.stemcell);
        match CheckedAnswer::parse(method, terms, result) {
            Ok(CheckedAnswer { answer, violation }) => {
                if let Some(violation) = violation {
                    self.add_violation(violation);
                }
                Ok(answer)
            }
            Err(problem) => fail(format!("`{method}`: {problem}")),
        }
    }

    /// Fails or skips the check after a call that the CPI answered with an error.
    pub(super) fn stop_for_error<T>(
        &mut self,
        method: Method,
        error_answer: CpiErrorAnswer,
    ) -> CheckOutcome<T> {
        if error_answer.kind == CpiErrorKind::NotImplemented {
            self.run.unimplemented.push(method);
            return self.require_method(method).and_then(|()| fail("not implemented"));
        }
        // Callers handle this error.
        if has_error_type(&error_answer, "NotSupported")
            && method.facts().if_missing == MissingMethodConsequence::Tolerated
        {
            return Err(CheckStop::Skipped(format!(
                "not supported, which is allowed: {}",
                error_answer.message
            )));
        }
        fail(format!("`{method}` failed: {}", error_answer.text()))
    }

    /// Ends the check if the CPI does not implement the method, or the run leaves it out.
    pub(super) fn require_method(&self, method: Method) -> CheckOutcome {
        if self.run.settings.skip.iter().any(|skipped_method| skipped_method == method.name()) {
            return Err(CheckStop::Skipped(format!("`{method}` is left out (--skip)")));
        }
        if !self.run.unimplemented.contains(&method) {
            return Ok(());
        }
        let facts = method.facts();
        match facts.if_missing {
            MissingMethodConsequence::Breaks => {
                fail(format!("`{method}` is not implemented; it is called by {}", facts.callers))
            }
            MissingMethodConsequence::Tolerated | MissingMethodConsequence::LosesFeature => {
                Err(CheckStop::Skipped(format!("`{method}` is not implemented, which is allowed")))
            }
        }
    }

    /// Calls `has_vm` or `has_disk`. Returns `None` if the CPI does not know.
    pub(super) fn ask_presence(&mut self, resource: &CreatedResource) -> CheckOutcome<Option<bool>> {
        let Some(method) = ledger::existence_method(resource.kind) else { return Ok(None) };
        match self.call_or_stop(method, &[json!(resource.cid)]) {
            Ok(Answer::Boolean(exists)) => Ok(Some(exists)),
            Ok(_) => Ok(None),
            Err(CheckStop::Skipped(_)) => Ok(None),
            Err(stop) => Err(stop),
        }
    }

    /// Deletes a resource and checks that it is gone.
    pub(super) fn delete(&mut self, resource: &CreatedResource) -> CheckOutcome {
        self.call_or_stop(ledger::delete_method(resource.kind), &[json!(resource.cid)])?;
        self.remove_if_gone(resource)
    }

    /// Removes a resource from the ledger, unless the CPI reports that it still exists.
    pub(super) fn remove_if_gone(&mut self, resource: &CreatedResource) -> CheckOutcome {
        if self.ask_presence(resource)? == Some(true) {
            return fail(format!("the deleted {} '{}' still exists", resource.kind, resource.cid));
        }
        self.run.ledger.record_deletion(resource);
        Ok(())
    }

    /// Deletes a resource at the end of the run. Accepts answers of any form, because only the absence of the
    /// resource counts.
    pub(super) fn delete_at_end(&mut self, resource: &CreatedResource) -> CheckOutcome {
        let method = ledger::delete_method(resource.kind);
        let answer = self.call(method, &[json!(resource.cid)])?;
        let mut problems = std::mem::take(&mut self.violations);
        problems.append(&mut self.unmet_expectations);
        let is_gone = match &answer {
            AnswerBody::Result(_) => true,
            AnswerBody::Error(error_answer) => {
                ledger::not_found_type(resource.kind).is_some_and(|kind| has_error_type(error_answer, kind))
            }
            AnswerBody::Unusable => false,
        };
        let exists = match ledger::existence_method(resource.kind) {
            Some(existence_method) if !self.run.unimplemented.contains(&existence_method) => {
                match self.call(existence_method, &[json!(resource.cid)])? {
                    AnswerBody::Result(Value::Bool(exists)) => Some(exists),
                    _ => None,
                }
            }
            _ => None,
        };
        self.violations.clear();
        self.unmet_expectations.clear();
        if exists.map_or(is_gone, |exists| !exists) {
            self.run.ledger.record_deletion(resource);
            return Ok(());
        }
        fail(match answer {
            AnswerBody::Error(error_answer) => error_answer.text(),
            AnswerBody::Unusable => problems.join("; "),
            AnswerBody::Result(_) => format!("`{method}` succeeded, but the resource still exists"),
        })
    }
}

/// Returns true if an error has this type, with or without the namespace.
pub(super) fn has_error_type(error_answer: &CpiErrorAnswer, error_type: &str) -> bool {
    error_answer.error_type.rsplit("::").next() == Some(error_type)
}

/// Describes a call: its request ID, the words that repeat it, and the last lines of its log.
fn last_call(exchange: &Exchange) -> LastCall {
    /// The number of log lines.
    const MAX_LINES: usize = 5;
    let request = serde_json::from_slice::<Value>(&exchange.input).unwrap_or_default();
    let log = String::from_utf8_lossy(&exchange.stderr);
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let start = lines.len().saturating_sub(MAX_LINES);
    LastCall {
        request_id: request_id(&request).to_owned(),
        words: repeatable_words(&request).unwrap_or_default(),
        log: lines[start..].iter().map(|line| (*line).to_owned()).collect(),
    }
}

/// Returns the method and the arguments of a request as words for `cpi call`. Returns `None` for a call that
/// creates a resource, because a repeated one would leave it behind, and for arguments other than names and
/// numbers.
fn repeatable_words(request: &Value) -> Option<Vec<String>> {
    let method: Method = request.get("method")?.as_str()?.parse().ok()?;
    let arguments = request.get("arguments")?.as_array()?;
    let words = arguments.iter().map(|argument| match argument {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    });
    let words = iter::once(Some(method.name().to_owned())).chain(words).collect::<Option<Vec<String>>>();
    words.filter(|_| ledger::kind_created_by(method).is_none())
}

fn request_id(request: &Value) -> &str {
    request.pointer("/context/request_id").and_then(Value::as_str).unwrap_or_default()
}

/// Runs the CPI once. Requests without a known method have a short timeout.
fn run_exchange(run: &Run<'_>, stage: &Stage, input: &[u8], has_known_method: bool) -> Result<Exchange> {
    let redactor = &run.cpi.redactor;
    let on_log = |line: &str| {
        let line = redactor.clean_and_redact_line(line);
        tracing::debug!(target: "cpi", "{line}");
        stage.log_line(line);
    };
    let timeout = if has_known_method { run.cpi.timeout } else { run.cpi.timeout.min(REJECTION_TIMEOUT) };
    run.cpi.run_exchange(
        input,
        &ExchangeControl { on_log: &on_log, must_stop_waiting: run.context.must_stop_waiting, timeout },
    )
}
