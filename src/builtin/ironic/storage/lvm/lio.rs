//! The kernel's target (LIO), set up by targetcli(8): per volume a block backstore and a target of its name, with one
//! portal group, one LUN, and per initiator an ACL with the login.
//!
//! targetcli gets its commands on standard input, where nobody else on the machine sees the login. It says by no exit
//! status whether they worked, so it writes down at the end what there is, and that is compared with what is wanted.
//! It keeps preferences; it gets a home of its own, so that an operator's do not count and stay what they are.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::cpi::failure::{Failure, Outcome};
use crate::ironic::storage::{Export, Iscsi, Login, run_with};
use crate::ironic::volume::Volume;
use base::files::durable;

/// The number of a target's only volume.
const LUN: u64 = 0;

/// One shell for all, whoever runs it.
const PREFERENCES: &str = "set global color_mode=false loglevel_console=error auto_save_on_exit=false \
     auto_add_default_portal=false auto_add_mapped_luns=false auto_enable_tpgt=true auto_use_daemon=false";

/// The targets whose names begin the same.
pub(super) struct Lio {
    portals: Vec<SocketAddr>,
    iqn: String,
}

/// What is set up, as `saveconfig` writes it.
#[derive(Deserialize)]
struct State {
    storage_objects: Vec<Backstore>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Backstore {
    plugin: String,
    name: String,
}

#[derive(Deserialize)]
struct Target {
    wwn: String,
    tpgs: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    enable: bool,
    attributes: serde_json::Map<String, serde_json::Value>,
    luns: Vec<Lun>,
    node_acls: Vec<Acl>,
    portals: Vec<Portal>,
}

#[derive(Deserialize)]
struct Lun {
    index: u64,
    storage_object: String,
}

#[derive(Deserialize)]
struct Acl {
    node_wwn: String,
    chap_userid: Option<String>,
    chap_password: Option<String>,
    mapped_luns: Vec<MappedLun>,
}

#[derive(Deserialize)]
struct MappedLun {
    index: u64,
    tpg_lun: u64,
}

#[derive(Deserialize)]
struct Portal {
    ip_address: String,
    port: u16,
}

impl Lio {
    pub(super) fn new(portals: Vec<String>, iqn: String) -> Outcome<Lio> {
        let addresses: Result<Vec<SocketAddr>, _> = portals.iter().map(|portal| portal.parse()).collect();
        let portals = addresses.map_err(|_| {
            Failure::cloud("storage.portals must be addresses of this machine with a port, not names")
        })?;
        Ok(Lio { portals, iqn })
    }

    fn target(&self, volume: &Volume) -> String {
        format!("{}:{}", self.iqn, volume.short())
    }

    /// Nobody sees the volume any more, now and after the next boot.
    pub(super) fn hide(&self, volume: &Volume) -> Outcome<()> {
        let (target, what) = (self.target(volume), format!("hiding volume '{volume}'"));
        let commands = [
            format!("/iscsi delete {target}"),
            format!("/backstores/block delete {volume}"),
            SAVE.to_owned(),
        ];
        let (state, said) = self.targetcli(&what, &commands)?;
        let left = state.target(&target).is_some()
            || state.storage_objects.iter().any(|object| object.is(&volume.to_string()));
        if left { Err(Failure::cloud(format!("{what} failed: targetcli: {said}"))) } else { Ok(()) }
    }

    /// Shows what nobody sees yet.
    pub(super) fn show(
        &self,
        volume: &Volume,
        device: &Path,
        initiators: &[String],
        login: &Login,
    ) -> Outcome<Export> {
        let (target, what) = (self.target(volume), format!("showing volume '{volume}'"));
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
        // Last: until it listens, nobody gets in.
        for portal in &self.portals {
            let (address, port) = (portal.ip(), portal.port());
            commands.push(format!("{group}/portals create ip_address={address} ip_port={port}"));
        }
        commands.push(SAVE.to_owned());
        let (state, said) = self.targetcli(&what, &commands)?;
        if !state.target(&target).is_some_and(|target| self.is_wanted(target, volume, initiators, login)) {
            let said = said.replace(&login.password, "******");
            return Err(Failure::cloud(format!("{what} failed: targetcli: {said}")));
        }
        let ways = self.portals.len();
        Ok(Export::Iscsi(Iscsi {
            portals: self.portals.iter().map(ToString::to_string).collect(),
            iqns: vec![target; ways],
            luns: vec![LUN; ways],
        }))
    }

