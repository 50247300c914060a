//! The networks of a VM as the IaaS assigned them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The networks of a VM as the IaaS assigned them, which `create_vm` returns with the CID.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Networks(Map<String, Value>);

impl From<Map<String, Value>> for Networks {
    fn from(networks: Map<String, Value>) -> Self {
        Networks(networks)
    }
}

impl Networks {
    /// Returns the settings of each network by name.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }
}
