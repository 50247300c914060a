//! Programs that print variables (`--vars-exec`), such as the client of a secret store.
//!
//! A program runs once, in a process group of its own, without input, and within limits of time and size. Its
//! output stays in memory. The kernel stops a program that asks on the terminal, because its group is in the
//! background. The run then stops waiting.

use std::fmt;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};

use crate::node_kind::kind_with_article;
use base::error::os_problem;
use base::files::input::check_signals;
use base::redact::{NameClass, Redactor};
use base::text::shell_word;
use base::{Error, ErrorKind, LogExcerpt, Result};
use yaml::{Data, Node};

/// The longest time that a program may take.
pub const PROGRAM_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest output of a program, in bytes.
pub const MAX_OUTPUT_BYTES: u64 = 16 << 20;

/// The time that a program has to end after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_millis(300);
/// The longest time of a wait for output, after which signals are checked.
const POLL_TIMEOUT: Duration = Duration::from_millis(50);
/// The bytes of standard error that are kept, from its end.
const MAX_KEPT_LOG_BYTES: usize = 64 << 10;
/// The lines of standard error that an error shows.
const LOG_LINES: usize = 12;

/// A program that prints variables as YAML or JSON. Clones share its output, so that it runs once.
#[derive(Clone)]
pub struct VarsProgram {
    program: PathBuf,
    arguments: Vec<String>,
    directory: Option<PathBuf>,
    output: Arc<OnceLock<Result<Node, ProgramFailure>>>,
}

/// An error that can be returned more than once.
struct ProgramFailure {
    kind: ErrorKind,
    message: String,
    cause: Option<String>,
    log: Option<LogExcerpt>,
    note: Option<&'static str>,
    hint: Option<&'static str>,
}

struct ProgramLimits {
    timeout: Duration,
    max_output_bytes: u64,
}

/// The output of a program, and its end.
struct Execution {
    stdout: Vec<u8>,
    log: Log,
    end: ExecutionEnd,
}

/// The way in which an execution ended.
enum ExecutionEnd {
    Exited(ExitStatus),
    /// It used the terminal and was stopped.
    Stopped,
    TimedOut,
    TooLarge,
    Interrupted(Error),
}

impl VarsProgram {
    /// Creates a program that runs in `directory`, or else in the working directory. A relative path is
    /// resolved by the caller; a plain name is looked up in `PATH`.
    pub fn new(program: impl Into<PathBuf>, arguments: Vec<String>, directory: Option<PathBuf>) -> Self {
        VarsProgram { program: program.into(), arguments, directory, output: Arc::default() }
    }

    /// Returns the program and its arguments as a command for a shell.
    pub fn command_line(&self) -> String {
        let program = self.program.to_string_lossy();
        let words = std::iter::once(&*program).chain(self.arguments.iter().map(String::as_str));
        words.map(shell_word).collect::<Vec<_>>().join(" ")
    }

    /// Runs the program and returns the mapping that it prints. Only the first call of all clones runs it.
    /// Secrets of `env_vars` are removed from its log in errors.
    pub(crate) fn read_variables(&self, env_vars: &[(String, String)]) -> Result<&Node> {
        let limits = ProgramLimits { timeout: PROGRAM_TIMEOUT, max_output_bytes: MAX_OUTPUT_BYTES };
        self.output.get_or_init(|| self.run(&limits, env_vars)).as_ref().map_err(ProgramFailure::to_error)
    }

