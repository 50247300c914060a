//! The program is killed at every point of its life.

use std::process::Command;

use super::{Disturbance, Plot, full, lives, reference, sweep};
use crate::support::scripted::When;

#[test]
fn killed_at_a_cpi_call_nothing_is_lost() {
    let reference = reference(Plot::Resize, false);
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
fn killed_while_it_moves_nothing_is_lost() {
    let reference = reference(Plot::Move, false);
    let points = if full() {
        let whens = [When::Before, When::Slow, When::During, When::After, When::Lost];
        let calls = 1..=reference.calls[1];
        [
            Vec::new(),
            calls.flat_map(|call| whens.map(|when| Disturbance::Call(call, when))).collect(),
            Vec::new(),
        ]
    } else {
        // 1 info of b and 2 of a, 3 create_stemcell, 4 has_vm, 5 delete_vm, 6 create_vm, 8 create_disk, 9 attach_disk,
        // then has_disk and delete_disk, and delete_stemcell as the last one.
        let last = reference.calls[1];
        let moves = [
            Disturbance::Call(3, When::After),
            Disturbance::Call(5, When::After),
            Disturbance::Call(6, When::Slow),
            Disturbance::Call(8, When::After),
            Disturbance::Call(9, When::After),
            Disturbance::Call(last - 1, When::During),
            Disturbance::Call(last, When::After),
        ];
        [Vec::new(), moves.to_vec(), Vec::new()]
    };
    sweep("kill sweep of a move", &reference, lives(points));
}

#[test]
fn killed_between_calls_nothing_is_lost() {
    let traced = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    let traced = traced.is_ok_and(|status| status.success());
    if !traced {
        eprintln!("strace cannot be used here: the program is killed at random instants only");
    }
    let reference = reference(Plot::Resize, traced);
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
