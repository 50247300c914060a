//! Completions of arguments: files by extension, and values from the manifest, the CPI config and the state.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Arg, Command};
use clap_complete::ArgValueCompleter;
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};

use super::record::DescribedName;
use super::typed_command_line::TypedCommandLine;
use crate::cli::{env_file, paths as cli_paths};
use engine::cpi::Method;
use engine::protocol::ResourceKind;
use manifest::vars_store::VarsStore;

const YAML_EXTENSIONS: &[&str] = &["yml", "yaml"];
const TARBALL_EXTENSIONS: &[&str] = &["tgz", "gz"];

/// Adds completions to the arguments. `words` is the command line without the word to complete.
pub(super) fn with_values(grammar: Command, words: &[OsString]) -> Command {
    let command_line = Arc::new(TypedCommandLine::of(&grammar, words));
    env_file::map_all_args(grammar, &|arg| with_value(arg, &command_line))
}

/// Adds completions to an argument.
fn with_value(arg: Arg, command_line: &Arc<TypedCommandLine>) -> Arg {
    let offer = |arg: Arg, values: fn(&OsStr, &TypedCommandLine) -> Vec<CompletionCandidate>| {
        let command_line = Arc::clone(command_line);
        arg.add(ArgValueCompleter::new(move |word: &OsStr| values(word, &command_line)))
    };
    if arg.get_long() == Some("cpi") {
        return offer(arg, |word, command_line| matching_candidates(word, cpis(command_line)));
    }
    match arg.get_id().as_str() {
        "manifest" if command_line.is(&["status"]) => arg.add(files(&["yml", "yaml", "json"])),
        "store" if command_line.is(&["vars", "rotate"]) => offer(arg, store_or_name),
        "manifest" | "manifests" | "ops_files" | "vars_files" | "vars_store" | "store" | "env_file"
        | "cpi_config" | "cloud_config" => arg.add(files(YAML_EXTENSIONS)),
        "state" | "context" => arg.add(files(&["json"])),
        "vm" => offer(arg, |word, command_line| {
            described_candidates(word, command_line.recorded_names(ResourceKind::Vm))
        }),
        "snapshot" => offer(arg, |word, command_line| {
            described_candidates(word, command_line.recorded_names(ResourceKind::Snapshot))
        }),
        "disk" => offer(arg, |word, command_line| {
            described_candidates(word, command_line.recorded_names(ResourceKind::Disk))
        }),
        "call" => offer(arg, |word, command_line| described_candidates(word, command_line.calls())),
        "cid" if command_line.is(&["delete-vm"]) => offer(arg, |word, command_line| {
            described_candidates(word, command_line.recorded_names(ResourceKind::Vm))
        }),
        "cid" if command_line.is(&["delete-disk"]) => offer(arg, |word, command_line| {
            described_candidates(word, command_line.recorded_names(ResourceKind::Disk))
        }),
        "cid" if command_line.is(&["delete-snapshot"]) => offer(arg, |word, command_line| {
            described_candidates(word, command_line.recorded_names(ResourceKind::Snapshot))
        }),
        "stemcell" if command_line.is(&["delete-stemcell"]) => {
            offer(arg, |word, command_line| described_candidates(word, command_line.stemcells()))
        }
        "stemcell" if command_line.is(&["state", "forget"]) => offer(arg, |word, command_line| {
            described_candidates(word, command_line.recorded_names(ResourceKind::Stemcell))
        }),
        "stemcell" | "release" => arg.add(files(TARBALL_EXTENSIONS)),
        "job" => offer(arg, |word, command_line| matching_candidates(word, command_line.jobs())),
        "path" if command_line.is(&["vars", "get"]) => offer(arg, |word, command_line| {
            word.to_str().map(|word| candidates(command_line.stored_paths(word))).unwrap_or_default()
        }),
        "op-path" => offer(arg, |word, command_line| {
            word.to_str().map(|word| candidates(command_line.paths(word))).unwrap_or_default()
        }),
        "vars_exec" => arg.add(ArgValueCompleter::new(complete_programs)),
        "vars" => offer(arg, |word, command_line| matching_candidates(word, with_equals(command_line))),
        "var_files" => offer(arg, complete_variable_file),
        "name" if command_line.is(&["vars", "rotate"]) => {
            offer(arg, |word, command_line| matching_candidates(word, stored_variables(command_line)))
        }
        "restore" => offer(arg, |word, command_line| described_candidates(word, command_line.versions())),
        "words" => offer(arg, complete_word_of_call),
        _ => arg,
    }
}

