//! `monopile cpi`: conformance runs of a good CPI and of bad ones, manual calls, and transcripts in place of
//! a CPI.
//!
//! The bad CPIs are `support/authored_cpi`, whose first argument selects its bug.

#![cfg(target_os = "linux")]

use crate::support::process::{WaitForEnd, name_wait};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::hello::Hello;
use crate::support::scripted::wait_until;
use crate::support::tarballs::StemcellTarball;
use crate::support::{MONOPILE, Run, World, is_long_form};

/// A CPI with one bug or none, and its cloud.
struct AuthoredCpi {
    world: World,
    bug: &'static str,
}

impl AuthoredCpi {
    fn correct() -> AuthoredCpi {
        AuthoredCpi::with_bug("")
    }

    fn with_bug(bug: &'static str) -> AuthoredCpi {
        let world = World::new();
        let program = world.write("cpi", include_str!("support/authored_cpi"));
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
        StemcellTarball::default().write(&world.path("stemcell.tgz"));
        AuthoredCpi { world, bug }
    }

    fn command(&self, command: &str, extra_args: &[&str]) -> std::process::Command {
        let mut arguments = vec!["cpi", command, "--path", "./cpi"];
        if !self.bug.is_empty() {
            arguments.extend(["--path-arg", self.bug]);
        }
        arguments.extend(extra_args);
        self.world.monopile(arguments)
    }

    fn run(&self, command: &str, extra_args: &[&str]) -> Run {
        self.world.finish(self.command(command, extra_args))
    }

