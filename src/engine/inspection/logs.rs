//! `logs`: prints, follows or saves the logs of jobs, agent and system.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use walkdir::WalkDir;

use super::follow::Follower;
use super::reach;
use crate::agent::{Agent, LogArchive};
use crate::environment::{Environment, signals};
use base::text;
use base::{Error, Result};
use manifest::Inputs;

/// The maximum size of a fetched archive, in bytes.
const ARCHIVE_LIMIT: u64 = 16 << 30;
/// The number of lines of each file shown first when logs are followed.
const FOLLOWED_LINES: usize = 10;
/// Names or extensions of files that are not printable text: compressed logs, and the system's login records.
const NO_TEXT: [&str; 8] = ["gz", "xz", "bz2", "zst", "wtmp", "btmp", "lastlog", "journal"];

/// The origin of logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// The logs of jobs.
    Job,
    /// The agent's own log.
    Agent,
    /// The logs of the operating system in `/var/log`.
    System,
}

/// `logs`.
#[derive(Debug, Clone)]
pub struct Logs {
    /// The manifest and what goes into it.
    pub inputs: Inputs,
    /// `--agent-timeout`: how long the agent may take to answer.
    pub agent_timeout: Duration,
    /// The origins of the wanted logs.
    pub kinds: Vec<LogKind>,
    /// The jobs whose logs are wanted. With `filters`, logs that match either are included; if both are
    /// empty, all logs are.
    pub jobs: Vec<String>,
    /// Globs of names below the log directory.
    pub filters: Vec<String>,
    /// The number of last lines of each file; none means all.
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

impl Logs {
    /// Returns the log types in the form of the agent's message.
    fn types(&self) -> String {
        let name = |kind: &LogKind| match kind {
            LogKind::Job => "job",
            LogKind::Agent => "agent",
            LogKind::System => "system",
        };
        self.kinds.iter().map(name).collect::<Vec<_>>().join(",")
    }

    /// Reaches the agent and checks the job names. A misspelled name would otherwise just match no logs.
    fn reach(&self, environment: &Environment) -> Result<Agent> {
        let agent = reach(environment, &self.inputs, self.agent_timeout)?.agent;
        if !self.jobs.is_empty() {
            let known = super::jobs(&agent.get_full_state()?);
            if let Some(other) = self.jobs.iter().find(|job| !known.contains(job)) {
                let named = || Some(format!("its jobs are: {}", known.join(", ")));
                return Err(Error::invalid(format!("job '{other}' is not on the VM"))
                    .with_nearest(other, known.iter().map(String::as_str), named)
                    .with_hint("--filter finds what a job has left that is not there any more"));
            }
        }
        Ok(agent)
    }

