//! The console of a VM, as a CPI keeps it in files: the last lines, which errors quote, and the problem that
//! they show.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The file with the latest output, in the directory of a VM.
pub const CONSOLE: &str = "console.log";
/// The file with the output before that.
pub const OLDER: &str = "console.log.1";
/// The end of the console that is searched for problems, in bytes.
const SEARCHED_BYTES: u64 = 64 << 10;
/// The number of lines that an error quotes.
const QUOTED_LINES: usize = 5;
/// The texts by which a console shows a problem, and the problem.
const PROBLEMS: [(&str, &str); 4] = [
    ("Kernel panic - not syncing", "the kernel of the VM has panicked"),
    ("No space left on device", "a disk of the VM is full"),
    ("No bootable device", "the image of the stemcell does not boot"),
    ("Boot failed", "the image of the stemcell does not boot"),
];

/// Describes the state of the VM in this directory by its console: the problem that it shows, and its last
/// lines. Returns `None` if the console is missing or empty.
pub fn describe(directory: &Path) -> Option<String> {
    let mut text = tail(&directory.join(CONSOLE));
    if text.trim().is_empty() {
        text = tail(&directory.join(OLDER));
    }
    let text = crate::text::clean(&text).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let problem = PROBLEMS.iter().find_map(|(part, problem)| {
        let line = lines.iter().rfind(|line| line.contains(part))?;
        Some(format!("{problem} (\"{line}\")"))
    });
    if lines.is_empty() {
        return None;
    }
    let last = lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n  ");
    let last = format!("the last lines of its console:\n  {last}");
    Some(problem.map_or_else(|| last.clone(), |problem| format!("{problem}; {last}")))
}

fn tail(path: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(SEARCHED_BYTES)))?;
        let mut text = Vec::new();
        file.take(SEARCHED_BYTES).read_to_end(&mut text)?;
        Ok(text)
    };
    // A missing or unreadable console counts as empty: it only supplements an error.
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn problems_are_named() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(describe(dir.path()), None);
        let write = |text: &str| fs::write(dir.path().join(CONSOLE), text).unwrap();
        write("[ 1.0] ok\r\n[ 2.0] Kernel panic - not syncing: VFS: Unable to mount root fs\r\n---[ end\r\n");
        let panic = describe(dir.path()).unwrap();
        assert!(panic.starts_with("the kernel of the VM has panicked (\"[ 2.0] Kernel panic"), "{panic}");
        write("cp: error writing '/var/x': No space left on device\n");
        assert!(describe(dir.path()).unwrap().starts_with("a disk of the VM is full"));
        write("one\ntwo\n");
        assert_eq!(describe(dir.path()).unwrap(), "the last lines of its console:\n  one\n  two");
    }
}
