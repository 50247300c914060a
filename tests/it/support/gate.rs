//! The hello environment behind the script `gate`, which kills or holds the program at a chosen CPI call.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::MONOPILE;
use super::hello::Hello;

/// A hello environment whose cloud can be counted.
pub struct Gate {
    pub hello: Hello,
}

impl Gate {
    pub fn new() -> Gate {
        Gate::around(Hello::new())
    }

    /// Around an environment that is not deployed yet.
    pub fn around(hello: Hello) -> Gate {
        // In the place of the recorder, whose mode it keeps.
        hello.world.write("recorder", include_str!("gate").replace("@MONOPILE@", MONOPILE));
        Gate { hello }
    }

    /// Sets the point for the next run, whose calls are counted from 1.
    pub fn arm(&self, number: usize, when: &str) {
        for file in ["calls", "finished", "held", "go"] {
            let _ = std::fs::remove_file(self.hello.world.path(file));
        }
        self.hello.world.write("point", format!("{number} {when}\n"));
    }

    fn number(&self, file: &str) -> usize {
        let text = std::fs::read_to_string(self.hello.world.path(file)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// How many calls there were since the point was set.
    pub fn calls(&self) -> usize {
        self.number("calls")
    }

    /// Waits until no CPI process is at work.
    pub fn wait_until_idle(&self) {
        until("the CPI ends", || {
            let mut at_work = self.hello.world.leftovers();
            at_work.retain(|left| {
                left.starts_with("process ") && (left.contains("recorder") || left.contains("cpi-exec"))
            });
            at_work.is_empty()
        });
    }

    /// Waits until the call at the point is held.
    pub fn wait_until_held(&self) {
        until("the call is held", || self.hello.world.exists("held"));
    }

    /// Lets the held call go on.
    pub fn go(&self) {
        self.hello.world.write("go", "");
    }

    /// The CIDs of what exists in the cloud.
    pub fn cloud(&self) -> BTreeSet<String> {
        ["stemcells", "vms", "disks"]
            .iter()
            .flat_map(|kind| {
                std::fs::read_dir(self.hello.world.path("cloud").join(kind)).into_iter().flatten()
            })
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    /// The CIDs of what the state says exists.
    pub fn recorded(&self) -> BTreeSet<String> {
        let state = self.hello.state();
        let listed = ["disks", "stemcells"].map(|list| state[list].as_array().cloned().unwrap_or_default());
        let mut cids: BTreeSet<String> =
            listed.iter().flatten().map(|record| record["cid"].as_str().unwrap().to_owned()).collect();
        cids.insert(state["current_vm_cid"].as_str().unwrap().to_owned());
        cids.remove("");
        cids
    }

    /// All that state and journal say, as text.
    pub fn known(&self) -> String {
        let mut text = std::fs::read_to_string(self.hello.world.path("state.json")).unwrap_or_default();
        for entry in
            std::fs::read_dir(self.hello.world.path("state.json.journal")).into_iter().flatten().flatten()
        {
            text += &std::fs::read_to_string(entry.path()).unwrap_or_default();
        }
        text
    }

    /// The state without what differs between environments.
    pub fn normalised_state(&self) -> Value {
        serde_json::from_str(&self.hello.normalise(&self.hello.world.read("state.json"))).unwrap()
    }

    /// The CIDs that calls have made, and those that calls have deleted with success.
    pub fn effects(&self) -> (Vec<String>, Vec<String>) {
        let (mut made, mut deleted) = (Vec::new(), Vec::new());
        for line in self.hello.world.read("ledger").lines() {
            let (request, answer) = line.split_once('\t').unwrap();
            let request: Value = serde_json::from_str(request).unwrap();
            let answer: Value = serde_json::from_str(answer).unwrap();
            if !answer["error"].is_null() {
                continue;
            }
            let result = &answer["result"];
            match request["method"].as_str().unwrap() {
                "create_vm" => made.push(result[0].as_str().unwrap().to_owned()),
                "create_disk" | "create_stemcell" => made.push(result.as_str().unwrap().to_owned()),
                "delete_vm" | "delete_disk" | "delete_stemcell" => {
                    deleted.push(request["arguments"][0].as_str().unwrap().to_owned());
                }
                _ => {}
            }
        }
        (made, deleted)
    }
}

/// Waits for a condition that must come true.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "timed out: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
