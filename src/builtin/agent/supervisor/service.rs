//! One supervised process and its phases: down, launched, up, and waiting for a retry.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::super::directories;
use super::super::process::{ending, spawn};
use super::parse::{ProcessSpec, Program};
use super::proc::{self, SupervisedProcess};
use base::{Error, Result};

/// The PATH that monit gives to its programs.
const PROGRAM_PATH: &str = "/bin:/usr/bin:/sbin:/usr/sbin";
/// The uptime after which a process counts as running. It doubles with each failure.
const SETTLE_DURATION: Duration = Duration::from_millis(50);
/// The longest uptime after which a process counts as running.
const MAX_SETTLE_DURATION: Duration = Duration::from_secs(10);
/// The pause after the first failure that is not answered by an immediate restart. It doubles each time.
const FIRST_RESTART_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause between two restarts.
const MAX_RESTART_PAUSE: Duration = Duration::from_secs(30);
/// The time in which a daemon writes its pid file after its start program has succeeded.
const PID_FILE_TIMEOUT: Duration = Duration::from_secs(1);
/// The uptime after which the failures of a process are reset.
const HEALTHY_DURATION: Duration = Duration::from_secs(60);

/// One supervised process with its state.
pub(super) struct Service {
    /// The entry in the monit file.
    pub spec: ProcessSpec,
    /// True if the supervisor starts and restarts the process.
    pub is_monitored: bool,
    /// The current phase.
    pub phase: Phase,
    failure_count: u32,
}

/// The phases of a supervised process.
#[derive(Clone)]
pub(super) enum Phase {
    /// Not running. It is started if it is monitored.
    Down,
    /// The start program was started.
    Launched {
        /// The time of the start.
        launch_time: Instant,
        /// The exit status of the start program, after it has ended.
        exit: Arc<OnceLock<ExitStatus>>,
    },
    /// The process runs.
    Up {
        /// The process, by pid and start time.
        process: SupervisedProcess,
        /// The time when the supervisor first saw it.
        detection_time: Instant,
    },
    /// The process has failed and is restarted after a pause.
    Backoff { restart_time: Instant },
}

/// A supervisor that must be woken when a program has ended.
pub(super) trait Wake {
    /// Returns the function to call when the program has ended.
    fn waker(&self) -> Box<dyn Fn() + Send>;
}

/// The supervisor of a start program, which need not be woken: it does not wait for the end of the program,
/// and finds the process at its next check.
struct NoWake;

impl Wake for NoWake {
    fn waker(&self) -> Box<dyn Fn() + Send> {
        Box::new(|| ())
    }
}

impl Service {
    /// Creates a service that is down and not monitored.
    pub(super) fn new(spec: ProcessSpec) -> Self {
        Service { spec, is_monitored: false, phase: Phase::Down, failure_count: 0 }
    }

    /// Takes over the state of the service with the same name from the old monit files.
    pub(super) fn take_over(&mut self, old: &Service) {
        self.is_monitored = old.is_monitored;
        self.failure_count = old.failure_count;
        if self.spec.pidfile == old.spec.pidfile {
            self.phase = old.phase.clone();
        }
    }

    /// Starts monitoring and resets the failures, for the `start` action.
    pub(super) fn monitor(&mut self) {
        self.is_monitored = true;
        self.failure_count = 0;
        if matches!(self.phase, Phase::Backoff { .. }) {
            self.phase = Phase::Down;
        }
    }

