//! The scripted CPI: it stands before the built-in `local` CPI, speaks the dialect that a test wants, writes every
//! request down, and does to chosen calls what the test's script says. Its cloud is the local CPI's directory,
//! which can be counted.
//!
//! It is a program of its own: this test binary, started with one test that is ignored otherwise, see [`cpi`]. A
//! benchmark calls [`cpi::run_if_called`] first of all.
//!
//! ```ignore
//! let hello = Hello::new();
//! hello.script(Script::speaking(Speaks::Version(1)).fail("create_vm", 1, "Bosh::Clouds::VMCreationFailed", true));
//! hello.create(&[]).success();
//! assert_eq!(hello.cloud(), hello.recorded());
//! ```

pub(crate) mod cpi;

pub(crate) use super::process::until;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::World;
use super::hello::Hello;

/// What the CPI says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Speaks {
    /// What the local CPI says: nothing is translated.
    Local,
    /// `info` answers no `api_version`.
    Nothing,
    /// `info` is not implemented, in one of [`NOT_IMPLEMENTED`].
    NotImplemented(usize),
    /// This `api_version`.
    Version(u32),
}

/// Error types and messages by which CPIs say that they lack a method.
pub(crate) const NOT_IMPLEMENTED: [(&str, &str); 3] = [
    ("Bosh::Clouds::NotImplemented", "Must call implemented method"),
    ("Bosh::Clouds::CloudError", "Invalid Method: METHOD"),
    ("InvalidCall", "Method is not known, got 'METHOD'"),
];

impl Speaks {
    /// The `api_version` it has.
    pub(crate) fn version(self) -> u32 {
        match self {
            Speaks::Local => 2,
            Speaks::Nothing | Speaks::NotImplemented(_) => 1,
            Speaks::Version(version) => version,
        }
    }
}

/// When the caller of a call is killed, and what else may happen to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum When {
    /// Before the call has an effect; the call goes on.
    Before,
    /// The same, and the call takes a second more, so that the next run meets it at work.
    Slow,
    /// While the call is at work.
    During,
    /// When the answer is written and before it can be recorded.
    After,
    /// The call dies as well, without an effect and without an answer.
    Lost,
    /// It is not; the call waits until the file `go` is there.
    Hold,
    /// The same once the call has had its effect, before it answers.
    HoldDone,
    /// It is not; the CPI's process is killed itself, before the call has an effect.
    DieBefore,
    /// The same while the call is at work.
    DieDuring,
    /// The same once the call has had its effect, before it answers.
    DieAfter,
}

/// What is done to a call. Commands are run by bash; what they write is what the CPI writes, and how they end is
/// how it ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Deed {
    /// The call is made, and its answer is the input of this command.
    After(String),
    /// The call is not made; its request is the input of this command.
    Instead(String),
    /// The call is not made, and fails like this.
    Fail { error_type: String, message: String, ok_to_retry: bool },
}

/// One entry of a script.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Act {
    method: String,
    /// The first and the last of the method's calls that it is for, counted from 1.
    calls: (usize, usize),
    deed: Deed,
}

/// What the CPI does until it gets another script. Calls are counted from here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Script {
    speaks: Speaks,
    acts: Vec<Act>,
    /// Where the caller is killed or the call held: its number among all calls, from 1.
    point: Option<(usize, When)>,
}

impl Script {
    /// A CPI that does nothing special in this dialect.
    pub(crate) fn speaking(speaks: Speaks) -> Script {
        Script { speaks, acts: Vec::new(), point: None }
    }

    /// A CPI like the local one, whose caller is killed, or which waits, at this call.
    pub(crate) fn at(number: usize, when: When) -> Script {
        Script::speaking(Speaks::Local).stopped_at(number, when)
    }

    /// Has something happen at this call.
    pub(crate) fn stopped_at(self, number: usize, when: When) -> Script {
        Script { point: Some((number, when)), ..self }
    }

    /// The same for a CPI of another dialect.
    pub(crate) fn in_dialect(self, speaks: Speaks) -> Script {
        Script { speaks, ..self }
    }

