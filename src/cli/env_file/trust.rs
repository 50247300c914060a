//! Trust in env files that were found and not named.
//!
//! An env file chooses programs that run, files that are read and servers that are contacted. So a file that
//! came with a repository is used only after the operator trusted it. A file is trusted at one path with one
//! content, as in `direnv`: a changed file must be trusted again. A *marker* is the file that records this.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use sha2::{Digest as _, Sha256};

use super::find::OpenedEnvFile;
use super::{EnvFile, OptionUse};
use crate::cli::encryption::is_recipient;
use crate::cli::env_vars;
use crate::cli::shared_cache::is_public_key;
use base::files::durable::{create_private_directory, remove_durably, write_atomically};
use base::redact::Redactor;
use base::text::clean_line;
use base::{Error, Result};
use engine::state::BucketUrl;
use manifest::{Inputs, LoadedManifest, SavePolicy, UserlandRef};
use yaml::Node;

/// The largest number of files, and of servers, that are shown.
const MAX_SHOWN_ENTRIES: usize = 20;

/// Returns true if the operator trusts this file with this content.
pub(super) fn is_trusted(file: &EnvFile) -> bool {
    trust_marker(file).is_ok_and(|marker| marker.is_file())
}

/// Remembers that the operator trusts this file with its current content. Fails if its manifest does not
/// exist, because the programs that the file starts are unknown then.
pub(super) fn trust(file: &EnvFile) -> Result<()> {
    if let Some(manifest) = file.manifest().filter(|manifest| !manifest.exists()) {
        return Err(manifest::bare_missing_manifest_error(manifest)
            .with_note(format!("the env file '{}' names it, and is not trusted", file.path.display()))
            .with_hint(format!("correct `manifest` in '{}', or create the manifest", file.path.display())));
    }
    let marker = trust_marker(file)?;
    let write_error = |error| {
        Error::io(format!("writing '{}'", marker.display()), error).with_path_hint(&marker, "XDG_STATE_HOME")
    };
    create_private_directory(base::files::directory::parent(&marker)).map_err(write_error)?;
    let path = file.real_path.as_os_str().as_encoded_bytes();
    write_atomically(&marker, &[path, b"\n"].concat()).map_err(write_error)
}

/// Removes the trust in this file with any content. Returns false if there was none.
pub(super) fn revoke(opened_file: &OpenedEnvFile) -> Result<bool> {
    let remove_error =
        |error| Error::io(format!("removing trust from '{}'", opened_file.real_path.display()), error);
    let markers = trust_markers(&opened_file.real_path).map_err(remove_error)?;
    markers.iter().try_for_each(|marker| remove_durably(marker)).map_err(remove_error)?;
    Ok(!markers.is_empty())
}

/// Returns the markers of the file at this path, with any content.
fn trust_markers(real_path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(trust_directory().map_err(io::Error::other)?) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let expected_content = [real_path.as_os_str().as_encoded_bytes(), b"\n"].concat();
    let mut markers = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if base::files::input::read(&path, base::files::input::MAX_FILE_BYTES)
            .is_ok_and(|text| text == expected_content)
        {
            markers.push(path);
        }
    }
    Ok(markers)
}

/// Returns the directory with the markers of trusted env files.
fn trust_directory() -> Result<PathBuf> {
    env_vars::TRUST.path()
}

/// Returns the path of the marker of this env file. Its name is a digest of the path and the content of the
/// env file.
fn trust_marker(file: &EnvFile) -> Result<PathBuf> {
    let mut hasher = Sha256::new();
    let path = file.real_path.as_os_str().as_encoded_bytes();
    // The length makes the boundary unambiguous.
    hasher.update((path.len() as u64).to_be_bytes());
    hasher.update(path);
    hasher.update(&file.content.text);
    let name: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(trust_directory()?.join(name))
}

