//! Unusable answers. Each ends in a clear error, takes little time and memory, and leaves a state with all
//! known resources.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::run_in_parallel;
use crate::support::hello::Hello;
use crate::support::process::{lines, poll, receive};
use crate::support::scripted::{InfoAnswer, Reaction, Script};
use crate::support::{Run, is_long_form, peak_kib};

/// The name of the case, the command that breaks the answer of `create_vm`, and the text of the error.
const BROKEN_ANSWERS: &[(&str, &str, &str)] = &[
    ("nothing, exit 0", "exit 0", "it wrote nothing"),
    ("nothing, exit 1", "exit 1", "it wrote nothing; the CPI ended with exit status 1"),
    ("killed before it answers", "kill -KILL $$", "it wrote nothing; the CPI was killed by signal 9"),
    ("aborted", "ulimit -c 0; kill -ABRT $$", "it wrote nothing; the CPI was killed by signal 6"),
    ("killed in the middle", "printf '{\"result\": \"vm'; kill -TERM $$", "killed by signal 15 (SIGTERM)"),
    ("white space", "printf ' \\n\\t\\r\\n'", "it wrote nothing"),
    ("truncated", "printf '{\"result\": [\"vm\", {'", "not one JSON document"),
    ("one byte", "printf '{'", "not one JSON document"),
    ("no JSON", "echo 'undefined method for nil:NilClass (NoMethodError)'", "it is not JSON; it begins: "),
    (
        "a log line first",
        "echo 'I, [2026] INFO -- :'; printf '{\"result\": \"vm\"}'",
        "it is not JSON; it begins: ",
    ),
    ("a log line last", "printf '{\"result\": \"vm\"}'; echo done", "not one JSON document"),
    ("two documents", "printf '{\"result\": \"vm\"}{\"result\": \"vm\"}'", "not one JSON document"),
    ("two lines", "echo '{\"result\": \"vm\"}'; echo '{\"result\": \"vm\"}'", "not one JSON document"),
    ("invalid UTF-8", "printf '{\"result\": \"v\\xffm\"}'", "not one JSON document"),
    ("half a character", "printf '{\"result\": \"v\\xc3'", "not one JSON document"),
    ("a lone surrogate", "printf '{\"result\": \"\\\\ud800\"}'", "not one JSON document"),
    ("a byte order mark", "printf '\\xef\\xbb\\xbf{\"result\": \"vm\"}'", "it is not JSON"),
    ("UTF-16", "printf '{\"result\": \"vm\"}' | sed 's/./&\\x00/g'", "not one JSON document"),
    ("a NUL at the end", "printf '{\"result\": \"vm\"}\\0'", "not one JSON document"),
    ("a NUL inside", "printf '{\"result\": \"v\\0m\"}'", "not one JSON document"),
    ("deep nesting", "yes '[' | head -c 1000000 | tr -d '\\n'", "not one JSON document"),
    (
        "deep nesting inside",
        "printf '{\"result\": '; yes '{\"a\":' | head -n 100000 | tr -d '\\n'",
        "not one JSON document",
    ),
    ("a number too large", "printf '{\"result\": 1e999}'", "not one JSON document"),
    ("a comment", "printf '{\"result\": \"vm\"} // made'", "not one JSON document"),
    ("single quotes", "printf \"{'result': 'vm'}\"", "not one JSON document"),
    ("not a number", "printf '{\"result\": NaN}'", "not one JSON document"),
    ("an empty document", "printf '{}'", "neither `result` nor `error`"),
    ("another document", "printf '{\"cid\": \"vm\"}'", "neither `result` nor `error`"),
    ("an array", "printf '[\"vm\", {}]'", "it is a list, not an object"),
    ("a bare string", "printf '\"vm\"'", "it is malformed"),
    ("null", "printf 'null'", "it is malformed"),
    (
        "a result and an error",
        "printf '{\"result\": \"vm\", \"error\": {\"type\": \"X\", \"message\": \"y\"}}'",
        "both a result and an error",
    ),
    ("two results", "printf '{\"result\": \"vm\", \"result\": \"vm2\"}'", "duplicate field `result`"),
    ("an error that is text", "printf '{\"result\": null, \"error\": \"boom\"}'", "its `error` is malformed"),
    ("an error that is a list", "printf '{\"error\": [1]}'", "its `error` is malformed"),
    (
        "ok_to_retry that is text",
        "printf '{\"error\": {\"type\": \"X\", \"message\": \"y\", \"ok_to_retry\": \"yes\"}}'",
        "its `error` is malformed",
    ),
    (
        "a null result",
        "printf '{\"result\": null, \"error\": null}'",
        "the result must be [\"CID\", NETWORKS]",
    ),
    ("an empty CID", "printf '{\"result\": \"\"}'", "the result must be [\"CID\", NETWORKS]"),
    ("a blank CID", "printf '{\"result\": [\" \", {}]}'", "the result must be [\"CID\", NETWORKS]"),
    ("an empty pair", "printf '{\"result\": []}'", "the result must be [\"CID\", NETWORKS]"),
    (
        "a CID that is a list",
        "printf '{\"result\": [[\"vm\"], {}]}'",
        "the result must be [\"CID\", NETWORKS]",
    ),
    (
        "networks that are text",
        "printf '{\"result\": [\"vm\", \"net\"]}'",
        "the result must be [\"CID\", NETWORKS]",
    ),
    ("an object", "printf '{\"result\": {\"cid\": \"vm\"}}'", "the result must be [\"CID\", NETWORKS]"),
    ("a truth", "printf '{\"result\": true}'", "the result must be [\"CID\", NETWORKS]"),
    ("17 MiB of white space", "head -c 17M /dev/zero | tr '\\0' ' '", "larger than 16 MiB"),
    (
        "17 MiB of text",
        "printf '{\"result\": \"'; head -c 17M /dev/zero | tr '\\0' x; printf '\"}'",
        "larger than 16",
    ),
    (
        "a stdout that is closed",
        "exec >&-; printf '{\"result\": \"vm\"}' 2>/dev/null; exit 0",
        "it wrote nothing",
    ),
    ("the answer on stderr", "printf '{\"result\": \"vm\"}' >&2", "it wrote nothing"),
];

