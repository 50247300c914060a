//! Jobs on the VM: the packages that are compiled, and the report when jobs do not start.

use std::fs::File;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::Value;

use crate::operate::Running;
use crate::support::hello::{Hello, release_tarball};
use crate::support::proxy::Exchange;

fn count(exchanges: &[Exchange], name: &str) -> usize {
    exchanges.iter().filter(|exchange| exchange.name() == name).count()
}

#[test]
fn new_vm_reuses_compiled_packages() {
    let mut hello = Hello::new();
    let proxy = hello.proxy_agent();

    hello.create(&[]).success();
    let exchanges = proxy.take();
    assert_eq!(count(&exchanges, "compile_package"), 2);
    assert_eq!(hello.ask_counter(), 1);
    for exchange in exchanges.iter().filter(|exchange| !exchange.message.is_null()) {
        assert_eq!(exchange.message["reply_to"], hello.state()["director_id"], "{exchange:?}");
    }

    let run = hello.create(&["--recreate", "--json"]).success();
    let exchanges = proxy.take();
    assert_eq!((count(&exchanges, "compile_package"), count(&exchanges, "PUT blob")), (0, 3));
    let events = run.json();
    let timings = &events.last().unwrap()["timings"];
    assert_eq!(timings["compilations"], 0);
    assert_eq!(
        timings["agent_messages"],
        exchanges.iter().filter(|exchange| !exchange.message.is_null()).count()
    );
    let part = |name: &str| timings[name].as_u64().unwrap();
    let parts = ["cpi_ms", "agent_ms", "agent_task_ms", "waiting_ms", "own_ms"].map(part);
    assert!(part("total_ms").abs_diff(parts.iter().sum()) <= 5, "{timings}");
    assert!(part("cpi_ms") > 0 && part("agent_ms") > 0, "{timings}");
    assert_eq!(hello.ask_counter(), 2);

    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn package_is_compiled_with_direct_dependencies_only() {
    let mut hello = Hello::new();
    let packages = "hello/release/packages";
    hello.world.write(format!("{packages}/top/spec"), "name: top\ndependencies: [counter]\nfiles: []\n");
    hello.world.write(format!("{packages}/top/packaging"), "[ ! -e /var/vcap/packages/greeting ]\n");
    let spec = hello.world.read("hello/release/jobs/hello/spec");
    hello.world.write("hello/release/jobs/hello/spec", spec.replace("packages:\n", "packages:\n- top\n"));
    let proxy = hello.proxy_agent();
    hello.create(&[]).success();
    let exchanges = proxy.take();
    let dependencies_of = |name: &str| {
        let is_compilation = |exchange: &&Exchange| {
            exchange.name() == "compile_package" && exchange.message["arguments"][2] == name
        };
        let message = &exchanges.iter().find(is_compilation).unwrap().message["arguments"][4];
        message.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(dependencies_of("greeting"), [""; 0]);
    assert_eq!(dependencies_of("counter"), ["greeting"]);
    assert_eq!(dependencies_of("top"), ["counter"]);
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn corrupt_or_changed_packages_are_recompiled() {
    let mut hello = Hello::new();
    let proxy = hello.proxy_agent();
    hello.create(&[]).success();
    assert_eq!(count(&proxy.take(), "compile_package"), 2);

    let archives = hello.find("home/.cache/monopile/compiled", ".tgz");
    assert_eq!(archives.len(), 2, "{archives:?}");
    std::fs::write(&archives[0], "not what was put there").unwrap();
    hello.create(&["--recreate"]).success();
    assert_eq!(count(&proxy.take(), "compile_package"), 1);
    hello.create(&["--recreate"]).success();
    assert_eq!(count(&proxy.take(), "compile_package"), 0);

    // `counter` depends on `greeting`, so both are compiled.
    hello.world.write("hello/release/src/greeting/greeting.txt", "Good morning\n");
    hello.create(&[]).success();
    assert_eq!(count(&proxy.take(), "compile_package"), 2);
    assert_eq!(hello.ask_greeting_and_counter(), ("Good morning".to_owned(), 1));

    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn equal_fingerprints_with_other_content_share_no_cache() {
    let mut hello = Hello::new();
    let mut release = release_tarball(&hello);
    let fingerprint = "f".repeat(40);
    for package in &mut release.packages {
        package.fingerprint = Some(fingerprint.clone());
    }
    let path = release.write(&hello.world.path("release.tgz"));
    let url = format!("- {{type: replace, path: /releases/name=hello/url, value: {}}}\n", path.display());
    hello.add_ops("release.yml", &url);
    let proxy = hello.proxy_agent();
    hello.create(&[]).success();
    assert_eq!(count(&proxy.take(), "compile_package"), 2);
    let greeting = release.packages.iter_mut().find(|package| package.name == "greeting").unwrap();
    greeting.files[1].1 = "Another release\n".into();
    release.version = "1.11".into();
    release.write(&path);
    // `counter` is compiled with `greeting`, so both are compiled again.
    hello.create(&["--recreate"]).success();
    assert_eq!(count(&proxy.take(), "compile_package"), 2);
    assert_eq!(hello.ask_greeting(), "Another release");
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn rejects_a_release_compiled_for_another_stemcell() {
    let mut hello = Hello::new();
    let mut release = release_tarball(&hello);
    for package in &mut release.packages {
        package.compiled_for = Some("ubuntu-jammy/1.5".into());
    }
    let path = release.write(&hello.world.path("release.tgz"));
    let url = format!("- {{type: replace, path: /releases/name=hello/url, value: {}}}\n", path.display());
    hello.add_ops("release.yml", &url);

    let run = hello.create(&[]).exits_with(3);
    assert!(
        run.stderr.contains("'ubuntu-jammy/1.5'") && run.stderr.contains("'local-hello/1.0'"),
        "{}",
        run.stderr
    );
    assert!(hello.take_requests().is_empty(), "the CPI was asked");
    assert!(!hello.world.exists("state.json"));
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn failed_compilation_shows_the_script_output() {
    let hello = Hello::new();
    const PACKAGING: &str = "hello/release/packages/greeting/packaging";
    let packaging = hello.world.read(PACKAGING);
    hello.world.write(PACKAGING, "echo no such harbour >&2\nexit 3\n");
    let run = hello.create(&[]).exits_with(1);
    assert!(run.stderr.contains("error: package 'greeting/"), "{}", run.stderr);
    assert!(
        run.stderr.contains("' cannot be compiled: its packaging script exited with 3\n"),
        "{}",
        run.stderr
    );
    let expected =
        "  cause: the end of its standard error:\n    + echo no such harbour\n    no such harbour\n";
    assert!(run.stderr.contains(expected), "{}", run.stderr);
    assert!(!run.stderr.contains("Action Failed"), "{}", run.stderr);
    assert!(run.stderr.contains("  note: VM and disk are kept; no job runs yet\n"), "{}", run.stderr);
    // Jobs that were deployed are in the state in which an earlier run left them.
    hello.world.write(PACKAGING, packaging);
    hello.create(&[]).success();
    hello.world.finish(hello.command("stop-env", &[])).success();
    hello.world.write(PACKAGING, "exit 3\n");
    let run = hello.create(&["--update-strategy", "in-place"]).exits_with(1);
    let note = "  note: VM and disk are kept; the jobs are 'stopped', as before this run\n";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

const SECRET: &str = "- type: replace
  path: /instance_groups/name=hello/jobs/name=hello/properties/greeting?
  value: ((secret))
- {type: replace, path: /update?, value: {update_watch_time: 0-1500}}
";

#[test]
fn jobs_that_do_not_start_are_shown_with_their_logs() {
    let mut hello = Hello::new();
    hello.add_ops("secret.yml", SECRET);
    hello.world.write(
        "hello/release/jobs/hello/templates/ctl.erb",
        "#!/bin/bash\necho \"the key <%= p('greeting') %> does not open\" >> \
            /var/vcap/sys/log/hello/hello.stderr.log\nexit 1\n",
    );
    let secret = ["-v", "secret=quite-a-secret"];
    let run = hello.create(&[&secret[..], &["--json"]].concat()).exits_with(1);
    let events = run.json();
    let was_shown = events.iter().any(|event| {
        event["event"] == "stage_log"
            && event["line"].as_str().is_some_and(|line| line.starts_with("hello: "))
    });
    assert!(was_shown, "nothing was said while waiting: {}", run.stdout);
    let warning = events.iter().find(|event| event["event"] == "warning").unwrap();
    let hint = warning["hints"][0].as_str().unwrap();
    assert!(hint.starts_with("see all logs: `monopile logs hello/manifest.yml "), "{hint}");
    assert!(hint.ends_with(" --job hello`"), "{hint}");
    let warning = warning["text"].as_str().unwrap();
    let start = "'hello' of instance 'hello/0' is failing (hello/hello.stderr.log: the key <redacted> does \
                 not open";
    let limit = "). This run waits for up to 1.5 s (`update.update_watch_time`)";
    assert!(warning.starts_with(start) && warning.ends_with(limit), "{warning}");
    let errors: Vec<&str> =
        events.last().unwrap()["errors"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(
        errors[0].contains("instance 'hello/0'") && errors[0].contains("'hello' is failing"),
        "{errors:?}"
    );
    // Each start writes the same line, and the scripts of other phases tell nothing.
    let tail = errors[1].strip_prefix("the end of hello/hello.stderr.log:\n").unwrap();
    assert!(tail.starts_with("the key <redacted> does not open ("), "{tail}");
    assert!(tail.contains(" times)") && !tail.contains("pre-start"), "{tail}");
    let history = hello.world.run(["history", "hello/manifest.yml", "--state", "state.json"]).success();
    assert!(!history.stdout.contains("the end of"), "{}", history.stdout);
    assert!(!run.stdout.contains("quite-a-secret") && !run.stderr.contains("quite-a-secret"));
    hello.delete(&[&secret[..], &["--skip-drain"]].concat()).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn hint_names_other_logs_if_the_jobs_wrote_none() {
    let mut hello = Hello::new();
    hello.add_ops("watch.yml", "- {type: replace, path: /update?, value: {update_watch_time: 0-1500}}\n");
    hello.world.write("hello/release/jobs/hello/templates/ctl.erb", "#!/bin/bash\nexit 1\n");
    let run = hello.create(&[]).exits_with(1);
    let hint = "the jobs wrote no log since their start; see the logs of agent and system: `monopile logs ";
    assert!(run.stderr.contains(hint) && run.stderr.contains(" --all-logs`"), "{}", run.stderr);
    assert!(!run.stderr.contains("see all logs"), "{}", run.stderr);
    hello.delete(&["--skip-drain"]).success();
}

#[test]
fn failed_script_is_named_with_its_output() {
    let hello = Hello::new();
    hello.world.write(
        "hello/release/jobs/hello/templates/pre-start.erb",
        "#!/bin/bash\necho the tide is too low >&2\nexit 1\n",
    );
    let run = hello.create(&[]).exits_with(1);
    let message = "error: the pre-start script of job 'hello' failed\n  cause: the end of \
                 hello/pre-start.stderr.log:\n    the tide is too low\n";
    assert!(run.stderr.contains(message), "{}", run.stderr);
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn failed_drain_script_stops_no_job() {
    let hello = Hello::new();
    hello.world.write("hello/release/jobs/hello/templates/drain.erb", "#!/bin/bash\nexit 9\n");
    hello.create(&[]).success();
    let run = hello.world.finish(hello.command("stop-env", &[])).exits_with(1);
    for text in ["note: the jobs were not stopped\n", "hint: see why: `monopile logs ", " --job hello`\n"] {
        assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
    }
    assert_eq!(hello.ask_counter(), 1, "the job runs");
    // An update in place ends before it changes anything.
    let path = "/instance_groups/name=hello/jobs/name=hello/properties/greeting?";
    hello.world.write("greeting.yml", format!("- {{type: replace, path: {path}, value: Moin}}\n"));
    let update = hello.create(&["-o", "greeting.yml"]).exits_with(1);
    for text in ["note: the jobs were not stopped\n  note: VM and disk are kept\n", " --skip-drain`\n"] {
        assert!(update.stderr.contains(text), "{text}: {}", update.stderr);
    }
    assert!(!update.stderr.contains("the jobs were stopped"), "{}", update.stderr);
    assert_eq!(hello.ask_counter(), 2, "the job runs");
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn failed_script_does_not_show_the_log_of_an_earlier_run() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let logs = hello.find("work/cloud", "pre-start.stdout.log");
    assert!(std::fs::read_to_string(&logs[0]).unwrap().contains("the counter is kept"), "{logs:?}");
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    File::options().append(true).open(&logs[0]).unwrap().set_modified(hour_ago).unwrap();
    hello.world.write(
        "hello/release/jobs/hello/templates/pre-start.erb",
        "#!/bin/bash\necho the tide is too low >&2\nexit 1\n",
    );
    let run = hello.create(&["--update-strategy", "in-place"]).exits_with(1);
    let message = "the end of hello/pre-start.stderr.log (which may have lines of earlier runs):\n";
    assert!(run.stderr.contains(message), "{}", run.stderr);
    assert!(!run.stderr.contains("pre-start.stdout.log"), "{}", run.stderr);
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn old_log_of_a_silent_script_is_marked() {
    let hello = Hello::new();
    let pre_start = hello.world.read("hello/release/jobs/hello/templates/pre-start.erb");
    hello.world.write("hello/release/jobs/hello/templates/pre-start.erb", "#!/bin/bash\nexit 1\n");
    let run = hello.create(&[]).exits_with(1);
    assert!(run.stderr.contains("  cause: it wrote nothing to its logs\n"), "{}", run.stderr);
    hello.world.write("hello/release/jobs/hello/templates/pre-start.erb", pre_start);
    hello.create(&[]).success();
    let logs = hello.find("work/cloud", "pre-start.stdout.log");
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    File::options().append(true).open(&logs[0]).unwrap().set_modified(hour_ago).unwrap();
    hello.world.write("hello/release/jobs/hello/templates/pre-start.erb", "#!/bin/bash\nexit 1\n");
    let run = hello.create(&["--update-strategy", "in-place"]).exits_with(1);
    let message = "cause: the end of hello/pre-start.stdout.log (last written 1 h";
    assert!(run.stderr.contains(message), "{}", run.stderr);
    assert!(run.stderr.contains(" before this run started it, so perhaps by an earlier run):\n"));
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn interrupted_wait_names_the_failing_jobs() {
    let mut hello = Hello::new();
    hello.add_ops("watch.yml", "- {type: replace, path: /update?, value: {update_watch_time: 0-100000}}\n");
    hello.world.write("hello/release/jobs/hello/templates/ctl.erb", "#!/bin/bash\nexit 1\n");
    let create_env = Running::start(hello.command("create-env", &["--json"]));
    create_env.wait_for_line("is failing");
    // The note of `plan` is about this run.
    let plan = hello.world.finish(hello.command("plan", &[])).success();
    let note = "is in progress; when it ends, this plan is outdated";
    assert!(
        plan.stderr.contains("note: `create-env` (pid ") && plan.stderr.contains(note),
        "{}",
        plan.stderr
    );
    let (code, lines) = create_env.end_with_lines(Signal::INT);
    assert_eq!(code, Some(130), "{lines:?}");
    let end: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    let error = "interrupted while waiting for the jobs of instance 'hello/0' to run (failing: 'hello')";
    assert_eq!(end["errors"][0], error, "{end}");
    let hint = end["hints"][0].as_str().unwrap();
    assert!(hint.starts_with("see why: `monopile logs hello/manifest.yml"), "{hint}");
    assert!(hint.ends_with(" --job hello`"), "{hint}");
    assert_eq!(end["hints"][1], "run the same command again to continue", "{end}");

    // The VM is ready now. The update of its jobs fails, and no earlier deploy succeeded.
    let fails = "#!/bin/bash\nexit 1\n";
    hello.world.write("hello/release/jobs/hello/templates/pre-start.erb", fails);
    let run = hello.create(&["--update-strategy", "in-place"]).exits_with(1);
    assert!(run.stderr.contains("in place failed") && !run.stderr.contains("to go back"), "{}", run.stderr);
    assert!(!run.stderr.contains("--update-strategy"), "the run had it: {}", run.stderr);
    assert!(run.stderr.contains("it tries on the same VM"), "{}", run.stderr);
    let status = hello.world.finish(hello.command("status", &["--no-cpi"])).exits_with(1);
    assert!(status.stderr.contains("see how create-env continues: `monopile plan "), "{}", status.stderr);
    assert!(hello.world.finish(hello.command("plan", &[])).success().stderr.find(note).is_none());
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
