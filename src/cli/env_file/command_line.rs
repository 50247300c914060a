//! Combines the command line with an env file. Values of the file become defaults of the arguments, so they
//! are checked like arguments, and the command line overrides them.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches as _};

use super::find::{self, OpenedEnvFile, SearchResult};
use super::read::KEYS_HINT;
use super::{EnvFile, read, trust};
use crate::cli::hint_commands::{RepeatedArgs, shown_words};
use crate::cli::suggestions::{placeholder, with_options_last};
use crate::cli::{Cli, help, paths};
use crate::ui;
use base::text::{and_list, capitalized, clean_line, shell_word};
use base::{Error, ErrorKind, Result};

/// The parsed arguments of this process.
pub(in crate::cli) enum CommandLine {
    /// A command, its words for hints, and remarks about the env file.
    Understood(Box<Cli>, RepeatedArgs, Vec<Remark>),
    /// A command with an unusable env file.
    Unusable(Box<Cli>, Error),
    /// Invalid arguments, or a request for help.
    Refused(clap::Error),
}

/// A remark about an env file.
pub(in crate::cli) enum Remark {
    Note(String),
    Warning(String),
}

/// Parses the arguments, which begin with the program's name. `grammar` is the grammar for these words.
pub(in crate::cli) fn parse_command_line(grammar: &Command, args: &[OsString]) -> CommandLine {
    match parse_with_env_file(grammar, args) {
        Ok(command_line) => command_line,
        Err(error) => CommandLine::Refused(error),
    }
}

/// Parses the command line twice: first with placeholders for what an env file can supply, to find that file,
/// then with its values as defaults. If the operator's own words are wrong, the error is that of the plain
/// grammar.
fn parse_with_env_file(grammar: &Command, args: &[OsString]) -> Result<CommandLine, clap::Error> {
    let first_matches = match with_placeholder_defaults(grammar.clone()).try_get_matches_from(args) {
        Ok(matches) => matches,
        // The lenient grammar would show a default for the manifest.
        Err(error) if is_help(&error) => {
            let help_grammar = with_optional_positionals(grammar.clone());
            return Err(help_grammar.try_get_matches_from(args).err().unwrap_or(error));
        }
        // An env file does not correct this mistake.
        Err(error) => return Err(with_hint_about_words(error, grammar, args)),
    };
    let (path, matches) = innermost_command(&first_matches);
    let mut remarks = remarks_on_ignored_options(matches);
    let repeated_args = RepeatedArgs::of(matches, &|id| is_given(matches, id));
    let parse_strictly = || -> Result<Box<Cli>, clap::Error> {
        Cli::from_arg_matches(&grammar.clone().try_get_matches_from(args)?).map(Box::new)
    };
    let unusable = |error: Error| -> Result<CommandLine, clap::Error> {
        Ok(CommandLine::Unusable(Box::new(Cli::from_arg_matches(&first_matches)?), error))
    };
    // `alternative` is a further hint.
    let unusable_if_unnamed = |error: clap::Error, alternative: Option<String>| match unnamed_error(&error) {
        Some((error, word)) if is_given(matches, "ignored-environment") => {
            let line = format!("monopile {} {word}", path.join(" "));
            unusable(error.with_hint(format!("-e names a director, not an environment; name it: `{line}`")))
        }
        Some((error, word)) => {
            let line = line_with_words(grammar, args, &[word.to_owned()]);
            unusable(error.with_hint(format!("name it: `{line}`")).with_hints(alternative))
        }
        None => Err(error),
    };
    if !may_have_env_file(matches) {
        return match (lone_store_error(&path, matches, None), parse_strictly()) {
            (Some(error), _) => unusable(error),
            (None, Ok(cli)) => Ok(CommandLine::Understood(cli, repeated_args, remarks)),
            (None, Err(error)) => unusable_if_unnamed(error, None),
        };
    }
    let option_path = matches.get_one::<EnvFile>("env_file").map(|file| file.path.clone());
    let is_named = option_path.is_some();
    let unusable_file = |error: Error| match is_named {
        true => unusable(error),
        false => unusable(error.with_hint("to ignore the env file: `monopile SAME-COMMAND --no-env-file`")),
    };
    let (file, file_remark) = match find_env_file(matches, option_path, &ask) {
        Ok(file_and_remark) => file_and_remark,
        Err(error) => return unusable_file(error),
    };
    let file_remark_text =
        file_remark.as_ref().map(|(Remark::Note(text) | Remark::Warning(text))| clean_line(text));
    remarks.extend(file_remark);
    if let Some(error) = lone_store_error(&path, matches, file.as_ref()) {
        return unusable(error);
    }
    let Some(file) = file else {
        return match (parse_strictly(), file_remark_text) {
            (Ok(cli), _) => Ok(CommandLine::Understood(cli, repeated_args, remarks)),
            (Err(error), Some(text)) => unusable_if_unnamed(error, Some(text)),
            (Err(error), None) => {
                let key = key_of_missing(&error);
                let hint = format!("or set `{key}` in a file .monopile.yml, here or in a directory above");
                unusable_if_unnamed(error, Some(hint))
            }
        };
    };
    let repeated_args = match file.manifest() {
        Some(_) if !is_named => repeated_args.with_found_manifest(),
        _ => repeated_args,
    };
    let grammar_with_defaults = with_file_defaults(grammar.clone(), &path, matches, &file);
    match grammar_with_defaults.try_get_matches_from(args) {
        Ok(matches) => {
            Ok(CommandLine::Understood(Box::new(Cli::from_arg_matches(&matches)?), repeated_args, remarks))
        }
        Err(error) => match file_error(&file, &error) {
            Some(error) => unusable_file(error),
            None => {
                let hint =
                    format!("or add `{}` to the env file '{}'", key_of_missing(&error), file.path.display());
                unusable_if_unnamed(error, Some(clean_line(&hint)))
            }
        },
    }
}

