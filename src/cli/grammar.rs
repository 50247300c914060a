//! The grammar of the command line.
//!
//! Describing the arguments of all commands takes longer than running many commands. So [`for_words`]
//! describes only the commands that the command line may name.

use std::ffi::OsString;

use clap::builder::{CommandExt, Resettable};
use clap::{ArgMatches, Args, Command, CommandFactory as _, FromArgMatches};

use super::{Cli, env_file, help};

/// The arguments of a command, described on demand.
#[derive(Debug)]
pub(super) struct LazyArgs<A>(pub(super) Box<A>);

/// The function that describes the arguments of a command.
#[derive(Debug, Clone, Copy)]
struct DescribeArgs(fn(Command) -> Command);

impl CommandExt for DescribeArgs {}

impl<A: Args> Args for LazyArgs<A> {
    fn augment_args(command: Command) -> Command {
        command.add(DescribeArgs(A::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.add(DescribeArgs(A::augment_args_for_update))
    }
}

impl<A: FromArgMatches> FromArgMatches for LazyArgs<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        A::from_arg_matches(matches).map(|args| LazyArgs(Box::new(args)))
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        A::from_arg_matches_mut(matches).map(|args| LazyArgs(Box::new(args)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// The version, with the commit and its date if the build knows them, and the target.
macro_rules! version_text {
    () => {
        concat!(env!("CARGO_PKG_VERSION"), " (", env!("MONOPILE_BUILD"), ")")
    };
}

/// The version that clap prints.
pub(super) const VERSION: &str = version_text!();

/// The output of `--version`.
pub(super) const VERSION_LINE: &str = concat!("monopile ", version_text!(), "\n");

/// Returns the answer to a command line that asks only for the version. Programs use it to detect monopile,
/// so it must be fast.
pub(super) fn version_answer(words: &[OsString]) -> Option<&'static str> {
    let [_, word] = words else { return None };
    let asks_for_version = ["-v", "-V", "--version"].iter().any(|option| word == option);
    asks_for_version.then_some(VERSION_LINE)
}

/// Returns the grammar with all commands described.
pub(super) fn for_all_commands() -> Command {
    describe_commands(|_| true, &|_| true)
}

/// Returns the grammar in which only commands among the words of a command line are described.
pub(super) fn for_words(words: &[OsString]) -> Command {
    describe_commands(|name| words.iter().any(|word| word == name), &|command| help::is_asked(words, command))
}

/// Returns the grammar. Describes only the commands whose name or alias `is_described` accepts.
fn describe_commands(is_described: impl Fn(&str) -> bool, is_help_asked: help::IsAsked<'_>) -> Command {
    let grammar = Cli::command();
    let (template, short, long) =
        (help::template(&grammar), help::short_overview(&grammar), help::overview(&grammar));
    let grammar = grammar.help_template(template).after_help(short).after_long_help(long);
    grammar.term_width(help::columns()).mut_subcommands(|command| {
        match command.get::<DescribeArgs>().copied() {
            Some(DescribeArgs(describe))
                if is_described(command.get_name()) || command.get_all_aliases().any(&is_described) =>
            {
                // Flattened groups of arguments must not replace the description.
                let description = Resettable::from(command.get_about().cloned());
                let long_about = Resettable::from(command.get_long_about().cloned());
                let name = command.get_name().to_owned();
                // A negative duration is a wrong value, not an unknown option.
                let command =
                    env_file::map_all_args(describe(command), &|arg| match help::is_duration(&arg) {
                        true => arg.allow_negative_numbers(true),
                        false => arg,
                    });
                let command = command.about(description).long_about(long_about);
                help::with_notes(command, &name, is_help_asked)
            }
            _ => command,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::globals;

    /// Returns the matches for these words, or the error, which may be help or the version.
    fn parse_result(grammar: Command, words: &[OsString]) -> Result<String, String> {
        let matches = grammar.args(globals::ignored_args()).try_get_matches_from(words);
        matches.map(|matches| format!("{matches:?}")).map_err(|error| error.render().ansi().to_string())
    }

    #[test]
    fn clap_accepts_the_grammar() {
        for_all_commands().args(globals::ignored_args()).debug_assert();
    }

    #[test]
    fn every_command_is_described_lazily() {
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            assert!(command.get::<DescribeArgs>().is_some(), "{name} is described without need");
            assert!(command.get_about().is_some(), "{name} has no description");
        }
    }

    #[test]
    fn fast_version_equals_the_version_of_clap() {
        for (option, is_version) in
            [("-v", true), ("-V", true), ("--version", true), ("-h", false), ("-vv", false)]
        {
            let words = ["monopile", option].map(OsString::from);
            let answer = parse_result(for_all_commands(), &words).unwrap_err();
            assert_eq!(version_answer(&words), is_version.then_some(answer.as_str()), "{option}");
        }
        assert_eq!(version_answer(&["monopile", "plan", "-v"].map(OsString::from)), None);
    }

    /// Undescribed commands make no difference.
    #[test]
    fn partial_grammar_parses_like_the_whole() {
        let mut lines: Vec<String> = [
            "",
            "--help",
            "-h",
            "-V",
            "--version",
            "--json",
            "--parallel",
            "--parallel 0",
            "--no-such-flag",
            "--recreate",
            "--recreat plan",
            "--cpi x delete-vm",
            "no-such-command",
            "creat-env",
            "delete",
            "help",
            "help plan",
            "-- plan",
            "--cache-dir plan status",
            "--cache-dir status plan status",
            "state",
            "state --help",
            "state no-such",
            "state show --help",
            "cck",
            "int a.yml",
            "int plan",
            "interpolate plan -o status",
            "create-env a.yml b.yml",
            "create-env a.yml -n --parallel 7 -e x",
            "sha1ify-release a.tgz b.tgz",
            "completion bash",
            "completion tcsh",
        ]
        .map(str::to_owned)
        .into();
        for command in for_all_commands().get_subcommands() {
            let name = command.get_name();
            let rests = ["", "--help", "-h", "a", "a b c d", "--no-such-flag", "--stat x", "-n a --json"];
            lines.extend(rests.iter().map(|rest| format!("{name} {rest}")));
        }
        let full_grammar = for_all_commands();
        for line in lines {
            let words: Vec<OsString> =
                ["monopile"].into_iter().chain(line.split_whitespace()).map(OsString::from).collect();
            assert_eq!(
                parse_result(for_words(&words), &words),
                parse_result(full_grammar.clone(), &words),
                "monopile {line}"
            );
        }
    }
}
