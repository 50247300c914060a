//! The exit codes that each command can end with, and their meanings. `--help`, the man pages and
//! `docs/reference.md` show these, and no others.

use clap::Command;

use super::scope::CommandSet::{self, In};
use super::scope::{CACHE_COMMANDS, CommandNames, STATE_VIEWS, WITHOUT_ENVIRONMENT, is_in};
use base::exit_code;

/// An exit code, or several, with their meaning.
pub type ExitCodeMeaning = (&'static str, &'static str);

/// The exit codes with a special meaning, by command.
const OWN_EXIT_CODES: [(CommandNames, &[ExitCodeMeaning]); 19] = [
    (
        &["create-env"],
        &[
            ("0", "the environment is as the manifest says; if nothing changed, stopped jobs stay stopped"),
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
        &[
            ("1", "CPI, VM, jobs or a download failed, or the outcome of a call is unknown"),
            (
                "5",
                "the agent of the new VM does not answer, or the proxy or jumpbox to the agent cannot be \
                 used",
            ),
        ],
    ),
    (
        &["delete-env"],
        &[
            ("0", "the environment is deleted, also if its agent does not answer"),
            ("1", "CPI, jobs or a download failed, a deletion failed, or the outcome of a call is unknown"),
            ("3", "there is no state (see --allow-missing), or an input is invalid"),
            ("5", NO_WAY_OR_SILENT_MEANING),
        ],
    ),
    (
        &["plan"],
        &[
            ("0", "the plan is made"),
            ("1", "create-env would fail: a download fails or an untracked VM answers, for example"),
            ("3", "create-env would refuse: an input is invalid, or credentials are missing"),
            ("5", NO_WAY_BUT_PLAN_MEANING),
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
                "the CPI does not find the VM or its disk, the disk is not mounted, or another disk is \
                 mounted that is not on record",
            ),
        ],
    ),
    (&["state import"], &[("5", NO_WAY_BUT_WARNING_MEANING)]),
    (
        &["cloud-check", "state verify"],
        &[
            ("0", "no problem is left"),
            ("1", "the last deploy did not finish, or the CPI, the agent or a download failed"),
            ("5", NO_WAY_MEANING),
            ("6", "problems are left, such as an agent that does not answer"),
        ],
    ),
    (&["cpi list", "cpis"], &[("0", "all CPIs answer"), ("1", "a CPI does not answer")]),
    (&["cpi info", "cpi call"], &[("0", "the call succeeded"), ("1", "the call failed")]),
    (&["cpi check"], &[("0", "all checks passed"), ("1", "a check failed, or resources are left")]),
    (&["cpi replay"], &[("others", "the exit status in the transcript")]),
    (&["vars check"], &[("0", "no problem found"), ("3", PROBLEMS_MEANING)]),
    (&["cache import"], &[("1", "an entry cannot be used, or a file cannot be read or written")]),
    (&["cache prune"], &[("4", "another run uses the cache")]),
    (&["cache verify"], &[("1", "an entry cannot be used, or a file cannot be read")]),
    (&["ssh"], &[("255", "ssh failed"), ("others", "exit code of the command on the VM")]),
    (&["scp"], &[("255", "ssh failed"), ("others", "exit code of scp")]),
    (
        &["baremetal"],
        &[
            ("1", "Ironic or Keystone cannot be reached or refuses the request, or a node fails"),
            ("3", "a value is invalid"),
            ("129, 130, 143", "interrupted (SIGHUP, SIGINT, SIGTERM); Ironic goes on with the change"),
        ],
    ),
    (&["version"], &[("1", "the release feed gives no usable answer"), ("2", NO_FEED_MEANING)]),
];

