//! The man pages of `clap_mangen`, with sections that it cannot generate.

use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use monopile::cli::{
    COMMAND_GROUPS, DURATIONS_NOTE, FIRST_STEPS, GLOBAL_HEADING, HELP_COMMAND, HELP_USAGE, HelpNotes, TOPICS,
    env_vars, takes_duration,
};
use regex::Regex;

/// The page with all exit codes, variables and files.
const MAIN: &str = "monopile(1)";

/// Returns the pages of a command and of those below it, by file name.
pub(super) fn pages(command: Command) -> Vec<(String, String)> {
    let mut grammar = command.disable_help_subcommand(true);
    grammar.build();
    let mut pages = Vec::new();
    collect(&grammar, &[], &mut pages);
    pages
}

/// Adds the pages of a command and of those below it. `groups` are those that contain it, the outermost
/// first.
fn collect(command: &Command, groups: &[&Command], pages: &mut Vec<(String, String)>) {
    let inner_groups: Vec<&Command> = groups.iter().copied().chain([command]).collect();
    visible_subcommands(command).for_each(|subcommand| collect(subcommand, &inner_groups, pages));
    // The version of the program also names the target of this build.
    let without_target = command.clone().version(env!("CARGO_PKG_VERSION"));
    let man = Man::new(without_target);
    let mut text = Vec::new();
    man.render_name_section(&mut text).unwrap();
    text.extend(synopsis(command).to_roff().bytes());
    text.extend(description(command).to_roff().bytes());
    Man::new(arguments_in_sections(command, groups.is_empty())).render_options_section(&mut text).unwrap();
    text.extend(subcommands(command).to_roff().bytes());
    if command.get_version().is_some() {
        man.render_version_section(&mut text).unwrap();
    }
    let text = String::from_utf8(text).unwrap() + &sections(command, groups).to_roff();
    // Every rendered part begins with these definitions. A page needs them once.
    const DEFINITIONS: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";
    assert!(text.contains(DEFINITIONS), "{}", man.get_filename());
    let page = title(&page_name(command)) + DEFINITIONS + &text.replace(DEFINITIONS, "");
    // Code is bold, as in other man pages.
    let page = Regex::new("`([^`\n]+)`").unwrap().replace_all(&page, r"\fB$1\fR").into_owned();
    assert!(!page.contains("\n\n.TP\n"), "{}: an option without a description", man.get_filename());
    pages.push((man.get_filename(), page));
}

/// Returns the line for header and footer. That of clap_mangen has no place for an empty date.
fn title(name: &str) -> String {
    // The header has the name twice, and the manual in between, in 80 columns.
    let manual = if name.len() > 25 { "" } else { "monopile manual" };
    let name = if name.len() > 35 { name.trim_start_matches("monopile-") } else { name };
    format!(".TH \"{name}\" 1 \"\" \"monopile {}\" \"{manual}\"\n", env!("CARGO_PKG_VERSION"))
}

/// Returns the usage of a command as `--help` shows it. That of clap_mangen lists every option.
fn synopsis(command: &Command) -> Roff {
    let mut page = Roff::new();
    let usage = command.clone().render_usage().to_string();
    page.control("SH", ["SYNOPSIS"]);
    for (index, line) in usage.trim_start_matches("Usage: ").trim_end().lines().enumerate() {
        if index > 0 {
            page.control("br", []);
        }
        page.text([roman(line.trim())]);
    }
    let aliases: Vec<&str> = command.get_visible_aliases().collect();
    if !aliases.is_empty() {
        page.control("PP", []);
        page.text([roman(format!("Aliases: {}", aliases.join(", ")))]);
    }
    page
}

/// Returns the description without its first sentence, which is the name section. Returns that sentence if
/// there is no other one.
fn description(command: &Command) -> Roff {
    let mut page = Roff::new();
    let text = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    page.control("SH", ["DESCRIPTION"]);
    match text.split_once("\n\n") {
        Some((_, details)) => add_paragraphs(&mut page, details),
        None => add_paragraphs(&mut page, &format!("{}.", text.trim_end_matches('.'))),
    }
    page
}

