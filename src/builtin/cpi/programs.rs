//! Programs of this machine: finds them, and runs them with a timeout.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum size of each output of a program, in bytes. The rest is read and dropped.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;
/// The pause between two checks for the end of a program.
const POLL_PAUSE: Duration = Duration::from_millis(5);

/// Returns the path of a program in the first directory of `search_path` that has it.
pub(crate) fn find(name: &str, search_path: &str) -> Option<PathBuf> {
    search_path.split(':').map(|directory| Path::new(directory).join(name)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The result of a program that ended.
pub(crate) struct ProgramOutput {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl ProgramOutput {
    /// Returns the last line of the error output, for messages.
    pub(crate) fn reason(&self) -> String {
        match self.stderr.lines().rfind(|line| !line.trim().is_empty()) {
            Some(line) => line.trim().to_owned(),
            None => format!("no message ({})", self.status),
        }
    }
}

/// Runs a program to its end. Kills it after `timeout`, which is an error of the kind `TimedOut`.
pub(crate) fn run(command: &mut Command, timeout: Duration) -> io::Result<ProgramOutput> {
    run_with_stdin(command, Stdio::null(), timeout)
}

/// Runs a program like [`run`], with this standard input.
pub(crate) fn run_with_stdin(
    command: &mut Command,
    stdin: Stdio,
    timeout: Duration,
) -> io::Result<ProgramOutput> {
    let deadline = Instant::now() + timeout;
    let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let stdout = thread::spawn(move || stdout.map(collect).unwrap_or_default());
    let stderr = thread::spawn(move || stderr.map(collect).unwrap_or_default());
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("it did not end within {} s", timeout.as_secs()),
            ));
        }
        thread::sleep(POLL_PAUSE);
    };
    let stdout = stdout.join().unwrap_or_default();
    let stderr = String::from_utf8_lossy(&stderr.join().unwrap_or_default()).into_owned();
    Ok(ProgramOutput { status, stdout, stderr })
}

fn collect(mut pipe: impl Read) -> Vec<u8> {
    let mut output = Vec::new();
    // A program whose output cannot be read still ends, and its exit status counts.
    let _ = pipe.by_ref().take(MAX_OUTPUT_BYTES).read_to_end(&mut output);
    let _ = io::copy(&mut pipe, &mut io::sink());
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, timeout: Duration) -> io::Result<ProgramOutput> {
        run(Command::new("sh").args(["-c", script]), timeout)
    }

    #[test]
    fn finds_programs_in_the_order_of_the_path() {
        assert_eq!(find("sh", "/nowhere:/bin:/usr/bin"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("no-such-program", "/bin:/usr/bin"), None);
        assert_eq!(find("passwd", "/etc"), None, "a file that is not executable was found");
    }

    #[test]
    fn output_is_bounded_and_the_reason_is_the_last_line() {
        let output = shell("yes | head -c 3000000; echo a >&2; echo b >&2; exit 3", Duration::from_secs(60));
        let output = output.unwrap();
        assert_eq!(output.stdout.len() as u64, MAX_OUTPUT_BYTES);
        assert_eq!((output.status.code(), output.reason().as_str()), (Some(3), "b"));
    }

    #[test]
    fn program_that_does_not_end_is_killed() {
        let error = shell("exec sleep 60", Duration::from_millis(50)).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