/// Returns the error for a file that must be trusted first.
pub(super) fn untrusted_error(file: &EnvFile, opened_file: &OpenedEnvFile) -> Error {
    let shell_path = opened_file.for_shell();
    let problem = describe_problem(file, &file.path.display().to_string());
    // Neither `trust` nor `--env-file` would accept the file.
    if let Some(manifest) = file.manifest().filter(|manifest| !manifest.exists()) {
        let missing_manifest = manifest::bare_missing_manifest_error(manifest);
        return Error::invalid(format!("{problem}, and its {missing_manifest}"))
            .with_advice_of(&missing_manifest)
            .with_hint(format!("correct `manifest` in '{}', or create the manifest", file.path.display()));
    }
    Error::invalid(format!("{problem}\n{}", description(file)))
        .with_hint(format!("to trust it with its present content: `monopile trust {shell_path}`"))
        .with_hint(format!("to use it once: `monopile SAME-COMMAND --env-file {shell_path}`"))
}

/// Says that a file is not trusted yet, or not with its present content. `path` names it.
pub(super) fn describe_problem(file: &EnvFile, path: &str) -> String {
    match trust_markers(&file.real_path).is_ok_and(|markers| !markers.is_empty()) {
        true => format!("the env file '{path}' has changed since you trusted it"),
        false => format!("the env file '{path}' is not trusted yet"),
    }
}

/// Describes what the env file would run, read and contact.
pub(super) fn description(file: &EnvFile) -> String {
    let mut lines = Vec::new();
    let redactor = Redactor::default();
    let outline = load_outline(file, &redactor);
    let mut list = |verb: &str, items: BTreeSet<String>| {
        // Programs are always shown: other items must not hide them.
        let limit = if verb == "run" { usize::MAX } else { MAX_SHOWN_ENTRIES };
        lines.extend(items.iter().take(limit).map(|item| format!("  {verb} {}", clean_line(item))));
        if let Some(hidden_count) = items.len().checked_sub(limit).filter(|hidden_count| *hidden_count > 0) {
            lines.push(format!("  {verb} {hidden_count} more"));
        }
    };
    let vars_programs = file.content.env_file_variables.vars_exec.iter();
    let mut runs: BTreeSet<String> =
        vars_programs.map(|program| format!("`{}` for variables", program.command_line())).collect();
    runs.extend(option_programs(file));
    let mut reads = files(file);
    let mut contacted_hosts = BTreeSet::new();
    match outline {
        Ok(Some(manifest)) => {
            runs.extend(programs(&manifest));
            reads.extend(files_of_manifest(&manifest));
            contacted_hosts = servers(&manifest);
        }
        Ok(None) => {}
        Err(error) => {
            let reason = error.chain().join(": ");
            runs.insert(format!(
                "unknown programs, because its manifest or CPI config cannot be read: {reason}"
            ));
        }
    }
    list("run", runs);
    list("read", reads);
    let recipients = file.values_of(&[OptionUse::Recipients]).filter(|value| is_recipient(value));
    list("encrypt state and vars store for", recipients.map(|value| format!("'{value}'")).collect());
    let documents = file.content.state.iter().chain(&file.content.vars_store);
    contacted_hosts.extend(documents.filter_map(|document| service(&document.to_string_lossy())));
    contacted_hosts.extend(file.values_of(&[OptionUse::Server]).map(|value| host(&value).unwrap_or(value)));
    contacted_hosts.extend(file.values_of(&[OptionUse::SharedCache]).filter_map(|url| service(&url)));
    contacted_hosts.extend(file.values_of(&[OptionUse::Userland]).filter_map(|url| host(&url)));
    list("contact", contacted_hosts);
    match lines.is_empty() {
        true => "It runs, reads and contacts nothing.".to_owned(),
        false => format!("With this file, monopile will:\n{}", lines.join("\n")),
    }
}

/// Loads manifest and CPI config with the ops files and variables of the env file. Omits the environment and
/// the vars store, because their values are secret, and runs no programs.
fn load_outline(file: &EnvFile, redactor: &Redactor) -> Result<Option<LoadedManifest>> {
    let Some(path) = file.manifest() else { return Ok(None) };
    let mut inputs = Inputs { manifest: path.clone(), save_policy: SavePolicy::Never, ..Inputs::default() };
    inputs.cpi_config = file.values_of(&[OptionUse::CpiConfig]).next().map(PathBuf::from);
    file.insert_into(&mut inputs);
    let options = manifest::LoadOptions::default();
    manifest::load_with_options(&inputs.without_programs(), &options, redactor).map(Some)
}

