//! Messages and hints for a wrong command line, which replace clap's.

use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Args as _, Command, ValueEnum as _};

use super::exit_codes::ASKING_COMMANDS;
use super::finish::plain_numbers;
use super::globals::JsonForm;
use super::hint_commands::shown_words;
use super::manifest_args::ManifestOptions;
use super::{complete, grammar, help, paths, scope};
use base::error::{did_you_mean_question, differ_slightly, nearest, typing_errors};
use base::text::{and_list, shell_word};
use manifest::Inputs;

/// Words that other programs have for a command.
const SYNONYMS: [(&str, &str); 13] = [
    ("apply", "create-env"),
    ("clean", "prune"),
    ("create", "create-env"),
    ("delete", "delete-env"),
    ("deploy", "create-env"),
    ("destroy", "delete-env"),
    ("diff", "plan"),
    ("down", "delete-env"),
    ("purge", "prune"),
    ("remove", "delete-env"),
    ("show", "status"),
    ("up", "create-env"),
    ("update", "create-env"),
];

/// Options that other programs have for an option.
const OPTION_SYNONYMS: [(&str, &str); 3] =
    [("--lines", "num"), ("--older-than", "unused"), ("--tail", "num")];

/// Words that the operator may take for a value of an option: plans say "Replace the VM".
const VALUE_SYNONYMS: [(&str, &str); 1] = [("replace", "recreate")];

/// Options that other programs have for a run without questions.
const WITHOUT_QUESTIONS: [&str; 6] =
    ["--assume-yes", "--auto-approve", "--force", "--yes", FORCE_OR_FOLLOW, "-y"];

/// Programs have this option for a run without questions, but also to follow output.
const FORCE_OR_FOLLOW: &str = "-f";

/// Options that other programs have for the manifest.
const MANIFEST_SYNONYMS: [&str; 3] = ["--file", "--manifest", "-f"];

/// The words before the examples in the error of a parser.
const EXAMPLES_SEPARATOR: &str = ", such as ";

/// The form of a pair. A text without it is not shown, because it may be a secret.
const PAIR: &str = "KEY=VALUE";

/// A command line that clap has refused.
pub(super) struct RefusedCommandLine<'a> {
    /// All words, which begin with the program's name.
    pub(super) args: &'a [OsString],
    /// The program's name and the words of the command, such as `monopile state show`.
    pub(super) name: &'a str,
    /// The command that they name.
    pub(super) command: &'a Command,
}

/// Replaces clap's words and suggestions in an error by better ones.
pub(super) fn explain(mut error: clap::Error, line: &RefusedCommandLine<'_>) -> clap::Error {
    let hints = match error.kind() {
        ErrorKind::InvalidSubcommand => Some(command_hints(&error, line)),
        ErrorKind::UnknownArgument => Some(argument_hints(&error, line)),
        ErrorKind::InvalidValue if text(&error, ContextKind::InvalidValue) == Some("") => {
            Some(missing_value_hints(&error, line))
        }
        ErrorKind::InvalidValue => Some(value_hint(&error, line).into_iter().collect()),
        ErrorKind::ValueValidation => {
            let hint = wait_hint(&error).or_else(|| pair_hint(&error));
            Some(hint.or_else(|| example_hint(&error, line)).into_iter().collect())
        }
        ErrorKind::ArgumentConflict => Some(conflict_hint(&error).into_iter().collect()),
        ErrorKind::TooManyValues => Some(surplus_value_hints(&error, line)),
        ErrorKind::MissingRequiredArgument => missing_argument_hints(&error, line),
        // The parser of the command line has added hints.
        _ => None,
    };
    if let Some(hints) = hints {
        for kind in [
            ContextKind::Suggested,
            ContextKind::SuggestedArg,
            ContextKind::SuggestedSubcommand,
            ContextKind::SuggestedValue,
        ] {
            error.remove(kind);
        }
        if !hints.is_empty() {
            let hints = hints.into_iter().map(StyledStr::from).collect();
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(hints));
        }
    }
    // A help page, or an error that another module has written.
    if !error.use_stderr() || error.context().next().is_none() {
        return error;
    }
    let message = message(&error, line).unwrap_or_else(|| clap_message(&error));
    with_message(&error, &message, line)
}

/// Returns clap's own message, without the usage and the values that follow it.
fn clap_message(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let message = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
    message.split("\n  [").next().unwrap_or_default().trim().to_owned()
}

/// Returns the message in place of clap's, if that does not say the problem in the words of this program.
fn message(error: &clap::Error, line: &RefusedCommandLine<'_>) -> Option<String> {
    let name = line.short_name();
    let argument = text(error, ContextKind::InvalidArg);
    Some(match error.kind() {
        ErrorKind::InvalidSubcommand => {
            format!("`{name}` has no command '{}'", text(error, ContextKind::InvalidSubcommand)?)
        }
        ErrorKind::UnknownArgument => unknown_argument_message(argument?, line),
        ErrorKind::InvalidValue if text(error, ContextKind::InvalidValue) == Some("") => {
            let argument = argument?;
            let option = option_name(argument);
            let option = match line.find_option(option) {
                Some((_, typed_option)) if typed_option != option => format!("{typed_option} ({option})"),
                _ => option.to_owned(),
            };
            let value_name = argument.split_once('<').map_or("VALUE", |(_, name)| name);
            format!("{option} needs {}", with_article(value_name.split('>').next().unwrap_or(value_name)))
        }
        ErrorKind::InvalidValue => {
            let given_value = text(error, ContextKind::InvalidValue)?;
            match noun_of_argument(argument?, line) {
                Some(noun) => format!("there is no {noun} '{given_value}'"),
                None => format!("{} cannot be '{given_value}'", value_owner(argument?)),
            }
        }
        ErrorKind::ValueValidation => {
            let form_and_examples = required_form(error)?;
            if form_and_examples.starts_with(PAIR) {
                return Some(format!("{} needs {form_and_examples}", value_owner(argument?)));
            }
            let (form, _) =
                form_and_examples.split_once(EXAMPLES_SEPARATOR).unwrap_or((&form_and_examples, ""));
            let given_value = text(error, ContextKind::InvalidValue)?;
            format!("{} must be {form}, not '{given_value}'", value_owner(argument?))
        }
        ErrorKind::TooManyValues => format!(
            "{} takes no value, such as '{}'",
            option_name(argument?),
            text(error, ContextKind::InvalidValue)?
        ),
        ErrorKind::MissingRequiredArgument => {
            let Some(ContextValue::Strings(arguments)) = error.get(ContextKind::InvalidArg) else {
                return None;
            };
            if line.command.get_name() == "scp" {
                return Some("`scp` needs a source and a destination".to_owned());
            }
            let arguments = with_options_last(arguments.iter().map(String::as_str));
            let needs: Vec<String> = arguments.into_iter().map(requirement).collect();
            format!("`{name}` needs {}", and_list(&needs))
        }
        ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues if line.command.get_name() == "scp" => {
            "`scp` needs a source and a destination".to_owned()
        }
        ErrorKind::ArgumentConflict => {
            let (option, other_options) = (option_name(argument?), conflicting_options(error));
            match other_options.as_slice() {
                [other] if *other == option => match line.values_of(option).as_slice() {
                    [] => format!("{option} is given more than once"),
                    values => {
                        let values: Vec<String> = values.iter().map(|value| format!("'{value}'")).collect();
                        format!("{option} is given more than once: {}", and_list(&values))
                    }
                },
                other_options => format!("{option} cannot be used with {}", and_list(other_options)),
            }
        }
        _ => return None,
    })
}

