//! Checks with CIDs that do not exist, because they were deleted or never created. Deleted resources have
//! valid CIDs that belong to no other resource.
//!
//! Deleting a missing resource may succeed or fail with the error type for it. `has_vm` and `has_disk` may
//! answer false, and `detach_disk` may succeed or fail with `DiskNotAttached`. `create_vm` may fail with
//! `VMCreationFailed`. Every other method must fail with the error type for a missing resource.

use serde_json::{Value, json};

use super::ledger::{self, CreatedResource};
use super::lifecycle::vm_arguments;
use super::run::Run;
use super::running_check::{CheckOutcome, CheckStop, RunningCheck, fail, has_error_type};
use crate::conformance::raw_answer::AnswerBody;
use engine::cpi::{CpiErrorKind, Method};
use engine::protocol::ResourceKind;

const NEVER_CREATED_CID: &str = "monopile-never-was";

/// Checks methods after `delete_vm`.
pub(super) fn check_deleted_vm(run: &mut Run<'_>, vm: &CreatedResource, disk: Option<&CreatedResource>) {
    if run.ledger.may_exist(vm) {
        return;
    }
    let cid = || json!(vm.cid);
    run.check("delete_vm again", |check| expect_deletion_of_missing(check, vm));
    run.check("has_vm of a deleted VM", |check| expect_gone(check, vm));
    let expected = &["VMNotFound"];
    run.check("reboot_vm of a deleted VM", |check| expect_error(check, Method::RebootVm, &[cid()], expected));
    run.check("set_vm_metadata of a deleted VM", |check| {
        expect_error(check, Method::SetVmMetadata, &[cid(), json!({"a": "b"})], expected)
    });
    run.check("get_disks of a deleted VM", |check| expect_error(check, Method::GetDisks, &[cid()], expected));
    run.check_or_skip("attach_disk to a deleted VM", disk, "no disk was created", |check, disk| {
        expect_error(check, Method::AttachDisk, &[cid(), json!(disk.cid)], expected)
    });
    run.check_or_skip("detach_disk from a deleted VM", disk, "no disk was created", |check, disk| {
        expect_success_or_not_found(
            check,
            Method::DetachDisk,
            &[cid(), json!(disk.cid)],
            &["VMNotFound", "DiskNotAttached"],
        )
    });
}

/// Checks methods after `delete_disk`, while the VM exists.
pub(super) fn check_deleted_disk(
    run: &mut Run<'_>,
    vm: Option<&CreatedResource>,
    disk: Option<&CreatedResource>,
) {
    let Some(disk) = disk else { return };
    let cid = || json!(disk.cid);
    run.check("delete_disk again", |check| expect_deletion_of_missing(check, disk));
    run.check("has_disk of a deleted disk", |check| expect_gone(check, disk));
    let expected = &["DiskNotFound"];
    run.check_or_skip("attach_disk of a deleted disk", vm, "no VM was created", |check, vm| {
        expect_error(check, Method::AttachDisk, &[json!(vm.cid), cid()], expected)
    });
    run.check_or_skip("detach_disk of a deleted disk", vm, "no VM was created", |check, vm| {
        let expected = &["DiskNotFound", "DiskNotAttached"];
        expect_success_or_not_found(check, Method::DetachDisk, &[json!(vm.cid), cid()], expected)
    });
    run.check("set_disk_metadata of a deleted disk", |check| {
        expect_error(check, Method::SetDiskMetadata, &[cid(), json!({"a": "b"})], expected)
    });
    run.check("snapshot_disk of a deleted disk", |check| {
        expect_error(check, Method::SnapshotDisk, &[cid(), json!({})], expected)
    });
    run.check("resize_disk of a deleted disk", |check| {
        let size = check.settings().disk_size;
        expect_error(check, Method::ResizeDisk, &[cid(), json!(size * 2)], expected)
    });
}

/// Checks methods after `delete_stemcell`.
pub(super) fn check_deleted_stemcell(run: &mut Run<'_>, stemcell: &CreatedResource) {
    if run.ledger.may_exist(stemcell) {
        return;
    }
    run.check("delete_stemcell again", |check| expect_deletion_of_missing(check, stemcell));
    run.check("create_vm from a deleted stemcell", |check| {
        let arguments = vm_arguments(check, &stemcell.cid, &[]);
        expect_error(check, Method::CreateVm, &arguments, &["StemcellNotFound", "VMCreationFailed"])
    });
}

