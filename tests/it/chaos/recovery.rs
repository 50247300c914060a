//! The recovery: when the chaos is over, an operator who follows the messages and the documented commands
//! reaches a working deployment, and then an empty cloud.

use super::life::{Attempt, ChaosLife, HeldCallAction, RECOVERY_TIMEOUT};
use super::schedule::OperatorCommand;
use crate::support::Run;
use crate::support::scripted::wait_until;

/// The maximum number of commands for each of the two goals.
const MAX_COMMANDS: usize = 12;
/// Parts of messages that ask the operator to look in the IaaS for something.
const REQUESTS_TO_LOOK: [&str; 6] = [
    "look in the IaaS",
    "delete the VM with this address in the IaaS",
    "delete it in the IaaS",
    "delete it: `monopile delete-vm ",
    "delete the untracked VM: `",
    "delete that VM, and forget the call: `",
];

impl ChaosLife {
    /// Deploys the manifest and deletes the environment again, without further chaos.
    pub(super) fn recover(&mut self) {
        self.log_step("recovery");
        self.end_disturbances();
        self.pursue(OperatorCommand::Create);
        self.check_service();
        self.pursue(OperatorCommand::Delete);
        for cid in self.inventory.present_cids(&self.hello) {
            // The resource was reported, because otherwise the check after the last run would have failed.
            self.delete_by_hand(&cid);
        }
        for cid in self.inventory.bystanders.clone() {
            self.remove_bystander(&cid);
        }
        wait_until("all processes of the environment end", || {
            self.hello.world.leftovers().iter().all(|leftover| !leftover.starts_with("process "))
        });
    }

    /// Runs a command until it has succeeded, and follows its messages.
    fn pursue(&mut self, goal: OperatorCommand) {
        let mut options: Vec<&str> = Vec::new();
        let mut without_advice = 0;
        for _ in 0..MAX_COMMANDS {
            let run = self.run_in_peace(goal, &options);
            options.clear();
            let text = format!("{} {}", run.stdout, run.stderr);
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let is_reached = match goal {
                OperatorCommand::Delete => {
                    let is_missing = run.code == 3 && text.contains("there is no state");
                    (run.code == 0 || is_missing) && !self.hello.world.exists("state.json")
                }
                _ => run.code == 0 && !text.contains("o start them: `monopile start-env"),
            };
            if is_reached {
                return;
            }
            if self.follow(goal, &text, &mut options) {
                continue;
            }
            // This is the general advice of docs/troubleshooting.md, one item after the other.
            without_advice += 1;
            match (goal, without_advice) {
                (_, 1 | 2) => {}
                (_, 3) => drop(self.run_in_peace(OperatorCommand::Repair, &[])),
                (OperatorCommand::Create, 4) => options.push("--recreate"),
                _ => break,
            }
        }
        self.fail(&format!("no documented command leads to the end of {goal:?}"));
    }

    fn run_in_peace(&mut self, command: OperatorCommand, options: &[&str]) -> Run {
        self.counts.recovery += 1;
        let mut attempt =
            Attempt { is_undisturbed: false, timeout: RECOVERY_TIMEOUT, ..self.attempt(command) };
        // The operator knows the effect of the option.
        attempt.may_delete.vm |= options.contains(&"--recreate");
        self.log_step(&format!("{command:?} {}", options.join(" ")));
        self.run(self.prepare_command(command, options), &attempt, &HeldCallAction::Nothing)
    }

