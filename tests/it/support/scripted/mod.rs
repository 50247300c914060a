//! The scripted CPI wraps the built-in `local` CPI. It answers `info` as a test sets, records every request,
//! and treats chosen calls as the test's script says. Its cloud is the local CPI's directory, whose resources
//! tests can count.
//!
//! It runs as a separate process: this test binary, started with one test that is otherwise ignored, see
//! [`cpi`]. A benchmark calls [`cpi::run_if_called`] before anything else.
//!
//! ```ignore
//! let hello = Hello::new();
//! let script = Script::with_info(InfoAnswer::Version(1));
//! hello.set_script(script.fail("create_vm", 1, "Bosh::Clouds::VMCreationFailed", true));
//! hello.create(&[]).success();
//! assert_eq!(hello.cloud(), hello.recorded_cids());
//! ```

pub(crate) mod cpi;

pub(crate) use super::process::wait_until;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::hello::{Hello, SCRIPTED_CPI_OPS_FILE};
use super::process::prepare;
use super::userland::{self, Bridge, BridgedCall};
use super::{World, enter_world};

/// The configuration of the local CPI.
const CONFIG_FILE: &str = "local.json";
/// With this variable, a call follows no script and is not counted. Commands of a [`Reaction`] use it to make
/// the call later.
pub(crate) const UNSCRIPTED_VARIABLE: &str = "SCRIPTED_CPI_OFF";
/// The variable with the pid of the caller, if the caller is not the parent.
const CALLER_PID_VARIABLE: &str = "SCRIPTED_CPI_CALLER";

/// The answer of the CPI to `info`, which decides how the other methods answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum InfoAnswer {
    /// The answer of the local CPI, whose answers to other methods are not translated.
    Local,
    /// `info` answers without `api_version`.
    WithoutVersion,
    /// `info` is not implemented; the number selects the error in [`NOT_IMPLEMENTED`].
    NotImplemented(usize),
    /// `info` answers this `api_version`.
    Version(u32),
}

/// Error types and messages of CPIs for unimplemented methods.
pub(crate) const NOT_IMPLEMENTED: [(&str, &str); 3] = [
    ("Bosh::Clouds::NotImplemented", "Must call implemented method"),
    ("Bosh::Clouds::CloudError", "Invalid Method: METHOD"),
    ("InvalidCall", "Method is not known, got 'METHOD'"),
];

impl InfoAnswer {
    /// Returns the `api_version` that callers use with this CPI.
    pub(crate) fn version(self) -> u32 {
        match self {
            InfoAnswer::Local => 2,
            InfoAnswer::WithoutVersion | InfoAnswer::NotImplemented(_) => 1,
            InfoAnswer::Version(version) => version,
        }
    }
}

/// The disturbance of a call, and its moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Interruption {
    /// Kills the caller before the call has an effect. The call continues.
    Before,
    /// Like `Before`, but the call takes a second longer, so the next run finds it running.
    Slow,
    /// Kills the caller while the call is working.
    During,
    /// Kills the caller when the answer is written but cannot be recorded yet.
    After,
    /// Kills the caller and the call, without an effect and without an answer.
    Lost,
    /// Kills nothing. The call waits until the file `go` exists.
    Hold,
    /// Kills nothing. The call waits for `go` after its effect, before its answer.
    HoldAfterEffect,
    /// Kills only the CPI's process, before the call has an effect.
    DieBefore,
    /// Kills only the CPI's process, while the call is working.
    DieDuring,
    /// Kills only the CPI's process, after the effect and before the answer.
    DieAfter,
}

/// The script's reaction to a call. Commands run in bash, and their output and exit code are those of the
/// CPI.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Reaction {
    /// Makes the call, and passes its answer to this command.
    After(String),
    /// Passes the request to this command in place of the call.
    Instead(String),
    /// Fails without making the call.
    Fail { error_type: String, message: String, ok_to_retry: bool },
    /// Interrupts the call.
    Interrupt(Interruption),
}

/// One entry of a script.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ScriptEntry {
    method: String,
    /// The first and last call of the method that it applies to, from 1.
    calls: (usize, usize),
    reaction: Reaction,
}

