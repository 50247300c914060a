//! The kernel's target (LIO), configured by targetcli(8). Each volume has a block backstore and a target,
//! with one portal group, one LUN, and for each initiator an ACL with the login.
//!
//! targetcli reads its commands from standard input, because other users could see a login among its
//! arguments. Its exit status does not show whether a command failed. So each call ends with `saveconfig`,
//! and monopile compares the saved file with the requested configuration.
//!
//! Each call has its own home directory, so the operator's preferences neither apply nor change.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde::Deserialize;

use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::ironic::storage::{Export, Iscsi, Login, run_to_end};
use crate::ironic::volume::VolumeName;
use base::files::durable;

/// The LUN of a target's only volume.
const LUN: u64 = 0;

/// The preferences that the commands and the parsing of their output rely on.
const PREFERENCES_COMMAND: &str = "set global color_mode=false loglevel_console=error \
     auto_save_on_exit=false auto_add_default_portal=false auto_add_mapped_luns=false auto_enable_tpgt=true \
     auto_use_daemon=false";

/// Saves the configuration in the file that is restored at boot. At level `info`, targetcli confirms the
/// save.
const SAVE_COMMANDS: &str = "set global loglevel_console=info\nsaveconfig";
/// The confirmation of `saveconfig`, before the path of the file.
const SAVE_CONFIRMATION: &str = "Configuration saved to ";
/// The pause before a second attempt to save. Another program that saves can finish in it.
const SAVE_PAUSE: Duration = Duration::from_secs(1);

/// The targets of this CPI.
pub(super) struct LioTargets {
    program: PathBuf,
    portals: Vec<SocketAddr>,
    iqn: String,
    /// The pause before a save is repeated.
    save_pause: Duration,
}

/// The configuration that `saveconfig` writes.
#[derive(Deserialize)]
struct SavedConfig {
    storage_objects: Vec<Backstore>,
    targets: Vec<LioTarget>,
}

/// A device that targets can export.
#[derive(Deserialize)]
struct Backstore {
    plugin: String,
    name: String,
}

/// A target with its portal groups.
#[derive(Deserialize)]
struct LioTarget {
    wwn: String,
    tpgs: Vec<PortalGroup>,
}

/// A portal group of a target: its devices, the initiators that may log in, and its addresses.
#[derive(Deserialize)]
struct PortalGroup {
    #[serde(rename = "enable")]
    is_enabled: bool,
    attributes: serde_json::Map<String, serde_json::Value>,
    luns: Vec<Lun>,
    node_acls: Vec<Acl>,
    portals: Vec<Portal>,
}

/// A device of a portal group.
#[derive(Deserialize)]
struct Lun {
    index: u64,
    storage_object: String,
}

/// An initiator that may log in, with its login and the devices that it sees.
#[derive(Deserialize)]
struct Acl {
    node_wwn: String,
    chap_userid: Option<String>,
    chap_password: Option<String>,
    mapped_luns: Vec<MappedLun>,
}

/// A device that an initiator sees: its number for the initiator, and that in the portal group.
#[derive(Deserialize)]
struct MappedLun {
    index: u64,
    tpg_lun: u64,
}

/// An address of a portal group.
#[derive(Deserialize)]
struct Portal {
    ip_address: String,
    port: u16,
}

impl LioTargets {
    /// Checks the settings.
    pub(super) fn new(portals: Vec<String>, iqn: String) -> CpiResult<LioTargets> {
        let addresses: Result<Vec<SocketAddr>, _> = portals.iter().map(|portal| portal.parse()).collect();
        let portals = addresses.map_err(|_| {
            CpiFailure::cloud(format!(
                "storage.portals must be IP addresses of this machine with a port, not names: {}",
                portals.join(", ").escape_debug()
            ))
        })?;
        Ok(LioTargets { program: "targetcli".into(), portals, iqn, save_pause: SAVE_PAUSE })
    }

    fn target(&self, volume: &VolumeName) -> String {
        format!("{}:{}", self.iqn, volume.short_name())
    }

