//! The mistakes of the operator.

use std::process::Command;

use serde_json::Value;

use super::life::{
    Attempt, ChaosLife, DeletePermission, HeldCallAction, MISTAKE_TIMEOUT, OCCUPANT_CONFIG, OTHER_REGION,
};
use super::schedule::{Disturbance, Mistake, OperatorCommand};
use crate::support::MONOPILE;
use crate::support::process::prepare;
use crate::support::scripted::{InfoAnswer, Interruption, Script, wait_until};

/// The methods that only read.
const QUESTIONS: [&str; 4] = ["info", "has_vm", "has_disk", "get_disks"];

impl ChaosLife {
    /// Makes a mistake with a command. If the mistake is impossible, because nothing is deployed, runs the
    /// command undisturbed.
    pub(super) fn make_mistake(&mut self, mistake: Mistake, command: OperatorCommand) {
        let changes = matches!(
            command,
            OperatorCommand::Create
                | OperatorCommand::CreateWithRecreate
                | OperatorCommand::Delete
                | OperatorCommand::Recreate
                | OperatorCommand::Repair
        );
        let command = if changes { command } else { OperatorCommand::Create };
        match mistake {
            Mistake::ForgottenStore if self.deployment.is_some() => self.forget_store(),
            Mistake::LostState { imports, names_disk } if self.is_well() && self.is_tidy() => {
                self.lose_state(imports, names_disk);
            }
            Mistake::DeletedLock { call } => {
                self.run_held_at_call(call, command, &HeldCallAction::RemoveLock)
            }
            Mistake::SecondRun { call } => self.run_held_at_call(call, command, &HeldCallAction::SecondRun),
            Mistake::OtherRegion if self.deployment.is_some() => {
                let script = Script::with_info(InfoAnswer::Local).with_config(OTHER_REGION);
                self.look_elsewhere(command, self.prepare_command(command, &["-o", "region.yml"]), script);
            }
            Mistake::OtherCpi if self.is_well() => {
                let (command, name, extra_args) = match command {
                    OperatorCommand::Delete => (command, "delete-env", "-n"),
                    OperatorCommand::Repair => (command, "cloud-check", "--auto"),
                    _ => (OperatorCommand::CreateWithRecreate, "create-env", "--recreate"),
                };
                let mut process = self.hello.builtin_command(&[name], &[extra_args]);
                process.env("HOME", self.hello.world.path("home-b"));
                self.look_elsewhere(command, process, Script::with_info(InfoAnswer::Local));
            }
            Mistake::NoCpi => self.use_missing_cpi(),
            Mistake::RemovedVm if self.deployment.is_some() => {
                self.may_be_deleted.vm = true;
                self.remove("vm-");
                self.run_disturbed(command, &Disturbance::None);
            }
            Mistake::RemovedDisk if self.deployment.is_some() => {
                (self.may_be_deleted, self.may_reset) = (DeletePermission::ALL, true);
                self.remove("vm-");
                self.remove("disk-");
                self.run_disturbed(command, &Disturbance::None);
            }
            Mistake::RemovedBackups => {
                let _ = std::fs::remove_file(self.hello.world.path("state.json.bak"));
                let _ = std::fs::remove_dir_all(self.hello.world.path("state.json.versions"));
                self.run_disturbed(command, &Disturbance::None);
            }
            Mistake::OccupiedAddress if self.has_no_vm() => self.occupy_address(command),
            Mistake::LinkedState if self.hello.world.exists("state.json") => self.link_state(command),
            _ => self.run_disturbed(command, &Disturbance::None),
        }
    }

    /// Returns true if no VM of the environment exists.
    fn has_no_vm(&self) -> bool {
        !self.inventory.present_cids(&self.hello).iter().any(|cid| cid.starts_with("vm-"))
    }

