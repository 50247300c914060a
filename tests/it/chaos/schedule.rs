//! The steps of a life, drawn from its seed before the life begins.

use std::fmt;

use super::misbehaviours::{MISBEHAVIOURS, Misbehaviour};
use crate::support::dice::Dice;
use crate::support::gate::Moment;
use crate::support::scripted::Interruption;

/// A command of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperatorCommand {
    Create,
    /// `create-env --recreate`.
    CreateWithRecreate,
    Delete,
    Recreate,
    /// `cloud-check --auto`.
    Repair,
    /// `cloud-check --report`.
    Report,
    Restart,
    Stop,
    Start,
    /// `take-snapshot`.
    Snapshot,
    /// `delete-snapshot` of the oldest snapshot on record.
    DropSnapshot,
    Plan,
    Status,
    Verify,
    Show,
}

impl OperatorCommand {
    /// Returns the methods at which the CPI may misbehave during the command, the likely ones more than once.
    fn methods(self) -> &'static [&'static str] {
        match self {
            OperatorCommand::Create => &[
                "create_stemcell",
                "create_vm",
                "create_vm",
                "create_disk",
                "create_disk",
                "attach_disk",
                "delete_vm",
                "delete_disk",
                "delete_stemcell",
                "has_vm",
                "detach_disk",
                "set_vm_metadata",
                "info",
            ],
            OperatorCommand::CreateWithRecreate | OperatorCommand::Recreate => &[
                "delete_vm",
                "delete_vm",
                "create_vm",
                "create_vm",
                "attach_disk",
                "has_vm",
                "create_stemcell",
                "create_disk",
                "delete_stemcell",
                "set_vm_metadata",
            ],
            OperatorCommand::Delete => &[
                "has_vm",
                "delete_vm",
                "delete_vm",
                "delete_disk",
                "delete_disk",
                "delete_snapshot",
                "delete_stemcell",
                "info",
            ],
            OperatorCommand::Snapshot => &["snapshot_disk", "snapshot_disk", "snapshot_disk", "info"],
            OperatorCommand::DropSnapshot => {
                &["delete_snapshot", "delete_snapshot", "delete_snapshot", "info"]
            }
            OperatorCommand::Repair => {
                &["has_vm", "has_disk", "get_disks", "get_disks", "reboot_vm", "delete_vm", "create_vm"]
            }
            OperatorCommand::Report | OperatorCommand::Status | OperatorCommand::Verify => {
                &["has_vm", "has_disk", "get_disks", "info"]
            }
            OperatorCommand::Restart
            | OperatorCommand::Stop
            | OperatorCommand::Start
            | OperatorCommand::Plan
            | OperatorCommand::Show => &[],
        }
    }

    /// Returns true if the command deploys the manifest.
    pub(super) fn deploys(self) -> bool {
        matches!(self, OperatorCommand::Create | OperatorCommand::CreateWithRecreate)
    }
}

/// A change of the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A property, which the running VM can take.
    Property,
    /// Another size of the disk. Its data must move.
    Disk,
    /// Another version of the stemcell.
    Stemcell,
    /// Another password of the agent.
    Password,
}

/// An act on the machines when a call or message is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MachineAction {
    KillAgent,
    Reboot,
    SwitchOff,
}

/// A mistake of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mistake {
    /// Leaves out `--vars-store`.
    ForgottenStore,
    /// Loses the state, and finds it again or imports the VM, with or without naming its disk.
    LostState { imports: bool, names_disk: bool },
    /// Deletes the lock file during this call.
    DeletedLock { call: usize },
    /// Starts a second command during this call.
    SecondRun { call: usize },
    /// Makes the CPI look in another region.
    OtherRegion,
    /// Uses another CPI: the built-in one with another `HOME`.
    OtherCpi,
    /// Names a CPI that does not exist.
    NoCpi,
    /// Deletes the VM in the IaaS.
    RemovedVm,
    /// Deletes the persistent disk in the IaaS.
    RemovedDisk,
    /// Removes the backups of the state.
    RemovedBackups,
    /// Gives the address of the environment to a VM that has nothing to do with it.
    OccupiedAddress,
    /// Makes a hard link of the state.
    LinkedState,
}

