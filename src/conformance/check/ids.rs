//! Checks with CIDs that do not exist, because they were deleted or never created. Deleted resources have
//! valid CIDs that belong to no other resource.
//!
//! Deleting a missing resource may succeed or fail with the error type for it. Every other method must fail
//! with that error type.

use serde_json::{Value, json};

use super::ledger::{CreatedResource, LedgerKind};
use super::lifecycle::vm_arguments;
use super::run::Run;
use super::step::{CheckOutcome, CheckStop, Response, Step, fail, is};
use engine::cpi::{CpiErrorKind, Method};

const NEVER_WAS: &str = "monopile-never-was";

/// Checks methods after `delete_vm`.
pub(super) fn deleted_vm(run: &mut Run<'_>, vm: &CreatedResource, disk: Option<&CreatedResource>) {
    if run.ledger.has(vm) {
        return;
    }
    let cid = || json!(vm.cid);
    run.check("delete_vm again", |step| expect_deletion_of_missing(step, vm));
    run.check("has_vm of a deleted VM", |step| expect_gone(step, vm));
    let expected = &["VMNotFound"];
    run.check("reboot_vm of a deleted VM", |step| expect_refusal(step, Method::RebootVm, &[cid()], expected));
    run.check("set_vm_metadata of a deleted VM", |step| {
        expect_refusal(step, Method::SetVmMetadata, &[cid(), json!({"a": "b"})], expected)
    });
    run.check("get_disks of a deleted VM", |step| expect_refusal(step, Method::GetDisks, &[cid()], expected));
    run.check_of("attach_disk to a deleted VM", disk, "there is no disk", |step, disk| {
        expect_refusal(step, Method::AttachDisk, &[cid(), json!(disk.cid)], expected)
    });
    run.check_of("detach_disk from a deleted VM", disk, "there is no disk", |step, disk| {
        expect_success_or_not_found(
            step,
            Method::DetachDisk,
            &[cid(), json!(disk.cid)],
            &["VMNotFound", "DiskNotAttached"],
        )
    });
}

/// Checks methods after `delete_disk`, while the VM exists.
pub(super) fn deleted_disk(run: &mut Run<'_>, vm: Option<&CreatedResource>, disk: Option<&CreatedResource>) {
    let Some(disk) = disk else { return };
    let cid = || json!(disk.cid);
    run.check("delete_disk again", |step| expect_deletion_of_missing(step, disk));
    run.check("has_disk of a deleted disk", |step| expect_gone(step, disk));
    let expected = &["DiskNotFound"];
    run.check_of("attach_disk of a deleted disk", vm, "there is no VM", |step, vm| {
        expect_refusal(step, Method::AttachDisk, &[json!(vm.cid), cid()], expected)
    });
    run.check_of("detach_disk of a deleted disk", vm, "there is no VM", |step, vm| {
        let expected = &["DiskNotFound", "DiskNotAttached"];
        expect_success_or_not_found(step, Method::DetachDisk, &[json!(vm.cid), cid()], expected)
    });
    run.check("set_disk_metadata of a deleted disk", |step| {
        expect_refusal(step, Method::SetDiskMetadata, &[cid(), json!({"a": "b"})], expected)
    });
    run.check("snapshot_disk of a deleted disk", |step| {
        expect_refusal(step, Method::SnapshotDisk, &[cid(), json!({})], expected)
    });
    run.check("resize_disk of a deleted disk", |step| {
        let size = step.settings().disk_size;
        expect_refusal(step, Method::ResizeDisk, &[cid(), json!(size * 2)], expected)
    });
}

/// Checks methods after `delete_stemcell`.
pub(super) fn deleted_stemcell(run: &mut Run<'_>, stemcell: &CreatedResource) {
    if run.ledger.has(stemcell) {
        return;
    }
    run.check("delete_stemcell again", |step| expect_deletion_of_missing(step, stemcell));
    run.check("create_vm from a deleted stemcell", |step| {
        let arguments = vm_arguments(step, &stemcell.cid, &[]);
        expect_refusal(step, Method::CreateVm, &arguments, &["StemcellNotFound", "VMCreationFailed"])
    });
}

/// Checks methods with CIDs that no CPI creates.
pub(super) fn never_existing(run: &mut Run<'_>) {
    for kind in [LedgerKind::Vm, LedgerKind::Disk] {
        let resource = CreatedResource { kind, cid: NEVER_WAS.to_owned() };
        if let Some(has) = kind.has() {
            run.check(&format!("{has} with an unknown CID"), |step| expect_gone(step, &resource));
        }
        run.check(&format!("{} with an unknown CID", kind.delete()), |step| {
            expect_deletion_of_missing(step, &resource)
        });
    }
}

/// Expects `false` or the error for a missing resource.
fn expect_gone(step: &mut Step<'_, '_>, resource: &CreatedResource) -> CheckOutcome {
    let Some(method) = resource.kind.has() else { return Ok(()) };
    step.expect_present(method)?;
    match step.call(method, &[json!(resource.cid)])? {
        Response::Result(Value::Bool(false)) => Ok(()),
        Response::Result(other) => fail(format!("`{method}` answered {other} and not false")),
        Response::Refused(refusal) if resource.kind.not_found().is_some_and(|kind| is(&refusal, kind)) => {
            step.note(format!("answered {} and not false", refusal.error_type));
            Ok(())
        }
        Response::Refused(refusal) => step.note_refusal(method, refusal),
        Response::Unusable => fail("no answer"),
    }
}

fn expect_deletion_of_missing(step: &mut Step<'_, '_>, resource: &CreatedResource) -> CheckOutcome {
    let expected: Vec<&str> = resource.kind.not_found().into_iter().collect();
    expect_success_or_not_found(step, resource.kind.delete(), &[json!(resource.cid)], &expected)
}

/// Expects success or the error for a missing resource. The contract does not define the answer to a second
/// deletion, but callers repeat deletions.
fn expect_success_or_not_found(
    step: &mut Step<'_, '_>,
    method: Method,
    arguments: &[Value],
    expected: &[&str],
) -> CheckOutcome {
    step.expect_present(method)?;
    step.expect_unpromised();
    match step.call(method, arguments)? {
        Response::Result(_) => {
            step.note("answered success");
            Ok(())
        }
        response => expect_type(step, method, response, expected),
    }
}

fn expect_refusal(
    step: &mut Step<'_, '_>,
    method: Method,
    arguments: &[Value],
    expected: &[&str],
) -> CheckOutcome {
    step.expect_present(method)?;
    let response = step.call(method, arguments)?;
    expect_type(step, method, response, expected)
}

fn expect_type(
    step: &mut Step<'_, '_>,
    method: Method,
    response: Response,
    expected: &[&str],
) -> CheckOutcome {
    let wanted =
        expected.iter().map(|kind| format!("`Bosh::Clouds::{kind}`")).collect::<Vec<_>>().join(" or ");
    match response {
        Response::Refused(refusal) if expected.iter().any(|kind| is(&refusal, kind)) => Ok(()),
        Response::Refused(refusal) if refusal.kind == CpiErrorKind::NotImplemented => {
            step.note_refusal(method, refusal)
        }
        // A CPI without disk support need not look for the disk.
        Response::Refused(refusal) if is(&refusal, "NotSupported") => {
            Err(CheckStop::Skipped(format!("not supported, which is allowed: {}", refusal.message)))
        }
        Response::Refused(refusal) => fail(format!("must be refused with {wanted}, not {}", refusal.text())),
        Response::Result(result) => fail(format!("must be refused with {wanted}, but answered {result}")),
        Response::Unusable => fail("no answer"),
    }
}
