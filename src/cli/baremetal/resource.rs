//! The resources of Ironic that commands manage, with their fields.

use super::field::{Field, ValueKind};
use ironic::Collection;

/// A type of objects.
pub(super) struct Resource {
    pub collection: Collection,
    pub name: &'static str,
    pub fields: &'static [Field],
    /// The columns of a list.
    pub short: &'static [&'static str],
    /// The columns of a list with all fields. Empty means all fields of the server.
    pub long: &'static [&'static str],
}

/// The connector types in Ironic's documentation. Ironic itself accepts any text.
pub(super) const CONNECTOR_TYPES: &[&str] = &["iqn", "ip", "mac", "wwnn", "wwpn", "port", "portgroup"];

const NODE_OPTION: Field =
    Field::new("node", "node_uuid", "NODE", ValueKind::Node, "Node, by name or UUID").as_required();
const UUID_OPTION: Field =
    Field::new("uuid", "uuid", "UUID", ValueKind::Text, "UUID of the new record [default: a random one]")
        .only_created();
const EXTRA: Field =
    Field::new("extra", "extra", "KEY=VALUE", ValueKind::Pairs, "Set this key of the metadata (repeatable)")
        .can_unset();

pub(super) static CONNECTOR: Resource = Resource {
    collection: Collection::Connectors,
    name: "volume connector",
    fields: &[
        NODE_OPTION,
        Field::new("type", "type", "TYPE", ValueKind::Choice(CONNECTOR_TYPES), "Type of the connector ID")
            .as_required()
            .can_filter(),
        Field::new(
            "connector-id",
            "connector_id",
            "ID",
            ValueKind::Text,
            "ID of the initiator: its name for iqn",
        )
        .as_required()
        .can_filter()
        .with_aliases(&["connector_id"]),
        UUID_OPTION,
        EXTRA,
    ],
    short: &["uuid", "node_uuid", "type", "connector_id"],
    long: &["uuid", "node_uuid", "type", "connector_id", "extra", "created_at", "updated_at"],
};

