//! `monopile userland-exec`: runs a program in a userland, in two stages.
//!
//! 1. The first one enters new namespaces, starts the second one as their first process, and waits for it.
//!    It ends with the exit status of the program, or with 128 and the number of the signal that ended it.
//!    If it is killed, the kernel kills everything in the namespaces.
//! 2. The second one builds the tree, starts the program, reaps orphans, and ends with the program.
//!
//! The program has a user namespace of its own, in which it is no root. So it can neither mount nor create
//! devices, and set-uid bits have no effect on it.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, getegid, geteuid};

use super::files::USER_ID;
use super::{COMMAND, Layout, MAX_PROCESSES, TOO_MANY, tree};
use base::namespaces::{self, UnshareFlags};

/// The pause between two looks at the processes. A fork bomb starts about ten processes in this time.
const POLL_PAUSE: Duration = Duration::from_millis(2);
/// The number of new processes after which all are counted.
const COUNT_AFTER_PROCESSES: u64 = 100;
/// The exit status if the program cannot be started, as that of a shell.
const NOT_STARTED: u8 = 127;

pub(super) fn run(
    layout: &Path,
    is_init: bool,
    program: &[OsString],
    executable: &Path,
) -> Result<u8, String> {
    let content = Layout::read(layout).map_err(|error| error.chain().join(": "))?;
    if is_init { run_in_userland(&content, program) } else { enter(layout, &content, program, executable) }
}

/// Enters new namespaces, runs [`run_in_userland`] in them as their first process, and returns its exit
/// status.
fn enter(path: &Path, layout: &Layout, program: &[OsString], executable: &Path) -> Result<u8, String> {
    namespaces::keep_only_stdio().map_err(|error| format!("closing inherited files failed: {error}"))?;
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    if !layout.has_network {
        flags |= UnshareFlags::NEWNET;
    }
    namespaces::enter(flags)?;
    let mut command = Command::new(executable);
    command.args([COMMAND, "--init", "--layout"]).arg(path).arg("--").args(program);
    // SAFETY: prctl is async-signal-safe.
    #[expect(unsafe_code, reason = "the kernel forgets this setting when a process forks")]
    unsafe {
        command.pre_exec(|| Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    let status = command.status().map_err(|error| format!("starting the userland failed: {error}"))?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Builds the tree of the userland and runs the program in it. Without a program, only checks that this
/// machine allows both.
fn run_in_userland(layout: &Layout, program: &[OsString]) -> Result<u8, String> {
    let has_own_proc = tree::enter(layout)?;
    let Some((name, arguments)) = program.split_first() else {
        // If a program that does not exist is reported as missing, all steps before its start have succeeded.
        return match start("/proc/none".as_ref(), &[], "/".as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::PERM);
                Err(namespaces::missing_user_namespaces_message(errno))
            }
            Ok(_) => Err("'/proc/none' exists".to_owned()),
        };
    };
    let child = match start(name, arguments, &layout.directory) {
        Ok(child) => child,
        Err(error) => {
            report(format_args!("'{}' cannot be run in the userland: {error}", name.display()));
            return Ok(NOT_STARTED);
        }
    };
    if has_own_proc {
        std::thread::spawn(limit_processes);
    }
    wait_for(&child).map_err(|errno| format!("waiting for the program failed: {errno}"))
}

/// Starts the program as the user of the userland.
fn start(program: &OsStr, arguments: &[OsString], directory: &Path) -> io::Result<Child> {
    let maps = [
        (c"/proc/self/setgroups", CString::from(c"deny")),
        (c"/proc/self/uid_map", CString::new(format!("{USER_ID} {} 1", geteuid().as_raw()))?),
        (c"/proc/self/gid_map", CString::new(format!("{USER_ID} {} 1", getegid().as_raw()))?),
    ];
    // Counts only processes of the program's user namespace. The kernel exempts root of this machine from
    // it, for whom `limit_processes` counts.
    let hard_limit = rustix::process::getrlimit(Resource::Nproc).maximum;
    let maximum = Some(hard_limit.unwrap_or(MAX_PROCESSES).min(MAX_PROCESSES));
    let limit = Rlimit { current: maximum, maximum };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory);
    // SAFETY: the closure only makes system calls, with arguments that exist before the fork.
    #[expect(unsafe_code, reason = "a process can only enter a user namespace before it executes a program")]
    unsafe {
        command.pre_exec(move || become_user(&maps, limit));
    }
    command.spawn()
}

/// Gives up all privileges. Allocates no memory, because it runs between fork and exec.
fn become_user(maps: &[(&CStr, CString); 3], limit: Rlimit) -> io::Result<()> {
    namespaces::unshare(UnshareFlags::NEWUSER)?;
    for (path, text) in maps {
        let file = rustix::fs::open(*path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(&file, text.as_bytes())?;
    }
    rustix::process::setrlimit(Resource::Nproc, limit)?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

/// Reaps processes until the program has ended, and returns its exit status.
fn wait_for(child: &Child) -> Result<u8, Errno> {
    let program = Pid::from_child(child);
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => {
                let signal = || status.terminating_signal().map_or(0, |signal| 128 + signal);
                let code = status.exit_status().unwrap_or_else(signal);
                return Ok(u8::try_from(code).unwrap_or(u8::MAX));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Ends the userland if it has too many processes. The kernel then kills all of them at once.
#[expect(
    clippy::disallowed_methods,
    reason = "the first process of the namespaces ends, which kills the others"
)]
fn limit_processes() {
    // A fork bomb must not take the time that this thread needs. Only root may do this.
    let _ = rustix::process::setpriority_process(None, -20);
    let mut last_counted_pid = 0;
    loop {
        std::thread::sleep(POLL_PAUSE);
        let latest = read_latest_pid();
        if latest.abs_diff(last_counted_pid) < COUNT_AFTER_PROCESSES {
            continue;
        }
        last_counted_pid = latest;
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries
            .filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit));
        if processes.count() as u64 > MAX_PROCESSES {
            report(format_args!("killed: more than {MAX_PROCESSES} processes at once in the userland"));
            std::process::exit(TOO_MANY.into());
        }
    }
}

/// Returns the pid of the latest process, the last field of `/proc/loadavg` (proc(5)).
fn read_latest_pid() -> u64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next_back().and_then(|pid| pid.parse().ok()).unwrap_or(0)
}

fn report(text: std::fmt::Arguments<'_>) {
    // If standard error is closed, the exit status still shows the failure.
    let _ = writeln!(io::stderr(), "error: {text}");
}