/// Returns an error with this message and the hints of `error`. If `error` has none, the hint is the command
/// that lists the options.
fn with_message(error: &clap::Error, message: &str, line: &RefusedCommandLine<'_>) -> clap::Error {
    let hints = match error.get(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(hints)) => hints.iter().map(ToString::to_string).collect(),
        _ => {
            let parts = if line.command.has_subcommands() { "commands" } else { "options" };
            vec![format!("list the {parts}: `{} --help`", line.name)]
        }
    };
    error_with_hints(error.kind(), message, &hints)
}

/// Returns an error with this message and these hints, in the form that clap's own errors have. The error has
/// no colors; [`super::finish::print_clap_error`] adds them.
pub(super) fn error_with_hints(kind: ErrorKind, message: &str, hints: &[String]) -> clap::Error {
    let hints = hints.iter().map(|hint| format!("  tip: {hint}\n"));
    clap::Error::raw(kind, format!("{message}\n{}", hints.collect::<String>()))
}

/// Returns the text after `expected` in the error of a parser: the form that a value must have.
fn required_form(error: &clap::Error) -> Option<String> {
    let reason = plain_numbers(&std::error::Error::source(error)?.to_string());
    reason.strip_prefix("expected ").map(str::to_owned)
}

/// Returns the option or argument in clap's description as it stands in a message: `--state` or `NODE`.
fn value_owner(description: &str) -> &str {
    option_name(description).trim_matches(['<', '>', '[', ']', '.'])
}

/// Returns the noun for the values of an argument, such as `shell`. Returns `None` for an option.
fn noun_of_argument(description: &str, line: &RefusedCommandLine<'_>) -> Option<String> {
    match value_owner(description) {
        option if option.starts_with('-') => None,
        "NAME" => Some(line.command.get_name().to_owned()),
        other => Some(other.to_lowercase()),
    }
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

/// Returns the name in clap's description of an option, such as `--state <FILE>` or `--snapshot[=<AGE>]`.
fn option_name(description: &str) -> &str {
    description.split([' ', '=']).next().unwrap_or(description).trim_end_matches('[')
}

/// Returns clap's description of an argument as it stands in a command: `CID` for `<CID>`, `--job NAME` for
/// `--job <NAME>`. For a group of alternatives, returns the first one.
pub(super) fn placeholder(description: &str) -> String {
    let first = description.split('|').next().unwrap_or(description);
    first.replace(['<', '>'], "").replace("...", "")
}

/// Sorts clap's descriptions of missing arguments: clap names the options first.
pub(super) fn with_options_last<'a>(descriptions: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut descriptions: Vec<&str> = descriptions.collect();
    descriptions.sort_by_key(|description| description.trim_start_matches('<').starts_with('-'));
    descriptions
}

/// Returns a missing argument as the message names it. A group of alternatives is named with all of them.
fn requirement(description: &str) -> String {
    if !is_group(description) {
        return match description.strip_prefix('<').and_then(|name| name.split_once('>')) {
            Some((name, _)) => with_article(name),
            None => placeholder(description),
        };
    }
    let options = description.trim_start_matches('<').split('|').map(option_name);
    let options: Vec<&str> = options.map(|option| option.trim_end_matches('>')).collect();
    format!("one of {}", options.join(", "))
}

/// Returns the name of a value, such as `FILE|URL`, with an article.
fn with_article(value_name: &str) -> String {
    let article = if value_name.starts_with(['A', 'E', 'I', 'O']) { "an" } else { "a" };
    match value_name {
        "N" => "a number".to_owned(),
        pair if pair.contains('=') => pair.to_owned(),
        name => format!("{article} {}", name.replace('|', " or ")),
    }
}

/// Returns true if the description is that of a group of alternatives.
fn is_group(description: &str) -> bool {
    description.starts_with("<--")
}