    /// Runs all checks and returns the report.
    fn check(&self, extra_args: &[&str]) -> (Run, Value) {
        let run = self.run("check", &[&["--stemcell", "stemcell.tgz", "--json"], extra_args].concat());
        let report = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}\n{run:?}"));
        (run, report)
    }

    /// Returns the resources in its cloud.
    fn cloud(&self) -> BTreeSet<String> {
        let kinds = ["stemcell", "vm", "disk", "snapshot"].iter();
        let directories = kinds.flat_map(|kind| std::fs::read_dir(self.world.path("cloud").join(kind)));
        directories.flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// Returns the checks with this result as `group: name`.
fn with_result(report: &Value, result: &str) -> Vec<String> {
    let text = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap().iter();
    checks
        .filter(|check| check["result"] == result)
        .map(|check| format!("{}: {}", text(check, "group"), text(check, "name")))
        .collect()
}

fn failures(report: &Value) -> Vec<String> {
    with_result(report, "fail")
}

/// The checks of optional methods that the authored CPI lacks.
const SKIPPED_CHECKS: [&str; 4] = [
    "rpc: current_vm_id",
    "contract v2: update_disk",
    "contract v1: configure_networks",
    "contract v1: update_disk",
];

#[test]
fn correct_cpi_passes_under_both_contracts() {
    let cpi = AuthoredCpi::correct();
    let (run, report) = cpi.check(&["--junit", "junit.xml"]);
    assert_eq!(failures(&report), Vec::<String>::new(), "{}", run.stdout);
    run.success();
    assert_eq!(with_result(&report, "skip"), SKIPPED_CHECKS);
    assert_eq!(report["left_behind"], json!([]));
    assert_eq!(cpi.cloud(), BTreeSet::new());
    assert_eq!(cpi.world.leftovers(), Vec::<String>::new());
    let timings = report["timings"].as_array().unwrap();
    let create_vm = timings.iter().find(|timing| timing["method"] == "create_vm").unwrap();
    assert_eq!(create_vm["calls"], 3, "one per contract, and one from a deleted stemcell");

    let xml = cpi.world.read("junit.xml");
    let document = roxmltree::Document::parse(&xml).unwrap();
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase")).count();
    assert_eq!(cases, report["checks"].as_array().unwrap().len());
    let suites: Vec<_> = document.descendants().filter(|node| node.has_tag_name("testsuite")).collect();
    let names: Vec<_> = suites.iter().map(|suite| suite.attribute("name").unwrap()).collect();
    assert_eq!(names, ["rpc", "stemcell", "contract v2", "contract v1"]);
}

#[test]
fn minimal_cpi_passes() {
    let cpi = AuthoredCpi::with_bug("minimal");
    let (run, report) = cpi.check(&[]);
    assert_eq!(failures(&report), Vec::<String>::new(), "{}", run.stdout);
    run.success();
    let skipped_checks = with_result(&report, "skip");
    // Without `info`, the CPI counts as version 1.
    for name in
        ["rpc: info", "contract v2: life cycle", "contract v1: set_vm_metadata", "contract v1: get_disks"]
    {
        assert!(skipped_checks.iter().any(|check| check == name), "{name}: {skipped_checks:?}");
    }
    assert_eq!(cpi.cloud(), BTreeSet::new());
}

/// A bug, the checks that must fail because of it, and a part of the reason.
type Planted = (&'static str, &'static [&'static str], &'static str);

/// Bugs with the deviation of their first failed check: from the contract, or only from what CPIs usually do.
const DEVIATIONS: [(&str, &str); 7] = [
    ("boolean-as-string", "violation"),
    ("attach-destroys", "violation"),
    ("no-log", "violation"),
    ("needs-context", "not_promised"),
    ("second-delete", "not_promised"),
    ("shared-counter", "not_promised"),
    ("exit-status", "not_promised"),
];

const PLANTED_BUGS: [Planted; 22] = [
    (
        "boolean-as-string",
        &["contract v2: has_vm"],
        "`has_vm`: the result must be true or false, not \"true\"",
    ),
    ("second-delete", &["contract v2: delete_vm again"], "RuntimeError: undefined method"),
    ("hint-as-number", &["contract v2: attach_disk"], "not 7"),
    ("v1-shape", &["contract v2: create_vm"], "a CID without networks"),
    ("untyped-not-found", &["contract v2: delete_disk again"], "`Bosh::Clouds::DiskNotFound`"),
    ("own-dialect", &["rpc: unknown method"], "NotImplementedError"),
    ("needs-context", &["rpc: info without context"], "nothing on standard output"),
    ("shared-counter", &["contract v2: 5 create_disk at once"], "5 calls made only "),
    ("holds-stdout", &["contract v2: create_disk"], "holds standard output open"),
    (
        "silent-on-garbage",
        &["rpc: garbage on standard input", "rpc: empty standard input"],
        "nothing on standard",
    ),
    ("disks-as-hash", &["contract v2: get_disks"], "a list of non-empty CIDs"),
    ("leaks-on-failure", &["contract v2: create_disk without a VM"], "left disk 'disk-"),
    (
        "disk-goes-with-vm",
        &["contract v2: delete_vm with a disk attached"],
        "delete_vm deleted the disk as well",
    ),
    ("attaches-twice", &["contract v2: get_disks"], "`get_disks` answered"),
    (
        "attach-destroys",
        &["contract v2: attach_disk again"],
        "the VM is gone after the refused call: `has_vm` answers false",
    ),
    ("null-vm", &["contract v2: create_disk with null as the VM"], "no VM with an empty name"),
    ("attaches-anything", &["contract v2: attach_disk of a deleted disk"], "but answered"),
    ("deletes-nothing", &["contract v2: delete_disk"], "still exists"),
    ("chatty", &["rpc: info", "contract v2: create_vm"], "other text beside the JSON document: \"connecting"),
    ("exit-status", &["rpc: info", "contract v2: create_vm"], "exit status 1"),
    ("no-log", &["rpc: info", "contract v2: create_vm"], "lacks `log`"),
    ("number-for-boolean", &["contract v2: delete_vm again"], "lacks `ok_to_retry`"),
];

/// One test covers all bugs, because separate tests would be as slow. The default run tries those whose
/// deviation is known and every fourth other bug, the long form all of them.
#[test]
fn every_planted_bug_is_found() {
    let is_tried = |(index, planted): &(usize, Planted)| {
        is_long_form() || index % 4 == 1 || DEVIATIONS.iter().any(|(bug, _)| *bug == planted.0)
    };
    let planted_bugs: Vec<_> = PLANTED_BUGS.into_iter().enumerate().filter(is_tried).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let _wait = name_wait("the last planted bug is found");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((_, planted)) =
                    planted_bugs.get(next.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
                {
                    assert_finds(*planted);
                }
            });
        }
    });
}

