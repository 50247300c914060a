//! The values of declared variables, as a run finds them.

use std::collections::BTreeSet;

use super::{Definitions, GivenValues, MbusOutline};
use crate::vars_store::{VarsStore, previous};
use base::encoding::sorted_json;
use yaml::Node;

/// A variable that is declared with a type, and so can be generated.
#[derive(Clone)]
pub struct VariableValue {
    /// The name in `variables:`.
    pub name: String,
    /// The value in a form in which equal values are equal; `None` if it would be generated.
    pub value: Option<String>,
    /// True if the vars store is the source of the value.
    pub is_stored: bool,
    /// True if a rotation replaced its value, and the earlier one is kept until the next deploy.
    pub was_rotated: bool,
    /// True if the agent of a VM that has another value refuses this run: `cloud_provider.mbus` or
    /// `cloud_provider.cert` refers to the variable.
    pub is_for_agent: bool,
}

impl std::fmt::Debug for VariableValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (present: {}, stored: {})", self.name, self.value.is_some(), self.is_stored)
    }
}

/// Returns the values of all variables that are declared with a type, in the order of the manifest.
pub(crate) fn values(
    definitions: &Definitions,
    given_values: &GivenValues,
    store: Option<&VarsStore>,
    mbus: &MbusOutline,
) -> Vec<VariableValue> {
    let typed_definitions = definitions.iter().filter(|definition| definition.kind.is_some());
    let rotation_lists = store.and_then(VarsStore::previous).into_iter().chain(given_values.previous());
    let rotated_names: BTreeSet<&str> =
        rotation_lists.flat_map(previous::rotations).flatten().map(|(name, _)| name).collect();
    let find_value = |name: &str| given_values.get(name).or_else(|| store?.get(name));
    let agent_names = mbus.names_for_agent(definitions, |name| find_value(name).is_some());
    typed_definitions
        .map(|definition| {
            let value = find_value(&definition.name).map(canonical);
            VariableValue {
                name: definition.name.clone(),
                is_stored: given_values.get(&definition.name).is_none() && value.is_some(),
                was_rotated: rotated_names.contains(definition.name.as_str()),
                is_for_agent: agent_names.contains(&definition.name),
                value,
            }
        })
        .collect()
}

/// Returns a value as JSON with sorted keys, or as YAML if JSON has no form for it.
fn canonical(node: &Node) -> String {
    node.to_json().map_or_else(|_| yaml::emit(node), |value| sorted_json(&value))
}
