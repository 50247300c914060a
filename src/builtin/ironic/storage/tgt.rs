//! `tgt`: volumes are files in one directory, and the Linux target framework (tgtadm(8), package tgt) exports
//! them.
//!
//! Access is granted by initiator name alone, because tgtd grants it to a matching name *or* address. tgtd
//! answers discovery only to addresses, so an initiator cannot discover a volume and must know the target's
//! name.
//!
//! tgtd forgets its targets when it ends. So each target is also written to `exports/<volume>.conf` for
//! tgt-admin(8); `include <directory>/exports/*.conf` in `/etc/tgt/targets.conf` restores them.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::{Export, Initiators, Iscsi, Login, StorageTool, check_names, default_iqn, run};
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::ironic::volume::VolumeName;
use base::files::durable::{self, create_private_directory};

/// The section `tgt` of the CPI's configuration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TgtSettings {
    /// The absolute path of the directory with the volumes. tgtd must be able to read and write in it.
    directory: PathBuf,
    /// The addresses at which machines reach tgtd, `address:port`. Several addresses mean several paths to
    /// each volume.
    portals: Vec<String>,
    /// The beginning of the names of targets.
    #[serde(default = "default_iqn")]
    iqn: String,
    /// The control port of tgtd (`-C`), if several run on this machine.
    control_port: Option<u16>,
    /// The path of tgtd's socket (`TGT_IPC_SOCKET`), if it is not the default.
    ipc_socket: Option<PathBuf>,
}

/// The LUN of a target's only volume. LUN 0 is the controller.
const LUN: u64 = 1;

/// The storage tool, see the module documentation.
pub(super) struct Tgt {
    settings: TgtSettings,
}

impl Tgt {
    /// Checks the settings and creates the storage tool.
    pub(super) fn new(settings: TgtSettings) -> CpiResult<Tgt> {
        if !settings.directory.is_absolute() || settings.directory.parent().is_none() {
            let directory = settings.directory.display();
            return Err(CpiFailure::cloud(format!(
                "storage.directory must be an absolute path below '/', not '{directory}'"
            )));
        }
        check_names(&settings.portals, &settings.iqn)?;
        Ok(Tgt { settings })
    }

    fn path(&self, volume: &VolumeName) -> PathBuf {
        self.settings.directory.join(format!("{volume}.img"))
    }

    fn conf(&self, volume: &VolumeName) -> PathBuf {
        self.settings.directory.join(format!("exports/{volume}.conf"))
    }

    fn iqn(&self, volume: &VolumeName) -> String {
        format!("{}:{}", self.settings.iqn, volume.short_name())
    }

