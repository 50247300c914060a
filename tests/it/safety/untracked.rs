//! The state is lost, and the VM still answers at the address of the manifest.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::MONOPILE;
use crate::support::hello::Hello;
use crate::support::keys::Certificate;
use crate::support::process::prepare;

/// Removes the state and its copies.
fn lose_state(hello: &Hello) {
    std::fs::rename(hello.world.path("state.json"), hello.world.path("lost.json")).unwrap();
    let _ = std::fs::remove_file(hello.world.path("state.json.bak"));
    for folder in ["state.json.versions", "state.json.journal"] {
        let _ = std::fs::remove_dir_all(hello.world.path(folder));
    }
    hello.take_requests();
}

/// Runs `plan` and `create-env`, which must fail with these texts and without a CPI call.
#[track_caller]
fn assert_stops(hello: &Hello, texts: &[&str]) -> String {
    let mut stderr = String::new();
    for command in ["plan", "create-env"] {
        let run = hello.world.finish(hello.command(command, &[])).exits_with(1);
        for text in texts {
            assert!(run.stderr.contains(text), "{command}: no `{text}` in: {}", run.stderr);
        }
        stderr = run.stderr;
    }
    assert!(hello.take_requests().is_empty() && !hello.world.exists("state.json"));
    stderr
}

#[test]
fn no_second_vm_while_an_untracked_one_answers() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let state = hello.state();
    let cid = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let (vm, disk) = (cid(&state["current_vm_cid"]), cid(&state["disks"][0]["cid"]));
    let agent = cid(&state["monopile"]["vm"]["agent_id"]);
    lose_state(&hello);
    let name = "bosh-local-hello-go_agent/1.0";
    let texts = [agent.as_str(), vm.as_str(), disk.as_str(), name, "--ignore-untracked-vm"];
    let stderr = assert_stops(&hello, &texts);

    // The command in the message can be used unchanged, with the stemcell filled in.
    let (_, hint) = stderr.split_once("record the VM: `monopile ").unwrap();
    let hint = hint.split('`').next().unwrap();
    let stemcell = cid(&state["stemcells"][0]["cid"]);
    let script = format!("exec {MONOPILE} {}", hint.replace("STEMCELL-CID", &stemcell));
    let mut shell: Command = prepare("sh");
    hello.world.enter(&mut shell).args(["-c", &script]);
    hello.world.finish(shell).success();
    assert_eq!(hello.state()["disks"][0]["cid"], disk);
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 2, "the data of the disk is there");
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn listener_with_another_certificate_stops_the_run() {
    let mut hello = Hello::new();
    hello.create(&[]).success();
    let vm = hello.state()["current_vm_cid"].clone();
    let store = hello.world.read("creds.yml");
    lose_state(&hello);
    // First only the password differs, then also the CA.
    hello.world.write("creds.yml", store.replace("dxq3vh81zkcm5b9t", "another-password"));
    let stderr = assert_stops(&hello, &["is in use, and no VM is on record", "(401)", "--vars-store"]);
    assert!(stderr.contains("note: process ") && stderr.contains("(bosh-agent) on this machine"), "{stderr}");
    // The agent may be that of another environment.
    let delete_hint = "hint: to delete the environment of that VM: `monopile delete-env OTHER-MANIFEST`\n";
    // `kill` is no hint for an agent, because its VM would start it again.
    assert!(stderr.contains(delete_hint) && !stderr.contains("`kill "), "{stderr}");
    assert!(stderr.contains("(401), so it was deployed with another vars store\n"), "{stderr}");
    // The state beside the manifest is found by the address.
    let hidden_state = hello.world.read("lost.json");
    hello.world.write("hello/manifest-state.json", hidden_state);
    let hint = "'hello/manifest-state.json' records a VM at this address: `monopile ";
    assert_stops(&hello, &[hint]);
    std::fs::remove_file(hello.world.path("hello/manifest-state.json")).unwrap();
    // Errors of the manifest come first.
    hello.world.write("job.yml", "- {type: replace, path: /instance_groups/0/jobs/0/name, value: ghost}\n");
    for command in ["plan", "create-env"] {
        let run = hello.world.finish(hello.command(command, &["-o", "job.yml"])).exits_with(3);
        assert!(run.stderr.contains("'ghost'") && !run.stderr.contains("is in use"), "{}", run.stderr);
    }
    hello.write_vars_store(&Certificate { host: hello.ip(), days: (-1, 365), is_trusted: true });
    assert_stops(
        &hello,
        &[
            "is in use, and no VM is on record",
            "its certificate is not signed by",
            "to use another address: ",
        ],
    );
    let run = hello.world.finish(hello.command("plan", &["--ignore-untracked-vm"])).success();
    assert!(run.stdout.contains("Create the VM"), "{}", run.stdout);

    // A listener that is not a TLS server does not count, and neither does an address without a listener.
    hello.world.write("creds.yml", &store);
    std::fs::rename(hello.world.path("lost.json"), hello.world.path("state.json")).unwrap();
    hello.delete(&[]).success();
    assert!(!vm.is_null());
    let listener = std::net::TcpListener::bind(format!("{}:6868", hello.ip())).unwrap();
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
    });
    hello.world.finish(hello.command("plan", &[])).success();
    server.join().unwrap();

    // If the IaaS chooses the address, the plan reports that no address was asked.
    hello.add_ops(
        "dynamic.yml",
        "- {type: replace, path: /networks/0, value: {name: default, type: dynamic}}\n\
         - {type: remove, path: /instance_groups/0/networks/0/static_ips}\n",
    );
    let run = hello.world.finish(hello.command("plan", &[])).success();
    assert!(
        run.stdout.contains("Not checked: whether an untracked VM of this manifest exists"),
        "{}",
        run.stdout
    );
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn silent_listener_is_awaited_briefly() {
    let hello = Hello::new();
    let _silent = std::net::TcpListener::bind(format!("{}:6868", hello.ip())).unwrap();
    let start = Instant::now();
    let run = hello.world.finish(hello.command("plan", &[])).success();
    let duration = start.elapsed();
    assert!(run.stdout.contains("Create the VM"), "{}", run.stdout);
    // The limit is three seconds, in addition to the rest of the run.
    assert!((Duration::from_secs(3)..Duration::from_secs(8)).contains(&duration), "{duration:?}");
}

