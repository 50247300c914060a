//! The job supervisor: what monit is to the real agent. It starts the processes the jobs' monit files name,
//! restarts those that die, stops them, and says truthfully how they are.
//!
//! It knows a process by its pid file alone, so jobs outlive an agent that is restarted. What must survive the
//! agent is under `monit/`: the files of the jobs in force (`job/`), whether all were stopped (`stopped`), and
//! whether they are left alone after a drain (`unmonitored`).

mod parse;
mod proc;
mod service;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::proc::ProcessId;
use self::service::{Phase, Service};
use super::dirs::{self, Dirs};
use super::process::Cancel;
use base::error::ResultExt;
use base::{Error, Result};

pub(super) use self::proc::living;

/// How often the supervisor looks while something is about to happen, and otherwise.
const BUSY: Duration = Duration::from_millis(10);
const IDLE: Duration = Duration::from_millis(500);
/// Between SIGTERM and SIGKILL for a process without a stop program.
const TERM_GRACE: Duration = Duration::from_secs(10);

/// All supervised processes of the VM.
#[derive(Clone)]
pub(super) struct Supervisor {
    dir: PathBuf,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    services: Vec<Service>,
    /// All were stopped on purpose.
    stopped: bool,
    /// A stop is under way: its order must not be disturbed by a start.
    stopping: bool,
}

