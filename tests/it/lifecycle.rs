//! Stopping and starting: `stop-env`, `start-env`, drain in all its forms, and an agent that does not answer.

use crate::support::process::{RunToEnd, prepare};
use std::time::{Duration, Instant};

use crate::support::Run;
use crate::support::hello::Hello;

fn stop(hello: &Hello, extra_args: &[&str]) -> Run {
    hello.world.finish(hello.command("stop-env", extra_args))
}

fn start(hello: &Hello, extra_args: &[&str]) -> Run {
    hello.world.finish(hello.command("start-env", extra_args))
}

/// Kills the VM's processes without the program.
fn kill_vm(hello: &Hello) {
    for process in hello.world.leftovers().iter().filter_map(|line| line.strip_prefix("process ")) {
        let pid = process.split(' ').next().unwrap();
        prepare("kill").args(["-9", pid]).run_to_end();
    }
    let start = Instant::now();
    while hello.answers() && start.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn jobs_are_stopped_and_started_without_the_cpi() {
    let mut hello = Hello::new();
    let proxy = hello.proxy_agent();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    hello.take_requests();
    proxy.take();
    let state_before = hello.state();

    let run = stop(&hello, &[]).success();
    assert!(run.stdout.contains("Draining the jobs of instance 'hello/0'"), "{}", run.stdout);
    assert!(!hello.answers());
    let methods = |exchanges: Vec<crate::support::proxy::Exchange>| {
        let mut names: Vec<String> = exchanges.iter().map(|exchange| exchange.name()).collect();
        names.retain(|name| name != "get_task");
        names.dedup();
        names
    };
    assert_eq!(
        methods(proxy.take()),
        ["ping", "get_state", "run_script", "drain", "stop", "run_script"],
        "no disk is unmounted"
    );
    // Repeating the command is harmless.
    let run = stop(&hello, &["--skip-drain"]).success();
    assert!(run.stdout.contains("The jobs were stopped already. To start them: `"), "{}", run.stdout);
    assert_eq!(methods(proxy.take()), ["ping", "get_state", "stop", "run_script"]);

    let run = start(&hello, &[]).success();
    assert!(run.stdout.contains("Started all jobs"), "{}", run.stdout);
    assert_eq!(
        methods(proxy.take()),
        ["ping", "get_state", "list_disk", "run_script", "start", "get_state", "run_script"]
    );
    assert_eq!(hello.ask_counter(), 2);
    let run = start(&hello, &[]).success();
    assert!(run.stdout.contains("All jobs were running already"), "{}", run.stdout);
    assert_eq!(hello.state(), state_before);
    assert!(hello.take_requests().is_empty(), "the CPI was asked");

    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn dead_agent_is_an_error() {
    let hello = Hello::new();
    hello.create(&[]).success();
    kill_vm(&hello);
    for run in [
        stop(&hello, &["--agent-timeout", "200ms"]).exits_with(5),
        start(&hello, &["--agent-timeout", "200ms"]).exits_with(5),
    ] {
        assert!(run.stderr.contains("cannot be reached: TCP: "), "{}", run.stderr);
        assert!(!run.stdout.contains("Succeeded"), "{}", run.stdout);
    }
    // The report of a deletion does not claim that the jobs were stopped.
    let events = hello.delete(&["--json", "--agent-timeout", "200ms"]).success().json();
    let steps = &events.last().unwrap()["report"]["steps"];
    assert!(steps[0]["description"].as_str().unwrap().starts_with("Stop the jobs"), "{steps}");
    let skip_reason = steps[0]["skipped"].as_str().unwrap_or_else(|| panic!("{steps}"));
    assert_eq!(skip_reason, "no answer from the agent within 0.2 s");
    assert_eq!((&steps[1]["done"], &steps[1]["skipped"]), (&true.into(), &serde_json::Value::Null));
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn failed_drain_script_can_be_skipped() {
    let hello = Hello::new();
    hello.world.write("hello/release/jobs/hello/templates/drain.erb", "#!/bin/bash\nexit 1\n");
    hello.create(&[]).success();
    let run = stop(&hello, &[]).exits_with(1);
    let hint = "hint: to stop the jobs without pre-stop and drain scripts: `monopile stop-env ";
    assert!(run.stderr.contains(hint) && run.stderr.contains(" --skip-drain`\n"), "{}", run.stderr);
    stop(&hello, &["--skip-drain"]).success();
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn stop_and_start_need_a_state() {
    let hello = Hello::new();
    for run in [stop(&hello, &[]).exits_with(3), start(&hello, &[]).exits_with(3)] {
        assert!(run.stderr.contains("there is no state"), "{}", run.stderr);
    }
}

#[test]
fn wrong_password_fails_at_once() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let url = format!("https://mbus:wrong-one@{}:6868", hello.ip());
    let ops = format!("- {{type: replace, path: /cloud_provider/mbus, value: \"{url}\"}}\n");
    hello.world.write("wrong.yml", ops);
    let start = Instant::now();
    let run = stop(&hello, &["-o", "wrong.yml", "--agent-timeout", "5m"]).exits_with(5);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert!(run.stderr.contains("(401)") && !run.stderr.contains("wrong-one"), "{}", run.stderr);

    assert!(hello.answers());
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn agent_of_another_vm_gets_no_commands() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let state_text = hello.world.read("state.json");
    let mut state = hello.state();
    state["monopile"]["vm"]["agent_id"] = "11111111-2222-3333-4444-555555555555".into();
    hello.world.write("state.json", state.to_string());
    for run in [stop(&hello, &[]).exits_with(5), start(&hello, &[]).exits_with(5)] {
        assert!(run.stderr.contains("is not the agent of VM"), "{}", run.stderr);
    }
    assert!(hello.answers());
    hello.world.write("state.json", state_text);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// Replaces the drain script with one that also logs its arguments.
fn set_drain_script(hello: &Hello, script: &str) {
    hello.world.write(
        "hello/release/jobs/hello/templates/drain.erb",
        format!("#!/bin/bash\necho \"$*\" >> /var/vcap/store/hello/drain.log\n{script}\n"),
    );
}

fn drain_log(hello: &Hello) -> String {
    let logs = hello.find("work/cloud", "drain.log");
    assert_eq!(logs.len(), 1, "{logs:?}");
    std::fs::read_to_string(&logs[0]).unwrap()
}

#[test]
fn dynamic_drain_is_polled_until_done() {
    let hello = Hello::new();
    set_drain_script(&hello, "[ \"$1\" = job_check_status ] && echo 0 || echo -1");
    hello.create(&[]).success();
    let start = Instant::now();
    stop(&hello, &[]).success();
    assert!(start.elapsed() >= Duration::from_secs(1), "the run did not wait");
    assert_eq!(drain_log(&hello), "job_shutdown hash_unchanged\njob_check_status hash_unchanged\n");
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn static_drain_is_awaited() {
    let hello = Hello::new();
    set_drain_script(&hello, "echo 1");
    hello.create(&[]).success();
    let start = Instant::now();
    stop(&hello, &[]).success();
    assert!(start.elapsed() >= Duration::from_secs(1), "the run did not wait");
    assert_eq!(drain_log(&hello), "job_shutdown hash_unchanged\n");
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn endless_drain_ends_at_the_timeout() {
    let hello = Hello::new();
    set_drain_script(&hello, "sleep 200");
    hello.create(&[]).success();
    let begin = Instant::now();
    let run = stop(&hello, &["--drain-timeout", "500ms"]).success();
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    assert!(run.stderr.contains("--drain-timeout"), "{}", run.stderr);
    assert!(!hello.answers());
    assert_eq!(drain_log(&hello), "job_shutdown hash_unchanged\n");
    // A recreate drains in the same way.
    start(&hello, &[]).success();
    hello.create(&["--recreate", "--drain-timeout", "300ms"]).success();
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// Makes every script of the job log its runs and arguments.
fn log_scripts(hello: &Hello) {
    for script in ["pre-stop", "drain", "post-stop", "pre-start", "ctl", "post-start"] {
        let path = format!("hello/release/jobs/hello/templates/{script}.erb");
        let text = hello.world.read(&path);
        let note = format!(
            "#!/bin/bash\necho \"{script} $* vm=$BOSH_VM_NEXT_STATE instance=$BOSH_INSTANCE_NEXT_STATE \
             deployment=$BOSH_DEPLOYMENT_NEXT_STATE <%= p('greeting', 'none') %>\" >> \
             /var/vcap/store/scripts.log\n"
        );
        hello.world.write(&path, text.replacen("#!/bin/bash\n", &note, 1));
    }
}

/// Returns the log since the last call.
fn take_script_log(hello: &Hello) -> Vec<String> {
    let logs = hello.find("work/cloud", "scripts.log");
    let text: String = logs.iter().map(|log| std::fs::read_to_string(log).unwrap()).collect();
    logs.iter().for_each(|log| std::fs::remove_file(log).unwrap());
    text.lines().map(|line| line.replace(" vm= instance= deployment=", "")).collect()
}

#[test]
fn in_place_update_runs_scripts_like_a_director() {
    let mut hello = Hello::new();
    log_scripts(&hello);
    hello.create(&["-n"]).success();
    assert_eq!(take_script_log(&hello), ["pre-start  none", "ctl start none", "post-start  none"]);
    let property = "/instance_groups/name=hello/jobs/name=hello/properties/greeting?";
    hello.add_ops("greeting.yml", &format!("- {{type: replace, path: {property}, value: Ahoy}}"));
    hello.create(&["-n"]).success();
    // The old scripts stop the jobs, and the new ones start them.
    assert_eq!(
        take_script_log(&hello),
        [
            "pre-stop  vm=keep instance=keep deployment=keep none",
            // No package changed, so the VM keeps its compiled ones.
            "drain job_changed hash_changed none",
            "ctl stop none",
            "post-stop  none",
            "pre-start  Ahoy",
            "ctl start Ahoy",
            "post-start  Ahoy",
        ]
    );
    hello.create(&["-n", "--recreate"]).success();
    let script_log = take_script_log(&hello);
    assert_eq!(
        script_log[..2],
        ["pre-stop  vm=delete instance=keep deployment=keep Ahoy", "drain job_shutdown hash_unchanged Ahoy"]
    );
    stop(&hello, &[]).success();
    assert_eq!(take_script_log(&hello)[0], "pre-stop  vm=keep instance=keep deployment=keep Ahoy");
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
