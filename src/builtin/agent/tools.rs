//! Runs tools of the VM's operating system, with a timeout.

use std::process::Command;
use std::time::Duration;

use super::process::{SCRIPT_PATH, ending};
use crate::cpi::programs;
use base::{Error, Result};

/// The timeout of a tool. The slowest one creates a file system.
const TOOL_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs a tool, and returns its output. Fails if its exit status is not 0.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", SCRIPT_PATH).env("LANG", "C.UTF-8");
    let output = programs::run(&mut command, TOOL_TIMEOUT)
        .map_err(|error| Error::io(format!("Running {program}"), error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = output.stderr.trim().to_owned();
    Err(Error::failure(format!("{program} {}", ending(output.status))).with_source(stderr))
}
