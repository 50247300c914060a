//! Help texts beyond those of single arguments: the groups of commands, and examples of each. [`layout`]
//! arranges them, and [`pager`] shows those of `monopile help`, to which [`topics`] adds pages of the book.
//! [`search`] finds other words in both.

mod inline;
mod layout;
mod markdown;
mod pager;
mod search;
mod text_table;
mod topics;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write as _;

use clap::builder::styling::Styles;
use clap::builder::{CommandExt, StyledStr};
use clap::error::ErrorKind;
use clap::{Arg, Args as _, Command, Id};

use super::baremetal;
use super::bosh_only_commands;
use super::env_file;
use super::exit_codes::{self, ExitCodeMeaning};
use super::globals::{self, Globals};
use super::grammar;
use super::scope;
use super::suggestions;
use crate::ui;
use base::exit_code;

use layout::HEADINGS;
pub(super) use layout::columns;
pub use layout::{GLOBAL_HEADING, sections};
use markdown::Section;
pub(super) use pager::{is_styled, show_page};
pub(super) use search::{commands_named, search};
pub use topics::{TOPICS, Topic};

/// The commands in the order and groups of `--help`.
pub const COMMAND_GROUPS: [(&str, &[&str]); 8] = [
    ("Everyday", &["create-env", "plan", "status", "logs", "delete-env"]),
    ("Jobs and VM", &["stop-env", "start-env", "restart", "recreate", "ssh", "scp"]),
    ("Records and repair", &["history", "state", "cloud-check", "delete-vm"]),
    (
        "Disks and stemcells",
        &[
            "attach-disk",
            "delete-disk",
            "take-snapshot",
            "delete-snapshot",
            "upload-stemcell",
            "delete-stemcell",
            "disks",
            "snapshots",
            "stemcells",
        ],
    ),
    ("Manifests", &["interpolate", "vars", "render", "render-template"]),
    (
        "Artifacts",
        &[
            "inspect-local-release",
            "inspect-local-stemcell",
            "repack-stemcell",
            "sha1ify-release",
            "sha2ify-release",
            "cache",
        ],
    ),
    ("CPI and bare metal", &["cpi", "baremetal"]),
    (SETUP_GROUP, &["example", "trust", "completion", "version"]),
];

/// The group that also lists `help`.
const SETUP_GROUP: &str = "Setup";

/// The column in which descriptions of commands begin.
const INDENT_COLUMNS: usize = 26;