    /// Runs the program and parses its output. A failure of the program contains the end of its standard
    /// error.
    fn run(&self, limits: &ProgramLimits, env_vars: &[(String, String)]) -> Result<Node, ProgramFailure> {
        let Execution { stdout, log, end } = self.execute(limits)?;
        let name = self.name();
        let failure = match end {
            ExecutionEnd::Exited(status) if status.success() => return self.parse(stdout),
            ExecutionEnd::Interrupted(error) => {
                return Err(ProgramFailure::new(error.kind(), format!("interrupted while {name} ran")));
            }
            ExecutionEnd::Exited(status) => {
                let end = match (status.code(), status.signal()) {
                    (Some(code), _) => format!("exited with {code}"),
                    (None, Some(signal)) => format!("was ended by signal {signal}"),
                    (None, None) => "failed".to_owned(),
                };
                ProgramFailure::invalid(format!("{name} {end}")).with_hint(
                    "run it by itself, with its arguments, until it prints a mapping of names to values",
                )
            }
            ExecutionEnd::Stopped => {
                ProgramFailure::invalid(format!("{name} asks on the terminal, which it cannot use here"))
                    .with_hint("log in to the store or unlock it first, then run the same command again")
            }
            ExecutionEnd::TimedOut => ProgramFailure::invalid(format!(
                "{name} did not end within {}",
                base::text::format_duration(limits.timeout)
            ))
            .with_hint(
                "log in to the store or unlock it first, because the program cannot ask questions here",
            ),
            ExecutionEnd::TooLarge => ProgramFailure::invalid(format!(
                "{name} printed more than {}",
                base::text::format_bytes(limits.max_output_bytes)
            ))
            .with_hint("let it print only the variables of this environment"),
        };
        Err(match log.redacted_lines(&stdout, env_vars) {
            lines if lines.is_empty() => failure.with_note("it wrote nothing to standard error"),
            lines => failure.with_log(format!("the end of its standard error:\n{lines}")),
        })
    }

    /// Returns the name in errors. Arguments may contain secrets.
    fn name(&self) -> String {
        format!("vars program '{}'", self.program.display())
    }

    /// Runs the program to its end, or to a limit or signal, and ends all processes of its group.
    fn execute(&self, limits: &ProgramLimits) -> Result<Execution, ProgramFailure> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let start = Instant::now();
        let child = command.spawn().map_err(|error| self.start_error(&error))?;
        let mut process = ProgramProcess { child, is_reaped: false };
        let read_error = |error: io::Error| {
            ProgramFailure::invalid(format!("the output of {} cannot be read", self.name()))
                .with_cause(error.to_string())
                .with_hint("run the same command again")
        };
        let (mut stdout_pipe, mut stderr_pipe) = (process.child.stdout.take(), process.child.stderr.take());
        let (mut stdout, mut log) = (Vec::new(), Log::default());
        let end = loop {
            let state = process.poll_state().map_err(read_error)?;
            // After its end, all output of the program is in the pipes. Its remaining child processes are
            // killed, so that they add nothing.
            let has_ended = matches!(state, ProcessState::Ended);
            if has_ended {
                process.signal(Signal::KILL);
            }
            let timeout = if has_ended { Duration::ZERO } else { POLL_TIMEOUT };
            let readable =
                wait_for_output(stdout_pipe.as_ref(), stderr_pipe.as_ref(), timeout).map_err(read_error)?;
            if readable[0] {
                read_some(&mut stdout_pipe, &mut stdout).map_err(read_error)?;
            }
            if readable[1] {
                read_some(&mut stderr_pipe, &mut log.bytes).map_err(read_error)?;
                log.shorten();
            }
            if stdout.len() as u64 > limits.max_output_bytes {
                break ExecutionEnd::TooLarge;
            }
            if has_ended && readable == [false, false] {
                break ExecutionEnd::Exited(process.reap().map_err(read_error)?);
            }
            if let Err(error) = check_signals() {
                break ExecutionEnd::Interrupted(error);
            }
            if matches!(state, ProcessState::Stopped) {
                break ExecutionEnd::Stopped;
            }
            if start.elapsed() > limits.timeout {
                break ExecutionEnd::TimedOut;
            }
        };
        Ok(Execution { stdout, log, end })
    }

    fn start_error(&self, error: &io::Error) -> ProgramFailure {
        let failure = ProgramFailure::invalid(format!("{} cannot be run", self.name()));
        let failure = match error.kind() {
            io::ErrorKind::NotFound if self.program.components().count() == 1 => {
                failure.with_cause("no directory of PATH has it".to_owned())
            }
            io::ErrorKind::NotFound => failure.with_cause("it or its interpreter does not exist".to_owned()),
            _ => failure.with_cause(os_problem(error)),
        };
        match self.program.to_string_lossy().contains(char::is_whitespace) {
            true => failure.with_hint(
                "write each word as an item of the list in the env file: vars_exec: [PROGRAM, ARG]",
            ),
            false => failure.with_hint("install it, add its directory to PATH, or name it with its path"),
        }
    }

    /// Parses the output. Errors do not quote it.
    fn parse(&self, output: Vec<u8>) -> Result<Node, ProgramFailure> {
        let name = self.name();
        let output_error = |problem: String| {
            ProgramFailure::invalid(problem).with_hint(
                "let it print a mapping of names to values, as YAML or JSON: {\"name\": \"value\"}",
            )
        };
        let source = PathBuf::from(format!("output of {name}"));
        let text = crate::files::utf8_text(output, &source, "output")
            .map_err(|error| output_error(error.to_string()))?;
        let root = yaml::load(&text, &source).map_err(|error| output_error(error.to_string()))?;
        match &root.data {
            Data::Map(_) => Ok(root),
            Data::Null => Err(output_error(format!("{name} printed no variables"))),
            _ => Err(output_error(format!(
                "the output of {name} is {}, not a mapping of names to values",
                kind_with_article(&root)
            ))),
        }
    }
}

