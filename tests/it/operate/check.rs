//! `cloud-check`: detects and repairs changes that were made outside the program.

use serde_json::{Value, json};

use super::{parse_document, run};
use crate::support::hello::Hello;
use crate::support::pty::Pty;
use crate::support::scripted::{InfoAnswer, Reaction, Script};

fn vm_and_disk_cids(hello: &Hello) -> (Value, Value) {
    let state = hello.state();
    (state["current_vm_cid"].clone(), state["disks"][0]["cid"].clone())
}

fn kinds(problems: &Value) -> Vec<&str> {
    problems.as_array().unwrap().iter().map(|problem| problem["kind"].as_str().unwrap()).collect()
}

const SHORT_TIMEOUT_ARGS: [&str; 2] = ["--agent-timeout", "500ms"];

#[test]
fn healthy_environment_needs_no_repair() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.take_requests();
    let state_before = hello.state();
    let output = run(&hello, "cck", &["--auto"]).success();
    assert_eq!(output.stdout, "No problem found with VM, agent and disks.\n");
    assert_eq!(Hello::methods(&hello.take_requests()), ["info", "has_vm", "has_disk", "get_disks"]);
    assert_eq!(hello.state(), state_before);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn mounted_disk_counts_as_attached_despite_the_cpi() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let state_before = hello.state();
    // Some CPIs never implemented `get_disks`.
    hello.set_answer("get_disks", "instead", r#"{"result": [], "error": null, "log": ""}"#);
    hello.take_requests();
    let output = run(&hello, "cck", &["--auto"]).success();
    assert_eq!(output.stdout, "No problem found with VM, agent and disks.\n");
    assert_eq!(Hello::methods(&hello.take_requests()), ["info", "has_vm", "has_disk", "get_disks"]);

    // The CPI also denies the disk. Its record stays, and no repair is offered.
    hello.set_answer("has_disk", "instead", r#"{"result": false, "error": null, "log": ""}"#);
    let extra_args = ["--resolution", "delete_disk_reference", "--json"];
    let problems = parse_document(&run(&hello, "cck", &extra_args).exits_with(6));
    assert_eq!(kinds(&problems), ["contradiction"]);
    assert_eq!((&problems[0]["repairs"], &problems[0]["attempts"]), (&json!([]), &json!([])));
    let output = run(&hello, "cck", &[]).exits_with(6);
    assert!(output.stderr.contains("hint: ask the CPI again: `monopile cpi call "), "{}", output.stderr);
    let output = run(&hello, "status", &[]).exits_with(6);
    let error = format!(
        "error: the CPI says that disk {} does not exist, but the agent has it",
        state_before["disks"][0]["cid"].to_string().replace('"', "'")
    );
    assert!(output.stderr.contains(&error), "{}", output.stderr);
    assert!(output.stdout.contains("mounted, NOT FOUND BY THE CPI"), "{}", output.stdout);
    assert_eq!(hello.state(), state_before);
    hello.answer_truly();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn cpi_that_cannot_be_asked_is_named_before_its_repairs() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let (vm, _) = vm_and_disk_cids(&hello);
    hello.kill_vm();
    hello.set_answer("has_vm", "instead", &Hello::error("Bosh::Clouds::CloudError", "AuthFailure: no"));
    for extra_args in [&["-n"][..], &["--report"]] {
        let output = run(&hello, "cloud-check", &[extra_args, &SHORT_TIMEOUT_ARGS].concat()).exits_with(6);
        let warning = format!("the CPI could not say whether VM '{}' exists: ", vm.as_str().unwrap());
        for text in [&warning, "AuthFailure: no", "hint: correct first why the CPI could not say what exists"]
        {
            assert!(output.stderr.contains(text), "{extra_args:?}: {text}: {}", output.stderr);
        }
    }
    hello.answer_truly();
    hello.delete(&SHORT_TIMEOUT_ARGS).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn dead_vm_is_rebooted_and_its_disk_reattached() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let (vm, disk) = vm_and_disk_cids(&hello);
    hello.kill_vm();
    hello.call("detach_disk", json!([vm, disk]));
    hello.take_requests();

    // A run that fails because of it does not hide the way out.
    hello.create(&["--agent-timeout", "500ms"]);
    let status = run(&hello, "status", &SHORT_TIMEOUT_ARGS).exits_with(5);
    assert!(status.stderr.contains("`monopile cloud-check"), "{}", status.stderr);
    hello.take_requests();

    // Without a terminal, nothing is done unless options request it.
    let output = run(&hello, "cloud-check", &[&["--report", "--json"][..], &SHORT_TIMEOUT_ARGS].concat())
        .exits_with(6);
    let findings = parse_document(&output);
    let drift = findings.as_array().unwrap().iter().find(|finding| finding["status"] == "drifted").unwrap();
    assert_eq!((&drift["kind"], &drift["problem"]), (&json!("agent"), &json!("unresponsive_agent")));
    assert_eq!(drift["repairs"], json!(["reboot_vm", "recreate_vm"]));
    for extra_args in [&["--json"][..], &["-n", "--json"]] {
        let output = run(&hello, "cloud-check", &[extra_args, &SHORT_TIMEOUT_ARGS].concat()).exits_with(6);
        let problems = parse_document(&output);
        assert_eq!(kinds(&problems), ["unresponsive_agent"], "a dead agent hides what its disk is at");
        assert_eq!(problems[0]["repairs"], json!(["reboot_vm", "recreate_vm"]));
        assert_eq!(problems[0]["solved"], false);
    }
    let changes = ["reboot_vm", "create_vm", "attach_disk", "delete_vm"];
    assert!(!Hello::methods(&hello.take_requests()).iter().any(|method| changes.contains(method)));

    let output =
        run(&hello, "cloud-check", &[&["--auto", "--json"][..], &SHORT_TIMEOUT_ARGS].concat()).success();
    let problems = parse_document(&output);
    assert_eq!(kinds(&problems), ["unresponsive_agent", "detached_disk"]);
    for problem in problems.as_array().unwrap() {
        assert_eq!(problem["solved"], true, "{problem}");
    }
    assert_eq!(problems[0]["attempts"], json!([{"repair": "reboot_vm", "error": null}]));
    assert_eq!(problems[1]["attempts"], json!([{"repair": "reattach_disk", "error": null}]));
    assert_eq!(vm_and_disk_cids(&hello), (vm, disk), "the VM or disk was replaced");
    assert_eq!(hello.ask_counter(), 2, "the data are the same");
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn forgotten_ops_files_do_not_lead_to_a_repair() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let state_before = hello.state();
    let recorded_ip = hello.ip().to_owned();
    let other = recorded_ip.strip_suffix(".2").unwrap().to_owned() + ".3";
    let address = format!("internal_ip={other}");
    let note = format!(
        "note: the recorded address of the VM is {recorded_ip}, but `cloud_provider.mbus` has {other}\n"
    );
    let other_options = [&SHORT_TIMEOUT_ARGS[..], &["-v", &address]].concat();
    for (command, extra_args, code) in [
        ("status", &[][..], 5),
        ("ssh", &[], 5),
        ("restart", &[], 5),
        ("cloud-check", &[], 6),
        ("cloud-check", &["--report"], 6),
    ] {
        let output = run(&hello, command, &[&other_options[..], extra_args].concat()).exits_with(code);
        let hint = "hint: pass the same --state, --vars-store, ops files and variables as for the last \
                    create-env, or \
                    correct the host in `cloud_provider.mbus`\n";
        for text in [note.as_str(), hint] {
            assert!(output.stderr.contains(text), "{command}: {text}: {}", output.stderr);
        }
        for text in ["--resolution", "--auto", "`monopile cloud-check"] {
            assert!(!output.stderr.contains(text), "{command}: {text}: {}", output.stderr);
        }
    }
    assert_eq!(hello.state(), state_before);
    // An address that only the IaaS knows is not reported while the agent answers.
    let output = run(&hello, "cloud-check", &["--report"]).success();
    assert!(!output.stderr.contains("recorded address"), "{}", output.stderr);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn unfinished_deletion_is_no_healthy_environment() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.set_script(Script::with_info(InfoAnswer::Local).fail("delete_stemcell", 1, "X", false));
    hello.delete(&[]).exits_with(1);
    let stemcell = hello.state()["stemcells"][0]["cid"].as_str().unwrap().to_owned();
    let output = run(&hello, "cloud-check", &["-n"]).success();
    let verdict = format!(
        "No VM is on record, and no problem was found with the rest.\nStill to be deleted: stemcell \
         '{stemcell}'. The next create-env or delete-env tries again.\n"
    );
    assert_eq!(output.stdout, verdict);
    let findings = parse_document(&run(&hello, "cloud-check", &["--report", "--json"]).success());
    let detail = findings[0]["detail"].as_str().unwrap();
    assert!(detail.starts_with("it was to be deleted; the next run tries again; "), "{detail}");
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn unfinished_deploy_is_no_healthy_environment() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.set_script(Script::with_info(InfoAnswer::Local).fail("attach_disk", 1, "X", false));
    hello.create(&["--recreate", "-n"]).exits_with(1);
    let disk = vm_and_disk_cids(&hello).1.as_str().unwrap().to_owned();
    let note = "note: the last deploy did not finish\n";
    let finish = "hint: finish the last deploy: `monopile create-env hello/manifest.yml ";
    for extra_args in [&["-n"][..], &["--report"]] {
        let output = run(&hello, "cloud-check", extra_args).exits_with(6);
        for text in [note, finish] {
            assert!(output.stderr.contains(text), "{extra_args:?}: {text}: {}", output.stderr);
        }
    }
    // No job is on the VM, so none is stopped or started.
    let mut pty = Pty::start(hello.command("cloud-check", &[]), (80, 24));
    pty.wait_for("the question", |screen| screen.ends_with("[y/N]"));
    let question = format!("Attach disk '{disk}' to it? [y/N]");
    let text = pty.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&question), "{text}");
    pty.press("y\r");
    assert_eq!(pty.end(), 1, "{}", pty.text());
    assert!(pty.text().contains("repaired by reattach_disk"), "{}", pty.text());
    for text in ["Stopping the jobs", "Starting the jobs"] {
        assert!(!pty.text().contains(text), "{text}: {}", pty.text());
    }
    let verdict = "VM, agent and disks are as recorded, but the last deploy did not finish.\n";
    for (extra_args, verdict) in [(&[][..], verdict), (&["--report"], "")] {
        let output = run(&hello, "cloud-check", extra_args).exits_with(1);
        assert!(output.stdout.contains(verdict), "{}", output.stdout);
        for text in ["error: the last deploy did not finish\n", finish] {
            assert!(output.stderr.contains(text), "{text}: {}", output.stderr);
        }
    }
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    run(&hello, "cloud-check", &[]).success();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn unfinished_deletion_is_no_unfinished_deploy() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.set_script(Script::with_info(InfoAnswer::Local).fail("delete_vm", 1, "X", false));
    hello.delete(&[]).exits_with(1);
    for extra_args in [&["-n"][..], &["--report"]] {
        let output = run(&hello, "cloud-check", extra_args).exits_with(6);
        for text in [
            "note: a delete-env began, but did not finish\n",
            "hint: to finish the deletion: `monopile delete-env hello/manifest.yml ",
            "hint: to keep the environment: `monopile create-env hello/manifest.yml ",
        ] {
            assert!(output.stderr.contains(text), "{extra_args:?}: {text}: {}", output.stderr);
        }
    }
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn failed_reboot_is_followed_by_a_new_vm() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let cids_before = vm_and_disk_cids(&hello);
    hello.kill_vm();
    let unable = "Bosh::Clouds::NotSupported";
    hello.set_script(Script::with_info(InfoAnswer::Local).fail("reboot_vm", 9, unable, false));
    let output = run(&hello, "cloud-check", &[&["--auto"][..], &SHORT_TIMEOUT_ARGS].concat()).success();
    assert!(output.stdout.contains("repaired by reboot_vm, then recreate_vm"), "{}", output.stdout);
    assert!(output.stderr.contains("repair 'reboot_vm' failed: "), "{}", output.stderr);
    assert_ne!(vm_and_disk_cids(&hello).0, cids_before.0);
    assert_eq!(hello.ask_counter(), 2);
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn lost_disk_is_forgotten_only_on_request() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let (vm, disk) = vm_and_disk_cids(&hello);
    hello.call("delete_vm", json!([vm]));
    hello.call("delete_disk", json!([disk]));
    let state_before = hello.state();

    // A new VM could not use the disk on record, so it is not created.
    let output = run(&hello, "cloud-check", &["--auto", "--json"]).exits_with(6);
    let problems = parse_document(&output);
    assert_eq!(kinds(&problems), ["missing_disk", "missing_vm"]);
    assert_eq!((&problems[0]["attempts"], &problems[1]["attempts"]), (&json!([]), &json!([])));
    assert_eq!(hello.state(), state_before);

    let extra_args = ["--resolution", "delete_disk_reference", "--resolution", "recreate_vm", "--json"];
    let output = run(&hello, "cloud-check", &extra_args).success();
    let problems = parse_document(&output);
    assert_eq!(problems[1]["attempts"], json!([{"repair": "recreate_vm", "error": null}]));
    assert_eq!(hello.ask_counter(), 1, "the disk is a new one");
    let history =
        hello.world.run(["history", "hello/manifest.yml", "--state", "state.json", "--json"]).success();
    assert!(history.stdout.contains("Stop the jobs on VM '"), "{}", history.stdout);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn declined_repairs_are_summarized() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.kill_vm();
    let mut pty = Pty::start(hello.command("cloud-check", &SHORT_TIMEOUT_ARGS), (80, 24));
    for question in ["Reboot the VM? [y/N]", "keeps its data)? [y/N]"] {
        pty.wait_for("a question", |screen| screen.ends_with(question));
        pty.press("n\r");
    }
    assert_eq!(pty.end(), 6, "{}", pty.text());
    let text = pty.text();
    assert!(text.contains("declined") && text.contains("error: not repaired: the agent of VM"), "{text}");
    let repair = "`monopile cloud-check hello/manifest.yml";
    assert!(text.contains(repair) && text.contains("--resolution reboot_vm`"), "{text}");
    // The warning before the question and the table name the problem, the error does not.
    assert_eq!(text.matches("refused").count(), 2, "{text}");
    hello.delete(&["--agent-timeout", "100ms"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn terminal_prompts_for_each_repair() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.kill_vm();
    let mut pty = Pty::start(hello.command("cloud-check", &SHORT_TIMEOUT_ARGS), (80, 24));
    pty.wait_for("the offer of a reboot", |screen| screen.ends_with("[y/N]"));
    pty.press("n\r");
    pty.wait_for("the offer of a new VM", |screen| screen.ends_with("[y/N]") && screen.contains("? no\n"));
    // The problem is named once.
    assert_eq!(pty.text().matches("https://").count(), 1, "{}", pty.text());
    let question = "Create a new VM in its place (the persistent disk keeps its data)? [y/N]";
    assert!(pty.text().contains(question), "{}", pty.text());
    pty.press("y\r");
    assert_eq!(pty.end(), 0, "{}", pty.text());
    assert!(pty.text().contains("repaired by recreate_vm"), "{}", pty.text());
    let history = hello.world.run(["history", "hello/manifest.yml", "--state", "state.json"]).success();
    assert!(history.stdout.contains("\trepaired by recreate_vm\n"), "{}", history.stdout);
    assert_eq!(hello.ask_counter(), 1);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn lost_directories_of_the_local_cpi_are_reported() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let (vm, disk) = vm_and_disk_cids(&hello);
    // The VM's processes stay, and the data of its disk is in its directory.
    std::fs::remove_dir_all(hello.world.path(format!("cloud/vms/{}", vm.as_str().unwrap()))).unwrap();
    let problems = parse_document(&run(&hello, "cck", &["--auto", "--json"]).exits_with(6));
    assert_eq!(kinds(&problems), ["missing_disk", "missing_vm"]);
    assert_eq!((&problems[0]["attempts"], &problems[1]["attempts"]), (&json!([]), &json!([])));

    let extra_args = ["--resolution", "delete_disk_reference", "--resolution", "recreate_vm", "--json"];
    let problems = parse_document(&run(&hello, "cloud-check", &extra_args).success());
    assert_eq!(problems[1]["attempts"], json!([{"repair": "recreate_vm", "error": null}]));
    assert_eq!(hello.ask_counter(), 1, "the disk is a new one");
    hello.call("delete_disk", json!([disk]));
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn disk_that_the_manifest_has_no_longer_is_kept_detached() {
    let mut hello = Hello::new();
    hello.create(&[]).success();
    let disk = vm_and_disk_cids(&hello).1.as_str().unwrap().to_owned();
    hello.add_ops("no-disk.yml", "- {type: remove, path: /instance_groups/0/persistent_disk_pool}\n");
    let creation = hello.create(&[]).success();
    let hint = "with its data, detached; to delete it: `monopile delete-disk hello/manifest.yml ";
    assert!(creation.stdout.contains(hint), "{}", creation.stdout);

    let output = run(&hello, "cloud-check", &["--auto"]).success();
    assert_eq!(output.stdout, "No problem found with VM, agent and disks.\n");
    let report = run(&hello, "cloud-check", &["--report"]).success();
    assert!(report.stdout.contains("it is kept with its data, detached from the VM"), "{}", report.stdout);
    let list = hello.world.finish(hello.state_command(&["state", "show", "--only", "disks"])).success();
    assert!(list.stdout.contains("\tkept, detached\t"), "{}", list.stdout);
    for command in ["stop-env", "start-env"] {
        run(&hello, command, &[]).success();
    }
    run(&hello, "delete-disk", &["-n", &disk]).success();
    assert_eq!(hello.state()["disks"], json!([]));
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// Returns a script with a VM that the CPI claims to have created and that no agent runs on.
fn vm_without_agent() -> Script {
    let answer = |result: Value| {
        Reaction::Instead(format!("printf '%s' '{}'", json!({"result": result, "error": null, "log": ""})))
    };
    Script::with_info(InfoAnswer::Local)
        .first("create_vm", 1, answer(json!(["vm-silent", {}])))
        .first("set_vm_metadata", usize::MAX, answer(Value::Null))
        .first("has_vm", usize::MAX, answer(json!(true)))
}

#[test]
fn new_vm_whose_agent_does_not_answer_is_a_failed_repair() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.kill_vm();
    hello.set_script(vm_without_agent());
    let extra_args = ["--resolution", "recreate_vm", "--boot-timeout", "1ms"];
    let output = run(&hello, "cloud-check", &[&extra_args[..], &SHORT_TIMEOUT_ARGS].concat()).exits_with(6);
    assert!(output.stdout.contains("not solved by recreate_vm"), "{}", output.stdout);
    assert!(!output.stdout.contains("repaired by"), "{}", output.stdout);
    let new = vm_and_disk_cids(&hello).0;
    let note = format!(
        "VM {} was created and is on record; the next run replaces it",
        new.to_string().replace('"', "'")
    );
    for text in [note.as_str(), " --boot-timeout 30m`"] {
        assert!(output.stderr.contains(text), "{text}: {}", output.stderr);
    }
    // The hint with the longer time repeats the command line.
    let lines: Vec<&str> =
        output.stderr.lines().filter(|line| !line.contains(" --boot-timeout 30m`")).collect();
    for text in ["--resolution", "--auto"] {
        assert!(!lines.iter().any(|line| line.contains(text)), "{text}: {}", output.stderr);
    }
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.create(&[]).success();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn first_deploy_that_did_not_finish_leads_to_create_env() {
    let hello = Hello::new();
    hello.set_script(vm_without_agent());
    hello.create(&["--boot-timeout", "1ms"]).exits_with(5);
    for command in ["status", "stop-env", "logs", "ssh"] {
        let output = run(&hello, command, &SHORT_TIMEOUT_ARGS).exits_with(5);
        let hint = "no deploy has finished yet; to continue: `monopile create-env hello/manifest.yml";
        assert!(output.stderr.contains(hint), "{command}: {}", output.stderr);
        assert!(!output.stderr.contains("`monopile cloud-check"), "{command}: {}", output.stderr);
    }
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.create(&[]).success();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn failed_new_vm_is_reported_as_a_failed_repair() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.kill_vm();
    hello.set_script(Script::with_info(InfoAnswer::Local).fail("reboot_vm", 9, "Busy", false).fail(
        "create_vm",
        9,
        "Bosh::Clouds::VMCreationFailed",
        false,
    ));
    let output = run(&hello, "cloud-check", &[&["--auto"][..], &SHORT_TIMEOUT_ARGS].concat()).exits_with(6);
    assert!(output.stdout.contains("not solved by reboot_vm, then recreate_vm"), "{}", output.stdout);
    assert!(
        output.stderr.contains("hint: check the VM's `cloud_properties` and networks"),
        "{}",
        output.stderr
    );
    assert!(!output.stderr.contains("--resolution"), "{}", output.stderr);
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.forget_suspects();
    hello.create(&[]).success();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
