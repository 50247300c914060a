//! The last lines of logs on the VM, as a part of error messages.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use walkdir::WalkDir;

use crate::agent_client::{Agent, LogArchive};
use base::Result;

/// The number of files shown: the most recently written ones.
const MAX_FILES: usize = 3;
/// The number of lines shown of each file.
const MAX_LINES: usize = 10;
/// The maximum size of the part that is read from the end of a file, in bytes.
const MAX_TAIL_BYTES: u64 = 16 * 1024;
/// The maximum length of a shown line, in characters.
const MAX_LINE_CHARS: usize = 400;
/// The maximum size of a fetched archive, in bytes.
const MAX_ARCHIVE_BYTES: u64 = 512 << 20;

/// The precision of the times in an archive of logs. Times are rounded down.
const TIME_PRECISION: Duration = Duration::from_secs(1);

/// The lifecycle scripts of jobs. Their logs are `pre-start.stdout.log` and the like.
const SCRIPT_NAMES: [&str; 6] = ["pre-start", "post-start", "post-deploy", "pre-stop", "drain", "post-stop"];

/// The last lines of a log.
pub(super) struct LogTail {
    /// The path below the log directory.
    name: String,
    lines: Vec<String>,
    /// The time of the last write, by the VM's clock.
    modification_time: SystemTime,
}

impl LogTail {
    /// Returns the time between the last write and `start_time`, if the log was last written at least
    /// [`TIME_PRECISION`] before it. A job or script that writes nothing leaves the logs of an earlier run.
    fn age_at(&self, start_time: SystemTime) -> Option<Duration> {
        start_time.duration_since(self.modification_time).ok().filter(|age| *age >= TIME_PRECISION)
    }

    /// Returns true if the log was written after `start_time`, or less than [`TIME_PRECISION`] before it.
    pub(super) fn is_of_this_run(&self, start_time: SystemTime) -> bool {
        self.age_at(start_time).is_none()
    }

    /// Returns its last line with its name.
    pub(super) fn last_line(&self) -> Option<String> {
        Some(format!("{}: {}", self.name, self.lines.last()?))
    }
}

/// Formats the tails of logs. Logs that were last written before `start_time`, the time at which this run
/// started the script or the jobs, are marked, and with `has_run_before` also those that were written since.
pub(super) fn format_tails(tails: &[LogTail], start_time: SystemTime, has_run_before: bool) -> String {
    let text = |tail: &LogTail| {
        let age = match tail.age_at(start_time) {
            Some(age) => format!(
                " (last written {} before this run started it, so perhaps by an earlier run)",
                base::text::format_duration(age)
            ),
            None if has_run_before => " (which may have lines of earlier runs)".to_owned(),
            None => String::new(),
        };
        // Below one of several headers, the lines are indented.
        let indentation = if tails.len() > 1 { "  " } else { "" };
        let lines: Vec<String> = tail.lines.iter().map(|line| format!("{indentation}{line}")).collect();
        format!("the end of {}{age}:\n{}", tail.name, lines.join("\n"))
    };
    tails.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// Returns true for a log that no lifecycle script writes.
pub(super) fn is_of_process(name: &Path) -> bool {
    let file = name.file_name().unwrap_or_default().to_string_lossy();
    !SCRIPT_NAMES.iter().any(|script| file.strip_prefix(script).is_some_and(|rest| rest.starts_with('.')))
}

/// Returns the last lines of the most recently written job logs that match one of the globs and that
/// `is_shown` accepts. Those of standard error come first. Logs without content are left out, and so are
/// those that were last written longer than `span` before the newest one.
pub(super) fn fetch_tails(
    agent: &Agent,
    scratch: &Path,
    filters: &[String],
    is_shown: fn(&Path) -> bool,
    span: Duration,
) -> Result<Vec<LogTail>> {
    let archive = LogArchive::fetch(agent, "job", filters, scratch, MAX_ARCHIVE_BYTES)?;
    let tree = archive.unpack()?;
    Ok(read_tails_below(&tree, is_shown, span))
}

fn read_tails_below(root: &Path, is_shown: fn(&Path) -> bool, span: Duration) -> Vec<LogTail> {
    let relative_path = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_owned();
    let mut files: Vec<(bool, SystemTime, PathBuf)> = WalkDir::new(root)
        .into_iter()
        .flatten()
        .filter(|entry| entry.file_type().is_file())
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            let is_of_errors = entry.file_name().to_string_lossy().contains("stderr");
            let modification_time = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            (metadata.len() > 0 && is_shown(&relative_path(entry.path())))
                .then(|| (is_of_errors, modification_time, entry.into_path()))
        })
        .collect();
    // All times are those of the VM's clock.
    let newest = files
        .iter()
        .map(|(_, modification_time, _)| *modification_time)
        .max()
        .unwrap_or(SystemTime::UNIX_EPOCH);
    let span = span.saturating_add(TIME_PRECISION);
    files.retain(|(_, modification_time, _)| {
        newest.duration_since(*modification_time).is_ok_and(|age| age <= span)
    });
    files.sort_by(|a, b| b.cmp(a));
    files.truncate(MAX_FILES);
    let tail = |(_, modification_time, path): &(bool, SystemTime, PathBuf)| {
        let lines = read_last_lines(path).ok().filter(|lines| !lines.is_empty())?;
        Some(LogTail {
            name: relative_path(path).display().to_string(),
            lines,
            modification_time: *modification_time,
        })
    };
    files.iter().filter_map(tail).collect()
}

