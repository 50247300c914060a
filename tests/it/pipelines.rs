//! Runs the commands of the pipelines in `examples/pipelines` on the hello environment instead of the
//! director's. As in the CI system, each run has its own directory, which is deleted afterwards.

use crate::support::process::{WaitForEnd, lines, next, prepare};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::hello::Hello;
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
        ci.shell(&begin, ".").success();
        ci
    }

    fn command(&self, program: &str, directory: &str) -> Command {
        let mut command = prepare(program);
        self.hello.world.enter(&mut command).current_dir(self.hello.world.path(directory));
        let bin = self.hello.world.root().join("bin");
        command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
        command
    }

    fn shell(&self, text: &str, directory: &str) -> Run {
        let mut command = self.command("sh", directory);
        command.args(["-euc", text]);
        self.hello.world.finish(command)
    }

    /// Creates a working directory like a CI system: with the code, and the state from the repository.
    fn checkout(&self, directory: &str, code: &str, branch: &str) {
        self.hello.world.write(
            format!("{directory}/{code}examples/director/.monopile.yml"),
            self.hello.env_file("state.json", "creds.yml"),
        );
        let clone = format!("git clone -q -b {branch} {} state", self.repository.display());
        self.shell(&clone, directory).success();
    }

    /// Sends a signal while the script holds a call, and returns the exit code.
    fn interrupted(&self, mut command: Command, signal: Signal) -> Option<i32> {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let output = lines(child.stderr.take().unwrap());
        self.hello.wait_until_held();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let heard = std::iter::from_fn(|| next("the signal is heard", &output))
            .find(|line| line.contains("call in flight"));
        self.hello.go();
        let code = child.end().code();
        assert!(heard.is_some(), "the signal was not heard");
        self.hello.script(Script::with_info(InfoAnswer::Local));
        code
    }

    fn remove(&self, directory: &str) {
        std::fs::remove_dir_all(self.hello.world.path(directory)).unwrap();
    }

    /// Returns the head of a branch of the repository.
    fn head(&self, branch: &str) -> String {
        self.shell(&format!("git -C remote.git rev-parse {branch}"), ".").success().stdout
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
        let below = step["working-directory"].as_str().unwrap_or(".");
        self.hello.world.write("step.sh", step["run"].as_str().unwrap());
        let mut command = self.command("bash", &format!("work/{below}"));
        command.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(self.hello.world.path("step.sh"));
        for (variable, value) in step["env"].as_object().into_iter().flatten() {
            let expression = value.as_str().unwrap().trim_start_matches("${{ ").trim_end_matches(" }}");
            let known = values.iter().find(|(name, _)| *name == expression);
            command.env(variable, known.unwrap_or_else(|| panic!("{expression} is not known")).1);
        }
        command
    }
}

#[test]
fn github_pipeline_keeps_the_state_for_the_next_run() {
    let workflow = pipeline("github-actions.yml");
    let ci = Ci::new("state");
    ci.shell("age-keygen -o key 2>/dev/null", ".").success();
    let key = ci.hello.world.read("key");
    let recipient = key.lines().find_map(|line| line.strip_prefix("# public key: ")).unwrap().to_owned();
    let scratch = ci.hello.world.path("scratch").display().to_string();
    let values = [
        ("secrets.AGE_KEY", key.as_str()),
        ("vars.AGE_RECIPIENT", recipient.as_str()),
        ("secrets.ACCESS_KEY_ID", "AKIA"),
        ("secrets.SECRET_ACCESS_KEY", "s3cret-of-aws"),
        ("runner.temp", scratch.as_str()),
    ];
    let run = |name: &str| ci.hello.world.finish(ci.github(&workflow, name, &values));

    // The run is killed while the CPI creates the VM, which takes one more second. The CPI's answer is also
    // kept.
    ci.checkout("work", "", "state");
    run("decrypt").success();
    ci.hello.script(Script::at(3, Interruption::Slow));
    assert_eq!(run("create-env").code, -1);
    run("keep").success();
    ci.hello.wait_until_idle();
    ci.hello.script(Script::with_info(InfoAnswer::Local));
    ci.remove("work");
    let listed = ci.shell("git -C remote.git ls-tree --name-only state", ".").stdout;
    assert_eq!(listed, "state.tar.age\n");

    // GitHub's signal reaches the program itself, not a shell before it.
    ci.checkout("work", "", "state");
    run("decrypt").success();
    ci.hello.script(Script::at(3, Interruption::Hold));
    assert_eq!(ci.interrupted(ci.github(&workflow, "create-env", &values), Signal::INT), Some(130));
    run("keep").success();
    ci.remove("work");

    ci.checkout("work", "", "state");
    run("decrypt").success();
    let created = run("create-env").success();
    assert!(created.stdout.contains("Succeeded"), "{}", created.stdout);
    run("keep").success();
    let kept = ci.hello.world.path("work/examples/director/state.json");
    std::fs::copy(kept, ci.hello.world.path("state.json")).unwrap();
    assert_eq!(ci.hello.cloud(), ci.hello.recorded(), "something is on no record");
    ci.remove("work");

    // An unreadable state is not replaced by an empty one.
    let head = ci.head("state");
    ci.checkout("work", "", "state");
    let mut wrong = ci.github(&workflow, "decrypt", &values);
    wrong.env("AGE_KEY", "AGE-SECRET-KEY-1");
    assert_ne!(ci.hello.world.finish(wrong).code, 0);
    assert_eq!(step(&workflow, "keep")["if"], "always() && steps.decrypt.outcome == 'success'");
    ci.remove("work");
    assert_eq!(ci.head("state"), head);

    ci.checkout("work", "", "state");
    run("decrypt").success();
    ci.shell("monopile delete-env -n --env-file .monopile.yml", "work/examples/director").success();
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
    let ensured = create["ensure"]["do"].as_array().unwrap();
    assert_eq!(ensured[1]["put"], "state");
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
        ci.hello.world.finish(task(&ensured[0], directory)).success();
        ci.shell("cd state && git pull -q --rebase && git push -q", directory).success();
        ci.remove(directory);
    };

    // The run is killed after the CPI has created the VM, before that is on record.
    ci.checkout("build-1", "code/", "main");
    ci.hello.script(Script::at(3, Interruption::After));
    assert_eq!(ci.hello.world.finish(task(create, "build-1")).code, -1);
    ci.hello.script(Script::with_info(InfoAnswer::Local));
    keep("build-1");

    // The next build has another directory. At an abort, SIGTERM stops it at a safe place.
    ci.checkout("build-2", "code/", "main");
    ci.hello.script(Script::at(3, Interruption::Hold));
    assert_eq!(ci.interrupted(task(create, "build-2"), Signal::TERM), Some(143));
    keep("build-2");

    ci.checkout("build-3", "code/", "main");
    ci.hello.world.finish(task(create, "build-3")).success();
    let kept = ci.hello.world.path("build-3/state/state.json");
    std::fs::copy(kept, ci.hello.world.path("state.json")).unwrap();
    assert_eq!(ci.hello.cloud(), ci.hello.recorded(), "something is on no record");
    keep("build-3");
    let listed = ci.shell("git -C remote.git ls-tree --name-only main", ".").stdout;
    assert!(!listed.contains("lock") && listed.contains("creds.yml\nstate.json\n"), "{listed}");

    ci.checkout("build-4", "code/", "main");
    let delete = "monopile delete-env -n --env-file code/examples/director/.monopile.yml --state \
                  state/state.json --vars-store state/creds.yml";
    ci.shell(delete, "build-4").success();
    assert_eq!(ci.hello.leftovers(), Vec::<String>::new());
}
