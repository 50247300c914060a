//! Dispatches a request: checks its arguments, connects to Ironic and the storage, and calls the method's
//! function.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::config::IronicConfig;
use super::storage::StorageTool;
use super::volume::{VolumeKind, VolumeName, not_found_error};
use super::{disk, leftovers, stemcell, vm};
use crate::cpi::agent_settings::AgentConfig;
use crate::cpi::args::Arguments;
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use crate::cpi::rpc::{Log, Request, VERSION, api_version, exchange};
use base::Result;
use base::redact::Redactor;
use base::stemcell_formats;
use ironic::{Client, SettingError};

/// The context of one request: connections, configuration and log.
pub(super) struct IronicCall<'a, 'l> {
    pub ironic: Client,
    pub storage: Box<dyn StorageTool>,
    pub config: CallConfig,
    /// True if contract v2 applies, see [`Request::parts`].
    pub is_v2: bool,
    /// The time that the deployment of a node may take.
    pub deploy_timeout: Duration,
    /// The time that a node may take to power on or off.
    pub power_timeout: Duration,
    /// The time during which the call waits for an Ironic that is not reachable.
    pub outage_timeout: Duration,
    log: &'a mut Log<'l>,
}

/// The part of the configuration that goes into the agent's settings.
pub(super) struct CallConfig {
    pub agent: AgentConfig,
    pub ntp: Vec<String>,
}

impl IronicCall<'_, '_> {
    /// Writes a line to standard error and to the answer's log. It must not contain secrets.
    pub(super) fn log(&mut self, line: impl std::fmt::Display) {
        self.log.write_line(line);
    }
}

/// Reads a request, carries it out and writes the answer.
pub(super) fn serve(
    config: &Path,
    request: impl Read,
    answer_out: impl Write,
    log: impl Write,
) -> Result<()> {
    exchange(request, answer_out, log, |request, log| answer(config, request, log))
}