fn read_last_lines(path: &Path) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let length = fs::metadata(path)?.len();
    let start = length.saturating_sub(MAX_TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MAX_TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line may lack its beginning.
    let whole_lines = if start > 0 { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
    Ok(last_lines(whole_lines))
}

/// Returns the last lines of a text. Equal lines in a row are shown once, with their number.
pub(super) fn last_lines(text: &str) -> Vec<String> {
    let mut counted_lines: Vec<(&str, usize)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match counted_lines.last_mut() {
            Some((last, count)) if *last == line => *count += 1,
            _ => counted_lines.push((line, 1)),
        }
    }
    let last_lines = counted_lines.split_off(counted_lines.len().saturating_sub(MAX_LINES));
    let line_text = |(line, count): (&str, usize)| match count {
        1 => clip(line),
        count => format!("{} ({count} times)", clip(line)),
    };
    last_lines.into_iter().map(line_text).collect()
}

fn clip(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_last_lines_of_the_newest_files() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str, age: u64| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            let time = SystemTime::now() - Duration::from_secs(age);
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        };
        let long_text: String = (0..100).map(|number| format!("line {number}\n")).collect();
        write("a/many.log", &long_text, 10);
        write("a/empty.log", "", 1);
        write("a/new.log", "\nboom\n\n", 2);
        write("b/long.log", &"x".repeat(50_000), 20);
        write("b/old.log", "old\n", 1000);
        let tails = read_tails_below(directory.path(), |_| true, Duration::MAX);
        let text = format_tails(&tails, SystemTime::now() - Duration::from_secs(5), true);
        assert!(text.starts_with("the end of a/new.log (which may have lines of earlier runs):\n"), "{text}");
        assert!(text.contains("the end of a/many.log (last written 5."), "{text}");
        let ages = tails.iter().map(|tail| tail.is_of_this_run(SystemTime::now() - Duration::from_secs(5)));
        assert_eq!(ages.collect::<Vec<_>>(), [true, false]);
        let text = format_tails(&tails, SystemTime::UNIX_EPOCH, false);
        assert!(
            text.starts_with("the end of a/new.log:\n  boom\nthe end of a/many.log:\n  line 90\n"),
            "{text}"
        );
        assert!(text.contains("line 99"), "{text}");
        assert!(!text.contains("old.log") && !text.contains("empty.log"), "{text}");
        assert!(text.len() < 2000, "{}", text.len());

        // Standard error is the most telling, and the scripts of another phase tell nothing.
        write("a/a.stderr.log", &"failed\n".repeat(7), 50);
        write("a/pre-start.stderr.log", "done\n", 5);
        let tails = read_tails_below(directory.path(), is_of_process, Duration::MAX);
        let names: Vec<&str> = tails.iter().map(|tail| tail.name.as_str()).collect();
        assert_eq!(names, ["a/a.stderr.log", "a/new.log", "a/many.log"]);
        assert_eq!(tails[0].last_line().unwrap(), "a/a.stderr.log: failed (7 times)");

        // The logs of earlier runs.
        let tails = read_tails_below(directory.path(), |_| true, Duration::from_secs(5));
        let names: Vec<&str> = tails.iter().map(|tail| tail.name.as_str()).collect();
        assert_eq!(names, ["a/pre-start.stderr.log", "a/new.log"]);
    }
}
