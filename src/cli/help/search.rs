//! The search of `monopile help` for words that name no page: in the names of commands, the headings of the
//! book, and the one-line descriptions of commands, pages and options.

use clap::{Arg, Command};

use super::markdown::{self, Section};
use super::topics::TOPICS;

/// The place of the words that were searched, the best one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// The whole name of a command in a group.
    Name,
    WholeHeading,
    /// A message in the table of troubleshooting.
    Message,
    PartOfName,
    OptionName,
    Heading,
    Description,
    OptionDescription,
    /// The text of a section.
    Text,
    OptionOfBaremetal,
}

/// A command that prints the place of the words.
struct Match {
    place: Place,
    /// Sections of references come last.
    is_reference: bool,
    /// Commands of `baremetal` count only if no other place is as good.
    is_baremetal: bool,
    /// The length of the name or heading. Short ones come first.
    length: usize,
    command: String,
}

/// Words, as they are compared: in lower case, without articles and single characters.
pub(super) struct SearchWords(Vec<String>);

impl SearchWords {
    pub(super) fn new(text: &str) -> Self {
        let anchor = markdown::anchor(text);
        let is_useful = |word: &&str| word.chars().count() > 1 && !["the", "an"].contains(word);
        Self(anchor.split('-').filter(is_useful).map(str::to_owned).collect())
    }

    /// Returns true if the text has all words. Long words may also be the beginnings of words, and have a
    /// plural.
    pub(super) fn are_in(&self, text: &str) -> bool {
        const MAX_WHOLE_WORD: usize = 3;
        let anchor = markdown::anchor(text);
        let is_in = |word: &String| {
            let stem = word.trim_end_matches('s');
            let stem = stem.strip_suffix('y').unwrap_or(stem);
            let is_long = stem.len() > MAX_WHOLE_WORD;
            anchor.split('-').any(|other| other == word || is_long && other.starts_with(stem))
        };
        !self.0.is_empty() && self.0.iter().all(is_in)
    }

    /// Returns true if the words are part of a message, or a message with values in place of the words in
    /// capital letters. Fewer than three words must be the whole message.
    pub(super) fn are_message(&self, message: &str) -> bool {
        const MIN_WORDS: usize = 3;
        if self.0.len() < MIN_WORDS {
            return self.are_all_of(message);
        }
        let is_value = |word: &&str| !word.chars().any(char::is_lowercase);
        let fixed_text: Vec<&str> = message.split([' ', '/']).filter(|word| !is_value(word)).collect();
        let fixed_words = Self::new(&fixed_text.join(" ")).0;
        let has_message =
            fixed_words.len() >= MIN_WORDS && fixed_words.iter().all(|word| self.0.contains(word));
        has_message || self.are_in(message)
    }

    /// Returns the number of times that a text has the words, or 0 if it lacks one. Short words are nearly
    /// everywhere, and count as lacking.
    fn count_in(&self, text: &str) -> usize {
        const MIN_LENGTH: usize = 4;
        let text = text.to_lowercase();
        let count = |word: &String| {
            let is_long = word.chars().count() >= MIN_LENGTH;
            if is_long { text.matches(word.trim_end_matches('s')).count() } else { 0 }
        };
        let counts: Vec<usize> = self.0.iter().map(count).collect();
        if counts.contains(&0) { 0 } else { counts.iter().sum() }
    }

    /// Returns true if the text has these words only.
    fn are_all_of(&self, text: &str) -> bool {
        !self.0.is_empty() && Self::new(text).0 == self.0
    }
}

/// Returns the visible commands at any depth, with their paths, such as `vars rotate`.
fn commands(grammar: &Command) -> Vec<(String, &Command)> {
    fn add<'g>(command: &'g Command, path: &str, commands: &mut Vec<(String, &'g Command)>) {
        for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            let path = format!("{path} {}", subcommand.get_name()).trim().to_owned();
            commands.push((path.clone(), subcommand));
            add(subcommand, &path, commands);
        }
    }
    let mut all_commands = Vec::new();
    add(grammar, "", &mut all_commands);
    all_commands
}

fn is_baremetal(path: &str) -> bool {
    path.split(' ').next() == Some("baremetal")
}

/// The number of commands that a hint names at most.
const MAX_COMMANDS: usize = 3;

/// Returns the paths of at most three commands in groups with this name. Those of `baremetal` count only if
/// no other group has it.
pub(in crate::cli) fn commands_named(name: &str, grammar: &Command) -> Vec<String> {
    let paths = commands(grammar).into_iter().map(|(path, _)| path);
    let has_name = |path: &String| path.rsplit_once(' ').is_some_and(|(_, last)| last == name);
    let (baremetal_paths, paths): (Vec<String>, Vec<String>) =
        paths.filter(has_name).partition(|path| is_baremetal(path));
    let paths = if paths.is_empty() { baremetal_paths } else { paths };
    paths.into_iter().take(MAX_COMMANDS).collect()
}

/// Returns at most three commands that print the best places of these words. If no place has all words,
/// leaves out the last ones.
pub(in crate::cli) fn search(text: &str, grammar: &Command) -> Vec<String> {
    let words: Vec<&str> = text.split(' ').collect();
    (1..=words.len())
        .rev()
        .filter_map(|count| words.get(..count))
        .map(|words| search_all(&SearchWords::new(&words.join(" ")), grammar))
        .find(|commands| !commands.is_empty())
        .unwrap_or_default()
}

