//! Files generated from the command-line definitions: the man pages of `docs/man` and the book's reference.
//!
//! `MONOPILE_UPDATE=1 cargo test --test it generated` writes them again.

mod man;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};

use crate::support::is_updating;
use monopile::cli::{
    COMMAND_GROUPS, DURATIONS_NOTE, GLOBAL_HEADING, HELP_COMMAND, HELP_DETAILS, HELP_EXAMPLES,
    HELP_EXIT_CODES, HELP_USAGE, HelpNotes, TOPICS, env_vars,
};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

/// Returns the files of a directory by name.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            (entry.file_name().into_string().unwrap(), text)
        })
        .collect()
}

#[test]
fn man_pages_are_up_to_date() {
    let new_pages: BTreeMap<String, String> = man::pages(monopile::cli::grammar()).into_iter().collect();
    let page = |name: &str| new_pages.get(name).unwrap_or_else(|| panic!("{name}: {:?}", new_pages.keys()));
    for section in ["EXIT STATUS", "ENVIRONMENT", "FILES"] {
        for name in ["monopile.1", "monopile-create-env.1"] {
            let heading = page(name).lines().any(|line| line.replace('"', "") == format!(".SH {section}"));
            assert!(heading, "{name} has no {section}");
        }
    }
    let directory = docs().join("man");
    if is_updating() {
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        for (name, text) in &new_pages {
            std::fs::write(directory.join(name), text).unwrap();
        }
    }
    let old_pages = files(&directory);
    let stale: Vec<&String> = new_pages
        .keys()
        .chain(old_pages.keys())
        .filter(|name| new_pages.get(*name) != old_pages.get(*name))
        .collect();
    assert!(
        stale.is_empty(),
        "stale in docs/man: {stale:?}; run MONOPILE_UPDATE=1 cargo test --test it generated"
    );
}

#[test]
fn reference_is_up_to_date() {
    let mut grammar = monopile::cli::grammar();
    grammar.build();
    let mut commands = commands(&grammar);
    commands.sort_by_key(|command| group_position(command));
    let (baremetal, commands): (Vec<&Command>, Vec<&Command>) =
        commands.into_iter().partition(|command| name(command).starts_with("monopile baremetal "));
    check_or_write("reference.md", &main_page(&grammar, &commands));
    check_or_write("reference-baremetal.md", &baremetal_page(&baremetal));
}

fn check_or_write(name: &str, text: &str) {
    let path = docs().join(name);
    if is_updating() {
        std::fs::write(&path, text).unwrap();
    }
    let old_text = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(old_text == text, "docs/{name} is stale: run MONOPILE_UPDATE=1 cargo test --test it generated");
}

fn main_page(grammar: &Command, commands: &[&Command]) -> String {
    let mut text =
        String::from("# Reference\n\nEvery command with its arguments, as `--help` shows them.\n\n");
    add_index(&mut text, commands);
    text.push_str(
        "\n## Global options\n\n`monopile --version`, or `-v` or `-V` without a command, shows the version. ",
    );
    text.push_str(
        "All commands take these options; the help of a command has those with an effect on it:\n\n",
    );
    let global = grammar.get_arguments().filter(|arg| !arg.is_hide_set() && arg.is_global_set());
    add_table(&mut text, "option", global.map(row));
    writeln!(text, "\n{DURATIONS_NOTE}").unwrap();
    let common = CommonOptions::of(commands);
    common.describe(&mut text);
    text.push_str("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (code, meaning) in base::exit_code::CODES {
        writeln!(text, "| {code} | {meaning} |").unwrap();
    }
    add_variables_and_files(&mut text, grammar);
    commands.iter().for_each(|command| describe(&mut text, command, &common));
    describe_help(&mut text);
    text
}

/// Adds the section of `monopile help`, which is no command of the grammar.
fn describe_help(text: &mut String) {
    writeln!(text, "\n## monopile {}\n\n{}.\n\n```text\n{HELP_USAGE}\n```\n", HELP_COMMAND.0, HELP_COMMAND.1)
        .unwrap();
    writeln!(text, "{HELP_DETAILS}\nOn a terminal, a pager shows the text. The pages:\n").unwrap();
    text.push_str("| page | subject |\n|---|---|\n");
    TOPICS.iter().for_each(|page| writeln!(text, "| `{}` | {} |", page.name, page.subject).unwrap());
    text.push_str("\nExit codes:\n\n");
    HELP_EXIT_CODES.iter().for_each(|(code, meaning)| writeln!(text, "- {code}: {meaning}").unwrap());
    writeln!(text, "\n```text\n{}\n```", HELP_EXAMPLES.join("\n")).unwrap();
}