    /// Exactly what was asked for, and nothing besides.
    fn is_wanted(&self, target: &Target, volume: &Volume, initiators: &[String], login: &Login) -> bool {
        let [group] = target.tpgs.as_slice() else { return false };
        let backstore = format!("/backstores/block/{volume}");
        let lun =
            matches!(group.luns.as_slice(), [lun] if lun.index == LUN && lun.storage_object == backstore);
        let may_log_in = |initiator: &String| {
            group.node_acls.iter().any(|acl| {
                acl.node_wwn.eq_ignore_ascii_case(initiator)
                    && acl.chap_userid.as_deref() == Some(&login.user)
                    && acl.chap_password.as_deref() == Some(&login.password)
                    && matches!(acl.mapped_luns.as_slice(), [lun] if lun.index == LUN && lun.tpg_lun == LUN)
            })
        };
        let listens = |portal: &SocketAddr| {
            group.portals.iter().any(|found| {
                found.ip_address.trim_matches(['[', ']']) == portal.ip().to_string()
                    && found.port == portal.port()
            })
        };
        let number = |key: &str| group.attributes.get(key).map(|value| value.to_string().replace('"', ""));
        group.enable
            && lun
            && initiators.iter().all(may_log_in)
            && group.node_acls.len() <= initiators.len()
            && self.portals.iter().all(listens)
            && group.portals.len() == self.portals.len()
            && number("authentication").as_deref() == Some("1")
            && number("generate_node_acls").as_deref() == Some("0")
    }

    /// Runs commands, each whatever became of those before it. What there is then, and what was said.
    fn targetcli(&self, what: &str, commands: &[String]) -> Outcome<(State, String)> {
        let io = |error| Failure::io(what, error);
        // With the login in it: its owner's alone, and gone at the end.
        let scratch = tempfile::tempdir().map_err(io)?;
        let (script, state) = (scratch.path().join("script"), scratch.path().join("state.json"));
        let lines = format!("{PREFERENCES}\n{}\nsaveconfig {}\nexit\n", commands.join("\n"), state.display());
        durable::write_atomically(&script, lines.as_bytes()).map_err(io)?;
        let mut command = Command::new("targetcli");
        command.env("HOME", scratch.path()).env("TARGETCLI_HOME", scratch.path());
        let said = run_with(&mut command, Stdio::from(File::open(&script).map_err(io)?), what)?;
        let said = reason(&String::from_utf8_lossy(&[said.stdout, said.stderr].concat()));
        let text = match std::fs::read(&state) {
            Ok(text) => text,
            Err(error) => return Err(Failure::cloud(format!("{what} failed: {error}: targetcli: {said}"))),
        };
        // serde's message may quote a value, and there are passwords.
        let state = serde_json::from_slice(&text)
            .map_err(|_| Failure::cloud(format!("{what} failed: targetcli saves something else")))?;
        Ok((state, said))
    }
}

/// Where the system looks for it at the next boot.
const SAVE: &str = "saveconfig";

impl State {
    fn target(&self, wwn: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.wwn == wwn)
    }
}

impl Backstore {
    fn is(&self, volume: &str) -> bool {
        self.plugin == "block" && self.name == volume
    }
}

/// What went wrong, among the prompts and what `set` says.
fn reason(said: &str) -> String {
    let lines = said.lines().map(|line| line.trim_start_matches("/> ").trim());
    let noise =
        ["Parameter ", "targetcli shell version", "Copyright ", "For help ", "/>", "Warning: Could not load"];
    let lines: Vec<&str> =
        lines.filter(|line| !line.is_empty() && !noise.iter().any(|noise| line.starts_with(noise))).collect();
    if lines.is_empty() { "no message".to_owned() } else { lines.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_is_found_among_the_rest() {
        let said = "Warning: Could not load preferences file /tmp/x/prefs.bin.\ntargetcli shell version 2.1.53\n\
            /> Parameter color_mode is now 'false'.\n/> /> Error: No such path /iscsi/x\n/> /> ";
        assert_eq!(reason(said), "Error: No such path /iscsi/x");
        assert_eq!(reason("/> /> "), "no message");
    }
}
