//! Failures outside the program: the CPI's process, the agent, the VM, the whole machine.

use super::{Act, Contract, ConversationPoint, Disturbance, Reference, Side, Sweep, chosen, reference};
use crate::support::scripted::When;

/// Returns the points of a stage: before and after every call, and before or during every message. Several
/// acts take turns.
fn points(reference: &Reference, stage: usize, acts: &[Act]) -> Vec<Disturbance> {
    let sides = [Side::Before, Side::After];
    let calls =
        (1..=reference.calls[stage]).flat_map(|call| sides.map(|side| ConversationPoint::Call(call, side)));
    let messages = (1..=reference.messages[stage]).map(|message| {
        let side = if (message + stage).is_multiple_of(2) { Side::Before } else { Side::During };
        ConversationPoint::Message(message, side)
    });
    let places = calls.chain(messages).enumerate();
    places.map(|(number, place)| Disturbance::At(place, acts[(number + stage) % acts.len()])).collect()
}

#[test]
fn a_cpi_that_is_killed_loses_nothing() {
    let mut sweep = Sweep::new("killed CPI processes");
    for (contract, sample) in chosen([(Contract::V2, 1), (Contract::OldCpi, 0), (Contract::OldStemcell, 1)]) {
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
fn an_agent_that_is_killed_or_started_again_with_its_vm_loses_nothing() {
    let mut sweep = Sweep::new("killed agents and rebooted VMs");
    let acts = [Act::KillAgent, Act::Reboot];
    for act in acts {
        sweep.add(Contract::V2, 1, |stage| points(reference(Contract::V2), stage, &[act]));
    }
    for (contract, sample) in chosen([(Contract::OldCpi, 0), (Contract::OldStemcell, 1)]) {
        sweep.add(contract, sample, |stage| points(reference(contract), stage, &acts));
    }
    sweep.run();
}

#[test]
fn a_machine_that_restarts_loses_nothing() {
    let mut sweep = Sweep::new("machine restarts and VMs switched off");
    let acts = [Act::Restart { booted: true }, Act::SwitchOff, Act::Restart { booted: false }];
    for (contract, sample) in chosen([(Contract::V2, 1), (Contract::OldCpi, 0)]) {
        sweep.add(contract, sample, |stage| points(reference(contract), stage, &acts));
    }
    sweep.run();
}
