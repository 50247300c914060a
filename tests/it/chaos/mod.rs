//! Chaos: random lives of an environment whose CPI misbehaves, whose operator makes mistakes, whose commands
//! are interrupted and killed, and whose network stalls.
//!
//! The cloud is that of the built-in `local` CPI, with real agents. The scripted CPI before it misbehaves and
//! keeps an inventory of its own: a ledger of what each request created and deleted. A proxy before the agent
//! stalls. A running VM, a disk, a snapshot and a stemcell of others are in the same cloud. A life is drawn
//! from its seed: some commands with their disturbances, and then the recovery. In lives whose seed is
//! divisible by four, the CPI is compiled and runs in a userland.
//!
//! Checked after each command, against the inventory and not against the state:
//!
//! - Everything that exists is on record (state, open calls) or was reported when its record was dropped. A
//!   VM whose agent answers stays on record. A record may be dropped without a report only if the CPI
//!   answered that it deleted the resource.
//! - Nothing is deleted that the command was not asked to delete: the VM on which the manifest is deployed,
//!   the disk with its data, snapshots, and things of others.
//! - The command ends by itself or soon after an interrupt, with a documented exit code, without a panic
//!   and without a secret in its output.
//!
//! Checked at the end: following messages and documentation leads to a working deployment with its data, and
//! then to an empty cloud, in a few commands each.
//!
//! The CPI misbehaves in 25 ways, at one call of a method, at the second, or from one on:
//!
//! | misbehaviour | what it does |
//! |---|---|
//! | dies before the effect | its process is killed before it has done anything |
//! | dies during the effect | its process is killed at work |
//! | dies after the effect | its process is killed before it answers |
//! | answers nothing | has the effect and ends without a word |
//! | answers half | writes the first bytes of its answer |
//! | answers twice | writes its answer twice |
//! | answers with duplicate keys | writes two results in one object |
//! | answers in another encoding | writes bytes that are no UTF-8 |
//! | logs into the answer | writes a line of its log first |
//! | answers junk | writes a page of HTML |
//! | answers a result and an error | writes both |
//! | answers with an empty CID | has the effect and names nothing |
//! | invents a CID | names something that does not exist |
//! | fails after the effect | answers an error for what it has done |
//! | fails after the effect and wants a retry | the same with `ok_to_retry` |
//! | denies the method after the effect | answers `NotImplemented` for what it has done |
//! | fails without the effect | answers an error |
//! | leaves a child with the answer | a child keeps the answer's file open |
//! | fails, and has the effect later | a child has the effect after the error |
//! | hangs | does not end; later it goes on or is killed |
//! | denies what exists | `has_vm` or `has_disk` is false |
//! | knows no attached disks | `get_disks` is `[]` |
//! | claims that everything exists | `has_vm` or `has_disk` is true |
//! | pretends to delete | answers success and deletes nothing |
//! | makes noise and exits with 3 | writes random bytes to its log |
//!
//! `MONOPILE_CHAOS=60` runs random lives for 60 seconds, `MONOPILE_CHAOS_SEED=N` runs one, and
//! `MONOPILE_CHAOS_STEPS=0,3` only these steps of it.

mod inventory;
mod life;
mod misbehaviours;
mod mistakes;
mod recovery;
mod schedule;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use life::{ChaosLife, Counts};
use misbehaviours::MISBEHAVIOURS;

use crate::support::number_from_environment as number;
use crate::support::process::name_wait;

/// The seeds of the default run.
const SEEDS: [u64; 5] = [1, 2, 3, 4, 8];
/// In the lives of seeds that this number divides, the CPI runs in a userland.
const USERLAND_SEEDS: u64 = 4;
/// The number of lives at once, unless fewer tests run at once. A life mostly waits.
const PARALLEL_LIVES: u64 = 4;

/// Runs the life of a seed. Returns the message of its failure.
fn run_life(seed: u64, total: &Arc<Mutex<Counts>>) -> Result<(), String> {
    let steps: Option<Vec<usize>> = std::env::var("MONOPILE_CHAOS_STEPS")
        .ok()
        .map(|steps| steps.split(',').map(|step| step.parse().unwrap()).collect());
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut life = ChaosLife::new(total, seed.is_multiple_of(USERLAND_SEEDS));
        for (number, step) in schedule::draw_steps(seed).iter().enumerate() {
            if steps.as_ref().is_none_or(|steps| steps.contains(&number)) {
                life.take_step(number, step);
            }
        }
        life.recover();
    }));
    result.map_err(|panic| {
        let message = panic.downcast_ref::<String>().cloned();
        message.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
    })
}

/// Runs the lives of `next` seeds, some at once, and reports them.
fn run_lives(next: impl Fn() -> Option<u64> + Sync) {
    let start = Instant::now();
    let (total, failures) = (Arc::<Mutex<Counts>>::default(), Mutex::new(BTreeMap::new()));
    let ended_well = AtomicU64::new(0);
    let _wait = name_wait("the last life of the chaos");
    std::thread::scope(|scope| {
        for _ in 0..number("RUST_TEST_THREADS").map_or(PARALLEL_LIVES, |threads| threads.min(PARALLEL_LIVES))
        {
            scope.spawn(|| {
                while let Some(seed) = next() {
                    let life = Instant::now();
                    let result = run_life(seed, &total);
                    let seconds = life.elapsed().as_secs_f64();
                    match result {
                        Ok(()) => {
                            eprintln!("chaos: seed {seed} ended well after {seconds:.1} s");
                            ended_well.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(what) => {
                            eprintln!("chaos: seed {seed} FAILED after {seconds:.1} s: {what}");
                            failures.lock().unwrap().insert(seed, what);
                        }
                    }
                }
            });
        }
    });
    let (counts, failures) = (total.lock().unwrap(), failures.into_inner().unwrap());
    eprintln!(
        "chaos: {} lives ended well and {} failed in {:.0} s; {} commands by exit code {:?}, {} of them for \
         recovery; {} signals; {} CPI calls",
        ended_well.into_inner(),
        failures.len(),
        start.elapsed().as_secs_f64(),
        counts.codes.values().sum::<usize>(),
        counts.codes,
        counts.recovery,
        counts.signals,
        counts.calls
    );
    let failures: Vec<String> = failures
        .into_iter()
        .map(|(seed, what)| format!("=== seed {seed} (tests/run --chaos-seed {seed}): {what}"))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn random_sequences_lose_no_resource() {
    let sequence = AtomicU64::new(0);
    let position = || sequence.fetch_add(1, Ordering::SeqCst);
    match (number("MONOPILE_CHAOS_SEED"), number("MONOPILE_CHAOS")) {
        (Some(seed), _) => run_lives(|| (position() == 0).then_some(seed)),
        (None, Some(seconds)) => {
            let end = Instant::now() + Duration::from_secs(seconds);
            // Seeds of different runs differ.
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            let first = now % 1_000_000 * 1000;
            run_lives(|| (Instant::now() < end).then(|| first + position()));
        }
        (None, None) => {
            run_lives(|| SEEDS.get(usize::try_from(position()).unwrap()).copied());
        }
    }
}

#[test]
fn documentation_lists_the_misbehaviours() {
    let documented_names: Vec<&str> = include_str!("mod.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//! | ")?.split(" | ").next())
        .skip(1)
        .collect();
    let names: Vec<&str> = MISBEHAVIOURS.iter().map(|misbehaviour| misbehaviour.name).collect();
    assert_eq!(documented_names, names);
}
