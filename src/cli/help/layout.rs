//! The layout of the help of a command: its commands, arguments and options in sections, in the same order
//! for all commands.
//!
//! `-h` has every description beside its option, in one column for all sections. `--help` has it below the
//! option, with all details. Global options are one line each, because `monopile --help` explains them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::IsTerminal as _;

use clap::builder::PossibleValue;
use clap::builder::styling::Styles;
use clap::{Arg, ArgAction, Command};

use crate::cli::manifest_args::MANIFEST_OPTIONS;
use crate::ui;

/// The heading of the options of all commands.
pub const GLOBAL_HEADING: &str = "Global options";

/// The headings of arguments and options without a heading of their own.
const UNTITLED_HEADINGS: [&str; 2] = ["Arguments", "Options"];

/// The heading of [`MANIFEST_OPTIONS`].
const MANIFEST_HEADING: &str = "Manifest and variables";

/// Groups of options, by the ids of their arguments. Sections are in this order, after [`UNTITLED_HEADINGS`].
pub(super) const HEADINGS: [(&str, &[&str]); 9] = [
    (MANIFEST_HEADING, &MANIFEST_OPTIONS),
    (MANIFEST_HEADING, &["manifests", "renderer"]),
    ("State", &["state", "wait_for_lock", "forget_open_calls"]),
    ("CPI", &["package_dir", "cpi_userland", "cpi_api_version", "cpi_timeout"]),
    ("Agent and jobs", &["insecure_agent", "agent_timeout", "boot_timeout", "skip_drain", "drain_timeout"]),
    (
        "Connection",
        &[
            "gw_disable",
            "gw_host",
            "gw_user",
            "gw_private_key",
            "gw_socks5",
            "private_key",
            "username",
            "opts",
        ],
    ),
    // The arguments of these have their headings in their definitions.
    ("Connection to Ironic", &[]),
    ("Output", &[]),
    (GLOBAL_HEADING, &[]),
];

/// The widest name of an option that has a description on the same line.
const MAX_NAME_COLUMNS: usize = 33;
/// The indentation of a description below its option.
const INDENT_COLUMNS: usize = 10;
/// The fewest columns for descriptions beside options.
const MIN_TEXT_COLUMNS: usize = 30;

/// Returns the columns for help and pages of the book: those of the terminal, up to a width that is easy to
/// read.
pub(in crate::cli) fn columns() -> usize {
    const MAX_COLUMNS: usize = 110;
    const COLUMNS_WITHOUT_TERMINAL: usize = 80;
    match std::io::stdout().is_terminal() {
        true => ui::stdout_columns().min(MAX_COLUMNS),
        false => COLUMNS_WITHOUT_TERMINAL,
    }
}

