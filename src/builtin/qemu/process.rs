//! The processes of a VM: QEMU, and the one that keeps its console. Both hold a shared lock on the log in the
//! VM's directory, so that a later call notices them even if their record is missing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::qmp::{Qmp, SOCKET_FILE};
use crate::cpi::cid::ObjectKind;
use crate::cpi::cloud::{Cloud, list_names};
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use crate::cpi::files::{read_json, write_json};
use crate::cpi::process::ProcessIdentity;
use base::console::LastBoot;

/// The file with the identity of QEMU.
const PROCESS_FILE: &str = "process.json";
/// The file with the errors of QEMU and of `vm-console`.
const LOG_FILE: &str = base::vm_directory::QEMU_LOG_FILE;
/// The maximum size of the part of the log that is read, in bytes.
const MAX_LOG_BYTES: u64 = 64 << 10;
/// The time that QEMU has until it answers.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The time that all processes of a VM have to end, including those that are not on record.
const EXIT_TIMEOUT: Duration = Duration::from_secs(60);
/// The time that QEMU has to write its caches to the disks and to end after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// The programs and arguments that start a VM.
pub(super) struct StartCommands<'a> {
    /// This program, which keeps the console.
    pub executable: &'a Path,
    pub qemu: &'a Path,
    pub arguments: &'a [String],
}

/// Starts QEMU in the VM's directory, records its process, and waits until it answers. The record comes
/// first, so that a later call finds the process if this one is killed while it waits.
pub(super) fn start(commands: &StartCommands, directory: &Path) -> CpiResult<()> {
    let start_error = |action: &str, error: io::Error| {
        CpiFailure::new(FailureKind::VmCreationFailed, format!("{action} failed: {error}"))
    };
    let path = directory.join(LOG_FILE);
    let log = || -> io::Result<File> {
        let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        log.lock_shared()?;
        Ok(log)
    };
    let open_error = |error| start_error("opening the log of QEMU", error);
    let log_start = fs::metadata(&path).map_or(0, |metadata| metadata.len());
    // The socket of an earlier QEMU must not be taken for that of the new one.
    match fs::remove_file(directory.join(SOCKET_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(start_error("removing the socket of an earlier QEMU", error));
        }
        _ => {}
    }
    let (reader, writer) = io::pipe().map_err(|error| start_error("creating a pipe", error))?;
    let mut console_command = Command::new(commands.executable);
    console_command.args(["vm-console", "--vm-dir", "."]).stdin(reader).stdout(Stdio::null());
    console_command.stderr(log().map_err(open_error)?).env_clear().current_dir(directory).process_group(0);
    let mut console = console_command.spawn().map_err(|error| start_error("starting 'vm-console'", error))?;
    let mut qemu = Command::new(commands.qemu);
    qemu.args(commands.arguments).stdin(Stdio::null()).stdout(writer).stderr(log().map_err(open_error)?);
    qemu.env_clear().current_dir(directory).process_group(0);
    let child = qemu.spawn();
    // This process must not keep the console open.
    drop(qemu);
    let outcome = match child {
        Ok(mut child) => {
            let result = record_and_wait(&mut child, directory, &path, log_start);
            if result.is_err() {
                kill_child(&mut child);
            }
            result
        }
        Err(error) => Err(start_error("starting QEMU", error)),
    };
    if outcome.is_err() {
        // `vm-console` ends with its input.
        let _ = console.wait();
    }
    outcome
}

/// Kills a QEMU that this call started and that did not become ready.
fn kill_child(child: &mut Child) {
    // Errors mean that the process has already ended.
    let _ = child.kill();
    let _ = child.wait();
}

fn record_and_wait(child: &mut Child, directory: &Path, log_path: &Path, log_start: u64) -> CpiResult<()> {
    let boot_error = |reason: String| {
        CpiFailure::new(FailureKind::VmCreationFailed, format!("starting the VM failed: {reason}"))
    };
    let pid = i32::try_from(child.id()).map_err(|_| boot_error("QEMU has no pid".to_owned()))?;
    let identity = ProcessIdentity::of(pid).map_err(|error| boot_error(error.to_string()))?;
    write_json(&directory.join(PROCESS_FILE), &identity)?;
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| boot_error(error.to_string()))? {
            let reason = last_line(log_path, log_start).unwrap_or_else(|| format!("it ended with {status}"));
            return Err(boot_error(format!("QEMU: {reason}")));
        }
        match Qmp::try_connect(directory) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() >= deadline => {
                let timeout = START_TIMEOUT.as_secs();
                return Err(boot_error(format!("QEMU does not answer after {timeout} s: {error}")));
            }
            Err(_) => thread::sleep(POLL_PAUSE),
        }
    }
}

/// Returns the last line of this start in the log, without the name of the program.
fn last_line(log_path: &Path, log_start: u64) -> Option<String> {
    let mut file = File::open(log_path).ok()?;
    file.seek(SeekFrom::Start(log_start)).ok()?;
    let mut text = Vec::new();
    file.take(MAX_LOG_BYTES).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rfind(|line| !line.trim().is_empty())?;
    Some(line.split_once(": ").map_or(line, |(_, message)| message).to_owned())
}

