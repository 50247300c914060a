//! `monopile baremetal node`: lists, shows and validates nodes.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::output::{LINKS, Output};
use super::volume::Listing;
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use base::Result;
use ironic::{Client, Collection, Object};

#[derive(Debug, Clone, Subcommand)]
pub(super) enum NodeCommand {
    /// List nodes
    List(ListArgs),
    /// Show a node
    Show {
        /// Node, by name or UUID
        #[arg(value_name = "NODE")]
        node: String,
        /// Show only these fields, separated by commas
        #[arg(long, value_name = "FIELD", num_args = 1.., value_delimiter = ',')]
        fields: Vec<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Check that each interface of a node is ready for a deploy
    Validate {
        /// Node, by name or UUID
        #[arg(value_name = "NODE")]
        node: String,
        #[command(flatten)]
        output: Output,
    },
}

#[derive(Debug, Clone, Args)]
pub(super) struct ListArgs {
    /// List only nodes in this provision state
    #[arg(long, value_name = "STATE")]
    provision_state: Option<String>,
    /// List only nodes of this resource class
    #[arg(long, value_name = "CLASS")]
    resource_class: Option<String>,
    #[command(flatten)]
    listing: Listing,
    #[command(flatten)]
    output: Output,
}

const COLUMNS: [&str; 6] = ["uuid", "name", "instance_uuid", "power_state", "provision_state", "maintenance"];

impl NodeCommand {
    pub(super) fn run(self, session: &Session, ironic: &Client) -> Result<CommandResult> {
        match self {
            NodeCommand::List(args) => args.run(session, ironic),
            NodeCommand::Show { node, fields, output } => {
                output.show(session, ironic.get(Collection::Nodes, &node, &fields)?)
            }
            NodeCommand::Validate { node, output } => {
                let mut interfaces = ironic.validate(&node)?;
                interfaces.sort_keys();
                let row = |(name, found): (String, Value)| {
                    let reason = found.get("reason").filter(|reason| !reason.is_null()).cloned();
                    let mut row = Object::new();
                    row.insert("Interface".to_owned(), Value::String(name));
                    row.insert("Result".to_owned(), found.get("result").cloned().unwrap_or_default());
                    row.insert("Reason".to_owned(), reason.unwrap_or_else(|| json!("")));
                    row
                };
                output.list(
                    session,
                    &["Interface", "Result", "Reason"],
                    interfaces.into_iter().map(row).collect(),
                )
            }
        }
    }
}

impl ListArgs {
    fn run(self, session: &Session, ironic: &Client) -> Result<CommandResult> {
        let mut filter = self.listing.filter()?;
        let arguments = [("provision_state", self.provision_state), ("resource_class", self.resource_class)];
        filter.arguments.extend(arguments.into_iter().filter_map(|(key, value)| Some((key, value?))));
        let nodes = ironic.list(Collection::Nodes, &filter)?;
        if !filter.detail {
            return self.output.list(session, &self.listing.columns(&COLUMNS, &[]), nodes);
        }
        // All fields of this server are shown.
        let keys = nodes.first().map(|node| node.keys().cloned().collect()).unwrap_or_default();
        let mut keys: Vec<String> = keys;
        keys.retain(|key| !LINKS.contains(&key.as_str()));
        keys.sort();
        let columns: Vec<&str> = match keys.as_slice() {
            [] => COLUMNS.to_vec(),
            keys => keys.iter().map(String::as_str).collect(),
        };
        self.output.list(session, &columns, nodes)
    }
}
