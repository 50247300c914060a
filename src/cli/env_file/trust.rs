//! Trust in env files that were found and not named.
//!
//! An env file chooses programs that run, files that are read and hosts that are contacted. So a file that
//! came with a repository is used only after the operator allowed it. The operator trusts this path with this
//! content, as in `direnv`: a changed file must be allowed again.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use super::EnvFile;
use super::find::OpenedEnvFile;
use crate::cli::reference;
use base::files::durable::{create_private_directory, remove_durably, write_atomically};
use base::redact::Redactor;
use base::text::clean_line;
use base::{Error, Result};
use manifest::Inputs;
use yaml::{Data, Node};

/// The maximum number of files, and of hosts, that are shown.
const SHOWN: usize = 20;

/// Returns true if the operator has allowed this file with this content.
pub(super) fn is_allowed(file: &EnvFile) -> bool {
    record(file).is_ok_and(|record| record.is_file())
}

/// Remembers that the operator allows this file with its current content.
pub(super) fn allow(file: &EnvFile) -> Result<()> {
    let record = record(file)?;
    let failed = |error| Error::io(format!("writing '{}'", record.display()), error);
    create_private_directory(base::files::durable::parent(&record)).map_err(failed)?;
    let path = file.real.as_os_str().as_encoded_bytes();
    write_atomically(&record, &[path, b"\n"].concat()).map_err(failed)
}

/// Removes the trust in this file with any content. Returns false if there was none.
pub(super) fn revoke(opened: &OpenedEnvFile) -> Result<bool> {
    let directory = directory()?;
    let failed = |error| Error::io(format!("removing trust from '{}'", directory.display()), error);
    let entries = match fs::read_dir(&directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        entries => entries.map_err(failed)?,
    };
    let wanted = [opened.real.as_os_str().as_encoded_bytes(), b"\n"].concat();
    let mut found = false;
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if base::files::input::read(&path, base::files::input::FILE_LIMIT).is_ok_and(|text| text == wanted) {
            remove_durably(&path).map_err(failed)?;
            found = true;
        }
    }
    Ok(found)
}

fn directory() -> Result<PathBuf> {
    reference::TRUST.path()
}

/// Returns the path of the file that marks this env file as allowed. Its name is a digest of the path and the
/// content of the env file.
fn record(file: &EnvFile) -> Result<PathBuf> {
    let mut hasher = Sha256::new();
    let path = file.real.as_os_str().as_encoded_bytes();
    // The length makes the boundary unambiguous.
    hasher.update((path.len() as u64).to_be_bytes());
    hasher.update(path);
    hasher.update(&file.content.text);
    let name: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(directory()?.join(name))
}

/// Returns the error for a file that must be allowed first.
pub(super) fn untrusted_error(file: &EnvFile, opened: &OpenedEnvFile) -> Error {
    let named = opened.for_shell();
    Error::invalid(format!("env file '{}' was found here, but is not trusted yet", file.path.display()))
        .with_source(description(file))
        .with_hint(format!("to allow it with its present content: monopile trust {named}"))
        .with_hint(format!("to use it once: --env-file {named}"))
}

/// Describes the programs, files and hosts that the env file would use.
pub(super) fn description(file: &EnvFile) -> String {
    let mut lines = vec!["it tells monopile what to run, read and contact as your user:".to_owned()];
    let redactor = Redactor::default();
    let root = outline(file, &redactor);
    let mut list = |verb: &str, items: BTreeSet<String>| {
        // Programs are always shown, because other items must not hide them.
        let most = if verb == "runs" { usize::MAX } else { SHOWN };
        lines.extend(items.iter().take(most).map(|item| format!("{verb} {}", clean_line(item))));
        if let Some(more) = items.len().checked_sub(most).filter(|more| *more > 0) {
            lines.push(format!("{verb} {more} more"));
        }
    };
    match &root {
        Ok(root) => list("runs", programs(file, root.as_ref())),
        Err(error) => {
            let why = format!("programs that are unknown, because of an error: {}", error.chain().join(": "));
            list("runs", [why].into());
        }
    }
    list("reads", files(file));
    let mut contacted = BTreeSet::new();
    if let Ok(Some(root)) = &root {
        hosts(root, &mut contacted);
        let tunnel = root.get("cloud_provider").and_then(|provider| provider.get("ssh_tunnel"));
        contacted.extend(tunnel.and_then(|tunnel| tunnel.get("host")?.as_str().map(str::to_owned)));
    }
    contacted.extend(file.content.state.iter().filter_map(|state| host(&state.to_string_lossy())));
    for flag in
        file.content.flags.iter().filter(|flag| ["gw-host", "gw-socks5"].contains(&flag.name.as_str()))
    {
        contacted.extend(flag.values.iter().map(|value| {
            let value = value.to_string_lossy();
            host(&value).unwrap_or_else(|| value.into_owned())
        }));
    }
    list("contacts", contacted);
    lines.join("\n")
}

