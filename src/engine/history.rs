//! The history of runs on this machine: one small record for each run.
//!
//! A record is written when a run begins, when it has a plan, when it begins a step, and when it ends.
//! Meanwhile the run holds a lock on its record, which shows whether a run without an end still goes on or
//! was killed.
//!
//! The records of each state are in a directory of their own, so that a machine with many environments reads
//! only those of one.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use crate::state::Storage;
use base::events::ReportedStep;
use base::files::UnlockOnDrop;
use base::files::directory::list_newest_first;
use base::files::durable::{Replacement, create_private_directory, remove_temporaries};
use base::{Error, Result, encoding};

/// The number of records kept for one state, besides that of the current run.
const MAX_KEPT_RECORDS: usize = 100;
/// The maximum size of a record that is read, in bytes. Usual records are some KiB.
const MAX_RECORD_BYTES: u64 = 4 << 20;
/// The extension of the files of records.
const RECORD_EXTENSION: &str = "json";
/// The variable that selects another directory for the records.
const STATE_HOME_ASSIGNMENT: &str = "XDG_STATE_HOME=DIR";
/// The time format of file names. It sorts by time.
const FILE_NAME_FORMAT: &[BorrowedFormatItem<'_>] =
    format_description!("[year][month][day]T[hour][minute][second].[subsecond digits:3]Z");

/// The record of a run in the history: the content of one JSON file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The command, such as `create-env`.
    pub command: String,
    /// The path or URL of its state.
    pub state: PathBuf,
    /// The time at which it began, RFC 3339 UTC.
    #[serde(alias = "started")]
    pub started_at: String,
    /// The process id.
    pub pid: u32,
    /// The version of this program.
    pub version: String,
    /// The path of its log, which may be gone.
    pub log: Option<PathBuf>,
    /// Its plan; `None` if the command has no plan or ended before it was made.
    #[serde(default)]
    pub plan: Option<RecordedPlan>,
    /// The number of changes that it began: steps of its plan, repairs, and stops, starts and boots without a
    /// plan. `None` in records of builds before the first release.
    #[serde(default, alias = "begun_steps")]
    pub begun_change_count: Option<usize>,
    /// Its end; `None` while it runs or if it was killed.
    #[serde(default)]
    pub end: Option<RunEnd>,
}

impl RunRecord {
    /// Returns true if the run began to change the VM, its jobs or its resources. A record of a
    /// build before the first release lacks the count: its run began if it had something to do.
    pub fn has_begun_changes(&self) -> bool {
        let planned_step_count = || self.plan.as_ref().map_or(0, |plan| plan.steps.len());
        self.begun_change_count.unwrap_or_else(planned_step_count) > 0
    }
}

/// The plan of a run, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPlan {
    /// A summary of the steps in one sentence.
    pub headline: String,
    /// The steps in order.
    pub steps: Vec<ReportedStep>,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// The exit code of the process, see `base::exit_code`.
    pub exit_code: u8,
    /// Its duration in milliseconds.
    pub elapsed_ms: u64,
    /// A summary of the outcome in one sentence, without secrets.
    pub summary: String,
    /// Its stages by their starts, each followed by the stages below it.
    #[serde(default, alias = "steps")]
    pub stages: Vec<RecordedStage>,
    /// True if the operator answered a question of the run with no.
    #[serde(default, rename = "declined", skip_serializing_if = "std::ops::Not::not")]
    pub was_declined: bool,
}

/// A stage of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedStage {
    /// Its description, such as `Creating VM …`.
    pub name: String,
    /// Number of enclosing stages.
    #[serde(default)]
    pub depth: usize,
    /// `done`, `skipped`, `unsuccessful` or `failed`.
    pub outcome: String,
    /// Its duration in milliseconds.
    pub elapsed_ms: u64,
}

/// The outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// The run still goes on.
    Running,
    /// The run succeeded.
    Succeeded,
    /// The run failed.
    Failed,
    /// The operator declined.
    Declined,
    /// The run stopped at a safe place after a signal.
    Interrupted,
    /// The run ended without a record of its end, by SIGKILL or because the machine went down.
    Killed,
}

/// A run with its outcome.
#[derive(Debug, Clone, Serialize)]
pub struct RecordedRun {
    /// The outcome, by the recorded end or by the lock on the record.
    pub outcome: RunOutcome,
    /// The record of the run.
    #[serde(flatten)]
    pub record: RunRecord,
}

