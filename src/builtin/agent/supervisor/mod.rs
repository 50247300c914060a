//! The job supervisor, which does the work of monit. It starts, restarts and stops the processes in the monit
//! files of jobs, and reports their states.
//!
//! It finds a process only through its pid file, so jobs keep running when the agent is restarted. The
//! directory `monit/` holds the state that survives the agent: the monit files of the current jobs (`job/`),
//! and the flags `stopped` (all jobs were stopped) and `unmonitored` (jobs are not restarted, because they
//! were drained).

mod parse;
mod proc;
mod service;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use serde_json::{Value, json};

use self::proc::SupervisedProcess;
use self::service::{Phase, Service};
use super::directories::{self, Directories};
use super::process::TaskControl;
use base::error::ResultExt;
use base::{Error, Result};

/// The pause between two checks of all processes while a change is expected.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// The pause between two checks of all processes otherwise.
const IDLE_PAUSE: Duration = Duration::from_millis(500);
/// The time from SIGTERM to SIGKILL for a process without a stop program.
const TERM_TIMEOUT: Duration = Duration::from_secs(10);

/// All supervised processes of the VM.
#[derive(Clone)]
pub(super) struct Supervisor {
    directory: PathBuf,
    shared_supervisor: Arc<SharedSupervisor>,
}

/// The part of the supervisor that its thread uses as well.
struct SharedSupervisor {
    state: Mutex<SupervisorState>,
    change: Condvar,
}

/// All services, and the state of the `stop` action.
#[derive(Default)]
struct SupervisorState {
    services: Vec<Service>,
    /// True after the `stop` action has stopped all services.
    is_stopped: bool,
    /// True while the `stop` action runs. `start` must then wait.
    is_stopping: bool,
}

impl Supervisor {
    /// Loads the state of an earlier agent process and starts the supervisor's thread. If `resumes` is true,
    /// the supervisor starts the processes that the earlier one supervised. Otherwise it starts none before
    /// [`Supervisor::start`].
    pub(super) fn load(directories: &Directories, resumes: bool) -> Result<Supervisor> {
        let supervisor = Supervisor {
            directory: directories.monit(),
            shared_supervisor: Arc::new(SharedSupervisor { state: Mutex::default(), change: Condvar::new() }),
        };
        let is_monitored = !supervisor.directory.join("unmonitored").exists();
        let mut state = supervisor.lock();
        state.is_stopped = supervisor.directory.join("stopped").exists();
        match supervisor.load_services() {
            Ok(services) => state.services = services,
            Err(error) => tracing::error!(error = %super::error_text(&error), "resuming the jobs failed"),
        }
        let is_active = resumes && is_monitored && !state.is_stopped;
        for service in &mut state.services {
            service.is_monitored = is_active;
        }
        drop(state);
        let watcher = supervisor.clone();
        std::thread::Builder::new()
            .name("supervisor".into())
            .spawn(move || watcher.watch())
            .map_err(|error| Error::io("starting the job supervisor", error))?;
        Ok(supervisor)
    }

    /// Replaces the monit files. `files` are (label, path) in the order of the jobs.
    pub(super) fn configure(&self, files: &[(String, PathBuf)]) -> Result<()> {
        let jobs = self.directory.join("job");
        directories::remove_tree(&jobs)?;
        directories::make_directory(&jobs, 0o700)?;
        let count = files.len();
        for (index, (label, path)) in files.iter().enumerate() {
            let text =
                fs::read(path).map_err(|error| Error::io(format!("reading '{}'", path.display()), error))?;
            // The last job gets the lowest number, as in the bosh-agent.
            let name = format!("{:04}_{label}.monitrc", count - 1 - index);
            directories::write_atomically(&jobs.join(name), &text, 0o600)?;
        }
        let mut services = self.load_services()?;
        let mut state = self.lock();
        for service in &mut services {
            if let Some(old) = state.services.iter_mut().find(|old| old.spec.name == service.spec.name) {
                service.take_over(old);
            }
        }
        state.services = services;
        Ok(())
    }

    /// Removes all jobs. Their processes keep running.
    pub(super) fn remove_all_jobs(&self) -> Result<()> {
        directories::remove_tree(&self.directory.join("job"))?;
        self.lock().services.clear();
        Ok(())
    }

    /// Starts all services, and restarts them from now on.
    pub(super) fn start(&self) -> Result<()> {
        let mut state = self.lock();
        if state.is_stopping {
            return Err(Error::failure("the services are being stopped: wait for the stop to end"));
        }
        for flag in ["stopped", "unmonitored"] {
            self.set_flag(flag, false)?;
        }
        state.is_stopped = false;
        for service in &mut state.services {
            service.monitor();
        }
        state.tick();
        drop(state);
        self.shared_supervisor.change.notify_all();
        Ok(())
    }

