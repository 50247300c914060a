//! The scripted CPI as a process: reads one request and writes the answer that the script sets.
//!
//! The test harness uses standard output, so the answer goes to descriptor 3, to which the wrapper has copied
//! the CPI's standard output.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getppid, kill_process};
use serde_json::{Value, json};

use super::{
    CALLER_PID_VARIABLE, CONFIG_FILE, InfoAnswer, Interruption, NOT_IMPLEMENTED, Reaction, Script,
    UNSCRIPTED_VARIABLE, in_cloud, script_in,
};
use crate::support::MONOPILE;

#[test]
#[ignore = "this is the scripted CPI, which other tests start"]
fn cpi() {
    run_if_called();
}

/// If this process was started as the scripted CPI, serves the call and exits.
pub(crate) fn run_if_called() {
    if let Some(directory) = std::env::var_os("SCRIPTED_CPI") {
        // SAFETY: the wrapper opened the descriptor only for this purpose, and no other code owns it.
        let output = unsafe { File::from_raw_fd(3) };
        // Processes that the call starts must not inherit the descriptor.
        fcntl_setfd(&output, FdFlags::CLOEXEC).unwrap();
        serve(&PathBuf::from(directory), output);
        std::process::exit(0);
    }
}

/// One call of the CPI.
struct Call<'a> {
    directory: &'a Path,
    script: Script,
    caller: Pid,
    method: String,
    text: String,
    request: Value,
}

/// Returns the number of calls of each method; `""` counts all calls.
pub(super) fn counts(directory: &Path) -> BTreeMap<String, usize> {
    let text = std::fs::read(directory.join("calls.json")).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Answers one request as the script says. An interruption at this call takes precedence over a reaction of
/// the method.
fn serve(directory: &Path, mut output: File) {
    // Without a userland, the parent is the caller, because the wrapper has become this process by `exec`.
    let caller = match std::env::var(CALLER_PID_VARIABLE) {
        Ok(pid) => Pid::from_raw(pid.parse().unwrap()).unwrap(),
        Err(_) => getppid().unwrap(),
    };
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).unwrap();
    // The local CPI handles an invalid request.
    let text = String::from_utf8_lossy(&text).into_owned();
    let request: Value = serde_json::from_str(&text).unwrap_or_default();
    let method = request["method"].as_str().unwrap_or_default().to_owned();
    let call = Call { directory, script: script_in(directory), caller, method, text, request };
    if std::env::var_os(UNSCRIPTED_VARIABLE).is_some() {
        output.write_all(call.make(None).as_bytes()).unwrap();
        return;
    }
    let (number, nth) = call.record();
    if call.method == "create_vm" {
        call.look_for_registry();
    }
    let entries = call.script.entries.iter();
    let mut matching_entries =
        entries.filter(|entry| entry.method == call.method && (entry.calls.0..=entry.calls.1).contains(&nth));
    let reaction = matching_entries.next().map(|entry| &entry.reaction);
    let point = match (call.script.point, reaction) {
        (Some((call_number, when)), _) if call_number == number => Some(when),
        (_, Some(Reaction::Interrupt(when))) => Some(*when),
        _ => None,
    };
    match point {
        Some(Interruption::Before) => call.kill_caller(),
        Some(Interruption::Slow) => {
            call.kill_caller();
            std::thread::sleep(Duration::from_secs(1));
        }
        Some(Interruption::Lost) => return call.kill_caller(),
        Some(Interruption::Hold) => call.hold(),
        Some(Interruption::DieBefore) => die(),
        _ => {}
    }
    match reaction {
        Some(Reaction::Fail { error_type, message, ok_to_retry }) => {
            let failure = failure(error_type, message, *ok_to_retry).to_string();
            output.write_all(failure.as_bytes()).unwrap();
        }
        Some(Reaction::Instead(command)) => become_shell(command, &call.text, output),
        Some(Reaction::After(command)) => become_shell(command, &call.make(None), output),
        Some(Reaction::Interrupt(_)) | None => {
            let answer = call.make(point);
            output.write_all(answer.as_bytes()).unwrap();
        }
    }
    if point == Some(Interruption::After) {
        call.kill_caller();
    }
}

