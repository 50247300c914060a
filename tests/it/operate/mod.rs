//! Inspecting and repairing an environment: `status`, `history`, `logs`, `ssh`, `scp`, `restart`, `recreate`
//! and `cloud-check`, with the built-in CPI and its agent.

#![cfg(target_os = "linux")]

mod check;
mod history;
mod logs;
mod ssh;
mod status;
mod status_all;

use crate::support::process::{WaitForEnd, lines, receive};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::Run;
use crate::support::hello::Hello;

/// Runs a command on the environment.
fn run(hello: &Hello, command: &str, extra_args: &[&str]) -> Run {
    hello.world.finish(hello.command(command, extra_args))
}

/// Parses standard output as one JSON document.
#[track_caller]
fn parse_document(run: &Run) -> serde_json::Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
}

/// A command that runs until it is stopped. Its lines are read meanwhile.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = lines(child.stdout.take().unwrap());
        Running { child, lines }
    }

    /// Waits for a line with this text.
    #[track_caller]
    pub(crate) fn wait_for_line(&self, text: &str) -> String {
        let mut earlier_lines = Vec::new();
        while let Some(line) = receive(&format!("a line with '{text}', after {earlier_lines:?}"), &self.lines)
        {
            if line.contains(text) {
                return line;
            }
            earlier_lines.push(line);
        }
        panic!("no line with '{text}': {earlier_lines:?}");
    }

    /// Sends a signal, and returns the exit code.
    fn end(self, signal: Signal) -> Option<i32> {
        self.end_with_lines(signal).0
    }

    /// Waits until it ends by itself, and returns the exit code.
    fn wait_for_end(mut self) -> Option<i32> {
        self.child.end().code()
    }

    /// Sends a signal, and returns the exit code and the remaining lines.
    pub(crate) fn end_with_lines(mut self, signal: Signal) -> (Option<i32>, Vec<String>) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let code = self.child.end().code();
        (code, std::iter::from_fn(|| receive("the end", &self.lines)).collect())
    }
}

/// Records an agent for the VM other than the one that answers, and returns the previous state.
fn make_agent_foreign(hello: &Hello) -> String {
    let state_text = hello.world.read("state.json");
    let mut state = hello.state();
    state["monopile"]["vm"]["agent_id"] = "11111111-2222-3333-4444-555555555555".into();
    hello.world.write("state.json", state.to_string());
    state_text
}

