//! Kills the program at every point of its life.

use super::life::RECREATE;
use super::{
    ConversationPoint, Disturbance, LifeSetting, MachineAction, Moment, Sweep, reference, settings_of_run,
};
use crate::support::is_long_form;
use crate::support::scripted::Interruption;

#[test]
fn kill_at_a_cpi_call_loses_no_resource() {
    let mut sweep = Sweep::new("kill sweep at CPI calls");
    let samples = [
        (LifeSetting::V2, 1),
        (LifeSetting::OldCpi, 1),
        (LifeSetting::OldStemcell, 0),
        (LifeSetting::Userland, 1),
    ];
    for (setting, sample) in settings_of_run(samples) {
        let reference = reference(setting);
        sweep.add(setting, sample, |stage| {
            let interruptions = [
                Interruption::Lost,
                Interruption::Slow,
                Interruption::After,
                Interruption::During,
                Interruption::Before,
            ];
            // A sample must have the call that changes a disk in place.
            let calls = match stage {
                RECREATE if !is_long_form() => reference.resize..=reference.resize,
                _ => 1..=reference.calls[stage],
            };
            calls.flat_map(|call| interruptions.map(|when| Disturbance::Call(call, when))).collect()
        });
    }
    sweep.run();
}

#[test]
fn kill_at_an_agent_message_loses_no_resource() {
    let mut sweep = Sweep::new("kill sweep at messages to the agent");
    let samples = [
        (LifeSetting::V2, 1),
        (LifeSetting::OldCpi, 0),
        (LifeSetting::OldStemcell, 0),
        (LifeSetting::Userland, 0),
    ];
    for (setting, sample) in settings_of_run(samples) {
        let reference = reference(setting);
        sweep.add(setting, sample, |stage| {
            let messages = 1..=reference.messages[stage];
            let moments = [Moment::Before, Moment::During, Moment::After];
            let points = messages.flat_map(|message| moments.map(|moment| (message, moment)));
            // Messages in other settings are nearly the same, so each is tried at only one moment.
            let selected_points = points.enumerate().filter(|(index, _)| {
                setting == LifeSetting::V2 || (index / 3 + setting as usize) % 3 == index % 3
            });
            selected_points
                .map(|(_, (message, moment))| {
                    Disturbance::At(ConversationPoint::Message(message, moment), MachineAction::Kill)
                })
                .collect()
        });
    }
    sweep.run();
}

#[test]
fn kill_at_a_durable_write_loses_no_resource() {
    let mut sweep = Sweep::new("kill sweep at durable writes");
    // In other settings, the same code writes, so a third of its writes is enough.
    let samples = [(LifeSetting::V2, 1), (LifeSetting::OldCpi, 0), (LifeSetting::Userland, 0)];
    for (setting, sample) in settings_of_run(samples) {
        let step = if setting == LifeSetting::V2 { 1 } else { 3 };
        let reference = reference(setting);
        sweep.add(setting, sample, |stage| {
            // The moment before an open is the same as after the call before it.
            let durable =
                reference.syscalls[stage].iter().filter(|call| call.is_durable && call.name != "openat");
            durable.step_by(step).map(|call| Disturbance::Syscall(call.name, call.number)).collect()
        });
    }
    sweep.run();
}

#[test]
fn kill_at_any_instant_loses_no_resource() {
    let mut sweep = Sweep::new("kill sweep at random instants");
    let samples = [
        (LifeSetting::V2, 1),
        (LifeSetting::OldCpi, 0),
        (LifeSetting::OldStemcell, 0),
        (LifeSetting::Userland, 1),
    ];
    for (setting, sample) in settings_of_run(samples) {
        let is_v1 = matches!(setting, LifeSetting::OldCpi | LifeSetting::OldStemcell);
        let instants = if is_v1 { 10 } else { 40 };
        let reference = reference(setting);
        sweep.add(setting, sample, |stage| {
            // The moments are spread over the run, and are the same in every test run.
            let length = u64::try_from(reference.times[stage].as_millis()).unwrap();
            let instant = |number: u64| length * ((number * 7919 + 104_729 * stage as u64) % 1000) / 1000;
            (0..instants).map(|number| Disturbance::After(instant(number))).collect()
        });
    }
    sweep.run();
}
