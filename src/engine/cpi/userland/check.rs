//! Checks that this user can enter a userland, before a package is compiled or a CPI called in it.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Layout, Userland};
use base::{Error, Result};

/// The time for entering a userland, which takes milliseconds.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause between two looks at the process.
const POLL_PAUSE: Duration = Duration::from_millis(2);
/// The maximum size of a shown error, in bytes.
const MAX_ERROR_BYTES: u64 = 16 << 10;

impl Userland {
    /// Fails if this user cannot enter the userland. If only the subordinate ids cannot be used, goes on
    /// without them. `scratch` is a directory of the run.
    pub(crate) fn check(&mut self, scratch: &Path) -> Result<()> {
        let Err(mut problem) = self.enter(scratch)? else { return Ok(()) };
        if self.subordinate_ids.is_ok() {
            self.subordinate_ids = Err(format!("they cannot be used here: {problem}"));
            match self.enter(scratch)? {
                Ok(()) => return Ok(()),
                Err(next_problem) => problem = next_problem,
            }
        }
        Err(Error::failure(format!("the userland '{}' cannot be entered", self.name))
            .with_source(problem)
            .with_hint(
                "to compile and run the CPI on this machine: `monopile SAME-COMMAND --cpi-userland host`",
            ))
    }

    /// Enters the userland. Returns the reason if that is not possible.
    fn enter(&self, scratch: &Path) -> Result<std::result::Result<(), String>> {
        let layout = Layout::for_script(self, scratch, "/".into(), Vec::new())?;
        let arguments = layout.write(&[])?;
        let run_error = |error| Error::io(format!("running '{}'", self.executable.display()), error);
        let mut log = tempfile::tempfile_in(scratch).map_err(run_error)?;
        let mut command = Command::new(&self.executable);
        command
            .args(arguments)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.try_clone().map_err(run_error)?);
        let mut child = match self.spawn_script(command) {
            Ok(child) => child,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let deadline = Instant::now() + CHECK_TIMEOUT;
        let status = loop {
            match child.try_wait().map_err(run_error)? {
                Some(status) => break Some(status),
                None if Instant::now() >= deadline => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break None;
                }
                None => std::thread::sleep(POLL_PAUSE),
            }
        };
        Ok(match status {
            Some(status) if status.success() => Ok(()),
            Some(_) => Err(read_text(&mut log)),
            None => Err(format!("it was not ready within {} s", CHECK_TIMEOUT.as_secs())),
        })
    }
}

/// Returns the error that the process wrote.
fn read_text(log: &mut File) -> String {
    let mut text = Vec::new();
    // Without its text, the error still names the userland.
    let _ = log.rewind().and_then(|()| log.take(MAX_ERROR_BYTES).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    text.trim().strip_prefix("error: ").unwrap_or(text.trim()).to_owned()
}
