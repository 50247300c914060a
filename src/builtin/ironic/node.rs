//! A node of Ironic: its initiators, its volume targets, and the targets that wait for their deletion.

use serde_json::{Value, json};

use super::storage::{Export, Initiators, Login};
use super::volume::{VolumeKind, VolumeName};
use crate::cpi::failure::{CpiFailure, CpiResult};
use base::JsonObject;
use ironic::{Client, Collection, IronicError, ListOptions, Patch, Refusal};

/// The key of a node's `extra` with the UUIDs of detached targets that Ironic could not delete yet.
const DETACHED_TARGETS_KEY: &str = "monopile_detached";
/// The key of a target's `extra` with the role of its volume. Only targets of this CPI have it.
const ROLE_KEY: &str = "role";

impl From<IronicError> for CpiFailure {
    fn from(error: IronicError) -> CpiFailure {
        let ok_to_retry = error.is_transient();
        let error = base::Error::from(error);
        let hints = error.hints().to_vec();
        CpiFailure { ok_to_retry, hints, ..CpiFailure::cloud(error.chain().join(": ")) }
    }
}

/// A node, as Ironic described it when it was read.
pub(super) struct Node {
    pub uuid: String,
    pub object: JsonObject,
}

/// A volume target that this CPI created.
pub(super) struct VolumeTarget {
    pub uuid: String,
    pub volume: VolumeName,
    pub kind: VolumeKind,
}

impl Node {
    /// Reads the node with this UUID.
    pub(super) fn read(ironic: &Client, uuid: &str) -> CpiResult<Node> {
        let object = ironic.get(Collection::Nodes, uuid, &[])?;
        Ok(Node { uuid: uuid.to_owned(), object })
    }

    pub(super) fn find_by_vm(ironic: &Client, cid: &str) -> CpiResult<Option<Node>> {
        let filter = ListOptions {
            filters: vec![("instance_uuid", cid.to_owned())],
            returns_all_fields: true,
            ..ListOptions::default()
        };
        let object = ironic.list(Collection::Nodes, &filter)?.into_iter().next();
        Ok(object.map(|object| Node { uuid: text(&object, "uuid").to_owned(), object }))
    }

    /// Returns a field if it is a string, or an empty string otherwise.
    pub(super) fn text(&self, key: &str) -> &str {
        text(&self.object, key)
    }

    /// Returns "node 'NAME'" for messages, with the UUID in place of a missing name.
    pub(super) fn label(&self) -> String {
        label(&self.object)
    }

    /// Returns true if the node is powered off.
    pub(super) fn is_off(&self) -> bool {
        self.text("power_state") == "power off"
    }

    fn extra(&self, key: &str) -> Option<&Value> {
        self.object.get("extra")?.get(key)
    }

    /// Returns the value of a capability. Ironic keeps all of them in one string:
    /// `boot_mode:uefi,iscsi_boot:true`.
    pub(super) fn capability(&self, name: &str) -> Option<&str> {
        capability(&self.object, name)
    }

    /// Returns the node's initiators for the network from which it boots, according to its capabilities. The
    /// inner error is a noun phrase that names what the node lacks.
    pub(super) fn list_initiators(&self, ironic: &Client) -> CpiResult<Result<Initiators, &'static str>> {
        let boots = |name| self.capability(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let (kind, missing): (_, &'static str) = match (boots("iscsi_boot"), boots("fibre_channel_boot")) {
            (true, _) => (
                "iqn",
                "no volume connector of type 'iqn': create one with `monopile baremetal volume connector \
                 create --node NODE --type iqn --connector-id IQN`",
            ),
            (_, true) => (
                "wwpn",
                "no volume connector of type 'wwpn': create one with `monopile baremetal volume connector \
                 create --node NODE --type wwpn --connector-id WWPN`",
            ),
            _ => return Ok(Err("no capability 'iscsi_boot:true' or 'fibre_channel_boot:true'")),
        };
        let connectors = ironic.list(Collection::Connectors, &ListOptions::for_node(&self.uuid))?;
        let names_of_type = |kind: &str| -> Vec<String> {
            let matching_connectors = connectors.iter().filter(|connector| text(connector, "type") == kind);
            matching_connectors.map(|connector| text(connector, "connector_id").to_owned()).collect()
        };
        let names = names_of_type(kind);
        Ok(match (names.is_empty(), kind) {
            (true, _) => Err(missing),
            (false, "iqn") => Ok(Initiators::Iscsi(names)),
            _ => Ok(Initiators::FibreChannel { ports: names, nodes: names_of_type("wwnn") }),
        })
    }

    /// Returns all targets that Ironic has of the node.
    pub(super) fn list_all_targets(&self, ironic: &Client) -> CpiResult<Vec<JsonObject>> {
        Ok(ironic.list(Collection::Targets, &ListOptions::for_node(&self.uuid))?)
    }

    /// Returns the node's targets that this CPI created and has not detached.
    pub(super) fn list_targets(&self, ironic: &Client) -> CpiResult<Vec<VolumeTarget>> {
        let detached_targets = self.detached_targets();
        let mut targets: Vec<VolumeTarget> =
            self.list_all_targets(ironic)?.iter().filter_map(parse_own_target).collect();
        targets.retain(|target| !detached_targets.contains(&target.uuid));
        Ok(targets)
    }

    /// Returns the UUIDs of detached targets that Ironic still has.
    pub(super) fn detached_targets(&self) -> Vec<String> {
        let list = self.extra(DETACHED_TARGETS_KEY).and_then(Value::as_array);
        let texts = list.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }

    /// Replaces the node's list of detached targets that Ironic still has.
    fn set_detached_targets(&self, ironic: &Client, detached_targets: &[String]) -> CpiResult<()> {
        let patch = match (detached_targets, self.extra(DETACHED_TARGETS_KEY)) {
            ([], None) => return Ok(()),
            ([], Some(_)) => Patch::new().remove(&["extra", DETACHED_TARGETS_KEY]),
            (detached_targets, _) => {
                Patch::new().set(&["extra", DETACHED_TARGETS_KEY], json!(detached_targets))
            }
        };
        ironic.update(Collection::Nodes, &self.uuid, &patch)?;
        Ok(())
    }

    /// Creates a target for a volume that is already exported to the node.
    pub(super) fn add_target(
        &self,
        ironic: &Client,
        volume: &VolumeName,
        kind: VolumeKind,
        boot_index: u64,
        export: &Export,
        login: &Login,
    ) -> CpiResult<()> {
        let target = json!({
            "node_uuid": self.uuid,
            "volume_type": export.volume_type(),
            "volume_id": volume.cid(),
            "boot_index": boot_index,
            "properties": export.properties(login),
            "extra": {ROLE_KEY: role(kind)},
        });
        let Value::Object(target) = target else { return Ok(()) };
        ironic.create(Collection::Targets, target)?;
        Ok(())
    }

    /// Deletes a target and returns true. If Ironic rejects this because the node is on, records the target
    /// for [`Node::delete_detached_targets`] and returns false.
    pub(super) fn remove_target(&self, ironic: &Client, uuid: &str) -> CpiResult<bool> {
        match ironic.delete(Collection::Targets, uuid) {
            Ok(()) => Ok(true),
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) if error.refusal() == Some(Refusal::NotPoweredOff) => {
                let mut detached_targets = self.detached_targets();
                if !detached_targets.iter().any(|target| target == uuid) {
                    detached_targets.push(uuid.to_owned());
                    self.set_detached_targets(ironic, &detached_targets)?;
                }
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes the targets that were detached while the node was on, and returns their number. The node must
    /// be off.
    pub(super) fn delete_detached_targets(&self, ironic: &Client) -> CpiResult<usize> {
        let detached_targets = self.detached_targets();
        for uuid in &detached_targets {
            match ironic.delete(Collection::Targets, uuid) {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        self.set_detached_targets(ironic, &[])?;
        Ok(detached_targets.len())
    }

    /// Removes the keys of this CPI from the node's `extra`.
    pub(super) fn clear_extra(&self, ironic: &Client) -> CpiResult<()> {
        let keys = [DETACHED_TARGETS_KEY, METADATA_KEY].into_iter().filter(|key| self.extra(key).is_some());
        let patch = keys.fold(Patch::new(), |patch, key| patch.remove(&["extra", key]));
        if !patch.is_empty() {
            ironic.update(Collection::Nodes, &self.uuid, &patch)?;
        }
        Ok(())
    }
}

/// The key of a node's `extra` with the VM's metadata.
pub(super) const METADATA_KEY: &str = "bosh_metadata";

/// Returns a field if it is a string, or an empty string otherwise.
pub(super) fn text<'o>(object: &'o JsonObject, key: &str) -> &'o str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns "node 'NAME'" for messages, with the UUID in place of a missing name.
pub(super) fn label(node: &JsonObject) -> String {
    let names = ["name", "uuid"].map(|key| text(node, key));
    format!("node '{}'", names.into_iter().find(|name| !name.is_empty()).unwrap_or_default())
}

/// Returns the value of a capability of a node.
pub(super) fn capability<'o>(node: &'o JsonObject, name: &str) -> Option<&'o str> {
    let capabilities = node.get("properties")?.get("capabilities")?.as_str()?;
    capabilities
        .split(',')
        .filter_map(|pair| pair.split_once(':'))
        .find_map(|(key, value)| (key.trim() == name).then_some(value.trim()))
}

fn role(kind: VolumeKind) -> &'static str {
    match kind {
        VolumeKind::Root => "root",
        VolumeKind::Config => "config",
        // Stemcells and snapshots never become targets.
        VolumeKind::Disk | VolumeKind::Stemcell | VolumeKind::Snapshot => "persistent",
    }
}

/// Parses a target. Returns `None` if this CPI did not create it.
fn parse_own_target(target: &JsonObject) -> Option<VolumeTarget> {
    let kind = match target.get("extra")?.get(ROLE_KEY)?.as_str()? {
        "root" => VolumeKind::Root,
        "config" => VolumeKind::Config,
        "persistent" => VolumeKind::Disk,
        _ => return None,
    };
    let volume = VolumeName::parse(kind, text(target, "volume_id"))?;
    Some(VolumeTarget { uuid: text(target, "uuid").to_owned(), volume, kind })
}

/// Returns the persistent disk of a target, if this CPI created it.
pub(super) fn own_disk(target: &JsonObject) -> Option<VolumeName> {
    parse_own_target(target).filter(|target| target.kind == VolumeKind::Disk).map(|target| target.volume)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_parsed_from_one_string() {
        let node = json!({"properties": {"capabilities": "boot_mode:uefi, iscsi_boot:true"}});
        let node = node.as_object().unwrap();
        assert_eq!(capability(node, "iscsi_boot"), Some("true"));
        assert_eq!(capability(node, "boot_mode"), Some("uefi"));
        assert_eq!(capability(node, "boot"), None);
        assert_eq!(capability(&JsonObject::new(), "boot"), None);
    }
}
