//! Storage tools, which keep volumes and export them to machines. Each runs external programs.

mod command;
mod lvm;
mod tgt;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::volume::VolumeName;
use crate::cpi::failure::{CpiFailure, CpiResult};
use base::JsonObject;

/// A storage tool. If the volume does not exist, `delete` and `unexport` succeed, and all other methods fail.
pub(super) trait StorageTool {
    /// Creates a volume with the content of a file.
    fn import(&self, volume: &VolumeName, image: &Path) -> CpiResult<()>;
    /// Creates an empty volume of `mib` MiB.
    fn create(&self, volume: &VolumeName, mib: u64) -> CpiResult<()>;
    /// Creates a volume with the content of another one.
    fn copy(&self, source: &VolumeName, target: &VolumeName) -> CpiResult<()>;
    /// Grows a volume to `mib` MiB. A larger volume stays as it is.
    fn grow(&self, volume: &VolumeName, mib: u64) -> CpiResult<()>;
    /// Returns a volume's size in bytes, or `None` if it does not exist.
    fn size(&self, volume: &VolumeName) -> CpiResult<Option<u64>>;
    /// Deletes a volume, which must not be exported.
    fn delete(&self, volume: &VolumeName) -> CpiResult<()>;
    /// Exports a volume to exactly these initiators with this login, and withdraws an earlier export.
    fn export(&self, volume: &VolumeName, initiators: &Initiators, login: &Login) -> CpiResult<Export>;
    /// Withdraws the export of a volume.
    fn unexport(&self, volume: &VolumeName) -> CpiResult<()>;
}

/// The configured storage tool, with its settings.
#[derive(Deserialize)]
#[serde(tag = "tool", rename_all = "lowercase")]
pub(super) enum StorageSettings {
    /// Files, exported by the Linux target framework.
    Tgt(tgt::TgtSettings),
    /// Thin volumes of LVM, which the kernel exports.
    #[serde(rename = "lvm+targetcli")]
    Lvm(lvm::LvmSettings),
    /// A program that the operator provides.
    Command(command::CommandSettings),
}

impl StorageSettings {
    /// Checks the settings and creates the storage tool.
    pub(super) fn open(self) -> CpiResult<Box<dyn StorageTool>> {
        match self {
            StorageSettings::Tgt(settings) => Ok(Box::new(tgt::Tgt::new(settings)?)),
            StorageSettings::Lvm(settings) => Ok(Box::new(lvm::Lvm::new(settings)?)),
            StorageSettings::Command(settings) => Ok(Box::new(command::Command::new(settings)?)),
        }
    }
}

/// The number of bytes for names and logins when a machine boots with BIOS. A machine that needs more does
/// not boot.
///
/// iPXE passes a table (iBFT) of 768 bytes to the operating system, and two volumes leave 256 bytes for
/// strings: the initiator's name, the machine's name from DHCP, and for each volume the target's name, user
/// and password. Each string ends with a zero byte.
pub(super) const FIRMWARE_ROOM_BYTES: usize = 256;

/// The user and password of an initiator (CHAP).
pub(super) struct Login {
    pub user: String,
    pub password: String,
}

impl Login {
    /// Creates a login for this volume, with a random password.
    pub(super) fn new(volume: &VolumeName) -> CpiResult<Login> {
        // 96 bits in 16 characters: the maximum length that all CHAP implementations accept.
        let mut bytes = [0; 12];
        rand::fill(&mut bytes).map_err(|_| {
            CpiFailure::cloud("generating a password failed: the system has no random numbers")
        })?;
        Ok(Login { user: volume.short_name(), password: URL_SAFE_NO_PAD.encode(bytes) })
    }
}

/// The initiators of a machine, for one type of network.
#[derive(Debug)]
pub(super) enum Initiators {
    /// Names of iSCSI initiators.
    Iscsi(Vec<String>),
    /// World-wide names of host bus adapters.
    FibreChannel {
        /// Names of the ports (connectors of type `wwpn`).
        ports: Vec<String>,
        /// Names of the adapters (connectors of type `wwnn`), which some storage needs as well.
        nodes: Vec<String>,
    },
}

impl Initiators {
    /// Returns the bytes of [`FIRMWARE_ROOM_BYTES`] that the initiators take.
    pub(super) fn firmware_bytes(&self) -> usize {
        match self {
            Initiators::Iscsi(names) => names.first().map_or(0, |name| name.len() + 1),
            Initiators::FibreChannel { .. } => 0,
        }
    }

    /// Returns the names for a tool that supports only iSCSI. Fails for other names, so the returned names
    /// are safe in commands and configuration files.
    fn iscsi_names(&self, volume: &VolumeName) -> CpiResult<&[String]> {
        match self {
            Initiators::Iscsi(names) if !names.is_empty() && names.iter().all(|name| is_iscsi_name(name)) => {
                Ok(names)
            }
            Initiators::Iscsi(_) => Err(CpiFailure::cloud(format!(
                "volume '{volume}' cannot be exported: the node's volume connectors of type 'iqn' must be \
                 iSCSI names such as iqn.2016-06.org.example:node"
            ))),
            Initiators::FibreChannel { .. } => Err(CpiFailure::cloud(format!(
                "volume '{volume}' cannot be exported over fibre channel by this storage tool: use the \
                 storage tool 'command'"
            ))),
        }
    }
}

