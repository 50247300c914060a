//! A cache that a team shares in a bucket or a directory: what one machine downloads or compiles is used by
//! others, and a cache that fails or lies costs a warning. `userland::shared_packages` tests it for packages
//! of CPIs.

mod bundle;
mod downloads;
mod failures;
mod maintenance;
mod offline;
mod packages;

use std::path::Path;

pub(crate) use offline::without_network;

use crate::support::Run;
use crate::support::process::{RunToEnd, prepare};

/// Generates a key pair in a directory: NAME and NAME.pub.
pub(crate) fn generate_key(directory: &Path, name: &str) {
    let mut keygen = prepare("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", name]).current_dir(directory);
    assert!(keygen.run_to_end().status.success());
}

/// Returns the warnings about the shared cache.
pub(crate) fn warnings(run: &Run) -> Vec<&str> {
    let is_warning = |line: &&str| line.contains("warning: ") && line.contains("cache '");
    run.stdout.lines().chain(run.stderr.lines()).filter(is_warning).collect()
}
