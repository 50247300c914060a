//! `logs`: prints, follows or saves the logs of jobs, agent and system.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use walkdir::WalkDir;

use super::follow::Follower;
use super::lines::LineSplitter;
use super::{ReachedVm, find_vm_and_wait};
use crate::agent_client::{Agent, LogArchive};
use crate::protocol::BuiltinCpi;
use crate::run_context::{RunContext, signals};
use base::events::Warning;
use base::files::start_of_last_lines;
use base::text;
use base::{Error, Result};
use manifest::Inputs;

/// The maximum size of a fetched archive, in bytes.
pub const MAX_ARCHIVE_BYTES: u64 = 16 << 30;
/// The number of lines of each file shown first when logs are followed.
pub(super) const FOLLOWED_LINES: usize = 10;
/// The size of the buffer for reading a log, in bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// The size of a block of lines that is redacted at once, in bytes.
const BLOCK_BYTES: usize = 256 << 10;
/// The maximum number of blocks that are redacted in parallel.
const MAX_THREADS: usize = 8;
/// Names or extensions of files that are not printable text: compressed logs, and the system's login records.
const BINARY_LOGS: [&str; 8] = ["gz", "xz", "bz2", "zst", "wtmp", "btmp", "lastlog", "journal"];

/// The origin of logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogOrigin {
    /// The logs of jobs.
    Job,
    /// The agent's own log.
    Agent,
    /// The logs of the operating system in `/var/log`.
    System,
}

/// The request of `logs`.
#[derive(Debug, Clone)]
pub struct LogsRequest {
    /// The manifest, its ops files and variables.
    pub inputs: Inputs,
    /// `--agent-timeout`: how long the agent may take to answer.
    pub agent_timeout: Duration,
    /// The origins of the requested logs.
    pub origins: Vec<LogOrigin>,
    /// The jobs whose logs are wanted. With `filters`, logs that match either are included; if both are
    /// empty, all logs are.
    pub jobs: Vec<String>,
    /// Globs of names below the log directory.
    pub filters: Vec<String>,
    /// The number of last lines of each file; `None` means all, or [`FOLLOWED_LINES`] if the logs are
    /// followed.
    pub lines: Option<usize>,
    /// `--quiet`: omit the names of files.
    pub quiet: bool,
}

/// A saved archive.
#[derive(Debug, serde::Serialize)]
pub struct SavedLogs {
    /// Its path.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

impl LogsRequest {
    /// Returns the log types in the form of the agent's message.
    fn types(&self) -> String {
        let name = |origin: &LogOrigin| match origin {
            LogOrigin::Job => "job",
            LogOrigin::Agent => "agent",
            LogOrigin::System => "system",
        };
        self.origins.iter().map(name).collect::<Vec<_>>().join(",")
    }

    /// Reaches the agent and checks the job names. A misspelt name would otherwise just match no logs.
    fn reach_vm(&self, run: &RunContext) -> Result<ReachedVm> {
        let vm = find_vm_and_wait(run, &self.inputs, self.agent_timeout, "monopile ssh MANIFEST")?;
        if !self.jobs.is_empty() {
            let vm_jobs = super::job_names(&vm.agent.get_full_state()?);
            if let Some(other) = self.jobs.iter().find(|job| !vm_jobs.contains(job)) {
                let known_jobs_hint = || {
                    Some(match vm_jobs.as_slice() {
                        [job] => format!("the only job on the VM is '{job}'"),
                        jobs => format!("the jobs on the VM are {}", text::comma_list(jobs)),
                    })
                };
                let glob = format!("{other}/**/*");
                let filter = text::shell_word(&glob);
                return Err(Error::invalid(format!("job '{other}' is not on the VM"))
                    .with_nearest(other, vm_jobs.iter().map(String::as_str), known_jobs_hint)
                    .with_hint(format!(
                        "to search for logs of a removed job: `monopile logs MANIFEST --filter {filter}`"
                    )));
            }
        }
        Ok(vm)
    }

    /// Returns the globs of the logs to fetch.
    fn globs(&self) -> Vec<String> {
        let jobs = self.jobs.iter().map(|job| format!("{job}/**/*"));
        jobs.chain(self.filters.iter().cloned()).collect()
    }

    fn fetch(&self, agent: &Agent, run: &RunContext) -> Result<LogArchive> {
        LogArchive::fetch(agent, &self.types(), &self.globs(), &run.paths.scratch, MAX_ARCHIVE_BYTES)
    }

