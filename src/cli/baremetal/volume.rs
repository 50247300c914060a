//! `monopile baremetal volume connector` and `monopile baremetal volume target`: manage the initiators and
//! the volumes of nodes.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::output::Output;
use super::pairs;
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use base::{Error, Result};
use ironic::{Client, Collection, ListOptions, Object, Patch};

#[derive(Debug, Clone, Subcommand)]
pub(super) enum VolumeCommand {
    /// Manage volume connectors: the initiators of nodes
    #[command(subcommand)]
    Connector(Command<ConnectorCreate, ConnectorSet>),
    /// Manage volume targets: the volumes of nodes
    #[command(subcommand)]
    Target(Command<TargetCreate, TargetSet>),
}

#[derive(Debug, Clone, Subcommand)]
pub(super) enum Command<C: Args, S: Args> {
    /// Create a volume record
    Create {
        #[command(flatten)]
        fields: C,
        #[command(flatten)]
        output: Output,
    },
    /// List volume records
    List {
        /// List only those of this node, by name or UUID
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
        #[command(flatten)]
        listing: Listing,
        #[command(flatten)]
        output: Output,
    },
    /// Show a volume record
    Show {
        /// UUID of the record
        #[arg(value_name = "UUID")]
        uuid: String,
        /// Show only these fields, separated by commas
        #[arg(long, value_name = "FIELD", num_args = 1.., value_delimiter = ',')]
        fields: Vec<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Change a volume record
    ///
    /// Overwrites the values that you name; all others stay. The node must be powered off.
    Set {
        /// UUID of the record
        #[arg(value_name = "UUID")]
        uuid: String,
        #[command(flatten)]
        fields: S,
    },
    /// Remove keys from a volume record
    ///
    /// Deletes the values of these keys without asking. The node must be powered off.
    Unset {
        /// UUID of the record
        #[arg(value_name = "UUID")]
        uuid: String,
        /// Remove this key of the metadata (repeatable)
        #[arg(long, value_name = "KEY")]
        extra: Vec<String>,
        /// Remove this key of a target's properties (repeatable)
        #[arg(long = "property", value_name = "KEY")]
        properties: Vec<String>,
    },
    /// Delete volume records
    ///
    /// Deletes the records in Ironic without asking. The volumes on the storage and their data stay. The
    /// nodes must be powered off.
    Delete {
        /// UUIDs of the records to delete
        #[arg(value_name = "UUID", required = true)]
        uuids: Vec<String>,
    },
}

#[derive(Debug, Clone, Args)]
pub(super) struct Listing {
    /// Show all fields
    #[arg(long, visible_alias = "detail")]
    long: bool,
    /// Show only these fields, separated by commas
    #[arg(long, value_name = "FIELD", num_args = 1.., value_delimiter = ',', conflicts_with = "long")]
    fields: Vec<String>,
    /// List at most N records; 0 lists all
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// List only records after the one with this UUID
    #[arg(long, value_name = "UUID")]
    marker: Option<String>,
    /// Sort by these fields, each `asc` or `desc` [default: asc]
    #[arg(long, value_name = "KEY[:DIRECTION][,…]", value_delimiter = ',', value_parser = sort_key)]
    sort: Vec<(String, bool)>,
}

/// Parses a field to sort by; true means descending.
fn sort_key(text: &str) -> std::result::Result<(String, bool), String> {
    match text.split_once(':').unwrap_or((text, "asc")) {
        ("", _) => Err("the field is empty".to_owned()),
        (key, direction @ ("asc" | "desc")) => Ok((key.to_owned(), direction == "desc")),
        _ => Err("expected KEY, KEY:asc or KEY:desc".to_owned()),
    }
}

impl Listing {
    pub(super) fn filter(&self) -> Result<ListOptions> {
        if self.sort.len() > 1 && self.marker.is_some() {
            return Err(Error::usage("--marker cannot be combined with several fields in --sort"));
        }
        Ok(ListOptions {
            detail: self.long,
            fields: self.fields.clone(),
            limit: self.limit.filter(|limit| *limit > 0),
            marker: self.marker.clone(),
            sort: self.sort.clone(),
            ..ListOptions::default()
        })
    }

