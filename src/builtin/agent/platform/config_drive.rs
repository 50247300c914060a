//! The config drive of a guest: a file system with the label `config-2`, from which the agent copies its
//! settings.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags};

use super::DEVICE_TIMEOUT;
use crate::agent::directories::{make_directory, write_atomically};
use crate::agent::settings_source::USER_DATA_FILE;
use crate::agent::tools;
use base::{Error, Result};

const DRIVE_LABEL: &str = "config-2";
/// The settings on the drive.
const SETTINGS_FILE: &str = "ec2/latest/user-data";
/// The maximum size of the settings, in bytes.
const MAX_SETTINGS_BYTES: u64 = 16 << 20;
/// The file systems that a config drive may have.
const FILE_SYSTEMS: [&str; 4] = ["ext2", "ext4", "vfat", "iso9660"];

/// Copies the settings from the drive to the user data beside the file `settings`. Without a drive, the agent
/// keeps those that it has.
pub(super) fn fetch(settings: &Path) -> Result<()> {
    let target = settings.with_file_name(USER_DATA_FILE);
    let deadline = std::time::Instant::now() + DEVICE_TIMEOUT;
    let device = loop {
        // blkid fails if there is no such file system.
        match tools::run("blkid", &["--cache-file", "/dev/null", "--label", DRIVE_LABEL]) {
            Ok(device) => break device.trim().to_owned(),
            Err(_) if target.exists() => {
                tracing::warn!("there is no config drive; using the settings of the last start");
                return Ok(());
            }
            Err(error) if std::time::Instant::now() >= deadline => {
                return Err(Error::failure(format!("no disk has the label '{DRIVE_LABEL}'"))
                    .with_source(crate::agent::error_text(&error)));
            }
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(500)),
        }
    };
    let parent = base::files::directory::parent(&target);
    let mount_point = parent.join("config-drive");
    make_directory(&mount_point, 0o700)?;
    mount(&device, &mount_point)?;
    let text = read(&mount_point.join(SETTINGS_FILE));
    rustix::mount::unmount(&mount_point, UnmountFlags::NOFOLLOW)
        .map_err(|errno| Error::io(format!("unmounting '{}'", mount_point.display()), errno.into()))?;
    write_atomically(&target, &text?, 0o600)
}

fn mount(device: &str, mount_point: &Path) -> Result<()> {
    let flags = MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC;
    let mut last_errno = None;
    for kind in FILE_SYSTEMS {
        match rustix::mount::mount(device, mount_point, kind, flags, None) {
            Ok(()) => return Ok(()),
            Err(errno) => last_errno = Some(errno),
        }
    }
    let error = last_errno.map_or_else(|| std::io::Error::other("no file system"), std::io::Error::from);
    Err(Error::io(format!("mounting the config drive '{device}'"), error))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let read_error = |error| Error::io(format!("reading '{SETTINGS_FILE}' of the config drive"), error);
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_SETTINGS_BYTES + 1).read_to_end(&mut text))
        .map_err(read_error)?;
    if text.len() as u64 > MAX_SETTINGS_BYTES {
        return Err(Error::invalid(format!("'{SETTINGS_FILE}' of the config drive exceeds 16 MiB")));
    }
    Ok(text)
}
