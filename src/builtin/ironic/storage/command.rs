//! `command`: a program that the operator provides, for storage arrays with their own tools.
//!
//! The program reads one JSON document from standard input and writes one to standard output;
//! `docs/ironic.md` describes them. The login of an export is in the document and not in the arguments, which
//! all users of the machine can see.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Export, FibreChannel, Initiators, Iscsi, Login, StorageTool};
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::ironic::volume::VolumeName;

/// The version of the request format.
const REQUEST_VERSION: u64 = 1;

/// The section `command` of the CPI's configuration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandSettings {
    /// The absolute path of the program.
    program: PathBuf,
    /// The arguments of the program.
    #[serde(default)]
    arguments: Vec<String>,
}

/// The storage tool, see the module documentation.
pub(super) struct Command {
    settings: CommandSettings,
}

/// A request to the program, on its standard input.
#[derive(Serialize)]
struct StorageRequest<'a> {
    version: u64,
    operation: &'a str,
    volume: String,
    #[serde(flatten)]
    other_keys: Value,
}

/// An answer: an error, or a result, which is null for most operations.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramAnswer {
    #[serde(default)]
    result: Value,
    error: Option<String>,
}

impl Command {
    /// Checks the settings and creates the storage tool.
    pub(super) fn new(settings: CommandSettings) -> CpiResult<Command> {
        match settings.program.is_absolute() {
            true => Ok(Command { settings }),
            false => {
                let program = settings.program.display();
                Err(CpiFailure::cloud(format!("storage.program must be an absolute path, not '{program}'")))
            }
        }
    }

    /// Runs the program for one request and returns the result of its answer. `other_keys` holds the other
    /// keys of the request.
    fn ask(&self, operation: &str, volume: &VolumeName, other_keys: Value) -> CpiResult<Value> {
        let program = self.settings.program.display();
        let run_error = |error| {
            CpiFailure::io(format_args!("running '{program}' to {operation} volume '{volume}'"), error)
        };
        let request =
            StorageRequest { version: REQUEST_VERSION, operation, volume: volume.to_string(), other_keys };
        let mut child = std::process::Command::new(&self.settings.program)
            .args(&self.settings.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The log of the program becomes part of this program's log.
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(run_error)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program may answer without reading the request, so only its answer counts.
            let _ = stdin.write_all(json!(request).to_string().as_bytes());
        }
        let output = child.wait_with_output().map_err(run_error)?;
        let tool_error = |problem: &str| {
            CpiFailure::cloud(format!("'{program}' failed to {operation} volume '{volume}': {problem}"))
        };
        // Only the answer counts, not the exit status. The error does not quote the answer, which may contain
        // a login.
        let answer: ProgramAnswer = serde_json::from_slice(&output.stdout).map_err(|_| {
            tool_error(&format!(
                "its answer is not a JSON object with `result` or `error` ({})",
                output.status
            ))
        })?;
        match answer.error {
            Some(error) => Err(tool_error(&error)),
            None => Ok(answer.result),
        }
    }
}

impl StorageTool for Command {
    fn import(&self, volume: &VolumeName, image: &Path) -> CpiResult<()> {
        self.ask("import", volume, json!({"image": image})).map(drop)
    }

    fn create(&self, volume: &VolumeName, mib: u64) -> CpiResult<()> {
        self.ask("create", volume, json!({"mib": mib})).map(drop)
    }

    fn copy(&self, source: &VolumeName, target: &VolumeName) -> CpiResult<()> {
        if self.size(source)?.is_none() {
            return Err(source.not_found_error());
        }
        self.ask("copy", target, json!({"from": source.to_string()})).map(drop)
    }

    fn grow(&self, volume: &VolumeName, mib: u64) -> CpiResult<()> {
        self.ask("grow", volume, json!({"mib": mib})).map(drop)
    }

    fn size(&self, volume: &VolumeName) -> CpiResult<Option<u64>> {
        match self.ask("size", volume, json!({}))? {
            Value::Null => Ok(None),
            size => size.as_u64().map(Some).ok_or_else(|| {
                let program = self.settings.program.display();
                CpiFailure::cloud(format!(
                    "'{program}' failed to size volume '{volume}': the result must be a number of bytes, or \
                        null"
                ))
            }),
        }
    }

