//! The life of an environment whose CPI runs in a userland, with interruptions.

use std::net::TcpListener;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::setup::{UserlandEnv, without_compilers};
use crate::cpi_release::setup::Machine;
use crate::support::process::{WaitForEnd, wait_until};
use crate::support::tarballs::{JobTarball, ReleaseTarball, sha1};
use crate::support::userland::{release, root};

fn env(machine: &Machine) -> UserlandEnv {
    UserlandEnv::new(machine, &release(""), &format!("url: {}", root().display()))
}

#[test]
fn environment_lives_on_a_machine_without_compilers() {
    let machine = Machine::new();
    let userland_env = env(&machine);
    let world = &userland_env.env.hello.world;
    let run = world.finish(without_compilers(&userland_env.command(&["create-env"], &[]))).success();
    assert!(run.stdout.contains("Unpacking the userland"), "{}", run.stdout);
    assert!(userland_env.env.hello.answers());
    let methods = userland_env.methods();
    assert!(methods.contains(&"create_stemcell".to_owned()) && methods.contains(&"create_vm".to_owned()));

    // The userland and the packages are in the cache, and a changed userland needs no deploy.
    userland_env.run(&["create-env"], &["--recreate"]).success();
    let second_run = userland_env.run(&["create-env"], &["--cpi-userland", "host"]).success();
    assert!(!second_run.stdout.contains("Unpacking the userland"), "{}", second_run.stdout);
    assert!(!userland_env.methods()[methods.len()..].contains(&"create_stemcell".to_owned()));
    userland_env.run(&["delete-env"], &["-n"]).success();
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn call_outlives_a_killed_run_and_is_picked_up() {
    let machine = Machine::new();
    let userland_env = env(&machine);
    userland_env.close_for("create_vm");
    let mut first = userland_env.command(&["create-env"], &[]);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    userland_env.wait_for("create_vm");
    first.kill().unwrap();
    first.end();
    // A later run waits for the process, because it holds the lock of its answer.
    let mut second = userland_env.command(&["create-env"], &[]);
    let second = second.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(5));
    userland_env.open();
    let output = second.end_with_output();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains("waiting for the `create_vm` of an earlier run, which is still running"), "{log}");
    assert!(log.contains("end its process: `kill "), "{log}");
    // The plan replaces the VM of the run that was killed, which is on record.
    let methods = userland_env.methods();
    let count = |name| methods.iter().filter(|method| *method == name).count();
    assert_eq!(count("create_vm"), count("delete_vm") + 1, "{methods:?}");
    userland_env.run(&["delete-env"], &["-n"]).success();
    assert_eq!(userland_env.env.hello.world.leftovers(), Vec::<String>::new());
}

#[test]
fn interrupted_run_finishes_the_call_in_flight() {
    let machine = Machine::new();
    let userland_env = env(&machine);
    userland_env.close_for("create_stemcell");
    let mut command = userland_env.command(&["create-env"], &[]);
    let run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    userland_env.wait_for("create_stemcell");
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    userland_env.open();
    assert_eq!(run.end_with_output().status.code(), Some(130));
    userland_env.run(&["create-env"], &[]).success();
    let uploads = userland_env.methods().iter().filter(|method| *method == "create_stemcell").count();
    assert_eq!(uploads, 1, "its stemcell is on record");
    userland_env.run(&["delete-env"], &["-n"]).success();
}

#[test]
fn timeout_ends_a_call_with_everything_in_its_userland() {
    let machine = Machine::new();
    let userland_env = env(&machine);
    userland_env.run_info().success();
    userland_env.close_for("info");
    let run = userland_env.run(&["create-env"], &["--cpi-timeout", "1s"]).exits_with(1);
    assert!(run.stderr.contains("`info`"), "{}", run.stderr);
    let world = userland_env.env.hello.world.root().display().to_string();
    wait_until("no process of the CPI is left", || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        !processes
            .filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok())
            .any(|command| command.contains("userland-exec") && command.contains(&world))
    });
}

