//! Help texts beyond those of single arguments: the groups of commands, and examples of each.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::builder::CommandExt;
use clap::builder::styling::Styles;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args as _, Command, Id};

use super::baremetal;
use super::env_file;
use super::globals::Globals;
use super::scope::{self, CodeMeaning};
use crate::ui;
use base::exit_code;

/// The commands in the order and groups of `--help`.
pub const GROUPS: [(&str, &[&str]); 9] = [
    ("Everyday", &["create-env", "plan", "status", "logs", "delete-env"]),
    ("Deploy", &["stop-env", "start-env", "restart", "recreate"]),
    ("Inspect", &["history", "ssh", "scp"]),
    ("Repair", &["cloud-check", "state", "delete-vm"]),
    (
        "Disks and stemcells",
        &[
            "attach-disk",
            "delete-disk",
            "take-snapshot",
            "delete-snapshot",
            "upload-stemcell",
            "delete-stemcell",
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
    (SETUP, &["example", "trust", "completion", "version"]),
];

/// The group that also lists `help`.
const SETUP: &str = "Setup";

/// The column in which descriptions of commands begin.
const INDENT: usize = 26;

/// Examples of each command, without the name of the program.
const EXAMPLES: [(&str, Examples); 47] = [
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
    ("delete-env", &["delete-env bosh.yml --vars-store creds.yml"]),
    ("stop-env", &["stop-env bosh.yml --vars-store creds.yml"]),
    ("start-env", &["start-env bosh.yml --vars-store creds.yml"]),
    ("restart", &["restart bosh.yml --vars-store creds.yml"]),
    ("recreate", &["recreate bosh.yml --vars-store creds.yml"]),
    (
        "status",
        &[
            "status bosh.yml --vars-store creds.yml",
            "status bosh.yml --vars-store creds.yml --watch",
            "status bosh-state.json",
        ],
    ),
    ("history", &["history", "history bosh.yml --steps --limit 1"]),
    (
        "logs",
        &[
            "logs bosh.yml --vars-store creds.yml --job director --follow",
            "logs bosh.yml --vars-store creds.yml --all-logs --dir .",
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
            "interpolate bosh.yml --vars-store creds.yml --var-errs",
            "interpolate bosh.yml --vars-exec 'pass show bosh/prod' --path /name",
        ],
    ),
    ("vars get", &["vars get creds.yml /mbus_bootstrap_ssl/ca"]),
    ("vars list", &["vars list creds.yml"]),
    ("vars check", &["vars check creds.yml -m bosh.yml --within 60d"]),
    (
        "vars rotate",
        &["vars rotate creds.yml admin_password -m bosh.yml", "vars rotate creds.yml default_ca --finish"],
    ),
    ("render", &["render bosh.yml --vars-store creds.yml --job director"]),
    ("render-template", &["render-template ctl.erb --context context.json"]),
    ("trust", &["trust", "trust .monopile.yml --revoke"]),
    ("inspect-local-release", &["inspect-local-release release.tgz"]),
    ("inspect-local-stemcell", &["inspect-local-stemcell stemcell.tgz"]),
    ("repack-stemcell", &["repack-stemcell stemcell.tgz new.tgz --version 1.1"]),
    ("sha1ify-release", &["sha1ify-release release.tgz release-sha1.tgz"]),
    ("sha2ify-release", &["sha2ify-release release.tgz release-sha2.tgz"]),
    ("state show", &["state show bosh.yml", "state show bosh.yml --only disks"]),
    ("state import", &["state import bosh.yml --vars-store creds.yml --vm i-0a1b2c --disk vol-0d1e2f"]),
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
    ("cpi list", &["cpi list bosh.yml --cpi-config cpis.yml"]),
    ("cpi info", &["cpi info bosh.yml", "cpi info --path ./cpi"]),
    ("cpi call", &["cpi call bosh.yml has_vm i-0a1b2c"]),
    ("cpi check", &["cpi check --path ./cpi --stemcell stemcell.tgz"]),
    ("cpi replay", &["cpi replay calls.jsonl"]),
    ("cache list", &["cache list"]),
    ("cache prune", &["cache prune --unused 14d", "cache prune --all"]),
    ("example", &["example", "example hello"]),
    ("completion", &["completion bash"]),
    ("version", &["version", "version --check"]),
];

/// The help of arguments that several commands share, where it differs: command, id of the argument, text.
const OWN_TEXTS: [(&str, &str, &str); 9] = [
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
    ("status", "cpi_timeout", READING_CPI_TIMEOUT),
    ("cpi list", "cpi_timeout", READING_CPI_TIMEOUT),
    ("cpis", "cpi_timeout", READING_CPI_TIMEOUT),
];

/// The help of `--cpi-timeout` for commands whose calls change nothing: no later run waits for such a call.
const READING_CPI_TIMEOUT: &str = "Stop waiting for a CPI call after this time [default: no limit]";

/// Groups of options, by the ids of their arguments.
const HEADINGS: [(&str, &[&str]); 5] = [
    (
        "Manifest and variables",
        &[
            "manifests",
            "vars",
            "var_files",
            "vars_files",
            "vars_exec",
            "vars_env",
            "vars_store",
            "ops_files",
            "env_file",
            "no_env_file",
            "cpi_config",
            "cloud_config",
            "templates",
        ],
    ),
    ("State", &["state", "wait_for_lock", "forget_open_calls"]),
    ("CPI", &["package_dir", "cpi_api_version", "cpi_timeout"]),
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
];

/// Returns the template of `monopile --help`, with the commands of `grammar` in groups.
pub(super) fn template(grammar: &Command) -> String {
    let heading = *Styles::styled().get_header();
    let name = *Styles::styled().get_literal();
    let mut text = String::from("{before-help}{about-with-newline}\n{usage-heading} {usage}\n");
    let line = |text: &mut String, command: &str, about: &str| {
        let blanks = " ".repeat(INDENT.saturating_sub(2 + command.len()));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name}{command}{name:#}{blanks}{about}");
    };
    for (title, names) in GROUPS {
        let _ = writeln!(text, "\n{heading}{title}:{heading:#}");
        for command in names.iter().filter_map(|name| grammar.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let aliases: Vec<&str> = command.get_visible_aliases().collect();
            let about = match aliases.as_slice() {
                [] => about,
                aliases => format!("{about} [{}]", aliases.join(", ")),
            };
            line(&mut text, command.get_name(), &about);
        }
        if title == SETUP {
            line(&mut text, "help", "Print the help of a command, or this help");
        }
    }
    let _ = write!(text, "\n{heading}Options:{heading:#}\n{{options}}{{after-help}}");
    text
}

/// Returns the end of `monopile -h`.
pub(super) fn short_overview() -> String {
    format!("{}; `monopile help` lists exit codes.\n\n{DOCUMENTATION}", first_steps())
}

/// Returns the first commands to try. The last sentence has no full stop.
fn first_steps() -> String {
    section(
        "Get started",
        &[
            "monopile example hello",
            "monopile plan hello/manifest.yml",
            "monopile create-env hello/manifest.yml",
            "monopile status hello/manifest.yml",
            "monopile delete-env hello/manifest.yml",
        ]
        .map(str::to_owned),
    ) + "\n\n`monopile help COMMAND` explains a command"
}

/// Returns the end of `monopile --help`.
pub(super) fn overview() -> String {
    let exit_codes = exit_codes(&exit_code::TABLE);
    format!("{exit_codes}\n\n{}.\n\n{DURATIONS}\n\n{DOCUMENTATION}", first_steps())
}

/// The places of the documents.
const DOCUMENTATION: &str = "\
Documentation: docs/index.md of the repository, which the Debian package installs
in /usr/share/doc/monopile; `man monopile`, `man monopile-create-env`, …";

/// The units of durations, for the help of commands that take one.
pub const DURATIONS: &str =
    "A DURATION is a number with a unit, such as 500ms, 90s or 1h30m; a plain number is seconds.";

/// The end of the help that `-h` prints for a command.
const MORE_WITH_HELP: &str = "`--help` adds details, rare options, global options and exit codes.";

/// Formats indented lines below a heading.
fn section(title: &str, lines: &[String]) -> String {
    let heading = *Styles::styled().get_header();
    let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
    format!("{heading}{title}:{heading:#}{lines}")
}

/// Example command lines, without the name of the program.
type Examples = &'static [&'static str];

/// The text after the options of a command. The man pages have a section for each part.
#[derive(Debug, Clone)]
pub struct HelpNotes {
    /// Sentences that belong to no option.
    pub remarks: Option<String>,
    /// A sentence that names the options of the command that have no effect on it.
    pub without_effect: Option<String>,
    /// The exit codes that the command can end with.
    pub exit_codes: Vec<CodeMeaning>,
    /// Command lines, without the name of the program.
    examples: Examples,
}

impl CommandExt for HelpNotes {}

impl HelpNotes {
    /// Returns the text for `-h`, which has only remarks and examples.
    fn short(&self) -> String {
        let more = (!self.exit_codes.is_empty()).then(|| MORE_WITH_HELP.to_owned());
        let parts = [self.remarks.clone(), self.shown_examples(), more];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the text for `--help`.
    fn long(&self, durations: bool) -> String {
        let durations = durations.then(|| DURATIONS.to_owned());
        let exit_codes = (!self.exit_codes.is_empty()).then(|| exit_codes(&self.exit_codes));
        let parts =
            [self.without_effect.clone(), self.remarks.clone(), durations, exit_codes, self.shown_examples()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the example command lines. A long one continues on further lines.
    pub fn examples(&self) -> Vec<String> {
        self.examples.iter().map(|line| folded(&format!("monopile {line}"))).collect()
    }

    fn shown_examples(&self) -> Option<String> {
        let lines: Vec<String> = self.examples().iter().map(|line| line.replace('\n', "\n  ")).collect();
        let title = if lines.len() == 1 { "Example" } else { "Examples" };
        (!lines.is_empty()).then(|| section(title, &lines))
    }
}

/// Breaks a long command line before its options, so that it fits and can still be pasted.
fn folded(line: &str) -> String {
    const WIDTH: usize = 76;
    let mut parts = line.split(" -");
    let mut folded = parts.next().unwrap_or_default().to_owned();
    let mut width = folded.len();
    for part in parts {
        if width + 2 + part.len() > WIDTH {
            folded.push_str(" \\\n   ");
            width = 3;
        }
        folded.push_str(" -");
        folded.push_str(part);
        width += 2 + part.len();
    }
    folded
}

/// Lists exit codes in lines. A long meaning continues below its beginning.
fn exit_codes(codes: &[(&str, &str)]) -> String {
    const WIDTH: usize = 76;
    let width = codes.iter().map(|(code, _)| code.len()).max().unwrap_or_default();
    let gap = format!("\n{:1$}", "", width + 4);
    let shown = |meaning: &str| ui::fit(meaning, WIDTH - width).join(&gap);
    let lines: Vec<String> =
        codes.iter().map(|(code, meaning)| format!("{code:width$}  {}", shown(meaning))).collect();
    section("Exit codes", &lines)
}

/// Returns the examples of a command.
fn examples(path: &str) -> Examples {
    match path.strip_prefix("baremetal ") {
        Some(path) => baremetal::examples(path),
        None => EXAMPLES.iter().find(|(name, _)| *name == path).map_or(&[], |(_, examples)| *examples),
    }
}

/// Adds notes to the help of the command at `path` and of those below it.
pub(super) fn with_notes(command: Command, path: &str) -> Command {
    let globals = Globals::augment_args(Command::default());
    // Of the short help, only that of the program lists them.
    let globals: Vec<Arg> = globals.get_arguments().map(|arg| arg.clone().hide_short_help(true)).collect();
    match path {
        "baremetal" => with_notes_below(with_connection_at_leaves(command), path, &globals),
        _ => with_notes_below(command, path, &globals),
    }
}

/// Does the work of [`with_notes`], with the global options.
fn with_notes_below(command: Command, path: &str, globals: &[Arg]) -> Command {
    let command = named(command, path);
    let own: Vec<Id> = command.get_arguments().map(|arg| arg.get_id().clone()).collect();
    let (command, without_effect) = without_effect(command.args(globals), path, &own);
    let notes = HelpNotes {
        remarks: command.get_after_help().map(ToString::to_string),
        without_effect,
        exit_codes: scope::exit_codes(&command, path),
        examples: examples(path),
    };
    let is_duration = |name: &clap::builder::Str| name.as_str() == "DURATION";
    let takes_duration = command
        .get_arguments()
        .any(|arg| !arg.is_hide_set() && arg.get_value_names().unwrap_or_default().iter().any(is_duration));
    let command = match notes.long(takes_duration) {
        text if text.is_empty() => command,
        text => command.after_help(notes.short()).after_long_help(text).add(notes),
    };
    let command = command.mut_subcommands(|command| {
        let path = format!("{path} {}", command.get_name());
        with_notes_below(command, &path, globals)
    });
    with_sources(command)
}

/// Hides the options that have no effect on the command. Returns the sentence that names those of `own`.
fn without_effect(command: Command, path: &str, own: &[Id]) -> (Command, Option<String>) {
    let is_shown_in_vain =
        |arg: &&Arg| !arg.is_hide_set() && !scope::has_effect(arg.get_id().as_str(), &command, path);
    let hidden: Vec<Arg> = command.get_arguments().filter(is_shown_in_vain).cloned().collect();
    let is_own = |arg: &&Arg| own.contains(arg.get_id());
    let flags = hidden.iter().filter(is_own).filter_map(|arg| arg.get_long());
    let flags: Vec<String> = flags.map(|flag| format!("--{flag}")).collect();
    let sentence = (!flags.is_empty()).then(|| {
        format!("Accepted without effect, so that the options of create-env work here: {}.", flags.join(", "))
    });
    let command =
        hidden.iter().fold(command, |command, hidden| command.mut_arg(hidden.get_id(), |arg| arg.hide(true)));
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
    let env_file = match env_file::can_supply(&command) {
        true => "An env file can name it.",
        false => "Required even with an env file, because another argument follows.",
    };
    command.mut_args(|arg| {
        if !env_file::REQUIRED.contains(&arg.get_id().as_str()) || !arg.is_required_set() {
            return arg;
        }
        let text = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        let gap = if text.contains("\n\n") { " " } else { "\n\n" };
        let stdin = if arg.get_id() == "manifest" { format!("{stdin} ") } else { String::new() };
        arg.long_help(format!("{text}{gap}{stdin}{env_file}"))
    })
}

/// Shows the options for the connection to Ironic with each command, but not with groups of commands.
fn with_connection_at_leaves(command: Command) -> Command {
    fn add(command: Command, options: &[Arg]) -> Command {
        match command.has_subcommands() {
            true => command.mut_subcommands(|below| add(below, options)),
            false => command.args(options),
        }
    }
    let options: Vec<Arg> = command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    add(command, &options).mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg })
}

/// Groups options, and names the kind of resource that a command is about: several commands share their
/// arguments.
fn named(command: Command, path: &str) -> Command {
    // clap's attribute for the heading of a flattened group would also apply to the arguments after the
    // group.
    let command = command.mut_args(|arg| {
        let heading = HEADINGS.iter().find(|(_, ids)| ids.contains(&arg.get_id().as_str()));
        match heading {
            Some((heading, _)) if !arg.is_positional() => arg.help_heading(*heading),
            _ => arg,
        }
    });
    command.mut_args(|arg| {
        let is_own = |(name, id, _): &&(&str, &str, &str)| *name == path && arg.get_id() == id;
        match OWN_TEXTS.iter().find(is_own) {
            Some((.., text)) => arg.help(*text).long_help(*text),
            None => arg,
        }
    })
}

/// Replaces `monopile help COMMAND` with `monopile COMMAND --help`.
pub(super) fn expand_help_command(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        // `help help` is about the whole program.
        words.retain(|word| word != "help");
        words.push("--help".into());
    }
    words
}

/// Removes hints that do not help: how to pass a flag as a value, and similar commands except a near one.
pub(super) fn with_few_hints(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
    }
    if let (Some(ContextValue::String(wrong)), Some(ContextValue::Strings(similar))) =
        (error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::SuggestedSubcommand))
    {
        match base::error::nearest(wrong, similar.iter().map(String::as_str)).map(str::to_owned) {
            Some(near) => error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![near])),
            None => error.remove(ContextKind::SuggestedSubcommand),
        };
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, globals, grammar};
    use clap::CommandFactory as _;
    use std::collections::{BTreeMap, BTreeSet};

    fn leaves(command: &Command, path: &str, found: &mut Vec<String>) {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let path = format!("{path} {}", below.get_name()).trim().to_owned();
            match below.has_subcommands() {
                true => leaves(below, &path, found),
                false => found.push(path),
            }
        }
    }

    #[test]
    fn every_command_is_in_one_group_and_fits_a_line() {
        let grammar = Cli::command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let shown = grammar.get_subcommands().filter(|command| !command.is_hide_set());
        let mut command_names: Vec<&str> = shown.map(Command::get_name).collect();
        grouped.sort_unstable();
        command_names.sort_unstable();
        assert_eq!(grouped, command_names);
        for command in grammar.get_subcommands() {
            let about = command.get_about().unwrap().to_string();
            let aliases = command.get_visible_aliases().collect::<Vec<_>>().join(", ");
            let shown = if aliases.is_empty() { about } else { format!("{about} [{aliases}]") };
            assert!(INDENT + shown.len() <= 80, "{shown}");
        }
    }

    #[test]
    fn every_command_has_an_example_that_parses() {
        let mut command_paths = Vec::new();
        let grammar = grammar::whole();
        leaves(&grammar, "", &mut command_paths);
        let mut named: Vec<String> = EXAMPLES.iter().map(|(name, _)| (*name).to_owned()).collect();
        named.extend(baremetal::ROWS.iter().map(|row| format!("baremetal {}", row.path)));
        command_paths.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, command_paths);
        for name in named {
            let examples = examples(&name);
            assert!(!examples.is_empty(), "{name}");
            for example in examples {
                assert!(example.starts_with(&name), "{example}");
                let words = shell_words::split(&format!("monopile {example}")).unwrap();
                let matches = grammar.clone().args(globals::ignored()).try_get_matches_from(words);
                matches.unwrap_or_else(|error| panic!("{example}: {error}"));
            }
        }
    }

    #[test]
    fn long_examples_are_folded_at_options() {
        assert_eq!(folded("monopile plan a.yml -o b.yml"), "monopile plan a.yml -o b.yml");
        let long = format!("monopile plan {}.yml --vars-store creds.yml -o b.yml", "a".repeat(50));
        let expected = long.replace(" --vars", " \\\n    --vars");
        assert_eq!(folded(&long), expected);
    }

    /// Options with the same name in several commands have the same text, unless they have different effects.
    #[test]
    fn options_that_commands_share_read_the_same() {
        const DIFFERENT: [&str; 24] = [
            "agent-timeout",
            "boot-index",
            "cloud-properties",
            "connector-id",
            "context",
            "cpi",
            "disk",
            "extra",
            "format",
            "job",
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
            "vm",
            "volume-id",
        ];
        let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        collect(&grammar::whole(), &mut texts);
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
            .filter(|below| !below.is_hide_set() && below.get_name() != "unset")
            .for_each(|below| collect(below, texts));
    }

    #[test]
    fn only_a_near_command_is_suggested() {
        for (wrong, near) in [("creat-env", Some("create-env")), ("nope", None), ("xyzzy", None)] {
            let error = grammar::whole().try_get_matches_from(["monopile", wrong]).unwrap_err();
            let text = with_few_hints(error).to_string();
            assert_eq!(text.contains("similar"), near.is_some(), "{text}");
            assert!(near.is_none_or(|near| text.contains(&format!("'{near}'"))), "{text}");
        }
    }

    #[test]
    fn earlier_spellings_are_accepted_and_hidden() {
        for (line, hidden) in [
            ("create-env m.yml --agent-timeout 1s", "--agent-timeout"),
            ("vars check s.yml -l m.yml", "-l,"),
            ("vars rotate s.yml ca -l m.yml", "-l,"),
            ("cpi check m.yml --contract 1", " 1,"),
        ] {
            let words: Vec<&str> = ["monopile"].into_iter().chain(line.split(' ')).collect();
            grammar::whole().try_get_matches_from(&words).unwrap_or_else(|error| panic!("{line}: {error}"));
            let flags = words.iter().position(|word| word.ends_with(".yml")).unwrap();
            let help = words[..flags].iter().chain(&["--help"]);
            let help = grammar::whole().try_get_matches_from(help).unwrap_err().to_string();
            assert!(!help.contains(hidden), "{line}: {help}");
        }
    }

    #[test]
    fn help_command_equals_help_flag() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            expand_help_command(words("monopile help state show")),
            words("monopile state show --help")
        );
        assert_eq!(expand_help_command(words("monopile help")), words("monopile --help"));
        assert_eq!(expand_help_command(words("monopile state help")), words("monopile state help"));
    }
}
