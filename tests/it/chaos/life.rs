//! One life: its steps, and the checks after each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::inventory::{Inventory, kind};
use super::schedule::{Change, Disturbance, MachineAction, OperatorCommand, Step};
use crate::support::Run;
use crate::support::gate::{Gate, GateListener};
use crate::support::hello::Hello;
use crate::support::machine;
use crate::support::proxy::AgentProxy;
use crate::support::scripted::{InfoAnswer, Interruption, Script, wait_until};
use crate::support::userland::Bridge;

/// The exit codes that a command may return, see "Exit codes" of `docs/reference.md`.
const EXIT_CODES: [i32; 8] = [0, 1, 3, 4, 5, 6, 130, 143];
/// The time after which the operator interrupts a command of a life.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(12);
/// The time after which the operator interrupts a command that is a mistake, and must delete nothing.
pub(super) const MISTAKE_TIMEOUT: Duration = Duration::from_secs(4);
/// The time after which the operator interrupts a command of the recovery.
pub(super) const RECOVERY_TIMEOUT: Duration = Duration::from_secs(100);
/// The time within which an interrupted command must end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);
/// The configuration of the local CPI for another region.
pub(super) const OTHER_REGION: &str = "local-b.json";
/// The configuration of the local CPI for VMs that have nothing to do with the environment.
pub(super) const FOREIGN_CONFIG: &str = "foreign.json";
/// The configuration of the local CPI for such a VM at the address of the environment.
pub(super) const OCCUPANT_CONFIG: &str = "occupant.json";
/// A password in the vars store, which no output may show.
const SECRET: &str = "dxq3vh81zkcm5b9t";

/// The numbers of changes of the manifest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ManifestChanges {
    property: u32,
    disk: u32,
    stemcell: u32,
    password: u32,
}

/// The last successful deploy.
#[derive(Debug, Clone)]
pub(super) struct Deployment {
    pub manifest_changes: ManifestChanges,
    pub vm: String,
    pub disk: String,
}

/// The permission to delete the deployed VM and the disk with the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DeletePermission {
    pub vm: bool,
    pub disk: bool,
}

impl DeletePermission {
    pub(super) const ALL: DeletePermission = DeletePermission { vm: true, disk: true };
    const NONE: DeletePermission = DeletePermission { vm: false, disk: false };

    pub(super) fn or(self, other: DeletePermission) -> DeletePermission {
        DeletePermission { vm: self.vm || other.vm, disk: self.disk || other.disk }
    }
}

/// One command of a life: what it may delete, and how the suite disturbs it.
pub(super) struct Attempt {
    pub command: OperatorCommand,
    /// The things that the run may delete.
    pub may_delete: DeletePermission,
    /// The things that later runs may delete if this one does not succeed.
    pub may_delete_later: DeletePermission,
    /// True if nothing disturbs the run.
    pub is_undisturbed: bool,
    /// True if the run is killed with SIGKILL.
    pub is_killed: bool,
    /// True if the agent is prevented from answering.
    pub is_silenced: bool,
    /// Methods with which the CPI only pretends to delete.
    pub pretended_deletions: Vec<&'static str>,
    /// The time after which the operator interrupts the run.
    pub timeout: Duration,
}

/// The act that follows when a call or message is held.
pub(super) enum HeldCallAction {
    /// No act. The call stays held.
    Nothing,
    /// Sends a signal once and releases the call, or sends the signal until the command ends.
    Signal(Signal, usize),
    /// Interrupts the command, and releases the message after the command has ended.
    Interrupt,
    /// Kills the program.
    Kill,
    /// An act on the VM.
    Act(MachineAction),
    /// Removes the lock file, and starts another command, which can then take the lock.
    RemoveLock,
    /// Runs another command, which must fail.
    SecondRun,
}

/// The counts of a life.
#[derive(Default)]
pub(super) struct Counts {
    /// Commands by exit code; -1 is SIGKILL.
    pub codes: BTreeMap<i32, usize>,
    /// CPI calls.
    pub calls: usize,
    /// Commands of the recovery.
    pub recovery: usize,
    /// Signals to commands, including those from the CPI.
    pub signals: usize,
}

impl Counts {
    /// Adds the counts of a life.
    fn add(&mut self, other: &Counts) {
        self.calls += other.calls;
        self.recovery += other.recovery;
        self.signals += other.signals;
        for (code, count) in &other.codes {
            *self.codes.entry(*code).or_default() += count;
        }
    }
}

