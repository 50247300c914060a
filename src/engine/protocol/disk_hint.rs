//! The disk hint that a CPI returns for the agent.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A disk hint: the value that `attach_disk` returns, from which the agent finds the disk. It may hold
/// credentials.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DiskHint(Value);

impl DiskHint {
    /// Returns the hint in an answer, which must be a non-empty string or a hash.
    pub fn new(value: &Value) -> Option<Self> {
        let is_hint = value.is_object() || value.as_str().is_some_and(|text| !text.is_empty());
        is_hint.then(|| DiskHint(value.clone()))
    }

    /// Returns the JSON of the hint.
    pub fn as_json(&self) -> &Value {
        &self.0
    }
}

/// Hides the content, which may hold credentials.
impl fmt::Debug for DiskHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DiskHint")
    }
}
