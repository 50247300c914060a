//! One supervised process and its life: down, launched, up, waiting to be tried again.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::super::dirs;
use super::super::process::{ending, spawn};
use super::parse::{Process, Program};
use super::proc::{self, ProcessId};
use base::{Error, Result};

/// The environment monit gives its programs.
const PROGRAM_PATH: &str = "/bin:/usr/bin:/sbin:/usr/sbin";
/// A process counts as running when it has lived this long; after each failure longer.
const SETTLE: Duration = Duration::from_millis(50);
const SETTLE_MOST: Duration = Duration::from_secs(10);
/// First wait before a process that died again is started again; doubles up to the most.
const BACKOFF: Duration = Duration::from_millis(250);
const BACKOFF_MOST: Duration = Duration::from_secs(30);
/// A process that has lived this long has overcome its failures.
const HEALTHY: Duration = Duration::from_secs(60);

/// One process with its state.
pub(super) struct Service {
    /// What the monit file says.
    pub spec: Process,
    /// Whether it is to be kept running.
    pub monitored: bool,
    /// Where in its life it is.
    pub phase: Phase,
    failures: u32,
}

/// Where in its life a process is.
#[derive(Clone)]
pub(super) enum Phase {
    /// Not running as far as known, to be started when monitored.
    Down,
    /// Its start program was started.
    Launched {
        /// When.
        at: Instant,
        /// How the start program ended, once it has.
        exit: Arc<OnceLock<ExitStatus>>,
    },
    /// It runs.
    Up {
        /// As which process.
        process: ProcessId,
        /// Since when it has been seen.
        since: Instant,
    },
    /// It failed, and is started again then.
    Backoff {
        /// When.
        until: Instant,
    },
}

/// Something that wants to know when a program ended.
pub(super) trait Wake {
    /// What to call then.
    fn wake(&self) -> Box<dyn Fn() + Send>;
}

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) -> Box<dyn Fn() + Send> {
        Box::new(|| ())
    }
}

impl Service {
    /// A process that is not monitored yet.
    pub(super) fn new(spec: Process) -> Self {
        Service { spec, monitored: false, phase: Phase::Down, failures: 0 }
    }

    /// Goes on where the service of the same name under the old files was.
    pub(super) fn take_over(&mut self, old: &Service) {
        self.monitored = old.monitored;
        self.failures = old.failures;
        if self.spec.pidfile == old.spec.pidfile {
            self.phase = old.phase.clone();
        }
    }

    /// Someone asked that it run: earlier failures are forgiven.
    pub(super) fn monitor(&mut self) {
        self.monitored = true;
        self.failures = 0;
        if matches!(self.phase, Phase::Backoff { .. }) {
            self.phase = Phase::Down;
        }
    }

    /// Looks at the process and does what is due. `ready`: what it depends on runs.
    pub(super) fn tick(&mut self, ready: bool) {
        if !self.monitored {
            return;
        }
        let alive = proc::in_pidfile(&self.spec.pidfile);
        let phase = self.phase.clone();
        match (phase, alive) {
            (Phase::Up { process, since }, Some(now)) if process == now => {
                if since.elapsed() > HEALTHY {
                    self.failures = 0;
                }
            }
            (_, Some(process)) => self.phase = Phase::Up { process, since: Instant::now() },
            (Phase::Up { process, .. }, None) => {
                self.fail(&format!("process {} died", process.pid), ready);
            }
            (Phase::Launched { at, exit }, None) => {
                let timeout = self.spec.start.as_ref().map_or(Duration::ZERO, |start| start.timeout);
                match exit.get() {
                    Some(status) if !status.success() => {
                        self.fail(&format!("start program {}", ending(*status)), ready);
                    }
                    _ if at.elapsed() > timeout => {
                        self.fail("no process appeared within the start program's timeout", ready);
                    }
                    _ => {}
                }
            }
            (Phase::Backoff { until }, None) if until > Instant::now() => {}
            (Phase::Down | Phase::Backoff { .. }, None) => self.launch(ready),
        }
    }

