//! The complete life of an environment, as README describes it.

use serde_json::{Value, json};

use crate::support::hello::{Hello, release_tarball, tarball_ops};
use crate::support::scripted::{InfoAnswer, Reaction, Script};
use crate::support::tarballs::{StemcellTarball, sha1, sha256};

const GREETING: &str = "\
- type: replace
  path: /instance_groups/name=hello/jobs/name=hello/properties/greeting?
  value: Ahoy
";

#[test]
fn create_update_delete_leaves_nothing_behind() {
    let mut hello = Hello::without_vars_store();

    let run = hello.create(&[]).success();
    assert!(run.stdout.contains("Succeeded"), "{}", run.stdout);
    let (greeting, first) = hello.ask_greeting_and_counter();
    assert_eq!(first, 1);
    assert_ne!(greeting, "Ahoy");
    assert_eq!(hello.ask_counter(), 2);
    let requests = hello.take_requests();
    assert_eq!(
        Hello::methods(&requests),
        [
            "info",
            "create_stemcell",
            "create_vm",
            "set_vm_metadata",
            "create_disk",
            "attach_disk",
            "set_disk_metadata"
        ]
    );
    check_requests(&requests, &hello.state());
    let state = hello.normalise(&hello.world.read("state.json"));
    let state =
        regex::Regex::new("\"[0-9a-f]{32}\"").unwrap().replace_all(&state, "\"<digest>\"").into_owned();
    let durations = regex::Regex::new(r"\[\s*\d+\s*\]").unwrap();
    insta::assert_snapshot!("state", durations.replace_all(&state, "[<ms>]"));

    // An unchanged run does nothing, and starts no CPI process.
    let state_before = hello.state();
    let run = hello.create(&[]).success();
    assert!(run.stdout.contains("Nothing to do"), "{}", run.stdout);
    assert!(hello.take_requests().is_empty());
    assert_eq!(hello.state(), state_before);
    assert_eq!(hello.ask_counter(), 3);

    // A changed property reaches the running VM.
    hello.add_ops("greeting.yml", GREETING);
    hello.create(&[]).success();
    assert_eq!(hello.ask_greeting_and_counter(), ("Ahoy".to_owned(), 4));
    assert_eq!(Hello::methods(&hello.take_requests()), ["info"]);
    assert_eq!(hello.state()["current_vm_cid"], state_before["current_vm_cid"]);

    // `--recreate` creates a new VM, and the counter is kept.
    hello.create(&["--recreate"]).success();
    assert_eq!(hello.ask_greeting_and_counter(), ("Ahoy".to_owned(), 5));
    let requests = hello.take_requests();
    assert_eq!(
        Hello::methods(&requests),
        ["info", "has_vm", "delete_vm", "create_vm", "set_vm_metadata", "attach_disk", "set_disk_metadata"]
    );
    check_requests(&requests, &hello.state());

    // A changed release is also deployed.
    let packaging = hello.world.read("hello/release/src/greeting/greeting.txt");
    hello.world.write("hello/release/src/greeting/greeting.txt", format!("{packaging}more\n"));
    let run = hello.create(&[]).success();
    assert!(!run.stdout.contains("Nothing to do"), "{}", run.stdout);
    assert_eq!(hello.ask_counter(), 6);
    hello.take_requests();

    let run = hello.delete(&[]).success();
    for step in
        ["pre-stop", "Draining", "Stopping", "post-stop", "Unmounting", "Deleting VM", "Deleting disk"]
    {
        assert!(run.stdout.contains(step), "{step}: {}", run.stdout);
    }
    assert_eq!(
        Hello::methods(&hello.take_requests()),
        ["info", "has_vm", "delete_vm", "delete_disk", "delete_stemcell"]
    );
    assert!(!hello.answers());
    for file in ["state.json", "state.json.bak", "state.json.lock", "state.json.journal"] {
        assert!(!hello.world.exists(file), "{file} is left");
    }
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn ten_changes_in_a_row_keep_the_vm_and_the_counter() {
    let mut hello = Hello::new();
    hello.create(&[]).success();
    let vm = hello.state()["current_vm_cid"].clone();
    assert_eq!(hello.ask_counter(), 1);
    hello.add_ops("greeting.yml", "");
    for round in 1..=10 {
        hello.world.write("greeting.yml", GREETING.replace("Ahoy", &format!("Round {round}")));
        hello.create(&[]).success();
        assert_eq!(hello.ask_greeting_and_counter(), (format!("Round {round}"), round + 1));
        assert_eq!(hello.state()["current_vm_cid"], vm);
    }
    for command in ["restart", "stop-env", "start-env", "restart", "stop-env"] {
        hello.world.finish(hello.command(command, &[])).success();
        assert_eq!(hello.answers(), command != "stop-env", "{command}");
    }
    hello.world.finish(hello.command("start-env", &[])).success();
    assert_eq!(hello.ask_counter(), 12);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn missing_program_is_reported_before_any_effect() {
    let hello = Hello::new();
    let stemcell = "hello/stemcell/stemcell.MF";
    let manifest = hello.world.read(stemcell);
    assert!(manifest.contains("needs: {perl: perl}"), "{manifest}");
    hello.world.write(stemcell, manifest.replace("{perl: perl}", "{no-such-perl: perl}"));
    let builtin = |command: &str| hello.world.finish(hello.builtin_command(&[command], &["-n"]));
    let run = builtin("create-env").exits_with(1);
    assert!(run.stderr.contains("this machine lacks 'no-such-perl' (package 'perl')"), "{}", run.stderr);
    assert!(run.stderr.contains("`apt-get install perl`"), "{}", run.stderr);
    // Nothing was created, and there are no suspects.
    assert_eq!(hello.leftovers(), Vec::<String>::new());

    // With the program in place, the same command succeeds.
    hello.world.write(stemcell, manifest);
    let run = builtin("create-env").success();
    assert!(!run.stderr.contains("may have created"), "{}", run.stderr);
    assert_eq!(hello.ask_counter(), 1);
    builtin("delete-env").success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// Checks the context of requests: without properties for the only `info`, complete for every later call.
fn check_requests(requests: &[Value], state: &Value) {
    let director = &state["director_id"];
    assert_eq!(requests.iter().filter(|request| request["method"] == "info").count(), 1);
    let mut ids = std::collections::BTreeSet::new();
    for request in requests {
        let context = &request["context"];
        assert_eq!(&context["director_uuid"], director, "{request}");
        assert!(ids.insert(context["request_id"].as_str().unwrap().to_owned()), "a request id came twice");
        if request["method"] == "info" {
            assert_eq!(request["arguments"], json!([]));
            assert!(context.get("vm").is_none() && request.get("api_version").is_none(), "{request}");
        } else {
            assert_eq!(request["api_version"], 2, "{request}");
            assert_eq!(context["vm"]["stemcell"]["api_version"], 3, "{request}");
        }
    }
}

#[test]
fn larger_disk_keeps_its_data() {
    let size = |hello: &mut Hello, size: u64| {
        let ops = format!("- {{type: replace, path: /disk_pools/name=disks/disk_size, value: {size}}}\n");
        hello.add_ops("disk.yml", &ops);
    };
    let mut hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let old = hello.state()["disks"][0].clone();
    hello.take_requests();

    size(&mut hello, 1536);
    hello.create(&["--snapshot=1h"]).success();
    assert_eq!(hello.ask_counter(), 2);
    let resize = ["create_vm", "set_vm_metadata", "resize_disk", "attach_disk", "set_disk_metadata"];
    assert_eq!(
        Hello::methods(&hello.take_requests()),
        [&["info", "has_vm", "snapshot_disk", "delete_vm"], &resize[..]].concat()
    );
    let state = hello.state();
    let disk = &state["disks"][0];
    assert_eq!((&disk["cid"], &disk["id"], &disk["size"]), (&old["cid"], &old["id"], &json!(1536)));
    let snapshots = state["monopile"]["snapshots"].as_array().unwrap();
    let [keep_until, created_at] =
        ["keep_until", "created_at"].map(|key| snapshots[0][key].as_str().unwrap());
    assert!(snapshots.len() == 1 && keep_until > created_at, "{snapshots:?}");
    hello
        .world
        .write("state.json", hello.world.read("state.json").replace(keep_until, "2020-01-01T00:00:00Z"));

    // An error is no answer that the CPI cannot.
    size(&mut hello, 2048);
    let script = Script::with_info(InfoAnswer::Local);
    hello.set_script(script.clone().fail("resize_disk", 1, "Bosh::Clouds::CloudError", false));
    let run = hello.create(&[]).exits_with(1);
    assert!(run.stderr.contains(" --recreate-persistent-disks`"), "{}", run.stderr);
    assert_eq!((&hello.state()["disks"][0]["size"], hello.calls("create_disk")), (&json!(1536), 0));

    // The outcome of the call is not known, so it is repeated, and then declined.
    hello.set_script(script.clone().first("resize_disk", 1, Reaction::After("true".to_owned())));
    hello.create(&[]).exits_with(1);
    hello.set_script(script.without_method("resize_disk", 1));
    hello.take_requests();
    let run = hello.create(&[]).success();
    assert!(run.stdout.contains("the CPI cannot, so the data is copied to a new disk"), "{}", run.stdout);
    assert_eq!(hello.ask_counter(), 3);
    assert_eq!(
        Hello::methods(&hello.take_requests()),
        [
            "info",
            "has_vm",
            "delete_vm",
            "create_vm",
            "set_vm_metadata",
            "resize_disk",
            "attach_disk",
            "set_disk_metadata",
            "create_disk",
            "attach_disk",
            "set_disk_metadata",
            "detach_disk",
            "delete_disk",
            "delete_snapshot"
        ]
    );
    let state = hello.state();
    assert_eq!(state["disks"].as_array().unwrap().len(), 1);
    assert_ne!(state["disks"][0]["cid"], old["cid"]);
    assert_eq!(state["disks"][0]["size"], 2048);
    assert_eq!(state["current_disk_id"], state["disks"][0]["id"]);

    // A CPI without snapshots does not stop the run.
    hello.set_script(Script::with_info(InfoAnswer::Local).without_method("snapshot_disk", 0));
    let run = hello.create(&["--recreate-persistent-disks", "--snapshot"]).success();
    assert!(run.stderr.contains("has no snapshot, because the CPI cannot"), "{}{}", run.stdout, run.stderr);
    assert_eq!(hello.calls("snapshot_disk"), 1);
    hello.forget_suspects();
    assert_eq!(hello.ask_counter(), 4);
    assert_ne!(hello.state()["disks"][0]["cid"], state["disks"][0]["cid"]);

    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn dead_vm_is_replaced_and_its_disk_survives() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    hello.create(&["--recreate", "--skip-drain"]).success();
    assert_eq!(hello.ask_counter(), 2);
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn create_and_delete_work_with_tarballs() {
    let mut hello = Hello::new();
    let release = release_tarball(&hello).build();
    let stemcell = StemcellTarball::default().build();
    hello.world.write("release.tgz", &release);
    hello.world.write("stemcell.tgz", &stemcell);
    let ops = tarball_ops("../release.tgz", &sha1(&release), "../stemcell.tgz", &sha256(&stemcell));
    hello.add_ops("tarballs.yml", &ops);

    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let state = hello.state();
    assert_eq!(state["releases"][0]["version"], "1.10", "a version is text");
    assert_eq!(state["stemcells"][0]["version"], "1.10");
    hello.take_requests();

    let run = hello.create(&[]).success();
    assert!(run.stdout.contains("Nothing to do"), "{}", run.stdout);
    assert!(hello.take_requests().is_empty());

    // A new stemcell replaces the VM, and the unused old stemcell is deleted.
    let stemcell = StemcellTarball { version: "1.11".into(), ..StemcellTarball::default() }.build();
    hello.world.write("stemcell.tgz", &stemcell);
    let ops = tarball_ops("../release.tgz", &sha1(&release), "../stemcell.tgz", &sha1(&stemcell));
    hello.world.write("tarballs.yml", ops);
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 2);
    assert_eq!(hello.state()["stemcells"].as_array().unwrap().len(), 1);
    assert_eq!(hello.state()["stemcells"][0]["version"], "1.11");
    let requests = hello.take_requests();
    let methods = Hello::methods(&requests);
    assert_eq!((methods[1], *methods.last().unwrap()), ("create_stemcell", "delete_stemcell"));

    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
