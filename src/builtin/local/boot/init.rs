//! The second stage of `vm-boot`: builds the VM's file system, starts the agent and supervises it, as pid 1
//! of the VM.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, umask, wait};
use signal_hook::consts::{SIGCHLD, SIGTERM};

use super::{Report, SETTINGS_FILE, USER_DATA_FILE, root_tree};
use crate::cpi::process::timespec;
use base::namespaces::{UnshareFlags, unshare};

/// The agent's program inside the VM.
pub(super) const AGENT_PROGRAM: &str = "/var/vcap/bosh/bin/bosh-agent";
/// The settings that the agent reads.
const AGENT_SETTINGS: &str = "/var/vcap/bosh/settings.json";
/// The user data of the VM, beside the settings.
const AGENT_USER_DATA: &str = "/var/vcap/bosh/user_data.json";
/// The base directory of the agent, jobs and packages.
const BASE_DIRECTORY: &str = "/var/vcap";
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The uptime after which an agent is restarted without a pause.
const STABLE_DURATION: Duration = Duration::from_secs(2);
/// The pause before a restart of an agent that ended early. It doubles each time.
const FIRST_RESTART_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause before a restart.
const MAX_RESTART_PAUSE: Duration = Duration::from_secs(5);
/// The time that the VM's processes have to end at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Builds the VM's file system, starts the agent, and supervises it until the VM is shut down.
pub(super) fn run(vm_directory: &Path, executable: &Path) -> Result<(), String> {
    umask(Mode::from_raw_mode(0o022));
    let (settings, path) = read_settings(vm_directory)
        .map_err(|error| format!("reading the agent's settings failed: {error}"))?;
    // The first stage is still in the old mount namespace, where it reads `/proc` to identify this
    // process. So the root of the old namespace must not change.
    unshare(UnshareFlags::NEWNS).map_err(|errno| format!("creating a mount namespace failed: {errno}"))?;
    for note in root_tree::enter(vm_directory, executable)? {
        Report::Note(note).send().map_err(|error| format!("reporting failed: {error}"))?;
    }
    let name = vm_directory.file_name().unwrap_or_default();
    rustix::system::sethostname(name.as_encoded_bytes())
        .map_err(|errno| format!("setting the host name failed: {errno}"))?;
    write_private_file(&settings, path).map_err(|error| format!("writing {path} failed: {error}"))?;

    let mut signal_sockets =
        SignalSockets::new().map_err(|error| format!("listening for signals failed: {error}"))?;
    let agent = start_agent().map_err(|error| format!("starting the agent failed: {error}"))?;
    Report::Ready.send().map_err(|error| format!("reporting failed: {error}"))?;
    if !wait_until_recorded() {
        return Err("the CPI call that creates this VM has ended".to_owned());
    }
    detach_stdio().map_err(|error| format!("closing the pipes failed: {error}"))?;
    supervise(&mut signal_sockets, agent).map_err(|error| format!("supervising the agent failed: {error}"))
}

/// Returns the settings, or the user data with the address of the registry, and the path where the agent
/// expects them.
fn read_settings(vm_directory: &Path) -> io::Result<(Vec<u8>, &'static str)> {
    match fs::read(vm_directory.join(USER_DATA_FILE)) {
        Ok(data) => Ok((data, AGENT_USER_DATA)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::read(vm_directory.join(SETTINGS_FILE)).map(|settings| (settings, AGENT_SETTINGS))
        }
        Err(error) => Err(error),
    }
}

/// Writes settings or user data for the agent, readable by root only.
fn write_private_file(content: &[u8], path: &str) -> io::Result<()> {
    // A new file, because a process may have the old one open.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(content)
}

/// Starts the agent. `Ok` means that the kernel executed its program.
fn start_agent() -> io::Result<Pid> {
    let log = io::stderr().as_fd().try_clone_to_owned()?;
    let child = Command::new(AGENT_PROGRAM)
        .args(["agent", "--settings", AGENT_SETTINGS, "--base", BASE_DIRECTORY])
        .env_clear()
        .envs([("PATH", SEARCH_PATH), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("USER", "root")])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log)
        .spawn()?;
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("the agent has no pid"))
}

/// Waits until the CPI has recorded the VM and writes a byte. Returns false if the CPI has ended before.
fn wait_until_recorded() -> bool {
    let mut byte = [0];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut byte) {
            Ok(count) => return count == 1,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Closes the pipes to the CPI. Output goes to the log from now on.
fn detach_stdio() -> io::Result<()> {
    let null = fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(())
}

/// The signals SIGCHLD and SIGTERM as sockets to poll.
struct SignalSockets {
    child: UnixStream,
    term: UnixStream,
}

impl SignalSockets {
    fn new() -> io::Result<SignalSockets> {
        let listen = |signal| -> io::Result<UnixStream> {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            signal_hook::low_level::pipe::register(signal, write)?;
            Ok(read)
        };
        Ok(SignalSockets { child: listen(SIGCHLD)?, term: listen(SIGTERM)? })
    }

    /// Waits for the end of a child or a signal, for at most `timeout`. Returns true after SIGTERM.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.child, PollFlags::IN), PollFd::new(&self.term, PollFlags::IN)];
        let timeout = timeout.map(timespec);
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        // The sockets are read in any case, because a signal can interrupt `poll` before it reports them.
        empty_socket(&mut self.child);
        let is_terminated = empty_socket(&mut self.term);
        Ok(is_terminated)
    }
}

