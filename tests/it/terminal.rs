//! The program as operators see it: on a real pseudo-terminal, through a terminal emulator, at three widths,
//! during a pause and at the end.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regex::{Captures, Regex};

use crate::support::hello::{Hello, release_tarball, tarball_ops};
use crate::support::pty::{Pty, WRAP_SIGN, start_on_terminal};
use crate::support::scripted::{InfoAnswer, Reaction, Script};
use crate::support::tarballs::{PackageTarball, sha1};

/// A log line of the CPI that is wider than its characters suggest, and longer than any terminal.
const CPI_LINE: &str = "I, [2026-01-02T03:04:05 #7] INFO: 仮想マシンを作成しています RunInstances \
                   i-0123456789abcdef0 is 'pending', waiting for it to be 'running' since 12 attempts of 30";

/// Masks the parts that differ from run to run, and keeps their number of columns. The terminal may have
/// wrapped them anywhere.
fn mask_variable_parts(text: &str) -> String {
    let hex = format!("[0-9a-f](?:{WRAP_SIGN}\n)?");
    let groups = [8, 4, 4, 4, 12].map(|count| format!("(?:{hex}){{{count}}}"));
    let uuid = Regex::new(&groups.join(&format!("-(?:{WRAP_SIGN}\n)?"))).unwrap();
    let hide = |captures: &Captures<'_>| {
        let hide_digit = |character: char| if character.is_ascii_hexdigit() { 'x' } else { character };
        captures[0].chars().map(hide_digit).collect::<String>()
    };
    let text = uuid.replace_all(text, hide);
    let text = Regex::new("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]").unwrap().replace_all(&text, "⠋");
    let text = Regex::new(r"\b\d:\d\d\b").unwrap().replace_all(&text, "0:00");
    let text = Regex::new(r"\b\d+(\.\d)? (s|KiB|B)\b").unwrap().replace_all(&text, "0.0 $2");
    let text = Regex::new("/tmp/mp-[A-Za-z0-9]{6}").unwrap().replace_all(&text, "/tmp/mp-xxxxxx");
    let text = Regex::new(r"\b127(\.\d+){3}\b").unwrap().replace_all(&text, "127.x.x.x");
    // This is the rest of a truncated id.
    Regex::new("-([0-9a-f-]+)…")
        .unwrap()
        .replace_all(&text, |captures: &Captures<'_>| hide(captures))
        .into_owned()
}

/// Returns the end of a run without what differs from run to run.
fn end(hello: &Hello, text: &str) -> String {
    let start = text.find("\nSteps").map(|index| index + 1).or(text.find("Succeeded in")).unwrap();
    hello.normalise(&text[start..])
}

/// Returns an environment whose CPI pauses in `create_vm` until it is released.
fn environment_paused_in_create_vm() -> Hello {
    let hello = Hello::without_vars_store();
    let go = hello.world.path("go");
    let wait = format!(
        "echo \"{CPI_LINE}\" >&2; until [ -e {0} ] || [ $SECONDS -gt 100 ]; do sleep 0.05; done; \
         rm -f {0}; cat",
        go.display()
    );
    hello.set_script(Script::with_info(InfoAnswer::Local).first(
        "create_vm",
        usize::MAX,
        Reaction::After(wait),
    ));
    hello
}

/// Waits until the CPI's line is visible. It appears when the call takes long, and the screen is then stable.
fn wait_for_cpi_log(pty: &Pty) -> String {
    let screen = pty.wait_for("the CPI's log", |screen| screen.contains("| I, ["));
    let live = screen.lines().rev().take_while(|line| !line.contains('✓'));
    assert!(live.clone().count() >= 3, "{screen}");
    assert!(!live.clone().any(|line| line.contains(WRAP_SIGN)), "a line wraps:\n{screen}");
    screen
}

