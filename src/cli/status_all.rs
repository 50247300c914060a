//! `monopile status --all`: the status of many environments, one line for each.
//!
//! Each environment is the subject of a process of its own, `monopile status --json`, which runs in the
//! directory of the env file. So the file applies exactly as if the operator had changed to that directory:
//! it must be trusted, and its paths, options and secrets are separate from those of the others.

use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde_json::Value;
use walkdir::WalkDir;

use super::env_file::FILE_NAME;
use super::finish::CommandResult;
use super::session::Session;
use super::signals;
use super::table::Table;
use super::{paths, scratch::Scratch};
use base::error::os_problem;
use base::events::{Stage, Unit};
use base::exit_code;
use base::files::input::check_signals;
use base::text::shell_word;
use base::{Error, ErrorKind, Result};

/// The number of environments that are asked at the same time. Each mostly waits for its agent.
const MAX_PROCESSES: usize = 48;
/// The maximum number of environments.
pub(super) const MAX_ENVIRONMENTS: usize = 10_000;
/// The time after which an environment is given up.
pub(super) const ENVIRONMENT_TIMEOUT: Duration = Duration::from_secs(120);
/// The time that a process has to end after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum size of a status, in bytes.
const MAX_STATUS_BYTES: usize = 16 << 20;
/// The number of bytes of standard error that are read, from its end.
const MAX_STDERR_BYTES: u64 = 256 << 10;
/// The time between two checks for signals.
const SIGNAL_CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A request for the status of many environments.
pub(super) struct StatusAllRequest<'a> {
    /// A directory, or the URL of a prefix of a bucket.
    pub(super) path_or_url: &'a Path,
    /// The options that apply to each environment.
    pub(super) options: Vec<String>,
}

/// An environment to ask.
enum StatusTarget {
    /// The directory of an env file.
    Directory(PathBuf),
    /// The URL of a state in a bucket.
    State(String),
    /// A path that cannot be read, with the reason. Environments below it would be missing.
    Unreadable(String, String),
}

/// The status of one environment.
#[derive(Debug, Serialize)]
struct EnvironmentRow {
    /// The directory of its env file, or the URL of its state.
    environment: String,
    /// The exit code of `monopile status`.
    exit_code: u8,
    /// The CID of the VM on record.
    vm: Option<String>,
    /// The result of asking the agent: `yes`, `no`, `foreign` or `not_asked`.
    agent: Option<String>,
    /// The overall state of the jobs.
    jobs: Option<String>,
    /// The error that the command ends with.
    problem: Option<String>,
    /// The hints of that error, for a shell in the directory of the environment.
    hints: Vec<String>,
}

/// Asks all environments and prints a line for each. The exit code is the highest one.
pub(super) fn run(session: &Session, request: &StatusAllRequest<'_>) -> Result<CommandResult> {
    let rows = signals::count_during(|| {
        let targets = match paths::is_url(request.path_or_url) {
            true => find_states(session, request.path_or_url)?,
            false => find_env_files(request.path_or_url)?,
        };
        let scratch = session.create_scratch()?;
        let asking = session.reporter.begin_stage(match targets.len() {
            1 => "Asking 1 environment".to_owned(),
            count => format!("Asking {count} environments"),
        });
        let processes = StatusProcesses {
            program: paths::executable()?,
            arguments: arguments(session, request)?,
            scratch: &scratch,
        };
        let rows = processes.ask_all(&targets, &asking)?;
        asking.finish();
        Ok(rows)
    })?;
    let output = match session.globals.prints_json() {
        true => CommandResult::Output(json_lines(&rows)?),
        false => CommandResult::Output(table(&rows).format_lines(&session.layout()).into_bytes()),
    };
    Ok(match problem_error(&rows) {
        Some(error) => output.with_problem(error),
        None => output,
    })
}