#[test]
fn recorded_calls_and_checks_work_in_a_userland() {
    let machine = Machine::new();
    let userland_env = env(&machine);
    let record = userland_env.env.hello.world.path("record.jsonl").display().to_string();
    let info = userland_env.run(&["cpi", "info"], &["--record", &record]).success();
    assert!(info.stdout.contains("local-directory"), "{}", info.stdout);
    assert!(userland_env.env.hello.world.read("record.jsonl").contains("stemcell_formats"));
    let check = userland_env.run(&["cpi", "check"], &[]);
    assert_eq!(check.code, 0, "{}\n{}", check.stdout, check.stderr);
    let text = userland_env.env.hello.world.read("record.jsonl");
    assert!(!text.contains("hunter2-of-the-cpi"), "{text}");
}

/// Returns a release whose CPI runs a script of bash and answers `info` with the word that it prints.
fn release_with_script(script: &str) -> ReleaseTarball {
    let cpi = format!(
        r#"#!/bin/bash
set -e
cat >/dev/null
answer=$({script})
printf '{{"result": {{"stemcell_formats": ["%s"]}}, "error": null, "log": ""}}' "$answer"
"#
    );
    let job = JobTarball::new("test_cpi")
        .spec("packages: []\nproperties:\n  password: {}\n")
        .template("cpi.erb", "bin/cpi", &cpi);
    ReleaseTarball::new("test-cpi", "7").job(job)
}

#[test]
fn cpi_sees_the_network_and_files_of_this_machine() {
    let machine = Machine::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let authorities = machine.path("authorities.pem");
    std::fs::write(&authorities, "authorities of this machine").unwrap();
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}
        [[ $(cat {authorities}) = 'authorities of this machine' && $SSL_CERT_FILE = {authorities} ]]
        if echo x 2>/dev/null >>{authorities}; then exit 1; fi
        [[ $OPERATOR = me && -z $TMPDIR ]]
        cat /etc/resolv.conf /etc/hosts | sha1sum | head -c 40",
        authorities = authorities.display()
    );
    let url = format!("url: {}", root().display());
    let userland_env = UserlandEnv::new(&machine, &release_with_script(&script), &url);
    let mut command = userland_env.command(&["cpi", "info"], &[]);
    command.env("SSL_CERT_FILE", &authorities).env("OPERATOR", "me");
    let run = userland_env.env.hello.world.finish(command).success();
    let files = ["/etc/resolv.conf", "/etc/hosts"].map(|path| std::fs::read(path).unwrap_or_default());
    assert!(run.stdout.contains(&sha1(&files.concat())), "{}", run.stdout);
}

#[test]
fn secrets_that_a_cpi_in_a_userland_prints_are_redacted() {
    let machine = Machine::new();
    let script = "echo 'password <%= p(\"password\") %>' >&2; exit 1";
    let url = format!("url: {}", root().display());
    let userland_env = UserlandEnv::new(&machine, &release_with_script(script), &url);
    let run = userland_env.run(&["create-env"], &["--verbose"]).exits_with(1);
    let output = run.stdout + &run.stderr;
    assert!(output.contains("password <redacted>"), "{output}");
    let state_home = userland_env.env.hello.world.home().join(".local/state");
    let logs = walkdir::WalkDir::new(state_home).into_iter().flatten();
    let logs = logs.filter(|entry| entry.file_type().is_file());
    let logs =
        logs.map(|entry| std::fs::read_to_string(entry.path()).unwrap_or_default()).collect::<String>();
    assert!(logs.contains("password <redacted>"), "{logs}");
    assert!(
        !output.contains("hunter2-of-the-cpi") && !logs.contains("hunter2-of-the-cpi"),
        "{output}\n{logs}"
    );
}

#[test]
fn user_namespaces_that_are_forbidden_are_named_with_the_setting() {
    let machine = Machine::new();
    let userland_env = env(&machine);
    let command = userland_env.command(&["cpi", "info"], &[]);
    let mut unshare = crate::support::process::prepare("unshare");
    let script = "echo 0 >/proc/sys/user/max_user_namespaces; exec \"$@\"";
    unshare.args(["--user", "--map-root-user", "--mount", "bash", "-ec", script, "bash"]);
    unshare.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        value.map(|value| unshare.env(name, value));
    }
    unshare.current_dir(command.get_current_dir().unwrap());
    let run = userland_env.env.hello.world.finish(unshare).exits_with(1);
    for text in [
        "cannot be entered",
        "sysctl user.max_user_namespaces is 0 (allow them: `sysctl -w user.max_user_namespaces=15000`)",
        "--cpi-userland host",
    ] {
        assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
    }
    assert!(userland_env.methods().is_empty());
}
