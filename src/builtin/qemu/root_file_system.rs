//! Makes a bootable disk from a stemcell that is only a root file system. This needs neither the rights of
//! root nor a mount: mke2fs fills an ext4 file system from the unpacked directory, and debugfs sets the
//! owners and modes, which only root can set in a directory.
//!
//! The file system is in the only partition of the disk, because the agent of official stemcells does not
//! start if the root file system is on the whole disk.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::image::QemuImg;
use super::programs::{self, image_error, run_error};
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::programs::{ProgramOutput, run};
use crate::cpi::stemcell_image::RootFileSystem;
use artifact::disk_image::boot_record::{
    ENTRIES_OFFSET, ENTRY_BYTES, LENGTH_OFFSET, SECTOR_BYTES, SIGNATURE, SIGNATURE_OFFSET, START_OFFSET,
    TYPE_OFFSET,
};
use base::files::input;

/// The file of the disk, until it is converted.
const DISK_FILE: &str = "disk.raw";
/// The file with the commands of debugfs.
const COMMANDS_FILE: &str = "debugfs.commands";
/// The features of the file system: those of ext4 in e2fsprogs 1.43. The kernel and the programs in the image
/// may not know later ones.
const FILE_SYSTEM_FEATURES: &str = "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,\
                                    flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum";
const MIB: u64 = 1 << 20;
const PARTITION_OFFSET_BYTES: u64 = MIB;
/// The type of a Linux partition.
const LINUX_PARTITION: u8 = 0x83;
const BLOCK_BYTES: u64 = 4096;
/// The bytes-per-inode ratio of mke2fs. The file system is larger by this for each file, so that it has
/// enough inodes.
const BYTES_PER_INODE: u64 = 16 << 10;
/// The free space in addition to the files. The journal takes a part of it.
const SLACK_BYTES: u64 = 512 * MIB;
/// The maximum length of a path. Some C libraries let debugfs read lines of at most 1 KiB.
const MAX_PATH_BYTES: usize = 900;
/// The timeout of each program, which writes a whole image.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(1800);
/// The configuration of the bosh-agent.
const AGENT_CONFIGURATION_FILE: &str = "var/vcap/bosh/agent.json";
const MAX_AGENT_CONFIGURATION_BYTES: u64 = 1 << 20;

/// The disk of a root file system, before it is made.
pub(super) struct RootDisk {
    files: RootFileSystem,
    mke2fs: PathBuf,
    debugfs: PathBuf,
}

impl RootDisk {
    /// Finds the programs and checks the names of the files.
    pub(super) fn new(files: RootFileSystem) -> CpiResult<RootDisk> {
        let (mke2fs, debugfs) =
            (programs::find_file_system_program("mke2fs")?, programs::find_file_system_program("debugfs")?);
        for path in files.attributes.keys() {
            let bytes = path.as_os_str().as_bytes();
            let problem = if bytes.iter().any(|byte| b"\"\n\r".contains(byte)) {
                "contains a quotation mark or a line end"
            } else if bytes.len() > MAX_PATH_BYTES {
                "is too long"
            } else {
                continue;
            };
            return Err(CpiFailure::cloud(format!(
                "the stemcell's image has a file whose path {problem}, so that debugfs cannot set its owner: \
                 {:?}. Remove it from the image",
                path.to_string_lossy().chars().take(120).collect::<String>()
            )));
        }
        Ok(RootDisk { files, mke2fs, debugfs })
    }

    /// Writes the image of the disk to the file `image` in `directory`.
    pub(super) fn make(&self, qemu_img: &QemuImg, directory: &Path, image: &str) -> CpiResult<()> {
        self.replace_agent_configuration()
            .map_err(|error| CpiFailure::io(format_args!("replacing '{AGENT_CONFIGURATION_FILE}'"), error))?;
        let bytes = self.partition_bytes();
        self.make_file_system(directory, bytes)?;
        let disk = directory.join(DISK_FILE);
        write_boot_record(&disk, bytes)
            .map_err(|error| CpiFailure::io(format_args!("writing '{}'", disk.display()), error))?;
        self.set_attributes(directory)?;
        qemu_img.convert(&disk, "raw", &directory.join(image))?;
        let result = fs::remove_file(&disk).and_then(|()| fs::remove_file(directory.join(COMMANDS_FILE)));
        result.map_err(|error| CpiFailure::io(format_args!("removing '{}'", disk.display()), error))
    }