impl RefusedCommandLine<'_> {
    /// Returns the words of the command without the program's name. If there are none, returns the name.
    fn short_name(&self) -> &str {
        self.name.split_once(' ').map_or(self.name, |(_, command)| command)
    }

    /// Returns the words after the program's name as hints show them, without secrets.
    fn words(&self) -> Vec<String> {
        shown_words(self.args, self.command)
    }

    /// Returns the index of this word among [`Self::words`].
    fn index_of(&self, word: &str) -> Option<usize> {
        self.args.iter().skip(1).rposition(|arg| arg == word)
    }

    /// Returns the index of the last word that is this long option or its short form, and that word.
    fn find_option(&self, option: &str) -> Option<(usize, String)> {
        let has_name = |arg: &&Arg| arg.get_long().is_some() && arg.get_long() == option.strip_prefix("--");
        let short = self.command.get_arguments().find(has_name).and_then(Arg::get_short);
        let forms = [Some(option.to_owned()), short.map(|letter| format!("-{letter}"))];
        forms.into_iter().flatten().filter_map(|form| Some((self.index_of(&form)?, form))).max()
    }

    /// Returns all values that follow this long option or its short form.
    fn values_of(&self, option: &str) -> Vec<String> {
        let words = self.words();
        let Some((_, typed_option)) = self.find_option(option) else { return Vec::new() };
        let is_switch =
            self.index_of(&typed_option).is_some_and(|index| self.switch_before(index + 1).is_some());
        let pairs = words.windows(2).filter(|pair| !is_switch && pair[0] == typed_option);
        pairs.map(|pair| pair[1].clone()).collect()
    }

    /// Returns the words before the one at `index`, these new words, and the words after it as a command.
    fn with_words_at(&self, index: usize, new_words: &[&str]) -> String {
        self.with_words_in(index..index + 1, new_words)
    }

    /// Returns the command with new words in place of those with these indices.
    fn with_words_in(&self, indices: Range<usize>, new_words: &[&str]) -> String {
        let words = self.words();
        let words_before = words.iter().take(indices.start).cloned();
        let new_words = new_words.iter().map(|word| (*word).to_owned());
        let words_after = words.iter().skip(indices.end).cloned();
        command_text(words_before.chain(new_words).chain(words_after))
    }

    /// Returns the command with further words at its end.
    fn with_words(&self, new_words: &[String]) -> String {
        command_text(self.words().into_iter().chain(new_words.iter().cloned()))
    }

    /// Returns true if the command has a visible option or argument with this id.
    fn takes(&self, id: &str) -> bool {
        self.command.get_arguments().any(|arg| arg.get_id() == id && !arg.is_hide_set())
    }

    /// Returns the first existing file among the words after the command.
    pub(super) fn file(&self) -> Option<String> {
        let count = self.name.split(' ').count();
        let words = self.args.iter().skip(count).filter_map(|word| word.to_str());
        words.filter(|word| !word.starts_with('-')).find(|word| paths::exists(word)).map(str::to_owned)
    }

    /// Returns the option before the word at `index` if it takes no value.
    fn switch_before(&self, index: usize) -> Option<String> {
        let word = self.args.get(index)?.to_str().filter(|word| word.starts_with('-'))?;
        let is_switch = |arg: &Arg| {
            !arg.get_action().takes_values()
                && (arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long))
                    || arg
                        .get_short()
                        .is_some_and(|short| word.strip_prefix('-') == Some(&short.to_string())))
        };
        self.command.get_arguments().any(is_switch).then(|| word.to_owned())
    }
}

/// Formats words as a command in backticks that can be pasted.
fn command_text(words: impl IntoIterator<Item = String>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| shell_word(&word).into_owned()).collect();
    format!("`monopile {}`", words.join(" "))
}

/// Suggests commands in place of an unknown one.
fn command_hints(error: &clap::Error, line: &RefusedCommandLine<'_>) -> Vec<String> {
    let command = line.command;
    let Some(given_word) = text(error, ContextKind::InvalidSubcommand) else { return Vec::new() };
    let is_program = command.get_name() == "monopile";
    if is_program && help::TOPICS.iter().any(|topic| topic.name == given_word) {
        return vec![format!("that is a page of the help: `monopile {} {given_word}`", help::HELP_COMMAND.0)];
    }
    if given_word == "restore" && (is_program || command.get_name() == "state") {
        let file = line.file().unwrap_or_else(|| "MANIFEST".to_owned());
        let backup = |options: &[&str]| {
            let words = ["state", "backup", &file].into_iter().chain(options.iter().copied());
            command_text(words.map(str::to_owned))
        };
        return vec![
            format!("list the versions: {}", backup(&[])),
            format!("restore one: {}", backup(&["--restore", "VERSION"])),
        ];
    }
    let names =
        command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).map(Command::get_name);
    // The program's own `help` is no command of the grammar.
    let help = is_program.then_some(help::HELP_COMMAND.0);
    let names: Vec<&str> = names.chain(help).collect();
    if let Some(name) = known_name(given_word, &names) {
        return vec![did_you_mean_question(name)];
    }
    let full_grammar = is_program.then(grammar::for_all_commands);
    let paths = full_grammar.as_ref().map(|grammar| help::commands_named(given_word, grammar));
    if let Some(paths) = paths.filter(|paths| !paths.is_empty()) {
        return paths.iter().map(|path| did_you_mean_question(path)).collect();
    }
    if let Some(name) = similar_name(given_word, &names) {
        return vec![did_you_mean_question(name)];
    }
    if let Some(hint) = file_hint(given_word, command) {
        return vec![hint];
    }
    if let Some(hint) = word_order_hint(given_word, &names, line) {
        return vec![hint];
    }
    match full_grammar {
        None => vec![format!("the commands of `{}` are {}", line.short_name(), and_list(&names))],
        Some(grammar) if help::search(given_word, &grammar).is_empty() => Vec::new(),
        Some(_) => {
            let words = [help::HELP_COMMAND.0, given_word].map(str::to_owned);
            vec![format!("search the help: {}", command_text(words))]
        }
    }
}

/// Returns the name that `word` means: a known one, or a similar one.
pub(super) fn meant_name<'n>(word: &str, names: &[&'n str]) -> Option<&'n str> {
    known_name(word, names).or_else(|| similar_name(word, names))
}

/// Short words may differ by one letter without a typing error.
const MIN_MISSPELT_LENGTH: usize = 5;

/// Returns the same name with or without `-env`, or that of a synonym.
pub(super) fn known_name<'n>(word: &str, names: &[&'n str]) -> Option<&'n str> {
    let stem = without_env(word);
    let is_synonym = |(synonym, name): &&(&str, &str)| {
        let is_misspelt = || synonym.len() >= MIN_MISSPELT_LENGTH && differ_slightly(stem, synonym);
        names.contains(name) && (*synonym == stem || is_misspelt())
    };
    let synonym = || SYNONYMS.iter().find(is_synonym).map(|(_, name)| *name);
    let same_name = names.iter().copied().find(|name| without_env(name) == stem);
    same_name.or_else(synonym)
}

