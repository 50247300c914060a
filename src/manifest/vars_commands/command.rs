//! Runs the subcommands of `monopile vars` and formats the output of those that print text.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use time::OffsetDateTime;

use super::report::{self, VariableRow};
use super::rotate::{self, RotationResult};
use crate::document_kind::file_option;
use crate::ops::PathError;
use crate::vars_store::previous;
use crate::vars_store::store::{DEFAULT_SUFFIX, VarsStore, command_line, default_store_path};
use crate::{Inputs, load, ops};
use base::encoding::rfc3339;
use base::encryption::Encryption;
use base::events::Reporter;
use base::files::directory::parent;
use base::files::input::{self, FileKind};
use base::text::{and_list, shell_word};
use base::{Error, Result};
use yaml::Node;

/// The maximum number of variables for which `vars check` shows the command that renews them.
const MAX_ROTATE_HINTS: usize = 3;

/// The hint for a vars store that is not found.
const NAME_STORE_HINT: &str = "name the file that create-env got with --vars-store; without that option, the \
                               vars store of NAME.yml is NAME-vars.yml beside the state";

/// The maximum number of vars stores that a hint names.
const MAX_SHOWN_STORES: usize = 5;

/// The maximum number of files among which a vars store is looked for.
const MAX_ENTRIES: usize = 1000;

/// A subcommand of `monopile vars`.
#[derive(Debug, Clone)]
pub enum VarsRequest {
    /// Prints one value.
    Get {
        /// The path of the value in the language of ops files.
        path: String,
    },
    /// Reports values that need attention.
    Check {
        /// Inputs of the manifests that declare the values.
        manifests: Vec<Inputs>,
        /// The validity that certificates must still have.
        min_validity: Duration,
    },
    /// Replaces the value of one variable.
    Rotate {
        /// See [`VarsRequest::Check`].
        manifests: Vec<Inputs>,
        /// The name of the variable.
        name: String,
    },
    /// Finishes the rotation of a CA.
    Finish {
        /// The name of the CA's variable.
        name: String,
    },
}

impl VarsRequest {
    /// Returns true if a program prints variables.
    pub fn has_programs(&self) -> bool {
        match self {
            VarsRequest::Check { manifests, .. } | VarsRequest::Rotate { manifests, .. } => {
                manifests.iter().any(Inputs::has_programs)
            }
            VarsRequest::Get { .. } | VarsRequest::Finish { .. } => false,
        }
    }

    /// Returns the name of a command that takes a word after the vars store, with that word.
    fn word(&self) -> Option<(&'static str, &str)> {
        match self {
            VarsRequest::Get { path } => Some(("get", path.as_str())),
            VarsRequest::Rotate { name, .. } | VarsRequest::Finish { name } => {
                Some(("rotate", name.as_str()))
            }
            VarsRequest::Check { .. } => None,
        }
    }
}

/// Returns the path of a value that was named like a variable, or like a reference to a part of one.
fn op_path_of(store: &VarsStore, name: &str) -> String {
    match name.split_once(['.', '/']) {
        Some((variable, _)) if store.get(name).is_none() && store.get(variable).is_some() => {
            format!("/{}", name.replace('.', "/"))
        }
        _ => format!("/{name}"),
    }
}

/// Lists the variables of a vars store, without secrets.
pub fn list(path: &Path, encryption: &Encryption, reporter: &Reporter) -> Result<Vec<VariableRow>> {
    let store = open(path, encryption, ("list", ""))?;
    rotate::open_rotations(&store).into_iter().for_each(|rotation| reporter.note(rotation));
    Ok(report::list(&store))
}

/// Opens an existing vars store for this command.
fn open(path: &Path, encryption: &Encryption, command: (&str, &str)) -> Result<VarsStore> {
    let store = VarsStore::open(path, encryption)?;
    if !store.exists() {
        return Err(input::bare_missing_error(
            "vars store",
            path,
            FileKind { can_match: is_vars_file, certainly_matches: is_vars_file },
        )
        .with_hint(missing_hint(path, command)));
    }
    store.check_is_vars_store("").map_err(|error| error.with_hint(store_hint(path, command)))?;
    Ok(store)
}

