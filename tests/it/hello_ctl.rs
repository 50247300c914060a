//! `ctl` of examples/hello: starts and stops it in every order, in sequence and concurrently, alone and under
//! monit.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::hello::Hello;
use crate::support::process::{RunToEnd as _, WaitForEnd as _, prepare};
use crate::support::scripted::wait_until;

const MONIT_PATH: &str = "/bin:/usr/bin:/sbin:/usr/sbin";

/// The job, rendered and installed in a directory without a VM.
struct Job {
    hello: Hello,
    vcap: PathBuf,
}

impl Job {
    fn new() -> Job {
        let hello = Hello::new();
        hello.world.finish(hello.render_command(&["--job", "hello", "--out", "files"])).success();
        let vcap = hello.world.path("vcap");
        let job = Job { hello, vcap };
        let text = job.vcap.display().to_string();
        for (file, mode) in [("bin/ctl", 0o755), ("config/hello.conf", 0o644), ("monit", 0o600)] {
            let content = job.hello.world.read(format!("files/{file}")).replace("/var/vcap", &text);
            job.install(&format!("jobs/hello/{file}"), &content, mode);
        }
        for file in ["counter", "ask"] {
            let content = job.hello.world.read(format!("hello/release/src/counter/{file}"));
            job.install(&format!("packages/counter/bin/{file}"), &content, 0o755);
        }
        job.install("packages/counter/share/greeting.txt", "Hello\n", 0o644);
        fs::create_dir_all(job.vcap.join("store/hello")).unwrap();
        job
    }

    fn install(&self, path: &str, content: &str, mode: u32) -> PathBuf {
        let path = self.hello.world.write(self.vcap.join(path), content);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Makes the service wait this many seconds before it listens.
    fn slow_down(&self, seconds: f64) {
        let script = format!("#!/bin/sh\nsleep {seconds}\nexec /usr/bin/perl \"$@\"\n");
        self.install("slow/perl", &script, 0o755);
    }

    fn ctl(&self, action: &str) -> Command {
        let mut command = prepare(self.vcap.join("jobs/hello/bin/ctl"));
        command
            .arg(action)
            .env_clear()
            .env("PATH", format!("{}:{MONIT_PATH}", self.vcap.join("slow").display()))
            .env("MONOPILE_TEST_WORLD", self.hello.world.root())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    fn spawn(&self, action: &str) -> Child {
        self.ctl(action).spawn().unwrap()
    }

    #[track_caller]
    fn run(&self, action: &str) {
        finish(self.spawn(action));
    }

    /// Starts a command, and returns once it is running.
    fn spawn_and_wait_for_turn(&self, action: &str) -> Child {
        let child = self.spawn(action);
        wait_until("the command is at work", || self.is_busy());
        child
    }

    /// Returns true while a command is running.
    fn is_busy(&self) -> bool {
        let Ok(lock) = fs::File::open(self.vcap.join("sys/run/hello/ctl.lock")) else { return false };
        flock(&lock, FlockOperation::NonBlockingLockShared).is_err()
    }

    fn pid_file(&self) -> PathBuf {
        self.vcap.join("sys/run/hello/hello.pid")
    }

    fn pid(&self) -> Option<i32> {
        fs::read_to_string(self.pid_file()).ok()?.trim().parse().ok()
    }

    /// Returns every process of the service, including those that are starting.
    fn processes(&self) -> Vec<i32> {
        let counter = self.vcap.join("packages/counter/bin/counter").display().to_string();
        let is_service = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == counter.as_bytes())
        };
        let pids = fs::read_dir("/proc").unwrap().flatten();
        pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_service).collect()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid().unwrap()).unwrap(), signal).unwrap();
    }

    /// Kills the service and waits for its end.
    fn crash(&self) {
        self.signal(Signal::KILL);
        wait_until("the service is gone", || self.processes().is_empty());
    }

    #[track_caller]
    fn assert_running(&self) -> i32 {
        let pid = self.pid().expect("there is no pid file");
        assert_eq!(self.processes(), [pid]);
        self.hello.ask_greeting_and_counter();
        pid
    }

    #[track_caller]
    fn assert_stopped(&self) {
        assert_eq!(self.processes(), Vec::<i32>::new());
        assert!(!self.pid_file().exists(), "the pid file is left");
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for pid in self.processes() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
}

