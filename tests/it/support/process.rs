//! Starts the programs of tests, and makes all waits of tests.
//!
//! A program starts with the environment, signal dispositions and umask of a normal login, whatever the test
//! process inherited (`nohup`, background jobs, a locale, a proxy). Every wait has a deadline, and a test
//! that misses it fails with a description of the wait. A test that runs longer than [`WAIT_TIMEOUT`] is
//! reported with its current wait while it continues.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::panic::Location;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The maximum duration of a single wait of a test.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(110);
/// The time between two checks of a condition.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// The time between two messages about a slow test.
const REMINDER_INTERVAL: Duration = Duration::from_secs(30);
/// Variables that programs inherit: those that locate programs, and those for coverage.
const INHERITED_VARIABLES: [&str; 3] = ["PATH", "LLVM_PROFILE_FILE", "LD_LIBRARY_PATH"];

/// Prepares a program with a clean environment. `World::enter` adds the directories of a test.
pub(crate) fn prepare(program: impl AsRef<OsStr>) -> Command {
    reset_inherited_state();
    let mut command = Command::new(program);
    clean(&mut command);
    command.stdin(Stdio::null());
    command
}

/// Copies a program. A separate process copies it. Otherwise, a fork by another thread could briefly hold the
/// copy open for writing (ETXTBSY).
pub(crate) fn copy_program(source: &Path, target: &Path) {
    let output = prepare("cp").args([source, target]).run_to_end();
    assert!(output.status.success(), "{output:?}");
}

/// Sets the environment that every program gets.
pub(super) fn clean(command: &mut Command) {
    command.env_clear();
    command.envs(
        std::env::vars_os().filter(|(name, _)| INHERITED_VARIABLES.iter().any(|variable| *variable == name)),
    );
    command.env("LANG", "C.UTF-8").env("TZ", "UTC");
}

/// Resets the inherited state that the test process passes on, once. The reaction of the test process itself
/// to signals does not change.
pub(super) fn reset_inherited_state() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Programs start with the default disposition of a signal that this process handles, but not of one
        // that it ignores.
        for signal in ignored_signals() {
            let _ = signal_hook::flag::register(signal, Arc::<AtomicBool>::default());
        }
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        std::thread::spawn(remind);
    });
}

/// Returns the signals that this process ignores and could handle.
fn ignored_signals() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    // Rust's runtime ignores SIGPIPE, and restores it in the programs that it starts.
    let is_ours = |signal: &i32| *signal != Signal::PIPE.as_raw();
    let signals = (1..=64).filter(|signal| mask & (1 << (signal - 1)) != 0).filter(is_ours);
    signals.filter(|signal| !signal_hook::consts::FORBIDDEN.contains(signal)).collect()
}

/// A thread that runs a test, as an entry of [`WATCHED_THREADS`]. The entry exists until the thread ends, and
/// [`remind`] reports slow tests.
struct WatchedThread {
    name: String,
    start: Instant,
    last_reminder: Instant,
    waits: Vec<String>,
}

static WATCHED_THREADS: Mutex<BTreeMap<u64, WatchedThread>> = Mutex::new(BTreeMap::new());

/// The number of this thread in [`WATCHED_THREADS`]. Its entry is removed with the thread.
struct Watch(u64);

impl Watch {
    fn new() -> Watch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let name = std::thread::current().name().unwrap_or("a thread of a test").to_owned();
        let now = Instant::now();
        let watched_thread = WatchedThread { name, start: now, last_reminder: now, waits: Vec::new() };
        WATCHED_THREADS.lock().unwrap_or_else(PoisonError::into_inner).insert(number, watched_thread);
        Watch(number)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED_THREADS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

thread_local! {
    static WATCH: RefCell<Watch> = RefCell::new(Watch::new());
}

/// Starts timing this thread's test, unless it is already timed.
pub(super) fn watch() {
    reset_inherited_state();
    WATCH.with(|_| ());
}

/// Reports slow tests and their waits repeatedly.
fn remind() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        for watched_thread in WATCHED_THREADS.lock().unwrap_or_else(PoisonError::into_inner).values_mut() {
            let seconds = watched_thread.start.elapsed().as_secs();
            if seconds >= WAIT_TIMEOUT.as_secs()
                && watched_thread.last_reminder.elapsed() >= REMINDER_INTERVAL
            {
                watched_thread.last_reminder = Instant::now();
                let wait = watched_thread.waits.last().map_or("nothing with a name", String::as_str);
                // A macro would print to the captured output of the test that started this thread.
                let _ = writeln!(
                    std::io::stderr(),
                    "test {} has been running for {seconds} s, and waits for {wait}",
                    watched_thread.name
                );
            }
        }
    }
}

/// Names a wait until the result is dropped. Use it for a wait that consists of other waits.
#[track_caller]
pub(crate) fn name_wait(wait_name: &str) -> NamedWait {
    NamedWait::new(wait_name)
}

