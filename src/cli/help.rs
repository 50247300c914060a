//! Help texts beyond those of single arguments: the groups of commands, and an example of each.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::Command;
use clap::builder::CommandExt;
use clap::builder::styling::Styles;

use super::reference::{self, ExitCodes};

/// The commands in the order and groups of `--help`.
const GROUPS: [(&str, &[&str]); 9] = [
    ("Everyday", &["create-env", "plan", "status", "logs", "delete-env"]),
    ("Deploy", &["stop-env", "start-env", "restart", "recreate", "attach-disk"]),
    ("Look", &["history", "ssh", "scp"]),
    (
        "Repair",
        &[
            "cloud-check",
            "state",
            "take-snapshot",
            "delete-vm",
            "delete-disk",
            "delete-snapshot",
            "delete-stemcell",
        ],
    ),
    ("Manifests", &["interpolate", "vars", "render", "render-template", "trust", "example"]),
    (
        "Artifacts",
        &[
            "inspect-local-release",
            "inspect-local-stemcell",
            "repack-stemcell",
            "sha1ify-release",
            "sha2ify-release",
            "upload-stemcell",
            "cache",
        ],
    ),
    ("CPI", &["cpi"]),
    ("Bare metal", &["baremetal"]),
    ("Shell", &["completion"]),
];

/// The column in which descriptions of commands begin.
const INDENT: usize = 26;

/// One example of each command.
const EXAMPLES: [(&str, &str); 61] = [
    ("create-env", "create-env bosh.yml -o cpi.yml --vars-store creds.yml"),
    ("plan", "plan bosh.yml --vars-store creds.yml"),
    ("delete-env", "delete-env bosh.yml --vars-store creds.yml"),
    ("stop-env", "stop-env bosh.yml --vars-store creds.yml"),
    ("start-env", "start-env bosh.yml --vars-store creds.yml"),
    ("restart", "restart bosh.yml --vars-store creds.yml"),
    ("recreate", "recreate bosh.yml --vars-store creds.yml"),
    ("status", "status bosh.yml --vars-store creds.yml --watch"),
    ("history", "history bosh.yml --steps"),
    ("logs", "logs bosh.yml --vars-store creds.yml --job director --follow"),
    ("ssh", "ssh bosh.yml --vars-store creds.yml -c 'sudo monit summary'"),
    ("scp", "scp bosh.yml :/var/vcap/sys/log/syslog . --vars-store creds.yml"),
    ("cloud-check", "cloud-check bosh.yml --vars-store creds.yml --report"),
    ("interpolate", "interpolate bosh.yml -o cpi.yml -v director_name=prod --path /name"),
    ("vars get", "vars get creds.yml /mbus_bootstrap_ssl/ca"),
    ("vars list", "vars list creds.yml"),
    ("vars check", "vars check creds.yml -l bosh.yml --within 60d"),
    ("vars rotate", "vars rotate creds.yml admin_password -l bosh.yml"),
    ("render", "render bosh.yml --vars-store creds.yml --job director"),
    ("render-template", "render-template ctl.erb --context context.json"),
    ("trust", "trust .monopile.yml"),
    ("inspect-local-release", "inspect-local-release release.tgz"),
    ("inspect-local-stemcell", "inspect-local-stemcell stemcell.tgz"),
    ("repack-stemcell", "repack-stemcell stemcell.tgz new.tgz --version 1.1"),
    ("sha1ify-release", "sha1ify-release release.tgz release-sha1.tgz"),
    ("sha2ify-release", "sha2ify-release release.tgz release-sha2.tgz"),
    ("state show", "state show bosh.yml"),
    ("state import", "state import bosh.yml --vars-store creds.yml --vm i-0a1b2c --disk vol-0d1e2f"),
    ("state backup", "state backup bosh.yml"),
    ("state forget", "state forget bosh.yml --disk vol-0d1e2f"),
    ("upload-stemcell", "upload-stemcell bosh.yml stemcell.tgz --vars-store creds.yml"),
    ("delete-stemcell", "delete-stemcell bosh.yml ami-0a1b2c --vars-store creds.yml"),
    ("delete-vm", "delete-vm bosh.yml i-0a1b2c --vars-store creds.yml"),
    ("attach-disk", "attach-disk bosh.yml vol-0d1e2f --vars-store creds.yml"),
    ("delete-disk", "delete-disk bosh.yml vol-0d1e2f --vars-store creds.yml"),
    ("take-snapshot", "take-snapshot bosh.yml --vars-store creds.yml"),
    ("delete-snapshot", "delete-snapshot bosh.yml snap-0a1b2c --vars-store creds.yml"),
    ("cpi list", "cpi list bosh.yml --cpi-config cpis.yml"),
    ("cpi info", "cpi info bosh.yml"),
    ("cpi call", "cpi call bosh.yml has_vm i-0a1b2c"),
    ("cpi check", "cpi check --path ./cpi --stemcell stemcell.tgz"),
    ("cpi replay", "cpi replay calls.jsonl"),
    ("cache list", "cache list"),
    ("cache prune", "cache prune --unused 14d"),
    ("baremetal node list", "baremetal node list --provision-state available"),
    ("baremetal node show", "baremetal node show node-1"),
    ("baremetal node validate", "baremetal node validate node-1"),
    (
        "baremetal volume connector create",
        "baremetal volume connector create --node node-1 --type iqn --connector-id iqn.2026-01.org:n1",
    ),
    ("baremetal volume connector list", "baremetal volume connector list --node node-1"),
    (
        "baremetal volume connector show",
        "baremetal volume connector show 3fa85f64-5717-4562-b3fc-2c963f66afa6",
    ),
    (
        "baremetal volume connector set",
        "baremetal volume connector set 3fa85f64-5717-4562-b3fc-2c963f66afa6 --extra rack=7",
    ),
    (
        "baremetal volume connector unset",
        "baremetal volume connector unset 3fa85f64-5717-4562-b3fc-2c963f66afa6 --extra rack",
    ),
    (
        "baremetal volume connector delete",
        "baremetal volume connector delete 3fa85f64-5717-4562-b3fc-2c963f66afa6",
    ),
    (
        "baremetal volume target create",
        "baremetal volume target create --node node-1 --type iscsi --volume-id vol-1 --boot-index 0",
    ),
    ("baremetal volume target list", "baremetal volume target list --node node-1"),
    ("baremetal volume target show", "baremetal volume target show 3fa85f64-5717-4562-b3fc-2c963f66afa6"),
    (
        "baremetal volume target set",
        "baremetal volume target set 3fa85f64-5717-4562-b3fc-2c963f66afa6 --boot-index 1",
    ),
    (
        "baremetal volume target unset",
        "baremetal volume target unset 3fa85f64-5717-4562-b3fc-2c963f66afa6 --property target_lun",
    ),
    ("baremetal volume target delete", "baremetal volume target delete 3fa85f64-5717-4562-b3fc-2c963f66afa6"),
    ("example", "example hello"),
    ("completion", "completion bash"),
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
        if title == "Shell" {
            line(&mut text, "help", "Print the help of a command");
        }
    }
    let _ = write!(text, "\n{heading}Options:{heading:#}\n{{options}}{{after-help}}");
    text
}