/// The record of the current run, to which its plan, steps and end are added.
#[derive(Debug)]
pub struct OpenRunRecord {
    path: PathBuf,
    record: RunRecord,
    /// The locked record. The end of the process releases the lock.
    lock: UnlockOnDrop,
}

/// Writes the record of a run that begins now, and removes the oldest records of the same state.
pub fn begin(directory: &Path, command: &str, state: &Path, log: Option<&Path>) -> Result<OpenRunRecord> {
    let record_error = |error| {
        Error::io(format!("recording the run in '{}'", directory.display()), error)
            .with_path_hint(directory, STATE_HOME_ASSIGNMENT)
    };
    let now = OffsetDateTime::now_utc();
    let state = &canonicalize_state(state)?;
    let directory = &directory_of(directory, state);
    create_private_directory(directory).map_err(record_error)?;
    let record = RunRecord {
        command: command.to_owned(),
        state: state.clone(),
        started_at: encoding::rfc3339(now),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        log: log.map(Path::to_owned),
        plan: None,
        begun_change_count: Some(0),
        end: None,
    };
    let name = format!(
        "{}-{}.{RECORD_EXTENSION}",
        now.format(FILE_NAME_FORMAT).unwrap_or_default(),
        uuid::Uuid::new_v4().simple()
    );
    let path = directory.join(name);
    let lock = write_record(&path, &record)?;
    prune(directory);
    Ok(OpenRunRecord { path, record, lock })
}

impl OpenRunRecord {
    /// Records the plan of the run.
    pub fn record_plan(&mut self, plan: RecordedPlan) -> Result<()> {
        self.record.plan = Some(plan);
        self.lock = write_record(&self.path, &self.record)?;
        Ok(())
    }

    /// Records that the run begins a step or another change, such as a repair. Writes the record at once,
    /// because a killed run records no end.
    pub fn record_change(&mut self) -> Result<()> {
        *self.record.begun_change_count.get_or_insert(0) += 1;
        self.lock = write_record(&self.path, &self.record)?;
        Ok(())
    }

    /// Records the end of the run.
    pub fn finish(&self, end: RunEnd) -> Result<()> {
        write_record(&self.path, &RunRecord { end: Some(end), ..self.record.clone() }).map(drop)
    }
}

/// Writes a record. The returned guard holds the lock on it.
fn write_record(path: &Path, record: &RunRecord) -> Result<UnlockOnDrop> {
    let bytes = encode(record)?;
    let replace = || {
        let replacement = Replacement::write(path, &bytes, 0o600)?;
        // On a file system without locks, a current run looks killed until it ends.
        let _ = replacement.file().try_lock();
        replacement.put_in_place()
    };
    replace()
        .map(UnlockOnDrop::from)
        .map_err(|error| Error::io(format!("recording the run in '{}'", path.display()), error))
        .map_err(|error| error.with_path_hint(path, STATE_HOME_ASSIGNMENT))
}

/// Returns the recorded runs, newest first, or only those of one state. Skips files that are not records.
pub fn list(directory: &Path, state: Option<&Path>) -> Result<Vec<RecordedRun>> {
    let mut paths = match state {
        Some(state) => list_paths(&directory_of(directory, &canonicalize_state(state)?))?,
        None => {
            let directories = list_directories(directory).map_err(|error| read_error(directory, error))?;
            let paths = directories.iter().map(|directory| list_paths(directory));
            paths.collect::<Result<Vec<_>>>()?.concat()
        }
    };
    paths.sort_by(|one, other| other.file_name().cmp(&one.file_name()));
    Ok(paths.iter().filter_map(|path| read(path)).collect())
}

/// Returns true if the newest of these runs that began to deploy did not succeed. The runs are those of one
/// state, newest first.
pub fn has_failed_deploy(runs: &[RecordedRun]) -> bool {
    let deploys = |recorded_run: &&RecordedRun| {
        recorded_run.record.has_begun_changes()
            && ["create-env", "recreate"].contains(&&*recorded_run.record.command)
    };
    runs.iter().find(deploys).is_some_and(|recorded_run| {
        matches!(recorded_run.outcome, RunOutcome::Failed | RunOutcome::Killed | RunOutcome::Interrupted)
    })
}

/// Returns the newest of these runs that deployed, unless a later `delete-env` deleted everything. The runs
/// are those of one state, newest first.
pub(crate) fn find_last_deploy(runs: &[RecordedRun]) -> Option<&RecordedRun> {
    let succeeded = |recorded_run: &&RecordedRun| recorded_run.outcome == RunOutcome::Succeeded;
    let newest = runs.iter().filter(succeeded).find(|recorded_run| {
        let RunRecord { command, plan, .. } = &recorded_run.record;
        // A `delete-env` that found no state has no plan.
        ["create-env", "recreate"].contains(&&**command) || command == "delete-env" && plan.is_some()
    });
    newest.filter(|recorded_run| recorded_run.record.command != "delete-env")
}

