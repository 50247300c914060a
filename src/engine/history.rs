//! What runs there were: a small record of each, in a directory of its own on this machine.
//!
//! A record is made when a run begins, and made anew when it has a plan and when it ends. In between the run holds a
//! lock on it, so that a record without an end tells whether the run is still on or was killed.

use std::fs::{self, DirBuilder, File};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use crate::state::Storage;
use base::events::AnnouncedStep;
use base::files::Locked;
use base::files::durable::{Replacement, newest_first, sweep_temporaries};
use base::{Error, Result, encoding};

/// How many records of one state are kept.
const KEPT: usize = 100;
/// A record is some KiB; what is larger is none.
const LIMIT: u64 = 4 << 20;
const EXTENSION: &str = "json";
/// Sorts by time.
const NAME: &[BorrowedFormatItem<'_>] =
    format_description!("[year][month][day]T[hour][minute][second].[subsecond digits:3]Z");

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The command: `create-env`.
    pub command: String,
    /// The state file it was about.
    pub state: PathBuf,
    /// When it began, RFC 3339 UTC.
    pub started: String,
    /// The process.
    pub pid: u32,
    /// The version of this program.
    pub version: String,
    /// Its log, as long as that is kept.
    pub log: Option<PathBuf>,
    /// What it was going to do; none where a run is not planned, or never came so far.
    #[serde(default)]
    pub plan: Option<Plan>,
    /// How it ended.
    #[serde(default)]
    pub end: Option<End>,
}

/// What a run was going to do, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What its steps come to, in one sentence.
    pub headline: String,
    /// The steps in their order.
    pub steps: Vec<AnnouncedStep>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Its exit code.
    pub exit_code: u8,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
    /// What came of it, in one sentence, without secrets.
    pub summary: String,
    /// The steps it took, in the order in which they began.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// True if the operator answered a question of the run with no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declined: bool,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What it did: `Creating VM …`.
    pub name: String,
    /// `done`, `skipped` or `failed`.
    pub outcome: String,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
}

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It is still on.
    Running,
    /// It did what was asked.
    Succeeded,
    /// It did not.
    Failed,
    /// The operator answered its question with no.
    Declined,
    /// A signal ended it in order.
    Interrupted,
    /// It ended without a word: SIGKILL, or the machine went down.
    Killed,
}

/// A run with what became of it.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// What became of it.
    pub result: Fate,
    /// The rest.
    #[serde(flatten)]
    pub record: Record,
}

/// A run that is on.
#[derive(Debug)]
pub struct Running {
    path: PathBuf,
    record: Record,
    /// Locked while it is on.
    held: Locked,
}

/// Makes the record of a run that begins now; the oldest ones of the same state go.
pub fn begin(directory: &Path, command: &str, state: &Path, log: Option<&Path>) -> Result<Running> {
    let failed = |error| Error::io(format!("recording the run in '{}'", directory.display()), error);
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let now = OffsetDateTime::now_utc();
    let state = &real(state)?;
    let record = Record {
        command: command.to_owned(),
        state: state.clone(),
        started: encoding::rfc3339(now),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        log: log.map(Path::to_owned),
        plan: None,
        end: None,
    };
    let name =
        format!("{}-{}.{EXTENSION}", now.format(NAME).unwrap_or_default(), uuid::Uuid::new_v4().simple());
    let path = directory.join(name);
    let held = put(&path, &record)?;
    prune(directory, state);
    Ok(Running { path, record, held })
}

impl Running {
    /// It is clear what the run is going to do.
    pub fn planned(&mut self, plan: Plan) -> Result<()> {
        self.record.plan = Some(plan);
        self.held = put(&self.path, &self.record)?;
        Ok(())
    }

    /// Records the end of the run.
    pub fn finish(&self, end: End) -> Result<()> {
        put(&self.path, &Record { end: Some(end), ..self.record.clone() }).map(drop)
    }
}

/// Writes a record; it is locked as long as what this returns is there.
fn put(path: &Path, record: &Record) -> Result<Locked> {
    let bytes = text(record)?;
    let replace = || {
        let replacement = Replacement::write(path, &bytes, 0o600)?;
        // Where locks are not supported, a run that is on looks killed until it ends.
        let _ = replacement.file().try_lock();
        replacement.put_in_place()
    };
    replace()
        .map(Locked::from)
        .map_err(|error| Error::io(format!("recording the run in '{}'", path.display()), error))
}

/// The runs on record, newest first; of one state, if it is named. What is no record is left out.
pub fn list(directory: &Path, state: Option<&Path>) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    let state = state.map(real).transpose()?;
    for path in paths(directory)? {
        let is_wanted = |run: &Run| state.as_ref().is_none_or(|state| run.record.state == *state);
        if let Some(run) = read(&path).filter(is_wanted) {
            runs.push(run);
        }
    }
    Ok(runs)
}

/// One name for a state file, however it is called: links and `..` lead to the same one.
fn real(state: &Path) -> Result<PathBuf> {
    let path = Storage::from(state).resolved()?.place();
    let directory = path.parent().and_then(|directory| directory.canonicalize().ok());
    Ok(match (directory, path.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        // There is no such directory, and so no state.
        _ => path,
    })
}

fn text(record: &Record) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(record)
        .map_err(|error| Error::environment("encoding the record of a run failed").with_source(error))
}