    /// `running`, `starting`, `failing`, or `unknown` when not monitored.
    pub(super) fn status(&self) -> &'static str {
        let settled = |since: Instant| {
            since.elapsed() >= SETTLE.saturating_mul(1 << self.failures.min(16)).min(SETTLE_MOST)
        };
        match &self.phase {
            _ if !self.monitored => "unknown",
            Phase::Up { since, .. } if settled(*since) => "running",
            Phase::Backoff { .. } => "failing",
            _ if self.failures == 0 => "starting",
            _ => "failing",
        }
    }

    /// Whether its start program was started and may still bring up the process.
    pub(super) fn is_starting(&self) -> bool {
        match &self.phase {
            Phase::Launched { at, exit } => {
                let timeout = self.spec.start.as_ref().map_or(Duration::ZERO, |start| start.timeout);
                // A program that has ended well may leave a daemon that is still writing its pid file.
                match exit.get() {
                    None => at.elapsed() < timeout,
                    Some(status) => status.success() && at.elapsed() < Duration::from_secs(1).min(timeout),
                }
            }
            _ => false,
        }
    }

    /// Whether something is about to happen to it.
    pub(super) fn is_restless(&self) -> bool {
        self.monitored
            && match &self.phase {
                Phase::Up { .. } => self.status() != "running",
                Phase::Backoff { .. } => false,
                Phase::Down | Phase::Launched { .. } => true,
            }
    }

    fn fail(&mut self, why: &str, ready: bool) {
        tracing::warn!(name = self.spec.name, why, "failed");
        self.failures = self.failures.saturating_add(1);
        if self.failures == 1 {
            // The first time at once: most deaths are single ones.
            self.phase = Phase::Down;
            self.launch(ready);
            return;
        }
        let wait = BACKOFF.saturating_mul(1 << (self.failures - 2).min(16)).min(BACKOFF_MOST);
        self.phase = Phase::Backoff { until: Instant::now() + wait };
    }

    fn launch(&mut self, ready: bool) {
        if !ready {
            return;
        }
        let launched = match &self.spec.start {
            Some(program) => launch(program, &NoWake),
            None => Err(Error::invalid("it has no start program")),
        };
        match launched {
            Ok(exit) => {
                tracing::info!(name = self.spec.name, "started");
                self.phase = Phase::Launched { at: Instant::now(), exit };
            }
            Err(error) => {
                tracing::error!(name = self.spec.name, error = %super::super::message(&error), "cannot be started");
                self.failures = self.failures.saturating_add(1);
                let wait = BACKOFF.saturating_mul(1 << self.failures.min(16)).min(BACKOFF_MOST);
                self.phase = Phase::Backoff { until: Instant::now() + wait };
            }
        }
    }
}

/// Starts a program with monit's bare environment, in a process group of its own.
pub(super) fn launch(program: &Program, wake: &dyn Wake) -> Result<Arc<OnceLock<ExitStatus>>> {
    let Some((name, arguments)) = program.command.split_first() else {
        return Err(Error::invalid("the program is empty"));
    };
    let mut command = Command::new(name);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", PROGRAM_PATH)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    if let Some(user) = &program.user {
        let (uid, gid) =
            dirs::user_ids(user).ok_or_else(|| Error::environment(format!("there is no user '{user}'")))?;
        command.uid(uid).gid(gid);
    }
    if let Some(group) = &program.group {
        let gid = dirs::group_id(group)
            .ok_or_else(|| Error::environment(format!("there is no group '{group}'")))?;
        command.gid(gid);
    }
    let mut child = spawn(&mut command).map_err(|e| Error::io(format!("running '{name}'"), e))?;
    let exit = Arc::new(OnceLock::new());
    let (ended, wake) = (exit.clone(), wake.wake());
    // Somebody must wait for it, or it stays as a zombie that looks alive.
    std::thread::Builder::new()
        .name("reaper".into())
        .stack_size(64 * 1024)
        .spawn(move || {
            if let Ok(status) = child.wait() {
                let _ = ended.set(status);
            }
            wake();
        })
        .map_err(|e| Error::io("waiting for a program", e))?;
    Ok(exit)
}