fn output(run: &Run) -> String {
    run.stdout.clone() + &run.stderr
}

#[test]
fn malformed_answer_is_a_clear_error() {
    assert!(BROKEN_ANSWERS.len() >= 40);
    // The long form tries all answers, the short form each fourth one.
    let workers: Vec<Vec<_>> = (0..if is_long_form() { 4 } else { 1 })
        .map(|worker| BROKEN_ANSWERS.iter().skip(worker).step_by(4).collect())
        .collect();
    run_in_parallel(&workers, |cases| {
        let hello = Hello::new();
        // The stemcell exists in each case.
        hello.set_script(Script::with_info(InfoAnswer::Local).fail("create_vm", 1, "X", false));
        hello.create(&[]).exits_with(1);
        let state_before = hello.state();
        for (name, command, problem) in cases {
            hello.set_script(Script::with_info(InfoAnswer::Local).first(
                "create_vm",
                1,
                Reaction::Instead((*command).to_owned()),
            ));
            let run = hello.create(&["--forget-open-calls"]);
            assert_eq!(run.code, 1, "{name}: {}{}", run.stdout, run.stderr);
            assert!(run.stderr.contains(problem), "{name}: {}", run.stderr);
            for text in [
                "no usable answer to `create_vm`: ",
                "note: request ID ",
                "the outcome of the CPI's `create_vm` is unknown",
                "look in the IaaS for a VM with the address",
                "--forget-open-calls",
            ] {
                assert!(run.stderr.contains(text), "{name}: {text} is not in {}", run.stderr);
            }
            assert_eq!(hello.calls("create_vm"), 1, "{name}");
            assert_eq!(hello.state(), state_before, "{name}");
            assert!(hello.world.exists("state.json.journal"), "{name}");
        }
        // Nothing is done until the operator settles the call.
        hello.set_script(Script::with_info(InfoAnswer::Local));
        let run = hello.create(&[]).exits_with(1);
        assert!(output(&run).contains("is unknown"), "{}", run.stderr);
        let note = "note: the call is of `create-env` on ";
        assert!(run.stderr.contains(note), "{}", run.stderr);
        assert!(run.stderr.contains("): this run did not call the CPI again\n"), "{}", run.stderr);
        assert_eq!(hello.calls(""), 0);
        for (command, extra_args, code, text) in [
            ("plan", &[][..], 1, "create-env would stop"),
            ("status", &["--no-cpi"], 1, "then forget the call: `monopile state forget "),
            ("cloud-check", &["--report"], 6, "the outcome of `create_vm` is unknown"),
        ] {
            let run = hello.world.finish(hello.command(command, extra_args)).exits_with(code);
            assert!(output(&run).contains(text), "{command}: {}", output(&run));
        }
        hello.create(&["--forget-open-calls"]).success();
        assert_eq!(hello.cloud(), hello.recorded_cids());
        hello.delete(&[]).success();
        assert_eq!(hello.leftovers(), Vec::<String>::new());
    });
}

