//! The search of `monopile help` for words that name no page: in the names of commands, the headings of the
//! book, and the one-line descriptions of commands, pages and options.

use clap::{Arg, Command};

use super::markdown::{self, MessageRow, Section};
use super::topics::{TOPICS, Topic};

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

impl Place {
    /// Returns true if the place answers the question alone.
    fn is_exact(self) -> bool {
        matches!(self, Place::Name | Place::WholeHeading | Place::Message)
    }
}

/// A command that prints the place of the words.
struct Match {
    place: Place,
    /// Sections of references come last.
    is_reference: bool,
    /// Commands of `baremetal` count only if no other place is as good.
    is_baremetal: bool,
    /// True for a place in the help of a command, false for one in the book.
    is_of_command: bool,
    /// The length of the name or heading. Short ones come first.
    length: usize,
    command: String,
}

/// Words of a question, each with the word that the book has in its place.
const SYNONYMS: [(&str, &str); 8] = [
    ("lost", "gone"),
    ("dead", "gone"),
    ("missing", "gone"),
    ("bigger", "larger"),
    ("grow", "larger"),
    ("rollback", "back"),
    ("laptop", "machine"),
    ("second", "several"),
];

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
            let synonym = SYNONYMS.iter().find(|(synonym, _)| synonym == word).map(|(_, word)| *word);
            anchor
                .split('-')
                .any(|other| other == word || is_long && other.starts_with(stem) || synonym == Some(other))
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

    /// Returns the links to the sections that explain a message with these words.
    pub(super) fn sections_of_message<'r>(&self, rows: &'r [MessageRow]) -> Vec<&'r str> {
        let is_meant = |row: &&MessageRow| row.messages.iter().any(|message| self.are_message(message));
        let mut targets: Vec<&str> = Vec::new();
        for target in rows.iter().filter(is_meant).flat_map(|row| &row.targets) {
            if !targets.contains(&target.as_str()) {
                targets.push(target);
            }
        }
        targets
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

/// A page of the book, read once for all searches of a question.
struct Page {
    topic: &'static Topic,
    sections: Vec<Section>,
    message_rows: Vec<MessageRow>,
}

/// Returns at most three commands that print the best places of these words. If no place has all words,
/// leaves out as few as possible, so that the places of the others are the fewest.
pub(in crate::cli) fn search(text: &str, grammar: &Command) -> Vec<String> {
    const MAX_WORDS: usize = 6;
    let mut words = SearchWords::new(text);
    let page =
        |topic| Page { topic, sections: Topic::sections(topic), message_rows: Topic::message_rows(topic) };
    let book: Vec<Page> = TOPICS.iter().map(page).collect();
    let all_matches = find_all(&words, grammar, &book);
    if !all_matches.is_empty() {
        return best_commands(all_matches);
    }
    words.0.truncate(MAX_WORDS);
    let subsets = (1_u32..1 << words.0.len()).map(|mask| {
        let is_left = |(index, _): &(usize, &String)| mask & (1 << index) != 0;
        SearchWords(words.0.iter().enumerate().filter(is_left).map(|(_, word)| word.clone()).collect())
    });
    let mut subsets: Vec<SearchWords> = subsets.collect();
    subsets.sort_by_key(|subset| std::cmp::Reverse(subset.0.len()));
    for subsets in subsets.chunk_by(|one, other| one.0.len() == other.0.len()) {
        let matches = subsets.iter().map(|subset| find_all(subset, grammar, &book));
        let rarest = matches.filter(|matches| !matches.is_empty()).min_by_key(Vec::len);
        if let Some(matches) = rarest {
            return best_commands(matches);
        }
    }
    Vec::new()
}