/// The text after the options of a command. The man pages have a section for each part.
#[derive(Debug, Clone)]
pub struct Notes {
    /// Remarks.
    pub remarks: Option<String>,
    /// The exit codes that mean something of their own.
    pub exit_codes: ExitCodes,
    /// A command line, without the name of the program.
    pub example: Option<&'static str>,
}

impl CommandExt for Notes {}

impl Notes {
    fn text(&self) -> String {
        let exit_codes = Some(self.exit_codes).filter(|codes| !codes.is_empty()).map(exit_codes);
        let example = self.example.map(|example| format!("Example: monopile {example}"));
        [self.remarks.clone(), exit_codes, example].into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    }
}

/// Lists exit codes in one sentence.
pub(super) fn exit_codes(codes: &[(&str, &str)]) -> String {
    let codes: Vec<String> = codes.iter().map(|(code, meaning)| format!("{code} {meaning}")).collect();
    format!("Exit codes: {}.", codes.join("; "))
}

/// Adds notes to the help of the command at `path` and of those below it.
pub(super) fn with_notes(command: Command, path: &str) -> Command {
    let notes = Notes {
        remarks: command.get_after_help().map(ToString::to_string),
        exit_codes: reference::exit_codes(path),
        example: EXAMPLES.iter().find(|(name, _)| *name == path).map(|(_, example)| *example),
    };
    let command = match notes.text() {
        text if text.is_empty() => command,
        text => command.after_help(text).add(notes),
    };
    command.mut_subcommands(|command| {
        let path = format!("{path} {}", command.get_name());
        with_notes(command, &path)
    })
}

/// Replaces `monopile help COMMAND` with `monopile COMMAND --help`.
pub(super) fn expanded(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, globals, grammar};
    use clap::CommandFactory as _;

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
        let mut known: Vec<&str> = shown.map(Command::get_name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
        for command in grammar.get_subcommands() {
            let about = command.get_about().unwrap().to_string();
            assert!(INDENT + about.len() <= 80, "{about}");
        }
    }

    #[test]
    fn every_command_has_an_example_that_parses() {
        let mut found = Vec::new();
        let grammar = grammar::whole();
        leaves(&grammar, "", &mut found);
        let mut named: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
        found.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, found);
        for (name, example) in EXAMPLES {
            assert!(example.starts_with(name), "{example}");
            // The one quoted word of an example.
            let example = example.replace("'sudo monit summary'", "date");
            let words = ["monopile"].into_iter().chain(example.split(' '));
            let matches = grammar.clone().args(globals::ignored()).try_get_matches_from(words);
            matches.unwrap_or_else(|error| panic!("{example}: {error}"));
        }
    }

    #[test]
    fn help_with_a_command_is_its_help_flag() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(expanded(words("monopile help state show")), words("monopile state show --help"));
        assert_eq!(expanded(words("monopile help")), words("monopile --help"));
        assert_eq!(expanded(words("monopile state help")), words("monopile state help"));
    }
}
