//! The life-cycle checks, in the order in which real callers use the methods: stemcell, VM, disks, and their
//! deletion. The VM and the disks are checked once per contract.

use serde_json::{Value, json};

use super::ledger::{self, CreatedResource};
use super::missing_resources;
use super::run::Run;
use super::running_check::{CheckOutcome, CheckStop, RunningCheck, fail, has_error_type};
use crate::conformance::cpi_under_test::Versions;
use crate::conformance::raw_answer::{AnswerBody, CpiErrorAnswer};
use engine::cpi::{Answer, Method};
use engine::protocol::{Contract, DiskCid, HIGHEST_API_VERSION};

/// The growth of a disk in MiB: the minimum step of common IaaSes.
const GROWTH_MIB: u64 = 1024;

/// Checks the life of a VM under both contracts, each with a stemcell of the version that selects it. A
/// contract that the CPI or the operator excludes is reported as skipped.
pub(super) fn check(run: &mut Run<'_>) {
    let api_version = run.api_version();
    let stemcell_version =
        run.settings.stemcell.as_ref().map_or(HIGHEST_API_VERSION, |stemcell| stemcell.api_version);
    run.group = "stemcell".to_owned();
    run.versions = Versions { api: Some(api_version), stemcell: None };
    let stemcell = create_stemcell(run, api_version);
    for contract in [Contract::V2, Contract::V1] {
        run.group = format!("contract {contract}");
        // With an old stemcell, contract v1 applies even to a CPI of version 2.
        let version = match contract {
            Contract::V2 => stemcell_version.max(2),
            Contract::V1 => 1,
        };
        run.versions = Versions { api: Some(api_version), stemcell: Some(version) };
        let skip_reason = match (run.settings.contract, contract) {
            (Some(requested_contract), _) if requested_contract != contract => {
                Some("left out (--contract)".to_owned())
            }
            (_, Contract::V2) if api_version < 2 => Some(format!("the CPI speaks API version {api_version}")),
            _ => None,
        };
        match skip_reason {
            Some(reason) => {
                run.check("life cycle", |_| Err::<(), _>(CheckStop::Skipped(reason)));
            }
            None => LifecycleCheck {
                run: &mut *run,
                stemcell: stemcell.clone(),
                contract,
                check_that_lost_vm: None,
            }
            .run(),
        }
    }
    run.group = "stemcell".to_owned();
    run.versions = Versions { api: Some(api_version), stemcell: Some(stemcell_version) };
    if let Some(stemcell) = &stemcell {
        run.check("delete_stemcell", |check| check.delete(stemcell));
        missing_resources::check_deleted_stemcell(run, stemcell);
    }
    run.group = "rpc".to_owned();
    missing_resources::check_never_existing(run);
}

fn create_stemcell(run: &mut Run<'_>, api_version: u32) -> Option<CreatedResource> {
    let Some(stemcell) = run.settings.stemcell.clone() else {
        run.check("create_stemcell", |_| {
            Err::<(), _>(CheckStop::Skipped("no stemcell is named (--stemcell)".to_owned()))
        });
        return None;
    };
    let mut arguments = vec![json!(stemcell.image), stemcell.cloud_properties];
    if Method::CreateStemcell.arguments(api_version).count() > arguments.len() {
        arguments.push(json!({"tags": {"director": "monopile-cpi-check"}}));
    }
    let (_, resources) = run.check_with_resources("create_stemcell", |check| {
        check.call_or_stop(Method::CreateStemcell, &arguments).map(drop)
    });
    resources.into_iter().next_back()
}

/// Returns the arguments of `create_vm`.
pub(super) fn vm_arguments(check: &RunningCheck<'_, '_>, stemcell: &str, disks: &[&str]) -> Vec<Value> {
    let settings = check.settings();
    vec![
        json!(uuid::Uuid::new_v4().to_string()),
        json!(stemcell),
        json!(settings.vm_cloud_properties),
        json!(settings.networks),
        json!(disks),
        json!(settings.env),
    ]
}

