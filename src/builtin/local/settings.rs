//! The settings of a VM's agent, and where it finds them.
//!
//! Under contract 2, and under contract 1 where no registry is configured, they are a file in the VM, as config
//! drives are. Under contract 1 with a registry they are there, and the VM gets user data that say so. Contract 1
//! gives agents no hints, so disks are added to the settings and taken from them.

use std::io::Write;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, openat, openat2, renameat, unlinkat};
use serde_json::{Value, json};

use super::boot::{SETTINGS, USER_DATA};
use super::cid::Cid;
use super::disk;
use super::rpc::LocalCall;
use super::store::Held;
use super::vm;
use crate::cpi::args::Hash;
use crate::cpi::failure::{Failure, Outcome};
use crate::cpi::files::{read_json, write_json};
use crate::registry::Client;

/// Where the agent of a running VM has its file, below the VM's directory.
const INSIDE: &str = "root/var/vcap/bosh";

/// Puts the settings of a VM that is being made where its agent will look; whether that is the registry.
pub(super) fn deliver(call: &mut LocalCall, staged: &Path, vm: &Cid, settings: Hash) -> Outcome<bool> {
    match call.config.registry.as_ref().filter(|_| !call.v2) {
        None => {
            write_json(&staged.join(SETTINGS), &settings)?;
            Ok(false)
        }
        Some(registry) => {
            registry.client()?.put(vm.as_str(), &settings).map_err(failed)?;
            let data =
                json!({"registry": {"endpoint": registry.endpoint()}, "server": {"name": vm.as_str()}});
            write_json(&staged.join(USER_DATA), &data)?;
            call.log(format_args!("settings of VM '{vm}' are in the registry"));
            Ok(true)
        }
    }
}

/// Takes back what [`deliver`] did in the registry. A VM that is gone has no use for it, so that this fails is no
/// failure of the call.
pub(super) fn withdraw(call: &mut LocalCall, vm: &Cid) {
    let Some(registry) = &call.config.registry else {
        call.log(format_args!("no registry is configured, so none is told that VM '{vm}' is gone"));
        return;
    };
    if let Err(failure) = registry.client().and_then(|client| client.delete(vm.as_str()).map_err(failed)) {
        call.log(format_args!("settings of VM '{vm}' stay in the registry: {failure}"));
    }
}

/// Tells the agent of a VM how it finds an attached disk.
pub(super) fn add_disk(call: &LocalCall, held: &Held, vm: &Cid, disk: &Cid) -> Outcome<()> {
    change(call, held, vm, |disks| {
        disks.insert(disk.to_string(), disk::hint(disk));
    })
}

/// Takes a disk out of the settings of a VM.
pub(super) fn remove_disk(call: &LocalCall, held: &Held, vm: &Cid, disk: &Cid) -> Outcome<()> {
    change(call, held, vm, |disks| {
        disks.remove(disk.as_str());
    })
}

fn change(call: &LocalCall, held: &Held, vm: &Cid, change: impl FnOnce(&mut Hash)) -> Outcome<()> {
    if vm::settings_are_in_registry(held)? {
        let client = client(call, vm)?;
        let settings = client.get(vm.as_str()).map_err(failed)?;
        let mut settings = settings.ok_or_else(|| {
            Failure::cloud(format!("the registry has no settings of VM '{vm}', which was made with it"))
        })?;
        change(persistent_disks(&mut settings)?);
        return client.put(vm.as_str(), &settings).map_err(failed);
    }
    let path = held.path.join(SETTINGS);
    let mut settings: Hash = read_json(&path)?
        .ok_or_else(|| Failure::cloud(format!("VM '{vm}' has lost its settings '{}'", path.display())))?;
    change(persistent_disks(&mut settings)?);
    write_json(&path, &settings)?;
    // A VM that was never booted has no copy yet.
    if held.path.join(INSIDE).is_dir() {
        let text = serde_json::to_vec(&settings).map_err(|error| Failure::io("encoding settings", error))?;
        replace_inside(&held.path, &text)
            .map_err(|error| Failure::io(format_args!("writing the settings inside VM '{vm}'"), error))?;
    }
    Ok(())
}

fn client(call: &LocalCall, vm: &Cid) -> Outcome<Client> {
    match &call.config.registry {
        Some(registry) => registry.client(),
        None => Err(Failure::cloud(format!(
            "VM '{vm}' takes its settings from a registry, but none is configured"
        ))),
    }
}

fn persistent_disks(settings: &mut Hash) -> Outcome<&mut Hash> {
    let mut at = settings;
    for key in ["disks", "persistent"] {
        let next = at.entry(key).or_insert_with(|| json!({}));
        if next.is_null() {
            *next = json!({});
        }
        let Value::Object(next) = next else {
            return Err(Failure::cloud(format!("'{key}' in a VM's settings must be a hash")));
        };
        at = next;
    }
    Ok(at)
}

/// Replaces the file in the VM's own tree, where the VM may have put links that lead out of it.
fn replace_inside(vm_dir: &Path, text: &[u8]) -> std::io::Result<()> {
    const NEW: &str = ".settings.json.new";
    let base = openat(rustix::fs::CWD, vm_dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    let directory = openat2(&base, INSIDE, flags, Mode::empty(), resolve)?;
    match unlinkat(&directory, NEW, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = std::fs::File::from(openat(&directory, NEW, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(text)?;
    file.sync_all()?;
    renameat(&directory, NEW, &directory, SETTINGS)?;
    Ok(())
}

fn failed(error: base::Error) -> Failure {
    Failure::cloud(error.chain().join(": "))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn disks_are_added_where_there_were_none() {
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
    fn a_vm_cannot_have_settings_written_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::fs::create_dir_all(&elsewhere).unwrap();
        let vm = dir.path().join("vm");
        std::fs::create_dir_all(vm.join("root/var/vcap")).unwrap();
        symlink(&elsewhere, vm.join(INSIDE)).unwrap();
        assert!(replace_inside(&vm, b"{}").is_err());
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);

        std::fs::remove_file(vm.join(INSIDE)).unwrap();
        std::fs::create_dir(vm.join(INSIDE)).unwrap();
        symlink(elsewhere.join("file"), vm.join(INSIDE).join(SETTINGS)).unwrap();
        replace_inside(&vm, b"{}").unwrap();
        assert_eq!(std::fs::read(vm.join(INSIDE).join(SETTINGS)).unwrap(), b"{}");
        assert!(!elsewhere.join("file").exists());
    }
}