/// Empties a non-blocking socket. Returns true if it had data.
fn empty_socket(socket: &mut UnixStream) -> bool {
    let mut buffer = [0; 64];
    let mut has_data = false;
    while matches!(socket.read(&mut buffer), Ok(count) if count > 0) {
        has_data = true;
    }
    has_data
}

/// Reaps children and restarts the agent until SIGTERM, then shuts the VM down.
fn supervise(signal_sockets: &mut SignalSockets, agent: Pid) -> io::Result<()> {
    let mut agent = Some(agent);
    let mut agent_start = Instant::now();
    let mut pause = FIRST_RESTART_PAUSE;
    let mut restart_time = None;
    loop {
        let timeout =
            restart_time.map(|restart_time: Instant| restart_time.saturating_duration_since(Instant::now()));
        let is_terminated = signal_sockets.wait(timeout)?;
        while let ReapResult::Reaped(pid) = reap()? {
            if agent != Some(pid) {
                continue;
            }
            agent = None;
            let uptime = agent_start.elapsed();
            let restart_pause = if uptime >= STABLE_DURATION {
                pause = FIRST_RESTART_PAUSE;
                Duration::ZERO
            } else {
                next_restart_pause(&mut pause)
            };
            log(format_args!(
                "the agent ended after {} ms, restarting it in {} ms",
                uptime.as_millis(),
                restart_pause.as_millis()
            ));
            restart_time = Some(Instant::now() + restart_pause);
        }
        if is_terminated {
            return shut_down(signal_sockets, agent);
        }
        if restart_time.is_some_and(|restart_time| restart_time <= Instant::now()) {
            agent_start = Instant::now();
            match start_agent() {
                Ok(pid) => (agent, restart_time) = (Some(pid), None),
                Err(error) => {
                    log(format_args!("starting the agent failed: {error}"));
                    restart_time = Some(Instant::now() + next_restart_pause(&mut pause));
                }
            }
        }
    }
}

/// Returns the pause before this restart, and doubles the one before the next.
fn next_restart_pause(pause: &mut Duration) -> Duration {
    let next_pause = (*pause * 2).min(MAX_RESTART_PAUSE);
    std::mem::replace(pause, next_pause)
}

/// Ends the agent first, so that it restarts no jobs, and then all other processes. The kernel kills the
/// remaining ones with init.
fn shut_down(signal_sockets: &mut SignalSockets, mut agent: Option<Pid>) -> io::Result<()> {
    let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
    let remaining = || deadline.saturating_duration_since(Instant::now());
    if let Some(pid) = agent {
        ignore_ended_process(kill_process(pid, Signal::TERM))?;
    }
    while agent.is_some() && !remaining().is_zero() {
        signal_sockets.wait(Some(remaining()))?;
        while let ReapResult::Reaped(pid) = reap()? {
            agent = agent.filter(|agent| *agent != pid);
        }
    }
    // Group 1 makes this kill(-1): all processes of the namespace except init.
    ignore_ended_process(kill_process_group(Pid::INIT, Signal::TERM))?;
    while !remaining().is_zero() {
        match reap()? {
            ReapResult::Reaped(_) => {}
            ReapResult::NoneLeft => break,
            ReapResult::NoneYet => {
                signal_sockets.wait(Some(remaining()))?;
            }
        }
    }
    Ok(())
}

/// Ignores the error of a signal to a process that has ended.
fn ignore_ended_process(result: Result<(), Errno>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

enum ReapResult {
    /// The child with this pid.
    Reaped(Pid),
    /// Children exist, but none has ended.
    NoneYet,
    /// No child exists.
    NoneLeft,
}

/// Reaps one child that has ended, if any.
fn reap() -> io::Result<ReapResult> {
    match wait(WaitOptions::NOHANG) {
        Ok(Some((pid, _))) => Ok(ReapResult::Reaped(pid)),
        Ok(None) => Ok(ReapResult::NoneYet),
        Err(Errno::CHILD) => Ok(ReapResult::NoneLeft),
        Err(errno) => Err(errno.into()),
    }
}

fn log(line: std::fmt::Arguments) {
    // A full disk must not end the VM.
    let _ = writeln!(io::stderr(), "init: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_pauses_double_up_to_the_limit() {
        let mut pause = FIRST_RESTART_PAUSE;
        let pauses: Vec<Duration> = (0..8).map(|_| next_restart_pause(&mut pause)).collect();
        assert_eq!(pauses[..3], [100, 200, 400].map(Duration::from_millis));
        assert_eq!(pauses[6..], [MAX_RESTART_PAUSE; 2]);
    }
}
