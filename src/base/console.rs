//! The console of a VM on this machine, as its CPI keeps it in files: its last lines, and the problem that
//! the last boot shows, for errors.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::files::{is_same_file, start_of_last_lines};
use crate::vm_directory::AGENT_LOG_FILE;

/// The file with the latest output of a `qemu` VM, in the directory of the VM.
pub const CONSOLE_FILE: &str = "console.log";
/// The file with the output before that in [`CONSOLE_FILE`].
pub const PREVIOUS_CONSOLE_FILE: &str = "console.log.1";
/// The end of the console that is searched for problems, in bytes.
const SEARCHED_BYTES: u64 = 256 << 10;
/// The number of lines that an error quotes.
const QUOTED_LINES: usize = 5;
/// The maximum length of a line that an error quotes whole, in bytes.
const MAX_QUOTED_BYTES: usize = 500;
/// The texts by which a console shows a problem. The first one that is found names the problem.
const PROBLEM_TEXTS: [(&str, ProblemKind); 4] = [
    ("Kernel panic - not syncing", ProblemKind::KernelPanic),
    ("No space left on device", ProblemKind::DiskFull),
    ("No bootable device", ProblemKind::NoBoot),
    ("Boot failed", ProblemKind::NoBoot),
];

/// The console of a VM: files whose contents follow each other.
pub struct Console {
    directory: PathBuf,
    /// The files with their sizes when they were opened, oldest first.
    parts: Vec<(File, u64)>,
}

impl Console {
    /// Opens the console of the VM in this directory. Returns `None` if there is none.
    ///
    /// The VM of the CPI `local` has no kernel. Its console is the output of its first process.
    pub fn open(directory: &Path) -> io::Result<Option<Self>> {
        Self::open_files(directory, &[AGENT_LOG_FILE, CONSOLE_FILE, PREVIOUS_CONSOLE_FILE])
    }

    /// Opens the files with these names, newest first, because one may be renamed to an older name in
    /// between.
    fn open_files(directory: &Path, names: &[&str]) -> io::Result<Option<Self>> {
        let mut parts: Vec<(File, u64)> = Vec::new();
        for name in names {
            let file = match File::open(directory.join(name)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            match parts.first() {
                Some((newer, _)) if is_same_open_file(newer, &file)? => {}
                _ => {
                    let size = file.metadata()?.len();
                    parts.insert(0, (file, size));
                }
            }
        }
        Ok((!parts.is_empty()).then(|| Console { directory: directory.to_owned(), parts }))
    }

    /// Returns the size in bytes.
    fn size(&self) -> u64 {
        self.parts.iter().map(|(_, size)| size).sum()
    }

    /// Reads at a position, like `FileExt::read_at`.
    fn read_at(&self, buffer: &mut [u8], mut position: u64) -> io::Result<usize> {
        for (file, size) in &self.parts {
            if position < *size {
                let length = usize::try_from(size - position).unwrap_or(usize::MAX).min(buffer.len());
                return file.read_at(&mut buffer[..length], position);
            }
            position -= size;
        }
        Ok(0)
    }

    /// Returns a reader that begins with the last lines.
    pub fn last_lines(self, count: usize) -> io::Result<ConsoleReader> {
        let start =
            start_of_last_lines(self.size(), count, |buffer, position| self.read_at(buffer, position))?;
        Ok(self.reader(start))
    }

    fn reader(self, start: u64) -> ConsoleReader {
        let bytes_at_open = self.size().saturating_sub(start);
        let (mut parts, mut position): (VecDeque<_>, _) = (self.parts.into(), start);
        while parts.len() > 1
            && let Some((_, size)) = parts.front().filter(|(_, size)| position >= *size)
        {
            position -= size;
            parts.pop_front();
        }
        let parts = parts.into_iter().map(|(file, _)| file).collect();
        ConsoleReader { directory: self.directory, parts, position, bytes_at_open }
    }
}

/// Reads a console to its end. After the end, further reads return what was added since.
pub struct ConsoleReader {
    directory: PathBuf,
    /// The file that is read, and those after it.
    parts: VecDeque<File>,
    /// The position in the first one.
    position: u64,
    bytes_at_open: u64,
}

impl ConsoleReader {
    /// Returns the number of bytes from the start of this reader to the end that the console had when it was
    /// opened.
    pub fn bytes_at_open(&self) -> u64 {
        self.bytes_at_open
    }

    /// Returns true if the VM was deleted.
    pub fn is_deleted(&self) -> bool {
        !self.directory.exists()
    }