/// Finds the env files below a directory. Does not follow links to directories.
fn find_env_files(path_or_url: &Path) -> Result<Vec<StatusTarget>> {
    let root = paths::expand(path_or_url, paths::home().as_deref());
    if !root.is_dir() {
        let problem = if root.exists() { "is not a directory" } else { "does not exist" };
        return Err(Error::invalid(format!("'{}' (--all) {problem}", path_or_url.display()))
            .with_hint("name a directory with env files below it: `monopile status --all .`"));
    }
    let mut targets = Vec::new();
    for entry in WalkDir::new(&root).sort_by_file_name() {
        check_signals()?;
        match entry {
            Ok(entry) if entry.file_name() == FILE_NAME && !entry.file_type().is_dir() => {
                let directory = entry.path().parent().unwrap_or(&root).to_owned();
                // A link that leads nowhere would let the process find an env file further up.
                targets.push(match entry.path().exists() {
                    true => StatusTarget::Directory(directory),
                    false => StatusTarget::Unreadable(
                        entry.path().display().to_string(),
                        "the env file is a link to a file that does not exist".to_owned(),
                    ),
                });
            }
            Ok(_) => {}
            Err(error) => {
                let path = error.path().unwrap_or(&root).display().to_string();
                let reason = error.io_error().map_or_else(|| error.to_string(), os_problem);
                targets.push(StatusTarget::Unreadable(path, format!("it cannot be read: {reason}")));
            }
        }
        check_count(targets.len(), path_or_url)?;
    }
    if targets.is_empty() {
        return Err(Error::invalid(format!(
            "no env file {FILE_NAME} exists below '{}'",
            path_or_url.display()
        ))
        .with_hint("write one for each environment: `monopile help env-file set-it-up`"));
    }
    Ok(targets)
}

/// Finds the states below a prefix of a bucket.
fn find_states(session: &Session, path_or_url: &Path) -> Result<Vec<StatusTarget>> {
    let states = session.list_states_below(&path_or_url.to_string_lossy(), MAX_ENVIRONMENTS + 1)?;
    check_count(states.len(), path_or_url)?;
    if states.is_empty() {
        return Err(Error::invalid(format!("there is no state below '{}'", path_or_url.display()))
            .with_hint("check the prefix: the name of a state ends in .json"));
    }
    Ok(states.into_iter().map(StatusTarget::State).collect())
}

fn check_count(count: usize, path_or_url: &Path) -> Result<()> {
    if count <= MAX_ENVIRONMENTS {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "more than {MAX_ENVIRONMENTS} environments are below '{}'",
        path_or_url.display()
    ))
    .with_hint("name a directory or prefix further down: `monopile status --all DIR`"))
}

/// Returns the arguments of every process. Paths are absolute, because the process runs in another directory.
fn arguments(session: &Session, request: &StatusAllRequest<'_>) -> Result<Vec<String>> {
    let globals = &session.globals;
    let absolute = |path: &Path| -> Result<String> {
        let path = paths::absolute(&paths::expand(path, paths::home().as_deref()))?;
        Ok(path.to_string_lossy().into_owned())
    };
    let mut arguments = vec!["status".to_owned(), "--json".to_owned()];
    let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
    if let Some(directory) = &globals.cache_dir {
        add("--cache-dir", absolute(directory)?);
    }
    for path in &globals.identity {
        add("--identity", absolute(path)?);
    }
    for recipient in &globals.encrypt_to {
        let is_file = Path::new(recipient).exists();
        add("--encrypt-to", if is_file { absolute(Path::new(recipient))? } else { recipient.clone() });
    }
    globals.redact.iter().for_each(|name| add("--redact", name.clone()));
    arguments.extend(request.options.iter().cloned());
    Ok(arguments)
}

/// The processes of `monopile status` that this command starts.
struct StatusProcesses<'a> {
    program: PathBuf,
    arguments: Vec<String>,
    scratch: &'a Scratch,
}