fn assert_finds((bug, checks, reason): Planted) {
    let cpi = AuthoredCpi::with_bug(bug);
    let (run, report) = cpi.check(&["--contract", "v2"]);
    let failed_checks = failures(&report);
    for check in checks {
        assert!(
            failed_checks.iter().any(|other| other == check),
            "{bug}: {check} did not fail: {failed_checks:?}"
        );
    }
    let reasons = report["checks"].as_array().unwrap().iter().map(|check| check["reasons"].to_string());
    let expected = json!(reason).to_string();
    let expected = expected.trim_matches('"');
    assert!(reasons.collect::<String>().contains(expected), "{bug}: {reason}: {}", run.stdout);
    if let Some((_, deviation)) = DEVIATIONS.iter().find(|(deviating, _)| *deviating == bug) {
        assert_eq!(check_named(&report, checks[0])["deviation"], *deviation, "{bug}: {}", checks[0]);
    }
    if bug == "attach-destroys" {
        assert_vm_is_lost_by(checks[0], &report);
    }
    run.exits_with(1);

    let listed_cids: BTreeSet<String> = report["left_behind"]
        .as_array()
        .unwrap()
        .iter()
        .map(|leftover| leftover["cid"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(listed_cids, cpi.cloud(), "{bug}: what is left is what is listed");
    assert_eq!(listed_cids.is_empty(), bug != "deletes-nothing", "{bug}: {listed_cids:?}");
}

/// Returns the check `group: name` of a report.
fn check_named<'a>(report: &'a Value, title: &str) -> &'a Value {
    let is_wanted = |check: &&Value| {
        format!("{}: {}", check["group"].as_str().unwrap(), check["name"].as_str().unwrap()) == title
    };
    report["checks"].as_array().unwrap().iter().find(is_wanted).unwrap()
}

/// Checks that only the call that lost the VM fails, and that checks that need the VM are skipped.
fn assert_vm_is_lost_by(call: &str, report: &Value) {
    assert_eq!(failures(report), [call]);
    let skipped_checks = with_result(report, "skip");
    for name in ["get_disks", "reboot_vm", "detach_disk", "5 has_vm at once", "delete_disk"] {
        assert!(skipped_checks.contains(&format!("contract v2: {name}")), "{name}: {skipped_checks:?}");
    }
}

#[test]
fn text_report_tells_violations_from_unspecified_behaviour() {
    let run = AuthoredCpi::with_bug("second-delete")
        .run("check", &["--stemcell", "stemcell.tgz", "--contract", "v2"]);
    let failure = "FAIL: expected by some callers, not required by the contract: ";
    assert!(run.stdout.contains(failure), "{}", run.stdout);
    assert!(run.stdout.contains(" failed (against what some callers expect), "), "{}", run.stdout);
    let hint =
        run.stdout.lines().find_map(|line| line.strip_prefix("hint: to see a request with its answer: "));
    let hint = hint.unwrap_or_else(|| panic!("{}", run.stdout));
    assert!(hint.starts_with("`monopile cpi call --path ") && hint.contains(" delete_"), "{hint}");
    assert!(run.stdout.contains(" --record run.jsonl`"), "{}", run.stdout);
}

