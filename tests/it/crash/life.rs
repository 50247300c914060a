//! A life of an environment, and what must be true after each of its stages.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;

use super::disturbance::Disturbance;
use super::gate::{Ear, Gate};
use super::machine::Bystander;
use super::sweep::{Tally, full};
use crate::support::Run;
use crate::support::bucket::Bucket;
use crate::support::hello::Hello;
use crate::support::proxy::Proxy;
use crate::support::scripted::{Script, Speaks, until};

/// The stages of a life.
pub(super) const STAGES: [&str; 5] = ["create", "redeploy", "disk migration", "recreate", "delete"];
const DELETE: usize = 4;
/// Stages that the others can do without.
pub(super) const NEEDLESS: [usize; 2] = [1, 3];

/// What is in force between program, CPI and stemcell. Where it is v1, a registry is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contract {
    /// Contract v2.
    V2,
    /// Contract v1, because of the CPI.
    OldCpi,
    /// Contract v1, because of the stemcell.
    OldStemcell,
    /// Contract v2, the state in a bucket, and what is disturbed on one machine goes on on another.
    Shared,
    /// The same with contract v1, because of the CPI.
    SharedOldCpi,
}

impl Contract {
    /// Those with the state beside the manifest.
    pub(super) const ALL: [Contract; 3] = [Contract::V2, Contract::OldCpi, Contract::OldStemcell];
    /// Those with the state in a bucket.
    pub(super) const SHARED: [Contract; 2] = [Contract::Shared, Contract::SharedOldCpi];

    pub(super) fn is_shared(self) -> bool {
        Contract::SHARED.contains(&self)
    }

    fn has_registry(self) -> bool {
        !matches!(self, Contract::V2 | Contract::Shared)
    }

    /// What the CPI is.
    fn speaks(self) -> Speaks {
        match self {
            Contract::V2 | Contract::Shared => Speaks::Local,
            Contract::OldCpi | Contract::SharedOldCpi => Speaks::Version(1),
            Contract::OldStemcell => Speaks::Version(2),
        }
    }
}

/// One life in which each command is disturbed once.
pub(super) struct Life<'t> {
    pub hello: Hello,
    pub contract: Contract,
    pub gate: Arc<Gate>,
    /// Where and how it is disturbed, for messages.
    pub place: String,
    /// Those who have got pids that were ours.
    pub bystanders: Vec<Bystander>,
    _proxy: Proxy,
    tally: &'t Tally,
    /// What an operator found in the cloud and removed, as the program said.
    removed: BTreeSet<String>,
    /// Whether the removal of the lock's file may have failed: a file that nobody has locked is in nobody's way.
    lock_may_stay: bool,
}

impl<'t> Life<'t> {
    pub(super) fn new(contract: Contract, tally: &'t Tally) -> Self {
        let mut hello = Hello::new();
        if contract == Contract::OldStemcell {
            let text = hello.world.read("hello/stemcell/stemcell.MF");
            assert!(text.contains("api_version: 3\n"));
            hello.world.write("hello/stemcell/stemcell.MF", text.replace("api_version: 3\n", ""));
        }
        if contract.has_registry() {
            let registry =
                format!("{{host: {}, port: 6901, username: registry, password: no-secret}}", hello.ip());
            let ops = format!(
                "- {{type: replace, path: /cloud_provider/properties/registry?, value: {registry}}}\n"
            );
            hello.ops("registry.yml", &ops);
        }
        if contract.is_shared() {
            // Long sweeps run beside other work, and are not in a hurry.
            let lease = if full() { "60s" } else { "12s" };
            hello.share_in(Bucket { lease, ..Bucket::new() });
        }
        let gate = Arc::new(Gate::new(hello.world.path("")));
        let proxy = hello.listen_with(Ear(gate.clone()));
        let (place, bystanders, removed) = (String::new(), Vec::new(), BTreeSet::new());
        Life { hello, contract, gate, place, bystanders, _proxy: proxy, tally, removed, lock_may_stay: false }
    }

    fn leak(&self, what: impl std::fmt::Display) {
        self.tally.leak(format!("{}: {what}", self.place));
    }

    /// What the CPI does when nothing is asked of it.
    pub(super) fn script(&self) -> Script {
        Script::speaking(self.contract.speaks())
    }

    /// Has the CPI and the agent be themselves, and counts their calls and messages from here on.
    pub(super) fn speak(&self) {
        self.hello.script(self.script());
        self.gate.set(None);
    }

    /// The command of a stage.
    pub(super) fn command(&self, stage: usize) -> Command {
        // A machine that is no more leaves a lease behind, which lasts as long as it lasts.
        let patience: &[&str] = if self.contract.is_shared() { &["--wait-for-lock", "150s"] } else { &[] };
        let (command, flag) = match stage {
            DELETE => ("delete-env", Some("-n")),
            3 => ("create-env", Some("--recreate")),
            _ => ("create-env", None),
        };
        self.hello.command(command, &patience.iter().copied().chain(flag).collect::<Vec<_>>())
    }