    /// Does this to the first `count` calls of a method.
    pub(crate) fn first(self, method: &str, count: usize, deed: Deed) -> Script {
        self.on(method, (1, count), deed)
    }

    /// Does this to the calls of a method with these numbers, from 1.
    pub(crate) fn on(mut self, method: &str, calls: (usize, usize), deed: Deed) -> Script {
        self.acts.push(Act { method: method.to_owned(), calls, deed });
        self
    }

    /// Lets the first `count` calls of a method fail with this type.
    pub(crate) fn fail(self, method: &str, count: usize, error_type: &str, ok_to_retry: bool) -> Script {
        let message = format!("{method} failed as the script says");
        self.first(method, count, Deed::Fail { error_type: error_type.to_owned(), message, ok_to_retry })
    }

    /// Leaves a method unimplemented, in one of [`NOT_IMPLEMENTED`].
    pub(crate) fn without(self, method: &str, dialect: usize) -> Script {
        let (error_type, message) = NOT_IMPLEMENTED[dialect];
        let message = message.replace("METHOD", method);
        let deed = Deed::Fail { error_type: error_type.to_owned(), message, ok_to_retry: false };
        self.first(method, usize::MAX, deed)
    }
}

/// Writes the program into a world: an executable that speaks with the local CPI configured in `local.json` beside
/// it.
pub(crate) fn install(world: &World) -> PathBuf {
    let program = format!(
        "#!/bin/bash\nexport SCRIPTED_CPI='{}'\nexec 3>&1 >/dev/null '{}' --exact support::scripted::cpi::cpi \
         --ignored --nocapture --test-threads 1\n",
        world.path("").display(),
        std::env::current_exe().unwrap().display(),
    );
    let path = world.write("scripted", program);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

impl Hello {
    /// Gives the CPI another script.
    pub(crate) fn script(&self, script: Script) {
        for file in ["calls.json", "held", "go"] {
            let _ = std::fs::remove_file(self.world.path(file));
        }
        self.world.write("script.json", json!(script).to_string());
    }

    /// Has the CPI answer this to a method from now on: `instead` of doing it, or `after` it did.
    pub(crate) fn answer(&self, method: &str, when: &str, answer: &str) {
        for other in ["instead", "after"] {
            let _ = std::fs::remove_file(self.world.path(format!("answers/{method}.{other}")));
        }
        self.world.write(format!("answers/{method}.{when}"), answer);
        let mut script = Script::speaking(Speaks::Local);
        for entry in std::fs::read_dir(self.world.path("answers")).unwrap() {
            let path = entry.unwrap().path();
            let method = path.file_stem().unwrap().to_str().unwrap();
            let command = format!("cat '{}'", path.display());
            let deed = match path.extension().is_some_and(|when| when == "after") {
                true => Deed::After(command),
                false => Deed::Instead(command),
            };
            script = script.first(method, usize::MAX, deed);
        }
        self.script(script);
    }

    /// Has the CPI answer for itself again.
    pub(crate) fn answer_truly(&self) {
        let _ = std::fs::remove_dir_all(self.world.path("answers"));
        self.script(Script::speaking(Speaks::Local));
    }

    /// How many calls of a method there were since the script was given; of all methods with `""`.
    pub(crate) fn calls(&self, method: &str) -> usize {
        cpi::counts(&self.world.path("")).get(method).copied().unwrap_or_default()
    }

    /// Waits until no CPI process is at work.
    pub(crate) fn wait_until_idle(&self) {
        until("the CPI ends", || {
            let mut at_work = self.world.leftovers();
            at_work.retain(|left| {
                left.starts_with("process ") && (left.contains("scripted") || left.contains("cpi-exec"))
            });
            at_work.is_empty()
        });
    }

    /// Waits until the call at the point is held.
    pub(crate) fn wait_until_held(&self) {
        until("the call is held", || self.world.exists("held"));
    }

    /// Lets the held call go on.
    pub(crate) fn go(&self) {
        self.world.write("go", "");
    }

    /// The CIDs of what exists in the cloud.
    pub(crate) fn cloud(&self) -> BTreeSet<String> {
        in_cloud(&self.world.path(""))
    }

    /// The CIDs of what the state says exists.
    pub(crate) fn recorded(&self) -> BTreeSet<String> {
        let state = self.state();
        let listed = ["disks", "stemcells"].map(|list| state[list].as_array().cloned().unwrap_or_default());
        let mut cids: BTreeSet<String> =
            listed.iter().flatten().map(|record| record["cid"].as_str().unwrap().to_owned()).collect();
        cids.insert(state["current_vm_cid"].as_str().unwrap().to_owned());
        cids.remove("");
        cids
    }

    /// All that the state, announced calls and their answers say, as text. The journal's other files, logs and what
    /// the registry holds, are no record.
    pub(crate) fn known(&self) -> String {
        self.look();
        let mut text = std::fs::read_to_string(self.world.path("state.json")).unwrap_or_default();
        let entries = std::fs::read_dir(self.world.path("state.json.journal")).into_iter().flatten();
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|kind| kind == "intent" || kind == "answer") {
                text += &std::fs::read_to_string(path).unwrap_or_default();
            }
        }
        text
    }

    /// The methods of the calls that are announced and not settled.
    pub(crate) fn announced(&self) -> Vec<String> {
        self.look();
        let entries =
            std::fs::read_dir(self.world.path("state.json.journal")).into_iter().flatten().flatten();
        let intents = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|kind| kind == "intent"));
        let method = |path: PathBuf| {
            let intent: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            intent["method"].as_str().unwrap().to_owned()
        };
        intents.map(method).collect()
    }

    /// Drops the records of failed calls, as an operator does who has looked into them.
    pub(crate) fn forget_suspects(&self) {
        for suspect in self.state()["monopile"]["suspects"].as_array().cloned().unwrap_or_default() {
            let id = suspect["request_id"].as_str().unwrap();
            self.world.finish(self.state_command(&["state", "forget", "--yes", "--call", id])).success();
        }
    }

    /// The state without what differs between environments.
    pub(crate) fn normalised_state(&self) -> Value {
        self.look();
        let mut state: Value = serde_json::from_str(&self.normalise(&self.world.read("state.json"))).unwrap();
        let monopile = &mut state["monopile"];
        // Salted digests are never the same twice, and neither is the time that the steps of a run took.
        monopile["durations"].take();
        for path in ["/manifest/digests", "/vm/made_of", "/manifest"] {
            let map = monopile.pointer_mut(path).and_then(Value::as_object_mut);
            for value in map.into_iter().flat_map(|map| map.values_mut()).filter(|value| !value.is_object()) {
                *value = json!("<differs>");
            }
        }
        state
    }

    /// The CIDs of what calls have made, and of what they have deleted, whatever they answered.
    pub(crate) fn effects(&self) -> (Vec<String>, Vec<String>) {
        let ledger = std::fs::read_to_string(self.world.path("ledger")).unwrap_or_default();
        let of = |deed: &str| {
            let lines = ledger.lines().filter_map(|line| line.split_once(' '));
            lines.filter(|(what, _)| *what == deed).map(|(_, cid)| cid.to_owned()).collect()
        };
        (of("made"), of("deleted"))
    }
}

/// The CIDs of what exists in the cloud of the CPI in this directory.
fn in_cloud(directory: &Path) -> BTreeSet<String> {
    // A test with two CPIs has a second cloud.
    ["cloud", "cloud-b"]
        .into_iter()
        .flat_map(|cloud| ["stemcells", "vms", "disks"].map(|kind| directory.join(cloud).join(kind)))
        .flat_map(|kind| std::fs::read_dir(kind).into_iter().flatten())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// The script in this directory.
fn script_in(directory: &Path) -> Script {
    match std::fs::read(directory.join("script.json")) {
        Ok(text) => serde_json::from_slice(&text).unwrap(),
        Err(_) => Script::speaking(Speaks::Local),
    }
}