/// Returns a command with the arguments of another in the sections of `--help`, each with a heading.
/// clap_mangen would print the options first. Only the main page has the details of global options.
fn arguments_in_sections(command: &Command, is_main: bool) -> Command {
    let mut sorted_command = clap::Command::default();
    for (heading, arguments) in monopile::cli::sections(command) {
        for arg in arguments {
            // clap_mangen leaves out the description of an option that `-h` does not show.
            let arg = arg.clone().hide_short_help(false).help_heading(heading.clone());
            let is_brief = heading == GLOBAL_HEADING && !is_main;
            let arg = if is_brief { arg.long_help(None::<&str>) } else { arg };
            let has_values = arg.get_action().takes_values() && !arg.get_possible_values().is_empty();
            sorted_command = sorted_command.arg(with_aliases(if is_brief && has_values {
                arg.hide_possible_values(true)
            } else {
                arg
            }));
        }
    }
    let sorted_command = sorted_command.version(env!("CARGO_PKG_VERSION")).disable_version_flag(true);
    sorted_command.disable_help_flag(true).allow_missing_positional(true)
}

/// Adds the aliases of an option to its description.
fn with_aliases(arg: Arg) -> Arg {
    let short =
        arg.get_visible_short_aliases().unwrap_or_default().into_iter().map(|alias| format!("-{alias}"));
    let long = arg.get_visible_aliases().unwrap_or_default().into_iter().map(|alias| format!("--{alias}"));
    let aliases: Vec<String> = short.chain(long).collect();
    let text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    match aliases.is_empty() {
        true => arg,
        false => arg.help(format!("{text} [alias: {}]", aliases.join(", "))),
    }
}

/// Returns the commands of a group with their pages. Those of the program are in the groups of its help.
fn subcommands(command: &Command) -> Roff {
    let mut page = Roff::new();
    if visible_subcommands(command).next().is_none() {
        return page;
    }
    page.control("SH", ["SUBCOMMANDS"]);
    let row = |page: &mut Roff, name: String, summary: String| {
        page.control("TP", []);
        page.text([roman(name)]);
        page.text([roman(summary)]);
    };
    let summary = |subcommand: &Command| subcommand.get_about().map(ToString::to_string).unwrap_or_default();
    if command.get_name() != "monopile" {
        visible_subcommands(command)
            .for_each(|subcommand| row(&mut page, page_of(subcommand), summary(subcommand)));
        return page;
    }
    for (title, names) in COMMAND_GROUPS {
        page.control("SS", [title]);
        for subcommand in names.iter().filter_map(|name| command.find_subcommand(name)) {
            row(&mut page, page_of(subcommand), summary(subcommand));
        }
    }
    row(&mut page, HELP_USAGE.to_owned(), HELP_COMMAND.1.to_owned());
    page
}

fn visible_subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set())
}

/// Returns the reference to the page of a command.
fn page_of(command: &Command) -> String {
    format!("{}(1)", page_name(command))
}

fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// Returns the pages about similar commands: the group above, and the others in it. A command of the program
/// is similar to those in its group of the help. For the program itself, these are the first group.
fn neighbours(command: &Command, groups: &[&Command]) -> Vec<String> {
    let Some(group) = groups.last() else {
        let (_, names) = COMMAND_GROUPS[0];
        return visible_subcommands(command)
            .filter(|subcommand| names.contains(&subcommand.get_name()))
            .map(page_of)
            .collect();
    };
    let names = COMMAND_GROUPS.iter().find(|(_, names)| names.contains(&command.get_name()));
    let is_near = |other: &&Command| {
        let in_group = names.is_none_or(|(_, names)| names.contains(&other.get_name()));
        other.get_name() != command.get_name() && (groups.len() > 1 || in_group)
    };
    let other_pages = visible_subcommands(group).filter(is_near).map(page_of);
    let group = (groups.len() > 1).then(|| page_of(group));
    group.into_iter().chain(other_pages).collect()
}

