//! A life of an environment, and the checks after each of its stages.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;

use super::disturbance::Disturbance;
use super::sweep::Tally;
use crate::support::Run;
use crate::support::bucket::Bucket;
use crate::support::gate::{Gate, GateListener};
use crate::support::hello::Hello;
use crate::support::is_full_sweep;
use crate::support::machine::PidSuccessor;
use crate::support::proxy::AgentProxy;
use crate::support::scripted::{InfoAnswer, Script, wait_until};
use crate::support::userland::Bridge;

/// The stages of a life.
pub(super) const STAGES: [&str; 5] =
    ["create", "redeploy", "disk migration", "recreate with a larger disk", "delete"];
/// The stage that updates the VM in place.
const REDEPLOY: usize = 1;
/// The stage that copies the data to a smaller disk.
const DISK_MIGRATION: usize = 2;
/// The stage that grows the disk in place.
pub(super) const RECREATE: usize = 3;
const DELETE: usize = 4;
/// Stages that can be skipped.
pub(super) const SKIPPABLE_STAGES: [usize; 2] = [REDEPLOY, RECREATE];

/// The contract between program, CPI and stemcell, and the storage of the state. Under v1, a registry is
/// configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LifeSetting {
    /// Contract v2.
    V2,
    /// Contract v1, because of the CPI.
    OldCpi,
    /// Contract v1, because of the stemcell.
    OldStemcell,
    /// Contract v2 with a CPI in a userland, in which the first run compiles it.
    Userland,
    /// Contract v2 with the state in a bucket. After a disturbance, another machine continues.
    Shared,
    /// Like `Shared`, with contract v1 because of the CPI.
    SharedOldCpi,
}

impl LifeSetting {
    /// Contracts with the state beside the manifest.
    pub(super) const LOCAL_STATE_SETTINGS: [LifeSetting; 4] =
        [LifeSetting::V2, LifeSetting::OldCpi, LifeSetting::OldStemcell, LifeSetting::Userland];
    /// Contracts with the state in a bucket.
    pub(super) const SHARED_STATE_SETTINGS: [LifeSetting; 2] =
        [LifeSetting::Shared, LifeSetting::SharedOldCpi];

    pub(super) fn is_shared(self) -> bool {
        LifeSetting::SHARED_STATE_SETTINGS.contains(&self)
    }

    fn has_registry(self) -> bool {
        !matches!(self, LifeSetting::V2 | LifeSetting::Userland | LifeSetting::Shared)
    }

    /// Returns the CPI's answer to `info`.
    fn info_answer(self) -> InfoAnswer {
        match self {
            LifeSetting::V2 | LifeSetting::Userland | LifeSetting::Shared => InfoAnswer::Local,
            LifeSetting::OldCpi | LifeSetting::SharedOldCpi => InfoAnswer::Version(1),
            LifeSetting::OldStemcell => InfoAnswer::Version(2),
        }
    }
}

/// One life in which each command is disturbed once.
pub(super) struct CrashLife<'t> {
    pub hello: Hello,
    pub setting: LifeSetting,
    pub gate: Arc<Gate>,
    /// The stage and its disturbance, for messages.
    pub context: String,
    /// Processes that got the PIDs of our processes.
    pub pid_successors: Vec<PidSuccessor>,
    _proxy: AgentProxy,
    /// The calls of the CPI, if it runs in a userland.
    _bridge: Option<Bridge>,
    tally: &'t Tally,
    /// CIDs that the operator removed from the cloud on the program's advice.
    removed_cids: BTreeSet<String>,
    /// True if removing the lock file may have failed. An unlocked lock file is harmless.
    lock_may_stay: bool,
}