    /// Stops restarting services. Their processes keep running.
    pub(super) fn unmonitor(&self) -> Result<()> {
        let mut state = self.lock();
        self.set_flag("unmonitored", true)?;
        for service in &mut state.services {
            service.is_monitored = false;
        }
        Ok(())
    }

    /// Stops all services, dependents first, and waits until their processes have ended.
    pub(super) fn stop(&self, task: &TaskControl) -> Result<()> {
        self.unmonitor()?;
        let levels = {
            let mut state = self.lock();
            state.is_stopping = true;
            state.levels()
        };
        let outcome = levels.iter().rev().try_for_each(|level| self.stop_level(level, task));
        let mut state = self.lock();
        state.is_stopping = false;
        outcome?;
        self.set_flag("stopped", true)?;
        state.is_stopped = true;
        for service in &mut state.services {
            service.phase = Phase::Down;
        }
        Ok(())
    }

    /// Checks all services and returns the state of the instance: `running`, `starting`, `failing` or
    /// `stopped`.
    pub(super) fn job_state(&self) -> &'static str {
        let mut state = self.lock();
        state.tick();
        if state.is_stopped {
            return "stopped";
        }
        let statuses: Vec<_> = state.services.iter().map(Service::status).collect();
        if statuses.contains(&"starting") {
            "starting"
        } else if statuses.iter().any(|status| *status != "running") {
            "failing"
        } else {
            "running"
        }
    }

    /// Returns the name, state and usage of each process, in the form of `get_state`.
    pub(super) fn processes(&self) -> Vec<Value> {
        let state = self.lock();
        state
            .services
            .iter()
            .map(|service| {
                let mut entry = json!({"name": service.spec.name, "state": service.status()});
                if let Phase::Up { process, .. } = service.phase {
                    let seconds = process.uptime().as_secs();
                    entry["uptime"] = json!({"secs": seconds});
                    if let Some((kb, ticks)) = proc::read_usage(process.pid) {
                        entry["mem"] = json!({"kb": kb, "percent": super::vitals::percent_of_memory(kb)});
                        // This is the average since the start of the process. A second has 100 clock ticks,
                        // so the unit is percent.
                        #[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
                        let total = ticks as f64 / (seconds.max(1) as f64);
                        entry["cpu"] = json!({"total": total});
                    }
                }
                entry
            })
            .collect()
    }

    fn load_services(&self) -> Result<Vec<Service>> {
        let mut files: Vec<_> =
            super::packages::list(&self.directory.join("job")).iter().map(fs::DirEntry::path).collect();
        files.sort();
        let mut services: Vec<Service> = Vec::new();
        for path in files {
            let text =
                fs::read(&path).map_err(|error| Error::io(format!("reading '{}'", path.display()), error))?;
            let source = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for spec in parse::parse(&String::from_utf8_lossy(&text), &source)? {
                if services.iter().any(|service| service.spec.name == spec.name) {
                    return Err(Error::invalid(format!(
                        "{source}: another monit file has a process named '{}' already",
                        spec.name
                    )));
                }
                services.push(Service::new(spec));
            }
        }
        service::check_dependencies(&services).context(|| "Reading monit files".to_owned())?;
        Ok(services)
    }

    fn set_flag(&self, name: &str, is_set: bool) -> Result<()> {
        let path = self.directory.join(name);
        if is_set {
            return directories::write_atomically(&path, b"", 0o600);
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io(format!("removing '{}'", path.display()), error))
            }
            _ => Ok(()),
        }
    }

    fn watch(&self) {
        let mut state = self.lock();
        loop {
            let pause = if state.tick() { BUSY_PAUSE } else { IDLE_PAUSE };
            self.shared_supervisor.change.wait_for(&mut state, pause);
        }
    }

    fn stop_level(&self, names: &[String], task: &TaskControl) -> Result<()> {
        let failed_names: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                names.iter().map(|name| (name, scope.spawn(move || self.stop_one(name, task)))).collect();
            threads
                .into_iter()
                .filter_map(|(name, thread)| match thread.join() {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => {
                        let error = super::error_text(&error);
                        tracing::error!(name, %error, "stopping a service failed");
                        Some(name.clone())
                    }
                    Err(_) => Some(name.clone()),
                })
                .collect()
        });
        task.check()?;
        if failed_names.is_empty() {
            Ok(())
        } else {
            Err(Error::failure(format!("These services could not be stopped: {}", failed_names.join(", "))))
        }
    }

    fn stop_one(&self, name: &str, task: &TaskControl) -> Result<()> {
        let Some(process) = self.find_process_to_stop(name, task)? else { return Ok(()) };
        let stop = self
            .lock()
            .services
            .iter()
            .find(|service| service.spec.name == name)
            .and_then(|service| service.spec.stop.clone());
        let Some(program) = stop else { return terminate(process, task) };
        let exit = service::launch(&program, self)?;
        let deadline = Instant::now() + program.timeout;
        let mut pause = BUSY_PAUSE;
        while proc::find(process.pid) == Some(process) || exit.get().is_none() {
            if Instant::now() >= deadline {
                return Err(Error::failure(format!(
                    "process {} is still running {} s after its stop program was started",
                    process.pid,
                    program.timeout.as_secs()
                )));
            }
            task.sleep(pause)?;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Returns the process to stop, if any. Waits for a process that is starting, because it would otherwise
    /// run after the stop.
    fn find_process_to_stop(&self, name: &str, task: &TaskControl) -> Result<Option<SupervisedProcess>> {
        loop {
            let is_starting = {
                let mut state = self.lock();
                let Some(service) = state.services.iter_mut().find(|service| service.spec.name == name)
                else {
                    return Ok(None);
                };
                if let Some(process) = proc::find_in_pidfile(&service.spec.pidfile) {
                    return Ok(Some(process));
                }
                service.is_starting()
            };
            if !is_starting {
                return Ok(None);
            }
            task.sleep(BUSY_PAUSE)?;
        }
    }

    fn lock(&self) -> MutexGuard<'_, SupervisorState> {
        self.shared_supervisor.state.lock()
    }
}

