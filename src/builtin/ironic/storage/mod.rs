//! Storage tools: who keeps volumes and shows them to machines. Each is an external, well-known program.

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

use super::volume::Volume;
use crate::cpi::failure::{Failure, Outcome};
use ironic::Object;

/// A storage tool. Deleting and hiding what is not there is no failure; everything else that is asked of a volume
/// which does not exist is.
pub(super) trait Storage {
    /// Makes a volume of the bytes of a file.
    fn import(&self, volume: &Volume, image: &Path) -> Outcome<()>;
    /// Makes an empty volume of so many MiB.
    fn create(&self, volume: &Volume, mib: u64) -> Outcome<()>;
    /// Makes a volume that begins as another one is.
    fn copy(&self, from: &Volume, to: &Volume) -> Outcome<()>;
    /// Makes a volume larger.
    fn grow(&self, volume: &Volume, mib: u64) -> Outcome<()>;
    /// A volume's size in bytes, if it exists.
    fn size(&self, volume: &Volume) -> Outcome<Option<u64>>;
    /// Deletes a volume; it must not be shown to anybody.
    fn delete(&self, volume: &Volume) -> Outcome<()>;
    /// Shows a volume to exactly these initiators, with this login. Whoever had it before has it no more.
    fn export(&self, volume: &Volume, initiators: &Initiators, login: &Login) -> Outcome<Export>;
    /// Hides a volume from everybody.
    fn unexport(&self, volume: &Volume) -> Outcome<()>;
}

/// Which tool, and how it is set up.
#[derive(Deserialize)]
#[serde(tag = "tool", rename_all = "lowercase")]
pub(super) enum StorageSettings {
    /// The Linux target framework, with files.
    Tgt(tgt::TgtSettings),
    /// Thin volumes of LVM's, shown by the kernel.
    #[serde(rename = "lvm+targetcli")]
    Lvm(lvm::LvmSettings),
    /// A program of the operator's.
    Command(command::CommandSettings),
}

impl StorageSettings {
    /// The tool.
    pub(super) fn open(self) -> Outcome<Box<dyn Storage>> {
        match self {
            StorageSettings::Tgt(settings) => Ok(Box::new(tgt::Tgt::new(settings)?)),
            StorageSettings::Lvm(settings) => Ok(Box::new(lvm::Lvm::new(settings)?)),
            StorageSettings::Command(settings) => Ok(Box::new(command::Command::new(settings)?)),
        }
    }
}

/// How many bytes iPXE has, on a machine that boots the way of old (BIOS), for the initiator's name and for the target's
/// name, user and password of each volume, each with an end mark, and the machine's name from DHCP: what its table of
/// 768 bytes for the operating system (iBFT) leaves with two volumes. With more it does not boot.
pub(super) const FIRMWARE_ROOM: usize = 256;

/// User and password of an initiator (CHAP).
pub(super) struct Login {
    pub user: String,
    pub password: String,
}

impl Login {
    /// A new one, for this volume alone.
    pub(super) fn new(volume: &Volume) -> Outcome<Login> {
        // 96 bits in 16 characters: no CHAP implementation takes more.
        let mut bytes = [0; 12];
        rand::fill(&mut bytes).map_err(|_| Failure::cloud("there is no randomness for a password"))?;
        Ok(Login { user: volume.short(), password: URL_SAFE_NO_PAD.encode(bytes) })
    }
}

/// Who a volume is shown to, and over which network.
#[derive(Debug)]
pub(super) enum Initiators {
    /// Names of iSCSI initiators.
    Iscsi(Vec<String>),
    /// World-wide names of the ports of host bus adapters.
    FibreChannel(Vec<String>),
}

impl Initiators {
    /// How much of [`FIRMWARE_ROOM`] they take.
    pub(super) fn firmware_bytes(&self) -> usize {
        match self {
            Initiators::Iscsi(names) => names.first().map_or(0, |name| name.len() + 1),
            Initiators::FibreChannel(_) => 0,
        }
    }

    /// The names, to a tool that knows nothing but iSCSI. They are such names, with nothing that a command or a file
    /// would take for more.
    fn over_iscsi(&self, volume: &Volume) -> Outcome<&[String]> {
        match self {
            Initiators::Iscsi(names) if !names.is_empty() && names.iter().all(|name| is_iscsi_name(name)) => {
                Ok(names)
            }
            Initiators::Iscsi(_) => Err(Failure::cloud(format!(
                "volume '{volume}' can be shown only to initiators with a name of iSCSI"
            ))),
            Initiators::FibreChannel(_) => Err(Failure::cloud(format!(
                "volume '{volume}' cannot be shown over fibre channel by this storage tool; 'command' can"
            ))),
        }
    }
}

