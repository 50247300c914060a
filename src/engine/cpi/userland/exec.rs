//! `monopile userland-exec`: runs a program in a userland, in two stages.
//!
//! 1. The first stage enters new namespaces, starts the second stage as their first process, and waits for
//!    its end. It ends with the exit status of the program, or with 128 and the number of the signal that
//!    ended the program. If the first stage is killed, the kernel kills everything in the namespaces.
//! 2. The second stage builds the tree, starts the program, reaps orphans, and ends with the program.
//!
//! The program has a user namespace of its own, in which it is no root. So it can neither mount nor create
//! devices, and set-uid bits have no effect on it. A packaging script can have further ids there. It may give
//! files to these ids and become these users. It keeps no other privilege of that namespace.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, getegid, geteuid, umask};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::files::USER_ID;
use super::{COMMAND, Layout, MAX_PROCESSES, TOO_MANY_PROCESSES_EXIT_CODE, tree};
use base::namespaces::{self, UnshareFlags};
use base::subordinate_ids::{IdRange, IdRanges, MAX_ID};

/// The pause between two looks at the processes. A fork bomb starts about ten processes in this time.
const POLL_PAUSE: Duration = Duration::from_millis(2);
/// The number of new processes after which all are counted.
const COUNT_AFTER_PROCESSES: u64 = 100;
/// The capabilities of a program with further ids, which it has only over files and processes of these ids:
/// to give files to them, to reach those files, and to become them.
const ID_CAPABILITIES: [CapabilitySet; 5] = [
    CapabilitySet::CHOWN,
    CapabilitySet::DAC_OVERRIDE,
    CapabilitySet::FOWNER,
    CapabilitySet::SETGID,
    CapabilitySet::SETUID,
];
/// The exit code if the program cannot be started. A shell ends with the same one.
const NOT_STARTED_EXIT_CODE: u8 = 127;

pub(super) fn run(
    layout_path: &Path,
    is_init: bool,
    program: &[OsString],
    executable: &Path,
) -> Result<u8, String> {
    let layout = Layout::read(layout_path).map_err(|error| error.chain().join(": "))?;
    if is_init { run_in_userland(&layout, program) } else { enter(layout_path, &layout, program, executable) }
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
    // As on a VM. The modes of compiled files must not depend on this machine.
    umask(Mode::from_raw_mode(0o022));
    let Some((name, arguments)) = program.split_first() else {
        // If a program that does not exist is reported as missing, all steps before its start have succeeded.
        return match start("/proc/none".as_ref(), &[], "/".as_ref(), layout.further_ids) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => match Errno::from_io_error(&error) {
                Some(errno) => Err(namespaces::missing_user_namespaces_message(errno)),
                None => Err(error.to_string()),
            },
            Ok(_) => Err("'/proc/none' exists".to_owned()),
        };
    };
    let child = match start(name, arguments, &layout.directory, layout.further_ids) {
        Ok(child) => child,
        Err(error) => {
            report(format_args!("'{}' cannot be run in the userland: {error}", name.display()));
            return Ok(NOT_STARTED_EXIT_CODE);
        }
    };
    if has_own_proc {
        std::thread::spawn(limit_processes);
    }
    wait_for(&child).map_err(|errno| format!("waiting for the program failed: {errno}"))
}

/// Starts the program as the user of the userland, with further ids if there are any.
fn start(
    program: &OsStr,
    arguments: &[OsString],
    directory: &Path,
    further_ids: Option<IdRanges>,
) -> io::Result<Child> {
    let mut maps = vec![
        ("uid_map", id_map(geteuid().as_raw(), further_ids.map(|ranges| ranges.uids))),
        ("gid_map", id_map(getegid().as_raw(), further_ids.map(|ranges| ranges.gids))),
    ];
    if further_ids.is_none() {
        maps.insert(0, ("setgroups", "deny".to_owned()));
    }
    let write_maps = |pid: &str| {
        maps.iter().try_for_each(|(name, text)| {
            let path = format!("/proc/{pid}/{name}");
            std::fs::write(&path, text)
                .map_err(|error| io::Error::other(format!("writing '{path}' failed: {error}")))
        })
    };
    // This limit counts only processes of the program's user namespace. The kernel does not apply it to root
    // of this machine; there, `limit_processes` counts the processes.
    let hard_limit = rustix::process::getrlimit(Resource::Nproc).maximum;
    let maximum = Some(hard_limit.unwrap_or(MAX_PROCESSES).min(MAX_PROCESSES));
    let limit = Rlimit { current: maximum, maximum };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory);
    let has_further_ids = further_ids.is_some();
    namespaces::spawn_in_user_namespace(command, write_maps, move || {
        give_up_privileges(limit, has_further_ids)
    })
}

/// Returns the map of ids for the program (user_namespaces(7)): its user has `id` outside, and the ids of the
/// range are the other ids inside.
fn id_map(id: u32, range: Option<IdRange>) -> String {
    let user_line = format!("{USER_ID} {id} 1\n");
    let Some(IdRange { start, count }) = range else { return user_line };
    let lower_count = count.min(USER_ID);
    let mut map = format!("{user_line}0 {start} {lower_count}\n");
    let upper_count = (count - lower_count).min(MAX_ID - USER_ID);
    if upper_count > 0 {
        map.push_str(&format!("{} {} {upper_count}\n", USER_ID + 1, start + lower_count));
    }
    map
}

/// Gives up all privileges, except those for other ids if there are any. Allocates no memory, because it runs
/// between fork and exec.
fn give_up_privileges(limit: Rlimit, has_further_ids: bool) -> io::Result<()> {
    rustix::process::setrlimit(Resource::Nproc, limit)?;
    rustix::thread::set_no_new_privs(true)?;
    if has_further_ids {
        // A program that is not root has only ambient capabilities (capabilities(7)).
        let sets = rustix::thread::capabilities(None)?;
        let inheritable = CapabilitySet::from_iter(ID_CAPABILITIES);
        rustix::thread::set_capabilities(None, CapabilitySets { inheritable, ..sets })?;
        for capability in ID_CAPABILITIES {
            rustix::thread::configure_capability_in_ambient_set(capability, true)?;
        }
    }
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
        let latest_pid = read_latest_pid();
        if latest_pid.abs_diff(last_counted_pid) < COUNT_AFTER_PROCESSES {
            continue;
        }
        last_counted_pid = latest_pid;
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries
            .filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit));
        if processes.count() as u64 > MAX_PROCESSES {
            report(format_args!("killed: more than {MAX_PROCESSES} processes at once in the userland"));
            std::process::exit(TOO_MANY_PROCESSES_EXIT_CODE.into());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_ids_fill_the_places_around_that_of_the_user() {
        let map = |start, count| id_map(0, Some(IdRange { start, count }));
        assert_eq!(id_map(501, None), "1000 501 1\n");
        assert_eq!(map(1, 500), "1000 0 1\n0 1 500\n");
        assert_eq!(map(1, 1000), "1000 0 1\n0 1 1000\n");
        assert_eq!(map(1, 65_535), "1000 0 1\n0 1 1000\n1001 1001 64535\n");
        assert_eq!(map(100_000, 70_000), "1000 0 1\n0 100000 1000\n1001 101000 64535\n");
    }
}
