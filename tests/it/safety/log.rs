//! Every run that can change an environment leaves a log.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::support::hello::Hello;

fn logs(hello: &Hello) -> Vec<PathBuf> {
    let directory = hello.world.home().join(".local/state/monopile/logs");
    let mut logs: Vec<PathBuf> =
        std::fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    logs.sort();
    logs
}

#[test]
fn failed_run_names_its_log() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let log_paths = logs(&hello);
    assert_eq!(log_paths.len(), 1);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&log_paths[0]), mode(log_paths[0].parent().unwrap())), (0o600, 0o700));
    let text = std::fs::read_to_string(&log_paths[0]).unwrap();
    for part in
        ["create-env", "Creating VM", "External CPI request", "create_vm", "asking the agent", "Deployed"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let creds: serde_json::Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    let password = creds["mbus_bootstrap_password"].as_str().unwrap();
    let key = creds["mbus_bootstrap_ssl"]["private_key"].as_str().unwrap();
    for secret in [password, key.lines().nth(1).unwrap()] {
        assert!(!text.contains(secret), "a secret is in the log");
    }

    // A command that only reads leaves no log.
    hello.world.run(["state", "show", "--state", "state.json"]).success();
    assert_eq!(logs(&hello).len(), 1);

    hello.set_answer("has_vm", "instead", "garbage");
    let run = hello.create(&["--recreate", "--json"]).exits_with(1);
    let last = run.json().pop().unwrap();
    let log = PathBuf::from(last["log"].as_str().unwrap());
    assert_eq!(logs(&hello).last(), Some(&log));
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("exit code: 1") && text.contains("has_vm"), "{text}");
    hello.answer_truly();
    hello.delete(&[]).success();
}

#[test]
fn newest_twenty_logs_are_kept() {
    let hello = Hello::new();
    let runs = 23;
    let newest_of_each_run: Vec<PathBuf> = (0..runs)
        .map(|_| {
            hello.delete(&[]).exits_with(3);
            logs(&hello).pop().unwrap()
        })
        .collect();
    assert_eq!(logs(&hello), newest_of_each_run[runs - 20..]);
}

#[test]
fn run_continues_if_the_log_cannot_be_written() {
    let hello = Hello::new();
    let mut command = hello.command("delete-env", &["-n", "--allow-missing"]);
    hello.world.write("file", "");
    command.env("XDG_STATE_HOME", hello.world.path("file"));
    let run = hello.world.finish(command).success();
    let warning = "warning: this run has no log and is missing in the history: creating a log in '";
    assert_eq!(run.stderr.matches("warning: ").count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains(warning), "{}", run.stderr);
}

#[test]
fn missing_state_succeeds_only_on_request() {
    let hello = Hello::new();
    let run = hello.delete(&[]).exits_with(3);
    assert!(
        run.stderr.contains("there is no state") && run.stderr.contains("--allow-missing"),
        "{}",
        run.stderr
    );
    let run = hello.delete(&["--allow-missing"]).success();
    assert!(run.stdout.contains("Deleted nothing: there is no state"), "{}", run.stdout);
    assert!(hello.take_requests().is_empty());
    assert!(!run.stderr.contains("warning: "), "{}", run.stderr);
    // The history knows an environment whose state is gone.
    hello.create(&[]).success();
    let documents =
        ["state.json", "state.json.bak", "state.json.versions"].map(|name| hello.world.path(name));
    let aside = hello.world.path("aside");
    std::fs::create_dir(&aside).unwrap();
    let move_all = |paths: &[std::path::PathBuf], directory: &std::path::Path| {
        for path in paths.iter().filter(|path| path.exists()) {
            std::fs::rename(path, directory.join(path.file_name().unwrap())).unwrap();
        }
    };
    move_all(&documents, &aside);
    let run = hello.delete(&["--allow-missing"]).success();
    assert!(run.stderr.contains("warning: `create-env` deployed with this state at 20"), "{}", run.stderr);
    let kept_documents = documents.each_ref().map(|path| aside.join(path.file_name().unwrap()));
    move_all(&kept_documents, &hello.world.path("."));
    let run = hello.delete(&[]).success();
    assert!(run.stdout.contains("Deleted the environment; the vars store '"), "{}", run.stdout);
    let run = hello.delete(&["--allow-missing"]).success();
    assert!(!run.stderr.contains("warning: "), "{}", run.stderr);
}
