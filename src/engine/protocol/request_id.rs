//! The id of a CPI call.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The id of one CPI call, which CPIs write into their logs. Never blank. A string in JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RequestId(String);

/// The error for a blank request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request ID is empty")]
pub struct EmptyRequestId;

impl RequestId {
    /// Creates a unique id.
    pub fn fresh() -> Self {
        RequestId(uuid::Uuid::new_v4().to_string())
    }

    /// Returns the text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RequestId {
    type Error = EmptyRequestId;

    fn try_from(text: String) -> Result<Self, EmptyRequestId> {
        if text.trim().is_empty() { Err(EmptyRequestId) } else { Ok(RequestId(text)) }
    }
}

impl FromStr for RequestId {
    type Err = EmptyRequestId;

    fn from_str(text: &str) -> Result<Self, EmptyRequestId> {
        text.to_owned().try_into()
    }
}

impl From<RequestId> for String {
    fn from(id: RequestId) -> Self {
        id.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_blank_request_ids() {
        assert_ne!(RequestId::fresh(), RequestId::fresh());
        let id: RequestId = serde_json::from_str("\"r\"").unwrap();
        assert_eq!((id.as_str(), serde_json::to_string(&id).unwrap().as_str()), ("r", "\"r\""));
        assert_eq!(" ".parse::<RequestId>(), Err(EmptyRequestId));
        serde_json::from_str::<RequestId>("\"\"").unwrap_err();
    }
}
