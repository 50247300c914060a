//! Which process it was, beyond doubt: a pid alone may be somebody else's by now.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process of one boot of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// As seen in `pid_namespace`.
    pub pid: i32,
    /// Clock ticks since boot, field 22 of `/proc/<pid>/stat` (proc(5)).
    pub start_time: u64,
    /// Start times begin again with every boot.
    pub boot_id: String,
    /// Pids mean something in one pid namespace only.
    pub pid_namespace: String,
}

/// What `/proc/<pid>/stat` says.
struct Stat {
    state: char,
    start_time: u64,
}

impl Identity {
    /// The identity of a process that certainly lives (or is a zombie of ours).
    pub(crate) fn of(pid: i32) -> io::Result<Identity> {
        let stat = stat(pid)?.ok_or_else(|| io::Error::other(format!("process {pid} is gone")))?;
        Ok(Identity {
            pid,
            start_time: stat.start_time,
            boot_id: boot_id()?,
            pid_namespace: pid_namespace()?,
        })
    }

    /// Whether it was a process of this boot and pid namespace, and is no more. Of any other nothing is known.
    pub(crate) fn has_ended_here(&self) -> io::Result<bool> {
        let here = self.boot_id == boot_id()? && self.pid_namespace == pid_namespace()?;
        Ok(here && !self.is_running()?)
    }

    /// Whether the process runs.
    pub(crate) fn is_running(&self) -> io::Result<bool> {
        Ok(self.open()?.is_some())
    }

    /// A handle on exactly this process; `None` when it is gone.
    fn open(&self) -> io::Result<Option<OwnedFd>> {
        if boot_id()? != self.boot_id {
            return Ok(None);
        }
        if pid_namespace()? != self.pid_namespace {
            return Err(io::Error::other(
                "the VM was started in another pid namespace (a container?), its process cannot be identified",
            ));
        }
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(None) };
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        // The handle is held, so the pid cannot be given away between this look and a signal.
        match stat(self.pid)? {
            Some(stat) if stat.start_time == self.start_time && !matches!(stat.state, 'Z' | 'X') => {
                Ok(Some(pidfd))
            }
            _ => Ok(None),
        }
    }

    /// Asks the process to end, insists after `grace`, and returns when it is gone.
    pub(crate) fn stop(&self, grace: Duration) -> io::Result<()> {
        let Some(pidfd) = self.open()? else { return Ok(()) };
        if signal(&pidfd, Signal::TERM)? && !ended(&pidfd, grace)? {
            signal(&pidfd, Signal::KILL)?;
            // A killed init ends when the kernel has killed all of its namespace: disk sleep can hold it.
            if !ended(&pidfd, Duration::from_secs(60))? {
                return Err(io::Error::other(format!("process {} does not end after SIGKILL", self.pid)));
            }
        }
        Ok(())
    }
}

/// Sends a signal; false when the process is gone.
fn signal(pidfd: &OwnedFd, signal: Signal) -> io::Result<bool> {
    match pidfd_send_signal(pidfd, signal) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Waits until the process is gone, at most `limit`; false when it still runs.
fn ended(pidfd: &OwnedFd, limit: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        match poll(&mut fds, Some(&timespec(left))) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// A duration as the kernel takes it.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

fn stat(pid: i32) -> io::Result<Option<Stat>> {
    let text = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => text,
        // ESRCH: the process went between open and read.
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
        .ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat cannot be understood: {text}")))
}

/// The command name may hold blanks and parentheses: fields count from the last one.
fn parse_stat(text: &str) -> Option<Stat> {
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let start_time = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, start_time })
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn pid_namespace() -> io::Result<String> {
    Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn fields_are_counted_behind_any_name() {
        let stat = parse_stat("7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9").unwrap();
        assert_eq!((stat.state, stat.start_time), ('S', 4711));
        assert!(parse_stat("7 (x) S 1").is_none());
    }

    #[test]
    fn a_process_is_known_by_its_start_and_stopped() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity::of(child.id() as i32).unwrap();
        assert!(identity.is_running().unwrap());

        let namesake = Identity { start_time: identity.start_time + 1, ..identity.clone() };
        assert!(!namesake.is_running().unwrap());
        namesake.stop(Duration::ZERO).unwrap();
        assert!(identity.is_running().unwrap(), "a namesake must not be signalled");
        let earlier_boot = Identity { boot_id: "x".into(), ..identity.clone() };
        assert!(!earlier_boot.is_running().unwrap());
        assert!(namesake.has_ended_here().unwrap() && !identity.has_ended_here().unwrap());
        assert!(!earlier_boot.has_ended_here().unwrap(), "it may run on another machine");
        let elsewhere = Identity { pid_namespace: "x".into(), ..identity.clone() };
        assert!(elsewhere.is_running().is_err());
        assert!(!elsewhere.has_ended_here().unwrap());

        identity.stop(Duration::from_secs(5)).unwrap();
        assert!(!identity.is_running().unwrap(), "a zombie does not run");
        child.wait().unwrap();
        identity.stop(Duration::ZERO).unwrap();
    }

    #[test]
    fn who_ignores_the_request_is_killed() {
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; echo; while :; do sleep 1; done"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut byte = [0];
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
        let identity = Identity::of(child.id() as i32).unwrap();
        identity.stop(Duration::from_millis(20)).unwrap();
        assert!(!identity.is_running().unwrap());
        child.wait().unwrap();
    }
}