    /// Runs a command while the VM of another environment uses the address.
    fn occupy_address(&mut self, command: OperatorCommand) {
        self.hello.set_script(Script::with_info(InfoAnswer::Local));
        let bystanders = &self.inventory.bystanders;
        let stemcell = bystanders.iter().find(|cid| cid.starts_with("stemcell-")).unwrap().clone();
        let occupant = self.add_foreign_vm(OCCUPANT_CONFIG, &stemcell);
        wait_until("the agent of the foreign VM listens", || self.vm_answers());
        let attempt = Attempt { is_undisturbed: false, ..self.attempt(command) };
        let run = self.run(self.prepare_command(command, &[]), &attempt, &HeldCallAction::Nothing);
        self.check(!command.deploys() || run.code != 0, || "it deploys to an address in use".to_owned());
        self.check(self.vm_answers(), || format!("the foreign {occupant} was ended"));
        self.remove_bystander(&occupant);
    }

    /// Runs a command while the state has a second name. The command must change nothing.
    fn link_state(&mut self, command: OperatorCommand) {
        self.hello.set_script(Script::with_info(InfoAnswer::Local));
        let link = self.hello.world.path("linked.json");
        std::fs::hard_link(self.hello.world.path("state.json"), &link).unwrap();
        let cloud_before = self.hello.cloud();
        let run = self.run(
            self.prepare_command(command, &[]),
            &self.harmless_attempt(command),
            &HeldCallAction::Nothing,
        );
        self.check(run.code != 0 && self.hello.cloud() == cloud_before, || {
            "it changes something though the state is hard-linked".to_owned()
        });
        std::fs::remove_file(link).unwrap();
    }

    /// Returns an attempt that deletes nothing and is interrupted soon.
    fn harmless_attempt(&self, command: OperatorCommand) -> Attempt {
        let attempt = self.attempt(command);
        Attempt {
            may_delete: DeletePermission::default(),
            is_undisturbed: false,
            timeout: MISTAKE_TIMEOUT,
            ..attempt
        }
    }

    /// Deletes the VMs or disks of the environment in the IaaS.
    fn remove(&mut self, prefix: &str) {
        for cid in self.inventory.present_cids(&self.hello) {
            if cid.starts_with(prefix) {
                self.delete_by_hand(&cid);
            }
        }
    }

    fn run_held_at_call(&mut self, call: usize, command: OperatorCommand, hold: &HeldCallAction) {
        self.hello.set_script(Script::with_interruption(call, Interruption::Hold));
        let mut attempt = Attempt { is_undisturbed: false, ..self.attempt(command) };
        if matches!(hold, HeldCallAction::RemoveLock) {
            attempt.may_delete = attempt.may_delete.or(self.may_delete(OperatorCommand::Create));
            attempt.may_delete_later = attempt.may_delete;
        }
        self.run(self.prepare_command(command, &[]), &attempt, hold);
    }

    /// Runs a create-env without its vars store. The command must change nothing.
    fn forget_store(&mut self) {
        self.hello.set_script(Script::with_info(InfoAnswer::Local));
        let command = self.prepare_command(OperatorCommand::Create, &[]);
        let mut arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let index = arguments.iter().position(|argument| argument == "--vars-store").unwrap();
        arguments.drain(index..index + 2);
        let attempt = Attempt {
            may_delete: DeletePermission::default(),
            ..self.harmless_attempt(OperatorCommand::Create)
        };
        let is_well = self.is_well();
        let run = self.run(self.hello.world.monopile(arguments), &attempt, &HeldCallAction::Nothing);
        self.check(!is_well || run.code != 0, || "it deploys without the vars store".to_owned());
    }

    /// Runs a command whose CPI looks elsewhere. Healthy resources must stay on record.
    fn look_elsewhere(&mut self, command: OperatorCommand, process: Command, script: Script) {
        let is_well = self.is_well();
        self.hello.set_script(script);
        self.run(process, &self.harmless_attempt(command), &HeldCallAction::Nothing);
        let Some(deployment) = self.deployment.clone().filter(|_| is_well) else { return };
        let records = self.hello.announced_or_recorded();
        for cid in [&deployment.vm, &deployment.disk] {
            self.check(records.contains(cid), || format!("{cid} went off the record at the CPI's word"));
        }
    }

