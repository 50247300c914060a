//! `monopile state`: shows records, compares them with the cloud, adds, restores and drops them.

use serde_json::{Value, json};

use crate::support::Run;
use crate::support::hello::Hello;

const STATE: [&str; 2] = ["--state", "state.json"];

fn run_state(hello: &Hello, words: &[&str]) -> Run {
    hello.world.run(["state"].iter().chain(words).chain(&STATE))
}

fn verify(hello: &Hello, extra_args: &[&str]) -> Run {
    hello.world.finish(hello.subcommand(&["state", "verify"], extra_args))
}

fn list_versions(hello: &Hello) -> Vec<Value> {
    let run = run_state(hello, &["backup", "--json"]).success();
    serde_json::from_str::<Value>(&run.stdout).unwrap().as_array().unwrap().clone()
}

#[test]
fn state_show_and_verify_cover_all_records() {
    let hello = Hello::new();
    run_state(&hello, &["show"]).exits_with(3);
    hello.create(&[]).success();
    let state = hello.state();
    let (vm, disk) = (state["current_vm_cid"].as_str().unwrap(), state["disks"][0]["cid"].as_str().unwrap());

    let run = run_state(&hello, &["show"]).success();
    let agent = state["monopile"]["vm"]["agent_id"].as_str().unwrap();
    for text in [vm, disk, agent, "bosh-local-hello-go_agent/1.0", "1024 MiB", "Deployed\tyes"] {
        assert!(run.stdout.contains(text), "{text}: {}", run.stdout);
    }
    // The manifest determines the path of the state.
    std::fs::copy(hello.world.path("state.json"), hello.world.path("hello/manifest-state.json")).unwrap();
    assert!(hello.world.run(["state", "show", "hello/manifest.yml"]).success().stdout.contains(vm));
    std::fs::remove_file(hello.world.path("hello/manifest-state.json")).unwrap();
    let run = run_state(&hello, &["show", "--json"]).success();
    let overview: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(overview["vm"]["cid"], vm);
    assert_eq!(
        (overview["disks"][0]["in_use"].clone(), overview["deployed"].clone()),
        (json!(true), json!(true))
    );

    // Credentials in a hint are not shown.
    let mut text = state.clone();
    text["disks"][0]["hint"] = json!({"path": "/dev/sdc", "password": "hunter22"});
    hello.world.write("other.json", text.to_string());
    for extra_args in [&[][..], &["--json"]] {
        let run =
            hello.world.run(["state", "show", "--state", "other.json"].iter().chain(extra_args)).success();
        assert!(run.stdout.contains("/dev/sdc") && !run.stdout.contains("hunter22"), "{}", run.stdout);
    }

    hello.take_requests();
    let run = verify(&hello, &["--json"]).success();
    let findings: Value = serde_json::from_str(&run.stdout).unwrap();
    let statuses: Vec<(&str, &str)> = findings
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| (finding["kind"].as_str().unwrap(), finding["status"].as_str().unwrap()))
        .collect();
    assert_eq!(
        statuses,
        [("VM", "as_recorded"), ("disk", "as_recorded"), ("stemcell", "unknown"), ("agent", "as_recorded")]
    );
    let report = hello.world.finish(hello.command("cloud-check", &["--report", "--json"])).success();
    assert_eq!(report.stdout, run.stdout, "`state verify` is another name of it");
    hello.take_requests();
    verify(&hello, &[]).success();
    assert_eq!(Hello::methods(&hello.take_requests()), ["info", "has_vm", "has_disk", "get_disks"]);
    assert_eq!(hello.state(), state, "looking changes nothing");

    // An unknown result is not drift. A resource that is known to be missing is drift.
    hello.set_answer("has_disk", "instead", &Hello::error("Bosh::Clouds::NotImplemented", "has_disk"));
    let run = verify(&hello, &[]).success();
    assert!(run.stdout.contains("does not implement `has_disk`"), "{}", run.stdout);
    hello.set_answer("has_disk", "instead", "{\"result\": false, \"error\": null, \"log\": \"\"}");
    let run = verify(&hello, &[]).exits_with(6);
    assert!(
        run.stderr.contains(&format!("the environment is not as recorded: the CPI says that disk '{disk}'")),
        "{}",
        run.stderr
    );
    hello.answer_truly();

    // The agent belongs to another VM.
    let mut text = state.clone();
    text["monopile"]["vm"]["agent_id"] = json!("another");
    hello.world.write("state.json", text.to_string());
    let run = verify(&hello, &[]).exits_with(6);
    assert!(run.stdout.contains("another VM answers"), "{}", run.stdout);
    hello.world.write("state.json", state.to_string());
    hello.delete(&[]).success();
}

