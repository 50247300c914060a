//! `monopile baremetal`: shows nodes of a standalone Ironic, and manages volume connectors and targets.
//! Options have the names of `openstack baremetal`.

mod connection;
mod node;
mod output;
mod pairs;
mod volume;

use clap::{Args, Subcommand};

use super::finish::CommandResult;
use super::session::Session;
use base::Result;
use connection::Connection;

#[derive(Debug, Clone, Args)]
pub(super) struct BaremetalArgs {
    #[command(flatten)]
    connection: Connection,

    #[command(subcommand)]
    command: BaremetalCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum BaremetalCommand {
    /// List, show and validate nodes
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// Manage volume connectors and volume targets of nodes
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
}

impl BaremetalArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let ironic = || self.connection.connect(session);
        match self.command {
            BaremetalCommand::Node(command) => command.run(session, &ironic()?),
            BaremetalCommand::Volume(command) => command.run(session, ironic),
        }
    }
}
