//! Copies of directory trees.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::cpi::failure::{CpiFailure, CpiResult};

/// Copies a tree with owners, times, links, holes and attributes into `target`, which may exist. Shares the
/// blocks of files if the file system supports that.
pub(super) fn copy_tree(source: &Path, target: &Path) -> CpiResult<()> {
    let output = Command::new("cp")
        .args(["-a", "--reflink=auto", "-T", "--"])
        .args([source, target])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| CpiFailure::io("running 'cp'", error))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let first_line = stderr.lines().next().unwrap_or("no message");
    Err(CpiFailure::cloud(format!(
        "copying '{}' to '{}' failed: {first_line}",
        source.display(),
        target.display()
    )))
}