impl Call<'_> {
    /// Records the request, and returns the number of calls of all methods and of this one.
    fn record(&self) -> (usize, usize) {
        let lock = File::create(self.directory.join("calls.lock")).unwrap();
        lock.lock().unwrap();
        let mut counts = counts(self.directory);
        let mut count = |name: &str| {
            let count = counts.entry(name.to_owned()).or_default();
            *count += 1;
            *count
        };
        let numbers = (count(""), count(&self.method));
        std::fs::write(self.directory.join("calls.json"), json!(counts).to_string()).unwrap();
        append(&self.directory.join("requests.jsonl"), &format!("{}\n", self.text));
        numbers
    }

    /// Makes the call, and records what it created and deleted.
    fn make(&self, point: Option<Interruption>) -> String {
        let cids_before = in_cloud(self.directory);
        let answer = match self.script.info {
            InfoAnswer::Local => self.call_local(&self.text, point),
            _ if self.method == "info" => self.info(),
            info => self.translate(info, point),
        };
        let cids_after = in_cloud(self.directory);
        // A call that only reads may run at the same time as another one.
        let (effect, cids) = match self.method.split('_').next() {
            Some("create" | "snapshot") => ("made", cids_after.difference(&cids_before)),
            Some("delete") => ("deleted", cids_before.difference(&cids_after)),
            _ => ("", cids_before.difference(&cids_before)),
        };
        let request_id = self.request["context"]["request_id"].as_str().unwrap_or_default();
        let lines: String = cids.map(|cid| format!("{effect} {cid} {request_id}\n")).collect();
        append(&self.directory.join("ledger"), &lines);
        match point {
            Some(Interruption::DieDuring | Interruption::DieAfter) => die(),
            Some(Interruption::HoldAfterEffect) => self.hold(),
            _ => {}
        }
        answer
    }

    /// Waits for the file `go`.
    fn hold(&self) {
        std::fs::write(self.directory.join("held"), "").unwrap();
        // A failed test removes its files, which ends the wait.
        while !self.directory.join("go").exists() && self.directory.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn info(&self) -> String {
        let formats = json!(["local-directory", "local"]);
        match self.script.info {
            InfoAnswer::NotImplemented(dialect) => {
                let (error_type, message) = NOT_IMPLEMENTED[dialect];
                failure(error_type, &message.replace("METHOD", "info"), false).to_string()
            }
            InfoAnswer::Version(version) => {
                success(json!({"stemcell_formats": formats, "api_version": version}))
            }
            _ => success(json!({"stemcell_formats": formats})),
        }
    }

    /// Passes the call to the local CPI under the current contract, and answers like a CPI of the script's
    /// version.
    fn translate(&self, info: InfoAnswer, point: Option<Interruption>) -> String {
        let version = &self.request["api_version"];
        let Some(requested_version) =
            version.as_u64().filter(|version| *version <= u64::from(info.version()))
        else {
            let message = format!("api_version {version} is not spoken here");
            return failure("Bosh::Clouds::CpiError", &message, false).to_string();
        };
        let mut request = self.request.clone();
        request["api_version"] = json!(requested_version.min(2));
        if self.method == "create_stemcell" && requested_version >= 3 {
            request["arguments"].as_array_mut().unwrap().truncate(2);
        }
        let answer = self.call_local(&request.to_string(), point);
        if point == Some(Interruption::DieDuring) {
            return answer;
        }
        let mut answer: Value = serde_json::from_str(&answer).unwrap();
        // With an old stemcell, the local CPI answers as in version 1. Other CPIs do not.
        let has_old_stemcell = self.request["context"]["vm"]["stemcell"]["api_version"] == 1;
        let arguments = &self.request["arguments"];
        match self.method.as_str() {
            _ if !answer["error"].is_null()
                || !has_old_stemcell
                || requested_version < 2
                || info.version() % 2 == 1 => {}
            "create_vm" => answer["result"] = json!([answer["result"], arguments[3]]),
            "attach_disk" => {
                let disk = arguments[1].as_str().unwrap();
                answer["result"] = json!({"path": format!("/dev/monopile/{disk}")});
            }
            _ => {}
        }
        answer.to_string()
    }

    /// Records whether the manifest's registry is reachable while the VM is created.
    fn look_for_registry(&self) {
        let registry = &self.request["context"]["registry"];
        if let (Some(host), Some(port)) = (registry["host"].as_str(), registry["port"].as_u64()) {
            let is_open = TcpStream::connect((host, u16::try_from(port).unwrap())).is_ok();
            append(&self.directory.join("registry"), if is_open { "open\n" } else { "closed\n" });
        }
    }

    /// Makes the call in the CPI `local`. An interruption during the call kills the caller or the CPI.
    fn call_local(&self, request: &str, point: Option<Interruption>) -> String {
        let mut request = request.to_owned();
        if self.script.config != CONFIG_FILE && !self.request.is_null() {
            // A property of the manifest would take precedence over the configuration.
            let mut without_root: Value = serde_json::from_str(&request).unwrap();
            without_root["context"].as_object_mut().unwrap().remove("root");
            request = without_root.to_string();
        }
        let mut local = Command::new(MONOPILE)
            .args(["cpi-exec", "local", "--config"])
            .arg(self.directory.join(&self.script.config))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        local.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
        match point {
            Some(Interruption::During) => {
                std::thread::sleep(Duration::from_millis(10));
                self.kill_caller();
            }
            Some(Interruption::DieDuring) => {
                std::thread::sleep(Duration::from_millis(10));
                local.kill().unwrap();
            }
            _ => {}
        }
        let output = local.wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Kills the caller and waits for its death.
    fn kill_caller(&self) {
        kill_process(self.caller, Signal::KILL).unwrap();
        let stat = format!("/proc/{}/stat", self.caller.as_raw_nonzero());
        let is_alive = || {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            state.is_some_and(|state| "RSD".contains(state))
        };
        while is_alive() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Ends this process as if it were killed.
fn die() -> ! {
    kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
    unreachable!("it is dead")
}

fn success(result: Value) -> String {
    json!({"result": result, "error": null, "log": ""}).to_string()
}

fn failure(error_type: &str, message: &str, ok_to_retry: bool) -> Value {
    let error = json!({"type": error_type, "message": message, "ok_to_retry": ok_to_retry});
    json!({"result": null, "error": error, "log": ""})
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Becomes this command, with `input` as its standard input and the CPI's standard output as its own.
fn become_shell(command: &str, input: &str, output: File) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(input.as_bytes()).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let error = Command::new("bash").args(["-c", command]).stdin(file).stdout(output).exec();
    panic!("bash: {error}");
}
