//! One process of a CPI with its input and output.
//!
//! The answer comes through a pipe, as for the director. Only a pipe shows that another process holds
//! standard output open; [`engine::cpi`] uses a file instead.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use engine::cpi::{CpiError, Executable, MAX_ANSWER_BYTES};

/// The maximum size of the kept part of a log, in bytes.
const MAX_KEPT_LOG_BYTES: usize = 1024 * 1024;
/// The time during which standard output may stay open after the process has ended.
const HELD_OPEN_TIMEOUT: Duration = Duration::from_secs(1);
/// The time between SIGTERM and SIGKILL.
const TERM_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_PAUSE: Duration = Duration::from_millis(50);

/// A process with its input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Standard input.
    pub input: Vec<u8>,
    /// Standard output, up to one byte more than an answer may have.
    pub stdout: Vec<u8>,
    /// Standard error, or the end of a long one.
    pub stderr: Vec<u8>,
    /// The end of the process.
    pub end: ProcessEnd,
    /// The duration of the process.
    pub duration: Duration,
    /// True if another process held standard output open after the end.
    pub is_held_open: bool,
}

/// The way in which a CPI process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Signalled(i32),
    /// It exceeded its timeout and was killed.
    TimedOut,
    /// The caller stopped waiting, or could not observe its end.
    Abandoned,
}

/// Callbacks for a running process, and its timeout.
pub struct ExchangeControl<'a> {
    /// Receives each line of the log.
    pub on_log: &'a (dyn Fn(&str) + Sync),
    /// Returns true to stop waiting.
    pub must_stop_waiting: &'a (dyn Fn() -> bool + Sync),
    /// The time after which the process is killed.
    pub timeout: Duration,
}