impl fmt::Debug for VarsProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VarsProgram").field(&self.program).finish()
    }
}

impl ProgramFailure {
    fn new(kind: ErrorKind, message: String) -> Self {
        ProgramFailure { kind, message, cause: None, log: None, note: None, hint: None }
    }

    fn invalid(message: String) -> Self {
        ProgramFailure::new(ErrorKind::InvalidInput, message)
    }

    fn with_cause(self, cause: String) -> Self {
        ProgramFailure { cause: Some(cause), ..self }
    }

    fn with_log(self, log: String) -> Self {
        ProgramFailure { log: Some(LogExcerpt::new(log)), ..self }
    }

    fn with_note(self, note: &'static str) -> Self {
        ProgramFailure { note: Some(note), ..self }
    }

    fn with_hint(self, hint: &'static str) -> Self {
        ProgramFailure { hint: Some(hint), ..self }
    }

    fn to_error(&self) -> Error {
        let error = Error::new(self.kind, &self.message);
        let error = match (&self.cause, &self.log) {
            (Some(cause), _) => error.with_source(cause.clone()),
            (None, Some(log)) => error.with_source(log.clone()),
            (None, None) => error,
        };
        let error = self.note.into_iter().fold(error, Error::with_note);
        match self.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

/// A process that leads a group. The group ends when this is dropped.
struct ProgramProcess {
    child: Child,
    is_reaped: bool,
}

enum ProcessState {
    Running,
    /// A question on the terminal stopped it.
    Stopped,
    /// It has ended, and is not reaped yet, so that its group keeps its id.
    Ended,
}

impl ProgramProcess {
    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Asks the kernel for the state, without waiting.
    fn poll_state(&self) -> io::Result<ProcessState> {
        let Some(pid) = self.pid() else { return Ok(ProcessState::Ended) };
        let options =
            WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let is_stopped_by_terminal = |status: &WaitIdStatus| {
            let signals = [Signal::TTIN, Signal::TTOU].map(Signal::as_raw);
            status.stopping_signal().is_some_and(|signal| signals.contains(&signal))
        };
        match rustix::process::waitid(WaitId::Pid(pid), options) {
            Ok(None) | Err(rustix::io::Errno::INTR) => Ok(ProcessState::Running),
            Ok(Some(status)) if is_stopped_by_terminal(&status) => Ok(ProcessState::Stopped),
            Ok(Some(status)) if status.stopped() => Ok(ProcessState::Running),
            Ok(Some(_)) => Ok(ProcessState::Ended),
            Err(error) => Err(error.into()),
        }
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.is_reaped = true;
        Ok(status)
    }

    /// Sends a signal to the group.
    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // Sending fails only if no process of the group is left.
            let _ = rustix::process::kill_process_group(pid, signal);
        }
    }
}