    /// Takes the lock that serialises changes of volumes and targets, and removes incomplete volumes of
    /// killed calls.
    fn lock(&self) -> CpiResult<File> {
        let directory = &self.settings.directory;
        let lock = || -> io::Result<File> {
            create_private_directory(&directory.join("exports"))?;
            let file =
                File::options().create(true).truncate(false).write(true).open(directory.join("lock"))?;
            file.lock()?;
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                if entry.file_name().as_encoded_bytes().ends_with(b".partial") {
                    fs::remove_file(entry.path())?;
                }
            }
            Ok(file)
        };
        lock().map_err(|error| CpiFailure::io(format_args!("locking '{}'", directory.display()), error))
    }

    /// Creates a volume: `fill` writes a `.partial` file, which gets the volume's name when it is complete.
    fn make(&self, volume: &VolumeName, fill: impl FnOnce(&Path) -> CpiResult<()>) -> CpiResult<()> {
        let path = self.path(volume);
        let partial_path = path.with_extension("partial");
        let outcome = fill(&partial_path).and_then(|()| {
            File::open(&partial_path)
                .and_then(|file| file.sync_all())
                .and_then(|()| fs::rename(&partial_path, &path))
                .and_then(|()| durable::sync_parent(&path))
                .map_err(|error| CpiFailure::io(format_args!("writing volume '{volume}'"), error))
        });
        if outcome.is_err() {
            // If this fails, the next call removes the file.
            let _ = fs::remove_file(&partial_path);
        }
        outcome
    }

    /// Runs tgtadm and returns its output. `action` is a gerund for errors.
    fn run_tgtadm(&self, action: &str, arguments: &[&str]) -> CpiResult<String> {
        let mut command = Command::new("tgtadm");
        if let Some(socket) = &self.settings.ipc_socket {
            command.env("TGT_IPC_SOCKET", socket);
        }
        if let Some(port) = self.settings.control_port {
            command.args(["-C", &port.to_string()]);
        }
        run(command.args(["--lld", "iscsi"]).args(arguments), action).map_err(|mut failure| {
            if failure.message.contains("failed to send request") {
                failure.message.push_str(" (is tgtd running?)");
            }
            failure
        })
    }

    /// Returns the numbers and names of all targets of tgtd.
    fn list_targets(&self) -> CpiResult<Vec<(u32, String)>> {
        let text = self.run_tgtadm("listing the targets", &["--mode", "target", "--op", "show"])?;
        Ok(parse_targets(&text))
    }

    /// Deletes the volume's target and login, now and for the next start of tgtd.
    fn delete_target(&self, volume: &VolumeName) -> CpiResult<()> {
        let (name, action) = (self.iqn(volume), format!("withdrawing the export of volume '{volume}'"));
        durable::remove_durably(&self.conf(volume)).map_err(|error| CpiFailure::io(&action, error))?;
        for (number, _) in self.list_targets()?.into_iter().filter(|(_, target_name)| *target_name == name) {
            let number = number.to_string();
            // `--force` also ends the sessions of initiators.
            self.run_tgtadm(&action, &["--mode", "target", "--op", "delete", "--force", "--tid", &number])?;
        }
        let user = volume.short_name();
        let accounts = self.run_tgtadm(&action, &["--mode", "account", "--op", "show"])?;
        if accounts.lines().any(|line| line.trim() == user) {
            self.run_tgtadm(&action, &["--mode", "account", "--op", "delete", "--user", &user])?;
        }
        Ok(())
    }

    /// Creates a target for a volume that has none, and writes its configuration file.
    fn create_target(&self, volume: &VolumeName, initiators: &[String], login: &Login) -> CpiResult<()> {
        let action = format!("exporting volume '{volume}'");
        let (name, path) = (self.iqn(volume), self.path(volume));
        let number = self.list_targets()?.iter().map(|(number, _)| number + 1).max().unwrap_or(1).to_string();
        let target = |operation: &[&str]| {
            self.run_tgtadm(&action, &[&["--mode", "target", "--tid", &number], operation].concat())
        };
        let path_text = path.to_string_lossy();
        let backing_args = ["--tid", &number, "--lun", &LUN.to_string(), "-b", &path_text];
        target(&["--op", "new", "-T", &name])?;
        self.run_tgtadm(&action, &[&["--mode", "logicalunit", "--op", "new"][..], &backing_args].concat())?;
        let account =
            ["--mode", "account", "--op", "new", "--user", &login.user, "--password", &login.password];
        self.run_tgtadm(&action, &account)?;
        self.run_tgtadm(
            &action,
            &["--mode", "account", "--op", "bind", "--tid", &number, "--user", &login.user],
        )?;
        // Access is granted last, when the login is already required.
        for initiator in initiators {
            target(&["--op", "bind", "-Q", initiator])?;
        }
        let mut conf = format!("<target {name}>\n    backing-store {}\n", path.display());
        conf.extend(initiators.iter().map(|initiator| format!("    initiator-name {initiator}\n")));
        conf.push_str(&format!("    incominguser {} {}\n</target>\n", login.user, login.password));
        durable::write_atomically(&self.conf(volume), conf.as_bytes())
            .map_err(|error| CpiFailure::io(&action, error))
    }
}

