//! Nothing is lost, however a run ends: a real life (create, redeploy with a disk migration, delete) is disturbed
//! at a point, the same command is run again, and the cloud is compared with what the state says.
//!
//! The built-in `local` CPI is the cloud; the scripted CPI stands before it and kills its caller exactly before,
//! during or after a call. Points between the calls are system calls of the program's main thread (each durable
//! write among them), where `strace` kills it or makes the call fail, and random instants.
//!
//! This is the machinery; `kills`, `faults`, `full_disk` and `signals` say what is disturbed. The default run takes a sample;
//! with `MONOPILE_SWEEP=full` every point is taken.

mod faults;
mod full_disk;
mod kills;
mod signals;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::Run;
use crate::support::hello::Hello;
use crate::support::scripted::{Script, Speaks, When};

/// What happens to the program.
#[derive(Debug, Clone, PartialEq)]
enum Disturbance {
    /// Nothing.
    Never,
    /// At a call of the CPI, counted from 1; see [`When`].
    Call(usize, When),
    /// Before this system call of the main thread, counted from 1.
    Syscall(&'static str, usize),
    /// After so many milliseconds.
    After(u64),
    /// This system call of the main thread, counted from 1, fails with this error: once, or from then on.
    Fault { name: &'static str, number: usize, errno: &'static str, lasting: bool },
    /// This signal arrives so many times while a call of the CPI, counted from 1, is at work.
    Signal { call: usize, signal: Signal, times: usize },
}

/// What happens in a life between its creation and its end.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Plot {
    /// Its disk grows.
    Resize,
    /// It moves from one CPI to another and begins with an empty disk there.
    Move,
}

/// How an undisturbed life went.
struct Reference {
    plot: Plot,
    states: [Value; 2],
    calls: [usize; 3],
    /// How often each of [`SYSCALLS`] was called.
    syscalls: [BTreeMap<&'static str, usize>; 3],
    times: [Duration; 3],
}

/// What makes a write durable or takes something away. The main thread also makes each of them for other files
/// (scratch space, packages), which are points as good as any.
const SYSCALLS: [&str; 6] = ["fsync", "rename", "unlink", "linkat", "write", "mkdir"];

#[derive(Default)]
struct Tally {
    points: AtomicUsize,
    /// Points at which there was a run to be kept from its end.
    met: AtomicUsize,
    replaced: AtomicUsize,
    leaks: Mutex<Vec<String>>,
}

/// One life in which each command is disturbed once.
struct Life<'t> {
    plot: Plot,
    hello: Hello,
    tally: &'t Tally,
    place: String,
}

const STAGES: [&str; 3] = ["create", "redeploy", "delete"];

impl<'t> Life<'t> {
    fn new(plot: Plot, tally: &'t Tally) -> Self {
        let mut hello = Hello::new();
        if plot == Plot::Move {
            let [a, b] = ["cloud", "cloud-b"].map(|root| {
                let (root, ip) = (hello.world.path(root).display().to_string(), hello.ip());
                format!("{{root: {root}, agent: {{mbus: \"https://mbus:((mbus_bootstrap_password))@{ip}:6868\"}}}}")
            });
            hello.world.write(
                "cpis.yml",
                format!(
                    "cpis:\n- {{name: a, type: x, exec_path: scripted, properties: {a}}}\n\
                     - {{name: b, type: x, exec_path: scripted, properties: {b}}}\n"
                ),
            );
            hello.ops(
                "zones.yml",
                "- {type: replace, path: /azs?, value: [{name: za, cpi: a}, {name: zb, cpi: b}]}\n\
                 - {type: replace, path: /instance_groups/name=hello/azs?, value: [((az))]}\n",
            );
        }
        Life { plot, hello, tally, place: String::new() }
    }

    /// What changes before the second stage.
    fn turn(&mut self) {
        if self.plot == Plot::Resize {
            self.hello
                .ops("disk.yml", "- {type: replace, path: /disk_pools/name=disks/disk_size, value: 2048}\n");
        }
    }

    fn leak(&self, what: impl std::fmt::Display) {
        self.tally.leaks.lock().unwrap().push(format!("{}: {what}", self.place));
    }