#[test]
fn import_rebuilds_a_lost_state_from_cids() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let state_before = hello.state();
    let cid = |value: &Value| value.as_str().unwrap().to_owned();
    let (vm, disk) = (cid(&state_before["current_vm_cid"]), cid(&state_before["disks"][0]["cid"]));
    let stemcell = format!("{}=bosh-local-hello-go_agent/1.0", cid(&state_before["stemcells"][0]["cid"]));
    let import = |extra_args: &[&str]| hello.world.finish(hello.subcommand(&["state", "import"], extra_args));
    let all = ["--vm", &vm, "--disk", &disk, "--stemcell", &stemcell];

    let run = import(&all).exits_with(3);
    assert!(run.stderr.contains("exists already"), "{}", run.stderr);
    assert_eq!(hello.state(), state_before);
    std::fs::rename(hello.world.path("state.json"), hello.world.path("lost.json")).unwrap();
    let _ = std::fs::remove_file(hello.world.path("state.json.bak"));

    import(&[]).exits_with(2);
    import(&["--stemcell", "cid"]).exits_with(2);
    let run = import(&["--vm", "vm-nowhere"]).exits_with(3);
    assert!(run.stderr.contains("the CPI does not find VM 'vm-nowhere'"), "{}", run.stderr);
    let run = import(&["--vm", &vm, "--disk", "disk-nowhere"]).exits_with(3);
    assert!(run.stderr.contains("the CPI does not find disk 'disk-nowhere'"), "{}", run.stderr);
    assert!(!hello.world.exists("state.json"), "nothing is recorded by halves");

    let run = import(&all).success();
    let summary = format!("VM '{vm}', disk '{disk}' and stemcell '");
    let next_deploy = format!("The next create-env replaces the VM, with disk '{disk}'");
    assert!(run.stdout.contains(&summary) && run.stdout.contains(&next_deploy), "{}", run.stdout);
    let imported_state = hello.state();
    assert_eq!(imported_state["current_vm_cid"], state_before["current_vm_cid"]);
    assert_eq!(imported_state["monopile"]["vm"]["agent_id"], state_before["monopile"]["vm"]["agent_id"]);
    for field in ["cid", "size", "cloud_properties"] {
        assert_eq!(imported_state["disks"][0][field], state_before["disks"][0][field]);
    }
    assert_eq!(imported_state["current_disk_id"], imported_state["disks"][0]["id"]);
    assert_eq!(imported_state["current_stemcell_id"], imported_state["stemcells"][0]["id"]);
    verify(&hello, &[]).success();

    // The next deploy uses the disk with its data.
    hello.take_requests();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 2);
    let requests = hello.take_requests();
    let methods = Hello::methods(&requests);
    for method in ["create_stemcell", "create_disk", "delete_disk", "delete_stemcell"] {
        assert!(!methods.contains(&method), "{methods:?}");
    }
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn vm_with_silent_agent_is_imported_without_agent_id() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let vm = hello.state()["current_vm_cid"].as_str().unwrap().to_owned();
    std::fs::rename(hello.world.path("state.json"), hello.world.path("lost.json")).unwrap();
    hello.kill_vm();
    let extra_args = ["--vm", &vm, "--agent-timeout", "1s"];
    let run = hello.world.finish(hello.subcommand(&["state", "import"], &extra_args)).success();
    assert!(run.stderr.contains("so its ID is unknown"), "{}", run.stderr);
    let next_deploy = "No disk is on record: the next create-env replaces the VM, with an empty disk. To use \
                       an existing disk: `monopile attach-disk hello/manifest.yml ";
    assert!(run.stdout.contains(next_deploy), "{}", run.stdout);
    assert_eq!(hello.state()["current_vm_cid"], vm);
    assert!(hello.state()["monopile"]["vm"].is_null());
    // This is the version with all records.
    std::fs::rename(hello.world.path("lost.json"), hello.world.path("state.json")).unwrap();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn versions_are_kept_and_can_be_restored() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let first = hello.state();
    hello.create(&["--recreate"]).success();
    let second = hello.state();
    let names = |versions: &[Value]| -> Vec<String> {
        versions.iter().map(|version| version["version"].as_str().unwrap().to_owned()).collect()
    };
    let stored_versions = list_versions(&hello);
    assert_eq!(names(&stored_versions), ["bak", "1"]);
    assert_eq!(stored_versions[1]["vm"], first["current_vm_cid"]);
    assert_eq!(stored_versions[1]["deployed"], true);
    // An unchanged run adds no version.
    hello.create(&[]).success();
    assert_eq!(names(&list_versions(&hello)), ["bak", "1"]);
    run_state(&hello, &["backup", "--keep"]).success();
    assert_eq!(names(&list_versions(&hello)), ["bak", "2", "1"]);

    // Restoring would drop the record of a VM, so it needs consent.
    let run = run_state(&hello, &["backup", "--restore", "1", "-n"]).exits_with(2);
    let vm = second["current_vm_cid"].as_str().unwrap();
    assert!(run.stderr.contains(&format!("does not record VM '{vm}'")), "{}", run.stderr);
    assert!(run.stderr.contains("--yes"));
    assert_eq!(hello.state(), second);
    run_state(&hello, &["backup", "--restore", "7", "--yes"]).exits_with(3);
    run_state(&hello, &["backup", "--restore", "1", "--yes"]).success();
    assert_eq!(hello.state(), first);
    // Restores the newer version again, even over a file that is not a state.
    hello.world.write("state.json", "{");
    let run = hello.create(&[]).exits_with(3);
    assert!(run.stderr.contains("state backup"), "{}", run.stderr);
    run_state(&hello, &["backup", "--restore", "2", "--yes"]).success();
    assert_eq!(hello.state(), second);
    let stored_versions = list_versions(&hello);
    assert!(
        stored_versions
            .iter()
            .any(|one| one["problem"].as_str().is_some_and(|text| text.contains("not valid JSON")))
    );
    assert!(run_state(&hello, &["backup"]).success().stdout.contains("unusable"));

    hello.delete(&[]).success();
    for file in ["state.json", "state.json.bak", "state.json.versions"] {
        assert!(!hello.world.exists(file), "{file} is left");
    }
    assert!(
        run_state(&hello, &["backup"]).success().stdout.contains("No earlier version of the state is kept")
    );
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn forget_needs_confirmation() {
    let hello = Hello::new();
    run_state(&hello, &["forget", "--vm", "x", "--yes"]).exits_with(3);
    hello.create(&[]).success();
    let state_before = hello.state();
    let disk = state_before["disks"][0]["cid"].as_str().unwrap();
    run_state(&hello, &["forget", "--yes"]).exits_with(2);
    run_state(&hello, &["forget", "--yes", "--vm", "a", "--disk", "b"]).exits_with(2);
    let unknown_cid = format!("{disk}x");
    let run = run_state(&hello, &["forget", "--disk", &unknown_cid, "--yes"]).exits_with(3);
    assert!(run.stderr.contains(&format!("did you mean '{disk}'?")), "{}", run.stderr);
    let run = run_state(&hello, &["forget", "--call", "none", "--yes"]).exits_with(3);
    assert!(run.stderr.contains("no open or failed call 'none' is on record"), "{}", run.stderr);
    let run = run_state(&hello, &["forget", "--disk", disk, "-n"]).exits_with(2);
    assert!(
        run.stderr.contains("--yes") && run.stderr.contains("needs a confirmation, and -n does not ask"),
        "{}",
        run.stderr
    );
    let vm = state_before["current_vm_cid"].as_str().unwrap();
    let consequence = format!(
        "it is the persistent disk of VM '{vm}': the next create-env replaces the VM and creates an empty \
         disk"
    );
    assert!(run.stderr.contains(&consequence), "{consequence}: {}", run.stderr);
    assert_eq!(hello.state(), state_before);
    hello.take_requests();

    run_state(&hello, &["forget", "--disk", disk, "--yes"]).success();
    let state_after = hello.state();
    assert!(state_after["disks"].as_array().unwrap().is_empty());
    assert_eq!(
        (state_after["current_disk_id"].clone(), state_after["current_manifest_sha"].clone()),
        (json!(""), json!(""))
    );
    assert!(hello.take_requests().is_empty(), "forgetting calls no CPI");
    let plan = hello.world.finish(hello.command("plan", &[])).success();
    assert!(plan.stdout.contains("Replace the VM: the record of its disk was forgotten"), "{}", plan.stdout);
    // The record was a mistake.
    run_state(&hello, &["backup", "--restore", "1", "--yes"]).success();
    assert_eq!(hello.state(), state_before);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
