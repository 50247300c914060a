//! Subordinate ids: the ranges of user and group ids that `/etc/subuid` and `/etc/subgid` give to a user, for
//! user namespaces with more than one id (subuid(5)).
//!
//! An ordinary user maps them with the set-uid programs `newuidmap` and `newgidmap`, which check the ranges
//! again. Root needs no programs. Other sources of ranges, such as those of sssd, are not read.
//!
//! A process with such ids leaves files behind that the user can neither read nor remove. [`take_files`]
//! gives them to the user.

mod ranges;
mod take;

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::process::{getegid, geteuid};
use serde::{Deserialize, Serialize};

pub use take::{take_files, take_tree};

/// The internal command that gives the files of a tree to the user of its process.
pub const COMMAND: &str = "take-files";
/// The largest id in a user namespace with subordinate ids: that of a system without such ranges.
pub const MAX_ID: u32 = 65_535;
/// The directories in which programs are looked up. The first one is that of NixOS.
const SEARCH_PATH: [&str; 5] = ["/run/wrappers/bin", "/usr/local/bin", "/usr/bin", "/usr/sbin", "/bin"];
/// The programs that map ids.
const MAP_PROGRAMS: [&str; 2] = ["newuidmap", "newgidmap"];

/// A range of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdRange {
    /// The first id.
    pub start: u32,
    /// The number of ids, at least 1.
    pub count: u32,
}

/// The ranges of users and of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdRanges {
    /// Users.
    pub uids: IdRange,
    /// Groups.
    pub gids: IdRange,
}

/// The subordinate ids of the user of this process.
#[derive(Debug, Clone)]
pub struct SubordinateIds {
    /// The ranges on this machine.
    ranges: IdRanges,
    /// The programs that map user and group ids. `None` for root, who maps them without.
    programs: Option<[PathBuf; 2]>,
}

impl SubordinateIds {
    /// Finds the subordinate ids of this user. Fails with the reasons why there are none, and the commands
    /// that change that.
    pub fn find() -> Result<Self, String> {
        if !cfg!(target_os = "linux") {
            return Err("only Linux has them".to_owned());
        }
        let is_root = geteuid().is_root();
        let programs = MAP_PROGRAMS.map(find_program);
        let mut problems = Vec::new();
        if !is_root && programs.contains(&None) {
            problems.push(format!(
                "this machine lacks `{}` (on Debian and Ubuntu: `sudo apt-get install uidmap`)",
                MAP_PROGRAMS.join("` or `")
            ));
        }
        let ranges = match ranges::read(geteuid().as_raw(), getegid().as_raw()) {
            Ok(ranges) => Some(ranges),
            Err(problem) => {
                problems.push(problem);
                None
            }
        };
        match ranges.filter(|_| problems.is_empty()) {
            Some(ranges) => {
                let [users, groups] = programs;
                let programs = users.zip(groups).map(<[PathBuf; 2]>::from).filter(|_| !is_root);
                Ok(SubordinateIds { ranges, programs })
            }
            None => Err(problems.join("; ")),
        }
    }

    /// Returns the ranges as a process sees them that [`Self::spawn`] starts.
    pub fn ranges_inside(&self) -> IdRanges {
        let shift = |range: IdRange| match self.programs {
            Some(_) => IdRange { start: 1, ..range },
            None => range,
        };
        IdRanges { uids: shift(self.ranges.uids), gids: shift(self.ranges.gids) }
    }

    /// Starts a command that has all these ids. An ordinary user is root inside the command.
    #[cfg(target_os = "linux")]
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        let Some([user_program, group_program]) = &self.programs else { return command.spawn() };
        let IdRanges { uids, gids } = self.ranges;
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        let write_maps = |pid: &str| {
            map(user_program, pid, uid, uids)?;
            map(group_program, pid, gid, gids)
        };
        crate::namespaces::spawn_in_user_namespace(command, write_maps, || Ok(()))
    }

    /// Starts a command. Other systems have no such ids.
    #[cfg(not(target_os = "linux"))]
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.spawn()
    }

    /// Returns true if the file belongs to one of the ids.
    fn owns(&self, metadata: &fs::Metadata) -> bool {
        self.ranges.uids.contains(metadata.uid()) || self.ranges.gids.contains(metadata.gid())
    }

    /// Returns true if the tree has files of these ids. Directories that this user cannot read count, if
    /// `counts_unreadable`.
    fn owns_part_of(&self, root: &Path, counts_unreadable: bool) -> bool {
        let Ok(metadata) = fs::symlink_metadata(root) else { return false };
        let mut unread_directories = Vec::from_iter(metadata.is_dir().then(|| root.to_owned()));
        let mut is_found = self.owns(&metadata);
        while let Some(directory) = unread_directories.pop().filter(|_| !is_found) {
            let Ok(entries) = fs::read_dir(&directory) else {
                is_found = counts_unreadable;
                continue;
            };
            for entry in entries.flatten() {
                let Ok(metadata) = entry.metadata() else { continue };
                is_found |= self.owns(&metadata);
                if metadata.is_dir() {
                    unread_directories.push(entry.path());
                }
            }
        }
        is_found
    }
}

impl IdRange {
    fn contains(self, id: u32) -> bool {
        id.checked_sub(self.start).is_some_and(|offset| offset < self.count)
    }
}

/// Maps the ids of a process with a set-uid program: `id` becomes root, and the range follows.
#[cfg(target_os = "linux")]
fn map(program: &Path, pid: &str, id: u32, range: IdRange) -> io::Result<()> {
    let (id, start, count) = (id.to_string(), range.start.to_string(), range.count.to_string());
    let run_error = |reason: &str| io::Error::other(format!("'{}' failed: {reason}", program.display()));
    let output = Command::new(program)
        .args([pid, "0", &id, "1", "1", &start, &count])
        .env_clear()
        .output()
        .map_err(|error| run_error(&error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(run_error(String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn find_program(name: &str) -> Option<PathBuf> {
    let is_executable = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    SEARCH_PATH.iter().map(|directory| Path::new(directory).join(name)).find(is_executable)
}