    fn fetch(&self, agent: &Agent, environment: &Environment) -> Result<LogArchive> {
        let jobs = self.jobs.iter().map(|job| format!("{job}/**/*"));
        let filters: Vec<String> = jobs.chain(self.filters.iter().cloned()).collect();
        LogArchive::fetch(agent, &self.types(), &filters, &environment.paths.work, ARCHIVE_LIMIT)
    }
}

/// Saves the agent's archive, readable only by its owner. Its content is not redacted.
pub fn save_logs(request: &Logs, environment: &Environment, to: &Path) -> Result<SavedLogs> {
    let agent = request.reach(environment)?;
    let fetching = environment.reporter.stage("Fetching logs");
    let archive = request.fetch(&agent, environment)?;
    // Tools that unpack the archive later may not check its paths.
    archive.check()?;
    let failed = |error| Error::io(format!("saving the logs as '{}'", to.display()), error);
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut saved = tempfile::Builder::new().prefix(".logs-").tempfile_in(parent).map_err(failed)?;
    let mut from = File::open(archive.path()).map_err(failed)?;
    let bytes = std::io::copy(&mut from, saved.as_file_mut()).map_err(failed)?;
    saved.as_file().sync_all().map_err(failed)?;
    // An existing file may be the only copy of something.
    saved.persist_noclobber(to).map_err(|error| failed(error.error))?;
    fetching.finish();
    Ok(SavedLogs { path: to.to_owned(), bytes })
}

/// Prints the logs file by file, redacted.
pub fn print_logs(request: &Logs, environment: &Environment, print: &mut dyn FnMut(&str)) -> Result<()> {
    let agent = request.reach(environment)?;
    let fetching = environment.reporter.stage("Fetching logs");
    let tree = request.fetch(&agent, environment)?;
    let root = tree.unpack()?;
    fetching.finish();
    let files = files(&root);
    if files.is_empty() {
        environment.reporter.note("there is nothing in these logs");
    }
    let mut first = true;
    for path in &files {
        let name = path.strip_prefix(&root).unwrap_or(path);
        if !is_text(name) {
            environment.reporter.note(format!("'{}' is not text: --out or --dir saves it", name.display()));
            continue;
        }
        if !request.quiet {
            if !first {
                print("");
            }
            print(&header(name));
        }
        first = false;
        for line in lines(path, request.lines)? {
            print(&shown(environment, &line));
        }
        signals::check(environment)?;
    }
    Ok(())
}

/// Prints new lines of the logs until a signal arrives or the agent does not answer for too long.
pub fn follow_logs(request: &Logs, environment: &Environment, print: &mut dyn FnMut(&str)) -> Result<()> {
    let agent = request.reach(environment)?;
    let quiet = request.quiet;
    let mut follower = Follower::new(request.lines.unwrap_or(FOLLOWED_LINES));
    let mut shown_last: Option<PathBuf> = None;
    follower.run(environment, &agent, request.agent_timeout, &mut |agent, follower| {
        let archive = request.fetch(agent, environment)?;
        let root = archive.unpack()?;
        for path in files(&root) {
            let name = path.strip_prefix(&root).unwrap_or(&path).to_owned();
            if !is_text(&name) {
                continue;
            }
            for line in follower.news(&name, &path)? {
                if !quiet && shown_last.as_ref() != Some(&name) {
                    if shown_last.is_some() {
                        print("");
                    }
                    print(&header(&name));
                    shown_last = Some(name.clone());
                }
                print(&shown(environment, &line));
            }
        }
        Ok(())
    })
}

fn header(name: &Path) -> String {
    format!("==> {} <==", text::clean(&name.display().to_string()))
}

/// Returns a printable line, without secrets and terminal control sequences.
fn shown(environment: &Environment, line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    environment.redactor.show_line(text.trim_end_matches(['\n', '\r']))
}

/// Lists the files in the archive, sorted by name.
fn files(root: &Path) -> Vec<PathBuf> {
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
    !NO_TEXT.iter().any(|other| word == *other)
}

/// Returns all lines of a file, or only the last ones.
fn lines(path: &Path, last: Option<usize>) -> Result<Vec<Vec<u8>>> {
    let failed = |error| Error::io(format!("reading '{}'", path.display()), error);
    let reader = BufReader::new(fs::File::open(path).map_err(failed)?);
    let mut kept = std::collections::VecDeque::new();
    for line in reader.split(b'\n') {
        if last.is_some_and(|last| kept.len() >= last) {
            kept.pop_front();
        }
        if last != Some(0) {
            kept.push_back(line.map_err(failed)?);
        }
    }
    Ok(kept.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.log");
        fs::write(&path, "a\nb\nc\n").unwrap();
        let of = |last| -> Vec<String> {
            lines(&path, last).unwrap().into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
        };
        assert_eq!(of(None), ["a", "b", "c"]);
        assert_eq!(of(Some(2)), ["b", "c"]);
        assert_eq!(of(Some(0)), [""; 0]);
        assert_eq!(of(Some(9)), ["a", "b", "c"]);
    }

    #[test]
    fn compressed_logs_are_no_text() {
        for (name, text) in
            [("a/b.log", true), ("a/current", true), ("a.1.gz", false), ("var/log/wtmp", false)]
        {
            assert_eq!(is_text(Path::new(name)), text, "{name}");
        }
    }
}