/// Returns the command line with further words after the words of the command.
fn line_with_words(grammar: &Command, args: &[OsString], new_words: &[String]) -> String {
    let (mut command, mut command_end) = (grammar, 0);
    for (index, word) in args.iter().enumerate().skip(1) {
        if let Some(subcommand) = command.find_subcommand(word) {
            (command, command_end) = (subcommand, index);
        }
    }
    let mut words = shown_words(args, command);
    let index = command_end.min(words.len());
    words.splice(index..index, new_words.iter().cloned());
    let words: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
    format!("monopile {}", words.join(" "))
}

/// Adds a hint about the manifest or the vars store to the error for other missing words. If no env file can
/// supply the manifest, the operator may have left it out, so that another word was read as such.
fn with_hint_about_words(error: clap::Error, grammar: &Command, args: &[OsString]) -> clap::Error {
    if !lacks_arguments(&error) {
        return error;
    }
    let (line, command) = help::named_command(grammar, args);
    if can_supply(command) {
        // It also names the words that an env file may supply.
        let strict_error = grammar.clone().try_get_matches_from(args).err();
        return match strict_error
            .filter(|error| missing_words(error).any(|name| supplied_word(name).is_some()))
        {
            Some(strict_error) => {
                let names = with_options_last(missing_words(&strict_error));
                let words = names.into_iter().flat_map(|name| match supplied_word(name) {
                    Some((_, word)) => vec![word.to_owned()],
                    None => placeholder(name).split(' ').map(str::to_owned).collect(),
                });
                let line = line_with_words(grammar, args, &words.collect::<Vec<_>>());
                with_hint(strict_error, format!("add them: `{line}`"))
            }
            None => error,
        };
    }
    if !lacks_positional(&error) {
        return error;
    }
    let manifest = given_manifest(grammar, args);
    if command.get_name() == "scp" {
        let manifest = manifest.unwrap_or_else(|| "MANIFEST".to_owned());
        return with_hints(
            error,
            vec![
                format!("from the VM: `{line} {} :/PATH .`", shell_word(&manifest)),
                format!("to the VM: `{line} {} FILE :/PATH`", shell_word(&manifest)),
            ],
        );
    }
    // For example `PATH` of `PATH|URL`.
    let words = command.get_positionals().map(|arg| match arg.get_value_names() {
        Some([name, ..]) => name.split('|').next().unwrap_or(name).to_owned(),
        _ => arg.get_id().as_str().to_uppercase(),
    });
    let words: Vec<String> = words.collect();
    let mut value_names = command.get_positionals().filter_map(Arg::get_value_names);
    let takes_cid = value_names.nth(1).is_some_and(|names| names.iter().any(|name| name.ends_with("CID")));
    match manifest {
        Some(manifest) if takes_cid => {
            let list = match command.get_name() {
                "attach-disk" | "delete-disk" => "disks",
                "delete-snapshot" => "snapshots",
                "delete-stemcell" => "stemcells",
                _ => "status",
            };
            let list = format!("monopile {list} {}", shell_word(&manifest));
            with_hint(error, format!("add the CID; to see those on record: `{list}`"))
        }
        // The hint is the given command line with the missing words.
        Some(_) => error,
        None => {
            let reason = match find::find() {
                Ok(SearchResult::File(_)) => ", even with an env file",
                _ => "",
            };
            with_hint(error, format!("name the manifest first{reason}: `{line} {}`", words.join(" ")))
        }
    }
}