/// The checks under one contract.
struct LifecycleCheck<'r, 'a> {
    run: &'r mut Run<'a>,
    stemcell: Option<CreatedResource>,
    contract: Contract,
    /// The check in which the VM was lost.
    check_that_lost_vm: Option<String>,
}

const NO_VM_REASON: &str = "no VM was created";
const NO_DISK_REASON: &str = "no disk was created";

impl<'a> LifecycleCheck<'_, 'a> {
    fn run(mut self) {
        let vm = self.check_create_vm();
        let disk = self.check_create_disk(vm.as_ref());
        let vm_and_disk = vm.clone().zip(disk.clone());
        self.check_attach_disk(vm_and_disk.as_ref());
        self.check_snapshots(disk.as_ref());
        self.check_reboot_vm(vm.as_ref());
        self.check_detach_disk(vm_and_disk.as_ref());
        let disk = self.check_resize_and_update_disk(disk);
        self.check_parallel_calls(vm.as_ref());
        let deleted_disk = self.check_create_and_delete_disk();
        let existing_vm = vm.as_ref().filter(|_| self.check_that_lost_vm.is_none());
        missing_resources::check_deleted_disk(self.run, existing_vm, deleted_disk.as_ref());
        let vm_and_disk = vm.clone().zip(disk.clone());
        self.check_delete_vm(vm.as_ref(), vm_and_disk.as_ref());
        if let Some(vm) = &vm {
            missing_resources::check_deleted_vm(self.run, vm, disk.as_ref());
        }
        self.check_unless_vm_lost("delete_disk", None, disk.as_ref(), NO_DISK_REASON, |check, disk| {
            check.delete(disk)
        });
    }

    /// Runs a check that is skipped after the VM was lost. If it uses the VM and the CPI refuses a call in
    /// it, asks whether the VM still exists: if not, the VM was lost in this check.
    fn check_unless_vm_lost<G: ?Sized>(
        &mut self,
        name: &str,
        vm: Option<&CreatedResource>,
        resource: Option<&G>,
        skip_reason: &str,
        body: impl FnOnce(&mut RunningCheck<'_, 'a>, &G) -> CheckOutcome,
    ) {
        let lost_vm_reason = self.reason_of_lost_vm();
        let resource = resource.filter(|_| lost_vm_reason.is_none());
        let mut is_lost = false;
        self.run.check_or_skip(
            name,
            resource,
            lost_vm_reason.as_deref().unwrap_or(skip_reason),
            |check, resource| {
                let outcome = body(check, resource);
                let Some(vm) = vm.filter(|_| check.had_error) else { return outcome };
                match (check.ask_presence(vm), outcome) {
                    (Ok(Some(false)), outcome) => {
                        is_lost = true;
                        check.is_promised_by_contract = true;
                        let refusal = match outcome {
                            Err(CheckStop::Failed(reason)) => format!("{reason}; "),
                            _ => String::new(),
                        };
                        fail(format!(
                            "{refusal}the VM is gone after the refused call: `has_vm` answers false"
                        ))
                    }
                    (Err(CheckStop::Broken(error)), _) => Err(CheckStop::Broken(error)),
                    (_, outcome) => outcome,
                }
            },
        );
        if is_lost {
            self.check_that_lost_vm = Some(name.to_owned());
        }
    }

    /// Returns the reason to skip checks that need the VM, if it was lost.
    fn reason_of_lost_vm(&self) -> Option<String> {
        self.check_that_lost_vm.as_ref().map(|check| format!("the VM no longer exists since `{check}`"))
    }

    /// Checks `create_vm`, `has_vm` and `set_vm_metadata`. Returns the VM if one was created.
    fn check_create_vm(&mut self) -> Option<CreatedResource> {
        let stemcell = self.stemcell.clone();
        let (_, resources) = self.run.check_with_resources("create_vm", |check| {
            let Some(stemcell) = stemcell else {
                return Err(CheckStop::Skipped("no stemcell was created".to_owned()));
            };
            let arguments = vm_arguments(check, &stemcell.cid, &[]);
            check.call_or_stop(Method::CreateVm, &arguments).map(drop)
        });
        let vm = resources.into_iter().next_back();
        self.run.check_or_skip("has_vm", vm.as_ref(), NO_VM_REASON, |check, vm| {
            expect_existence(check, vm, true)
        });
        self.check_unless_vm_lost("set_vm_metadata", vm.as_ref(), vm.as_ref(), NO_VM_REASON, |check, vm| {
            // The second call changes values and drops keys, as deploys do.
            for metadata in [json!({"director": "monopile", "name": "check/0"}), json!({"name": "check/1"})] {
                check.call_or_stop(Method::SetVmMetadata, &[json!(vm.cid), metadata])?;
            }
            Ok(())
        });
        vm
    }

    /// Checks `create_disk` and `has_disk`. Returns the disk if one was created.
    fn check_create_disk(&mut self, vm: Option<&CreatedResource>) -> Option<CreatedResource> {
        let (_, resources) = self.run.check_with_resources("create_disk", |check| {
            call_create_disk(check, vm.map(|vm| vm.cid.as_str()))
        });
        let disk = resources.into_iter().next_back();
        self.run.check_or_skip("has_disk", disk.as_ref(), NO_DISK_REASON, |check, disk| {
            expect_existence(check, disk, true)
        });
        disk
    }

    /// Checks `attach_disk`, `get_disks` and `set_disk_metadata`. A second `attach_disk` may answer the same
    /// hint or refuse, but not with an error that misleads the caller.
    fn check_attach_disk(&mut self, vm_and_disk: Option<&(CreatedResource, CreatedResource)>) {
        let vm = vm_and_disk.map(|(vm, _)| vm);
        let mut first_hint = None;
        self.check_unless_vm_lost("attach_disk", vm, vm_and_disk, NO_VM_REASON, |check, (vm, disk)| {
            first_hint = Some(check.call_or_stop(Method::AttachDisk, &[json!(vm.cid), json!(disk.cid)])?);
            Ok(())
        });
        self.check_unless_vm_lost("attach_disk again", vm, vm_and_disk, NO_VM_REASON, |check, (vm, disk)| {
            match check.call(Method::AttachDisk, &[json!(vm.cid), json!(disk.cid)])? {
                AnswerBody::Result(result) => {
                    let answer = check.parse_answer(Method::AttachDisk, &result)?;
                    if first_hint.as_ref().is_some_and(|first_hint| *first_hint != answer) {
                        check.expect_beyond_contract();
                        return fail(
                            "the second call answers another disk hint, although the disk is already \
                             attached",
                        );
                    }
                }
                AnswerBody::Error(error_answer) if has_wrong_type(&error_answer) => {
                    return fail(format!("refused with a wrong error type: {}", error_answer.text()));
                }
                AnswerBody::Error(error_answer) => {
                    check.add_remark(format!("refused: {}", error_answer.text()))
                }
                AnswerBody::Unusable => return fail("no answer"),
            }
            Ok(())
        });
        self.check_unless_vm_lost("get_disks", vm, vm_and_disk, NO_VM_REASON, |check, (vm, disk)| {
            expect_attached_disks(check, vm, &[&disk.cid])
        });
        self.check_unless_vm_lost(
            "set_disk_metadata",
            vm,
            vm_and_disk.map(|(_, disk)| disk),
            NO_DISK_REASON,
            |check, disk| {
                for metadata in [json!({"director": "monopile", "attached_at": "now"}), json!({"a": "b"})] {
                    check.call_or_stop(Method::SetDiskMetadata, &[json!(disk.cid), metadata])?;
                }
                Ok(())
            },
        );
    }

    /// Checks `snapshot_disk`, and `delete_snapshot` with the new snapshot.
    fn check_snapshots(&mut self, disk: Option<&CreatedResource>) {
        let lost_vm_reason = self.reason_of_lost_vm();
        let (_, resources) = self.run.check_with_resources("snapshot_disk", |check| match disk {
            _ if lost_vm_reason.is_some() => Err(CheckStop::Skipped(lost_vm_reason.unwrap_or_default())),
            Some(disk) => {
                let metadata = json!({"deployment": "monopile-cpi-check"});
                check.call_or_stop(Method::SnapshotDisk, &[json!(disk.cid), metadata]).map(drop)
            }
            None => Err(CheckStop::Skipped(NO_DISK_REASON.to_owned())),
        });
        let snapshot = resources.into_iter().next_back();
        let skip_reason = "no snapshot was created";
        self.run.check_or_skip("delete_snapshot", snapshot.as_ref(), skip_reason, |check, snapshot| {
            check.delete(snapshot)
        });
    }

    /// Checks that the VM still exists after `reboot_vm`, and under contract v1 also `configure_networks`.
    fn check_reboot_vm(&mut self, vm: Option<&CreatedResource>) {
        self.check_unless_vm_lost("reboot_vm", vm, vm, NO_VM_REASON, |check, vm| {
            check.call_or_stop(Method::RebootVm, &[json!(vm.cid)])?;
            match check.ask_presence(vm)? {
                Some(false) => fail("`has_vm` answers false after the reboot"),
                _ => Ok(()),
            }
        });
        if self.contract == Contract::V1 {
            self.check_unless_vm_lost("configure_networks", vm, vm, NO_VM_REASON, |check, vm| {
                let networks = json!(check.settings().networks);
                check.call_or_stop(Method::ConfigureNetworks, &[json!(vm.cid), networks]).map(drop)
            });
        }
    }

    /// Checks `detach_disk`. A second call may be refused, but not with an error that misleads the caller.
    fn check_detach_disk(&mut self, vm_and_disk: Option<&(CreatedResource, CreatedResource)>) {
        let vm = vm_and_disk.map(|(vm, _)| vm);
        let arguments = |(vm, disk): &(CreatedResource, CreatedResource)| [json!(vm.cid), json!(disk.cid)];
        self.check_unless_vm_lost("detach_disk", vm, vm_and_disk, NO_VM_REASON, |check, vm_and_disk| {
            check.call_or_stop(Method::DetachDisk, &arguments(vm_and_disk))?;
            match expect_attached_disks(check, &vm_and_disk.0, &[]) {
                Err(CheckStop::Skipped(_)) => Ok(()),
                result => result,
            }
        });
        self.check_unless_vm_lost(
            "detach_disk again",
            vm,
            vm_and_disk,
            NO_VM_REASON,
            |check, vm_and_disk| match check.call(Method::DetachDisk, &arguments(vm_and_disk))? {
                AnswerBody::Result(_) => Ok(()),
                AnswerBody::Error(error_answer) if has_wrong_type(&error_answer) => {
                    fail(format!("refused with a wrong error type: {}", error_answer.text()))
                }
                AnswerBody::Error(error_answer) => {
                    check.add_remark(format!("refused: {}", error_answer.text()));
                    Ok(())
                }
                AnswerBody::Unusable => fail("no answer"),
            },
        );
    }

    /// Checks `resize_disk` and `update_disk`. Returns the disk after them, because an update may replace it.
    fn check_resize_and_update_disk(&mut self, disk: Option<CreatedResource>) -> Option<CreatedResource> {
        let size = self.run.settings.disk_size;
        let resize = |check: &mut RunningCheck<'_, '_>, disk: &CreatedResource| {
            check.call_or_stop(Method::ResizeDisk, &[json!(disk.cid), json!(size + GROWTH_MIB)]).map(drop)
        };
        self.check_unless_vm_lost("resize_disk", None, disk.as_ref(), NO_DISK_REASON, resize);
        // A caller that got no answer repeats the call.
        self.check_unless_vm_lost("resize_disk again", None, disk.as_ref(), NO_DISK_REASON, |check, disk| {
            check.expect_beyond_contract();
            resize(check, disk)
        });
        let lost_vm_reason = self.reason_of_lost_vm();
        let (_, resources) = self.run.check_with_resources("update_disk", |check| {
            if let Some(lost_vm_reason) = lost_vm_reason {
                return Err(CheckStop::Skipped(lost_vm_reason));
            }
            let Some(disk) = &disk else { return Err(CheckStop::Skipped(NO_DISK_REASON.to_owned())) };
            let properties = json!(check.settings().disk_cloud_properties);
            let answer = check.call_or_stop(
                Method::UpdateDisk,
                &[json!(disk.cid), json!(size + 2 * GROWTH_MIB), properties],
            )?;
            match answer {
                Answer::Disk(cid) if cid.as_str() != disk.cid => check.remove_if_gone(disk),
                _ => Ok(()),
            }
        });
        resources.into_iter().next_back().or(disk)
    }

    /// Checks calls that the CPI gets at once, as from a director.
    fn check_parallel_calls(&mut self, vm: Option<&CreatedResource>) {
        let lost_vm_reason = self.reason_of_lost_vm();
        let run = &mut *self.run;
        let count = run.settings.parallel_call_count.max(2);
        let (_, disks) = run.check_with_resources(&format!("{count} create_disk at once"), |check| {
            check.require_method(Method::CreateDisk)?;
            check.expect_beyond_contract();
            let existing_vm = vm.filter(|_| lost_vm_reason.is_none());
            let arguments = disk_arguments(check, existing_vm.map(|vm| vm.cid.as_str()));
            for answer in check.call_in_parallel(Method::CreateDisk, &vec![arguments; count])? {
                expect_success(check, Method::CreateDisk, answer)?;
            }
            let cids: std::collections::BTreeSet<&str> =
                check.resources().iter().map(|disk| disk.cid.as_str()).collect();
            if cids.len() < count {
                let disks = if cids.len() == 1 { "disk" } else { "disks" };
                return fail(format!("{count} calls made only {} {disks}", cids.len()));
            }
            Ok(())
        });
        let mut distinct_disks: Vec<CreatedResource> = Vec::new();
        for disk in disks {
            if !distinct_disks.contains(&disk) {
                distinct_disks.push(disk);
            }
        }
        let cid_arguments = |resources: &[CreatedResource]| {
            resources.iter().map(|resource| vec![json!(resource.cid)]).collect::<Vec<_>>()
        };
        let no_disks_reason = "no disks were created";
        let any_disks = Some(distinct_disks.as_slice()).filter(|disks| !disks.is_empty());
        run.check_or_skip(
            &format!("{count} has_disk at once"),
            any_disks,
            no_disks_reason,
            |check, disks| {
                check.expect_beyond_contract();
                expect_all_exist(check, Method::HasDisk, &cid_arguments(disks))
            },
        );
        let (existing_vm, no_vm_reason) =
            (vm.filter(|_| lost_vm_reason.is_none()), lost_vm_reason.as_deref().unwrap_or(NO_VM_REASON));
        run.check_or_skip(&format!("{count} has_vm at once"), existing_vm, no_vm_reason, |check, vm| {
            check.expect_beyond_contract();
            expect_all_exist(check, Method::HasVm, &vec![vec![json!(vm.cid)]; count])
        });
        run.check_or_skip(
            &format!("{count} delete_disk at once"),
            any_disks,
            no_disks_reason,
            |check, disks| {
                check.require_method(Method::DeleteDisk)?;
                check.expect_beyond_contract();
                let answers = check.call_in_parallel(Method::DeleteDisk, &cid_arguments(disks))?;
                for (answer, disk) in answers.into_iter().zip(disks) {
                    expect_success(check, Method::DeleteDisk, answer)?;
                    check.remove_if_gone(disk)?;
                }
                Ok(())
            },
        );
    }

    /// Checks `create_disk` without a VM, and `delete_disk` of a disk that was never attached. Returns the
    /// deleted disk.
    fn check_create_and_delete_disk(&mut self) -> Option<CreatedResource> {
        // A director that has no VM for the disk sends null as the VM's CID.
        self.run.check("create_disk with null as the VM", |check| {
            let mut arguments = disk_arguments(check, None);
            arguments.push(Value::Null);
            check.call_or_stop(Method::CreateDisk, &arguments)?;
            match check.resources().last().cloned() {
                Some(disk) => check.delete(&disk),
                None => Ok(()),
            }
        });
        let (_, resources) =
            self.run.check_with_resources("create_disk without a VM", |check| call_create_disk(check, None));
        let deleted_disk = resources.into_iter().next_back()?;
        // The deletion itself is checked with another disk.
        self.run.check("delete_disk that was never attached", |check| check.delete(&deleted_disk))?;
        Some(deleted_disk)
    }

    /// Deletes the VM with its disk attached, which is the usual case. The disk must survive.
    fn check_delete_vm(
        &mut self,
        vm: Option<&CreatedResource>,
        vm_and_disk: Option<&(CreatedResource, CreatedResource)>,
    ) {
        self.check_unless_vm_lost("delete_vm with a disk attached", None, vm, NO_VM_REASON, |check, vm| {
            if let Some((vm, disk)) = vm_and_disk {
                check.call_or_stop(Method::AttachDisk, &[json!(vm.cid), json!(disk.cid)])?;
            }
            check.delete(vm)?;
            match vm_and_disk.map(|(_, disk)| check.ask_presence(disk)).transpose()?.flatten() {
                Some(false) => fail("delete_vm deleted the disk as well"),
                _ => Ok(()),
            }
        });
    }
}