/// Returns the hint for a vars store that does not exist: the command with the words in their order, or with
/// the vars store in the same directory, if there is only one.
fn missing_hint(path: &Path, (command, word): (&str, &str)) -> String {
    if Path::new(word).is_file() {
        let name = path.to_string_lossy();
        let name = match command {
            "get" => format!("/{}", name.trim_start_matches('/')),
            _ => name.into_owned(),
        };
        return format!("the vars store comes first: `{}`", command_line(command, Path::new(word), &name));
    }
    let entries = fs::read_dir(parent(path)).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut stores: Vec<String> = names.filter(|name| name.ends_with(DEFAULT_SUFFIX)).collect();
    stores.sort();
    stores.truncate(MAX_SHOWN_STORES);
    match stores.as_slice() {
        [store] => {
            let suggested_command = command_line(command, &path.with_file_name(store), word);
            format!("a vars store is in the same directory: `{suggested_command}`")
        }
        [] => NAME_STORE_HINT.to_owned(),
        stores => {
            format!("name one of the vars stores in the same directory: {}", and_list(&in_quotes(stores)))
        }
    }
}

fn in_quotes(names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("'{name}'")).collect()
}

/// Returns true for a file with variables.
fn is_vars_file(path: &Path) -> bool {
    file_option(path) == Some("--vars-file")
}

/// Returns the hint for a manifest or state in place of a vars store: the command with the vars store beside
/// the manifest, if there is one. `command` has the name of the subcommand, and the word after the store.
fn store_hint(manifest: &Path, (command, word): (&str, &str)) -> String {
    let store = default_store_path(manifest);
    if !store.exists() {
        return NAME_STORE_HINT.to_owned();
    }
    format!("its vars store is beside it: `{}`", command_line(command, &store, word))
}

/// Runs the request and returns its text for standard output. A check with findings is an error.
pub fn run(
    path: &Path,
    encryption: &Encryption,
    request: &VarsRequest,
    reporter: &Reporter,
) -> Result<String> {
    let command = request.word().unwrap_or(("check", ""));
    let mut store = open(path, encryption, command)?;
    let now = OffsetDateTime::now_utc();
    match request {
        VarsRequest::Get { path: op_path } => {
            if !op_path.is_empty() && !op_path.starts_with('/') {
                let command_for = |name: &str| command_line("get", path, &op_path_of(&store, name));
                let variable = op_path.split(['.', '/']).next().unwrap_or_default();
                if store.get(op_path).is_none() && store.get(variable).is_none() {
                    return Err(rotate::missing_variable_error(&store, variable, |suggestion| {
                        format!("did you mean `{}`?", command_for(&op_path.replacen(variable, suggestion, 1)))
                    }));
                }
                find_value(&store, &op_path_of(&store, op_path))?;
                return Err(Error::usage(format!("the path '{op_path}' does not begin with '/'"))
                    .with_hint(format!("add it: `{}`", command_for(op_path))));
            }
            find_value(&store, op_path).map(|value| load::format_value(&value))
        }
        VarsRequest::Check { manifests, min_validity } => {
            check(&mut store, manifests, *min_validity, now, reporter)
        }
        VarsRequest::Rotate { manifests, name } => {
            let declarations = load::load_declarations(manifests)?;
            let rotation = rotate::rotate(&mut store, &declarations, name, now)?;
            Ok(describe_rotation(&rotation, path))
        }
        VarsRequest::Finish { name } => {
            let rotation = rotate::finish(&mut store, name)?;
            Ok(format!(
                "The old certificate of {} is removed from '{}'.\nTo deploy that, so that the environment \
                 does not trust it any more: `{}`\n",
                rotation.authorities.join(", "),
                path.display(),
                rotate::command_with_store("create-env", path)
            ))
        }
    }
}

/// Returns the value at a path.
fn find_value(store: &VarsStore, op_path: &str) -> Result<Node> {
    let root = store.root();
    // The hint is about operations, which may create what does not exist.
    let value = ops::find(&root, &load::parse_path("OP-PATH", op_path)?)
        .map_err(|error| PathError { hint: None, ..error })?;
    Ok(value.into_owned())
}