/// Examples of each command and of each group of commands, without the name of the program. Those of
/// `baremetal` are in its table.
const COMMAND_EXAMPLES: [(&str, &[&str]); 57] = [
    (
        "create-env",
        &[
            "create-env bosh.yml --vars-store creds.yml",
            "create-env bosh.yml -o cpi.yml -v internal_ip=10.0.0.6 --vars-store creds.yml",
            "create-env bosh.yml --vars-store creds.yml --vars-exec 'sops decrypt secrets.yml'",
            "create-env bosh.yml --vars-store creds.yml --recreate",
        ],
    ),
    (
        "plan",
        &["plan bosh.yml --vars-store creds.yml", "plan bosh.yml --vars-store creds.yml --out bosh.plan"],
    ),
    (
        "delete-env",
        &["delete-env bosh.yml --vars-store creds.yml", "delete-env bosh.yml --vars-store creds.yml -n"],
    ),
    (
        "stop-env",
        &[
            "stop-env bosh.yml --vars-store creds.yml",
            "stop-env bosh.yml --vars-store creds.yml --skip-drain",
        ],
    ),
    ("start-env", &["start-env bosh.yml --vars-store creds.yml"]),
    ("restart", &["restart bosh.yml --vars-store creds.yml"]),
    (
        "recreate",
        &[
            "recreate bosh.yml --vars-store creds.yml",
            "recreate bosh.yml --vars-store creds.yml --snapshot=7d",
        ],
    ),
    (
        "status",
        &[
            "status bosh.yml --vars-store creds.yml",
            "status bosh.yml --vars-store creds.yml --watch",
            "status bosh-state.json",
            "status --all . --no-cpi",
        ],
    ),
    ("history", &["history", "history bosh.yml --steps --limit 1"]),
    (
        "logs",
        &[
            "logs bosh.yml --vars-store creds.yml --job director --follow",
            "logs bosh.yml --vars-store creds.yml --all-logs --dir .",
            "logs bosh.yml --vars-store creds.yml --console",
        ],
    ),
    (
        "ssh",
        &[
            "ssh bosh.yml --vars-store creds.yml",
            "ssh bosh.yml --vars-store creds.yml -c 'sudo monit summary'",
        ],
    ),
    (
        "scp",
        &[
            "scp bosh.yml :/var/vcap/sys/log/syslog . --vars-store creds.yml",
            "scp bosh.yml -r ./fixes :/tmp --vars-store creds.yml",
        ],
    ),
    (
        "cloud-check",
        &[
            "cloud-check bosh.yml --vars-store creds.yml --report",
            "cloud-check bosh.yml --vars-store creds.yml",
        ],
    ),
    (
        "interpolate",
        &[
            "interpolate bosh.yml -o cpi.yml -v director_name=prod --path /name",
            "interpolate bosh.yml --vars-store creds.yml --var-errs --path /name",
            "interpolate bosh.yml --vars-exec 'pass show bosh/prod' --path /name",
        ],
    ),
    ("vars", &["vars list creds.yml", "vars get creds.yml /admin_password"]),
    ("vars get", &["vars get creds.yml /mbus_bootstrap_ssl/ca"]),
    ("vars list", &["vars list creds.yml"]),
    ("vars check", &["vars check creds.yml -m bosh.yml --within 60d"]),
    (
        "vars rotate",
        &["vars rotate creds.yml admin_password -m bosh.yml", "vars rotate creds.yml default_ca --finish"],
    ),
    ("render", &["render bosh.yml --vars-store creds.yml --job director"]),
    (
        "render-template",
        &[
            "render-template ctl.erb --context context.json",
            "render-template ctl.erb --context context.json --renderer native",
        ],
    ),
    ("trust", &["trust", "trust .monopile.yml --revoke"]),
    ("inspect-local-release", &["inspect-local-release release.tgz"]),
    ("inspect-local-stemcell", &["inspect-local-stemcell stemcell.tgz"]),
    ("repack-stemcell", &["repack-stemcell stemcell.tgz new.tgz --version 1.1"]),
    ("sha1ify-release", &["sha1ify-release release.tgz release-sha1.tgz"]),
    ("sha2ify-release", &["sha2ify-release release.tgz release-sha2.tgz"]),
    ("state", &["state show bosh.yml", "state backup bosh.yml"]),
    ("state show", &["state show bosh.yml", "state show bosh.yml --only disks"]),
    (
        "state import",
        &["state import bosh.yml --vars-store creds.yml --vm i-0a1b2c --disk vol-0d1e2f \
          --stemcell ami-0c2f=bosh-aws-xen-hvm-ubuntu-jammy-go_agent/1.719"],
    ),
    (
        "state backup",
        &["state backup bosh.yml", "state backup bosh.yml --keep", "state backup bosh.yml --restore bak"],
    ),
    ("state forget", &["state forget bosh.yml --disk vol-0d1e2f", "state forget bosh.yml --failed-calls"]),
    ("upload-stemcell", &["upload-stemcell bosh.yml stemcell.tgz --vars-store creds.yml"]),
    ("delete-stemcell", &["delete-stemcell bosh.yml ami-0a1b2c --vars-store creds.yml"]),
    ("delete-vm", &["delete-vm bosh.yml i-0a1b2c --vars-store creds.yml"]),
    ("attach-disk", &["attach-disk bosh.yml vol-0d1e2f --vars-store creds.yml"]),
    ("delete-disk", &["delete-disk bosh.yml vol-0d1e2f --vars-store creds.yml"]),
    ("take-snapshot", &["take-snapshot bosh.yml --vars-store creds.yml"]),
    ("delete-snapshot", &["delete-snapshot bosh.yml snap-0a1b2c --vars-store creds.yml"]),
    ("disks", &["disks bosh.yml"]),
    ("snapshots", &["snapshots bosh.yml"]),
    ("stemcells", &["stemcells bosh.yml"]),
    ("cpi", &["cpi info bosh.yml", "cpi check --path ./cpi --stemcell stemcell.tgz"]),
    ("cpi list", &["cpi list bosh.yml --cpi-config cpis.yml"]),
    ("cpi info", &["cpi info bosh.yml", "cpi info --path ./cpi"]),
    ("cpi call", &["cpi call bosh.yml has_vm i-0a1b2c"]),
    ("cpi check", &["cpi check --path ./cpi --stemcell stemcell.tgz"]),
    ("cpi replay", &["cpi replay calls.jsonl"]),
    ("cache", &["cache list", "cache prune --unused 14d"]),
    ("cache list", &["cache list", "cache list --shared --cache s3://our-cache/monopile"]),
    ("cache prune", &["cache prune --unused 14d", "cache prune --all"]),
    ("cache verify", &["cache verify"]),
    (
        "cache export",
        &["cache export bosh.yml bundle.tgz", "cache export bosh.yml bundle.tgz --cache-sign ci-key"],
    ),
    ("cache import", &["cache import bundle.tgz", "cache import bundle.tgz --cache-trust ci-key.pub"]),
    ("example", &["example", "example hello", "example hello ~/work"]),
    ("completion", &["completion bash"]),
    ("version", &["version", "version --check=https://example.org/latest.json"]),
];

/// The help of arguments that several commands share, where it differs: command, id of the argument, text.
const OWN_TEXTS: [(&str, &str, &str); 12] = [
    ("attach-disk", "cpi", DISK_OF_CPI_HELP),
    ("take-snapshot", "cpi", DISK_OF_CPI_HELP),
    ("delete-vm", "cid", "CID of the VM"),
    ("delete-vm", "cpi", "Delete the VM of this CPI, if several have the same CID; '' is the default CPI"),
    ("delete-disk", "cid", "CID of the disk"),
    (
        "delete-disk",
        "cpi",
        "Delete the disk of this CPI, if several have the same CID; '' is the default CPI",
    ),
    ("delete-snapshot", "cid", "CID of the snapshot"),
    (
        "delete-snapshot",
        "cpi",
        "Delete the snapshot of this CPI, if several have the same CID; '' is the default CPI",
    ),
    ("interpolate", "vars_store", INTERPOLATED_VARS_STORE_HELP),
    ("status", "cpi_timeout", READING_CPI_TIMEOUT_HELP),
    ("cpi list", "cpi_timeout", READING_CPI_TIMEOUT_HELP),
    ("cpis", "cpi_timeout", READING_CPI_TIMEOUT_HELP),
];

/// The help of `--cpi` for commands that use a disk.
const DISK_OF_CPI_HELP: &str =
    "Use the disk of this CPI, if several have the same CID; '' is the default CPI";

/// The help of `--cpi-timeout` for commands whose calls change nothing: no later run waits for such a call.
const READING_CPI_TIMEOUT_HELP: &str = "Stop waiting for a CPI call after this time [default: no limit]";

/// The help of `--vars-store` for commands that generate no variables.
const READ_VARS_STORE_HELP: &str = "\
Load variables from this vars store

Pass the file that create-env keeps: it holds the credentials of the environment. This command does not \
change it. Without this option, bosh-vars.yml is used, next to the state of bosh.yml.";

