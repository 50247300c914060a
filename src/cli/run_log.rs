//! The run log: the debug output of each run that can change an environment, below
//! `$XDG_STATE_HOME/monopile/logs`. Only the owner can read it. The newest [`MAX_KEPT_LOGS`] logs are kept.
//!
//! Lines are redacted when they are written. The whole file is redacted again at the end of the run, because
//! a secret may become known after a line that holds it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use base::files::directory::list_newest_first;
use base::files::durable::{
    Replacement, create_private_directory, create_private_file, remove_temporaries, temporary_path,
};
use base::{Error, Result, encoding};
use base::{
    events::{Event, Outcome, Sink, Warning},
    redact::Redactor,
};

/// The number of logs that are kept.
const MAX_KEPT_LOGS: usize = 20;
/// The maximum size of a log, in bytes.
const MAX_LOG_BYTES: u64 = 64 << 20;
const LOG_EXTENSION: &str = "log";
/// The time format of file names. It sorts by time.
const FILE_NAME_FORMAT: &[BorrowedFormatItem<'_>] =
    format_description!("[year][month][day]T[hour][minute][second].[subsecond digits:3]Z");

/// The log of this run. Cheap to clone; clones share the file.
#[derive(Clone)]
pub(super) struct RunLog {
    file: Arc<OnceLock<LogFile>>,
    redactor: Redactor,
}

/// An open log.
struct LogFile {
    path: PathBuf,
    /// The locked file and its size. The lock keeps other runs from removing it.
    file_and_size: Mutex<(File, u64)>,
}

impl RunLog {
    pub(super) fn new(redactor: Redactor) -> Self {
        RunLog { file: Arc::default(), redactor }
    }

    /// Begins a log in `directory`, and removes the oldest ones there.
    pub(super) fn open(&self, directory: &Path, command: &str) -> Result<()> {
        let create_error = |error| {
            Error::io(format!("creating a log in '{}'", directory.display()), error)
                .with_path_hint(directory, "XDG_STATE_HOME=DIR")
        };
        create_private_directory(directory).map_err(create_error)?;
        let time = OffsetDateTime::now_utc().format(FILE_NAME_FORMAT).unwrap_or_default();
        let words = command.replace(' ', "-");
        let name = format!("{time}-{words}-{}.{LOG_EXTENSION}", std::process::id());
        let path = directory.join(name);
        // Lock the file before it gets its name, so that no other run removes it.
        let new_path = temporary_path(&path, "new");
        let file = create_private_file(&new_path).map_err(create_error)?;
        // Where locks are not supported, old logs are kept.
        let _ = file.try_lock();
        fs::rename(&new_path, &path).map_err(create_error)?;
        prune(directory);
        let _ = self.file.set(LogFile { path, file_and_size: Mutex::new((file, 0)) });
        self.add_line("INFO", &format!("monopile {} {command}", env!("CARGO_PKG_VERSION")));
        Ok(())
    }

    /// Returns the path of an open log.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.get().map(|file| file.path.as_path())
    }

    /// Adds a text with the time and the level before it.
    fn add_line(&self, level: &str, text: &str) {
        if self.file.get().is_some() {
            self.write(&format!("{} {level:>5} {text}", encoding::now()));
        }
    }

    /// Adds text as it is, redacted. A full log takes nothing more.
    pub(super) fn write(&self, text: &str) {
        let Some(log) = self.file.get() else { return };
        let text = self.redactor.clean_and_redact(text.trim_end());
        let mut open_file = log.lock();
        let (file, size) = &mut *open_file;
        if *size >= MAX_LOG_BYTES {
            return;
        }
        *size += text.len() as u64 + 1;
        let end = if *size >= MAX_LOG_BYTES { "\n(the log is full)\n" } else { "\n" };
        // A log that cannot be written must not stop the run.
        let _ = file.write_all(format!("{text}{end}").as_bytes());
    }

    /// Ends the log: redacts secrets that became known after their lines were written.
    pub(super) fn finish(&self) {
        let Some(log) = self.file.get() else { return };
        let open_file = log.lock();
        let Ok(bytes) = fs::read(&log.path) else { return };
        let text = String::from_utf8_lossy(&bytes);
        let clean_text = self.redactor.redact(&text);
        if clean_text != text {
            let replacement = Replacement::write(&log.path, clean_text.as_bytes(), 0o600);
            if replacement.and_then(Replacement::put_in_place).is_err() {
                // The log is removed, because it may hold secrets.
                let _ = fs::remove_file(&log.path);
            }
        }
        drop(open_file);
    }
}

impl LogFile {
    fn lock(&self) -> MutexGuard<'_, (File, u64)> {
        self.file_and_size.lock()
    }
}

/// Removes the oldest logs that no run holds, and partial files of killed runs. Files that cannot be removed
/// stay.
fn prune(directory: &Path) {
    let logs = list_newest_first(directory, LOG_EXTENSION).unwrap_or_default();
    for path in logs.iter().skip(MAX_KEPT_LOGS) {
        if File::open(path).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = remove_temporaries(path).and_then(|()| fs::remove_file(path));
        }
    }
}