#[test]
fn import_adopts_the_disk_of_the_recorded_vm() {
    let mut hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let state = hello.state();
    let cid = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let (vm, disk) = (cid(&state["current_vm_cid"]), cid(&state["disks"][0]["cid"]));
    let stemcell = format!("{}=bosh-local-hello-go_agent/1.0", cid(&state["stemcells"][0]["cid"]));
    let other = hello.call("create_disk", serde_json::json!([1024, {}, null]));
    lose_state(&hello);

    let options = ["--vm", &vm, "--stemcell", &stemcell];
    let import = |hello: &Hello, extra_args: &[&str]| {
        hello.world.finish(hello.subcommand(&["state", "import"], &[&options[..], extra_args].concat()))
    };
    // The disk is not that of the VM, or the manifest has no disk.
    let run = import(&hello, &["--disk", other.as_str().unwrap()]).exits_with(3);
    assert!(run.stderr.contains(&format!("the agent has disk '{disk}' mounted")), "{}", run.stderr);
    hello.add_ops("disk.yml", "- {type: remove, path: /instance_groups/0/persistent_disk_pool}\n");
    let run = import(&hello, &[]).exits_with(3);
    assert!(
        run.stderr.contains(&format!("disk '{disk}' mounted, but the manifest has no persistent disk")),
        "{}",
        run.stderr
    );
    assert!(!hello.world.exists("state.json"));
    hello.world.write("disk.yml", "[]\n");

    let run = import(&hello, &[]).success();
    assert!(
        run.stdout.contains(&format!("disk '{disk}' is mounted on the VM, so it is recorded too")),
        "{}",
        run.stdout
    );
    let imported_state = hello.state();
    assert_eq!(
        (imported_state["disks"][0]["cid"].clone(), imported_state["current_disk_id"].clone()),
        (disk.into(), imported_state["disks"][0]["id"].clone())
    );
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 2, "the data of the disk is there");
    hello.call("delete_disk", serde_json::json!([other]));
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn untracked_mounted_disk_is_reported() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let disk = hello.state()["disks"][0]["cid"].as_str().unwrap().to_owned();
    hello.world.run(["state", "forget", "--state", "state.json", "--disk", &disk, "--yes"]).success();
    let expected = format!("disk '{disk}' is mounted on the VM, but not on record");
    let run = hello.world.finish(hello.command("status", &[])).exits_with(6);
    assert!(
        run.stdout.contains("NOT ON RECORD") && run.stderr.contains(&expected),
        "{} {}",
        run.stdout,
        run.stderr
    );
    let run = hello.world.finish(hello.command("status", &["--json", "--no-cpi"])).exits_with(6);
    let status: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(status["untracked_disks"], serde_json::json!([disk]));
    let run = hello.world.finish(hello.command("cloud-check", &["--auto"])).exits_with(6);
    assert!(format!("{}{}", run.stdout, run.stderr).contains(&expected), "{} {}", run.stdout, run.stderr);
    assert!(run.stderr.contains("attach-disk"), "{}", run.stderr);

    hello.world.finish(hello.subcommand(&["attach-disk"], &[&disk])).success();
    hello.world.finish(hello.command("status", &["--no-cpi"])).success();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 2, "the data of the disk is there");
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
