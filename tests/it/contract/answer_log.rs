//! The `log` of an answer: shown and logged for every call, bounded, and without secrets.

use crate::support::hello::Hello;
use crate::support::scripted::{InfoAnswer, Interruption, Reaction, Script};

/// A line with a secret that an escape sequence interrupts, as JSON and as it must be shown.
const SECRET: &str = r#"password quite-\u001b[31ma-sec\u001b[0mret"#;
const REDACTED_PASSWORD: &str = "password <redacted>";

/// Returns a command that adds this JSON text to the answer's log.
fn add_to_log(log: &str) -> Reaction {
    Reaction::After(format!(
        "echo 'on both' >&2; sed 's/\"log\":\"/\"log\":\"on both\\\\n{}\\\\n/'",
        log.replace('\\', r"\\").replace('[', r"\[")
    ))
}

fn run_logs(hello: &Hello) -> String {
    let logs = hello.find("home", "-env-").into_iter();
    let logs = logs.filter(|path| path.display().to_string().contains("/monopile/logs/"));
    logs.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn log_of_every_answer_is_shown_and_logged() {
    let hello = Hello::new();
    let methods = [
        "info",
        "create_stemcell",
        "create_vm",
        "set_vm_metadata",
        "create_disk",
        "attach_disk",
        "set_disk_metadata",
    ];
    let script = methods.iter().fold(Script::with_info(InfoAnswer::Local), |script, method| {
        script.first(method, 1, add_to_log(&format!("of {method}, {SECRET}")))
    });
    hello.set_script(script.clone());
    let run = hello.create(&["--verbose", "-v", "some_password=quite-a-secret"]).success();
    let output = format!("{}{}", run.stdout, run.stderr);
    let logs = run_logs(&hello);
    for method in methods {
        let line = format!("of {method}, {REDACTED_PASSWORD}");
        assert_eq!(output.matches(&line).count(), 1, "{method}: {output}");
        assert!(logs.contains(&line), "{method}: {logs}");
    }
    // A line that is also on standard error is shown once for each call.
    assert_eq!(output.matches("on both").count(), methods.len(), "{output}");
    assert!(!output.contains("quite-") && !logs.contains("quite-"), "{output}{logs}");
    hello.delete(&[]).success();
    hello.set_script(script);
    let run = hello.create(&["-v", "some_password=quite-a-secret"]).success();
    assert!(
        !run.stdout.contains("of create_vm, ") && !run.stderr.contains("of create_vm, "),
        "{}",
        run.stdout
    );
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn error_of_a_call_shows_the_end_of_its_log() {
    let hello = Hello::new();
    let lines: String = (1..=20).map(|number| format!("step {number}\\n")).collect();
    let answer = |error: &str| {
        format!(r#"{{"result": null, "error": {error}, "log": "{lines}{SECRET}\nX: no room\n"}}"#)
    };
    let error = r#"{"type": "X", "message": "no room", "ok_to_retry": false}"#;
    for (error, at_fault) in [(error, "`create_vm` failed"), ("7", "no usable answer")] {
        hello.set_script(Script::with_info(InfoAnswer::Local));
        hello.world.write("answer.json", answer(error));
        let path = hello.world.path("answer.json").display().to_string();
        let reaction = Reaction::Instead(format!("cat '{path}'"));
        hello.set_script(Script::with_info(InfoAnswer::Local).first("create_vm", 1, reaction));
        let run = hello.create(&["-v", "some_password=quite-a-secret"]).exits_with(1);
        assert!(
            run.stderr.contains(at_fault) && run.stderr.contains("the end of the CPI's log:"),
            "{}",
            run.stderr
        );
        assert!(run.stderr.contains("step 20") && run.stderr.contains(REDACTED_PASSWORD), "{}", run.stderr);
        assert!(!run.stderr.contains("step 8\n") && !run.stderr.contains("quite-"), "{}", run.stderr);
        // The log does not repeat the message of an error.
        assert_eq!(run.stderr.matches("no room").count(), 1, "{}", run.stderr);
    }
    // The call stays open, and the next run reports the same.
    let run = hello.create(&["-v", "some_password=quite-a-secret"]).exits_with(1);
    assert!(run.stderr.contains("step 20") && !run.stderr.contains("quite-"), "{}", run.stderr);
}

#[test]
fn next_run_shows_the_answer_log_of_a_killed_one() {
    let hello = Hello::new();
    hello.set_script(
        Script::with_info(InfoAnswer::Local)
            .first("create_stemcell", 1, add_to_log(SECRET))
            .stopped_at(2, Interruption::Slow),
    );
    hello.create(&["-v", "some_password=quite-a-secret"]);
    let run = hello.create(&["--verbose", "-v", "some_password=quite-a-secret"]).success();
    let output = format!("{}{}", run.stdout, run.stderr);
    assert!(
        output.contains("outcome of the `create_stemcell`") && output.contains(REDACTED_PASSWORD),
        "{output}"
    );
    assert!(!output.contains("quite-"), "{output}");
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
