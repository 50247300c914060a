//! The second stage: pid 1 of the VM.

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
use rustix::thread::{UnshareFlags, unshare_unsafe};
use signal_hook::consts::{SIGCHLD, SIGTERM};

use super::{Report, SETTINGS, USER_DATA, rootfs};
use crate::cpi::process::timespec;

/// Where the agent finds this program, its settings and its base directory inside the VM.
pub(super) const AGENT: &str = "/var/vcap/bosh/bin/bosh-agent";
const AGENT_SETTINGS: &str = "/var/vcap/bosh/settings.json";
const AGENT_USER_DATA: &str = "/var/vcap/bosh/user_data.json";
const BASE: &str = "/var/vcap";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An agent that lived this long is restarted at once.
const STABLE: Duration = Duration::from_secs(2);
/// The first and the longest pause before an agent that keeps dying is started again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long the VM's processes may take to end when it is switched off.
const SHUTDOWN: Duration = Duration::from_secs(2);

pub(super) fn run(vm_dir: &Path, executable: &Path) -> Result<(), String> {
    umask(Mode::from_raw_mode(0o022));
    let (settings, place) =
        settings(vm_dir).map_err(|error| format!("reading the settings failed: {error}"))?;
    separate_mounts().map_err(|errno| format!("making a mount namespace failed: {errno}"))?;
    for note in rootfs::enter(vm_dir, executable)? {
        Report::Note(note).send().map_err(|error| format!("reporting failed: {error}"))?;
    }
    let name = vm_dir.file_name().unwrap_or_default();
    rustix::system::sethostname(name.as_encoded_bytes())
        .map_err(|errno| format!("setting the host name failed: {errno}"))?;
    install(&settings, place).map_err(|error| format!("writing {place} failed: {error}"))?;

    let mut events = Events::new().map_err(|error| format!("listening for signals failed: {error}"))?;
    let agent = start_agent().map_err(|error| format!("starting the agent failed: {error}"))?;
    Report::Ready.send().map_err(|error| format!("reporting failed: {error}"))?;
    if !is_released() {
        return Err("the call that was making this VM has ended".to_owned());
    }
    detach_stdio().map_err(|error| format!("closing the pipes failed: {error}"))?;
    supervise(&mut events, agent).map_err(|error| format!("supervising the agent failed: {error}"))
}

/// Leaves the mount namespace that the first stage made and is still in: it reads `/proc` there to identify this
/// process, and must not find the VM's root under its feet.
fn separate_mounts() -> Result<(), Errno> {
    // SAFETY: no file table is unshared, which is what could invalidate descriptors.
    #[expect(unsafe_code, reason = "the safe form is deprecated; this flag is harmless")]
    unsafe {
        unshare_unsafe(UnshareFlags::NEWNS)
    }
}

/// The settings, or the user data that say where they are, and where the agent looks for the one or the other.
fn settings(vm_dir: &Path) -> io::Result<(Vec<u8>, &'static str)> {
    match fs::read(vm_dir.join(USER_DATA)) {
        Ok(data) => Ok((data, AGENT_USER_DATA)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::read(vm_dir.join(SETTINGS)).map(|settings| (settings, AGENT_SETTINGS))
        }
        Err(error) => Err(error),
    }
}

/// Puts settings or user data where the agent reads them, readable by root only.
fn install(content: &[u8], place: &str) -> io::Result<()> {
    // The agent may hold the old file open: a new one takes its place.
    match fs::remove_file(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(place)?.write_all(content)
}

/// Starts the agent; an `Ok` means that it was exec'ed.
fn start_agent() -> io::Result<Pid> {
    let log = io::stderr().as_fd().try_clone_to_owned()?;
    let child = Command::new(AGENT)
        .args(["agent", "--settings", AGENT_SETTINGS, "--base", BASE])
        .env_clear()
        .envs([("PATH", PATH), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("USER", "root")])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log)
        .spawn()?;
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("the agent has no pid"))
}