/// A sink that writes events to the log and passes them on.
pub(super) struct LoggingSink {
    pub(super) log: RunLog,
    pub(super) next: Arc<dyn Sink>,
}

impl Sink for LoggingSink {
    fn receive(&self, event: &Event) {
        self.next.receive(event);
        match event {
            Event::StageStarted { id, name, .. } => self.log.add_line("INFO", &format!("[{id}] {name} ...")),
            Event::StageFinished { id, outcome, elapsed } => {
                let outcome = match outcome {
                    Outcome::Skipped { reason } | Outcome::Unsuccessful { reason } => {
                        &format!("{} ({reason})", outcome.word())
                    }
                    other => other.word(),
                };
                self.log.add_line("INFO", &format!("[{id}] {outcome} after {} ms", elapsed.as_millis()));
            }
            Event::Planned { headline, steps } => {
                let steps: String = steps.iter().map(|step| format!("\n  {}", step.description)).collect();
                self.log.add_line("INFO", &format!("plan: {headline}{steps}"));
            }
            Event::StepStarted { number, count, description, reason, .. } => {
                self.log.add_line("INFO", &format!("step {number} of {count}: {description}: {reason}"));
            }
            // `Planned` has the steps.
            Event::PlanShown { .. } => {}
            Event::State { path } => self.log.add_line("INFO", &format!("state: {path}")),
            Event::Note { text } => self.log.add_line("INFO", text),
            Event::Warning(Warning { text, hints }) => {
                let hints: String = hints.iter().map(|hint| format!("\n  hint: {hint}")).collect();
                self.log.add_line("WARN", &format!("{text}{hints}"));
            }
            Event::RunFinished { has_succeeded: true, summary, .. } => self.log.add_line("INFO", summary),
            Event::RunFinished { errors, notes, hints, exit_code, .. } => {
                let errors = errors.join("\n  cause: ");
                let notes: String = notes.iter().map(|note| format!("\n  note: {note}")).collect();
                let hints: String = hints.iter().map(|hint| format!("\n  hint: {hint}")).collect();
                self.log.add_line("ERROR", &format!("{errors}{notes}{hints}\n  exit code: {exit_code}"));
            }
            // Log lines of the CPI reach this log through `tracing`.
            Event::StageLog { .. }
            | Event::StageProgress { .. }
            | Event::StepApplied
            | Event::ChangeStarted => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn begin(directory: &Path) -> RunLog {
        let log = RunLog::new(Redactor::default());
        log.open(directory, "create-env").unwrap();
        log
    }

    fn logs(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn log_is_readable_by_its_owner_only() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("monopile/logs");
        let log = begin(&directory);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(log.path().unwrap())), (0o700, 0o600));
    }

    #[test]
    fn secrets_learned_later_are_redacted_at_the_end() {
        let base = tempfile::tempdir().unwrap();
        let log = begin(base.path());
        log.write("a hint with hunter22, hun\x1b[1mter22");
        log.redactor.add("hunter22");
        log.finish();
        let text = fs::read_to_string(log.path().unwrap()).unwrap();
        assert!(text.contains("a hint with <redacted>, <redacted>") && !text.contains("hunter22"), "{text}");
        assert_eq!(logs(base.path()), 1);
    }

    #[test]
    fn newest_logs_and_those_of_running_runs_are_kept() {
        let base = tempfile::tempdir().unwrap();
        let at_work = base.path().join("20200101T000000.000Z-create-env-1.log");
        let lock = File::create(&at_work).unwrap();
        lock.lock().unwrap();
        fs::write(base.path().join("notes.txt"), "").unwrap();
        let old = |number: usize| base.path().join(format!("20200102T0000{number:02}.000Z-delete-env-2.log"));
        for number in 0..30 {
            fs::write(old(number), "").unwrap();
        }
        fs::write(base.path().join(format!(".{}.x.tmp", old(3).file_name().unwrap().to_str().unwrap())), "")
            .unwrap();
        let log = begin(base.path());
        assert!(at_work.exists() && log.path().unwrap().exists());
        assert!(!old(10).exists() && old(11).exists());
        // In addition to the newest logs, there are the notes and the running log.
        assert_eq!(logs(base.path()), MAX_KEPT_LOGS + 2);
    }

    #[test]
    fn parallel_runs_keep_their_logs() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path();
        let logs = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..40)
                .map(|number| {
                    scope.spawn(move || {
                        let log = RunLog::new(Redactor::default());
                        // The name of a log contains the command and the process id.
                        log.open(directory, &format!("c{number}")).unwrap();
                        log.write("here");
                        log
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        for log in &logs {
            assert!(fs::read_to_string(log.path().unwrap()).unwrap().contains("here"));
        }
    }

    #[test]
    fn log_size_is_limited() {
        let base = tempfile::tempdir().unwrap();
        let log = begin(base.path());
        let line = "x".repeat(1 << 20);
        for _ in 0..70 {
            log.write(&line);
        }
        assert!(fs::metadata(log.path().unwrap()).unwrap().len() < MAX_LOG_BYTES + (2 << 20));
    }
}
