//! The accelerator of VMs: KVM if it works on this machine, otherwise TCG, which emulates the processor.
//!
//! `/dev/kvm` may open although no guest runs, for instance in a VM whose host offers KVM only in part. So a
//! probe boots a guest of one sector that waits for two ticks of its timer, and has a timeout.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::config::AcceleratorChoice;
use super::programs::QemuSystem;
use crate::cpi::cloud::ACCELERATOR_FILE;
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use crate::cpi::files::{read_json, write_json};
use crate::cpi::process::read_boot_id;
use crate::cpi::programs::run;
use artifact::disk_image::boot_record::{SECTOR_BYTES, SIGNATURE, SIGNATURE_OFFSET};

/// The timeout of the probe, which takes a second where KVM works.
const PROBE_TIMEOUT: Duration = Duration::from_secs(15);
/// The exit status of QEMU after the guest of the probe wrote 16 to the device `isa-debug-exit`: 2 × 16 + 1.
const PROBE_STATUS: i32 = 33;
/// The guest of the probe, in real mode: reads the BIOS's count of ticks (0x46c), halts until it is larger by
/// two, and writes 16 to port 0xf4.
const PROBE_CODE: [u8; 25] = [
    0x31, 0xc0, // xor ax, ax
    0x8e, 0xd8, // mov ds, ax
    0xfb, // sti
    0xa1, 0x6c, 0x04, // mov ax, [0x46c]
    0x05, 0x02, 0x00, // add ax, 2
    0xf4, // wait: hlt
    0x3b, 0x06, 0x6c, 0x04, // cmp ax, [0x46c]
    0x77, 0xf9, // ja wait
    0xb0, 0x10, // mov al, 16
    0xe6, 0xf4, // out 0xf4, al
    0xf4, // end: hlt
    0xeb, 0xfd, // jmp end
];

/// An accelerator of QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Accelerator {
    Kvm,
    Tcg,
}

/// The result of a probe, valid until this machine boots again.
#[derive(Serialize, Deserialize)]
struct ProbeRecord {
    boot_id: String,
    version: String,
    /// The reason why KVM does not work, or null.
    problem: Option<String>,
}

impl Accelerator {
    /// Returns the value of QEMU's option `-accel`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg",
        }
    }

    /// Returns the value of QEMU's option `-cpu`: all features that the accelerator offers.
    pub(super) fn cpu(self) -> &'static str {
        match self {
            Accelerator::Kvm => "host",
            Accelerator::Tcg => "max",
        }
    }
}

/// Chooses the accelerator, and passes the reason to `log`. `root` is the directory of the cloud.
pub(super) fn choose(
    choice: AcceleratorChoice,
    system: &QemuSystem,
    root: &Path,
    mut log: impl FnMut(String),
) -> CpiResult<Accelerator> {
    if choice == AcceleratorChoice::Tcg {
        log("accelerator: tcg, as configured".to_owned());
        return Ok(Accelerator::Tcg);
    }
    match (kvm_problem(system, root)?, choice) {
        (None, _) => {
            log("accelerator: kvm".to_owned());
            Ok(Accelerator::Kvm)
        }
        (Some(problem), AcceleratorChoice::Kvm) => Err(CpiFailure::new(
            FailureKind::NotSupported,
            format!(
                "KVM does not work on this machine: {problem}. Give this user access to /dev/kvm, or set the \
                 CPI's property `accelerator` to tcg, which is slower"
            ),
        )),
        (Some(problem), _) => {
            log(format!("accelerator: tcg, which is slow, because KVM does not work: {problem}"));
            Ok(Accelerator::Tcg)
        }
    }
}

/// Returns the reason why KVM does not work, or `None` if it works. Probes it once for each boot of this
/// machine and version of QEMU.
fn kvm_problem(system: &QemuSystem, root: &Path) -> CpiResult<Option<String>> {
    // Access may change at any time, and checking it is cheap.
    if let Err(error) = fs::OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        return Ok(Some(format!("opening /dev/kvm failed: {error}")));
    }
    let boot_id = read_boot_id().map_err(|error| CpiFailure::io("reading the id of this boot", error))?;
    let path = root.join(ACCELERATOR_FILE);
    if let Some(record) = read_json::<ProbeRecord>(&path)?
        && record.boot_id == boot_id
        && record.version == system.version
    {
        return Ok(record.problem);
    }
    let problem = probe(&system.path, root).map_err(|error| CpiFailure::io("probing KVM", error))?;
    write_json(&path, &ProbeRecord { boot_id, version: system.version.clone(), problem: problem.clone() })?;
    Ok(problem)
}

/// Boots the guest of the probe. Returns the reason why it did not run, or `None`.
fn probe(program: &Path, root: &Path) -> io::Result<Option<String>> {
    let mut disk = tempfile::NamedTempFile::with_prefix_in(format!("{ACCELERATOR_FILE}."), root)?;
    let mut sector = [0; SECTOR_BYTES];
    sector[..PROBE_CODE.len()].copy_from_slice(&PROBE_CODE);
    sector[SIGNATURE_OFFSET..].copy_from_slice(&SIGNATURE);
    disk.write_all(&sector)?;
    let mut drive = std::ffi::OsString::from("format=raw,if=floppy,readonly=on,file=");
    drive.push(disk.path());
    let mut command = Command::new(program);
    command.args(["-accel", "kvm", "-cpu", "host", "-machine", "pc", "-m", "32", "-nodefaults"]);
    command.args(["-no-user-config", "-display", "none", "-no-reboot"]);
    command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=1", "-drive"]).arg(drive).env_clear();
    match run(&mut command, PROBE_TIMEOUT) {
        Ok(output) if output.status.code() == Some(PROBE_STATUS) => Ok(None),
        Ok(output) => Ok(Some(output.reason())),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            Ok(Some(format!("a guest of one sector did not run within {} s", PROBE_TIMEOUT.as_secs())))
        }
        Err(error) => Err(error),
    }
}
