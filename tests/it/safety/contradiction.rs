//! A CPI that looks in the wrong place denies the VM while its agent answers. No record is dropped because of
//! what that CPI says.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::hello::Hello;
use crate::support::process::WaitForEnd;
use crate::support::scripted::{InfoAnswer, Script};

/// Returns the answer of a CPI to a question about a resource that it does not find.
fn no() -> String {
    json!({"result": false, "error": null, "log": ""}).to_string()
}

/// Makes the CPI deny VMs and disks, and report success for every deletion, as in another region.
fn look_elsewhere(hello: &Hello) {
    let empty_answer = json!({"result": null, "error": null, "log": ""}).to_string();
    for (method, answer) in [("has_vm", no()), ("has_disk", no()), ("delete_vm", empty_answer.clone())] {
        hello.set_answer(method, "instead", &answer);
    }
    hello.set_answer("delete_disk", "instead", &empty_answer);
}

/// Returns the hint to forget the record of a resource that is gone.
fn forget_hint(kind: &str, cid: &str) -> String {
    format!(
        "if it is gone, forget its record: `monopile state forget hello/manifest.yml --state state.json \
         --{kind} {cid}`"
    )
}

/// Runs a command while the CPI looks in the wrong place. It must say so, and change neither the cloud nor
/// the state.
fn run_elsewhere(hello: &Hello, words: &[&str], code: i32) {
    hello.create(&[]).success();
    let state_before = hello.state();
    let vm = state_before["current_vm_cid"].as_str().unwrap().to_owned();
    look_elsewhere(hello);
    hello.take_requests();
    let vm_or_word = |word: &&str| if *word == "VM" { vm.clone() } else { (*word).to_owned() };
    let words: Vec<String> = words.iter().map(vm_or_word).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let run = hello.world.finish(hello.command(words[0], &words[1..])).exits_with(code);
    let contradiction = format!("says that VM '{vm}' does not exist, but its agent answers at https://");
    let forget_command = format!("monopile state forget hello/manifest.yml --state state.json --vm {vm}`");
    let output = run.stdout.clone() + &run.stderr;
    let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [
        "the CPI probably looks in another account, region or project",
        "asking the agent again for up to 60 s",
        &contradiction,
        &forget_command,
    ] {
        assert!(output.contains(text), "{words:?}: {text}: {output}");
    }
    // A table cannot hold a command to paste.
    assert!(!run.stdout.contains("state forget"), "{words:?}: {}", run.stdout);
    let requests = hello.take_requests();
    let changes = ["delete_vm", "delete_disk", "create_vm", "attach_disk", "reboot_vm"];
    assert!(
        !Hello::methods(&requests).iter().any(|method| changes.contains(method)),
        "{words:?}: {requests:?}"
    );
    let state_after = hello.state();
    for key in ["current_vm_cid", "disks"] {
        assert_eq!(state_after[key], state_before[key], "{words:?}");
    }
    assert_eq!(
        state_after["monopile"]["vm"]["agent_id"], state_before["monopile"]["vm"]["agent_id"],
        "{words:?}"
    );
}

