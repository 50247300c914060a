//! The registry for CPI calls outside a deploy, which needs no tunnel.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};

use super::server::{RegistryCredentials, RegistryServer};
use crate::protocol::RegistryEndpoint;
use crate::state::Document;
use base::{Error, Result};
use manifest::deployment::RegistryConfig;

/// The time that the tasks of a registry have to end, such as writing its content.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// The runtime of a registry. Dropping it does not wait for the resolver of the operating system, as dropping
/// a tokio runtime would.
pub(crate) struct RegistryRuntime {
    handle: Handle,
    /// Always `Some` until the drop.
    runtime: Option<Runtime>,
}

impl RegistryRuntime {
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for RegistryRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        }
    }
}

/// The registry server on a runtime of its own, without a tunnel: it serves CPI calls, and no VM reaches it.
/// Ends when it is dropped.
pub(crate) struct CallRegistry {
    _registry: RegistryServer,
    /// Dropped last, because the registry runs on it.
    _runtime: RegistryRuntime,
}

impl CallRegistry {
    /// Starts the registry that the manifest configures, with this content.
    pub(crate) fn start(config: &RegistryConfig, content: Document) -> Result<Self> {
        let (runtime, registry) = serve(config, loopback_address(config)?, content)?;
        Ok(CallRegistry { _registry: registry, _runtime: runtime })
    }

    /// Restarts the registry of an earlier run, for a CPI process of that run that is still running.
    pub(crate) fn start_again(endpoint: RegistryEndpoint, content: Document) -> Result<Self> {
        let runtime = create_runtime()?;
        let registry = RegistryServer::start_again(runtime.handle(), endpoint, content)?;
        Ok(CallRegistry { _registry: registry, _runtime: runtime })
    }
}

/// Starts a registry on its own runtime.
pub(crate) fn serve(
    config: &RegistryConfig,
    address: SocketAddr,
    content: Document,
) -> Result<(RegistryRuntime, RegistryServer)> {
    let runtime = create_runtime()?;
    let credentials =
        RegistryCredentials { username: config.username.clone(), password: config.password.clone() };
    let registry = RegistryServer::start(runtime.handle(), address, &credentials, content)?;
    Ok((runtime, registry))
}

fn create_runtime() -> Result<RegistryRuntime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("registry")
        .enable_all()
        .build()
        .map_err(|error| Error::io("starting the registry", error))?;
    Ok(RegistryRuntime { handle: runtime.handle().clone(), runtime: Some(runtime) })
}

/// Returns the address to listen on. Fails if it is not a loopback address.
pub(crate) fn loopback_address(config: &RegistryConfig) -> Result<SocketAddr> {
    let config_error = |reason: String| {
        Error::invalid(format!("{} cannot be used: {reason}", config.place)).with_hint(
            "the registry holds credentials and listens on loopback only: use host 127.0.0.1; the VM reaches \
                it through `cloud_provider.ssh_tunnel`",
        )
    };
    let host = config.host.trim_start_matches('[').trim_end_matches(']');
    let mut addresses = (host, config.port)
        .to_socket_addrs()
        .map_err(|error| config_error(format!("the host '{host}' does not resolve (DNS): {error}")))?;
    match addresses.next() {
        Some(address) if address.ip().is_loopback() => Ok(address),
        Some(address) => Err(config_error(format!("{} is not a loopback address", address.ip()))),
        None => Err(config_error(format!("the host '{host}' has no address"))),
    }
}