/// Checks the values of the store. Findings are an error with the command that renews them.
fn check(
    store: &mut VarsStore,
    manifests: &[Inputs],
    min_validity: Duration,
    now: OffsetDateTime,
    reporter: &Reporter,
) -> Result<String> {
    let declarations = load::load_declarations(manifests)?;
    let check_result = report::check(store, &declarations, min_validity, now)?;
    let rotations = rotate::open_rotations(store);
    check_result.notes.iter().chain(&rotations).for_each(|note| reporter.note(note));
    if check_result.findings.is_empty() {
        let verdict = match rotations.as_slice() {
            [] => "nothing needs attention",
            [_] => "no problems, but a rotation is not finished",
            _ => "no problems, but several rotations are not finished",
        };
        return Ok(format!(
            "{}, {}: {verdict}.\n",
            count_text(check_result.variables, "variable"),
            count_text(check_result.certificates, "certificate")
        ));
    }
    let lines: Vec<String> = check_result
        .findings
        .iter()
        .map(|finding| format!("{}: {}", finding.name, finding.problem))
        .collect();
    let count = count_text(lines.len(), "problem");
    let rows = report::list(store);
    let mut names: Vec<&str> = check_result.findings.iter().map(|finding| finding.name.as_str()).collect();
    names.dedup();
    let is_broken = |name: &str| check_result.broken_certificates.iter().any(|other| other == name);
    // The rotation of a certificate authority also renews the certificates that it signed.
    let signed_names = |authority: &str| -> Vec<&str> {
        let declared_names: Vec<&str> = match is_broken(authority) {
            true => declarations.names_signed_by(authority).collect(),
            false => Vec::new(),
        };
        let is_signed = |row: &&VariableRow| {
            row.name != authority
                && (row.signed_by.as_deref() == Some(authority)
                    || declared_names.contains(&row.name.as_str()))
        };
        rows.iter().filter(is_signed).map(|row| row.name.as_str()).collect()
    };
    let renewed_names: Vec<&str> = names.iter().flat_map(|name| signed_names(name)).collect();
    names.retain(|name| !renewed_names.contains(name));
    names.truncate(MAX_ROTATE_HINTS);
    let rotate_hint = |name: &str| {
        let new_names = [vec![name], signed_names(name)].concat();
        let values = if new_names.len() == 1 { "a new value" } else { "new values" };
        let manifest = declarations.get(name).and_then(|(definitions, _)| definitions.manifest());
        let manifest = manifest.map(Path::to_string_lossy);
        // A certificate that cannot be read does not show how it was generated.
        let manifest = match &manifest {
            Some(manifest) => Some(shell_word(manifest)),
            None => is_broken(name).then(|| "MANIFEST".into()),
        };
        let option = manifest.map(|manifest| format!(" -m {manifest}")).unwrap_or_default();
        let command = rotate::rotate_command(store, name);
        format!("to generate {values} of {}: `{command}{option}`", and_list(&new_names))
    };
    let copy_hint = (!check_result.broken_certificates.is_empty())
        .then_some("put the vars store back from a copy, if there is one");
    let error = Error::invalid(format!(
        "{count} in vars store '{}':\n  {}",
        store.path().display(),
        lines.join("\n  ")
    ))
    .with_hints(copy_hint)
    .with_hints(names.into_iter().map(rotate_hint));
    Err(match check_result.has_invalid_dates {
        true => {
            error.with_hint(format!("this machine's clock says {}: set it if that is wrong", rfc3339(now)))
        }
        false => error,
    })
}

fn describe_rotation(rotation: &RotationResult, path: &Path) -> String {
    let (new_values, old_values, pronoun, old_pronoun) = match rotation.renewed_names.len() {
        1 => ("New value", "The old value is", "the new one is", "it"),
        _ => ("New values", "The old values are", "the new ones are", "them"),
    };
    let mut text = format!(
        "{new_values} in '{}': {}\n{old_values} kept under '{}' until {pronoun} deployed: the agent of \
         a deployed VM needs {old_pronoun} until then.\nTo see whether the deploy replaces the VM: \
         `{}`\nTo deploy: `{}`\n",
        path.display(),
        rotation.renewed_names.join(", "),
        previous::PREVIOUS_KEY,
        rotate::command_with_store("plan", path),
        rotate::command_with_store("create-env", path),
    );
    if let Some(first) = rotation.authorities.first() {
        let _ = write!(
            text,
            "The old certificate of {authorities} is still trusted. Deploy each environment whose manifest \
             uses {authorities}. Then stop trusting the old certificate, and deploy again:\n  `{} \
             --finish`\n",
            command_line("rotate", path, first),
            authorities = rotation.authorities.join(", "),
        );
    }
    text
}

fn count_text(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