/// Returns the newest of these runs that began to change something, or a newer create-env that found nothing
/// left to do after it was interrupted or failed. The runs are those of one state, newest first.
pub(crate) fn find_last_change(runs: &[RecordedRun]) -> Option<&RecordedRun> {
    let has_begun = |recorded_run: &&RecordedRun| recorded_run.record.has_begun_changes();
    let has_deployed = |recorded_run: &&RecordedRun| {
        recorded_run.outcome == RunOutcome::Succeeded && recorded_run.record.command == "create-env"
    };
    match runs.iter().find(has_begun) {
        Some(newest_change) if newest_change.outcome != RunOutcome::Succeeded => {
            runs.iter().find(|recorded_run| has_begun(recorded_run) || has_deployed(recorded_run))
        }
        newest_change => newest_change,
    }
}

/// Returns the directory with the records of a state.
fn directory_of(directory: &Path, canonical_state: &Path) -> PathBuf {
    let digest = Sha256::digest(canonical_state.as_os_str().as_encoded_bytes());
    directory.join(hex::encode(&digest[..16]))
}

/// Returns the directories of all states.
fn list_directories(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    Ok(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
}

fn read_error(directory: &Path, error: io::Error) -> Error {
    Error::io(format!("reading the records of runs in '{}'", directory.display()), error)
        .with_path_hint(directory, "XDG_STATE_HOME")
}

/// Returns the canonical path of a state file. Paths with links or `..` give the same result.
fn canonicalize_state(state: &Path) -> Result<PathBuf> {
    let path = Storage::from(state).resolve_links()?.path_or_url();
    let directory = path.parent().and_then(|directory| directory.canonicalize().ok());
    Ok(match (directory, path.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        // The directory does not exist, so no state exists.
        _ => path,
    })
}

fn encode(record: &RunRecord) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(record)
        .map_err(|error| Error::failure("encoding the record of a run failed").with_source(error))
}

/// Returns the files of records, newest first.
fn list_paths(directory: &Path) -> Result<Vec<PathBuf>> {
    list_newest_first(directory, RECORD_EXTENSION).map_err(|error| read_error(directory, error))
}

fn read(path: &Path) -> Option<RecordedRun> {
    let (record, is_held) = read_record(path)?;
    let outcome = |record: &RunRecord| match &record.end {
        Some(end) if end.was_declined => RunOutcome::Declined,
        Some(RunEnd { exit_code: 0, .. }) => RunOutcome::Succeeded,
        Some(RunEnd { exit_code: 129.., .. }) => RunOutcome::Interrupted,
        Some(_) => RunOutcome::Failed,
        None if is_held => RunOutcome::Running,
        None => RunOutcome::Killed,
    };
    if outcome(&record) != RunOutcome::Killed {
        return Some(RecordedRun { outcome: outcome(&record), record });
    }
    // The run may have ended, and replaced the file, since it was opened.
    let record = read_record(path).map_or(record, |(record, _)| record);
    Some(RecordedRun { outcome: outcome(&record), record })
}

/// Reads a record. Also returns true if its run still goes on.
fn read_record(path: &Path) -> Option<(RunRecord, bool)> {
    let file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    (&file).take(MAX_RECORD_BYTES).read_to_end(&mut bytes).ok()?;
    let is_held = matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock));
    Some((serde_json::from_slice(&bytes).ok()?, is_held))
}

/// Removes the oldest records in the directory of a state. Records that cannot be removed stay.
fn prune(directory: &Path) {
    let records = list_paths(directory).unwrap_or_default();
    let is_over = |path: &&PathBuf| read_record(path).is_some_and(|(_, is_held)| !is_held);
    // The record of the current run is the newest one.
    for path in records.iter().skip(MAX_KEPT_RECORDS + 1).filter(is_over) {
        let _ = remove_temporaries(path).and_then(|()| fs::remove_file(path));
    }
}

#[cfg(test)]
mod tests {
    use time::format_description::well_known::Rfc3339;

    use super::*;

    fn run_end(exit_code: u8) -> RunEnd {
        RunEnd { exit_code, elapsed_ms: 0, summary: String::new(), stages: Vec::new(), was_declined: false }
    }