/// The files of records, newest first.
fn paths(directory: &Path) -> Result<Vec<PathBuf>> {
    newest_first(directory, EXTENSION).map_err(|error| {
        Error::io(format!("reading the records of runs in '{}'", directory.display()), error)
    })
}

fn read(path: &Path) -> Option<Run> {
    let (record, held) = record(path)?;
    let fate = |record: &Record| match &record.end {
        Some(end) if end.declined => Fate::Declined,
        Some(End { exit_code: 0, .. }) => Fate::Succeeded,
        Some(End { exit_code: 129.., .. }) => Fate::Interrupted,
        Some(_) => Fate::Failed,
        None if held => Fate::Running,
        None => Fate::Killed,
    };
    if fate(&record) != Fate::Killed {
        return Some(Run { result: fate(&record), record });
    }
    // It may have ended, and have let go of the old file, since that was opened.
    let record = self::record(path).map_or(record, |(record, _)| record);
    Some(Run { result: fate(&record), record })
}

/// What a file says, and whether its run is on.
fn record(path: &Path) -> Option<(Record, bool)> {
    let file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    (&file).take(LIMIT).read_to_end(&mut bytes).ok()?;
    let held = matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock));
    Some((serde_json::from_slice(&bytes).ok()?, held))
}

/// Removes the oldest records of a state. Whatever cannot be removed stays.
fn prune(directory: &Path, state: &Path) {
    let old = paths(directory).unwrap_or_default();
    let same = |path: &&PathBuf| record(path).is_some_and(|(record, held)| !held && record.state == state);
    for path in old.iter().filter(same).skip(KEPT) {
        let _ = sweep_temporaries(path).and_then(|()| fs::remove_file(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(exit_code: u8) -> End {
        End { exit_code, elapsed_ms: 0, summary: String::new(), steps: Vec::new(), declined: false }
    }

    fn begin_at(directory: &Path, state: &str) -> Running {
        begin(directory, "create-env", Path::new(state), None).unwrap()
    }

    #[test]
    fn a_run_is_on_then_over_or_killed() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("history");
        let state = Path::new("/x/state.json");
        assert!(list(&directory, None).unwrap().is_empty());
        let mut run = begin_at(&directory, "/x/state.json");
        let fates =
            || list(&directory, Some(state)).unwrap().iter().map(|run| run.result).collect::<Vec<_>>();
        assert_eq!(fates(), [Fate::Running]);
        let told =
            AnnouncedStep { step: "create_vm".into(), what: "Create the VM".into(), reason: "none".into() };
        let plan = Plan { headline: "A VM is created".into(), steps: vec![told] };
        run.planned(plan.clone()).unwrap();
        assert_eq!(fates(), [Fate::Running], "it lets go of its record");
        let steps = vec![Step { name: "Creating VM".into(), outcome: "done".into(), elapsed_ms: 5 }];
        let summary = "Deployed".to_owned();
        run.finish(End { elapsed_ms: 1500, summary, steps: steps.clone(), ..ended(0) }).unwrap();
        drop(run);
        let runs = list(&directory, Some(state)).unwrap();
        assert_eq!(runs[0].result, Fate::Succeeded);
        assert_eq!(runs[0].record.plan, Some(plan));
        let end = runs[0].record.end.clone().unwrap();
        assert_eq!((end.elapsed_ms, end.summary.as_str(), end.steps), (1500, "Deployed", steps));

        // The lock goes with its process, and so it does here.
        std::thread::sleep(std::time::Duration::from_millis(2));
        drop(begin_at(&directory, "/x/state.json"));
        assert_eq!(fates(), [Fate::Killed, Fate::Succeeded]);
        let declined = End { declined: true, ..ended(2) };
        let ends = [(ended(5), Fate::Failed), (ended(130), Fate::Interrupted), (declined, Fate::Declined)];
        for (end, fate) in ends {
            std::thread::sleep(std::time::Duration::from_millis(2));
            begin_at(&directory, "/x/state.json").finish(end).unwrap();
            assert_eq!(fates()[0], fate);
        }
        assert!(list(&directory, Some(Path::new("/y"))).unwrap().is_empty());
    }

    #[test]
    fn a_state_is_the_same_by_whatever_way_it_is_reached() {
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
    fn nobody_else_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("history");
        let run = begin_at(&directory, "/x");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&run.path)), (0o700, 0o600));
    }

    #[test]
    fn the_newest_of_each_state_are_kept() {
        let base = tempfile::tempdir().unwrap();
        let other = begin_at(base.path(), "/other");
        fs::write(base.path().join("19990101T000000.000Z-notes.json"), "{}").unwrap();
        for number in 0..KEPT + 20 {
            let name = format!("20200101T000000.{number:03}Z-x.json");
            let record = Record { started: number.to_string(), state: "/x".into(), ..other.record.clone() };
            fs::write(base.path().join(name), text(&record).unwrap()).unwrap();
        }
        let _run = begin_at(base.path(), "/x");
        let kept = list(base.path(), Some(Path::new("/x"))).unwrap();
        // The one that is on is beside them.
        assert_eq!((kept.len(), kept[1].record.started.as_str()), (KEPT + 1, "119"));
        assert_eq!(list(base.path(), Some(Path::new("/other"))).unwrap().len(), 1);
        assert!(base.path().join("19990101T000000.000Z-notes.json").exists());
    }
}