/// The help of `--vars-store` for interpolate, which has no default vars store.
const INTERPOLATED_VARS_STORE_HELP: &str = "\
Load variables from a YAML file, and save generated ones there

Generates the variables that the manifest declares and that have no value yet, as create-env does. Without \
this option, interpolate reads no vars store and generates nothing: to see what create-env deploys without \
the option, pass bosh-vars.yml, next to the state of bosh.yml.";

/// The commands that generate variables.
const GENERATING_COMMANDS: [&str; 3] = ["cpi check", "create-env", "interpolate"];

/// Returns the template of `monopile --help`, with the commands of `grammar` in groups.
pub(super) fn template(grammar: &Command) -> String {
    template_of(grammar, &COMMAND_GROUPS)
}

/// Replaces the help of the program by one that fits a screen, for a command line without words.
pub(super) fn with_first_screen(grammar: Command) -> Command {
    const MAIN_GROUPS: usize = 3;
    let template = template_of(&grammar, &COMMAND_GROUPS[..MAIN_GROUPS]);
    grammar.help_template(template).after_help(format!("{}\n\n{ALL_COMMANDS_NOTE}", first_steps()))
}

/// Returns the template of the program's help, with these groups of commands.
fn template_of(grammar: &Command, groups: &[(&str, &[&str])]) -> String {
    let heading = *Styles::styled().get_header();
    let name = *Styles::styled().get_literal();
    let mut text = String::from("{before-help}{about-with-newline}\n{usage-heading} {usage}\n");
    let line = |text: &mut String, command: &str, description: &str| {
        let blanks = " ".repeat(INDENT_COLUMNS.saturating_sub(2 + command.len()));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name}{command}{name:#}{blanks}{description}");
    };
    for (title, names) in groups {
        let _ = writeln!(text, "\n{heading}{title}:{heading:#}");
        for command in names.iter().filter_map(|name| grammar.find_subcommand(name)) {
            let description = command.get_about().map(ToString::to_string).unwrap_or_default();
            let aliases: Vec<&str> = command.get_visible_aliases().collect();
            line(&mut text, command.get_name(), &description_with_aliases(&description, &aliases));
        }
        if *title == SETUP_GROUP {
            line(&mut text, HELP_COMMAND.0, HELP_COMMAND.1);
        }
    }
    text.truncate(text.trim_end().len());
    text.push_str("{after-help}");
    text
}

/// The command `help`, which is no command of the grammar, with its description.
pub const HELP_COMMAND: (&str, &str) = ("help", "Print the help of a command, or a page of the book");

/// The usage of the command `help`.
pub const HELP_USAGE: &str = "monopile help [COMMAND | PAGE [SECTION]]";

/// The explanation of the words of [`HELP_USAGE`].
pub const HELP_DETAILS: &str = "\
Without a word, lists commands, pages, options and exit codes. SECTION is the
anchor of a section of the page, words of its heading, or an error message of
the page `troubleshooting`. An article at the beginning does not matter; upper
and lower case are the same. For other words, names the commands, pages and
sections that have them.";

/// Examples of the command `help`.
pub const HELP_EXAMPLES: [&str; 3] =
    ["monopile help create-env", "monopile help tour", "monopile help troubleshooting the lock is held"];

/// The exit codes of the command `help`.
pub const HELP_EXIT_CODES: [ExitCodeMeaning; 2] =
    [("0", "success"), ("2", "there is no such command, page or section")];

/// Adds the aliases of a command to its description.
fn description_with_aliases(description: &str, aliases: &[&str]) -> String {
    match aliases {
        [] => description.to_owned(),
        [alias] => format!("{description} [alias: {alias}]"),
        aliases => format!("{description} [aliases: {}]", aliases.join(", ")),
    }
}

/// Returns the part of `monopile -h` after the commands.
pub(super) fn short_overview(grammar: &Command) -> String {
    let exit_codes = exit_code_words(&exit_code::CODES);
    let options = layout::short_options(grammar);
    format!("{options}\n\n{}\n\n{exit_codes}\n\n{DOCUMENTATION_NOTE}", first_steps())
}

/// The first commands to try.
pub const FIRST_STEPS: [&str; 6] = [
    "monopile example hello",
    "monopile plan hello/manifest.yml",
    "monopile create-env hello/manifest.yml",
    "curl http://127.0.10.2:8580/",
    "monopile status hello/manifest.yml",
    "monopile delete-env hello/manifest.yml    # deletes VM, disk and state",
];

/// Returns the first commands to try, below a heading.
fn first_steps() -> String {
    section("Get started", &FIRST_STEPS.map(str::to_owned))
}

/// Returns the part of `monopile --help` after the commands.
pub(super) fn overview(grammar: &Command) -> String {
    let options = layout::long_options(grammar);
    let exit_codes = exit_codes(&exit_code::CODES);
    let (steps, pages) = (first_steps(), page_list("Pages of the book, with `monopile help PAGE`"));
    format!(
        "{options}\n\n{exit_codes}\n\n{steps}\n\n{COMMAND_HELP_NOTE}\n\n{pages}\n\n{DURATIONS_NOTE}\n\n\
         {MAN_PAGES_NOTE}"
    )
}

/// Lists the pages of the book.
fn page_list(title: &str) -> String {
    let blanks = |name: &str| " ".repeat(INDENT_COLUMNS.saturating_sub(2 + name.len()));
    let row = |topic: &Topic| format!("{}{}{}", topic.name, blanks(topic.name), topic.subject);
    section(title, &TOPICS.iter().map(row).collect::<Vec<_>>())
}

/// The last lines of the help of the program.
const MAN_PAGES_NOTE: &str = "\
`monopile help reference` lists environment variables and files.
Man pages, once installed (`monopile help install`): `man monopile`, …";

/// The sentence that leads to the help of a command.
const COMMAND_HELP_NOTE: &str = "`monopile help COMMAND` explains a command.";