    /// Opens the file that has taken the place of the last one. Returns false if there is none.
    fn open_next(&mut self) -> io::Result<bool> {
        let file = match File::open(self.directory.join(CONSOLE_FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let is_new = self
            .parts
            .back()
            .map_or(Ok(true), |last| is_same_open_file(last, &file).map(|is_same| !is_same))?;
        if is_new {
            self.parts.push_back(file);
        }
        Ok(is_new)
    }
}

impl Read for ConsoleReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(file) = self.parts.front() else { return Ok(0) };
            let count = file.read_at(buffer, self.position)?;
            self.position += count as u64;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            if self.parts.len() > 1 {
                self.parts.pop_front();
                self.position = 0;
            } else if !self.open_next()? {
                return Ok(0);
            }
            // If there is a next file, the first one is read once more, because it may have grown before.
        }
    }
}

fn is_same_open_file(one: &File, other: &File) -> io::Result<bool> {
    Ok(is_same_file(&one.metadata()?, &other.metadata()?))
}

/// The last boot of a VM, as its console shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastBoot {
    problem: Option<BootProblem>,
    /// The last lines that are not empty.
    lines: Vec<String>,
}

/// A problem that ends a boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootProblem {
    kind: ProblemKind,
    /// The line of the console that shows it.
    line: String,
}

/// The kind of a problem that ends a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProblemKind {
    KernelPanic,
    DiskFull,
    NoBoot,
}

impl LastBoot {
    /// Reads the console of the VM in this directory. Returns `None` if its console is empty or cannot be
    /// read, because an error is worth showing without it.
    pub fn read(directory: &Path) -> Option<Self> {
        let (console, problems) =
            match Console::open_files(directory, &[CONSOLE_FILE, PREVIOUS_CONSOLE_FILE]).ok()? {
                Some(console) => (console, &PROBLEM_TEXTS[..]),
                // A `local` VM has neither a kernel nor a disk of its own, so that no problem of one applies.
                None => (Console::open_files(directory, &[AGENT_LOG_FILE]).ok()??, &[][..]),
            };
        let start = console.size().saturating_sub(SEARCHED_BYTES);
        let mut reader = console.reader(start);
        let mut text = Vec::new();
        reader.by_ref().take(SEARCHED_BYTES).read_to_end(&mut text).ok()?;
        let text = String::from_utf8_lossy(&text);
        match text.split_once('\n') {
            // The beginning of the first line is missing.
            Some((_, text)) if start > 0 => Self::parse(text, problems),
            _ => Self::parse(&text, problems),
        }
    }

    fn parse(text: &str, problems: &[(&str, ProblemKind)]) -> Option<Self> {
        let text = crate::text::clean(text);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let start = lines.iter().rposition(|line| starts_boot(line)).unwrap_or(0);
        let lines = &lines[start..];
        let problem = problems.iter().find_map(|(text, kind)| {
            let line = lines.iter().find(|line| line.contains(text))?;
            // The time of the kernel is of no use in an error.
            let start_in_line = if *kind == ProblemKind::KernelPanic { line.find(text)? } else { 0 };
            Some(BootProblem { kind: *kind, line: quote_line(&line[start_in_line..]) })
        });
        let last_lines = &lines[lines.len().saturating_sub(QUOTED_LINES)..];
        (!last_lines.is_empty())
            .then(|| LastBoot { problem, lines: last_lines.iter().map(|line| quote_line(line)).collect() })
    }

    /// Returns the problem that the last boot shows.
    pub fn problem(&self) -> Option<&BootProblem> {
        self.problem.as_ref()
    }

    /// Describes the problem of the VM or, if none is shown, quotes the last lines.
    pub fn describe(&self, vm: &str) -> String {
        match &self.problem {
            Some(problem) => problem.describe(vm),
            None => format!("the last lines of the console of VM '{vm}':\n  {}", self.lines.join("\n  ")),
        }
    }
}

impl BootProblem {
    /// Describes the problem of the VM in one line.
    pub fn describe(&self, vm: &str) -> String {
        let line = &self.line;
        match self.kind {
            ProblemKind::KernelPanic => format!("the kernel of VM '{vm}' panicked: {line}"),
            ProblemKind::DiskFull => format!("the disk of VM '{vm}' is full: {line}"),
            ProblemKind::NoBoot => {
                format!("VM '{vm}' does not boot from the image of its stemcell: {line}")
            }
        }
    }