/// Returns the sections after the options: exit status, environment, files, notes, examples and other pages.
fn sections(command: &Command, groups: &[&Command]) -> Roff {
    let mut page = Roff::new();
    let is_main = command.get_name() == "monopile";
    let is_group = !is_main && command.has_subcommands();
    let notes = command.get::<HelpNotes>();
    if !is_group {
        add_section(&mut page, "EXIT STATUS", &exit_status(command, is_main));
        add_section(&mut page, "ENVIRONMENT", &environment(command, is_main));
        add_section(&mut page, "FILES", &files(command, is_main));
    }
    let durations = (is_main || takes_duration(command)).then(|| DURATIONS_NOTE.to_owned());
    let remarks = notes.into_iter().flat_map(|notes| [notes.without_effect.clone(), notes.remarks.clone()]);
    let remarks: Vec<String> = remarks.flatten().chain(durations).collect();
    if !remarks.is_empty() {
        page.control("SH", ["NOTES"]);
        add_paragraphs(&mut page, &remarks.join("\n\n"));
    }
    let examples = match is_main {
        true => FIRST_STEPS.map(str::to_owned).to_vec(),
        false => notes.map(HelpNotes::examples).unwrap_or_default(),
    };
    if !examples.is_empty() {
        page.control("SH", ["EXAMPLES"]);
        let lines = examples.iter().flat_map(|example| example.lines());
        add_unfilled(&mut page, lines.map(bold));
    }
    page.control("SH", ["SEE ALSO"]);
    let neighbours = neighbours(command, groups);
    if !neighbours.is_empty() {
        // Lines of long names cannot be adjusted, and a name must not be hyphenated.
        page.control("na", []);
        page.control("nh", []);
        page.text([roman(neighbours.join(", "))]);
        page.control("hy", []);
        page.control("ad", []);
        page.control("PP", []);
    }
    page.text([roman(match is_main {
        true => {
            let pages: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
            format!("`monopile help PAGE` prints a page of the book: {}.", pages.join(", "))
        }
        false => format!("{MAIN} has all exit codes, environment variables and files."),
    })]);
    page
}

/// Adds a section of terms with their meanings.
fn add_section(page: &mut Roff, title: &str, rows: &[(String, String)]) {
    if rows.is_empty() {
        return;
    }
    page.control("SH", [title]);
    for (term, meaning) in rows {
        page.control("TP", []);
        page.text([bold(term.as_str())]);
        page.text([roman(meaning.as_str())]);
    }
}

/// Adds lines that must not be joined or broken, such as commands.
fn add_unfilled(page: &mut Roff, lines: impl Iterator<Item = Inline>) {
    page.control("nf", []);
    for line in lines {
        page.text([line]);
    }
    page.control("fi", []);
}

/// Adds paragraphs. Indented lines stay lines of their own.
fn add_paragraphs(page: &mut Roff, text: &str) {
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("  ") {
            let mut block = vec![line];
            while let Some(next) = lines.next_if(|next| next.starts_with("  ")) {
                block.push(next);
            }
            add_unfilled(page, block.into_iter().map(roman));
        } else if line.is_empty() {
            page.control("PP", []);
        } else {
            page.text([roman(line)]);
        }
    }
}

fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set())
}

fn has_option(command: &Command, option: &str) -> bool {
    arguments(command).any(|arg| arg.get_long() == Some(option))
}

/// Returns the exit codes of a command. For the main page, returns those of the program.
fn exit_status(command: &Command, is_main_page: bool) -> Vec<(String, String)> {
    let own_codes = || command.get::<HelpNotes>().map(|notes| notes.exit_codes.clone()).unwrap_or_default();
    let codes = if is_main_page { base::exit_code::CODES.to_vec() } else { own_codes() };
    codes.iter().map(|(code, meaning)| ((*code).to_owned(), (*meaning).to_owned())).collect()
}

/// Returns the variables of the options of a command. For the main page, returns all other variables too.
fn environment(command: &Command, is_main_page: bool) -> Vec<(String, String)> {
    let option_variable = |arg: &Arg| {
        let option = arg.get_long()?;
        Some((arg.get_env()?.to_str()?.to_owned(), format!("Sets --{option}")))
    };
    let option_variables = arguments(command).filter_map(option_variable);
    let other_variables =
        env_vars::variables().map(|variable| (variable.name.to_owned(), variable.meaning.to_owned()));
    option_variables.chain(other_variables.filter(|_| is_main_page)).collect()
}

/// Returns the files of the environment, if a command uses them. For the main page, returns all files.
fn files(command: &Command, is_main_page: bool) -> Vec<(String, String)> {
    let state = env_vars::state_files().into_iter().filter(|_| is_main_page || has_option(command, "state"));
    let vars_store =
        Some(env_vars::vars_store()).filter(|_| is_main_page || has_option(command, "vars-store"));
    let env_file = Some(env_vars::env_file()).filter(|_| is_main_page || has_option(command, "env-file"));
    let directories = env_vars::directories().into_iter().filter(|_| is_main_page);
    let files = state.chain(vars_store).chain(env_file).chain(directories);
    files.map(|(path, content)| (path, content.to_owned())).collect()
}
