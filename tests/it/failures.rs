//! A CPI that fails. At every call of a life (create, redeploy with a disk migration, recreate, delete) under
//! both contracts, it returns an error, hangs, answers garbage or nothing, before or after its work. The same
//! command then runs again and must reach the environment of an undisturbed life, without leaks and without
//! losing any needed resource.
//!
//! Only the operator can delete the resource of a failed creating call. It must be on record and reported
//! with its request id and agent id, and the next run must detect it if it can. The test then follows the
//! reported advice.
//!
//! By default, the test takes a sample, and a larger one in the long form. With `MONOPILE_SWEEP=full`, every
//! call fails in every way.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::hello::Hello;
use crate::support::scripted::{InfoAnswer, Interruption, Reaction, Script};
use crate::support::{Run, is_full_sweep, is_long_form};

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Failure {
    Error,
    RetryOnce,
    RetryForever,
    Hang,
    Garbage,
    Nothing,
    /// This failure and the following ones occur after the work is done.
    ErrorAfterEffect,
    GarbageAfterEffect,
    NothingAfterEffect,
    WrongTypeAfterEffect,
}

const FAILURES: [Failure; 10] = [
    Failure::Error,
    Failure::ErrorAfterEffect,
    Failure::GarbageAfterEffect,
    Failure::Hang,
    Failure::NothingAfterEffect,
    Failure::RetryOnce,
    Failure::Garbage,
    Failure::WrongTypeAfterEffect,
    Failure::Nothing,
    Failure::RetryForever,
];

const ERROR: &str = r#"{"result": null, "error": {"type": "Bosh::Clouds::CloudError", "message": "it broke", "ok_to_retry": false}}"#;

impl Failure {
    /// Returns the script that makes this call fail.
    fn script(self, info: InfoAnswer, call: &CallPoint) -> Script {
        let fail = |ok_to_retry| Reaction::Fail {
            error_type: "Bosh::Clouds::CloudError".to_owned(),
            message: "it broke".to_owned(),
            ok_to_retry,
        };
        let print = |answer: &str| format!("printf '%s' '{answer}'");
        let (last, reaction) = match self {
            Failure::Hang => {
                return Script::with_interruption(call.number, Interruption::Hold).and_info(info);
            }
            Failure::Error => (call.nth, fail(false)),
            Failure::RetryOnce => (call.nth, fail(true)),
            Failure::RetryForever => (usize::MAX, fail(true)),
            Failure::Garbage => (call.nth, Reaction::Instead(print("{\"result\": [\"x"))),
            Failure::Nothing => (call.nth, Reaction::Instead("true".to_owned())),
            Failure::ErrorAfterEffect => (call.nth, Reaction::After(print(ERROR))),
            Failure::GarbageAfterEffect => (call.nth, Reaction::After(print("{\"result\": "))),
            Failure::NothingAfterEffect => (call.nth, Reaction::After("true".to_owned())),
            Failure::WrongTypeAfterEffect => {
                (call.nth, Reaction::After(print("{\"result\": [[7]], \"error\": null}")))
            }
        };
        Script::with_info(info).on(&call.method, (call.nth, last), reaction)
    }

    /// Returns true if the work may be done without a usable answer.
    fn leaves_no_answer(self) -> bool {
        use Failure::*;
        matches!(self, Garbage | Nothing | GarbageAfterEffect | NothingAfterEffect | WrongTypeAfterEffect)
    }
}

/// A call of an undisturbed stage.
#[derive(Debug, Clone)]
struct CallPoint {
    method: String,
    /// The number among all calls of the stage, from 1.
    number: usize,
    /// The number among the calls of its method, from 1.
    nth: usize,
}

impl CallPoint {
    fn creates(&self) -> bool {
        self.method.starts_with("create_")
    }
}

type Disturbance = Option<(CallPoint, Failure)>;

const STAGES: [&str; 4] = ["create", "redeploy", "recreate", "delete"];

/// One life under one contract.
struct FailureLife {
    hello: Hello,
    info: InfoAnswer,
    context: String,
    leaks: Vec<String>,
}

