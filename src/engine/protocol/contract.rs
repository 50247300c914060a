//! Negotiates the contract between monopile, a CPI and a stemcell.

use serde::{Deserialize, Serialize};

/// The highest supported CPI API version.
pub const HIGHEST_API_VERSION: u32 = 3;

/// The contract of one environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contract {
    /// The agent takes its settings from a registry; CPI calls return no networks and no hints.
    V1,
    /// The agent takes its settings from the IaaS; `create_vm` returns networks, `attach_disk` a hint.
    V2,
}

impl Contract {
    /// Negotiates the contract from the `api_version` of the CPI (1 if `info` reports none) and of the
    /// stemcell (1 if absent).
    pub fn negotiate(cpi: u32, stemcell: u32) -> Self {
        if cpi >= 2 && stemcell >= 2 { Contract::V2 } else { Contract::V1 }
    }
}

impl std::fmt::Display for Contract {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Contract::V1 => "v1",
            Contract::V2 => "v2",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Contract::{V1, V2};
    use super::*;

    #[test]
    fn contract_v2_needs_cpi_and_stemcell_version_2() {
        for (cpi, stemcell, expected) in
            [(1, 1, V1), (1, 2, V1), (1, 3, V1), (2, 1, V1), (3, 1, V1), (2, 2, V2), (2, 3, V2), (99, 3, V2)]
        {
            assert_eq!(Contract::negotiate(cpi, stemcell), expected, "cpi {cpi}, stemcell {stemcell}");
        }
    }
}