/// Waits for a command and checks that it succeeds.
#[track_caller]
fn finish(child: Child) {
    let (status, stderr) = wait_for_output(child);
    assert!(status.success(), "{status}: {stderr}");
}

fn wait_for_output(child: Child) -> (ExitStatus, String) {
    let output = child.end_with_output();
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn commands_work_in_any_order() {
    let job = Job::new();
    let mut last_pid = None;
    // This sequence contains every series of three commands (de Bruijn).
    for action in "stop stop stop start stop start start start stop stop".split(' ') {
        job.run(action);
        if action == "start" {
            let pid = job.assert_running();
            assert!(last_pid.is_none_or(|last_pid| last_pid == pid), "a second start changed the process");
            last_pid = Some(pid);
        } else {
            job.assert_stopped();
            last_pid = None;
        }
    }
}

#[test]
fn concurrent_commands_of_one_kind_work() {
    let job = Job::new();
    for action in ["start", "stop"] {
        let children: Vec<Child> = (0..6).map(|_| job.spawn(action)).collect();
        children.into_iter().for_each(finish);
        match action {
            "start" => drop(job.assert_running()),
            _ => job.assert_stopped(),
        }
    }
}

#[test]
fn start_right_after_the_process_ended_starts_a_new_one() {
    let job = Job::new();
    job.run("start");
    for _ in 0..10 {
        // monit 5.2.5, the version in real stemcells, does not wait for the stop program.
        let old = job.assert_running();
        let stop = job.spawn("stop");
        while job.processes().contains(&old) {
            std::thread::yield_now();
        }
        job.run("start");
        finish(stop);
        assert_ne!(job.assert_running(), old);
    }
    job.run("stop");
    job.assert_stopped();
}

#[test]
fn start_waits_for_a_slow_stop() {
    let job = Job::new();
    job.run("start");
    let old = job.assert_running();
    job.signal(Signal::STOP);
    let stop = job.spawn_and_wait_for_turn("stop");
    let mut start = job.spawn("start");
    std::thread::sleep(Duration::from_millis(200));
    assert!(start.try_wait().unwrap().is_none(), "the start did not wait");
    // On a slow machine, the stop may have killed the service already.
    let _ = kill_process(Pid::from_raw(old).unwrap(), Signal::CONT);
    finish(stop);
    finish(start);
    assert_ne!(job.assert_running(), old);

    // A service that does not stop by itself is killed.
    job.signal(Signal::STOP);
    job.run("stop");
    job.assert_stopped();
}

#[test]
fn stop_during_start_stops_the_service() {
    let job = Job::new();
    job.slow_down(0.5);
    let start = job.spawn_and_wait_for_turn("start");
    let stop = job.spawn("stop");
    finish(start);
    finish(stop);
    job.assert_stopped();

    // This also works if the start was killed half way.
    let mut start = job.spawn_and_wait_for_turn("start");
    wait_until("the service is starting", || !job.processes().is_empty());
    start.kill().unwrap();
    start.end();
    job.run("stop");
    job.assert_stopped();
}

#[test]
fn stale_pid_file_is_ignored_and_its_pid_not_signalled() {
    let job = Job::new();
    job.run("start");
    job.crash();
    job.run("start");
    job.assert_running();
    job.crash();
    job.run("stop");
    job.assert_stopped();

    // The PID now belongs to another process. Its command line even names the job's configuration.
    let config = job.vcap.join("jobs/hello/config/hello.conf");
    let mut other = prepare("sh").args(["-c", "sleep 60; :"]).arg(&config).spawn().unwrap();
    let stale = format!("{}\n", other.id());
    for actions in [["start", "stop"].as_slice(), &["stop"]] {
        fs::write(job.pid_file(), &stale).unwrap();
        for action in actions {
            job.run(action);
            if *action == "start" {
                job.assert_running();
            } else {
                job.assert_stopped();
            }
        }
        assert!(other.try_wait().unwrap().is_none(), "another process was killed");
    }
    other.kill().unwrap();
    other.end();
}

#[test]
fn failed_start_leaves_no_process() {
    let job = Job::new();
    let address: SocketAddr = format!("{}:8580", job.hello.ip()).parse().unwrap();
    let listener = TcpListener::bind(address).unwrap();
    let (status, stderr) = wait_for_output(job.spawn("start"));
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("hello did not start; see "), "{stderr}");
    job.assert_stopped();
    drop(listener);
    job.run("start");
    job.assert_running();
    job.run("stop");
    job.assert_stopped();
}