    /// Runs a command with the name of a CPI or userland that does not exist.
    fn use_missing_cpi(&mut self) {
        self.hello.set_script(Script::with_info(InfoAnswer::Local));
        let ops = "- {type: replace, path: /cloud_provider/cpi, value: {path: /no/such/cpi}}\n";
        self.hello.world.write("no-cpi.yml", ops);
        let attempt = self.harmless_attempt(OperatorCommand::CreateWithRecreate);
        let options =
            if self.bridge.is_some() { ["--cpi-userland", "no-root.tar"] } else { ["-o", "no-cpi.yml"] };
        let run = self.run(
            self.prepare_command(OperatorCommand::CreateWithRecreate, &options),
            &attempt,
            &HeldCallAction::Nothing,
        );
        self.check(run.code != 0, || "a CPI that does not exist is no error".to_owned());
    }

    /// Returns true if the state records only resources.
    fn is_tidy(&self) -> bool {
        let state = self.hello.state();
        let is_empty =
            |path: &str| state.pointer(path).is_none_or(|value| value.as_array().is_none_or(Vec::is_empty));
        let is_as_deployed = self
            .deployment
            .as_ref()
            .is_some_and(|deployment| deployment.manifest_changes == self.manifest_changes);
        is_as_deployed
            && is_empty("/monopile/suspects")
            && is_empty("/monopile/undeleted")
            && self.hello.recorded_cids() == self.inventory.present_cids(&self.hello)
            && self.hello.announced_methods().is_empty()
    }

    /// Returns true if the environment has snapshots.
    fn has_snapshots(&self) -> bool {
        self.inventory.present_cids(&self.hello).iter().any(|cid| cid.starts_with("snapshot-"))
    }

    /// Loses the state. A create-env must not create a second VM. Then the operator finds the state again, or
    /// imports the VM with the command in the message. That command does not record snapshots.
    fn lose_state(&mut self, imports: bool, names_disk: bool) {
        self.hello.set_script(Script::with_info(InfoAnswer::Local));
        let state = self.hello.state();
        let hidden_place = self.hello.world.path("lost");
        std::fs::create_dir_all(&hidden_place).unwrap();
        let names = ["state.json", "state.json.bak", "state.json.versions", "state.json.journal"];
        let exists = |name: &&str| self.hello.world.exists(name);
        let moved_files: Vec<&str> = names.into_iter().filter(exists).collect();
        for name in &moved_files {
            std::fs::rename(self.hello.world.path(name), hidden_place.join(name)).unwrap();
        }
        let cloud_before = self.hello.cloud();
        let run = self.hello.world.finish(self.prepare_command(OperatorCommand::Create, &[]));
        self.log_step(&format!("create-env without the state ends with {}", run.code));
        let requests = self.inventory.observe_run(&self.hello, &run);
        let has_effect =
            requests.iter().any(|request| !QUESTIONS.iter().any(|method| request["method"] == *method));
        self.check(run.code != 0 && !has_effect && self.hello.cloud() == cloud_before, || {
            format!("it went on without the state: {}\n{}", run.stdout, run.stderr)
        });
        if !imports || self.has_snapshots() {
            for name in moved_files {
                let place = self.hello.world.path(name);
                let _ = std::fs::remove_dir_all(&place);
                std::fs::rename(hidden_place.join(name), place).unwrap();
            }
        } else {
            let hint = run.stderr.lines().find_map(|line| line.split_once("record the VM: monopile "));
            self.check(hint.is_some(), || format!("no command imports the VM: {}", run.stderr));
            let stemcell = &state["stemcells"][0];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let mut hint = hint.unwrap().1.replace("STEMCELL-CID", &text(&stemcell["cid"]));
            let disk = &self.deployment.as_ref().unwrap().disk;
            self.check(hint.contains(&format!(" --disk {disk}")), || format!("{disk} is not named: {hint}"));
            if !names_disk {
                hint = hint.replace(&format!(" --disk {disk}"), "");
            }
            let mut shell: Command = prepare("sh");
            self.hello.world.enter(&mut shell).args(["-c", &format!("exec {MONOPILE} {hint}")]);
            let run = self.hello.world.finish(shell);
            self.log_step(&format!("{hint} ends with {}", run.code));
            self.inventory.observe_run(&self.hello, &run);
            self.check(run.code == 0, || format!("the import fails: {}", run.stderr));
            // The next deploy creates a new VM, because the specification of the VM is not on record.
            self.may_be_deleted.vm = true;
        }
        let _ = std::fs::remove_dir_all(hidden_place);
        self.check_nothing_lost();
    }
}
