//! Dispatches a request: checks its arguments, opens the cloud, and calls the method's function.

use std::io::{Read, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::config::{Config, stemcell_formats};
use super::programs::Programs;
use super::{disk, process, snapshot, stemcell, vm};
use crate::cpi::args::Arguments;
use crate::cpi::cid::ObjectKind;
use crate::cpi::cloud::{Cloud, Vacate};
use crate::cpi::cloud_call::{CloudCall, creating, deleting, existing};
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use crate::cpi::machine;
use crate::cpi::rpc::{Log, Request, VERSION, api_version, exchange};
use base::Result;

/// The context of one request.
pub(super) struct QemuCall<'a, 'l> {
    pub executable: &'a Path,
    pub config: Config,
    /// True if contract v2 applies, see [`Request::parts`].
    pub is_v2: bool,
    log: &'a mut Log<'l>,
}

impl QemuCall<'_, '_> {
    /// Writes a line to standard error and to the answer's log. It must not contain secrets.
    pub(super) fn log(&mut self, line: impl std::fmt::Display) {
        self.log.line(line);
    }

    /// Returns QEMU's programs.
    pub(super) fn programs(&self) -> Programs {
        Programs::new(self.config.program_directory.as_deref())
    }
}

impl CloudCall for QemuCall<'_, '_> {
    fn cloud(&self) -> (&Path, Vacate) {
        (&self.config.root, process::vacate)
    }

    fn log_line(&mut self, line: std::fmt::Arguments<'_>) {
        self.log.line(line);
    }
}

/// Reads a request, carries it out and writes the answer.
pub(super) fn serve(
    config: &Path,
    executable: &Path,
    request: impl Read,
    response: impl Write,
    log: impl Write,
) -> Result<()> {
    exchange(request, response, log, |request, log| answer(config, executable, request, log))
}

fn answer(config: &Path, executable: &Path, request: Request, log: &mut Log) -> CpiResult<Value> {
    let method = request.method.clone();
    let (arguments, context, is_v2) = request.parts().map_err(CpiFailure::before_any_effect)?;
    let method = method.as_str();
    let take = |least, most| Arguments::new(method, arguments, least, most);
    // These two methods must work without a complete configuration.
    match method {
        "info" => {
            take(0, 0)?;
            let formats = stemcell_formats(config, &context)?;
            let api_version = api_version(config, &context)?;
            return Ok(json!({"stemcell_formats": formats, "api_version": api_version, "version": VERSION}));
        }
        "calculate_vm_cloud_properties" => {
            return machine::calculate_cloud_properties(take(1, 1)?.hash("desired_instance_size")?);
        }
        _ => {}
    }

    let config = Config::load(config, &context).map_err(CpiFailure::before_any_effect)?;
    let mut call = QemuCall { executable, config, is_v2, log };
    let call = &mut call;
    match method {
        "create_stemcell" => {
            let mut arguments = take(2, 2)?;
            let (image, properties) = (arguments.string("image_path")?, arguments.hash("cloud_properties")?);
            creating(call, |call, cloud| stemcell::create(call, cloud, Path::new(&image), properties))
        }
        "delete_stemcell" => {
            let cid = take(1, 1)?.own_cid(ObjectKind::Stemcell)?;
            deleting(call, |call, cloud| stemcell::delete(call, cloud, &cid))
        }
        "create_vm" => {
            let mut arguments = take(5, 6)?;
            let vm_request = vm::VmRequest {
                agent_id: arguments.string("agent_id")?,
                stemcell: arguments.own_cid(ObjectKind::Stemcell)?,
                cloud_properties: arguments.hash("cloud_properties")?,
                networks: arguments.hash("networks")?,
                disk_cids: arguments.strings("disk_cids")?,
                env: arguments.hash("environment")?,
            };
            creating(call, |call, cloud| vm::create(call, cloud, vm_request))
        }
        "delete_vm" => {
            let cid = take(1, 1)?.own_cid(ObjectKind::Vm)?;
            deleting(call, |call, cloud| vm::delete(call, cloud, &cid))
        }
        "has_vm" => has(call, take(1, 1)?, ObjectKind::Vm),
        "reboot_vm" => {
            let cid = take(1, 1)?.own_cid(ObjectKind::Vm)?;
            let cloud = existing(call)?.ok_or_else(|| cid.not_found())?;
            vm::reboot(call, &cloud, &cid)
        }
        "set_vm_metadata" => {
            let mut arguments = take(2, 2)?;
            let (cid, metadata) = (arguments.own_cid(ObjectKind::Vm)?, arguments.hash("metadata")?);
            vm::set_metadata(&existing(call)?.ok_or_else(|| cid.not_found())?, &cid, metadata)
        }
        "create_disk" => {
            let mut arguments = take(2, 3)?;
            let (size, properties) = (arguments.size("size")?, arguments.hash("cloud_properties")?);
            creating(call, |call, cloud| disk::create(call, cloud, size, &properties))
        }
        "delete_disk" => {
            let cid = take(1, 1)?.own_cid(ObjectKind::Disk)?;
            deleting(call, |call, cloud| disk::delete(call, cloud, &cid))
        }
        "resize_disk" | "update_disk" => {
            let count = if method == "update_disk" { 3 } else { 2 };
            let mut arguments = take(count, count)?;
            let (cid, size) = (arguments.own_cid(ObjectKind::Disk)?, arguments.size("new_size")?);
            let cloud_properties = match method {
                "update_disk" => Some(arguments.hash("cloud_properties")?),
                _ => None,
            };
            let cloud = existing(call)?.ok_or_else(|| cid.not_found())?;
            disk::update(call, &cloud, &cid, size, cloud_properties.as_ref())
        }
        "has_disk" => has(call, take(1, 1)?, ObjectKind::Disk),
        "attach_disk" | "detach_disk" => {
            let mut arguments = take(2, 2)?;
            let (vm, disk) = (arguments.own_cid(ObjectKind::Vm)?, arguments.own_cid(ObjectKind::Disk)?);
            let cloud = existing(call)?.ok_or_else(|| vm.not_found())?;
            match method {
                "attach_disk" => disk::attach(call, &cloud, &vm, &disk),
                _ => disk::detach(call, &cloud, &vm, &disk),
            }
        }
        "set_disk_metadata" => {
            let mut arguments = take(2, 2)?;
            let (cid, metadata) = (arguments.own_cid(ObjectKind::Disk)?, arguments.hash("metadata")?);
            disk::set_metadata(&existing(call)?.ok_or_else(|| cid.not_found())?, &cid, metadata)
        }
        "get_disks" => {
            let cid = take(1, 1)?.own_cid(ObjectKind::Vm)?;
            vm::disks(&existing(call)?.ok_or_else(|| cid.not_found())?, &cid)
        }
        "snapshot_disk" => {
            let mut arguments = take(1, 2)?;
            let cid = arguments.own_cid(ObjectKind::Disk)?;
            let metadata = arguments.hash("metadata")?;
            let cloud = existing(call)?.ok_or_else(|| cid.not_found().before_any_effect())?;
            snapshot::create(call, &cloud, &cid, metadata)
        }
        "delete_snapshot" => {
            let cid = take(1, 1)?.own_cid(ObjectKind::Snapshot)?;
            deleting(call, |call, cloud| snapshot::delete(call, cloud, &cid))
        }
        // Contract v1 requires this error; the caller then creates a new VM.
        "configure_networks" => Err(CpiFailure::new(
            FailureKind::NotSupported,
            "the networks of a VM of the 'qemu' CPI cannot be changed",
        )
        .before_any_effect()),
        _ => Err(CpiFailure::new(
            FailureKind::NotImplemented,
            format!("the 'qemu' CPI has no method '{}'", method.escape_debug()),
        )
        .before_any_effect()),
    }
}

fn has(call: &QemuCall, mut arguments: Arguments, kind: ObjectKind) -> CpiResult<Value> {
    let Ok(cid) = arguments.cid(kind)? else { return Ok(json!(false)) };
    let (root, vacate) = call.cloud();
    let Some(cloud) = Cloud::open(root, vacate)? else { return Ok(json!(false)) };
    Ok(json!(match kind {
        ObjectKind::Disk => disk::exists(&cloud, &cid)?,
        _ => cloud.has(&cid)?,
    }))
}
