//! Delivers the settings of a VM's agent, and keeps its list of disks up to date.
//!
//! Under contract v2, and under v1 without a registry, the settings are a file in the VM, like a config
//! drive. Under contract v1 with a registry, the registry has them, and the VM gets user data with the
//! address of the registry. Contract v1 has no disk hints, so attached disks are listed in the settings.

use std::io::Write;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, openat, openat2, renameat, unlinkat};
use serde_json::{Value, json};

use super::boot::{SETTINGS_FILE, USER_DATA_FILE};
use super::disk;
use super::rpc::LocalCall;
use super::vm;
use crate::cpi::cid::Cid;
use crate::cpi::cloud::ObjectLock;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::files::{read_json, write_json};
use crate::registry_client::Client;
use base::JsonObject;

/// The directory of the agent's settings file in the VM, below the VM's directory.
const AGENT_DIRECTORY: &str = "root/var/vcap/bosh";

/// Delivers the settings of a VM that is being created. Returns true if they are in the registry.
pub(super) fn deliver(
    call: &mut LocalCall,
    directory: &Path,
    vm: &Cid,
    settings: JsonObject,
) -> CpiResult<bool> {
    match call.config.registry.as_ref().filter(|_| !call.is_v2) {
        None => {
            write_json(&directory.join(SETTINGS_FILE), &settings)?;
            Ok(false)
        }
        Some(registry) => {
            registry.create_client()?.put(vm.as_str(), &settings).map_err(registry_error)?;
            let data =
                json!({"registry": {"endpoint": registry.endpoint()}, "server": {"name": vm.as_str()}});
            write_json(&directory.join(USER_DATA_FILE), &data)?;
            call.log(format_args!("settings of VM '{vm}' stored in the registry"));
            Ok(true)
        }
    }
}

/// Deletes the settings of a deleted VM from the registry. A failure is logged and does not fail the call,
/// because the settings do no harm.
pub(super) fn withdraw(call: &mut LocalCall, vm: &Cid) {
    let Some(registry) = &call.config.registry else {
        call.log(format_args!("settings of VM '{vm}' stay in the registry: no registry is configured"));
        return;
    };
    if let Err(failure) =
        registry.create_client().and_then(|client| client.delete(vm.as_str()).map_err(registry_error))
    {
        call.log(format_args!("settings of VM '{vm}' stay in the registry: {failure}"));
    }
}

/// Adds an attached disk with its hint to the settings of a VM.
pub(super) fn add_disk(call: &LocalCall, lock: &ObjectLock, vm: &Cid, disk: &Cid) -> CpiResult<()> {
    change(call, lock, vm, |disks| {
        disks.insert(disk.to_string(), disk::hint(disk));
    })
}

/// Removes a disk from the settings of a VM.
pub(super) fn remove_disk(call: &LocalCall, lock: &ObjectLock, vm: &Cid, disk: &Cid) -> CpiResult<()> {
    change(call, lock, vm, |disks| {
        disks.remove(disk.as_str());
    })
}

/// Applies `change` to the persistent disks in the settings, in the registry or in the VM's files.
fn change(
    call: &LocalCall,
    lock: &ObjectLock,
    vm: &Cid,
    change: impl FnOnce(&mut JsonObject),
) -> CpiResult<()> {
    if vm::settings_are_in_registry(lock)? {
        let client = create_client(call, vm)?;
        let settings = client.get(vm.as_str()).map_err(registry_error)?;
        let mut settings = settings.ok_or_else(|| {
            CpiFailure::cloud(format!(
                "the registry has no settings of VM '{vm}', although the VM was created with them: recreate \
                    the VM"
            ))
        })?;
        change(persistent_disks(&mut settings)?);
        return client.put(vm.as_str(), &settings).map_err(registry_error);
    }
    let path = lock.path.join(SETTINGS_FILE);
    let mut settings: JsonObject = read_json(&path)?.ok_or_else(|| {
        let path = path.display();
        CpiFailure::cloud(format!("the settings of VM '{vm}' are missing ('{path}'): recreate the VM"))
    })?;
    change(persistent_disks(&mut settings)?);
    write_json(&path, &settings)?;
    // The first boot of a VM copies its settings there.
    if lock.path.join(AGENT_DIRECTORY).is_dir() {
        let text = serde_json::to_vec(&settings)
            .map_err(|error| CpiFailure::io(format_args!("encoding the settings of VM '{vm}'"), error))?;
        replace_settings_in_vm(&lock.path, &text)
            .map_err(|error| CpiFailure::io(format_args!("writing the settings inside VM '{vm}'"), error))?;
    }
    Ok(())
}

