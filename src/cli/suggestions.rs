//! Hints for a wrong command line, which replace clap's.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args as _, Command, ValueEnum as _};

use super::globals::JsonForm;
use super::manifest_args::ManifestOptions;
use super::{env_file, grammar, help, scope};
use base::error::{nearest, question};
use base::text::{and_list, shell_word};

/// Words that other programs have for a command.
const SYNONYMS: [(&str, &str); 13] = [
    ("apply", "create-env"),
    ("clean", "prune"),
    ("create", "create-env"),
    ("delete", "delete-env"),
    ("destroy", "delete-env"),
    ("diff", "plan"),
    ("down", "delete-env"),
    ("purge", "prune"),
    ("remove", "delete-env"),
    ("restore", "backup"),
    ("show", "status"),
    ("up", "create-env"),
    ("update", "create-env"),
];

/// Options that other programs have for an option.
const OPTION_SYNONYMS: [(&str, &str); 2] = [("--lines", "num"), ("--tail", "num")];

/// Words that the operator may take for a value of an option: plans say "Replace the VM".
const VALUE_SYNONYMS: [(&str, &str); 1] = [("replace", "recreate")];

/// Options that other programs have for a run without questions.
const WITHOUT_QUESTIONS: [&str; 5] = ["--assume-yes", "--auto-approve", "--force", "--yes", "-y"];