pub(super) static TARGET: Resource = Resource {
    collection: Collection::Targets,
    name: "volume target",
    fields: &[
        NODE_OPTION,
        Field::new(
            "type",
            "volume_type",
            "TYPE",
            ValueKind::Text,
            "Type of access, such as iscsi or fibre_channel",
        )
        .as_required()
        .can_filter()
        .with_visible_alias(&["volume-type", "volume_type"]),
        Field::new("volume-id", "volume_id", "ID", ValueKind::Text, "ID of the volume on the storage")
            .as_required()
            .can_filter()
            .with_aliases(&["volume_id"]),
        Field::new(
            "boot-index",
            "boot_index",
            "N",
            ValueKind::Number,
            "Boot order among the targets of the node, which boots from 0",
        )
        .as_required()
        .can_filter()
        .with_aliases(&["boot_index"]),
        Field::new(
            "property",
            "properties",
            "KEY=VALUE",
            ValueKind::Pairs,
            "Set this property, such as target_iqn or target_portal (repeatable)",
        )
        .can_unset()
        .with_aliases(&["properties"]),
        UUID_OPTION,
        EXTRA,
    ],
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

pub(super) static PORT: Resource = Resource {
    collection: Collection::Ports,
    name: "port",
    fields: &[
        Field::new("address", "address", "ADDRESS", ValueKind::Text, "MAC address of the network card")
            .as_positional(),
        NODE_OPTION,
        UUID_OPTION,
        text("name", "name", "NAME", "Name of the new port"),
        Field::new("pxe-enabled", "pxe_enabled", "BOOLEAN", ValueKind::Bool, "Boot over this port or not"),
        text("physical-network", "physical_network", "NETWORK", "Network to which the port is connected"),
        Field::new(
            "local-link-connection",
            "local_link_connection",
            "KEY=VALUE",
            ValueKind::Pairs,
            "Set this key of the connection to a switch: switch_id, port_id or switch_info (repeatable)",
        ),
        EXTRA,
    ],
    short: &["uuid", "address"],
    long: &[],
};

pub(super) static ALLOCATION: Resource = Resource {
    collection: Collection::Allocations,
    name: "allocation",
    fields: &[],
    short: &["uuid", "name", "resource_class", "state", "node_uuid"],
    long: &[],
};

/// Describes a field with a text.
const fn text(option: &'static str, key: &'static str, value: &'static str, help: &'static str) -> Field {
    Field::new(option, key, value, ValueKind::Text, help).can_unset()
}

/// Describes the field of a hardware interface.
macro_rules! interface {
    ($name:literal, $title:literal) => {
        text(
            concat!($name, "-interface"),
            concat!($name, "_interface"),
            "INTERFACE",
            concat!($title, " interface"),
        )
    };
}

/// Describes a field of a node with keys and values.
const fn pairs(option: &'static str, key: &'static str, help: &'static str) -> Field {
    Field::new(option, key, "KEY=VALUE", ValueKind::Pairs, help).can_unset()
}

pub(super) static NODE: Resource = Resource {
    collection: Collection::Nodes,
    name: "node",
    fields: &[
        Field::new(
            "driver",
            "driver",
            "DRIVER",
            ValueKind::Text,
            "Driver that controls the machine, such as ipmi or redfish",
        )
        .as_required(),
        text("name", "name", "NAME", "Name of the node"),
        UUID_OPTION,
        text("resource-class", "resource_class", "CLASS", "Resource class, by which manifests choose nodes"),
        pairs(
            "driver-info",
            "driver_info",
            "Set this setting of the driver, such as ipmi_address (repeatable)",
        )
        .with_long_help("Other users of this machine can see a password on the command line."),
        pairs("property", "properties", "Set this property, such as capabilities or cpu_arch (repeatable)"),
        EXTRA,
        pairs("instance-info", "instance_info", "Set this setting of the instance (repeatable)").only_set(),
        text("instance-uuid", "instance_uuid", "UUID", "UUID of the instance on the node").only_set(),
        interface!("bios", "BIOS"),
        interface!("boot", "Boot"),
        interface!("console", "Console"),
        interface!("deploy", "Deploy"),
        interface!("firmware", "Firmware"),
        interface!("inspect", "Inspect"),
        interface!("management", "Management"),
        interface!("network", "Network"),
        interface!("power", "Power"),
        interface!("raid", "RAID"),
        interface!("rescue", "Rescue"),
        interface!("storage", "Storage"),
        interface!("vendor", "Vendor"),
        text("conductor-group", "conductor_group", "GROUP", "Group of conductors that manage the node"),
        text("owner", "owner", "OWNER", "Owner of the node"),
        text("lessee", "lessee", "LESSEE", "Lessee of the node"),
        text("description", "description", "TEXT", "Description of the node"),
        text("shard", "shard", "SHARD", "Shard of the node"),
        text("parent-node", "parent_node", "NODE", "Node that this one is part of"),
        Field::new("network-data", "network_data", "JSON", ValueKind::Json, "Static network configuration")
            .can_unset(),
        Field::new(
            "automated-clean",
            "automated_clean",
            "",
            ValueKind::Switch(true),
            "Clean the node automatically before it becomes available",
        )
        .can_unset(),
        Field::new(
            "no-automated-clean",
            "automated_clean",
            "",
            ValueKind::Switch(false),
            "Do not clean the node automatically",
        )
        .with_conflict("automated-clean"),
        Field::new("protected", "protected", "", ValueKind::Switch(true), "Protect the node from undeploy")
            .only_set()
            .can_unset(),
        text("protected-reason", "protected_reason", "TEXT", "Reason of the protection").only_set(),
        Field::new(
            "retired",
            "retired",
            "",
            ValueKind::Switch(true),
            "Retire the node: it is not provided again",
        )
        .only_set()
        .can_unset(),
        text("retired-reason", "retired_reason", "TEXT", "Reason of the retirement").only_set(),
    ],
    short: &["uuid", "name", "instance_uuid", "power_state", "provision_state", "maintenance"],
    long: &[],
};