fn create_client(call: &LocalCall, vm: &Cid) -> CpiResult<Client> {
    match &call.config.registry {
        Some(registry) => registry.create_client(),
        None => Err(CpiFailure::cloud(format!(
            "the settings of VM '{vm}' are in a registry, but the CPI's configuration has no `registry`"
        ))),
    }
}

/// Returns `disks.persistent` of the settings. Creates it if it is missing or null.
fn persistent_disks(settings: &mut JsonObject) -> CpiResult<&mut JsonObject> {
    let mut section = settings;
    for key in ["disks", "persistent"] {
        let subsection = section.entry(key).or_insert_with(|| json!({}));
        if subsection.is_null() {
            *subsection = json!({});
        }
        let Value::Object(subsection) = subsection else {
            return Err(CpiFailure::cloud(format!("'{key}' in a VM's settings must be an object")));
        };
        section = subsection;
    }
    Ok(section)
}

/// Replaces the settings file in the VM's tree. Follows no links, because a VM may have created links that
/// lead out of its tree.
fn replace_settings_in_vm(vm_directory: &Path, text: &[u8]) -> std::io::Result<()> {
    const NEW_SETTINGS_FILE: &str = ".settings.json.new";
    let base = openat(rustix::fs::CWD, vm_directory, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    let directory = openat2(&base, AGENT_DIRECTORY, flags, Mode::empty(), resolve)?;
    match unlinkat(&directory, NEW_SETTINGS_FILE, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file =
        std::fs::File::from(openat(&directory, NEW_SETTINGS_FILE, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(text)?;
    file.sync_all()?;
    renameat(&directory, NEW_SETTINGS_FILE, &directory, SETTINGS_FILE)?;
    Ok(())
}

fn registry_error(error: base::Error) -> CpiFailure {
    CpiFailure::cloud(error.chain().join(": "))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn missing_and_null_disks_become_a_hash() {
        let mut settings = json!({"disks": {"system": null, "persistent": null}});
        let settings = settings.as_object_mut().unwrap();
        persistent_disks(settings).unwrap().insert("disk-1".into(), json!({"path": "/dev/x"}));
        assert_eq!(
            json!(settings),
            json!({"disks": {"system": null, "persistent": {"disk-1": {"path": "/dev/x"}}}})
        );
        assert!(persistent_disks(json!({"disks": 1}).as_object_mut().unwrap()).is_err());
    }

    #[test]
    fn settings_are_not_written_through_links() {
        let directory = tempfile::tempdir().unwrap();
        let outside_directory = directory.path().join("elsewhere");
        std::fs::create_dir_all(&outside_directory).unwrap();
        let vm = directory.path().join("vm");
        std::fs::create_dir_all(vm.join("root/var/vcap")).unwrap();
        symlink(&outside_directory, vm.join(AGENT_DIRECTORY)).unwrap();
        assert!(replace_settings_in_vm(&vm, b"{}").is_err());
        assert_eq!(std::fs::read_dir(&outside_directory).unwrap().count(), 0);

        std::fs::remove_file(vm.join(AGENT_DIRECTORY)).unwrap();
        std::fs::create_dir(vm.join(AGENT_DIRECTORY)).unwrap();
        symlink(outside_directory.join("file"), vm.join(AGENT_DIRECTORY).join(SETTINGS_FILE)).unwrap();
        replace_settings_in_vm(&vm, b"{}").unwrap();
        assert_eq!(std::fs::read(vm.join(AGENT_DIRECTORY).join(SETTINGS_FILE)).unwrap(), b"{}");
        assert!(!outside_directory.join("file").exists());
    }
}
