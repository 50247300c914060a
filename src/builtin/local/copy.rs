//! Copies of directory trees.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::cpi::failure::{CpiFailure, CpiResult};

/// Copies a tree with owners, times, links, holes and attributes into `to`, which may exist. Shares the
/// blocks of files if the file system supports that.
pub(super) fn copy_tree(from: &Path, to: &Path) -> CpiResult<()> {
    let output = Command::new("cp")
        .args(["-a", "--reflink=auto", "-T", "--"])
        .args([from, to])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| CpiFailure::io("running 'cp'", error))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let first = stderr.lines().next().unwrap_or("no message");
    Err(CpiFailure::cloud(format!("copying '{}' to '{}' failed: {first}", from.display(), to.display())))
}