/// Returns the manifest in a partial command line, if it is an existing YAML file.
fn given_manifest(grammar: &Command, args: &[OsString]) -> Option<String> {
    let matches = grammar.clone().ignore_errors(true).try_get_matches_from(args).ok()?;
    let (_, matches) = innermost_command(&matches);
    let word = matches.try_get_raw("manifest").ok()??.next()?.to_str()?;
    let path = paths::expand(Path::new(word), paths::home().as_deref());
    (is_yaml_name(word) && path.is_file()).then(|| word.to_owned())
}

/// Returns true for the error for an argument that is missing.
fn lacks_arguments(error: &clap::Error) -> bool {
    use clap::error::ErrorKind::{MissingRequiredArgument, TooFewValues, WrongNumberOfValues};
    matches!(error.kind(), MissingRequiredArgument | TooFewValues | WrongNumberOfValues)
}

/// Returns the names of the missing arguments, such as `<MANIFEST>`.
fn missing_words(error: &clap::Error) -> impl Iterator<Item = &str> {
    let names = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(names)) => names.as_slice(),
        _ => &[],
    };
    names.iter().map(String::as_str)
}

/// Returns true unless only options are missing.
fn lacks_positional(error: &clap::Error) -> bool {
    missing_words(error).next().is_none() || missing_words(error).any(|name| name.starts_with('<'))
}

/// Returns a warning for each option of the bosh CLI that selects an environment or a deployment there. The
/// operator may believe that the command acts on that one.
fn remarks_on_ignored_options(matches: &ArgMatches) -> Vec<Remark> {
    let options = [
        ("ignored-environment", "-e", "a director"),
        ("ignored-deployment", "-d", "a deployment of a director"),
    ];
    let values =
        options.into_iter().filter(|(id, ..)| is_given(matches, id)).filter_map(|(id, option, noun)| {
            let value = matches.get_raw(id)?.next_back()?.to_string_lossy();
            let text =
                format!("{option} {value} has no effect: it names {noun}, and monopile uses no director");
            Some(Remark::Warning(clean_line(&text)))
        });
    values.collect()
}

/// Returns the key of an env file that supplies the missing argument.
fn key_of_missing(error: &clap::Error) -> &'static str {
    match missing_words(error).any(|name| name == "<STORE>") {
        true => "vars_store",
        false => "manifest",
    }
}

/// Describes a missing argument that an env file may supply: the error message, and its word in a command.
fn supplied_word(name: &str) -> Option<(&'static str, &'static str)> {
    match name {
        "<MANIFEST>" => Some(("no manifest is given", "MANIFEST")),
        "<MANIFEST|STATE>" => Some(("no environment is given", "MANIFEST")),
        "<STORE>" => Some(("no vars store is given", "STORE")),
        _ => None,
    }
}

/// Returns the error for a command line without the manifest or the vars store, which no env file supplies,
/// and its word in a command.
fn unnamed_error(error: &clap::Error) -> Option<(Error, &'static str)> {
    let (message, word) = missing_words(error).find_map(supplied_word)?;
    Some((Error::usage(message), word))
}