    /// Checks the process, and starts or restarts it if necessary. `is_ready` is true if all its dependencies
    /// run.
    pub(super) fn tick(&mut self, is_ready: bool) {
        if !self.is_monitored {
            return;
        }
        let process_in_pidfile = proc::find_in_pidfile(&self.spec.pidfile);
        let phase = self.phase.clone();
        match (phase, process_in_pidfile) {
            (Phase::Up { process, detection_time }, Some(running_process)) if process == running_process => {
                if detection_time.elapsed() > HEALTHY_DURATION {
                    self.failure_count = 0;
                }
            }
            (_, Some(process)) => self.phase = Phase::Up { process, detection_time: Instant::now() },
            (Phase::Up { process, .. }, None) => {
                self.handle_failure(&format!("process {} ended", process.pid), is_ready);
            }
            (Phase::Launched { launch_time, exit }, None) => {
                let timeout = self.spec.start.as_ref().map_or(Duration::ZERO, |start| start.timeout);
                match exit.get() {
                    Some(status) if !status.success() => {
                        self.handle_failure(&format!("start program {}", ending(*status)), is_ready);
                    }
                    _ if launch_time.elapsed() > timeout => {
                        self.handle_failure(
                            "no process appeared within the start program's timeout",
                            is_ready,
                        );
                    }
                    _ => {}
                }
            }
            (Phase::Backoff { restart_time }, None) if restart_time > Instant::now() => {}
            (Phase::Down | Phase::Backoff { .. }, None) => self.launch(is_ready),
        }
    }

    /// Returns `running`, `starting`, `failing`, or `unknown` if the service is not monitored.
    pub(super) fn status(&self) -> &'static str {
        let is_settled = |detection_time: Instant| {
            detection_time.elapsed()
                >= SETTLE_DURATION.saturating_mul(1 << self.failure_count.min(16)).min(MAX_SETTLE_DURATION)
        };
        match &self.phase {
            _ if !self.is_monitored => "unknown",
            Phase::Up { detection_time, .. } if is_settled(*detection_time) => "running",
            Phase::Backoff { .. } => "failing",
            _ if self.failure_count == 0 => "starting",
            _ => "failing",
        }
    }

    /// Returns true if the start program may still bring up the process.
    pub(super) fn is_starting(&self) -> bool {
        match &self.phase {
            Phase::Launched { launch_time, exit } => {
                let timeout = self.spec.start.as_ref().map_or(Duration::ZERO, |start| start.timeout);
                // After the program has succeeded, its daemon may still have to write the pid file.
                match exit.get() {
                    None => launch_time.elapsed() < timeout,
                    Some(status) => status.success() && launch_time.elapsed() < PID_FILE_TIMEOUT.min(timeout),
                }
            }
            _ => false,
        }
    }

    /// Returns true if a change is expected soon.
    pub(super) fn expects_change(&self) -> bool {
        self.is_monitored
            && match &self.phase {
                Phase::Up { .. } => self.status() != "running",
                Phase::Backoff { .. } => false,
                Phase::Down | Phase::Launched { .. } => true,
            }
    }

    /// Records a failure, and restarts the process now or after a pause.
    fn handle_failure(&mut self, reason: &str, is_ready: bool) {
        tracing::warn!(name = self.spec.name, reason, "service failed");
        self.failure_count = self.failure_count.saturating_add(1);
        if self.failure_count == 1 {
            // The first restart has no pause, because most failures happen only once.
            self.phase = Phase::Down;
            self.launch(is_ready);
            return;
        }
        self.back_off();
    }

    /// Waits before the next restart.
    fn back_off(&mut self) {
        let doublings = self.failure_count.saturating_sub(2).min(16);
        let pause = FIRST_RESTART_PAUSE.saturating_mul(1 << doublings).min(MAX_RESTART_PAUSE);
        self.phase = Phase::Backoff { restart_time: Instant::now() + pause };
    }

    fn launch(&mut self, is_ready: bool) {
        if !is_ready {
            return;
        }
        let launch_result = match &self.spec.start {
            Some(program) => launch(program, &NoWake),
            None => Err(Error::invalid("its monit file has no start program")),
        };
        match launch_result {
            Ok(exit) => {
                tracing::info!(name = self.spec.name, "start program started");
                self.phase = Phase::Launched { launch_time: Instant::now(), exit };
            }
            Err(error) => {
                let error = super::super::error_text(&error);
                tracing::error!(name = self.spec.name, error, "running the start program failed");
                self.failure_count = self.failure_count.saturating_add(1);
                self.back_off();
            }
        }
    }
}