    /// What makes the next command another one than the last.
    fn change(&mut self, stage: usize) {
        match stage {
            1 => self.hello.ops(
                "property.yml",
                "- type: replace\n  \
                 path: /instance_groups/name=hello/jobs/name=hello/properties/changed?\n  value: yes\n",
            ),
            2 => self
                .hello
                .ops("disk.yml", "- {type: replace, path: /disk_pools/name=disks/disk_size, value: 2048}\n"),
            _ => {}
        }
    }

    /// The whole life, but for stages that are not `lived`. `command` runs a stage's command to its end; `check` sees
    /// the state after each deploy.
    pub(super) fn live(
        &mut self,
        lived: impl Fn(usize) -> bool,
        mut command: impl FnMut(&mut Self, usize),
        mut check: impl FnMut(usize, &Value, &str),
    ) {
        let mut deploys = 0;
        for stage in 0..STAGES.len() {
            // What a stage changes that is not lived, the next one brings.
            self.change(stage);
            if !lived(stage) {
                continue;
            }
            command(self, stage);
            if stage == DELETE {
                self.check_nothing_left();
                break;
            }
            // A CPI whose registry went with the run that was told to stop may have failed.
            self.hello.forget_suspects();
            self.check_cloud_is_as_recorded();
            check(stage, &self.hello.normalised_state(), &self.place);
            // A VM that was just booted again brings up its jobs by itself.
            until(&format!("{}: the service answers", self.place), || self.hello.answers());
            deploys += 1;
            assert_eq!(self.hello.ask().1, deploys, "{}: the disk's data is not what it was", self.place);
        }
        // A stemcell, two disks, and a VM for each deploy but the one that is done in place.
        let in_place = usize::from(lived(1));
        self.check_effects(3 + usize::try_from(deploys).unwrap() - in_place);
        for bystander in &mut self.bystanders {
            assert!(bystander.is_well(), "a process was signalled that had a pid of ours");
        }
    }

    /// One stage: the command is disturbed, the cloud looked at, and the same command run again.
    pub(super) fn stage(&mut self, stage: usize, disturbance: &Disturbance) {
        self.place = format!("{:?}, {}, {disturbance:?}", self.contract, STAGES[stage]);
        let (disturbed, run) = self.disturbed(stage, disturbance);
        self.lock_may_stay = !disturbed && matches!(disturbance, Disturbance::Fault { name: "unlink", .. });
        self.tally.point(disturbance, disturbed);
        if !disturbed {
            return self.check_code(&run, run.code == 0);
        }
        self.check_state_is_whole();
        if !disturbance.leaves_a_call() {
            self.hello.wait_until_idle();
            self.check_all_is_known();
        }
        self.speak();
        self.again(stage, disturbance);
    }

    /// Runs the same command again, and does what it says must be done before it can go on.
    fn again(&mut self, stage: usize, disturbance: &Disturbance) {
        if self.contract.is_shared() {
            self.hello.change_machine();
        }
        let mut run = self.hello.world.finish(self.command(stage));
        let told = run.stdout.clone() + &run.stderr;
        if run.code == 1 && told.contains("--forget-open-calls") {
            // A call that may have made something and has no answer: the run stops and says what to look for.
            let machine_gone = self.contract.is_shared() && disturbance.switches_off();
            let who = if machine_gone { "it was made by `" } else { "" };
            for needed in ["is not known", "look in the IaaS for", who] {
                assert!(told.contains(needed), "{}: {needed} is not in {told}", self.place);
            }
            self.remove_what_is_unknown();
            let mut command = self.command(stage);
            command.arg("--forget-open-calls");
            run = self.hello.world.finish(command);
        }
        if run.code == 5 && stage != DELETE && disturbance.switches_off() {
            // Deployed, and switched off: the CPI has the VM, and what to do with it is for the operator to say.
            assert!(run.stderr.contains("create-env --recreate"), "{}: {}", self.place, run.stderr);
            let mut command = self.command(stage);
            if stage != 3 {
                command.arg("--recreate");
            }
            run = self.hello.world.finish(command);
        }
        // Killed between the removal of the state and its own end: there is nothing left to delete.
        let deleted = stage == DELETE && run.code == 3 && run.stderr.contains("there is no state");
        self.check_code(&run, run.code == 0 || deleted);
    }