fn disk_arguments(check: &RunningCheck<'_, '_>, vm: Option<&str>) -> Vec<Value> {
    let settings = check.settings();
    let mut arguments = vec![json!(settings.disk_size), json!(settings.disk_cloud_properties)];
    arguments.extend(vm.map(|vm| json!(vm)));
    arguments
}

/// Returns true if the refusal of a repeated call has a type that misleads the caller: VM and disk exist, and
/// the method is implemented.
fn has_wrong_type(error_answer: &CpiErrorAnswer) -> bool {
    ["VMNotFound", "DiskNotFound", "NotImplemented"]
        .iter()
        .any(|error_type| has_error_type(error_answer, error_type))
}

fn call_create_disk(check: &mut RunningCheck<'_, '_>, vm: Option<&str>) -> CheckOutcome {
    let arguments = disk_arguments(check, vm);
    check.call_or_stop(Method::CreateDisk, &arguments).map(drop)
}

fn expect_success(check: &mut RunningCheck<'_, '_>, method: Method, answer: AnswerBody) -> CheckOutcome {
    match answer {
        AnswerBody::Result(result) => check.parse_answer(method, &result).map(drop),
        AnswerBody::Error(error_answer) => check.stop_for_error(method, error_answer),
        AnswerBody::Unusable => fail(format!("`{method}` gave no usable answer")),
    }
}