impl Supervisor {
    /// Takes up what an earlier agent process left, and begins to watch; with `resume`, also to start.
    pub(super) fn start_up(dirs: &Dirs, resume: bool) -> Result<Supervisor> {
        let supervisor = Supervisor {
            dir: dirs.monit(),
            shared: Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() }),
        };
        let monitored = !supervisor.dir.join("unmonitored").exists();
        let mut state = supervisor.lock();
        state.stopped = supervisor.dir.join("stopped").exists();
        match supervisor.load() {
            Ok(services) => state.services = services,
            Err(error) => tracing::error!(error = %super::message(&error), "the jobs cannot be resumed"),
        }
        let active = resume && monitored && !state.stopped;
        for service in &mut state.services {
            service.monitored = active;
        }
        drop(state);
        let watcher = supervisor.clone();
        std::thread::Builder::new()
            .name("supervisor".into())
            .spawn(move || watcher.watch())
            .map_err(|e| Error::io("starting the job supervisor", e))?;
        Ok(supervisor)
    }

    /// Puts these monit files in force: (label, path), in the order of the jobs.
    pub(super) fn configure(&self, files: &[(String, PathBuf)]) -> Result<()> {
        let jobs = self.dir.join("job");
        dirs::remove_tree(&jobs)?;
        dirs::make_dir(&jobs, 0o700)?;
        let count = files.len();
        for (index, (label, path)) in files.iter().enumerate() {
            let text = fs::read(path).map_err(|e| Error::io(format!("reading '{}'", path.display()), e))?;
            // The last job gets the lowest number, as upstream.
            let name = format!("{:04}_{label}.monitrc", count - 1 - index);
            dirs::write_atomically(&jobs.join(name), &text, 0o600)?;
        }
        let mut fresh = self.load()?;
        let mut state = self.lock();
        for service in &mut fresh {
            if let Some(old) = state.services.iter_mut().find(|old| old.spec.name == service.spec.name) {
                service.take_over(old);
            }
        }
        state.services = fresh;
        Ok(())
    }

    /// Forgets all jobs; what runs keeps running.
    pub(super) fn remove_all_jobs(&self) -> Result<()> {
        dirs::remove_tree(&self.dir.join("job"))?;
        self.lock().services.clear();
        Ok(())
    }

    /// Starts everything and keeps it running.
    pub(super) fn start(&self) -> Result<()> {
        let mut state = self.lock();
        if state.stopping {
            return Err(Error::environment("the services are just being stopped"));
        }
        for flag in ["stopped", "unmonitored"] {
            self.set_flag(flag, false)?;
        }
        state.stopped = false;
        for service in &mut state.services {
            service.monitor();
        }
        state.tick();
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Leaves everything as it runs, without restarting what dies.
    pub(super) fn unmonitor(&self) -> Result<()> {
        let mut state = self.lock();
        self.set_flag("unmonitored", true)?;
        for service in &mut state.services {
            service.monitored = false;
        }
        Ok(())
    }

    /// Stops everything, dependents first, and waits until it is gone.
    pub(super) fn stop(&self, cancel: &Cancel) -> Result<()> {
        self.unmonitor()?;
        let levels = {
            let mut state = self.lock();
            state.stopping = true;
            state.levels()
        };
        let outcome = levels.iter().rev().try_for_each(|level| self.stop_level(level, cancel));
        let mut state = self.lock();
        state.stopping = false;
        outcome?;
        self.set_flag("stopped", true)?;
        state.stopped = true;
        for service in &mut state.services {
            service.phase = Phase::Down;
        }
        Ok(())
    }

    /// `running`, `starting`, `failing` or `stopped`: the state of the whole instance, looked at now.
    pub(super) fn job_state(&self) -> &'static str {
        let mut state = self.lock();
        state.tick();
        if state.stopped {
            return "stopped";
        }
        let all: Vec<_> = state.services.iter().map(Service::status).collect();
        if all.contains(&"starting") {
            "starting"
        } else if all.iter().any(|status| *status != "running") {
            "failing"
        } else {
            "running"
        }
    }

    /// Each process as `get_state` shows it.
    pub(super) fn processes(&self) -> Vec<Value> {
        let state = self.lock();
        state
            .services
            .iter()
            .map(|service| {
                let mut shown = json!({"name": service.spec.name, "state": service.status()});
                if let Phase::Up { process, since } = service.phase {
                    let seconds = since.elapsed().as_secs();
                    shown["uptime"] = json!({"secs": seconds});
                    if let Some((kb, ticks)) = proc::usage(process.pid) {
                        shown["mem"] = json!({"kb": kb, "percent": super::vitals::percent_of_memory(kb)});
                        // A hundred clock ticks make a second; an average since the process started.
                        #[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
                        let total = ticks as f64 / (seconds.max(1) as f64);
                        shown["cpu"] = json!({"total": total});
                    }
                }
                shown
            })
            .collect()
    }

    fn load(&self) -> Result<Vec<Service>> {
        let mut files: Vec<_> =
            super::packages::list(&self.dir.join("job")).iter().map(fs::DirEntry::path).collect();
        files.sort();
        let mut services: Vec<Service> = Vec::new();
        for path in files {
            let text = fs::read(&path).map_err(|e| Error::io(format!("reading '{}'", path.display()), e))?;
            let source = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for spec in parse::parse(&String::from_utf8_lossy(&text), &source)? {
                if services.iter().any(|service| service.spec.name == spec.name) {
                    return Err(Error::invalid(format!(
                        "{source}: a process named '{}' exists already",
                        spec.name
                    )));
                }
                services.push(Service::new(spec));
            }
        }
        service::check_dependencies(&services).context(|| "Reading monit files".to_owned())?;
        Ok(services)
    }

    fn set_flag(&self, name: &str, on: bool) -> Result<()> {
        let path = self.dir.join(name);
        if on {
            return dirs::write_atomically(&path, b"", 0o600);
        }
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io(format!("removing '{}'", path.display()), e))
            }
            _ => Ok(()),
        }
    }

    fn watch(&self) {
        let mut state = self.lock();
        loop {
            let wait = if state.tick() { BUSY } else { IDLE };
            state = self.shared.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn stop_level(&self, names: &[String], cancel: &Cancel) -> Result<()> {
        let failed: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                names.iter().map(|name| (name, scope.spawn(move || self.stop_one(name, cancel)))).collect();
            threads
                .into_iter()
                .filter_map(|(name, thread)| match thread.join() {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => {
                        tracing::error!(name, error = %super::message(&error), "does not stop");
                        Some(name.clone())
                    }
                    Err(_) => Some(name.clone()),
                })
                .collect()
        });
        cancel.check()?;
        if failed.is_empty() {
            Ok(())
        } else {
            Err(Error::environment(format!("Stopping services '[{}]' errored", failed.join(" "))))
        }
    }

    fn stop_one(&self, name: &str, cancel: &Cancel) -> Result<()> {
        let Some(process) = self.await_start(name, cancel)? else { return Ok(()) };
        let stop =
            self.lock().services.iter().find(|s| s.spec.name == name).and_then(|s| s.spec.stop.clone());
        let Some(program) = stop else { return terminate(process, cancel) };
        let exit = service::launch(&program, self)?;
        let deadline = Instant::now() + program.timeout;
        let mut wait = BUSY;
        while living(process.pid) == Some(process) || exit.get().is_none() {
            if Instant::now() >= deadline {
                return Err(Error::environment(format!(
                    "process {} is still there {} s after its stop program was started",
                    process.pid,
                    program.timeout.as_secs()
                )));
            }
            cancel.sleep(wait)?;
            wait = (wait * 2).min(Duration::from_millis(50));
        }
        Ok(())
    }

    /// The process to stop. One that is only just starting is waited for, lest it come up after the stop.
    fn await_start(&self, name: &str, cancel: &Cancel) -> Result<Option<ProcessId>> {
        loop {
            let starting = {
                let mut state = self.lock();
                let Some(service) = state.services.iter_mut().find(|s| s.spec.name == name) else {
                    return Ok(None);
                };
                if let Some(process) = proc::in_pidfile(&service.spec.pidfile) {
                    return Ok(Some(process));
                }
                service.is_starting()
            };
            if !starting {
                return Ok(None);
            }
            cancel.sleep(BUSY)?;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Looks at every process and does what is due; whether something is about to happen.
    fn tick(&mut self) -> bool {
        for index in 0..self.services.len() {
            let depends = &self.services[index].spec.depends;
            let ready = depends.iter().all(|name| {
                self.services
                    .iter()
                    .any(|other| other.spec.name == *name && matches!(other.phase, Phase::Up { .. }))
            });
            self.services[index].tick(ready);
        }
        self.services.iter().any(Service::is_restless)
    }

    /// The names in groups, each depending on earlier groups only.
    fn levels(&self) -> Vec<Vec<String>> {
        let mut levels: Vec<Vec<String>> = Vec::new();
        let mut left: Vec<&Service> = self.services.iter().collect();
        while !left.is_empty() {
            let (now, later): (Vec<&Service>, Vec<&Service>) = left.iter().partition(|service| {
                !service.spec.depends.iter().any(|name| left.iter().any(|other| other.spec.name == *name))
            });
            if now.is_empty() {
                // A circle is refused when the files are read; in any case all must be stopped.
                levels.push(later.iter().map(|service| service.spec.name.clone()).collect());
                break;
            }
            levels.push(now.iter().map(|service| service.spec.name.clone()).collect());
            left = later;
        }
        levels
    }
}

/// Wakes the watcher: a program ended.
impl service::Wake for Supervisor {
    fn wake(&self) -> Box<dyn Fn() + Send> {
        let shared = self.shared.clone();
        Box::new(move || shared.changed.notify_all())
    }
}

fn terminate(process: ProcessId, cancel: &Cancel) -> Result<()> {
    let signal = |signal| {
        if let Some(pid) = rustix::process::Pid::from_raw(process.pid) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    };
    signal(rustix::process::Signal::TERM);
    let mut kill_at = Some(Instant::now() + TERM_GRACE);
    let give_up = Instant::now() + TERM_GRACE * 2;
    while living(process.pid) == Some(process) {
        if kill_at.is_some_and(|at| at <= Instant::now()) {
            signal(rustix::process::Signal::KILL);
            kill_at = None;
        }
        if give_up <= Instant::now() {
            return Err(Error::environment(format!("process {} cannot be killed", process.pid)));
        }
        cancel.sleep(BUSY)?;
    }
    Ok(())
}

/// Which start of the VM this is: changes when the process that watches over the agent is another one.
pub(super) fn boot_identity() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    // The agent itself as first process has no parent.
    let watcher = if parent > 0 { parent } else { i32::try_from(std::process::id()).unwrap_or_default() };
    let started = living(watcher).map_or(0, |process| process.started);
    format!("{} {watcher} {started}", boot.trim())
}

/// After a start of the VM: pid files name processes of an earlier life.
pub(super) fn forget_pid_files(run: &Path) {
    for entry in walkdir::WalkDir::new(run).follow_links(false).into_iter().flatten() {
        // `sys/run` itself may be reached through a link; below it links are only names.
        if !entry.file_type().is_dir() && entry.path() != run {
            let _ = fs::remove_file(entry.path());
        }
    }
}