impl StatusProcesses<'_> {
    /// Asks all environments, some at a time. Returns their rows in the order of the targets.
    fn ask_all(&self, targets: &[StatusTarget], stage: &Stage) -> Result<Vec<EnvironmentRow>> {
        let (next, done_count) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let rows: Mutex<Vec<Option<EnvironmentRow>>> = Mutex::new(targets.iter().map(|_| None).collect());
        let work = || {
            while check_signals().is_ok() {
                let index = next.fetch_add(1, Ordering::SeqCst);
                let Some(target) = targets.get(index) else { break };
                let row = self.ask(target);
                rows.lock()[index] = row;
                let done_count = done_count.fetch_add(1, Ordering::SeqCst) + 1;
                stage.report_progress(done_count as u64, Some(targets.len() as u64), Unit::Items);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..MAX_PROCESSES.min(targets.len()) {
                scope.spawn(work);
            }
            work();
        });
        // Rows are missing only after a signal.
        check_signals()?;
        Ok(rows.into_inner().into_iter().flatten().collect())
    }

    /// Asks one environment. Returns none after a signal.
    fn ask(&self, target: &StatusTarget) -> Option<EnvironmentRow> {
        let environment = match target {
            StatusTarget::Directory(directory) => display_path(directory),
            StatusTarget::State(url) => url.clone(),
            StatusTarget::Unreadable(path, problem) => {
                return Some(EnvironmentRow::for_problem(path.clone(), problem.clone()));
            }
        };
        match self.run_status(target) {
            Ok((exit_code, status, stderr)) => {
                Some(EnvironmentRow::new(environment, exit_code, &status, &stderr))
            }
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted(_)) => None,
            Err(error) => Some(EnvironmentRow::for_problem(environment, error.chain().join(": "))),
        }
    }

    /// Runs the process. Returns its exit code, its output, and the end of its standard error.
    fn run_status(&self, target: &StatusTarget) -> Result<(u8, Vec<u8>, Vec<u8>)> {
        let run_error = |error: io::Error| Error::io("running `monopile status`", error);
        let mut stderr_file = tempfile::tempfile_in(self.scratch.path()).map_err(run_error)?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr_file.try_clone().map_err(run_error)?);
        match target {
            StatusTarget::Directory(directory) => command.current_dir(directory),
            StatusTarget::State(url) => command.args(["--no-env-file", "--", url]),
            StatusTarget::Unreadable(..) => &mut command,
        };
        let mut process = Process(command.spawn().map_err(run_error)?);
        let status = match process.0.stdout.take() {
            Some(mut output) => read_to_end(&mut output, Instant::now() + ENVIRONMENT_TIMEOUT)?,
            None => Vec::new(),
        };
        // The output of the process has ended, so the process ends soon.
        let end = process.0.wait().map_err(run_error)?;
        let exit_code = end.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit_code::FAILURE);
        let length = stderr_file.seek(io::SeekFrom::End(0)).map_err(run_error)?;
        stderr_file.seek(io::SeekFrom::Start(length.saturating_sub(MAX_STDERR_BYTES))).map_err(run_error)?;
        let mut stderr = Vec::new();
        stderr_file.take(MAX_STDERR_BYTES).read_to_end(&mut stderr).map_err(run_error)?;
        Ok((exit_code, status, stderr))
    }
}

/// A process, which ends when this is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let has_ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if has_ended(&mut self.0) {
            return;
        }
        let start = Instant::now();
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // The second signal ends the wait for a CPI call.
        for _ in 0..2 {
            let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
            std::thread::sleep(Duration::from_millis(10));
        }
        while start.elapsed() < TERM_TIMEOUT && !has_ended(&mut self.0) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads the output of a process to its end, until `deadline`, a signal, or the maximum size.