impl SupervisorState {
    /// Checks all services and starts processes that are due. Returns true if a change is expected soon.
    fn tick(&mut self) -> bool {
        for index in 0..self.services.len() {
            let depends = &self.services[index].spec.depends;
            let is_ready = depends.iter().all(|name| {
                self.services
                    .iter()
                    .any(|other| other.spec.name == *name && matches!(other.phase, Phase::Up { .. }))
            });
            self.services[index].tick(is_ready);
        }
        self.services.iter().any(Service::expects_change)
    }

    /// Returns the names of services in levels. Each service depends only on services of earlier levels.
    fn levels(&self) -> Vec<Vec<String>> {
        let mut levels: Vec<Vec<String>> = Vec::new();
        let mut remaining_services: Vec<&Service> = self.services.iter().collect();
        while !remaining_services.is_empty() {
            let (next_level, later_services): (Vec<&Service>, Vec<&Service>) =
                remaining_services.iter().partition(|service| {
                    !service
                        .spec
                        .depends
                        .iter()
                        .any(|name| remaining_services.iter().any(|other| other.spec.name == *name))
                });
            if next_level.is_empty() {
                // `check_dependencies` rejects cycles. If there is one nevertheless, its services must still
                // be stopped.
                levels.push(later_services.iter().map(|service| service.spec.name.clone()).collect());
                break;
            }
            levels.push(next_level.iter().map(|service| service.spec.name.clone()).collect());
            remaining_services = later_services;
        }
        levels
    }
}

/// Wakes the supervisor's thread when a program has ended.
impl service::Wake for Supervisor {
    fn waker(&self) -> Box<dyn Fn() + Send> {
        let shared_supervisor = self.shared_supervisor.clone();
        Box::new(move || {
            shared_supervisor.change.notify_all();
        })
    }
}

/// Ends a process without a stop program, with SIGTERM and then SIGKILL.
fn terminate(process: SupervisedProcess, task: &TaskControl) -> Result<()> {
    let signal = |signal| {
        if let Some(pid) = rustix::process::Pid::from_raw(process.pid) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    };
    signal(rustix::process::Signal::TERM);
    let mut kill_time = Some(Instant::now() + TERM_TIMEOUT);
    let deadline = Instant::now() + TERM_TIMEOUT * 2;
    while proc::find(process.pid) == Some(process) {
        if kill_time.is_some_and(|time| time <= Instant::now()) {
            signal(rustix::process::Signal::KILL);
            kill_time = None;
        }
        if deadline <= Instant::now() {
            return Err(Error::failure(format!("process {} is still running after SIGKILL", process.pid)));
        }
        task.sleep(BUSY_PAUSE)?;
    }
    Ok(())
}

/// Returns a text that differs after each boot of the machine and each restart of the VM's init.
pub(super) fn read_boot_identity() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    // If the agent is the first process, it has no parent.
    let init = if parent > 0 { parent } else { i32::try_from(std::process::id()).unwrap_or_default() };
    let start_time = proc::find(init).map_or(0, |process| process.start_time);
    format!("{} {init} {start_time}", boot.trim())
}

/// Removes all files of the run directory after a boot of the VM: their pids are from an earlier boot.
pub(super) fn remove_run_files(run_directory: &Path) {
    for entry in walkdir::WalkDir::new(run_directory).follow_links(false).into_iter().flatten() {
        // `run_directory` itself may be a link. Links below it are removed, not followed.
        if !entry.file_type().is_dir() && entry.path() != run_directory {
            let _ = fs::remove_file(entry.path());
        }
    }
}
