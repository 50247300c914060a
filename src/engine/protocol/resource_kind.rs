//! The kinds of resources.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of resource that has CIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceKind {
    /// A VM.
    Vm,
    /// A persistent disk.
    Disk,
    /// A stemcell.
    Stemcell,
    /// A snapshot of a disk.
    Snapshot,
}

impl ResourceKind {
    /// Returns the singular noun for messages.
    pub fn name(self) -> &'static str {
        match self {
            ResourceKind::Vm => "VM",
            ResourceKind::Disk => "disk",
            ResourceKind::Stemcell => "stemcell",
            ResourceKind::Snapshot => "snapshot",
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
