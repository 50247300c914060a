//! Outputs of commands, and their behaviour when the reader is gone.

use crate::support::process::prepare;
use std::process::Stdio;

use crate::support::hello::Hello;
use crate::support::{MONOPILE, World};

/// A command line that always fails early for the same reason.
const FAILS: [&str; 2] = ["delete-env", "-"];

#[test]
fn plain_prints_the_error_at_the_start_of_a_line_on_stderr() {
    let world = World::new();
    let run = world.run(FAILS).exits_with(2);
    assert_eq!(run.stdout, "");
    insta::assert_snapshot!(world.normalise(&run.stderr), @r"
    error: a manifest from standard input ('-') has no default state file
      hint: name one: `monopile delete-env - --state FILE`
    ");
}

#[test]
fn json_ends_with_the_result_object() {
    let world = World::new();
    let run = world.run(["--json", FAILS[0], FAILS[1]]).exits_with(2);
    assert_eq!(run.stderr, "");
    run.json();
    let last = world.normalise(run.stdout.lines().last().unwrap());
    insta::assert_snapshot!(last,
        @r#"{"v":1,"time":"<time>","event":"run_finished","success":false,"summary":"a manifest from standard input ('-') has no default state file","elapsed_ms":"<ms>","errors":["a manifest from standard input ('-') has no default state file"],"notes":[],"hints":["name one: `monopile --json delete-env - --state FILE`"],"exit_code":2}"#);
}

#[test]
fn tty_option_selects_the_terminal_view() {
    let world = World::new();
    for (variable, option) in [(None, Some("--tty")), (Some(("BOSH_TTY", "true")), None)] {
        let mut command = world.monopile(option.into_iter().chain(FAILS));
        command.envs(variable);
        let run = world.finish(command).exits_with(2);
        assert!(run.stderr.starts_with("\x1b[31merror:\x1b[0m a manifest"), "{:?}", run.stderr);
    }
}

#[test]
fn colours_can_be_disabled() {
    let world = World::new();
    let mut by_variable = world.monopile(["--tty"].into_iter().chain(FAILS));
    by_variable.env("NO_COLOR", "1");
    let by_option = world.monopile(["--tty", "--no-color"].into_iter().chain(FAILS));
    for command in [by_variable, by_option] {
        let run = world.finish(command).exits_with(2);
        assert!(!run.stderr.contains('\x1b') && run.stderr.starts_with("error: "), "{:?}", run.stderr);
    }
}

#[test]
fn closed_output_pipe_does_not_panic() {
    let world = World::new();
    for args in
        [vec!["completion", "bash"], vec!["--help"], FAILS.to_vec(), vec!["--json", "delete-env", "-"]]
    {
        let mut command = prepare("sh");
        // Both outputs are pipes whose readers end before the program starts.
        let script = "{ sleep 0.2; \"$0\" \"$@\"; echo $? > code; } 2>&1 | true; cat code";
        world.enter(&mut command).args(["-c", script, MONOPILE]).args(&args).stdin(Stdio::null());
        let run = world.finish(command).success();
        let expected = if args.contains(&"delete-env") { "2" } else { "0" };
        assert_eq!(run.stdout.trim(), expected, "{args:?}: {}", run.stderr);
    }
}

#[test]
fn full_output_file_is_not_blamed_on_other_file_systems() {
    let world = World::new();
    let mut command = prepare("sh");
    world.enter(&mut command).args(["-c", "\"$0\" example > /dev/full", MONOPILE]);
    let run = world.finish(command).exits_with(1);
    insta::assert_snapshot!(run.stderr, @r"
    error: writing to standard output failed
      cause: No space left on device
      hint: free space on the file system of the file that standard output goes to, or redirect the output to another file
    ");
}

#[test]
fn log_path_gets_a_private_log() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let mut command = world.monopile(FAILS);
    command.env("BOSH_LOG_LEVEL", "debug").env("BOSH_LOG_PATH", world.path("log"));
    world.finish(command).exits_with(2);
    let mode = world.path("log").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn options_without_effect_are_reported() {
    let hello = Hello::new();
    let plan = hello.world.finish(hello.command("plan", &["--cpi-userland", "no-file", "--cache-write"]));
    let stderr = plan.success().stderr;
    assert!(stderr.contains("warning: --cache-write has no effect without --cache URL"), "{stderr}");
    assert!(stderr.contains("warning: --cpi-userland has no effect: no CPI of the manifest is"), "{stderr}");
    let plan = hello.world.finish(hello.command("plan", &["--cpi-userland", "host"])).success();
    assert!(!plan.stderr.contains("no effect"), "{}", plan.stderr);
    for (words, warning) in [
        (&["cache", "list", "--cache", "file:///x"][..], "--cache has no effect: this is the cache of this"),
        (&["version", "--identity", "x"], "--identity has no effect on `version`"),
    ] {
        let run = hello.world.run(words).success();
        assert!(run.stderr.contains(&format!("warning: {warning}")), "{}", run.stderr);
    }
    // A plan refuses what the run that it announces would refuse.
    let plan = hello.world.finish(hello.command("plan", &["--encrypt-to", "no-file"])).exits_with(2);
    assert!(plan.stderr.contains("error: 'no-file' (--encrypt-to, "), "{}", plan.stderr);
}

#[test]
fn log_can_be_json() {
    let hello = Hello::new();
    let log = |command: &str, options: &[&str]| {
        let mut command = hello.command(command, options);
        command
            .env("BOSH_LOG_LEVEL", "debug")
            .env("BOSH_LOG_PATH", hello.world.path(format!("log{}", options.len())));
        hello.world.finish(command).success();
        hello.world.read(format!("log{}", options.len()))
    };
    let json = log("create-env", &["--log-format", "json"]);
    assert!(!json.is_empty());
    for line in json.lines() {
        let line: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
    }
    let text = log("delete-env", &["-n"]);
    assert!(text.contains("DEBUG") && !text.starts_with('{'), "{text}");
}