/// Parses as much of a partial command line as possible, with its env file. Returns the words of the command,
/// and its arguments.
pub(in crate::cli) fn parse_partial_command_line(
    grammar: &Command,
    args: &[OsString],
) -> Option<(Vec<String>, ArgMatches)> {
    let first_matches =
        with_placeholder_defaults(grammar.clone()).ignore_errors(true).try_get_matches_from(args).ok()?;
    let (path, matches) = innermost_command(&first_matches);
    if !may_have_env_file(matches) {
        return Some((path, matches.clone()));
    }
    let option_path = matches.get_one::<EnvFile>("env_file").map(|file| file.path.clone());
    // Completion must not prompt, and an untrusted env file must not choose the files that it reads.
    let Some(file) = find_env_file(matches, option_path, &|_, _, _| Ok(false)).ok()?.0 else {
        return Some((path, matches.clone()));
    };
    let grammar_with_defaults =
        with_file_defaults(with_placeholder_defaults(grammar.clone()), &path, matches, &file)
            .ignore_errors(true);
    let matches = innermost_command(&grammar_with_defaults.try_get_matches_from(args).ok()?).1.clone();
    Some((path, matches))
}

/// Asks the operator whether to trust an env file. Returns false to continue without it.
type AskTrust<'a> = &'a dyn Fn(&ArgMatches, &EnvFile, &OpenedEnvFile) -> Result<bool>;

/// Asks on a terminal, and remembers the answer yes. Fails without a terminal, or after the answer no.
fn ask(matches: &ArgMatches, file: &EnvFile, opened_file: &OpenedEnvFile) -> Result<bool> {
    let untrusted_error = || trust::untrusted_error(file, opened_file);
    let is_set = |id: &str| matches!(matches.try_get_one::<bool>(id), Ok(Some(true)));
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if is_set("non_interactive") || is_set("json") || !is_terminal {
        return Err(untrusted_error());
    }
    let path = clean_line(&opened_file.real_path.display().to_string());
    let (problem, description) = (trust::describe_problem(file, &path), trust::description(file));
    let question = format!("{}.\n{description}\nTrust it?", capitalized(&problem));
    if !ui::prompt::confirm(&question)? {
        return Err(Error::new(
            ErrorKind::Declined,
            format!("not confirmed: the env file '{}' stays untrusted", file.path.display()),
        ));
    }
    trust::trust(file)?;
    Ok(true)
}

/// Returns the env file for this command line, and a remark. Uses a file that was found but is not trusted
/// yet only if `ask` returns true.
fn find_env_file(
    matches: &ArgMatches,
    option_path: Option<PathBuf>,
    ask: AskTrust<'_>,
) -> Result<(Option<EnvFile>, Option<Remark>)> {
    let (opened_file, is_named) = match option_path {
        Some(path) => (OpenedEnvFile::named(&paths::expand(&path, paths::home().as_deref()))?, true),
        None => match find::find()? {
            SearchResult::Nothing => return Ok((None, None)),
            SearchResult::Foreign(path) => {
                let text = format!(
                    "env file '{0}' is ignored, because it belongs to another user; to use it: \
                     --env-file {0}",
                    path.display()
                );
                return Ok((None, Some(Remark::Warning(text))));
            }
            SearchResult::File(opened_file) => (opened_file, false),
        },
    };
    let path = opened_file.display_path.as_path();
    let file = read::read(&opened_file)?;
    let manifests = given_manifests(matches);
    // Another manifest must not be deployed over the state of this file.
    if let (false, Some(named_manifest), Some(other)) =
        (is_named, file.manifest(), manifests.iter().find(|manifest| !file.is_about(manifest)))
    {
        // A state needs no env file.
        if other.extension().is_some_and(|extension| extension == "json") {
            return Ok((None, None));
        }
        let text = format!(
            "env file '{0}' names manifest '{1}', so it is ignored for '{2}'; to use it: --env-file {0}",
            path.display(),
            named_manifest.display(),
            other.display()
        );
        return Ok((None, Some(Remark::Note(text))));
    }
    if !is_named && !trust::is_trusted(&file) && !ask(matches, &file, &opened_file)? {
        return Ok((None, None));
    }
    let keys = and_list(&file.content.keys);
    let text = format!("using {keys} of '{}'", path.display());
    let remark = (!file.content.keys.is_empty()).then_some(Remark::Note(text));
    Ok((Some(file), remark))
}

