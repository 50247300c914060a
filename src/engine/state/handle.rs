//! What a CID means: it names something only together with the CPI that gave it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of something in the world.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Handle {
    /// Its CID.
    pub cid: String,
    /// The name of the CPI that knows it; none for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
}

impl Handle {
    /// The thing that this CPI calls so.
    pub fn new(cid: impl Into<String>, cpi: Option<&str>) -> Self {
        Handle { cid: cid.into(), cpi: cpi.map(str::to_owned) }
    }

    /// Its CPI's name; none for the default CPI.
    pub fn cpi(&self) -> Option<&str> {
        self.cpi.as_deref()
    }
}

/// `'CID'`, with the CPI where it is not the default one.
impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cpi {
            None => write!(f, "'{}'", self.cid),
            Some(cpi) => write!(f, "'{}' of CPI '{cpi}'", self.cid),
        }
    }
}

/// How to find what nobody has a CID of: what it looks like, and where it is. Without a name it is the default CPI's.
pub fn in_iaas(looks_like: &str, cpi: Option<&str>) -> String {
    match cpi {
        Some(cpi) => format!("{looks_like}, in the IaaS of CPI '{cpi}'"),
        None => looks_like.to_owned(),
    }
}
