//! Starts `monopile vm-boot` for a VM and reads its reports until init and the agent run.
//!
//! Init ends if its standard input closes before [`BootedVm::commit`]. So a killed CPI leaves no process.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::boot::Report;
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use crate::cpi::process::{ProcessIdentity, timespec};

/// The log of init and the agent, in the VM's directory. Both stages of a boot and the agent inherit the open
/// file, and with it a shared lock, see [`wait_for_processes_to_end`].
const LOG_FILE: &str = base::vm_directory::AGENT_LOG_FILE;
/// The timeout of a boot, which is a few mounts and one exec.
const BOOT_TIMEOUT: Duration = Duration::from_secs(60);
/// The time that all processes of a VM have to end. Those of a killed call may still be booting.
const EXIT_TIMEOUT: Duration = BOOT_TIMEOUT;
/// The maximum size of a report, in bytes.
const MAX_REPORT_BYTES: usize = 64 << 10;

/// A VM whose init and agent run. Dropping this without a commit ends the VM.
pub(super) struct BootedVm {
    pub init: ProcessIdentity,
    /// Limitations of the VM, for the log.
    pub notes: Vec<String>,
    stdin: ChildStdin,
}

impl BootedVm {
    /// Lets the VM continue without this process.
    pub(super) fn commit(mut self) -> CpiResult<()> {
        self.stdin.write_all(b"\n").map_err(|error| CpiFailure::io("releasing the booted VM", error))
    }
}

/// Boots the VM in this directory, in the machine's network or in the network namespace at `namespace_path`.
pub(super) fn boot(
    executable: &Path,
    vm_directory: &Path,
    namespace_path: Option<&Path>,
) -> CpiResult<BootedVm> {
    let log_path = vm_directory.join(LOG_FILE);
    let start_error = |error: io::Error| {
        CpiFailure::new(FailureKind::VmCreationFailed, format!("starting 'vm-boot' failed: {error}"))
    };
    let log =
        OpenOptions::new().append(true).create(true).mode(0o600).open(&log_path).map_err(start_error)?;
    log.lock_shared().map_err(start_error)?;
    let log_start = log.metadata().map_or(0, |metadata| metadata.len());
    let mut child = Command::new(executable)
        .args(["vm-boot", "--stage", "namespaces", "--vm-dir"])
        .arg(vm_directory)
        .arg("--executable")
        .arg(executable)
        .args(namespace_path.into_iter().flat_map(|path| [OsStr::new("--network"), path.as_os_str()]))
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(start_error)?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(CpiFailure::cloud(
            "starting 'vm-boot' failed: it has no pipes for standard input and output",
        ));
    };
    let mut reports = Reports { stdout, buffer: Vec::new(), deadline: Instant::now() + BOOT_TIMEOUT };
    match read_reports(&mut reports) {
        (Some(init), notes, Ok(())) => {
            // The first stage ends as soon as init runs.
            child.wait().map_err(start_error)?;
            Ok(BootedVm { init, notes, stdin })
        }
        (init, _, outcome) => {
            drop(stdin);
            kill_boot(&mut child, init.as_ref());
            let reason = match outcome {
                Err(reason) => reason,
                Ok(()) => match last_line(&log_path, log_start) {
                    Some(line) => format!("'vm-boot' ended early: {line}"),
                    None => "'vm-boot' ended early without a message".to_owned(),
                },
            };
            Err(CpiFailure::new(FailureKind::VmCreationFailed, format!("booting the VM failed: {reason}")))
        }
    }
}

/// Waits until all processes of the VM in this directory have ended. The processes of a killed call end by
/// themselves after a short time.
pub(super) fn wait_for_processes_to_end(vm_directory: &Path) -> CpiResult<()> {
    let path = vm_directory.join(LOG_FILE);
    let lock_error = |error: io::Error| CpiFailure::io(format_args!("locking '{}'", path.display()), error);
    let log = match fs::File::open(&path) {
        Ok(log) => log,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(lock_error(error)),
    };
    let deadline = Instant::now() + EXIT_TIMEOUT;
    let mut pause = Duration::from_millis(1);
    loop {
        match log.try_lock() {
            Ok(()) => return Ok(()),
            Err(fs::TryLockError::Error(error)) => return Err(lock_error(error)),
            Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Err(fs::TryLockError::WouldBlock) => {
                let directory = vm_directory.display();
                let timeout = EXIT_TIMEOUT.as_secs();
                return Err(CpiFailure::cloud(format!(
                    "a process of the VM in '{directory}' is still running after {timeout} s: end it, then \
                     try again (`fuser -v {}` shows it)",
                    path.display()
                )));
            }
        }
    }
}

/// Reads reports until both stages are complete, one reports a failure, or both have ended. The init is
/// `None` if both have ended.
fn read_reports(reports: &mut Reports) -> (Option<ProcessIdentity>, Vec<String>, Result<(), String>) {
    let (mut init, mut notes, mut is_ready) = (None, Vec::new(), false);
    loop {
        if is_ready && init.is_some() {
            return (init, notes, Ok(()));
        }
        match reports.next() {
            Ok(Some(Report::Init(identity))) => init = Some(identity),
            Ok(Some(Report::Note(note))) => notes.push(note),
            Ok(Some(Report::Ready)) => is_ready = true,
            Ok(Some(Report::Failed(reason))) => return (init, notes, Err(reason)),
            // Both stages have ended. That is a failure, because a VM that is ready keeps its init.
            Ok(None) => return (None, notes, Ok(())),
            Err(error) => return (init, notes, Err(error.to_string())),
        }
    }
}

/// Ends both stages of a boot that failed.
fn kill_boot(child: &mut Child, init: Option<&ProcessIdentity>) {
    // Errors mean that the process has already ended.
    if let Some(init) = init {
        let _ = init.stop(Duration::from_millis(500));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the last line of this boot in the log. The lines of the boot begin at the offset `start`.
fn last_line(log_path: &Path, start: u64) -> Option<String> {
    let mut file = fs::File::open(log_path).ok()?;
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut text = Vec::new();
    file.take(MAX_REPORT_BYTES as u64).read_to_end(&mut text).ok()?;
    String::from_utf8_lossy(&text).lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned)
}

/// The reports of both stages, one JSON document per line.
struct Reports {
    stdout: ChildStdout,
    buffer: Vec<u8>,
    deadline: Instant,
}

impl Reports {
    /// Returns the next report, or `None` if both stages have ended.
    fn next(&mut self) -> io::Result<Option<Report>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            if self.buffer.len() > MAX_REPORT_BYTES {
                return Err(io::Error::other(format!(
                    "a report of 'vm-boot' exceeds {MAX_REPORT_BYTES} bytes"
                )));
            }
            let remaining = self.deadline.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&self.stdout, PollFlags::IN)];
            match poll(&mut fds, Some(&timespec(remaining))) {
                Ok(0) => {
                    let timeout = BOOT_TIMEOUT.as_secs();
                    return Err(io::Error::other(format!("'vm-boot' was not ready within {timeout} s")));
                }
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let mut chunk = [0; 4096];
            match self.stdout.read(&mut chunk)? {
                0 => return Ok(None),
                count => self.buffer.extend_from_slice(&chunk[..count]),
            }
        }
    }
}
