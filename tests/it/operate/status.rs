//! `status`: the overview of an environment, healthy or not.

use crate::support::process::prepare;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Running, parse_document, run};
use crate::support::MONOPILE;
use crate::support::hello::Hello;
use crate::support::pty::Pty;

#[test]
fn status_of_a_healthy_environment() {
    let hello = Hello::without_vars_store();
    hello.create(&[]).success();
    hello.take_requests();
    let (state, state_before) = (hello.state(), hello.world.read("state.json"));

    let status = parse_document(&run(&hello, "status", &["--json"]).success());
    assert_eq!(status["vm"]["cid"], state["current_vm_cid"]);
    assert_eq!((&status["vm"]["presence"], &status["agent"]["reply"]), (&json!("yes"), &json!("yes")));
    assert_eq!(status["agent"]["id"], state["monopile"]["vm"]["agent_id"]);
    assert_eq!((&status["job_state"], &status["jobs"]), (&json!("running"), &json!(["hello"])));
    let process = &status["processes"][0];
    assert_eq!((&process["name"], &process["state"]), (&json!("hello"), &json!("running")));
    assert!(process["memory_kib"].as_u64().unwrap() > 100, "{process}");
    assert!(status["vitals"]["mem"]["percent"].is_string());
    let disk = &status["disks"][0];
    assert_eq!(
        (&disk["cid"], &disk["mounted"], &disk["presence"]),
        (&state["disks"][0]["cid"], &json!(true), &json!("yes"))
    );
    assert_eq!(status["networks"][0]["ip"], hello.ip());
    let names: Vec<&str> = status["certificates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|certificate| certificate["path"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["default_ca.ca", "mbus_bootstrap_ssl.certificate"]);
    assert_eq!(status["runs"][0]["command"], "create-env");
    assert_eq!(
        (&status["record"]["stemcells"][0]["in_use"], &status["networks"][0]["name"]),
        (&json!(true), &json!("default"))
    );
    assert!(status["record"]["releases"][0].as_str().unwrap().starts_with("hello/"), "{status}");
    assert!(disk["hint"]["path"].is_string() && disk["used_percent"].is_string(), "{disk}");
    assert_eq!(Hello::methods(&hello.take_requests()), ["info", "has_vm", "has_disk"]);

    let text = run(&hello, "status", &["--no-cpi"]).success().stdout;
    for part in [
        "answers at https://",
        "running: hello\n",
        "\nprocess\thello\trunning\t",
        "\ndisk\tdisk-",
        "\tmounted\t",
        "\nnetwork\tdefault\t",
        "\ncertificate\tdefault_ca.ca\t",
        "\nrun\tjust now\tcreate-env\t",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(hello.take_requests().is_empty(), "--no-cpi");

    // The state alone shows less, and neither the agent nor the CPI is contacted.
    let local_status = hello.world.run(["status", "state.json", "--json"]).success();
    let local_status = parse_document(&local_status);
    assert_eq!(
        (&local_status["vm"]["cid"], &local_status["agent"]["reply"]),
        (&status["vm"]["cid"], &json!("not_asked"))
    );
    assert!(hello.take_requests().is_empty());

    let creds: Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    let password = creds["mbus_bootstrap_password"].as_str().unwrap();
    assert!(!status.to_string().contains(password) && !text.contains(password));
    assert_eq!(hello.world.read("state.json"), state_before, "a look changes nothing");

    let stop_run = run(&hello, "stop-env", &[]).success();
    assert!(stop_run.stdout.contains("To start them: `monopile start-env "), "{stop_run:?}");
    assert!(!stop_run.stdout.contains("start-env MANIFEST"), "{stop_run:?}");
    let stopped_status = run(&hello, "status", &["--no-cpi"]).exits_with(1);
    assert!(
        stopped_status.stderr.contains("error: stop-env stopped the jobs at 20")
            && stopped_status.stdout.contains("\t1024 MiB\t"),
        "{}",
        stopped_status.stderr
    );
    assert!(
        stopped_status.stderr.contains("`monopile start-env hello/manifest.yml "),
        "{}",
        stopped_status.stderr
    );
    assert!(stopped_status.stdout.contains("stopped: hello  (stop-env, 20"), "{}", stopped_status.stdout);
    // These runs change nothing: a deploy of the same manifest, a check, and a run without a cache.
    hello.create(&[]).success();
    run(&hello, "cloud-check", &["--report"]).success();
    hello.world.write("file", "");
    hello.create(&["--cache-dir", "file"]).exits_with(1);
    let stopped_status = run(&hello, "status", &["--no-cpi"]).exits_with(1);
    assert!(
        stopped_status.stderr.contains("error: stop-env stopped the jobs at 20"),
        "{}",
        stopped_status.stderr
    );
    assert!(
        stopped_status.stderr.contains("`monopile start-env hello/manifest.yml "),
        "{}",
        stopped_status.stderr
    );
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn status_shows_dead_agents_and_missing_vms() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.kill_vm();
    let quick = ["--agent-timeout", "300ms"];
    let dead = run(&hello, "status", &quick).exits_with(5);
    assert!(dead.stdout.contains("NO ANSWER") && dead.stdout.contains("  exists\n"), "{}", dead.stdout);
    assert!(dead.stdout.contains("\tdefault_ca.ca\t") && dead.stdout.contains("1024 MiB"), "{}", dead.stdout);
    assert!(dead.stderr.contains("cloud-check"), "{}", dead.stderr);

    hello.call("delete_vm", json!([hello.state()["current_vm_cid"]]));
    let missing_status = run(&hello, "status", &quick).exits_with(6);
    assert!(missing_status.stdout.contains("NOT FOUND BY THE CPI"), "{}", missing_status.stdout);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn failed_deletion_is_tried_again() {
    let mut hello = Hello::new();
    // No agent listens at the port of `cloud_provider.mbus`.
    let url = format!("https://mbus:((mbus_bootstrap_password))@{}:6868", hello.ip());
    let path = "/cloud_provider/properties/agent/mbus";
    hello.add_ops("agent.yml", &format!("- {{type: replace, path: {path}, value: \"{url}\"}}\n"));
    hello.create(&["-v", "mbus_port=1", "--boot-timeout", "100ms"]).exits_with(5);
    let options = ["-v", "mbus_port=1", "--agent-timeout", "100ms"];
    let status = || run(&hello, "status", &[&options[..], &["--no-cpi"]].concat()).exits_with(5).stderr;
    let unfinished_status = status();
    let hint = "hint: no deploy has finished yet; to continue: `monopile create-env hello/manifest.yml ";
    assert!(unfinished_status.contains(hint), "{unfinished_status}");
    hello.set_answer("delete_vm", "instead", &Hello::error("Bosh::Clouds::CloudError", "it is busy"));
    hello.delete(&options).exits_with(1);
    let failed_status = status();
    let hint = "hint: the last run failed; to finish the deletion: `monopile delete-env hello/manifest.yml ";
    assert!(failed_status.contains(hint), "{failed_status}");
    hello.answer_truly();
    hello.delete(&options).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn interrupted_restart_is_not_repeated_without_its_vm() {
    let hello = Hello::new();
    hello.world.write("hello/release/jobs/hello/templates/drain.erb", "#!/bin/bash\nsleep 20\n");
    hello.create(&[]).success();
    let restart = Running::start(hello.command("restart", &["--json"]));
    restart.wait_for_line("Draining the jobs");
    assert_eq!(restart.end(Signal::INT), Some(130));
    hello.kill_vm();
    let quick = ["--agent-timeout", "300ms"];
    let silent_status = run(&hello, "status", &[&quick[..], &["--no-cpi"]].concat()).exits_with(5).stderr;
    assert!(silent_status.contains("hint: see what can be done: `monopile cloud-check "), "{silent_status}");
    hello.call("delete_vm", json!([hello.state()["current_vm_cid"]]));
    let missing_status = run(&hello, "status", &quick).exits_with(6).stderr;
    assert!(missing_status.contains("then create a new VM: `monopile create-env "), "{missing_status}");
    for text in [silent_status, missing_status] {
        assert!(!text.contains("monopile restart"), "{text}");
    }
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn stopped_vm_of_this_machine_is_started_again() {
    let hello = Hello::new();
    let run = |command: &str, extra_args: &[&str]| {
        hello.world.finish(hello.builtin_command(&[command], extra_args))
    };
    run("create-env", &[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let vm = hello.state()["current_vm_cid"].clone();
    let quick = ["--agent-timeout", "300ms"];
    let url = format!("https://mbus:wrong-one@{}:6868", hello.ip());
    hello
        .world
        .write("wrong.yml", format!("- {{type: replace, path: /cloud_provider/mbus, value: \"{url}\"}}\n"));
    let failed_stop = run("stop-env", &[&["-o", "wrong.yml"][..], &quick].concat()).exits_with(5);
    assert!(
        failed_stop.stdout.contains("Checking whether the VM is stopped: it is running"),
        "{}",
        failed_stop.stdout
    );
    // Neither a run that ends at its question nor one that only finds the VM off is an unfinished deploy.
    let mut pty = Pty::start(hello.builtin_command(&["create-env"], &["--recreate"]), (120, 50));
    pty.wait_for("the question", |screen| screen.contains("[y/N]"));
    pty.press("\x03");
    assert_eq!(pty.end(), 130);
    hello.kill_vm();
    let check_status = || {
        let stopped_status = run("status", &quick).exits_with(5);
        assert!(stopped_status.stdout.contains("  STOPPED\n"), "{}", stopped_status.stdout);
        assert!(
            stopped_status.stderr.contains("its processes on this machine have ended"),
            "{}",
            stopped_status.stderr
        );
        let hint = "hint: to start it and its jobs: `monopile start-env ";
        assert!(stopped_status.stderr.contains(hint), "{}", stopped_status.stderr);
    };
    check_status();
    run("create-env", &[]).exits_with(5);
    check_status();
    let plan = run("plan", &[]).success();
    for text in
        ["Nothing changed in the manifest, but VM ", "To start the VM and its jobs: `monopile start-env "]
    {
        assert!(plan.stdout.contains(text), "{text}: {}", plan.stdout);
    }
    let report = run("cloud-check", &[&["--report", "--json"][..], &quick].concat()).exits_with(6);
    let findings = parse_document(&report);
    let finding_of =
        |kind: &str| findings.as_array().unwrap().iter().find(|finding| finding["kind"] == kind).unwrap();
    assert_eq!(
        (&finding_of("VM")["status"], &finding_of("VM")["problem"]),
        (&json!("drifted"), &json!("stopped_vm"))
    );
    assert_eq!(finding_of("VM")["repairs"], json!(["reboot_vm", "recreate_vm"]));
    assert_eq!(finding_of("agent")["detail"], "it does not answer, because its VM is stopped");
    assert_eq!(finding_of("agent")["repairs"], Value::Null, "the repair is that of the VM");

    // No login is possible, and no job runs.
    let logs = run("logs", &quick).exits_with(5);
    assert!(logs.stderr.contains("hint: to start it and its jobs: `monopile start-env "), "{}", logs.stderr);
    assert!(!logs.stderr.contains("monopile ssh"), "{}", logs.stderr);
    let stop = run("stop-env", &quick).exits_with(5);
    assert!(stop.stdout.contains("Checking whether the VM is stopped: it is stopped"), "{}", stop.stdout);
    assert!(
        stop.stderr.contains("note: its jobs do not run, so there is nothing to stop\n"),
        "{}",
        stop.stderr
    );

    run("start-env", &quick).success();
    assert_eq!(
        (hello.ask_counter(), hello.state()["current_vm_cid"].clone()),
        (2, vm.clone()),
        "the VM or disk was replaced"
    );
    run("status", &[]).success();

    // The VM is deleted by other means.
    let call = ["delete_vm", vm.as_str().unwrap()];
    hello.world.finish(hello.builtin_command(&["cpi", "call"], &call)).success();
    let missing = run("restart", &quick).exits_with(5);
    assert!(missing.stdout.contains("the VM is stopped: it does not exist"), "{}", missing.stdout);
    assert!(missing.stderr.contains(&format!("error: VM '{}' does not exist on this machine", call[1])));
    assert!(missing.stderr.contains("`monopile cloud-check "), "{}", missing.stderr);
    let deletion = run("delete-env", &["-n"]).success();
    let skip_line = format!("Deleting VM '{}': skipped (the CPI does not find it)", call[1]);
    assert!(deletion.stdout.contains(&skip_line), "{}", deletion.stdout);
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn watch_ends_at_a_signal() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.take_requests();
    let watch = Running::start(hello.command("status", &["--watch", "--interval", "50ms", "--json"]));
    watch.wait_for_line(r#""reply":"yes""#);
    watch.wait_for_line(r#""reply":"yes""#);
    assert_eq!(
        Hello::methods(&hello.take_requests()),
        ["info", "has_vm", "has_disk"],
        "the CPI is asked once"
    );
    hello.kill_vm();
    watch.wait_for_line(r#""reply":"no""#);
    assert_eq!(watch.end(Signal::INT), Some(0));
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn watch_redraws_in_place_at_any_terminal_size() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let command = hello.command("status", &["--watch", "--interval", "100ms", "--no-cpi"]);
    let words: Vec<String> = command.get_args().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let inside = format!(
        "stty cols 120 rows 50; {MONOPILE} {} & sleep 4; stty cols 30 rows 6; sleep 1; kill -TERM $!; wait \
            $!; echo code $?",
        words.join(" ")
    );
    let mut script = prepare("script");
    hello.world.enter(&mut script).env("TERM", "xterm").env("SHELL", "/bin/bash");
    script.args(["--quiet", "--return", "--command", &inside, "/dev/null"]);
    let screen = hello.world.finish(script).stdout;
    let (text_before, rest) = screen.split_once("\x1b[?1049h").expect("the other screen is taken");
    let (watch_output, text_after) = rest.split_once("\x1b[?1049l").expect("and given back");
    assert!(
        !text_before.contains("DISK") && text_after.contains("DISK") && text_after.contains("code 0"),
        "{text_after}"
    );
    let frames: Vec<&str> = watch_output.split("\x1b[H").skip(1).collect();
    let wide = frames.first().unwrap();
    assert!(wide.contains("DISK") && !wide.contains("more lines)"), "{wide:?}");
    let narrow = frames.last().unwrap();
    assert!(narrow.contains("more lines)") && !narrow.contains("DISK"), "{narrow:?}");
    for line in narrow.trim_end_matches("\x1b[J").split("\x1b[K") {
        assert!(line.replace("\x1b[?25h", "").trim().chars().count() <= 30, "{line:?}");
    }
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
