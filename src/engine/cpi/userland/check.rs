//! Checks that this user can enter a userland, before a package is compiled or a CPI called in it.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Layout, Userland};
use base::{Error, Result};

/// The time for entering a userland, which takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The pause between two looks at the process.
const POLL_PAUSE: Duration = Duration::from_millis(2);
/// The maximum size of a shown error, in bytes.
const MAX_ERROR_BYTES: u64 = 16 << 10;

impl Userland {
    /// Fails if this user cannot enter the userland. `scratch` is a directory of the run.
    pub(crate) fn check(&self, scratch: &Path) -> Result<()> {
        let layout = Layout::for_script(self, scratch, "/".into(), Vec::new())?;
        let arguments = layout.write(&[])?;
        let run_error = |error| Error::io(format!("running '{}'", self.executable.display()), error);
        let mut log = tempfile::tempfile_in(scratch).map_err(run_error)?;
        let mut child = Command::new(&self.executable)
            .args(arguments)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.try_clone().map_err(run_error)?)
            .spawn()
            .map_err(run_error)?;
        let deadline = Instant::now() + TIMEOUT;
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
        let error = match status {
            Some(status) if status.success() => return Ok(()),
            Some(_) => read_text(&mut log),
            None => format!("it was not ready within {} s", TIMEOUT.as_secs()),
        };
        Err(Error::failure(format!("the userland '{}' cannot be entered", self.name))
            .with_source(error)
            .with_hint(
                "to compile and run the CPI on this machine: `monopile SAME-COMMAND --cpi-userland host`",
            ))
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