    fn command(&self, stage: usize) -> Command {
        let zone = if stage == 0 { "az=za" } else { "az=zb" };
        let several = ["--cpi-config", "cpis.yml", "-v", zone];
        let several = if self.plot == Plot::Move { &several[..] } else { &[] };
        let (name, own) = match (stage, self.plot) {
            (2, _) => ("delete-env", &["-n"][..]),
            (1, Plot::Move) => ("create-env", &["-n", "--recreate-persistent-disks"][..]),
            _ => ("create-env", &[][..]),
        };
        self.hello.command(name, &[several, own].concat())
    }

    /// Runs a stage's command, disturbed as told, and says whether that kept it from its end.
    fn disturbed(&self, stage: usize, disturbance: &Disturbance) -> (bool, Run) {
        let command = self.command(stage);
        self.hello.script(Script::speaking(Speaks::Local));
        match disturbance {
            Disturbance::Never => (false, self.hello.world.finish(command)),
            Disturbance::Call(number, when) => {
                self.hello.script(Script::at(*number, *when));
                let run = self.hello.world.finish(command);
                (run.code == -1, run)
            }
            Disturbance::Syscall(name, number) => {
                let run = self.injected(&command, name, &format!("signal=SIGKILL:when={number}"));
                (run.code == -1, run)
            }
            Disturbance::Fault { name, number, errno, lasting } => {
                let on = if *lasting { "+" } else { "" };
                let run = self.injected(&command, name, &format!("error={errno}:when={number}{on}"));
                assert!(
                    (0..=5).contains(&run.code),
                    "{}: exit code {}\n{}",
                    self.place,
                    run.code,
                    run.stderr
                );
                (run.code != 0, run)
            }
            Disturbance::Signal { call, signal, times } => {
                let run = self.signalled(&command, *call, *signal, *times);
                // A signal during the last call finds nothing left to stop.
                assert!(
                    run.code == 128 + signal.as_raw() || (run.code == 0 && *times == 1),
                    "{}: exit code {}\n{}",
                    self.place,
                    run.code,
                    run.stderr
                );
                (run.code != 0, run)
            }
            Disturbance::After(milliseconds) => {
                let mut command = command;
                let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                std::thread::sleep(Duration::from_millis(*milliseconds));
                child.kill().unwrap();
                let status = child.wait().unwrap();
                let run =
                    Run { code: status.code().unwrap_or(-1), stdout: String::new(), stderr: String::new() };
                (status.signal().is_some(), run)
            }
        }
    }

    /// Runs the command while a system call is tampered with.
    fn injected(&self, command: &Command, name: &str, how: &str) -> Run {
        let mut strace = Command::new("strace");
        strace.args(["-qq", "-o", "/dev/null", "-e", &format!("trace={name}")]);
        strace.args(["-e", &format!("inject={name}:{how}")]);
        self.hello.world.finish(wrapped(strace, command))
    }