/// Returns true for the CID of a snapshot.
fn is_snapshot(cid: &str) -> bool {
    kind(cid) == "snapshot"
}

/// A life of an environment.
pub(super) struct ChaosLife {
    pub hello: Hello,
    gate: Arc<Gate>,
    _proxy: AgentProxy,
    /// The calls of the CPI, if it runs in a userland.
    pub bridge: Option<Bridge>,
    pub inventory: Inventory,
    pub manifest_changes: ManifestChanges,
    pub deployment: Option<Deployment>,
    /// The things that any run may delete, because an earlier run was asked to delete them or the operator
    /// broke them.
    pub may_be_deleted: DeletePermission,
    /// The snapshots that an earlier run was asked to delete.
    snapshots_to_delete: BTreeSet<String>,
    /// The last value of the service's counter, which is on the disk.
    counter: u64,
    /// True if the counter may start again.
    pub may_reset: bool,
    /// True if the jobs may be stopped.
    jobs_may_be_stopped: bool,
    /// The commands so far, for messages.
    log: String,
    last_run: Run,
    pub counts: Counts,
    /// The counts of all lives, to which this one adds its own at its end.
    total: Arc<Mutex<Counts>>,
}

impl ChaosLife {
    /// Creates a life with a second region for the CPI, with resources of others in its cloud, and with a
    /// proxy before the agent that can stall. With `has_userland`, the CPI runs in a userland.
    pub(super) fn new(total: &Arc<Mutex<Counts>>, has_userland: bool) -> ChaosLife {
        let mut hello = Hello::new();
        let bridge = has_userland.then(|| hello.move_cpi_to_userland());
        let local = hello.world.read("local.json");
        hello.world.write(OTHER_REGION, local.replace("/cloud\"", "/cloud-b\""));
        let parent = if has_userland { "/cloud_provider" } else { "/cloud_provider/cpi" };
        let region = format!("- {{type: replace, path: {parent}/properties/root, value: /region-b}}\n");
        hello.world.write("region.yml", region);
        for name in ["property.yml", "disk.yml"] {
            hello.add_ops(name, "[]\n");
        }
        let gate = Arc::new(Gate::new(hello.world.path("")));
        let proxy = hello.proxy_agent_with(GateListener(gate.clone()));
        let mut life = ChaosLife {
            hello,
            gate,
            _proxy: proxy,
            bridge,
            inventory: Inventory::default(),
            manifest_changes: ManifestChanges::default(),
            deployment: None,
            may_be_deleted: DeletePermission::NONE,
            snapshots_to_delete: BTreeSet::new(),
            counter: 0,
            may_reset: false,
            jobs_may_be_stopped: false,
            log: String::new(),
            last_run: Run { code: 0, stdout: String::new(), stderr: String::new() },
            counts: Counts::default(),
            total: total.clone(),
        };
        life.add_bystanders();
        life
    }

    /// Creates one thing of each kind that has nothing to do with the environment. The VM runs.
    fn add_bystanders(&mut self) {
        let creds: Value = serde_yaml::from_str(&self.hello.world.read("creds.yml")).unwrap();
        let address = self.hello.ip();
        let neighbour_address = format!("{}9", address.strip_suffix('2').unwrap());
        for (name, address) in [(FOREIGN_CONFIG, neighbour_address.as_str()), (OCCUPANT_CONFIG, address)] {
            let agent = json!({
                "mbus": format!("https://other:another-one@{address}:6868"),
                "cert": creds["mbus_bootstrap_ssl"],
            });
            let config = json!({"root": self.hello.world.path("cloud"), "agent": agent});
            self.hello.world.write(name, config.to_string());
        }
        let disk = self.add_bystander(FOREIGN_CONFIG, "create_disk", json!([64, {}, null]));
        self.add_bystander(FOREIGN_CONFIG, "snapshot_disk", json!([disk, {}]));
        let image = self.hello.world.path("hello/stemcell/image");
        let stemcell = self.add_bystander(FOREIGN_CONFIG, "create_stemcell", json!([image, {}]));
        self.add_foreign_vm(FOREIGN_CONFIG, &stemcell);
    }

