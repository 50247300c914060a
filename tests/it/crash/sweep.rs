//! Runs many lives at once and collects their results.

use crate::support::process::{RunToEnd, name_wait, prepare};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::disturbance::{Disturbance, wrap_command};
use super::life::{CrashLife, LifeSetting, RECREATE, SKIPPABLE_STAGES, STAGES};
use crate::support::hello::Hello;
use crate::support::{is_full_sweep, is_long_form, sweep_choice};

/// The number of concurrent lives in a sample and in a sweep. A life mostly waits.
const PARALLEL_LIVES: (usize, usize) = (4, 10);

/// System calls that create, write, sync or remove files. Opens count only if they create a file.
const SYSCALLS: [&str; 7] = ["openat", "fsync", "rename", "unlink", "linkat", "write", "mkdir"];

/// System calls that exchange requests and answers with a bucket.
const EXCHANGES: [&str; 2] = ["sendto", "recvfrom"];

/// A system call of the program's main thread.
pub(super) struct Syscall {
    /// One of [`SYSCALLS`].
    pub name: &'static str,
    /// Its number among calls of this name, from 1.
    pub number: usize,
    /// True if it concerns the state, the journal, the lock or the vars store. Other calls concern the log,
    /// scratch directories and packages.
    pub is_durable: bool,
    /// True if it is the first call of this name for this file, apart from random parts of the path.
    pub is_first: bool,
}

/// The disturbances for each stage.
type Disturbances = [Vec<Disturbance>; STAGES.len()];

/// The record of an undisturbed life.
#[derive(Default)]
pub(super) struct Reference {
    states: [Value; STAGES.len()],
    /// The number of CPI calls of each stage.
    pub calls: [usize; STAGES.len()],
    /// The number of the call that grows the disk, among the CPI calls of its stage.
    pub resize: usize,
    /// The number of messages to the agent in each stage. Repeated queries count once.
    pub messages: [usize; STAGES.len()],
    /// The file system calls of the main thread in each stage.
    pub syscalls: [Vec<Syscall>; STAGES.len()],
    /// The duration of each stage.
    pub times: [Duration; STAGES.len()],
}

/// Counts the outcomes of lives.
#[derive(Default)]
pub(super) struct Tally {
    points: AtomicUsize,
    /// The number of points at which a run was stopped before its end.
    reached_count: AtomicUsize,
    replaced_count: AtomicUsize,
    leaks: Mutex<Vec<String>>,
    failures: Mutex<Vec<String>>,
}

impl Tally {
    pub(super) fn add_leak(&self, leak: String) {
        self.leaks.lock().unwrap().push(leak);
    }

    pub(super) fn count_point(&self, disturbance: &Disturbance, was_reached: bool) {
        if *disturbance != Disturbance::Never {
            self.points.fetch_add(1, Ordering::SeqCst);
            self.reached_count.fetch_add(usize::from(was_reached), Ordering::SeqCst);
        }
    }

    pub(super) fn count_replaced(&self, count: usize) {
        self.replaced_count.fetch_add(count, Ordering::SeqCst);
    }
}

/// Returns the record of an undisturbed life, made once for all tests.
pub(super) fn reference(setting: LifeSetting) -> &'static Reference {
    static REFERENCES: [OnceLock<Reference>; 6] = [const { OnceLock::new() }; 6];
    let index = LifeSetting::LOCAL_STATE_SETTINGS
        .iter()
        .chain(&LifeSetting::SHARED_STATE_SETTINGS)
        .position(|other| *other == setting)
        .unwrap();
    REFERENCES[index].get_or_init(|| run_undisturbed(setting))
}