    /// Deletes the volume's target and backstore, now and for the next boot.
    pub(super) fn unexport(&self, volume: &VolumeName) -> CpiResult<()> {
        let target = self.target(volume);
        let action = format!("withdrawing the export of volume '{volume}'");
        let commands = [format!("/iscsi delete {target}"), format!("/backstores/block delete {volume}")];
        let (saved_config, errors) = self.run_and_save(&action, &commands, None)?;
        let is_left = saved_config.target(&target).is_some()
            || saved_config.storage_objects.iter().any(|object| object.is_of_volume(&volume.to_string()));
        if is_left { Err(CpiFailure::cloud(format!("{action} failed: targetcli: {errors}"))) } else { Ok(()) }
    }

    /// Exports a volume that is not exported, and checks the result.
    pub(super) fn export(
        &self,
        volume: &VolumeName,
        device: &Path,
        initiators: &[String],
        login: &Login,
    ) -> CpiResult<Export> {
        let (target, action) = (self.target(volume), format!("exporting volume '{volume}'"));
        let group = format!("/iscsi/{target}/tpg1");
        let mut commands = vec![
            format!("/backstores/block create name={volume} dev={}", device.display()),
            format!("/iscsi create {target}"),
            format!("{group} set attribute authentication=1 generate_node_acls=0 cache_dynamic_acls=0"),
            format!("{group}/luns create storage_object=/backstores/block/{volume} lun={LUN}"),
        ];
        for initiator in initiators {
            let acl = format!("{group}/acls/{}", initiator.to_lowercase());
            commands.push(format!("{group}/acls create wwn={}", initiator.to_lowercase()));
            commands.push(format!("{acl} set auth userid={}", login.user));
            commands.push(format!("{acl} set auth password={}", login.password));
            commands.push(format!("{acl} create mapped_lun={LUN} tpg_lun_or_backstore={LUN}"));
        }
        // The portals come last, so no initiator can log in earlier.
        for portal in &self.portals {
            let (address, port) = (portal.ip(), portal.port());
            commands.push(format!("{group}/portals create ip_address={address} ip_port={port}"));
        }
        let (saved_config, errors) = self.run_and_save(&action, &commands, Some(login))?;
        if !saved_config
            .target(&target)
            .is_some_and(|target| self.is_complete(target, volume, initiators, login))
        {
            return Err(CpiFailure::cloud(format!("{action} failed: targetcli: {errors}")));
        }
        let portal_count = self.portals.len();
        Ok(Export::Iscsi(Iscsi {
            portals: self.portals.iter().map(ToString::to_string).collect(),
            iqns: vec![target; portal_count],
            luns: vec![LUN; portal_count],
        }))
    }

    /// Returns true if the target is exactly as [`LioTargets::export`] configures it. Such a target
    /// grants no access to other initiators.
    fn is_complete(
        &self,
        target: &LioTarget,
        volume: &VolumeName,
        initiators: &[String],
        login: &Login,
    ) -> bool {
        let [group] = target.tpgs.as_slice() else { return false };
        let backstore = format!("/backstores/block/{volume}");
        let has_lun =
            matches!(group.luns.as_slice(), [lun] if lun.index == LUN && lun.storage_object == backstore);
        let may_log_in = |initiator: &String| {
            group.node_acls.iter().any(|acl| {
                acl.node_wwn.eq_ignore_ascii_case(initiator)
                    && acl.chap_userid.as_deref() == Some(&login.user)
                    && acl.chap_password.as_deref() == Some(&login.password)
                    && matches!(acl.mapped_luns.as_slice(), [lun] if lun.index == LUN && lun.tpg_lun == LUN)
            })
        };
        let has_portal = |portal: &SocketAddr| {
            group.portals.iter().any(|existing_portal| {
                existing_portal.ip_address.trim_matches(['[', ']']) == portal.ip().to_string()
                    && existing_portal.port == portal.port()
            })
        };
        let number = |key: &str| group.attributes.get(key).map(|value| value.to_string().replace('"', ""));
        group.is_enabled
            && has_lun
            && initiators.iter().all(may_log_in)
            && group.node_acls.len() <= initiators.len()
            && self.portals.iter().all(has_portal)
            && group.portals.len() == self.portals.len()
            && number("authentication").as_deref() == Some("1")
            && number("generate_node_acls").as_deref() == Some("0")
    }