    /// Returns the warning that there are no such logs on the VM of this CPI.
    fn no_logs_warning(&self, builtin: Option<BuiltinCpi>) -> Warning {
        let name_and_option = |origin: &LogOrigin| match origin {
            LogOrigin::Job => ("the jobs", ""),
            LogOrigin::Agent => ("the agent", " --agent"),
            LogOrigin::System => ("the system", " --system"),
        };
        let (names, options): (Vec<&str>, Vec<&str>) = self.origins.iter().map(name_and_option).unzip();
        let options = match self.origins.contains(&LogOrigin::Job) && self.origins.len() > 1 {
            true => " --all-logs".to_owned(),
            false => options.concat(),
        };
        let origins = text::and_list(&names);
        let globs: Vec<String> = self.globs().iter().map(|glob| format!("'{glob}'")).collect();
        if !globs.is_empty() {
            return Warning::new(format!("no log of {origins} matches {}", text::comma_list(&globs)))
                .with_hint(format!("to see all of them: `monopile logs MANIFEST{options}`"));
        }
        let mut warning = Warning::new(format!("the VM has no logs of {origins}"));
        if self.origins.len() == 1 {
            warning = warning.with_hint("to see other logs: `monopile logs MANIFEST --all-logs`");
        }
        if builtin.is_some_and(BuiltinCpi::keeps_vms_here) {
            warning = warning.with_hint("to see the console of the VM: `monopile logs MANIFEST --console`");
        }
        warning
    }
}

/// Saves the agent's archive, readable only by its owner. Its content is not redacted.
pub fn save_logs(request: &LogsRequest, run: &RunContext, target: &Path) -> Result<SavedLogs> {
    let agent = request.reach_vm(run)?.agent;
    let fetching = run.reporter.begin_stage("Fetching logs");
    let archive = request.fetch(&agent, run)?;
    // Tools that unpack the archive later may not check its paths.
    archive.check()?;
    let save_error = |error| {
        Error::io(format!("saving the logs as '{}'", target.display()), error)
            .with_path_hint(target, "--out FILE or --dir DIR")
    };
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".logs-").tempfile_in(parent).map_err(save_error)?;
    let mut archive_file = File::open(archive.path()).map_err(save_error)?;
    let bytes = std::io::copy(&mut archive_file, file.as_file_mut()).map_err(save_error)?;
    file.as_file().sync_all().map_err(save_error)?;
    // An existing file may be the only copy of something.
    file.persist_noclobber(target).map_err(|error| save_error(error.error))?;
    fetching.finish();
    Ok(SavedLogs { path: target.to_owned(), bytes })
}

/// Prints the logs file by file, redacted.
pub fn print_logs(request: &LogsRequest, run: &RunContext, print: &mut dyn FnMut(&str)) -> Result<()> {
    let ReachedVm { agent, builtin, .. } = request.reach_vm(run)?;
    let fetching = run.reporter.begin_stage("Fetching logs");
    let archive = request.fetch(&agent, run)?;
    let root = archive.unpack()?;
    fetching.finish();
    let files = list_files(&root);
    if files.is_empty() {
        run.reporter.warn(request.no_logs_warning(builtin));
    }
    let mut is_first = true;
    for path in &files {
        let name = path.strip_prefix(&root).unwrap_or(path);
        if !is_text(name) {
            run.reporter.note(format!("'{}' is not text; to save it, use --out or --dir", name.display()));
            continue;
        }
        if !request.quiet {
            if !is_first {
                print("");
            }
            print(&header(name));
        }
        is_first = false;
        print_lines(path, request.lines, run, print)?;
    }
    Ok(())
}

/// Prints new lines of the logs until a signal arrives or the agent does not answer for too long.
pub fn follow_logs(request: &LogsRequest, run: &RunContext, print: &mut dyn FnMut(&str)) -> Result<()> {
    let agent = request.reach_vm(run)?.agent;
    let quiet = request.quiet;
    let mut follower = Follower::new(request.lines.unwrap_or(FOLLOWED_LINES));
    let mut last_shown_name: Option<PathBuf> = None;
    follower.follow(run, &agent, request.agent_timeout, &mut |agent, follower| {
        let archive = request.fetch(agent, run)?;
        let root = archive.unpack()?;
        for path in list_files(&root) {
            let name = path.strip_prefix(&root).unwrap_or(&path).to_owned();
            if !is_text(&name) {
                continue;
            }
            for line in follower.new_lines(&name, &path)?.split_inclusive(|byte| *byte == b'\n') {
                if !quiet && last_shown_name.as_ref() != Some(&name) {
                    if last_shown_name.is_some() {
                        print("");
                    }
                    print(&header(&name));
                    last_shown_name = Some(name.clone());
                }
                print(&printable_line(run, line));
            }
        }
        Ok(())
    })
}

fn header(name: &Path) -> String {
    format!("==> {} <==", text::clean(&name.display().to_string()))
}

