//! What the CPI tells the agent: `settings.json` in BOSH's format (docs-bosh, "agent-cpi-interactions";
//! settings/settings.go of the agent).

use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use base::{Error, Result};

/// The document, as far as the agent uses it. Unknown keys are ignored.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct AgentSettings {
    /// The id `create_vm` was given; `get_state` answers with it.
    pub agent_id: String,
    /// The VM as the CPI calls it.
    pub vm: Vm,
    /// Where to listen and who may talk: `https://user:password@host:port`.
    pub mbus: String,
    /// Networks by name.
    pub networks: Map<String, Value>,
    /// Disks as the CPI knows them.
    pub disks: Disks,
    /// `env` of `create_vm`.
    pub env: Env,
}

/// The VM as the CPI calls it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Vm {
    /// Its name.
    pub name: String,
    /// Its cloud id, where the CPI says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
}

/// Disks as the CPI knows them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Disks {
    /// Hints by disk CID, for CPIs that do not return a hint from `attach_disk`.
    pub persistent: Map<String, Value>,
}

/// `env` of `create_vm`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Env {
    /// BOSH's own part of it.
    pub bosh: BoshEnv,
}

/// BOSH's own part of `env`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct BoshEnv {
    /// Certificate of the HTTPS server.
    pub mbus: Mbus,
}

/// `env.bosh.mbus`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Mbus {
    /// Where to listen, first of several; wins over the top-level `mbus`.
    pub urls: Vec<String>,
    /// Certificate of the HTTPS server.
    pub cert: Certificate,
}

/// A certificate and its key, PEM.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Certificate {
    /// Who signed it.
    pub ca: String,
    /// The certificate, its intermediates after it.
    pub certificate: String,
    /// Its private key.
    pub private_key: String,
}

impl AgentSettings {
    /// Reads the document.
    pub(super) fn load(path: &Path) -> Result<AgentSettings> {
        let text = std::fs::read(path)
            .map_err(|e| Error::io(format!("reading settings '{}'", path.display()), e))?;
        serde_json::from_slice(&text).map_err(|e| {
            Error::invalid(format!("settings '{}' are not what a CPI writes", path.display())).with_source(e)
        })
    }

    /// Where to listen and who may talk.
    pub(super) fn endpoint(&self) -> Result<Endpoint> {
        Endpoint::parse(self.env.bosh.mbus.urls.first().unwrap_or(&self.mbus))
    }
}

/// The parts of an mbus URL.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Host name or address to listen on.
    pub host: String,
    /// Port to listen on; 0 lets the system choose.
    pub port: u16,
    /// `user:password`, decoded, as basic auth carries it.
    pub credentials: String,
}

impl Endpoint {
    /// Takes `https://user:password@host:port` apart. The URL is a secret: errors do not repeat it.
    pub(super) fn parse(url: &str) -> Result<Endpoint> {
        let bad = |what: &str| Error::invalid(format!("the mbus URL in the settings {what}"));
        let rest = url.strip_prefix("https://").ok_or_else(|| bad("is not an https:// URL"))?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (userinfo, address) =
            authority.rsplit_once('@').ok_or_else(|| bad("has no user and password"))?;
        let (user, password) = userinfo.split_once(':').ok_or_else(|| bad("has no password"))?;
        let (host, port) = address.rsplit_once(':').ok_or_else(|| bad("has no port"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || user.is_empty() || password.is_empty() {
            return Err(bad("has an empty host, user or password"));
        }
        let decode = |text| percent_decode(text).ok_or_else(|| bad("has a broken %-escape"));
        Ok(Endpoint {
            host: host.to_owned(),
            port: port.parse().map_err(|_| bad("has a port that is not a number"))?,
            credentials: format!("{}:{}", decode(user)?, decode(password)?),
        })
    }

    /// The address to bind.
    pub(super) fn address(&self) -> Result<std::net::SocketAddr> {
        (self.host.as_str(), self.port)
            .to_socket_addrs()
            .ok()
            .and_then(|mut found| found.next())
            .ok_or_else(|| Error::environment(format!("mbus host '{}' has no address", self.host)))
    }

    /// The address others see, where the URL names one (`0.0.0.0` does not).
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
    fn mbus_urls_are_taken_apart() {
        let endpoint = Endpoint::parse("https://mbus:p%40ss@word@127.0.0.1:6868/agent").unwrap();
        assert_eq!(endpoint.credentials, "mbus:p@ss@word");
        assert_eq!((endpoint.host.as_str(), endpoint.port), ("127.0.0.1", 6868));
        assert_eq!(Endpoint::parse("https://a:b@[::1]:7").unwrap().host, "::1");
    }

    #[test]
    fn broken_mbus_urls_are_refused_without_repeating_them() {
        for url in [
            "",
            "http://u:secret@h:1",
            "https://h:1",
            "https://u:secret@h",
            "https://u:secret@h:99999",
            "https://u:secret%zz@h:1",
            "https://u:@h:1",
        ] {
            let error = Endpoint::parse(url).err().unwrap().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn settings_ignore_what_they_do_not_know() {
        let settings: AgentSettings = serde_json::from_str(
            r#"{"agent_id":"a","ntp":["x"],"vm":{"name":"v"},"disks":{"system":"/dev/sda"}}"#,
        )
        .unwrap();
        assert_eq!((settings.agent_id.as_str(), settings.vm.name.as_str()), ("a", "v"));
    }
}
