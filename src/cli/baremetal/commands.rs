//! The commands as a table, and their description for clap.

use clap::Command;

use super::call::Call;
use super::field::{Field, Purpose, ValueKind};
use super::resource::{ALLOCATION, CONNECTOR, CONNECTOR_TYPES, NODE, PORT, Resource, TARGET};
use super::{collect, object_commands, output, states};
use crate::cli::finish::CommandResult;
use base::Result;

/// A command as data.
pub(in crate::cli) struct CommandSpec {
    /// The words of the command after `baremetal`.
    pub path: &'static str,
    /// The summary in the help.
    summary: &'static str,
    /// More paragraphs of the help, or an empty text.
    details: &'static str,
    examples: &'static [&'static str],
    /// The kind of resource.
    pub(super) resource: &'static Resource,
    /// The arguments, in the order of the help.
    pub(super) args: &'static [ArgGroup],
    /// The target of a change of the provision state, and the state that it ends in.
    pub(super) transition: Option<(&'static str, &'static str)>,
    /// The function that makes the requests and returns the output.
    pub(super) run: fn(&Call) -> Result<CommandResult>,
}

/// A group of arguments of a command.
pub(super) enum ArgGroup {
    /// The options for the fields of the resource.
    Fields(Purpose),
    /// Options of this command that are not about a field.
    OfCommand(&'static [Field]),
    /// Options that the server takes as arguments of a list.
    Query(&'static [Field]),
    /// The options of a command that prints one object.
    PrintsOne,
    /// The options of a command that prints a list.
    PrintsMany,
}

/// The groups of commands.
const GROUPS: &[(&str, &str)] = &[
    ("node", "Enrol, prepare, power and retire nodes"),
    ("node power", "Power nodes on and off"),
    ("node boot", "Choose the boot device of nodes"),
    ("node boot device", "Set and show the boot device of nodes"),
    ("node maintenance", "Put nodes into maintenance, or end it"),
    ("node trait", "Manage the traits of nodes"),
    ("port", "Manage ports: the network cards of nodes"),
    ("allocation", "Manage allocations: reservations of nodes"),
    ("volume", "Manage volume connectors and volume targets of nodes"),
    ("volume connector", "Manage volume connectors: the initiators of nodes"),
    ("volume target", "Manage volume targets: the volumes of nodes"),
];

const NODE_ID: Field = Field::new("id", "", "NODE", ValueKind::Text, "Node, by name or UUID").as_positional();
const NODE_IDS: Field =
    Field::new("id", "", "NODE", ValueKind::List, "Nodes, by name or UUID").as_positional();
const RECORD_ID: Field = Field::new("id", "", "UUID", ValueKind::Text, "UUID of the record").as_positional();
const RECORD_IDS: Field =
    Field::new("id", "", "UUID", ValueKind::List, "UUIDs of the records to delete").as_positional();
const DEVICE: Field =
    Field::new("device", "", "DEVICE", ValueKind::Text, "Boot device, such as pxe, disk or cdrom")
        .as_positional();
const TRAITS: Field =
    Field::new("trait", "", "TRAIT", ValueKind::List, "Traits, such as CUSTOM_SSD").as_positional();

const FIELDS: Field =
    Field::new("fields", "", "FIELD", ValueKind::List, "Show only these fields, separated by commas");

/// The options of commands that list objects.
const LISTING: &[Field] = &[
    Field::switch("long", "Show all fields").with_visible_alias(&["detail"]),
    FIELDS.with_conflict("long"),
    Field::new("limit", "", "N", ValueKind::Number, "List at most N records; 0 lists all"),
    Field::new("marker", "", "UUID", ValueKind::Text, "List only records after the one with this UUID"),
    Field::new(
        "sort",
        "",
        "KEY[:DIRECTION][,…]",
        ValueKind::Sort,
        "Sort by these fields, each `asc` or `desc` [default: asc]",
    )
    .with_long_help(
        "Ironic sorts by a field of the record itself. By node_uuid, and by several fields, monopile sorts \
         after it has read all records.",
    ),
];
const BY_NODE: &[Field] =
    &[Field::new("node", "node", "NODE", ValueKind::Text, "List only those of this node, by name or UUID")];
const NODE_QUERY: &[Field] = &[
    Field::new(
        "provision-state",
        "provision_state",
        "STATE",
        ValueKind::Text,
        "List only nodes in this provision state",
    ),
    Field::new(
        "resource-class",
        "resource_class",
        "CLASS",
        ValueKind::Text,
        "List only nodes of this resource class",
    ),
];

const WAIT: Field = Field::new(
    "wait",
    "",
    "DURATION",
    ValueKind::OptionalDuration,
    "Wait for the end of the change, at most this long [default: do not wait]",
)
.with_long_help("Without a duration, waits as long as the change takes.");
const POWER_TIMEOUT: Field = Field::new(
    "power-timeout",
    "",
    "DURATION",
    ValueKind::Duration,
    "Give up waiting for the power state after this time [default: 5m]",
);
const SOFT: Field = Field::switch("soft", "Ask the operating system to shut down");
const CLEAN_STEPS: Field =
    Field::new("clean-steps", "", "JSON", ValueKind::Text, "Cleaning steps, a JSON list").as_required();
const RESCUE_PASSWORD: Field = Field::new(
    "rescue-password",
    "",
    "PASSWORD",
    ValueKind::Text,
    "Password of the user rescue [default: asks on a terminal]",
)
.with_long_help("Other users of this machine can see the command line.");
const PERSISTENT: Field = Field::switch("persistent", "Boot from the device each time, not only once");
const ONLY_SUPPORTED: Field = Field::switch("supported", "List the devices that the node can boot from");
const REASON: Field = Field::new("reason", "", "TEXT", ValueKind::Text, "Reason of the maintenance");
const POWER_OFF: Field = Field::switch("power-off", "Power off the node first if it is on").with_long_help(
    "On a terminal, asks first. With -n or --json, or without a terminal, powers off without asking. The \
     node stays off.",
);
/// An option that OpenStack's client has. Ironic refuses to remove `boot_index`, and scripts get its error.
const UNSET_BOOT_INDEX: Field =
    Field::switch("boot-index", "Remove `boot_index`").with_aliases(&["boot_index"]).as_hidden();
const SHOW_USERNAMES: Field =
    Field::switch("show-usernames", "Show `auth_username` of targets, which is masked otherwise");
const COLLECT: &[Field] = &[
    Field::new("node", "", "NODE", ValueKind::Node, "Node, by name or UUID").as_required(),
    Field::new(
        "ssh",
        "",
        "[USER@]HOST",
        ValueKind::Text,
        "Collect on this machine, with the ssh of this one",
    ),
    Field::new("type", "", "TYPE", ValueKind::Choice(CONNECTOR_TYPES), "Collect only this type (repeatable)")
        .as_repeatable(),
];

pub(in crate::cli) static COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        path: "node create",
        summary: "Enrol a node",
        details: "The node begins in the state `enroll`. `node manage` and `node provide` make it available. \
         An interface without an option is that of the driver.",
        examples: &["baremetal node create --driver ipmi --name node-1 --driver-info ipmi_address=10.0.0.9"],
        resource: &NODE,
        args: &[ArgGroup::Fields(Purpose::Create), ArgGroup::PrintsOne],
        transition: None,
        run: object_commands::create,
    },
    CommandSpec {
        path: "node list",
        summary: "List nodes",
        details: "",
        examples: &["baremetal node list --provision-state available"],
        resource: &NODE,
        args: &[ArgGroup::Query(NODE_QUERY), ArgGroup::OfCommand(LISTING), ArgGroup::PrintsMany],
        transition: None,
        run: object_commands::list,
    },
    CommandSpec {
        path: "node show",
        summary: "Show a node",
        details: "",
        examples: &["baremetal node show node-1"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_ID, FIELDS]), ArgGroup::PrintsOne],
        transition: None,
        run: object_commands::show,
    },
    CommandSpec {
        path: "node validate",
        summary: "Check that each interface of a node is ready for a deploy",
        details: "",
        examples: &["baremetal node validate node-1"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_ID]), ArgGroup::PrintsMany],
        transition: None,
        run: states::validate,
    },
    CommandSpec {
        path: "node set",
        summary: "Change nodes",
        details: "Overwrites the values that you name; all others stay.",
        examples: &["baremetal node set node-1 --resource-class baremetal --property \
             capabilities=iscsi_boot:true"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS]), ArgGroup::Fields(Purpose::Set)],
        transition: None,
        run: object_commands::set,
    },
    CommandSpec {
        path: "node unset",
        summary: "Remove fields and keys of nodes",
        details: "Deletes the values without asking. An interface goes back to the default of the driver.",
        examples: &["baremetal node unset node-1 --property capabilities"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS]), ArgGroup::Fields(Purpose::Unset)],
        transition: None,
        run: object_commands::unset,
    },
    CommandSpec {
        path: "node delete",
        summary: "Delete nodes from Ironic",
        details: "Deletes the records in Ironic: the nodes with their ports, volume connectors and volume \
         targets. The machines and the volumes on the storage stay as they are. Ironic refuses a \
         node with an instance.\n\nOn a terminal, asks first. With -n or --json, or without a \
         terminal, deletes without asking.",
        examples: &["baremetal node delete node-1"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS])],
        transition: None,
        run: object_commands::delete,
    },
    CommandSpec {
        path: "node manage",
        summary: "Check the access to nodes, and make them manageable",
        details: "From the state `enroll` or `available` to `manageable`, in which nodes are prepared.",
        examples: &["baremetal node manage node-1 --wait 5m"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS, WAIT])],
        transition: Some(("manage", "manageable")),
        run: states::provision,
    },
    CommandSpec {
        path: "node provide",
        summary: "Make nodes available for deploys",
        details: "From the state `manageable` to `available`.",
        examples: &["baremetal node provide node-1 --wait 30m"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS, WAIT])],
        transition: Some(("provide", "available")),
        run: states::provision,
    },
    CommandSpec {
        path: "node inspect",
        summary: "Let Ironic find the properties of nodes",
        details: "From the state `manageable`, and back to it.",
        examples: &["baremetal node inspect node-1 --wait 30m"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS, WAIT])],
        transition: Some(("inspect", "manageable")),
        run: states::provision,
    },
    CommandSpec {
        path: "node clean",
        summary: "Run cleaning steps on nodes",
        details: "From the state `manageable`, and back to it. A step can erase the disks of the machine.",
        examples: &["baremetal node clean node-1 --clean-steps '[{\"interface\": \"deploy\", \"step\": \
             \"erase_devices_metadata\"}]'"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS, CLEAN_STEPS, WAIT])],
        transition: Some(("clean", "manageable")),
        run: states::provision,
    },
    CommandSpec {
        path: "node adopt",
        summary: "Take over nodes that already run an instance",
        details: "From the state `manageable` to `active`.",
        examples: &["baremetal node adopt node-1 --wait 5m"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS, WAIT])],
        transition: Some(("adopt", "active")),
        run: states::provision,
    },
    CommandSpec {
        path: "node abort",
        summary: "Stop the inspection, cleaning or deploy of nodes",
        details: "",
        examples: &["baremetal node abort node-1"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS])],
        transition: Some(("abort", "")),
        run: states::provision,
    },
    CommandSpec {
        path: "node undeploy",
        summary: "End the instances of nodes",
        details: "From the state `active` to `available`. Ironic powers the machine off and deletes its \
         volume targets; the volumes on the storage stay. For an environment of monopile, use \
         delete-env instead.\n\nOn a terminal, asks first. With -n or --json, or without a \
         terminal, goes ahead without asking.",
        examples: &["baremetal node undeploy node-1 --wait 30m"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS, WAIT])],
        transition: Some(("deleted", "available")),
        run: states::provision,
    },
    CommandSpec {
        path: "node rescue",
        summary: "Boot nodes into a rescue system",
        details: "From the state `active` to `rescue`.",
        examples: &["baremetal node rescue node-1 --wait 15m"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS, RESCUE_PASSWORD, WAIT])],
        transition: Some(("rescue", "rescue")),
        run: states::provision,
    },
    CommandSpec {
        path: "node unrescue",
        summary: "Boot nodes from their own system again",
        details: "From the state `rescue` to `active`.",
        examples: &["baremetal node unrescue node-1 --wait 15m"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS, WAIT])],
        transition: Some(("unrescue", "active")),
        run: states::provision,
    },
    CommandSpec {
        path: "node power on",
        summary: "Power nodes on",
        details: "Waits until they are on.",
        examples: &["baremetal node power on node-1"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS, POWER_TIMEOUT])],
        transition: None,
        run: states::power_on,
    },
    CommandSpec {
        path: "node power off",
        summary: "Power nodes off",
        details: "Waits until they are off.",
        examples: &["baremetal node power off node-1 --soft"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS, SOFT, POWER_TIMEOUT])],
        transition: None,
        run: states::power_off,
    },
    CommandSpec {
        path: "node reboot",
        summary: "Power nodes off and on again",
        details: "Waits until they are on.",
        examples: &["baremetal node reboot node-1"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS, SOFT, POWER_TIMEOUT])],
        transition: None,
        run: states::reboot,
    },
    CommandSpec {
        path: "node boot device set",
        summary: "Set the device from which nodes boot next",
        details: "",
        examples: &["baremetal node boot device set node-1 pxe --persistent"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS, DEVICE, PERSISTENT])],
        transition: None,
        run: states::set_boot_device,
    },
    CommandSpec {
        path: "node boot device show",
        summary: "Show the device from which a node boots",
        details: "",
        examples: &["baremetal node boot device show node-1"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_ID, ONLY_SUPPORTED]), ArgGroup::PrintsOne],
        transition: None,
        run: states::show_boot_device,
    },
    CommandSpec {
        path: "node maintenance set",
        summary: "Put nodes into maintenance",
        details: "Ironic does not deploy a node in maintenance, and does not watch its power state.",
        examples: &["baremetal node maintenance set node-1 --reason 'new disk'"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS, REASON])],
        transition: None,
        run: states::set_maintenance,
    },
    CommandSpec {
        path: "node maintenance unset",
        summary: "End the maintenance of nodes",
        details: "",
        examples: &["baremetal node maintenance unset node-1"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_IDS])],
        transition: None,
        run: states::unset_maintenance,
    },
    CommandSpec {
        path: "node trait add",
        summary: "Add traits to a node",
        details: "",
        examples: &["baremetal node trait add node-1 CUSTOM_SSD"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_ID, TRAITS])],
        transition: None,
        run: states::add_traits,
    },
    CommandSpec {
        path: "node trait list",
        summary: "List the traits of a node",
        details: "",
        examples: &["baremetal node trait list node-1"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_ID]), ArgGroup::PrintsMany],
        transition: None,
        run: states::list_traits,
    },
    CommandSpec {
        path: "node trait remove",
        summary: "Remove traits from a node",
        details: "",
        examples: &["baremetal node trait remove node-1 CUSTOM_SSD"],
        resource: &NODE,
        args: &[ArgGroup::OfCommand(&[NODE_ID, TRAITS])],
        transition: None,
        run: states::remove_traits,
    },
    CommandSpec {
        path: "port create",
        summary: "Create a port: a network card of a node",
        details: "A node needs one before it can be deployed.",
        examples: &["baremetal port create 52:54:00:12:34:56 --node node-1"],
        resource: &PORT,
        args: &[ArgGroup::Fields(Purpose::Create), ArgGroup::PrintsOne],
        transition: None,
        run: object_commands::create,
    },
    CommandSpec {
        path: "port list",
        summary: "List ports",
        details: "",
        examples: &["baremetal port list --node node-1"],
        resource: &PORT,
        args: &[ArgGroup::Query(BY_NODE), ArgGroup::OfCommand(LISTING), ArgGroup::PrintsMany],
        transition: None,
        run: object_commands::list,
    },
    CommandSpec {
        path: "port show",
        summary: "Show a port",
        details: "",
        examples: &["baremetal port show 3fa85f64-5717-4562-b3fc-2c963f66afa6"],
        resource: &PORT,
        args: &[ArgGroup::OfCommand(&[RECORD_ID, FIELDS]), ArgGroup::PrintsOne],
        transition: None,
        run: object_commands::show,
    },
    CommandSpec {
        path: "port delete",
        summary: "Delete ports",
        details: "Deletes the records in Ironic without asking.",
        examples: &["baremetal port delete 3fa85f64-5717-4562-b3fc-2c963f66afa6"],
        resource: &PORT,
        args: &[ArgGroup::OfCommand(&[RECORD_IDS])],
        transition: None,
        run: object_commands::delete,
    },
    CommandSpec {
        path: "allocation list",
        summary: "List allocations: reservations of nodes",
        details: "",
        examples: &["baremetal allocation list --node node-1"],
        resource: &ALLOCATION,
        args: &[ArgGroup::Query(BY_NODE), ArgGroup::OfCommand(LISTING), ArgGroup::PrintsMany],
        transition: None,
        run: object_commands::list,
    },
    CommandSpec {
        path: "allocation show",
        summary: "Show an allocation",
        details: "",
        examples: &["baremetal allocation show 3fa85f64-5717-4562-b3fc-2c963f66afa6"],
        resource: &ALLOCATION,
        args: &[ArgGroup::OfCommand(&[RECORD_ID, FIELDS]), ArgGroup::PrintsOne],
        transition: None,
        run: object_commands::show,
    },
    CommandSpec {
        path: "allocation delete",
        summary: "Delete allocations",
        details: "Deletes the records in Ironic without asking. Ironic refuses if the node has an instance.",
        examples: &["baremetal allocation delete 3fa85f64-5717-4562-b3fc-2c963f66afa6"],
        resource: &ALLOCATION,
        args: &[ArgGroup::OfCommand(&[RECORD_IDS])],
        transition: None,
        run: object_commands::delete,
    },
    CommandSpec {
        path: "volume connector create",
        summary: "Create a volume connector",
        details: "",
        examples: &["baremetal volume connector create --node node-1 --type iqn --connector-id \
             iqn.2026-01.org:n1"],
        resource: &CONNECTOR,
        args: &[ArgGroup::Fields(Purpose::Create), ArgGroup::PrintsOne],
        transition: None,
        run: object_commands::create,
    },
    CommandSpec {
        path: "volume connector collect",
        summary: "Create the volume connectors that a machine reports",
        details: "Reads the name of the iSCSI initiator (`/etc/iscsi/initiatorname.iscsi`), the names of \
         fibre channel adapters (`/sys/class/fc_host`), and the addresses of network cards: here, \
         or with --ssh on another machine, as the user root if only root can read them. Lists the \
         connectors of the machine. Connectors that the node has already stay as they are.",
        examples: &[
            "baremetal volume connector collect --node node-1",
            "baremetal volume connector collect --node node-1 --ssh root@10.0.0.9 --type iqn",
        ],
        resource: &CONNECTOR,
        args: &[ArgGroup::OfCommand(COLLECT), ArgGroup::PrintsMany],
        transition: None,
        run: collect::collect,
    },
    CommandSpec {
        path: "volume connector list",
        summary: "List volume connectors",
        details: "",
        examples: &["baremetal volume connector list --node node-1"],
        resource: &CONNECTOR,
        args: &[
            ArgGroup::Query(BY_NODE),
            ArgGroup::Fields(Purpose::Filter),
            ArgGroup::OfCommand(LISTING),
            ArgGroup::PrintsMany,
        ],
        transition: None,
        run: object_commands::list,
    },
    CommandSpec {
        path: "volume connector show",
        summary: "Show a volume connector",
        details: "",
        examples: &["baremetal volume connector show 3fa85f64-5717-4562-b3fc-2c963f66afa6"],
        resource: &CONNECTOR,
        args: &[ArgGroup::OfCommand(&[RECORD_ID, FIELDS]), ArgGroup::PrintsOne],
        transition: None,
        run: object_commands::show,
    },
    CommandSpec {
        path: "volume connector set",
        summary: "Change a volume connector",
        details: "Overwrites the values that you name; all others stay. The node must be powered off.",
        examples: &["baremetal volume connector set 3fa85f64-5717-4562-b3fc-2c963f66afa6 --extra rack=7"],
        resource: &CONNECTOR,
        args: &[ArgGroup::OfCommand(&[RECORD_ID, POWER_OFF]), ArgGroup::Fields(Purpose::Set)],
        transition: None,
        run: object_commands::set,
    },
    CommandSpec {
        path: "volume connector unset",
        summary: "Remove keys from a volume connector",
        details: "Deletes the values of these keys without asking. The node must be powered off.",
        examples: &["baremetal volume connector unset 3fa85f64-5717-4562-b3fc-2c963f66afa6 --extra rack"],
        resource: &CONNECTOR,
        args: &[ArgGroup::OfCommand(&[RECORD_ID, POWER_OFF]), ArgGroup::Fields(Purpose::Unset)],
        transition: None,
        run: object_commands::unset,
    },
    CommandSpec {
        path: "volume connector delete",
        summary: "Delete volume connectors",
        details: "Deletes the records in Ironic without asking. The volumes on the storage and their data \
         stay. The nodes must be powered off.",
        examples: &["baremetal volume connector delete 3fa85f64-5717-4562-b3fc-2c963f66afa6"],
        resource: &CONNECTOR,
        args: &[ArgGroup::OfCommand(&[RECORD_IDS, POWER_OFF])],
        transition: None,
        run: object_commands::delete,
    },
    CommandSpec {
        path: "volume target create",
        summary: "Create a volume target",
        details: "",
        examples: &["baremetal volume target create --node node-1 --type iscsi --volume-id vol-1 \
             --boot-index 0"],
        resource: &TARGET,
        args: &[
            ArgGroup::Fields(Purpose::Create),
            ArgGroup::OfCommand(&[SHOW_USERNAMES]),
            ArgGroup::PrintsOne,
        ],
        transition: None,
        run: object_commands::create,
    },
    CommandSpec {
        path: "volume target list",
        summary: "List volume targets",
        details: "",
        examples: &["baremetal volume target list --node node-1"],
        resource: &TARGET,
        args: &[
            ArgGroup::Query(BY_NODE),
            ArgGroup::Fields(Purpose::Filter),
            ArgGroup::OfCommand(LISTING),
            ArgGroup::OfCommand(&[SHOW_USERNAMES]),
            ArgGroup::PrintsMany,
        ],
        transition: None,
        run: object_commands::list,
    },
    CommandSpec {
        path: "volume target show",
        summary: "Show a volume target",
        details: "",
        examples: &["baremetal volume target show 3fa85f64-5717-4562-b3fc-2c963f66afa6"],
        resource: &TARGET,
        args: &[ArgGroup::OfCommand(&[RECORD_ID, FIELDS, SHOW_USERNAMES]), ArgGroup::PrintsOne],
        transition: None,
        run: object_commands::show,
    },
    CommandSpec {
        path: "volume target set",
        summary: "Change a volume target",
        details: "Overwrites the values that you name; all others stay. The node must be powered off.",
        examples: &["baremetal volume target set 3fa85f64-5717-4562-b3fc-2c963f66afa6 --boot-index 1"],
        resource: &TARGET,
        args: &[ArgGroup::OfCommand(&[RECORD_ID, POWER_OFF]), ArgGroup::Fields(Purpose::Set)],
        transition: None,
        run: object_commands::set,
    },
    CommandSpec {
        path: "volume target unset",
        summary: "Remove keys from a volume target",
        details: "Deletes the values of these keys without asking. The node must be powered off.",
        examples: &["baremetal volume target unset 3fa85f64-5717-4562-b3fc-2c963f66afa6 --property \
             target_lun"],
        resource: &TARGET,
        args: &[
            ArgGroup::OfCommand(&[RECORD_ID, POWER_OFF, UNSET_BOOT_INDEX]),
            ArgGroup::Fields(Purpose::Unset),
        ],
        transition: None,
        run: object_commands::unset,
    },
    CommandSpec {
        path: "volume target delete",
        summary: "Delete volume targets",
        details: "Deletes the records in Ironic without asking. The volumes on the storage and their data \
         stay. The nodes must be powered off.",
        examples: &["baremetal volume target delete 3fa85f64-5717-4562-b3fc-2c963f66afa6"],
        resource: &TARGET,
        args: &[ArgGroup::OfCommand(&[RECORD_IDS, POWER_OFF])],
        transition: None,
        run: object_commands::delete,
    },
];