impl FailureLife {
    fn new(info: InfoAnswer) -> Self {
        let mut hello = Hello::new();
        if info != InfoAnswer::Local {
            let manifest = hello.world.read("hello/stemcell/stemcell.MF");
            assert!(manifest.contains("api_version: 3\n"));
            hello.world.write("hello/stemcell/stemcell.MF", manifest.replace("api_version: 3\n", ""));
            let registry =
                format!("{{host: {}, port: 6901, username: registry, password: no-secret}}", hello.ip());
            let op = format!(
                "- {{type: replace, path: /cloud_provider/properties/registry?, value: {registry}}}\n"
            );
            hello.add_ops("registry.yml", &op);
        }
        FailureLife { hello, info, context: String::new(), leaks: Vec::new() }
    }

    fn command(&self, stage: usize, extra_args: &[&str]) -> Command {
        let (command, mut options) = match stage {
            3 => ("delete-env", vec!["-n"]),
            2 => ("create-env", vec!["--recreate"]),
            _ => ("create-env", vec![]),
        };
        options.extend(extra_args);
        self.hello.command(command, &options)
    }

    fn run(&self, stage: usize, extra_args: &[&str]) -> Run {
        self.hello.world.finish(self.command(stage, extra_args))
    }

    /// Changes the manifest as the stage requires.
    fn begin(&mut self, stage: usize) {
        if stage == 1 {
            let smaller = "- {type: replace, path: /disk_pools/name=disks/disk_size, value: 512}\n";
            self.hello.add_ops("disk.yml", smaller);
        }
    }

    /// Runs one stage with a failure of the CPI, checks that nothing is lost, and runs the same command
    /// again.
    fn run_stage(&mut self, stage: usize, disturbance: &Disturbance) {
        self.context = format!("{:?}, {}, {disturbance:?}", self.info, STAGES[stage]);
        self.begin(stage);
        let Some((point, failure)) = disturbance else {
            self.hello.set_script(Script::with_info(self.info));
            let run = self.run(stage, &[]);
            return self.expect(&run, 0);
        };
        self.hello.set_script(failure.script(self.info, point));
        self.hello.take_requests();
        // A call of a hanging CPI is left running. Any other call ends before this timeout.
        let timeout_options: &[&str] = if *failure == Failure::Hang { &["--cpi-timeout", "4s"] } else { &[] };
        let run = self.run(stage, timeout_options);
        match failure {
            Failure::RetryOnce => self.expect(&run, 0),
            _ => assert!([0, 1].contains(&run.code), "{}: {}: {}", self.context, run.code, run.stderr),
        }
        let has_failed = run.code == 1;
        if *failure == Failure::Hang {
            // The next run may find the call still running.
            self.hello.release_call();
        } else {
            self.hello.wait_until_idle();
            if point.creates() && has_failed {
                self.check_what_may_exist(point, &run);
            }
            self.check_all_is_known(point);
            self.hello.set_script(Script::with_info(self.info));
        }
        if has_failed {
            self.run_again(stage, point, *failure);
        } else if *failure != Failure::RetryOnce && self.hello.world.exists("state.json") {
            // A superseded resource could not be deleted, so the next run deletes it.
            let run = self.run(if stage == 2 { 0 } else { stage }, &[]);
            self.expect(&run, 0);
        }
    }

    /// Returns the requests of the failed call and of the last call to the same method in the disturbed run.
    fn requests(&self, point: &CallPoint) -> [Value; 2] {
        let text = self.hello.world.read("requests.jsonl");
        let requests = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut mine: Vec<Value> = requests.filter(|request| request["method"] == *point.method).collect();
        [mine[point.nth - 1].clone(), mine.pop().unwrap()]
    }

