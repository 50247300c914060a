//! Disks of a guest: block devices. A disk has one ext4 file system and no partitions. Only an empty disk
//! gets a file system; a disk with other content is refused.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::mount::MountFlags;
use serde_json::Value;

use super::hint_part;
use crate::agent::directories::{Directories, write_atomically};
use crate::agent::tools;
use base::error::ResultExt;
use base::{Error, Result};

/// The directory in which the kernel lists block devices.
const DEVICES_DIRECTORY: &str = "/sys/block";
/// The number of characters of a serial number that a virtio disk reports.
const SERIAL_CHARS: usize = 20;
const POLL_PAUSE: Duration = Duration::from_millis(100);
/// The size of the beginning of a disk that is searched for content. All usual file systems, partition tables
/// and volume managers have their headers there.
const SEARCHED_BYTES: u64 = 1 << 20;
/// The offset of ext4's magic number, and the number.
const EXT4_MAGIC: (usize, [u8; 2]) = (1080, [0x53, 0xef]);

/// The content of a disk.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    Empty,
    Ext4,
    Other,
}

/// Returns the device in a hint: `id` is the serial number of the disk, `path` that of its device. Waits at
/// most `timeout` for it.
pub(super) fn find(hint: &Value, timeout: Duration) -> Result<PathBuf> {
    let (key, value) = hint_part(hint, &["id", "path"])?;
    let deadline = Instant::now() + timeout;
    loop {
        let device = match key {
            "id" => find_by_serial(Path::new(DEVICES_DIRECTORY), value),
            _ => Some(PathBuf::from(value)),
        };
        if let Some(device) = device.filter(|device| is_block_device(device)) {
            return Ok(device);
        }
        if Instant::now() >= deadline {
            return Err(Error::failure(format!("the disk's device is missing ({key} '{value}')")));
        }
        thread::sleep(POLL_PAUSE);
    }
}

fn is_block_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Returns the device with this serial number. `devices_directory` is that in which the kernel lists devices.
fn find_by_serial(devices_directory: &Path, serial: &str) -> Option<PathBuf> {
    let short_serial = serial.get(..SERIAL_CHARS).unwrap_or(serial);
    let entries = fs::read_dir(devices_directory).ok()?;
    entries.flatten().find_map(|entry| {
        let device_serial = fs::read_to_string(entry.path().join("serial")).ok()?;
        (device_serial.trim() == short_serial).then(|| Path::new("/dev").join(entry.file_name()))
    })
}

/// Returns true if the file system at `target` is that of the device.
pub(super) fn is_mounted_at(device: &Path, target: &Path) -> bool {
    match (fs::metadata(device), fs::metadata(target)) {
        (Ok(device), Ok(target)) => device.rdev() == target.dev(),
        _ => false,
    }
}

/// Mounts the file system of the device. Creates one on an empty device, and lets it use the whole device.
pub(super) fn mount(device: &Path, target: &Path, directories: &Directories) -> Result<()> {
    let name = device.display().to_string();
    let file_name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let serial_file = Path::new(DEVICES_DIRECTORY).join(&file_name).join("serial");
    let serial = fs::read_to_string(serial_file).unwrap_or_default();
    let serial = Some(serial.trim().to_owned()).filter(|text| crate::agent::directories::is_safe_name(text));
    // The marker shows, after a crash, that the content of the device is an incomplete file system. mkfs.ext4
    // writes the magic number last.
    let marker = directories.bosh().join(format!("formatting-{}", serial.unwrap_or(file_name)));
    let has_begun_formatting = marker.exists();
    match detect_content(device).map_err(|error| Error::io(format!("reading '{name}'"), error))? {
        Content::Ext4 => {}
        Content::Other if !has_begun_formatting => {
            return Err(Error::failure(format!(
                "the disk '{name}' is neither empty nor an ext4 file system"
            ))
            .with_source("this agent supports one file system for each disk, without partitions"));
        }
        Content::Empty | Content::Other => {
            crate::agent::directories::make_directory(&directories.bosh(), 0o755)?;
            write_atomically(&marker, b"", 0o600)?;
            // 1 % is reserved for root, as the bosh-agent has it.
            tools::run("mkfs.ext4", &["-q", "-F", "-m", "1", &name])
                .context(|| format!("Formatting '{name}'"))?;
        }
    }
    crate::agent::directories::remove_tree(&marker)?;
    rustix::mount::mount(device, target, "ext4", MountFlags::empty(), None)
        .map_err(|errno| Error::io(format!("mounting '{name}' at '{}'", target.display()), errno.into()))?;
    // resize2fs does nothing if the device has not grown.
    tools::run("resize2fs", &[&name]).context(|| format!("Growing the file system of '{name}'")).map(drop)
}

fn detect_content(device: &Path) -> std::io::Result<Content> {
    let mut head = Vec::new();
    File::open(device)?.take(SEARCHED_BYTES).read_to_end(&mut head)?;
    let (offset, magic) = EXT4_MAGIC;
    Ok(if head.get(offset..offset + magic.len()) == Some(&magic[..]) {
        Content::Ext4
    } else if head.iter().all(|byte| *byte == 0) {
        Content::Empty
    } else {
        Content::Other
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn device_is_found_by_its_serial_number() {
        let directory = tempfile::tempdir().unwrap();
        for (name, serial) in [("vda", "root\n"), ("vdc", "0123456789abcdef0123"), ("loop0", "")] {
            fs::create_dir(directory.path().join(name)).unwrap();
            if !serial.is_empty() {
                fs::write(directory.path().join(name).join("serial"), serial).unwrap();
            }
        }
        let find = |serial: &str| find_by_serial(directory.path(), serial);
        assert_eq!(find("root"), Some(PathBuf::from("/dev/vda")));
        assert_eq!(find("0123456789abcdef0123-4567"), Some(PathBuf::from("/dev/vdc")));
        assert_eq!(find("0123"), None);
    }

    #[test]
    fn missing_devices_and_other_hints_are_errors() {
        let find = |hint: Value| super::find(&hint, Duration::ZERO).unwrap_err().to_string();
        assert!(find(json!({"id": "no-such-serial"})).contains("(id 'no-such-serial')"));
        assert!(find(json!("/dev/null")).contains("missing"), "a character device is accepted");
        let error = find(json!({"iscsi_settings": {"password": "secret"}}));
        assert!(error.contains("no 'id' or 'path'") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn only_zeros_are_an_empty_disk() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path().join("disk");
        let content_of = |offset: usize, bytes: &[u8]| {
            let mut text = vec![0; 2 << 20];
            text[offset..offset + bytes.len()].copy_from_slice(bytes);
            fs::write(&disk, text).unwrap();
            detect_content(&disk).unwrap()
        };
        assert_eq!(content_of(0, b""), Content::Empty);
        assert_eq!(content_of(1080, &[0x53, 0xef]), Content::Ext4);
        assert_eq!(content_of(510, &[0x55, 0xaa]), Content::Other);
        assert_eq!(content_of(65_600, b"x"), Content::Other);
        // A file system without partitions that mkfs.ext4 has made.
        let status = std::process::Command::new("/usr/sbin/mke2fs")
            .args(["-q", "-F", "-t", "ext4"])
            .arg(&disk)
            .status()
            .unwrap();
        assert!(status.success());
        assert_eq!(detect_content(&disk).unwrap(), Content::Ext4);
    }
}