/// Returns the help of `monopile help`.
fn help_of_help() -> String {
    let (description, usage, pages) = (HELP_COMMAND.1, section("Usage", &[]), page_list("Pages"));
    let exit_codes = exit_codes(&HELP_EXIT_CODES);
    let examples = section("Examples", &HELP_EXAMPLES.map(str::to_owned));
    format!(
        "{description}\n\n{usage} {HELP_USAGE}\n\n{HELP_DETAILS}\n\n{pages}\n\n{exit_codes}\n\n{examples}\n"
    )
}

/// Returns the text that `monopile help …` prints, if the words name a page, or the command `help` itself.
/// Returns an error for a word that names neither a command nor a page.
pub(super) fn help_page(words: &[OsString], grammar: fn() -> Command) -> Option<Result<String, clap::Error>> {
    let [_, help, word, ..] = words else { return None };
    let word = word.to_str().filter(|_| help == HELP_COMMAND.0)?;
    let is_styled = pager::is_styled();
    if [HELP_COMMAND.0, "-h", "--help"].contains(&word) {
        let text = StyledStr::from(help_of_help());
        return Some(Ok(if is_styled { text.ansi().to_string() } else { text.to_string() }));
    }
    let grammar = grammar();
    if grammar.find_subcommand(word).is_some() {
        let further_words = &words[3..];
        if further_words.is_empty() {
            return None;
        }
        let full_grammar = grammar::for_all_commands();
        let surplus = surplus_words(full_grammar.find_subcommand(word)?, further_words);
        return surplus.map(|words| Err(no_page_error(&words)));
    }
    if word.starts_with('-') {
        return None;
    }
    let section_words: Vec<Cow<'_, str>> =
        words[3..].iter().map(|word| word.to_string_lossy()).filter(|word| !word.starts_with('-')).collect();
    let Some(topic) = topics::find_topic(word) else {
        let words = format!("{word} {}", section_words.join(" "));
        return Some(Err(no_page_error(words.trim_end())));
    };
    if section_words.is_empty() {
        return Some(Ok(topic.render(layout::columns(), is_styled)));
    }
    let (words, sections) = (section_words.join(" "), topic.sections());
    let named_sections = topic.named_sections(&sections, &words);
    Some(match named_sections.as_slice() {
        [section] => Ok(section.render(layout::columns(), is_styled)),
        _ => Err(no_section_error(topic, &words, &sections, &named_sections)),
    })
}

/// Returns the error for `monopile help PAGE` with words that name no section, or several.
fn no_section_error(
    topic: &Topic,
    words: &str,
    sections: &[Section],
    named_sections: &[&Section],
) -> clap::Error {
    let page = topic.name;
    let list = |sections: &mut dyn Iterator<Item = &Section>| -> String {
        let anchors: Vec<&str> = sections.map(|section| section.anchor.as_str()).collect();
        ui::fit(&anchors.join(", "), layout::columns().saturating_sub(4)).join("\n    ")
    };
    let (problem, list_title, list) = match named_sections {
        [] => ("no section", "its sections", list(&mut sections.iter())),
        _ => ("several sections for", "they are", list(&mut named_sections.iter().copied())),
    };
    let mut hints = vec![format!("to print one of them: `monopile help {page} SECTION`")];
    if named_sections.is_empty() {
        match topics::similar_section(sections, words) {
            Some(section) => hints = vec![format!("did you mean `monopile help {page} {}`?", section.anchor)],
            None => hints.extend(search_hints(words, &grammar::for_all_commands())),
        }
    }
    let text = format!("page '{page}' has {problem} '{words}'\n  note: {list_title}:\n    {list}\n");
    clap::Error::raw(ErrorKind::InvalidSubcommand, text + &hint_lines(&hints))
}

/// Returns the name of the last command and all words after it, such as `status x`, if these are no help of a
/// command. A single word after a group of commands is an error of the command line.
fn surplus_words(command: &Command, further: &[OsString]) -> Option<String> {
    let mut command = command;
    for (index, word) in further.iter().enumerate() {
        let name = word.to_str().filter(|word| !word.starts_with('-'))?;
        let words: Vec<_> = further[index..].iter().map(|word| word.to_string_lossy()).collect();
        match command.find_subcommand(name) {
            Some(subcommand) => command = subcommand,
            None if command.has_subcommands() && words.len() == 1 => return None,
            None => return Some(format!("{} {}", command.get_name(), words.join(" "))),
        }
    }
    None
}

/// The pages of the book that only developers need.
pub(super) const DEVELOPER_PAGES: [&str; 6] =
    ["architecture", "recipes", "journal", "glossary", "releases", "conformance"];

/// Returns the error for `monopile help` with words that name neither a command nor a page.
fn no_page_error(words: &str) -> clap::Error {
    let first_word = words.split(' ').next().unwrap_or(words);
    if DEVELOPER_PAGES.contains(&first_word) {
        let text = format!(
            "'{first_word}' is a page for developers, in the repository only: docs/{first_word}.md\n"
        );
        return clap::Error::raw(ErrorKind::InvalidSubcommand, text);
    }
    let grammar = grammar::for_all_commands();
    let search_hints = search_hints(words, &grammar);
    let (text, hints) = match bosh_only_commands::explanation(words, None) {
        Some(explanation) => (explanation, search_hints),
        None => {
            let pages = TOPICS.iter().map(|topic| topic.name);
            let commands = grammar.get_subcommands().filter(|command| !command.is_hide_set());
            let names: Vec<&str> = pages.chain(commands.map(Command::get_name)).collect();
            let name_hint = |name: &str| vec![format!("did you mean `monopile help {name}`?")];
            let lists = ["to list the commands: `monopile help`", "to list the pages: `monopile help help`"];
            let hints = suggestions::known_name(words, &names)
                .or_else(|| suggestions::misspelt_name(words, &names))
                .map(name_hint)
                .or_else(|| Some(search_hints).filter(|hints| !hints.is_empty()))
                .or_else(|| suggestions::similar_name(words, &names).map(name_hint))
                .or_else(|| suggestions::meant_name(first_word, &names).map(name_hint))
                .unwrap_or_else(|| lists.map(str::to_owned).to_vec());
            (format!("there is no command or page '{words}'\n"), hints)
        }
    };
    clap::Error::raw(ErrorKind::InvalidSubcommand, text + &hint_lines(&hints))
}