/// Returns the visible arguments of a command in sections: those with headings of this module first, in its
/// order.
pub fn sections(command: &Command) -> Vec<(String, Vec<&Arg>)> {
    let visible_args: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    let section_title = |arg: &Arg| -> String {
        let default_title = UNTITLED_HEADINGS[usize::from(!arg.is_positional())];
        arg.get_help_heading().unwrap_or(default_title).to_owned()
    };
    let mut titles: Vec<String> = Vec::new();
    for title in visible_args.iter().map(|arg| section_title(arg)) {
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    let all_titles = || UNTITLED_HEADINGS.into_iter().chain(HEADINGS.map(|(title, _)| title));
    // A heading of one command follows the options without a heading.
    let rank = |title: &str| {
        all_titles()
            .position(|candidate| candidate == title)
            .map_or(UNTITLED_HEADINGS.len() * 2, |position| position * 2 + 1)
    };
    // clap adds the option for help to the options without a heading.
    if !titles.iter().any(|title| title == UNTITLED_HEADINGS[1]) {
        titles.push(UNTITLED_HEADINGS[1].to_owned());
    }
    titles.sort_by_key(|title| rank(title));
    let arguments =
        |title: &String| visible_args.iter().copied().filter(|arg| section_title(arg) == *title).collect();
    titles.iter().map(|title| (title.clone(), arguments(title))).collect()
}

/// A line with a name on the left.
struct Row {
    /// The name with styles.
    name: String,
    width: usize,
    text: String,
}

/// Returns the sections for `-h`.
pub(super) fn short_help(command: &Command) -> String {
    let is_shown = |arg: &&Arg| !arg.is_hide_short_help_set();
    let mut titled_rows = vec![("Commands".to_owned(), commands(command))];
    for (title, arguments) in sections(command).into_iter().filter(|(title, _)| title != GLOBAL_HEADING) {
        let mut rows: Vec<Row> = arguments.into_iter().filter(is_shown).map(short_row).collect();
        if title == UNTITLED_HEADINGS[1] {
            rows.push(help_option(HELP_OPTION_HELP));
        }
        titled_rows.push((title, rows));
    }
    let longest_name_columns =
        titled_rows.iter().flat_map(|(_, rows)| rows).map(|row| row.width).max().unwrap_or_default();
    let parts = aliases(command).into_iter().chain(
        titled_rows
            .into_iter()
            .filter(|(_, rows)| !rows.is_empty())
            .map(|(title, rows)| table_section(&title, &rows, longest_name_columns)),
    );
    parts.collect::<Vec<_>>().join("\n\n")
}

/// Returns the sections for `--help`.
pub(super) fn long_help(command: &Command) -> String {
    let mut parts: Vec<String> = aliases(command).into_iter().collect();
    let commands = commands(command);
    if !commands.is_empty() {
        parts.push(table_section("Commands", &commands, longest_name_columns(&commands)));
    }
    for (title, arguments) in sections(command) {
        if title == GLOBAL_HEADING {
            let rows: Vec<Row> = arguments.into_iter().map(global_row).collect();
            let table = table_section(&title, &rows, longest_name_columns(&rows));
            parts.push(format!("{table}\n\n`monopile --help` has the details of global options."));
            continue;
        }
        let mut paragraphs: Vec<String> = arguments.into_iter().map(argument_block).collect();
        if title == UNTITLED_HEADINGS[1] {
            paragraphs.push(long_help_option());
        }
        parts.push(format!("{}\n{}", heading_line(&title), paragraphs.join("\n\n")));
    }
    parts.join("\n\n")
}

/// Returns the options of the program itself for `-h`.
pub(super) fn short_options(program: &Command) -> String {
    let is_shown = |arg: &&Arg| !arg.is_hide_set() && !arg.is_hide_short_help_set();
    let mut rows: Vec<Row> = program.get_arguments().filter(is_shown).map(short_row).collect();
    rows.push(help_option(HELP_OPTION_HELP));
    table_section(UNTITLED_HEADINGS[1], &rows, longest_name_columns(&rows))
}

/// Returns the options of the program itself for `--help`.
pub(super) fn long_options(program: &Command) -> String {
    let options = program.get_arguments().filter(|arg| !arg.is_hide_set());
    let paragraphs: Vec<String> = options.map(argument_block).chain([long_help_option()]).collect();
    format!("{}\n{}", heading_line(UNTITLED_HEADINGS[1]), paragraphs.join("\n\n"))
}

fn longest_name_columns(rows: &[Row]) -> usize {
    rows.iter().map(|row| row.width).max().unwrap_or_default()
}

fn heading_line(title: &str) -> String {
    let style = *Styles::styled().get_header();
    format!("{style}{title}:{style:#}")
}

/// Returns the line with the other names of a command.
fn aliases(command: &Command) -> Option<String> {
    let names: Vec<&str> = command.get_visible_aliases().collect();
    let label = if names.len() == 1 { "Alias" } else { "Aliases" };
    (!names.is_empty()).then(|| format!("{} {}", heading_line(label), names.join(", ")))
}

/// Returns the commands of a group.
fn commands(command: &Command) -> Vec<Row> {
    let literal = *Styles::styled().get_literal();
    let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let row = |subcommand: &Command| Row {
        name: format!("  {literal}{}{literal:#}", subcommand.get_name()),
        width: subcommand.get_name().len(),
        text: subcommand.get_about().map(ToString::to_string).unwrap_or_default(),
    };
    subcommands.map(row).collect()
}

/// Returns an argument with its description for `-h`.
fn short_row(arg: &Arg) -> Row {
    let text = format!("{} {}", help(arg), notes(arg, true).join(" ")).trim_end().to_owned();
    Row { text, ..name_row(arg) }
}

/// The description of the option for help in `-h`.
const HELP_OPTION_HELP: &str = "Print help (see more with '--help')";

/// Returns the option for help with its description for `--help`.
fn long_help_option() -> String {
    let option = help_option("Print help (see a summary with '-h')");
    format!("{}\n{:INDENT_COLUMNS$}{}", option.name, "", option.text)
}

/// Returns the option for help, which clap adds later.
fn help_option(text: &str) -> Row {
    let literal = *Styles::styled().get_literal();
    let name = format!("  {literal}-h{literal:#}, {literal}--help{literal:#}");
    Row { name, width: "-h, --help".len(), text: text.to_owned() }
}

/// Returns the name of an argument with its value, as clap shows it, without a description.
fn name_row(arg: &Arg) -> Row {
    let (literal, placeholder) = (*Styles::styled().get_literal(), *Styles::styled().get_placeholder());
    let values = arg.get_possible_values();
    let has_default_value_only =
        !values.is_empty() && values.iter().filter(|value| !value.is_hide_set()).count() < 2;
    // clap sets the number of values later, and cannot show the argument before.
    let full_arg = match arg.get_num_args() {
        None => arg.clone().num_args(usize::from(takes_value(arg))),
        Some(range) if range.min_values() == 0 && has_default_value_only => {
            arg.clone().num_args(0).action(ArgAction::SetTrue)
        }
        Some(_) => arg.clone(),
    };
    let usage = full_arg.to_string();
    let Some(long) = arg.get_long() else {
        let name = format!("  {placeholder}{usage}{placeholder:#}");
        return Row { name, width: ui::width(&usage), text: String::new() };
    };
    let option = format!("--{long}");
    let value = usage.strip_prefix(&option).unwrap_or_default();
    let short = match arg.get_short() {
        Some(short) => format!("{literal}-{short}{literal:#}, "),
        None => "    ".to_owned(),
    };
    let name = format!("  {short}{literal}{option}{literal:#}{placeholder}{value}{placeholder:#}");
    Row { name, width: "-x, ".len() + ui::width(&usage), text: String::new() }
}

/// Returns the description of an argument in one sentence.
fn help(arg: &Arg) -> Cow<'_, str> {
    arg.get_help().map(|text| Cow::Owned(text.to_string())).unwrap_or_default()
}