/// A named wait, until it is dropped.
pub(crate) struct NamedWait(());

impl NamedWait {
    #[track_caller]
    fn new(wait_name: &str) -> NamedWait {
        let location = Location::caller();
        change_waits(|waits| waits.push(format!("{wait_name} ({}:{})", location.file(), location.line())));
        NamedWait(())
    }
}

impl Drop for NamedWait {
    fn drop(&mut self) {
        change_waits(|waits| drop(waits.pop()));
    }
}

/// Changes the list of waits of this thread.
fn change_waits(edit: impl FnOnce(&mut Vec<String>)) {
    watch();
    // A thread that is ending no longer has a watch.
    let _ = WATCH.try_with(|watch| {
        if let Some(watched_thread) =
            WATCHED_THREADS.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&watch.borrow().0)
        {
            edit(&mut watched_thread.waits);
        }
    });
}

/// Polls until `ask` returns a value. Fails the test after `timeout`.
#[track_caller]
pub(crate) fn poll_within<T>(timeout: Duration, wait_name: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let _wait = NamedWait::new(wait_name);
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < timeout, "waited {} s for this: {wait_name}", timeout.as_secs());
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// Polls like [`poll_within`], with the maximum timeout.
#[track_caller]
pub(crate) fn poll<T>(wait_name: &str, ask: impl FnMut() -> Option<T>) -> T {
    poll_within(WAIT_TIMEOUT, wait_name, ask)
}

/// Waits for a condition that must come true.
#[track_caller]
pub(crate) fn wait_until(wait_name: &str, mut condition: impl FnMut() -> bool) {
    poll_within(Duration::from_secs(60), wait_name, || condition().then_some(()));
}

/// Waits for a thread to end.
#[track_caller]
pub(crate) fn join<T>(wait_name: &str, thread: JoinHandle<T>) -> T {
    wait_until(wait_name, || thread.is_finished());
    thread.join().unwrap()
}

/// Waits for the next message. Returns `None` if there are no more.
#[track_caller]
pub(crate) fn receive<T>(wait_name: &str, messages: &Receiver<T>) -> Option<T> {
    let _wait = NamedWait::new(wait_name);
    match messages.recv_timeout(WAIT_TIMEOUT) {
        Ok(message) => Some(message),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => panic!("waited {} s for this: {wait_name}", WAIT_TIMEOUT.as_secs()),
    }
}

/// Returns the lines that a program writes, as they arrive.
pub(crate) fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    send_all(BufReader::new(output).lines().map_while(Result::ok))
}

/// Returns the output of a program in pieces as they arrive.
pub(crate) fn pieces(mut output: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let mut buffer = [0; 4096];
    send_all(std::iter::from_fn(move || {
        let count = output.read(&mut buffer).ok()?;
        (count > 0).then(|| buffer[..count].to_vec())
    }))
}

fn send_all<T: Send + 'static>(all: impl Iterator<Item = T> + Send + 'static) -> Receiver<T> {
    let (send, messages) = channel();
    std::thread::spawn(move || {
        for message in all {
            // The output is read to its end, so that the writer does not block.
            let _ = send.send(message);
        }
    });
    messages
}

/// The output of a program, until every process has closed the pipe.
struct WrittenOutput {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl WrittenOutput {
    fn collect(pipe: Option<impl Read + Send + 'static>) -> WrittenOutput {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let writer_bytes = bytes.clone();
        let reader = std::thread::spawn(move || {
            let Some(mut pipe) = pipe else { return };
            let mut buffer = [0; 1 << 16];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                writer_bytes.lock().unwrap().extend(&buffer[..count]);
            }
        });
        WrittenOutput { bytes, reader }
    }

    /// Returns the output so far.
    fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    /// Returns the complete output once the pipe is closed.
    #[track_caller]
    fn all(self, wait_name: &str) -> Vec<u8> {
        join(wait_name, self.reader);
        std::mem::take(&mut self.bytes.lock().unwrap())
    }
}

/// Waits for processes to end.
pub(crate) trait WaitForEnd {
    /// Waits for the process to end.
    fn end(&mut self) -> ExitStatus;

    /// Closes its input, and waits for its end and the end of its output.
    fn end_with_output(self) -> Output;

    /// Closes its input, waits for its end, and kills its group after the deadline. Does not panic, so that
    /// `Drop` can use it.
    fn stop(&mut self);
}

/// Describes a process.
fn name_of(child: &Child) -> String {
    let words = std::fs::read(format!("/proc/{}/cmdline", child.id())).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    format!("process {} ends: {}", child.id(), words.trim_end())
}

