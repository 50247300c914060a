//! The settings that the CPI gives to the agent: `settings.json` in BOSH's format (docs-bosh,
//! "agent-cpi-interactions"; settings/settings.go of the bosh-agent).

use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use base::{Error, Result};

/// The keys of the document that the agent uses. Other keys are ignored.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct AgentSettings {
    /// The agent id from the arguments of `create_vm`. `get_state` returns it.
    pub agent_id: String,
    /// The name and CID of the VM.
    pub vm: Vm,
    /// The address to listen on, with the credentials of clients: `https://user:password@host:port`.
    pub mbus: String,
    /// Networks by name.
    pub networks: Map<String, Value>,
    pub disks: AttachedDisks,
    /// `env` of `create_vm`.
    pub env: Env,
}

/// The name and CID of the VM.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Vm {
    pub name: String,
    /// The CID of the VM, if the CPI sets it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct AttachedDisks {
    /// The hint of the ephemeral disk, if the VM has one.
    pub ephemeral: Value,
    /// Disk hints by CID, from CPIs of contract v1, which do not return a hint from `attach_disk`.
    pub persistent: Map<String, Value>,
}

/// `env` of `create_vm`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Env {
    /// The section `bosh`.
    pub bosh: BoshEnv,
}

/// `env.bosh`, as far as this agent reads it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct BoshEnv {
    /// The address and certificate of the HTTPS server.
    pub mbus: Mbus,
}

/// `env.bosh.mbus`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Mbus {
    /// Addresses like the top-level `mbus`. The first one takes precedence over it.
    pub urls: Vec<String>,
    /// The certificate of the HTTPS server.
    pub cert: Certificate,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Certificate {
    pub ca: String,
    /// The certificate, followed by intermediate certificates.
    pub certificate: String,
    pub private_key: String,
}

impl AgentSettings {
    /// Reads the settings from a file.
    pub(super) fn load(path: &Path) -> Result<AgentSettings> {
        let text = std::fs::read(path)
            .map_err(|error| Error::io(format!("reading settings '{}'", path.display()), error))?;
        serde_json::from_slice(&text).map_err(|error| {
            Error::invalid(format!("settings '{}' are not in the format of BOSH", path.display()))
                .with_source(error)
        })
    }

    /// Parses the mbus URL.
    pub(super) fn parse_endpoint(&self) -> Result<MbusEndpoint> {
        MbusEndpoint::parse(self.env.bosh.mbus.urls.first().unwrap_or(&self.mbus))
    }
}

/// The parts of an mbus URL.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct MbusEndpoint {
    /// The host name or address to listen on.
    pub host: String,
    /// The port to listen on. With 0, the operating system chooses one.
    pub port: u16,
    /// `user:password`, percent-decoded, for basic authentication.
    pub credentials: String,
}

impl MbusEndpoint {
    /// Parses `https://user:password@host:port`. Errors do not quote the URL, which is a secret.
    pub(super) fn parse(url: &str) -> Result<MbusEndpoint> {
        let settings_error = |problem: &str| {
            Error::invalid(format!(
                "the mbus URL in the settings {problem}: it must be https://user:password@host:port"
            ))
        };
        let rest = url.strip_prefix("https://").ok_or_else(|| settings_error("is not an https:// URL"))?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (userinfo, address) =
            authority.rsplit_once('@').ok_or_else(|| settings_error("has no user and password"))?;
        let (user, password) = userinfo.split_once(':').ok_or_else(|| settings_error("has no password"))?;
        let (host, port) = address.rsplit_once(':').ok_or_else(|| settings_error("has no port"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || user.is_empty() || password.is_empty() {
            return Err(settings_error("has an empty host, user or password"));
        }
        let decode = |text| percent_decode(text).ok_or_else(|| settings_error("has a malformed %-escape"));
        Ok(MbusEndpoint {
            host: host.to_owned(),
            port: port.parse().map_err(|_| settings_error("has a port that is not a number up to 65535"))?,
            credentials: format!("{}:{}", decode(user)?, decode(password)?),
        })
    }

    /// Resolves the host to the address to listen on.
    pub(super) fn resolve_address(&self) -> Result<std::net::SocketAddr> {
        (self.host.as_str(), self.port)
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.next())
            .ok_or_else(|| Error::failure(format!("the mbus host '{}' does not resolve", self.host)))
    }

    /// Returns the host if it is an address at which other machines reach this VM. `0.0.0.0` is not.
    pub(super) fn own_ip(&self) -> Option<IpAddr> {
        self.host.parse::<IpAddr>().ok().filter(|ip| !ip.is_unspecified())
    }
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |b: u8| (b as char).to_digit(16);
            let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mbus_url_is_parsed() {
        let endpoint = MbusEndpoint::parse("https://mbus:p%40ss@word@127.0.0.1:6868/agent").unwrap();
        assert_eq!(endpoint.credentials, "mbus:p@ss@word");
        assert_eq!((endpoint.host.as_str(), endpoint.port), ("127.0.0.1", 6868));
        assert_eq!(MbusEndpoint::parse("https://a:b@[::1]:7").unwrap().host, "::1");
    }

    #[test]
    fn errors_do_not_quote_malformed_mbus_urls() {
        for url in [
            "",
            "http://u:secret@h:1",
            "https://h:1",
            "https://u:secret@h",
            "https://u:secret@h:99999",
            "https://u:secret%zz@h:1",
            "https://u:@h:1",
        ] {
            let error = MbusEndpoint::parse(url).err().unwrap().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn unknown_settings_are_ignored() {
        let settings: AgentSettings = serde_json::from_str(
            r#"{"agent_id":"a","ntp":["x"],"vm":{"name":"v"},"disks":{"system":"/dev/sda"}}"#,
        )
        .unwrap();
        assert_eq!((settings.agent_id.as_str(), settings.vm.name.as_str()), ("a", "v"));
    }
}
