//! Persistent disks: directories that the agent binds to `store`.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::agent_vm::AgentVm;

fn create_disk(vm: &AgentVm, cid: &str) -> (PathBuf, Value) {
    let path = vm.directory.path().join("dev").join(cid);
    std::fs::create_dir_all(&path).unwrap();
    let hint = json!({"path": path});
    (path, hint)
}

#[test]
fn disk_is_added_mounted_listed_and_unmounted() {
    let vm = AgentVm::new();
    let (path, hint) = create_disk(&vm, "disk-1");
    let store = vm.base().join("store");
    assert_eq!(vm.call("list_disk", json!([])), Ok(json!([])));
    assert_eq!(vm.call("add_persistent_disk", json!(["disk-1", hint])), Ok(json!({})));
    assert_eq!(vm.call("list_disk", json!([])), Ok(json!([])));
    for _ in 0..2 {
        assert_eq!(vm.call("mount_disk", json!(["disk-1"])), Ok(json!({})));
        assert_eq!(vm.call("list_disk", json!([])), Ok(json!(["disk-1"])));
    }
    std::fs::write(vm.inside(&store).join("data"), "precious").unwrap();
    assert_eq!(std::fs::read_to_string(path.join("data")).unwrap(), "precious");
    assert!(!store.join("data").exists(), "the mount is the VM's own");
    let full = vm.call("get_state", json!(["full"])).unwrap();
    assert!(full["vitals"]["disk"]["persistent"].is_object(), "{full}");

    let answer = vm.call("unmount_disk", json!(["disk-1"])).unwrap();
    assert_eq!(answer, json!({"message": "Unmounted partition of disk 'disk-1'"}));
    let second_answer = vm.call("unmount_disk", json!(["disk-1"])).unwrap();
    assert_eq!(second_answer, json!({"message": "Partition of disk 'disk-1' is not mounted"}));
    assert_eq!(vm.call("list_disk", json!([])), Ok(json!([])));
    assert_eq!(vm.call("remove_persistent_disk", json!(["disk-1"])), Ok(json!({})));
    assert!(
        vm.call("mount_disk", json!(["disk-1"]))
            .unwrap_err()
            .ends_with("Persistent disk with volume id 'disk-1' could not be found")
    );
}

#[test]
fn disks_come_from_settings_or_a_mount_hint() {
    let vm = AgentVm::new();
    let (_, one) = create_disk(&vm, "one");
    let (two, _) = create_disk(&vm, "two");
    vm.write_settings(json!({"disks": {"persistent": {"one": one}}}));
    vm.call("mount_disk", json!(["one"])).unwrap();
    vm.call("unmount_disk", json!(["one"])).unwrap();
    vm.call("mount_disk", json!(["two", two])).unwrap();
    assert_eq!(vm.call("list_disk", json!([])), Ok(json!(["two"])));
}

#[test]
fn rejects_unusable_disk_hints() {
    let vm = AgentVm::new();
    for (cid, hint, text) in [
        (
            "a",
            json!({"volume_id": "v"}),
            "the disk hint has no 'path', which this agent needs (keys: volume_id)",
        ),
        ("b", json!({"path": "/nowhere/at/all"}), "device '/nowhere/at/all' is missing"),
        ("c", json!({"path": vm.settings()}), "is not a directory"),
        ("d", json!(null), "the disk hint has no 'path'"),
    ] {
        vm.call("add_persistent_disk", json!([cid, hint])).unwrap();
        let error = vm.call("mount_disk", json!([cid])).unwrap_err();
        assert!(error.contains(text), "{error}");
    }
    assert_eq!(vm.call("list_disk", json!([])), Ok(json!([])));
    assert!(vm.call("add_persistent_disk", json!(["", "/x"])).is_err());
    assert!(
        vm.call("migrate_disk", json!([]))
            .unwrap_err()
            .contains("Migrating persistent disk: no disk is mounted")
    );
}

#[test]
fn migrate_disk_moves_data_to_the_second_disk() {
    let vm = AgentVm::new();
    let (old, old_hint) = create_disk(&vm, "old");
    let (new, new_hint) = create_disk(&vm, "new");
    let (_, third) = create_disk(&vm, "third");
    std::fs::create_dir(old.join("dir")).unwrap();
    std::fs::write(old.join("dir/file"), "precious").unwrap();
    for (cid, hint) in [("old", old_hint), ("new", new_hint), ("third", third)] {
        vm.call("add_persistent_disk", json!([cid, hint])).unwrap();
    }
    vm.call("mount_disk", json!(["old"])).unwrap();
    vm.call("mount_disk", json!(["new"])).unwrap();
    assert_eq!(vm.call("list_disk", json!([])), Ok(json!(["new", "old"])));
    assert!(vm.call("mount_disk", json!(["third"])).unwrap_err().contains("two other disks are mounted"));
    assert_eq!(vm.call("migrate_disk", json!([])), Ok(json!({})));
    assert_eq!(vm.call("list_disk", json!([])), Ok(json!(["new"])));
    let store = vm.inside(&vm.base().join("store"));
    assert_eq!(std::fs::read_to_string(store.join("dir/file")).unwrap(), "precious");
    std::fs::write(store.join("later"), "x").unwrap();
    assert!(new.join("later").exists() && !old.join("later").exists());
    std::fs::write(old.join("still"), "writable").unwrap();
}

#[test]
fn busy_disk_is_not_unmounted_and_its_user_named() {
    let vm = AgentVm::new();
    let (_, hint) = create_disk(&vm, "disk");
    vm.call("mount_disk", json!(["disk", hint])).unwrap();
    let pidfile = vm.base().join("sys/run/holder.pid");
    let holder = format!(
        "#!/bin/bash\ncd {}/store\nsleep 1000 >/dev/null 2>&1 &\necho $! > {}\n",
        vm.base().display(),
        pidfile.display()
    );
    vm.apply(&[("holder", &[("bin/pre-start", &holder)])], json!({})).unwrap();
    vm.call("run_script", json!(["pre-start", {}])).unwrap();
    let error = vm.call("unmount_disk", json!(["disk"])).unwrap_err();
    let pid = std::fs::read_to_string(&pidfile).unwrap();
    assert!(error.contains(&format!("in use by {} (sleep)", pid.trim())), "{error}");
    super::agent_vm::kill_recorded(&pidfile);
    vm.call("unmount_disk", json!(["disk"])).unwrap();
}
