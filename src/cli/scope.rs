//! The scope of options and exit codes: the options that have an effect on a command, and the exit codes that
//! it can end with. `--help`, the man pages and `docs/reference.md` show these, and no others.

use clap::Command;

use CommandSet::{In, NotIn};
use base::exit_code;

/// Names of commands, and of groups of commands.
type Names = &'static [&'static str];

/// A set of commands, described by lists of names.
enum CommandSet {
    In(&'static [Names]),
    NotIn(&'static [Names]),
}

impl CommandSet {
    /// Returns true if the set has the command at `path`.
    fn contains(&self, path: &str) -> bool {
        match self {
            In(lists) => lists.iter().any(|names| is_in(names, path)),
            NotIn(lists) => !lists.iter().any(|names| is_in(names, path)),
        }
    }

    /// Returns true if the set has the command, or one of the commands below it.
    fn contains_any(&self, command: &Command, path: &str) -> bool {
        if !command.has_subcommands() {
            return self.contains(path);
        }
        let path_of = |below: &Command| format!("{path} {}", below.get_name());
        command.get_subcommands().any(|below| self.contains_any(below, &path_of(below)))
    }
}

/// Returns true if one of the names is the command at `path`, or a group above it.
fn is_in(names: &[&str], path: &str) -> bool {
    let is_below = |group: &str| path.strip_prefix(group).is_some_and(|rest| rest.starts_with(' '));
    names.iter().any(|name| path == *name || is_below(name))
}

/// The commands without an environment.
const WITHOUT_ENVIRONMENT: Names = &[
    "cache",
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
const STATE_VIEWS: Names = &["disks", "snapshots", "state show", "stemcells"];

/// The commands that download and compile nothing, besides those in [`WITHOUT_ENVIRONMENT`] and
/// [`STATE_VIEWS`].
const WITHOUT_ARTIFACTS: Names = &[
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
const WITHOUT_CACHE: Names = &[
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

/// The commands whose output is the same with `--json`.
const WITHOUT_JSON: Names = &[
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

/// The commands that change neither a state nor a vars store, besides [`STATE_VIEWS`]. They take no lock of
/// the state.
const READ_ONLY: Names = &[
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
    "state verify",
    "status",
    "vars check",
    "vars get",
    "vars list",
];

/// The commands that the bosh CLI has as well, so that `--json=bosh` can print the same document.
pub(super) const BOSH_JSON: Names = &[
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

/// The options that have no effect on some commands, by the ids of their arguments, with the commands on
/// which they have one. The other commands accept them all the same.
const EFFECTS: [(&[&str], CommandSet); 10] = [
    (&["json"], NotIn(&[WITHOUT_JSON])),
    (&["non_interactive"], NotIn(&[WITHOUT_ENVIRONMENT])),
    (&["log_format", "no_color", "tty", "verbose"], NotIn(&[&["completion"]])),
    (&["identity", "redact"], NotIn(&[WITHOUT_ENVIRONMENT, &["baremetal"]])),
    (&["encrypt_to"], NotIn(&[WITHOUT_ENVIRONMENT, READ_ONLY, STATE_VIEWS, &["baremetal"]])),
    (&["cache_dir"], NotIn(&[WITHOUT_CACHE])),
    (&["parallel"], NotIn(&[WITHOUT_ENVIRONMENT, WITHOUT_ARTIFACTS, STATE_VIEWS])),
    (&["sha2"], In(&[&["create-env", "recreate", "cloud-check"]])),
    (&["wait_for_lock"], NotIn(&[READ_ONLY, STATE_VIEWS])),
    (
        &["boot_timeout", "cpi_timeout", "drain_timeout", "forget_open_calls", "skip_drain"],
        NotIn(&[&["plan"]]),
    ),
];

/// Returns true if the option with this id has an effect on the command, or on one below it.
pub(super) fn has_effect(id: &str, command: &Command, path: &str) -> bool {
    let entry = EFFECTS.iter().find(|(ids, _)| ids.contains(&id));
    entry.is_none_or(|(_, commands)| commands.contains_any(command, path))
}

/// An exit code, or several, with their meaning.
pub type ExitCodeMeaning = (&'static str, &'static str);

/// The exit codes with a special meaning, by command.
const OWN_EXIT_CODES: [(Names, &[ExitCodeMeaning]); 16] = [
    (
        &["create-env"],
        &[
            ("0", "the environment is as the manifest says"),
            (
                "1",
                "CPI, VM, jobs or a download failed, an untracked VM answers, or the outcome of a call is \
                 unknown",
            ),
            ("3", "an input is invalid, or credentials are missing"),
            (
                "5",
                "nothing changed and the agent does not answer, the agent of a new VM does not answer, or \
                 the proxy or jumpbox to the agent cannot be used",
            ),
        ],
    ),
    (
        &["recreate"],
        &[(
            "5",
            "the agent of the new VM does not answer, or the proxy or jumpbox to the agent cannot be used",
        )],
    ),
    (
        &["delete-env"],
        &[
            ("0", "the environment is deleted, also if its agent does not answer"),
            ("3", "there is no state (see --allow-missing), or an input is invalid"),
            (
                "5",
                "the proxy or jumpbox to the agent cannot be used, or the agent falls silent while it stops \
                 the jobs",
            ),
        ],
    ),
    (
        &["plan"],
        &[
            ("0", "the plan is made"),
            ("1", "create-env would fail: a download fails or an untracked VM answers, for example"),
            ("3", "create-env would refuse: an input is invalid, or credentials are missing"),
            (
                "5",
                "the proxy or jumpbox to the agent cannot be used; if only the agent is silent, the plan \
                 says so",
            ),
            ("7", "the plan is made, and has changes or an agent that does not answer (--detailed-exitcode)"),
        ],
    ),
    (
        &["status"],
        &[
            ("0", "no problem found"),
            (
                "1",
                "the jobs do not run, the last deploy did not finish, no VM is on record, or the CPI cannot \
                 be asked",
            ),
            ("3", "there is no state, or an input is invalid"),
            ("5", "the agent does not answer, its VM is stopped, or the agent of another VM answers"),
            (
                "6",
                "the VM or its disk does not exist, the disk is not mounted, or another disk is mounted that \
                 is not on record",
            ),
        ],
    ),
    (
        &["state import"],
        &[("5", "the proxy or jumpbox to the agent cannot be used; a silent agent is a warning")],
    ),
    (
        &["cloud-check", "state verify"],
        &[
            ("0", "no problem is left"),
            ("5", "the proxy or jumpbox to the agent cannot be used"),
            ("6", "problems are left, such as an agent that does not answer"),
        ],
    ),
    (&["cpi list", "cpis"], &[("0", "all CPIs answer"), ("1", "a CPI does not answer")]),
    (&["cpi info", "cpi call"], &[("0", "the call succeeded"), ("1", "the call failed")]),
    (&["cpi check"], &[("0", "all checks passed"), ("1", "a check failed, or resources are left")]),
    (&["cpi replay"], &[("others", "the exit status in the transcript")]),
    (&["vars check"], &[("0", "no problem found"), ("3", "problems found, or an input is invalid")]),
    (&["cache prune"], &[("4", "another run uses the cache")]),
    (
        &["ssh", "scp"],
        &[("255", "ssh failed"), ("others", "the exit code of the command on the VM, or of scp")],
    ),
    (
        &["baremetal"],
        &[
            ("1", "Ironic or Keystone cannot be reached or refuses the request, or a node fails"),
            ("3", "a value is invalid"),
        ],
    ),
    (
        &["version"],
        &[
            ("1", "the release feed gives no usable answer"),
            ("2", "the command line is wrong, or no release feed is known"),
        ],
    ),
];

/// Meanings of exit codes for commands that can fail in fewer ways than [`exit_code::TABLE`] says.
const NARROW_MEANINGS: [(CommandSet, ExitCodeMeaning); 7] = [
    (
        In(&[WITHOUT_ENVIRONMENT, &["history", "interpolate", "vars"]]),
        ("1", "a file cannot be read or written"),
    ),
    (In(&[STATE_VIEWS, &["state backup", "state forget"]]), ("1", "the state cannot be read or written")),
    (In(&[WITHOUT_ENVIRONMENT]), ("3", "an input is invalid")),
    (In(&[&["history"]]), ("3", "the env file is invalid or not trusted")),
    (In(&[STATE_VIEWS]), ("3", "there is no state, or it is invalid")),
    (In(&[&["vars"]]), ("3", "the vars store or another input is missing or invalid")),
    (
        In(&[&["logs", "restart", "scp", "ssh", "start-env", "stop-env"]]),
        ("3", "there is no state, or the manifest, a variable or the state is invalid"),
    ),
];

/// The commands that ask questions of their own, besides those with `--power-off`. A problem that remains
/// after the questions of `cloud-check` has another exit code.
const ASKING: Names = &[
    "baremetal node delete",
    "baremetal node undeploy",
    "create-env",
    "delete-disk",
    "delete-env",
    "delete-snapshot",
    "delete-stemcell",
    "delete-vm",
    "recreate",
    "state backup",
    "state forget",
];

/// The meaning of "130, 143" for commands that change no state.
const INTERRUPTED: &str = "interrupted (SIGINT, SIGTERM)";

/// Returns the exit codes that the command at `path` can end with. For a group of commands, returns none.
pub(super) fn exit_codes(command: &Command, path: &str) -> Vec<ExitCodeMeaning> {
    if command.has_subcommands() {
        return Vec::new();
    }
    let has = |option: &str| {
        command.get_arguments().any(|arg| !arg.is_hide_set() && arg.get_long() == Some(option))
    };
    let is = |names: &[&str]| is_in(names, path);
    let can_end_with = |code: &str| match code {
        "3" => !is(&["cache", "completion"]),
        "4" => has("wait-for-lock") || is(&["cache prune"]),
        "5" => has("insecure-agent"),
        "6" => is(&["status", "cloud-check", "state verify"]),
        "7" => is(&["plan"]),
        "130, 143" => has("vars-exec") || is(&["state backup", "state forget"]),
        _ => true,
    };
    let own_codes =
        OWN_EXIT_CODES.iter().filter(|(names, _)| is(names)).flat_map(|(_, codes)| *codes).copied();
    let narrow =
        NARROW_MEANINGS.iter().filter(|(commands, _)| commands.contains(path)).map(|(_, code)| *code);
    let interrupted = (!has("wait-for-lock")).then_some(("130, 143", INTERRUPTED));
    let refused = match (is(ASKING) || has("power-off"), has("env-file")) {
        (true, _) => None,
        (false, true) => Some(("2", "the command line is wrong, or the env file was not trusted when asked")),
        (false, false) => Some(("2", "the command line is wrong")),
    };
    let mut codes: Vec<ExitCodeMeaning> = Vec::new();
    for (code, meaning) in own_codes.chain(narrow).chain(interrupted).chain(refused).chain(exit_code::TABLE) {
        if can_end_with(code) && !codes.iter().any(|(listed, _)| *listed == code) {
            codes.push((code, meaning));
        }
    }
    // Rows are sorted by their first number. Words come last.
    let number = |code: &str| code.split(',').next().and_then(|code| code.parse().ok()).unwrap_or(u16::MAX);
    codes.sort_by_key(|(code, _)| number(code));
    codes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::grammar;

    /// Returns the commands at the ends of the grammar, with their paths.
    fn leaves<'a>(command: &'a Command, path: &str, collected: &mut Vec<(String, &'a Command)>) {
        for below in command.get_subcommands() {
            let path = format!("{path} {}", below.get_name()).trim().to_owned();
            match below.has_subcommands() {
                true => leaves(below, &path, collected),
                false => collected.push((path, below)),
            }
        }
    }

    #[test]
    fn named_commands_and_options_exist() {
        let grammar = grammar::whole();
        let mut command_leaves = Vec::new();
        leaves(&grammar, "", &mut command_leaves);
        let lists = EFFECTS.iter().map(|(_, commands)| commands);
        let lists = lists.chain(NARROW_MEANINGS.iter().map(|(commands, _)| commands));
        let mut names: Vec<&str> = lists
            .flat_map(|commands| match commands {
                In(lists) | NotIn(lists) => lists.iter().copied().flatten().copied(),
            })
            .collect();
        names.extend(OWN_EXIT_CODES.iter().flat_map(|(names, _)| *names));
        names.extend(ASKING);
        for name in names {
            assert!(command_leaves.iter().any(|(path, _)| is_in(&[name], path)), "{name}");
        }
        for id in EFFECTS.iter().flat_map(|(ids, _)| *ids) {
            let has = |command: &Command| command.get_arguments().any(|arg| arg.get_id().as_str() == *id);
            assert!(command_leaves.iter().any(|(_, command)| has(command)), "{id}");
        }
    }

    #[test]
    fn commands_without_json_are_documented() {
        let page = include_str!("../../docs/events.md");
        let row = page.lines().find(|line| line.starts_with("| the same as without `--json`; ")).unwrap();
        let (_, commands) = row.rsplit_once(" | ").unwrap();
        let mut documented: Vec<&str> = commands.split('`').skip(1).step_by(2).collect();
        // It has no JSON of its own, but `--json=bosh` has an effect.
        documented.retain(|command| *command != "interpolate");
        documented.sort_unstable();
        assert_eq!(documented, WITHOUT_JSON);
    }

    /// The help of a command has the options that it uses.
    #[test]
    fn options_without_effect_are_accepted_and_hidden() {
        for (command, option, is_shown) in [
            ("create-env", "--sha2", true),
            ("plan", "--sha2", false),
            ("plan", "--parallel", true),
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
            ("plan", "--encrypt-to", false),
            ("create-env", "--encrypt-to", true),
            ("vars", "--json", true),
            ("vars list", "--json", true),
            ("vars get", "--json", false),
        ] {
            let words = format!("monopile {command} --help");
            let help = grammar::whole().try_get_matches_from(words.split(' ')).unwrap_err().to_string();
            assert_eq!(help.contains(&format!(" {option}")), is_shown, "{words}: {option}");
        }
        let words = "monopile completion bash --sha2 -n --parallel 3 --identity key.txt --json";
        let matches = grammar::whole().try_get_matches_from(words.split(' ')).unwrap();
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
            let help = grammar::whole().try_get_matches_from(words).unwrap_err().to_string();
            let (_, explanation) = help.split_once("Accepted without effect").unwrap();
            let explanation = explanation.split("\n\n").next().unwrap();
            assert!(options.iter().all(|option| explanation.contains(option)), "{explanation}");
        }
        let help = grammar::whole().try_get_matches_from(["monopile", "create-env", "--help"]);
        assert!(!help.unwrap_err().to_string().contains("without effect"));
    }

    #[test]
    fn each_command_has_its_exit_codes() {
        let grammar = grammar::whole();
        let mut command_leaves = Vec::new();
        leaves(&grammar, "", &mut command_leaves);
        let codes_of = |command_path: &str| -> String {
            let (path, command) = command_leaves.iter().find(|(path, _)| path == command_path).unwrap();
            let codes: Vec<&str> = exit_codes(command, path).into_iter().map(|(code, _)| code).collect();
            codes.join(" ")
        };
        for (path, codes) in [
            ("create-env", "0 1 2 3 4 5 130, 143"),
            ("plan", "0 1 2 3 5 7 130, 143"),
            ("status", "0 1 2 3 5 6 130, 143"),
            ("delete-disk", "0 1 2 3 4 130, 143"),
            ("cloud-check", "0 1 2 3 4 5 6 130, 143"),
            ("ssh", "0 1 2 3 5 130, 143 255 others"),
            ("state show", "0 1 2 3"),
            ("disks", "0 1 2 3"),
            ("state backup", "0 1 2 3 4 130, 143"),
            ("cache list", "0 1 2"),
            ("cache prune", "0 1 2 4"),
            ("completion", "0 1 2"),
            ("baremetal node list", "0 1 2 3"),
        ] {
            assert_eq!(codes_of(path), codes, "{path}");
        }
        let codes_of_table: Vec<&str> = exit_code::TABLE.iter().map(|(code, _)| *code).collect();
        for (names, codes) in OWN_EXIT_CODES {
            for (code, _) in codes {
                assert!(
                    codes_of_table.contains(code) || ["255", "others"].contains(code),
                    "{names:?}: {code}"
                );
            }
        }
    }
}