impl StorageTool for Tgt {
    fn import(&self, volume: &VolumeName, image: &Path) -> CpiResult<()> {
        let _lock = self.lock()?;
        self.make(volume, |partial_path| copy(image, partial_path))
    }

    fn create(&self, volume: &VolumeName, mib: u64) -> CpiResult<()> {
        let _lock = self.lock()?;
        self.make(volume, |partial_path| {
            let create = || File::create_new(partial_path)?.set_len(bytes(mib)?);
            create().map_err(|error| CpiFailure::io(format_args!("creating volume '{volume}'"), error))
        })
    }

    fn copy(&self, source: &VolumeName, target: &VolumeName) -> CpiResult<()> {
        let _lock = self.lock()?;
        if self.size(source)?.is_none() {
            return Err(source.not_found_error());
        }
        self.make(target, |partial_path| copy(&self.path(source), partial_path))
    }

    fn grow(&self, volume: &VolumeName, mib: u64) -> CpiResult<()> {
        let _lock = self.lock()?;
        let size = self.size(volume)?.ok_or_else(|| volume.not_found_error())?;
        let grow = || -> io::Result<()> {
            let file = File::options().write(true).open(self.path(volume))?;
            file.set_len(bytes(mib)?.max(size))?;
            file.sync_all()
        };
        grow().map_err(|error| CpiFailure::io(format_args!("growing volume '{volume}'"), error))
    }

    fn size(&self, volume: &VolumeName) -> CpiResult<Option<u64>> {
        match fs::metadata(self.path(volume)) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CpiFailure::io(format_args!("looking for volume '{volume}'"), error)),
        }
    }

    fn delete(&self, volume: &VolumeName) -> CpiResult<()> {
        let _lock = self.lock()?;
        durable::remove_durably(&self.path(volume))
            .map_err(|error| CpiFailure::io(format_args!("deleting volume '{volume}'"), error))
    }

    fn export(&self, volume: &VolumeName, initiators: &Initiators, login: &Login) -> CpiResult<Export> {
        let _lock = self.lock()?;
        if self.size(volume)?.is_none() {
            return Err(volume.not_found_error());
        }
        let initiators = initiators.iscsi_names(volume)?;
        self.delete_target(volume)?;
        if let Err(failure) = self.create_target(volume, initiators, login) {
            self.delete_target(volume)?;
            return Err(failure);
        }
        let portals = self.settings.portals.clone();
        let path_count = portals.len();
        Ok(Export::Iscsi(Iscsi {
            portals,
            iqns: vec![self.iqn(volume); path_count],
            luns: vec![LUN; path_count],
        }))
    }

    fn unexport(&self, volume: &VolumeName) -> CpiResult<()> {
        let _lock = self.lock()?;
        self.delete_target(volume)
    }
}

fn bytes(mib: u64) -> io::Result<u64> {
    mib.checked_mul(1 << 20).ok_or_else(|| io::Error::other(format!("{mib} MiB exceed the largest size")))
}

/// Copies a file, keeps its holes, and shares its blocks if the file system supports that.
fn copy(source: &Path, target: &Path) -> CpiResult<()> {
    let mut command = Command::new("cp");
    command
        .args(["--sparse=always", "--reflink=auto", "--no-preserve=all", "-T", "--"])
        .args([source, target]);
    run(&mut command, &format!("copying '{}'", source.display())).map(drop)
}

fn parse_targets(text: &str) -> Vec<(u32, String)> {
    let target = |line: &str| {
        let (number, name) = line.strip_prefix("Target ")?.split_once(": ")?;
        Some((number.parse().ok()?, name.trim().to_owned()))
    };
    text.lines().filter_map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed_from_the_output_of_tgtadm() {
        let text =
            "Target 1: iqn.x:root\n    System information:\n        Driver: iscsi\nTarget 12: iqn.x:disk\n";
        assert_eq!(parse_targets(text), [(1, "iqn.x:root".to_owned()), (12, "iqn.x:disk".to_owned())]);
        assert_eq!(parse_targets(""), []);
    }
}