    /// Follows a message. Returns false if it contains no advice.
    fn follow(&mut self, goal: OperatorCommand, text: &str, options: &mut Vec<&'static str>) -> bool {
        let mut was_followed = false;
        if REQUESTS_TO_LOOK.iter().any(|look| text.contains(look)) {
            was_followed |= self.look_in_the_iaas(text);
        }
        if text.contains(" --forget-open-calls`") {
            options.push("--forget-open-calls");
            was_followed = true;
        }
        let failed_call = option(text, "state forget", "--call");
        let failed_calls = match &failed_call {
            Some(request_id) => Some(vec!["--call", request_id]),
            None => option(text, "state forget", "--failed-calls").map(|_| vec!["--failed-calls"]),
        };
        if let Some(failed_calls) = failed_calls {
            let command = self.hello.state_command(&["state", "show"]);
            let details = self.hello.world.finish(command).stdout;
            self.look_in_the_iaas(&details);
            was_followed |= self.forget(&failed_calls);
        }
        if let Some(cid) = option(text, "state forget", "--vm")
            && self.forget(&["--vm", &cid])
        {
            if self.hello.cloud().contains(&cid) {
                self.delete_by_hand(&cid);
            }
            was_followed = true;
        }
        if let Some(cid) = option(text, "state forget", "--snapshot") {
            was_followed |= self.forget(&["--snapshot", &cid]);
        }
        if option(text, "state forget", "--stemcell").is_some() {
            // One that was uploaded to another region exists there, but not for this CPI.
            was_followed |= self.forget_recorded(|cid| cid.starts_with("stemcell-") && text.contains(cid));
        }
        if text.contains("the disk is gone, or the CPI looks") {
            let cloud = self.hello.cloud();
            was_followed |= self.forget_recorded(|cid| cid.starts_with("disk-") && !cloud.contains(cid));
        }
        if goal == OperatorCommand::Create && option(text, "create-env", "--recreate").is_some() {
            options.push("--recreate");
            was_followed = true;
        }
        if text.contains("o start them: `monopile start-env") {
            self.run_in_peace(OperatorCommand::Start, &[]);
            was_followed = true;
        }
        if text.contains(" --wait-for-lock 30m`") {
            self.hello.wait_until_idle();
            was_followed = true;
        }
        was_followed
    }

    /// Deletes in the IaaS the resources that a message names, unless their CIDs are on record.
    fn look_in_the_iaas(&mut self, text: &str) -> bool {
        // An unusable answer in the journal may also contain the CID.
        let records = self.hello.records();
        let is_unnamed = text.contains("delete the VM with this address in the IaaS");
        let mut has_deleted = false;
        for cid in self.inventory.present_cids(&self.hello) {
            let is_named = self.inventory.names(&self.hello, &cid).iter().any(|name| text.contains(name));
            if !records.contains(&cid) && (is_named || (is_unnamed && cid.starts_with("vm-"))) {
                self.delete_by_hand(&cid);
                has_deleted = true;
            }
        }
        has_deleted
    }

    /// Drops the records of disks and stemcells whose CID is wanted.
    fn forget_recorded(&mut self, is_wanted: impl Fn(&str) -> bool) -> bool {
        let mut was_forgotten = false;
        for cid in self.hello.recorded_cids().into_iter().filter(|cid| is_wanted(cid)) {
            let kind = cid.split('-').next().unwrap_or_default();
            // The operator names it.
            self.inventory.allow_unrecorded(&cid);
            was_forgotten |= self.forget(&[&format!("--{kind}"), &cid]);
        }
        was_forgotten
    }

    fn forget(&mut self, what: &[&str]) -> bool {
        let words = [&["state", "forget", "--yes"], what].concat();
        let run = self.hello.world.finish(self.hello.state_command(&words));
        self.log_step(&format!("{} ends with {}", words.join(" "), run.code));
        self.inventory.observe_run(&self.hello, &run);
        self.check_nothing_lost();
        run.code == 0
    }
}

/// Returns the word after an option of a command that a message names. The message is on one line.
fn option(text: &str, command: &str, option: &str) -> Option<String> {
    text.split(&format!("monopile {command} ")).skip(1).find_map(|rest| {
        // A command ends at a backquote, or before the label of the next part of the message.
        let end = rest.find('`').into_iter().chain(rest.find(": ")).min().unwrap_or(rest.len());
        let mut words = rest[..end].split(' ').skip_while(|word| *word != option);
        words.next().map(|_| words.next().unwrap_or_default().to_owned())
    })
}

#[test]
fn options_are_found_in_messages() {
    let text = "hint: to forget it: `monopile state forget m.yml --state s.json --vm vm-1` log: /x";
    assert_eq!(option(text, "state forget", "--vm").as_deref(), Some("vm-1"));
    assert_eq!(option(text, "state forget", "--disk"), None);
    let text = "replace it: `monopile create-env m.yml -o a.yml --recreate`; or `monopile plan`";
    assert_eq!(option(text, "create-env", "--recreate").as_deref(), Some(""));
}
