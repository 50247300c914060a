//! The programs that this CPI runs: those of QEMU, with their version, of e2fsprogs, and `ip`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use crate::cpi::programs::{find, run};

/// The directories in which programs are looked up.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The only architecture of VMs: that of the program `qemu-system-x86_64`.
pub(super) const ARCHITECTURE: &str = "x86_64";
/// The program that runs a VM.
const QEMU_SYSTEM: &str = "qemu-system-x86_64";
/// The program that makes images of disks.
const QEMU_IMG: &str = "qemu-img";
/// The oldest version that accepts JSON in the option `-device`.
const OLDEST_VERSION: (u32, u32) = (6, 2);
/// The time that the program has to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(30);

/// QEMU's programs.
pub(super) struct Programs {
    directory: Option<PathBuf>,
}

/// The program that runs VMs.
pub(super) struct QemuSystem {
    pub path: PathBuf,
    /// The line with its version.
    pub version: String,
}

impl Programs {
    /// Returns the programs in a directory, or in the usual directories.
    pub(super) fn new(directory: Option<&Path>) -> Self {
        Programs { directory: directory.map(Path::to_owned) }
    }

    /// Returns the path of `qemu-img`. Fails if it is not installed.
    pub(super) fn find_qemu_img(&self) -> CpiResult<PathBuf> {
        self.find(QEMU_IMG, "qemu-utils")
    }

    /// Returns the program that runs VMs. Fails if it is not installed, too old or broken.
    pub(super) fn find_qemu_system(&self) -> CpiResult<QemuSystem> {
        let path = self.find(QEMU_SYSTEM, "qemu-system-x86")?;
        let version_error = |reason: String| {
            let path = path.display();
            CpiFailure::new(FailureKind::NotSupported, format!("'{path} --version' failed: {reason}"))
        };
        let output = run(Command::new(&path).arg("--version").env_clear(), VERSION_TIMEOUT)
            .map_err(|error| version_error(error.to_string()))?;
        if !output.status.success() {
            return Err(version_error(output.reason()));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().next().unwrap_or_default().trim().to_owned();
        match parse_version(&line) {
            Some(parsed_version) if parsed_version >= OLDEST_VERSION => {
                Ok(QemuSystem { path, version: line })
            }
            Some((major, minor)) => Err(CpiFailure::new(
                FailureKind::NotSupported,
                format!(
                    "'{}' is QEMU {major}.{minor}, which is too old: the 'qemu' CPI needs {}.{} or later. \
                     Upgrade the package qemu-system-x86, then run the same command again",
                    path.display(),
                    OLDEST_VERSION.0,
                    OLDEST_VERSION.1
                ),
            )),
            None => Err(version_error(format!("it printed no version of QEMU: '{}'", line.escape_debug()))),
        }
    }

    fn find(&self, name: &str, package: &str) -> CpiResult<PathBuf> {
        let directory = self.directory.as_ref().and_then(|path| path.to_str());
        find_program(name, directory.unwrap_or(SEARCH_PATH), package)
    }
}

/// Returns the path of `ip`, which sets up network devices. Fails if it is not installed.
pub(super) fn find_ip() -> CpiResult<PathBuf> {
    find_program("ip", SEARCH_PATH, "iproute2")
}

/// Returns the path of a program that makes or changes file systems. Fails if it is not installed.
pub(super) fn find_file_system_program(name: &str) -> CpiResult<PathBuf> {
    find_program(name, SEARCH_PATH, "e2fsprogs")
}

/// Returns the path of a program in the directories `search_path`. Fails if it is not installed.
fn find_program(name: &str, search_path: &str, package: &str) -> CpiResult<PathBuf> {
    find(name, search_path).ok_or_else(|| {
        CpiFailure::new(
            FailureKind::NotSupported,
            format!(
                "this machine lacks '{name}', which VMs of the 'qemu' CPI need; looked in {search_path}. \
                 Install it (on Debian and Ubuntu: `apt-get install {package}`), then run the same command \
                 again"
            ),
        )
    })
}

/// Parses `QEMU emulator version 7.2.22 (…)`.
fn parse_version(line: &str) -> Option<(u32, u32)> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "version").skip(1);
    let mut numbers = words.next()?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns the error for a program that could not be run.
pub(super) fn run_error(program: &Path, error: io::Error) -> CpiFailure {
    CpiFailure::io(format_args!("running '{}'", program.display()), error)
}

/// Returns the error for a program that ran and failed to write an image in the cloud. `command` is its path,
/// and its subcommand if it has one.
pub(super) fn image_error(command: impl std::fmt::Display, reason: &str) -> CpiFailure {
    let advice = match reason.contains("No space left on device") {
        true => ". Free some space in the CPI's `root`, then run the same command again",
        false => "",
    };
    CpiFailure::cloud(format!("'{command}' failed: {reason}{advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_program::write_program;

    fn system(script: Option<&str>) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        if let Some(script) = script {
            write_program(&directory.path().join(QEMU_SYSTEM), script).unwrap();
        }
        let system = Programs::new(Some(directory.path())).find_qemu_system();
        system.map(|system| system.version).map_err(|failure| failure.message)
    }

    #[test]
    fn version_decides() {
        let version = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)";
        assert_eq!(system(Some(&format!("echo '{version}'; echo Copyright"))).unwrap(), version);
        let old = system(Some("echo 'QEMU emulator version 2.5.0'")).unwrap_err();
        assert!(old.contains("is QEMU 2.5, which is too old") && old.contains("6.2 or later"), "{old}");
        let other = system(Some("echo hello")).unwrap_err();
        assert!(other.contains("printed no version"), "{other}");
        let error = system(Some("echo 'cannot load libfoo.so' >&2; exit 127")).unwrap_err();
        assert!(error.contains("cannot load libfoo.so"), "{error}");
        let missing = system(None).unwrap_err();
        assert!(missing.contains("`apt-get install qemu-system-x86`"), "{missing}");
    }
}