/// Reads the manifest with the ops files and variables of the env file. Omits the environment and the vars
/// store, because their values are secret.
fn outline(file: &EnvFile, redactor: &Redactor) -> Result<Option<Node>> {
    let Some(path) = file.manifest() else { return Ok(None) };
    let mut inputs = Inputs { manifest: path.clone(), discard_generated: true, ..Inputs::default() };
    file.add_below(&mut inputs);
    let options = manifest::LoadOptions::default();
    manifest::load_with(&inputs, &options, redactor).map(|loaded| Some(loaded.root))
}

/// Returns the CPIs that the manifest names.
fn programs(file: &EnvFile, root: Option<&Node>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let provider = root.and_then(|root| root.get("cloud_provider"));
    if let Some(cpi) = provider.and_then(|provider| provider.get("cpi")) {
        for (key, label) in [("path", "the program"), ("builtin", "the built-in CPI")] {
            if let Some(name) = cpi.get(key).and_then(Node::as_str) {
                found.insert(format!("{label} '{name}' as CPI"));
            }
        }
    }
    let releases = root.and_then(|root| root.get("releases")?.as_seq()).unwrap_or_default();
    let text = |node: &Node, key: &str| node.get(key).and_then(Node::as_str).unwrap_or("?").to_owned();
    let mut jobs: Vec<&Node> = provider.and_then(|provider| provider.get("template")).into_iter().collect();
    jobs.extend(provider.and_then(|provider| provider.get("templates")?.as_seq()).unwrap_or_default());
    for job in jobs {
        let release = text(job, "release");
        let url = releases.iter().find(|one| text(one, "name") == release).map(|one| text(one, "url"));
        let url = url.map(|url| without_credentials(&url)).unwrap_or_else(|| "?".to_owned());
        found.insert(format!("the CPI job '{}' of release '{release}' from {url}", text(job, "name")));
    }
    let named = |flag: &str| file.content.flags.iter().find(|one| one.name == flag);
    if let Some(config) = named("cpi-config") {
        let path = config.values.first().map(|path| path.to_string_lossy().into_owned());
        found.insert(format!("the CPIs of '{}'", path.unwrap_or_default()));
    }
    if named("templates").is_some_and(|templates| templates.values.iter().any(|value| value != "native")) {
        found.insert("Ruby, for job templates".to_owned());
    }
    found
}

/// Returns the files and variables that the env file reads.
fn files(file: &EnvFile) -> BTreeSet<String> {
    let content = &file.content;
    let preset = &content.preset;
    let paths = (content.manifest.iter().chain(&content.vars_store).chain(&content.state))
        .chain(&content.ops_files)
        .chain(&preset.vars_files)
        .chain(preset.var_files.iter().map(|(_, path)| path));
    let mut found: BTreeSet<String> =
        paths.map(|path| format!("'{}'", without_credentials(&path.display().to_string()))).collect();
    for flag in &content.flags {
        if ["cloud-config", "cpi-config", "encrypt-to", "gw-private-key", "identity"]
            .contains(&flag.name.as_str())
        {
            found.extend(flag.values.iter().map(|value| format!("'{}'", value.to_string_lossy())));
        }
    }
    found.extend(preset.vars_env.iter().map(|prefix| format!("the environment variables {prefix}_*")));
    found
}

/// Collects the hosts of all URLs in a tree.
fn hosts(node: &Node, found: &mut BTreeSet<String>) {
    match &node.data {
        Data::String(text) => found.extend(host(text)),
        Data::Seq(items) => items.iter().for_each(|item| hosts(item, found)),
        Data::Map(map) => map.iter().for_each(|(_, value)| hosts(value, found)),
        _ => {}
    }
}

/// Returns the host and port of a URL.
fn host(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    if scheme == "file" || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    (!host.is_empty()).then(|| host.to_owned())
}

/// Removes the user and the query from a URL.
fn without_credentials(text: &str) -> String {
    match (text.split_once("://"), host(text)) {
        (Some((scheme, rest)), Some(host)) => {
            let path = rest.find('/').map_or("", |at| &rest[at..]);
            let path = path.split(['?', '#']).next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_shown_without_credentials() {
        assert_eq!(host("https://u:p@10.0.0.6:6868/x"), Some("10.0.0.6:6868".to_owned()));
        assert_eq!(host("file:///etc/passwd"), None);
        assert_eq!(host("no url"), None);
        assert_eq!(without_credentials("https://u:p@h/a/b?sig=s"), "https://h/a/b");
        assert_eq!(without_credentials("a/b"), "a/b");
    }
}
