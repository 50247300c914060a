//! The userland of a CPI: a root file system in which its packages are compiled and in which it runs.
//!
//! [`Userland`] is opened and checked by the run. For each script and each CPI it writes a [`Layout`], a
//! file that describes the namespaces. `monopile userland-exec` reads that file, builds them and becomes
//! the program: [`exec::run`]. So an [`Executable`](super::Executable) is started like any other, and its
//! process holds the same files and locks.
//!
//! Paths in a userland are those of a VM, so that nothing that is compiled there depends on this machine.

mod check;
#[cfg(target_os = "linux")]
mod exec;
mod files;
mod layout;
#[cfg(target_os = "linux")]
mod tree;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use base::subordinate_ids::SubordinateIds;
use base::{Error, Result};

pub(crate) use layout::{Layout, MountPoint};

/// The directory of packages in a userland.
pub(crate) const PACKAGES_DIRECTORY: &str = "/var/vcap/packages";
/// The directory of jobs in a userland.
pub(crate) const JOBS_DIRECTORY: &str = "/var/vcap/jobs";
/// The directory in which packages are compiled in a userland.
pub(crate) const COMPILE_DIRECTORY: &str = "/var/vcap/data/compile";
/// The search path of packaging scripts in a userland.
pub(crate) const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The home directory of packaging scripts in a userland: an empty one.
pub(crate) const HOME_DIRECTORY: &str = "/home/vcap";
/// The maximum number of processes in a userland.
pub(crate) const MAX_PROCESSES: u64 = 1000;
/// The exit status of a program that was ended because it had too many processes.
pub(crate) const TOO_MANY_PROCESSES_EXIT_CODE: u8 = 125;
/// The internal command that runs a program in a userland.
pub const COMMAND: &str = "userland-exec";

/// A root file system that this user can run programs in.
#[derive(Debug, Clone)]
pub struct Userland {
    /// The root file system.
    pub(crate) content: artifact::Userland,
    /// Its path or URL, for messages.
    pub(crate) name: String,
    /// This program, which enters the namespaces.
    pub(crate) executable: PathBuf,
    /// Files and sockets of this machine that the CPI sees at the same paths.
    pub(crate) files: Vec<PathBuf>,
    /// True if packaging scripts have the network of this machine.
    pub(crate) compiles_with_network: bool,
    /// Further ids that packaging scripts can have, beside the id of their user, or the reasons why they have
    /// none.
    pub(crate) subordinate_ids: std::result::Result<SubordinateIds, String>,
}

impl Userland {
    /// Returns a text that identifies the environment of a compilation: together with the source of a
    /// package, it determines the compiled package.
    pub(crate) fn compile_key(&self) -> String {
        let network = if self.compiles_with_network { " with network" } else { "" };
        format!("{}{network}", self.content.digest)
    }

    /// Starts a process of this program that enters the userland. A packaging script has the subordinate ids.
    pub(crate) fn spawn_script(&self, mut command: Command) -> std::io::Result<Child> {
        match &self.subordinate_ids {
            Ok(subordinate_ids) => subordinate_ids.spawn(command),
            Err(_) => command.spawn(),
        }
    }

    /// Gives this user the files in `root` that a packaging script gave to others.
    pub(crate) fn take_files(&self, root: &Path) -> Result<()> {
        let Ok(subordinate_ids) = &self.subordinate_ids else { return Ok(()) };
        subordinate_ids.take_files(root).map_err(|error| {
            Error::io(format!("changing the owners of files in '{}'", root.display()), error)
        })
    }
}

/// Runs `program` in the userland that the file `layout` describes, and returns its exit status. Without a
/// program, only checks that the userland can be entered. `is_init` is true for the second stage, which
/// `executable`, this program, starts as the first process of the new namespaces.
///
/// Must be called before the process starts a second thread, because the kernel allows only single-threaded
/// processes to enter a user namespace.
#[cfg(target_os = "linux")]
pub fn run(layout: &Path, is_init: bool, program: &[OsString], executable: &Path) -> Result<u8> {
    exec::run(layout, is_init, program, executable).map_err(Error::failure)
}

/// Always fails, because a userland needs the namespaces of Linux.
#[cfg(not(target_os = "linux"))]
pub fn run(_layout: &Path, _is_init: bool, _program: &[OsString], _executable: &Path) -> Result<u8> {
    Err(Error::failure("a CPI runs in a userland only on Linux")
        .with_hint("to compile and run the CPI on this machine: `monopile SAME-COMMAND --cpi-userland host`"))
}
