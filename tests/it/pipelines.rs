//! Runs the commands of the pipelines in `examples/pipelines`, and the scripts of the GitHub Action and of
//! the Concourse task in `packaging`, on the hello environment instead of the director's. As in the CI
//! system, each run has its own directory, which is deleted afterwards.

use crate::support::process::{WaitForEnd, lines, prepare, receive};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::shared_cache::generate_key;
use crate::support::hello::Hello;
use crate::support::http::{Server, answer};
use crate::support::scripted::{InfoAnswer, Interruption, Script};
use crate::support::{MONOPILE, Run};

fn pipeline(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/pipelines").join(name);
    serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// An environment, and the repository of its state.
struct Ci {
    hello: Hello,
    repository: PathBuf,
}

impl Ci {
    fn new(branch: &str) -> Ci {
        let hello = Hello::new();
        std::fs::create_dir(hello.world.root().join("bin")).unwrap();
        std::os::unix::fs::symlink(MONOPILE, hello.world.root().join("bin/monopile")).unwrap();
        let repository = hello.world.path("remote.git");
        let ci = Ci { hello, repository };
        let begin = format!(
            "git init -q --bare remote.git && git init -q -b {branch} first && cd first && \
             git -c user.name=x -c user.email=x@y commit -q --allow-empty -m 'No state yet' && \
             git push -q ../remote.git {branch}"
        );
        ci.run_shell(&begin, ".").success();
        ci
    }

    fn command(&self, program: &str, directory: &str) -> Command {
        let mut command = prepare(program);
        self.hello.world.enter(&mut command).current_dir(self.hello.world.path(directory));
        let bin = self.hello.world.root().join("bin");
        command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
        command
    }

    fn run_shell(&self, text: &str, directory: &str) -> Run {
        let mut command = self.command("sh", directory);
        command.args(["-euc", text]);
        self.hello.world.finish(command)
    }

    /// Creates a working directory like a CI system: with the code, and the state from the repository.
    fn check_out(&self, directory: &str, code: &str, branch: &str) {
        self.hello.world.write(
            format!("{directory}/{code}examples/director/.monopile.yml"),
            self.hello.env_file("state.json", "creds.yml"),
        );
        let clone = format!("git clone -q -b {branch} {} state", self.repository.display());
        self.run_shell(&clone, directory).success();
    }

    /// Sends a signal to the process while the script holds a call, and returns the exit code.
    fn interrupt_held_call(&self, command: Command, signal: Signal) -> Option<i32> {
        self.interrupt_held_call_by(command, |process| kill_process(process, signal))
    }

    fn interrupt_held_call_by(
        &self,
        mut command: Command,
        interrupt: impl FnOnce(Pid) -> rustix::io::Result<()>,
    ) -> Option<i32> {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let output = lines(child.stderr.take().unwrap());
        self.hello.wait_until_held();
        interrupt(Pid::from_child(&child)).unwrap();
        let signal_line = std::iter::from_fn(|| receive("the signal is heard", &output))
            .find(|line| line.contains("received: waiting for the CPI's "));
        self.hello.release_call();
        let code = child.end().code();
        assert!(signal_line.is_some(), "the signal was not heard");
        self.hello.set_script(Script::with_info(InfoAnswer::Local));
        code
    }

    fn remove(&self, directory: &str) {
        std::fs::remove_dir_all(self.hello.world.path(directory)).unwrap();
    }

    /// Returns the head of a branch of the repository.
    fn head(&self, branch: &str) -> String {
        self.run_shell(&format!("git -C remote.git rev-parse {branch}"), ".").success().stdout
    }
}

/// Returns the step of a job with this name or id.
fn step<'w>(workflow: &'w Value, name: &str) -> &'w Value {
    let steps = workflow["jobs"]["deploy"]["steps"].as_array().unwrap();
    steps
        .iter()
        .find(|step| step["name"] == name || step["id"] == name)
        .unwrap_or_else(|| panic!("no step {name}"))
}