/// Returns the hints that name commands, pages and sections with these words.
fn search_hints(words: &str, grammar: &Command) -> Vec<String> {
    search(words, grammar).iter().map(|command| format!("read `{command}`")).collect()
}

/// Formats hints as the last lines of an error.
fn hint_lines(hints: &[String]) -> String {
    hints.iter().map(|hint| format!("  hint: {hint}\n")).collect()
}

/// Adds the command `help` to a grammar, for completion of these words. Below it are the names of all
/// commands and pages, and below a page that the words name those of its sections.
pub(super) fn with_help_command(grammar: Command, words: &[OsString]) -> Command {
    fn name_only(command: &Command) -> Command {
        let subcommands =
            command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).map(name_only);
        let description = command.get_about().cloned().unwrap_or_default();
        Command::new(command.get_name().to_owned()).about(description).subcommands(subcommands)
    }
    let commands = grammar.get_subcommands().filter(|command| !command.is_hide_set()).map(name_only);
    let page = |topic: &Topic| {
        let is_named = words.iter().any(|word| word == topic.name);
        let sections = if is_named { topic.sections() } else { Vec::new() };
        let sections = sections.into_iter().map(|section| Command::new(section.anchor).about(section.title));
        Command::new(topic.name).about(topic.subject).subcommands(sections).disable_help_subcommand(true)
    };
    let pages = TOPICS.iter().map(page);
    let help = Command::new(HELP_COMMAND.0).about(HELP_COMMAND.1).subcommands(commands.chain(pages));
    let help = help.disable_help_subcommand(true);
    grammar.subcommand(help)
}

/// The last paragraph of `monopile -h`.
const DOCUMENTATION_NOTE: &str = "\
`monopile help COMMAND` explains a command, `monopile help PAGE` prints a page
of the book (tour, concepts, troubleshooting, …). `monopile help` lists all
pages and options, and explains the exit codes.";

/// The last paragraph of `monopile` alone.
const ALL_COMMANDS_NOTE: &str = "\
`monopile -h` lists all commands, and `monopile help` pages of the book, options
and exit codes as well. `monopile help COMMAND` explains a command.";

/// The units of durations, for the help of commands that take one.
pub const DURATIONS_NOTE: &str = "\
A DURATION or AGE is a number with a unit: ms, s, m, h, d or w, such as 90s, 1h30m or 7d. A DURATION \
without a unit is in seconds.";

/// Returns true if a command takes a duration or an age.
pub fn takes_duration(command: &Command) -> bool {
    command.get_arguments().any(|arg| !arg.is_hide_set() && is_duration(arg))
}

/// Returns true for the argument of a duration or an age.
pub(super) fn is_duration(arg: &Arg) -> bool {
    let is_name = |name: &clap::builder::Str| ["DURATION", "AGE"].contains(&name.as_str());
    arg.get_value_names().unwrap_or_default().iter().any(is_name)
}

/// The end of the help that `-h` prints for a command.
const LONG_HELP_NOTE: &str = "`--help` adds details, rare options and global options.";

/// Formats indented lines below a heading.
fn section(title: &str, lines: &[String]) -> String {
    let heading = *Styles::styled().get_header();
    let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
    format!("{heading}{title}:{heading:#}{lines}")
}

/// The text after the options of a command. The man pages have a section for each part.
#[derive(Debug, Clone)]
pub struct HelpNotes {
    /// Sentences that belong to no option.
    pub remarks: Option<String>,
    /// A sentence that names the options of the command that have no effect on it.
    pub without_effect: Option<String>,
    /// The exit codes that the command can end with.
    pub exit_codes: Vec<ExitCodeMeaning>,
    /// Command lines, without the name of the program.
    examples: Vec<&'static str>,
    /// The words before the commands of a group, such as `monopile state`. None for a single command.
    group: Option<String>,
}

impl CommandExt for HelpNotes {}

