//! Programs that unit tests write and then run.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a shell script that can be run. A separate process writes it: otherwise, a fork of another thread
/// of the tests could still hold it open for writing, and it could not be run (ETXTBSY).
pub(crate) fn write_program(path: &Path, script: &str) -> std::io::Result<()> {
    let mut writer = Command::new("sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = writer.stdin.take() {
        write!(input, "#!/bin/sh\n{script}\n")?;
    }
    match writer.wait()?.success() {
        true => Ok(()),
        false => Err(std::io::Error::other("the shell failed")),
    }
}
