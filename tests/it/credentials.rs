//! Credentials that differ from the deployed ones: a forgotten or another vars store, a missing or changed
//! value, a rotation.

use serde_json::json;

use crate::support::hello::Hello;
use crate::support::keys::{Certificate, vars_store};
use crate::support::pty::start_on_terminal;
use crate::support::scripted::{InfoAnswer, Script};

const NAMES: [&str; 3] = ["mbus_bootstrap_password", "default_ca", "mbus_bootstrap_ssl"];

/// Returns the names of the files in the working directory.
fn files(hello: &Hello) -> Vec<String> {
    let entries = std::fs::read_dir(hello.world.path(".")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Checks that a deploy fails before it has an effect, and that the message has this text.
#[track_caller]
fn assert_stops(hello: &Hello, text: &str) {
    let state_before = (files(hello), hello.state());
    for command in ["plan", "create-env"] {
        let run = hello.world.finish(hello.command(command, &[])).exits_with(3);
        for text in NAMES.iter().copied().chain([text, "--new-credentials"]) {
            assert!(run.stderr.contains(text), "{command}: no `{text}` in: {}", run.stderr);
        }
        assert!(run.stderr.contains("nothing was changed"), "{command}: {}", run.stderr);
        let state_after = (files(hello), hello.state());
        assert_eq!(state_after.1, state_before.1, "{command}");
        let new: Vec<_> = state_after.0.iter().filter(|name| !state_before.0.contains(name)).collect();
        assert!(new.iter().all(|name| *name == "state.json.lock"), "{command} wrote {new:?}");
    }
    assert!(hello.take_requests().is_empty());
}

#[test]
fn missing_vars_store_stops_the_run() {
    let mut hello = Hello::new();
    // The first deploy fails after it has created a VM.
    hello.set_script(Script::with_info(InfoAnswer::Local).fail(
        "create_disk",
        9,
        "Bosh::Clouds::CloudError",
        false,
    ));
    hello.create(&[]).exits_with(1);
    let credentials = hello.state()["monopile"]["credential_digests"].clone();
    for name in NAMES {
        assert!(credentials["digests"][name].is_string(), "{credentials}");
    }
    assert_eq!(credentials["vars_store"], json!(hello.world.path("creds.yml").canonicalize().unwrap()));
    let status = hello.world.finish(hello.command("status", &["--no-cpi"])).exits_with(1);
    assert!(status.stdout.contains("Jobs\tnone deployed\n"), "{}", status.stdout);
    assert!(status.stdout.contains("Deployed\tno: the last deploy did not finish\n"), "{}", status.stdout);
    assert!(
        status.stderr.contains("the last deploy failed; see how create-env continues: `monopile plan"),
        "{}",
        status.stderr
    );
    hello.take_requests();
    let store = format!(" --vars-store {}`", hello.world.path("creds.yml").canonicalize().unwrap().display());
    hello.replace_option("--vars-store", &[]);
    assert_stops(&hello, &store);
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.create(&["--vars-store", "creds.yml"]).success();
    assert_eq!(hello.ask_counter(), 1);
    hello.take_requests();
    assert_stops(&hello, &store);
    // A command that only reads generates nothing either.
    for command in ["status", "logs", "stop-env"] {
        let run = hello.world.finish(hello.command(command, &[])).exits_with(3);
        assert!(run.stderr.contains(&store) && !run.stderr.contains("--new-credentials"), "{}", run.stderr);
        assert!(run.stderr.contains("/manifest-vars.yml' does not exist"), "{}", run.stderr);
        assert!(!run.stderr.contains("would be generated"), "{}", run.stderr);
        assert!(!hello.world.exists("manifest-vars.yml"), "{command}");
    }

    // The option is a decision of the operator.
    let plan = hello.world.finish(hello.command("plan", &["--new-credentials"])).success();
    let changes = format!("Credentials that change: {}", NAMES.join(", "));
    assert!(plan.stdout.contains(&changes), "{}", plan.stdout);
    let run = hello.create(&["--new-credentials"]).success();
    assert!(run.stdout.contains(&changes), "{}", run.stdout);
    assert!(hello.world.exists("manifest-vars.yml"));
    assert_eq!(hello.ask_counter(), 2);
    let run = hello.world.finish(hello.command("plan", &[])).success();
    assert!(!run.stdout.contains("Credentials"), "{}", run.stdout);
    std::fs::remove_file(hello.world.path("manifest-vars.yml")).unwrap();
    let run = hello.delete(&[]).success();
    assert!(run.stderr.contains("this run deletes the VM without stopping its jobs\n"), "{}", run.stderr);
    assert!(!hello.world.exists("manifest-vars.yml"), "delete-env generates nothing");
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// The password in the vars stores of the tests.
const PASSWORD: &str = "dxq3vh81zkcm5b9t";

/// Returns a vars store for this environment with other values than `creds.yml`.
fn other_store(hello: &Hello) -> String {
    vars_store(&Certificate { host: hello.ip(), days: (-1, 365), is_trusted: true })
        .replace(PASSWORD, "v7m2kqz94hwt6xcd")
}

#[test]
fn vars_store_of_another_environment_stops_the_run() {
    let mut hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    hello.world.write("other.yml", other_store(&hello));
    let path = |name: &str| hello.world.path(name).canonicalize().unwrap().display().to_string();
    let (right, foreign) = (format!(" --vars-store {}`", path("creds.yml")), path("other.yml"));
    hello.replace_option("--vars-store", &["--vars-store", "other.yml"]);
    hello.take_requests();
    assert_stops(&hello, &right);
    assert_stops(&hello, &format!("'{foreign}' is probably not of this environment"));
    // No command takes the healthy VM for a broken one, or offers to replace it.
    for words in [&["status"][..], &["logs"], &["stop-env"], &["cloud-check", "--report"]] {
        let run = hello.world.finish(hello.command(words[0], &words[1..])).exits_with(3);
        assert!(run.stderr.contains(&right) && !run.stderr.contains("--new-credentials"), "{}", run.stderr);
    }
    for words in [&["cloud-check", "--auto"][..], &["recreate", "-n"]] {
        let run = hello.world.finish(hello.command(words[0], &words[1..])).exits_with(3);
        assert!(run.stderr.contains(&right), "{words:?}: {}", run.stderr);
    }
    assert!(hello.take_requests().is_empty());

    // The same file with other values: another file has no better ones.
    let deployed_store = hello.world.read("creds.yml");
    hello.world.write("creds.yml", hello.world.read("other.yml"));
    hello.replace_option("--vars-store", &["--vars-store", "creds.yml"]);
    assert_stops(&hello, "put the deployed values back into the vars store");
    hello.world.write("creds.yml", deployed_store);
    hello.create(&[]).success();

    // The operator may insist.
    hello.replace_option("--vars-store", &["--vars-store", "other.yml"]);
    let failing_script =
        Script::with_info(InfoAnswer::Local).fail("attach_disk", 9, "Bosh::Clouds::CloudError", false);
    hello.set_script(failing_script);
    let run = hello.create(&["--new-credentials"]).exits_with(1);
    let warning = "the jobs cannot be stopped before the VM is replaced, because its agent refuses";
    assert!(run.stderr.contains(warning) && run.stderr.contains(&right), "{}", run.stderr);
    // The new VM has the new credentials, although its deploy has failed.
    hello.set_script(Script::with_info(InfoAnswer::Local));
    let run = hello.create(&[]).success();
    assert!(!run.stdout.contains("Credentials that change"), "{}", run.stdout);
    assert_eq!(hello.ask_counter(), 2, "the disk is the same");
    hello.world.finish(hello.command("status", &["--no-cpi"])).success();
    hello.create(&[]).success();
    hello.replace_option("--vars-store", &["--vars-store", "creds.yml"]);
    let run = hello.delete(&["--json"]).success();
    let warning = "this run deletes the VM without stopping its jobs\",\"hints\":[\"pass the vars store";
    assert!(run.stdout.contains(warning), "{}", run.stdout);
    assert!(run.stdout.contains("at present, the agent refuses the given credentials"), "{}", run.stdout);
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// Removes a variable from the vars store.
fn remove_from_store(hello: &Hello, name: &str) {
    let mut store: serde_json::Map<String, serde_json::Value> =
        serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    assert!(store.remove(name).is_some());
    hello.world.write("creds.yml", serde_json::to_string(&store).unwrap());
}

#[test]
fn credential_that_the_agent_needs_is_not_generated_again() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let deployed_store = hello.world.read("creds.yml");
    hello.take_requests();
    // The CA of the agent's certificate is in the store, so a new certificate is no other credential.
    remove_from_store(&hello, "mbus_bootstrap_ssl");
    let plan = hello.world.finish(hello.command("plan", &[])).success();
    assert!(!plan.stderr.contains("agent refuses"), "{}", plan.stderr);
    for names in [&["mbus_bootstrap_password"][..], &["mbus_bootstrap_ssl", "default_ca"]] {
        hello.world.write("creds.yml", &deployed_store);
        names.iter().for_each(|name| remove_from_store(&hello, name));
        let store_before = hello.world.read("creds.yml");
        for command in ["plan", "create-env", "status", "stop-env"] {
            let run = hello.world.finish(hello.command(command, &[])).exits_with(3);
            assert!(run.stderr.contains("the deployed credentials are missing: "), "{}", run.stderr);
            assert!(run.stderr.contains("cause: the vars store 'creds.yml' "), "{}", run.stderr);
            assert!(names.iter().all(|name| run.stderr.contains(name)), "{names:?}: {}", run.stderr);
            assert!(run.stderr.contains("hint: put the deployed values back into"), "{}", run.stderr);
        }
        assert_eq!(hello.world.read("creds.yml"), store_before);
        assert!(hello.take_requests().is_empty());
    }
    let run = hello.create(&["--new-credentials"]).success();
    assert!(run.stderr.contains("the jobs cannot be stopped before the VM is replaced"), "{}", run.stderr);
    assert_eq!(hello.ask_counter(), 2);
    hello.delete(&[]).success();
}

#[test]
fn agent_that_refuses_a_changed_credential_is_not_broken() {
    let mut hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    hello.world.write("edited.yml", hello.world.read("creds.yml").replace(PASSWORD, "v7m2kqz94hwt6xcd"));
    let store_option =
        format!(" --vars-store {}`", hello.world.path("creds.yml").canonicalize().unwrap().display());
    hello.replace_option("--vars-store", &["--vars-store", "edited.yml"]);
    let differs = "(401); mbus_bootstrap_password differs from the deployed value";
    hello.take_requests();
    let runs = [
        hello.world.finish(hello.command("status", &[])).exits_with(5),
        hello.world.finish(hello.command("logs", &[])).exits_with(5),
        hello.world.finish(hello.command("restart", &[])).exits_with(5),
        hello.world.finish(hello.command("cloud-check", &["--report"])).exits_with(6),
        hello.world.finish(hello.command("cloud-check", &["--auto"])).exits_with(6),
        hello.world.finish(hello.command("cloud-check", &["--resolution", "recreate_vm"])).exits_with(6),
    ];
    for run in runs {
        let output = format!("{}{}", run.stdout, run.stderr);
        assert!(output.contains(differs) && run.stderr.contains(&store_option), "{output}");
        // The hint with the right store repeats the command line.
        let lines: Vec<&str> = output.lines().filter(|line| !line.contains(&store_option)).collect();
        for offer in ["recreate_vm", "--auto", "cloud-check h"] {
            assert!(!lines.iter().any(|line| line.contains(offer)), "{offer}: {output}");
        }
    }
    let run = hello.world.finish(hello.command("cloud-check", &["--json"])).exits_with(6);
    let problems: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(problems[0]["kind"], "refused_credentials");
    assert_eq!(problems[0]["repairs"], json!([]));
    let changes = ["create_vm", "delete_vm", "reboot_vm"];
    assert!(!Hello::methods(&hello.take_requests()).iter().any(|method| changes.contains(method)));

    // A state without a record of credentials: the agent alone shows that they are others.
    let complete_state = hello.state();
    let mut state = complete_state.clone();
    state["monopile"].as_object_mut().unwrap().remove("credential_digests");
    hello.world.write("state.json", state.to_string());
    let run = hello.world.finish(hello.command("cloud-check", &["--auto"])).exits_with(6);
    assert!(run.stderr.contains("pass the vars store of the last deploy"), "{}", run.stderr);
    assert!(!Hello::methods(&hello.take_requests()).contains(&"delete_vm"));
    hello.world.write("state.json", complete_state.to_string());

    // One credential may be changed on purpose; the plan says what that costs.
    let warning = "the jobs cannot be stopped before the VM is replaced, because its agent refuses the new \
                   credentials";
    for command in ["plan", "create-env"] {
        let run = hello.world.finish(hello.command(command, &[])).success();
        let stop_hint =
            "hint: to stop the jobs first, pass the vars store of the last deploy: `monopile stop-env ";
        for text in [warning, differs, stop_hint, &store_option] {
            assert!(run.stderr.contains(text), "{command}: {text}: {}", run.stderr);
        }
    }
    assert_eq!(hello.ask_counter(), 2);

    // A silent agent cannot stop the jobs either.
    hello.world.write("edited.yml", hello.world.read("creds.yml"));
    hello.kill_vm();
    let plan = hello.world.finish(hello.command("plan", &[])).success();
    let warning = "the jobs cannot be stopped before the VM is replaced, because its agent does not answer: ";
    assert!(plan.stderr.contains(warning), "{}", plan.stderr);
    assert!(plan.stdout.contains("1. Stop the jobs on VM "), "{}", plan.stdout);
    assert!(!plan.stdout.contains("downtime"), "{}", plan.stdout);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn missing_vars_store_of_bosh_stops_the_run() {
    let mut hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    // `bosh` writes the same state without this section.
    let mut state = hello.state();
    state.as_object_mut().unwrap().remove("monopile");
    hello.world.write("state.json", state.to_string());
    hello.replace_option("--vars-store", &[]);
    hello.take_requests();
    assert_stops(&hello, "--vars-store");
    hello.create(&["--vars-store", "creds.yml"]).success();
    assert_eq!(hello.ask_counter(), 2, "the disk is the same");
    hello.delete(&["--vars-store", "creds.yml"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn credentials_of_a_program_must_be_given_again() {
    let mut hello = Hello::new();
    hello.replace_option("--vars-store", &["--vars-exec", "cat creds.yml"]);
    hello.create(&[]).success();
    hello.take_requests();
    let credentials = hello.state()["monopile"]["credential_digests"].clone();
    for name in NAMES {
        assert!(credentials["digests"][name].is_string(), "{credentials}");
    }
    hello.replace_option("--vars-exec", &[]);
    assert_stops(&hello, "pass them as for the last deploy");
    hello.delete(&["--vars-exec", "cat creds.yml"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn variables_of_the_last_deploy_must_be_given_again() {
    let mut hello = Hello::new();
    let port = "port=8580";
    hello.replace_option("-v", &[]);
    let new = hello.create(&[]).exits_with(3);
    assert!(new.stderr.contains("((port))"), "{}", new.stderr);
    assert!(
        new.stderr
            .contains(" --var port=VALUE`\n  hint: to have create-env generate a value, declare a type"),
        "{}",
        new.stderr
    );
    hello.create(&["-v", port]).success();
    for command in ["plan", "status", "delete-vm"] {
        let extra_args = if command == "delete-vm" { &["vm-1"][..] } else { &[] };
        let run = hello.world.finish(hello.command(command, extra_args)).exits_with(3);
        let hints: Vec<&str> =
            run.stderr.lines().filter_map(|line| line.trim_start().strip_prefix("hint: ")).collect();
        assert!(hints[0].starts_with("pass the same variables as for the last create-env: "), "{hints:?}");
        assert!(hints[1].starts_with("for a new variable, give a value: `monopile "), "{hints:?}");
    }
    hello.delete(&["-v", port]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn plan_lists_the_credentials_that_change() {
    let mut hello = Hello::new();
    // The source of the values is a plain file of variables.
    hello.replace_option("--vars-store", &["-l", "creds.yml"]);
    hello.create(&[]).success();
    hello.take_requests();
    assert!(hello.state()["monopile"]["credential_digests"]["vars_store"].is_null());
    hello.replace_option("-l", &[]);
    assert_stops(&hello, "pass them as for the last deploy");

    let mut values: serde_json::Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    values.as_object_mut().unwrap().remove("mbus_bootstrap_password");
    hello.world.write("part.yml", values.to_string());
    let plan = hello
        .world
        .finish(hello.command("plan", &["--vars-store", "part.yml", "--new-credentials"]))
        .success();
    assert!(plan.stdout.contains("Credentials that change: mbus_bootstrap_password\n"), "{}", plan.stdout);
    let run = hello
        .world
        .finish(hello.command("plan", &["--vars-store", "part.yml", "--new-credentials", "--json"]))
        .success();
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["changed_credentials"], json!(["mbus_bootstrap_password"]));
    values["mbus_bootstrap_password"] = json!("another-one");
    hello.world.write("part.yml", values.to_string());
    let plan = hello.world.finish(hello.command("plan", &["-l", "part.yml"])).success();
    assert!(plan.stdout.contains("Credentials that change: mbus_bootstrap_password\n"), "{}", plan.stdout);
    // A part of the values may be given in any way. Those that the agent needs count as forgotten.
    let password = "mbus_bootstrap_password=dxq3vh81zkcm5b9t";
    let run = hello.world.finish(hello.command("plan", &["-v", password])).exits_with(3);
    assert!(run.stderr.contains("missing: default_ca, mbus_bootstrap_ssl\n"), "{}", run.stderr);
    let plan = hello.world.finish(hello.command("plan", &["-v", password, "--new-credentials"])).success();
    let changes = "Credentials that change: default_ca, mbus_bootstrap_ssl\n";
    assert!(plan.stdout.contains(changes), "{}", plan.stdout);

    let mut by_environment = hello.command("plan", &["--vars-env", "HELLO", "--new-credentials"]);
    by_environment.env("HELLO_mbus_bootstrap_password", "dxq3vh81zkcm5b9t");
    let plan = hello.world.finish(by_environment).success();
    assert!(plan.stdout.contains(changes), "{}", plan.stdout);

    // A state of an older version has no record.
    let complete_state = hello.state();
    let mut state = complete_state.clone();
    state["monopile"].as_object_mut().unwrap().remove("credential_digests");
    hello.world.write("state.json", state.to_string());
    let plan = hello.world.finish(hello.command("plan", &[])).success();
    assert!(!plan.stdout.contains("Credentials"), "{}", plan.stdout);
    hello.world.write("state.json", complete_state.to_string());
    hello.replace_option("--state", &["--state", "state.json", "-l", "creds.yml"]);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// Returns the names of the variables whose earlier values the store keeps, by rotation.
fn previous(hello: &Hello) -> Vec<Vec<String>> {
    let store: serde_json::Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    let rotations = store["monopile_previous"].as_array().cloned().unwrap_or_default();
    assert!(!json!(rotations).to_string().contains("PRIVATE KEY"));
    rotations.iter().map(|rotation| rotation.as_object().unwrap().keys().cloned().collect()).collect()
}

#[test]
fn after_a_rotation_the_old_vm_is_stopped() {
    // Only a CA that the program generated is rotated without its manifest.
    let hello = Hello::without_vars_store();
    hello.create(&[]).success();
    let mut counter = 1;
    let rotations: [&[&[&str]]; 3] = [
        &[&["mbus_bootstrap_password"], &["mbus_bootstrap_password"]],
        &[&["default_ca"], &["mbus_bootstrap_password"]],
        &[&["mbus_bootstrap_ssl"]],
    ];
    for steps in rotations {
        assert_eq!(hello.ask_counter(), counter);
        counter += 1;
        for step in steps {
            let run = hello.world.run(["vars", "rotate", "creds.yml"].iter().chain(*step)).success();
            let hint = " replaces the VM: `monopile plan MANIFEST --vars-store creds.yml`\n";
            assert!(run.stdout.contains(hint), "{}", run.stdout);
        }
        if steps[0] == ["default_ca"] {
            let store_text = hello.world.read("creds.yml");
            let early_finish =
                hello.world.run(["vars", "rotate", "creds.yml", "default_ca", "--finish"]).exits_with(3);
            for text in [
                "the last rotation of 'default_ca' is not deployed yet: ",
                ": `monopile create-env MANIFEST --vars-store creds.yml`",
            ] {
                assert!(early_finish.stderr.contains(text), "{text}: {}", early_finish.stderr);
            }
            assert_eq!(hello.world.read("creds.yml"), store_text);
        }
        let previous_count = steps.len();
        assert_eq!(previous(&hello).len(), previous_count, "{:?}", previous(&hello));
        assert!(!hello.world.run(["vars", "list", "creds.yml"]).success().stdout.contains("previous"));
        // Commands that talk to the VM still reach it, and the plan changes nothing.
        let run = hello.world.finish(hello.command("status", &["--no-cpi"])).success();
        assert!(run.stdout.contains("running"), "{}", run.stdout);
        hello.world.finish(hello.command("restart", &[])).success();
        let plan = hello.world.finish(hello.command("plan", &[])).success();
        let changes = plan.stdout.lines().find(|line| line.contains("Credentials that change: "));
        assert!(changes.is_some_and(|line| line.contains(steps[0][0])), "{}", plan.stdout);
        assert!(!plan.stderr.contains("cannot be stopped"), "{}", plan.stderr);
        let failed_run = hello.world.finish(hello.command("recreate", &[])).exits_with(3);
        let changes = failed_run.stderr.lines().find(|line| line.contains("credentials that change: "));
        assert!(changes.is_some_and(|line| line.contains(steps[0][0])), "{}", failed_run.stderr);
        assert_eq!(previous(&hello).len(), previous_count);

        let vm = hello.state()["current_vm_cid"].clone();
        let run = hello.create(&[]).success();
        for step in ["Draining", "Stopping", "Unmounting"] {
            assert!(run.stdout.contains(step), "{steps:?}: {step}: {}", run.stdout);
        }
        assert!(!run.stdout.contains("cannot be used"), "{}", run.stdout);
        assert_ne!(hello.state()["current_vm_cid"], vm);
        assert!(previous(&hello).is_empty(), "the new values are deployed: {:?}", previous(&hello));
    }
    assert_eq!(hello.ask_counter(), counter);
    // The agent does not use the CA, so the VM stays at the end of its rotation, which is deployed.
    let vm = hello.state()["current_vm_cid"].clone();
    hello.world.run(["vars", "rotate", "creds.yml", "default_ca", "--finish"]).success();
    let run = hello.create(&[]).success();
    assert!(run.stdout.contains("Update without stopping the jobs"), "{}", run.stdout);
    assert_eq!(hello.state()["current_vm_cid"], vm);
    hello.world.finish(hello.command("status", &["--no-cpi"])).success();

    // The end of a rotation is no sign of another vars store, even if it changes all values of the store.
    let password_option = ["-v", "mbus_bootstrap_password=given-another-way"];
    hello.create(&password_option).success();
    hello.world.run(["vars", "rotate", "creds.yml", "default_ca"]).success();
    hello.create(&password_option).success();
    hello.world.run(["vars", "rotate", "creds.yml", "default_ca", "--finish"]).success();
    hello.world.finish(hello.command("status", &[&["--no-cpi"][..], &password_option].concat())).success();
    hello.create(&password_option).success();
    hello.create(&[]).success();

    // Without the earlier values, the agent rejects the new ones.
    hello.world.run(["vars", "rotate", "creds.yml", "mbus_bootstrap_password"]).success();
    let mut values: serde_json::Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    let list = values.as_object_mut().unwrap().remove("monopile_previous").unwrap();
    hello.world.write("creds.yml", values.to_string());
    let run = hello.world.finish(hello.command("status", &["--no-cpi"])).exits_with(5);
    assert!(run.stderr.contains("(401)"), "{}", run.stderr);
    values["monopile_previous"] = list;
    hello.world.write("creds.yml", values.to_string());
    let run = hello.delete(&[]).success();
    assert!(run.stdout.contains("Draining"), "{}", run.stdout);
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// Gives the running VM and the vars store a certificate that has expired.
fn let_expire(hello: &Hello) {
    hello.write_vars_store(&Certificate { host: hello.ip(), days: (-20, -10), is_trusted: true });
    let store: serde_json::Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    let vm = hello.state()["current_vm_cid"].as_str().unwrap().to_owned();
    let path = hello.world.path(format!("cloud/vms/{vm}/settings.json"));
    let mut settings: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    settings["env"]["bosh"]["mbus"]["cert"] = store["mbus_bootstrap_ssl"].clone();
    std::fs::write(&path, settings.to_string()).unwrap();
    let answer = hello.try_call("reboot_vm", json!([vm]));
    assert!(answer["error"].is_null(), "{answer}");
}

#[test]
fn vm_with_expired_certificate_is_stopped_after_rotation() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let_expire(&hello);
    let status = || hello.world.finish(hello.command("status", &["--no-cpi"]));
    let run = status().exits_with(5);
    assert!(run.stderr.contains("certificate expired"), "{}", run.stderr);
    let run = hello.world.finish(hello.command("restart", &[])).exits_with(5);
    for text in ["`monopile vars check creds.yml`", "clock says"] {
        assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
    }
    assert!(!run.stderr.contains("must have signed"), "{}", run.stderr);

    hello.world.run(["vars", "rotate", "creds.yml", "mbus_bootstrap_ssl"]).success();
    let run = status().success();
    assert!(run.stdout.contains("running"), "{}", run.stdout);
    let store_text = hello.world.read("creds.yml");
    // Another certificate that has expired is rejected, although the same CA signed it.
    let mut values: serde_json::Value = serde_yaml::from_str(&store_text).unwrap();
    let current = values["mbus_bootstrap_ssl"]["certificate"].clone();
    values["monopile_previous"][0]["mbus_bootstrap_ssl"]["certificate"] = current;
    hello.world.write("creds.yml", values.to_string());
    let run = status().exits_with(5);
    assert!(run.stderr.contains("certificate expired"), "{}", run.stderr);
    hello.world.write("creds.yml", store_text);

    let run = hello.create(&[]).success();
    for step in ["Draining", "Stopping", "Unmounting"] {
        assert!(run.stdout.contains(step), "{step}: {}", run.stdout);
    }
    assert_eq!(hello.ask_counter(), 2);
    status().success();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn expired_certificate_and_new_ca_replace_the_vm_once() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let_expire(&hello);
    let mut manifest_options = vec!["-l", "hello/manifest.yml"];
    for pair in hello.options().chunks(2).filter(|pair| ["-o", "-v"].contains(&pair[0])) {
        manifest_options.extend(pair);
    }
    let rotate = |extra_args: &[&str]| {
        let words = ["vars", "rotate", "creds.yml", "default_ca"];
        hello.world.run(words.iter().chain(&manifest_options).chain(extra_args)).success()
    };
    let status = || hello.world.finish(hello.command("status", &["--no-cpi"]));
    status().exits_with(5);

    // Rotate and deploy. The new VM gets the new certificate, and the old VM is stopped through its agent.
    let run = rotate(&[]);
    assert!(run.stdout.contains("mbus_bootstrap_ssl"), "{}", run.stdout);
    let run = status().success();
    assert!(run.stdout.contains("running"), "{}", run.stdout);
    let vm_before = hello.state()["current_vm_cid"].clone();
    let run = hello.create(&[]).success();
    for step in ["Draining", "Stopping", "Unmounting"] {
        assert!(run.stdout.contains(step), "{step}: {}", run.stdout);
    }
    let vm = hello.state()["current_vm_cid"].clone();
    assert_ne!(vm, vm_before);
    assert_eq!(hello.ask_counter(), 2, "the data of the disk is there");

    // Run `--finish` and deploy. The agent is still reached, and its VM stays.
    rotate(&["--finish"]);
    status().success();
    let run = hello.create(&[]).success();
    assert!(run.stdout.contains("Update without stopping the jobs"), "{}", run.stdout);
    assert_eq!(hello.state()["current_vm_cid"], vm);
    assert_eq!(hello.ask_counter(), 3);
    let run = hello.create(&[]).success();
    assert!(run.stdout.contains("Nothing to do"), "{}", run.stdout);
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn declined_plan_leaves_the_vars_store_as_it_was() {
    let mut hello = Hello::new();
    hello.add_ops(
        "pin.yml",
        "- {type: replace, path: /variables/-, value: {name: pin, type: password, update_mode: converge, \
         options: {length: ((length))}}}\n\
         - {type: replace, path: /resource_pools/name=vms/env/pin?, value: ((pin))}\n",
    );
    hello.create(&["-v", "length=12"]).success();
    let stored_text = hello.world.read("creds.yml");
    let mut pty = start_on_terminal(hello.command("create-env", &["-v", "length=16"]), (80, 60));
    pty.wait_for("the question", |screen| screen.ends_with("Replace the VM of 'hello'? [y/N]"));
    pty.press("n\r");
    assert_eq!(pty.end(), 2, "{}", pty.text());
    let text = pty.text();
    assert!(text.contains("variable 'pin' is generated again: its length is not 16"), "{text}");
    assert!(text.contains("error: not confirmed: nothing was changed"), "{text}");
    assert_eq!(hello.world.read("creds.yml"), stored_text);

    // The values of the deployed VM are still there.
    let run = hello.create(&["-v", "length=12"]).success();
    assert!(run.stdout.contains("Nothing to do: the manifest is as deployed"), "{run:?}");
    hello.create(&["-v", "length=16"]).success();
    let deployed_text = hello.world.read("creds.yml");
    assert_ne!(deployed_text, stored_text);
    let run = hello.create(&["-v", "length=16"]).success();
    assert!(run.stdout.contains("Nothing to do: the manifest is as deployed"), "{run:?}");
    assert_eq!(hello.world.read("creds.yml"), deployed_text);
    hello.delete(&["-v", "length=16"]).success();
}