impl Drop for ProgramProcess {
    fn drop(&mut self) {
        // The id may belong to another process now.
        if self.is_reaped {
            return;
        }
        self.signal(Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < TERM_TIMEOUT && !matches!(self.poll_state(), Ok(ProcessState::Ended) | Err(_))
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.signal(Signal::KILL);
        let _ = self.reap();
    }
}

/// Waits for output or the end of a pipe. Returns for each of the two pipes true if it can be read.
fn wait_for_output(
    stdout_pipe: Option<&impl AsFd>,
    stderr_pipe: Option<&impl AsFd>,
    timeout: Duration,
) -> io::Result<[bool; 2]> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
    let stdout_pipe = stdout_pipe.map(|pipe| PollFd::new(pipe, PollFlags::IN));
    let stderr_pipe = stderr_pipe.map(|pipe| PollFd::new(pipe, PollFlags::IN));
    let is_open = [stdout_pipe.is_some(), stderr_pipe.is_some()];
    let mut poll_fds: Vec<PollFd<'_>> = stdout_pipe.into_iter().chain(stderr_pipe).collect();
    match poll(&mut poll_fds, Some(&timeout)) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok([false, false]),
        Err(error) => return Err(error.into()),
    }
    let mut readiness = poll_fds.iter().map(|pipe| !pipe.revents().is_empty());
    Ok(is_open.map(|is_open| is_open && readiness.next().unwrap_or(false)))
}

/// Reads once from a pipe, and closes it at its end.
fn read_some(pipe: &mut Option<impl Read>, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let count = match pipe.as_mut().map(|pipe| pipe.read(&mut buffer)) {
        Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
        Some(count) => count?,
        None => 0,
    };
    bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
    if count == 0 {
        *pipe = None;
    }
    Ok(())
}

/// The end of standard error.
#[derive(Default)]
struct Log {
    bytes: Vec<u8>,
    /// True if the start is missing.
    is_cut: bool,
}

impl Log {
    fn shorten(&mut self) {
        if let Some(excess) = self.bytes.len().checked_sub(MAX_KEPT_LOG_BYTES).filter(|excess| *excess > 0) {
            self.bytes.drain(..excess);
            self.is_cut = true;
        }
    }