    /// Configures the bosh-agent for a config drive and real disks, if the image has one. In a stemcell for
    /// warden, it expects a container.
    fn replace_agent_configuration(&self) -> io::Result<()> {
        let attributes = self.files.attributes.get(Path::new(AGENT_CONFIGURATION_FILE));
        // No directory above the file is a link: nothing is unpacked through a link.
        if !attributes.is_some_and(|attributes| attributes.is_file()) {
            return Ok(());
        }
        let path = self.files.path.join(AGENT_CONFIGURATION_FILE);
        let bytes = input::read(&path, MAX_AGENT_CONFIGURATION_BYTES)?;
        let configuration: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let mut linux = json!({
            "CreatePartitionIfNoEphemeralDisk": true,
            "DevicePathResolutionType": "virtio",
        });
        if let Some(manager) = configuration.pointer("/Platform/Linux/ServiceManager") {
            linux["ServiceManager"] = manager.clone();
        }
        let source = json!({
            "Type": "ConfigDrive",
            "DiskPaths": ["/dev/disk/by-label/CONFIG-2", "/dev/disk/by-label/config-2"],
            "MetaDataPath": "ec2/latest/meta-data.json",
            "UserDataPath": "ec2/latest/user-data",
        });
        let configuration = json!({
            "Platform": {"Linux": linux},
            "Infrastructure": {"Settings": {"Sources": [source]}},
        });
        // The file may be a hard link: another file must keep its content.
        fs::remove_file(&path)?;
        fs::write(&path, format!("{configuration:#}\n"))
    }

    /// Returns the size of the partition: the files, and free space.
    fn partition_bytes(&self) -> u64 {
        let attributes = self.files.attributes.values();
        let content: u64 = attributes
            .map(|attributes| attributes.size.next_multiple_of(BLOCK_BYTES) + BYTES_PER_INODE)
            .sum();
        // The journal and the tables of a file system grow with it.
        (content + content / 16 + SLACK_BYTES).next_multiple_of(MIB)
    }

    /// Makes the disk with the file system. All files in it belong to this user.
    fn make_file_system(&self, directory: &Path, bytes: u64) -> CpiResult<()> {
        let mut command = Command::new(&self.mke2fs);
        command.args(["-q", "-F", "-t", "ext4", "-L", "root", "-m", "1", "-O", FILE_SYSTEM_FEATURES]);
        command.args(["-b", &BLOCK_BYTES.to_string(), "-i", &BYTES_PER_INODE.to_string(), "-I", "256"]);
        command.args(["-E", &format!("offset={PARTITION_OFFSET_BYTES}"), "-d"]).arg(&self.files.path);
        command.args([DISK_FILE, &format!("{}k", bytes >> 10)]);
        let output = run_in(directory, &mut command, &self.mke2fs)?;
        if output.status.success() {
            return Ok(());
        }
        let reason = output.reason();
        let reason = reason.strip_prefix("mke2fs: ").unwrap_or(&reason);
        Err(image_error(self.mke2fs.display(), reason))
    }

    /// Sets the owners and modes that the archive has.
    fn set_attributes(&self, directory: &Path) -> CpiResult<()> {
        let path = directory.join(COMMANDS_FILE);
        self.write_commands(&path)
            .map_err(|error| CpiFailure::io(format_args!("writing '{}'", path.display()), error))?;
        let mut command = Command::new(&self.debugfs);
        // debugfs ends the name of the file at the first question mark. The path of `directory` may have one.
        command.args(["-w", "-f", COMMANDS_FILE]);
        command.arg(format!("{DISK_FILE}?offset={PARTITION_OFFSET_BYTES}"));
        let output = run_in(directory, &mut command, &self.debugfs)?;
        // The exit status of debugfs is 0 also if a command failed. The first line is its version.
        let mut problems = output.stderr.lines().filter(|line| !line.starts_with("debugfs "));
        match problems.find(|line| !line.trim().is_empty()) {
            Some(problem) => Err(image_error(self.debugfs.display(), problem)),
            None if !output.status.success() => Err(image_error(self.debugfs.display(), &output.reason())),
            None => Ok(()),
        }
    }

    fn write_commands(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for (path, attributes) in &self.files.attributes {
            let mut set = |field: &str, value: String| -> io::Result<()> {
                file.write_all(b"set_inode_field \"/")?;
                file.write_all(path.as_os_str().as_bytes())?;
                writeln!(file, "\" {field} {value}")
            };
            set("uid", attributes.uid.to_string())?;
            set("gid", attributes.gid.to_string())?;
            set("mode", format!("0{:o}", attributes.mode))?;
        }
        file.flush()
    }
}

fn run_in(directory: &Path, command: &mut Command, program: &Path) -> CpiResult<ProgramOutput> {
    command.current_dir(directory).env_clear().env("LC_ALL", "C");
    run(command, PROGRAM_TIMEOUT).map_err(|error| run_error(program, error))
}

/// Writes the boot record of a disk with one partition of this size.
fn write_boot_record(disk: &Path, partition_bytes: u64) -> io::Result<()> {
    let sectors = |bytes: u64| {
        let sectors = u32::try_from(bytes / SECTOR_BYTES as u64);
        sectors.map(u32::to_le_bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))
    };
    let mut entry = [0; ENTRY_BYTES];
    entry[TYPE_OFFSET] = LINUX_PARTITION;
    entry[START_OFFSET..LENGTH_OFFSET].copy_from_slice(&sectors(PARTITION_OFFSET_BYTES)?);
    entry[LENGTH_OFFSET..].copy_from_slice(&sectors(partition_bytes)?);
    let file = File::options().write(true).open(disk)?;
    file.write_all_at(&entry, ENTRIES_OFFSET as u64)?;
    file.write_all_at(&SIGNATURE, SIGNATURE_OFFSET as u64)?;
    file.set_len(PARTITION_OFFSET_BYTES + partition_bytes)
}
