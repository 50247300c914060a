//! `monopile baremetal`: manages the nodes of a standalone Ironic with their ports, volume connectors and
//! volume targets. Commands and options have the names of `openstack baremetal`.
//!
//! The commands are rows of a table ([`commands`]), described by data: the fields of a [`resource`], and
//! options ([`field`]).

mod call;
mod collect;
mod commands;
mod connection;
mod field;
mod grid;
mod object_commands;
mod output;
mod pairs;
mod resource;
mod states;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::finish::CommandResult;
use super::session::Session;
use base::Result;
use call::Call;
use commands::CommandSpec;
use connection::Connection;

pub(super) use commands::examples;

/// A command with its arguments.
pub(super) struct BaremetalArgs {
    connection: Connection,
    spec: &'static CommandSpec,
    matches: ArgMatches,
}

// The arguments may contain passwords, so Debug omits them.
impl std::fmt::Debug for BaremetalArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BaremetalArgs").field("spec", &self.spec.path).finish_non_exhaustive()
    }
}

impl Args for BaremetalArgs {
    fn augment_args(command: Command) -> Command {
        commands::with_subcommands(Connection::augment_args(command), "")
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for BaremetalArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let connection = Connection::from_arg_matches(matches)?;
        let (mut path, mut matches) = (Vec::new(), matches);
        while let Some((name, subcommand)) = matches.subcommand() {
            path.push(name);
            matches = subcommand;
        }
        let spec = commands::find(&path.join(" "))
            .ok_or_else(|| clap::Error::raw(ErrorKind::MissingSubcommand, "a command is missing\n"))?;
        Ok(BaremetalArgs { connection, spec, matches: matches.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl BaremetalArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        (self.spec.run)(&Call::new(session, self.spec, &self.matches, &self.connection))
    }
}