/// Returns the programs that options of the env file choose: the CPIs of the CPI config, compiled CPIs, and
/// Ruby.
fn option_programs(file: &EnvFile) -> BTreeSet<String> {
    let mut programs = BTreeSet::new();
    programs.extend(file.values_of(&[OptionUse::CpiConfig]).map(|path| format!("the CPIs of '{path}'")));
    let directories = file.values_of(&[OptionUse::ProgramDirectory]);
    programs.extend(directories.map(|path| format!("compiled CPIs that are in '{path}'")));
    let caches = file.values_of(&[OptionUse::SharedCache]);
    programs.extend(
        caches.map(|url| {
            format!("compiled CPIs with a trusted signature from '{}'", without_credentials(&url))
        }),
    );
    let userlands = file.values_of(&[OptionUse::Userland]).filter(|url| UserlandRef::named(url).is_some());
    programs.extend(userlands.map(|url| format!("CPIs of releases in '{}'", without_credentials(&url))));
    if file.values_of(&[OptionUse::Renderer]).any(|renderer| renderer != "native") {
        programs.insert("Ruby, for job templates".to_owned());
    }
    programs
}

/// Returns the CPIs that manifest and CPI config choose: executables, built-in CPIs, and jobs of releases.
/// Also returns packaging scripts of CPIs, if they have a network.
fn programs(manifest: &LoadedManifest) -> BTreeSet<String> {
    let root = &manifest.root;
    let mut programs = BTreeSet::new();
    let provider = root.get("cloud_provider");
    if let Some(cpi) = provider.and_then(|provider| provider.get("cpi")) {
        let text = |key: &str| cpi.get(key).and_then(Node::as_str);
        programs.extend(text("path").map(|path| format!("the program '{path}' as CPI")));
        programs.extend(text("builtin").map(|name| format!("the built-in CPI '{name}'")));
    }
    let text = |node: &Node, key: &str| node.get(key).and_then(Node::as_str).unwrap_or("?").to_owned();
    let releases = entries(root, "releases");
    let mut jobs: Vec<&Node> = provider.and_then(|provider| provider.get("template")).into_iter().collect();
    jobs.extend(provider.map(|provider| entries(provider, "templates")).unwrap_or_default());
    for job in jobs {
        let release = text(job, "release");
        let url = releases
            .iter()
            .find(|candidate| text(candidate, "name") == release)
            .map(|candidate| text(candidate, "url"));
        let url = url.map(|url| without_credentials(&url)).unwrap_or_else(|| "?".to_owned());
        programs.insert(format!("the CPI job '{}' of release '{release}' from {url}", text(job, "name")));
    }
    // A value that is not known yet may be true.
    let has_network = |value: &Node| !value.is_null() && value.as_bool() != Some(false);
    for userland in userlands(manifest) {
        if userland.get("compile_with_network").is_some_and(has_network) {
            let url = without_credentials(&text(userland, "url"));
            programs.insert(format!("packaging scripts with the network of this machine, in '{url}'"));
        }
    }
    for cpi in named_cpis(manifest) {
        let name = text(cpi, "name");
        programs.insert(match cpi.get("exec_path").and_then(Node::as_str) {
            Some(path) => format!("the program '{path}' as CPI '{name}'"),
            None => format!("the CPI '{name}' of type '{}'", text(cpi, "type")),
        });
    }
    programs
}

/// Returns the files and variables that the env file names.
fn files(file: &EnvFile) -> BTreeSet<String> {
    let content = &file.content;
    let env_file_variables = &content.env_file_variables;
    let paths = (content.manifest.iter().chain(&content.vars_store).chain(&content.state))
        .chain(&content.ops_files)
        .chain(&env_file_variables.vars_files)
        .chain(env_file_variables.var_files.iter().map(|(_, path)| path));
    let mut file_names: BTreeSet<String> =
        paths.map(|path| format!("'{}'", without_credentials(&path.display().to_string()))).collect();
    let recipient_files = file.values_of(&[OptionUse::Recipients]).filter(|value| !is_recipient(value));
    let option_paths = file.values_of(&[OptionUse::File, OptionUse::CpiConfig]).chain(recipient_files);
    let option_paths = option_paths.filter(|value| !is_public_key(value));
    file_names.extend(option_paths.map(|path| format!("'{path}'")));
    file_names.extend(
        env_file_variables.vars_env.iter().map(|prefix| format!("the environment variables {prefix}_*")),
    );
    file_names
}

