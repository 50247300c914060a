//! Suspects: resources that failed creating calls may have left. They are on record, reported, searched for,
//! and dropped on request.

use serde_json::{Value, json};

use crate::support::Run;
use crate::support::hello::Hello;
use crate::support::pty::Pty;
use crate::support::scripted::{InfoAnswer, Reaction, Script};

fn fail_after(method: &str, kind: &str) -> Script {
    let error = Hello::error(kind, "timed out");
    Script::with_info(InfoAnswer::Local).first(method, 1, Reaction::After(format!("printf '%s' '{error}'")))
}

fn suspects(hello: &Hello) -> Vec<Value> {
    hello.state()["monopile"]["suspects"].as_array().cloned().unwrap_or_default()
}

fn run_state(hello: &Hello, words: &[&str]) -> Run {
    hello.world.run(["state"].iter().chain(words).chain(&["--state", "state.json"]))
}

#[test]
fn vm_without_a_known_cid_is_found_by_its_agent() {
    let hello = Hello::new();
    hello.set_script(fail_after("create_vm", "Bosh::Clouds::VMCreationFailed"));
    hello.create(&[]).exits_with(1);
    hello.set_script(Script::with_info(InfoAnswer::Local));
    let suspects = suspects(&hello);
    let [suspect] = suspects.as_slice() else { panic!("{suspects:?}") };
    assert_eq!((&suspect["kind"], &suspect["cpi_message"]), (&json!("vm"), &json!("timed out")));
    let ids = ["request_id", "agent_id"].map(|key| suspect[key].as_str().unwrap());
    let vm = hello.cloud().into_iter().find(|cid| cid.starts_with("vm-")).unwrap();
    crate::support::scripted::wait_until("its agent answers", || {
        hello.create(&[]).stderr.contains("an untracked VM answers at")
    });
    assert_eq!(hello.calls(""), 0, "the run went on");

    let names_ids = |run: &Run| ids.iter().all(|id| (run.stdout.clone() + &run.stderr).contains(id));
    let run = hello.world.finish(hello.subcommand(&["state", "verify"], &[])).exits_with(6);
    assert!(names_ids(&run) && run.stdout.contains("NOT AS RECORDED"), "{}", run.stdout);
    let output = run_state(&hello, &["show", "--json"]).success().stdout;
    assert_eq!(serde_json::from_str::<Value>(&output).unwrap()["suspects"], json!(suspects));
    // All other resources are deleted, and the suspect stays on record.
    let run = hello.delete(&[]).exits_with(1);
    assert!(names_ids(&run), "{}", run.stderr);
    assert_eq!(hello.cloud(), [vm.clone()].into());

    // The commands in the error can be used unchanged.
    let delete_hint = "hint: delete the untracked VM: `monopile delete-vm hello/manifest.yml ";
    assert!(run.stderr.contains(delete_hint) && run.stderr.contains(&format!(" {vm}`\n")), "{}", run.stderr);
    hello.world.finish(hello.subcommand(&["delete-vm"], &["-n", &vm])).success();
    assert_eq!(hello.cloud(), [].into());
    let run = hello.delete(&[]).success();
    assert!(run.stdout.contains("the state is kept") && names_ids(&run), "{}", run.stdout);
    let run = run_state(&hello, &["forget", "-n", "--call", ids[0]]).exits_with(2);
    assert!(run.stderr.contains(ids[1]) && run.stderr.contains("--yes"), "{}", run.stderr);
    let run = run_state(&hello, &["forget", "--yes", "--call", &format!("{}x", ids[0])]).exits_with(3);
    assert!(run.stderr.contains(&format!("did you mean '{}'?", ids[0])), "{}", run.stderr);
    run_state(&hello, &["forget", "--yes", "--call", ids[0]]).success();
    hello.delete(&[]).success();
    assert!(!hello.world.exists("state.json"));
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// The outcome of the call is unknown, and the agent of its VM answers. The error names the command that
/// deletes the VM. It can be used before and after the call is forgotten.
#[test]
fn vm_of_an_unknown_call_is_deleted_by_its_cid() {
    for forgets_first in [false, true] {
        let hello = Hello::new();
        let answer = Reaction::After("printf garbage".to_owned());
        hello.set_script(Script::with_info(InfoAnswer::Local).first("create_vm", 1, answer));
        let run = hello.create(&[]).exits_with(1);
        assert_eq!(run.stderr.matches("garbage").count(), 1, "{}", run.stderr);
        hello.set_script(Script::with_info(InfoAnswer::Local));
        let vm = hello.cloud().into_iter().find(|cid| cid.starts_with("vm-")).unwrap();
        let note = format!(", and says that it is VM '{vm}'\n");
        crate::support::scripted::wait_until("its agent answers", || {
            hello.create(&[]).stderr.contains(&note)
        });
        let run = hello.create(if forgets_first { &["--forget-open-calls"] } else { &[] }).exits_with(1);
        let options = if forgets_first { "" } else { " --forget-open-calls" };
        let command = format!(" {vm}{options}`\n");
        assert!(run.stderr.contains(": `monopile delete-vm hello/manifest.yml "), "{}", run.stderr);
        assert!(run.stderr.contains(&command), "{command}: {}", run.stderr);
        for unfit in ["look in the IaaS", "state import", "lost"] {
            assert!(!run.stderr.contains(unfit), "{unfit}: {}", run.stderr);
        }
        assert!(!forgets_first || run.stdout.contains("of an earlier run: forgotten"), "{}", run.stdout);

        let delete_options = ["-n", &vm, "--forget-open-calls"];
        let count = if forgets_first { 2 } else { 3 };
        hello.world.finish(hello.command("delete-vm", &delete_options[..count])).success();
        assert!(!hello.cloud().contains(&vm));
        hello.create(&[]).success();
        hello.delete(&[]).success();
        assert_eq!(hello.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn failed_calls_stay_visible_but_stop_no_run() {
    let hello = Hello::new();
    for method in ["create_stemcell", "create_vm", "create_disk"] {
        hello.set_script(Script::with_info(InfoAnswer::Local).fail(
            method,
            1,
            "Bosh::Clouds::CloudError",
            false,
        ));
        hello.create(&[]).exits_with(1);
    }
    hello.set_script(Script::with_info(InfoAnswer::Local).fail(
        "create_disk",
        1,
        "Bosh::Clouds::NoDiskSpace",
        true,
    ));
    let run = hello.create(&[]).success();
    assert!(run.stderr.contains("3 failed calls of earlier runs may"), "{}", run.stderr);
    let kinds: Vec<Value> = suspects(&hello).iter().map(|suspect| suspect["kind"].clone()).collect();
    assert_eq!(kinds, ["stemcell", "vm", "disk", "disk"]);
    let run = hello.create(&[]).success();
    assert!(run.stdout.contains("Nothing to do"), "{}", run.stdout);
    // Calls of the same kind are one item, and one command drops all of them.
    assert!(run.stderr.contains("4 failed calls of earlier runs may"), "{}", run.stderr);
    let check = hello.world.finish(hello.command("cloud-check", &[])).success().stdout;
    assert!(
        check.starts_with("VM, agent and disks are as recorded.\nFailed calls may have created "),
        "{check}"
    );
    assert!(
        check.contains("`monopile state forget hello/manifest.yml --state state.json --failed-calls`")
            && !check.contains("No problem"),
        "{check}"
    );
    let status = hello.world.finish(hello.command("status", &[])).success().stdout;
    assert!(status.contains("see `monopile state show hello/manifest.yml --"), "{status}");
    assert!(run.stderr.contains(" a stemcell, a VM and up to 2 disks\n  hint: see what "), "{}", run.stderr);
    let command = "`monopile state forget hello/manifest.yml --state state.json --failed-calls`";
    assert!(run.stderr.contains(command), "{}", run.stderr);
    let output = run_state(&hello, &["show"]).success().stdout;
    assert!(output.contains("2 failed calls for a disk"), "{output}");
    let run = run_state(&hello, &["forget", "--failed-calls"]).exits_with(2);
    assert!(run.stderr.contains("4 failed calls") && run.stderr.contains("--yes"), "{}", run.stderr);
    run_state(&hello, &["forget", "--failed-calls", "--yes"]).success();
    let run = run_state(&hello, &["forget", "--failed-calls", "--yes"]).exits_with(3);
    let error = "error: no failed call is on record\n  hint: see what is on record: `monopile state show ";
    assert!(run.stderr.contains(error), "{}", run.stderr);
    assert_eq!(hello.create(&[]).success().stderr, "");
    hello.delete(&[]).success();
    assert!(!hello.world.exists("state.json"));
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn delete_env_does_not_ask_while_an_outcome_is_unknown() {
    let hello = Hello::new();
    hello.set_answer("create_vm", "instead", "garbage");
    hello.create(&[]).exits_with(1);
    let mut pty = Pty::start(hello.command("delete-env", &[]), (120, 40));
    assert_eq!(pty.end(), 1, "{}", pty.text());
    let text = pty.text();
    assert!(text.contains("the outcome of the CPI's `create_vm` is unknown"), "{text}");
    assert!(!text.contains("[y/N]"), "{text}");

    let mut pty = Pty::start(hello.command("delete-env", &["--forget-open-calls"]), (120, 40));
    pty.wait_for("the question", |screen| screen.contains("[y/N]"));
    assert!(pty.text().contains("This will not be deleted, because its CID is unknown:"), "{}", pty.text());
    pty.press("y\r");
    assert_eq!(pty.end(), 0, "{}", pty.text());
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn delete_env_prompts_once_if_only_suspects_are_left() {
    let hello = Hello::new();
    for _ in 0..2 {
        let script = Script::with_info(InfoAnswer::Local);
        hello.set_script(script.fail("create_stemcell", 1, "Bosh::Clouds::CloudError", false));
        hello.create(&[]).exits_with(1);
    }
    hello.set_script(Script::with_info(InfoAnswer::Local));
    // Without a terminal, nothing confirms that the operator has looked.
    let run = hello.delete(&[]).success();
    assert!(run.stdout.contains("the state is kept") && run.stderr.contains("--failed-calls"), "{run:?}");
    for (key, code) in [("n\r", 2), ("y\r", 0)] {
        let mut pty = Pty::start(hello.command("delete-env", &[]), (120, 40));
        pty.wait_for("the question", |screen| screen.contains("[y/N]"));
        pty.press(key);
        assert_eq!(pty.end(), code, "{}", pty.text());
        let text = pty.text();
        let question = "2 failed calls on record, which may have created up to 2 stemcells of";
        assert!(text.contains(question), "{text}");
        assert!(!text.contains("all data on its disks"), "{text}");
        assert_eq!(hello.world.exists("state.json"), key == "n\r", "{text}");
    }
}

#[test]
fn error_after_creation_leaves_a_suspect() {
    for kind in ["Bosh::Clouds::NotSupported", "Bosh::Clouds::NotImplemented"] {
        let hello = Hello::new();
        hello.set_script(fail_after("create_vm", kind));
        let run = hello.create(&[]).exits_with(1);
        let records = suspects(&hello);
        let [suspect] = records.as_slice() else { panic!("{kind}: {records:?}") };
        assert!(run.stderr.contains(suspect["request_id"].as_str().unwrap()), "{}", run.stderr);
        hello.set_script(Script::with_info(InfoAnswer::Local));
        crate::support::scripted::wait_until("its agent answers", || {
            hello.create(&[]).stderr.contains("an untracked VM answers at")
        });
        assert_eq!(hello.calls("create_vm"), 0, "{kind}: a second VM");
        let vm = hello.cloud().into_iter().find(|cid| cid.starts_with("vm-")).unwrap();
        hello.call("delete_vm", json!([vm]));
        hello.forget_suspects();
        hello.delete(&[]).success();
        assert_eq!(hello.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn vm_without_its_stemcell_leaves_no_suspect() {
    let hello = Hello::new();
    let missing = "Bosh::Clouds::StemcellNotFound";
    hello.set_script(Script::with_info(InfoAnswer::Local).fail("create_vm", 1, missing, false));
    let run = hello.create(&[]).exits_with(1);
    assert_eq!(suspects(&hello), Vec::<Value>::new());
    let stemcell = hello.state()["stemcells"][0]["cid"].as_str().unwrap().to_owned();
    let hint = format!(
        "if the stemcell is gone, forget its record: `monopile state forget hello/manifest.yml --state \
         state.json --stemcell {stemcell}`"
    );
    assert!(run.stderr.contains(&hint) && !run.stderr.contains("may have created"), "{}", run.stderr);
    hello.create(&[]).success();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn made_nothing_is_trusted_from_built_in_cpis_only() {
    let hello = Hello::new();
    let error = json!({"type": "X", "message": "no", "ok_to_retry": false, "made_nothing": true});
    let answer = json!({"result": null, "error": error, "log": ""});
    hello.set_script(Script::with_info(InfoAnswer::Local).first(
        "create_stemcell",
        1,
        Reaction::Instead(format!("printf '%s' '{answer}'")),
    ));
    hello.create(&[]).exits_with(1);
    assert_eq!(suspects(&hello).len(), 1);
    hello.forget_suspects();

    // The built-in CPI finds the agent's port in use before it creates anything.
    let listener = std::net::TcpListener::bind((hello.ip(), 6868)).unwrap();
    let run = hello.world.finish(hello.builtin_command(&["create-env"], &[])).exits_with(1);
    assert!(run.stderr.contains("in use") && !run.stderr.contains("state forget"), "{}", run.stderr);
    assert_eq!(suspects(&hello), Vec::<Value>::new());
    drop(listener);
    hello.world.finish(hello.builtin_command(&["delete-env"], &["-n"])).success();
    assert!(!hello.world.exists("state.json"));
}

#[test]
fn missing_optional_method_leaves_no_suspect() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.set_script(Script::with_info(InfoAnswer::Local).without_method("snapshot_disk", 1));
    // The message names the method, so the CPI did not begin.
    let run = hello.world.finish(hello.command("take-snapshot", &[])).exits_with(1);
    assert!(!run.stderr.contains("state forget"), "{}", run.stderr);
    assert_eq!(suspects(&hello), Vec::<Value>::new());
    // This message may be about another method, which the CPI calls after it has created the resource.
    hello.set_script(Script::with_info(InfoAnswer::Local).without_method("snapshot_disk", 0));
    let run = hello.world.finish(hello.command("take-snapshot", &[])).exits_with(1);
    let request = suspects(&hello)[0]["request_id"].as_str().unwrap().to_owned();
    let hint = format!(
        "hint: then forget the call: `monopile state forget hello/manifest.yml --state state.json --call \
         {request}`"
    );
    let note =
        "note: `snapshot_disk` may have created a snapshot before the CPI called a method that it lacks";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    assert!(!run.stderr.contains("correct the cause"), "{}", run.stderr);
    let hint_start = "hint: look in the IaaS for a snapshot of disk";
    assert!(run.stderr.contains(&hint) && run.stderr.contains(hint_start), "{}", run.stderr);
    hello.forget_suspects();
    let run = hello.world.finish(hello.command("take-snapshot", &[])).exits_with(1);
    assert!(!run.stderr.contains("state forget"), "{}", run.stderr);
    assert_eq!(suspects(&hello), Vec::<Value>::new());
    // Any error counts, because a CPI may report an error after it has created the resource.
    hello.set_script(Script::with_info(InfoAnswer::Local).fail(
        "snapshot_disk",
        1,
        "Bosh::Clouds::NotSupported",
        false,
    ));
    hello.world.finish(hello.command("take-snapshot", &[])).exits_with(1);
    assert_eq!(suspects(&hello).len(), 1);
    hello.forget_suspects();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