#[test]
fn foreign_agent_is_only_asked_for_its_state() {
    let mut hello = Hello::new();
    let proxy = hello.proxy_agent();
    hello.create(&[]).success();
    let state_text = make_agent_foreign(&hello);
    proxy.take();
    for (command, extra_args) in [
        ("status", &[][..]),
        ("logs", &[]),
        ("logs", &["--follow"]),
        ("ssh", &["-c", "id"]),
        ("restart", &[]),
    ] {
        let run = run(&hello, command, extra_args).exits_with(5);
        assert!(
            run.stderr.contains("11111111-2222") || run.stderr.contains("another VM answers"),
            "{}",
            run.stderr
        );
    }
    let run = run(&hello, "cloud-check", &["--auto", "--json"]).exits_with(6);
    assert_eq!(parse_document(&run)[0]["kind"], "foreign_agent");
    let messages: std::collections::BTreeSet<String> =
        proxy.take().iter().map(|exchange| exchange.name()).collect();
    assert_eq!(messages.iter().map(String::as_str).collect::<Vec<_>>(), ["get_state", "ping"]);
    hello.world.write("state.json", state_text);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn commands_report_a_missing_environment() {
    let hello = Hello::new();
    for (command, extra_args) in [
        ("status", &[][..]),
        ("logs", &[]),
        ("ssh", &["-c", "id"]),
        ("restart", &[]),
        ("recreate", &[]),
        ("cloud-check", &["--report"]),
    ] {
        let run = run(&hello, command, extra_args).exits_with(3);
        assert!(run.stderr.contains("there is no state"), "{command}: {}", run.stderr);
    }
    // A misspelt manifest name is reported as such.
    for command in [
        &["status"][..],
        &["logs"],
        &["ssh"],
        &["restart"],
        &["recreate"],
        &["cloud-check"],
        &["delete-env"],
        &["cpis"],
        &["disks"],
        &["state", "backup"],
    ] {
        let words = command.iter().chain(&["helo/manifest.yml"]);
        let run = hello.world.run(words).exits_with(3);
        assert!(
            run.stderr.contains("manifest 'helo/manifest.yml' does not exist"),
            "{command:?}: {}",
            run.stderr
        );
    }
    assert!(!hello.world.exists("state.json"));
}

#[test]
fn restart_does_not_call_the_cpi() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    hello.take_requests();
    let (state_before, pid) = (hello.state(), pid(&hello));
    let run = run(&hello, "restart", &[]).success();
    assert!(run.stdout.contains("Draining the jobs of instance 'hello/0'"), "{}", run.stdout);
    assert_eq!(hello.ask_counter(), 2);
    assert_ne!(self::pid(&hello), pid, "the job was not stopped");
    assert_eq!(hello.state(), state_before);
    assert!(hello.take_requests().is_empty(), "the CPI was asked");
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn interrupted_deploy_has_one_hint_that_works() {
    let mut hello = Hello::new();
    hello.world.write("hello/release/jobs/hello/templates/drain.erb", "#!/bin/bash\nsleep 20\n");
    hello.create(&[]).success();
    let interrupt = |hello: &Hello, command: &str, extra_args: &[&str]| {
        let process = Running::start(hello.command(command, &[extra_args, &["--json"]].concat()));
        process.wait_for_line("Draining the jobs");
        let (code, lines) = process.end_with_lines(Signal::INT);
        assert_eq!(code, Some(130), "{lines:?}");
        let end: serde_json::Value = serde_json::from_str(lines.last().unwrap()).unwrap();
        let errors = end["errors"].to_string();
        assert!(errors.contains("interrupted while draining the jobs of instance 'hello/0'"), "{errors}");
        let notes = end["notes"].as_array().unwrap();
        assert!(notes.contains(&"the state is saved".into()), "{notes:?}");
        let has_jobs_note =
            |note: &serde_json::Value| note.as_str().unwrap().contains("the jobs may be stopped");
        assert!(notes.iter().any(has_jobs_note), "{notes:?}");
        assert!(lines.iter().any(|line| line.contains("SIGINT received: stopping")), "{lines:?}");
        end["hints"].clone()
    };
    hello.add_ops(
        "change.yml",
        "- {type: replace, path: \
        /instance_groups/name=hello/jobs/name=hello/properties/greeting?, value: Ahoy}\n",
    );
    let continue_hint = serde_json::json!(["run the same command again to continue"]);
    assert_eq!(interrupt(&hello, "create-env", &[]), continue_hint);
    hello.create(&["--skip-drain"]).success();

    assert_eq!(interrupt(&hello, "recreate", &[]), continue_hint);
    let other = run(&hello, "recreate", &["-v", "mbus_port=6869"]).exits_with(3);
    assert!(other.stderr.contains("needs a finished deploy of this manifest"), "{}", other.stderr);
    run(&hello, "recreate", &["--skip-drain"]).success();

    // A saved plan is outdated once a run has begun to take it.
    run(&hello, "plan", &["--recreate", "--out", "plan.json"]).success();
    let without_plan = serde_json::json!(["run the same command without --plan to continue"]);
    assert_eq!(interrupt(&hello, "create-env", &["--recreate", "--plan", "plan.json"]), without_plan);
    hello.create(&["--recreate", "--skip-drain"]).success();
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

fn pid(hello: &Hello) -> String {
    let pid_files = hello.find("work/cloud", "hello.pid");
    std::fs::read_to_string(&pid_files[0]).unwrap()
}

#[test]
fn recreate_changes_only_the_vm() {
    let mut hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let vm_before = hello.state()["current_vm_cid"].clone();
    run(&hello, "recreate", &[]).success();
    let state_after = hello.state();
    assert_ne!(state_after["current_vm_cid"], vm_before);
    assert_eq!(hello.ask_counter(), 2, "the disk is the same");

    // A change of the manifest is not deployed along with it.
    hello.take_requests();
    hello.add_ops(
        "change.yml",
        "- {type: replace, path: \
        /instance_groups/name=hello/jobs/name=hello/properties/greeting?, value: Ahoy}\n\
        - {type: replace, path: /tags?, value: {a: '1', b: '2', c: '3', d: '4', e: '5'}}\n",
    );
    let failed_run = run(&hello, "recreate", &[]).exits_with(3);
    assert!(
        failed_run.stderr.contains("the manifest differs from the deployed one"),
        "{}",
        failed_run.stderr
    );
    assert!(failed_run.stderr.contains("/properties/greeting: Ahoy"), "{}", failed_run.stderr);
    assert!(failed_run.stderr.contains("and 1 more\n"), "{}", failed_run.stderr);
    let hint = "hint: see all changes: `monopile plan hello/manifest.yml ";
    assert!(failed_run.stderr.contains(hint), "{}", failed_run.stderr);
    assert_eq!(hello.state(), state_after);
    assert!(hello.take_requests().is_empty());
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