/// Returns the name that `word` may be with one or two typing errors. With two, the first letter is right.
pub(super) fn similar_name<'n>(word: &str, names: &[&'n str]) -> Option<&'n str> {
    let stem = without_env(word);
    // `restrat-env` resembles `start-env`, but means `restart`.
    let spelling = |name: &&'n str| if stem == word { *name } else { without_env(name) };
    let is_similar = |name: &&str| match typing_errors(stem, name) {
        0 | 1 => true,
        2 => stem.chars().next() == name.chars().next(),
        _ => false,
    };
    let similar = nearest(stem, names.iter().map(spelling).filter(is_similar));
    names.iter().copied().find(|name| Some(spelling(name)) == similar)
}

/// Returns the name of which a long word is certainly a misspelling: with one typing error.
pub(super) fn misspelt_name<'n>(word: &str, names: &[&'n str]) -> Option<&'n str> {
    let is_long = word.chars().count() >= MIN_MISSPELT_LENGTH;
    names.iter().copied().find(|name| is_long && typing_errors(word, name) == 1)
}

fn without_env(name: &str) -> &str {
    name.strip_suffix("-env").unwrap_or(name)
}

/// Suggests the whole command if `word`, in place of a command, stands before one of these commands.
fn word_order_hint(word: &str, names: &[&str], line: &RefusedCommandLine<'_>) -> Option<String> {
    let mut words = line.words();
    let index = line.index_of(word)?;
    let next_word = words.get(index + 1)?;
    let name = meant_name(next_word, names)?;
    words.splice(index..index + 2, [name.to_owned(), word.to_owned()]);
    Some(format!("the command comes first: {}", command_text(words)))
}

/// Suggests the command for a file in place of a command.
fn file_hint(word: &str, command: &Command) -> Option<String> {
    let path = paths::expand(Path::new(word), paths::home().as_deref());
    if !path.is_file() {
        return None;
    }
    let file = shell_word(word);
    Some(match command.get_name() {
        "monopile" if manifest::is_manifest(&path) => {
            format!("a command comes before the manifest: `monopile status {file}`")
        }
        "state" => format!("to show the state: `monopile state show {file}`"),
        "cpi" if manifest::is_manifest(&path) => format!("to ask the CPI: `monopile cpi info {file}`"),
        "vars" => {
            let store = paths::default_vars_store(&path, &path).filter(|_| manifest::is_manifest(&path));
            format!(
                "to list the variables: `monopile vars list {}`",
                shell_word(&store.unwrap_or(path).to_string_lossy())
            )
        }
        _ => return None,
    })
}

/// Returns the message for an unknown option, or for an argument too many.
fn unknown_argument_message(argument: &str, line: &RefusedCommandLine<'_>) -> String {
    let name = line.short_name();
    if argument.starts_with('-') {
        return match is_option_of(argument, line.command) {
            true => format!("{argument} stands before the command"),
            false => format!("`{name}` has no option {argument}"),
        };
    }
    if let Some(flag) = line.index_of(argument).and_then(|index| line.switch_before(index)) {
        return format!("'{argument}' is one argument too many: {flag} takes no value");
    }
    let positionals = line.command.get_positionals().filter(|arg| !arg.is_hide_set());
    let value_names: Vec<String> = positionals
        .map(|arg| match arg.get_value_names() {
            Some([value_name, ..]) => value_name.to_string(),
            _ => arg.get_id().as_str().to_uppercase(),
        })
        .collect();
    match value_names.as_slice() {
        [] => format!("'{argument}' is one argument too many: `{name}` takes none"),
        value_names => {
            format!("'{argument}' is one argument too many: `{name}` takes only {}", and_list(value_names))
        }
    }
}

/// Suggests an option in place of an unknown one, or for an argument too many.
fn argument_hints(error: &clap::Error, line: &RefusedCommandLine<'_>) -> Vec<String> {
    let Some(word) = text(error, ContextKind::InvalidArg) else { return Vec::new() };
    if word == "--dry-run" && line.short_name() == "delete-env" {
        let state = line.file().unwrap_or_else(|| "MANIFEST".to_owned());
        let command = command_text(["state".to_owned(), "show".to_owned(), state]);
        return vec![
            format!("see what is on record: {command}"),
            "without -n, on a terminal, it lists what it would delete, and asks first".to_owned(),
        ];
    }
    if let Some(hint) = manifest_hint(word, line).or_else(|| option_hint(word, line)) {
        return vec![hint];
    }
    match line.index_of(word).filter(|_| !word.starts_with('-')) {
        Some(index) => surplus_argument_hints(word, index, line),
        None => Vec::new(),
    }
}

