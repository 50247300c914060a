//! Runs programs that are cancelled with their task. Each program leads a process group, and all processes of
//! the group are ended.

use std::collections::HashSet;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use base::{Error, Result};

/// The time that a cancelled program has to end after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(5);

/// The PATH of job scripts.
pub(crate) const SCRIPT_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs and ends the programs of one task.
#[derive(Clone, Default)]
pub(super) struct TaskControl {
    shared_task: Arc<SharedTask>,
}

/// The state of a task, and the condition that wakes its waiting threads.
#[derive(Default)]
struct SharedTask {
    state: Mutex<TaskState>,
    change: Condvar,
}

/// The process groups of the running programs of a task, and true once the task is cancelled.
#[derive(Default)]
struct TaskState {
    is_cancelled: bool,
    groups: HashSet<i32>,
}

impl TaskControl {
    /// Ends all programs of the task. The task cannot start new ones.
    pub(super) fn cancel(&self) {
        let groups: Vec<i32> = {
            let mut state = self.lock();
            state.is_cancelled = true;
            for group in &state.groups {
                signal_group(*group, Signal::TERM);
            }
            state.groups.iter().copied().collect()
        };
        self.shared_task.change.notify_all();
        if groups.is_empty() {
            return;
        }
        let this = self.clone();
        let kill = move || {
            let deadline = Instant::now() + TERM_TIMEOUT;
            let mut state = this.lock();
            while !state.groups.is_empty() && Instant::now() < deadline {
                let remaining = deadline.saturating_duration_since(Instant::now());
                this.shared_task.change.wait_for(&mut state, remaining);
            }
            for group in &state.groups {
                signal_group(*group, Signal::KILL);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("cancel".into()).spawn(kill) {
            tracing::warn!(%error, "starting a thread failed, killing the cancelled program without a grace \
                period");
            for group in self.lock().groups.iter() {
                signal_group(*group, Signal::KILL);
            }
        }
    }

    /// Returns true if the task was cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.lock().is_cancelled
    }

    /// Fails if the task was cancelled.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(cancelled_error()) } else { Ok(()) }
    }

    /// Sleeps. Fails as soon as the task is cancelled.
    pub(super) fn sleep(&self, time: Duration) -> Result<()> {
        let end = Instant::now().checked_add(time);
        let mut state = self.lock();
        loop {
            if state.is_cancelled {
                return Err(cancelled_error());
            }
            let remaining = match end {
                Some(end) if end <= Instant::now() => return Ok(()),
                Some(end) => end.saturating_duration_since(Instant::now()),
                None => Duration::from_secs(3600),
            };
            self.shared_task.change.wait_for(&mut state, remaining);
        }
    }

    /// Runs a program with empty input and returns its exit status. Fails if the task is cancelled.
    pub(super) fn run(&self, command: &mut Command) -> Result<ExitStatus> {
        let action = format!("running '{}'", command.get_program().to_string_lossy());
        command.stdin(Stdio::null()).process_group(0);
        let (mut child, group) = {
            let mut state = self.lock();
            if state.is_cancelled {
                return Err(cancelled_error());
            }
            let child = spawn(command).map_err(|error| Error::io(&action, error))?;
            let group = i32::try_from(child.id()).unwrap_or(i32::MAX);
            state.groups.insert(group);
            (child, group)
        };
        // Wait without reaping, so that the pid is not reused before it is removed from the list of groups to
        // signal.
        if let Some(pid) = Pid::from_raw(group) {
            while let Err(rustix::io::Errno::INTR) =
                rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
            {
            }
        }
        self.lock().groups.remove(&group);
        self.shared_task.change.notify_all();
        let status = child.wait().map_err(|error| Error::io(&action, error))?;
        self.check()?;
        Ok(status)
    }

    fn lock(&self) -> MutexGuard<'_, TaskState> {
        self.shared_task.state.lock()
    }
}

/// Starts a program. Retries while its file is busy, because a fork of another thread may still have it open
/// for writing.
pub(super) fn spawn(command: &mut Command) -> std::io::Result<Child> {
    for _ in 0..50 {
        match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(2));
            }
            other => return other,
        }
    }
    command.spawn()
}

fn cancelled_error() -> Error {
    Error::failure("Script was cancelled by user request")
}

fn signal_group(group: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(group) {
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

/// Returns a description of the exit status, such as "exited with 1".
pub(super) fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_program_ends_with_its_children() {
        let cancel = TaskControl::default();
        let other = cancel.clone();
        let start = Instant::now();
        let runner = std::thread::spawn(move || other.run(Command::new("sh").args(["-c", "sleep 60; true"])));
        std::thread::sleep(Duration::from_millis(100));
        cancel.cancel();
        assert!(runner.join().unwrap().unwrap_err().to_string().contains("cancelled"));
        assert!(start.elapsed() < Duration::from_secs(20));
        cancel.run(&mut Command::new("true")).unwrap_err();
        cancel.sleep(Duration::from_secs(60)).unwrap_err();
    }

    #[test]
    fn ending_names_exit_status_or_signal() {
        let run = |script| TaskControl::default().run(Command::new("sh").args(["-c", script])).unwrap();
        assert_eq!(ending(run("exit 3")), "exited with 3");
        assert_eq!(ending(run("kill -9 $$")), "was ended by signal 9");
    }
}