/// Starts a program with the environment of monit, in its own process group. Returns a cell for its exit
/// status, which is set when the program has ended.
pub(super) fn launch(program: &Program, supervisor: &dyn Wake) -> Result<Arc<OnceLock<ExitStatus>>> {
    let Some((name, arguments)) = program.command.split_first() else {
        return Err(Error::invalid("the command of the program is empty"));
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
        let (uid, gid) = directories::user_ids(user)
            .ok_or_else(|| Error::failure(format!("/etc/passwd has no user '{user}'")))?;
        command.uid(uid).gid(gid);
    }
    if let Some(group) = &program.group {
        let gid = directories::group_id(group)
            .ok_or_else(|| Error::failure(format!("/etc/group has no group '{group}'")))?;
        command.gid(gid);
    }
    let mut child = spawn(&mut command).map_err(|error| Error::io(format!("running '{name}'"), error))?;
    let exit = Arc::new(OnceLock::new());
    let (exit_cell, waker) = (exit.clone(), supervisor.waker());
    // A thread waits for the program, which would otherwise remain as a zombie.
    std::thread::Builder::new()
        .name("reaper".into())
        .stack_size(64 * 1024)
        .spawn(move || {
            if let Ok(status) = child.wait() {
                let _ = exit_cell.set(status);
            }
            waker();
        })
        .map_err(|error| Error::io(format!("starting a thread that waits for '{name}'"), error))?;
    Ok(exit)
}

/// Fails if a service depends on a service that does not exist, or on itself through others.
pub(super) fn check_dependencies(services: &[Service]) -> Result<()> {
    for service in services {
        let mut visited_names = vec![service.spec.name.as_str()];
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
            if !visited_names.contains(&name) {
                visited_names.push(name);
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

    fn service(directory: &std::path::Path, start: &str) -> Service {
        let script = directory.join("start");
        std::fs::write(&script, format!("#!/bin/sh\n{start}\n")).unwrap();
        directories::set_mode(&script, 0o755).unwrap();
        let text = format!(
            "check process x pidfile {0}/pid start program \"{0}/start\" timeout 2 seconds",
            directory.display()
        );
        let mut service = Service::new(parse::parse(&text, "t").unwrap().remove(0));
        service.monitor();
        service
    }

    fn tick_until(service: &mut Service, status: &str) -> Duration {
        let start = Instant::now();
        while service.status() != status {
            assert!(start.elapsed() < Duration::from_secs(10), "{} is not {status}", service.status());
            service.tick(true);
            std::thread::sleep(Duration::from_millis(5));
        }
        start.elapsed()
    }

    #[test]
    fn process_is_restarted_and_later_restarts_are_delayed() {
        let directory = tempfile::tempdir().unwrap();
        let mut service =
            service(directory.path(), &format!("sleep 60 & echo $! > {}/pid", directory.path().display()));
        assert_eq!(service.status(), "starting");
        tick_until(&mut service, "running");
        let kill = |service: &Service| {
            let Phase::Up { process, .. } = service.phase else { panic!("not up") };
            let pid = rustix::process::Pid::from_raw(process.pid).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            while proc::find(process.pid).is_some() {
                std::thread::yield_now();
            }
        };
        kill(&service);
        service.tick(true);
        assert_eq!(service.status(), "failing");
        let first = tick_until(&mut service, "running");
        kill(&service);
        let second = tick_until(&mut service, "failing") + tick_until(&mut service, "running");
        assert!(second > first && second > FIRST_RESTART_PAUSE, "{first:?} {second:?}");
        kill(&service);
    }

    #[test]
    fn service_waits_for_dependencies_and_may_fail_to_start() {
        let directory = tempfile::tempdir().unwrap();
        let mut failing_service = service(directory.path(), "exit 1");
        failing_service.tick(false);
        assert_eq!(failing_service.status(), "starting");
        assert!(matches!(failing_service.phase, Phase::Down));
        tick_until(&mut failing_service, "failing");
        let mut missing_program_service = service(directory.path(), "");
        std::fs::remove_file(directory.path().join("start")).unwrap();
        tick_until(&mut missing_program_service, "failing");
    }

    #[test]
    fn missing_and_cyclic_dependencies_are_rejected() {
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
