//! Identifies processes across calls. A pid alone does not, because the kernel reuses pids.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// The identity of a process. The fields together are unique among all boots and machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    /// The pid in `pid_namespace`.
    pub pid: i32,
    /// Clock ticks since boot, field 22 of `/proc/<pid>/stat` (proc(5)).
    pub start_time: u64,
    /// The boot that `start_time` counts from.
    pub boot_id: String,
    /// The pid namespace in which `pid` is valid.
    pub pid_namespace: String,
}

/// Fields of `/proc/<pid>/stat`.
struct Stat {
    state: char,
    start_time: u64,
}

impl ProcessIdentity {
    /// Returns the identity of a process that is known to exist: this one, or a child that was not reaped.
    pub(crate) fn of(pid: i32) -> io::Result<ProcessIdentity> {
        let stat =
            read_stat(pid)?.ok_or_else(|| io::Error::other(format!("process {pid} does not exist")))?;
        Ok(ProcessIdentity {
            pid,
            start_time: stat.start_time,
            boot_id: read_boot_id()?,
            pid_namespace: read_pid_namespace()?,
        })
    }

    /// Returns true if the process has ended. Returns false if it runs, and if it belongs to another machine,
    /// boot or pid namespace: from here, nothing shows whether such a process has ended.
    pub(crate) fn has_ended_here(&self) -> io::Result<bool> {
        let is_of_this_boot = self.boot_id == read_boot_id()? && self.pid_namespace == read_pid_namespace()?;
        Ok(is_of_this_boot && !self.is_running()?)
    }

    /// Returns true if the process runs. Fails if it was started in another pid namespace of this boot.
    pub(crate) fn is_running(&self) -> io::Result<bool> {
        Ok(self.open()?.is_some())
    }

    /// Opens a handle on exactly this process, or returns `None` if it has ended.
    fn open(&self) -> io::Result<Option<OwnedFd>> {
        if read_boot_id()? != self.boot_id {
            return Ok(None);
        }
        if read_pid_namespace()? != self.pid_namespace {
            return Err(io::Error::other(
                "the process was started in another pid namespace (a container?) and cannot be identified \
                    from here",
            ));
        }
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(None) };
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        // The open handle stays with this process, even if its pid is reused before a signal is sent.
        match read_stat(self.pid)? {
            Some(stat) if stat.start_time == self.start_time && !matches!(stat.state, 'Z' | 'X') => {
                Ok(Some(pidfd))
            }
            _ => Ok(None),
        }
    }

    /// Ends the process with SIGTERM, after `timeout` with SIGKILL, and returns when it has ended.
    pub(crate) fn stop(&self, timeout: Duration) -> io::Result<()> {
        let Some(pidfd) = self.open()? else { return Ok(()) };
        if signal(&pidfd, Signal::TERM)? && !wait_for_end(&pidfd, timeout)? {
            signal(&pidfd, Signal::KILL)?;
            // A killed init ends only after all processes of its namespace, and a process in disk sleep takes
            // time.
            if !wait_for_end(&pidfd, Duration::from_secs(60))? {
                let pid = self.pid;
                return Err(io::Error::other(format!("process {pid} is still running 60 s after SIGKILL")));
            }
        }
        Ok(())
    }
}

/// Sends a signal. Returns false if the process has ended.
fn signal(pidfd: &OwnedFd, signal: Signal) -> io::Result<bool> {
    match pidfd_send_signal(pidfd, signal) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Waits for the end of the process, for at most `timeout`. Returns false if it still runs.
fn wait_for_end(pidfd: &OwnedFd, timeout: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + timeout;
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        match poll(&mut fds, Some(&timespec(remaining))) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Converts a duration for system calls.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

fn read_stat(pid: i32) -> io::Result<Option<Stat>> {
    let text = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => text,
        // ESRCH: the process ended between open and read.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    parse_stat(&text)
        .map(Some)
        .ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat is not in the form of proc(5): {text}")))
}

/// Parses the fields after the last parenthesis. The command name before it may contain spaces and
/// parentheses.
fn parse_stat(text: &str) -> Option<Stat> {
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let start_time = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, start_time })
}

/// Returns the id of this boot of the machine.
pub(crate) fn read_boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn read_pid_namespace() -> io::Result<String> {
    Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn stat_fields_start_after_the_last_parenthesis() {
        let stat = parse_stat("7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9").unwrap();
        assert_eq!((stat.state, stat.start_time), ('S', 4711));
        assert!(parse_stat("7 (x) S 1").is_none());
    }

    #[test]
    fn reused_pids_are_not_signalled() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id() as i32).unwrap();
        assert!(identity.is_running().unwrap());

        let namesake = ProcessIdentity { start_time: identity.start_time + 1, ..identity.clone() };
        assert!(!namesake.is_running().unwrap());
        namesake.stop(Duration::ZERO).unwrap();
        assert!(identity.is_running().unwrap(), "stopping a namesake stopped the process");
        let earlier_boot = ProcessIdentity { boot_id: "x".into(), ..identity.clone() };
        assert!(!earlier_boot.is_running().unwrap());
        assert!(namesake.has_ended_here().unwrap() && !identity.has_ended_here().unwrap());
        assert!(!earlier_boot.has_ended_here().unwrap(), "a process of an earlier boot counts as ended");
        let other_namespace = ProcessIdentity { pid_namespace: "x".into(), ..identity.clone() };
        assert!(other_namespace.is_running().is_err());
        assert!(!other_namespace.has_ended_here().unwrap());

        identity.stop(Duration::from_secs(5)).unwrap();
        assert!(!identity.is_running().unwrap(), "a zombie counts as running");
        child.wait().unwrap();
        identity.stop(Duration::ZERO).unwrap();
    }

    #[test]
    fn process_that_ignores_sigterm_is_killed() {
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; echo; while :; do sleep 1; done"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut byte = [0];
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
        let identity = ProcessIdentity::of(child.id() as i32).unwrap();
        identity.stop(Duration::from_millis(20)).unwrap();
        assert!(!identity.is_running().unwrap());
        child.wait().unwrap();
    }
}
