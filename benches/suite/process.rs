//! Runs a process, and measures the time and peak memory of it and its children.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The cost of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessCost {
    /// The time from start to end.
    pub wall: Duration,
    /// The peak resident memory in KiB of the process or of a child that it waited for. It is at least the
    /// memory of this program when the process started.
    pub peak_kib: u64,
    /// The exit code; -1 after a signal.
    pub code: i32,
}

/// Returns unused memory to the kernel, and makes the kernel forget the peak memory of this program, which
/// counts as that of each process that it starts.
fn forget_peak_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it has no requirement.
    unsafe {
        libc::malloc_trim(0);
    }
    // 5 resets the peak (proc(5), clear_refs).
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// Runs a command that must succeed, and discards its output.
pub(crate) fn run(command: &mut Command) -> ProcessCost {
    let cost = attempt(command.stdin(Stdio::null()).stdout(Stdio::null()));
    assert_eq!(cost.code, 0, "{command:?} failed");
    cost
}

/// Runs a command. Any exit code is accepted.
#[expect(clippy::zombie_processes, reason = "it is waited for by wait4, which also tells what it took")]
pub(crate) fn attempt(command: &mut Command) -> ProcessCost {
    forget_peak_memory();
    let start = Instant::now();
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut status = 0;
    // SAFETY: all zeros are a valid `rusage`, and both variables outlive the call. No other code waits for
    // the child, because `Child` does so only on request.
    let (reaped, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let pid = child.id().cast_signed();
        (libc::wait4(pid, &raw mut status, 0, &raw mut usage) == pid, usage)
    };
    assert!(reaped, "{command:?} cannot be waited for");
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 };
    ProcessCost { wall: start.elapsed(), peak_kib: u64::try_from(usage.ru_maxrss).unwrap_or_default(), code }
}

/// Returns the path of an optional program.
pub(crate) fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// Counts the instructions of a command without its children. Returns `None` without valgrind.
pub(crate) fn instructions(command: &Command) -> Option<u64> {
    let valgrind = find("valgrind")?;
    let profile = tempfile::NamedTempFile::new().ok()?;
    let mut callgrind = Command::new(valgrind);
    callgrind.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", profile.path().display()));
    callgrind.arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        callgrind.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => callgrind.env(name, value),
            None => callgrind.env_remove(name),
        };
    }
    let cost = attempt(callgrind.stdout(Stdio::null()).stderr(Stdio::null()));
    if cost.code != 0 {
        return None;
    }
    // The line `totals:` has the count.
    let text = std::fs::read_to_string(profile.path()).ok()?;
    let line = text.lines().rev().find_map(|line| line.strip_prefix("totals: "))?;
    line.trim().parse().ok()
}
