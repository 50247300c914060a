//! The terms of a CPI call.

use serde::{Deserialize, Serialize};

use super::Contract;

/// The API version and contract of one CPI call. Its answer is read by these terms, possibly in a later run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The `api_version` of the request.
    pub api_version: u32,
    /// The contract with the stemcell of the call. If the call has no stemcell, the highest contract that the
    /// CPI allows.
    pub contract: Contract,
    /// True if the CPI ships inside the program. Its answer is then believed when it states that the call
    /// made nothing.
    #[serde(default, rename = "builtin", skip_serializing_if = "std::ops::Not::not")]
    pub is_builtin: bool,
}

impl Terms {
    /// Negotiates the terms with a CPI that is not built-in, from the versions of the request and of the
    /// stemcell.
    pub fn new(api_version: u32, stemcell: Option<u32>) -> Self {
        let contract = Contract::negotiate(api_version, stemcell.unwrap_or(u32::MAX));
        Terms { api_version, contract, is_builtin: false }
    }
}