/// The script of the CPI until the next one is set. Calls are counted from that moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Script {
    #[serde(rename = "speaks")]
    info: InfoAnswer,
    entries: Vec<ScriptEntry>,
    /// The number of the interrupted call among all calls, from 1, and the interruption.
    point: Option<(usize, Interruption)>,
    /// The configuration of the local CPI.
    config: String,
}

impl Script {
    /// Creates a script without reactions, for a CPI with this answer to `info`.
    pub(crate) fn with_info(info: InfoAnswer) -> Script {
        Script { info, entries: Vec::new(), point: None, config: CONFIG_FILE.to_owned() }
    }

    /// Creates a script with the answer of the local CPI to `info` that interrupts this call.
    pub(crate) fn with_interruption(number: usize, when: Interruption) -> Script {
        Script::with_info(InfoAnswer::Local).stopped_at(number, when)
    }

    /// Interrupts this call.
    pub(crate) fn stopped_at(self, number: usize, when: Interruption) -> Script {
        Script { point: Some((number, when)), ..self }
    }

    /// Makes the calls with this configuration of the local CPI, and thus in another place.
    pub(crate) fn with_config(self, config: &str) -> Script {
        Script { config: config.to_owned(), ..self }
    }

    /// Changes the answer to `info`.
    pub(crate) fn and_info(self, info: InfoAnswer) -> Script {
        Script { info, ..self }
    }

    /// Applies the reaction to the first `count` calls of a method.
    pub(crate) fn first(self, method: &str, count: usize, reaction: Reaction) -> Script {
        self.on(method, (1, count), reaction)
    }

    /// Applies the reaction to the calls of a method with these numbers, from 1.
    pub(crate) fn on(mut self, method: &str, calls: (usize, usize), reaction: Reaction) -> Script {
        self.entries.push(ScriptEntry { method: method.to_owned(), calls, reaction });
        self
    }

    /// Makes the first `count` calls of a method fail with this error type.
    pub(crate) fn fail(self, method: &str, count: usize, error_type: &str, ok_to_retry: bool) -> Script {
        let message = format!("{method} failed as the script says");
        self.first(method, count, Reaction::Fail { error_type: error_type.to_owned(), message, ok_to_retry })
    }

    /// Makes a method unimplemented, with an error of [`NOT_IMPLEMENTED`].
    pub(crate) fn without_method(self, method: &str, dialect: usize) -> Script {
        let (error_type, message) = NOT_IMPLEMENTED[dialect];
        let message = message.replace("METHOD", method);
        let reaction = Reaction::Fail { error_type: error_type.to_owned(), message, ok_to_retry: false };
        self.first(method, usize::MAX, reaction)
    }
}

