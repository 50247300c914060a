//! The methods of a CPI whose cloud is a directory: checks the arguments of a request, opens the cloud, and
//! calls the function of the method. In these functions, `call` is the [`CallContext`] of the request.

use std::io::{Read, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::args::Arguments;
use super::attachment;
use super::cid::{Cid, ObjectKind};
use super::cloud::{Cloud, ObjectLock};
use super::cloud_call::{CloudCall, create_in_cloud, delete_in_cloud, open_cloud};
use super::config::stemcell_formats;
use super::failure::{CpiFailure, CpiResult, FailureKind};
use super::machine;
use super::records::{self, CreateVmArguments};
use super::rpc::{Log, Request, VERSION, api_version, exchange};
use base::{JsonObject, Result};

/// The context of one request to a CPI whose configuration is a `C`.
pub(crate) struct CallContext<'a, 'l, C> {
    pub executable: &'a Path,
    pub config: C,
    /// True if contract v2 applies, see [`Request::parts`].
    pub is_v2: bool,
    log: &'a mut Log<'l>,
}

impl<C> CallContext<'_, '_, C> {
    /// Writes a line to standard error and to the answer's log. It must not contain secrets.
    pub(crate) fn log(&mut self, line: impl std::fmt::Display) {
        self.log.write_line(line);
    }
}

/// A disk that is attached to a VM or detached from it. Both are locked.
pub(crate) struct DiskAndVm {
    pub disk: Cid,
    pub disk_lock: ObjectLock,
    pub vm: Cid,
    pub vm_lock: ObjectLock,
    /// True if the disk is attached to this VM.
    pub is_attached: bool,
}

/// The methods of one CPI. Each has the name of the method in the protocol, or of its part that differs
/// between CPIs.
pub(crate) trait CloudMethods: CloudCall + Sized {
    /// The name in `cpi: {builtin: NAME}`.
    const NAME: &'static str;
    /// The stemcell formats that the CPI can use.
    const FORMATS: &'static [&'static str];

    fn create_stemcell(
        &mut self,
        cloud: &Cloud,
        image: &Path,
        cloud_properties: JsonObject,
    ) -> CpiResult<Value>;
    fn create_vm(&mut self, cloud: &Cloud, arguments: CreateVmArguments) -> CpiResult<Value>;
    fn delete_vm(&mut self, cloud: &Cloud, cid: &Cid) -> CpiResult<()>;
    fn reboot_vm(&mut self, cloud: &Cloud, cid: &Cid) -> CpiResult<()>;
    fn get_disks(&mut self, cloud: &Cloud, vm: &Cid) -> CpiResult<Vec<Cid>>;
    fn create_disk(&mut self, cloud: &Cloud, size: u64, cloud_properties: JsonObject) -> CpiResult<Value>;
    /// Returns true if a disk on record has its data.
    fn has_data(cloud: &Cloud, disk: &Cid) -> CpiResult<bool>;
    /// Returns the VM that a disk is attached to. The caller holds the lock of the disk.
    fn vm_of_disk(cloud: &Cloud, disk: &Cid) -> CpiResult<Option<Cid>>;
    /// Returns the VM from which the disk must be detached before it can be deleted. Must not fail for a disk
    /// whose data is lost, because that disk must be deletable.
    fn vm_that_blocks_deletion(cloud: &Cloud, disk: &Cid) -> CpiResult<Option<Cid>> {
        Self::vm_of_disk(cloud, disk)
    }
    /// `resize_disk`, and `update_disk` with cloud properties.
    fn update_disk(
        &mut self,
        cloud: &Cloud,
        disk: &Cid,
        size: u64,
        cloud_properties: Option<JsonObject>,
    ) -> CpiResult<()>;
    /// Returns the disk hint under contract v2, and null under contract v1.
    fn attach_disk(&mut self, disk_and_vm: &DiskAndVm) -> CpiResult<Value>;
    fn detach_disk(&mut self, disk_and_vm: &DiskAndVm) -> CpiResult<()>;
    fn snapshot_disk(&mut self, cloud: &Cloud, disk: &Cid, metadata: JsonObject) -> CpiResult<Value>;
}

/// Reads a request, carries it out and writes the answer. `load` reads the configuration from a file and the
/// context of the request.
pub(crate) fn serve<C>(
    (config, load): (&Path, impl FnOnce(&Path, &JsonObject) -> CpiResult<C>),
    executable: &Path,
    request: impl Read,
    answer_out: impl Write,
    log: impl Write,
) -> Result<()>
where
    for<'a, 'l> CallContext<'a, 'l, C>: CloudMethods,
{
    exchange(request, answer_out, log, |request, log| {
        answer(request, config, |context, is_v2| {
            Ok(CallContext { executable, config: load(config, context)?, is_v2, log })
        })
    })
}

