//! `history`: every run leaves a record, even a killed one.

use super::{parse_document, run};
use crate::support::hello::Hello;
use crate::support::scripted::{InfoAnswer, Interruption, Script};

#[test]
fn history_records_every_run_and_its_outcome() {
    let hello = Hello::new();
    assert_eq!(run(&hello, "history", &[]).exits_with(2).stdout, "", "variables are no business of it");
    let history = |extra_args: &[&str]| {
        let words = [&["history", "hello/manifest.yml", "--state", "state.json"][..], extra_args].concat();
        hello.world.run(words).success()
    };
    let none = |state: &str| {
        format!("No runs of '{}' are recorded on this machine.\n", hello.world.path(state).display())
    };
    assert_eq!(history(&[]).stdout, none("state.json"));

    hello.set_script(Script::with_interruption(4, Interruption::After));
    assert_eq!(hello.create(&[]).code, -1);
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.create(&[]).success();
    run(&hello, "stop-env", &["-v", "mbus_port=1", "--agent-timeout", "100ms"]).exits_with(5);
    let runs = parse_document(&history(&["--json"]));
    let outcomes: Vec<(&str, &str)> = runs
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["command"].as_str().unwrap(), run["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!(outcomes, [("stop-env", "failed"), ("create-env", "succeeded"), ("create-env", "killed")]);
    let good = &runs[1]["end"];
    assert!(good["elapsed_ms"].as_u64().unwrap() > 0 && good["exit_code"] == 0);
    assert!(good["summary"].as_str().unwrap().starts_with("Deployed 'hello'"));
    // The record of a killed run also has its plan.
    let headline = |run: &serde_json::Value| run["plan"]["headline"].as_str().unwrap().to_owned();
    assert!(headline(&runs[2]).starts_with("Create a VM: "), "{}", runs[2]);
    assert!(headline(&runs[1]).ends_with("Replace the VM: the last deploy did not finish"), "{}", runs[1]);
    assert_eq!(runs[2]["plan"]["steps"][0]["step"], "create_stemcell");
    assert_eq!(runs[0]["plan"], serde_json::Value::Null, "a stop has no plan");
    let begun_change_count = |run: &serde_json::Value| run["begun_change_count"].as_u64().unwrap();
    assert_eq!(begun_change_count(&runs[0]), 0, "the agent was not reached");
    assert_eq!(begun_change_count(&runs[1]), runs[1]["plan"]["steps"].as_array().unwrap().len() as u64);
    assert!((1..begun_change_count(&runs[1])).contains(&begun_change_count(&runs[2])), "{}", runs[2]);
    let stages: Vec<&str> =
        good["stages"].as_array().unwrap().iter().map(|stage| stage["name"].as_str().unwrap()).collect();
    assert!(stages.iter().any(|stage| stage.starts_with("Creating VM for instance")), "{stages:?}");
    assert!(std::path::Path::new(runs[1]["log"].as_str().unwrap()).exists());

    let text = history(&["--steps"]).stdout;
    let expected = [
        "killed",
        "failed, exit code 5",
        "    Creating VM",
        "  Plan: Create a VM",
        "    1. Upload stemcell ",
        "  Log: /",
    ];
    assert!(expected.iter().all(|part| text.contains(part)), "{text}");
    assert_eq!(history(&["--limit", "1"]).stdout.lines().count(), 1);
    let secret: serde_yaml::Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    let secret = secret["mbus_bootstrap_password"].as_str().unwrap();
    assert!(!history(&["--json", "--steps"]).stdout.contains(secret));

    // Another environment has none of these runs. Without a name, all runs are shown.
    hello.world.write("other-state.json", "");
    let other = hello.world.run(["history", "other.yml"]).success();
    assert_eq!(other.stdout, none("other-state.json"));
    let all = hello.world.run(["history"]).success();
    assert!(all.stdout.starts_with("20") && all.stdout.contains("work/state.json\t"), "{}", all.stdout);

    // An env file can also name the environment.
    hello.world.write("named/.monopile.yml", "manifest: ../hello/manifest.yml\nstate: ../state.json\n");
    hello.world.run(["trust", "named/.monopile.yml"]).success();
    let in_there = |words: &[&str]| {
        let mut command = hello.world.monopile(words);
        command.current_dir(hello.world.path("named"));
        hello.world.finish(command).success()
    };
    assert_eq!(parse_document(&in_there(&["history", "--json"])), runs);
    let nameless = in_there(&["history", "--no-env-file"]);
    assert!(nameless.stdout.contains("work/state.json"), "{}", nameless.stdout);

    hello.delete(&[]).success();
    let last_runs = parse_document(&history(&["--json", "--limit", "1"]));
    assert_eq!(last_runs[0]["plan"]["headline"], "Delete everything on record");
    assert_eq!(last_runs[0]["plan"]["steps"][0]["step"], "stop_vm");
    assert!(history(&[]).stdout.contains("Deleted the environment"), "the history is gone with the state");
    let mut leftovers = hello.leftovers();
    // The next run removes the killed run's scratch files.
    leftovers.retain(|leftover| !leftover.starts_with("file "));
    assert_eq!(leftovers, Vec::<String>::new());
}