/// Returns true if the QEMU of the VM in this directory runs.
pub(super) fn is_running(directory: &Path) -> CpiResult<bool> {
    match read_json::<ProcessIdentity>(&directory.join(PROCESS_FILE))? {
        Some(process) => {
            process.is_running().map_err(|error| CpiFailure::io("checking the QEMU of the VM", error))
        }
        None => Ok(false),
    }
}

/// Asks the guest to shut down, and waits for at most `timeout`. Then stops QEMU, as [`stop`] does.
pub(super) fn shut_down(directory: &Path, timeout: Duration) -> CpiResult<()> {
    if is_running(directory)? {
        let deadline = Instant::now() + timeout;
        // A QEMU that does not answer is stopped below.
        if let Ok(mut qmp) = Qmp::try_connect(directory)
            && qmp.run("system_powerdown", &json!({})).is_ok()
        {
            while Instant::now() < deadline && is_running(directory)? {
                thread::sleep(POLL_PAUSE);
            }
        }
    }
    stop(directory)
}

/// Stops the QEMU on record, and any that runs without a record. Waits until no process of the VM runs.
pub(super) fn stop(directory: &Path) -> CpiResult<()> {
    if let Some(process) = read_json::<ProcessIdentity>(&directory.join(PROCESS_FILE))? {
        stop_qemu(&process)?;
    }
    stop_unrecorded_and_wait(directory)
}

/// Stops QEMU with SIGTERM, and with SIGKILL after [`TERM_TIMEOUT`].
fn stop_qemu(process: &ProcessIdentity) -> CpiResult<()> {
    process
        .stop(TERM_TIMEOUT)
        .map_err(|error| CpiFailure::io(format_args!("ending the VM's QEMU (pid {})", process.pid), error))
}

/// Stops a QEMU of this VM that is not on record, because the call that started it was killed. Waits until no
/// process holds the log of the VM.
fn stop_unrecorded_and_wait(directory: &Path) -> CpiResult<()> {
    let path = directory.join(LOG_FILE);
    let lock_error = |error: io::Error| CpiFailure::io(format_args!("locking '{}'", path.display()), error);
    let log = match File::open(&path) {
        Ok(log) => log,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(lock_error(error)),
    };
    let deadline = Instant::now() + EXIT_TIMEOUT;
    loop {
        match log.try_lock() {
            Ok(()) => return Ok(()),
            Err(fs::TryLockError::Error(error)) => return Err(lock_error(error)),
            Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                if let Some(cid) = directory.file_name().and_then(|name| name.to_str()) {
                    stop_unrecorded(cid)?;
                }
                thread::sleep(POLL_PAUSE);
            }
            Err(fs::TryLockError::WouldBlock) => {
                let timeout = EXIT_TIMEOUT.as_secs();
                return Err(CpiFailure::cloud(format!(
                    "a process of the VM in '{}' is still running after {timeout} s: end it, then try again \
                     (`fuser -v {}` shows it)",
                    directory.display(),
                    path.display()
                )));
            }
        }
    }
}

/// Stops each QEMU whose command line names this VM. Returns true if there was one.
pub(super) fn stop_unrecorded(cid: &str) -> CpiResult<bool> {
    if ObjectKind::Vm.parse(cid).is_none() {
        return Ok(false);
    }
    let mut has_stopped = false;
    for name in list_names(Path::new("/proc"))? {
        let Ok(pid) = name.parse::<i32>() else { continue };
        // The process is identified first, so that no other process with this pid gets the signal.
        let Ok(process) = ProcessIdentity::of(pid) else { continue };
        let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else { continue };
        let mut words = line.split(|byte| *byte == 0);
        let is_qemu = words.next().is_some_and(|program| program.windows(5).any(|part| part == b"qemu-"));
        if is_qemu && words.skip_while(|word| *word != b"-name").nth(1) == Some(cid.as_bytes()) {
            stop_qemu(&process)?;
            has_stopped = true;
        }
    }
    Ok(has_stopped)
}

/// Stops the VM in a staged directory, before the directory is removed.
pub(super) fn prepare_removal(_: &Cloud, directory: &Path) -> CpiResult<()> {
    stop(directory)
}

/// Describes the state of a VM whose guest or QEMU did not answer or act in time, for an error.
pub(super) fn describe_state(directory: &Path) -> String {
    let status = Qmp::try_connect(directory).ok().and_then(|mut qmp| {
        let status = qmp.run("query-status", &json!({})).ok()?;
        match status["status"].as_str()? {
            "io-error" => Some("it is paused, because this machine cannot write its disk (no space?); "),
            "paused" => Some("it is paused; "),
            _ => None,
        }
    });
    let cid = directory.file_name().unwrap_or_default().to_string_lossy();
    let console = LastBoot::read(directory)
        .map_or_else(|| "its console is empty".to_owned(), |boot| boot.describe(&cid));
    format!("{}{console}", status.unwrap_or_default())
}