/// Runs an undisturbed life and records what can be disturbed in it: the CPI calls, messages and system calls
/// of each stage.
fn run_undisturbed(setting: LifeSetting) -> Reference {
    let strace_check = prepare("strace").args(["-qq", "-o", "/dev/null", "true"]).run_to_end();
    assert!(strace_check.status.success(), "this test needs strace, and the right to trace");
    let tally = Tally::default();
    let mut reference = Reference::default();
    let mut states: [Value; STAGES.len()] = Default::default();
    CrashLife::new(setting, &tally).run_stages(
        |_| true,
        |life, stage| {
            life.reset_disturbances();
            life.hello.take_requests();
            let log = life.hello.world.path("trace");
            let mut strace = prepare("strace");
            let names = if setting.is_shared() { &EXCHANGES[..] } else { &SYSCALLS[..] };
            strace.args(["-qq", "-y", "-e", &format!("trace={}", names.join(",")), "-o"]).arg(&log);
            let command = wrap_command(strace, &life.command(stage));
            let start = Instant::now();
            life.hello.world.finish(command).success();
            reference.times[stage] = start.elapsed();
            reference.calls[stage] = life.hello.calls("");
            if stage == RECREATE {
                let requests = life.hello.take_requests();
                let methods = Hello::methods(&requests);
                reference.resize = 1 + methods.iter().position(|name| *name == "resize_disk").unwrap();
            }
            reference.messages[stage] = life.gate.count();
            let trace = std::fs::read_to_string(&log).unwrap();
            reference.syscalls[stage] =
                if setting.is_shared() { exchanges(&trace) } else { syscalls(&trace) };
        },
        |stage, state, _| states[stage] = state.clone(),
    );
    reference.states = states;
    eprintln!(
        "an undisturbed life under {setting:?}: CPI calls {:?}, messages {:?}, system calls for durable \
            writes {:?}",
        reference.calls,
        reference.messages,
        reference.syscalls.each_ref().map(|calls| calls.iter().filter(|call| call.is_durable).count())
    );
    assert_eq!(*tally.leaks.lock().unwrap(), Vec::<String>::new());
    reference
}

/// Returns requests to a bucket and the beginnings of their answers.
fn exchanges(trace: &str) -> Vec<Syscall> {
    let (mut counts, mut calls, mut awaits_answer) = ([0; EXCHANGES.len()], Vec::new(), false);
    for line in trace.lines() {
        let Some(kind) = EXCHANGES.iter().position(|name| line.starts_with(&format!("{name}("))) else {
            continue;
        };
        counts[kind] += 1;
        let is_sent = EXCHANGES[kind] == "sendto";
        let is_request = is_sent
            && ["PUT ", "GET ", "DELETE ", "POST "].iter().any(|verb| line.contains(&format!("\"{verb}")));
        let is_durable = if is_sent { is_request } else { std::mem::take(&mut awaits_answer) };
        awaits_answer |= is_request;
        calls.push(Syscall { name: EXCHANGES[kind], number: counts[kind], is_durable, is_first: false });
    }
    calls
}

fn syscalls(trace: &str) -> Vec<Syscall> {
    let random = regex::Regex::new(r"[0-9a-f-]{36}|monopile-\w{6}|\.\w{6}\.|#?\d+").unwrap();
    let (mut counts, mut kinds) = (BTreeMap::<&str, usize>::new(), BTreeSet::new());
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some(name) = SYSCALLS.into_iter().find(|name| line.starts_with(&format!("{name}("))) else {
            continue;
        };
        let count = counts.entry(name).or_default();
        *count += 1;
        // The written text follows the file.
        let index = line.split(", \"").next().filter(|_| name == "write").unwrap_or(line);
        let is_durable = index.contains("state.json") || index.contains("creds.yml");
        let is_durable = is_durable && (name != "openat" || line.contains("O_CREAT"));
        let is_first = kinds.insert((name, random.replace_all(index, "").into_owned()));
        calls.push(Syscall { name, number: *count, is_durable, is_first });
    }
    calls
}

/// Returns the settings of this run with their samples. A setting with an empty sample is tried only in
/// longer sweeps.
pub(super) fn settings_of_run<const N: usize>(
    samples: [(LifeSetting, usize); N],
) -> impl Iterator<Item = (LifeSetting, usize)> {
    samples.into_iter().filter(|(_, sample)| *sample > 0 || is_long_form())
}