/// Checks the number of arguments and the configuration, then dispatches the method. Errors up to the
/// connection to Ironic are marked as before any effect, so that the caller needs no suspect. Malformed CIDs
/// count as unknown ones.
fn answer(config: &Path, request: Request, log: &mut Log) -> CpiResult<Value> {
    let method = request.method.clone();
    let method = method.as_str();
    let (arguments, context, is_v2) = request.parts().map_err(CpiFailure::before_any_effect)?;
    let (minimum, maximum) = match method {
        "info" => (0, 0),
        "create_vm" => (5, 6),
        "create_disk" => (2, 3),
        "snapshot_disk" => (1, 2),
        "create_stemcell" | "set_vm_metadata" | "attach_disk" | "detach_disk" | "resize_disk" => (2, 2),
        "delete_stemcell" | "delete_vm" | "has_vm" | "reboot_vm" | "delete_disk" | "has_disk"
        | "get_disks" | "delete_snapshot" => (1, 1),
        // Contract v1 requires this error; the caller then creates a new VM.
        "configure_networks" => {
            let message = "the networks of a VM of the 'ironic' CPI cannot be changed";
            return Err(CpiFailure::new(FailureKind::NotSupported, message).before_any_effect());
        }
        _ => {
            let message = format!("the 'ironic' CPI has no method '{}'", method.escape_debug());
            return Err(CpiFailure::new(FailureKind::NotImplemented, message).before_any_effect());
        }
    };
    let mut arguments = Arguments::new(method, arguments, minimum, maximum)?;
    // `info` must work without a configuration.
    if method == "info" {
        let version = api_version(config, &context)?;
        return Ok(
            json!({"stemcell_formats": stemcell_formats::IRONIC, "api_version": version, "version": VERSION}),
        );
    }

    let config = IronicConfig::load(config, &context).map_err(CpiFailure::before_any_effect)?;
    let (deploy_timeout, power_timeout) = (config.deploy_timeout(), config.power_timeout());
    let outage_timeout = config.outage_timeout();
    // The run that started this process redacts the output that it shows.
    let access = config.ironic.check(&Redactor::default()).map_err(|SettingError { error, .. }| {
        let hints: String = error.hints().iter().map(|hint| format!(" ({hint})")).collect();
        let problem = error.chain().join(": ");
        CpiFailure::cloud(format!(
            "the section 'ironic' of the CPI's configuration is not valid: {problem}{hints}"
        ))
        .before_any_effect()
    })?;
    let storage = config.storage.open().map_err(CpiFailure::before_any_effect)?;
    let mut ironic = Client::connect(access).map_err(|error| CpiFailure::from(error).before_any_effect())?;
    ironic.set_outage_timeout(outage_timeout);
    let mut call = IronicCall {
        ironic,
        storage,
        config: CallConfig { agent: config.agent, ntp: config.ntp },
        is_v2,
        deploy_timeout,
        power_timeout,
        outage_timeout,
        log,
    };
    let call = &mut call;
    match method {
        "create_stemcell" => {
            let image = arguments.take_string("image_path")?;
            arguments.take_hash("cloud_properties")?;
            stemcell::create(call, Path::new(&image))
        }
        "delete_stemcell" => match take_volume(&mut arguments, VolumeKind::Stemcell)? {
            Ok(stemcell) => {
                leftovers::clean_up(call)?;
                stemcell::delete(call, &stemcell)
            }
            Err(failure) => Err(failure),
        },
        "create_vm" => {
            let agent_id = arguments.take_string("agent_id")?;
            let stemcell = take_volume(&mut arguments, VolumeKind::Stemcell)??;
            let cloud_properties = arguments.take_hash("cloud_properties")?;
            let networks = arguments.take_hash("networks")?;
            arguments.take_strings("disk_cids")?;
            let env = arguments.take_hash("environment")?;
            vm::create(call, vm::IronicVmArguments { agent_id, stemcell, cloud_properties, networks, env })
        }
        "delete_vm" => {
            let cid = take_vm_cid(&mut arguments)??;
            leftovers::clean_up(call)?;
            vm::delete(call, &cid)
        }
        "has_vm" => match take_vm_cid(&mut arguments)? {
            Ok(cid) => vm::exists(call, &cid),
            Err(_) => Ok(json!(false)),
        },
        "reboot_vm" => vm::reboot(call, &take_vm_cid(&mut arguments)??),
        "set_vm_metadata" => {
            let cid = take_vm_cid(&mut arguments)??;
            vm::set_metadata(call, &cid, arguments.take_hash("metadata")?)
        }
        "get_disks" => disk::list_disks(call, &take_vm_cid(&mut arguments)??),
        "create_disk" => {
            let size = arguments.take_size("size")?;
            arguments.take_hash("cloud_properties")?;
            disk::create(call, size)
        }
        "delete_disk" => disk::delete(call, &take_volume(&mut arguments, VolumeKind::Disk)??),
        "has_disk" => match take_volume(&mut arguments, VolumeKind::Disk)? {
            Ok(disk) => disk::exists(call, &disk),
            Err(_) => Ok(json!(false)),
        },
        "resize_disk" => {
            let disk = take_volume(&mut arguments, VolumeKind::Disk)??;
            disk::resize(call, &disk, arguments.take_size("new_size")?)
        }
        "attach_disk" | "detach_disk" => {
            let cid = take_vm_cid(&mut arguments)??;
            let disk = take_volume(&mut arguments, VolumeKind::Disk)??;
            match method {
                "attach_disk" => disk::attach(call, &cid, &disk),
                _ => disk::detach(call, &cid, &disk),
            }
        }
        "snapshot_disk" => {
            let disk = take_volume(&mut arguments, VolumeKind::Disk)??;
            arguments.take_hash("metadata")?;
            disk::snapshot(call, &disk)
        }
        _ => disk::delete_snapshot(call, &take_volume(&mut arguments, VolumeKind::Snapshot)??),
    }
}

/// Takes a CID. The inner error is "not found", because a malformed CID is treated like an unknown one.
fn take_volume(arguments: &mut Arguments, kind: VolumeKind) -> CpiResult<CpiResult<VolumeName>> {
    let text = arguments.take_string(match kind {
        VolumeKind::Stemcell => "stemcell_cid",
        VolumeKind::Root | VolumeKind::Config => "vm_cid",
        VolumeKind::Disk => "disk_cid",
        VolumeKind::Snapshot => "snapshot_cid",
    })?;
    Ok(VolumeName::parse(kind, &text).ok_or_else(|| not_found_error(kind, &text).before_any_effect()))
}

fn take_vm_cid(arguments: &mut Arguments) -> CpiResult<CpiResult<String>> {
    Ok(take_volume(arguments, VolumeKind::Root)?.map(|volume| volume.cid()))
}
