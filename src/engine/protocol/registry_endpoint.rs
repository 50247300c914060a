//! The endpoint of a registry, as the journal stores it.

use std::net::SocketAddr;

use base::encoding::basic_authorization;
use net::http_server::AuthorizationDigest;
use serde::{Deserialize, Serialize};

/// The address of a registry and the digest of its credentials. They are enough to start it again without the
/// password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryEndpoint {
    /// The address on which it listens.
    pub address: SocketAddr,
    /// The digest of the accepted `Authorization` header.
    #[serde(rename = "login")]
    pub authorization: AuthorizationDigest,
}

impl RegistryEndpoint {
    /// Creates the endpoint of a registry that accepts this user and password.
    pub fn new(address: SocketAddr, username: &str, password: &str) -> Self {
        let authorization = basic_authorization(username, password);
        RegistryEndpoint { address, authorization: AuthorizationDigest::new(&authorization) }
    }
}