    /// Returns a hint that may help.
    pub fn hint(&self) -> &'static str {
        match self.kind {
            ProblemKind::KernelPanic => {
                "use another stemcell, or give the VM more memory: `ram` in its `cloud_properties`"
            }
            ProblemKind::DiskFull => {
                "give the VM a larger disk: `root_disk_size` or `ephemeral_disk` in its `cloud_properties`"
            }
            ProblemKind::NoBoot => {
                "use another stemcell: `monopile help qemu other-stemcells` says which ones the CPI boots"
            }
        }
    }
}

/// Returns true for the first line of SeaBIOS, which is the firmware of a VM, or of Linux.
fn starts_boot(line: &str) -> bool {
    let message = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let message = match message {
        Some((time, message)) if time.trim_start().starts_with("0.000000") => message,
        _ => line,
    };
    line.contains("SeaBIOS (version ") || message.starts_with("Linux version ")
}

/// Returns a line for an error. A long one is cut between two words, because half of a secret would not be
/// redacted.
fn quote_line(line: &str) -> String {
    if line.len() <= MAX_QUOTED_BYTES {
        return line.to_owned();
    }
    let end = line.floor_char_boundary(MAX_QUOTED_BYTES);
    match line[..end].rfind(char::is_whitespace) {
        Some(word_end) => format!("{} …", line[..word_end].trim_end()),
        None => format!("(a word of {} bytes)", line.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn describe(text: &str) -> String {
        LastBoot::parse(text, &PROBLEM_TEXTS).unwrap().describe("vm-1")
    }

    #[test]
    fn problems_are_named() {
        for (text, description, hint) in [
            (
                "[    1.0] ok\r\n\
                 [    2.0] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\r\n\
                 [    2.1] CPU: 0 PID: 1 Comm: swapper/0 Not tainted 6.1.0-cloud-amd64\r\n\
                 [    2.2] ---[ end Kernel panic - not syncing: VFS: Unable to mount root fs ]---\r\n",
                "the kernel of VM 'vm-1' panicked: Kernel panic - not syncing: VFS: Unable to mount root fs \
                 on unknown-block(0,0)",
                "more memory",
            ),
            (
                "[    9.0][    T1] Kernel panic - not syncing: System is deadlocked on memory\n",
                "the kernel of VM 'vm-1' panicked: Kernel panic - not syncing: System is deadlocked on \
                 memory",
                "more memory",
            ),
            (
                "agent: starting\nagent: writing '/var/vcap/x': No space left on device (os error 28)\n",
                "the disk of VM 'vm-1' is full: agent: writing '/var/vcap/x': No space left on device (os \
                 error 28)",
                "larger disk",
            ),
            (
                "SeaBIOS (version 1.16.2)\nBooting from Hard Disk...\nBoot failed: not a bootable disk\n\
                 No bootable device.\n",
                "VM 'vm-1' does not boot from the image of its stemcell: No bootable device.",
                "another stemcell",
            ),
            // A full disk is the cause of what follows, but the kernel cannot continue after a panic.
            (
                "x: No space left on device\nKernel panic - not syncing: Attempted to kill init!\n",
                "the kernel of VM 'vm-1' panicked: Kernel panic - not syncing: Attempted to kill init!",
                "another stemcell",
            ),
        ] {
            assert_eq!(describe(text), description);
            let boot = LastBoot::parse(text, &PROBLEM_TEXTS).unwrap();
            assert!(boot.problem().unwrap().hint().contains(hint), "{text}");
        }
        assert_eq!(describe("one\n\ntwo"), "the last lines of the console of VM 'vm-1':\n  one\n  two");
        assert_eq!(LastBoot::parse(" \r\n\x1b[2J\n", &PROBLEM_TEXTS), None);
    }

    #[test]
    fn only_the_last_boot_counts() {
        let panic_line = "[    2.0] Kernel panic - not syncing: x\n";
        for boot in [
            "SeaBIOS (version rel-1.16.2-0-gea1b7a0-prebuilt.qemu.org)\n",
            "\x1b[2J\x1b[1;1HSeaBIOS (version 1.16.2-debian-1.16.2-1)\r\n",
            "[    0.000000] Linux version 6.1.0-31-cloud-amd64 (debian-kernel@lists.debian.org)\r\n",
            "[    0.000000][    T0] Linux version 6.12.0\n",
            "Linux version 6.1.0\n",
        ] {
            let text = describe(&format!("{panic_line}{boot}agent: starting\n"));
            assert!(
                text.starts_with("the last lines of the console") && text.ends_with("starting"),
                "{text}"
            );
            assert!(!text.contains("panic"), "{text}");
            let text = describe(&format!("earlier\n{boot}{panic_line}"));
            assert!(text.ends_with("panicked: Kernel panic - not syncing: x"), "{text}");
        }
        for other in ["job: Linux version 6 is required\n", "[    7.000000] Linux version 6\n"] {
            assert!(describe(&format!("{panic_line}{other}")).contains("panicked"), "{other}");
        }
    }

    #[test]
    fn hostile_text_is_harmless() {
        let text = "\x1b]0;title\x07\x1b[31mKernel pa\x1b[0mnic - not syncing: \u{202e}x\x08\x00y\n";
        assert_eq!(describe(text), "the kernel of VM 'vm-1' panicked: Kernel panic - not syncing: xy");
        // A return of the carriage, which hides a line on a terminal, separates words.
        assert!(describe("Kernel panic - not syncing: a\rb\n").ends_with(": a b"));
        let long = format!("Kernel panic - not syncing: {}", "words of a guest ".repeat(10_000));
        let text = describe(&long);
        assert!(text.len() < MAX_QUOTED_BYTES + 100 && text.ends_with(" …"), "{text}");
        let text = describe(&"ä".repeat(50_000));
        assert!(text.ends_with("\n  (a word of 100000 bytes)"), "{text}");

        let directory = tempfile::tempdir().unwrap();
        assert_eq!(LastBoot::read(directory.path()), None);
        let write = |text: &[u8]| fs::write(directory.path().join(CONSOLE_FILE), text).unwrap();
        write(b"");
        assert_eq!(LastBoot::read(directory.path()), None);
        write(b"\xff\xfe Kernel panic - not syncing: \xc3(\n");
        let boot = LastBoot::read(directory.path()).unwrap();
        assert!(boot.describe("vm-1").ends_with("not syncing: \u{fffd}("), "{boot:?}");
        // Only the end of a console of any size is read. The first line of it is not complete.
        let file = File::create(directory.path().join(CONSOLE_FILE)).unwrap();
        file.set_len(10 << 30).unwrap();
        file.write_all_at(b"\nlast\n", 10 << 30).unwrap();
        assert_eq!(LastBoot::read(directory.path()).unwrap().lines, ["last"]);
    }

    fn text(reader: &mut ConsoleReader) -> String {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn files_follow_each_other() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Console::open(directory.path()).unwrap().is_none());
        fs::write(directory.path().join(PREVIOUS_CONSOLE_FILE), "a\nb\nc").unwrap();
        fs::write(directory.path().join(CONSOLE_FILE), "d\ne\n").unwrap();
        for (count, expected) in
            [(0, ""), (1, "e\n"), (2, "cd\ne\n"), (3, "b\ncd\ne\n"), (9, "a\nb\ncd\ne\n")]
        {
            let mut reader = Console::open(directory.path()).unwrap().unwrap().last_lines(count).unwrap();
            assert_eq!(reader.bytes_at_open(), expected.len() as u64);
            assert_eq!(text(&mut reader), expected, "{count}");
        }
        // The older file may be the only one.
        fs::remove_file(directory.path().join(CONSOLE_FILE)).unwrap();
        assert_eq!(LastBoot::read(directory.path()).unwrap().lines, ["a", "b", "c"]);
        // The console of a `local` VM.
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(AGENT_LOG_FILE), "init: x\n").unwrap();
        assert_eq!(
            text(&mut Console::open(directory.path()).unwrap().unwrap().last_lines(1).unwrap()),
            "init: x\n"
        );
        fs::write(directory.path().join(AGENT_LOG_FILE), "init: x\nNo space left on device\n").unwrap();
        let boot = LastBoot::read(directory.path()).unwrap();
        assert_eq!((boot.problem(), boot.lines.last().unwrap().as_str()), (None, "No space left on device"));
    }

    #[test]
    fn reader_follows_a_console_that_grows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(CONSOLE_FILE);
        let mut file = File::create(&path).unwrap();
        file.write_all(b"1\n2\n").unwrap();
        let mut reader = Console::open(directory.path()).unwrap().unwrap().last_lines(1).unwrap();
        assert_eq!(text(&mut reader), "2\n");
        assert_eq!(text(&mut reader), "");
        file.write_all(b"3\n").unwrap();
        assert_eq!(text(&mut reader), "3\n");
        // The file is full, and the next one begins.
        file.write_all(b"4\n").unwrap();
        fs::rename(&path, directory.path().join(PREVIOUS_CONSOLE_FILE)).unwrap();
        assert_eq!(text(&mut reader), "4\n");
        fs::write(&path, "5\n").unwrap();
        assert_eq!(text(&mut reader), "5\n");
        assert!(!reader.is_deleted());
        drop(directory);
        assert!(reader.is_deleted());
    }
}