/// Checks methods with CIDs that no CPI creates.
pub(super) fn check_never_existing(run: &mut Run<'_>) {
    for kind in [ResourceKind::Vm, ResourceKind::Disk] {
        let resource = CreatedResource { kind, cid: NEVER_CREATED_CID.to_owned() };
        if let Some(method) = ledger::existence_method(kind) {
            run.check(&format!("{method} with an unknown CID"), |check| expect_gone(check, &resource));
        }
        run.check(&format!("{} with an unknown CID", ledger::delete_method(kind)), |check| {
            expect_deletion_of_missing(check, &resource)
        });
    }
}

/// Expects `false` or the error for a missing resource.
fn expect_gone(check: &mut RunningCheck<'_, '_>, resource: &CreatedResource) -> CheckOutcome {
    let Some(method) = ledger::existence_method(resource.kind) else { return Ok(()) };
    check.require_method(method)?;
    match check.call(method, &[json!(resource.cid)])? {
        AnswerBody::Result(Value::Bool(false)) => Ok(()),
        AnswerBody::Result(other) => fail(format!("`{method}` answered {other} instead of false")),
        AnswerBody::Error(error_answer)
            if ledger::not_found_type(resource.kind)
                .is_some_and(|kind| has_error_type(&error_answer, kind)) =>
        {
            check.add_remark(format!("answered {} instead of false", error_answer.error_type));
            Ok(())
        }
        AnswerBody::Error(error_answer) => check.stop_for_error(method, error_answer),
        AnswerBody::Unusable => fail("no answer"),
    }
}

fn expect_deletion_of_missing(check: &mut RunningCheck<'_, '_>, resource: &CreatedResource) -> CheckOutcome {
    let expected: Vec<&str> = ledger::not_found_type(resource.kind).into_iter().collect();
    expect_success_or_not_found(
        check,
        ledger::delete_method(resource.kind),
        &[json!(resource.cid)],
        &expected,
    )
}

/// Expects success or the error for a missing resource. The contract does not define the answer to a second
/// deletion, but callers repeat deletions.
fn expect_success_or_not_found(
    check: &mut RunningCheck<'_, '_>,
    method: Method,
    arguments: &[Value],
    expected: &[&str],
) -> CheckOutcome {
    check.require_method(method)?;
    check.expect_beyond_contract();
    match check.call(method, arguments)? {
        AnswerBody::Result(_) => {
            check.add_remark("answered success");
            Ok(())
        }
        answer => expect_error_type(check, method, answer, expected),
    }
}

fn expect_error(
    check: &mut RunningCheck<'_, '_>,
    method: Method,
    arguments: &[Value],
    expected: &[&str],
) -> CheckOutcome {
    check.require_method(method)?;
    let answer = check.call(method, arguments)?;
    expect_error_type(check, method, answer, expected)
}

fn expect_error_type(
    check: &mut RunningCheck<'_, '_>,
    method: Method,
    answer: AnswerBody,
    expected: &[&str],
) -> CheckOutcome {
    let expected_types =
        expected.iter().map(|kind| format!("`Bosh::Clouds::{kind}`")).collect::<Vec<_>>().join(" or ");
    match answer {
        AnswerBody::Error(error_answer)
            if expected.iter().any(|kind| has_error_type(&error_answer, kind)) =>
        {
            Ok(())
        }
        AnswerBody::Error(error_answer) if error_answer.kind == CpiErrorKind::NotImplemented => {
            check.stop_for_error(method, error_answer)
        }
        // A CPI that does not support the method need not look for the resource.
        AnswerBody::Error(error_answer) if has_error_type(&error_answer, "NotSupported") => {
            Err(CheckStop::Skipped(format!("not supported, which is allowed: {}", error_answer.message)))
        }
        AnswerBody::Error(error_answer) => {
            fail(format!("must be refused with {expected_types}, not {}", error_answer.text()))
        }
        AnswerBody::Result(result) => {
            fail(format!("must be refused with {expected_types}, but answered the result {result}"))
        }
        AnswerBody::Unusable => fail("no answer"),
    }
}