/// The lives of a sweep.
pub(super) struct Sweep {
    name: &'static str,
    lives: Vec<(LifeSetting, [Disturbance; STAGES.len()])>,
    start: Instant,
}

impl Sweep {
    /// Creates an empty sweep.
    pub(super) fn new(name: &'static str) -> Sweep {
        Sweep { name, lives: Vec::new(), start: Instant::now() }
    }

    /// Adds the points of each stage, distributed over as few lives as possible. A sample has at most
    /// `sample` lives, with spread points that differ between stages.
    pub(super) fn add(
        &mut self,
        setting: LifeSetting,
        sample: usize,
        points: impl Fn(usize) -> Vec<Disturbance>,
    ) {
        let mut all: Disturbances = std::array::from_fn(points);
        if !is_full_sweep() {
            let sample = sweep_choice().map_or(sample, |count| count.parse().unwrap());
            for (stage, points) in all.iter_mut().enumerate() {
                let (length, start) = (points.len(), stage * 31 + 17 * (setting as usize) + points.len() / 2);
                let sample_size = sample.min(length);
                *points = (0..sample_size)
                    .map(|index| points[(start + index * length / sample_size) % length].clone())
                    .collect();
            }
        }
        let count = all.iter().map(Vec::len).max().unwrap_or_default();
        for life in 0..count {
            let disturbance = |stage: usize| all[stage].get(life).cloned().unwrap_or(Disturbance::Never);
            self.lives.push((setting, std::array::from_fn(disturbance)));
        }
    }

    /// Runs all lives, some at a time, and reports the results.
    pub(super) fn run(self) {
        let tally = Tally::default();
        let next = AtomicUsize::new(0);
        let thread_count = if is_long_form() { PARALLEL_LIVES.1 } else { PARALLEL_LIVES.0 };
        let _wait = name_wait("the last life of the sweep");
        std::thread::scope(|scope| {
            for _ in 0..thread_count.min(self.lives.len()) {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::SeqCst);
                        let Some((setting, disturbances)) = self.lives.get(number) else { break };
                        run_life(*setting, disturbances, &tally);
                        if (number + 1).is_multiple_of(25) {
                            eprintln!("{}: {} of {} lives", self.name, number + 1, self.lives.len());
                        }
                    }
                });
            }
        });
        let (leaks, failures) = (tally.leaks.into_inner().unwrap(), tally.failures.into_inner().unwrap());
        eprintln!(
            "{}: {} points, of which {} kept a run from its end, in {} lives and {:.0} s; {} VMs and disks \
             replaced before any job ran on them; {} leaks, {} other failures",
            self.name,
            tally.points.into_inner(),
            tally.reached_count.into_inner(),
            self.lives.len(),
            self.start.elapsed().as_secs_f64(),
            tally.replaced_count.into_inner(),
            leaks.len(),
            failures.len()
        );
        assert!(leaks.is_empty() && failures.is_empty(), "{}\n{}", leaks.join("\n"), failures.join("\n"));
    }
}

/// Runs one life. A failure does not stop the others.
fn run_life(setting: LifeSetting, disturbances: &[Disturbance; STAGES.len()], tally: &Tally) {
    let reference = reference(setting);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        CrashLife::new(setting, tally).run_stages(
            |stage| !SKIPPABLE_STAGES.contains(&stage) || disturbances[stage] != Disturbance::Never,
            |life, stage| life.run_stage(stage, &disturbances[stage]),
            |stage, state, index| {
                assert_eq!(*state, reference.states[stage], "{index}: another state than undisturbed");
            },
        );
    }));
    if let Err(panic) = outcome {
        let message = panic.downcast_ref::<String>().cloned();
        let message =
            message.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
        tally.failures.lock().unwrap().push(format!("{setting:?}, {disturbances:?}: {message}"));
    }
}
