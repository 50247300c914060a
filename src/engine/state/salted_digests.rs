//! Salted digests, which show that a value changed without revealing it.
//!
//! A reader of the state file can still test guesses against a digest, so the file is as private as a secret
//! (0600).

use std::collections::BTreeMap;

use aws_lc_rs::hmac;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use base::encoding::sorted_json;

/// The length of shortened digests, in bytes.
const DIGEST_BYTES: usize = 16;

/// The salt of one record: 32 hexadecimal digits. Digests of different records cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Salt(String);

impl Salt {
    /// Creates a new random salt.
    pub(super) fn fresh() -> Self {
        Salt(uuid::Uuid::new_v4().simple().to_string())
    }

    /// Returns the HMAC-SHA-256 of a name and its value, shortened to 128 bits, as hex.
    pub(super) fn digest(&self, name: &str, value: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes());
        let tag = hmac::sign(&key, format!("{name}\0{value}").as_bytes());
        hex::encode(tag.as_ref().get(..DIGEST_BYTES).unwrap_or_default())
    }
}

/// The leaves of the deployed manifest: their digests by path, and the shown text of values that are not
/// secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaves {
    salt: Salt,
    digests: BTreeMap<String, String>,
    /// Descriptions of the values that are not secret.
    #[serde(default, alias = "shown", skip_serializing_if = "BTreeMap::is_empty")]
    descriptions: BTreeMap<String, String>,
}

impl Leaves {
    /// Computes the digests of leaves, given as path and value.
    pub fn of<'a>(leaves: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let salt = Salt::fresh();
        let digests =
            leaves.into_iter().map(|(path, value)| (path.to_owned(), salt.digest(path, value))).collect();
        Leaves { salt, digests, descriptions: BTreeMap::new() }
    }

    /// Records descriptions of values that are not secret, by path.
    #[must_use]
    pub fn with_descriptions(self, descriptions: impl IntoIterator<Item = (String, String)>) -> Self {
        Leaves { descriptions: descriptions.into_iter().collect(), ..self }
    }

    /// Returns the description of the value at this path, if it was not secret.
    pub fn description(&self, path: &str) -> Option<&str> {
        self.descriptions.get(path).map(String::as_str)
    }

    /// Returns true if the leaf at this path had this value, or `None` if there was no such leaf.
    pub fn had_value(&self, path: &str, value: &str) -> Option<bool> {
        self.digests.get(path).map(|digest| *digest == self.salt.digest(path, value))
    }

    /// Returns the paths of all leaves, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.digests.keys().map(String::as_str)
    }
}

/// The properties of a VM. Except for its tags, they cannot be changed while it exists. The stemcell has its
/// own record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VmProperties {
    /// The name of its availability zone.
    pub az: Value,
    /// The cloud properties for `create_vm`.
    pub cloud_properties: Value,
    /// The networks for `create_vm`.
    pub networks: Value,
    /// The environment of its agent, without tags.
    pub env: Value,
    /// The address of its agent, and the other settings that the CPI gives to the agent.
    pub agent: Value,
    /// True if it has a persistent disk.
    pub persistent_disk: Value,
    /// The tags of its metadata. Only they can be changed on an existing VM.
    pub tags: Value,
}

/// One part of a [`VmProperties`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VmPropertiesPart {
    /// The availability zone.
    Az,
    /// The cloud properties.
    CloudProperties,
    /// The networks.
    Networks,
    /// The environment of the agent.
    Env,
    /// The settings that the CPI gives to the agent.
    Agent,
    /// The presence of a persistent disk.
    PersistentDisk,
    /// The tags.
    Tags,
}

impl VmPropertiesPart {
    const ALL: [Self; 7] = [
        Self::Az,
        Self::CloudProperties,
        Self::Networks,
        Self::Env,
        Self::Agent,
        Self::PersistentDisk,
        Self::Tags,
    ];