impl Ci {
    /// Builds the command of a step in the way GitHub runs `run` with `shell: bash`.
    fn github(&self, workflow: &Value, name: &str, values: &[(&str, &str)]) -> Command {
        assert_eq!(workflow["defaults"]["run"]["shell"], "bash");
        let step = step(workflow, name);
        let directory = step["working-directory"].as_str().unwrap_or(".");
        self.hello.world.write("step.sh", step["run"].as_str().unwrap());
        let mut command = self.command("bash", &format!("work/{directory}"));
        command.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(self.hello.world.path("step.sh"));
        for (variable, value) in step["env"].as_object().into_iter().flatten() {
            let text = value.as_str().unwrap().to_owned();
            let expanded_value = values.iter().fold(text, |text, (name, replacement)| {
                text.replace(&format!("${{{{ {name} }}}}"), replacement)
            });
            assert!(!expanded_value.contains("${{"), "{expanded_value} is not known");
            command.env(variable, expanded_value);
        }
        command
    }
}

#[test]
fn github_pipeline_keeps_the_state_for_the_next_run() {
    let workflow = pipeline("github-actions.yml");
    let ci = Ci::new("state");
    ci.run_shell("age-keygen -o key 2>/dev/null", ".").success();
    let key = ci.hello.world.read("key");
    let recipient = key.lines().find_map(|line| line.strip_prefix("# public key: ")).unwrap().to_owned();
    let scratch = ci.hello.world.path("scratch").display().to_string();
    std::fs::create_dir(&scratch).unwrap();
    generate_key(&ci.hello.world.path(""), "ci");
    let cache_key = ci.hello.world.read("ci");
    let cache_url = format!("file://{}", ci.hello.world.path("shared").display());
    let values = [
        ("secrets.AGE_KEY", key.as_str()),
        ("vars.AGE_RECIPIENT", recipient.as_str()),
        ("secrets.ACCESS_KEY_ID", "AKIA"),
        ("secrets.SECRET_ACCESS_KEY", "s3cret-of-aws"),
        ("runner.temp", scratch.as_str()),
        ("vars.MONOPILE_CACHE", cache_url.as_str()),
        ("secrets.CACHE_KEY", cache_key.trim_end()),
    ];
    let run = |name: &str| {
        let mut command = ci.github(&workflow, name, &values);
        command.env("RUNNER_TEMP", &scratch);
        ci.hello.world.finish(command)
    };

    // The run is killed while the CPI creates the VM, which takes one more second. The CPI's answer is also
    // kept.
    ci.check_out("work", "", "state");
    run("decrypt").success();
    run("Write the key that signs for the shared cache").success();
    ci.hello.set_script(Script::with_interruption(3, Interruption::Slow));
    assert_eq!(run("create-env").code, -1);
    run("keep").success();
    ci.hello.wait_until_idle();
    ci.hello.set_script(Script::with_info(InfoAnswer::Local));
    ci.remove("work");
    let files = ci.run_shell("git -C remote.git ls-tree --name-only state", ".").stdout;
    assert_eq!(files, "state.tar.age\n");

    // GitHub's signal reaches the program itself, not a shell before it.
    ci.check_out("work", "", "state");
    run("decrypt").success();
    ci.hello.set_script(Script::with_interruption(3, Interruption::Hold));
    assert_eq!(ci.interrupt_held_call(ci.github(&workflow, "create-env", &values), Signal::INT), Some(130));
    run("keep").success();
    ci.remove("work");

    ci.check_out("work", "", "state");
    run("decrypt").success();
    let creation = run("create-env").success();
    assert!(creation.stdout.contains("Succeeded"), "{}", creation.stdout);
    assert_eq!(ci.hello.find("work/shared/compiled", ".json").len(), 2, "the signed packages are shared");
    run("keep").success();
    let state = ci.hello.world.path("work/examples/director/state.json");
    std::fs::copy(state, ci.hello.world.path("state.json")).unwrap();
    assert_eq!(ci.hello.cloud(), ci.hello.recorded_cids(), "something is on no record");
    ci.remove("work");

    // An unreadable state is not replaced by an empty one.
    let head = ci.head("state");
    ci.check_out("work", "", "state");
    let mut bad_command = ci.github(&workflow, "decrypt", &values);
    bad_command.env("AGE_KEY", "AGE-SECRET-KEY-1");
    assert_ne!(ci.hello.world.finish(bad_command).code, 0);
    assert_eq!(step(&workflow, "keep")["if"], "always() && steps.decrypt.outcome == 'success'");
    ci.remove("work");
    assert_eq!(ci.head("state"), head);

    ci.check_out("work", "", "state");
    run("decrypt").success();
    ci.run_shell("monopile delete-env -n --env-file .monopile.yml", "work/examples/director").success();
    // Only the vars store remains.
    run("keep").success();
    ci.remove("work");
    assert_eq!(ci.hello.leftovers(), Vec::<String>::new());
}