    /// Returns the requested columns. By default, returns `short`, or `long` with `--long`.
    pub(super) fn columns<'c>(&'c self, short: &[&'c str], long: &[&'c str]) -> Vec<&'c str> {
        match (self.fields.as_slice(), self.long) {
            ([], true) => long.to_vec(),
            ([], false) => short.to_vec(),
            (fields, _) => fields.iter().map(String::as_str).collect(),
        }
    }
}

/// The connector types in Ironic's documentation. Ironic itself accepts any text.
const CONNECTOR_TYPES: [&str; 7] = ["iqn", "ip", "mac", "wwnn", "wwpn", "port", "portgroup"];

#[derive(Debug, Clone, Args)]
pub(super) struct ConnectorCreate {
    /// Node, by name or UUID
    #[arg(long, value_name = "NODE")]
    node: String,
    /// Type of the connector ID
    #[arg(long = "type", value_name = "TYPE", value_parser = CONNECTOR_TYPES)]
    kind: String,
    /// ID of the initiator: its name for iqn
    #[arg(long, value_name = "ID")]
    connector_id: String,
    /// UUID of the new record [default: a random one]
    #[arg(long, value_name = "UUID")]
    uuid: Option<String>,
    /// Set this key of the metadata (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pairs::parse)]
    extra: Vec<(String, Value)>,
}

#[derive(Debug, Clone, Args)]
pub(super) struct ConnectorSet {
    /// Node, by name or UUID
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Type of the connector ID
    #[arg(long = "type", value_name = "TYPE", value_parser = CONNECTOR_TYPES)]
    kind: Option<String>,
    /// ID of the initiator: its name for iqn
    #[arg(long, value_name = "ID")]
    connector_id: Option<String>,
    /// Set this key of the metadata (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pairs::parse)]
    extra: Vec<(String, Value)>,
}

#[derive(Clone, Args)]
pub(super) struct TargetCreate {
    /// Node, by name or UUID
    #[arg(long, value_name = "NODE")]
    node: String,
    /// Type of access, such as iscsi or fibre_channel
    #[arg(long = "type", visible_alias = "volume-type", value_name = "TYPE")]
    kind: String,
    /// ID of the volume on the storage
    #[arg(long, value_name = "ID")]
    volume_id: String,
    /// Boot order among the targets of the node, which boots from 0
    #[arg(long, value_name = "N")]
    boot_index: u32,
    /// Set this property, such as target_iqn or target_portal (repeatable)
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = pairs::parse)]
    properties: Vec<(String, Value)>,
    /// UUID of the new record [default: a random one]
    #[arg(long, value_name = "UUID")]
    uuid: Option<String>,
    /// Set this key of the metadata (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pairs::parse)]
    extra: Vec<(String, Value)>,
}

#[derive(Clone, Args)]
pub(super) struct TargetSet {
    /// Node, by name or UUID
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Type of access, such as iscsi or fibre_channel
    #[arg(long = "type", visible_alias = "volume-type", value_name = "TYPE")]
    kind: Option<String>,
    /// ID of the volume on the storage
    #[arg(long, value_name = "ID")]
    volume_id: Option<String>,
    /// Boot order among the targets of the node, which boots from 0
    #[arg(long, value_name = "N")]
    boot_index: Option<u32>,
    /// Set this property, such as target_iqn or target_portal (repeatable)
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = pairs::parse)]
    properties: Vec<(String, Value)>,
    /// Set this key of the metadata (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pairs::parse)]
    extra: Vec<(String, Value)>,
}

// Properties may hold a password, so Debug omits them.
impl std::fmt::Debug for TargetCreate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TargetCreate").field("node", &self.node).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TargetSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TargetSet").field("node", &self.node).finish_non_exhaustive()
    }
}

/// The differences between the two kinds.
struct VolumeKind {
    collection: Collection,
    name: &'static str,
    short: &'static [&'static str],
    long: &'static [&'static str],
}