/// Returns the error for `vars get STORE` and `vars rotate STORE`, where the only word counts as the second.
/// If the env file supplies the vars store, one word is enough, unless it names a YAML file.
fn lone_store_error(path: &[String], matches: &ArgMatches, file: Option<&EnvFile>) -> Option<Error> {
    let command = path.join(" ");
    let (id, placeholder) = match command.as_str() {
        "vars get" => ("path", "/NAME"),
        "vars rotate" => ("name", "NAME"),
        _ => return None,
    };
    let word = matches.try_get_one::<String>(id).ok()??;
    if is_given(matches, "store") || !paths::exists(word) {
        return None;
    }
    if !is_yaml_name(word) && file.is_some_and(|file| file.content.vars_store_in_use().is_some()) {
        return None;
    }
    let word_path = paths::expand(Path::new(word), paths::home().as_deref());
    if manifest::is_manifest(&word_path) {
        let error = Error::usage(format!("'{word}' is a manifest, not a vars store"));
        let store = paths::default_vars_store(&word_path, &word_path).filter(|store| store.exists());
        return Some(match store {
            Some(store) => error.with_hint(format!(
                "its vars store is beside it: `monopile {command} {} {placeholder}`",
                shell_word(&store.to_string_lossy())
            )),
            None => error.with_hint("name the file that create-env got with --vars-store"),
        });
    }
    let store = shell_word(word);
    let error = Error::usage(format!("no variable is given, only the vars store '{word}'"));
    Some(
        error
            .with_hint(format!("name it: `monopile {command} {store} {placeholder}`"))
            .with_hint(format!("to list the names: `monopile vars list {store}`")),
    )
}

fn is_yaml_name(name: &str) -> bool {
    [".yml", ".yaml"].iter().any(|extension| name.ends_with(extension))
}

fn with_hint(error: clap::Error, hint: String) -> clap::Error {
    with_hints(error, vec![hint])
}

fn with_hints(mut error: clap::Error, hints: Vec<String>) -> clap::Error {
    let hints = hints.into_iter().map(Into::into).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(hints));
    error
}

/// Returns true if the command takes an env file. With `status --all`, each environment has its own.
fn may_have_env_file(matches: &ArgMatches) -> bool {
    // For an unknown option, clap returns `Err` in debug builds and `Ok(None)` in others.
    matches!(matches.try_get_one::<bool>("no_env_file"), Ok(Some(false)))
        && !matches!(matches.try_get_one::<PathBuf>("all"), Ok(Some(_)))
}

/// Returns the manifests on the command line. The first word of `cpi call` is a manifest if that file exists.
fn given_manifests(matches: &ArgMatches) -> Vec<PathBuf> {
    let mut manifests = Vec::new();
    for id in ["manifest", "manifests"].into_iter().filter(|id| is_given(matches, id)) {
        manifests.extend(matches.try_get_many::<PathBuf>(id).into_iter().flatten().flatten().cloned());
    }
    if let Ok(Some(word)) = matches.try_get_one::<String>("words") {
        manifests.extend(paths::exists(word).then(|| PathBuf::from(word)));
    }
    manifests
}

fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Returns the words of the command, and its arguments.
fn innermost_command(matches: &ArgMatches) -> (Vec<String>, &ArgMatches) {
    let (mut path, mut matches) = (Vec::new(), matches);
    while let Some((name, subcommand)) = matches.subcommand() {
        path.push(name.to_owned());
        matches = subcommand;
    }
    (path, matches)
}

/// The required arguments that an env file may supply.
pub(in crate::cli) const REQUIRED_ARGS: [&str; 2] = ["manifest", "store"];

/// Makes the arguments optional that an env file may supply, for help and documents.
pub(in crate::cli) fn with_optional_positionals(command: Command) -> Command {
    map_supplied(command, &|arg| arg.required(false))
}

/// Makes the arguments optional that an env file may supply, for the first of two attempts to parse.
fn with_placeholder_defaults(command: Command) -> Command {
    // The default is never read: without an env file, the strict grammar applies.
    map_supplied(command, &|arg| arg.required(false).default_value("-"))
}

/// Changes the required arguments that an env file may supply.
fn map_supplied(command: Command, change: &dyn Fn(Arg) -> Arg) -> Command {
    let command = command.mut_subcommands(|subcommand| map_supplied(subcommand, change));
    if !can_supply(&command) {
        return command;
    }
    command.mut_args(|arg| match REQUIRED_ARGS.contains(&arg.get_id().as_str()) && arg.is_required_set() {
        true => change(arg),
        false => arg,
    })
}

/// Returns true for the text of `-h`, of `--help`, and of a group of commands.
fn is_help(error: &clap::Error) -> bool {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand};
    matches!(error.kind(), DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand)
}