fn read_to_end(output: &mut ChildStdout, deadline: Instant) -> Result<Vec<u8>> {
    let read_error = |error: io::Error| Error::io("reading the output of `monopile status`", error);
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        check_signals()?;
        if Instant::now() >= deadline {
            let timeout = base::text::format_duration(ENVIRONMENT_TIMEOUT);
            return Err(Error::failure(format!("no status within {timeout}")));
        }
        match poll(&mut [PollFd::new(output, PollFlags::IN)], Some(&SIGNAL_CHECK_INTERVAL)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(read_error(error.into())),
        }
        let count = output.read(&mut buffer).map_err(read_error)?;
        if count == 0 {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&buffer[..count]);
        if bytes.len() > MAX_STATUS_BYTES {
            return Err(read_error(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large")));
        }
    }
}

impl EnvironmentRow {
    fn new(environment: String, exit_code: u8, status: &[u8], stderr: &[u8]) -> EnvironmentRow {
        let status: Value = serde_json::from_slice(status).unwrap_or_default();
        let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let end = last_event(stderr);
        let list = |key: &str| -> Vec<String> {
            let list = end.get(key).and_then(Value::as_array);
            list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let problem = match list("errors") {
            errors if errors.is_empty() && exit_code != exit_code::SUCCESS => {
                Some(format!("`monopile status` ended with exit code {exit_code}"))
            }
            errors if errors.is_empty() => None,
            errors => Some(errors.join(": ")),
        };
        EnvironmentRow {
            environment,
            exit_code,
            vm: text("/vm/cid"),
            agent: text("/agent/reply"),
            jobs: text("/job_state"),
            problem,
            hints: list("hints"),
        }
    }

    fn for_problem(environment: String, problem: String) -> EnvironmentRow {
        EnvironmentRow {
            environment,
            exit_code: exit_code::FAILURE,
            vm: None,
            agent: None,
            jobs: None,
            problem: Some(problem),
            hints: Vec::new(),
        }
    }
}

/// Returns a path as the operator would write it, without a leading `./`.
fn display_path(directory: &Path) -> String {
    match directory.strip_prefix(".") {
        Ok(relative) if !relative.as_os_str().is_empty() => relative.display().to_string(),
        _ => directory.display().to_string(),
    }
}

/// Returns the event with which a process ended.
fn last_event(errors: &[u8]) -> Value {
    let mut lines = errors.split(|byte| *byte == b'\n').rev();
    let is_end = |event: &Value| event.get("event").is_some_and(|name| name == "run_finished");
    lines.find_map(|line| serde_json::from_slice(line).ok().filter(is_end)).unwrap_or_default()
}

fn json_lines(rows: &[EnvironmentRow]) -> Result<Vec<u8>> {
    let mut lines = String::new();
    for row in rows {
        let line = serde_json::to_string(row)
            .map_err(|error| Error::failure("encoding the status as JSON failed").with_source(error))?;
        lines.push_str(&base::text::escape_json(&line));
        lines.push('\n');
    }
    Ok(lines.into_bytes())
}

fn table(rows: &[EnvironmentRow]) -> Table {
    let mut table = Table::new(["Environment", "Code", "VM", "Agent", "Jobs", "Problem"]);
    for row in rows {
        let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
        let agent = match row.agent.as_deref() {
            Some("yes") => "answers",
            Some("no") => "no answer",
            Some("not_asked") => "not asked",
            other => other.unwrap_or_default(),
        };
        table.add_row([
            row.environment.clone(),
            row.exit_code.to_string(),
            or_empty(&row.vm),
            agent.to_owned(),
            or_empty(&row.jobs),
            row.problem.iter().flat_map(|problem| problem.lines()).take(1).collect(),
        ]);
    }
    table
}

/// Returns the error with the highest exit code, if an environment has a problem.
fn problem_error(rows: &[EnvironmentRow]) -> Option<Error> {
    let has_problem = |row: &&EnvironmentRow| row.exit_code != exit_code::SUCCESS;
    let count = rows.iter().filter(has_problem).count();
    let worst_row = rows.iter().max_by_key(|row| row.exit_code).filter(has_problem)?;
    let kind = match worst_row.exit_code {
        exit_code::USAGE => ErrorKind::Usage,
        exit_code::INVALID_INPUT => ErrorKind::InvalidInput,
        exit_code::LOCK_CONFLICT => ErrorKind::Locked,
        exit_code::AGENT_UNREACHABLE => ErrorKind::AgentUnreachable,
        exit_code::DRIFT => ErrorKind::Drift,
        _ => ErrorKind::Failure,
    };
    let verb = if count == 1 { "has" } else { "have" };
    let environments = if rows.len() == 1 { "environment" } else { "environments" };
    let error = Error::new(kind, format!("{count} of {} {environments} {verb} a problem", rows.len()));
    Some(error.with_hint(match paths::is_url(Path::new(&worst_row.environment)) {
        true => format!("to see more of one: `monopile status {}`", shell_word(&worst_row.environment)),
        false => {
            format!("to see more of one: `cd {} && monopile status`", shell_word(&worst_row.environment))
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(exit_code: u8) -> EnvironmentRow {
        EnvironmentRow {
            exit_code,
            problem: None,
            ..EnvironmentRow::for_problem(format!("env-{exit_code}"), String::new())
        }
    }

    #[test]
    fn highest_exit_code_counts() {
        assert!(problem_error(&[row(0), row(0)]).is_none());
        for (codes, worst) in [(&[0, 1][..], 1), (&[5, 3, 0], 5), (&[2, 6, 5], 6), (&[0, 4], 4), (&[2], 2)] {
            let rows: Vec<EnvironmentRow> = codes.iter().map(|code| row(*code)).collect();
            let error = problem_error(&rows).unwrap();
            assert_eq!(error.kind().exit_code(), worst);
            assert!(error.hints()[0].contains(&format!("env-{worst}")), "{:?}", error.hints());
        }
    }

    #[test]
    fn problem_is_that_of_the_last_event() {
        let errors = br#"{"event":"note","text":"x"}
{"event":"run_finished","errors":["no VM is on record","cause"],"hints":["do"],"exit_code":1}
no JSON"#;
        let row = EnvironmentRow::new(
            "a".to_owned(),
            1,
            br#"{"vm":{"cid":"vm-1"},"agent":{"reply":"yes"}}"#,
            errors,
        );
        assert_eq!(row.problem.as_deref(), Some("no VM is on record: cause"));
        assert_eq!(
            (row.vm.as_deref(), row.agent.as_deref(), row.hints.len()),
            (Some("vm-1"), Some("yes"), 1)
        );
        let row = EnvironmentRow::new("a".to_owned(), 1, b"", b"");
        assert_eq!(row.problem.as_deref(), Some("`monopile status` ended with exit code 1"));
        assert_eq!(EnvironmentRow::new("a".to_owned(), 0, b"", b"").problem, None);
    }

    #[test]
    fn directories_are_shown_as_operators_write_them() {
        for (path, expected) in [(".", "."), ("./a/b", "a/b"), ("../a", "../a"), ("/a", "/a"), ("a", "a")] {
            assert_eq!(display_path(Path::new(path)), expected);
        }
    }

    #[test]
    fn output_has_limits() {
        let mut child = Command::new("sleep").arg("60").stdout(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let process = Process(child);
        let error = read_to_end(&mut output, Instant::now()).unwrap_err();
        assert!(error.to_string().contains("no status within 2 min 00 s"), "{error}");
        drop(process);
        let mut child = Command::new("cat").arg("/dev/zero").stdout(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let process = Process(child);
        let error = read_to_end(&mut output, Instant::now() + ENVIRONMENT_TIMEOUT).unwrap_err();
        assert!(error.chain().join(" ").contains("too large"), "{error}");
        drop(process);
    }
}
