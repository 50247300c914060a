//! Two machines that share only a bucket and the cloud: a run is killed on one, and the other continues.

use super::{
    ConversationPoint, Disturbance, LifeSetting, MachineAction, Moment, Sweep, reference, settings_of_run,
};
use crate::support::scripted::Interruption;

#[test]
fn another_machine_resumes_after_a_kill_at_a_cpi_call() {
    let mut sweep = Sweep::new("kill sweep at CPI calls, two machines");
    for (setting, sample) in settings_of_run([(LifeSetting::Shared, 1), (LifeSetting::SharedOldCpi, 0)]) {
        let reference = reference(setting);
        sweep.add(setting, sample, |stage| {
            let interruptions = [
                Interruption::Before,
                Interruption::Slow,
                Interruption::During,
                Interruption::After,
                Interruption::Lost,
            ];
            let calls = 1..=reference.calls[stage];
            calls.flat_map(|call| interruptions.map(|when| Disturbance::Call(call, when))).collect()
        });
    }
    sweep.run();
}

#[test]
fn another_machine_resumes_after_a_kill_at_a_bucket_request() {
    let mut sweep = Sweep::new("kill sweep at requests to the bucket, two machines");
    for (setting, sample) in settings_of_run([(LifeSetting::Shared, 1), (LifeSetting::SharedOldCpi, 0)]) {
        let step = if setting == LifeSetting::Shared { 1 } else { 3 };
        let reference = reference(setting);
        sweep.add(setting, sample, |stage| {
            let requests = reference.syscalls[stage].iter().filter(|call| call.is_durable).step_by(step);
            requests.map(|call| Disturbance::Syscall(call.name, call.number)).collect()
        });
    }
    sweep.run();
}

#[test]
fn another_machine_resumes_after_a_kill_at_any_instant() {
    let mut sweep = Sweep::new("kill sweep at messages and random instants, two machines");
    let reference = reference(LifeSetting::Shared);
    sweep.add(LifeSetting::Shared, 1, |stage| {
        let messages = 1..=reference.messages[stage];
        let moments = [Moment::Before, Moment::During, Moment::After];
        let points =
            messages.flat_map(|message| moments.map(|moment| ConversationPoint::Message(message, moment)));
        points.map(|point| Disturbance::At(point, MachineAction::Kill)).collect()
    });
    // The default run has random instants on one machine only.
    sweep.add(LifeSetting::Shared, 0, |stage| {
        let length = u64::try_from(reference.times[stage].as_millis()).unwrap();
        let instant = |number: u64| length * ((number * 7919 + 104_729 * stage as u64) % 1000) / 1000;
        (0..20).map(|number| Disturbance::After(instant(number))).collect()
    });
    sweep.run();
}

#[test]
fn another_machine_resumes_after_the_first_is_lost() {
    let mut sweep = Sweep::new("machines that are no more, another goes on");
    let reference = reference(LifeSetting::Shared);
    sweep.add(LifeSetting::Shared, 1, |stage| {
        let moments = [Moment::Before, Moment::After];
        let calls = (1..=reference.calls[stage])
            .flat_map(|call| moments.map(|moment| ConversationPoint::Call(call, moment)));
        calls.map(|point| Disturbance::At(point, MachineAction::Restart { has_rebooted: true })).collect()
    });
    sweep.run();
}