/// Meanings of exit codes for commands that can fail in fewer ways than [`exit_code::CODES`] says.
const NARROW_MEANINGS: [(CommandSet, ExitCodeMeaning); 10] = [
    (
        In(&[WITHOUT_ENVIRONMENT, CACHE_COMMANDS, &["history", "interpolate", "vars"]]),
        ("1", "a file cannot be read or written"),
    ),
    (In(&[STATE_VIEWS, &["state backup", "state forget"]]), ("1", "the state cannot be read or written")),
    (
        In(&[&["logs", "scp", "ssh"]]),
        ("1", "the agent reports an error, or a file cannot be read or written"),
    ),
    (
        In(&[&["restart", "start-env", "stop-env"]]),
        ("1", "jobs or VM failed, or a file cannot be read or written"),
    ),
    (
        In(&[&["delete-disk", "delete-snapshot", "delete-stemcell", "delete-vm"]]),
        ("1", "the CPI failed, the deletion failed, or the outcome of a call is unknown"),
    ),
    (In(&[WITHOUT_ENVIRONMENT, CACHE_COMMANDS]), ("3", "an input is invalid")),
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
pub(super) const ASKING_COMMANDS: CommandNames = &[
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

/// The meaning of "129, 130, 143" for commands that change no state.
const INTERRUPT_MEANING: &str = "interrupted (SIGHUP, SIGINT, SIGTERM)";

/// The meaning of 2 for commands that ask nothing.
const USAGE_MEANING: &str = "the command line is wrong";
/// The meaning of 2 for commands that ask only about an env file.
const TRUST_MEANING: &str = "the command line is wrong, or the env file was not trusted when asked";
/// The meaning of 2 for `version`.
const NO_FEED_MEANING: &str = "the command line is wrong, or no release feed is known";
/// The meaning of 3 for `vars check`.
const PROBLEMS_MEANING: &str = "problems found, or an input is invalid";
/// The meaning of 5 for `cloud-check`, which reports a silent agent as a problem.
const NO_WAY_MEANING: &str = "the proxy or jumpbox to the agent cannot be used";
/// The meaning of 5 for `state import`.
const NO_WAY_BUT_WARNING_MEANING: &str =
    "the proxy or jumpbox to the agent cannot be used; a silent agent is a warning";
/// The meaning of 5 for `plan`.
const NO_WAY_BUT_PLAN_MEANING: &str =
    "the proxy or jumpbox to the agent cannot be used; if only the agent is silent, the plan says so";
/// The meaning of 5 for `delete-env`, which needs no agent before it stops the jobs.
const NO_WAY_OR_SILENT_MEANING: &str =
    "the proxy or jumpbox to the agent cannot be used, or the agent falls silent while it stops the jobs";

/// The word for 5 after commands that do not fail because an agent is silent.
const NO_WAY: &str = "no way to the agent";

/// Meanings of exit codes whose word in [`exit_code::WORDS`] would be wrong, with a word of their own.
const OWN_WORDS: [(&str, &str); 8] = [
    (USAGE_MEANING, "wrong command line"),
    (TRUST_MEANING, "wrong command line or untrusted env file"),
    (NO_FEED_MEANING, "wrong command line"),
    (PROBLEMS_MEANING, "problems found or invalid input"),
    (NO_WAY_MEANING, NO_WAY),
    (NO_WAY_BUT_WARNING_MEANING, NO_WAY),
    (NO_WAY_BUT_PLAN_MEANING, NO_WAY),
    (NO_WAY_OR_SILENT_MEANING, "agent lost"),
];

/// Returns a word for an exit code with this meaning, for `-h`. A code without a word keeps its meaning.
pub(super) fn summary(code: &str, meaning: &'static str) -> &'static str {
    let own_word = OWN_WORDS.iter().find(|(own_meaning, _)| *own_meaning == meaning);
    let word = || exit_code::WORDS.iter().find(|(named_code, _)| *named_code == code);
    own_word.or_else(word).map_or(meaning, |(_, word)| *word)
}

/// Returns the exit codes that the command at `path` can end with. For a group of commands, returns none.
pub(super) fn exit_codes(command: &Command, path: &str) -> Vec<ExitCodeMeaning> {
    if command.has_subcommands() {
        return Vec::new();
    }
    let has_option = |option: &str| {
        command.get_arguments().any(|arg| !arg.is_hide_set() && arg.get_long() == Some(option))
    };
    let is_one_of = |names: &[&str]| is_in(names, path);
    let can_end_with = |code: &str| match code {
        "3" => !is_one_of(&["cache list", "cache prune", "completion"]),
        "4" => has_option("wait-for-lock") || is_one_of(&["cache prune"]),
        "5" => has_option("insecure-agent"),
        "6" => is_one_of(&["status", "cloud-check", "state verify"]),
        "7" => is_one_of(&["plan"]),
        "129, 130, 143" => {
            has_option("vars-exec")
                || is_one_of(&["baremetal", "cache import", "state backup", "state forget"])
        }
        _ => true,
    };
    let own_codes =
        OWN_EXIT_CODES.iter().filter(|(names, _)| is_one_of(names)).flat_map(|(_, codes)| *codes).copied();
    let narrow_meanings =
        NARROW_MEANINGS.iter().filter(|(commands, _)| commands.contains(path)).map(|(_, code)| *code);
    let interrupt_code = (!has_option("wait-for-lock")).then_some(("129, 130, 143", INTERRUPT_MEANING));
    let usage_code = match (is_one_of(ASKING_COMMANDS) || has_option("power-off"), has_option("env-file")) {
        (true, _) => None,
        (false, true) => Some(("2", TRUST_MEANING)),
        (false, false) => Some(("2", USAGE_MEANING)),
    };
    let mut codes: Vec<ExitCodeMeaning> = Vec::new();
    for (code, meaning) in
        own_codes.chain(narrow_meanings).chain(interrupt_code).chain(usage_code).chain(exit_code::CODES)
    {
        if can_end_with(code) && !codes.iter().any(|(other, _)| *other == code) {
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
    use crate::cli::scope::command_leaves;

    #[test]
    fn named_commands_exist() {
        let grammar = grammar::for_all_commands();
        let command_leaves = command_leaves(&grammar);
        let mut names: Vec<&str> =
            NARROW_MEANINGS.iter().flat_map(|(commands, _)| commands.names()).collect();
        names.extend(OWN_EXIT_CODES.iter().flat_map(|(names, _)| *names));
        names.extend(ASKING_COMMANDS);
        for name in names {
            assert!(command_leaves.iter().any(|(path, _)| is_in(&[name], path)), "{name}");
        }
    }

    #[test]
    fn each_command_has_its_exit_codes() {
        let grammar = grammar::for_all_commands();
        let command_leaves = command_leaves(&grammar);
        let codes_of = |command_path: &str| -> String {
            let (path, command) = command_leaves.iter().find(|(path, _)| path == command_path).unwrap();
            let codes: Vec<&str> = exit_codes(command, path).into_iter().map(|(code, _)| code).collect();
            codes.join(" ")
        };
        for (path, codes) in [
            ("create-env", "0 1 2 3 4 5 129, 130, 143"),
            ("plan", "0 1 2 3 5 7 129, 130, 143"),
            ("status", "0 1 2 3 5 6 129, 130, 143"),
            ("delete-disk", "0 1 2 3 4 129, 130, 143"),
            ("cloud-check", "0 1 2 3 4 5 6 129, 130, 143"),
            ("state verify", "0 1 2 3 4 5 6 129, 130, 143"),
            ("ssh", "0 1 2 3 5 129, 130, 143 255 others"),
            ("state show", "0 1 2 3"),
            ("disks", "0 1 2 3"),
            ("state backup", "0 1 2 3 4 129, 130, 143"),
            ("cache export", "0 1 2 3 129, 130, 143"),
            ("cache import", "0 1 2 3 129, 130, 143"),
            ("cache list", "0 1 2"),
            ("cache prune", "0 1 2 4"),
            ("cache verify", "0 1 2 3"),
            ("completion", "0 1 2"),
            ("baremetal node list", "0 1 2 3 129, 130, 143"),
        ] {
            assert_eq!(codes_of(path), codes, "{path}");
        }
        let codes_of_table: Vec<&str> = exit_code::CODES.iter().map(|(code, _)| *code).collect();
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