/// Runs a first deploy, and then one with a new VM, which knows the usual durations.
fn run_life(name: &str, size: (u16, u16)) {
    let hello = environment_paused_in_create_vm();
    let mut pty = start_on_terminal(hello.command("create-env", &["-n"]), size);
    insta::assert_snapshot!(format!("{name}_first"), mask_variable_parts(&wait_for_cpi_log(&pty)));
    hello.release_call();
    assert_eq!(pty.end(), 0, "{}", pty.text());
    let text = pty.text();
    assert!(!text.contains('⠋') && !text.contains("| I, ["), "something of the live part is left:\n{text}");

    let mut pty = start_on_terminal(hello.command("create-env", &["-n", "--recreate"]), size);
    insta::assert_snapshot!(format!("{name}_again"), mask_variable_parts(&wait_for_cpi_log(&pty)));
    hello.release_call();
    assert_eq!(pty.end(), 0, "{}", pty.text());
    insta::assert_snapshot!(format!("{name}_end"), end(&hello, &pty.text()));
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn renders_at_forty_columns() {
    run_life("terminal_40", (40, 30));
}

#[test]
fn renders_at_eighty_columns() {
    run_life("terminal_80", (80, 24));
}

#[test]
fn renders_at_132_columns() {
    run_life("terminal_132", (132, 43));
}

#[test]
fn resize_leaves_no_stale_text() {
    let hello = environment_paused_in_create_vm();
    let mut pty = start_on_terminal(hello.command("create-env", &["-n"]), (132, 24));
    wait_for_cpi_log(&pty);
    for (columns, rows) in [(40, 24), (100, 12), (30, 8), (80, 24), (61, 30)] {
        pty.resize((columns, rows));
        let fits = |screen: &str| {
            let count = |what: &str| screen.matches(what).count();
            count("Deploying 2/6") == 1 && count("| I, [") == 1 && !screen.ends_with(WRAP_SIGN)
        };
        pty.wait_for("the live part alone", fits);
        // Redrawing does not change it.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let screen = pty.screen();
        assert!(fits(&screen), "{columns} columns:\n{screen}");
        let live = screen.lines().rev().take(3).collect::<Vec<_>>();
        assert!(live[0].contains("Deploying 2/6") && live[1].contains("| I, ["), "{screen}");
        assert!(live[2].contains("Creating VM"), "{screen}");
        let full = live[1].chars().count() + live[1].matches(|character| character as u32 > 0x2e80).count();
        assert!(full > usize::from(columns).min(100) - 6, "it does not use the room:\n{screen}");
    }
    hello.release_call();
    assert_eq!(pty.end(), 0, "{}", pty.text());
    let text = pty.text();
    for line in ["▸ Deploying", "✓ Creating VM", "✓ Deploying", "log: ", "Succeeded in"] {
        assert_eq!(text.matches(line).count(), 1, "{line}:\n{text}");
    }
    assert!(!text.contains('⠋') && !text.contains("| I, ["), "{text}");
    hello.delete(&[]).success();
}

#[test]
fn failure_ends_with_cause_and_next_command() {
    let hello = Hello::new();
    hello.create(&["-n"]).success();
    hello.set_script(Script::with_info(InfoAnswer::Local).fail(
        "create_vm",
        1,
        "Bosh::Clouds::VMCreationFailed",
        false,
    ));
    let mut pty = start_on_terminal(hello.command("create-env", &["-n", "--recreate"]), (80, 40));
    assert_eq!(pty.end(), 1);
    insta::assert_snapshot!("terminal_failure", end(&hello, &pty.text()));
    hello.delete(&["--forget-open-calls"]);
}

#[test]
fn no_color_removes_colours() {
    let hello = environment_paused_in_create_vm();
    let mut command = hello.command("create-env", &["-n"]);
    command.env("NO_COLOR", "1").env("LANG", "C");
    let mut pty = start_on_terminal(command, (80, 24));
    let screen = frozen_ascii(&pty);
    hello.release_call();
    assert_eq!(pty.end(), 0);
    let raw = pty.raw();
    let color = Regex::new("\x1b\\[[0-9;]*m").unwrap();
    assert!(!color.is_match(&raw), "{raw:?}");
    // Characters that the locale lacks appear only in foreign text.
    let own_text: String = screen.lines().filter(|line| !line.contains("| I, [")).collect();
    assert!(own_text.is_ascii(), "{screen}");
    hello.delete(&[]).success();
}

fn frozen_ascii(pty: &Pty) -> String {
    pty.wait_for("the CPI's log", |screen| screen.contains("| I, ["))
}

#[test]
fn dumb_terminal_gets_plain_lines() {
    let hello = Hello::new();
    for (term, size) in [("dumb", (80, 24)), ("xterm", (0, 0))] {
        let mut command = hello.command("create-env", &["-n", "--no-color", "--recreate"]);
        command.env("TERM", term);
        let mut pty = Pty::start(command, size);
        assert_eq!(pty.end(), 0, "{}", pty.raw());
        let raw = pty.raw();
        assert!(!raw.contains('\x1b'), "{raw:?}");
        let reports_creation = |line: &str| {
            line.starts_with("20") && line.contains("Z   Creating VM ") && line.contains(": done in ")
        };
        assert!(raw.lines().any(reports_creation), "{raw}");
        assert!(raw.contains("Succeeded in") && raw.contains("log: "), "{raw}");
    }
    hello.delete(&[]).success();
}

#[test]
fn verbose_shows_every_line_of_the_log() {
    let hello = environment_paused_in_create_vm();
    let mut pty = start_on_terminal(hello.command("create-env", &["-n", "--verbose"]), (100, 30));
    let lines = |screen: &str| screen.matches("| I, [").count();
    pty.wait_for("the line above and in the live part", |screen| lines(screen) == 2);
    hello.release_call();
    assert_eq!(pty.end(), 0);
    assert_eq!(lines(&pty.text()), 1, "{}", pty.text());
    hello.delete(&[]).success();
}

/// Serves half of a file, and the rest when released.
fn serve_half_then_wait(content: Vec<u8>) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/release.tgz", listener.local_addr().unwrap());
    let go = Arc::new(AtomicBool::new(false));
    let may = Arc::clone(&go);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), content, may) = (stream, content.clone(), Arc::clone(&may)) else { return };
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let header = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len());
                let _ = stream.write_all(header.as_bytes());
                let (first, rest) = content.split_at(content.len().div_ceil(2));
                for part in first.chunks(first.len().div_ceil(5)) {
                    let _ = stream.write_all(part);
                    std::thread::sleep(std::time::Duration::from_millis(150));
                }
                while !may.load(Ordering::SeqCst) {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                let _ = stream.write_all(rest);
            });
        }
    });
    (url, go)
}