/// How a volume is reached.
pub(super) enum Export {
    Iscsi(Iscsi),
    FibreChannel(FibreChannel),
}

/// Over iSCSI. The lists are parallel: one entry per way to it, one way at least.
#[derive(Deserialize)]
pub(super) struct Iscsi {
    pub portals: Vec<String>,
    pub iqns: Vec<String>,
    pub luns: Vec<u64>,
}

/// Over fibre channel. The lists are parallel, as those of [`Iscsi`].
#[derive(Deserialize)]
pub(super) struct FibreChannel {
    /// World-wide names of the storage's ports.
    pub wwns: Vec<String>,
    pub luns: Vec<u64>,
    /// The device, as the machine will name it, such as `/dev/disk/by-id/wwn-0x6005…`.
    pub path: String,
}

impl Export {
    /// The type of its target in Ironic.
    pub(super) fn volume_type(&self) -> &'static str {
        match self {
            Export::Iscsi(_) => "iscsi",
            Export::FibreChannel(_) => "fibre_channel",
        }
    }

    /// How much of [`FIRMWARE_ROOM`] it takes.
    pub(super) fn firmware_bytes(&self, login: &Login) -> usize {
        match self {
            Export::Iscsi(way) => {
                let texts = [way.iqns.first().map_or(0, String::len), login.user.len(), login.password.len()];
                texts.iter().map(|length| length + 1).sum()
            }
            Export::FibreChannel(_) => 0,
        }
    }

    /// The properties of its target in Ironic (Ironic's documentation, "Boot From Volume").
    pub(super) fn properties(&self, login: &Login) -> Object {
        let mut properties = Object::new();
        let mut set = |key: &str, value: Value| drop(properties.insert(key.to_owned(), value));
        let luns = match self {
            Export::Iscsi(way) => {
                set("target_portal", json!(way.portals.first()));
                set("target_iqn", json!(way.iqns.first()));
                set("auth_method", json!("CHAP"));
                set("auth_username", json!(login.user));
                set("auth_password", json!(login.password));
                if way.luns.len() > 1 {
                    set("target_portals", json!(way.portals));
                    set("target_iqns", json!(way.iqns));
                }
                &way.luns
            }
            Export::FibreChannel(way) => {
                set("target_wwn", json!(way.wwns.first()));
                if way.luns.len() > 1 {
                    set("target_wwns", json!(way.wwns));
                }
                &way.luns
            }
        };
        set("target_lun", json!(luns.first()));
        if luns.len() > 1 {
            set("target_luns", json!(luns));
        }
        properties
    }
}

/// What targets' names begin with, where nothing else is said.
fn default_iqn() -> String {
    "iqn.2016-06.org.monopile".to_owned()
}

/// Portals and the beginning of names, as they were configured.
fn check_names(portals: &[String], iqn: &str) -> Outcome<()> {
    let bad = |text: &str| text.is_empty() || text.chars().any(|c| c.is_control() || c.is_whitespace());
    if portals.is_empty() || portals.iter().any(|portal| bad(portal)) {
        return Err(Failure::cloud("storage.portals must name one 'address:port' at least"));
    }
    if !iqn.starts_with("iqn.") || !is_iscsi_name(iqn) {
        return Err(Failure::cloud("storage.iqn must look like iqn.2016-06.org.example"));
    }
    Ok(())
}

/// RFC 3720, 3.2.6.1: letters, digits, and three more.
fn is_iscsi_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 223
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | ':' | '-'))
}

/// How many of the last lines of a program's standard error are told.
const REASON_LINES: usize = 3;

/// Runs a program without input and returns its standard output. Fails if its exit status is not 0. The error does not
/// quote the arguments, which may contain a password.
fn run(command: &mut Command, what: &str) -> Outcome<String> {
    let output = spawn(command, Stdio::null(), what)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let program = command.get_program().to_string_lossy();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // Some programs print the reason first, and then where to read more.
    let last = &lines[lines.len().saturating_sub(REASON_LINES)..];
    let reason = if last.is_empty() { "no message".to_owned() } else { last.join("; ") };
    Err(Failure::cloud(format!("{what} failed: {program}: {reason}")))
}

/// Runs a program and returns its output, whatever its exit status.
fn spawn(command: &mut Command, stdin: Stdio, what: &str) -> Outcome<Output> {
    command.stdin(stdin).output().map_err(|error| {
        let program = command.get_program().to_string_lossy();
        Failure::cloud(format!("{what} failed: '{program}' cannot be run: {error}; is it installed?"))
    })
}