    /// Runs commands and saves the configuration. Returns the configuration, and the errors in targetcli's
    /// output.
    ///
    /// After a failed command, the following ones still run, so the caller must check the configuration. A
    /// save that fails or is not confirmed is repeated once, because another program may be saving at the
    /// same time.
    fn run_and_save(
        &self,
        action: &str,
        commands: &[String],
        login: Option<&Login>,
    ) -> CpiResult<(SavedConfig, String)> {
        let first_output = self.run_commands(action, commands)?;
        let mut errors = errors_in(&first_output, login);
        let problem = match read_saved_config(&first_output) {
            Ok(state) => return Ok((state, join_errors(&errors))),
            Err(problem) => problem,
        };
        errors.push(problem);
        sleep(self.save_pause);
        // If targetcli ran to its end, only the save is missing.
        let second_output =
            self.run_commands(action, if first_output.status.success() { &[] } else { commands })?;
        errors.extend(errors_in(&second_output, login));
        match read_saved_config(&second_output) {
            Ok(state) => Ok((state, join_errors(&errors))),
            Err(problem) => {
                errors.push(problem);
                Err(CpiFailure::cloud(format!("{action} failed: targetcli: {}", join_errors(&errors))))
            }
        }
    }

    /// Runs targetcli with these commands and a save after them. Returns its output with any exit status.
    fn run_commands(&self, action: &str, commands: &[String]) -> CpiResult<Output> {
        let io_error = |error| CpiFailure::io(action, error);
        // Only the owner can read the directory, because the script contains the login.
        let scratch = tempfile::tempdir().map_err(io_error)?;
        let script = scratch.path().join("script");
        let mut lines = vec![PREFERENCES_COMMAND];
        lines.extend(commands.iter().map(String::as_str));
        lines.extend([SAVE_COMMANDS, "exit\n"]);
        durable::write_atomically(&script, lines.join("\n").as_bytes()).map_err(io_error)?;
        let mut command = Command::new(&self.program);
        command.env("HOME", scratch.path()).env("TARGETCLI_HOME", scratch.path());
        run_to_end(&mut command, Stdio::from(File::open(&script).map_err(io_error)?), action)
    }
}

