//! `monopile baremetal`: looks into a standalone Ironic, and keeps its volume connectors and targets. Options are
//! named as those of `openstack baremetal`.

mod connection;
mod node;
mod output;
mod pairs;
mod volume;

use clap::{Args, Subcommand};

use super::finish::Finished;
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
    /// Machines
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// Volumes that machines boot from and use
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
}

impl BaremetalArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let ironic = || self.connection.connect(session);
        match self.command {
            BaremetalCommand::Node(command) => command.run(session, &ironic()?),
            BaremetalCommand::Volume(command) => command.run(session, ironic),
        }
    }
}
