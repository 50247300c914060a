//! Suspects: results of creating calls that failed. They are on record, reported, searched for, and forgotten
//! on request.

use serde_json::{Value, json};

use crate::support::Run;
use crate::support::hello::Hello;
use crate::support::scripted::{Deed, Script, Speaks};

fn after(method: &str, kind: &str) -> Script {
    let error = Hello::error(kind, "timed out");
    Script::speaking(Speaks::Local).first(method, 1, Deed::After(format!("printf '%s' '{error}'")))
}

fn suspects(hello: &Hello) -> Vec<Value> {
    hello.state()["monopile"]["suspects"].as_array().cloned().unwrap_or_default()
}

fn state(hello: &Hello, words: &[&str]) -> Run {
    hello.world.run(["state"].iter().chain(words).chain(&["--state", "state.json"]))
}

#[test]
fn a_vm_that_nobody_has_the_cid_of_is_met_by_its_agent() {
    let hello = Hello::new();
    hello.script(after("create_vm", "Bosh::Clouds::VMCreationFailed"));
    hello.create(&[]).failure(1);
    hello.script(Script::speaking(Speaks::Local));
    let suspects = suspects(&hello);
    let [suspect] = suspects.as_slice() else { panic!("{suspects:?}") };
    assert_eq!((&suspect["what"], &suspect["said"]), (&json!("vm"), &json!("timed out")));
    let ids = ["request_id", "agent_id"].map(|key| suspect[key].as_str().unwrap());
    let vm = hello.cloud().into_iter().find(|cid| cid.starts_with("vm-")).unwrap();
    crate::support::scripted::until("its agent answers", || {
        hello.create(&[]).stderr.contains("a VM that is not on record is there")
    });
    assert_eq!(hello.calls(""), 0, "it went on");

    let told = |run: &Run| ids.iter().all(|id| (run.stdout.clone() + &run.stderr).contains(id));
    let run = hello.world.finish(hello.subcommand(&["state", "verify"], &[])).failure(6);
    assert!(told(&run) && run.stdout.contains("NOT AS RECORDED"), "{}", run.stdout);
    let shown = state(&hello, &["show", "--json"]).success().stdout;
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["suspects"], json!(suspects));
    // Everything else is deleted, and the suspect stays on record.
    let run = hello.delete(&[]).failure(1);
    assert!(told(&run), "{}", run.stderr);
    assert_eq!(hello.cloud(), [vm.clone()].into());

    hello.call("delete_vm", json!([vm]));
    let run = hello.delete(&[]).success();
    assert!(run.stdout.contains("the state stays") && told(&run), "{}", run.stdout);
    let run = state(&hello, &["forget", "-n", "--call", ids[0]]).failure(2);
    assert!(run.stderr.contains(ids[1]) && run.stderr.contains("--yes"), "{}", run.stderr);
    let run = state(&hello, &["forget", "--yes", "--call", &format!("{}x", ids[0])]).failure(3);
    assert!(run.stderr.contains(&format!("did you mean '{}'?", ids[0])), "{}", run.stderr);
    state(&hello, &["forget", "--yes", "--call", ids[0]]).success();
    hello.delete(&[]).success();
    assert!(!hello.world.exists("state.json"));
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn a_failure_stops_nobody_and_stays_in_sight() {
    let hello = Hello::new();
    for method in ["create_stemcell", "create_vm", "create_disk"] {
        hello.script(Script::speaking(Speaks::Local).fail(method, 1, "Bosh::Clouds::CloudError", false));
        hello.create(&[]).failure(1);
    }
    hello.script(Script::speaking(Speaks::Local).fail("create_disk", 1, "Bosh::Clouds::NoDiskSpace", true));
    let run = hello.create(&[]).success();
    assert!(run.stderr.contains("3 calls of earlier runs failed"), "{}", run.stderr);
    let kinds: Vec<Value> = suspects(&hello).iter().map(|one| one["what"].clone()).collect();
    assert_eq!(kinds, ["stemcell", "vm", "disk", "disk"]);
    let run = hello.create(&[]).success();
    assert!(run.stdout.contains("Nothing changed") && run.stderr.contains("and 1 more"), "{}", run.stderr);
    for suspect in suspects(&hello) {
        state(&hello, &["forget", "--yes", "--call", suspect["request_id"].as_str().unwrap()]).success();
    }
    assert_eq!(hello.create(&[]).success().stderr, "");

    // A CPI that lacks the method has created nothing.
    hello.script(Script::speaking(Speaks::Local).fail("create_vm", 1, "Bosh::Clouds::NotSupported", false));
    hello.create(&["--recreate"]).failure(1);
    assert_eq!(suspects(&hello), Vec::<Value>::new());
    hello.script(Script::speaking(Speaks::Local));
    hello.delete(&[]).success();
    assert!(!hello.world.exists("state.json"));
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