/// Answers a request. `load_context` reads the configuration with the context of the request, and gets true
/// if contract v2 applies.
fn answer<C: CloudMethods>(
    request: Request,
    config: &Path,
    load_context: impl FnOnce(&JsonObject, bool) -> CpiResult<C>,
) -> CpiResult<Value> {
    let method = request.method.clone();
    let (arguments, context, is_v2) = request.parts().map_err(CpiFailure::before_any_effect)?;
    let method = method.as_str();
    let take = |minimum, maximum| Arguments::new(method, arguments, minimum, maximum);
    // These two methods must work without a complete configuration.
    match method {
        "info" => {
            take(0, 0)?;
            let formats = stemcell_formats(config, &context, C::FORMATS)?;
            let api_version = api_version(config, &context)?;
            return Ok(json!({"stemcell_formats": formats, "api_version": api_version, "version": VERSION}));
        }
        "calculate_vm_cloud_properties" => {
            return machine::calculate_cloud_properties(take(1, 1)?.take_hash("desired_instance_size")?);
        }
        _ => {}
    }

    let mut call = load_context(&context, is_v2).map_err(CpiFailure::before_any_effect)?;
    let call = &mut call;
    match method {
        "create_stemcell" => {
            let mut arguments = take(2, 2)?;
            let (image, properties) =
                (arguments.take_string("image_path")?, arguments.take_hash("cloud_properties")?);
            create_in_cloud(call, |call, cloud| call.create_stemcell(cloud, Path::new(&image), properties))
        }
        "delete_stemcell" => delete_unused(call, &take(1, 1)?.take_own_cid(ObjectKind::Stemcell)?),
        "create_vm" => {
            let mut arguments = take(5, 6)?;
            let vm_arguments = CreateVmArguments {
                agent_id: arguments.take_string("agent_id")?,
                stemcell: arguments.take_own_cid(ObjectKind::Stemcell)?,
                cloud_properties: arguments.take_hash("cloud_properties")?,
                networks: arguments.take_hash("networks")?,
                disk_cids: arguments.take_strings("disk_cids")?,
                env: arguments.take_hash("environment")?,
            };
            create_in_cloud(call, |call, cloud| call.create_vm(cloud, vm_arguments))
        }
        "delete_vm" => {
            let cid = take(1, 1)?.take_own_cid(ObjectKind::Vm)?;
            delete_in_cloud(call, |call, cloud| call.delete_vm(cloud, &cid))
        }
        "has_vm" => answer_has_object(call, take(1, 1)?, ObjectKind::Vm),
        "reboot_vm" => {
            let cid = take(1, 1)?.take_own_cid(ObjectKind::Vm)?;
            let cloud = require_cloud(call, &cid)?;
            call.reboot_vm(&cloud, &cid).map(|()| Value::Null)
        }
        "set_vm_metadata" => set_metadata(call, take(2, 2)?, ObjectKind::Vm),
        "create_disk" => {
            let mut arguments = take(2, 3)?;
            let (size, properties) = (arguments.take_size("size")?, arguments.take_hash("cloud_properties")?);
            create_in_cloud(call, |call, cloud| call.create_disk(cloud, size, properties))
        }
        "delete_disk" => {
            let cid = take(1, 1)?.take_own_cid(ObjectKind::Disk)?;
            delete_in_cloud(call, |call, cloud| delete_disk(call, cloud, &cid))
        }
        "resize_disk" | "update_disk" => {
            let count = if method == "update_disk" { 3 } else { 2 };
            let mut arguments = take(count, count)?;
            let (cid, size) = (arguments.take_own_cid(ObjectKind::Disk)?, arguments.take_size("new_size")?);
            let cloud_properties = match method {
                "update_disk" => Some(arguments.take_hash("cloud_properties")?),
                _ => None,
            };
            let cloud = require_cloud(call, &cid)?;
            call.update_disk(&cloud, &cid, size, cloud_properties).map(|()| Value::Null)
        }
        "has_disk" => answer_has_object(call, take(1, 1)?, ObjectKind::Disk),
        "attach_disk" | "detach_disk" => {
            let mut arguments = take(2, 2)?;
            let (vm, disk) =
                (arguments.take_own_cid(ObjectKind::Vm)?, arguments.take_own_cid(ObjectKind::Disk)?);
            let cloud = require_cloud(call, &vm)?;
            match method {
                "attach_disk" => attach(call, &cloud, vm, disk),
                _ => detach(call, &cloud, vm, disk),
            }
        }
        "set_disk_metadata" => set_metadata(call, take(2, 2)?, ObjectKind::Disk),
        "get_disks" => {
            let cid = take(1, 1)?.take_own_cid(ObjectKind::Vm)?;
            let cloud = require_cloud(call, &cid)?;
            let disks = call.get_disks(&cloud, &cid)?;
            Ok(json!(disks.iter().map(Cid::as_str).collect::<Vec<_>>()))
        }
        "snapshot_disk" => {
            let mut arguments = take(1, 2)?;
            let cid = arguments.take_own_cid(ObjectKind::Disk)?;
            let metadata = arguments.take_hash("metadata")?;
            let cloud = open_cloud(call)?.ok_or_else(|| cid.not_found_error().before_any_effect())?;
            call.snapshot_disk(&cloud, &cid, metadata)
        }
        "delete_snapshot" => delete_unused(call, &take(1, 1)?.take_own_cid(ObjectKind::Snapshot)?),
        // Contract v1 requires this error; the caller then creates a new VM.
        "configure_networks" => Err(CpiFailure::new(
            FailureKind::NotSupported,
            format!("the networks of a VM of the '{}' CPI cannot be changed", C::NAME),
        )
        .before_any_effect()),
        _ => Err(CpiFailure::new(
            FailureKind::NotImplemented,
            format!("the '{}' CPI has no method '{}'", C::NAME, method.escape_debug()),
        )
        .before_any_effect()),
    }
}