    fn begin_at(directory: &Path, state: &str) -> OpenRunRecord {
        begin(directory, "create-env", Path::new(state), None).unwrap()
    }

    #[test]
    fn run_status_is_running_ended_or_killed() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("history");
        let state = Path::new("/x/state.json");
        assert!(list(&directory, None).unwrap().is_empty());
        let mut run = begin_at(&directory, "/x/state.json");
        let outcomes = || {
            list(&directory, Some(state))
                .unwrap()
                .iter()
                .map(|recorded_run| recorded_run.outcome)
                .collect::<Vec<_>>()
        };
        assert_eq!(outcomes(), [RunOutcome::Running]);
        let step = ReportedStep {
            step_kind: "create_vm".into(),
            description: "Create the VM".into(),
            reason: "none".into(),
        };
        let plan = RecordedPlan { headline: "Create a VM".into(), steps: vec![step] };
        run.record_plan(plan.clone()).unwrap();
        assert!(!run.record.has_begun_changes());
        run.record_change().unwrap();
        assert_eq!(outcomes(), [RunOutcome::Running], "the record is no longer locked");
        let stages = vec![RecordedStage {
            name: "Creating VM".into(),
            depth: 0,
            outcome: "done".into(),
            elapsed_ms: 5,
        }];
        let summary = "Deployed".to_owned();
        run.finish(RunEnd { elapsed_ms: 1500, summary, stages: stages.clone(), ..run_end(0) }).unwrap();
        drop(run);
        let runs = list(&directory, Some(state)).unwrap();
        assert_eq!(runs[0].outcome, RunOutcome::Succeeded);
        assert_eq!(runs[0].record.plan, Some(plan));
        assert_eq!((runs[0].record.begun_change_count, runs[0].record.has_begun_changes()), (Some(1), true));
        let end = runs[0].record.end.clone().unwrap();
        assert_eq!((end.elapsed_ms, end.summary.as_str(), end.stages), (1500, "Deployed", stages));

