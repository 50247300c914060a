//! The program is killed at every point of its life.

use super::{Act, Contract, Disturbance, Place, Side, Sweep, full, reference};
use crate::support::scripted::When;

#[test]
fn killed_at_a_cpi_call_nothing_is_lost() {
    let mut sweep = Sweep::new("kill sweep at CPI calls");
    for (contract, sample) in [(Contract::V2, 3), (Contract::OldCpi, 2), (Contract::OldStemcell, 1)] {
        let reference = reference(contract);
        sweep.add(contract, sample, |stage| {
            let whens = [When::Before, When::Slow, When::During, When::After, When::Lost];
            let calls = 1..=reference.calls[stage];
            calls.flat_map(|call| whens.map(|when| Disturbance::Call(call, when))).collect()
        });
    }
    sweep.run();
}

#[test]
fn killed_at_a_message_to_the_agent_nothing_is_lost() {
    let mut sweep = Sweep::new("kill sweep at messages to the agent");
    for contract in Contract::ALL {
        let reference = reference(contract);
        sweep.add(contract, 1, |stage| {
            let messages = 1..=reference.messages[stage];
            let sides = [Side::Before, Side::During, Side::After];
            let places = messages.flat_map(|message| sides.map(|side| Place::Message(message, side)));
            places.map(|place| Disturbance::At(place, Act::Kill)).collect()
        });
    }
    sweep.run();
}

#[test]
fn killed_at_a_durable_write_nothing_is_lost() {
    let mut sweep = Sweep::new("kill sweep at system calls");
    for contract in [Contract::V2, Contract::OldCpi] {
        let reference = reference(contract);
        sweep.add(contract, 1, |stage| {
            let counts = reference.syscalls[stage].iter();
            counts
                .flat_map(|(name, count)| (1..=*count).map(|number| Disturbance::Syscall(name, number)))
                .collect()
        });
    }
    sweep.run();
}

#[test]
fn killed_at_any_instant_nothing_is_lost() {
    let mut sweep = Sweep::new("kill sweep at random instants");
    for contract in Contract::ALL {
        let reference = reference(contract);
        sweep.add(contract, 1, |stage| {
            // Instants that are spread over the run and the same in every test run.
            let instants = if full() { 70 } else { 7 };
            let length = u64::try_from(reference.times[stage].as_millis()).unwrap();
            let at = |number: u64| length * ((number * 7919 + 104_729 * stage as u64) % 1000) / 1000;
            (0..instants).map(|number| Disturbance::After(at(number))).collect()
        });
    }
    sweep.run();
}