    /// What the operator does who was told to look.
    fn remove_what_is_unknown(&mut self) {
        let known = self.hello.known();
        for cid in self.hello.cloud().into_iter().filter(|cid| !known.contains(cid.as_str())) {
            let kind = cid.split('-').next().unwrap();
            self.hello.call(&format!("delete_{kind}"), serde_json::json!([cid]));
            self.removed.insert(cid);
        }
    }

    /// Fails, with all that the run said, unless its exit code is one that it may have.
    #[track_caller]
    pub(super) fn check_code(&self, run: &Run, may: bool) {
        assert!(
            may,
            "{}: exit code {}\n--- stdout\n{}\n--- stderr\n{}",
            self.place, run.code, run.stdout, run.stderr
        );
    }

    /// The old state or the new one, whatever happened.
    fn check_state_is_whole(&self) {
        self.hello.look();
        let path = self.hello.world.path("state.json");
        let Ok(text) = std::fs::read_to_string(&path) else { return };
        let state: Result<Value, _> = serde_json::from_str(&text);
        assert!(state.is_ok_and(|state| state["director_id"].is_string()), "{}: torn: {text}", self.place);
    }

    /// What exists has its CID on record, or an announced call that has not answered stands for it.
    fn check_all_is_known(&self) {
        if self.contract.is_shared() {
            // What stayed behind makes known what the calls came to.
            self.hello.wait_for_keeper();
        }
        let known = self.hello.known();
        let announced = self.hello.announced();
        for cid in self.hello.cloud().iter().filter(|cid| !known.contains(cid.as_str())) {
            let method = format!("create_{}", cid.split('-').next().unwrap());
            if !announced.contains(&method) {
                self.leak(format_args!("{cid} exists, and neither state nor journal knows it"));
            }
        }
    }

    pub(super) fn check_cloud_is_as_recorded(&self) {
        let cloud = self.hello.cloud();
        let recorded = self.hello.recorded();
        if cloud != recorded {
            self.leak(format_args!("the cloud has {cloud:?} and the state {recorded:?}"));
        }
        self.check_lock_is_gone();
        let journal = std::fs::read_dir(self.hello.world.path("state.json.journal")).into_iter().flatten();
        let journal = journal.map(|entry| entry.unwrap().path());
        // What a settled call could not remove, the next run sweeps.
        let swept = |path: &PathBuf| {
            let kind = path.extension().and_then(|kind| kind.to_str());
            matches!(kind, Some("log" | "answer" | "prepared")) && !path.with_extension("intent").exists()
        };
        let journal: Vec<String> = journal
            .filter(|path| !swept(path))
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        // The registry's content lives as long as its VM.
        let expected: &[&str] = if self.contract.has_registry() { &["registry.json"] } else { &[] };
        assert_eq!(journal, expected, "{}: the journal", self.place);
        if self.contract.has_registry() {
            let served = self.hello.world.read("state.json.journal/registry.json");
            let vm = self.hello.state()["current_vm_cid"].as_str().unwrap().to_owned();
            assert!(served.contains(&vm), "{}: the registry does not know {vm}", self.place);
        }
    }

    fn check_lock_is_gone(&self) {
        let left = self.hello.world.exists("state.json.lock");
        assert!(self.lock_may_stay || !left, "{}: the lock is left", self.place);
    }

    pub(super) fn check_nothing_left(&self) {
        self.hello.look();
        // Scratch directories of killed runs are swept after a day, since a CPI may still read there.
        let mut left = self.hello.leftovers();
        left.retain(|left| !(left.starts_with("file ") && left.contains("/tmp/monopile-")));
        for left in left {
            self.leak(format_args!("{left} is left"));
        }
        self.check_lock_is_gone();
        for gone in ["state.json", "state.json.bak", "state.json.journal"] {
            assert!(!self.hello.world.exists(gone), "{}: {gone} is left", self.place);
        }
    }

    /// What was made was taken away once, and nothing was made that an undisturbed life does not need but where a VM
    /// or disk that no job ever ran on was replaced.
    fn check_effects(&self, needed: usize) {
        let (made, mut deleted) = self.hello.effects();
        deleted.extend(self.removed.iter().cloned());
        let (distinct_made, distinct_deleted) =
            (made.iter().collect::<BTreeSet<_>>(), deleted.iter().collect::<BTreeSet<_>>());
        if made.len() != distinct_made.len() {
            self.leak(format_args!("something was made twice: {made:?}"));
        }
        if distinct_made != distinct_deleted || made.len() != deleted.len() {
            self.leak(format_args!("made {made:?}, deleted {deleted:?}"));
        }
        let stemcells = made.iter().filter(|cid| cid.starts_with("stemcell-"));
        let stemcells = stemcells.filter(|cid| !self.removed.contains(*cid)).count();
        assert_eq!(stemcells, 1, "the stemcell was uploaded again: {made:?}");
        self.tally.replaced(made.len() - needed);
    }
}
