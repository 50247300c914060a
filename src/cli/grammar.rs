//! The grammar of the command line.
//!
//! To describe every argument of every command takes longer than many a command does, and no more than one command is
//! asked for. So the commands stand in the grammar with their names, and [`for_words`] describes the arguments of those
//! that the words can mean.

use std::ffi::OsString;

use clap::builder::{CommandExt, Resettable};
use clap::{ArgMatches, Args, Command, CommandFactory as _, FromArgMatches};

use super::{Cli, help};

/// The arguments of a command, described only when it is asked for.
#[derive(Debug)]
pub(super) struct Later<A>(pub(super) Box<A>);

/// How the arguments of a command are described.
#[derive(Debug, Clone, Copy)]
struct Description(fn(Command) -> Command);

impl CommandExt for Description {}

impl<A: Args> Args for Later<A> {
    fn augment_args(command: Command) -> Command {
        command.add(Description(A::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.add(Description(A::augment_args_for_update))
    }
}

impl<A: FromArgMatches> FromArgMatches for Later<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        A::from_arg_matches(matches).map(|args| Later(Box::new(args)))
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        A::from_arg_matches_mut(matches).map(|args| Later(Box::new(args)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// What is said to a command line that asks for nothing but the version, as programs do to see whether this one is
/// there: no grammar is needed for that.
pub(super) fn version(words: &[OsString]) -> Option<&'static str> {
    let [_, word] = words else { return None };
    let is_asked = ["-v", "-V", "--version"].iter().any(|flag| word == flag);
    is_asked.then_some(concat!("monopile ", env!("CARGO_PKG_VERSION"), "\n"))
}

/// The grammar with all commands described.
pub(super) fn whole() -> Command {
    describing(|_| true)
}

/// The grammar with those commands described whose names are among the words of a command line. No other can be meant,
/// whatever the rest of the words is.
pub(super) fn for_words(words: &[OsString]) -> Command {
    describing(|name| words.iter().any(|word| word == name))
}

/// The grammar with those commands described that have a name that is asked for.
fn describing(asked: impl Fn(&str) -> bool) -> Command {
    let grammar = Cli::command();
    let template = help::template(&grammar);
    grammar.help_template(template).mut_subcommands(|command| match command.get::<Description>().copied() {
        Some(Description(describe)) if asked(command.get_name()) || command.get_all_aliases().any(&asked) => {
            // Groups of arguments say what they are for, but not for the command.
            let about = Resettable::from(command.get_about().cloned());
            let long_about = Resettable::from(command.get_long_about().cloned());
            let name = command.get_name().to_owned();
            help::with_examples(describe(command).about(about).long_about(long_about), &name)
        }
        _ => command,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::globals;

    /// What clap says to these words: an error, help and version included, or what was understood.
    fn said(grammar: Command, words: &[OsString]) -> Result<String, String> {
        let matches = grammar.args(globals::ignored()).try_get_matches_from(words);
        matches.map(|matches| format!("{matches:?}")).map_err(|error| error.render().ansi().to_string())
    }

    #[test]
    fn the_grammar_is_sound() {
        whole().args(globals::ignored()).debug_assert();
    }

    #[test]
    fn every_command_is_described_later() {
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            assert!(
                command.get::<Description>().is_some(),
                "{name} is described although nobody asks for it"
            );
            assert!(command.get_about().is_some(), "help does not say what {name} is for");
        }
    }

    #[test]
    fn the_version_is_what_the_grammar_says_it_is() {
        for (flag, is_version) in
            [("-v", true), ("-V", true), ("--version", true), ("-h", false), ("-vv", false)]
        {
            let words = ["monopile", flag].map(OsString::from);
            let said = said(whole(), &words).unwrap_err();
            assert_eq!(version(&words), is_version.then_some(said.as_str()), "{flag}");
        }
        assert_eq!(version(&["monopile", "plan", "-v"].map(OsString::from)), None);
    }

    /// Whatever is typed, the commands that are not described make no difference.
    #[test]
    fn the_grammar_for_some_words_says_to_them_what_the_whole_says() {
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
        for command in whole().get_subcommands() {
            let name = command.get_name();
            let rests = ["", "--help", "-h", "a", "a b c d", "--no-such-flag", "--stat x", "-n a --json"];
            lines.extend(rests.iter().map(|rest| format!("{name} {rest}")));
        }
        for line in lines {
            let words: Vec<OsString> =
                ["monopile"].into_iter().chain(line.split_whitespace()).map(OsString::from).collect();
            assert_eq!(said(for_words(&words), &words), said(whole(), &words), "monopile {line}");
        }
    }
}
