use serde::{Deserialize, Serialize};

use super::Contract;

/// The API version and contract of one CPI call, by which its answer is read, possibly in a later run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The `api_version` of the request.
    pub api_version: u32,
    /// The contract with the stemcell of the call, or the highest that the CPI allows if the call has no
    /// stemcell.
    pub contract: Contract,
}

impl Terms {
    /// Negotiates the terms from the versions of the request and of the stemcell.
    pub fn new(api_version: u32, stemcell: Option<u32>) -> Self {
        Terms { api_version, contract: Contract::negotiate(api_version, stemcell.unwrap_or(u32::MAX)) }
    }
}