/// Opens the cloud, or fails because the object cannot exist.
fn require_cloud(call: &mut impl CloudCall, cid: &Cid) -> CpiResult<Cloud> {
    open_cloud(call)?.ok_or_else(|| cid.not_found_error())
}

fn answer_has_object<C: CloudMethods>(
    call: &C,
    mut arguments: Arguments,
    kind: ObjectKind,
) -> CpiResult<Value> {
    let Ok(cid) = arguments.take_cid(kind)? else { return Ok(json!(false)) };
    let (root, prepare_removal) = call.cloud_settings();
    let Some(cloud) = Cloud::open(root, prepare_removal)? else { return Ok(json!(false)) };
    Ok(json!(match kind {
        ObjectKind::Disk => cloud.contains(&cid)? && C::has_data(&cloud, &cid)?,
        _ => cloud.contains(&cid)?,
    }))
}

fn set_metadata(call: &mut impl CloudCall, mut arguments: Arguments, kind: ObjectKind) -> CpiResult<Value> {
    let (cid, metadata) = (arguments.take_own_cid(kind)?, arguments.take_hash("metadata")?);
    let cloud = require_cloud(call, &cid)?;
    records::set_metadata(&cloud.lock_existing(&cid)?, &cid, metadata)?;
    Ok(Value::Null)
}

/// Deletes an object that no other object uses: a snapshot, or a stemcell, because each VM has its own copy.
fn delete_unused(call: &mut impl CloudCall, cid: &Cid) -> CpiResult<Value> {
    delete_in_cloud(call, |call, cloud| match cloud.lock(cid)? {
        Some(lock) => cloud.delete(cid, lock),
        None => {
            log_missing(call, cid);
            Ok(())
        }
    })
}

fn delete_disk<C: CloudMethods>(call: &mut C, cloud: &Cloud, cid: &Cid) -> CpiResult<()> {
    let Some(lock) = cloud.lock(cid)? else {
        log_missing(call, cid);
        return Ok(());
    };
    attachment::check_before_delete(cid, C::vm_that_blocks_deletion(cloud, cid)?.as_ref())?;
    cloud.delete(cid, lock)
}

fn log_missing(call: &mut impl CloudCall, cid: &Cid) {
    call.log_line(format_args!("{} '{cid}' does not exist: nothing to delete", cid.kind().noun()));
}

/// Locks a VM and a disk, and checks with `check_attachment` that the disk is not attached to another VM.
fn lock_disk_and_vm<C: CloudMethods>(
    cloud: &Cloud,
    vm: Cid,
    disk: Cid,
    check_attachment: fn(&Cid, &Cid, Option<&Cid>) -> CpiResult<bool>,
) -> CpiResult<DiskAndVm> {
    // Locks are taken in the order VM, disk.
    let (vm_lock, disk_lock) = (cloud.lock_existing(&vm)?, cloud.lock_existing(&disk)?);
    let is_attached = check_attachment(&disk, &vm, C::vm_of_disk(cloud, &disk)?.as_ref())?;
    Ok(DiskAndVm { disk, disk_lock, vm, vm_lock, is_attached })
}

/// `attach_disk`: also succeeds if the disk is already attached to this VM.
fn attach<C: CloudMethods>(call: &mut C, cloud: &Cloud, vm: Cid, disk: Cid) -> CpiResult<Value> {
    let disk_and_vm = lock_disk_and_vm::<C>(cloud, vm, disk, attachment::check_before_attach)?;
    let hint = call.attach_disk(&disk_and_vm)?;
    let (disk, vm) = (&disk_and_vm.disk, &disk_and_vm.vm);
    match disk_and_vm.is_attached {
        true => call.log_line(format_args!("disk '{disk}' is attached to VM '{vm}' already")),
        false => call.log_line(format_args!("disk '{disk}' attached to VM '{vm}'")),
    }
    Ok(hint)
}

/// `detach_disk`: also succeeds if the disk is already detached.
fn detach<C: CloudMethods>(call: &mut C, cloud: &Cloud, vm: Cid, disk: Cid) -> CpiResult<Value> {
    let disk_and_vm = lock_disk_and_vm::<C>(cloud, vm, disk, attachment::check_before_detach)?;
    call.detach_disk(&disk_and_vm)?;
    let (disk, vm) = (&disk_and_vm.disk, &disk_and_vm.vm);
    match disk_and_vm.is_attached {
        true => call.log_line(format_args!("disk '{disk}' detached from VM '{vm}'")),
        false => call.log_line(format_args!("disk '{disk}' is detached already")),
    }
    Ok(Value::Null)
}
