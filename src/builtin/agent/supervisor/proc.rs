//! Reads the state of processes from `/proc`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The number of clock ticks in a second, on all processors that Linux supports here.
const TICKS_PER_SECOND: u64 = 100;

/// A process of a job. It differs from a later process with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SupervisedProcess {
    /// The process id.
    pub pid: i32,
    /// The start time, in clock ticks since boot.
    pub start_time: u64,
}

impl SupervisedProcess {
    /// Returns the time since the start of the process, also if an earlier agent started it.
    pub(super) fn uptime(self) -> Duration {
        let boot_time = clock_gettime(ClockId::Boottime);
        let since_boot = Duration::from_secs(boot_time.tv_sec.unsigned_abs());
        since_boot.saturating_sub(Duration::from_secs(self.start_time / TICKS_PER_SECOND))
    }
}

/// Returns the process in a pid file, if it runs.
pub(super) fn find_in_pidfile(path: &Path) -> Option<SupervisedProcess> {
    // A pid file has one number, so only its beginning is read.
    let text = read_start(path, 64)?;
    let pid: i32 = text.split_whitespace().next()?.parse().ok()?;
    if pid > 0 { find(pid) } else { None }
}

/// Returns the process with this pid, if it runs. A zombie counts as ended.
pub(crate) fn find(pid: i32) -> Option<SupervisedProcess> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = after_name(&stat)?;
    let state = fields.first()?;
    let start_time = fields.get(19)?.parse().ok()?;
    (!matches!(*state, "Z" | "X")).then_some(SupervisedProcess { pid, start_time })
}

/// Returns the resident memory in KiB and the processor time in clock ticks.
pub(super) fn read_usage(pid: i32) -> Option<(u64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = after_name(&stat)?;
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let resident =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
    Some((resident.unwrap_or_default(), number(11)? + number(12)?))
}

/// Returns the fields of `stat` after the program's name, which may contain any characters.
fn after_name(stat: &str) -> Option<Vec<&str>> {
    Some(stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect())
}

/// Reads at most `limit` bytes of a regular file.
fn read_start(path: &Path, limit: u64) -> Option<String> {
    use std::io::Read;
    let metadata = fs::metadata(path).ok()?;
    // Opening a FIFO would wait for a writer.
    if !metadata.is_file() {
        return None;
    }
    let mut text = String::new();
    fs::File::open(path).ok()?.take(limit).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zombies_and_reaped_processes_do_not_run() {
        let own_pid = i32::try_from(std::process::id()).unwrap();
        assert_eq!(find(own_pid).unwrap().pid, own_pid);
        assert!(read_usage(own_pid).unwrap().0 > 0);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        // The process has ended, but is not reaped.
        while find(pid).is_some() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(find(pid), None);
    }

    #[test]
    fn uptime_begins_with_the_process() {
        let own_process = find(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own_process.uptime() < Duration::from_secs(3600));
        let since_boot = fs::read_to_string("/proc/uptime").unwrap();
        let since_boot: u64 = since_boot.split('.').next().unwrap().parse().unwrap();
        // A hundred clock ticks are one second.
        let later_process = SupervisedProcess { start_time: 100 * (since_boot / 2), ..own_process };
        let expected = since_boot - since_boot / 2;
        assert!(later_process.uptime().as_secs().abs_diff(expected) <= 2);
    }

    #[test]
    fn malformed_pid_files_count_as_stopped() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        for text in ["", "x", "-1", "0", "99999999999", "4194999\n"] {
            fs::write(&file, text).unwrap();
            assert_eq!(find_in_pidfile(&file), None, "{text:?}");
        }
        fs::write(&file, format!("{}\n", std::process::id())).unwrap();
        assert!(find_in_pidfile(&file).is_some());
        assert_eq!(find_in_pidfile(directory.path()), None);
    }
}