    /// Creates a VM that has nothing to do with the environment. Returns its CID.
    pub(super) fn add_foreign_vm(&mut self, config: &str, stemcell: &str) -> String {
        let networks = json!({"default": {"type": "dynamic"}});
        self.add_bystander(config, "create_vm", json!(["other-agent", stemcell, {}, networks, [], {}]))
    }

    /// Creates a thing that has nothing to do with the environment. Returns its CID.
    fn add_bystander(&mut self, config: &str, method: &str, arguments: Value) -> String {
        let answer = self.hello.try_call_at(config, method, arguments);
        let result = &answer["result"];
        let cid = result.as_str().or_else(|| result[0].as_str());
        let cid = cid.unwrap_or_else(|| panic!("{method}: {answer}")).to_owned();
        self.inventory.bystanders.insert(cid.clone());
        cid
    }

    /// Deletes a thing that has nothing to do with the environment.
    pub(super) fn remove_bystander(&mut self, cid: &str) {
        let method = format!("delete_{}", kind(cid));
        let answer = self.hello.try_call_at(FOREIGN_CONFIG, &method, json!([cid]));
        self.check(!self.hello.cloud().contains(cid), || format!("{cid} cannot be deleted: {answer}"));
        self.inventory.bystanders.remove(cid);
    }

    /// Takes a step.
    pub(super) fn take_step(&mut self, number: usize, step: &Step) {
        let _ = writeln!(self.log, "step {number}: {step:?}");
        if let Some(change) = step.change {
            self.change_manifest(change);
        }
        match &step.disturbance {
            Disturbance::Mistake(mistake) => self.make_mistake(*mistake, step.command),
            disturbance => self.run_disturbed(step.command, disturbance),
        }
    }

    /// Changes the manifest.
    fn change_manifest(&mut self, change: Change) {
        let changes = &mut self.manifest_changes;
        match change {
            Change::Property => {
                changes.property += 1;
                let ops = format!(
                    "- type: replace\n  \
                     path: /instance_groups/name=hello/jobs/name=hello/properties/greeting?\n  \
                     value: greeting {}\n",
                    changes.property
                );
                self.hello.world.write("property.yml", ops);
            }
            Change::Disk => {
                changes.disk += 1;
                // Every second change makes the disk smaller, and its data is copied.
                let size = 1024 + changes.disk + 512 * (changes.disk % 2);
                let ops =
                    format!("- {{type: replace, path: /disk_pools/name=disks/disk_size, value: {size}}}\n");
                self.hello.world.write("disk.yml", ops);
            }
            Change::Stemcell => {
                let path = "hello/stemcell/stemcell.MF";
                let version = |number: u32| format!("version: \"1.{number}\"");
                let text = self.hello.world.read(path);
                let new_text = text.replace(&version(changes.stemcell), &version(changes.stemcell + 1));
                assert_ne!(text, new_text);
                changes.stemcell += 1;
                self.hello.world.write(path, new_text);
            }
            Change::Password => {
                changes.password += 1;
                self.hello.world.run(["vars", "rotate", "creds.yml", "mbus_bootstrap_password"]).success();
            }
        }
    }

