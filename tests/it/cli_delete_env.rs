//! `delete-env` asks for confirmation: tests on a pseudo-terminal.

use crate::support::process::{WaitForEnd, pieces, prepare, receive};
use std::io::Write;
use std::process::Stdio;

use crate::support::pty::Pty;
use crate::support::{MONOPILE, Run, World};

const STATE: &str = r#"{"director_id": "d", "installation_id": "i", "current_vm_cid": "vm-1",
    "current_stemcell_id": "s", "current_disk_id": "k", "current_release_ids": [],
    "current_manifest_sha": "",
    "disks": [{"id": "k", "cid": "disk-7", "size": 1024, "cloud_properties": {}}],
    "stemcells": [{"id": "s", "name": "ubuntu", "version": "1.7", "cid": "sc-1"}], "releases": []}"#;

/// Runs `monopile delete-env env.yml` on a terminal, types `keys` this long after the prompt appears, and
/// returns the screen. Its last line has the terminal's settings after the run.
fn run_on_terminal(world: &World, delay_ms: u64, keys: &str) -> Run {
    world.write("env.yml", "name: x\n");
    world.write("env-state.json", STATE);
    let mut script = prepare("script");
    let program = format!("trap : INT; {MONOPILE} delete-env env.yml; code=$?; stty; exit $code");
    world.enter(&mut script).env("TERM", "xterm").args([
        "--quiet",
        "--return",
        "--command",
        &program,
        "/dev/null",
    ]);
    let mut child =
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut screen = Vec::new();
    let output = pieces(child.stdout.take().unwrap());
    let mut has_asked = false;
    while let Some(piece) = receive("the terminal shows more", &output) {
        screen.extend(piece);
        if !has_asked && String::from_utf8_lossy(&screen).contains("[y/N]") {
            has_asked = true;
            std::thread::sleep(std::time::Duration::from_millis(delay_ms));
            input.write_all(keys.as_bytes()).unwrap();
            input.flush().unwrap();
        }
    }
    let status = child.end();
    let screen = String::from_utf8_lossy(&screen).into_owned();
    assert!(has_asked, "{screen}");
    Run { code: status.code().unwrap(), stdout: screen, stderr: String::new() }
}

#[test]
fn answering_no_deletes_nothing() {
    let world = World::new();
    // The last one is Ctrl-D.
    for keys in ["n\r", "\r", " No \r", "\x04"] {
        let run = run_on_terminal(&world, 0, keys).exits_with(2);
        assert!(
            run.stdout.contains("Delete environment 'x' and all data on its disks?")
                && run.stdout.contains("nothing was deleted"),
            "{}",
            run.stdout
        );
    }
}

#[test]
fn prompt_lists_what_will_be_deleted() {
    let world = World::new();
    let run = run_on_terminal(&world, 0, "n\r").exits_with(2);
    let (list, _) = run.stdout.split_once("Delete environment").unwrap();
    let lines: Vec<&str> = list.lines().map(str::trim_end).collect();
    assert!(
        lines.ends_with(&[
            "This will be deleted:",
            "  VM 'vm-1'",
            "  disk 'disk-7' (1024 MiB)",
            "  stemcell 'sc-1' (ubuntu/1.7)",
        ]),
        "{lines:?}"
    );
}

#[test]
fn without_a_state_nothing_is_asked() {
    let world = World::new();
    world.write("env.yml", "name: x\n");
    let mut script = prepare("script");
    let program = format!("trap : INT; {MONOPILE} delete-env env.yml; code=$?; stty; exit $code");
    let args = ["--quiet", "--return", "--command", &program, "/dev/null"];
    world.enter(&mut script).env("TERM", "xterm").args(args);
    let run = world.finish(script).exits_with(3);
    assert!(run.stdout.contains("there is no state") && !run.stdout.contains("[y/N]"), "{}", run.stdout);
}

/// A key before the prompt reads becomes a signal of the terminal; a later one is read. Both must end the
/// prompt.
#[test]
fn interrupted_prompt_restores_the_terminal() {
    for delay in [0, 0, 5, 50] {
        let run = run_on_terminal(&World::new(), delay, "\x03").exits_with(130);
        let (_, text_after) = run.stdout.rsplit_once("[y/N]").unwrap();
        let (message, settings) = text_after.split_once("speed").expect("stty prints settings");
        assert!(message.contains("nothing was done") && !settings.contains("-echo"), "{:?}", run.stdout);
    }
}

#[test]
fn wrapped_question_is_asked_again_as_a_whole() {
    let world = World::new();
    let name = "a-long-name-of-an-environment-".repeat(3);
    world.write("env.yml", format!("name: {name}x\n"));
    world.write("env-state.json", STATE);
    let mut pty = Pty::start(world.monopile(["delete-env", "env.yml"]), (80, 30));
    pty.wait_for("the question", |screen| screen.ends_with("[y/N]"));
    pty.press("maybe\r");
    pty.wait_for("the question again", |screen| {
        let Some((text_before, question)) = screen.rsplit_once("\nanswer y or n\n") else { return false };
        text_before.ends_with("  stemcell 'sc-1' (ubuntu/1.7)")
            && question.starts_with("Delete environment")
            && question.contains('\n')
            && question.ends_with("[y/N]")
    });
    pty.press("n\r");
    assert_eq!(pty.end(), 2, "{}", pty.text());
    assert_eq!(pty.text().matches("Delete environment").count(), 1, "{}", pty.text());
}