/// A misbehaviour at some calls of a method.
#[derive(Clone, Copy)]
pub(super) struct PlannedMisbehaviour {
    pub kind: &'static Misbehaviour,
    pub method: &'static str,
    /// The first and last call, from 1.
    pub calls: (usize, usize),
}

impl fmt::Debug for PlannedMisbehaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlannedMisbehaviour { kind, method, calls: (first, last) } = self;
        let calls = match *last {
            usize::MAX => format!("from call {first} on"),
            last => format!("calls {first} to {last}"),
        };
        write!(f, "{method} {}, {calls}", kind.name)
    }
}

/// The disturbance of a command.
#[derive(Debug, Clone)]
pub(super) enum Disturbance {
    /// No disturbance.
    None,
    /// The CPI misbehaves. A hanging call goes on after the command with `goes_on`, and is killed otherwise.
    Cpi { misbehaviours: Vec<PlannedMisbehaviour>, goes_on: bool },
    /// Signals to the program while a call is made.
    Signal { call: usize, is_sigterm: bool, times: usize },
    /// SIGKILL at a call.
    Kill { call: usize, when: Interruption },
    /// SIGKILL at a message to the agent.
    KillAtMessage { message: usize, moment: Moment },
    /// The connection to the agent stalls at a message, until the operator interrupts the command.
    Stall { message: usize, moment: Moment },
    /// Something happens to the VM at a call.
    AtCall { call: usize, action: MachineAction },
    /// Something happens to the VM at a message.
    AtMessage { message: usize, action: MachineAction },
    /// The VM is switched off before the command.
    Off,
    /// The operator makes a mistake.
    Mistake(Mistake),
}

/// One step of a life: a change of the manifest, and a command with its disturbance.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub change: Option<Change>,
    pub command: OperatorCommand,
    pub disturbance: Disturbance,
}

/// Draws the steps of a seed.
pub(super) fn draw_steps(seed: u64) -> Vec<Step> {
    let mut dice = Dice::new(seed);
    // The first command decides how the life begins, so it is a deploy.
    let mut steps = vec![Step {
        change: None,
        command: OperatorCommand::Create,
        disturbance: draw_disturbance(&mut dice, OperatorCommand::Create),
    }];
    for _ in 0..dice.number_between(3, 6) {
        steps.push(draw_step(&mut dice));
    }
    steps
}

fn draw_step(dice: &mut Dice) -> Step {
    let command = dice.pick_weighted(&[
        (40, OperatorCommand::Create),
        (14, OperatorCommand::CreateWithRecreate),
        (12, OperatorCommand::Delete),
        (6, OperatorCommand::Recreate),
        (12, OperatorCommand::Repair),
        (2, OperatorCommand::Report),
        (3, OperatorCommand::Restart),
        (2, OperatorCommand::Stop),
        (2, OperatorCommand::Start),
        (6, OperatorCommand::Snapshot),
        (3, OperatorCommand::DropSnapshot),
        (2, OperatorCommand::Plan),
        (2, OperatorCommand::Status),
        (2, OperatorCommand::Verify),
        (1, OperatorCommand::Show),
    ]);
    let change = (command.deploys() && dice.chance(75)).then(|| {
        dice.pick_weighted(&[
            (6, Change::Property),
            (5, Change::Disk),
            (3, Change::Stemcell),
            (1, Change::Password),
        ])
    });
    Step { change, command, disturbance: draw_disturbance(dice, command) }
}