const CONNECTOR: VolumeKind = VolumeKind {
    collection: Collection::Connectors,
    name: "volume connector",
    short: &["uuid", "node_uuid", "type", "connector_id"],
    long: &["uuid", "node_uuid", "type", "connector_id", "extra", "created_at", "updated_at"],
};
const TARGET: VolumeKind = VolumeKind {
    collection: Collection::Targets,
    name: "volume target",
    short: &["uuid", "node_uuid", "volume_type", "boot_index", "volume_id"],
    long: &[
        "uuid",
        "node_uuid",
        "volume_type",
        "properties",
        "boot_index",
        "extra",
        "volume_id",
        "created_at",
        "updated_at",
    ],
};

/// Arguments that describe a new object.
pub(super) trait New {
    fn object(self, session: &Session, ironic: &Client) -> Result<Object>;
}

/// Arguments that describe changes to an object.
pub(super) trait Change {
    fn patch(self, session: &Session, ironic: &Client) -> Result<Patch>;
    fn is_empty(&self) -> bool;
}

impl VolumeCommand {
    pub(super) fn run(self, session: &Session, ironic: impl Fn() -> Result<Client>) -> Result<CommandResult> {
        match self {
            VolumeCommand::Connector(command) => command.run(session, ironic, &CONNECTOR),
            VolumeCommand::Target(command) => command.run(session, ironic, &TARGET),
        }
    }
}

impl<C: Args + New, S: Args + Change> Command<C, S> {
    fn run(
        self,
        session: &Session,
        ironic: impl Fn() -> Result<Client>,
        kind: &VolumeKind,
    ) -> Result<CommandResult> {
        match self {
            Command::Create { fields, output } => {
                let ironic = ironic()?;
                let object = fields.object(session, &ironic)?;
                output.show(session, ironic.create(kind.collection, object)?)
            }
            Command::List { node, listing, output } => {
                let mut filter = listing.filter()?;
                filter.arguments.extend(node.map(|node| ("node", node)));
                let found = ironic()?.list(kind.collection, &filter)?;
                output.list(session, &listing.columns(kind.short, kind.long), found)
            }
            Command::Show { uuid, fields, output } => {
                output.show(session, ironic()?.get(kind.collection, &uuid, &fields)?)
            }
            Command::Set { uuid, fields } => {
                if fields.is_empty() {
                    return Err(Error::usage("nothing to set")
                        .with_hint("name at least one field, for instance --extra KEY=VALUE"));
                }
                let ironic = ironic()?;
                let patch = fields.patch(session, &ironic)?;
                ironic.update(kind.collection, &uuid, &patch)?;
                Ok(CommandResult::Output(Vec::new()))
            }
            Command::Unset { uuid, extra, properties } => {
                let mut patch = Patch::new();
                for (object, keys) in [("extra", extra), ("properties", properties)] {
                    patch = keys.iter().fold(patch, |patch, key| patch.remove(&[object, key]));
                }
                if patch.is_empty() {
                    return Err(Error::usage("nothing to unset")
                        .with_hint("name at least one key, for instance --extra KEY"));
                }
                ironic()?.update(kind.collection, &uuid, &patch)?;
                Ok(CommandResult::Output(Vec::new()))
            }
            Command::Delete { uuids } => delete(session, &ironic()?, kind, &uuids),
        }
    }
}

/// Deletes all objects that can be deleted, and returns the first failure.
fn delete(session: &Session, ironic: &Client, kind: &VolumeKind, uuids: &[String]) -> Result<CommandResult> {
    let mut failures = Vec::new();
    for uuid in uuids {
        match ironic.delete(kind.collection, uuid) {
            Ok(()) => session.reporter.note(format!("Deleted {} {uuid}", kind.name)),
            Err(error) => failures.push((uuid, Error::from(error))),
        }
    }
    let count = failures.len();
    let mut failures = failures.into_iter();
    let Some((uuid, first)) = failures.next() else { return Ok(CommandResult::Output(Vec::new())) };
    for (uuid, error) in failures {
        session.reporter.warn(format!("{} {uuid} was not deleted: {}", kind.name, error.chain().join(": ")));
    }
    let others = match count - 1 {
        0 => String::new(),
        1 => ", and another failed as well".to_owned(),
        more => format!(", and {more} others failed as well"),
    };
    Err(first.context(format!("{} {uuid} was not deleted{others}", kind.name)))
}

