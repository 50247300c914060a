//! Two runs at once: one works, and the other one names it or waits. Also tests a CPI that does not end.

use crate::support::process::WaitForEnd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::hello::Hello;
use crate::support::pty::Pty;
use crate::support::scripted::{InfoAnswer, Interruption, Reaction, Script};

#[test]
fn second_run_fails_and_names_the_first() {
    let hello = Hello::new();
    // The third call is `create_vm`.
    hello.set_script(Script::with_interruption(3, Interruption::Hold));
    let mut command = hello.command("create-env", &[]);
    let mut first = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    hello.wait_until_held();

    let holder = format!("@{} (pid {}", hostname(), first.id());
    let state = ["--state", "state.json"];
    for (command, extra_args) in [
        ("create-env", &[][..]),
        ("delete-env", &["-n"]),
        ("stop-env", &[]),
        ("start-env", &[]),
        ("state verify", &[]),
    ] {
        let start = Instant::now();
        let mut words = command.split(' ');
        let mut command = match (words.next().unwrap(), words.next()) {
            (group, Some(name)) => hello.subcommand(&[group, name], extra_args),
            (name, None) => hello.command(name, extra_args),
        };
        command.stdin(Stdio::null());
        let run = hello.world.finish(command).exits_with(4);
        assert!(run.stderr.contains(&holder), "{holder}: {}", run.stderr);
        assert!(start.elapsed() < Duration::from_secs(20), "it waited: {:?}", start.elapsed());
    }
    for words in [&["forget", "--vm", "x", "--yes"][..], &["backup", "--keep"]] {
        let run = hello.world.run(["state"].iter().chain(words).chain(&state)).exits_with(4);
        assert!(run.stderr.contains(&holder), "{}", run.stderr);
    }
    // Commands that only read need no lock.
    hello.world.run(["state", "show"].iter().chain(&state)).success();

    let run = hello.create(&["--wait-for-lock", "700ms"]).exits_with(4);
    assert_eq!(run.stdout.matches("waiting for up to 0.7 s").count(), 1, "{}", run.stdout);
    assert!(run.stdout.contains(&holder) && run.stderr.contains(&holder));
    let hint = "hint: if that run hangs, interrupt it on ";
    assert!(run.stderr.contains(hint) && run.stderr.contains(": `kill -INT "), "{}", run.stderr);

    let mut waiting_run = hello.command("create-env", &["--wait-for-lock", "5m"]);
    let waiting_run = waiting_run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    hello.release_call();
    assert!(first.end().success());
    let later_run = waiting_run.end_with_output();
    let stdout = String::from_utf8_lossy(&later_run.stdout).into_owned();
    assert!(later_run.status.success() && stdout.contains("Nothing to do"), "{stdout}");
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn run_without_its_lock_file_makes_no_further_call() {
    let hello = Hello::new();
    for has_second_run in [false, true] {
        hello.set_script(Script::with_interruption(3, Interruption::Hold));
        let mut command = hello.command("create-env", &[]);
        let first = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        hello.wait_until_held();
        std::fs::remove_file(hello.world.path("state.json.lock")).unwrap();
        let other = has_second_run.then(|| {
            let mut command = hello.command("create-env", &[]);
            let other = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            crate::support::scripted::wait_until("the other run has the lock", || {
                hello.world.exists("state.json.lock")
            });
            other
        });
        hello.release_call();
        let first = first.end_with_output();
        let stderr = String::from_utf8_lossy(&first.stderr).into_owned();
        assert_eq!(first.status.code(), Some(4), "{stderr}");
        assert!(stderr.contains("was removed during this run"), "{stderr}");
        match other {
            Some(mut other) => assert!(other.end().success()),
            None => {
                assert_eq!(hello.calls(""), 3, "no call after `create_vm`");
                hello.set_script(Script::with_info(InfoAnswer::Local));
                hello.create(&[]).success();
            }
        }
        assert_eq!(hello.cloud(), hello.recorded_cids());
        assert!(!hello.world.exists("state.json.lock"));
        hello.delete(&[]).success();
        assert_eq!(hello.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn rejects_a_hard_linked_state() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.create(&["--recreate"]).success();
    let (state, other) = (hello.world.path("state.json"), hello.world.path("other.json"));
    std::fs::hard_link(&state, &other).unwrap();
    for run in [hello.create(&[]), hello.delete(&[])] {
        let run = run.exits_with(3);
        assert!(run.stderr.contains("has 1 other hard link\n"), "{}", run.stderr);
    }
    std::fs::remove_file(&other).unwrap();
    // The backup may be a link to the state if a run was killed between two steps of a write.
    std::fs::remove_file(hello.world.path("state.json.bak")).unwrap();
    std::fs::hard_link(&state, hello.world.path("state.json.bak")).unwrap();
    hello.create(&[]).success();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn wait_for_the_lock_can_be_interrupted() {
    let hello = Hello::new();
    hello.set_script(Script::with_interruption(2, Interruption::Hold));
    let mut command = hello.command("create-env", &[]);
    let mut first = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    hello.wait_until_held();
    let mut command = hello.command("create-env", &["--wait-for-lock", "5m"]);
    let mut second = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let pid = rustix::process::Pid::from_child(&second);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(second.end().code(), Some(130));
    hello.release_call();
    assert!(first.end().success());
    hello.delete(&[]).success();
}

#[test]
fn run_that_waits_at_its_question_is_reported() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let mut pty = Pty::start(hello.command("create-env", &["--recreate"]), (120, 50));
    pty.wait_for("the question", |screen| screen.contains("[y/N]"));
    let failed_run = hello.create(&[]).exits_with(4);
    let text = " is using this environment, and waits for an answer on its terminal\n";
    assert!(failed_run.stderr.contains(text), "{}", failed_run.stderr);
    let hint = "hint: answer its question there, or end that run on ";
    assert!(
        failed_run.stderr.contains(hint) && failed_run.stderr.contains("`kill -INT "),
        "{}",
        failed_run.stderr
    );
    pty.press("n\r");
    assert_eq!(pty.end(), 2);
    hello.create(&[]).success();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn delete_env_deletes_only_what_it_asked_about() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let mut pty = Pty::start(hello.command("delete-env", &[]), (120, 50));
    pty.wait_for("the question", |screen| screen.contains("[y/N]"));
    hello.create(&["--recreate"]).success();
    pty.press("y\r");
    assert_eq!(pty.end(), 2);
    let text = pty.text();
    assert!(text.contains("another run changed the state meanwhile: nothing was deleted"), "{text}");
    assert!(text.contains("note: it now records VM 'vm-"), "{text}");
    assert_eq!(hello.ask_counter(), 1);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn hanging_cpi_is_left_running_for_the_next_run() {
    let hello = Hello::new();
    hello.set_script(Script::with_interruption(3, Interruption::Hold));
    let run = hello.create(&["--cpi-timeout", "1s"]).exits_with(1);
    for text in
        ["`create_vm`", "wait longer for the same process: `monopile create-env", "state.json.journal"]
    {
        assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
    }
    let id = std::fs::read_dir(hello.world.path("state.json.journal")).unwrap().find_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".intent").map(str::to_owned)
    });
    let id = id.expect("the call is open");

    // The next command finds the call still running.
    let run = hello.create(&["--cpi-timeout", "1s"]).exits_with(1);
    assert!(run.stderr.contains("--cpi-timeout"), "{}", run.stderr);
    let run =
        hello.world.run(["state", "forget", "--state", "state.json", "--yes", "--call", &id]).exits_with(1);
    assert!(run.stderr.contains("is still running"), "{}", run.stderr);
    let run = hello.world.run(["state", "show", "--state", "state.json"]).success();
    assert!(run.stdout.contains(&id) && run.stdout.contains("agent ID"), "{}", run.stdout);

    hello.release_call();
    hello.wait_until_idle();
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.create(&["--cpi-timeout", "5m"]).success();
    assert_eq!(hello.cloud(), hello.recorded_cids());
    let vms = hello.effects().0.into_iter().filter(|cid| cid.starts_with("vm-")).count();
    assert!(vms <= 2, "the VM of the call is replaced at most once");

    // A command that only reads ends the CPI, and shows what it knows.
    let hangs = Reaction::Instead("sleep 60".to_owned());
    hello.set_script(Script::with_info(InfoAnswer::Local).first("has_vm", 1, hangs));
    let run = hello.world.finish(hello.command("status", &["--cpi-timeout", "1s"])).exits_with(1);
    assert!(run.stdout.contains("NOT ASKED") && run.stdout.contains("vm-"), "{}", run.stdout);
    assert!(run.stderr.contains("was ended without an answer"), "{}", run.stderr);
    hello.wait_until_idle();
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.delete(&[]).success();
    let leftovers: Vec<String> =
        hello.leftovers().into_iter().filter(|leftover| !leftover.contains("/tmp/monopile-")).collect();
    assert_eq!(leftovers, Vec::<String>::new());
}

fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[test]
fn vm_whose_deletion_is_still_running_is_named() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let interruption = Reaction::Interrupt(Interruption::HoldAfterEffect);
    hello.set_script(Script::with_info(InfoAnswer::Local).first("delete_vm", 1, interruption));
    hello.delete(&["--cpi-timeout", "1s"]).exits_with(1);
    for command in ["logs", "stop-env"] {
        let run = hello.world.finish(hello.command(command, &["--agent-timeout", "1s"])).exits_with(5);
        let expected = "does not answer\n  cause: the VM is being deleted\n  hint: the CPI's `delete_vm` of \
                        an earlier run is still running; to wait for it: `monopile delete-env ";
        assert!(run.stderr.contains(expected), "{command}: {}", run.stderr);
    }
    hello.release_call();
    hello.wait_until_idle();
    hello.delete(&[]).success();
}