/// Returns variable, default, aliases and values of an argument in brackets. Values that have descriptions of
/// their own are left out, unless `shows_values` is set.
fn notes(arg: &Arg, shows_values: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(variable) = arg.get_env() {
        notes.push(format!("[env: {}]", variable.to_string_lossy()));
    }
    let defaults: Vec<Cow<'_, str>> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_value(arg) && !defaults.is_empty() {
        notes.push(format!("[default: {}]", defaults.join(" ")));
    }
    let short_aliases =
        arg.get_visible_short_aliases().unwrap_or_default().into_iter().map(|alias| format!("-{alias}"));
    let long_aliases =
        arg.get_visible_aliases().unwrap_or_default().into_iter().map(|alias| format!("--{alias}"));
    let aliases: Vec<String> = short_aliases.chain(long_aliases).collect();
    match aliases.as_slice() {
        [] => {}
        [alias] => notes.push(format!("[alias: {alias}]")),
        names => notes.push(format!("[aliases: {}]", names.join(", "))),
    }
    let values = values(arg);
    let are_described = values.iter().any(|value| value.get_help().is_some());
    if !values.is_empty() && (shows_values || !are_described) {
        let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
        notes.push(format!("[possible values: {}]", names.join(", ")));
    }
    notes
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// Returns the visible values of an argument with a fixed set of them.
fn values(arg: &Arg) -> Vec<PossibleValue> {
    let values = if takes_value(arg) { arg.get_possible_values() } else { Vec::new() };
    values.into_iter().filter(|value| !value.is_hide_set()).collect()
}

/// Returns a global option with one line of text. Its help may have a default of its own.
fn global_row(arg: &Arg) -> Row {
    let text = format!("{} {}", help(arg), notes(arg, false).join(" ")).trim_end().to_owned();
    Row { text, ..name_row(arg) }
}

/// Formats a section with descriptions beside the names.
fn table_section(title: &str, rows: &[Row], longest_name_columns: usize) -> String {
    let columns = columns();
    let indent = longest_name_columns.min(MAX_NAME_COLUMNS) + 4;
    let indent = if columns < indent + MIN_TEXT_COLUMNS { INDENT_COLUMNS } else { indent };
    let mut text = heading_line(title);
    for row in rows {
        let fits_on_line = row.width + 4 <= indent;
        let _ = write!(text, "\n{}", row.name);
        for (index, line) in ui::fit(&row.text, columns.saturating_sub(indent)).iter().enumerate() {
            let _ = match index == 0 && fits_on_line {
                true => write!(text, "{:1$}{line}", "", indent - 2 - row.width),
                false => write!(text, "\n{:indent$}{line}", ""),
            };
        }
    }
    text
}

