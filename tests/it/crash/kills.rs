//! The program is killed at every point of its life.

use std::process::Command;

use super::{Disturbance, full, lives, reference, sweep};
use crate::support::scripted::When;

#[test]
fn killed_at_a_cpi_call_nothing_is_lost() {
    let reference = reference(false);
    let points = if full() {
        [0, 1, 2].map(|stage| {
            let whens = [When::Before, When::Slow, When::During, When::After, When::Lost];
            let calls = 1..=reference.calls[stage];
            calls.flat_map(|call| whens.map(|when| Disturbance::Call(call, when))).collect()
        })
    } else {
        // create: 2 create_stemcell, 3 create_vm, 5 create_disk; redeploy: 3 delete_vm, 4 create_vm,
        // 8 create_disk, 12 delete_disk; delete: 3 delete_vm, 4 delete_disk, 5 delete_stemcell.
        [
            vec![
                Disturbance::Call(2, When::After),
                Disturbance::Call(3, When::Slow),
                Disturbance::Call(3, When::Lost),
                Disturbance::Call(5, When::After),
            ],
            vec![
                Disturbance::Call(4, When::After),
                Disturbance::Call(8, When::During),
                Disturbance::Call(3, When::Before),
                Disturbance::Call(12, When::After),
            ],
            vec![
                Disturbance::Call(3, When::Slow),
                Disturbance::Call(4, When::Lost),
                Disturbance::Call(5, When::After),
                Disturbance::Call(3, When::During),
            ],
        ]
    };
    sweep("kill sweep at CPI calls", &reference, lives(points));
}

#[test]
fn killed_between_calls_nothing_is_lost() {
    let traced = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    let traced = traced.is_ok_and(|status| status.success());
    if !traced {
        eprintln!("strace cannot be used here: the program is killed at random instants only");
    }
    let reference = reference(traced);
    let points = [0, 1, 2].map(|stage| {
        let syscalls = reference.syscalls[stage]
            .iter()
            .flat_map(|(name, count)| (1..=*count).map(|number| Disturbance::Syscall(name, number)));
        // Instants that are spread over the run and the same in every test run.
        let instants = if full() { 70 } else { 1 };
        let length = u64::try_from(reference.times[stage].as_millis()).unwrap();
        let random = (0..instants).map(|number| {
            let scattered = (number * 7919 + 104_729 * stage as u64) % 1000;
            Disturbance::After(length * scattered / 1000)
        });
        let mut points: Vec<Disturbance> = syscalls.collect();
        if !full() && !points.is_empty() {
            points = vec![points.swap_remove(points.len() / 2)];
        }
        points.extend(random);
        points
    });
    sweep("kill sweep between calls", &reference, lives(points));
}
