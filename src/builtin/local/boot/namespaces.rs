//! The first stage of `vm-boot`: creates the namespaces and starts init as their pid 1.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::Command;

use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{getegid, geteuid, setsid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::Report;
use crate::cpi::process::ProcessIdentity;

/// The sysctls that can forbid user namespaces, with the value that forbids them.
const SWITCHES: [(&str, &str); 3] = [
    ("kernel.unprivileged_userns_clone", "0"),
    ("user.max_user_namespaces", "0"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1"),
];

pub(super) fn run(vm_dir: &Path, executable: &Path, network: Option<&Path>) -> Result<(), String> {
    // In a new session, Ctrl-C in the caller's terminal does not reach the VM. The call fails only if the
    // process already leads a session.
    let _ = setsid();
    keep_only_stdio().map_err(|error| format!("closing inherited files failed: {error}"))?;
    // From a new user namespace, the process could no longer enter this network namespace.
    network.map_or(Ok(()), super::super::network::enter)?;
    enter()?;
    let init = Command::new(executable)
        .args(["vm-boot", "--stage", "init", "--vm-dir"])
        .arg(vm_dir)
        .arg("--executable")
        .arg(executable)
        .spawn()
        .map_err(|error| format!("starting init in the new pid namespace failed: {error}"))?;
    // This process does not reap init, so the pid stays valid until this process ends.
    let identity = i32::try_from(init.id())
        .map_err(io::Error::other)
        .and_then(ProcessIdentity::of)
        .map_err(|error| format!("identifying init failed: {error}"))?;
    Report::Init(identity).send().map_err(|error| format!("reporting init failed: {error}"))
}

/// Marks all inherited files except the standard streams close-on-exec, so that the VM does not keep locks or
/// terminals of the caller.
fn keep_only_stdio() -> io::Result<()> {
    let mut open = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        open.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    for raw in open.into_iter().filter(|raw| *raw > 2) {
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

/// Enters new namespaces, including a user namespace if this process lacks the privileges.
fn enter() -> Result<(), String> {
    let namespaces = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    // SAFETY: no file table is unshared, so no descriptor becomes invalid.
    #[expect(unsafe_code, reason = "the safe form is deprecated; these flags are harmless")]
    let unshare = |flags| unsafe { unshare_unsafe(flags) };
    if geteuid().is_root() {
        match unshare(namespaces) {
            Ok(()) => return Ok(()),
            // Root without capabilities, as in a container, needs a user namespace like an ordinary user.
            Err(Errno::PERM) => {}
            Err(errno) => return Err(format!("creating namespaces failed: {errno}")),
        }
    }
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    unshare(namespaces | UnshareFlags::NEWUSER).map_err(missing_user_namespaces)?;
    // user_namespaces(7): a process may map its own ids after it has denied setgroups.
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {uid} 1")),
        ("gid_map", format!("0 {gid} 1")),
    ];
    for (name, value) in maps {
        fs::write(Path::new("/proc/self").join(name), value).map_err(|error| {
            format!("{}; writing /proc/self/{name} failed: {error}", missing_user_namespaces(Errno::PERM))
        })?;
    }
    Ok(())
}

/// Returns the message for missing user namespaces, with the sysctls that forbid them.
fn missing_user_namespaces(errno: Errno) -> String {
    let causes: Vec<String> = SWITCHES
        .iter()
        .filter(|(name, off)| {
            let path = Path::new("/proc/sys").join(name.replace('.', "/"));
            fs::read_to_string(path).is_ok_and(|value| value.trim() == *off)
        })
        .map(|(name, off)| format!("sysctl {name} is {off}"))
        .collect();
    let why = if causes.is_empty() {
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
    format!("this user cannot create user namespaces ({errno}): {why}; {remedy}")
}
