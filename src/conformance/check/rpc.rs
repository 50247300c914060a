//! Checks of the protocol: `info`, and malformed input. Every input must get exactly one answer.

use serde_json::{Value, json};

use super::run::Run;
use super::running_check::{CheckOutcome, RunningCheck, fail};
use crate::conformance::cpi_under_test::Versions;
use crate::conformance::raw_answer::AnswerBody;
use engine::cpi::{Answer, CpiErrorKind, Info, Method};

/// Runs the checks of the protocol.
pub(super) fn check(run: &mut Run<'_>) {
    check_info(run);
    run.versions = Versions { api: Some(run.api_version()), stemcell: None };
    run.delete_earlier_leftovers();
    check_unknown_method(run);
    for (name, input) in [
        ("empty standard input", &b""[..]),
        ("garbage on standard input", b"garbage\n"),
        ("half a request", br#"{"method": "info", "arguments": ["#),
        ("input that is not UTF-8", b"{\"method\": \"\xff\xfe\"}"),
        ("a list as the request", b"[]"),
        ("a request without a method", br#"{"arguments": [], "context": {"director_uuid": "x"}}"#),
    ] {
        run.check(name, |check| expect_error(check, input));
    }
    check_context(run);
    run.check("arguments missing", |check| {
        let request = check.request("has_disk", &[]);
        expect_error(check, &request)
    });
    run.check("arguments that are not a list", |check| {
        let mut request: Value = serde_json::from_slice(&check.request("has_disk", &[])).unwrap_or_default();
        request["arguments"] = json!("disk-1");
        expect_error(check, request.to_string().as_bytes())
    });
    run.check("calculate_vm_cloud_properties", |check| {
        let size = json!({"cpu": 1, "ram": 512, "ephemeral_disk_size": 1024});
        check.call_or_stop(Method::CalculateVmCloudProperties, &[size]).map(drop)
    });
    run.check("current_vm_id", |check| match check.call(Method::CurrentVmId, &[])? {
        AnswerBody::Result(result) => check.parse_answer(Method::CurrentVmId, &result).map(drop),
        AnswerBody::Error(error_answer) if error_answer.kind == CpiErrorKind::NotImplemented => {
            check.stop_for_error(Method::CurrentVmId, error_answer)
        }
        // This machine may be outside the cloud.
        AnswerBody::Error(error_answer) => {
            check.add_remark(format!("refused: {}", error_answer.text()));
            Ok(())
        }
        AnswerBody::Unusable => fail("no answer"),
    });
}

/// Calls `info` twice and expects the same answer.
fn check_info(run: &mut Run<'_>) {
    let mut first: Option<Info> = None;
    run.check("info", |check| {
        match check.call(Method::Info, &[])? {
            AnswerBody::Result(result) => {
                let Answer::Info(info) = check.parse_answer(Method::Info, &result)? else { return Ok(()) };
                check.add_remark(format!("api_version {}", info.api_version));
                if result.get("stemcell_formats").is_none() {
                    check.add_violation(
                        "`info` lacks `stemcell_formats`, by which a director chooses among CPIs",
                    );
                }
                first = Some(info);
            }
            AnswerBody::Error(error_answer) => {
                check.stop_for_error::<()>(Method::Info, error_answer)?;
            }
            AnswerBody::Unusable => return fail("`info` gave no usable answer"),
        }
        if let Answer::Info(second) = check.call_or_stop(Method::Info, &[])?
            && Some(&second) != first.as_ref()
        {
            check.expect_beyond_contract();
            return fail("`info` answered differently the second time");
        }
        Ok(())
    });
    run.info = first;
}

/// Calls an unknown method, as a newer director may.
fn check_unknown_method(run: &mut Run<'_>) {
    run.check("unknown method", |check| {
        let request = check.request("monopile_no_such_method", &[]);
        match check.send(&request, None)? {
            AnswerBody::Error(error_answer) if error_answer.kind == CpiErrorKind::NotImplemented => Ok(()),
            AnswerBody::Error(error_answer) => fail(format!(
                "refused with another type than `Bosh::Clouds::NotImplemented`: {}",
                error_answer.text()
            )),
            AnswerBody::Result(result) => {
                fail(format!("answered {result} instead of `Bosh::Clouds::NotImplemented`"))
            }
            AnswerBody::Unusable => fail("no answer"),
        }
    });
}

/// Sends requests without context, which the CPI may answer or reject.
fn check_context(run: &mut Run<'_>) {
    for (name, method, arguments) in [
        ("info without context", "info", json!([])),
        ("has_disk without context", "has_disk", json!(["monopile-never-was"])),
    ] {
        run.check(name, |check| {
            let request = json!({"method": method, "arguments": arguments, "api_version": 1});
            expect_answer(check, request.to_string().as_bytes())
        });
    }
    run.check("an empty context", |check| {
        let request = json!({"method": "info", "arguments": [], "context": {}});
        expect_answer(check, request.to_string().as_bytes())
    });
}

/// Expects any answer. The contract promises nothing about such requests, but every caller waits for an
/// answer.
fn expect_answer(check: &mut RunningCheck<'_, '_>, input: &[u8]) -> CheckOutcome {
    check.expect_beyond_contract();
    match check.send(input, None)? {
        AnswerBody::Result(_) | AnswerBody::Error(_) => Ok(()),
        AnswerBody::Unusable => fail("no answer"),
    }
}

/// Like [`expect_answer`], but expects an error.
fn expect_error(check: &mut RunningCheck<'_, '_>, input: &[u8]) -> CheckOutcome {
    check.expect_beyond_contract();
    match check.send(input, None)? {
        AnswerBody::Error(_) => Ok(()),
        AnswerBody::Result(result) => fail(format!("answered {result} instead of an error")),
        AnswerBody::Unusable => fail("no answer"),
    }
}