#[test]
fn concourse_pipeline_keeps_the_state_for_the_next_build() {
    let pipeline = pipeline("concourse.yml");
    let plan = pipeline["jobs"][0]["plan"].as_array().unwrap();
    let create = plan.iter().find(|step| step["task"] == "create-env").unwrap();
    let final_steps = create["ensure"]["do"].as_array().unwrap();
    assert_eq!(final_steps[1]["put"], "state");
    assert_eq!(pipeline["jobs"][0]["serial"], true);
    let ci = Ci::new("main");
    let task = |step: &Value, directory: &str| {
        let run = &step["config"]["run"];
        let mut command = ci.command(run["path"].as_str().unwrap(), directory);
        command.args(run["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()));
        for (variable, value) in step["config"]["params"].as_object().into_iter().flatten() {
            command.env(variable, value.as_str().unwrap());
        }
        command
    };
    let keep = |directory: &str| {
        ci.hello.world.finish(task(&final_steps[0], directory)).success();
        ci.run_shell("cd state && git pull -q --rebase && git push -q", directory).success();
        ci.remove(directory);
    };

    // The run is killed after the CPI has created the VM, before that is on record.
    ci.check_out("build-1", "code/", "main");
    ci.hello.set_script(Script::with_interruption(3, Interruption::After));
    assert_eq!(ci.hello.world.finish(task(create, "build-1")).code, -1);
    ci.hello.set_script(Script::with_info(InfoAnswer::Local));
    keep("build-1");

    // The next build has another directory. At an abort, SIGTERM stops it at a safe place.
    ci.check_out("build-2", "code/", "main");
    ci.hello.set_script(Script::with_interruption(3, Interruption::Hold));
    assert_eq!(ci.interrupt_held_call(task(create, "build-2"), Signal::TERM), Some(143));
    keep("build-2");

    ci.check_out("build-3", "code/", "main");
    ci.hello.world.finish(task(create, "build-3")).success();
    let state = ci.hello.world.path("build-3/state/state.json");
    std::fs::copy(state, ci.hello.world.path("state.json")).unwrap();
    assert_eq!(ci.hello.cloud(), ci.hello.recorded_cids(), "something is on no record");
    keep("build-3");
    let files = ci.run_shell("git -C remote.git ls-tree --name-only main", ".").stdout;
    assert!(!files.contains("lock") && files.contains("creds.yml\nstate.json\n"), "{files}");

    ci.check_out("build-4", "code/", "main");
    let delete = "monopile delete-env -n --env-file code/examples/director/.monopile.yml --state \
                  state/state.json --vars-store state/creds.yml";
    ci.run_shell(delete, "build-4").success();
    assert_eq!(ci.hello.leftovers(), Vec::<String>::new());
}

#[test]
fn gitlab_pipeline_keeps_the_state_for_the_next_run() {
    let pipeline = pipeline("gitlab-ci.yml");
    let job = &pipeline["deploy"];
    assert_eq!(job["resource_group"], "director");
    assert_eq!(job["interruptible"], false);
    let ci = Ci::new("main");
    let begin = |directory: &str| {
        let file = format!("{directory}/examples/director/.monopile.yml");
        ci.hello.world.write(file, ci.hello.env_file("state.json", "creds.yml"));
    };
    // The runner gives the lines to a shell, which ends at the first failure.
    let command = |name: &str, directory: &str, repository: &Path| {
        let lines = job[name].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
        let mut command = ci.command("sh", directory);
        command.arg("-ec").arg(lines.collect::<Vec<_>>().join("\n")).env("STATE_REPOSITORY", repository);
        command
    };
    let run = |name: &str, directory: &str| ci.hello.world.finish(command(name, directory, &ci.repository));

    // The run is killed after the CPI has created the VM, before that is on record.
    begin("build-1");
    ci.hello.set_script(Script::with_interruption(3, Interruption::After));
    run("script", "build-1").exits_with(137);
    ci.hello.set_script(Script::with_info(InfoAnswer::Local));
    ci.remove("build-1");

    // At a cancellation, all processes get the signal. The shell saves after monopile has ended.
    begin("build-2");
    ci.hello.set_script(Script::with_interruption(3, Interruption::Hold));
    let mut script = command("script", "build-2", &ci.repository);
    script.process_group(0);
    let cancel = |group| kill_process_group(group, Signal::TERM);
    assert_eq!(ci.interrupt_held_call_by(script, cancel), Some(143));
    ci.remove("build-2");

    // A refused push fails the job, and `after_script` tries again.
    begin("build-3");
    let hook = "mkdir -p remote.git/hooks && cd remote.git/hooks && \
                printf '#!/bin/sh\\nexit 1\\n' >pre-receive && chmod +x pre-receive";
    ci.run_shell(hook, ".").success();
    let failed_run = run("script", "build-3").exits_with(1);
    assert!(failed_run.stdout.contains("Succeeded"), "{failed_run:?}");
    assert!(failed_run.stderr.contains("The state was not saved."), "{failed_run:?}");
    let state = ci.hello.world.path("build-3/state/state.json");
    std::fs::copy(state, ci.hello.world.path("state.json")).unwrap();
    assert_eq!(ci.hello.cloud(), ci.hello.recorded_cids(), "something is on no record");
    ci.run_shell("rm remote.git/hooks/pre-receive", ".").success();
    run("after_script", "build-3").success();
    ci.remove("build-3");
    let files = ci.run_shell("git -C remote.git ls-tree --name-only main", ".").stdout;
    assert!(!files.contains("lock") && files.contains("creds.yml\nstate.json\n"), "{files}");

    // A state that cannot be fetched is not replaced.
    let head = ci.head("main");
    begin("build-4");
    let missing_remote = ci.hello.world.path("missing.git");
    assert_ne!(ci.hello.world.finish(command("script", "build-4", &missing_remote)).code, 0);
    ci.hello.world.finish(command("after_script", "build-4", &missing_remote)).success();
    assert_eq!(ci.head("main"), head);
    ci.remove("build-4");

    begin("build-5");
    let delete = "git clone -q -b main ../remote.git state && monopile delete-env -n --env-file \
                  examples/director/.monopile.yml --state state/state.json --vars-store state/creds.yml";
    ci.run_shell(delete, "build-5").success();
    assert_eq!(ci.hello.leftovers(), Vec::<String>::new());
}

/// Returns the steps of the GitHub Action.
fn action_steps() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/github-action/action.yml");
    let action: Value = serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    action["runs"]["steps"].as_array().unwrap().clone()
}

/// The GitHub Action of `packaging/github-action`.
impl Ci {
    /// Builds the command of one of its scripts, with the variables of a runner.
    fn action(&self, script: &str, variables: &[(&str, &str)]) -> Command {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/github-action").join(script);
        let mut command = self.command(path.to_str().unwrap(), "work");
        let runner = self.hello.world.path("runner");
        std::fs::create_dir_all(&runner).unwrap();
        command.env("RUNNER_TEMP", &runner);
        for name in ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH"] {
            command.env(name, runner.join(name));
        }
        command.envs(variables.iter().copied());
        command
    }

    fn run_action(&self, script: &str, variables: &[(&str, &str)]) -> Run {
        self.hello.world.finish(self.action(script, variables))
    }
}