/// Returns the page of the commands for Ironic, which are as many as all others.
fn baremetal_page(commands: &[&Command]) -> String {
    let mut text = String::from(
        "# Reference of bare metal\n\nThe commands of `monopile baremetal`, as `--help` shows them. [Bare \
         metal](ironic.md) shows how to use them.\nThey take the \
         [global options](reference.md#global-options) as well.\n\n| group | commands |\n|---|---|\n",
    );
    let words = |command: &&Command| name(command).trim_start_matches("monopile baremetal ").to_owned();
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for command in commands {
        let words = words(command);
        let (group, _) = words.rsplit_once(' ').unwrap_or((&words, ""));
        let link = format!("[`{words}`](#{})", anchor(name(command)));
        match groups.iter_mut().find(|(other, _)| other == group) {
            Some((_, links)) => links.push(link),
            None => groups.push((group.to_owned(), vec![link])),
        }
    }
    for (group, links) in groups {
        writeln!(text, "| {group} | {} |", links.join(", ")).unwrap();
    }
    let common = CommonOptions::of(commands);
    common.describe(&mut text);
    commands.iter().for_each(|command| describe(&mut text, command, &common));
    text
}

/// Adds links to the parts of the page, and to the commands in the groups of `monopile --help`.
fn add_index(text: &mut String, commands: &[&Command]) {
    text.push_str("For all commands: ");
    let parts = ["Global options", "Exit codes", "Environment variables", "Files"];
    let links: Vec<String> = parts.iter().map(|part| format!("[{part}](#{})", anchor(part))).collect();
    writeln!(text, "{}.\n\n| group | commands |\n|---|---|", links.join(", ")).unwrap();
    for (group, names) in COMMAND_GROUPS {
        let mut links = Vec::new();
        for group_name in names {
            for command in commands {
                let path = name(command).trim_start_matches("monopile ");
                if path.split(' ').next() == Some(*group_name) {
                    links.push(format!("[`{path}`](#{})", anchor(name(command))));
                }
            }
        }
        if names.contains(&"baremetal") {
            links.push("[`baremetal …`](reference-baremetal.md)".to_owned());
        }
        if names.contains(&"version") {
            links.push("[`help`](#monopile-help)".to_owned());
        }
        writeln!(text, "| {group} | {} |", links.join(", ")).unwrap();
    }
}

/// Adds the environment variables and files of the program.
fn add_variables_and_files(text: &mut String, grammar: &Command) {
    let mut rows = BTreeMap::new();
    collect_option_variables(grammar, &mut rows);
    rows.extend(
        env_vars::variables().map(|variable| (variable.name.to_owned(), escape_cell(variable.meaning))),
    );
    text.push_str("\n## Environment variables\n\nAn option overrides its variable. ");
    text.push_str("CPIs and packaging scripts get all variables, but [in a userland](userland.md) ");
    text.push_str("only some.\n\n| variable | meaning |\n|---|---|\n");
    rows.iter().for_each(|(name, meaning)| writeln!(text, "| `{name}` | {meaning} |").unwrap());
    text.push_str("\n## Files\n\nSTATE is the path of the state. For a state in a bucket, see ");
    text.push_str("[its objects](shared-state.md#objects).\n\n| path | content |\n|---|---|\n");
    let files = env_vars::state_files().into_iter().chain([env_vars::vars_store(), env_vars::env_file()]);
    for (path, content) in files.chain(env_vars::directories()) {
        writeln!(text, "| `{path}` | {content} |").unwrap();
    }
}

/// Collects the variables of the options of a command and of those below it.
fn collect_option_variables(command: &Command, rows: &mut BTreeMap<String, String>) {
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        if let (Some(variable), Some(option)) = (arg.get_env(), arg.get_long()) {
            rows.insert(variable.to_string_lossy().into_owned(), format!("Sets `--{option}`"));
        }
    }
    command.get_subcommands().for_each(|command| collect_option_variables(command, rows));
}

/// Returns the commands without those that only group others.
fn commands(command: &Command) -> Vec<&Command> {
    let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    subcommands
        .flat_map(
            |subcommand| if subcommand.has_subcommands() { commands(subcommand) } else { vec![subcommand] },
        )
        .collect()
}

/// Returns the position of a command in the groups of `monopile --help`. All commands of `state` have the
/// same one, and so on.
fn group_position(command: &Command) -> Option<usize> {
    let first_word = name(command).split(' ').nth(1);
    let mut group_names = COMMAND_GROUPS.iter().flat_map(|(_, names)| *names);
    group_names.position(|group_name| Some(*group_name) == first_word)
}

fn name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_else(|| command.get_name())
}

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace(' ', "-")
}