/// Returns the command with these words.
pub(super) fn find(path: &str) -> Option<&'static CommandSpec> {
    COMMANDS.iter().find(|spec| spec.path == path)
}

/// Returns the examples of a command, or those of two commands of a group.
pub(in crate::cli) fn examples(path: &str) -> Vec<&'static str> {
    let is_below = |spec: &&CommandSpec| match path {
        "" => true,
        path => spec.path.strip_prefix(path).is_some_and(|rest| rest.starts_with(' ')),
    };
    match find(path) {
        Some(spec) => spec.examples.to_vec(),
        None => COMMANDS
            .iter()
            .filter(is_below)
            .filter_map(|spec| spec.examples.first().copied())
            .take(2)
            .collect(),
    }
}

/// Adds the commands whose words begin with those of the group `path`.
pub(super) fn with_subcommands(group: Command, path: &str) -> Command {
    let mut names: Vec<&'static str> = Vec::new();
    let paths = COMMANDS.iter().filter_map(|spec| match path {
        "" => Some(spec.path),
        path => spec.path.strip_prefix(path)?.strip_prefix(' '),
    });
    for name in paths.filter_map(|rest| rest.split(' ').next()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let commands = names.into_iter().map(|name| {
        let path = format!("{path} {name}").trim().to_owned();
        match find(&path) {
            Some(spec) => spec.with_arguments(Command::new(name)),
            None => {
                let summary =
                    GROUPS.iter().find(|(group, _)| *group == path).map_or("", |(_, summary)| summary);
                with_subcommands(Command::new(name).about(summary), &path)
            }
        }
    });
    group.subcommands(commands).subcommand_required(true).arg_required_else_help(true)
}

impl CommandSpec {
    /// Adds the help, the arguments and the usage to the command.
    fn with_arguments(&self, command: Command) -> Command {
        let command = command.about(self.summary);
        let command = match self.details {
            "" => command,
            details => command.long_about(format!("{}\n\n{details}", self.summary)),
        };
        let command = self.args.iter().fold(command, |command, group| match group {
            ArgGroup::Fields(purpose) => {
                let fields = self.resource.fields.iter().filter(|field| field.has_option_for(*purpose));
                command.args(fields.map(|field| field.arg(*purpose)))
            }
            ArgGroup::OfCommand(fields) | ArgGroup::Query(fields) => {
                command.args(fields.iter().map(|field| field.arg(Purpose::OfCommand)))
            }
            ArgGroup::PrintsOne => command.args(output::args(false)),
            ArgGroup::PrintsMany => command.args(output::args(true)),
        });
        self.with_folded_usage(command)
    }

    /// Breaks the usage of a command before its required options, if it does not fit into 80 columns.
    fn with_folded_usage(&self, command: Command) -> Command {
        const TEXT_COLUMNS: usize = 72;
        let required_options = command.get_opts().filter(|arg| arg.is_required_set());
        let required_options: Vec<String> =
            required_options.map(|arg| arg.clone().num_args(1).to_string()).collect();
        let (start, end) =
            (format!("monopile baremetal {} [OPTIONS]", self.path), required_options.join(" "));
        let has_words = command.get_positionals().next().is_some();
        match has_words || start.len() + end.len() < TEXT_COLUMNS {
            true => command,
            false => command.override_usage(format!("{start}\n           {end}")),
        }
    }
}