fn expect_all_exist(
    check: &mut RunningCheck<'_, '_>,
    method: Method,
    arguments: &[Vec<Value>],
) -> CheckOutcome {
    check.require_method(method)?;
    for answer in check.call_in_parallel(method, arguments)? {
        match answer {
            AnswerBody::Result(Value::Bool(true)) => {}
            AnswerBody::Result(other) => return fail(format!("`{method}` answered {other} instead of true")),
            other => expect_success(check, method, other)?,
        }
    }
    Ok(())
}

/// Expects the CPI to report the existence of a resource as `should_exist`.
pub(super) fn expect_existence(
    check: &mut RunningCheck<'_, '_>,
    resource: &CreatedResource,
    should_exist: bool,
) -> CheckOutcome {
    let Some(method) = ledger::existence_method(resource.kind) else { return Ok(()) };
    match check.call_or_stop(method, &[json!(resource.cid)])? {
        Answer::Boolean(exists) if exists == should_exist => Ok(()),
        _ => fail(format!("`{method}` answered {} instead of {should_exist}", !should_exist)),
    }
}

/// Expects exactly these disks to be attached.
fn expect_attached_disks(
    check: &mut RunningCheck<'_, '_>,
    vm: &CreatedResource,
    expected: &[&str],
) -> CheckOutcome {
    let Answer::Disks(disks) = check.call_or_stop(Method::GetDisks, &[json!(vm.cid)])? else {
        return Ok(());
    };
    if disks.iter().map(DiskCid::as_str).eq(expected.iter().copied()) {
        return Ok(());
    }
    fail(format!("`get_disks` answered {} instead of {}", json!(disks), json!(expected)))
}