    fn delete(&self, volume: &VolumeName) -> CpiResult<()> {
        self.ask("delete", volume, json!({})).map(drop)
    }

    fn export(&self, volume: &VolumeName, initiators: &Initiators, login: &Login) -> CpiResult<Export> {
        let result_error = |expected: &str| {
            let program = self.settings.program.display();
            CpiFailure::cloud(format!(
                "'{program}' failed to export volume '{volume}': the result must be {expected}"
            ))
        };
        match initiators {
            Initiators::Iscsi(names) => {
                let login = json!({"user": login.user, "password": login.password});
                let other_keys = json!({"transport": "iscsi", "initiators": names, "login": login});
                let export: Option<Iscsi> =
                    serde_json::from_value(self.ask("export", volume, other_keys)?).ok();
                export
                    .filter(|export| {
                        have_same_length(&[export.portals.len(), export.iqns.len(), export.luns.len()])
                    })
                    .map(Export::Iscsi)
                    .ok_or_else(|| result_error("`portals`, `iqns` and `luns`, lists of the same length"))
            }
            Initiators::FibreChannel { ports, nodes } => {
                let other_keys =
                    json!({"transport": "fibre_channel", "initiators": ports, "node_names": nodes});
                let export: Option<FibreChannel> =
                    serde_json::from_value(self.ask("export", volume, other_keys)?).ok();
                export
                    .filter(|export| have_same_length(&[export.wwns.len(), export.luns.len()]))
                    .filter(|export| export.path.starts_with("/dev/"))
                    .map(Export::FibreChannel)
                    .ok_or_else(|| {
                        result_error("`wwns` and `luns`, lists of the same length, and `path`, a device")
                    })
            }
        }
    }

    fn unexport(&self, volume: &VolumeName) -> CpiResult<()> {
        self.ask("unexport", volume, json!({})).map(drop)
    }
}

/// Returns true if the lists have the same length, which is not 0.
fn have_same_length(lengths: &[usize]) -> bool {
    lengths[0] > 0 && lengths.iter().all(|length| *length == lengths[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ironic::volume::VolumeKind;
    use crate::test_program::write_program;

    /// Returns a tool that gives this answer to every request.
    fn tool(answer: &str) -> (tempfile::TempDir, Command) {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("tool");
        write_program(&program, &format!("cat > \"$0.asked\"\ncat <<'END'\n{answer}\nEND")).unwrap();
        (directory, Command::new(CommandSettings { program, arguments: Vec::new() }).unwrap())
    }

    #[test]
    fn request_goes_to_standard_input() {
        let (directory, command) = tool(r#"{"result": 7}"#);
        let volume = VolumeName::new(VolumeKind::Disk);
        assert_eq!(command.size(&volume).unwrap(), Some(7));
        let request = std::fs::read_to_string(directory.path().join("tool.asked")).unwrap();
        let request: Value = serde_json::from_str(&request).unwrap();
        assert_eq!(request, json!({"version": 1, "operation": "size", "volume": volume.to_string()}));
    }

    #[test]
    fn error_for_a_malformed_answer_does_not_quote_it() {
        let volume = VolumeName::new(VolumeKind::Disk);
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
            let (_directory, command) = tool(answer);
            for initiators in [
                Initiators::Iscsi(Vec::new()),
                Initiators::FibreChannel { ports: Vec::new(), nodes: Vec::new() },
            ] {
                let failure = command.export(&volume, &initiators, &login).err().unwrap();
                assert!(!failure.message.contains("s3cret"), "{failure}");
            }
        }
        let (_directory, command) = tool(r#"{"error": "the array is full"}"#);
        assert!(command.create(&volume, 1).unwrap_err().message.contains("the array is full"));
        assert!(Command::new(CommandSettings { program: "tool".into(), arguments: Vec::new() }).is_err());
    }
}