    /// Checks that every resource that a creating call may have made is reported and on record.
    fn check_what_may_exist(&self, point: &CallPoint, run: &Run) {
        let requests = self.requests(point);
        let id = |request: &Value| request["context"]["request_id"].as_str().unwrap().to_owned();
        let mut texts = vec![id(&requests[1])];
        texts.extend(
            (point.method == "create_vm").then(|| requests[1]["arguments"][0].as_str().unwrap().into()),
        );
        let output = self.hello.world.run(["state", "show", "--state", "state.json"]).success().stdout;
        for text in &texts {
            assert!(run.stderr.contains(text), "{}: {text} is not in {}", self.context, run.stderr);
        }
        texts.push(id(&requests[0]));
        for text in texts {
            assert!(output.contains(&text), "{}: {text} is not in {output}", self.context);
        }
    }

    /// Checks that the state or the journal knows every existing resource.
    fn check_all_is_known(&mut self, point: &CallPoint) {
        let records = self.hello.announced_or_recorded();
        for cid in self.hello.cloud() {
            let is_of_failed_call = point.creates() && records.contains(self.request_id(point).as_str());
            if !records.contains(&cid) && !is_of_failed_call {
                self.leaks.push(format!("{}: {cid} exists, and nothing knows it", self.context));
            }
        }
    }

    fn request_id(&self, point: &CallPoint) -> String {
        self.requests(point)[0]["context"]["request_id"].as_str().unwrap().to_owned()
    }

    /// Runs the command again, with the steps that the run asks of the operator.
    fn run_again(&mut self, stage: usize, point: &CallPoint, failure: Failure) {
        let mut run = self.run(stage, &[]);
        if point.creates() && failure.leaves_no_answer() {
            self.expect(&run, 1);
            // The agent of a VM may have told that the VM exists.
            let is_seen = run.stderr.contains("the VM exists: its agent answers");
            let step = if is_seen { "delete that VM, and forget the call" } else { "look in the IaaS for" };
            for text in ["is unknown", step, "--forget-open-calls"] {
                assert!(run.stderr.contains(text), "{}: {text} is not in {}", self.context, run.stderr);
            }
            self.delete_unknown();
            run = self.run(stage, &["--forget-open-calls"]);
        } else if point.method == "create_vm" && failure == Failure::ErrorAfterEffect {
            // The agent of the untracked VM answers after some time.
            if run.code == 1 {
                let agent_id = self.requests(point)[0]["arguments"][0].as_str().unwrap().to_owned();
                for text in ["an untracked VM answers at", &agent_id, &self.request_id(point)] {
                    assert!(run.stderr.contains(text), "{}: {text} is not in {}", self.context, run.stderr);
                }
                self.delete_unknown();
                run = self.run(stage, &[]);
            }
        }
        self.expect(&run, 0);
    }

    /// Deletes unknown resources, as an operator does after looking in the IaaS.
    fn delete_unknown(&self) {
        let recorded_cids = match self.hello.world.exists("state.json") {
            true => self.hello.recorded_cids(),
            false => BTreeSet::new(),
        };
        for cid in self.hello.cloud().difference(&recorded_cids) {
            let kind = cid.split('-').next().unwrap();
            self.hello.call(&format!("delete_{kind}"), json!([cid]));
        }
    }

    fn expect(&self, run: &Run, code: i32) {
        assert_eq!(
            run.code, code,
            "{}\n--- stdout\n{}\n--- stderr\n{}",
            self.context, run.stdout, run.stderr
        );
    }

    fn run_stages(&mut self, disturbances: &[Disturbance; 4], mut check: impl FnMut(usize, &FailureLife)) {
        for (stage, disturbance) in disturbances.iter().enumerate() {
            self.run_stage(stage, disturbance);
            if self.hello.world.exists("state.json") {
                self.delete_unknown();
                self.hello.forget_suspects();
            }
            if stage < 3 {
                assert_eq!(self.hello.ask_counter(), stage as u64 + 1, "{}: the disk's data", self.context);
                let (cloud, recorded_cids) = (self.hello.cloud(), self.hello.recorded_cids());
                if cloud != recorded_cids {
                    self.leaks
                        .push(format!("{}: exists {cloud:?}, recorded {recorded_cids:?}", self.context));
                }
            }
            check(stage, self);
        }
        if self.hello.world.exists("state.json") {
            self.run(3, &[]).success();
        }
        for leftover in self.hello.leftovers() {
            // A later run removes these scratch directories, as soon as no process holds their locks or
            // claims.
            if !leftover.contains("/tmp/monopile-") {
                self.leaks.push(format!("{}: {leftover} is left", self.context));
            }
        }
        for file in ["state.json", "state.json.lock", "state.json.journal"] {
            assert!(!self.hello.world.exists(file), "{}: {file} is left", self.context);
        }
    }
}