/// Starts a run and waits until it has a VM and the next call is held.
fn start_and_hold(cpi: &AuthoredCpi) -> Child {
    let mut command = cpi.command("check", &["--stemcell", "stemcell.tgz", "--contract", "v2", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the call is held", || cpi.world.exists("held"));
    assert_eq!(cpi.cloud().len(), 2, "a stemcell and a VM");
    child
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn signal_ends_the_run_and_cleans_up() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let cpi = AuthoredCpi::with_bug("held");
        let child = start_and_hold(&cpi);
        send(&child, signal);
        cpi.world.write("go", "");
        let output = child.end_with_output();
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["interrupted"], code - 128);
        assert_eq!((&report["left_behind"], &report["deleted"]), (&json!([]), &json!(2)));
        assert_eq!(cpi.cloud(), BTreeSet::new());
        assert_eq!(cpi.world.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn second_signal_ends_cleanup_and_lists_leftovers() {
    let cpi = AuthoredCpi::with_bug("held");
    let child = start_and_hold(&cpi);
    send(&child, Signal::INT);
    std::thread::sleep(std::time::Duration::from_millis(300));
    send(&child, Signal::INT);
    let output = child.end_with_output();
    cpi.world.write("go", "");
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let leftovers = report["left_behind"].as_array().unwrap().iter();
    let listed_cids: BTreeSet<String> =
        leftovers.map(|leftover| leftover["cid"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed_cids, cpi.cloud());
    assert_eq!(listed_cids.len(), 2);
    wait_until("the CPI has ended", || {
        !cpi.world.leftovers().iter().any(|leftover| leftover.starts_with("process "))
    });
}

#[test]
fn leftovers_of_a_killed_run_are_deleted_by_the_next() {
    let cpi = AuthoredCpi::with_bug("held");
    let mut child = start_and_hold(&cpi);
    child.kill().unwrap();
    child.end();
    cpi.world.write("go", "");
    let remaining_cids = cpi.cloud();
    assert_eq!(remaining_cids.len(), 2);
    // Resources of another CPI, which has other arguments, stay untouched.
    let other = AuthoredCpi { world: cpi.world, bug: "" };
    other.check(&["--contract", "v2"]).0.success();
    assert_eq!(other.cloud(), remaining_cids);
    let cpi = AuthoredCpi { world: other.world, bug: "held" };
    let (run, report) = cpi.check(&["--contract", "v2"]);
    run.success();
    let cleanup_checks: Vec<_> =
        with_result(&report, "pass").into_iter().filter(|name| name.contains("earlier")).collect();
    assert_eq!(cleanup_checks.len(), 2, "{cleanup_checks:?}");
    assert_eq!(cpi.cloud(), BTreeSet::new());
    assert!(!cpi.world.home().join(".local/state/monopile/cpi-check").exists());
}

#[test]
fn recorded_run_can_be_replayed_without_the_cloud() {
    let cpi = AuthoredCpi::correct();
    let context = r#"{"endpoint": "https://cloud", "password": "correct horse"}"#;
    let (run, report) = cpi.check(&["--record", "t.jsonl", "--context", context]);
    run.success();
    let transcript = cpi.world.path("t.jsonl");
    assert_eq!(std::fs::metadata(&transcript).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!cpi.world.read("t.jsonl").contains("correct horse"));
    std::fs::rename(cpi.world.path("cpi"), cpi.world.path("gone")).unwrap();

    let verdicts = |report: &Value| {
        let checks = report["checks"].as_array().unwrap().iter();
        checks
            .map(|check| format!("{} {} {}", check["group"], check["name"], check["result"]))
            .collect::<Vec<_>>()
    };
    let replay = cpi.world.run(["cpi", "check", "--replay", "t.jsonl", "--json"]).success();
    assert_eq!(verdicts(&serde_json::from_str(&replay.stdout).unwrap()), verdicts(&report));

    let requests: Vec<Value> = cpi
        .world
        .read("t.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["request"].clone())
        .collect();
    let has_vm = requests.iter().find(|request| request["method"] == "has_vm").unwrap();
    let vm = has_vm["arguments"][0].as_str().unwrap();
    let call = ["cpi", "call", "--replay", "t.jsonl", "--stemcell-api-version", "3", "has_vm", vm, "--json"];
    let call: Value = serde_json::from_str(&cpi.world.run(call).success().stdout).unwrap();
    assert!(call["answer"].as_str().unwrap().contains("\"result\":true"), "{call}");

    // The transcript serves as a CPI executable, with one process per call.
    let as_cpi = |is_rewound: bool| {
        let path = ["cpi", "check", "--path", MONOPILE, "--path-arg", "cpi", "--path-arg", "replay"];
        let extra_args =
            ["--path-arg", "t.jsonl", "--stemcell", "stemcell.tgz", "--context", context, "--json"];
        let run = cpi.world.run(path.into_iter().chain(extra_args));
        assert_eq!(run.code, 0, "rewound: {is_rewound}: {}", run.stdout);
        verdicts(&serde_json::from_str(&run.stdout).unwrap())
    };
    assert_eq!(as_cpi(false), verdicts(&report));
    cpi.world.run(["cpi", "replay", "t.jsonl", "--rewind"]).success();
    assert_eq!(as_cpi(true), verdicts(&report));
    assert_eq!(cpi.cloud(), BTreeSet::new());
}

#[test]
fn call_prints_the_exchange_without_secrets() {
    let cpi = AuthoredCpi::correct();
    let context = ["--context", r#"{"password": "correct horse"}"#];
    let run = cpi.run("call", &[&context[..], &["create_disk", "1024", "{}"]].concat()).success();
    for part in [
        "Request:\n{\n  \"method\": \"create_disk\"",
        "\"password\": \"<redacted>\"",
        "Answer (exit status 0",
    ] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let disk = cpi.cloud().into_iter().next().unwrap();
    let note = "note: this disk is not on record. To delete it: `monopile cpi call --path ";
    assert!(run.stderr.starts_with(note), "{}", run.stderr);
    assert!(run.stderr.ends_with(&format!(" delete_disk {disk}`\n")), "{}", run.stderr);
    let run = cpi.run("call", &["delete_disk", &disk]).success();
    assert!(!run.stdout.contains("Problem"), "{}", run.stdout);

    let run = cpi.run("call", &["delete_dsk", "x"]).exits_with(1);
    assert!(run.stderr.contains("hint: did you mean 'delete_disk'?"), "{}", run.stderr);
    let run = cpi.run("call", &["delete_disk"]).exits_with(1);
    assert!(run.stderr.contains("not 0: delete_disk DISK_CID"), "{}", run.stderr);
    let run = cpi.run("call", &["has_disk", "no-such", "--json"]).success();
    let call: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&call["success"], &call["request"]["api_version"]), (&json!(true), &json!(2)));

    let run = cpi.run("info", &[]).success();
    let are_printed = ["\nAPI version used\t2\n", "\nRequest:\n"].map(|part| run.stdout.contains(part));
    assert_eq!(are_printed, [true, true], "{}", run.stdout);
    let info: Value = serde_json::from_str(&cpi.run("info", &["--json"]).success().stdout).unwrap();
    assert_eq!(
        info["info"],
        json!({"api_version": 2, "used_api_version": 2, "stemcell_formats": ["files"], "version": null})
    );
    assert_eq!(info["call"]["request"].get("api_version"), None, "`info` is asked before anything is known");
}

#[test]
fn invalid_arguments_are_explained() {
    let cpi = AuthoredCpi::correct();
    cpi.world.write("wrong.jsonl", "{}\n");
    let script = cpi.world.write("script", "#!/no/such/interpreter\n");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (arguments, code, message) in [
        (&["cpi", "info"][..], 2, "no CPI is given"),
        (&["cpi", "call", "manifest.yml"], 2, "no CPI method is given"),
        (&["cpi", "check", "--path", "./no-such"], 3, "does not exist"),
        (&["cpi", "check", "--path", "."], 3, "is a directory, not a CPI"),
        (&["cpi", "info", "./cpi"], 3, "is a program, not a manifest"),
        (&["cpi", "check", "--path", "./cpi", "--junit", "no/x.xml"], 3, "the directory"),
        (&["cpi", "check", "--path", "./stemcell.tgz"], 1, "cannot be run"),
        (&["cpi", "check", "--path", "./cpi", "--replay", "t"], 2, "cannot be used with"),
        (&["cpi", "check", "--replay", "wrong.jsonl"], 3, "is not a transcript"),
        (&["cpi", "check", "--replay", "none.jsonl"], 3, "none.jsonl' does not exist"),
        (&["cpi", "info", "--path", "./script"], 1, "its interpreter '/no/such/interpreter', named in its"),
        (&["cpi", "check", "--path", "./cpi", "--networks", "[]"], 2, "is not a JSON object"),
        (&["cpi", "check", "--path", "./cpi", "--networks", "{"], 2, "--networks is not JSON"),
        (&["cpi", "check", "--path", "./cpi", "--contract", "v3"], 2, "hint: did you mean 'v1'?"),
        (&["cpi", "check", "none.yml"], 3, "none.yml"),
    ] {
        let run = cpi.world.run(arguments);
        assert_eq!(run.code, code, "{arguments:?}: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains(message), "{arguments:?}: {}", run.stderr);
    }
    assert_eq!(cpi.world.leftovers(), Vec::<String>::new());
}

/// The manifest's CPI with real VMs must also pass both contracts.
#[test]
fn local_cpi_passes() {
    let hello = Hello::new();
    let extra_args = ["--json", "--junit", "junit.xml", "--record", "t.jsonl"];
    let run = hello.world.finish(hello.builtin_command(&["cpi", "check"], &extra_args));
    let report: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}\n{run:?}"));
    assert_eq!(failures(&report), Vec::<String>::new(), "{}", run.stdout);
    run.success();
    assert_eq!(with_result(&report, "skip"), ["rpc: current_vm_id", "contract v1: configure_networks"]);
    assert!(roxmltree::Document::parse(&hello.world.read("junit.xml")).is_ok());
    assert_eq!(hello.world.leftovers(), Vec::<String>::new());
    assert!(
        !hello.world.home().join(".local/state/monopile/local").exists(),
        "an empty cloud leaves nothing"
    );

    let replay = hello.world.run(["cpi", "check", "--replay", "t.jsonl", "--json"]);
    let replay: Value = serde_json::from_str(&replay.stdout).unwrap();
    assert_eq!((failures(&replay), &replay["counts"]), (Vec::new(), &report["counts"]));

    let run = hello.world.finish(hello.builtin_command(&["cpi", "info"], &[])).success();
    assert!(run.stdout.contains("API version"), "{}", run.stdout);
}

/// Under contract v1, the local CPI writes settings to the registry that the manifest configures.
#[test]
fn local_cpi_passes_with_a_registry() {
    let mut hello = Hello::new();
    let registry =
        json!({"host": hello.ip(), "port": 6901, "username": "registry", "password": "reg-secret"});
    hello.add_ops(
        "registry.yml",
        &format!("- type: replace\n  path: /cloud_provider/properties/registry?\n  value: {registry}\n"),
    );
    let extra_args = ["--contract", "v1", "--json", "--record", "t.jsonl"];
    let run = hello.world.finish(hello.builtin_command(&["cpi", "check"], &extra_args));
    let report: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}\n{run:?}"));
    assert_eq!(failures(&report), Vec::<String>::new(), "{}", run.stdout);
    run.success();
    let transcript = hello.world.read("t.jsonl");
    assert!(transcript.contains("stored in the registry"), "{transcript}");
    assert!(!transcript.contains("reg-secret"));
    assert_eq!(hello.world.leftovers(), Vec::<String>::new());
}

#[test]
fn cpi_arguments_may_be_called_args_or_arguments() {
    for key in ["arguments", "args"] {
        let mut hello = Hello::new();
        let cpi = hello.world.write("own-cpi", "#!/bin/sh\necho \"$*\" > \"$(dirname \"$0\")/said\"\n");
        std::fs::set_permissions(cpi, std::fs::Permissions::from_mode(0o755)).unwrap();
        let value = format!("{{path: ../own-cpi, {key}: [one, two]}}");
        hello
            .add_ops("cpi.yml", &format!("- {{type: replace, path: /cloud_provider/cpi, value: {value}}}\n"));
        let run = hello.world.finish(hello.subcommand(&["cpi", "info"], &[]));
        assert_eq!(hello.world.read("said"), "one two\n", "{key}: {}", run.stderr);
        assert!(!run.stderr.contains("unknown key"), "{}", run.stderr);
    }
    let mut hello = Hello::new();
    let value = "{path: /bin/true, args: [one], arguments: [two]}";
    hello.add_ops("cpi.yml", &format!("- {{type: replace, path: /cloud_provider/cpi, value: {value}}}\n"));
    let run = hello.create(&[]).exits_with(3);
    assert!(run.stderr.contains("and `arguments` cannot both be given"), "{}", run.stderr);
}
