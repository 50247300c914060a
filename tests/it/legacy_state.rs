//! Files of other tools and other users: an old state of the bosh CLI, and a state of another user.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use crate::support::hello::Hello;
use crate::support::scripted::{InfoAnswer, Reaction, Script};

const OLD_STATE_FILE: &str = "hello/bosh-deployments.yml";
const MIGRATED_STATE: &str = "hello/bosh-deployments.yml.migrated";

/// Deploys, and replaces the state with the record of an old tool.
fn deploy_long_ago() -> Hello {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let state = hello.state();
    let text = format!(
        "---\ninstances:\n- :id: 1\n  :name: micro\n  :vm_cid: {}\n  :disk_cid: {}\n  :stemcell_cid: \
            {}\ndisks: []\n",
        state["current_vm_cid"].as_str().unwrap(),
        state["disks"][0]["cid"].as_str().unwrap(),
        state["stemcells"][0]["cid"].as_str().unwrap(),
    );
    hello.world.write(OLD_STATE_FILE, text);
    std::fs::remove_file(hello.world.path("state.json")).unwrap();
    for folder in ["state.json.versions", "state.json.journal"] {
        let _ = std::fs::remove_dir_all(hello.world.path(folder));
    }
    let _ = std::fs::remove_file(hello.world.path("state.json.bak"));
    hello.take_requests();
    hello
}

#[test]
fn legacy_state_is_converted() {
    let hello = deploy_long_ago();
    let plan = hello.world.finish(hello.command("plan", &["--out", "plan.json"])).success();
    assert!(plan.stderr.contains("create-env will convert the old state"), "{}", plan.stderr);
    assert!(plan.stdout.contains("Delete VM"), "{}", plan.stdout);
    assert!(hello.world.exists(OLD_STATE_FILE) && !hello.world.exists("state.json"), "plan wrote something");
    let run = hello.create(&["--plan", "plan.json"]).success();
    assert!(run.stdout.contains("converted the old state"), "{}", run.stdout);
    assert!(hello.world.exists(MIGRATED_STATE) && !hello.world.exists(OLD_STATE_FILE));
    let requests = hello.take_requests();
    let methods = Hello::methods(&requests);
    for method in ["delete_vm", "resize_disk", "delete_stemcell"] {
        assert_eq!(methods.iter().filter(|other| **other == method).count(), 1, "{method}: {methods:?}");
    }
    assert_eq!(hello.ask_counter(), 2, "the disk has grown and keeps its data");
    // The state is not converted a second time.
    hello.delete(&[]).success();
    hello.delete(&[]).exits_with(3);
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn delete_env_works_with_a_legacy_state() {
    let hello = deploy_long_ago();
    hello.delete(&[]).success();
    assert!(hello.world.exists(MIGRATED_STATE));
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn rejects_an_ambiguous_legacy_state() {
    let hello = Hello::new();
    hello.world.write(OLD_STATE_FILE, "instances: [{vm_cid: a}, {vm_cid: b}]\n");
    for command in ["plan", "create-env", "delete-env"] {
        let run = hello.world.finish(hello.command(command, &["-n"])).exits_with(3);
        assert!(run.stderr.contains("it has 2 instances"), "{}", run.stderr);
        assert!(run.stderr.contains("monopile state import"), "{}", run.stderr);
    }
    assert!(hello.take_requests().is_empty());
    assert!(!hello.world.exists("state.json") && hello.world.exists(OLD_STATE_FILE));
}

/// Returns the owners of a file, or of a directory and everything in it.
fn owners(path: &Path) -> BTreeSet<(u32, u32)> {
    let entries = walkdir::WalkDir::new(path).into_iter().map(Result::unwrap);
    entries.map(|entry| entry.metadata().unwrap()).map(|metadata| (metadata.uid(), metadata.gid())).collect()
}

#[test]
fn root_keeps_the_owner_of_the_state() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let hello = Hello::new();
    hello.create(&[]).success();
    let user = (54321, 54322);
    for entry in std::fs::read_dir(hello.world.path(".")).unwrap() {
        let name = entry.unwrap().file_name();
        let name = name.to_str().unwrap();
        if name.starts_with("state.json") || name == "creds.yml" {
            for entry in walkdir::WalkDir::new(hello.world.path(name)) {
                chown(entry.unwrap().path(), Some(user.0), Some(user.1)).unwrap();
            }
        }
    }
    let only_user = BTreeSet::from([user]);
    // A call whose answer cannot be used leaves the journal. The lock is checked during the call.
    let path = |name: &str| hello.world.path(name).display().to_string();
    let look = format!("stat -c '%u %g' {} > {}; echo", path("state.json.lock"), path("look"));
    let script = Script::with_info(InfoAnswer::Local).first("create_vm", 9, Reaction::Instead(look));
    hello.set_script(script);
    hello.create(&["--recreate"]).exits_with(1);
    assert_eq!(hello.world.read("look"), format!("{} {}\n", user.0, user.1));
    for name in ["state.json", "state.json.bak", "state.json.versions", "state.json.journal", "creds.yml"] {
        assert_eq!(owners(&hello.world.path(name)), only_user, "{name}");
    }
    assert!(std::fs::read_dir(hello.world.path("state.json.journal")).unwrap().count() >= 2);
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.create(&["--forget-open-calls"]).success();
    hello.world.run(["vars", "rotate", "creds.yml", "mbus_bootstrap_password"]).success();
    for name in ["state.json", "state.json.bak", "creds.yml"] {
        assert_eq!(owners(&hello.world.path(name)), only_user, "{name}");
    }
    hello.create(&[]).success();
    hello.delete(&[]).success();
}
