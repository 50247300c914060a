//! `command`: a program of the operator's, for arrays that have one of their own. It gets one JSON document on standard
//! input and answers with one on standard output; `docs/ironic.md` is the contract. The login of an export is in the
//! document, never among arguments, which everybody on the machine can see.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Export, FibreChannel, Initiators, Iscsi, Login, Storage};
use crate::cpi::failure::{Failure, Outcome};
use crate::ironic::volume::Volume;

/// The version of the contract.
const VERSION: u64 = 1;

/// Which program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandSettings {
    /// Its absolute path.
    program: PathBuf,
    /// What it is called with.
    #[serde(default)]
    arguments: Vec<String>,
}

/// See the module.
pub(super) struct Command {
    settings: CommandSettings,
}

#[derive(Serialize)]
struct Request<'a> {
    version: u64,
    operation: &'a str,
    volume: String,
    #[serde(flatten)]
    more: Value,
}

/// One of the two.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(default)]
    result: Value,
    error: Option<String>,
}

impl Command {
    pub(super) fn new(settings: CommandSettings) -> Outcome<Command> {
        match settings.program.is_absolute() {
            true => Ok(Command { settings }),
            false => Err(Failure::cloud("storage.program must be an absolute path")),
        }
    }

    fn ask(&self, operation: &str, volume: &Volume, more: Value) -> Outcome<Value> {
        let program = self.settings.program.display();
        let io =
            |error| Failure::io(format_args!("asking '{program}' to {operation} volume '{volume}'"), error);
        let request = Request { version: VERSION, operation, volume: volume.to_string(), more };
        let mut child = std::process::Command::new(&self.settings.program)
            .args(&self.settings.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What it says goes where this program's log goes.
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(io)?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that does not read it answers all the same, or not.
            let _ = stdin.write_all(json!(request).to_string().as_bytes());
        }
        let output = child.wait_with_output().map_err(io)?;
        let bad = |problem: &str| {
            Failure::cloud(format!("'{program}' was asked to {operation} volume '{volume}': {problem}"))
        };
        // The answer counts, not the exit status. What it holds is not quoted: it may be a login.
        let answer: Answer = serde_json::from_slice(&output.stdout).map_err(|_| {
            bad(&format!("its answer is no JSON with `result` or `error` ({})", output.status))
        })?;
        match answer.error {
            Some(error) => Err(bad(&error)),
            None => Ok(answer.result),
        }
    }
}

impl Storage for Command {
    fn import(&self, volume: &Volume, image: &Path) -> Outcome<()> {
        self.ask("import", volume, json!({"image": image})).map(drop)
    }

    fn create(&self, volume: &Volume, mib: u64) -> Outcome<()> {
        self.ask("create", volume, json!({"mib": mib})).map(drop)
    }

    fn copy(&self, from: &Volume, to: &Volume) -> Outcome<()> {
        if self.size(from)?.is_none() {
            return Err(from.not_found());
        }
        self.ask("copy", to, json!({"from": from.to_string()})).map(drop)
    }

    fn grow(&self, volume: &Volume, mib: u64) -> Outcome<()> {
        self.ask("grow", volume, json!({"mib": mib})).map(drop)
    }

    fn size(&self, volume: &Volume) -> Outcome<Option<u64>> {
        match self.ask("size", volume, json!({}))? {
            Value::Null => Ok(None),
            size => size.as_u64().map(Some).ok_or_else(|| {
                Failure::cloud(format!("the size of volume '{volume}' must be a number of bytes, or null"))
            }),
        }
    }

    fn delete(&self, volume: &Volume) -> Outcome<()> {
        self.ask("delete", volume, json!({})).map(drop)
    }

    fn export(&self, volume: &Volume, initiators: &Initiators, login: &Login) -> Outcome<Export> {
        let bad = |what: &str| Failure::cloud(format!("the export of volume '{volume}' must be {what}"));
        match initiators {
            Initiators::Iscsi(names) => {
                let login = json!({"user": login.user, "password": login.password});
                let more = json!({"transport": "iscsi", "initiators": names, "login": login});
                let way: Option<Iscsi> = serde_json::from_value(self.ask("export", volume, more)?).ok();
                way.filter(|way| same_length([way.portals.len(), way.iqns.len(), way.luns.len()]))
                    .map(Export::Iscsi)
                    .ok_or_else(|| bad("`portals`, `iqns` and `luns`, lists of the same length"))
            }
            Initiators::FibreChannel(names) => {
                let more = json!({"transport": "fibre_channel", "initiators": names});
                let way: Option<FibreChannel> =
                    serde_json::from_value(self.ask("export", volume, more)?).ok();
                way.filter(|way| same_length([way.wwns.len(), way.luns.len(), way.luns.len()]))
                    .filter(|way| way.path.starts_with("/dev/"))
                    .map(Export::FibreChannel)
                    .ok_or_else(|| bad("`wwns` and `luns`, lists of the same length, and `path`, a device"))
            }
        }
    }

    fn unexport(&self, volume: &Volume) -> Outcome<()> {
        self.ask("unexport", volume, json!({})).map(drop)
    }
}

/// One entry at least, and as many in each list.
fn same_length(lengths: [usize; 3]) -> bool {
    lengths[0] > 0 && lengths.iter().all(|length| *length == lengths[0])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::ironic::volume::VolumeKind;

    /// A tool that answers this, whatever it is asked.
    fn tool(answer: &str) -> (tempfile::TempDir, Command) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("tool");
        std::fs::write(&program, format!("#!/bin/sh\ncat > \"$0.asked\"\ncat <<'END'\n{answer}\nEND\n"))
            .unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        (dir, Command::new(CommandSettings { program, arguments: Vec::new() }).unwrap())
    }

    #[test]
    fn it_is_asked_on_standard_input() {
        let (dir, command) = tool(r#"{"result": 7}"#);
        let volume = Volume::new(VolumeKind::Disk);
        assert_eq!(command.size(&volume).unwrap(), Some(7));
        let asked = std::fs::read_to_string(dir.path().join("tool.asked")).unwrap();
        let asked: Value = serde_json::from_str(&asked).unwrap();
        assert_eq!(asked, json!({"version": 1, "operation": "size", "volume": volume.to_string()}));
    }

    #[test]
    fn a_bad_answer_is_told_and_not_quoted() {
        let volume = Volume::new(VolumeKind::Disk);
        let login = Login { user: "u".to_owned(), password: "p".to_owned() };
        for answer in [
            "",
            "s3cret",
            "[]",
            r#"{"result": "s3cret"}"#,
            r#"{"s3cret": 1}"#,
            r#"{"result": {"portals": [], "iqns": [], "luns": []}}"#,
            r#"{"result": {"portals": ["s3cret"], "iqns": [], "luns": [1]}}"#,
            r#"{"result": {"wwns": ["s3cret"], "luns": [], "path": "/dev/x"}}"#,
            r#"{"result": {"wwns": ["s3cret"], "luns": [1], "path": "x"}}"#,
        ] {
            let (_dir, command) = tool(answer);
            for initiators in [Initiators::Iscsi(Vec::new()), Initiators::FibreChannel(Vec::new())] {
                let failure = command.export(&volume, &initiators, &login).err().unwrap();
                assert!(!failure.message.contains("s3cret"), "{failure}");
            }
        }
        let (_dir, command) = tool(r#"{"error": "the array is full"}"#);
        assert!(command.create(&volume, 1).unwrap_err().message.contains("the array is full"));
        assert!(Command::new(CommandSettings { program: "tool".into(), arguments: Vec::new() }).is_err());
    }
}