impl New for ConnectorCreate {
    fn object(self, _: &Session, ironic: &Client) -> Result<Object> {
        let mut object = Object::new();
        object.insert("node_uuid".into(), json!(ironic.node_uuid(&self.node)?));
        object.insert("type".into(), json!(self.kind));
        object.insert("connector_id".into(), json!(self.connector_id));
        insert(&mut object, "uuid", self.uuid);
        insert(&mut object, "extra", Some(self.extra).filter(|extra| !extra.is_empty()).map(pairs::object));
        Ok(object)
    }
}

impl New for TargetCreate {
    fn object(self, session: &Session, ironic: &Client) -> Result<Object> {
        hide(session, &self.properties);
        let mut object = Object::new();
        object.insert("node_uuid".into(), json!(ironic.node_uuid(&self.node)?));
        object.insert("volume_type".into(), json!(self.kind));
        object.insert("volume_id".into(), json!(self.volume_id));
        object.insert("boot_index".into(), json!(self.boot_index));
        object.insert("properties".into(), pairs::object(self.properties));
        insert(&mut object, "uuid", self.uuid);
        insert(&mut object, "extra", Some(self.extra).filter(|extra| !extra.is_empty()).map(pairs::object));
        Ok(object)
    }
}

fn insert(object: &mut Object, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object.insert(key.to_owned(), value.into());
    }
}

impl Change for ConnectorSet {
    fn patch(self, _: &Session, ironic: &Client) -> Result<Patch> {
        let patch = set_node(Patch::new(), self.node, ironic)?;
        let patch = set(patch, "type", self.kind);
        let patch = set(patch, "connector_id", self.connector_id);
        Ok(set_keys(patch, "extra", self.extra))
    }

    fn is_empty(&self) -> bool {
        self.node.is_none() && self.kind.is_none() && self.connector_id.is_none() && self.extra.is_empty()
    }
}

impl Change for TargetSet {
    fn patch(self, session: &Session, ironic: &Client) -> Result<Patch> {
        hide(session, &self.properties);
        let patch = set_node(Patch::new(), self.node, ironic)?;
        let patch = set(patch, "volume_type", self.kind);
        let patch = set(patch, "volume_id", self.volume_id);
        let patch = set(patch, "boot_index", self.boot_index);
        Ok(set_keys(set_keys(patch, "properties", self.properties), "extra", self.extra))
    }

    fn is_empty(&self) -> bool {
        let fields = [self.node.is_none(), self.kind.is_none(), self.volume_id.is_none()];
        fields.iter().all(|none| *none)
            && self.boot_index.is_none()
            && self.properties.is_empty()
            && self.extra.is_empty()
    }
}

fn set_node(patch: Patch, node: Option<String>, ironic: &Client) -> Result<Patch> {
    Ok(match node {
        Some(node) => patch.set(&["node_uuid"], ironic.node_uuid(&node)?),
        None => patch,
    })
}

fn set(patch: Patch, key: &str, value: Option<impl Into<Value>>) -> Patch {
    match value {
        Some(value) => patch.set(&[key], value),
        None => patch,
    }
}

/// Sets each key separately, so that other keys keep their values.
fn set_keys(patch: Patch, object: &str, pairs: Vec<(String, Value)>) -> Patch {
    pairs.into_iter().fold(patch, |patch, (key, value)| patch.set(&[object, &key], value))
}

/// Redacts the passwords among the properties.
fn hide(session: &Session, properties: &[(String, Value)]) {
    for (_, value) in properties.iter().filter(|(key, _)| ironic::is_secret(key)) {
        if let Value::String(text) = value {
            session.redactor.add(text);
        }
    }
}
