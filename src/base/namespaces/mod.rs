//! Linux namespaces: enters them, starts programs in user namespaces, and builds the file system of a mount
//! namespace.
//!
//! Two programs use it: the first process of a VM of the `local` CPI, and the one that runs a CPI in a
//! userland. Both start with [`keep_only_stdio`] and [`enter`], before they have a second thread. Then
//! they build a tree with [`mounts`].
//!
//! Errors are texts, because each caller reports them in its own way.

pub mod mounts;

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd, retry_on_intr};
use rustix::process::{getegid, geteuid};
pub use rustix::thread::UnshareFlags;
use rustix::thread::unshare_unsafe;

/// A sysctl that can forbid user namespaces.
struct Sysctl {
    name: &'static str,
    /// The value that forbids them.
    forbidding_value: &'static str,
    /// A value that allows them.
    allowing_value: &'static str,
}

/// The sysctls that can forbid user namespaces.
const SYSCTLS: [Sysctl; 3] = [
    Sysctl { name: "kernel.unprivileged_userns_clone", forbidding_value: "0", allowing_value: "1" },
    Sysctl { name: "user.max_user_namespaces", forbidding_value: "0", allowing_value: "15000" },
    Sysctl {
        name: "kernel.apparmor_restrict_unprivileged_userns",
        forbidding_value: "1",
        allowing_value: "0",
    },
];

/// The time in which the ids of a new user namespace are mapped, which takes milliseconds.
const MAP_TIMEOUT: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };
/// The answer to a process that waits for its maps: they are written.
const IDS_ARE_MAPPED: u8 = 1;
/// The maximum length of a pid.
const MAX_PID_BYTES: usize = 16;