#[test]
fn download_shows_bytes_and_rate() {
    let mut hello = Hello::new();
    let ballast: String = (0_u32..20_000).map(|number| sha1(&number.to_le_bytes())).collect();
    let ballast = PackageTarball::new("ballast", "", &[]).file("ballast", &ballast);
    let tarball = release_tarball(&hello).package(ballast).build();
    let (url, go) = serve_half_then_wait(tarball.clone());
    let sha1 = sha1(&tarball);
    let ops = tarball_ops("unused", &sha1, "unused", "unused");
    let ops: String = ops.lines().take(2).map(|line| format!("{line}\n")).collect();
    hello.add_ops("download.yml", &ops.replace("file://unused", &url));
    let mut pty = start_on_terminal(hello.command("create-env", &["-n"]), (80, 24));
    let shows_stall = |screen: &str| Regex::new(r"\d KiB of \d+\.\d KiB, 0 B/s").unwrap().is_match(screen);
    let screen = pty.wait_for("half of it, and that nothing comes any more", shows_stall);
    let bar = screen.lines().find(|line| line.contains("Downloading")).unwrap();
    assert!(bar.contains(" ━━━━━───── Down"), "{screen}");
    // A narrow terminal has room only for a percentage.
    pty.resize((40, 24));
    pty.wait_for("half of it", |screen| screen.contains(" 50% Downloading"));
    go.store(true, Ordering::SeqCst);
    assert_eq!(pty.end(), 0, "{}", pty.text());
    let size = tarball.len() * 10 / 1024;
    let end_line =
        format!(r"✓ Downloading release 'hello'\s+{}\.({}|{}) KiB, ", size / 10, size % 10, size % 10 + 1);
    assert!(Regex::new(&end_line).unwrap().is_match(&pty.text()), "{}", pty.text());
    hello.delete(&[]).success();
}

/// Runs a command on a terminal of 80 columns, and returns its output. Only lines with paths may wrap.
fn run_at_80_columns(hello: &Hello, command: std::process::Command, code: i32) -> String {
    let mut pty = start_on_terminal(command, (80, 100));
    assert_eq!(pty.end(), code, "{}", pty.text());
    let screen = pty.screen();
    // Paths and the commands of hints stay whole, so that they can be copied.
    let report = screen.split("hint: ").next().unwrap_or_default();
    let wraps = |line: &str| line.ends_with(WRAP_SIGN) && !line.contains("/tmp/mp-");
    assert!(!report.lines().any(wraps), "a line wraps:\n{screen}");
    hello.normalise(&pty.text())
}

/// Masks the parts that differ between two runs of a report, and the spaces that align it.
fn mask_report(report: &str) -> String {
    let report = report.lines().filter(|line| !line.contains('✓') && !line.contains("Expected"));
    let mut text = report.map(|line| format!("{line}\n")).collect::<String>();
    for (pattern, mask) in [
        (r"\b127\.\d+\.\d+\.\d+:\d+", "<address>"),
        (r"\b127\.\d+\.\d+\.\d+", "<host>"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "<time>"),
        (r"\d{4}-\d\d-\d\d", "<date>"),
        (r"just now|\b\d+ min ago", "<age>"),
        (r"\b\d+ days", "<days>"),
        (r"\bpid \d+", "pid <pid>"),
        (r"\d+(\.\d+)?%", "<percent>"),
        (r"\d+\.\d+ (B|KiB|MiB|GiB)", "<size>"),
        (r"disk-[0-9a-f-]+…", "disk-…"),
        (r"(\S) {2,}", "$1  "),
        // A duration of two digits moves the last column.
        (r"(?m)^ {40,}", "                                                "),
        (r"(?s)\nLoad .*?\n(\S)", "\nLoad  <load>\n$1"),
        (r"(\nCPI  \S+)  \S+  API", "$1  <version>  API"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, mask).into_owned();
    }
    text
}