/// Returns at most three commands that print the best places of all these words.
fn search_all(words: &SearchWords, grammar: &Command) -> Vec<String> {
    let mut matches = Vec::new();
    for (path, command) in commands(grammar) {
        let description = command.get_about().map(ToString::to_string).unwrap_or_default();
        let (place, length) = if path.rsplit_once(' ').is_some_and(|(_, name)| words.are_all_of(name)) {
            (Place::Name, path.len())
        } else if words.are_in(&path.replace(' ', "-")) {
            (Place::PartOfName, path.len())
        } else if words.are_in(&description) {
            (Place::Description, path.len())
        } else {
            match option_place(words, grammar, command) {
                // The commands of the same option stay in their order.
                Some(_) if is_baremetal(&path) => (Place::OptionOfBaremetal, 0),
                Some(place) => (place, 0),
                None => continue,
            }
        };
        let (is_baremetal, command) = (is_baremetal(&path), format!("monopile help {path}"));
        matches.push(Match { place, is_reference: false, is_baremetal, length, command });
    }
    for topic in &TOPICS {
        let is_reference = topic.name.starts_with("reference");
        let page = format!("monopile help {}", topic.name);
        let mut add = |place, length, command| {
            matches.push(Match { place, is_reference, is_baremetal: false, length, command });
        };
        if words.are_in(topic.name) {
            add(Place::PartOfName, topic.name.len(), page.clone());
        } else if words.are_in(topic.subject) {
            add(Place::Description, topic.name.len(), page.clone());
        }
        for Section { title, anchor, markdown } in topic.sections() {
            let command = format!("{page} {anchor}");
            // The references have a section for each command, which is found by its name.
            if words.are_in(&title) && !(is_reference && title.starts_with("monopile ")) {
                let place = if words.are_all_of(&title) { Place::WholeHeading } else { Place::Heading };
                add(place, anchor.len(), command);
                continue;
            }
            let count = if is_reference { 0 } else { words.count_in(&markdown) };
            if count > 0 && words.are_in(&markdown.replace(['\n', '/'], " ")) {
                // The sections that are about the words come first.
                let rareness = markdown.len() * 100 / count;
                add(Place::Text, rareness, command);
            }
        }
        for target in topic.sections_of_message(words) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let page =
                TOPICS.iter().find(|other| file.strip_suffix(".md") == Some(other.file)).unwrap_or(topic);
            add(Place::Message, 0, format!("monopile help {} {anchor}", page.name).trim_end().to_owned());
        }
    }
    let Some(best_place) = matches.iter().map(|candidate| candidate.place).min() else { return Vec::new() };
    matches.retain(|candidate| candidate.place == best_place);
    if matches.iter().any(|candidate| !candidate.is_baremetal) {
        matches.retain(|candidate| !candidate.is_baremetal);
    }
    matches.sort_by_key(|candidate| (candidate.is_reference, candidate.length));
    matches.into_iter().take(MAX_COMMANDS).map(|candidate| candidate.command).collect()
}

/// Returns the place of the words in the options of a command, except for those of all commands.
fn option_place(words: &SearchWords, grammar: &Command, command: &Command) -> Option<Place> {
    let is_of_all_commands = |arg: &Arg| grammar.get_arguments().any(|other| other.get_id() == arg.get_id());
    let options = command.get_arguments().filter(|arg| !arg.is_hide_set() && !is_of_all_commands(arg));
    let place = |arg: &Arg| {
        let name = arg.get_long()?;
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let place = words.are_in(&help).then_some(Place::OptionDescription);
        if words.are_in(name) { Some(Place::OptionName) } else { place }
    };
    options.filter_map(place).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::grammar;

    #[test]
    fn words_are_found_in_their_best_place() {
        let grammar = grammar::for_all_commands();
        let lock = &["troubleshooting the-lock-is-held"][..];
        for (words, places) in [
            ("lock is held", lock),
            ("the lock is held", lock),
            ("locks held", lock),
            ("backup", &["state backup"]),
            ("rotate", &["vars rotate"]),
            ("list", &["cpi list", "vars list", "cache list"]),
            ("files", &["security files", "reference files"]),
            ("exit codes", &["reference exit-codes"]),
            ("exit code 5", &["pipelines exit-codes-and-output", "reference exit-codes"]),
            ("inspect-stemcell", &["inspect-local-stemcell"]),
            ("console", &["logs"]),
            ("restore", &["state backup"]),
            ("vault", &["vars-exec"]),
            ("concourse", &["pipelines"]),
            ("kvm", &["qemu"]),
            ("s3", &["shared-state"]),
            ("proxy", &["downloads proxies"]),
            ("password", &["secrets", "vars get"]),
            ("set-env", &[]),
            ("the state is encrypted", &["troubleshooting a-file-cannot-be-decrypted"]),
            ("the agent of VM 'i-1' does not answer", &["troubleshooting the-agent-is-silent"]),
            ("error: disk 'vol-1' is not mounted on the VM", &["operating repair"]),
            ("4 variables have no value", &["troubleshooting the-input-is-invalid"]),
            ("windows", &["vars-exec recipes"]),
            ("xyzzy", &[]),
            ("5", &[]),
            ("the", &[]),
            ("", &[]),
        ] {
            let commands = search(words, &grammar);
            let places: Vec<String> = places.iter().map(|place| format!("monopile help {place}")).collect();
            assert_eq!(commands, places, "{words}");
        }
    }

    #[test]
    fn commands_in_groups_are_found_by_their_names() {
        let grammar = grammar::for_all_commands();
        assert_eq!(commands_named("rotate", &grammar), ["vars rotate"]);
        assert_eq!(commands_named("import", &grammar), ["state import", "cache import"]);
        assert_eq!(commands_named("plan", &grammar), [""; 0]);
    }
}
