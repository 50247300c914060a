use serde::{Deserialize, Serialize};

use super::Contract;

/// What was in force for a call. Its answer is read by it, maybe in another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The `api_version` of the request.
    pub api_version: u32,
    /// The contract with the stemcell the call is about; what the CPI alone allows where there is none.
    pub contract: Contract,
}

impl Terms {
    /// The terms of a request with this `api_version`, about a stemcell of this one.
    pub fn new(api_version: u32, stemcell: Option<u32>) -> Self {
        Terms { api_version, contract: Contract::negotiate(api_version, stemcell.unwrap_or(u32::MAX)) }
    }
}
