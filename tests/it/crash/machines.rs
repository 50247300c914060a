//! Failures outside the program: the CPI's process, the agent, the VM, the whole machine.

use super::{
    ConversationPoint, Disturbance, LifeSetting, MachineAction, Moment, Reference, Sweep, reference,
    settings_of_run,
};
use crate::support::scripted::Interruption;

/// Returns the points of a stage: before and after every call, and before or during every message. The
/// actions alternate from point to point.
fn points(reference: &Reference, stage: usize, actions: &[MachineAction]) -> Vec<Disturbance> {
    let moments = [Moment::Before, Moment::After];
    let calls = (1..=reference.calls[stage])
        .flat_map(|call| moments.map(|moment| ConversationPoint::Call(call, moment)));
    let messages = (1..=reference.messages[stage]).map(|message| {
        let moment = if (message + stage).is_multiple_of(2) { Moment::Before } else { Moment::During };
        ConversationPoint::Message(message, moment)
    });
    let points = calls.chain(messages).enumerate();
    points.map(|(number, point)| Disturbance::At(point, actions[(number + stage) % actions.len()])).collect()
}

#[test]
fn killing_the_cpi_loses_no_resource() {
    let mut sweep = Sweep::new("killed CPI processes");
    for (setting, sample) in
        settings_of_run([(LifeSetting::V2, 1), (LifeSetting::OldCpi, 0), (LifeSetting::OldStemcell, 0)])
    {
        let reference = reference(setting);
        sweep.add(setting, sample, |stage| {
            let interruptions = [Interruption::DieBefore, Interruption::DieDuring, Interruption::DieAfter];
            let calls = 1..=reference.calls[stage];
            calls.flat_map(|call| interruptions.map(|when| Disturbance::Call(call, when))).collect()
        });
    }
    sweep.run();
}

#[test]
fn killing_the_agent_or_rebooting_the_vm_loses_no_resource() {
    let mut sweep = Sweep::new("killed agents and rebooted VMs");
    let actions = [MachineAction::KillAgent, MachineAction::Reboot];
    for action in actions {
        sweep.add(LifeSetting::V2, 1, |stage| points(reference(LifeSetting::V2), stage, &[action]));
    }
    for (setting, sample) in settings_of_run([(LifeSetting::OldCpi, 0), (LifeSetting::OldStemcell, 0)]) {
        sweep.add(setting, sample, |stage| points(reference(setting), stage, &actions));
    }
    sweep.run();
}

#[test]
fn restarting_the_machine_loses_no_resource() {
    let mut sweep = Sweep::new("machine restarts and VMs switched off");
    let actions = [
        MachineAction::Restart { has_rebooted: true },
        MachineAction::SwitchOff,
        MachineAction::Restart { has_rebooted: false },
    ];
    for (setting, sample) in settings_of_run([(LifeSetting::V2, 1), (LifeSetting::OldCpi, 0)]) {
        sweep.add(setting, sample, |stage| points(reference(setting), stage, &actions));
    }
    sweep.run();
}