/// Refuses dependencies on nothing and in circles.
pub(super) fn check_dependencies(services: &[Service]) -> Result<()> {
    for service in services {
        let mut seen = vec![service.spec.name.as_str()];
        let mut next: Vec<&str> = service.spec.depends.iter().map(String::as_str).collect();
        while let Some(name) = next.pop() {
            if name == service.spec.name {
                return Err(Error::invalid(format!("process '{name}' depends on itself")));
            }
            let Some(other) = services.iter().find(|other| other.spec.name == name) else {
                return Err(Error::invalid(format!(
                    "process '{}' depends on '{name}', which does not exist",
                    service.spec.name
                )));
            };
            if !seen.contains(&name) {
                seen.push(name);
                next.extend(other.spec.depends.iter().map(String::as_str));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn service(dir: &std::path::Path, start: &str) -> Service {
        let script = dir.join("start");
        std::fs::write(&script, format!("#!/bin/sh\n{start}\n")).unwrap();
        dirs::set_mode(&script, 0o755).unwrap();
        let text = format!(
            "check process x pidfile {0}/pid start program \"{0}/start\" timeout 2 seconds",
            dir.display()
        );
        let mut service = Service::new(parse::parse(&text, "t").unwrap().remove(0));
        service.monitor();
        service
    }

    fn until(service: &mut Service, status: &str) -> Duration {
        let start = Instant::now();
        while service.status() != status {
            assert!(start.elapsed() < Duration::from_secs(10), "{} is not {status}", service.status());
            service.tick(true);
            std::thread::sleep(Duration::from_millis(5));
        }
        start.elapsed()
    }

    #[test]
    fn a_process_comes_up_is_restarted_and_slows_down_when_it_keeps_dying() {
        let dir = tempfile::tempdir().unwrap();
        let mut service = service(dir.path(), &format!("sleep 60 & echo $! > {}/pid", dir.path().display()));
        assert_eq!(service.status(), "starting");
        until(&mut service, "running");
        let kill = |service: &Service| {
            let Phase::Up { process, .. } = service.phase else { panic!("not up") };
            let pid = rustix::process::Pid::from_raw(process.pid).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            while proc::living(process.pid).is_some() {
                std::thread::yield_now();
            }
        };
        kill(&service);
        service.tick(true);
        assert_eq!(service.status(), "failing");
        let first = until(&mut service, "running");
        kill(&service);
        let second = until(&mut service, "failing") + until(&mut service, "running");
        assert!(second > first && second > BACKOFF, "{first:?} {second:?}");
        kill(&service);
    }

    #[test]
    fn failures_to_start_are_failing_and_dependencies_are_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let mut broken = service(dir.path(), "exit 1");
        broken.tick(false);
        assert_eq!(broken.status(), "starting");
        assert!(matches!(broken.phase, Phase::Down));
        until(&mut broken, "failing");
        let mut missing = service(dir.path(), "");
        std::fs::remove_file(dir.path().join("start")).unwrap();
        until(&mut missing, "failing");
    }

    #[test]
    fn dependencies_on_nothing_and_in_circles_are_refused() {
        let check = |text: &str| {
            let services: Vec<_> = parse::parse(text, "t").unwrap().into_iter().map(Service::new).collect();
            check_dependencies(&services).map_err(|error| error.to_string())
        };
        check("check process a pidfile /a depends on b check process b pidfile /b").unwrap();
        assert!(check("check process a pidfile /a depends on x").unwrap_err().contains("does not exist"));
        let circle = "check process a pidfile /a depends on b check process b pidfile /b depends on a";
        assert!(check(circle).unwrap_err().contains("itself"));
        let outside = "check process c pidfile /c depends on a check process a pidfile /a depends on b \
                       check process b pidfile /b depends on a";
        assert!(check(outside).is_err());
    }
}