/// Returns a printable line, without secrets and terminal control sequences.
pub(super) fn printable_line(run: &RunContext, line: &[u8]) -> String {
    run.redactor.clean_and_redact_line(&text::decode_line(line))
}

/// Prints the lines of a log. Redacting them takes most of the time, so blocks of lines are redacted on other
/// threads, one per processor, while the next blocks are read and the previous ones printed.
fn print_lines(
    path: &Path,
    max_lines: Option<usize>,
    run: &RunContext,
    print: &mut dyn FnMut(&str),
) -> Result<()> {
    let max_threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    thread::scope(|scope| {
        let mut redaction_threads: VecDeque<ScopedJoinHandle<'_, String>> = VecDeque::new();
        let mut print_first = |redaction_threads: &mut VecDeque<ScopedJoinHandle<'_, String>>| {
            if let Some(redaction_thread) = redaction_threads.pop_front() {
                print(&redaction_thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            signals::check_may_continue(run)
        };
        let mut block = LineBlock::default();
        for_each_line(path, max_lines, &mut |line| {
            if block.bytes.len() >= BLOCK_BYTES {
                if redaction_threads.len() == max_threads {
                    print_first(&mut redaction_threads)?;
                }
                let full_block = std::mem::take(&mut block);
                redaction_threads.push_back(scope.spawn(move || full_block.printable_lines(run)));
            }
            block.bytes.extend_from_slice(line);
            block.ends.push(block.bytes.len());
            Ok(())
        })?;
        let last_lines = block.printable_lines(run);
        while !redaction_threads.is_empty() {
            print_first(&mut redaction_threads)?;
        }
        if !block.ends.is_empty() {
            print(&last_lines);
        }
        Ok(())
    })
}

/// Lines that are not redacted yet.
#[derive(Default)]
struct LineBlock {
    bytes: Vec<u8>,
    /// The end of each line in `bytes`.
    ends: Vec<usize>,
}

impl LineBlock {
    /// Returns the printable lines, joined with line breaks.
    fn printable_lines(&self, run: &RunContext) -> String {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let mut lines = starts.zip(&self.ends).filter_map(|(start, end)| self.bytes.get(start..*end));
        run.redactor.clean_and_redact_lines(&mut lines)
    }
}

/// Lists the files in the archive, sorted by name.
fn list_files(root: &Path) -> Vec<PathBuf> {
    WalkDir::new(root)
        .sort_by_file_name()
        .into_iter()
        .flatten()
        .filter(|entry| entry.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .collect()
}

fn is_text(name: &Path) -> bool {
    let word = name.extension().or(name.file_name()).unwrap_or_default();
    !BINARY_LOGS.iter().any(|other| word == *other)
}

/// Passes the lines of a file, or only the last ones, to `use_line`. Needs little memory, however large the
/// file is.
fn for_each_line(
    path: &Path,
    max_lines: Option<usize>,
    use_line: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let read_error = |error| Error::io(format!("reading '{}'", path.display()), error);
    let open_reader = || {
        let mut file = File::open(path)?;
        if let Some(max_lines) = max_lines {
            let length = file.metadata()?.len();
            let start =
                start_of_last_lines(length, max_lines, |buffer, offset| file.read_at(buffer, offset))?;
            file.seek(SeekFrom::Start(start))?;
        }
        Ok(BufReader::with_capacity(BUFFER_BYTES, file))
    };
    let mut splitter = LineSplitter::default();
    splitter.read(&mut open_reader().map_err(read_error)?, read_error, use_line)?;
    splitter.finish(use_line)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn returns_the_last_lines_of_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.log");
        fs::write(&path, "a\nb\nc\n").unwrap();
        let last_lines = |last| -> Vec<String> {
            let mut lines = Vec::new();
            let mut add = |line: &[u8]| {
                lines.push(String::from_utf8(line.to_vec()).unwrap());
                Ok(())
            };
            for_each_line(&path, last, &mut add).unwrap();
            lines
        };
        assert_eq!(last_lines(None), ["a", "b", "c"]);
        assert_eq!(last_lines(Some(2)), ["b", "c"]);
        assert_eq!(last_lines(Some(0)), [""; 0]);
        assert_eq!(last_lines(Some(9)), ["a", "b", "c"]);
        fs::write(&path, "a\n\nb").unwrap();
        assert_eq!(last_lines(None), ["a", "", "b"]);
        assert_eq!(last_lines(Some(2)), ["", "b"]);
    }

    #[test]
    fn compressed_logs_are_not_printed() {
        for (name, text) in
            [("a/b.log", true), ("a/current", true), ("a.1.gz", false), ("var/log/wtmp", false)]
        {
            assert_eq!(is_text(Path::new(name)), text, "{name}");
        }
    }
}