/// Waits for a process to end. After the deadline, kills it and fails the test with the text of
/// `describe_output`.
#[track_caller]
fn end_or(child: &mut Child, describe_output: impl FnOnce() -> String) -> ExitStatus {
    drop(child.stdin.take());
    let wait_name = name_of(child);
    let _wait = NamedWait::new(&wait_name);
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > WAIT_TIMEOUT {
            let _ = child.kill();
            panic!("waited {} s for this: {wait_name}{}", WAIT_TIMEOUT.as_secs(), describe_output());
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

impl WaitForEnd for Child {
    #[track_caller]
    fn end(&mut self) -> ExitStatus {
        end_or(self, String::new)
    }

    #[track_caller]
    fn end_with_output(mut self) -> Output {
        let (stdout, stderr) =
            (WrittenOutput::collect(self.stdout.take()), WrittenOutput::collect(self.stderr.take()));
        let status = end_or(&mut self, || {
            let text =
                [stdout.so_far(), stderr.so_far()].map(|text| String::from_utf8_lossy(&text).into_owned());
            format!("\n--- stdout\n{}\n--- stderr\n{}", text[0], text[1])
        });
        let condition = "a process that has ended leaves its output to no other";
        Output { status, stdout: stdout.all(condition), stderr: stderr.all(condition) }
    }

    fn stop(&mut self) {
        drop(self.stdin.take());
        let start = Instant::now();
        while matches!(self.try_wait(), Ok(None)) {
            if start.elapsed() > Duration::from_secs(30) {
                let pid = Pid::from_child(self);
                // A process without its own group is killed alone.
                let _ = kill_process_group(pid, Signal::KILL).or_else(|_| kill_process(pid, Signal::KILL));
                let _ = self.wait();
                return;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
}

/// Sends SIGINT to a run, which must end at once.
pub(crate) fn interrupt(mut child: Child) {
    let start = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.end().code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

/// Runs programs to their end.
pub(crate) trait RunToEnd {
    /// Runs the command to its end, without input unless one is set.
    fn run_to_end(&mut self) -> Output;

    /// Runs the command to its end with this input.
    fn run_with_input(&mut self, input: &[u8]) -> Output;
}

impl RunToEnd for Command {
    #[track_caller]
    fn run_to_end(&mut self) -> Output {
        spawn(self.stdout(Stdio::piped()).stderr(Stdio::piped())).end_with_output()
    }

    #[track_caller]
    fn run_with_input(&mut self, input: &[u8]) -> Output {
        let mut child = spawn(self.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()));
        let (mut pipe, input) = (child.stdin.take().unwrap(), input.to_vec());
        // A program that does not read its input closes it.
        std::thread::spawn(move || pipe.write_all(&input));
        child.end_with_output()
    }
}

#[track_caller]
fn spawn(command: &mut Command) -> Child {
    command
        .spawn()
        .unwrap_or_else(|error| panic!("'{}' does not start: {error}", command.get_program().display()))
}

/// Checks that tests start programs and wait only here. Direct use of the standard library would start a
/// program with inherited state, or wait without a deadline.
#[test]
fn only_this_module_starts_programs_and_waits() {
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    let mut problems = Vec::new();
    for entry in walkdir::WalkDir::new(tests).into_iter().flatten() {
        // monopile starts the scripted CPI, which is a separate program.
        let is_allowed =
            ["support/process.rs", "scripted/cpi.rs"].iter().any(|path| entry.path().ends_with(path));
        if is_allowed || entry.path().extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).unwrap();
        for (number, line) in text.lines().enumerate() {
            let unbounded_waits =
                ["Command::new(", ".wait()", ".wait_with_output(", ".recv()", ".output()", "Barrier::new("];
            if unbounded_waits.iter().any(|name| line.contains(name)) {
                problems.push(format!("{}:{}: {}", entry.path().display(), number + 1, line.trim()));
            }
        }
    }
    assert!(problems.is_empty(), "use support::process instead:\n{}", problems.join("\n"));
}

#[test]
fn overlong_wait_names_what_it_waits_for() {
    let world = super::World::new();
    let panic_result =
        std::panic::catch_unwind(|| poll_within(Duration::ZERO, "the moon rises", || None::<()>));
    let message = panic_result.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(*message, "waited 0 s for this: the moon rises");
    // Programs ignore only the signals that they ask to ignore, whatever this process inherited.
    let mut shell = prepare("sh");
    let shell = world.enter(&mut shell).args(["-c", "grep SigIgn /proc/self/status; umask; env | sort"]);
    let text = String::from_utf8(shell.run_to_end().stdout).unwrap();
    // Signals from 32 on are real-time signals of the C library and the kernel.
    let ignored_mask =
        text.split_whitespace().nth(1).and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap();
    assert!(ignored_mask & 0x7fff_ffff == 0 && text.contains("\n0022\n"), "{text}");
    assert!(!text.contains("HTTP") && !text.contains("LC_") && text.contains("LANG=C.UTF-8\n"), "{text}");
}