#[test]
fn github_action_plans_and_deploys() {
    let ci = Ci::new("state");
    ci.hello.world.write("work/.monopile.yml", ci.hello.env_file("state.json", "creds.yml"));
    let run = |command: &str, arguments: &str| {
        let inputs = [("INPUT_COMMAND", command), ("INPUT_ENV_FILE", ".monopile.yml")];
        ci.run_action("run", &[&inputs[..], &[("INPUT_ARGUMENTS", arguments)]].concat())
    };
    let output = || ci.hello.world.read("runner/GITHUB_OUTPUT");
    let plan = ci.hello.world.path("runner/monopile.plan");

    let failed_plan = run("plan", "").exits_with(3);
    assert!(failed_plan.stdout.contains("the plan was not saved"), "{failed_plan:?}");
    let interpolate = ["interpolate", "--env-file", "work/.monopile.yml"];
    ci.hello.world.run(interpolate).success();
    std::fs::remove_file(ci.hello.world.path("runner/GITHUB_STEP_SUMMARY")).unwrap();
    run("plan", "").success();
    assert_eq!(output(), format!("changes=true\nplan={}\n", plan.display()));
    let summary = ci.hello.world.read("runner/GITHUB_STEP_SUMMARY");
    assert!(summary.starts_with("```") && summary.contains("Create the VM of 'hello/0'"), "{summary}");
    assert_eq!(ci.hello.cloud().len(), 0, "a plan created something");

    run("create-env", "").success();
    std::fs::remove_file(ci.hello.world.path("runner/GITHUB_OUTPUT")).unwrap();
    run("plan", "").success();
    assert!(output().starts_with("changes=false\n"), "{}", output());
    let usage_error = run("plan", "--no-such-flag\n").exits_with(2);
    assert!(usage_error.stdout.contains("--no-such-flag"), "{usage_error:?}");
    run("delete-env", "").success();
    run("status", "").exits_with(2);
    run("install", "").success();
    assert_eq!(ci.hello.leftovers(), Vec::<String>::new());
}

