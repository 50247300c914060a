//! Two machines that share only a bucket and the cloud: a run is killed on one, and the other continues.

use super::{Act, Contract, ConversationPoint, Disturbance, Side, Sweep, chosen, reference};
use crate::support::scripted::When;

#[test]
fn killed_at_a_cpi_call_another_machine_goes_on() {
    let mut sweep = Sweep::new("kill sweep at CPI calls, two machines");
    for (contract, sample) in chosen([(Contract::Shared, 1), (Contract::SharedOldCpi, 1)]) {
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
fn killed_at_a_request_to_the_bucket_another_machine_goes_on() {
    let mut sweep = Sweep::new("kill sweep at requests to the bucket, two machines");
    for (contract, sample) in chosen([(Contract::Shared, 1), (Contract::SharedOldCpi, 0)]) {
        let step = if contract == Contract::Shared { 1 } else { 3 };
        let reference = reference(contract);
        sweep.add(contract, sample, |stage| {
            let requests = reference.syscalls[stage].iter().filter(|call| call.durable).step_by(step);
            requests.map(|call| Disturbance::Syscall(call.name, call.number)).collect()
        });
    }
    sweep.run();
}

#[test]
fn killed_at_a_message_or_any_instant_another_machine_goes_on() {
    let mut sweep = Sweep::new("kill sweep at messages and random instants, two machines");
    let reference = reference(Contract::Shared);
    sweep.add(Contract::Shared, 1, |stage| {
        let messages = 1..=reference.messages[stage];
        let sides = [Side::Before, Side::During, Side::After];
        let places = messages.flat_map(|message| sides.map(|side| ConversationPoint::Message(message, side)));
        places.map(|place| Disturbance::At(place, Act::Kill)).collect()
    });
    sweep.add(Contract::Shared, 1, |stage| {
        let length = u64::try_from(reference.times[stage].as_millis()).unwrap();
        let at = |number: u64| length * ((number * 7919 + 104_729 * stage as u64) % 1000) / 1000;
        (0..20).map(|number| Disturbance::After(at(number))).collect()
    });
    sweep.run();
}

#[test]
fn a_machine_that_is_no_more_leaves_nothing_that_another_does_not_find() {
    let mut sweep = Sweep::new("machines that are no more, another goes on");
    let reference = reference(Contract::Shared);
    sweep.add(Contract::Shared, 1, |stage| {
        let sides = [Side::Before, Side::After];
        let calls = (1..=reference.calls[stage])
            .flat_map(|call| sides.map(|side| ConversationPoint::Call(call, side)));
        calls.map(|place| Disturbance::At(place, Act::Restart { booted: true })).collect()
    });
    sweep.run();
}