impl<'t> CrashLife<'t> {
    /// Creates the environment of a life in this setting, with a proxy before the agent that can hold its
    /// messages.
    pub(super) fn new(setting: LifeSetting, tally: &'t Tally) -> Self {
        let mut hello = match setting {
            LifeSetting::V2 | LifeSetting::Userland => Hello::without_vars_store(),
            _ => Hello::new(),
        };
        if setting == LifeSetting::OldStemcell {
            let text = hello.world.read("hello/stemcell/stemcell.MF");
            assert!(text.contains("api_version: 3\n"));
            hello.world.write("hello/stemcell/stemcell.MF", text.replace("api_version: 3\n", ""));
        }
        if setting.has_registry() {
            let registry =
                format!("{{host: {}, port: 6901, username: registry, password: no-secret}}", hello.ip());
            let ops = format!(
                "- {{type: replace, path: /cloud_provider/properties/registry?, value: {registry}}}\n"
            );
            hello.add_ops("registry.yml", &ops);
        }
        if setting.is_shared() {
            // Long sweeps share the machine with other work.
            let lease = if is_full_sweep() { "60s" } else { "12s" };
            hello.share_in(Bucket { lease, ..Bucket::new() });
        }
        let bridge = (setting == LifeSetting::Userland).then(|| hello.move_cpi_to_userland());
        let gate = Arc::new(Gate::new(hello.world.path("")));
        let proxy = hello.proxy_agent_with(GateListener(gate.clone()));
        let (context, pid_successors, removed_cids) = (String::new(), Vec::new(), BTreeSet::new());
        CrashLife {
            hello,
            setting,
            gate,
            context,
            pid_successors,
            _proxy: proxy,
            _bridge: bridge,
            tally,
            removed_cids,
            lock_may_stay: false,
        }
    }

    fn add_leak(&self, description: impl std::fmt::Display) {
        self.tally.add_leak(format!("{}: {description}", self.context));
    }

    /// Returns the CPI's script without actions.
    pub(super) fn script(&self) -> Script {
        Script::with_info(self.setting.info_answer())
    }

    /// Resets CPI and agent to normal, and restarts the count of calls and messages.
    pub(super) fn reset_disturbances(&self) {
        self.hello.set_script(self.script());
        self.gate.set(None);
    }

    /// Returns the command of a stage.
    pub(super) fn command(&self, stage: usize) -> Command {
        // A machine that is gone leaves a lease behind until it expires.
        let timeout_options: &[&str] =
            if self.setting.is_shared() { &["--wait-for-lock", "150s"] } else { &[] };
        let (command, option) = match stage {
            DELETE => ("delete-env", Some("-n")),
            RECREATE => ("create-env", Some("--recreate")),
            _ => ("create-env", None),
        };
        self.hello.command(command, &timeout_options.iter().copied().chain(option).collect::<Vec<_>>())
    }

    /// Makes the change that a stage deploys.
    fn prepare_change(&mut self, stage: usize) {
        match stage {
            REDEPLOY => self.hello.add_ops(
                "property.yml",
                "- type: replace\n  \
                 path: /instance_groups/name=hello/jobs/name=hello/properties/changed?\n  value: yes\n",
            ),
            // No disk can shrink in place.
            DISK_MIGRATION => self.hello.add_ops(
                "disk.yml",
                "- {type: replace, path: /disk_pools/name=disks/disk_size, value: 512}\n",
            ),
            RECREATE => self.hello.add_ops(
                "disk.yml",
                "- {type: replace, path: /disk_pools/name=disks/disk_size, value: 2048}\n",
            ),
            _ => {}
        }
    }

    /// Runs the complete life without the stages that `runs_stage` excludes. `command` runs a stage's command
    /// to its end; `check` gets the state after each deploy.
    pub(super) fn run_stages(
        &mut self,
        runs_stage: impl Fn(usize) -> bool,
        mut command: impl FnMut(&mut Self, usize),
        mut check: impl FnMut(usize, &Value, &str),
    ) {
        let mut deploys = 0;
        for stage in 0..STAGES.len() {
            // The next stage deploys the change of a skipped stage.
            self.prepare_change(stage);
            if !runs_stage(stage) {
                continue;
            }
            command(self, stage);
            if stage == DELETE {
                self.check_nothing_left();
                break;
            }
            // The call may have failed because an interrupted run stopped the registry.
            self.hello.forget_suspects();
            self.check_cloud_is_as_recorded();
            check(stage, &self.hello.normalised_state(), &self.context);
            // A VM that was just rebooted starts its jobs by itself.
            wait_until(&format!("{}: the service answers", self.context), || self.hello.answers());
            deploys += 1;
            assert_eq!(
                self.hello.ask_counter(),
                deploys,
                "{}: the disk's data is not what it was",
                self.context
            );
        }
        // A stemcell, two disks, and a VM for each deploy except the in-place one.
        let in_place = usize::from(runs_stage(REDEPLOY));
        self.check_effects(3 + usize::try_from(deploys).unwrap() - in_place);
        for successor in &mut self.pid_successors {
            assert!(successor.is_well(), "a process was signalled that had a pid of ours");
        }
    }