impl HelpNotes {
    /// Returns the text for `-h`: remarks, examples, and a word for each exit code.
    fn short(&self) -> String {
        let long_help_note = (!self.exit_codes.is_empty()).then(|| LONG_HELP_NOTE.to_owned());
        let exit_codes = (!self.exit_codes.is_empty()).then(|| exit_code_words(&self.exit_codes));
        let parts =
            [self.remarks.clone(), self.shown_examples(), self.explanations(), exit_codes, long_help_note];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the text for `--help`.
    fn long(&self, takes_duration: bool) -> String {
        let durations = takes_duration.then(|| DURATIONS_NOTE.to_owned());
        let exit_codes = (!self.exit_codes.is_empty()).then(|| exit_codes(&self.exit_codes));
        let without_effect = self.without_effect.clone();
        let remarks = self.remarks.clone();
        let parts =
            [without_effect, remarks, durations, exit_codes, self.shown_examples(), self.explanations()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the sentence of a group that leads to its commands.
    fn explanations(&self) -> Option<String> {
        let path = self.group.as_deref()?.strip_prefix("monopile ")?;
        Some(format!("`monopile help {path} COMMAND` explains a command."))
    }

    /// Returns the example command lines. A long one continues on further lines.
    pub fn examples(&self) -> Vec<String> {
        self.examples.iter().map(|line| fold_line(&format!("monopile {line}"))).collect()
    }

    fn shown_examples(&self) -> Option<String> {
        let lines: Vec<String> = self.examples().iter().map(|line| line.replace('\n', "\n  ")).collect();
        let title = if lines.len() == 1 { "Example" } else { "Examples" };
        (!lines.is_empty()).then(|| section(title, &lines))
    }
}

/// Breaks a long command line before its options, so that it fits and can still be pasted.
fn fold_line(line: &str) -> String {
    const TEXT_COLUMNS: usize = 76;
    let mut parts = line.split(" -");
    let mut folded_line = parts.next().unwrap_or_default().to_owned();
    let mut width = folded_line.len();
    for part in parts {
        if width + 2 + part.len() > TEXT_COLUMNS {
            folded_line.push_str(" \\\n   ");
            width = 3;
        }
        folded_line.push_str(" -");
        folded_line.push_str(part);
        width += 2 + part.len();
    }
    folded_line
}

/// Lists exit codes in one sentence, each with a word.
fn exit_code_words(codes: &[ExitCodeMeaning]) -> String {
    let heading = *Styles::styled().get_header();
    let item = |(code, meaning): &ExitCodeMeaning| {
        format!("{code} {}", exit_codes::summary(code, meaning)).replace(' ', "\u{a0}")
    };
    let words: Vec<String> = codes.iter().map(item).collect();
    let lines = ui::fit(&words.join("; "), layout::columns().saturating_sub("Exit codes: ".len()));
    format!("{heading}Exit codes:{heading:#} {}", lines.join("\n            "))
}

/// Lists exit codes in lines. A long meaning continues below its beginning.
fn exit_codes(codes: &[(&str, &str)]) -> String {
    let columns = layout::columns().saturating_sub(4);
    let width = codes.iter().map(|(code, _)| code.len()).max().unwrap_or_default();
    let gap = format!("\n{:1$}", "", width + 4);
    let fit_meaning = |meaning: &str| ui::fit(meaning, columns.saturating_sub(width)).join(&gap);
    let lines: Vec<String> =
        codes.iter().map(|(code, meaning)| format!("{code:width$}  {}", fit_meaning(meaning))).collect();
    section("Exit codes", &lines)
}

/// Returns the examples of a command, or of a group of commands.
fn examples(path: &str) -> Vec<&'static str> {
    match path.split_once(' ').unwrap_or((path, "")) {
        ("baremetal", path) => baremetal::examples(path),
        _ => COMMAND_EXAMPLES
            .iter()
            .find(|(name, _)| *name == path)
            .map_or(Vec::new(), |(_, lines)| lines.to_vec()),
    }
}

/// The help of a command. [`layout`] makes the part after the usage, because that of clap has another layout
/// for each section.
const HELP_TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}";

/// Tells for a command whether its help may be printed.
pub(super) type IsAsked<'a> = &'a dyn Fn(&Command) -> bool;

/// Adds notes to the help of the command at `path` and of those below it. Leaves out the texts of commands
/// whose help is not asked for.
pub(super) fn with_notes(command: Command, path: &str, is_asked: IsAsked<'_>) -> Command {
    let globals = Globals::augment_args(Command::default());
    let globals: Vec<Arg> = globals.get_arguments().cloned().collect();
    match path {
        "baremetal" => with_notes_below(with_connection_at_leaves(command), path, &globals, is_asked),
        _ => with_notes_below(command, path, &globals, is_asked),
    }
}

/// Does the work of [`with_notes`], with the global options.
fn with_notes_below(command: Command, path: &str, globals: &[Arg], is_asked: IsAsked<'_>) -> Command {
    let command = with_sources(with_headings(command, path));
    let own_options: Vec<Id> = command.get_arguments().map(|arg| arg.get_id().clone()).collect();
    let (command, without_effect) = hide_options_without_effect(command.args(globals), path, &own_options);
    let can_ask = scope::has_effect("non_interactive", &command, path);
    let command = match scope::takes_bosh_json(path) {
        true => command,
        // `mut_arg` would move it behind the other options.
        false => command.mut_args(|arg| match arg.get_id() == "json" {
            true => globals::without_bosh_form(arg, can_ask),
            false => arg,
        }),
    };
    let notes = HelpNotes {
        remarks: command.get_after_help().map(ToString::to_string),
        without_effect,
        exit_codes: exit_codes::exit_codes(&command, path),
        examples: examples(path),
        group: command.has_subcommands().then(|| format!("monopile {path}")),
    };
    let command = command.mut_subcommands(|command| {
        let path = format!("{path} {}", command.get_name());
        with_notes_below(command, &path, globals, is_asked)
    });
    if !is_asked(&command) {
        return command;
    }
    let help_command = match command.has_subcommands() {
        true => command.clone(),
        false => env_file::with_optional_positionals(command.clone()),
    };
    let text = |options: String, notes: String| format!("{options}\n\n{notes}");
    let short = text(layout::short_help(&help_command), notes.short());
    let long = text(layout::long_help(&help_command), notes.long(takes_duration(&command)));
    command.help_template(HELP_TEMPLATE).after_help(short).after_long_help(long).add(notes)
}

/// Returns true if a command line may ask for the help of a command: by an option, also among several short
/// ones in a word, or by the name of a group without a command.
pub(super) fn is_asked(words: &[OsString], command: &Command) -> bool {
    let has_option = words.iter().filter_map(|word| word.to_str()).any(|word| {
        let is_short = word.starts_with('-') && !word.starts_with("--");
        word == "--help" || is_short && word.contains('h')
    });
    has_option || command.has_subcommands() && words.last().is_some_and(|word| word == command.get_name())
}

/// Returns the command that a command line names, such as `monopile state show`, and its grammar.
pub(super) fn named_command<'g>(grammar: &'g Command, words: &[OsString]) -> (String, &'g Command) {
    let (mut name, mut command) = (grammar.get_name().to_owned(), grammar);
    let mut follows_option = false;
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        let is_option = word.starts_with('-');
        let is_in_group = command.get_name() != grammar.get_name() && command.has_subcommands();
        match command.find_subcommand(word) {
            Some(subcommand) => {
                name = format!("{name} {}", subcommand.get_name());
                command = subcommand;
            }
            // The word stands in place of a command.
            None if is_in_group && !is_option && !follows_option => break,
            None => {}
        }
        follows_option = is_option;
    }
    (name, command)
}