/// Replaces clap's suggestions in an error by a better one, if any. `command` is the command that the command
/// line names.
pub(super) fn replace_suggestions(mut error: clap::Error, command: &Command) -> clap::Error {
    let hint = match error.kind() {
        ErrorKind::InvalidSubcommand => command_hint(&error, command),
        ErrorKind::UnknownArgument => option_hint(&error, command),
        ErrorKind::InvalidValue => value_hint(&error),
        ErrorKind::ValueValidation => wait_hint(&error),
        _ => return error,
    };
    for kind in [
        ContextKind::Suggested,
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ] {
        error.remove(kind);
    }
    if let Some(hint) = hint {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

/// Returns the grammar from which errors take the usage of commands: as help shows it, with optional words.
pub(super) fn with_usage(grammar: Command) -> Command {
    let mut grammar = env_file::with_optional_words(grammar);
    // Only a built grammar has the usage of its commands.
    grammar.build();
    grammar
}

/// Replaces the usage in an error, which clap shortens to the given arguments, by that of the command.
/// `command` is of a grammar [`with_usage`].
pub(super) fn show_usage(mut error: clap::Error, command: &Command) -> clap::Error {
    if error.get(ContextKind::Usage).is_some() {
        let usage = command.clone().render_usage();
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    error
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

/// Suggests a command in place of an unknown one.
fn command_hint(error: &clap::Error, command: &Command) -> Option<String> {
    let given_word = text(error, ContextKind::InvalidSubcommand)?;
    if command.get_name() == "monopile" && help::TOPICS.iter().any(|topic| topic.name == given_word) {
        return Some(format!("that is a page of the help: `monopile {} {given_word}`", help::HELP_COMMAND.0));
    }
    let names =
        command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).map(Command::get_name);
    // The program's own `help` is no command of the grammar.
    let help = (command.get_name() == "monopile").then_some(help::HELP_COMMAND.0);
    let names: Vec<&str> = names.chain(help).collect();
    let synonym = SYNONYMS.iter().find(|(word, _)| *word == given_word).map(|(_, name)| *name);
    let synonym = synonym.filter(|name| command.find_subcommand(name).is_some());
    let is_group = command.get_name() != "monopile";
    let list = || is_group.then(|| format!("its commands: {}", names.join(", ")));
    synonym.or_else(|| nearest(given_word, names.iter().copied())).map(question).or_else(list)
}

/// Suggests an option in place of an unknown one. Hidden options are not suggested, because they have no
/// effect or another name.
fn option_hint(error: &clap::Error, command: &Command) -> Option<String> {
    let given_option = text(error, ContextKind::InvalidArg)?;
    let visible_args = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    if WITHOUT_QUESTIONS.contains(&given_option)
        && visible_args().any(|arg| arg.get_id() == "non_interactive")
    {
        return Some("to run without questions: -n (--non-interactive)".to_owned());
    }
    if !given_option.starts_with('-') && command.get_name() == "ssh" {
        return Some(format!("to run a command on the VM: --command '{given_option} …'"));
    }
    if given_option == "--results" && command.get_name() == "ssh" {
        return Some("an environment has one VM: leave out --results".to_owned());
    }
    if let Some(hint) = number_hint(given_option, command).or_else(|| form_hint(given_option)) {
        return Some(hint);
    }
    let has_option = |id: &str| visible_args().any(|arg| arg.get_id() == id);
    if has_option("manifest") && !has_option("vars_store") && is_manifest_option(given_option) {
        return Some(format!("this command reads only the state: leave out {given_option}"));
    }
    let long = given_option.strip_prefix("--");
    let short =
        given_option.strip_prefix('-').and_then(|letter| letter.chars().next()).filter(|_| long.is_none());
    // Parsing stopped before the name of the command.
    let is_given =
        |arg: &Arg| long.is_some() && arg.get_long() == long || short.is_some() && arg.get_short() == short;
    if visible_args().any(is_given) {
        return Some(format!(
            "{given_option} is an option of `{}`: write it after the command",
            command.get_name()
        ));
    }
    let names = || visible_args().filter_map(|arg| arg.get_long());
    let synonym = OPTION_SYNONYMS.iter().find(|(word, _)| *word == given_option).map(|(_, name)| *name);
    let synonym = synonym.filter(|name| names().any(|option| option == *name));
    match synonym.or_else(|| nearest(long?, names())) {
        Some(option) => Some(question(&format!("--{option}"))),
        None => other_commands_hint(given_option, &is_given),
    }
}

/// Names other commands that have the unknown option.
fn other_commands_hint(given_option: &str, is_option: &dyn Fn(&Arg) -> bool) -> Option<String> {
    let grammar = grammar::for_all_commands();
    let leaves = scope::command_leaves(&grammar).into_iter().filter(|(_, command)| {
        !command.is_hide_set() && command.get_arguments().any(|arg| !arg.is_hide_set() && is_option(arg))
    });
    let names: Vec<String> = leaves.map(|(path, _)| format!("`{path}`")).collect();
    match names.as_slice() {
        [] => None,
        [first, second, third, _, ..] => Some(format!(
            "{given_option} is an option of other commands, such as {first}, {second} and {third}"
        )),
        names => Some(format!("{given_option} is an option of {}", and_list(names))),
    }
}

/// Explains the number of `-n 5`, which other programs have.
fn number_hint(word: &str, command: &Command) -> Option<String> {
    let mut options = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long);
    let option = options.find(|option| word.parse::<u64>().is_ok() && ["num", "limit"].contains(option))?;
    Some(format!("-n means --non-interactive; for a number: --{option} {word}"))
}

/// Explains the form of `--json FORM`, which is written with `=`.
fn form_hint(word: &str) -> Option<String> {
    JsonForm::from_str(word, false).is_ok().then(|| format!("write --json={word}"))
}

/// Returns the error for a word after an option that takes none, so that the word counts as the manifest, as
/// in `history -n 5` and `plan --json bosh`.
pub(super) fn misread_manifest_error(
    args: &[OsString],
    manifest: Option<&str>,
    command: &Command,
) -> Option<base::Error> {
    let word = manifest.filter(|word| !Path::new(word).exists())?;
    let word_follows = |option: &str| args.windows(2).any(|pair| pair[0] == *option && pair[1] == *word);
    let number = word_follows("-n").then(|| number_hint(word, command)).flatten();
    let hint = number.or_else(|| word_follows("--json").then(|| form_hint(word)).flatten())?;
    Some(base::Error::usage(format!("'{word}' counts as the manifest, which does not exist")).with_hint(hint))
}

/// Returns true for the options that add ops files and variables to a manifest.
fn is_manifest_option(word: &str) -> bool {
    let grammar = ManifestOptions::augment_args(Command::new(""));
    grammar.get_arguments().any(|arg| match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => {
            arg.get_short().is_some()
                && word.strip_prefix('-').and_then(|short| short.chars().next()) == arg.get_short()
        }
    })
}

/// Suggests a value in place of one that the option does not take. The guesses of clap are too bold.
fn value_hint(error: &clap::Error) -> Option<String> {
    let given_value = text(error, ContextKind::InvalidValue)?;
    let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue) else { return None };
    let synonym = VALUE_SYNONYMS.iter().find(|(word, _)| *word == given_value).map(|(_, value)| *value);
    let synonym = synonym.filter(|value| values.iter().any(|valid| valid == value));
    synonym.or_else(|| nearest(given_value, values.iter().map(String::as_str))).map(question)
}