    /// Runs the command and signals it while a call is held.
    fn signalled(&self, command: &Command, call: usize, signal: Signal, times: usize) -> Run {
        self.hello.script(Script::at(call, When::Hold));
        // What ignores a signal (nohup) leaves that to its children, and the program keeps it so.
        let mut env = Command::new("env");
        env.args(["--default-signal=INT", "--default-signal=TERM", "--default-signal=HUP"]);
        let mut command = wrapped(env, command);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        self.hello.wait_until_held();
        let pid = Pid::from_child(&child);
        for _ in 0..times {
            kill_process(pid, signal).unwrap();
            // Two signals that are pending at once arrive as one.
            std::thread::sleep(Duration::from_millis(100));
        }
        if times == 1 {
            self.hello.go();
        }
        let output = child.wait_with_output().unwrap();
        // Whoever insisted has left the call at work: it ends while the next run waits for it.
        self.hello.go();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        Run { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// One stage: the command is disturbed, the cloud looked at, the same command run again, and the cloud compared
    /// with the state.
    fn stage(&mut self, stage: usize, disturbance: &Disturbance) {
        self.place = format!("{}, {disturbance:?}", STAGES[stage]);
        let (disturbed, run) = self.disturbed(stage, disturbance);
        if *disturbance != Disturbance::Never {
            self.tally.points.fetch_add(1, Ordering::SeqCst);
        }
        if !disturbed {
            self.expect(&run, 0);
        } else {
            self.tally.met.fetch_add(1, Ordering::SeqCst);
            self.check_state_is_whole();
            if !matches!(disturbance, Disturbance::Call(_, When::Slow)) {
                self.hello.wait_until_idle();
                let known = self.hello.known();
                for cid in self.hello.cloud().iter().filter(|cid| !known.contains(cid.as_str())) {
                    self.leak(format_args!("{cid} exists, and neither state nor journal knows it"));
                }
            }
            let mut again = self.hello.world.finish(self.command(stage));
            if matches!(disturbance, Disturbance::Call(_, When::Lost)) && again.code == 1 {
                // A call that may have made something and has no answer: the run stops and says what to look for.
                for needed in ["is not known", "look in the IaaS for", "--forget-open-calls"] {
                    let told = again.stdout.clone() + &again.stderr;
                    assert!(told.contains(needed), "{}: {needed} is not in {told}", self.place);
                }
                let mut command = self.command(stage);
                command.arg("--forget-open-calls");
                again = self.hello.world.finish(command);
            }
            // Killed between the removal of the state and its own end: there is nothing left to delete.
            let deleted = stage == 2 && again.code == 3 && again.stderr.contains("there is no state");
            if !deleted {
                self.expect(&again, 0);
            }
        }
        if stage == 2 {
            self.check_nothing_left();
        } else {
            self.check_cloud_is_as_recorded();
        }
    }

    /// The old state or the new one, whatever happened.
    fn check_state_is_whole(&self) {
        let path = self.hello.world.path("state.json");
        let Ok(text) = std::fs::read_to_string(&path) else { return };
        let state: Result<Value, _> = serde_json::from_str(&text);
        assert!(state.is_ok_and(|state| state["director_id"].is_string()), "{}: torn: {text}", self.place);
    }

    fn expect(&self, run: &Run, code: i32) {
        assert_eq!(run.code, code, "{}\n--- stdout\n{}\n--- stderr\n{}", self.place, run.stdout, run.stderr);
    }

    fn check_cloud_is_as_recorded(&self) {
        let cloud = self.hello.cloud();
        let recorded = self.hello.recorded();
        if cloud != recorded {
            self.leak(format_args!("the cloud has {cloud:?} and the state {recorded:?}"));
        }
        for left in ["state.json.journal", "state.json.lock"] {
            assert!(!self.hello.world.exists(left), "{}: {left} is left", self.place);
        }
    }

    fn check_nothing_left(&self) {
        // Scratch directories of killed runs are swept after a day, since a CPI may still read there.
        let left: Vec<String> = self
            .hello
            .leftovers()
            .into_iter()
            .filter(|left| !(left.starts_with("file ") && left.contains("/tmp/monopile-")))
            .collect();
        for left in left {
            self.leak(format_args!("{left} is left"));
        }
        for gone in ["state.json", "state.json.bak", "state.json.lock", "state.json.journal"] {
            assert!(!self.hello.world.exists(gone), "{}: {gone} is left", self.place);
        }
    }

    /// The whole life. `check` sees the state after each deploy.
    fn live(&mut self, disturbances: &[Disturbance; 3], mut check: impl FnMut(usize, &Value, &str)) {
        self.stage(0, &disturbances[0]);
        check(0, &self.hello.normalised_state(), &self.place);
        assert_eq!(self.hello.ask().1, 1, "{}", self.place);
        self.turn();
        self.stage(1, &disturbances[1]);
        check(1, &self.hello.normalised_state(), &self.place);
        let counted = if self.plot == Plot::Move { 1 } else { 2 };
        assert_eq!(self.hello.ask().1, counted, "{}: the disk's data is not what it was", self.place);
        self.stage(2, &disturbances[2]);

        // What was made was taken away once, and nothing was made that an undisturbed life does not need but
        // where a VM or disk that no job ever ran on was replaced. (A move that is run again although it was done
        // recreates the disk, as it is told to.)
        let (made, deleted) = self.hello.effects();
        if made.len() != made.iter().collect::<BTreeSet<_>>().len() {
            self.leak(format_args!("something was made twice: {made:?}"));
        }
        if made.iter().collect::<BTreeSet<_>>() != deleted.iter().collect::<BTreeSet<_>>()
            || made.len() != deleted.len()
        {
            self.leak(format_args!("made {made:?}, deleted {deleted:?}"));
        }
        let stemcells = made.iter().filter(|cid| cid.starts_with("stemcell-")).count();
        let (clouds, needed) = if self.plot == Plot::Move { (2, 6) } else { (1, 5) };
        assert_eq!(stemcells, clouds, "the stemcell was uploaded again: {made:?}");
        self.tally.replaced.fetch_add(made.len() - needed, Ordering::SeqCst);
    }
}

/// `command` as the arguments of `wrapper`, which gets its environment and directory.
fn wrapped(mut wrapper: Command, command: &Command) -> Command {
    wrapper.arg(command.get_program()).args(command.get_args()).env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            wrapper.env(name, value);
        }
    }
    if let Some(directory) = command.get_current_dir() {
        wrapper.current_dir(directory);
    }
    wrapper
}