/// Text that a shell would run.
const HOSTILE: &str = "--var=a=$(touch pwned)\n--var=b=`touch pwned`; touch pwned\n\n--var=c=' \" * ~\n";

#[test]
fn inputs_reach_no_shell() {
    let ci = Ci::new("state");
    let bin = ci.hello.world.root().join("bin/monopile");
    std::fs::remove_file(&bin).unwrap();
    std::fs::write(&bin, "#!/bin/sh\nprintf '%s\\n' \"$@\" >arguments\n").unwrap();
    ci.run_shell("chmod +x ../bin/monopile && mkdir -p work", ".").success();
    let file = "$(touch pwned).yml";
    let received_arguments = || {
        assert!(!ci.hello.world.exists("work/pwned"));
        ci.hello.world.read("work/arguments")
    };
    let lines = HOSTILE.replace("\n\n", "\n");

    let inputs = [("INPUT_COMMAND", "create-env"), ("INPUT_ENV_FILE", file), ("INPUT_ARGUMENTS", HOSTILE)];
    ci.run_action("run", &inputs).success();
    assert_eq!(received_arguments(), format!("create-env\n--env-file\n{file}\n--non-interactive\n{lines}"));
    ci.run_action("run", &[("INPUT_COMMAND", "plan; touch pwned"), ("INPUT_ENV_FILE", file)]).exits_with(2);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/concourse/create-env.yml");
    let task: Value = serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let run = |command: &str| {
        let mut process = ci.command(task["run"]["path"].as_str().unwrap(), "work");
        process.args(task["run"]["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()));
        process.envs([("COMMAND", command), ("ENV_FILE", file), ("ARGUMENTS", HOSTILE)]);
        ci.hello.world.finish(process)
    };
    run("create-env").success();
    let files = "--cache-dir\ncache\n--state\nstate/state.json\n--vars-store\nstate/creds.yml\n";
    let expected = format!("create-env\n--env-file\ncode/{file}\n--non-interactive\n{files}{lines}");
    assert_eq!(received_arguments(), expected);
    run("create-env; touch pwned").exits_with(2);
    received_arguments();
    // Every variable of the task is one that it uses.
    let names: Vec<&String> = task["params"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["COMMAND", "ENV_FILE", "ARGUMENTS", "TMPDIR"]);

    // An action passes its inputs as variables: no expression is part of a script.
    let steps = action_steps();
    let scripts = steps.iter().filter_map(|step| step["run"].as_str());
    assert_eq!(scripts.filter(|script| !script.contains("${{")).count(), 3);
}

#[test]
fn github_action_comments_on_the_pull_request() {
    let ci = Ci::new("state");
    ci.run_shell("mkdir -p work runner", ".").success();
    ci.hello.world.write("runner/monopile-plan.txt", "1. Create the VM\n````\n");
    ci.hello.world.write("runner/event.json", r#"{"pull_request": {"number": 7}}"#);
    let event = ci.hello.world.path("runner/event.json").display().to_string();
    let comment = |server: &Server| {
        let api = format!("http://127.0.0.1:{}", server.port());
        ci.run_action(
            "comment",
            &[
                ("INPUT_ENV_FILE", "a --> b.yml"),
                ("INPUT_WORKING_DIRECTORY", "."),
                ("GITHUB_TOKEN", "t0ken"),
                ("GITHUB_API_URL", &api),
                ("GITHUB_SERVER_URL", "https://git.test"),
                ("GITHUB_REPOSITORY", "o/r"),
                ("GITHUB_RUN_ID", "5"),
                ("GITHUB_EVENT_PATH", &event),
            ],
        )
    };

    let server = Server::start(|_, _| answer("200 OK", &[], b"[]"));
    comment(&server).success();
    let requests = server.requests();
    let lines: Vec<&str> = requests.iter().map(|request| request.line.as_str()).collect();
    let list = "GET /repos/o/r/issues/7/comments?per_page=100&page=1 HTTP/1.1";
    assert_eq!(lines, [list, "POST /repos/o/r/issues/7/comments HTTP/1.1"]);
    assert!(requests.iter().all(|request| request.header("authorization") == Some("Bearer t0ken")));
    let body: Value = serde_json::from_slice(&requests[1].body).unwrap();
    let body = body["body"].as_str().unwrap().to_owned();
    let marker = body.lines().next().unwrap().to_owned();
    assert!(marker.ends_with("b.yml -->") && marker.matches("-->").count() == 1, "{marker}");
    // The fence is longer than the one in the plan.
    assert!(body.contains("\n`````text\n1. Create the VM\n````\n"), "{body}");
    assert!(body.ends_with("[The run](https://git.test/o/r/actions/runs/5)"), "{body}");

    // The next run updates its comment, and no other.
    let comments = serde_json::json!([{"id": 3, "body": "Looks good"}, {"id": 4, "body": body}]).to_string();
    let server = Server::start(move |_, _| answer("200 OK", &[], comments.as_bytes()));
    comment(&server).success();
    assert_eq!(server.requests()[1].line, "PATCH /repos/o/r/issues/comments/4 HTTP/1.1");

    let server = Server::start(|_, _| answer("403 Forbidden", &[], br#"{"message": "no permission"}"#));
    let failed_comment = comment(&server);
    assert_ne!(failed_comment.code, 0);
    assert!(format!("{failed_comment:?}").contains("403"), "{failed_comment:?}");
    assert!(!format!("{failed_comment:?}").contains("t0ken"), "{failed_comment:?}");

    ci.hello.world.write("runner/event.json", "{}");
    let push = comment(&server).exits_with(1);
    assert!(push.stdout.contains("has no number of a pull request"), "{push:?}");

    // Without a run of `plan`, for example if the installation failed, there is no text.
    let steps = action_steps();
    let step = steps.iter().find(|step| step["run"].as_str().is_some_and(|run| run.contains("/comment")));
    let condition = step.unwrap()["if"].as_str().unwrap();
    assert!(condition.ends_with("(steps.run.outcome == 'success' || steps.run.outcome == 'failure')"));
}

#[test]
fn github_action_installs_the_named_release() {
    let ci = Ci::new("state");
    ci.run_shell("mkdir -p work && rm ../bin/monopile", ".").success();
    let missing = ci.run_action("install", &[]).exits_with(1);
    assert!(missing.stdout.contains("name the address of its files by the input 'from'"), "{missing:?}");

    // install.sh verifies; its own tests show that.
    let server = Server::start(|_, _| answer("404 Not Found", &[], b""));
    let host = format!("http://127.0.0.1:{}", server.port());
    let tag = [("ACTION_REPOSITORY", "o/r"), ("ACTION_REF", "v1.2.3")];
    // In the steps of a composite action, GitHub leaves its own variables for these empty.
    let steps = action_steps();
    let step = steps.iter().find(|step| step["run"].as_str().is_some_and(|run| run.contains("/install")));
    let variables = &step.unwrap()["env"];
    assert_eq!(variables["ACTION_REPOSITORY"], "${{ github.action_repository }}");
    assert_eq!(variables["ACTION_REF"], "${{ github.action_ref }}");
    let inputs = [&tag[..], &[("GITHUB_SERVER_URL", &*host), ("INPUT_KEY", "ssh-ed25519 AAAA")]].concat();
    let run = ci.run_action("install", &inputs).exits_with(1);
    assert!(run.stderr.contains("does not exist (404)"), "{run:?}");
    assert_eq!(server.requests()[0].path(), "/o/r/releases/download/v1.2.3/SHA256SUMS");
    assert!(!ci.hello.world.exists("runner/GITHUB_PATH"));
}