/// Returns the whole command in which an argument too many is the value of an option, or left out. Does the
/// same with those that follow it, but leaves them out if the option has only one value.
fn surplus_argument_hints(word: &str, index: usize, line: &RefusedCommandLine<'_>) -> Vec<String> {
    let words = line.words();
    let surplus_words: Vec<&str> =
        words.iter().skip(index).map(String::as_str).take_while(|word| !word.starts_with('-')).collect();
    let surplus_indices = index..index + surplus_words.len();
    let as_option = |option: &str| {
        let can_repeat = |arg: &Arg| matches!(arg.get_action(), ArgAction::Append);
        let is_repeatable = line.command.get_arguments().any(|arg| can_repeat(arg) && has_form(arg, option));
        let values = if is_repeatable { surplus_words.as_slice() } else { &[word] };
        let new_words: Vec<&str> = values.iter().flat_map(|value| [option, value]).collect();
        line.with_words_in(surplus_indices.clone(), &new_words)
    };
    let path = paths::expand(Path::new(word), paths::home().as_deref());
    let name = line.short_name();
    if name == "ssh" {
        let (words_before, words_after) = words.split_at(index);
        let words_before = words_before.iter().filter(|word| *word != "--").cloned();
        let command = ["--command".to_owned(), words_after.join(" ")];
        let command = command_text(words_before.chain(command));
        return vec![format!("to run a command on the VM: {command}")];
    }
    if name == "state forget" {
        let kinds = ["vm", "disk", "stemcell", "snapshot"];
        let kind_of = |cid: &str| kinds.into_iter().find(|kind| cid.starts_with(kind)).unwrap_or("vm");
        let word_before = index.checked_sub(1).and_then(|index_before| words.get(index_before));
        // `state forget vm MANIFEST`: the kind or the CID counts as the manifest.
        if let Some(cid) = word_before.filter(|word| !word.starts_with('-') && !paths::exists(word))
            && path.is_file()
        {
            let option = format!("--{}", kind_of(cid));
            let cid = if kinds.contains(&cid.as_str()) { "CID" } else { cid };
            let command = line.with_words_in(index - 1..index + 1, &[word, &option, cid]);
            return vec![format!("the manifest comes first: {command}")];
        }
        let kind = kind_of(word);
        let other_options: Vec<String> =
            kinds.into_iter().filter(|other| *other != kind).map(|other| format!("--{other}")).collect();
        let (command, other_options) = (as_option(&format!("--{kind}")), other_options.join(", "));
        return vec![format!("say what it is: {command}, or one of {other_options}")];
    }
    if name == "render-template" {
        return vec![format!("for the values: {}", as_option("--context"))];
    }
    if line.takes("job") {
        // `logs -n 5 MANIFEST`: the number counts as the manifest.
        let word_before = index.checked_sub(1).and_then(|index_before| words.get(index_before));
        if let Some(hint) = word_before.and_then(|word| number_hint(word, line.command)) {
            return vec![hint];
        }
        return vec![format!("for a job: {}", as_option("--job"))];
    }
    if line.takes("resolution") && line.switch_before(index).is_some() {
        return vec![format!("for one repair: {}", line.with_words_at(index - 1, &["--resolution"]))];
    }
    let leave_out = || {
        let pronoun = if surplus_words.len() == 1 { "it" } else { "them" };
        format!("leave {pronoun} out: {}", line.with_words_in(surplus_indices.clone(), &[]))
    };
    if !line.takes("ops_files") || line.switch_before(index).is_some() {
        return vec![leave_out()];
    }
    match manifest::file_option(&path) {
        Some("--ops-file") => vec![format!("pass the ops file: {}", as_option("-o"))],
        Some("--state") => vec![format!("pass the state: {}", as_option("--state"))],
        Some(_) => vec![format!("pass the variables: {}", as_option("-l"))],
        None if path.is_file() => vec![leave_out()],
        None => vec![
            format!("for an ops file: {}", as_option("-o")),
            format!("for a file with variables: {}", as_option("-l")),
        ],
    }
}

/// Returns the command without the value of an option that takes none.
fn surplus_value_hints(error: &clap::Error, line: &RefusedCommandLine<'_>) -> Vec<String> {
    let (Some(argument), Some(value)) =
        (text(error, ContextKind::InvalidArg), text(error, ContextKind::InvalidValue))
    else {
        return Vec::new();
    };
    let option = option_name(argument);
    match line.index_of(&format!("{option}={value}")) {
        Some(index) => vec![format!("leave it out: {}", line.with_words_at(index, &[option]))],
        None => Vec::new(),
    }
}

/// Returns the command with the value that an option lacks.
fn missing_value_hints(error: &clap::Error, line: &RefusedCommandLine<'_>) -> Vec<String> {
    let Some(argument) = text(error, ContextKind::InvalidArg) else { return Vec::new() };
    let option = option_name(argument);
    let Some((index, typed_option)) = line.find_option(option) else { return Vec::new() };
    let option = typed_option.as_str();
    if option == "--restore" {
        return vec![format!("list the versions: {}", line.with_words_at(index, &[]))];
    }
    let values = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) => values.as_slice(),
        _ => &[],
    };
    match values {
        [first, _, ..] => vec![
            format!("for example: {}", line.with_words_at(index, &[option, first])),
            format!("the values are {}", and_list(values)),
        ],
        _ => {
            let option_and_value = placeholder(argument);
            let value_name = option_and_value.rsplit_once(' ').map_or("VALUE", |(_, name)| name);
            // An empty word is the value that is refused.
            let index_of_value =
                index + usize::from(line.words().get(index + 1).is_some_and(String::is_empty));
            let new_words: &[&str] = match index_of_value == index {
                true => &[option, value_name],
                false => &[value_name],
            };
            vec![format!("add it: {}", line.with_words_at(index_of_value, new_words))]
        }
    }
}