#[test]
fn agent_is_believed_over_the_cpi() {
    let all: [(&[&str], i32); 5] = [
        (&["delete-env", "-n"], 1),
        (&["create-env", "--recreate", "-n"], 1),
        (&["cloud-check", "--auto"], 6),
        (&["cloud-check", "--resolution", "delete_disk_reference", "--resolution", "recreate_vm"], 6),
        (&["delete-vm", "-n", "VM"], 1),
    ];
    let hellos: Vec<Hello> = std::thread::scope(|scope| {
        let thread = |(words, code)| {
            scope.spawn(move || {
                let hello = Hello::new();
                run_elsewhere(&hello, words, code);
                hello
            })
        };
        let threads: Vec<_> = all.map(thread).into_iter().collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for hello in hellos {
        hello.answer_truly();
        hello.delete(&[]).success();
        assert_eq!(hello.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn status_believes_the_agent() {
    let hello = Hello::new();
    hello.create(&[]).success();
    look_elsewhere(&hello);
    let run = hello.world.finish(hello.command("status", &[])).exits_with(6);
    let vm = hello.state()["current_vm_cid"].as_str().unwrap().to_owned();
    let error =
        format!("error: the CPI says that VM '{vm}' does not exist, but its agent answers at https://");
    for text in [
        error.as_str(),
        "note: the CPI probably looks in another account, region or project\n",
        "hint: check the account, region and project in the properties of the CPI",
        "hint: compare everything on record: `monopile cloud-check hello/manifest.yml ",
        " --report`",
    ] {
        assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
    }
    assert!(!run.stderr.contains("any more"), "{}", run.stderr);
    hello.answer_truly();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn message_names_the_changed_properties() {
    let mut hello = Hello::new();
    let property = |key: &str, value: &str| {
        format!("- {{type: replace, path: /cloud_provider/properties?/{key}?, value: {value}}}\n")
    };
    hello.add_ops("region.yml", &(property("cloud/region", "eu") + &property("cloud/password", "eu-secret")));
    hello.create(&[]).success();
    let text = hello.state()["monopile"]["locations"].to_string();
    assert!(text.contains("cloud/region") && !text.contains("cloud/password"), "{text}");
    hello.add_ops("region.yml", &(property("cloud/region", "us") + &property("cloud/password", "us-secret")));
    look_elsewhere(&hello);
    let run = hello.delete(&[]).exits_with(1);
    let message = "because some of its properties have changed since the VM was created: cloud/region\n";
    assert!(run.stderr.contains(message), "{}", run.stderr);

    // Without the record, as in a state of an older version, the run stops as well. The way out is to give up
    // the VM.
    let mut state = hello.state();
    state["monopile"].as_object_mut().unwrap().remove("locations").unwrap();
    hello.world.write("state.json", state.to_string());
    hello.world.run(["state", "show", "--state", "state.json"]).success();
    let vm = state["current_vm_cid"].as_str().unwrap();
    hello.world.finish(hello.state_command(&["state", "forget", "--yes", "--vm", vm])).success();
    hello.delete(&[]).success();
    hello.answer_truly();
    hello.call("delete_vm", json!([vm]));
    hello.call("delete_disk", json!([state["disks"][0]["cid"]]));
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn silent_vm_in_another_region_is_not_called_gone() {
    let mut hello = Hello::new();
    let region = |value: &str| {
        format!("- {{type: replace, path: /cloud_provider/properties?/cloud?/region?, value: {value}}}\n")
    };
    hello.add_ops("region.yml", &region("eu"));
    hello.create(&[]).success();
    let (state_before, quick) = (hello.state(), ["--agent-timeout", "300ms"]);
    let (vm, disk) = (&state_before["current_vm_cid"], &state_before["disks"][0]["cid"]);
    let (vm, disk) = (vm.as_str().unwrap(), disk.as_str().unwrap());
    hello.kill_vm();
    look_elsewhere(&hello);
    let change_hint = "because some of its properties have changed since the VM was created: cloud/region\n";
    for (value, cause) in [("us", format!(", {change_hint}")), ("eu", "\n".to_owned())] {
        hello.add_ops("region.yml", &region(value));
        let cause = format!("the CPI probably looks in another account, region or project{cause}");
        let run = |command: &str, extra_args: &[&str]| {
            let output =
                hello.world.finish(hello.command(command, &[&quick[..], extra_args].concat())).exits_with(6);
            let text = output.stdout.clone() + &output.stderr;
            assert!(!text.contains("does not exist") && !text.contains("lost"), "{command}: {text}");
            // The probable cause comes before the repair.
            let cause_at = output.stderr.find(&cause).unwrap_or_else(|| panic!("{command}: {cause}: {text}"));
            (output.stdout.clone(), output.stderr[cause_at..].to_owned())
        };
        let (stdout, stderr) = run("status", &[]);
        assert!(stdout.contains("  NOT FOUND BY THE CPI\n"), "{stdout}");
        assert!(
            stderr
                .contains("hint: if the IaaS does not show the VM, check the disks: `monopile cloud-check "),
            "{stderr}"
        );
        let (stdout, stderr) = run("cloud-check", &["-n"]);
        for text in
            [format!("the CPI does not find VM '{vm}'"), format!("the CPI does not find disk '{disk}'")]
        {
            assert!(stdout.contains(&text), "{text}: {stdout}");
        }
        let hints: Vec<&str> = stderr.split("hint: ").collect();
        let [.., forget, deploy] = hints.as_slice() else { panic!("{stderr}") };
        let condition = "only if the IaaS does not show the disk, forget its record: ";
        assert!(forget.starts_with(condition), "{stderr}");
        assert!(deploy.starts_with("then deploy with an empty disk: "), "{stderr}");
        let (stdout, _) = run("cloud-check", &["--report"]);
        assert!(stdout.contains("the CPI does not find it"), "{stdout}");
    }
    assert_eq!(hello.state()["disks"], state_before["disks"]);
    hello.answer_truly();
    hello.delete(&quick).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn changed_root_of_the_local_cpi_is_noticed() {
    let hello = Hello::new();
    hello.world.finish(hello.builtin_command(&["create-env"], &[])).success();
    let stored_text_before = hello.world.read("state.json");
    for (words, extra_args) in [
        (&["plan"][..], &[][..]),
        (&["create-env"], &["--recreate", "-n"]),
        (&["cloud-check"], &["--auto"]),
        (&["delete-env"], &["-n"]),
    ] {
        let mut command = hello.builtin_command(words, extra_args);
        if words == ["plan"] {
            command.arg("--recreate");
        }
        command.env("HOME", hello.world.path("home-b"));
        let run = hello.world.finish(command).exits_with(3);
        for text in ["in another directory", "home-b/.local/state/monopile/local'", "and with the HOME"] {
            assert!(run.stderr.contains(text), "{words:?}: {text}: {}", run.stderr);
        }
        assert_eq!(hello.world.read("state.json"), stored_text_before, "{words:?}");
    }
    // The manifest names another built-in CPI.
    hello.world.write("qemu.yml", "- {type: replace, path: /cloud_provider/cpi, value: {builtin: qemu}}\n");
    for (words, extra_args) in
        [(&["plan"][..], &[][..]), (&["create-env"], &["-n"]), (&["delete-env"], &["-n"])]
    {
        let command = hello.builtin_command(words, &[&["-o", "qemu.yml"], extra_args].concat());
        let run = hello.world.finish(command).exits_with(3);
        for text in [
            "error: the default CPI is no longer the built-in CPI `local`\n",
            " are in the directory of `local`: '",
            "hint: name the CPI `local` again in the manifest or ops file\n",
        ] {
            assert!(run.stderr.contains(text), "{words:?}: {text}: {}", run.stderr);
        }
        assert!(!run.stderr.contains("state forget"), "{words:?}: {}", run.stderr);
        assert_eq!(hello.world.read("state.json"), stored_text_before, "{words:?}");
    }
    // The manifest names another kind of CPI.
    let plan = hello.world.finish(hello.command("plan", &[])).success();
    for text in [
        " were created by another kind of CPI than that of the manifest. If this CPI does not find them, ",
        "hint: check first: `monopile cloud-check hello/manifest.yml ",
    ] {
        assert!(plan.stderr.contains(text), "{text}: {}", plan.stderr);
    }
    let status = hello.world.finish(hello.command("status", &[])).exits_with(6);
    let hint = "hint: pass the manifest and ops files with which it was created; then run the same command";
    assert!(status.stderr.contains(hint), "{}", status.stderr);
    hello.world.finish(hello.builtin_command(&["delete-env"], &["-n"])).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
    assert!(!hello.world.exists("home/.local/state/monopile/local"));
}

#[test]
fn vm_may_answer_for_a_while_during_deletion() {
    let hello = Hello::new();
    hello.create(&[]).success();
    look_elsewhere(&hello);
    let mut command = hello.command("delete-env", &["-n"]);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    crate::support::scripted::wait_until("the CPI denies the VM", || hello.calls("has_vm") > 0);
    std::thread::sleep(Duration::from_secs(2));
    assert!(hello.world.exists("state.json"), "the agent still answers");
    let start = Instant::now();
    hello.kill_vm();
    assert!(run.end().success());
    assert!(start.elapsed() < Duration::from_secs(45), "{:?}", start.elapsed());
    assert!(!hello.world.exists("state.json"));
    hello.answer_truly();
}

#[test]
fn cpi_that_denies_every_vm_creates_one_at_most() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.kill_vm();
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.set_answer("has_vm", "instead", &no());
    let extra_args = ["--auto", "--agent-timeout", "500ms"];
    let run = hello.world.finish(hello.command("cloud-check", &extra_args)).exits_with(6);
    assert!(run.stdout.contains("repaired by recreate_vm"), "{}", run.stdout);
    assert_eq!(hello.calls("create_vm"), 1);
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.answer_truly();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn disk_and_stemcell_are_not_lost_by_a_delete_in_another_region() {
    let mut hello = Hello::new();
    let region = |value: &str| {
        format!("- {{type: replace, path: /cloud_provider/properties?/cloud?/region?, value: {value}}}\n")
    };
    hello.add_ops("region.yml", &region("eu"));
    hello.create(&[]).success();
    let state = hello.state();
    let (vm, disk) = (&state["current_vm_cid"], &state["disks"][0]["cid"]);
    let (vm, disk) = (vm.as_str().unwrap(), disk.as_str().unwrap());
    let stemcell = state["stemcells"][0]["cid"].as_str().unwrap();
    hello.call("delete_vm", json!([vm]));
    hello.world.finish(hello.state_command(&["state", "forget", "--yes", "--vm", vm])).success();

    hello.add_ops("region.yml", &region("us"));
    look_elsewhere(&hello);
    let run = hello.delete(&[]).exits_with(1);
    for text in [
        &format!("says that disk '{disk}' does not exist; it stays on record"),
        "because some of its properties have changed since the disk was created: cloud/region",
        &forget_hint("disk", disk),
    ] {
        assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
    }
    assert_eq!(hello.state()["disks"][0]["cid"], disk);
    // The CPI cannot be asked whether a stemcell exists.
    let warning = format!("have changed since stemcell '{stemcell}' was created: cloud/region");
    assert!(run.stderr.contains(&warning), "{}", run.stderr);

    hello.add_ops("region.yml", &region("eu"));
    hello.answer_truly();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn stemcell_and_snapshot_not_found_in_another_region_stay_on_record() {
    let mut hello = Hello::new();
    let region = |value: &str| {
        format!("- {{type: replace, path: /cloud_provider/properties?/cloud?/region?, value: {value}}}\n")
    };
    hello.add_ops("region.yml", &region("eu"));
    hello.create(&[]).success();
    hello.world.finish(hello.command("take-snapshot", &[])).success();
    let recorded_cids = |state: &Value| {
        let first_cid = |list: &Value| list[0]["cid"].as_str().unwrap_or_default().to_owned();
        [first_cid(&state["stemcells"]), first_cid(&state["monopile"]["snapshots"])]
    };
    let [stemcell, snapshot] = recorded_cids(&hello.state());

    hello.add_ops("region.yml", &region("us"));
    hello.set_answer(
        "delete_stemcell",
        "instead",
        &Hello::error("Bosh::Clouds::StemcellNotFound", "no image"),
    );
    hello.set_answer(
        "delete_snapshot",
        "instead",
        &Hello::error("Bosh::Clouds::DiskNotFound", "no snapshot"),
    );
    // A second "not found" is no proof either.
    for _ in 0..2 {
        let run = hello.delete(&[]).exits_with(1);
        for text in [
            &format!("says that snapshot '{snapshot}' does not exist; it stays on record"),
            &format!("still on record: snapshot '{snapshot}', stemcell '{stemcell}'"),
            "because some of its properties have changed since the snapshot was created: cloud/region",
            &forget_hint("snapshot", &snapshot),
        ] {
            assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
        }
        assert_eq!(recorded_cids(&hello.state()), [stemcell.clone(), snapshot.clone()]);
    }

    // The failures in the other region do not count in the right one.
    hello.add_ops("region.yml", &region("eu"));
    let run = hello.delete(&[]).success();
    assert!(run.stderr.contains("cannot confirm that it is gone"), "{}", run.stderr);
    assert_eq!(recorded_cids(&hello.state()), [stemcell, snapshot]);
    hello.answer_truly();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