/// Explains a word after `--wait`, which counts as its duration.
fn wait_hint(error: &clap::Error) -> Option<String> {
    let option = text(error, ContextKind::InvalidArg)?;
    let word = shell_word(text(error, ContextKind::InvalidValue)?);
    let hint = format!("write `{word} --wait`, or with a duration `--wait=30m {word}`");
    option.starts_with("--wait ").then_some(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::globals;

    /// Returns the error for a command line, as it is printed.
    fn error_text(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let grammar = grammar::for_words(&words).args(globals::ignored_args());
        let error = grammar.clone().try_get_matches_from(&words).unwrap_err();
        replace_suggestions(error, help::named_command(&grammar, &words).1).to_string()
    }

    /// Returns the usage in the error for a command line.
    fn usage(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let grammar = grammar::for_words(&words).args(globals::ignored_args());
        let error = grammar.clone().try_get_matches_from(&words).unwrap_err();
        let grammar = with_usage(grammar);
        let error = show_usage(error, help::named_command(&grammar, &words).1).to_string();
        let usage = error.lines().find_map(|line| line.strip_prefix("Usage: monopile "));
        usage.unwrap_or_default().to_owned()
    }

    #[test]
    fn usage_in_errors_is_that_of_help() {
        for (line, expected) in [
            ("monopile create-env --bogus", "create-env [OPTIONS] [MANIFEST]"),
            ("monopile vars check", "vars check [OPTIONS] [STORE]"),
            ("monopile vars get", "vars get [OPTIONS] [STORE] <OP-PATH>"),
            ("monopile logs --follow --out x", "logs [OPTIONS] [MANIFEST]"),
            ("monopile scp", "scp [OPTIONS] <MANIFEST> <PATH> <PATH>..."),
            ("monopile state nope", "state [OPTIONS] <COMMAND>"),
            ("monopile nope", "[OPTIONS] <COMMAND>"),
        ] {
            assert_eq!(usage(line), expected, "{line}");
        }
    }

    #[test]
    fn only_what_helps_is_suggested() {
        for (line, hint) in [
            ("monopile creat-env", "did you mean 'create-env'?"),
            ("monopile delete", "did you mean 'delete-env'?"),
            ("monopile destroy a.yml", "did you mean 'delete-env'?"),
            ("monopile hlep", "did you mean 'help'?"),
            ("monopile state hlep", "its commands: show, import, backup, forget"),
            ("monopile nope", ""),
            ("monopile xyzzy", ""),
            ("monopile troubleshooting", "that is a page of the help: `monopile help troubleshooting`"),
            ("monopile state troubleshooting", "its commands: show, import, backup, forget"),
            ("monopile ssh a.yml ls -l", "to run a command on the VM: --command 'ls …'"),
            ("monopile ssh a.yml -- ls", "to run a command on the VM: --command 'ls …'"),
            ("monopile disk", "did you mean 'disks'?"),
            ("monopile state shwo", "did you mean 'show'?"),
            ("monopile state create", "its commands: show, import, backup, forget"),
            ("monopile state restore", "did you mean 'backup'?"),
            ("monopile cache purge", "did you mean 'prune'?"),
            ("monopile purge", ""),
            ("monopile create-env a.yml --vars-stor x", "did you mean '--vars-store'?"),
            ("monopile create-env a.yml --recreat", "did you mean '--recreate'?"),
            ("monopile create-env a.yml --yes", "to run without questions: -n (--non-interactive)"),
            ("monopile delete-env a.yml --force", "to run without questions: -n (--non-interactive)"),
            (
                "monopile --vars-store x status",
                "--vars-store is an option of `status`: write it after the command",
            ),
            ("monopile -o x status", "-o is an option of `status`: write it after the command"),
            ("monopile --job x status", "--job is an option of `logs` and `render`"),
            ("monopile delete-env a.yml --recreate", "--recreate is an option of `create-env` and `plan`"),
            ("monopile status a.yml --dry-run", "--dry-run is an option of `create-env`"),
            (
                "monopile vars list a.yml -o x",
                "-o is an option of other commands, such as `create-env`, `plan` and `delete-env`",
            ),
            ("monopile logs a.yml --tail 10", "did you mean '--num'?"),
            ("monopile status a.yml --tail 10", ""),
            ("monopile logs a.yml -n 10", "-n means --non-interactive; for a number: --num 10"),
            ("monopile plan a.yml --json bosh", "write --json=bosh"),
            // Options without an effect are hidden.
            ("monopile create-env a.yml --clien x", ""),
            ("monopile create-env a.yml --environmen x", ""),
            ("monopile completion bsh", "did you mean 'bash'?"),
            ("monopile plan a.yml --update-strategy replace", "did you mean 'recreate'?"),
            ("monopile plan a.yml --update-strategy inplace", "did you mean 'in-place'?"),
            ("monopile plan a.yml --update-strategy displace", ""),
            (
                "monopile baremetal node provide --wait node-1",
                "write `node-1 --wait`, or with a duration `--wait=30m node-1`",
            ),
        ] {
            let text = error_text(line);
            let hints: Vec<&str> =
                text.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).collect();
            assert_eq!(hints.concat(), hint, "{line}: {text}");
            assert!(!text.contains("\n\n\n"), "{line}: {text}");
        }
    }
}