/// Returns the arguments of a command itself. Those of the program are listed once.
fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_of_program = |arg: &Arg| arg.is_global_set() && arg.get_help_heading() == Some(GLOBAL_HEADING);
    command
        .get_arguments()
        .filter(move |arg| !arg.is_hide_set() && !is_of_program(arg) && arg.get_id() != "help")
}

/// The options that several commands share, by heading and name.
struct CommonOptions(BTreeMap<String, BTreeMap<String, String>>);

impl CommonOptions {
    /// An option is common if so many commands describe it in the same words.
    const COMMANDS: usize = 3;

    fn of(commands: &[&Command]) -> Self {
        let mut rows: BTreeMap<(String, String), BTreeMap<String, usize>> = BTreeMap::new();
        for arg in commands.iter().flat_map(|command| arguments(command)) {
            if let (Some(heading), Some(name)) = (arg.get_help_heading(), arg.get_long()) {
                let place = rows.entry((heading.to_owned(), name.to_owned())).or_default();
                *place.entry(row(arg)).or_default() += 1;
            }
        }
        let mut common = BTreeMap::<String, BTreeMap<String, String>>::new();
        for ((heading, name), rows) in rows {
            let (row, count) = rows.into_iter().max_by_key(|(_, count)| *count).unwrap();
            if count >= Self::COMMANDS {
                common.entry(heading).or_default().insert(name, row);
            }
        }
        CommonOptions(common)
    }

    /// Returns true if the section of common options describes this argument as its command does.
    fn describes(&self, arg: &Arg) -> bool {
        let rows = arg.get_help_heading().and_then(|heading| self.0.get(heading));
        let common = rows.zip(arg.get_long()).and_then(|(rows, name)| rows.get(name));
        common.is_some_and(|common| *common == row(arg))
    }

    /// Returns true for an argument below a heading that its command alone has, such as "Record (exactly
    /// one)".
    fn is_group_of_one_command(&self, arg: &Arg) -> bool {
        arg.get_help_heading().is_some_and(|heading| !self.0.contains_key(heading))
    }

    /// Adds a section for each heading.
    fn describe(&self, text: &mut String) {
        text.push_str(
            "\n## Common options\n\nMany commands take some of these options. The section of a command ",
        );
        text.push_str("links to them.\n");
        for (heading, rows) in &self.0 {
            writeln!(text, "\n### {heading}\n").unwrap();
            add_table(text, "option", rows.values().cloned());
        }
    }

    /// Adds links to the common options of a command.
    fn link(&self, text: &mut String, command: &Command) {
        let mut has_started = false;
        for heading in self.0.keys() {
            let section_arguments = arguments(command).filter(|arg| arg.get_help_heading() == Some(heading));
            let names = section_arguments.filter(|arg| self.describes(arg)).filter_map(Arg::get_long);
            let names: Vec<String> = names.map(|name| format!("`--{name}`")).collect();
            if !names.is_empty() {
                text.push_str(if has_started { "" } else { "\nCommon options:\n\n" });
                has_started = true;
                writeln!(text, "- [{heading}](#{}): {}", anchor(heading), names.join(", ")).unwrap();
            }
        }
    }
}

/// Appends the section of a command: usage, aliases, details, and the table of its own options.
fn describe(text: &mut String, command: &Command, common: &CommonOptions) {
    let usage = command.clone().render_usage().to_string();
    writeln!(text, "\n## {}\n", name(command)).unwrap();
    let description = command.get_long_about().or(command.get_about()).map(ToString::to_string);
    let description = description.unwrap_or_default();
    let (first, details) = description.split_once("\n\n").unwrap_or((&description, ""));
    writeln!(text, "{}.", first.trim_end_matches('.')).unwrap();
    writeln!(text, "\n```text\n{}\n```\n", usage.trim_start_matches("Usage: ").trim_end()).unwrap();
    let aliases: Vec<String> = command.get_visible_aliases().map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        writeln!(text, "Aliases: {}.\n", aliases.join(", ")).unwrap();
    }
    if !details.is_empty() {
        writeln!(text, "{details}\n").unwrap();
    }
    if arguments(command).next().is_none() {
        text.push_str("Takes only global options.\n");
    }
    let is_own = |arg: &&Arg| !common.describes(arg);
    let is_grouped = |arg: &&Arg| common.is_group_of_one_command(arg);
    add_table(
        text,
        "argument",
        arguments(command).filter(is_own).filter(|arg| !is_grouped(arg)).map(with_anchor(command)),
    );
    let mut groups: Vec<&str> = Vec::new();
    for heading in arguments(command).filter(is_grouped).filter_map(Arg::get_help_heading) {
        if !groups.contains(&heading) {
            groups.push(heading);
        }
    }
    for group in groups {
        writeln!(text, "\n{group}:\n").unwrap();
        let group_arguments = arguments(command).filter(|arg| arg.get_help_heading() == Some(group));
        add_table(text, "argument", group_arguments.map(with_anchor(command)));
    }
    common.link(text, command);
    if let Some(notes) = command.get::<HelpNotes>() {
        add_notes(text, notes);
    }
}

