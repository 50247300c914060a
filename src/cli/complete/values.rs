//! Which argument takes what: files by their extension, and what the manifest offers.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use clap::{Arg, Command};
use clap_complete::ArgValueCompleter;
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};

use super::manifest::Typed;
use crate::cli::env_file;
use crate::cpi::Method;
use crate::manifest::vars_store::Store;
use crate::seal::Sealing;

/// The grammar, with what the arguments take; `words` is the command line without the word that is being typed.
pub(super) fn with_values(grammar: Command, words: &[OsString]) -> Command {
    let typed = Arc::new(Typed::of(&grammar, words));
    env_file::everywhere(grammar, &|arg| with_value(arg, &typed))
}

fn with_value(arg: Arg, typed: &Arc<Typed>) -> Arg {
    let typed = Arc::clone(typed);
    match arg.get_id().as_str() {
        "manifest" | "manifests" | "ops_files" | "vars_files" | "vars_store" | "store" | "env_file"
        | "cpi_config" | "cloud_config" => arg.add(files(&["yml", "yaml"])),
        "state" | "context" => arg.add(files(&["json"])),
        "stemcell" | "release" => arg.add(files(&["tgz", "gz"])),
        "job" => arg.add(ArgValueCompleter::new(move |word: &OsStr| offered(word, typed.jobs()))),
        "op-path" => arg.add(ArgValueCompleter::new(move |word: &OsStr| {
            word.to_str().map(|word| candidates(typed.paths(word))).unwrap_or_default()
        })),
        "vars" => arg.add(ArgValueCompleter::new(move |word: &OsStr| offered(word, with_equals(&typed)))),
        "var_files" => arg.add(ArgValueCompleter::new(move |word: &OsStr| variable_file(word, &typed))),
        "name" => arg.add(ArgValueCompleter::new(move |word: &OsStr| offered(word, stored(&typed)))),
        // The words of `cpi call`.
        "words" => arg.add(ArgValueCompleter::new(move |word: &OsStr| {
            let mut found = yaml_files().complete(word);
            found.extend(offered(word, Method::all().map(|method| method.name().to_owned())));
            found
        })),
        _ => arg,
    }
}

fn files(extensions: &'static [&'static str]) -> ArgValueCompleter {
    ArgValueCompleter::new(paths(extensions))
}

fn yaml_files() -> PathCompleter {
    paths(&["yml", "yaml"])
}

/// Files with one of these extensions, and directories on the way to them.
fn paths(extensions: &'static [&'static str]) -> PathCompleter {
    PathCompleter::file().filter(move |path: &Path| {
        path.extension().and_then(OsStr::to_str).is_some_and(|extension| extensions.contains(&extension))
    })
}

fn candidates(texts: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    texts.into_iter().map(CompletionCandidate::new).collect()
}

/// Those that begin with the word.
fn offered(word: &OsStr, texts: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let Some(word) = word.to_str() else { return Vec::new() };
    candidates(texts.into_iter().filter(|text| text.starts_with(word)))
}

fn with_equals(typed: &Typed) -> Vec<String> {
    typed.variables().into_iter().map(|name| format!("{name}=")).collect()
}

/// `NAME=PATH`: a variable, then any file.
fn variable_file(word: &OsStr, typed: &Typed) -> Vec<CompletionCandidate> {
    match word.to_str().and_then(|word| word.split_once('=')) {
        None => offered(word, with_equals(typed)),
        Some((name, path)) => {
            let found = PathCompleter::file().complete(OsStr::new(path));
            found.into_iter().map(|candidate| candidate.add_prefix(format!("{name}="))).collect()
        }
    }
}

/// The variables of a vars store.
fn stored(typed: &Typed) -> Vec<String> {
    let store = typed.store().and_then(|path| Store::open(&path, &Sealing::default()).ok());
    store.iter().flat_map(Store::iter).map(|(name, _)| name.to_owned()).collect()
}