/// Returns the configuration in the file that targetcli reports as saved, or the reason why it cannot be
/// read.
fn read_saved_config(output: &Output) -> Result<SavedConfig, String> {
    if !output.status.success() {
        return Err(format!("it ended with {}, and may not have saved the configuration", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let path =
        text.lines().rev().find_map(|line| line.split_once(SAVE_CONFIRMATION)).map(|(_, path)| path.trim());
    let path = path.ok_or("it did not confirm `saveconfig`")?;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // targetcli copies the file into place without syncing it.
        file.sync_all()?;
        Ok(text)
    };
    let text = read()
        .map_err(|error| format!("it reports to have saved '{path}', which cannot be read: {error}"))?;
    // serde's message may quote a value, and the file contains passwords.
    serde_json::from_slice(&text)
        .map_err(|_| format!("it reports to have saved '{path}', which is not a configuration of targets"))
}

impl SavedConfig {
    fn target(&self, wwn: &str) -> Option<&LioTarget> {
        self.targets.iter().find(|target| target.wwn == wwn)
    }
}

impl Backstore {
    fn is_of_volume(&self, volume: &str) -> bool {
        self.plugin == "block" && self.name == volume
    }
}

/// Returns the errors in targetcli's output, without the password of `login`.
fn errors_in(output: &Output, login: Option<&Login>) -> Vec<String> {
    let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    let text = match login {
        Some(login) => text.replace(&login.password, "******"),
        None => text,
    };
    error_lines(&text)
}

/// Returns the lines that are errors: without prompts, confirmations and the frames of stack traces.
fn error_lines(text: &str) -> Vec<String> {
    let noise = [
        "Parameter ",
        "Info: ",
        "targetcli shell version",
        "Copyright ",
        "For help ",
        "/>",
        "Warning: Could not load",
        "Traceback ",
        "During handling ",
        " ",
    ];
    let lines = text.lines().map(|line| line.trim_start_matches("/> ").trim_end());
    lines
        .filter(|line| !line.is_empty() && !noise.iter().any(|noise| line.starts_with(noise)))
        .map(str::to_owned)
        .collect()
}

fn join_errors(errors: &[String]) -> String {
    if errors.is_empty() { "no message".to_owned() } else { errors.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ironic::volume::VolumeKind;
    use crate::test_program::write_program;

    #[test]
    fn errors_are_found_among_prompts_and_stack_traces() {
        let text = "Warning: Could not load preferences file /tmp/x/prefs.bin.\ntargetcli shell version \
            2.1.53\n\
            /> Parameter color_mode is now 'false'.\n/> /> Error: No such path /iscsi/x\n/> /> \n\
            Traceback (most recent call last):\n  File \"root.py\", line 478, in save_to_file\n    open()\n\
            OSError: [Errno 30] Read-only file system: 'saveconfig.json.temp'\n";
        let errors = [
            "Error: No such path /iscsi/x",
            "OSError: [Errno 30] Read-only file system: 'saveconfig.json.temp'",
        ];
        assert_eq!(error_lines(text), errors);
        assert_eq!(join_errors(&error_lines("/> /> ")), "no message");
    }

    /// Returns a target with a program in place of targetcli. `script` runs in a shell, with the number of
    /// the call in `$call` and the path of the saved configuration in `$saved`.
    fn target_with(script: &str) -> (tempfile::TempDir, LioTargets) {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("targetcli");
        let head = "cd \"${0%/*}\"; cat >>asked; call=$(grep -c '^exit$' asked); saved=$PWD/saved.json\n\
            save() { echo \"$1\" >$saved; echo \"/> Info: Configuration saved to $saved\"; }\n";
        write_program(&program, &format!("{head}{script}")).unwrap();
        let lio = LioTargets::new(vec!["127.0.0.1:3260".to_owned()], "iqn.x".to_owned()).unwrap();
        let lio = LioTargets { program, save_pause: Duration::from_millis(10), ..lio };
        (directory, lio)
    }

    const EMPTY: &str = r#"{"storage_objects": [], "targets": []}"#;

    #[test]
    fn failed_or_unconfirmed_save_is_retried_once() {
        let volume = VolumeName::new(VolumeKind::Disk);
        for (first, delete_count) in
            [("exit 0", 1), ("exit 1", 2), ("save garbage; exit 0", 1), ("save >&-; exit 0", 1)]
        {
            let (directory, lio) = target_with(&format!("[ $call != 1 ] || {{ {first}; }}; save '{EMPTY}'"));
            lio.unexport(&volume).unwrap();
            let text = std::fs::read_to_string(directory.path().join("asked")).unwrap();
            assert_eq!(text.matches("saveconfig\n").count(), 2, "{first}");
            assert_eq!(text.matches("/iscsi delete").count(), delete_count, "{first}");
        }
        let (directory, lio) = target_with(&format!("save '{EMPTY}'"));
        lio.unexport(&volume).unwrap();
        let text = std::fs::read_to_string(directory.path().join("asked")).unwrap();
        assert_eq!(text.matches("saveconfig\n").count(), 1);
    }

    #[test]
    fn unsaved_configuration_is_an_error() {
        for (script, words) in [
            ("echo 'Error: busy' >&2", "targetcli: Error: busy; it did not confirm `saveconfig`"),
            ("echo 'OSError: full' >&2; exit 1", "OSError: full; it ended with exit status: 1"),
            ("save '{}'; rm $saved", "saved.json', which cannot be read: No such file"),
            ("save '{\"s3cret\": 1}'", "saved.json', which is not a configuration"),
        ] {
            let (_directory, lio) = target_with(script);
            let failure = lio.unexport(&VolumeName::new(VolumeKind::Disk)).err().unwrap();
            assert!(failure.message.contains(words), "{failure}");
            assert!(!failure.message.contains("s3cret"), "{failure}");
        }
    }

    #[test]
    fn export_is_verified_and_errors_hide_the_password() {
        let volume = VolumeName::new(VolumeKind::Disk);
        let login = Login { user: "u".to_owned(), password: "s3cret".to_owned() };
        let (_directory, lio) = target_with(&format!("echo 'Error: no s3cret'; save '{EMPTY}'"));
        let names = ["iqn.y".to_owned()];
        let failure = lio.export(&volume, Path::new("/dev/x"), &names, &login).err().unwrap();
        assert!(failure.message.contains("Error: no ******"), "{failure}");
    }
}