/// Draws the disturbance of a command. Misbehaviour of the CPI is the most frequent one.
fn draw_disturbance(dice: &mut Dice, command: OperatorCommand) -> Disturbance {
    let call = dice.number_between(2, 9);
    let message = dice.number_between(1, 16);
    let moment = dice.pick(&[Moment::Before, Moment::After]);
    let action = dice.pick_weighted(&[
        (4, MachineAction::KillAgent),
        (3, MachineAction::Reboot),
        (2, MachineAction::SwitchOff),
    ]);
    match dice.number_below(100) {
        0..15 => Disturbance::None,
        15..62 if !command.methods().is_empty() => draw_misbehaviours(dice, command),
        15..68 => {
            let times = if dice.chance(25) { 2 } else { 1 };
            Disturbance::Signal { call, is_sigterm: dice.chance(40), times }
        }
        68..74 => {
            let when = dice.pick(&[
                Interruption::Before,
                Interruption::During,
                Interruption::After,
                Interruption::Lost,
                Interruption::Slow,
            ]);
            Disturbance::Kill { call, when }
        }
        74..76 => Disturbance::KillAtMessage { message, moment },
        76..81 => Disturbance::Stall { message, moment },
        81..84 => Disturbance::AtCall { call, action },
        84..86 => Disturbance::AtMessage { message, action },
        86..88 => Disturbance::Off,
        _ => Disturbance::Mistake(draw_mistake(dice)),
    }
}

fn draw_mistake(dice: &mut Dice) -> Mistake {
    let call = dice.number_between(2, 6);
    let (imports, names_disk) = (dice.chance(60), dice.chance(60));
    dice.pick_weighted(&[
        (3, Mistake::ForgottenStore),
        (4, Mistake::LostState { imports, names_disk }),
        (3, Mistake::DeletedLock { call }),
        (2, Mistake::SecondRun { call }),
        (3, Mistake::OtherRegion),
        (2, Mistake::OtherCpi),
        (1, Mistake::NoCpi),
        (2, Mistake::RemovedVm),
        (1, Mistake::RemovedDisk),
        (1, Mistake::RemovedBackups),
        (3, Mistake::OccupiedAddress),
        (1, Mistake::LinkedState),
    ])
}

fn draw_misbehaviours(dice: &mut Dice, command: OperatorCommand) -> Disturbance {
    let methods = command.methods();
    let count = if dice.chance(25) { 2 } else { 1 };
    let misbehaviours = (0..count).map(|_| draw_misbehaviour(dice, methods)).collect();
    Disturbance::Cpi { misbehaviours, goes_on: dice.chance(50) }
}

/// Draws a misbehaviour first, so that each is equally likely, and then a method that it fits.
fn draw_misbehaviour(dice: &mut Dice, methods: &'static [&'static str]) -> PlannedMisbehaviour {
    loop {
        let kind = &MISBEHAVIOURS[dice.number_below(MISBEHAVIOURS.len())];
        let matching_methods: Vec<&'static str> =
            methods.iter().copied().filter(|method| kind.fits(method)).collect();
        if matching_methods.is_empty() {
            continue;
        }
        let calls = dice.pick_weighted(&[(6, (1, 1)), (3, (1, usize::MAX)), (1, (2, 2))]);
        return PlannedMisbehaviour { kind, method: dice.pick(&matching_methods), calls };
    }
}

#[test]
fn every_misbehaviour_and_mistake_can_be_drawn() {
    let text: String = (0..500).map(|seed| format!("{:?}\n", draw_steps(seed))).collect();
    for misbehaviour in &MISBEHAVIOURS {
        assert!(text.contains(misbehaviour.name), "{}", misbehaviour.name);
    }
    for mistake in [
        "ForgottenStore",
        "LostState",
        "DeletedLock",
        "SecondRun",
        "OtherRegion",
        "OtherCpi",
        "NoCpi",
        "RemovedVm",
        "RemovedDisk",
        "RemovedBackups",
        "OccupiedAddress",
        "LinkedState",
    ] {
        assert!(text.contains(mistake), "{mistake}");
    }
}
