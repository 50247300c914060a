//! `history`: every run leaves a record, also one that was killed.

use super::{document, run};
use crate::support::hello::Hello;
use crate::support::scripted::{Script, Speaks, When};

#[test]
fn each_run_is_on_record_with_its_end_or_without() {
    let hello = Hello::new();
    assert_eq!(run(&hello, "history", &[]).failure(2).stdout, "", "variables are no business of it");
    let history = |more: &[&str]| {
        let words = [&["history", "hello/manifest.yml", "--state", "state.json"][..], more].concat();
        hello.world.run(words).success()
    };
    assert_eq!(history(&[]).stdout, "No runs are on record.\n");

    hello.script(Script::at(4, When::After));
    assert_eq!(hello.create(&[]).code, -1);
    hello.script(Script::speaking(Speaks::Local));
    hello.create(&[]).success();
    run(&hello, "stop-env", &["-v", "mbus_port=1", "--agent-timeout", "100ms"]).failure(5);
    let runs = document(&history(&["--json"]));
    let told: Vec<(&str, &str)> = runs
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["command"].as_str().unwrap(), run["result"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("stop-env", "failed"), ("create-env", "succeeded"), ("create-env", "killed")]);
    let good = &runs[1]["end"];
    assert!(good["elapsed_ms"].as_u64().unwrap() > 0 && good["exit_code"] == 0);
    assert!(good["summary"].as_str().unwrap().starts_with("Deployed 'hello'"));
    let steps: Vec<&str> =
        good["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert!(steps.iter().any(|step| step.starts_with("Creating VM for instance")), "{steps:?}");
    assert!(std::path::Path::new(runs[1]["log"].as_str().unwrap()).exists());

    let text = history(&["--steps"]).stdout;
    assert!(
        text.contains("killed") && text.contains("failed (5)") && text.contains("  Creating VM"),
        "{text}"
    );
    assert_eq!(history(&["--limit", "1"]).stdout.lines().count(), 2);
    let secret: serde_yaml::Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    let secret = secret["mbus_bootstrap_password"].as_str().unwrap();
    assert!(!history(&["--json", "--steps"]).stdout.contains(secret));

    // Another environment has none of them; without a name, all are shown.
    hello.world.write("other-state.json", "");
    let other = hello.world.run(["history", "other.yml"]).success();
    assert_eq!(other.stdout, "No runs are on record.\n");
    let all = hello.world.run(["history"]).success();
    assert!(all.stdout.starts_with("STARTED") && all.stdout.contains("work/state.json"), "{}", all.stdout);

    hello.delete(&[]).success();
    assert!(history(&[]).stdout.contains("Deleted the environment"), "it outlives the state");
    let mut left = hello.leftovers();
    // The killed run's scratch files are the next one's to remove.
    left.retain(|left| !left.starts_with("file "));
    assert_eq!(left, Vec::<String>::new());
}