/// Writes the CPI's executable into a world. It uses the local CPI configured in [`CONFIG_FILE`] beside it.
pub(crate) fn install(world: &World) -> PathBuf {
    let program = format!(
        "#!/bin/bash\nexport SCRIPTED_CPI='{}'\nexec 3>&1 >/dev/null '{}' --exact \
         support::scripted::cpi::cpi --ignored --nocapture --test-threads 1\n",
        world.path("").display(),
        std::env::current_exe().unwrap().display(),
    );
    let path = world.write("scripted", program);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Answers a call of a CPI in a userland with the CPI that [`install`] wrote in the world `root`.
fn answer_bridged(mut call: BridgedCall, root: &Path) -> u8 {
    let mut request = call.read_request();
    // The context of an executable has the properties of the manifest, and that of a job has not.
    if let Ok(mut message) = serde_json::from_slice::<Value>(&request)
        && let Some(context) = message["context"].as_object_mut()
    {
        context.extend(serde_json::from_slice::<serde_json::Map<String, Value>>(&call.config).unwrap());
        request = message.to_string().into_bytes();
    }
    let mut command = prepare(root.join("work/scripted"));
    enter_world(&mut command, root).env(CALLER_PID_VARIABLE, call.caller.to_string());
    call.answer_with(command, &request)
}

impl Hello {
    /// Puts a CPI of a release in a userland in front of the scripted CPI. The result passes on its calls.
    pub(crate) fn move_cpi_to_userland(&self) -> Bridge {
        let socket = self.world.path("bridge.sock");
        userland::release("").write(&self.world.path("test-cpi.tgz"));
        let url = format!("url: {}", userland::root().display());
        let cloud = self.world.path("cloud");
        self.world.write(
            SCRIPTED_CPI_OPS_FILE,
            format!(
                "- {{type: remove, path: /cloud_provider/cpi}}\n\
                 - {{type: replace, path: '/cloud_provider/template?', value: {{name: test_cpi, release: \
                 test-cpi}}}}\n\
                 - {{type: replace, path: '/cloud_provider/properties/root?', value: {cloud}}}\n\
                 - {{type: replace, path: /releases/-, value: {{name: test-cpi, url: \
                 'file://../test-cpi.tgz'}}}}\n{userland}",
                cloud = cloud.display(),
                userland = userland::ops(&url, &socket)
            ),
        );
        let root = self.world.root().to_owned();
        Bridge::listen(&socket, move |call| answer_bridged(call, &root))
    }

    /// Sets another script.
    pub(crate) fn set_script(&self, script: Script) {
        for file in ["calls.json", "held", "go"] {
            let _ = std::fs::remove_file(self.world.path(file));
        }
        self.world.write("script.json", json!(script).to_string());
    }

    /// Sets the answer to a method: `instead` of making the call, or `after` it.
    pub(crate) fn set_answer(&self, method: &str, when: &str, answer: &str) {
        for other in ["instead", "after"] {
            let _ = std::fs::remove_file(self.world.path(format!("answers/{method}.{other}")));
        }
        self.world.write(format!("answers/{method}.{when}"), answer);
        let mut script = Script::with_info(InfoAnswer::Local);
        for entry in std::fs::read_dir(self.world.path("answers")).unwrap() {
            let path = entry.unwrap().path();
            let method = path.file_stem().unwrap().to_str().unwrap();
            let command = format!("cat '{}'", path.display());
            let reaction = match path.extension().is_some_and(|when| when == "after") {
                true => Reaction::After(command),
                false => Reaction::Instead(command),
            };
            script = script.first(method, usize::MAX, reaction);
        }
        self.set_script(script);
    }

    /// Makes the CPI answer normally again.
    pub(crate) fn answer_truly(&self) {
        let _ = std::fs::remove_dir_all(self.world.path("answers"));
        self.set_script(Script::with_info(InfoAnswer::Local));
    }

    /// Returns the number of calls of a method since the script was set; `""` counts all methods.
    pub(crate) fn calls(&self, method: &str) -> usize {
        cpi::counts(&self.world.path("")).get(method).copied().unwrap_or_default()
    }

    /// Waits until no CPI process is working.
    pub(crate) fn wait_until_idle(&self) {
        wait_until("the CPI ends", || {
            let mut at_work = self.world.leftovers();
            at_work.retain(|leftover| {
                leftover.starts_with("process ")
                    && ["scripted", "cpi-exec", "userland-exec"].iter().any(|part| leftover.contains(part))
            });
            at_work.is_empty()
        });
    }

    /// Waits until the call is held.
    pub(crate) fn wait_until_held(&self) {
        wait_until("the call is held", || self.world.exists("held"));
    }

    /// Releases the held call.
    pub(crate) fn release_call(&self) {
        self.world.write("go", "");
    }

    /// Returns the CIDs of all resources in the cloud.
    pub(crate) fn cloud(&self) -> BTreeSet<String> {
        in_cloud(&self.world.path(""))
    }

    /// Returns the CIDs of all resources in the state.
    pub(crate) fn recorded_cids(&self) -> BTreeSet<String> {
        let state = self.state();
        let lists = [&state["disks"], &state["stemcells"], &state["monopile"]["snapshots"]];
        let record_lists = lists.map(|list| list.as_array().cloned().unwrap_or_default());
        let mut cids: BTreeSet<String> =
            record_lists.iter().flatten().map(|record| record["cid"].as_str().unwrap().to_owned()).collect();
        cids.insert(state["current_vm_cid"].as_str().unwrap().to_owned());
        cids.remove("");
        cids
    }

    /// Returns the text of the state without the CPI's messages in it, which may name other resources.
    pub(crate) fn records(&self) -> String {
        fn remove_messages(value: &mut Value) {
            match value {
                Value::Object(fields) => {
                    fields.remove("reason");
                    fields.remove("cpi_message");
                    fields.values_mut().for_each(remove_messages);
                }
                Value::Array(items) => items.iter_mut().for_each(remove_messages),
                _ => {}
            }
        }
        let text = std::fs::read_to_string(self.world.path("state.json")).unwrap_or_default();
        let Ok(mut state) = serde_json::from_str(&text) else { return text };
        remove_messages(&mut state);
        state.to_string()
    }

    /// Returns the records of the state, announced calls and their answers. Other files of the journal, the
    /// logs and the registry do not count as records.
    pub(crate) fn announced_or_recorded(&self) -> String {
        self.copy_bucket();
        let mut text = self.records();
        let entries = std::fs::read_dir(self.world.path("state.json.journal")).into_iter().flatten();
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|kind| kind == "intent" || kind == "answer") {
                text += &std::fs::read_to_string(path).unwrap_or_default();
            }
        }
        text
    }

    /// Returns the methods of open calls.
    pub(crate) fn announced_methods(&self) -> Vec<String> {
        self.copy_bucket();
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

    /// Forgets all suspects, as an operator does after looking into them.
    pub(crate) fn forget_suspects(&self) {
        for suspect in self.state()["monopile"]["suspects"].as_array().cloned().unwrap_or_default() {
            let id = suspect["request_id"].as_str().unwrap();
            self.world.finish(self.state_command(&["state", "forget", "--yes", "--call", id])).success();
        }
    }

    /// Returns the state without the parts that differ between environments.
    pub(crate) fn normalised_state(&self) -> Value {
        self.copy_bucket();
        let mut state: Value = serde_json::from_str(&self.normalise(&self.world.read("state.json"))).unwrap();
        let monopile = &mut state["monopile"];
        // Salted digests and durations differ in every run.
        monopile["durations"].take();
        for location in monopile["locations"].as_array_mut().into_iter().flatten() {
            location["properties"] = json!("<differs>");
        }
        for path in [
            "/manifest_leaves/digests",
            "/vm/property_digests",
            "/manifest_leaves",
            "/credential_digests/digests",
            "/credential_digests",
        ] {
            let map = monopile.pointer_mut(path).and_then(Value::as_object_mut);
            for value in map.into_iter().flat_map(|map| map.values_mut()).filter(|value| !value.is_object()) {
                *value = json!("<differs>");
            }
        }
        state
    }

    /// Returns the CIDs that calls created, each with the request id of its call.
    pub(crate) fn makers(&self) -> Vec<(String, String)> {
        let ledger = std::fs::read_to_string(self.world.path("ledger")).unwrap_or_default();
        let creations = ledger.lines().filter_map(|line| line.strip_prefix("made ")?.split_once(' '));
        creations.map(|(cid, request)| (cid.to_owned(), request.to_owned())).collect()
    }

    /// Returns the CIDs that calls created, and those that they deleted, regardless of their answers.
    pub(crate) fn effects(&self) -> (Vec<String>, Vec<String>) {
        let ledger = std::fs::read_to_string(self.world.path("ledger")).unwrap_or_default();
        let cids_of = |effect: &str| {
            let lines = ledger.lines().filter_map(|line| line.split_once(' '));
            let cids = lines
                .filter(|(what, _)| *what == effect)
                .filter_map(|(_, cids_of)| cids_of.split(' ').next());
            cids.map(str::to_owned).collect()
        };
        (cids_of("made"), cids_of("deleted"))
    }
}

/// Returns the CIDs of all resources in the cloud of the CPI in this directory.
fn in_cloud(directory: &Path) -> BTreeSet<String> {
    // A test with two CPIs has a second cloud.
    ["cloud", "cloud-b"]
        .into_iter()
        .flat_map(|cloud| {
            ["stemcells", "vms", "disks", "snapshots"].map(|kind| directory.join(cloud).join(kind))
        })
        .flat_map(|kind| std::fs::read_dir(kind).into_iter().flatten())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Returns the script in this directory.
fn script_in(directory: &Path) -> Script {
    match std::fs::read(directory.join("script.json")) {
        Ok(text) => serde_json::from_slice(&text).unwrap(),
        Err(_) => Script::with_info(InfoAnswer::Local),
    }
}
