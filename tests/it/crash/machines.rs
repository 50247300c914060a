//! Others than the program come to an end: the CPI's process, the agent, the VM, the whole machine.

use super::{Act, Contract, Disturbance, Place, Reference, Side, Sweep, reference};
use crate::support::scripted::When;

/// Before and after every call and every message of a stage.
fn places(reference: &Reference, stage: usize) -> Vec<Place> {
    let sides = [Side::Before, Side::After];
    let calls = (1..=reference.calls[stage]).flat_map(|call| sides.map(|side| Place::Call(call, side)));
    let messages = 1..=reference.messages[stage];
    calls.chain(messages.flat_map(|message| sides.map(|side| Place::Message(message, side)))).collect()
}

fn act(name: &'static str, acts: &[Act], samples: [usize; 3]) {
    let mut sweep = Sweep::new(name);
    for (contract, sample) in Contract::ALL.into_iter().zip(samples) {
        let reference = reference(contract);
        sweep.add(contract, sample, |stage| {
            // Each act has its turn at the places.
            let places = places(reference, stage).into_iter().enumerate();
            places.map(|(number, place)| Disturbance::At(place, acts[number / 2 % acts.len()])).collect()
        });
    }
    sweep.run();
}

#[test]
fn a_cpi_that_is_killed_loses_nothing() {
    let mut sweep = Sweep::new("killed CPI processes");
    for (contract, sample) in Contract::ALL.into_iter().zip([2, 1, 1]) {
        let reference = reference(contract);
        sweep.add(contract, sample, |stage| {
            let whens = [When::DieBefore, When::DieDuring, When::DieAfter];
            let calls = 1..=reference.calls[stage];
            calls.flat_map(|call| whens.map(|when| Disturbance::Call(call, when))).collect()
        });
    }
    sweep.run();
}

#[test]
fn an_agent_that_is_killed_loses_nothing() {
    act("killed agents", &[Act::KillAgent], [1, 1, 0]);
}

#[test]
fn a_vm_that_boots_again_loses_nothing() {
    act("rebooted VMs", &[Act::Reboot], [1, 1, 0]);
}

#[test]
fn a_vm_that_is_switched_off_loses_nothing() {
    act("VMs switched off", &[Act::SwitchOff], [1, 0, 0]);
}

#[test]
fn a_machine_that_restarts_loses_nothing_and_harms_nobody() {
    let acts = [Act::Restart { booted: true }, Act::Restart { booted: false }];
    act("machine restarts", &acts, [1, 1, 0]);
}