/// Returns the hints for missing arguments, unless the error has some. Those of the manifest and the vars
/// store come from the parser of the command line.
fn missing_argument_hints(error: &clap::Error, line: &RefusedCommandLine<'_>) -> Option<Vec<String>> {
    if error.get(ContextKind::Suggested).is_some() {
        return None;
    }
    let Some(ContextValue::Strings(arguments)) = error.get(ContextKind::InvalidArg) else { return None };
    let file = || line.file().unwrap_or_else(|| "MANIFEST".to_owned());
    match (line.short_name(), arguments.as_slice()) {
        ("state forget", [argument]) if is_group(argument) => {
            let command = command_text(["state".to_owned(), "show".to_owned(), file()]);
            return Some(vec![format!("list the records: {command}")]);
        }
        ("render", [argument]) if option_name(argument) == "--job" => {
            let inputs = Inputs { manifest: file().into(), ..Inputs::default() };
            let root = manifest::load_outline(&inputs).ok();
            let jobs = root.map(|root| complete::job_names(&root, true)).unwrap_or_default();
            if let Some(first) = jobs.first() {
                let command = line.with_words(&["--job".to_owned(), first.clone()]);
                let mut hints = vec![format!("for example: {command}")];
                hints.extend((jobs.len() > 1).then(|| format!("the jobs are {}", and_list(&jobs))));
                return Some(hints);
            }
        }
        _ => {}
    }
    let placeholders = arguments.iter().map(|argument| placeholder(argument));
    let new_words: Vec<String> =
        placeholders.flat_map(|words| words.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
    let pronoun = if arguments.len() == 1 { "it" } else { "them" };
    Some(vec![format!("add {pronoun}: {}", line.with_words(&new_words))])
}

/// Returns the command without an option of other programs for the file after it, as in
/// `create-env -f bosh.yml`.
fn manifest_hint(given_option: &str, line: &RefusedCommandLine<'_>) -> Option<String> {
    let index = line.index_of(given_option).filter(|_| MANIFEST_SYNONYMS.contains(&given_option))?;
    let follows_command = index + 1 == line.name.split(' ').count();
    let has_value = line.words().get(index + 1).is_some_and(|word| !word.starts_with('-'));
    (follows_command && has_value && line.takes("manifest"))
        .then(|| format!("the manifest is an argument: {}", line.with_words_at(index, &[])))
}

/// Suggests an option in place of an unknown one. Hidden options are not suggested, because they have no
/// effect or another name.
fn option_hint(given_option: &str, line: &RefusedCommandLine<'_>) -> Option<String> {
    let command = line.command;
    let visible_args = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    let may_mean_force = given_option != FORCE_OR_FOLLOW || scope::is_in(ASKING_COMMANDS, line.short_name());
    if WITHOUT_QUESTIONS.contains(&given_option)
        && may_mean_force
        && visible_args().any(|arg| arg.get_id() == "non_interactive")
    {
        return Some(match command.get_name() {
            name @ "rotate" => format!("`vars {name}` asks no questions: leave out {given_option}"),
            _ => "to run without questions: -n (--non-interactive)".to_owned(),
        });
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
    // Parsing stopped before the name of the command.
    if is_option_of(given_option, command) {
        return Some(format!(
            "{given_option} is an option of `{}`: write it after the command",
            command.get_name()
        ));
    }
    // clap adds the option for help later.
    let names = || visible_args().filter_map(|arg| arg.get_long()).chain(["help"]);
    let synonym = OPTION_SYNONYMS.iter().find(|(word, _)| *word == given_option).map(|(_, name)| *name);
    let synonym = synonym.filter(|name| names().any(|option| option == *name));
    let suggestion = synonym.or_else(|| nearest(long?, names())).or_else(|| only_longer_name(long?, names()));
    match suggestion {
        Some(option) => Some(did_you_mean_question(&format!("--{option}"))),
        None => other_commands_hint(given_option, line),
    }
}

/// Returns the only name of which `beginning` has the first words, such as `wait-for-lock` for `wait`.
fn only_longer_name<'a>(beginning: &str, mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let is_longer =
        |name: &&str| name.strip_prefix(beginning).is_some_and(|end_of_name| end_of_name.starts_with('-'));
    let first = names.find(is_longer)?;
    names.all(|name| !is_longer(&name)).then_some(first)
}

/// Returns true if a visible option of the command has this long or short form.
fn is_option_of(given_option: &str, command: &Command) -> bool {
    command.get_arguments().any(|arg| !arg.is_hide_set() && has_form(arg, given_option))
}

/// Returns true if the argument has this long or short form.
fn has_form(arg: &Arg, given_option: &str) -> bool {
    let long = given_option.strip_prefix("--");
    let short =
        given_option.strip_prefix('-').and_then(|letter| letter.chars().next()).filter(|_| long.is_none());
    long.is_some() && arg.get_long() == long || short.is_some() && arg.get_short() == short
}

/// Names other commands that have the unknown option. For a command of an environment, those of `baremetal`
/// are named only if no other has it, and the reverse.
fn other_commands_hint(given_option: &str, line: &RefusedCommandLine<'_>) -> Option<String> {
    let is_baremetal = |path: &str| path.split(' ').next() == Some("baremetal");
    let grammar = grammar::for_all_commands();
    let leaves = scope::command_leaves(&grammar)
        .into_iter()
        .filter(|(_, command)| !command.is_hide_set() && is_option_of(given_option, command));
    let (same_kind, other_kind): (Vec<String>, Vec<String>) =
        leaves.map(|(path, _)| path).partition(|path| is_baremetal(path) == is_baremetal(line.short_name()));
    let paths = if same_kind.is_empty() { other_kind } else { same_kind };
    let names: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
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

/// Names the command for the help, which other programs print for `create-env help`.
fn help_hint(word: &str, args: &[OsString]) -> Option<String> {
    let words = args.iter().skip(1).take_while(|arg| *arg != word).map(|arg| arg.to_str());
    let words: Vec<&str> = words.collect::<Option<_>>()?;
    let is_help = word == help::HELP_COMMAND.0 && !words.iter().any(|word| word.starts_with('-'));
    is_help.then(|| format!("for the help of the command: `monopile help {}`", words.join(" ")))
}

/// Returns the error for a word after an option that takes none, so that the word counts as the manifest, as
/// in `history -n 5` and `plan --json bosh`, and for `create-env help`.
pub(super) fn misread_manifest_error(
    args: &[OsString],
    manifest: Option<&str>,
    command: &Command,
) -> Option<base::Error> {
    let word = manifest.filter(|word| !Path::new(word).exists())?;
    let word_follows = |option: &str| args.windows(2).any(|pair| pair[0] == *option && pair[1] == *word);
    let number = word_follows("-n").then(|| number_hint(word, command)).flatten();
    let form = || word_follows("--json").then(|| form_hint(word)).flatten();
    let hint = number.or_else(form).or_else(|| help_hint(word, args))?;
    Some(base::Error::usage(format!("'{word}' is taken as the manifest, but does not exist")).with_hint(hint))
}

/// Returns true for the options that add ops files and variables to a manifest.
fn is_manifest_option(word: &str) -> bool {
    let grammar = ManifestOptions::augment_args(Command::new(""));
    grammar.get_arguments().any(|arg| has_form(arg, word))
}

/// Suggests a value in place of one that the option does not take. The guesses of clap are too bold.
fn value_hint(error: &clap::Error, line: &RefusedCommandLine<'_>) -> Option<String> {
    let given_value = text(error, ContextKind::InvalidValue)?;
    let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue) else { return None };
    let synonym = VALUE_SYNONYMS.iter().find(|(word, _)| *word == given_value).map(|(_, value)| *value);
    let synonym = synonym.filter(|value| values.iter().any(|valid| valid == value));
    let suggestion = synonym.or_else(|| nearest(given_value, values.iter().map(String::as_str)));
    Some(suggestion.map_or_else(
        || {
            let noun = text(error, ContextKind::InvalidArg).and_then(|arg| noun_of_argument(arg, line));
            let noun = noun.unwrap_or_else(|| "value".to_owned());
            match values.as_slice() {
                [value] => format!("the only {noun} is {value}"),
                values => format!("the {noun}s are {}", and_list(values)),
            }
        },
        did_you_mean_question,
    ))
}

/// Returns the command with a value that the option or argument takes, if its parser names examples.
fn example_hint(error: &clap::Error, line: &RefusedCommandLine<'_>) -> Option<String> {
    let form_and_examples = required_form(error)?;
    let (_, examples) = form_and_examples.split_once(EXAMPLES_SEPARATOR)?;
    let example = examples.rsplit_once(" or ").map_or(examples, |(_, example)| example);
    let given_value = text(error, ContextKind::InvalidValue)?;
    let option = option_name(text(error, ContextKind::InvalidArg)?);
    let command = match line.index_of(&format!("{option}={given_value}")) {
        Some(index) => line.with_words_at(index, &[&format!("{option}={example}")]),
        None => line.with_words_at(line.index_of(given_value)?, &[example]),
    };
    Some(format!("for example: {command}"))
}

/// Explains the form of a pair without its text.
fn pair_hint(error: &clap::Error) -> Option<String> {
    let option = option_name(text(error, ContextKind::InvalidArg)?);
    required_form(error)?
        .starts_with(PAIR)
        .then(|| format!("write {option} {PAIR}; the text is not shown here, because it may be a secret"))
}

/// Returns the options with which another one cannot be used.
fn conflicting_options(error: &clap::Error) -> Vec<&str> {
    let descriptions = match error.get(ContextKind::PriorArg) {
        Some(ContextValue::String(description)) => std::slice::from_ref(description),
        Some(ContextValue::Strings(descriptions)) => descriptions.as_slice(),
        _ => &[],
    };
    descriptions.iter().map(|description| option_name(description)).collect()
}

/// Names the option to leave out, for options that cannot be used together.
fn conflict_hint(error: &clap::Error) -> Option<String> {
    let option = option_name(text(error, ContextKind::InvalidArg)?);
    let other_options = conflicting_options(error);
    Some(match (option, other_options.as_slice()) {
        ("--follow", ["--dir" | "--out"]) => {
            format!("{option} prints to standard output: leave out {}", other_options.concat())
        }
        (_, []) => return None,
        (option, [other]) if *other == option => "give it only once".to_owned(),
        _ => format!("leave out {option}, or else {}", and_list(&other_options)),
    })
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
        let (name, command) = help::named_command(&grammar, &words);
        explain(error, &RefusedCommandLine { args: &words, name: &name, command }).to_string()
    }

    #[test]
    fn only_what_helps_is_suggested() {
        for (line, hint) in [
            ("monopile creat-env", "did you mean 'create-env'?"),
            ("monopile delete", "did you mean 'delete-env'?"),
            ("monopile destroy a.yml", "did you mean 'delete-env'?"),
            ("monopile destory-env a.yml", "did you mean 'delete-env'?"),
            ("monopile deploy-env a.yml", "did you mean 'create-env'?"),
            ("monopile restart-env a.yml", "did you mean 'restart'?"),
            ("monopile restrat-env a.yml", "did you mean 'restart'?"),
            ("monopile recreate-env a.yml", "did you mean 'recreate'?"),
            ("monopile creat-env a.yml", "did you mean 'create-env'?"),
            ("monopile set-env a.yml", "list the commands: `monopile --help`"),
            ("monopile rotate", "did you mean 'vars rotate'?"),
            ("monopile import", "did you mean 'state import'?did you mean 'cache import'?"),
            ("monopile vault", "search the help: `monopile help vault`"),
            ("monopile lpan", "did you mean 'plan'?"),
            ("monopile us", "list the commands: `monopile --help`"),
            ("monopile hlep", "did you mean 'help'?"),
            ("monopile --hlep", "did you mean '--help'?"),
            ("monopile plan --hepl", "did you mean '--help'?"),
            ("monopile state hlep", "the commands of `state` are show, import, backup and forget"),
            ("monopile nope", "list the commands: `monopile --help`"),
            ("monopile xyzzy", "list the commands: `monopile --help`"),
            ("monopile troubleshooting", "that is a page of the help: `monopile help troubleshooting`"),
            ("monopile state troubleshooting", "the commands of `state` are show, import, backup and forget"),
            (
                "monopile ssh a.yml ls -l",
                "to run a command on the VM: `monopile ssh a.yml --command 'ls -l'`",
            ),
            ("monopile ssh a.yml -- ls", "to run a command on the VM: `monopile ssh a.yml --command ls`"),
            ("monopile logs a.yml web", "for a job: `monopile logs a.yml --job web`"),
            (
                "monopile state forget a.yml disk-1",
                "say what it is: `monopile state forget a.yml --disk disk-1`, or one of --vm, --stemcell, \
                 --snapshot",
            ),
            (
                "monopile render-template a.erb a.json",
                "for the values: `monopile render-template a.erb --context a.json`",
            ),
            (
                "monopile plan a.yml b.yml",
                "for an ops file: `monopile plan a.yml -o b.yml`for a file with variables: `monopile plan \
                 a.yml -l b.yml`",
            ),
            (
                "monopile plan a.yml b.yml c.yml -n",
                "for an ops file: `monopile plan a.yml -o b.yml -o c.yml -n`for a file with variables: \
                 `monopile plan a.yml -l b.yml -l c.yml -n`",
            ),
            (
                "monopile render-template a.erb a b",
                "for the values: `monopile render-template a.erb --context a`",
            ),
            ("monopile cache list x", "leave it out: `monopile cache list`"),
            ("monopile cache list x y", "leave them out: `monopile cache list`"),
            (
                "monopile cloud-check a.yml --auto reboot_vm",
                "for one repair: `monopile cloud-check a.yml --resolution reboot_vm`",
            ),
            (
                "monopile delete-env a.yml --skip-drain=yes",
                "leave it out: `monopile delete-env a.yml --skip-drain`",
            ),
            ("monopile plan a.yml --vars-store", "add it: `monopile plan a.yml --vars-store FILE`"),
            ("monopile plan --ops-file a.yml -o", "add it: `monopile plan --ops-file a.yml -o FILE`"),
            ("monopile logs a.yml -f --dir x", "--follow prints to standard output: leave out --dir"),
            ("monopile cloud-check --auto --report", "leave out --auto, or else --report"),
            ("monopile example helo", "did you mean 'hello'?"),
            ("monopile state backup a.yml --restore", "list the versions: `monopile state backup a.yml`"),
            ("monopile repack-stemcell a.tgz", "add it: `monopile repack-stemcell a.tgz RESULT`"),
            ("monopile vars rotate a.yml b --yes", "`vars rotate` asks no questions: leave out --yes"),
            ("monopile disk", "did you mean 'disks'?"),
            ("monopile state shwo", "did you mean 'show'?"),
            ("monopile state create", "the commands of `state` are show, import, backup and forget"),
            ("monopile state a.yml show", "the command comes first: `monopile state show a.yml`"),
            (
                "monopile baremetal node power n1 onn",
                "the command comes first: `monopile baremetal node power on n1`",
            ),
            (
                "monopile state restore",
                "list the versions: `monopile state backup MANIFEST`restore one: `monopile state backup \
                 MANIFEST --restore VERSION`",
            ),
            ("monopile cache purge", "did you mean 'prune'?"),
            ("monopile purge", "list the commands: `monopile --help`"),
            ("monopile create-env a.yml --vars-stor x", "did you mean '--vars-store'?"),
            ("monopile create-env a.yml --recreat", "did you mean '--recreate'?"),
            ("monopile create-env a.yml --yes", "to run without questions: -n (--non-interactive)"),
            ("monopile status a.yml -f", "-f is an option of `logs`"),
            ("monopile create-env a.yml -f", "to run without questions: -n (--non-interactive)"),
            (
                "monopile create-env -f a.yml --recreate",
                "the manifest is an argument: `monopile create-env a.yml --recreate`",
            ),
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
                "monopile delete-env a.yml --dry-run",
                "see what is on record: `monopile state show MANIFEST`without -n, on a terminal, it lists \
                 what it would delete, and asks first",
            ),
            (
                "monopile vars list a.yml -o x",
                "-o is an option of other commands, such as `create-env`, `plan` and `delete-env`",
            ),
            ("monopile logs a.yml --tail 10", "did you mean '--num'?"),
            ("monopile status a.yml --tail 10", "list the options: `monopile status --help`"),
            ("monopile logs a.yml -n 10", "-n means --non-interactive; for a number: --num 10"),
            ("monopile logs -n 10 a.yml", "-n means --non-interactive; for a number: --num 10"),
            ("monopile plan a.yml --json bosh", "write --json=bosh"),
            // Options without an effect are hidden.
            ("monopile create-env a.yml --clien x", "list the options: `monopile create-env --help`"),
            ("monopile create-env a.yml --environmen x", "list the options: `monopile create-env --help`"),
            ("monopile completion bsh", "did you mean 'bash'?"),
            ("monopile plan a.yml --update-strategy replace", "did you mean 'recreate'?"),
            ("monopile plan a.yml --update-strategy inplace", "did you mean 'in-place'?"),
            ("monopile plan a.yml --update-strategy displace", "the values are auto, in-place and recreate"),
            ("monopile history --json=foo", "the only value is lines"),
            ("monopile completion foo", "the shells are bash, zsh, fish, powershell and elvish"),
            ("monopile plan a.yml --state b --state c", "give it only once"),
            ("monopile cache prune --unused x", "for example: `monopile cache prune --unused 30d`"),
            (
                "monopile plan a.yml --wait-for-lock=x",
                "for example: `monopile plan a.yml --wait-for-lock=1h30m`",
            ),
            ("monopile logs a.yml --num many", "for example: `monopile logs a.yml --num 10`"),
            ("monopile plan a.yml --parallel=0", "for example: `monopile plan a.yml --parallel=5`"),
            (
                "monopile create-env a.yml --snapshot=7y",
                "for example: `monopile create-env a.yml --snapshot=30d`",
            ),
            (
                "monopile baremetal node create --driver-info secret",
                "write --driver-info KEY=VALUE; the text is not shown here, because it may be a secret",
            ),
            (
                "monopile baremetal node list --sort name:up",
                "for example: `monopile baremetal node list --sort name:desc`",
            ),
            ("monopile create-env a.yml --wait=x", "did you mean '--wait-for-lock'?"),
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

    #[test]
    fn messages_are_not_those_of_clap() {
        for (line, message) in [
            ("monopile nope", "`monopile` has no command 'nope'"),
            ("monopile state nope", "`state` has no command 'nope'"),
            ("monopile plan a.yml --nope", "`plan` has no option --nope"),
            ("monopile --vars-store x status", "--vars-store stands before the command"),
            ("monopile plan a.yml b.yml", "'b.yml' is one argument too many: `plan` takes only MANIFEST"),
            ("monopile cache list x", "'x' is one argument too many: `cache list` takes none"),
            ("monopile cloud-check a.yml --auto x", "'x' is one argument too many: --auto takes no value"),
            ("monopile plan a.yml --skip-drain=yes", "--skip-drain takes no value, such as 'yes'"),
            ("monopile plan a.yml --vars-store", "--vars-store needs a FILE"),
            ("monopile plan a.yml -o", "-o (--ops-file) needs a FILE"),
            ("monopile create-env a.yml --state", "--state needs a FILE or URL"),
            ("monopile logs a.yml -f --out x", "--follow cannot be used with --out"),
            ("monopile example helo", "there is no example 'helo'"),
            ("monopile completion bsh", "there is no shell 'bsh'"),
            ("monopile history --json=foo", "--json cannot be 'foo'"),
            ("monopile logs a.yml --num many", "--num must be a whole number of at least 0, not 'many'"),
            ("monopile plan --state a --state b", "--state is given more than once: 'a' and 'b'"),
            ("monopile plan a.yml --var", "--var needs NAME=VALUE"),
            ("monopile repack-stemcell a.tgz", "`repack-stemcell` needs a RESULT"),
            ("monopile upload-stemcell a.yml", "`upload-stemcell` needs a PATH or URL"),
            ("monopile render a.yml", "`render` needs --job NAME"),
            (
                "monopile state forget a.yml",
                "`state forget` needs one of --vm, --disk, --stemcell, --snapshot, --call, --failed-calls",
            ),
            ("monopile scp a.yml x", "`scp` needs a source and a destination"),
        ] {
            let text = error_text(line);
            assert!(text.starts_with(&format!("error: {message}\n")), "{line}: {text}");
            assert!(text.contains("\n  tip: "), "{line}: {text}");
        }
    }
}
