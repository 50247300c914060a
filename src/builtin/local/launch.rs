//! Starts `monopile vm-boot` for a VM and follows it until init and agent run.
//!
//! The VM lives only as long as its maker wants it: init ends when its stdin closes before
//! [`Booted::commit`] was called. So a killed CPI leaves no process behind.

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
use crate::cpi::failure::{Failure, FailureKind, Outcome};
use crate::cpi::process::{Identity, timespec};

/// The agent's and init's output, inside a VM's directory. Whoever runs for the VM has it open, and
/// with it shares a lock on it: see [`wait_until_empty`].
const LOG: &str = "agent.log";
/// Mounts and one exec: far more than a busy machine needs.
const BOOT_LIMIT: Duration = Duration::from_secs(60);
/// No report is longer.
const REPORT_LIMIT: usize = 64 << 10;

/// A VM whose init and agent run, on probation.
pub(super) struct Booted {
    pub init: Identity,
    /// What the VM has to do without, for the log.
    pub notes: Vec<String>,
    stdin: ChildStdin,
}

impl Booted {
    /// Lets the VM live on.
    pub(super) fn commit(mut self) -> Outcome<()> {
        self.stdin.write_all(b"\n").map_err(|error| Failure::io("releasing the booted VM", error))
    }
}

/// Boots the VM in this directory, in the machine's network or another one.
pub(super) fn boot(executable: &Path, vm_dir: &Path, network: Option<&Path>) -> Outcome<Booted> {
    let log_path = vm_dir.join(LOG);
    let failed = |error: io::Error| {
        Failure::new(FailureKind::VmCreationFailed, format!("starting 'vm-boot' failed: {error}"))
    };
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&log_path).map_err(failed)?;
    log.lock_shared().map_err(failed)?;
    let log_start = log.metadata().map_or(0, |metadata| metadata.len());
    let mut child = Command::new(executable)
        .args(["vm-boot", "--stage", "namespaces", "--vm-dir"])
        .arg(vm_dir)
        .arg("--executable")
        .arg(executable)
        .args(network.into_iter().flat_map(|path| [OsStr::new("--network"), path.as_os_str()]))
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(failed)?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failure::cloud("'vm-boot' was started without pipes"));
    };
    let mut reports = Reports { stdout, buffer: Vec::new(), deadline: Instant::now() + BOOT_LIMIT };
    match follow(&mut reports) {
        (Some(init), notes, Ok(())) => {
            // The first stage ends as soon as init runs.
            child.wait().map_err(failed)?;
            Ok(Booted { init, notes, stdin })
        }
        (init, _, outcome) => {
            drop(stdin);
            end(&mut child, init.as_ref());
            let why = match outcome {
                Err(why) => why,
                Ok(()) => match last_words(&log_path, log_start) {
                    Some(words) => format!("'vm-boot' ended early: {words}"),
                    None => "'vm-boot' ended early, and said nothing".to_owned(),
                },
            };
            Err(Failure::new(FailureKind::VmCreationFailed, format!("the VM cannot be booted: {why}")))
        }
    }
}

/// Waits until nothing runs for the VM in this directory. A boot whose maker was killed ends by itself,
/// but not in an instant.
pub(super) fn wait_until_empty(vm_dir: &Path) -> Outcome<()> {
    let path = vm_dir.join(LOG);
    let failed = |error: io::Error| Failure::io(format_args!("locking '{}'", path.display()), error);
    let log = match fs::File::open(&path) {
        Ok(log) => log,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let deadline = Instant::now() + BOOT_LIMIT;
    let mut pause = Duration::from_millis(1);
    loop {
        match log.try_lock() {
            Ok(()) => return Ok(()),
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
            Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Err(fs::TryLockError::WouldBlock) => {
                let dir = vm_dir.display();
                return Err(Failure::cloud(format!("a process of the VM in '{dir}' is still there")));
            }
        }
    }
}

/// Reads reports until both stages are through, or one says why not, or both are gone.
fn follow(reports: &mut Reports) -> (Option<Identity>, Vec<String>, Result<(), String>) {
    let (mut init, mut notes, mut ready) = (None, Vec::new(), false);
    loop {
        if ready && init.is_some() {
            return (init, notes, Ok(()));
        }
        match reports.next() {
            Ok(Some(Report::Init(identity))) => init = Some(identity),
            Ok(Some(Report::Note(note))) => notes.push(note),
            Ok(Some(Report::Ready)) => ready = true,
            Ok(Some(Report::Failed(why))) => return (init, notes, Err(why)),
            // Without `ready` this is no success, whatever else was said.
            Ok(None) => return (None, notes, Ok(())),
            Err(error) => return (init, notes, Err(error.to_string())),
        }
    }
}

/// Ends both stages of a boot that failed.
fn end(child: &mut Child, init: Option<&Identity>) {
    // Neither may be there any more, which is what is wanted.
    if let Some(init) = init {
        let _ = init.stop(Duration::from_millis(500));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// The last line of this boot in the log.
fn last_words(log: &Path, start: u64) -> Option<String> {
    let mut file = fs::File::open(log).ok()?;
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut text = Vec::new();
    file.take(REPORT_LIMIT as u64).read_to_end(&mut text).ok()?;
    String::from_utf8_lossy(&text).lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned)
}

/// The lines the two stages write.
struct Reports {
    stdout: ChildStdout,
    buffer: Vec<u8>,
    deadline: Instant,
}

impl Reports {
    /// The next report; `None` when no writer is left.
    fn next(&mut self) -> io::Result<Option<Report>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            if self.buffer.len() > REPORT_LIMIT {
                return Err(io::Error::other("'vm-boot' reports too much"));
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&self.stdout, PollFlags::IN)];
            match poll(&mut fds, Some(&timespec(left))) {
                Ok(0) => {
                    let limit = BOOT_LIMIT.as_secs();
                    return Err(io::Error::other(format!("nothing was heard from it for {limit} s")));
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
