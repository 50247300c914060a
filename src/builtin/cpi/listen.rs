//! The address of an agent: its host and port in the mbus URL, and the check that the agent can listen there.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use super::agent_settings::AgentConfig;
use super::failure::{CpiFailure, CpiResult, FailureKind};
use net::listener::{self, Listener, OTHER_ADDRESS_HINT};

impl AgentConfig {
    /// Returns the addresses on which the agent will listen: those of the host in the URL.
    pub(crate) fn listen_addresses(&self) -> CpiResult<Vec<SocketAddr>> {
        let url = self.url()?;
        // Messages quote only the host and port of the URL, because it contains a password.
        let mbus_error = || CpiFailure::cloud("agent.mbus must look like https://user:password@host:port");
        let rest = url.strip_prefix("https://").ok_or_else(mbus_error)?;
        let authority = rest.split('/').next().unwrap_or_default();
        let host_port = authority.rsplit_once('@').map_or(authority, |(_, host_port)| host_port);
        let (host, port) = host_port.rsplit_once(':').ok_or_else(mbus_error)?;
        let port: u16 = port.parse().map_err(|_| mbus_error())?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || port == 0 {
            return Err(mbus_error());
        }
        let addresses = (host, port).to_socket_addrs().map_err(|error| {
            CpiFailure::io(format_args!("resolving the host '{host}' of agent.mbus"), error)
        })?;
        Ok(addresses.collect())
    }
}

/// Fails if the agent could listen on none of these addresses, or if the port is in use on one before the
/// first usable one. Without this check, the caller would wait for the agent until a timeout.
pub(crate) fn check_can_listen(addresses: &[SocketAddr]) -> CpiResult<()> {
    for address in addresses {
        match TcpListener::bind(address) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let (occupant, hints) = describe_occupant(address);
                return Err(
                    creation_error(format!("the agent's port is in use: {occupant}")).with_hints(hints)
                );
            }
            Err(error) if Some(address) == addresses.last() => {
                return Err(creation_error(format!("the agent cannot listen on {address}: {error}")));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Describes the process that listens on an address of this machine, and returns the steps for the operator.
pub(crate) fn describe_occupant(address: &SocketAddr) -> (String, Vec<String>) {
    let listener = listener::find(&address.ip().to_string(), address.port());
    let first_step = match &listener {
        Some(Listener::Process { name, .. }) if name == "bosh-agent" => {
            "if that agent's environment is not needed, delete it: `monopile delete-env OTHER-MANIFEST`"
                .to_owned()
        }
        Some(Listener::Process { pid, .. }) => format!("if process {pid} is not needed: `kill {pid}`"),
        Some(Listener::ProcessOfUser(_)) | None => "if that process is not needed, stop it".to_owned(),
    };
    let owner = listener.map_or_else(|| "a process on this machine".to_owned(), |owner| owner.to_string());
    (format!("{owner} listens on {address}"), vec![first_step, format!("otherwise, {OTHER_ADDRESS_HINT}")])
}

fn creation_error(message: String) -> CpiFailure {
    CpiFailure::new(FailureKind::VmCreationFailed, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_is_parsed_from_the_url() {
        let listener = |url: &str| {
            let agent = AgentConfig { mbus: Some(url.to_owned()), cert: None };
            agent.listen_addresses().map(|addresses| addresses[0].to_string()).map_err(|error| error.message)
        };
        assert_eq!(listener("https://u:p@127.0.0.9:6868").unwrap(), "127.0.0.9:6868");
        assert_eq!(listener("https://u:p@t@[::1]:6868/x").unwrap(), "[::1]:6868");
        for bad in [
            "http://u:p@h:1",
            "https://u:s3cret@127.0.0.1",
            "https://u:s3cret@:5",
            "https://u:s3cret@h:0",
            "nats://x",
        ] {
            assert!(!listener(bad).unwrap_err().contains("s3cret"), "{bad}");
        }
    }

    #[test]
    fn port_in_use_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = check_can_listen(&[listener.local_addr().unwrap()]).unwrap_err();
        assert_eq!((error.kind, error.ok_to_retry), (FailureKind::VmCreationFailed, false));
        let step = format!("`kill {}`", std::process::id());
        assert!(error.hints[0].contains(&step), "{:?}", error.hints);
    }
}
