//! The man pages of `clap_mangen`, with sections that it cannot generate.

use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use monopile::cli::{DURATIONS, HelpNotes, reference};

/// The page with all exit codes, variables and files.
const MAIN: &str = "monopile(1)";

/// Returns the pages of a command and of those below it, by file name.
pub(super) fn pages(command: Command) -> Vec<(String, String)> {
    let mut grammar = command.disable_help_subcommand(true);
    grammar.build();
    let mut pages = Vec::new();
    collect(&grammar, &mut pages);
    pages
}

fn collect(command: &Command, pages: &mut Vec<(String, String)>) {
    let below: Vec<&Command> = command.get_subcommands().filter(|below| !below.is_hide_set()).collect();
    below.iter().for_each(|below| collect(below, pages));
    // The notes get their own sections in place of EXTRA. clap_mangen leaves out the description of an option
    // that `-h` does not show.
    let bare = command.clone().after_help(None::<&str>).after_long_help(None::<&str>);
    // The version of the program also names the target of this build.
    let bare = bare.mut_args(|arg| arg.hide_short_help(false)).version(env!("CARGO_PKG_VERSION"));
    let source = concat!("monopile ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(bare).source(source).manual("monopile");
    let mut text = Vec::new();
    man.render_title(&mut text).unwrap();
    man.render_name_section(&mut text).unwrap();
    text.extend(synopsis(command).to_roff().bytes());
    man.render_description_section(&mut text).unwrap();
    man.render_options_section(&mut text).unwrap();
    if !below.is_empty() {
        man.render_subcommands_section(&mut text).unwrap();
    }
    if command.get_version().is_some() {
        man.render_version_section(&mut text).unwrap();
    }
    let text = String::from_utf8(text).unwrap() + &sections(command).to_roff();
    // The definitions that every rendered part begins with. A page needs them once.
    let preamble = Roff::new().to_roff();
    let page = preamble.clone() + &text.replace(&preamble, "");
    assert!(!page.contains("\n\n.TP\n"), "{}: an option without a description", man.get_filename());
    pages.push((man.get_filename(), page));
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
    page
}

fn sections(command: &Command) -> Roff {
    let mut page = Roff::new();
    let is_main = command.get_name() == "monopile";
    let is_group = !is_main && command.has_subcommands();
    let notes = command.get::<HelpNotes>();
    if !is_group {
        section(&mut page, "EXIT STATUS", &exit_status(command, is_main));
        section(&mut page, "ENVIRONMENT", &environment(command, is_main));
        section(&mut page, "FILES", &files(command, is_main));
    }
    let is_duration = |arg: &Arg| {
        arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.as_str() == "DURATION"))
    };
    let durations = (is_main || arguments(command).any(is_duration)).then(|| DURATIONS.to_owned());
    let remarks = notes.into_iter().flat_map(|notes| [notes.without_effect.clone(), notes.remarks.clone()]);
    let remarks: Vec<String> = remarks.flatten().chain(durations).collect();
    if !remarks.is_empty() {
        page.control("SH", ["NOTES"]);
        paragraphs(&mut page, &remarks.join("\n\n"));
    }
    let examples = notes.map(HelpNotes::examples).unwrap_or_default();
    if !examples.is_empty() {
        page.control("SH", ["EXAMPLES"]);
        let lines = examples.iter().flat_map(|example| example.lines());
        unfilled(&mut page, lines.map(bold));
    }
    if !is_main {
        page.control("SH", ["SEE ALSO"]);
        page.text([roman(format!("{MAIN} has all exit codes, environment variables and files."))]);
    }
    page
}

/// Adds a section of terms with their meanings.
fn section(page: &mut Roff, title: &str, rows: &[(String, String)]) {
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
fn unfilled(page: &mut Roff, lines: impl Iterator<Item = Inline>) {
    page.control("nf", []);
    for line in lines {
        page.text([line]);
    }
    page.control("fi", []);
}

/// Adds paragraphs. Indented lines stay lines of their own.
fn paragraphs(page: &mut Roff, text: &str) {
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("  ") {
            let mut block = vec![line];
            while let Some(next) = lines.next_if(|next| next.starts_with("  ")) {
                block.push(next);
            }
            unfilled(page, block.into_iter().map(roman));
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

fn has(command: &Command, flag: &str) -> bool {
    arguments(command).any(|arg| arg.get_long() == Some(flag))
}

/// Returns the exit codes of a command. For the main page, returns those of the program.
fn exit_status(command: &Command, all: bool) -> Vec<(String, String)> {
    let own = || command.get::<HelpNotes>().map(|notes| notes.exit_codes.clone()).unwrap_or_default();
    let codes = if all { base::exit_code::TABLE.to_vec() } else { own() };
    codes.iter().map(|(code, meaning)| ((*code).to_owned(), (*meaning).to_owned())).collect()
}

/// Returns the variables of the flags of a command. For the main page, returns all other variables too.
fn environment(command: &Command, all: bool) -> Vec<(String, String)> {
    let of_flag = |arg: &Arg| {
        let flag = arg.get_long()?;
        Some((arg.get_env()?.to_str()?.to_owned(), format!("Sets --{flag}")))
    };
    let of_flags = arguments(command).filter_map(of_flag);
    let others =
        reference::variables().map(|variable| (variable.name.to_owned(), variable.meaning.to_owned()));
    of_flags.chain(others.filter(|_| all)).collect()
}

/// Returns the files of the environment, if a command uses them. For the main page, returns all files.
fn files(command: &Command, all: bool) -> Vec<(String, String)> {
    let state = reference::state_files().into_iter().filter(|_| all || has(command, "state"));
    let vars_store = Some(reference::vars_store()).filter(|_| all || has(command, "vars-store"));
    let env_file = Some(reference::env_file()).filter(|_| all || has(command, "env-file"));
    let directories = reference::directories().into_iter().filter(|_| all);
    let files = state.chain(vars_store).chain(env_file).chain(directories);
    files.map(|(path, content)| (path, content.to_owned())).collect()
}