/// Marks all inherited files except the standard streams close-on-exec, so that the namespaces do not keep
/// locks or terminals of the caller.
pub fn keep_only_stdio() -> io::Result<()> {
    let mut descriptors = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        descriptors.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    for raw in descriptors.into_iter().filter(|raw| *raw > 2) {
        // SAFETY: the descriptor is used only for two fcntl calls. They return EBADF if it is closed, as that
        // of the directory just listed is.
        #[expect(unsafe_code, reason = "descriptors inherited from the caller have no owner here")]
        let fd = unsafe { BorrowedFd::borrow_raw(raw) };
        match fcntl_getfd(fd).and_then(|flags| fcntl_setfd(fd, flags | FdFlags::CLOEXEC)) {
            Ok(()) | Err(Errno::BADF) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Enters one set of new namespaces.
pub fn unshare(namespaces: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: the callers unshare namespaces and no file table, so no descriptor becomes invalid.
    #[expect(unsafe_code, reason = "the safe form is deprecated; these flags are harmless")]
    unsafe {
        unshare_unsafe(namespaces & !UnshareFlags::FILES)
    }
}

/// Enters new namespaces, including a user namespace if this process lacks the privileges. In a user
/// namespace, the user is root.
pub fn enter(namespaces: UnshareFlags) -> Result<(), String> {
    if geteuid().is_root() {
        match unshare(namespaces) {
            Ok(()) => return Ok(()),
            // Root without capabilities, as in a container, needs a user namespace like an ordinary user.
            Err(Errno::PERM) => {}
            Err(errno) => return Err(format!("creating namespaces failed: {errno}")),
        }
    }
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    unshare(namespaces | UnshareFlags::NEWUSER).map_err(missing_user_namespaces_message)?;
    // user_namespaces(7): a process may map its own ids after it has denied setgroups.
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {uid} 1")),
        ("gid_map", format!("0 {gid} 1")),
    ];
    for (name, value) in maps {
        fs::write(Path::new("/proc/self").join(name), value).map_err(|error| {
            format!(
                "{}; writing /proc/self/{name} failed: {error}",
                missing_user_namespaces_message(Errno::PERM)
            )
        })?;
    }
    Ok(())
}

/// Starts `command` in a new user namespace. `write_maps` maps its ids, for which the process itself lacks
/// the privileges, and gets the pid of the process, as `/proc` shows it.
///
/// After that, the new process calls `prepare`, which must allocate no memory, because it runs between fork
/// and exec.
pub fn spawn_in_user_namespace(
    mut command: Command,
    write_maps: impl FnOnce(&str) -> io::Result<()> + Send,
    mut prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<Child> {
    let (mut parent_socket, child_socket) = UnixStream::pair()?;
    // SAFETY: the closure only makes system calls, with arguments that exist before the fork.
    #[expect(unsafe_code, reason = "a process can only enter a user namespace before it executes a program")]
    unsafe {
        command.pre_exec(move || {
            unshare(UnshareFlags::NEWUSER)?;
            wait_for_maps(&child_socket)?;
            prepare()
        });
    }
    std::thread::scope(|scope| {
        let mapper = scope.spawn(move || {
            let mut buffer = [0; MAX_PID_BYTES];
            let length = parent_socket.read(&mut buffer)?;
            let pid = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default());
            // The process ended before it asked.
            if pid.is_empty() {
                return Ok(());
            }
            let result = write_maps(&pid);
            parent_socket.write_all(&[if result.is_ok() { IDS_ARE_MAPPED } else { 0 }])?;
            result
        });
        let child = command.spawn();
        // Closes the socket of the process, for which the thread may be waiting.
        drop(command);
        match (child, mapper.join()) {
            // The process only knows that it got no maps.
            (Err(_), Ok(Err(map_error))) => Err(map_error),
            (child, _) => child,
        }
    })
}

/// Asks the parent process for maps of the ids, and waits for them. Allocates no memory, because it runs
/// between fork and exec.
fn wait_for_maps(parent: &UnixStream) -> io::Result<()> {
    // In a `/proc` of other pids, this process has another one than in its own namespace.
    let mut pid = [0; MAX_PID_BYTES];
    let length = rustix::fs::readlinkat_raw(rustix::fs::CWD, c"/proc/self", &mut pid)?;
    rustix::io::write(parent, pid.get(..length).unwrap_or_default())?;
    let mut answer = [0];
    // The parent may have ended.
    retry_on_intr(|| poll(&mut [PollFd::new(parent, PollFlags::IN)], Some(&MAP_TIMEOUT)))?;
    let count = rustix::net::recv(parent, &mut answer, rustix::net::RecvFlags::DONTWAIT)?.0;
    match count == 1 && answer == [IDS_ARE_MAPPED] {
        true => Ok(()),
        false => Err(Errno::PERM.into()),
    }
}

/// Returns the message for missing user namespaces, with the sysctls that forbid them.
pub fn missing_user_namespaces_message(errno: Errno) -> String {
    let causes: Vec<String> = forbidding_switches()
        .map(|switch| {
            format!(
                "sysctl {} is {} (allow them: `sysctl -w {0}={}`)",
                switch.name, switch.forbidding_value, switch.allowing_value
            )
        })
        .collect();
    let reason = if causes.is_empty() {
        "the kernel, a container or a security policy forbids them; see sysctl \
         kernel.unprivileged_userns_clone, user.max_user_namespaces and \
         kernel.apparmor_restrict_unprivileged_userns"
            .to_owned()
    } else {
        causes.join(", ")
    };
    let remedy = if geteuid().is_root() {
        "start the container with the right to create them, for example by `--privileged`"
    } else {
        "change that, or run monopile as root"
    };
    format!("this user cannot create user namespaces ({errno}): {reason}; {remedy}")
}

/// Returns the sysctls that forbid user namespaces on this machine.
fn forbidding_switches() -> impl Iterator<Item = &'static Sysctl> {
    SYSCTLS.iter().filter(|switch| {
        let path = Path::new("/proc/sys").join(switch.name.replace('.', "/"));
        fs::read_to_string(path).is_ok_and(|value| value.trim() == switch.forbidding_value)
    })
}
