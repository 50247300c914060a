//! Signals that end the rendering of a template with Ruby, and signals at a prompt.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::hello::Hello;
use crate::support::process::{WaitForEnd, interrupt, lines, receive};
use crate::support::pty::Pty;
use crate::support::scripted::{InfoAnswer, Interruption, Reaction, Script, wait_until};

/// Returns the commands of Ruby processes in this world.
fn rubies(hello: &Hello) -> Vec<String> {
    let mut processes = hello.world.leftovers();
    processes.retain(|leftover| leftover.starts_with("process ") && leftover.contains("ruby"));
    processes
}

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn signal_ends_a_template_that_ruby_renders() {
    let hello = Hello::new();
    let script = "hello/release/jobs/hello/templates/pre-start.erb";
    // Only Ruby renders it, and only SIGKILL ends it.
    let endless = "<% ObjectSpace.count_objects; begin; loop {}; rescue Exception; retry; end %>\n";
    hello.world.write(script, hello.world.read(script) + endless);
    for mode in ["auto", "ruby"] {
        let child = spawn(hello.command("create-env", &["--renderer", mode]));
        wait_until("a child of Ruby renders the template", || rubies(&hello).len() == 2);
        interrupt(child);
        wait_until("Ruby ends", || rubies(&hello).is_empty());
        assert!(hello.take_requests().is_empty());
        assert_eq!(hello.leftovers(), Vec::<String>::new());
    }
    // No Ruby process continues to render for a killed run.
    let mut child = spawn(hello.command("create-env", &[]));
    wait_until("a child of Ruby renders the template", || rubies(&hello).len() == 2);
    child.kill().unwrap();
    child.end();
    wait_until("Ruby ends", || rubies(&hello).is_empty());
}

#[test]
fn signal_ends_the_start_of_ruby() {
    let hello = Hello::new();
    let program = hello.world.write("bin/ruby", "#!/bin/sh\nexec sleep 300\n");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = hello.command("create-env", &["--renderer", "ruby"]);
    command.env("PATH", format!("{}:{path}", hello.world.path("bin").display()));
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("Ruby starts", || {
        hello.world.leftovers().iter().any(|leftover| leftover.contains("sleep 300"))
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.end_with_output();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("note: nothing was changed in the IaaS\n"), "{stderr}");
    // No call is in flight, and the next run has nothing to continue.
    assert!(stderr.contains("SIGINT received: stopping\n") && !stderr.contains("hint:"), "{stderr}");
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn signal_ends_a_call_that_only_reads() {
    let hello = Hello::new();
    for method in ["info", "has_vm"] {
        let reaction = Reaction::Instead("exec sleep 300".to_owned());
        hello.set_script(Script::with_info(InfoAnswer::Local).first(method, 1, reaction));
        let mut command = hello.command("create-env", &["--recreate"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("the CPI sleeps", || {
            hello.world.leftovers().iter().any(|leftover| leftover.contains("sleep 300"))
        });
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.end_with_output();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "{stderr}");
        assert!(stderr.contains("SIGINT received: stopping\n"), "{stderr}");
        let error = format!("error: interrupted: the CPI's `{method}` was ended without an answer\n");
        assert!(stderr.contains(&error) && stderr.contains("note: request ID "), "{stderr}");
        wait_until("the CPI ends", || {
            !hello.world.leftovers().iter().any(|leftover| leftover.contains("sleep 300"))
        });
        // The second method is called for an existing VM.
        hello.answer_truly();
        hello.create(&[]).success();
    }
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn signal_waits_for_a_call_that_changes_something() {
    let hello = Hello::new();
    // No later run reads the answer to this call.
    let reaction = Reaction::Interrupt(Interruption::Hold);
    hello.set_script(Script::with_info(InfoAnswer::Local).first("set_vm_metadata", 1, reaction));
    let mut command = hello.command("create-env", &[]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let output = lines(child.stderr.take().unwrap());
    hello.wait_until_held();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let line = std::iter::from_fn(|| receive("the signal is heard", &output)).find(|line| {
        line.contains("SIGINT received: waiting for the CPI's `set_vm_metadata`; a second SIGINT")
    });
    hello.release_call();
    assert_eq!((child.end().code(), line.is_some()), (Some(130), true));
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.answer_truly();
    hello.create(&[]).success();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// Ends a command at its prompt, by Ctrl-C and by SIGTERM.
fn end_at_prompt(hello: &Hello, command: &str, extra_args: &[&str]) {
    let state = hello.world.read("state.json");
    for signal in [Signal::INT, Signal::TERM] {
        let mut pty = Pty::start(hello.command(command, extra_args), (120, 50));
        pty.wait_for("the question", |screen| screen.contains("[y/N]"));
        let start = Instant::now();
        match signal {
            Signal::INT => pty.press("\x03"),
            signal => pty.signal(signal),
        }
        let code = pty.end();
        let text = pty.text();
        // SIGTERM ends the prompt or the process, whichever comes first.
        assert!(code == 130 || (signal == Signal::TERM && code == -1), "{command}: {code}: {text}");
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert!(text.contains("interrupted: nothing was done"), "{command}: {text}");
        assert!(!text.contains("received: waiting"), "{command}: {text}");
        assert_eq!(hello.world.read("state.json"), state, "{command}");
    }
}

#[test]
fn signal_at_a_prompt_waits_for_no_call() {
    let hello = Hello::new();
    hello.create(&["-n"]).success();
    let cloud = hello.cloud();
    end_at_prompt(&hello, "create-env", &["--recreate"]);
    end_at_prompt(&hello, "delete-env", &[]);
    hello.kill_vm();
    end_at_prompt(&hello, "cloud-check", &["--agent-timeout", "1s"]);
    assert_eq!(hello.cloud(), cloud);
    assert_eq!(hello.announced_methods(), Vec::<String>::new());
    hello.delete(&["--agent-timeout", "1s"]).success();
    // SIGTERM left the scratch directory for the next run.
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
