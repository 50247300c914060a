//! Thin volumes in a pool, managed by lvcreate(8), lvs(8), lvextend(8), lvrename(8) and lvremove(8).

use std::path::PathBuf;
use std::process::Command;

use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::ironic::storage::run;

/// The volumes of one volume group.
pub(super) struct Volumes {
    group: String,
    pool: String,
}

impl Volumes {
    /// Checks the names of the group and the pool.
    pub(super) fn new(group: String, pool: String) -> CpiResult<Volumes> {
        // lvm(8), "Valid names".
        let is_name = |text: &str| {
            !text.is_empty()
                && !text.starts_with(['-', '.'])
                && text
                    .chars()
                    .all(|character| character.is_ascii_alphanumeric() || "+_.-".contains(character))
        };
        match is_name(&group) && is_name(&pool) {
            true => Ok(Volumes { group, pool }),
            false => Err(CpiFailure::cloud(format!(
                "storage.volume_group and storage.thin_pool must be valid names of LVM (lvm(8)), not '{}' \
                    and '{}'",
                group.escape_debug(),
                pool.escape_debug()
            ))),
        }
    }

    /// Returns the name of the volume group.
    pub(super) fn group(&self) -> &str {
        &self.group
    }

    /// Returns the path of a volume's block device.
    pub(super) fn device(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/dev/{}/{name}", self.group))
    }

    /// Returns the names of all volumes of the group, including those that this CPI did not create.
    pub(super) fn list_names(&self) -> CpiResult<Vec<String>> {
        Ok(self.list()?.into_iter().map(|(name, _)| name).collect())
    }

    /// Returns a volume's size in bytes, or `None` if it does not exist.
    pub(super) fn size(&self, name: &str) -> CpiResult<Option<u64>> {
        Ok(self.list()?.into_iter().find(|(volume_name, _)| volume_name == name).map(|(_, size)| size))
    }

    fn list(&self) -> CpiResult<Vec<(String, u64)>> {
        let action = format!("listing the volumes of '{}'", self.group);
        let shape = ["--noheadings", "--nosuffix", "--units", "b", "--separator", " "];
        let columns = ["--options", "lv_name,lv_size", &self.group];
        let text = self.run_lvm("lvs", &action, &[&shape[..], &columns].concat())?;
        parse(&text).ok_or_else(|| {
            CpiFailure::cloud(format!(
                "{action} failed: the output of lvs is not lines of name and size in bytes"
            ))
        })
    }

    /// Creates an empty volume of `mib` MiB.
    pub(super) fn create(&self, name: &str, mib: u64) -> CpiResult<()> {
        let size = format!("{mib}m");
        let kind = ["--yes", "--type", "thin", "--thinpool", &self.pool, "--virtualsize", &size];
        let name_arguments = ["--name", name, &self.group];
        self.run_lvm("lvcreate", &format!("creating volume '{name}'"), &[&kind[..], &name_arguments].concat())
            .map(drop)
    }

    /// Creates a thin snapshot of a volume.
    pub(super) fn snapshot(&self, source: &str, target: &str) -> CpiResult<()> {
        // By default, a machine does not activate thin snapshots at boot.
        let kind = ["--yes", "--snapshot", "--setactivationskip", "n", "--name", target];
        let origin = self.path(source);
        let action = format!("copying volume '{source}'");
        self.run_lvm("lvcreate", &action, &[&kind[..], &[&origin]].concat()).map(drop)
    }

    /// Grows a volume to `mib` MiB. Fails if it has that size or more.
    pub(super) fn extend(&self, name: &str, mib: u64) -> CpiResult<()> {
        let action = format!("growing volume '{name}'");
        self.run_lvm("lvextend", &action, &["--size", &format!("{mib}m"), &self.path(name)]).map(drop)
    }

    pub(super) fn rename(&self, old_name: &str, new_name: &str) -> CpiResult<()> {
        self.run_lvm(
            "lvrename",
            &format!("renaming volume '{old_name}' to '{new_name}'"),
            &[&self.group, old_name, new_name],
        )
        .map(drop)
    }

    /// Deletes a volume.
    pub(super) fn remove(&self, name: &str) -> CpiResult<()> {
        let action = format!("deleting volume '{name}'");
        self.run_lvm("lvremove", &action, &["--yes", "--force", &self.path(name)]).map(drop)
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.group)
    }

    fn run_lvm(&self, program: &str, action: &str, arguments: &[&str]) -> CpiResult<String> {
        let mut command = Command::new(program);
        // Without this, a warning about open files of the caller would be quoted as the reason of a failure.
        command.env("LVM_SUPPRESS_FD_WARNINGS", "1").env("LC_ALL", "C");
        run(command.args(arguments), action)
    }
}

fn parse(text: &str) -> Option<Vec<(String, u64)>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let volume = |line: &str| {
        let (name, size) = line.split_once(' ')?;
        Some((name.to_owned(), size.parse().ok()?))
    };
    lines.map(volume).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_parsed_from_the_output_of_lvs() {
        let text = "  disk-1 20971520\n  pool 62914560\n";
        let expected = [("disk-1".to_owned(), 20 << 20), ("pool".to_owned(), 60 << 20)];
        assert_eq!(parse(text).unwrap(), expected);
        assert_eq!(parse("").unwrap(), []);
        assert_eq!(parse("  disk-1 20.00m\n"), None);
    }

    #[test]
    fn names_that_lvm_rejects_are_errors() {
        let new = |group: &str, pool: &str| Volumes::new(group.to_owned(), pool.to_owned()).is_ok();
        assert!(new("vg0", "thin.pool_1"));
        for bad in ["", "-f", "../x", "a b", "a/b", "--config=x"] {
            assert!(!new(bad, "pool") && !new("vg", bad), "{bad}");
        }
    }
}