/// The address of an exported volume.
pub(super) enum Export {
    Iscsi(Iscsi),
    FibreChannel(FibreChannel),
}

/// The address of a volume over iSCSI. The lists are parallel: one entry per path, and at least one path.
#[derive(Deserialize)]
pub(super) struct Iscsi {
    pub portals: Vec<String>,
    pub iqns: Vec<String>,
    pub luns: Vec<u64>,
}

/// The address of a volume over fibre channel. The lists are parallel, like those of [`Iscsi`].
#[derive(Deserialize)]
pub(super) struct FibreChannel {
    /// World-wide names of the storage's ports.
    pub wwns: Vec<String>,
    pub luns: Vec<u64>,
    /// The path of the device on the machine, such as `/dev/disk/by-id/wwn-0x6005…`.
    pub path: String,
}

impl Export {
    /// Returns the `volume_type` of the target in Ironic.
    pub(super) fn volume_type(&self) -> &'static str {
        match self {
            Export::Iscsi(_) => "iscsi",
            Export::FibreChannel(_) => "fibre_channel",
        }
    }

    /// Returns the bytes of [`FIRMWARE_ROOM_BYTES`] that the export takes with its login.
    pub(super) fn firmware_bytes(&self, login: &Login) -> usize {
        match self {
            Export::Iscsi(export) => {
                let texts =
                    [export.iqns.first().map_or(0, String::len), login.user.len(), login.password.len()];
                texts.iter().map(|length| length + 1).sum()
            }
            Export::FibreChannel(_) => 0,
        }
    }

    /// Returns the `properties` of the target in Ironic (Ironic's documentation, "Boot From Volume").
    pub(super) fn properties(&self, login: &Login) -> JsonObject {
        let mut properties = JsonObject::new();
        let mut set = |key: &str, value: Value| drop(properties.insert(key.to_owned(), value));
        let luns = match self {
            Export::Iscsi(export) => {
                set("target_portal", json!(export.portals.first()));
                set("target_iqn", json!(export.iqns.first()));
                set("auth_method", json!("CHAP"));
                set("auth_username", json!(login.user));
                set("auth_password", json!(login.password));
                if export.luns.len() > 1 {
                    set("target_portals", json!(export.portals));
                    set("target_iqns", json!(export.iqns));
                }
                &export.luns
            }
            Export::FibreChannel(export) => {
                set("target_wwn", json!(export.wwns));
                set("device_path", json!(export.path));
                &export.luns
            }
        };
        set("target_lun", json!(luns.first()));
        if luns.len() > 1 {
            set("target_luns", json!(luns));
        }
        properties
    }
}

/// Returns the default of `storage.iqn`, the beginning of the names of targets.
fn default_iqn() -> String {
    "iqn.2016-06.org.monopile".to_owned()
}

/// Checks the configured portals and the beginning of the names of targets.
fn check_names(portals: &[String], iqn: &str) -> CpiResult<()> {
    let is_invalid = |text: &str| {
        text.is_empty() || text.chars().any(|character| character.is_control() || character.is_whitespace())
    };
    if portals.is_empty() || portals.iter().any(|portal| is_invalid(portal)) {
        return Err(CpiFailure::cloud("storage.portals must be a list of at least one 'address:port'"));
    }
    if !iqn.starts_with("iqn.") || !is_iscsi_name(iqn) {
        let iqn = iqn.escape_debug();
        return Err(CpiFailure::cloud(format!(
            "storage.iqn must look like iqn.2016-06.org.example, not '{iqn}'"
        )));
    }
    Ok(())
}

/// Returns true for an iSCSI name (RFC 3720, 3.2.6.1): letters, digits, `.`, `:` and `-`, with at most 223
/// bytes.
fn is_iscsi_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 223
        && text.chars().all(|character| character.is_alphanumeric() || matches!(character, '.' | ':' | '-'))
}

/// The number of lines of a program's standard error that an error quotes, from the end.
const REASON_LINES: usize = 3;

/// Runs a program without input and returns its standard output. Fails if its exit status is not 0. The error
/// does not quote the arguments, which may contain a password.
fn run(command: &mut Command, action: &str) -> CpiResult<String> {
    let output = run_to_end(command, Stdio::null(), action)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let program = command.get_program().to_string_lossy();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // Some programs print the reason first, and then a reference to more information.
    let last_lines = &lines[lines.len().saturating_sub(REASON_LINES)..];
    let reason = if last_lines.is_empty() { "no message".to_owned() } else { last_lines.join("; ") };
    Err(CpiFailure::cloud(format!("{action} failed: {program}: {reason}")))
}

/// Runs a program and returns its output with any exit status.
fn run_to_end(command: &mut Command, stdin: Stdio, action: &str) -> CpiResult<Output> {
    command.stdin(stdin).output().map_err(|error| {
        let program = command.get_program().to_string_lossy();
        CpiFailure::cloud(format!("{action} failed: '{program}' cannot be run: {error}; is it installed?"))
    })
}
