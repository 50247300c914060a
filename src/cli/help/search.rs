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
    PartOfName,
    OptionName,
    Heading,
    Description,
    OptionDescription,
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
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let (place, length) = if path.rsplit_once(' ').is_some_and(|(_, name)| words.are_all_of(name)) {
            (Place::Name, path.len())
        } else if words.are_in(&path.replace(' ', "-")) {
            (Place::PartOfName, path.len())
        } else if words.are_in(&about) {
            (Place::Description, path.len())
        } else {
            match option_place(words, grammar, command) {
                // The commands of the same option stay in their order.
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
        for Section { title, anchor, .. } in topic.sections() {
            // The references have a section for each command, which is found by its name.
            if words.are_in(&title) && !(is_reference && title.starts_with("monopile ")) {
                let place = if words.are_all_of(&title) { Place::WholeHeading } else { Place::Heading };
                add(place, anchor.len(), format!("{page} {anchor}"));
            }
        }
    }
    let Some(best_place) = matches.iter().map(|found| found.place).min() else { return Vec::new() };
    matches.retain(|found| found.place == best_place);
    if matches.iter().any(|found| !found.is_baremetal) {
        matches.retain(|found| !found.is_baremetal);
    }
    matches.sort_by_key(|found| (found.is_reference, found.length));
    matches.into_iter().take(MAX_COMMANDS).map(|found| found.command).collect()
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
            ("password", &["secrets"]),
            ("set-env", &[]),
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
