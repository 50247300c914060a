//! The scope of options: the options that have an effect on a command. `--help`, the man pages and
//! `docs/reference.md` list these. Options of a command without an effect are named below the list.

use clap::Command;

use CommandSet::{In, NotIn};

/// Names of commands, and of groups of commands.
pub(super) type CommandNames = &'static [&'static str];

/// A set of commands, described by lists of names.
pub(super) enum CommandSet {
    In(&'static [CommandNames]),
    NotIn(&'static [CommandNames]),
}

impl CommandSet {
    /// Returns true if the set has the command at `path`.
    pub(super) fn contains(&self, path: &str) -> bool {
        match self {
            In(lists) => lists.iter().any(|names| is_in(names, path)),
            NotIn(lists) => !lists.iter().any(|names| is_in(names, path)),
        }
    }

    /// Returns the names of the commands that the set has, or does not have.
    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let (In(lists) | NotIn(lists)) = self;
        lists.iter().flat_map(|names| names.iter().copied())
    }

    /// Returns true if the set has the command, or one of the commands below it.
    fn contains_any(&self, command: &Command, path: &str) -> bool {
        if !command.has_subcommands() {
            return self.contains(path);
        }
        let path_of = |subcommand: &Command| format!("{path} {}", subcommand.get_name());
        command.get_subcommands().any(|subcommand| self.contains_any(subcommand, &path_of(subcommand)))
    }
}

/// Returns true if one of the names is the command at `path`, or a group above it.
pub(super) fn is_in(names: &[&str], path: &str) -> bool {
    let is_below = |group: &str| path.strip_prefix(group).is_some_and(|rest| rest.starts_with(' '));
    names.iter().any(|name| path == *name || is_below(name))
}

/// The commands on the cache that have no environment.
pub(super) const CACHE_COMMANDS: CommandNames =
    &["cache import", "cache list", "cache prune", "cache verify"];

/// The commands without an environment, besides those in [`CACHE_COMMANDS`].
pub(super) const WITHOUT_ENVIRONMENT: CommandNames = &[
    "completion",
    "cpi replay",
    "example",
    "inspect-local-release",
    "inspect-local-stemcell",
    "render-template",
    "repack-stemcell",
    "sha1ify-release",
    "sha2ify-release",
    "trust",
    "version",
];

/// `state show`, and its short forms.
pub(super) const STATE_VIEWS: CommandNames = &["disks", "snapshots", "state show", "stemcells"];

/// The commands that download and compile nothing, besides those in [`WITHOUT_ENVIRONMENT`] and
/// [`STATE_VIEWS`].
const WITHOUT_ARTIFACTS: CommandNames = &[
    "attach-disk",
    "baremetal",
    "history",
    "interpolate",
    "logs",
    "restart",
    "scp",
    "ssh",
    "start-env",
    "state backup",
    "state forget",
    "stop-env",
    "vars",
];

/// The commands that keep nothing in the cache directory.
const WITHOUT_CACHE: CommandNames = &[
    "baremetal",
    "completion",
    "cpi replay",
    "example",
    "history",
    "interpolate",
    "render-template",
    "trust",
    "vars",
    "version",
];

/// The commands that call neither a CPI nor a script, and write no log.
const WITHOUT_LOGS: CommandNames = &["completion", "example", "trust", "version"];

/// The commands whose output is the same with `--json`.
const WITHOUT_JSON: CommandNames = &[
    "completion",
    "cpi replay",
    "render",
    "render-template",
    "scp",
    "ssh",
    "vars check",
    "vars get",
    "vars rotate",
];

/// The commands that change neither a state nor a vars store, besides [`STATE_VIEWS`], and take no lock of
/// the state. `state verify` changes nothing either, but takes the lock.
const READ_ONLY: CommandNames = &[
    "cache export",
    "cpi call",
    "cpi info",
    "cpi list",
    "cpis",
    "history",
    "logs",
    "plan",
    "render",
    "scp",
    "ssh",
    "status",
    "vars check",
    "vars get",
    "vars list",
];

/// The commands for which `--json=bosh` prints the document of the bosh CLI.
pub(super) const BOSH_JSON: CommandNames = &[
    "create-env",
    "delete-env",
    "inspect-local-release",
    "inspect-local-stemcell",
    "interpolate",
    "start-env",
    "stop-env",
];

/// Returns true if the command takes `--json=bosh`.
pub(super) fn takes_bosh_json(path: &str) -> bool {
    is_in(BOSH_JSON, path)
}

/// The options that have no effect on some commands, by the ids of their arguments, and the commands on which
/// they have an effect. The other commands accept and ignore them.
const COMMANDS_OF_OPTIONS: [(&[&str], CommandSet); 13] = [
    (&["json"], NotIn(&[WITHOUT_JSON])),
    (&["non_interactive"], NotIn(&[WITHOUT_ENVIRONMENT, CACHE_COMMANDS])),
    (&["no_color", "tty"], NotIn(&[&["completion"]])),
    (&["log_format", "verbose"], NotIn(&[WITHOUT_LOGS])),
    (&["identity", "redact"], NotIn(&[WITHOUT_ENVIRONMENT, CACHE_COMMANDS, &["baremetal"]])),
    (
        &["encrypt_to"],
        NotIn(&[WITHOUT_ENVIRONMENT, CACHE_COMMANDS, READ_ONLY, STATE_VIEWS, &["baremetal", "state verify"]]),
    ),
    (&["cache_dir"], NotIn(&[WITHOUT_CACHE])),
    (&["parallel"], NotIn(&[WITHOUT_ENVIRONMENT, CACHE_COMMANDS, WITHOUT_ARTIFACTS, STATE_VIEWS])),
    (&["cache", "cache_trust"], NotIn(&[WITHOUT_ENVIRONMENT, WITHOUT_ARTIFACTS, STATE_VIEWS])),
    (
        &["cache_sign", "cache_write"],
        NotIn(&[WITHOUT_ENVIRONMENT, CACHE_COMMANDS, WITHOUT_ARTIFACTS, STATE_VIEWS]),
    ),
    (&["sha2"], In(&[&["create-env", "recreate", "cloud-check"]])),
    (&["wait_for_lock"], NotIn(&[READ_ONLY, STATE_VIEWS])),
    (
        &["boot_timeout", "cpi_timeout", "drain_timeout", "forget_open_calls", "skip_drain"],
        NotIn(&[&["plan"]]),
    ),
];

/// Returns true if the option with this id has an effect on the command, or on one below it.
pub(super) fn has_effect(id: &str, command: &Command, path: &str) -> bool {
    let entry = COMMANDS_OF_OPTIONS.iter().find(|(ids, _)| ids.contains(&id));
    entry.is_none_or(|(_, commands)| commands.contains_any(command, path))
}

/// The options that cause a warning if they are on the command line without effect, by the ids of their
/// arguments. The operator may rely on them. Scripts pass the other options to every command.
const OPTIONS_WITH_WARNING: [&str; 6] =
    ["cache", "cache_dir", "cache_sign", "cache_trust", "cache_write", "identity"];

/// Returns a warning for each option of [`OPTIONS_WITH_WARNING`] that the command line has without effect on
/// the command. `has_option` returns true if the command line has a long option.
pub(super) fn warnings_of_options(
    command: &Command,
    path: &str,
    has_option: impl Fn(&str) -> bool,
) -> Vec<String> {
    let options = OPTIONS_WITH_WARNING.into_iter().map(|id| (id, format!("--{}", id.replace('_', "-"))));
    let unused_options = options.filter(|(id, option)| has_option(option) && !has_effect(id, command, path));
    unused_options.map(|(_, option)| format!("{option} has no effect on `{path}`")).collect()
}

/// Returns the commands at the ends of the grammar, with their paths.
pub(super) fn command_leaves(grammar: &Command) -> Vec<(String, &Command)> {
    fn add<'a>(command: &'a Command, path: &str, leaves: &mut Vec<(String, &'a Command)>) {
        for subcommand in command.get_subcommands() {
            let path = format!("{path} {}", subcommand.get_name()).trim().to_owned();
            match subcommand.has_subcommands() {
                true => add(subcommand, &path, leaves),
                false => leaves.push((path, subcommand)),
            }
        }
    }
    let mut leaves = Vec::new();
    add(grammar, "", &mut leaves);
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::grammar;

    #[test]
    fn named_commands_and_options_exist() {
        let grammar = grammar::for_all_commands();
        let command_leaves = command_leaves(&grammar);
        for name in COMMANDS_OF_OPTIONS.iter().flat_map(|(_, commands)| commands.names()) {
            assert!(command_leaves.iter().any(|(path, _)| is_in(&[name], path)), "{name}");
        }
        for id in COMMANDS_OF_OPTIONS.iter().flat_map(|(ids, _)| *ids) {
            let has_arg = |command: &Command| command.get_arguments().any(|arg| arg.get_id().as_str() == *id);
            assert!(command_leaves.iter().any(|(_, command)| has_arg(command)), "{id}");
        }
    }

    #[test]
    fn commands_without_json_are_documented() {
        let page = include_str!("../../docs/events.md");
        let row = page.lines().find(|line| line.starts_with("| the same as without `--json`; ")).unwrap();
        let (_, commands) = row.rsplit_once(" | ").unwrap();
        let mut documented_commands: Vec<&str> = commands.split('`').skip(1).step_by(2).collect();
        // `interpolate` has no JSON of its own, but `--json=bosh` has an effect.
        documented_commands.retain(|command| *command != "interpolate");
        documented_commands.sort_unstable();
        assert_eq!(documented_commands, WITHOUT_JSON);
    }

    /// The help of a command has the options that it uses.
    #[test]
    fn options_without_effect_are_accepted_and_hidden() {
        for (command, option, is_shown) in [
            ("create-env", "--sha2", true),
            ("plan", "--sha2", false),
            ("plan", "--parallel", true),
            ("plan", "--cache-trust", true),
            ("logs", "--cache-trust", false),
            ("cache verify", "--cache-trust", true),
            ("cache verify", "--cache-sign", false),
            ("plan", "--json", true),
            ("interpolate", "--parallel", false),
            ("interpolate", "--identity", true),
            ("interpolate", "--json", true),
            ("cpi", "--identity", true),
            ("cpi check", "--identity", true),
            ("cpi replay", "--identity", false),
            ("cache", "--cache-dir", true),
            ("cache list", "--cache-dir", true),
            ("cache list", "--redact", false),
            ("baremetal node list", "--cache-dir", false),
            ("baremetal node list", "--non-interactive", true),
            ("baremetal node list", "--os-endpoint", true),
            ("baremetal node", "--os-endpoint", false),
            ("completion", "--non-interactive", false),
            ("completion", "--json", false),
            ("completion", "--verbose", false),
            ("version", "--verbose", false),
            ("cpi replay", "--verbose", true),
            ("plan", "--encrypt-to", false),
            ("state verify", "--encrypt-to", false),
            ("state verify", "--wait-for-lock", true),
            ("create-env", "--encrypt-to", true),
            ("vars", "--json", true),
            ("vars list", "--json", true),
            ("vars get", "--json", false),
        ] {
            let words = format!("monopile {command} --help");
            let help =
                grammar::for_all_commands().try_get_matches_from(words.split(' ')).unwrap_err().to_string();
            assert_eq!(help.contains(&format!(" {option}")), is_shown, "{words}: {option}");
        }
        let words = "monopile completion bash --sha2 -n --parallel 3 --identity key.txt --json";
        let matches = grammar::for_all_commands().try_get_matches_from(words.split(' ')).unwrap();
        assert_eq!(matches.get_one::<u16>("parallel"), Some(&3));
    }

    /// An option without effect is not silently ignored: the help of the command names it.
    #[test]
    fn own_options_without_effect_are_explained() {
        for (command, options) in [
            ("status", &["--wait-for-lock"][..]),
            ("plan", &["--boot-timeout", "--drain-timeout", "--skip-drain", "--wait-for-lock"]),
        ] {
            let words = ["monopile", command, "--help"];
            let help = grammar::for_all_commands().try_get_matches_from(words).unwrap_err().to_string();
            let (_, explanation) = help.split_once("Accepted without effect").unwrap();
            let explanation = explanation.split("\n\n").next().unwrap();
            assert!(options.iter().all(|option| explanation.contains(option)), "{explanation}");
        }
        let help = grammar::for_all_commands().try_get_matches_from(["monopile", "create-env", "--help"]);
        assert!(!help.unwrap_err().to_string().contains("without effect"));
    }
}