#[test]
fn reports_fit_eighty_columns() {
    let mut hello = Hello::without_vars_store();
    hello.create(&["-n"]).success();
    let run = |hello: &Hello, command: &str, extra_args: &[&str], code: i32| {
        mask_report(&run_at_80_columns(hello, hello.command(command, extra_args), code))
    };
    let run_on_state =
        |hello: &Hello, words: &[&str]| mask_report(&run_at_80_columns(hello, hello.state_command(words), 0));
    insta::assert_snapshot!("terminal_80_status", run(&hello, "status", &[], 0));
    insta::assert_snapshot!("terminal_80_state", run_on_state(&hello, &["state", "show"]));
    insta::assert_snapshot!("terminal_80_disks", run_on_state(&hello, &["state", "show", "--only", "disks"]));
    let snapshots = run_on_state(&hello, &["state", "show", "--only", "snapshots"]);
    assert_eq!(snapshots.trim_end(), "No snapshot is on record.");
    insta::assert_snapshot!("terminal_80_check", run(&hello, "cloud-check", &["--report"], 0));
    insta::assert_snapshot!("terminal_80_unchanged", run(&hello, "create-env", &[], 0));

    let properties = "/instance_groups/name=hello/jobs/name=hello/properties";
    let greeting = format!("- {{type: replace, path: {properties}/greeting?, value: Ahoy}}\n");
    hello
        .add_ops("change.yml", &format!("{greeting}- {{type: replace, path: /tags?, value: {{team: a}}}}\n"));
    insta::assert_snapshot!("terminal_80_plan", run(&hello, "plan", &["--recreate"], 0));

    // The question follows the plan. After Ctrl-C, the program reports that nothing was done.
    let answer_question = |hello: &Hello, key: &str, code: i32| {
        let mut pty = start_on_terminal(hello.command("create-env", &["--recreate"]), (80, 60));
        pty.wait_for("the question", |screen| screen.ends_with("Replace the VM of 'hello'? [y/N]"));
        pty.press(key);
        assert_eq!(pty.end(), code, "{}", pty.text());
        mask_report(&hello.normalise(&pty.text()))
    };
    let text = answer_question(&hello, "\x03", 130);
    assert!(text.contains("error: interrupted: nothing was done"), "{text}");
    assert!(!text.contains("received: waiting"), "{text}");
    let text = answer_question(&hello, "\x04", 2);
    assert!(text.contains("Replace the VM of 'hello'? no"), "{text}");
    let mut pty = start_on_terminal(hello.command("create-env", &["--recreate"]), (80, 60));
    pty.wait_for("the question", |screen| screen.ends_with("[y/N]"));
    pty.press("monopile history\r");
    pty.wait_for("the question again", |screen| {
        screen.ends_with("answer y or n\nReplace the VM of 'hello'? [y/N]")
    });
    pty.press("n\r");
    assert_eq!(pty.end(), 2, "{}", pty.text());
    insta::assert_snapshot!("terminal_80_declined", answer_question(&hello, "n\r", 2));
    insta::assert_snapshot!("terminal_80_history", run_on_state(&hello, &["history"]));

    // The last cases are stopped jobs, a VM that is gone, and the end.
    hello.world.finish(hello.command("stop-env", &[])).success();
    insta::assert_snapshot!("terminal_80_stopped", run(&hello, "status", &["--no-cpi"], 1));
    insta::assert_snapshot!("terminal_80_console", run(&hello, "logs", &["--console"], 3));
    hello.call("delete_vm", serde_json::json!([hello.state()["current_vm_cid"]]));
    insta::assert_snapshot!("terminal_80_check_problem", run(&hello, "cloud-check", &["--report"], 6));
    insta::assert_snapshot!("terminal_80_delete", run(&hello, "delete-env", &["-n"], 0));
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn status_shows_a_run_in_progress() {
    let hello = environment_paused_in_create_vm();
    let mut pty = start_on_terminal(hello.command("create-env", &["-n"]), (80, 24));
    wait_for_cpi_log(&pty);
    let status = run_at_80_columns(&hello, hello.command("status", &["--no-cpi"]), 1);
    assert!(status.contains("In progress  `create-env` since <time>"), "{status}");
    hello.release_call();
    assert_eq!(pty.end(), 0, "{}", pty.text());
    hello.delete(&[]).success();
}
