use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A disk hint: what `attach_disk` returns for the agent to find the disk by. May hold credentials.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DiskHint(Value);

impl DiskHint {
    /// Takes the hint from an answer: a string that is not empty, or a hash. Nothing else is one.
    pub fn new(value: &Value) -> Option<Self> {
        let is_hint = value.is_object() || value.as_str().is_some_and(|text| !text.is_empty());
        is_hint.then(|| DiskHint(value.clone()))
    }

    /// The JSON of the hint.
    pub fn as_json(&self) -> &Value {
        &self.0
    }
}

/// Shows no credentials.
impl fmt::Debug for DiskHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DiskHint")
    }
}