/// Lives undisturbed and notes what there is to disturb. With `trace`, system calls are counted, too.
fn reference(plot: Plot, trace: bool) -> Reference {
    let tally = Tally::default();
    let mut life = Life::new(plot, &tally);
    let mut states = [Value::Null, Value::Null];
    let mut calls = [0; 3];
    let mut syscalls: [BTreeMap<&str, usize>; 3] = Default::default();
    let mut times = [Duration::ZERO; 3];
    for stage in 0..3 {
        if stage == 1 {
            assert_eq!(life.hello.ask().1, 1);
            life.turn();
        }
        life.hello.script(Script::speaking(Speaks::Local));
        let mut command = life.command(stage);
        let log = life.hello.world.path("trace");
        if trace {
            let mut strace = Command::new("strace");
            strace.args(["-qq", "-e", &format!("trace={}", SYSCALLS.join(",")), "-o"]).arg(&log);
            command = wrapped(strace, &command);
        }
        let begun = Instant::now();
        life.hello.world.finish(command).success();
        times[stage] = begun.elapsed();
        calls[stage] = life.hello.calls("");
        if trace {
            let text = std::fs::read_to_string(&log).unwrap();
            for name in SYSCALLS {
                let count = text.lines().filter(|line| line.starts_with(&format!("{name}("))).count();
                syscalls[stage].insert(name, count);
            }
        }
        if stage < 2 {
            states[stage] = life.hello.normalised_state();
            life.check_cloud_is_as_recorded();
        }
    }
    life.check_nothing_left();
    assert!(tally.leaks.lock().unwrap().is_empty());
    Reference { plot, states, calls, syscalls, times }
}

/// Lives the lives, two at a time, and tells what came of them.
fn sweep(name: &str, reference: &Reference, lives: Vec<[Disturbance; 3]>) {
    let tally = Tally::default();
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(disturbances) = lives.get(next.fetch_add(1, Ordering::SeqCst)) {
                    Life::new(reference.plot, &tally).live(disturbances, |stage, state, place| {
                        assert_eq!(
                            *state, reference.states[stage],
                            "{place}: another state than undisturbed"
                        );
                    });
                }
            });
        }
    });
    let leaks = tally.leaks.into_inner().unwrap();
    eprintln!(
        "{name}: {} points, of which {} kept a run from its end, in {} lives and {:.0} s; \
         {} VMs and disks replaced before any job ran on them; {} leaks",
        tally.points.into_inner(),
        tally.met.into_inner(),
        lives.len(),
        begun.elapsed().as_secs_f64(),
        tally.replaced.into_inner(),
        leaks.len()
    );
    assert_eq!(leaks, Vec::<String>::new());
}

fn full() -> bool {
    std::env::var_os("MONOPILE_SWEEP").is_some_and(|value| value == "full")
}

/// Distributes the points of each stage over as few lives as possible.
fn lives(points: [Vec<Disturbance>; 3]) -> Vec<[Disturbance; 3]> {
    let count = points.iter().map(Vec::len).max().unwrap_or_default();
    let at = |stage: usize, index: usize| points[stage].get(index).cloned().unwrap_or(Disturbance::Never);
    (0..count).map(|index| [at(0, index), at(1, index), at(2, index)]).collect()
}