/// Returns the commands of the best places: of an exact one alone, otherwise one in the help of a command and
/// two in the book, or three of the same kind.
fn best_commands(mut matches: Vec<Match>) -> Vec<String> {
    let Some(best_place) = matches.iter().map(|candidate| candidate.place).min() else { return Vec::new() };
    if matches.iter().any(|candidate| !candidate.is_baremetal) {
        matches.retain(|candidate| !candidate.is_baremetal);
    }
    if best_place.is_exact() {
        matches.retain(|candidate| candidate.place == best_place);
    }
    matches.sort_by_key(|candidate| (candidate.place, candidate.is_reference, candidate.length));
    let best_of = |is_of_command: bool| {
        let mut best: Vec<&Match> =
            matches.iter().filter(|candidate| candidate.is_of_command == is_of_command).collect();
        let place = best.first().map(|candidate| candidate.place);
        best.retain(|candidate| Some(candidate.place) == place);
        best
    };
    let (command_places, book_places) = (best_of(true), best_of(false));
    let command_count = if book_places.is_empty() { MAX_COMMANDS } else { 1 };
    let mut best: Vec<&Match> = command_places.into_iter().take(command_count).collect();
    best.extend(book_places.into_iter().take(MAX_COMMANDS - best.len()));
    best.sort_by_key(|candidate| candidate.place);
    best.into_iter().map(|candidate| candidate.command.clone()).collect()
}

/// Returns all places of all these words.
fn find_all(words: &SearchWords, grammar: &Command, book: &[Page]) -> Vec<Match> {
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
        matches.push(Match {
            place,
            is_reference: false,
            is_baremetal,
            is_of_command: true,
            length,
            command,
        });
    }
    for Page { topic, sections, message_rows } in book {
        let is_reference = topic.name.starts_with("reference");
        let page = format!("monopile help {}", topic.name);
        let mut add = |place, length, command| {
            let (is_baremetal, is_of_command) = (false, false);
            matches.push(Match { place, is_reference, is_baremetal, is_of_command, length, command });
        };
        if words.are_in(topic.name) {
            add(Place::PartOfName, topic.name.len(), page.clone());
        } else if words.are_in(topic.subject) {
            add(Place::Description, topic.name.len(), page.clone());
        }
        for Section { title, anchor, markdown } in sections {
            let command = format!("{page} {anchor}");
            // The references have a section for each command, which is found by its name.
            if words.are_in(title) && !(is_reference && title.starts_with("monopile ")) {
                let place = if words.are_all_of(title) { Place::WholeHeading } else { Place::Heading };
                add(place, anchor.len(), command);
                continue;
            }
            let count = if is_reference { 0 } else { words.count_in(markdown) };
            if count > 0 && words.are_in(&markdown.replace(['\n', '/'], " ")) {
                // The sections that are about the words come first.
                let rareness = markdown.len() * 100 / count;
                add(Place::Text, rareness, command);
            }
        }
        for target in words.sections_of_message(message_rows) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let page =
                TOPICS.iter().find(|other| file.strip_suffix(".md") == Some(other.file)).unwrap_or(topic);
            add(Place::Message, 0, format!("monopile help {} {anchor}", page.name).trim_end().to_owned());
        }
    }
    matches
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
            ("exit code 5", &["pipelines exit-codes-and-output", "reference exit-codes", "plan"]),
            ("state is lost", &["troubleshooting the-state-is-lost"]),
            ("console", &["logs", "local log-in", "qemu when-a-vm-does-not-start"]),
            ("vm lost", &["troubleshooting the-vm-is-gone"]),
            ("vault", &["vars-exec"]),
            ("concourse", &["pipelines"]),
            ("kvm", &["qemu"]),
            ("s3", &["shared-state"]),
            ("proxy", &["downloads proxies", "ssh"]),
            ("password", &["vars get", "secrets"]),
            ("set-env", &[]),
            ("the state is encrypted", &["troubleshooting a-file-cannot-be-decrypted"]),
            ("the agent of VM 'i-1' does not answer", &["troubleshooting the-agent-is-silent"]),
            ("error: disk 'vol-1' is not mounted on the VM", &["operating repair"]),
            ("4 variables have no value", &["troubleshooting the-input-is-invalid"]),
            ("windows", &["vars-exec recipes"]),
            ("second cloud", &["several-cpis"]),
            (
                "timeout xyzzy",
                &["create-env", "migration create-env-and-delete-env", "troubleshooting the-cpi-times-out"],
            ),
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