    fn name(self) -> &'static str {
        match self {
            VmPropertiesPart::Az => "az",
            VmPropertiesPart::CloudProperties => "cloud_properties",
            VmPropertiesPart::Networks => "networks",
            VmPropertiesPart::Env => "env",
            VmPropertiesPart::Agent => "agent",
            VmPropertiesPart::PersistentDisk => "persistent_disk",
            VmPropertiesPart::Tags => "tags",
        }
    }
}

/// The digests of a VM's [`VmProperties`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmPropertiesDigests {
    salt: Salt,
    #[serde(flatten)]
    digests: BTreeMap<String, String>,
}

impl VmPropertiesDigests {
    /// Computes the digests of VM properties, with a new salt.
    pub fn of(properties: &VmProperties) -> Self {
        let salt = Salt::fresh();
        let digest = |part: VmPropertiesPart| salt.digest(part.name(), &sorted_json(properties.get(part)));
        let digests =
            VmPropertiesPart::ALL.into_iter().map(|part| (part.name().to_owned(), digest(part))).collect();
        VmPropertiesDigests { salt, digests }
    }

    /// Returns false if the VM was made without a persistent disk.
    pub fn has_persistent_disk(&self) -> bool {
        let part = VmPropertiesPart::PersistentDisk.name();
        self.digests.get(part) != Some(&self.salt.digest(part, &sorted_json(&Value::Bool(false))))
    }

    /// Returns the parts that differ from the record or are missing in it.
    pub fn differences(&self, desired: &VmProperties) -> Vec<VmPropertiesPart> {
        let digest = |part: VmPropertiesPart| self.salt.digest(part.name(), &sorted_json(desired.get(part)));
        VmPropertiesPart::ALL
            .into_iter()
            .filter(|part| self.digests.get(part.name()) != Some(&digest(*part)))
            .collect()
    }
}

impl VmProperties {
    fn get(&self, part: VmPropertiesPart) -> &Value {
        match part {
            VmPropertiesPart::Az => &self.az,
            VmPropertiesPart::CloudProperties => &self.cloud_properties,
            VmPropertiesPart::Networks => &self.networks,
            VmPropertiesPart::Env => &self.env,
            VmPropertiesPart::Agent => &self.agent,
            VmPropertiesPart::PersistentDisk => &self.persistent_disk,
            VmPropertiesPart::Tags => &self.tags,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn leaf_digests_show_changes_but_no_values() {
        let leaves = Leaves::of([("/name", "\"bosh\""), ("/password", "\"hunter2\"")]);
        assert_eq!(leaves.had_value("/name", "\"bosh\""), Some(true));
        assert_eq!(leaves.had_value("/name", "\"other\""), Some(false));
        assert_eq!(leaves.had_value("/new", "1"), None);
        let text = serde_json::to_string(&leaves).unwrap();
        assert!(!text.contains("bosh") && !text.contains("hunter2"), "{text}");
        assert_ne!(
            leaves,
            Leaves::of([("/name", "\"bosh\""), ("/password", "\"hunter2\"")]),
            "two digests have the same salt"
        );
    }

    #[test]
    fn key_order_does_not_matter() {
        let properties = |cloud_properties| VmProperties { cloud_properties, ..VmProperties::default() };
        let record = VmPropertiesDigests::of(&properties(json!({"a": 1, "b": {"c": [1, 2], "d": 2}})));
        assert_eq!(record.differences(&properties(json!({"b": {"d": 2, "c": [1, 2]}, "a": 1}))), []);
        let other = properties(json!({"a": 1, "b": {"c": [2, 1], "d": 2}}));
        assert_eq!(record.differences(&other), [VmPropertiesPart::CloudProperties]);
    }

    #[test]
    fn missing_parts_count_as_changed() {
        let mut document = serde_json::to_value(VmPropertiesDigests::of(&VmProperties::default())).unwrap();
        document.as_object_mut().unwrap().remove("env");
        let record: VmPropertiesDigests = serde_json::from_value(document).unwrap();
        assert_eq!(record.differences(&VmProperties::default()), [VmPropertiesPart::Env]);
    }
}
