//! Disk images, through `qemu-img`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::programs::{Programs, image_error, run_error};
use crate::cpi::cloud::ObjectLock;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::programs::run_with_stdin;

const QEMU_IMG_TIMEOUT: Duration = Duration::from_secs(120);
/// The timeout of a copy of a whole image.
const COPY_TIMEOUT: Duration = Duration::from_secs(1800);

/// The program `qemu-img`.
pub(super) struct QemuImg {
    program: PathBuf,
}

/// An image, as `qemu-img info` describes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct ImageInfo {
    pub format: String,
    /// The size of the disk in bytes.
    pub virtual_size: u64,
    backing_filename: Option<String>,
    #[serde(default)]
    format_specific: FormatSpecific,
}

/// The part of the description that depends on the format.
#[derive(Debug, Default, Deserialize)]
struct FormatSpecific {
    #[serde(default)]
    data: FormatData,
}

/// The part of the description that only qcow2 images have.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct FormatData {
    data_file: Option<String>,
}

impl ImageInfo {
    /// Returns true if the image reads another file. An image from outside must not, because it could name
    /// any file of this machine.
    pub(super) fn refers_to_another_file(&self) -> bool {
        self.backing_filename.is_some() || self.format_specific.data.data_file.is_some()
    }
}

impl QemuImg {
    /// Finds the program.
    pub(super) fn new(programs: &Programs) -> CpiResult<QemuImg> {
        Ok(QemuImg { program: programs.find_qemu_img()? })
    }

    /// Describes an image that no VM uses.
    pub(super) fn read_info(&self, image: &Path) -> CpiResult<ImageInfo> {
        self.read_info_with(&["--output=json", "--"], image)
    }

    /// Describes an image that a VM may be writing.
    pub(super) fn read_info_while_in_use(&self, image: &Path) -> CpiResult<ImageInfo> {
        self.read_info_with(&["--force-share", "--output=json", "--"], image)
    }

    fn read_info_with(&self, options: &[&str], image: &Path) -> CpiResult<ImageInfo> {
        let mut arguments: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
        arguments.push(image.as_os_str());
        let stdout = self.run("info", &arguments, None, Stdio::null(), QEMU_IMG_TIMEOUT)?;
        serde_json::from_slice(&stdout).map_err(|error| {
            CpiFailure::cloud(format!("'{} info' printed no description: {error}", self.program.display()))
        })
    }

    /// Creates an empty disk of `mib` MiB.
    pub(super) fn create(&self, image: &Path, mib: u64) -> CpiResult<()> {
        self.create_bytes(image, mib << 20)
    }

    /// Creates an empty disk.
    pub(super) fn create_bytes(&self, image: &Path, bytes: u64) -> CpiResult<()> {
        let size = bytes.to_string();
        let arguments = [OsStr::new("-q"), "-f".as_ref(), "qcow2".as_ref(), image.as_os_str(), size.as_ref()];
        self.run("create", &arguments, None, Stdio::null(), QEMU_IMG_TIMEOUT).map(drop)
    }

    /// Creates the overlay `name` of the image `base`, both in `directory`.
    pub(super) fn create_overlay(&self, directory: &Path, base: &str, name: &str) -> CpiResult<()> {
        let arguments = ["-q", "-f", "qcow2", "-F", "qcow2", "-b", base, name].map(OsStr::new);
        self.run("create", &arguments, Some(directory), Stdio::null(), QEMU_IMG_TIMEOUT).map(drop)
    }

    /// Grows an image that no VM uses. The program holds the lock of the disk, so that the next call waits
    /// for it if this one is killed.
    pub(super) fn resize(&self, lock: &ObjectLock, image: &Path, mib: u64) -> CpiResult<()> {
        let size = format!("{mib}M");
        let arguments = [OsStr::new("-q"), "-f".as_ref(), "qcow2".as_ref(), image.as_os_str(), size.as_ref()];
        self.run("resize", &arguments, None, lock.as_stdin()?, QEMU_IMG_TIMEOUT).map(drop)
    }

    /// Copies an image of the given format to a new one in format qcow2.
    pub(super) fn convert(&self, source: &Path, format: &str, target: &Path) -> CpiResult<()> {
        let options = ["-f", format, "-O", "qcow2"].map(OsStr::new);
        let paths = [source.as_os_str(), target.as_os_str()];
        self.run("convert", &[&options[..], &paths[..]].concat(), None, Stdio::null(), COPY_TIMEOUT).map(drop)
    }

    fn run(
        &self,
        command: &str,
        arguments: &[&OsStr],
        directory: Option<&Path>,
        stdin: Stdio,
        timeout: Duration,
    ) -> CpiResult<Vec<u8>> {
        let mut program = Command::new(&self.program);
        program.arg(command).args(arguments).env_clear().env("LC_ALL", "C");
        program.current_dir(directory.unwrap_or(Path::new("/")));
        let output =
            run_with_stdin(&mut program, stdin, timeout).map_err(|error| run_error(&self.program, error))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let reason = output.reason();
        let reason = reason.strip_prefix("qemu-img: ").unwrap_or(&reason);
        Err(image_error(format_args!("{} {command}", self.program.display()), reason))
    }
}