#[test]
fn next_run_knows_how_the_process_ended() {
    let hello = Hello::new();
    // The log names the cause. The error shows the whole log.
    let reaction = Reaction::Instead("echo \"KeyError: 'region'\" >&2; exit 1".to_owned());
    hello.set_script(Script::with_info(InfoAnswer::Local).first("create_vm", 1, reaction));
    let run = hello.create(&[]).exits_with(1);
    let cause_note = "note: the next `create_vm` probably fails too, until the cause is corrected";
    assert!(run.stderr.contains(cause_note) && !run.stderr.contains("`cat "), "{}", run.stderr);
    for (command, end) in [
        ("exit 7", "the CPI ended with exit status 7"),
        (
            "kill -KILL $$",
            "the CPI was killed by signal 9 (SIGKILL), perhaps because this machine ran out of memory",
        ),
    ] {
        let reaction = Reaction::Instead(command.to_owned());
        hello.set_script(Script::with_info(InfoAnswer::Local).first("create_vm", 1, reaction));
        for extra_args in [&["--forget-open-calls"][..], &[]] {
            let run = hello.create(extra_args).exits_with(1);
            assert!(run.stderr.contains(&format!("it wrote nothing; {end}\n")), "{}", run.stderr);
        }
    }
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.create(&["--forget-open-calls"]).success();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn late_answer_is_found_by_the_next_run() {
    let hello = Hello::new();
    let late = "answer=$(cat); (sleep 2; printf %s \"$answer\") 2>/dev/null & exit 0";
    hello.set_script(Script::with_info(InfoAnswer::Local).first(
        "create_vm",
        1,
        Reaction::After(late.to_owned()),
    ));
    let run = hello.create(&[]).exits_with(1);
    assert!(run.stderr.contains("it wrote nothing"), "{}", run.stderr);
    // The VM is on record, but it is replaced because no job ever ran on it.
    hello.create(&[]).success();
    assert_eq!(hello.cloud(), hello.recorded_cids());
    let (created_cids, deleted_cids) = hello.effects();
    assert_eq!((created_cids.len(), &deleted_cids), (4, &vec![created_cids[1].clone()]), "{created_cids:?}");
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn exit_status_of_the_cpi_is_ignored() {
    let hello = Hello::new();
    let answer_after = |script: Script, method: &str, command: &str| {
        script.first(method, 1, Reaction::After(command.to_owned()))
    };
    let script = Script::with_info(InfoAnswer::Local);
    let script = answer_after(script, "info", "cat; exit 1");
    let script = answer_after(script, "create_stemcell", "cat; exec >&-; sleep 1");
    let script = answer_after(script, "create_vm", "cat; kill -KILL $$");
    // A child keeps standard output open.
    let script = answer_after(script, "set_vm_metadata", "cat; sleep 5 & exit 3");
    let script = answer_after(script, "create_disk", "cat; printf '\\n\\n'; sleep 5 &");
    let script =
        answer_after(script, "attach_disk", "sleep 1; cat; yes 'a line of its log' | head -c 200M >&2");
    hello.set_script(script);
    let start = Instant::now();
    let (run, peak) = run_and_measure(hello.command("create-env", &[]));
    run.success();
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert!(peak < 200 << 10, "{peak} KiB");
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.delete(&[]).success();
    hello.wait_until_idle();
}

#[test]
fn endless_answer_is_limited_in_memory_and_on_disk() {
    let hello = Hello::new();
    let gigabyte = "head -c 1G /dev/zero | tr '\\0' x; sleep 0.3";
    hello.set_script(Script::with_info(InfoAnswer::Local).first(
        "create_vm",
        1,
        Reaction::Instead(gigabyte.to_owned()),
    ));
    let (run, peak) = run_and_measure(hello.command("create-env", &[]));
    let run = run.exits_with(1);
    assert!(run.stderr.contains("it is larger than 16 MiB"), "{}", run.stderr);
    assert!(peak < 200 << 10, "{peak} KiB");
    let journal = std::fs::read_dir(hello.world.path("state.json.journal")).unwrap();
    let blocks: u64 = journal
        .map(|entry| std::os::unix::fs::MetadataExt::blocks(&entry.unwrap().metadata().unwrap()))
        .sum();
    assert!(blocks * 512 < 1 << 20, "{} bytes are kept", blocks * 512);
    // The next run fails in the same way.
    hello.set_script(Script::with_info(InfoAnswer::Local));
    let run = hello.create(&[]).exits_with(1);
    assert!(run.stderr.contains("it is larger than 16 MiB"), "{}", run.stderr);
    hello.delete(&["--forget-open-calls"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn rejects_wrong_result_types_of_every_method() {
    let hello = Hello::new();
    let assert_fails = |hello: &Hello, method: &str, result: &str, problem: &str, forgets: bool| {
        let command = format!("printf '{{\"result\": {result}, \"error\": null}}'");
        hello.set_script(Script::with_info(InfoAnswer::Local).first(method, 1, Reaction::Instead(command)));
        let options: &[&str] = if forgets { &["--forget-open-calls"] } else { &[] };
        let run = hello.create(options).exits_with(1);
        assert!(run.stderr.contains(problem), "{method} {result}: {}", run.stderr);
    };
    for (result, problem) in [
        ("[]", "the result must be an object"),
        ("{\"api_version\": \"2\"}", "`api_version` must be a whole number above 0"),
        ("{\"api_version\": 0}", "`api_version` must be a whole number above 0"),
        ("{\"api_version\": 99999999999999999999}", "`api_version` must be a whole number above 0"),
        ("{\"api_version\": 2, \"stemcell_formats\": \"raw\"}", "`stemcell_formats` must be a list"),
    ] {
        assert_fails(&hello, "info", result, problem, false);
        assert!(!hello.world.exists("state.json"), "{result}");
    }
    assert_fails(&hello, "create_stemcell", "{}", "the result must be a non-empty CID", false);
    assert_fails(&hello, "create_stemcell", "[\"image\"]", "the result must be a non-empty CID", true);
    assert_fails(&hello, "create_disk", "null", "the result must be a non-empty CID", true);
    assert_fails(&hello, "create_disk", "\"\"", "the result must be a non-empty CID", true);
    for result in ["7", "true", "[]"] {
        assert_fails(&hello, "attach_disk", result, "the result must be a string, an object", true);
    }
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.create(&["--forget-open-calls"]).success();
    hello.set_script(Script::with_info(InfoAnswer::Local).first(
        "has_vm",
        1,
        Reaction::Instead("printf '{\"result\": \"true\"}'".into()),
    ));
    let run = hello.delete(&[]).exits_with(1);
    assert!(run.stderr.contains("the result must be true or false"), "{}", run.stderr);
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// Runs a command. Also returns its peak memory in KiB.
fn run_and_measure(mut command: std::process::Command) -> (Run, u64) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (stdout, stderr) = (lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap()));
    let mut peak = 0;
    let status = poll("the command ends", || {
        peak = peak.max(peak_kib(child.id()).unwrap_or(0));
        child.try_wait().unwrap()
    });
    let text = |lines| {
        let lines = std::iter::from_fn(|| receive("the last line of the command", &lines));
        lines.map(|line| line + "\n").collect()
    };
    (Run { code: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }, peak)
}
