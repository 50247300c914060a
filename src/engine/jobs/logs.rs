//! The last lines of logs on the VM, as a part of error messages.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use walkdir::WalkDir;

use crate::agent::{Agent, LogArchive};
use base::Result;

/// The number of files shown: the most recently written ones.
const FILES: usize = 3;
/// The number of lines shown of each file.
const LINES: usize = 10;
/// The maximum size of the part that is read from the end of a file, in bytes.
const MAX_TAIL_BYTES: u64 = 16 * 1024;
/// The maximum length of a shown line, in characters.
const MAX_LINE_CHARACTERS: usize = 400;
/// The maximum size of a fetched archive, in bytes.
const MAX_ARCHIVE_BYTES: u64 = 512 << 20;

/// Returns the last lines of the most recently written job logs that match one of the globs. Returns an empty
/// text if they have no content.
pub(super) fn tail(agent: &Agent, work: &Path, filters: &[String]) -> Result<String> {
    let archive = LogArchive::fetch(agent, "job", filters, work, MAX_ARCHIVE_BYTES)?;
    let tree = archive.unpack()?;
    Ok(show(&tree))
}

fn show(tree: &Path) -> String {
    let mut files: Vec<(SystemTime, PathBuf)> = WalkDir::new(tree)
        .into_iter()
        .flatten()
        .filter(|entry| entry.file_type().is_file())
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            (metadata.len() > 0)
                .then(|| (metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), entry.into_path()))
        })
        .collect();
    files.sort_by(|a, b| b.cmp(a));
    files.truncate(FILES);
    files
        .iter()
        .filter_map(|(_, path)| {
            let lines = last_lines(path).ok().filter(|lines| !lines.is_empty())?;
            let name = path.strip_prefix(tree).unwrap_or(path).display();
            Some(format!("the end of {name}:\n{}", lines.join("\n")))
        })
        .collect::<Vec<_>>()
        .join("\n")
}

fn last_lines(path: &Path) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let length = fs::metadata(path)?.len();
    let start = length.saturating_sub(MAX_TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MAX_TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> =
        text.lines().skip(usize::from(start > 0)).filter(|line| !line.trim().is_empty()).collect();
    Ok(lines[lines.len().saturating_sub(LINES)..].iter().map(|line| clip(line)).collect())
}

fn clip(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
        let many: String = (0..100).map(|number| format!("line {number}\n")).collect();
        write("a/many.log", &many, 10);
        write("a/empty.log", "", 1);
        write("a/new.log", "\nboom\n\n", 2);
        write("b/long.log", &"x".repeat(50_000), 20);
        write("b/old.log", "old\n", 1000);
        let shown = show(directory.path());
        assert!(
            shown.starts_with("the end of a/new.log:\nboom\nthe end of a/many.log:\nline 90\n"),
            "{shown}"
        );
        assert!(shown.contains("line 99"), "{shown}");
        assert!(!shown.contains("old.log") && !shown.contains("empty.log"), "{shown}");
        assert!(shown.len() < 2000, "{}", shown.len());
    }
}