/// Formats an argument with its description and details below it.
fn argument_block(arg: &Arg) -> String {
    let width = columns().saturating_sub(INDENT_COLUMNS);
    let description = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut blocks: Vec<Vec<String>> = description
        .split("\n\n")
        .map(|text| text.lines().flat_map(|line| ui::fit(line, width)).collect())
        .collect();
    let values = values(arg);
    if values.iter().any(|value| value.get_help().is_some()) {
        let longest_name_columns =
            values.iter().map(|value| ui::width(value.get_name())).max().unwrap_or_default();
        let mut block = vec!["Possible values:".to_owned()];
        for value in &values {
            let start = format!("- {}: ", value.get_name());
            let gap = " ".repeat(longest_name_columns - ui::width(value.get_name()));
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            let indent = longest_name_columns + "- : ".len();
            for (index, line) in ui::fit(&help, width.saturating_sub(indent)).iter().enumerate() {
                block.push(match index {
                    0 => format!("{start}{gap}{line}"),
                    _ => format!("{:indent$}{line}", ""),
                });
            }
        }
        blocks.push(block);
    }
    let notes = notes(arg, false);
    if !notes.is_empty() {
        blocks.push(notes);
    }
    let blocks = blocks.iter().map(|lines| {
        lines.iter().map(|line| format!("{:INDENT_COLUMNS$}{line}", "")).collect::<Vec<_>>().join("\n")
    });
    format!("{}\n{}", name_row(arg).name, blocks.collect::<Vec<_>>().join("\n\n"))
}

#[cfg(test)]
mod tests {
    use crate::cli::grammar;

    /// Returns the help of a command line without styles.
    fn help_text(line: &str) -> String {
        let words = line.split(' ');
        grammar::for_all_commands().try_get_matches_from(words).unwrap_err().to_string()
    }

    #[test]
    fn sections_have_one_order() {
        let titles = |line: &str| -> Vec<String> {
            let help = help_text(line);
            let firsts = help.split("\n\n").filter_map(|part| part.split_once("\n  "));
            let titles = firsts.map(|(line, _)| line).filter(|line| line.ends_with(':'));
            titles.filter(|line| !line.starts_with(' ') && !line.contains('\n')).map(str::to_owned).collect()
        };
        let create_env_titles = titles("monopile create-env --help");
        let start =
            ["Arguments:", "Options:", "Manifest and variables:", "State:", "CPI:", "Agent and jobs:"];
        assert_eq!(create_env_titles[..6], start);
        assert_eq!(create_env_titles[6..], ["Global options:", "Exit codes:", "Examples:"]);
        // The arguments of this command are declared in another order.
        let forget = titles("monopile state forget -h");
        let start = ["Arguments:", "Options:", "Record (exactly one):", "Manifest and variables:", "State:"];
        assert_eq!(forget[..5], start);
    }

    #[test]
    fn descriptions_are_in_one_column() {
        for command in ["create-env", "ssh", "status", "state forget", "baremetal node list"] {
            let help = help_text(&format!("monopile {command} -h"));
            let options =
                help.split("\n\n").filter(|part| !part.starts_with("Usage") && !part.contains("monopile"));
            let mut column = None;
            for line in options.flat_map(str::lines).filter(|line| line.starts_with("  ")) {
                let name = line.trim_start();
                let Some((name, _)) = name.split_once("  ") else { continue };
                let name_end = line.find(name).unwrap() + name.len();
                let begin = name_end + line[name_end..].find(|character| character != ' ').unwrap();
                let begin = line[..begin].chars().count();
                assert_eq!(*column.get_or_insert(begin), begin, "{command}: {line}");
            }
            assert!(column.is_some(), "{command}");
        }
    }

    #[test]
    fn global_options_have_no_details() {
        let help = help_text("monopile create-env --help");
        let (_, globals) = help.split_once("Global options:\n").unwrap();
        let (globals, _) = globals.split_once("\n\n").unwrap();
        // Details would be paragraphs of their own.
        assert!(globals.contains("--log-format") && !globals.contains("Commands that delete"), "{globals}");
        assert!(globals.contains("--json[=<FORM>]"), "{globals}");
        let globals = globals.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(globals.contains("Do not ask questions [env: BOSH_NON_INTERACTIVE]"), "{globals}");
        assert!(globals.contains("at once [default: 5]"), "{globals}");
        assert!(globals.contains("[default: $XDG_CACHE_HOME/monopile]"), "{globals}");
    }

    #[test]
    fn env_file_makes_the_manifest_optional() {
        let grammar = crate::cli::grammar();
        let usage = |name: &str| grammar.find_subcommand(name).unwrap().clone().render_usage().to_string();
        assert!(usage("create-env").contains("[MANIFEST]"), "{}", usage("create-env"));
        // Another word must follow.
        assert!(usage("delete-disk").contains("<MANIFEST>"), "{}", usage("delete-disk"));
        let help = help_text("monopile create-env -h");
        let text = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("[MANIFEST]") && text.contains("[default: from the env file]"), "{help}");
    }
}
