//! One process of a CPI: what went in, and all that came out.
//!
//! The director reads a CPI's answer through a pipe, and so does this, unlike [`engine::cpi`], which gives a CPI a
//! file to write to: only at a pipe can be seen who else holds standard output open.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use engine::cpi::{ANSWER_LIMIT, CpiError, Executable};

/// How much of a log is kept.
const LOG_LIMIT: usize = 1024 * 1024;
/// How long standard output may stay open after the process has ended.
const HELD_OPEN: Duration = Duration::from_secs(1);
/// How long a process may take to end after it was told to.
const KILL_GRACE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// What went into a process and what came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Standard input.
    pub input: Vec<u8>,
    /// Standard output, as far as it is read at all.
    pub stdout: Vec<u8>,
    /// Standard error, or its end if it is long.
    pub stderr: Vec<u8>,
    /// How it ended.
    pub ended: Ended,
    /// How long it took.
    pub duration: Duration,
    /// Whether another process kept standard output open when it had ended.
    pub held_open: bool,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// Not within the time it was given, so it was killed.
    TimedOut,
    /// Not yet: nobody waits for it any longer.
    Abandoned,
}

/// What a caller sees of a process while it runs, and how long it waits.
pub struct Watching<'a> {
    /// Gets each line of the log.
    pub on_log: &'a (dyn Fn(&str) + Sync),
    /// Tells whether to stop waiting.
    pub give_up: &'a (dyn Fn() -> bool + Sync),
    /// After how long the process is killed.
    pub limit: Duration,
}

/// Runs the CPI once with `input` on its standard input.
pub(super) fn exchange(
    executable: &Executable,
    input: &[u8],
    watching: &Watching<'_>,
) -> Result<Exchange, CpiError> {
    let begun = Instant::now();
    let mut child = Command::new(&executable.program)
        .args(&executable.arguments)
        .env_clear()
        .envs(executable.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C in the terminal is for us: the call in flight is waited for.
        .process_group(0)
        .spawn()
        .map_err(|source| CpiError::NotStarted {
            executable: executable.program.display().to_string(),
            source,
        })?;
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let text = input.to_vec();
    // A CPI that does not read all of its request, or none of it, may still answer.
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&text)));
    let (answer, answer_over) = collect_answer(stdout);
    let (log, log_over) = collect_log(stderr);
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || ended.send(child.wait()));

    let how = loop {
        let waited = end.recv_timeout(LOOK);
        show_lines(&log, watching.on_log);
        match waited {
            Ok(status) => break of_status(status),
            Err(mpsc::RecvTimeoutError::Disconnected) => break Ended::Abandoned,
            Err(mpsc::RecvTimeoutError::Timeout) if (watching.give_up)() => break Ended::Abandoned,
            Err(mpsc::RecvTimeoutError::Timeout) if begun.elapsed() >= watching.limit => {
                if let Some(group) = group {
                    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
                    if end.recv_timeout(KILL_GRACE).is_err() {
                        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                        let _ = end.recv_timeout(KILL_GRACE);
                    }
                }
                break Ended::TimedOut;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    };
    let duration = begun.elapsed();
    let over = how != Ended::Abandoned;
    let held_open = over && answer_over.recv_timeout(HELD_OPEN).is_err();
    if over && !held_open {
        // A service that the CPI started may log there for as long as it likes.
        let _ = log_over.recv_timeout(LOOK);
    }
    show_lines(&log, watching.on_log);
    Ok(Exchange {
        input: input.to_vec(),
        stdout: answer.lock().clone(),
        stderr: log.lock().bytes.clone(),
        ended: how,
        duration,
        held_open,
    })
}

fn of_status(status: std::io::Result<ExitStatus>) -> Ended {
    match status {
        Ok(status) => match status.code() {
            Some(code) => Ended::Exited(code),
            None => Ended::Signalled(status.signal().unwrap_or_default()),
        },
        Err(_) => Ended::Abandoned,
    }
}

type Shared<T> = Arc<Mutex<T>>;

/// Feeds `take` with all that comes, on a thread of its own; the receiver hears when it is over.
fn pump(
    source: Option<impl Read + Send + 'static>,
    mut take: impl FnMut(&[u8]) + Send + 'static,
) -> mpsc::Receiver<()> {
    let (over, is_over) = mpsc::channel();
    std::thread::spawn(move || {
        let mut chunk = vec![0; 64 * 1024];
        if let Some(mut source) = source {
            while let Ok(read @ 1..) = source.read(&mut chunk) {
                take(&chunk[..read]);
            }
        }
        over.send(())
    });
    is_over
}

/// Keeps one byte more than an answer may have.
fn collect_answer(stdout: Option<ChildStdout>) -> (Shared<Vec<u8>>, mpsc::Receiver<()>) {
    let answer = Shared::<Vec<u8>>::default();
    let kept = Arc::clone(&answer);
    let limit = usize::try_from(ANSWER_LIMIT).unwrap_or(usize::MAX).saturating_add(1);
    let over = pump(stdout, move |chunk| {
        let mut kept = kept.lock();
        let room = limit.saturating_sub(kept.len()).min(chunk.len());
        kept.extend_from_slice(&chunk[..room]);
    });
    (answer, over)
}

#[derive(Default)]
struct Log {
    bytes: Vec<u8>,
    /// Complete lines that nobody has seen yet.
    lines: Vec<String>,
    pending: Vec<u8>,
}

fn collect_log(stderr: Option<ChildStderr>) -> (Shared<Log>, mpsc::Receiver<()>) {
    let log = Shared::<Log>::default();
    let kept = Arc::clone(&log);
    let over = pump(stderr, move |chunk| {
        let mut log = kept.lock();
        log.bytes.extend_from_slice(chunk);
        let excess = log.bytes.len().saturating_sub(LOG_LIMIT);
        log.bytes.drain(..excess);
        log.pending.extend_from_slice(chunk);
        while let Some(end) = log.pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = log.pending.drain(..=end).collect();
            log.lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
        // What goes on for ever without an end is no line.
        if log.pending.len() > LOG_LIMIT {
            log.pending.clear();
        }
    });
    (log, over)
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

    fn run(script: &str, input: &[u8], limit: Duration) -> Exchange {
        let executable = Executable {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        };
        exchange(&executable, input, &Watching { on_log: &|_| {}, give_up: &|| false, limit }).unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn all_that_comes_out_is_kept_apart() {
        let seen = run("cat; echo log >&2; exit 3", b"in", LONG);
        assert_eq!((seen.stdout.as_slice(), seen.stderr.as_slice()), (&b"in"[..], &b"log\n"[..]));
        assert_eq!((seen.ended, seen.held_open), (Ended::Exited(3), false));
        assert_eq!(run("kill -9 $$", b"", LONG).ended, Ended::Signalled(9));
    }

    #[test]
    fn a_process_that_reads_nothing_is_no_trouble() {
        let seen = run("exec <&-; echo x", &vec![b' '; 1 << 20], LONG);
        assert_eq!(seen.stdout, b"x\n");
    }

    #[test]
    fn a_child_that_keeps_the_answer_open_is_noticed() {
        let seen = run("sleep 3 & echo x", b"", LONG);
        assert!(seen.held_open && seen.duration < Duration::from_secs(1));
        assert_eq!(seen.stdout, b"x\n");
    }

    #[test]
    fn nobody_is_waited_for_for_ever() {
        let seen = run("sleep 60", b"", Duration::from_millis(100));
        assert_eq!((seen.ended, seen.held_open), (Ended::TimedOut, false));
    }
}
