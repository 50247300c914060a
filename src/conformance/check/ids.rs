//! What is not there: asked for again after it was deleted, or never made. Deleted things have CIDs of the right form,
//! and nobody else's.
//!
//! To delete what is gone is no error, nor is it one to say so; everything else must say so, by the type that callers
//! know.

use serde_json::{Value, json};

use super::ledger::{ResourceKind, Thing};
use super::life::vm_arguments;
use super::run::Run;
use super::step::{Checked, Halt, Heard, Step, failed, is};
use engine::cpi::{CpiErrorKind, Method};

const NEVER_WAS: &str = "monopile-never-was";

/// After `delete_vm`.
pub(super) fn deleted_vm(run: &mut Run<'_>, vm: &Thing, disk: Option<&Thing>) {
    if run.ledger.has(vm) {
        return;
    }
    let cid = || json!(vm.cid);
    run.check("delete_vm again", |step| deletes_what_is_gone(step, vm));
    run.check("has_vm of a deleted VM", |step| is_gone(step, vm));
    let expected = &["VMNotFound"];
    run.check("reboot_vm of a deleted VM", |step| refuses(step, Method::RebootVm, &[cid()], expected));
    run.check("set_vm_metadata of a deleted VM", |step| {
        refuses(step, Method::SetVmMetadata, &[cid(), json!({"a": "b"})], expected)
    });
    run.check("get_disks of a deleted VM", |step| refuses(step, Method::GetDisks, &[cid()], expected));
    run.check_of("attach_disk to a deleted VM", disk, "there is no disk", |step, disk| {
        refuses(step, Method::AttachDisk, &[cid(), json!(disk.cid)], expected)
    });
    run.check_of("detach_disk from a deleted VM", disk, "there is no disk", |step, disk| {
        gone_or_refuses(
            step,
            Method::DetachDisk,
            &[cid(), json!(disk.cid)],
            &["VMNotFound", "DiskNotAttached"],
        )
    });
}

/// After `delete_disk`, while there still is a VM.
pub(super) fn deleted_disk(run: &mut Run<'_>, vm: Option<&Thing>, disk: Option<&Thing>) {
    let Some(disk) = disk else { return };
    let cid = || json!(disk.cid);
    run.check("delete_disk again", |step| deletes_what_is_gone(step, disk));
    run.check("has_disk of a deleted disk", |step| is_gone(step, disk));
    let expected = &["DiskNotFound"];
    run.check_of("attach_disk of a deleted disk", vm, "there is no VM", |step, vm| {
        refuses(step, Method::AttachDisk, &[json!(vm.cid), cid()], expected)
    });
    run.check_of("detach_disk of a deleted disk", vm, "there is no VM", |step, vm| {
        let expected = &["DiskNotFound", "DiskNotAttached"];
        gone_or_refuses(step, Method::DetachDisk, &[json!(vm.cid), cid()], expected)
    });
    run.check("set_disk_metadata of a deleted disk", |step| {
        refuses(step, Method::SetDiskMetadata, &[cid(), json!({"a": "b"})], expected)
    });
    run.check("snapshot_disk of a deleted disk", |step| {
        refuses(step, Method::SnapshotDisk, &[cid(), json!({})], expected)
    });
    run.check("resize_disk of a deleted disk", |step| {
        let size = step.settings().disk_size;
        refuses(step, Method::ResizeDisk, &[cid(), json!(size * 2)], expected)
    });
}

/// After `delete_stemcell`.
pub(super) fn deleted_stemcell(run: &mut Run<'_>, stemcell: &Thing) {
    if run.ledger.has(stemcell) {
        return;
    }
    run.check("delete_stemcell again", |step| deletes_what_is_gone(step, stemcell));
    run.check("create_vm from a deleted stemcell", |step| {
        let arguments = vm_arguments(step, &stemcell.cid, &[]);
        refuses(step, Method::CreateVm, &arguments, &["StemcellNotFound", "VMCreationFailed"])
    });
}

/// CIDs that no CPI makes.
pub(super) fn never_were(run: &mut Run<'_>) {
    for kind in [ResourceKind::Vm, ResourceKind::Disk] {
        let thing = Thing { kind, cid: NEVER_WAS.to_owned() };
        if let Some(has) = kind.has() {
            run.check(&format!("{has} of what never was"), |step| is_gone(step, &thing));
        }
        run.check(&format!("{} of what never was", kind.delete()), |step| deletes_what_is_gone(step, &thing));
    }
}

/// `false`, or the error that says so.
fn is_gone(step: &mut Step<'_, '_>, thing: &Thing) -> Checked {
    let Some(method) = thing.kind.has() else { return Ok(()) };
    step.expect_present(method)?;
    match step.call(method, &[json!(thing.cid)])? {
        Heard::Result(Value::Bool(false)) => Ok(()),
        Heard::Result(other) => failed(format!("`{method}` answered {other} and not false")),
        Heard::Refused(refusal) if thing.kind.not_found().is_some_and(|kind| is(&refusal, kind)) => {
            step.note(format!("answered {} and not false", refusal.error_type));
            Ok(())
        }
        Heard::Refused(refusal) => step.refused(method, refusal),
        Heard::Nothing => failed("no answer"),
    }
}

fn deletes_what_is_gone(step: &mut Step<'_, '_>, thing: &Thing) -> Checked {
    let expected: Vec<&str> = thing.kind.not_found().into_iter().collect();
    gone_or_refuses(step, thing.kind.delete(), &[json!(thing.cid)], &expected)
}

/// Success, because what is asked for is so, or the error that says that something is not there.
fn gone_or_refuses(
    step: &mut Step<'_, '_>,
    method: Method,
    arguments: &[Value],
    expected: &[&str],
) -> Checked {
    step.expect_present(method)?;
    match step.call(method, arguments)? {
        Heard::Result(_) => {
            step.note("answered success");
            Ok(())
        }
        heard => typed(step, method, heard, expected),
    }
}

fn refuses(step: &mut Step<'_, '_>, method: Method, arguments: &[Value], expected: &[&str]) -> Checked {
    step.expect_present(method)?;
    let heard = step.call(method, arguments)?;
    typed(step, method, heard, expected)
}

fn typed(step: &mut Step<'_, '_>, method: Method, heard: Heard, expected: &[&str]) -> Checked {
    let wanted =
        expected.iter().map(|kind| format!("`Bosh::Clouds::{kind}`")).collect::<Vec<_>>().join(" or ");
    match heard {
        Heard::Refused(refusal) if expected.iter().any(|kind| is(&refusal, kind)) => Ok(()),
        Heard::Refused(refusal) if refusal.kind == CpiErrorKind::NotImplemented => {
            step.refused(method, refusal)
        }
        // Where nothing can be done to any disk, it need not be found first.
        Heard::Refused(refusal) if is(&refusal, "NotSupported") => {
            Err(Halt::Skipped(format!("not supported, which is allowed: {}", refusal.message)))
        }
        Heard::Refused(refusal) => failed(format!("must be refused with {wanted}, not {}", refusal.text())),
        Heard::Result(result) => failed(format!("must be refused with {wanted}, but answered {result}")),
        Heard::Nothing => failed("no answer"),
    }
}