#[test]
fn concurrent_commands_leave_at_most_one_process() {
    let job = Job::new();
    let seed: u32 = std::process::id();
    eprintln!("seed {seed}");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4u32)
            .map(|caller| {
                let job = &job;
                scope.spawn(move || {
                    let mut random = seed.wrapping_add(caller).wrapping_mul(2_654_435_761);
                    for _ in 0..6 {
                        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        job.run(if random >> 31 == 0 { "start" } else { "stop" });
                    }
                })
            })
            .collect();
        let watcher = scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                let processes = job.processes();
                assert!(processes.len() <= 1, "{processes:?}");
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let callers: Vec<_> = callers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_done.store(true, Ordering::SeqCst);
        watcher.join().unwrap();
        assert!(callers.iter().all(Result::is_ok));
    });
    match job.pid() {
        Some(_) => drop(job.assert_running()),
        None => job.assert_stopped(),
    }
    job.run("start");
    job.assert_running();
    job.run("stop");
    job.assert_stopped();
}

/// A private monit with the job's monit file.
struct Monit {
    config: PathBuf,
    daemon: Child,
}

impl Monit {
    fn start(job: &Job) -> Monit {
        let path = |name: &str| job.vcap.join(name).display().to_string();
        let config = job.install(
            "monitrc",
            &format!(
                "set daemon 1\nset pidfile {}\nset idfile {}\nset statefile {}\nset logfile {}\n\
                 set httpd unixsocket {} allow monit:monit\n{}",
                path("monit.pid"),
                path("monit.id"),
                path("monit.state"),
                path("monit.log"),
                path("monit.sock"),
                fs::read_to_string(job.vcap.join("jobs/hello/monit")).unwrap()
            ),
            0o600,
        );
        let daemon = monit(&config)
            .arg("-I")
            .env("MONOPILE_TEST_WORLD", job.hello.world.root())
            .spawn()
            .expect("monit runs: tests/run installs it");
        let monit = Monit { config, daemon };
        wait_until("monit answers", || monit.run_monit(&["status"]));
        monit
    }

    /// Gives an order to monit, which refuses it while an earlier action is in progress.
    fn order(&self, action: &str) {
        wait_until("monit takes the order", || self.run_monit(&[action, "hello"]));
    }

    /// Returns true if monit reports that the service runs. While an action is pending, monit reports that
    /// one, and may stop a service that it has just started.
    fn reports_running(&self) -> bool {
        let output = monit(&self.config).args(["-B", "status", "hello"]).run_to_end();
        let output = String::from_utf8(output.stdout).unwrap();
        let status = output.lines().find_map(|line| line.trim().strip_prefix("status "));
        status.map(str::trim) == Some("OK")
    }

    fn run_monit(&self, words: &[&str]) -> bool {
        monit(&self.config).args(words).status().unwrap().success()
    }
}

fn monit(config: &Path) -> Command {
    let mut command = prepare("monit");
    command.arg("-c").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Drop for Monit {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.daemon), Signal::TERM);
        self.daemon.stop();
    }
}

#[test]
fn works_under_monit() {
    let job = Job::new();
    let monit = Monit::start(&job);
    let runs = || monit.reports_running() && job.pid().is_some_and(|pid| job.processes() == [pid]);
    wait_until("monit starts it", runs);
    for _ in 0..3 {
        let old = job.assert_running();
        monit.order("stop");
        wait_until("monit stops it", || !job.processes().contains(&old));
        monit.order("start");
        wait_until("monit starts it again", runs);
    }
    let old = job.assert_running();
    monit.order("restart");
    wait_until("monit restarts it", || runs() && job.pid() != Some(old));
    let old = job.assert_running();
    job.signal(Signal::KILL);
    wait_until("monit replaces one that died", || runs() && job.pid() != Some(old));
    monit.order("stop");
    wait_until("monit stops it in the end", || job.processes().is_empty() && !job.pid_file().exists());
    drop(monit);
    job.assert_stopped();
}
