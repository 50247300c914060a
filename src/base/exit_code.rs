//! The exit codes of the program. [`CODES`] has their general meanings, [`WORDS`] a word for each;
//! `monopile::cli::exit_codes` has those of each command, for `--help`, the man pages and the reference.

/// The command succeeded.
pub const SUCCESS: u8 = 0;
/// Something outside of monopile failed: CPI, agent, VM, file system, download, bucket.
pub const FAILURE: u8 = 1;
/// The command line is wrong, or the operator answered no.
pub const USAGE: u8 = 2;
/// The input is invalid: manifest, release, stemcell, digest or state.
pub const INVALID_INPUT: u8 = 3;
/// Another run holds the state or the cache, or this run lost its lease.
pub const LOCK_CONFLICT: u8 = 4;
/// The agent cannot be reached.
pub const AGENT_UNREACHABLE: u8 = 5;
/// The IaaS differs from the state.
pub const DRIFT: u8 = 6;
/// `plan --detailed-exitcode` found changes, or an agent that does not answer.
pub const CHANGES_PENDING: u8 = 7;
/// The base to which the number of the interrupting signal is added.
pub const SIGNAL_BASE: u8 = 128;

/// Each code as text, with its meaning.
pub const CODES: [(&str, &str); 9] = [
    ("0", "success"),
    ("1", "failure of the environment: CPI, agent, VM, file system, download, bucket"),
    ("2", "the command line is wrong, or a question was answered with no"),
    ("3", "invalid input: manifest, variables, release, stemcell, digest, state file"),
    ("4", "another run holds the state or the cache, or this run lost its lease"),
    ("5", "the agent cannot be reached"),
    ("6", "drift: the IaaS is not as the state says (status, cloud-check)"),
    ("7", "changes are pending, or the agent does not answer (plan --detailed-exitcode)"),
    ("129, 130, 143", "interrupted (SIGHUP, SIGINT, SIGTERM) with the state saved: run again to continue"),
];

/// Each code as text, with a word for the summary of a command.
pub const WORDS: [(&str, &str); 9] = [
    ("0", "success"),
    ("1", "failure"),
    ("2", "wrong command line or answered no"),
    ("3", "invalid input"),
    ("4", "locked"),
    ("5", "no agent"),
    ("6", "drift"),
    ("7", "changes pending"),
    ("129, 130, 143", "interrupted"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_lists_every_exit_code() {
        let table_codes: Vec<u8> =
            CODES.iter().flat_map(|(codes, _)| codes.split(", ")).map(|code| code.parse().unwrap()).collect();
        let fixed_codes = [
            SUCCESS,
            FAILURE,
            USAGE,
            INVALID_INPUT,
            LOCK_CONFLICT,
            AGENT_UNREACHABLE,
            DRIFT,
            CHANGES_PENDING,
        ];
        assert_eq!(
            table_codes,
            [&fixed_codes[..], &[SIGNAL_BASE + 1, SIGNAL_BASE + 2, SIGNAL_BASE + 15]].concat()
        );
        assert_eq!(CODES.map(|(code, _)| code), WORDS.map(|(code, _)| code));
    }
}