/// Runs an undisturbed life, and returns the state after each deploy and the calls of each stage.
fn run_reference_life(info: InfoAnswer) -> ([Value; 3], [Vec<CallPoint>; 4]) {
    let mut states = [Value::Null, Value::Null, Value::Null];
    let mut points: [Vec<CallPoint>; 4] = Default::default();
    let mut life = FailureLife::new(info);
    life.hello.take_requests();
    life.run_stages(&[None, None, None, None], |stage, life| {
        if stage < 3 {
            states[stage] = life.hello.normalised_state();
        }
        let methods: Vec<String> = life
            .hello
            .take_requests()
            .iter()
            .map(|request| request["method"].as_str().unwrap().to_owned())
            .collect();
        for (index, method) in methods.iter().enumerate() {
            let nth = methods[..=index].iter().filter(|other| *other == method).count();
            points[stage].push(CallPoint { method: method.clone(), number: index + 1, nth });
        }
    });
    assert_eq!(life.leaks, Vec::<String>::new());
    (states, points)
}

/// Runs lives that together try the failures at the calls of each stage: a sample, or all with
/// `MONOPILE_SWEEP=full`. Each must end in the state of the undisturbed life.
fn sweep(info: InfoAnswer) {
    let (states, calls) = run_reference_life(info);
    let points = [0, 1, 2, 3].map(|stage: usize| {
        let all: Vec<(CallPoint, Failure)> =
            calls[stage].iter().flat_map(|point| FAILURES.map(|failure| (point.clone(), failure))).collect();
        match is_full_sweep() {
            true => all,
            // The sample is spread over calls and failures, and differs between stages.
            false => {
                let count = if is_long_form() { 4 } else { 2 };
                let point =
                    |index: usize| all[(index * all.len() / count + index + stage * 3) % all.len()].clone();
                (0..count).map(point).collect()
            }
        }
    });
    let life_count = points.iter().map(Vec::len).max().unwrap();
    let lives: Vec<[Disturbance; 4]> = (0..life_count)
        .map(|index| [0, 1, 2, 3].map(|stage: usize| points[stage].get(index).cloned()))
        .collect();
    let start = Instant::now();
    let next = AtomicUsize::new(0);
    let leaks = std::sync::Mutex::new(Vec::new());
    let _wait = crate::support::process::name_wait("the last life");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(disturbances) = lives.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let mut life = FailureLife::new(info);
                    life.run_stages(disturbances, |stage, life| {
                        if stage < 3 {
                            let state = life.hello.normalised_state();
                            assert_eq!(
                                state, states[stage],
                                "{}: another state than undisturbed",
                                life.context
                            );
                        }
                    });
                    leaks.lock().unwrap().extend(life.leaks);
                }
            });
        }
    });
    let leaks = leaks.into_inner().unwrap();
    eprintln!(
        "failures of a CPI with {info:?} for `info`: {} at {} calls in {} lives and {:.0} s; {} leaks",
        points.iter().map(Vec::len).sum::<usize>(),
        calls.iter().map(Vec::len).sum::<usize>(),
        lives.len(),
        start.elapsed().as_secs_f64(),
        leaks.len()
    );
    assert_eq!(leaks, Vec::<String>::new());
}

#[test]
fn failing_cpi_calls_lose_no_resource() {
    sweep(InfoAnswer::Local);
}

#[test]
fn failing_cpi_calls_of_version_1_lose_no_resource() {
    sweep(InfoAnswer::Version(1));
}