        // Dropping the value releases the lock, as the end of the process would.
        std::thread::sleep(std::time::Duration::from_millis(2));
        drop(begin_at(&directory, "/x/state.json"));
        assert_eq!(outcomes(), [RunOutcome::Killed, RunOutcome::Succeeded]);
        let declined_end = RunEnd { was_declined: true, ..run_end(2) };
        let ends = [
            (run_end(5), RunOutcome::Failed),
            (run_end(130), RunOutcome::Interrupted),
            (declined_end, RunOutcome::Declined),
        ];
        for (end, outcome) in ends {
            std::thread::sleep(std::time::Duration::from_millis(2));
            begin_at(&directory, "/x/state.json").finish(end).unwrap();
            assert_eq!(outcomes()[0], outcome);
        }
        assert!(list(&directory, Some(Path::new("/y"))).unwrap().is_empty());
    }

    #[test]
    fn paths_to_the_same_state_are_equivalent() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("history");
        let deployments = base.path().join("deployments");
        fs::create_dir_all(deployments.join("below")).unwrap();
        std::os::unix::fs::symlink(&deployments, base.path().join("link")).unwrap();
        begin_at(&directory, deployments.join("below/../state.json").to_str().unwrap());
        for path in [deployments.join("state.json"), base.path().join("link/state.json")] {
            assert_eq!(list(&directory, Some(&path)).unwrap().len(), 1, "{}", path.display());
        }
        assert!(list(&directory, Some(&deployments.join("below/state.json"))).unwrap().is_empty());
    }

    #[test]
    fn records_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("history");
        let run = begin_at(&directory, "/x");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let state_directory = run.path.parent().unwrap();
        assert_eq!((mode(&directory), mode(state_directory), mode(&run.path)), (0o700, 0o700, 0o600));
    }

    #[test]
    fn run_of_an_older_version_has_begun_if_it_had_steps() {
        let base = tempfile::tempdir().unwrap();
        let example_step = || ReportedStep {
            step_kind: "create_vm".into(),
            description: "Create the VM".into(),
            reason: "none".into(),
        };
        for (steps, has_begun) in
            [(None, false), (Some(Vec::new()), false), (Some(vec![example_step()]), true)]
        {
            let run = begin_at(base.path(), "/x");
            let mut record = serde_json::to_value(&run.record).unwrap();
            record.as_object_mut().unwrap().remove("begun_change_count");
            let mut record: RunRecord = serde_json::from_value(record).unwrap();
            record.plan = steps.map(|steps| RecordedPlan { headline: "Create a VM".into(), steps });
            assert_eq!((record.begun_change_count, record.has_begun_changes()), (None, has_begun));
        }
    }

    #[test]
    fn reads_the_keys_of_an_older_version() {
        let text = r#"{
            "command": "create-env", "state": "/x", "started": "2026-01-01T00:00:00Z", "pid": 1,
            "version": "0", "log": null, "begun_steps": 2,
            "plan": {
                "headline": "Create a VM",
                "steps": [{"step": "create_vm", "what": "Create", "reason": "none"}]
            },
            "end": {
                "exit_code": 0, "elapsed_ms": 1, "summary": "Deployed",
                "steps": [{"name": "Creating VM", "outcome": "done", "elapsed_ms": 1}]
            }
        }"#;
        let record: RunRecord = serde_json::from_str(text).unwrap();
        assert_eq!((&*record.started_at, record.begun_change_count), ("2026-01-01T00:00:00Z", Some(2)));
        assert_eq!(record.plan.unwrap().steps[0].step_kind, "create_vm");
        assert_eq!(record.end.unwrap().stages[0].name, "Creating VM");
    }

    #[test]
    fn create_env_without_changes_finishes_an_interrupted_run() {
        let base = tempfile::tempdir().unwrap();
        let record = begin_at(base.path(), "/x").record.clone();
        let run = |command: &str, outcome, begun_change_count| RecordedRun {
            outcome,
            record: RunRecord {
                command: command.to_owned(),
                begun_change_count: Some(begun_change_count),
                ..record.clone()
            },
        };
        let unchanged = || run("create-env", RunOutcome::Succeeded, 0);
        for (runs, expected) in [
            (vec![], None),
            (vec![unchanged(), run("create-env", RunOutcome::Killed, 2)], Some(0)),
            (vec![run("create-env", RunOutcome::Killed, 2), unchanged()], Some(0)),
            (vec![run("status", RunOutcome::Failed, 0), run("restart", RunOutcome::Failed, 1)], Some(1)),
            // The jobs are still stopped.
            (vec![unchanged(), run("stop-env", RunOutcome::Succeeded, 1)], Some(1)),
        ] {
            let last_change = find_last_change(&runs);
            assert_eq!(last_change.map(|run| &run.record), expected.map(|index: usize| &runs[index].record));
        }
    }

    #[test]
    fn newest_records_of_each_state_are_kept() {
        let base = tempfile::tempdir().unwrap();
        let other_run = begin_at(base.path(), "/other");
        drop(begin_at(base.path(), "/x"));
        let directory = directory_of(base.path(), Path::new("/x"));
        fs::write(directory.join("19990101T000000.000Z-notes.json"), "{}").unwrap();
        for number in 0..MAX_KEPT_RECORDS + 20 {
            let name = format!("20200101T000000.{number:03}Z-x.json");
            let record =
                RunRecord { started_at: number.to_string(), state: "/x".into(), ..other_run.record.clone() };
            fs::write(directory.join(name), encode(&record).unwrap()).unwrap();
        }
        let _run = begin_at(base.path(), "/x");
        let kept_runs = list(base.path(), Some(Path::new("/x"))).unwrap();
        // The record of the current run is an additional one.
        assert_eq!((kept_runs.len(), kept_runs[2].record.started_at.as_str()), (MAX_KEPT_RECORDS + 1, "119"));
        assert_eq!(list(base.path(), Some(Path::new("/other"))).unwrap().len(), 1);
        assert!(directory.join("19990101T000000.000Z-notes.json").exists());
        let all_runs = list(base.path(), None).unwrap();
        assert_eq!(all_runs.len(), kept_runs.len() + 1);
        let times: Vec<OffsetDateTime> = all_runs[..3]
            .iter()
            .map(|recorded_run| OffsetDateTime::parse(&recorded_run.record.started_at, &Rfc3339).unwrap())
            .collect();
        assert!(times.is_sorted_by(|one, other| one >= other), "the newest is not the first: {times:?}");
    }

    #[test]
    fn records_of_other_states_are_not_read() {
        let base = tempfile::tempdir().unwrap();
        drop(begin_at(base.path(), "/x"));
        let other_directory = directory_of(base.path(), Path::new("/other"));
        // A file in place of the directory cannot be listed, so every access fails.
        fs::write(&other_directory, "").unwrap();
        assert_eq!(list(base.path(), Some(Path::new("/x"))).unwrap().len(), 1);
        assert!(list(base.path(), Some(Path::new("/other"))).is_err());
    }
}