/// Adds remarks, exit codes and examples.
fn add_notes(text: &mut String, notes: &HelpNotes) {
    if let Some(sentence) = &notes.without_effect {
        writeln!(text, "\n{sentence}").unwrap();
    }
    if let Some(remarks) = &notes.remarks {
        // Indented lines are code.
        let (remark, code) = remarks.split_once("\n\n  ").unwrap_or((remarks, ""));
        writeln!(text, "\n{remark}").unwrap();
        if !code.is_empty() {
            writeln!(text, "\n```text\n{}\n```", code.replace("\n  ", "\n")).unwrap();
        }
    }
    text.push_str("\nExit codes:\n\n");
    notes.exit_codes.iter().for_each(|(code, meaning)| writeln!(text, "- {code}: {meaning}").unwrap());
    let examples = notes.examples();
    if !examples.is_empty() {
        writeln!(text, "\n```text\n{}\n```", examples.join("\n")).unwrap();
    }
}

/// Adds a table of arguments, unless there is none.
fn add_table(text: &mut String, title: &str, rows: impl Iterator<Item = String>) {
    let mut rows = rows.peekable();
    if rows.peek().is_some() {
        writeln!(text, "| {title} | meaning |\n|---|---|").unwrap();
    }
    rows.for_each(|row| text.push_str(&row));
}

/// Returns a function for the rows of a command, which adds an anchor to each option. Pages can link to it.
fn with_anchor(command: &Command) -> impl Fn(&Arg) -> String {
    let command = anchor(name(command).trim_start_matches("monopile "));
    move |arg| {
        let row = row(arg);
        match (arg.get_long(), row.split_once("` | ")) {
            (Some(long), Some((name, text))) => format!("{name}`<a id=\"{command}--{long}\"></a> | {text}"),
            _ => row,
        }
    }
}

/// Returns the row of an option: its names with the value, and its help with default, variable and choices.
fn row(arg: &Arg) -> String {
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let value = arg
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ");
    let value = match takes_value {
        true if arg.is_require_equals_set() => format!("[={value}]"),
        true => format!(" {value}"),
        false => String::new(),
    };
    let names: Vec<String> =
        [arg.get_short().map(|short| format!("-{short}")), arg.get_long().map(|long| format!("--{long}"))]
            .into_iter()
            .flatten()
            .collect();
    let name = format!("`{}`", format!("{}{value}", names.join("`, `")).trim());
    let full_help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let (first, details) = full_help.split_once("\n\n").unwrap_or((&full_help, ""));
    let mut help = first.to_owned();
    let values = if takes_value { arg.get_possible_values() } else { Vec::new() };
    let values: Vec<_> = values.into_iter().filter(|value| !value.is_hide_set()).collect();
    if values.iter().all(|value| value.get_help().is_none()) {
        let names: Vec<String> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        write!(help, "{}{}", if names.is_empty() { "" } else { ": " }, names.join(", ")).unwrap();
    } else {
        for value in values {
            let meaning = value.get_help().map(ToString::to_string).unwrap_or_default();
            write!(help, "\n`{}`: {meaning}", value.get_name()).unwrap();
        }
        help.push('\n');
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if takes_value && !defaults.is_empty() {
        write!(help, " [default: {}]", defaults.join(" ")).unwrap();
    }
    if let Some(variable) = arg.get_env() {
        write!(help, " [environment: `{}`]", variable.to_string_lossy()).unwrap();
    }
    let short =
        arg.get_visible_short_aliases().unwrap_or_default().into_iter().map(|alias| format!("`-{alias}`"));
    let long = arg.get_visible_aliases().unwrap_or_default().into_iter().map(|alias| format!("`--{alias}`"));
    let aliases: Vec<String> = short.chain(long).collect();
    if !aliases.is_empty() {
        write!(help, " [alias: {}]", aliases.join(", ")).unwrap();
    }
    if !details.is_empty() {
        write!(help, ". {}", details.replace("\n\n", " ")).unwrap();
    }
    let help = help.replace("\n ", "\n").replace("\n. ", "\n");
    let lines: Vec<String> = help.trim_end().lines().map(escape_cell).collect();
    format!("| {} | {} |\n", name.replace('|', "\\|"), lines.join("<br>"))
}

/// Escapes text for a cell of a table.
fn escape_cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}