/// Runs the CPI once with `input` on its standard input.
pub(super) fn run_exchange(
    executable: &Executable,
    input: &[u8],
    control: &ExchangeControl<'_>,
) -> Result<Exchange, CpiError> {
    let start = Instant::now();
    let mut child = Command::new(&executable.program)
        .args(&executable.arguments)
        .env_clear()
        .envs(executable.env_vars.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C must not reach the CPI, because monopile waits for the call in flight.
        .process_group(0)
        .spawn()
        .map_err(|source| CpiError::NotStarted {
            executable: executable.program.display().to_string(),
            source,
        })?;
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let text = input.to_vec();
    // A CPI may answer without reading its whole request.
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&text)));
    let (answer, answer_end) = collect_answer(stdout);
    let (log, log_end) = collect_log(stderr);
    let (exit_sender, exit_receiver) = mpsc::channel();
    std::thread::spawn(move || exit_sender.send(child.wait()));

    let process_end = loop {
        let exit_message = exit_receiver.recv_timeout(POLL_PAUSE);
        show_lines(&log, control.on_log);
        match exit_message {
            Ok(status) => break end_of(status),
            Err(mpsc::RecvTimeoutError::Disconnected) => break ProcessEnd::Abandoned,
            Err(mpsc::RecvTimeoutError::Timeout) if (control.must_stop_waiting)() => {
                break ProcessEnd::Abandoned;
            }
            Err(mpsc::RecvTimeoutError::Timeout) if start.elapsed() >= control.timeout => {
                if let Some(group) = group {
                    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
                    if exit_receiver.recv_timeout(TERM_TIMEOUT).is_err() {
                        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                        let _ = exit_receiver.recv_timeout(TERM_TIMEOUT);
                    }
                }
                break ProcessEnd::TimedOut;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    };
    let duration = start.elapsed();
    let has_ended = process_end != ProcessEnd::Abandoned;
    let is_held_open = has_ended && answer_end.recv_timeout(HELD_OPEN_TIMEOUT).is_err();
    if has_ended && !is_held_open {
        // A service that the CPI started may hold standard error open forever.
        let _ = log_end.recv_timeout(POLL_PAUSE);
    }
    show_lines(&log, control.on_log);
    Ok(Exchange {
        input: input.to_vec(),
        stdout: answer.lock().clone(),
        stderr: log.lock().bytes.clone(),
        end: process_end,
        duration,
        is_held_open,
    })
}

fn end_of(status: std::io::Result<ExitStatus>) -> ProcessEnd {
    match status {
        Ok(status) => match status.code() {
            Some(code) => ProcessEnd::Exited(code),
            None => ProcessEnd::Signalled(status.signal().unwrap_or_default()),
        },
        Err(_) => ProcessEnd::Abandoned,
    }
}

/// A value that a reading thread fills.
type Shared<T> = Arc<Mutex<T>>;

/// Passes the source to `take` on a separate thread. Notifies the receiver at the end of the source.
fn pump(
    source: Option<impl Read + Send + 'static>,
    mut take: impl FnMut(&[u8]) + Send + 'static,
) -> mpsc::Receiver<()> {
    let (end_sender, end_notice) = mpsc::channel();
    std::thread::spawn(move || {
        let mut chunk = vec![0; 64 * 1024];
        if let Some(mut source) = source {
            while let Ok(read @ 1..) = source.read(&mut chunk) {
                take(&chunk[..read]);
            }
        }
        end_sender.send(())
    });
    end_notice
}

/// Collects standard output. Keeps one byte more than an answer may have, to detect answers that are too
/// long.
fn collect_answer(stdout: Option<ChildStdout>) -> (Shared<Vec<u8>>, mpsc::Receiver<()>) {
    let answer = Shared::<Vec<u8>>::default();
    let shared_answer = Arc::clone(&answer);
    let limit = usize::try_from(MAX_ANSWER_BYTES).unwrap_or(usize::MAX).saturating_add(1);
    let end_notice = pump(stdout, move |chunk| {
        let mut buffer = shared_answer.lock();
        let room = limit.saturating_sub(buffer.len()).min(chunk.len());
        buffer.extend_from_slice(&chunk[..room]);
    });
    (answer, end_notice)
}

/// The standard error of a process.
#[derive(Default)]
struct Log {
    bytes: Vec<u8>,
    /// Complete lines that were not shown yet.
    lines: Vec<String>,
    /// The beginning of a line whose end was not read yet.
    partial_line: Vec<u8>,
}

fn collect_log(stderr: Option<ChildStderr>) -> (Shared<Log>, mpsc::Receiver<()>) {
    let log = Shared::<Log>::default();
    let shared_log = Arc::clone(&log);
    let end_notice = pump(stderr, move |chunk| {
        let mut log = shared_log.lock();
        log.bytes.extend_from_slice(chunk);
        let excess = log.bytes.len().saturating_sub(MAX_KEPT_LOG_BYTES);
        log.bytes.drain(..excess);
        log.partial_line.extend_from_slice(chunk);
        while let Some(end) = log.partial_line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = log.partial_line.drain(..=end).collect();
            log.lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
        // A line without an end is dropped.
        if log.partial_line.len() > MAX_KEPT_LOG_BYTES {
            log.partial_line.clear();
        }
    });
    (log, end_notice)
}

fn show_lines(log: &Mutex<Log>, on_log: &dyn Fn(&str)) {
    let lines = std::mem::take(&mut log.lock().lines);
    for line in lines {
        on_log(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, input: &[u8], timeout: Duration) -> Exchange {
        let executable = Executable {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            env_vars: vec![("PATH".into(), "/usr/bin:/bin".into())],
        };
        run_exchange(
            &executable,
            input,
            &ExchangeControl { on_log: &|_| {}, must_stop_waiting: &|| false, timeout },
        )
        .unwrap()
    }

    const LONG_TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn output_streams_and_exit_status_are_separate() {
        let run_result = run("cat; echo log >&2; exit 3", b"in", LONG_TIMEOUT);
        assert_eq!((run_result.stdout.as_slice(), run_result.stderr.as_slice()), (&b"in"[..], &b"log\n"[..]));
        assert_eq!((run_result.end, run_result.is_held_open), (ProcessEnd::Exited(3), false));
        assert_eq!(run("kill -9 $$", b"", LONG_TIMEOUT).end, ProcessEnd::Signalled(9));
    }

    #[test]
    fn process_may_ignore_its_input() {
        let run_result = run("exec <&-; echo x", &vec![b' '; 1 << 20], LONG_TIMEOUT);
        assert_eq!(run_result.stdout, b"x\n");
    }

    #[test]
    fn child_that_keeps_stdout_open_is_reported() {
        let run_result = run("sleep 3 & echo x", b"", LONG_TIMEOUT);
        assert!(run_result.is_held_open && run_result.duration < Duration::from_secs(1));
        assert_eq!(run_result.stdout, b"x\n");
    }

    #[test]
    fn process_is_killed_after_its_time_limit() {
        let run_result = run("sleep 60", b"", Duration::from_millis(100));
        assert_eq!((run_result.end, run_result.is_held_open), (ProcessEnd::TimedOut, false));
    }
}
