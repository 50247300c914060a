//! The envelope: what the CPI says it is, and what it does with input that is not as it should be. Whatever comes in,
//! one answer comes out.

use serde_json::{Value, json};

use super::run::Run;
use super::step::{Checked, Heard, Step, failed};
use crate::conformance::bench::Versions;
use engine::cpi::{Answer, CpiErrorKind, Info, Method};

pub(super) fn check(run: &mut Run<'_>) {
    info(run);
    run.versions = Versions { api: Some(run.api_version()), stemcell: None };
    run.delete_earlier();
    unknown_method(run);
    for (name, input) in [
        ("empty standard input", &b""[..]),
        ("garbage on standard input", b"garbage\n"),
        ("half a request", br#"{"method": "info", "arguments": ["#),
        ("input that is not UTF-8", b"{\"method\": \"\xff\xfe\"}"),
        ("a list as the request", b"[]"),
        ("a request without a method", br#"{"arguments": [], "context": {"director_uuid": "x"}}"#),
    ] {
        run.check(name, |step| refuses(step, input));
    }
    context(run);
    run.check("arguments missing", |step| {
        let request = step.request("has_disk", &[]);
        refuses(step, &request)
    });
    run.check("arguments that are no list", |step| {
        let mut request: Value = serde_json::from_slice(&step.request("has_disk", &[])).unwrap_or_default();
        request["arguments"] = json!("disk-1");
        refuses(step, request.to_string().as_bytes())
    });
    run.check("calculate_vm_cloud_properties", |step| {
        let size = json!({"cpu": 1, "ram": 512, "ephemeral_disk_size": 1024});
        step.answer(Method::CalculateVmCloudProperties, &[size]).map(drop)
    });
    run.check("current_vm_id", |step| match step.call(Method::CurrentVmId, &[])? {
        Heard::Result(result) => step.reading(Method::CurrentVmId, &result).map(drop),
        Heard::Refused(refusal) if refusal.kind == CpiErrorKind::NotImplemented => {
            step.refused(Method::CurrentVmId, refusal)
        }
        // Nobody says that this machine is a VM of the cloud.
        Heard::Refused(refusal) => {
            step.note(format!("refused: {}", refusal.text()));
            Ok(())
        }
        Heard::Nothing => failed("no answer"),
    });
}

/// Two answers that must be the same.
fn info(run: &mut Run<'_>) {
    let mut first: Option<Info> = None;
    run.check("info", |step| {
        match step.call(Method::Info, &[])? {
            Heard::Result(result) => {
                let Answer::Info(info) = step.reading(Method::Info, &result)? else { return Ok(()) };
                step.note(format!("api_version {}", info.api_version));
                if result.get("stemcell_formats").is_none() {
                    step.problem("`info` lacks `stemcell_formats`, by which a director chooses among CPIs");
                }
                first = Some(info);
            }
            Heard::Refused(refusal) => {
                step.refused::<()>(Method::Info, refusal)?;
            }
            Heard::Nothing => return failed("`info` gave no answer that can be made out"),
        }
        if let Answer::Info(again) = step.answer(Method::Info, &[])?
            && Some(&again) != first.as_ref()
        {
            return failed("`info` does not answer the same twice");
        }
        Ok(())
    });
    run.info = first;
}

/// A director of tomorrow may call what a CPI of today does not know.
fn unknown_method(run: &mut Run<'_>) {
    run.check("unknown method", |step| {
        let request = step.request("monopile_no_such_method", &[]);
        match step.send(&request, None)? {
            Heard::Refused(refusal) if refusal.kind == CpiErrorKind::NotImplemented => Ok(()),
            Heard::Refused(refusal) => failed(format!(
                "refused, but not as callers know it (type `Bosh::Clouds::NotImplemented`): {}",
                refusal.text()
            )),
            Heard::Result(result) => failed(format!("answered {result}")),
            Heard::Nothing => failed("no answer"),
        }
    });
}

/// Refusing a request without context is as good as answering it.
fn context(run: &mut Run<'_>) {
    for (name, method, arguments) in [
        ("info without context", "info", json!([])),
        ("has_disk without context", "has_disk", json!(["monopile-never-was"])),
    ] {
        run.check(name, |step| {
            let request = json!({"method": method, "arguments": arguments, "api_version": 1});
            answers(step, request.to_string().as_bytes())
        });
    }
    run.check("an empty context", |step| {
        let request = json!({"method": "info", "arguments": [], "context": {}});
        answers(step, request.to_string().as_bytes())
    });
}

fn answers(step: &mut Step<'_, '_>, input: &[u8]) -> Checked {
    match step.send(input, None)? {
        Heard::Result(_) | Heard::Refused(_) => Ok(()),
        Heard::Nothing => failed("no answer"),
    }
}

fn refuses(step: &mut Step<'_, '_>, input: &[u8]) -> Checked {
    match step.send(input, None)? {
        Heard::Refused(_) => Ok(()),
        Heard::Result(result) => failed(format!("answered {result} and not an error")),
        Heard::Nothing => failed("no answer"),
    }
}
