//! Microversions: every request names the version of the API that it is written for.

use std::fmt;
use std::str::FromStr;

/// The header that requests a version, and reports in the answer the version that was served.
pub(super) const VERSION_HEADER: &str = "X-OpenStack-Ironic-API-Version";
/// The highest version that this client was tested with (Ironic 39).
pub(super) const NEWEST_TESTED: Microversion = Microversion(1, 115);

/// A version of the API, such as `1.33`. Versions are ordered by number: 1.9 comes before 1.33.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Microversion(u16, u16);

impl Microversion {
    /// The first version that accepts names of nodes in place of UUIDs.
    pub const NODE_NAMES: Self = Microversion(1, 5);
    /// The first version with volume connectors and targets.
    pub const VOLUMES: Self = Microversion(1, 32);
    /// The first version with `storage_interface` on nodes.
    pub const STORAGE_INTERFACE: Self = Microversion(1, 33);
    /// The first version with allocations.
    pub const ALLOCATIONS: Self = Microversion(1, 52);
    /// The first version that can update allocations.
    pub const ALLOCATION_CHANGES: Self = Microversion(1, 57);
}

impl fmt::Display for Microversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl FromStr for Microversion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let version_error = || format!("'{text}' is not an API version such as 1.33");
        let (major, minor) = text.split_once('.').ok_or_else(version_error)?;
        match (major.parse(), minor.parse()) {
            (Ok(major), Ok(minor)) => Ok(Microversion(major, minor)),
            _ => Err(version_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number_not_as_decimals() {
        let version = |text: &str| text.parse::<Microversion>();
        assert!(version("1.9").unwrap() < version("1.33").unwrap());
        assert_eq!(version("1.115").unwrap().to_string(), "1.115");
        for bad in ["", "1", "1.", "latest", "1.3.3", "-1.3"] {
            assert!(version(bad).is_err(), "{bad}");
        }
    }
}