/// Returns the local files that manifest and CPI config name: the key of the SSH tunnel, stemcells, releases
/// and userlands, and the files that a CPI in a userland sees.
fn files_of_manifest(manifest: &LoadedManifest) -> BTreeSet<String> {
    let key = manifest.root.get("cloud_provider").and_then(|provider| {
        let key = provider.get("ssh_tunnel")?.get("private_key")?.as_str()?;
        // A key can also be in the manifest itself.
        (!key.trim_start().starts_with("-----")).then_some(key)
    });
    let userland_files = userlands(manifest).filter_map(|userland| userland.get("files")?.as_seq()).flatten();
    let urls = urls(manifest).into_iter().filter(|url| host(url).is_none());
    let paths = urls.chain(key).chain(userland_files.filter_map(Node::as_str));
    paths.map(|path| format!("'{path}'")).collect()
}

/// Returns the servers that monopile contacts for manifest and CPI config: the agent, the SSH tunnel, and the
/// servers of stemcells, releases and userlands. Other addresses in them are for the CPI and the jobs.
fn servers(manifest: &LoadedManifest) -> BTreeSet<String> {
    let provider = manifest.root.get("cloud_provider");
    let mbus = provider.and_then(|provider| provider.get("mbus")?.as_str());
    let tunnel = provider.and_then(|provider| provider.get("ssh_tunnel")?.get("host")?.as_str());
    let hosts = urls(manifest).into_iter().chain(mbus).filter_map(host);
    hosts.chain(tunnel.map(str::to_owned)).collect()
}

/// Returns the URLs and paths of the stemcells, releases and userlands.
fn urls(manifest: &LoadedManifest) -> Vec<&str> {
    let root = &manifest.root;
    let releases = entries(root, "releases").iter().filter_map(|release| release.get("url"));
    let pools = entries(root, "resource_pools").iter().filter_map(|pool| pool.get("stemcell")?.get("url"));
    let stemcells = entries(root, "stemcells").iter().filter_map(|stemcell| stemcell.get("url"));
    let userland_urls = userlands(manifest).map(|userland| userland.get("url").unwrap_or(userland));
    let urls = releases.chain(pools).chain(stemcells).chain(userland_urls);
    urls.filter_map(Node::as_str).collect()
}

/// Returns the userlands of all CPIs, without that of this machine.
fn userlands(manifest: &LoadedManifest) -> impl Iterator<Item = &Node> {
    let cpis = manifest.root.get("cloud_provider").into_iter().chain(named_cpis(manifest));
    let is_other = |node: &&Node| node.as_str().is_none_or(|url| UserlandRef::named(url).is_some());
    cpis.filter_map(|cpi| cpi.get("userland")).filter(is_other)
}

/// Returns the entries of `cpis` in the manifest and in the CPI config.
fn named_cpis(manifest: &LoadedManifest) -> impl Iterator<Item = &Node> {
    [&manifest.root].into_iter().chain(&manifest.cpi_config).flat_map(|root| entries(root, "cpis"))
}

/// Returns the entries of a list; none if the key is missing or is no list.
fn entries<'a>(node: &'a Node, key: &str) -> &'a [Node] {
    node.get(key).and_then(Node::as_seq).unwrap_or_default()
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

/// Returns the host of the URL of a state or vars store, or the name of its bucket.
fn service(text: &str) -> Option<String> {
    let is_bucket = matches!(BucketUrl::parse(text), Ok(Some(_)));
    host(text).map(|host| if is_bucket { format!("the bucket '{host}'") } else { host })
}

/// Removes the user and the query from a URL.
fn without_credentials(text: &str) -> String {
    match (text.split_once("://"), host(text)) {
        (Some((scheme, rest)), Some(host)) => {
            let path = rest.find('/').map_or("", |start| &rest[start..]);
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