    /// Runs one stage: disturbs the command, checks the cloud, and runs the same command again.
    pub(super) fn run_stage(&mut self, stage: usize, disturbance: &Disturbance) {
        self.context = format!("{:?}, {}, {disturbance:?}", self.setting, STAGES[stage]);
        let (was_disturbed, run) = self.run_disturbed(stage, disturbance);
        self.lock_may_stay =
            !was_disturbed && matches!(disturbance, Disturbance::Fault { name: "unlink", .. });
        self.tally.count_point(disturbance, was_disturbed);
        if !was_disturbed {
            return self.check_code(&run, run.code == 0);
        }
        self.check_state_is_whole();
        if !disturbance.leaves_a_call() {
            self.hello.wait_until_idle();
            self.check_all_is_known();
        }
        self.reset_disturbances();
        self.run_again(stage, disturbance);
    }

    /// Runs the same command again, with the steps that its output asks for.
    fn run_again(&mut self, stage: usize, disturbance: &Disturbance) {
        if self.setting.is_shared() {
            self.hello.change_machine();
        }
        let mut run = self.hello.world.finish(self.command(stage));
        let output = run.stdout.clone() + &run.stderr;
        if run.code == 1 && output.contains("--forget-open-calls") {
            // For a creating call without an answer, the run stops and names the possible resource.
            let is_machine_gone = self.setting.is_shared() && disturbance.switches_off();
            let who = if is_machine_gone { "the call was made by `" } else { "" };
            for text in ["is unknown", "look in the IaaS for", who] {
                assert!(output.contains(text), "{}: {text} is not in {output}", self.context);
            }
            self.remove_what_is_unknown();
            let mut command = self.command(stage);
            command.arg("--forget-open-calls");
            run = self.hello.world.finish(command);
        }
        if run.code == 5 && stage != DELETE && disturbance.switches_off() {
            // The VM is deployed but switched off, so the operator must decide.
            for text in
                ["to replace the VM and keep its persistent disk: `monopile create-env ", " --recreate`"]
            {
                assert!(run.stderr.contains(text), "{}: {text} is not in {}", self.context, run.stderr);
            }
            let mut command = self.command(stage);
            if stage != RECREATE {
                command.arg("--recreate");
            }
            run = self.hello.world.finish(command);
        }
        // A run killed after it removed the state has nothing left to delete.
        let is_deleted = stage == DELETE && run.code == 3 && run.stderr.contains("there is no state");
        self.check_code(&run, run.code == 0 || is_deleted);
    }

    /// Deletes unknown resources, like an operator who follows the program's advice.
    fn remove_what_is_unknown(&mut self) {
        let records = self.hello.announced_or_recorded();
        for cid in self.hello.cloud().into_iter().filter(|cid| !records.contains(cid.as_str())) {
            let kind = cid.split('-').next().unwrap();
            self.hello.call(&format!("delete_{kind}"), serde_json::json!([cid]));
            self.removed_cids.insert(cid);
        }
    }

    /// Fails with the output of the run if `is_allowed` is false.
    #[track_caller]
    pub(super) fn check_code(&self, run: &Run, is_allowed: bool) {
        assert!(
            is_allowed,
            "{}: exit code {}\n--- stdout\n{}\n--- stderr\n{}",
            self.context, run.code, run.stdout, run.stderr
        );
    }

    /// Checks that the state is the old one or the new one.
    fn check_state_is_whole(&self) {
        self.hello.copy_bucket();
        let path = self.hello.world.path("state.json");
        let Ok(text) = std::fs::read_to_string(&path) else { return };
        let state: Result<Value, _> = serde_json::from_str(&text);
        assert!(state.is_ok_and(|state| state["director_id"].is_string()), "{}: torn: {text}", self.context);
    }