fn files(extensions: &'static [&'static str]) -> ArgValueCompleter {
    ArgValueCompleter::new(paths(extensions))
}

/// Completes the name of a program in `PATH`, or the path of one.
fn complete_programs(word: &OsStr) -> Vec<CompletionCandidate> {
    let mut completions = PathCompleter::file().complete(word);
    // An empty word would offer all programs.
    let Some(word) = word.to_str().filter(|word| !word.is_empty() && !word.contains('/')) else {
        return completions;
    };
    let path = cli_paths::env_vars().into_iter().find(|(name, _)| name == "PATH");
    let directories: Vec<PathBuf> =
        path.iter().flat_map(|(_, directories)| std::env::split_paths(directories)).collect();
    let entries = directories.iter().filter_map(|directory| directory.read_dir().ok()).flatten().flatten();
    let is_program =
        |path: PathBuf| path.metadata().is_ok_and(|file| file.is_file() && file.mode() & 0o111 != 0);
    let names: BTreeSet<String> = entries
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .filter(|(name, path)| name.starts_with(word) && is_program(path.clone()))
        .map(|(name, _)| name)
        .collect();
    completions.extend(candidates(names));
    completions
}

/// Completes files with one of these extensions, and directories.
fn paths(extensions: &'static [&'static str]) -> PathCompleter {
    PathCompleter::file().filter(move |path: &Path| {
        path.extension().and_then(OsStr::to_str).is_some_and(|extension| extensions.contains(&extension))
    })
}

fn candidates(texts: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    texts.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns the texts that begin with the typed word.
fn matching_candidates(word: &OsStr, texts: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let Some(word) = word.to_str() else { return Vec::new() };
    candidates(texts.into_iter().filter(|text| text.starts_with(word)))
}

/// Returns the names that begin with the typed word, with their descriptions.
fn described_candidates(word: &OsStr, names: Vec<DescribedName>) -> Vec<CompletionCandidate> {
    let Some(word) = word.to_str() else { return Vec::new() };
    let matching_names = names.into_iter().filter(|value| value.name.starts_with(word));
    matching_names
        .map(|value| CompletionCandidate::new(value.name).help(Some(value.description.into())))
        .collect()
}

/// Returns the CPIs of the configuration, then those of recorded resources.
fn cpis(command_line: &TypedCommandLine) -> Vec<String> {
    let mut names = command_line.configured_cpis();
    for name in command_line.recorded_cpis() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Completes a word of `cpi call`: the manifest and the method, then CIDs.
fn complete_word_of_call(word: &OsStr, command_line: &TypedCommandLine) -> Vec<CompletionCandidate> {
    let is_method = |word: &&String| Method::all().any(|method| method.name() == word.as_str());
    if command_line.words().iter().any(is_method) {
        let kinds = [ResourceKind::Vm, ResourceKind::Disk, ResourceKind::Stemcell, ResourceKind::Snapshot];
        return described_candidates(
            word,
            kinds.into_iter().flat_map(|kind| command_line.recorded_names(kind)).collect(),
        );
    }
    let mut candidates = paths(YAML_EXTENSIONS).complete(word);
    candidates.extend(matching_candidates(word, Method::all().map(|method| method.name().to_owned())));
    candidates
}

fn with_equals(command_line: &TypedCommandLine) -> Vec<String> {
    command_line.variables().into_iter().map(|name| format!("{name}=")).collect()
}

/// Completes `NAME=FILE`: a variable, then a file.
fn complete_variable_file(word: &OsStr, command_line: &TypedCommandLine) -> Vec<CompletionCandidate> {
    match word.to_str().and_then(|word| word.split_once('=')) {
        None => matching_candidates(word, with_equals(command_line)),
        Some((name, path)) => {
            let candidates = PathCompleter::file().complete(OsStr::new(path));
            candidates.into_iter().map(|candidate| candidate.add_prefix(format!("{name}="))).collect()
        }
    }
}

/// Completes the first word of `vars rotate`: a vars store, or a variable if an env file names the store.
fn store_or_name(word: &OsStr, command_line: &TypedCommandLine) -> Vec<CompletionCandidate> {
    let mut candidates = paths(YAML_EXTENSIONS).complete(word);
    candidates.extend(matching_candidates(word, stored_variables(command_line)));
    candidates
}

/// Returns the variables of a vars store.
fn stored_variables(command_line: &TypedCommandLine) -> Vec<String> {
    command_line.vars_store().iter().flat_map(VarsStore::iter).map(|(name, _)| name.to_owned()).collect()
}