    /// Returns the words and options of a command.
    fn words(command: OperatorCommand) -> (&'static [&'static str], &'static [&'static str]) {
        match command {
            OperatorCommand::Create => (&["create-env"], &["--agent-timeout", "8s"]),
            OperatorCommand::CreateWithRecreate => {
                (&["create-env"], &["--recreate", "--agent-timeout", "8s"])
            }
            OperatorCommand::Delete => (&["delete-env"], &["-n", "--agent-timeout", "2s"]),
            OperatorCommand::Recreate => (&["recreate"], &["-n", "--boot-timeout", "8s"]),
            OperatorCommand::Repair => {
                (&["cloud-check"], &["--auto", "--agent-timeout", "3s", "--boot-timeout", "8s"])
            }
            OperatorCommand::Report => (&["cloud-check"], &["--report", "--agent-timeout", "2s"]),
            OperatorCommand::Restart => (&["restart"], &["--agent-timeout", "3s"]),
            OperatorCommand::Stop => (&["stop-env"], &["--agent-timeout", "3s"]),
            OperatorCommand::Start => (&["start-env"], &["--agent-timeout", "3s"]),
            OperatorCommand::Snapshot => (&["take-snapshot"], &[]),
            OperatorCommand::DropSnapshot => (&["delete-snapshot"], &["-n"]),
            OperatorCommand::Plan => (&["plan"], &[]),
            OperatorCommand::Status => (&["status"], &["--agent-timeout", "2s"]),
            OperatorCommand::Verify => (&["state", "verify"], &["--agent-timeout", "2s"]),
            OperatorCommand::Show => (&["state", "show"], &[]),
        }
    }

    /// Returns a command with more options.
    pub(super) fn prepare_command(&self, command: OperatorCommand, extra_args: &[&str]) -> Command {
        let (words, options) = ChaosLife::words(command);
        match command {
            OperatorCommand::Show => self.hello.state_command(words),
            OperatorCommand::DropSnapshot => {
                let snapshot = self.oldest_snapshot().unwrap_or_else(|| "snapshot-none".to_owned());
                self.hello.subcommand(words, &[options, &[snapshot.as_str()], extra_args].concat())
            }
            _ => self.hello.subcommand(words, &[options, extra_args].concat()),
        }
    }

    /// Returns the oldest snapshot on record.
    fn oldest_snapshot(&self) -> Option<String> {
        let state = self.hello.world.exists("state.json").then(|| self.hello.state())?;
        Some(state["monopile"]["snapshots"][0]["cid"].as_str()?.to_owned())
    }

    /// Returns the things that a command may delete, apart from snapshots.
    pub(super) fn may_delete(&self, command: OperatorCommand) -> DeletePermission {
        let deployed_changes = self.deployment.as_ref().map(|deployment| deployment.manifest_changes);
        let has_changed = deployed_changes != Some(self.manifest_changes);
        let is_resized = deployed_changes.is_none_or(|changes| changes.disk != self.manifest_changes.disk);
        match command {
            OperatorCommand::Delete => DeletePermission::ALL,
            OperatorCommand::Create => DeletePermission { vm: has_changed, disk: is_resized },
            OperatorCommand::CreateWithRecreate => DeletePermission { vm: true, disk: is_resized },
            OperatorCommand::Recreate => DeletePermission { vm: true, disk: false },
            // The repair may replace a VM whose agent does not answer.
            OperatorCommand::Repair => DeletePermission { vm: !self.vm_answers(), disk: false },
            _ => DeletePermission::NONE,
        }
    }

    /// Returns an undisturbed attempt.
    pub(super) fn attempt(&self, command: OperatorCommand) -> Attempt {
        let may_delete = self.may_delete(command);
        Attempt {
            command,
            may_delete,
            may_delete_later: may_delete,
            is_undisturbed: true,
            is_killed: false,
            is_silenced: false,
            pretended_deletions: Vec::new(),
            timeout: STEP_TIMEOUT,
        }
    }

    /// Runs a command with a disturbance.
    pub(super) fn run_disturbed(&mut self, command: OperatorCommand, disturbance: &Disturbance) {
        let mut script = Script::with_info(InfoAnswer::Local);
        let mut attempt = self.attempt(command);
        attempt.is_undisturbed = matches!(disturbance, Disturbance::None);
        let (mut hold, mut point, mut hangs, mut options) = (HeldCallAction::Nothing, None, false, &[][..]);
        match disturbance {
            Disturbance::None => {}
            Disturbance::Cpi { misbehaviours, .. } => {
                for misbehaviour in misbehaviours {
                    script = script.on(
                        misbehaviour.method,
                        misbehaviour.calls,
                        misbehaviour.kind.reaction(misbehaviour.method),
                    );
                    hangs |= misbehaviour.kind.hangs();
                    attempt
                        .pretended_deletions
                        .extend(misbehaviour.kind.pretends_to_delete().then_some(misbehaviour.method));
                }
                if hangs {
                    options = &["--cpi-timeout", "1s"];
                }
            }
            Disturbance::Signal { call, is_sigterm, times } => {
                script = script.stopped_at(*call, Interruption::Hold);
                hold = HeldCallAction::Signal(if *is_sigterm { Signal::TERM } else { Signal::INT }, *times);
            }
            Disturbance::Kill { call, when } => {
                script = script.stopped_at(*call, *when);
                attempt.is_killed = true;
            }
            Disturbance::KillAtMessage { message, moment } => {
                point = Some((*message, *moment));
                (hold, attempt.is_killed) = (HeldCallAction::Kill, true);
            }
            Disturbance::Stall { message, moment } => {
                point = Some((*message, *moment));
                (hold, attempt.is_silenced) = (HeldCallAction::Interrupt, true);
            }
            Disturbance::AtCall { call, action } => {
                script = script.stopped_at(*call, Interruption::Hold);
                (hold, attempt.is_silenced) = (HeldCallAction::Act(*action), true);
            }
            Disturbance::AtMessage { message, action } => {
                point = Some((*message, crate::support::gate::Moment::Before));
                (hold, attempt.is_silenced) = (HeldCallAction::Act(*action), true);
            }
            Disturbance::Off => {
                self.hello.kill_vm();
                attempt = Attempt { is_silenced: true, is_undisturbed: false, ..self.attempt(command) };
            }
            Disturbance::Mistake(_) => unreachable!("mistakes are commands of their own"),
        }
        if attempt.is_silenced && command == OperatorCommand::Repair {
            attempt.may_delete.vm = true;
        }
        self.hello.set_script(script);
        self.gate.set(point);
        self.run(self.prepare_command(command, options), &attempt, &hold);
        if let (true, Disturbance::Cpi { goes_on, .. }) = (hangs, disturbance) {
            self.end_held_call(*goes_on);
            self.check_nothing_lost();
        }
    }

    /// Runs a prepared command, and checks the cloud after it.
    pub(super) fn run(&mut self, command: Command, attempt: &Attempt, hold: &HeldCallAction) -> Run {
        let cids_before = self.inventory.present_cids(&self.hello);
        let records = self.hello.announced_or_recorded();
        match attempt.command {
            OperatorCommand::Delete => {
                self.snapshots_to_delete.extend(cids_before.iter().filter(|cid| is_snapshot(cid)).cloned())
            }
            OperatorCommand::DropSnapshot => self.snapshots_to_delete.extend(self.oldest_snapshot()),
            _ => {}
        }
        self.execute(command, attempt, hold);
        let run = &self.last_run;
        let _ = writeln!(self.log, "  {:?} ends with {}", attempt.command, run.code);
        *self.counts.codes.entry(run.code).or_default() += 1;
        let is_documented = EXIT_CODES.contains(&run.code) || (attempt.is_killed && run.code == -1);
        self.check(is_documented, || "an exit code that is not documented".to_owned());
        let run = &self.last_run;
        let output = format!("{}{}", run.stdout, run.stderr);
        self.check(!output.contains("panicked at"), || "the program panicked".to_owned());
        self.check(!output.contains(SECRET), || "a secret is in the output".to_owned());
        let requests = self.inventory.observe_run(&self.hello, &self.last_run);
        self.counts.calls += requests.len();
        if !self.is_held() {
            self.hello.wait_until_idle();
        }
        self.allow_pretended_deletions(&requests, &attempt.pretended_deletions);
        self.check_deletions(&cids_before, attempt.may_delete);
        self.check_nothing_lost();
        self.check_living_vm(&records, attempt);
        self.update_expectations(attempt);
        let Run { code, stdout, stderr } = &self.last_run;
        Run { code: *code, stdout: stdout.clone(), stderr: stderr.clone() }
    }

    /// Returns true if a call or message is held.
    fn is_held(&self) -> bool {
        self.hello.world.exists("held") && !self.hello.world.exists("go")
    }

    /// Runs a command to its end, and acts when a call or message is held.
    fn execute(&mut self, mut command: Command, attempt: &Attempt, hold: &HeldCallAction) {
        let file = |name: &str| std::fs::File::create(self.hello.world.path(name)).unwrap();
        command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr"));
        let mut child = command.spawn().unwrap();
        let start = Instant::now();
        let (mut hold_start, mut interruption_time, mut second) = (None, None, None);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if hold_start.is_none() && self.is_held() {
                hold_start = Some(Instant::now());
                second = self.act_on_held_call(&mut child, hold);
            }
            let is_due_again =
                hold_start.is_some_and(|hold_start| hold_start.elapsed() > Duration::from_millis(150));
            if let (true, HeldCallAction::Signal(signal, 2..)) = (is_due_again, hold) {
                hold_start = Some(Instant::now());
                self.counts.signals += 1;
                let _ = kill_process(Pid::from_child(&child), *signal);
            }
            if start.elapsed() > attempt.timeout && interruption_time.is_none() {
                interruption_time = Some(Instant::now());
                self.counts.signals += 1;
                let _ = kill_process(Pid::from_child(&child), Signal::INT);
            }
            if start.elapsed() > attempt.timeout + EXIT_TIMEOUT {
                let _ = child.kill();
                let _ = child.try_wait();
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        self.gate.set(None);
        if !matches!(hold, HeldCallAction::Nothing) {
            self.hello.release_call();
        }
        let read = |name: &str| {
            String::from_utf8_lossy(&std::fs::read(self.hello.world.path(name)).unwrap()).into_owned()
        };
        let code = status.and_then(|status| status.code()).unwrap_or(-1);
        let is_signalled =
            matches!(hold, HeldCallAction::Signal(..) | HeldCallAction::Interrupt) && hold_start.is_some();
        self.counts.signals += usize::from(code == -1 || is_signalled);
        self.last_run = Run { code, stdout: read("stdout"), stderr: read("stderr") };
        if let Some(mut second) = second {
            let start = Instant::now();
            let second_status = loop {
                match second.try_wait().unwrap() {
                    None if start.elapsed() < RECOVERY_TIMEOUT => {
                        std::thread::sleep(Duration::from_millis(5))
                    }
                    second_status => break second_status,
                }
            };
            let code = second_status.and_then(|status| status.code()).unwrap_or(-1);
            let _ = writeln!(self.log, "  a second Create ends with {code}");
            *self.counts.codes.entry(code).or_default() += 1;
            // The reports of both commands count.
            self.last_run.stdout += &read("second.stdout");
            self.last_run.stderr += &read("second.stderr");
            self.check(EXIT_CODES.contains(&code), || format!("the second run ends with {code}"));
        }
        self.check(status.is_some(), || {
            format!("{:?} does not end, and an interrupt does not end it either", attempt.command)
        });
    }

    /// Acts on a held call or message, and releases it unless the act forbids that. Returns the second
    /// command that it has started, if any.
    fn act_on_held_call(&self, child: &mut Child, hold: &HeldCallAction) -> Option<Child> {
        let mut second = None;
        let send = |signal| {
            let _ = kill_process(Pid::from_child(child), signal);
        };
        match hold {
            HeldCallAction::Nothing => return None,
            HeldCallAction::Signal(signal, times) => {
                send(*signal);
                if *times > 1 {
                    return None;
                }
            }
            HeldCallAction::Interrupt => {
                std::thread::sleep(Duration::from_millis(200));
                send(Signal::INT);
                return None;
            }
            HeldCallAction::Kill => send(Signal::KILL),
            HeldCallAction::Act(MachineAction::KillAgent) => machine::kill_agent(&self.hello),
            HeldCallAction::Act(MachineAction::Reboot) => machine::reboot(&self.hello),
            HeldCallAction::Act(MachineAction::SwitchOff) => self.hello.kill_vm(),
            HeldCallAction::RemoveLock => {
                let _ = std::fs::remove_file(self.hello.world.path("state.json.lock"));
                let mut command = self.prepare_command(OperatorCommand::Create, &[]);
                let file = |name: &str| std::fs::File::create(self.hello.world.path(name)).unwrap();
                command.stdin(Stdio::null()).stdout(file("second.stdout")).stderr(file("second.stderr"));
                second = Some(command.spawn().unwrap());
                // The second run has the lock before the call of the first run ends.
                std::thread::sleep(Duration::from_millis(300));
            }
            HeldCallAction::SecondRun => {
                let second = self.hello.world.finish(self.prepare_command(OperatorCommand::Create, &[]));
                self.check(second.code == 4, || {
                    format!("a second run ends with {}: {}", second.code, second.stderr)
                });
            }
        }
        self.hello.release_call();
        second
    }

    /// Ends a call that hangs: releases it or kills it.
    fn end_held_call(&self, goes_on: bool) {
        if self.is_held() && !goes_on {
            for leftover in
                self.hello.world.leftovers().iter().filter(|leftover| leftover.contains("scripted::cpi"))
            {
                let pid = leftover.split(' ').nth(1).and_then(|pid| Pid::from_raw(pid.parse().ok()?));
                let _ = kill_process(pid.unwrap(), Signal::KILL);
            }
        }
        self.hello.release_call();
        self.hello.wait_until_idle();
    }

    /// Allows the things that the CPI pretended to delete to be off the record.
    fn allow_pretended_deletions(&mut self, requests: &[Value], methods: &[&str]) {
        let present_cids = self.inventory.present_cids(&self.hello);
        for request in requests {
            let was_pretended = methods.iter().any(|method| request["method"] == *method);
            if let Some(cid) = request["arguments"][0].as_str().filter(|_| was_pretended)
                && present_cids.contains(cid)
            {
                self.inventory.allow_unrecorded(cid);
            }
        }
    }

    /// Checks that the run deleted only things that it was asked to delete.
    fn check_deletions(&self, cids_before: &BTreeSet<String>, may_delete: DeletePermission) {
        let cids_after = self.hello.cloud();
        for bystander in &self.inventory.bystanders {
            self.check(cids_after.contains(bystander), || format!("the foreign {bystander} was deleted"));
        }
        for snapshot in cids_before.difference(&cids_after).filter(|cid| is_snapshot(cid)) {
            self.check(self.snapshots_to_delete.contains(snapshot), || {
                format!("{snapshot} was deleted unasked")
            });
        }
        let Some(deployment) = &self.deployment else { return };
        let may_delete = may_delete.or(self.may_be_deleted);
        let is_gone = |cid: &String| cids_before.contains(cid) && !cids_after.contains(cid);
        self.check(may_delete.vm || !is_gone(&deployment.vm), || {
            format!("{} was deleted unasked", deployment.vm)
        });
        let must_keep_data = self.counter > 0 && !may_delete.disk;
        self.check(!must_keep_data || !is_gone(&deployment.disk), || {
            format!("{} was deleted unasked, with its data", deployment.disk)
        });
    }

    /// Checks that all existing things are on record or reported.
    pub(super) fn check_nothing_lost(&mut self) {
        let unreported_resources = self.inventory.unreported_resources(&self.hello);
        self.check(unreported_resources.is_empty(), || {
            format!("neither on record nor reported: {}", unreported_resources.join("; "))
        });
    }

    /// Checks that a VM whose agent answers was not dropped from the record.
    fn check_living_vm(&self, records: &str, attempt: &Attempt) {
        if attempt.is_silenced || !self.vm_answers() {
            return;
        }
        let records_after = self.hello.announced_or_recorded();
        for vm in self.inventory.present_cids(&self.hello).iter().filter(|cid| kind(cid) == "vm") {
            let was_dropped =
                records.contains(vm) && !records_after.contains(vm) && !self.inventory.may_be_unrecorded(vm);
            self.check(!was_dropped, || format!("{vm} went off the record, and its agent answers"));
        }
    }

    /// Updates the expectations after the end of a run.
    fn update_expectations(&mut self, attempt: &Attempt) {
        let command = attempt.command;
        let has_succeeded = self.last_run.code == 0;
        let has_state = self.hello.world.exists("state.json");
        if command == OperatorCommand::Delete {
            self.may_reset = true;
            if has_succeeded && !has_state {
                self.deployment = None;
            }
        }
        if !has_succeeded || command == OperatorCommand::Delete {
            self.may_be_deleted = self.may_be_deleted.or(attempt.may_delete_later);
            let reading_commands = [
                OperatorCommand::Report,
                OperatorCommand::Plan,
                OperatorCommand::Status,
                OperatorCommand::Snapshot,
                OperatorCommand::DropSnapshot,
            ];
            self.jobs_may_be_stopped |= !reading_commands.contains(&command);
        }
        let was_made = matches!(
            command,
            OperatorCommand::Create
                | OperatorCommand::CreateWithRecreate
                | OperatorCommand::Recreate
                | OperatorCommand::Repair
        );
        if has_succeeded && was_made && has_state {
            let state = self.hello.state();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let vm = text(&state["current_vm_cid"]);
            let current = state["disks"].as_array().into_iter().flatten();
            let disk = current.filter(|disk| disk["id"] == state["current_disk_id"]).map(|disk| &disk["cid"]);
            let disk = disk.map(text).next().unwrap_or_default();
            let was = self
                .deployment
                .as_ref()
                .map(|deployment| (deployment.vm.clone(), deployment.manifest_changes));
            if command.deploys() {
                self.may_be_deleted = DeletePermission::NONE;
                self.deployment =
                    Some(Deployment { manifest_changes: self.manifest_changes, vm: vm.clone(), disk });
            } else if let Some(deployment) = &mut self.deployment {
                deployment.vm.clone_from(&vm);
            }
            if was != Some((vm, self.manifest_changes)) {
                self.jobs_may_be_stopped = false;
            }
        }
        self.jobs_may_be_stopped |= matches!(command, OperatorCommand::Stop | OperatorCommand::Repair);
        if has_succeeded && matches!(command, OperatorCommand::Start | OperatorCommand::Restart) {
            self.jobs_may_be_stopped = false;
        }
        if has_succeeded && command.deploys() && attempt.is_undisturbed && !self.jobs_may_be_stopped {
            self.check_service();
        }
    }

    /// Checks that the service runs and that its data is there.
    pub(super) fn check_service(&mut self) {
        wait_until("the service answers after a successful deploy", || self.hello.answers());
        let counter = self.hello.ask_counter();
        let goes_on = counter == self.counter + 1;
        self.check(goes_on || (self.may_reset && counter == 1), || {
            format!("the counter is {counter} after {}: the data is lost", self.counter)
        });
        (self.counter, self.may_reset) = (counter, false);
    }

    /// Returns true if the agent of a VM accepts connections.
    pub(super) fn vm_answers(&self) -> bool {
        let address: SocketAddr = format!("{}:6868", self.hello.ip()).parse().unwrap();
        TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
    }

    /// Returns true if the deployed VM is well.
    pub(super) fn is_well(&self) -> bool {
        self.deployment.is_some() && !self.may_be_deleted.vm && self.vm_answers()
    }

    /// Deletes a thing in the IaaS, as the operator does.
    pub(super) fn delete_by_hand(&mut self, cid: &str) {
        let _ = writeln!(self.log, "  the operator deletes {cid} in the IaaS");
        let kind = kind(cid);
        let is_there = self.hello.world.exists(format!("cloud/{kind}s/{cid}"));
        let config = if is_there { "local.json" } else { OTHER_REGION };
        let answer = self.hello.try_call_at(config, &format!("delete_{kind}"), json!([cid]));
        self.check(!self.hello.cloud().contains(cid), || format!("{cid} cannot be deleted: {answer}"));
    }

    /// Ends all disturbances.
    pub(super) fn end_disturbances(&mut self) {
        self.gate.set(None);
        self.end_held_call(true);
        self.hello.set_script(Script::with_info(InfoAnswer::Local));
    }

    /// Adds a line to the log of the life.
    pub(super) fn log_step(&mut self, line: &str) {
        let _ = writeln!(self.log, "  {line}");
    }

    /// Fails with a message unless the condition holds.
    #[track_caller]
    pub(super) fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(&what());
        }
    }

    /// Fails with the log, the last output and the cloud.
    #[track_caller]
    pub(super) fn fail(&self, what: &str) -> ! {
        let Run { code, stdout, stderr } = &self.last_run;
        let state = std::fs::read_to_string(self.hello.world.path("state.json")).unwrap_or_default();
        panic!(
            "{what}\n{}the cloud has {:?}\n--- state\n{state}\n--- the last command, exit code {code}: \
                stdout\n\
             {stdout}\n--- stderr\n{stderr}",
            self.log,
            self.inventory.present_cids(&self.hello),
        );
    }
}

impl Drop for ChaosLife {
    fn drop(&mut self) {
        self.total.lock().unwrap_or_else(PoisonError::into_inner).add(&self.counts);
        // A held call ends, and nothing of the life may stay behind. Without its state, the environment is
        // not deleted again.
        self.hello.release_call();
        if std::thread::panicking() {
            let _ =
                std::fs::rename(self.hello.world.path("state.json"), self.hello.world.path("failed.json"));
            let start = Instant::now();
            while start.elapsed() < EXIT_TIMEOUT {
                let leftovers = self.hello.world.leftovers();
                let pids: Vec<i32> = leftovers
                    .iter()
                    .filter_map(|leftover| leftover.strip_prefix("process ")?.split(' ').next()?.parse().ok())
                    .collect();
                if pids.is_empty() {
                    break;
                }
                for pid in pids.into_iter().filter_map(Pid::from_raw) {
                    let _ = kill_process(pid, Signal::KILL);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}