/// Hides the options that have no effect on the command. Returns the sentence that names those of
/// `own_options`.
fn hide_options_without_effect(
    command: Command,
    path: &str,
    own_options: &[Id],
) -> (Command, Option<String>) {
    let is_shown_in_vain =
        |arg: &&Arg| !arg.is_hide_set() && !scope::has_effect(arg.get_id().as_str(), &command, path);
    let hidden_args: Vec<Arg> = command.get_arguments().filter(is_shown_in_vain).cloned().collect();
    let is_own = |arg: &&Arg| own_options.contains(arg.get_id());
    let options = hidden_args.iter().filter(is_own).filter_map(|arg| arg.get_long());
    let options: Vec<String> = options.map(|option| format!("--{option}")).collect();
    let sentence = (!options.is_empty()).then(|| {
        let reason = match command.get_arguments().any(|arg| arg.get_id() == "vars_store") {
            true => ", so that the options of create-env work here",
            false => "",
        };
        format!("Accepted without effect{reason}: {}.", options.join(", "))
    });
    let command = hidden_args
        .iter()
        .fold(command, |command, hidden_arg| command.mut_arg(hidden_arg.get_id(), |arg| arg.hide(true)));
    (command, sentence)
}

/// Describes the other sources of the manifest or the vars store of a command: standard input and an env
/// file.
fn with_sources(command: Command) -> Command {
    let has_state = command.get_arguments().any(|arg| arg.get_id() == "state");
    let stdin = match has_state {
        true => "`-` reads the manifest from standard input; then pass --state.",
        false => "`-` reads the manifest from standard input.",
    };
    let can_supply = env_file::can_supply(&command);
    command.mut_args(|arg| {
        if !env_file::REQUIRED_ARGS.contains(&arg.get_id().as_str()) || !arg.is_required_set() {
            return arg;
        }
        let long_help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        let (first_paragraph, details) = long_help.split_once("\n\n").unwrap_or((&long_help, ""));
        let first_paragraph = match can_supply {
            true => format!("{first_paragraph} [default: from the env file]"),
            false => format!("{first_paragraph}, required even with an env file"),
        };
        let stdin = (arg.get_id() == "manifest").then_some(stdin);
        let follow_note = "An env file cannot supply it, because another argument follows.";
        let details = [Some(details), stdin, (!can_supply).then_some(follow_note)];
        let details: Vec<&str> = details.into_iter().flatten().filter(|text| !text.is_empty()).collect();
        let long_help = match details.is_empty() {
            true => first_paragraph.clone(),
            false => format!("{first_paragraph}\n\n{}", details.join(" ")),
        };
        arg.help(first_paragraph).long_help(long_help)
    })
}

/// Shows the options for the connection to Ironic with each command, but not with groups of commands.
fn with_connection_at_leaves(command: Command) -> Command {
    fn add(command: Command, options: &[Arg]) -> Command {
        match command.has_subcommands() {
            true => command.mut_subcommands(|subcommand| add(subcommand, options)),
            false => command.args(options),
        }
    }
    let options: Vec<Arg> = command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    add(command, &options).mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg })
}

/// Groups options, and names the kind of resource that a command is about: several commands share their
/// arguments.
fn with_headings(command: Command, path: &str) -> Command {
    // clap's attribute for the heading of a flattened group would also apply to the arguments after the
    // group.
    let command = command.mut_args(|arg| {
        let heading = HEADINGS.iter().find(|(_, ids)| ids.contains(&arg.get_id().as_str()));
        match heading {
            Some((heading, _)) if !arg.is_positional() => arg.help_heading(*heading),
            _ => arg,
        }
    });
    let command =
        command.mut_args(|arg| match arg.get_id() == "vars_store" && !GENERATING_COMMANDS.contains(&path) {
            true => arg
                .help(READ_VARS_STORE_HELP.lines().next().unwrap_or_default())
                .long_help(READ_VARS_STORE_HELP),
            false => arg,
        });
    command.mut_args(|arg| {
        let is_own = |(name, id, _): &&(&str, &str, &str)| *name == path && arg.get_id() == id;
        match OWN_TEXTS.iter().find(is_own) {
            Some((.., text)) => arg.help(text.lines().next().unwrap_or_default()).long_help(*text),
            None => arg,
        }
    })
}