/// Waits for the word that the VM is recorded; false when its maker is gone.
fn is_released() -> bool {
    let mut byte = [0];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut byte) {
            Ok(count) => return count == 1,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// The maker's pipes end here; what is said from now on goes to the log.
fn detach_stdio() -> io::Result<()> {
    let null = fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(())
}

/// Signals as readable sockets.
struct Events {
    child: UnixStream,
    term: UnixStream,
}

impl Events {
    fn new() -> io::Result<Events> {
        let listen = |signal| -> io::Result<UnixStream> {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            signal_hook::low_level::pipe::register(signal, write)?;
            Ok(read)
        };
        Ok(Events { child: listen(SIGCHLD)?, term: listen(SIGTERM)? })
    }

    /// Waits for a child's end or a signal, at most `limit`; true when the VM is to end.
    fn wait(&mut self, limit: Option<Duration>) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.child, PollFlags::IN), PollFd::new(&self.term, PollFlags::IN)];
        let limit = limit.map(timespec);
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        // What was read decides, not what poll said: a signal interrupts poll before it looks.
        drain(&mut self.child);
        let term = drain(&mut self.term);
        Ok(term)
    }
}

/// Empties a socket that does not block; true when something was in it.
fn drain(socket: &mut UnixStream) -> bool {
    let mut buffer = [0; 64];
    let mut any = false;
    while matches!(socket.read(&mut buffer), Ok(count) if count > 0) {
        any = true;
    }
    any
}

/// Reaps whatever ends, restarts the agent, and ends with the VM.
fn supervise(events: &mut Events, agent: Pid) -> io::Result<()> {
    let mut agent = Some(agent);
    let mut started = Instant::now();
    let mut pause = PAUSE.0;
    let mut due = None;
    loop {
        let limit = due.map(|due: Instant| due.saturating_duration_since(Instant::now()));
        let term = events.wait(limit)?;
        while let Reaped::One(pid) = reap()? {
            if agent != Some(pid) {
                continue;
            }
            agent = None;
            let lived = started.elapsed();
            pause = if lived >= STABLE { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
            let wait = if lived >= STABLE { Duration::ZERO } else { pause };
            say(format_args!(
                "the agent ended after {} ms and is started again in {} ms",
                lived.as_millis(),
                wait.as_millis()
            ));
            due = Some(Instant::now() + wait);
        }
        if term {
            return shut_down(events, agent);
        }
        if due.is_some_and(|due| due <= Instant::now()) {
            started = Instant::now();
            match start_agent() {
                Ok(pid) => (agent, due) = (Some(pid), None),
                Err(error) => {
                    say(format_args!("starting the agent failed: {error}"));
                    pause = (pause * 2).min(PAUSE.1);
                    due = Some(Instant::now() + pause);
                }
            }
        }
    }
}

/// The agent first, so that it starts nothing again, then everybody; the kernel ends the rest with init.
fn shut_down(events: &mut Events, mut agent: Option<Pid>) -> io::Result<()> {
    let deadline = Instant::now() + SHUTDOWN;
    let left = || deadline.saturating_duration_since(Instant::now());
    if let Some(pid) = agent {
        signal(kill_process(pid, Signal::TERM))?;
    }
    while agent.is_some() && !left().is_zero() {
        events.wait(Some(left()))?;
        while let Reaped::One(pid) = reap()? {
            agent = agent.filter(|agent| *agent != pid);
        }
    }
    // Group 1 makes this kill(-1): everybody in the namespace but init.
    signal(kill_process_group(Pid::INIT, Signal::TERM))?;
    while !left().is_zero() {
        match reap()? {
            Reaped::One(_) => {}
            Reaped::NoneLeft => break,
            Reaped::NoneYet => {
                events.wait(Some(left()))?;
            }
        }
    }
    Ok(())
}

/// A process that is gone needs no signal.
fn signal(sent: Result<(), Errno>) -> io::Result<()> {
    match sent {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// What became of init's children.
enum Reaped {
    One(Pid),
    NoneYet,
    NoneLeft,
}

/// Takes note of one child that has ended, if there is one.
fn reap() -> io::Result<Reaped> {
    match wait(WaitOptions::NOHANG) {
        Ok(Some((pid, _))) => Ok(Reaped::One(pid)),
        Ok(None) => Ok(Reaped::NoneYet),
        Err(Errno::CHILD) => Ok(Reaped::NoneLeft),
        Err(errno) => Err(errno.into()),
    }
}

fn say(line: std::fmt::Arguments) {
    // A full disk is no reason to end the VM.
    let _ = writeln!(io::stderr(), "init: {line}");
}