    /// Returns the last lines, without the values that the program printed and the secrets of `env_vars`.
    fn redacted_lines(&self, stdout: &[u8], env_vars: &[(String, String)]) -> String {
        let redactor = Redactor::default();
        let output = String::from_utf8_lossy(stdout);
        if let Ok(root) = yaml::load(&output, Path::new("output")) {
            add_values(&root, &redactor);
        }
        let is_path = |value: &str| Path::new(value).is_absolute() && Path::new(value).exists();
        env_vars
            .iter()
            .filter(|(name, value)| redactor.name_class(name) > NameClass::Plain && !is_path(value))
            .for_each(|(_, value)| redactor.add(value));
        let text = String::from_utf8_lossy(&self.bytes);
        // A line without its start may have the end of a secret, which is not found.
        let text = if self.is_cut { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
        let text = redactor.clean_and_redact(text.trim_end());
        let lines: Vec<&str> = text.lines().collect();
        let first_index = lines.len().saturating_sub(LOG_LINES);
        lines.get(first_index..).unwrap_or_default().join("\n")
    }
}

/// Adds all values of a document to the redactor.
fn add_values(node: &Node, redactor: &Redactor) {
    match &node.data {
        Data::String(text) => redactor.add(text),
        Data::Int(number) => redactor.add(&number.to_string()),
        Data::UInt(number) => redactor.add(&number.to_string()),
        Data::Float(number) => redactor.add(&number.to_string()),
        Data::Seq(items) => items.iter().for_each(|item| add_values(item, redactor)),
        Data::Map(map) => map.iter().for_each(|(_, value)| add_values(value, redactor)),
        Data::Null | Data::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ProgramLimits =
        ProgramLimits { timeout: Duration::from_secs(30), max_output_bytes: 1 << 10 };

    fn shell(script: &str) -> VarsProgram {
        VarsProgram::new("sh", vec!["-c".into(), script.into()], None)
    }

    /// Runs a script, and returns its failure as text.
    fn failure(script: &str, limits: &ProgramLimits) -> String {
        let error = shell(script).run(limits, &[]).err().unwrap().to_error();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(!error.hints().is_empty());
        error.chain().join(": ")
    }

    #[test]
    fn program_runs_once_for_all_clones() {
        let directory = tempfile::tempdir().unwrap();
        let arguments = vec!["-c".into(), "echo x >>ran; echo '{\"a\": 1}'".into()];
        let program = VarsProgram::new("sh", arguments, Some(directory.path().into()));
        for clone in [program.clone(), program] {
            assert_eq!(clone.read_variables(&[]).unwrap().get("a"), Some(&Data::Int(1).into()));
        }
        assert_eq!(std::fs::read_to_string(directory.path().join("ran")).unwrap(), "x\n");
    }

    #[test]
    fn unusable_output_is_an_error_that_does_not_quote_it() {
        for (script, expected) in [
            ("true", "vars program 'sh' printed no variables"),
            (
                "echo hush-hush",
                "the output of vars program 'sh' is a string, not a mapping of names to values",
            ),
            ("echo '[hush-hush]'", "the output of vars program 'sh' is a list, not a mapping"),
            ("echo; echo 'a: [hush-hush'", "output of vars program 'sh':"),
            ("echo; printf 'a: \\377'", "output of vars program 'sh':2: the output is not UTF-8 text"),
            ("yes hush-hush", "vars program 'sh' printed more than 1.0 KiB"),
        ] {
            let text = failure(script, &LIMITS);
            assert!(text.starts_with(expected) && !text.contains("hush"), "{script}: {text}");
        }
    }

    #[test]
    fn failure_shows_the_end_of_standard_error_without_secrets() {
        let script = "echo 'password: hush-hush'; printf 'l%s\n' $(seq 20) >&2; \
                      echo \"hush-hush $TOKEN in $DIRECTORY\" >&2; exit 3";
        let program = shell(&format!("TOKEN=tok-tok-tok; DIRECTORY=/; {script}"));
        let env_vars = [("TOKEN", "tok-tok-tok"), ("SECRETS", "/")];
        let env_vars = env_vars.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let error = program.run(&LIMITS, &env_vars).err().unwrap().to_error();
        let lines: String = (10..=20).map(|line| format!("l{line}\n")).collect();
        let expected = format!("the end of its standard error:\n{lines}<redacted> <redacted> in /");
        assert_eq!(error.chain(), ["vars program 'sh' exited with 3", &expected]);
        let error = shell("exit 1").run(&LIMITS, &env_vars).err().unwrap().to_error();
        assert_eq!(error.notes(), ["it wrote nothing to standard error"]);
        assert!(failure("kill -9 $$", &LIMITS).contains("was ended by signal 9"));
        // The start of the first line is missing, so that line is left out.
        let log = failure("yes 0123456789 | head -c 70000 >&2; exit 1", &LIMITS);
        assert_eq!(log.lines().count(), 1 + LOG_LINES);
        let program = VarsProgram::new("/no/such program", Vec::new(), None);
        let error = program.read_variables(&[]).unwrap_err();
        assert!(error.to_string().ends_with("'/no/such program' cannot be run") && error.chain().len() == 2);
    }

    #[test]
    fn time_limit_ends_the_whole_group() {
        let limits = ProgramLimits { timeout: Duration::from_millis(200), max_output_bytes: 1 << 10 };
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let script =
            format!("trap '' TERM; (exec 3>{0}; sleep 60) & exec 3>{0}; sleep 60; sleep 60", fifo.display());
        let reader = std::thread::spawn(move || std::fs::read(fifo).unwrap());
        let start = Instant::now();
        assert!(failure(&script, &limits).starts_with("vars program 'sh' did not end within 0.2 s"));
        // The other end of the pipe is open as long as a process of the group lives.
        assert!(reader.join().unwrap().is_empty());
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn process_that_is_left_does_not_delay_the_end() {
        let start = Instant::now();
        let root = shell("echo a: 1; sleep 60 & setsid sleep 20 &").run(&LIMITS, &[]).ok().unwrap();
        assert!(root.get("a").is_some());
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