/// Replaces `monopile help COMMAND` with `monopile COMMAND --help`. Returns true if it did.
pub(super) fn expand_help_command(mut words: Vec<OsString>) -> (Vec<OsString>, bool) {
    let is_help = words.get(1).is_some_and(|word| word == HELP_COMMAND.0);
    if is_help {
        words.remove(1);
        // `help help` is about the whole program.
        words.retain(|word| word != HELP_COMMAND.0);
        words.push("--help".into());
    }
    (words, is_help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, globals, grammar};
    use clap::CommandFactory as _;
    use std::collections::{BTreeMap, BTreeSet};

    fn commands(command: &Command, path: &str, paths: &mut Vec<String>) {
        for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            let path = format!("{path} {}", subcommand.get_name()).trim().to_owned();
            match subcommand.has_subcommands() {
                true => {
                    commands(subcommand, &path, paths);
                    paths.push(path);
                }
                false => paths.push(path),
            }
        }
    }

    #[test]
    fn every_command_is_in_one_group_and_fits_a_line() {
        let grammar = Cli::command();
        let mut grouped_names: Vec<&str> =
            COMMAND_GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let visible_commands = grammar.get_subcommands().filter(|command| !command.is_hide_set());
        let mut command_names: Vec<&str> = visible_commands.map(Command::get_name).collect();
        grouped_names.sort_unstable();
        command_names.sort_unstable();
        assert_eq!(grouped_names, command_names);
        for command in grammar.get_subcommands() {
            let description = command.get_about().unwrap().to_string();
            let aliases: Vec<&str> = command.get_visible_aliases().collect();
            let line = description_with_aliases(&description, &aliases);
            assert!(INDENT_COLUMNS + line.len() <= 80, "{line}");
        }
    }

    #[test]
    fn every_command_has_an_example_that_parses() {
        let mut command_paths = Vec::new();
        let grammar = grammar::for_all_commands();
        commands(&grammar, "", &mut command_paths);
        for name in COMMAND_EXAMPLES.iter().map(|(name, _)| (*name).to_owned()) {
            assert!(command_paths.contains(&name), "{name}");
        }
        for name in command_paths {
            let examples = examples(&name);
            assert!(!examples.is_empty(), "{name}");
            for example in examples {
                assert!(example.starts_with(&name), "{example}");
                let words = shell_words::split(&format!("monopile {example}")).unwrap();
                let matches = grammar.clone().args(globals::ignored_args()).try_get_matches_from(words);
                matches.unwrap_or_else(|error| panic!("{example}: {error}"));
            }
        }
    }

    #[test]
    fn long_examples_are_folded_at_options() {
        assert_eq!(fold_line("monopile plan a.yml -o b.yml"), "monopile plan a.yml -o b.yml");
        let long = format!("monopile plan {}.yml --vars-store creds.yml -o b.yml", "a".repeat(50));
        let expected = long.replace(" --vars", " \\\n    --vars");
        assert_eq!(fold_line(&long), expected);
    }

    /// Options with the same name in several commands have the same text, unless they have different effects.
    #[test]
    fn options_that_commands_share_read_the_same() {
        const DIFFERENT: [&str; 27] = [
            "agent-timeout",
            "all",
            "boot-index",
            "cloud-properties",
            "connector-id",
            "context",
            "cpi",
            "disk",
            "extra",
            "format",
            "job",
            "json",
            "limit",
            "name",
            "node",
            "out",
            "path",
            "property",
            "resource-class",
            "snapshot",
            "stemcell",
            "stemcell-api-version",
            "type",
            "version",
            "vars-store",
            "vm",
            "volume-id",
        ];
        let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        collect(&grammar::for_all_commands(), &mut texts);
        texts.retain(|name, texts| texts.len() > 1 && !DIFFERENT.contains(&name.as_str()));
        assert!(texts.is_empty(), "{texts:#?}");
    }

    /// Collects the texts of options by name. Checks that each begins with a capital letter and is not a
    /// sentence.
    fn collect(command: &Command, texts: &mut BTreeMap<String, BTreeSet<String>>) {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let text = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let begins_well = text.starts_with(|first: char| first.is_uppercase() || first == '`');
            assert!(begins_well && !text.ends_with('.'), "{}: {text}", arg.get_id());
            if let Some(name) = arg.get_long() {
                texts.entry(name.to_owned()).or_default().insert(text);
            }
        }
        // `unset` removes what options of other commands set.
        command
            .get_subcommands()
            .filter(|subcommand| !subcommand.is_hide_set() && subcommand.get_name() != "unset")
            .for_each(|subcommand| collect(subcommand, texts));
    }

    #[test]
    fn command_of_a_line_is_named() {
        let grammar = grammar::for_all_commands();
        for (line, name) in [
            ("monopile --nope", "monopile"),
            ("monopile cck --nope", "monopile cloud-check"),
            ("monopile -n state show --nope", "monopile state show"),
            ("monopile state a.yml show", "monopile state"),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(named_command(&grammar, &words).0, name);
        }
    }

    #[test]
    fn every_way_to_ask_for_help_is_recognised() {
        let grammar = grammar::for_all_commands();
        for (line, name, asks) in [
            ("monopile plan -h", "plan", true),
            ("monopile plan --help", "plan", true),
            ("monopile plan -nh", "plan", true),
            ("monopile plan --path x", "plan", false),
            ("monopile plan", "plan", false),
            ("monopile state", "state", true),
            ("monopile state show", "state", false),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(is_asked(&words, grammar.find_subcommand(name).unwrap()), asks, "{line}");
        }
    }

    #[test]
    fn earlier_spellings_are_accepted_and_hidden() {
        for (line, hidden_spelling) in [
            ("create-env m.yml --agent-timeout 1s", "--agent-timeout"),
            ("cpi check m.yml --contract 1", " 1,"),
        ] {
            let words: Vec<&str> = ["monopile"].into_iter().chain(line.split(' ')).collect();
            grammar::for_all_commands()
                .try_get_matches_from(&words)
                .unwrap_or_else(|error| panic!("{line}: {error}"));
            let options = words.iter().position(|word| word.ends_with(".yml")).unwrap();
            let help = words[..options].iter().chain(&["--help"]);
            let help = grammar::for_all_commands().try_get_matches_from(help).unwrap_err().to_string();
            assert!(!help.contains(hidden_spelling), "{line}: {help}");
        }
    }

    #[test]
    fn help_command_equals_help_option() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (line, expected, is_help) in [
            ("monopile help state show", "monopile state show --help", true),
            ("monopile help", "monopile --help", true),
            ("monopile state help", "monopile state help", false),
        ] {
            assert_eq!(expand_help_command(words(line)), (words(expected), is_help), "{line}");
        }
    }
}