/// Returns true if an env file may supply the required arguments. It may not if another word must follow the
/// manifest (`delete-disk PATH CID`), because a single word would be ambiguous.
pub(in crate::cli) fn can_supply(command: &Command) -> bool {
    let mut words = command.get_positionals();
    let follows_manifest = words.next().is_some_and(|first| first.get_id() == "manifest");
    !(follows_manifest && words.any(Arg::is_required_set))
}

/// Changes the arguments of all commands.
pub(in crate::cli) fn map_all_args(command: Command, change: &dyn Fn(Arg) -> Arg) -> Command {
    command.mut_subcommands(|command| map_all_args(command, change)).mut_args(change)
}

/// Adds the values of the file as defaults to the command at `path`.
fn with_file_defaults(grammar: Command, path: &[String], matches: &ArgMatches, file: &EnvFile) -> Command {
    let content = &file.content;
    // Global options belong to the program, other options to the command.
    let with_options = |command| {
        content
            .options
            .iter()
            .fold(command, |command, option| with_option(command, &option.name, &option.values))
    };
    change_command(with_options(grammar), path, &mut |command| {
        let mut command = with_options(command);
        // Looking for the default store reads the file system.
        let takes_store = command.get_arguments().any(|arg| arg.get_id() == "store");
        let store = takes_store.then(|| content.vars_store_in_use()).flatten();
        let places = [
            ("manifest", &content.manifest),
            ("manifests", &content.manifest),
            ("state", &content.state),
            ("vars_store", &content.vars_store),
            ("store", &store),
        ];
        for (id, path) in places {
            // A default must not conflict with a given argument, such as --path.
            let conflicts = |command: &Command| {
                let arg = command.get_arguments().find(|arg| arg.get_id() == id);
                arg.is_some_and(|arg| {
                    let conflicting_args = command.get_arg_conflicts_with(arg);
                    conflicting_args.into_iter().any(|other| is_given(matches, other.get_id().as_str()))
                })
            };
            let is_required = id == "manifest" && !can_supply(&command);
            if let (Some(path), false) = (path, is_required || conflicts(&command)) {
                let value = path.clone().into_os_string();
                command = change_argument(command, id, move |arg| arg.required(false).default_value(value));
            }
        }
        let file_content = file.clone();
        let parser = OsStringValueParser::new().map(move |_| file_content.clone());
        let path = file.path.clone().into_os_string();
        change_argument(command, "env_file", move |arg| arg.value_parser(parser).default_value(path))
    })
}

/// Changes the command at `path`.
fn change_command(command: Command, path: &[String], change: &mut dyn FnMut(Command) -> Command) -> Command {
    match path.split_first() {
        None => change(command),
        Some((name, rest)) => command.mut_subcommand(name, |command| change_command(command, rest, change)),
    }
}

/// Changes an argument of a command, if the command has it. Keeps the order of arguments, because positional
/// ones depend on it.
fn change_argument(command: Command, id: &str, change: impl FnOnce(Arg) -> Arg) -> Command {
    let mut change = Some(change);
    command.mut_args(|arg| match change.take_if(|_| arg.get_id() == id) {
        Some(change) => change(arg),
        None => arg,
    })
}

/// Sets the default of an option, if the command has it.
fn with_option(command: Command, name: &str, values: &[OsString]) -> Command {
    let id =
        command.get_arguments().find(|arg| arg.get_long() == Some(name)).map(|arg| arg.get_id().to_string());
    match id {
        Some(id) => change_argument(command, &id, |arg| arg.default_values(values.to_vec())),
        None => command,
    }
}

/// Converts an error about a value of the file.
fn file_error(file: &EnvFile, error: &clap::Error) -> Option<Error> {
    let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = arg.split([' ', '.']).next()?.trim_start_matches('-');
    let option = file.content.options.iter().find(|option| option.name == name)?;
    let valid_values = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) if !values.is_empty() => Some(values.join(", ")),
        _ => None,
    };
    let message = match (valid_values, error.get(ContextKind::InvalidValue)) {
        (Some(values), Some(ContextValue::String(value))) => {
            format!("{} must be one of {values}, not '{value}'", option.place)
        }
        _ => {
            let text = error.render().to_string();
            let problem = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
            format!("{}: {}", option.place, problem.trim().replacen(&format!(" for '{arg}'"), "", 1))
        }
    };
    Some(Error::invalid(message).with_hint(KEYS_HINT))
}