    /// Checks that every resource has its CID on record, or that an open call accounts for it.
    fn check_all_is_known(&self) {
        if self.setting.is_shared() {
            // The state keeper records the outcomes of the calls.
            self.hello.wait_for_keeper();
        }
        let records = self.hello.announced_or_recorded();
        let announced_methods = self.hello.announced_methods();
        for cid in self.hello.cloud().iter().filter(|cid| !records.contains(cid.as_str())) {
            let method = format!("create_{}", cid.split('-').next().unwrap());
            if !announced_methods.contains(&method) {
                self.add_leak(format_args!("{cid} exists, and neither state nor journal knows it"));
            }
        }
    }

    pub(super) fn check_cloud_is_as_recorded(&self) {
        let cloud = self.hello.cloud();
        let recorded_cids = self.hello.recorded_cids();
        if cloud != recorded_cids {
            self.add_leak(format_args!("the cloud has {cloud:?} and the state {recorded_cids:?}"));
        }
        self.check_lock_is_gone();
        let journal = std::fs::read_dir(self.hello.world.path("state.json.journal")).into_iter().flatten();
        let journal = journal.map(|entry| entry.unwrap().path());
        // The next run sweeps files that a settled call could not remove.
        let will_be_swept = |path: &PathBuf| {
            let kind = path.extension().and_then(|kind| kind.to_str());
            matches!(kind, Some("log" | "answer" | "prepared")) && !path.with_extension("intent").exists()
        };
        let journal: Vec<String> = journal
            .filter(|path| !will_be_swept(path))
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        // The registry's content exists as long as its VM.
        let expected: &[&str] = if self.setting.has_registry() { &["registry.json"] } else { &[] };
        assert_eq!(journal, expected, "{}: the journal", self.context);
        if self.setting.has_registry() {
            let registry_text = self.hello.world.read("state.json.journal/registry.json");
            let vm = self.hello.state()["current_vm_cid"].as_str().unwrap().to_owned();
            assert!(registry_text.contains(&vm), "{}: the registry does not know {vm}", self.context);
        }
    }

    fn check_lock_is_gone(&self) {
        let lock_exists = self.hello.world.exists("state.json.lock");
        assert!(self.lock_may_stay || !lock_exists, "{}: the lock is left", self.context);
    }

    pub(super) fn check_nothing_left(&self) {
        self.hello.copy_bucket();
        let is_scratch =
            |leftover: &String| leftover.starts_with("file ") && leftover.contains("/tmp/monopile-");
        if self.hello.world.leftovers().iter().any(is_scratch) {
            // Each run removes the scratch directories of killed runs, as soon as no process holds their
            // locks or claims: a CPI may have read them until the end of the last run.
            self.reset_disturbances();
            self.hello.world.finish(self.hello.subcommand(&["cpi", "info"], &[])).success();
        }
        for leftover in self.hello.leftovers() {
            self.add_leak(format_args!("{leftover} is left"));
        }
        self.check_lock_is_gone();
        for file in ["state.json", "state.json.bak", "state.json.journal"] {
            assert!(!self.hello.world.exists(file), "{}: {file} is left", self.context);
        }
    }

    /// Checks that every created resource was deleted once, and that only the resources of an undisturbed
    /// life were created, apart from replaced VMs and disks on which no job ever ran.
    fn check_effects(&self, required_count: usize) {
        let (created_cids, mut deleted_cids) = self.hello.effects();
        deleted_cids.extend(self.removed_cids.iter().cloned());
        let (distinct_created, distinct_deleted) =
            (created_cids.iter().collect::<BTreeSet<_>>(), deleted_cids.iter().collect::<BTreeSet<_>>());
        if created_cids.len() != distinct_created.len() {
            self.add_leak(format_args!("something was made twice: {created_cids:?}"));
        }
        if distinct_created != distinct_deleted || created_cids.len() != deleted_cids.len() {
            self.add_leak(format_args!("made {created_cids:?}, deleted {deleted_cids:?}"));
        }
        let stemcells = created_cids.iter().filter(|cid| cid.starts_with("stemcell-"));
        let stemcells = stemcells.filter(|cid| !self.removed_cids.contains(*cid)).count();
        assert_eq!(stemcells, 1, "the stemcell was uploaded again: {created_cids:?}");
        self.tally.count_replaced(created_cids.len() - required_count);
    }
}
