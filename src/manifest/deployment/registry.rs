//! Settings of contract v1 in the manifest: `cloud_provider.properties.registry` and
//! `cloud_provider.ssh_tunnel`.
//!
//! As in the bosh CLI until v6 (`installation/manifest/parser.go`), a tunnel alone is enough: it gets a
//! registry on 127.0.0.1:6901 with a generated password. In both cases the CPI's properties receive a
//! complete `registry`, from which the templates of v1 CPIs take their endpoint.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::reader::{Field, Problems};
use base::redact::Redactor;
use base::secret::Secret;

const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 6901;
const DEFAULT_USERNAME: &str = "registry";
const SSH_PORT: u16 = 22;

/// Address and credentials of the registry on this machine.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryConfig {
    /// A name or address of the loopback interface.
    pub host: String,
    /// The port, on this machine and on the VM.
    pub port: u16,
    /// The user name.
    pub username: String,
    /// The password of HTTP basic authentication.
    pub password: Secret,
    /// Position and path in the manifest, for messages.
    pub place: String,
}

/// The SSH login to the VM, for a tunnel to the registry.
#[derive(Clone, PartialEq, Eq)]
pub struct SshTunnel {
    /// The VM's address as reachable from this machine.
    pub host: String,
    /// The port of its sshd.
    pub port: u16,
    /// The user name.
    pub user: String,
    /// The private key of the user; `None` if only a password is configured.
    pub private_key: Option<TunnelKey>,
    /// The user's password.
    pub password: Option<Secret>,
    /// Position and path in the manifest, for messages.
    pub place: String,
}

/// A private key in the manifest.
#[derive(Clone, PartialEq, Eq)]
pub enum TunnelKey {
    /// The key as text.
    Text(Secret),
    /// The path of a key file.
    Path(String),
}

impl fmt::Debug for RegistryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegistryConfig({}:{})", self.host, self.port)
    }
}

impl fmt::Debug for SshTunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SshTunnel({}:{})", self.host, self.port)
    }
}

/// Parses the registry and the tunnel, and adds the registry to the CPI's properties.
pub(super) fn read(
    provider: &Field<'_>,
    properties: &mut Map<String, Value>,
    redactor: &Redactor,
    problems: &mut Problems,
) -> (Option<RegistryConfig>, Option<SshTunnel>) {
    let tunnel = provider.get("ssh_tunnel");
    // The properties of `cpi` take precedence.
    let cpi_registry = provider.get("cpi").and_then(|cpi| cpi.get("properties")?.get("registry"));
    let field = cpi_registry.or_else(|| provider.get("properties")?.get("registry"));
    let registry = match (&field, &tunnel) {
        (Some(field), _) => read_registry(field, redactor, problems),
        (None, Some(tunnel)) => Some(registry_config(
            tunnel,
            DEFAULT_HOST.to_owned(),
            DEFAULT_PORT,
            None,
            generate_password(redactor),
        )),
        (None, None) => None,
    };
    if let Some(registry) = &registry {
        let registry_properties = properties.entry("registry").or_insert_with(|| json!({}));
        if let Value::Object(registry_properties) = registry_properties {
            registry_properties.insert("host".to_owned(), json!(registry.host));
            registry_properties.insert("port".to_owned(), json!(registry.port));
            registry_properties.insert("username".to_owned(), json!(registry.username));
            registry_properties.insert("password".to_owned(), json!(registry.password.expose()));
        }
    }
    (registry, tunnel.and_then(|tunnel| read_ssh_tunnel(&tunnel, redactor, problems)))
}

/// Reads the settings of the registry, and completes them with defaults.
fn read_registry(field: &Field<'_>, redactor: &Redactor, problems: &mut Problems) -> Option<RegistryConfig> {
    if !field.check_mapping(problems) {
        return None;
    }
    let host = field.optional_text("host", problems).filter(|host| !host.trim().is_empty());
    let port = read_port(field, DEFAULT_PORT, problems);
    let username = read_nonblank_text(field, "username", problems);
    let password = read_nonblank_text(field, "password", problems);
    let password =
        password.map_or_else(|| generate_password(redactor), |password| Secret::new(password, redactor));
    if let Some(name) = &username
        && name.contains(':')
        && let Some(field) = field.get("username")
    {
        field.add_problem(problems, "must not contain a colon, which ends the user name in HTTP Basic auth");
    }
    Some(registry_config(field, host.unwrap_or_else(|| DEFAULT_HOST.to_owned()), port?, username, password))
}

/// Returns the registry of these settings, with the default user name if there is none.
fn registry_config(
    field: &Field<'_>,
    host: String,
    port: u16,
    username: Option<String>,
    password: Secret,
) -> RegistryConfig {
    RegistryConfig {
        host,
        port,
        username: username.unwrap_or_else(|| DEFAULT_USERNAME.to_owned()),
        password,
        place: field.place(),
    }
}

/// Generates the password if the manifest has none.
fn generate_password(redactor: &Redactor) -> Secret {
    Secret::new(uuid::Uuid::new_v4().to_string(), redactor)
}

/// Reads the SSH tunnel, which needs a key or a password. A key that begins like PEM is text, otherwise the
/// path of a file.
fn read_ssh_tunnel(field: &Field<'_>, redactor: &Redactor, problems: &mut Problems) -> Option<SshTunnel> {
    if !field.check_mapping(problems) {
        return None;
    }
    let host = field.required_text("host", problems);
    let port = read_port(field, SSH_PORT, problems);
    let user = field.required_text("user", problems);
    let private_key = read_nonblank_text(field, "private_key", problems).map(|key| {
        match key.trim_start().starts_with("-----") {
            true => TunnelKey::Text(Secret::new(key, redactor)),
            false => TunnelKey::Path(key),
        }
    });
    let password =
        read_nonblank_text(field, "password", problems).map(|password| Secret::new(password, redactor));
    if private_key.is_none() && password.is_none() {
        field.add_problem(
            problems,
            "needs a `private_key` (its text, or the path of its file) or a `password`",
        );
    }
    let tunnel =
        SshTunnel { host: host?, port: port?, user: user?, private_key, password, place: field.place() };
    if let Some(TunnelKey::Text(key)) = &tunnel.private_key
        && !(key.expose().contains("PRIVATE KEY-----") && key.expose().contains("-----END "))
        && let Some(field) = field.get("private_key")
    {
        field.add_problem(problems, "begins like a private key in PEM, but is incomplete");
    }
    Some(tunnel)
}

/// Returns the text under a key, unless it is empty or only whitespace.
fn read_nonblank_text(field: &Field<'_>, key: &str, problems: &mut Problems) -> Option<String> {
    field.optional_text(key, problems).filter(|text| !text.trim().is_empty())
}

fn read_port(field: &Field<'_>, default: u16, problems: &mut Problems) -> Option<u16> {
    let Some(port) = field.get("port") else { return Some(default) };
    let number = field.optional_number("port", 1, problems)?;
    let number = u16::try_from(number).ok();
    if number.is_none() {
        port.add_problem(problems, "must be at most 65535");
    }
    number
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str) -> (Option<RegistryConfig>, Option<SshTunnel>, Map<String, Value>, String) {
        let root = yaml::load(text, Path::new("m.yml")).unwrap();
        let mut problems = Problems::default();
        let provider = Field::root(&root);
        let mut properties = provider.object("properties", &mut problems);
        let (registry, tunnel) = read(&provider, &mut properties, &Redactor::default(), &mut problems);
        let problem = match problems.into_result(Some(())) {
            Ok(()) => String::new(),
            Err(error) => error.chain().join(" "),
        };
        (registry, tunnel, properties, problem)
    }

    #[test]
    fn ssh_tunnel_implies_a_registry() {
        let (registry, tunnel, properties, problem) =
            parse("ssh_tunnel: {host: 10.0.0.6, user: vcap, private_key: ~/key.pem}\n");
        assert_eq!(problem, "");
        let (registry, tunnel) = (registry.unwrap(), tunnel.unwrap());
        assert_eq!(
            (registry.host.as_str(), registry.port, registry.username.as_str()),
            (DEFAULT_HOST, DEFAULT_PORT, DEFAULT_USERNAME)
        );
        assert_eq!(registry.password.expose().len(), 36);
        assert_eq!(tunnel.port, 22);
        assert!(matches!(tunnel.private_key, Some(TunnelKey::Path(path)) if path == "~/key.pem"));
        assert_eq!(properties["registry"]["password"], registry.password.expose());
        assert_eq!(properties["registry"]["port"], 6901);
    }

    #[test]
    fn registry_settings_of_the_manifest_are_kept() {
        let (registry, tunnel, properties, problem) = parse(
            "properties: {registry: {host: localhost, port: 7000, username: u, password: p, endpoint: x}}\n",
        );
        assert_eq!((problem.as_str(), tunnel), ("", None));
        let registry = registry.unwrap();
        assert_eq!((registry.host.as_str(), registry.port), ("localhost", 7000));
        assert_eq!(registry.place, "m.yml:1:24: `properties.registry`");
        assert_eq!(properties["registry"]["endpoint"], "x");
        assert_eq!(format!("{registry:?}"), "RegistryConfig(localhost:7000)");
    }

    #[test]
    fn no_registry_and_no_tunnel_by_default() {
        let (registry, tunnel, properties, problem) = parse("properties: {a: 1}\n");
        assert_eq!((registry, tunnel, problem.as_str()), (None, None, ""));
        assert!(!properties.contains_key("registry"));
    }

    #[test]
    fn rejects_invalid_settings_with_their_position() {
        for (text, expected) in [
            ("ssh_tunnel: 7\n", "m.yml:1:13: `ssh_tunnel` must be a mapping"),
            ("ssh_tunnel: {host: h, user: u}\n", "`ssh_tunnel` needs a `private_key`"),
            ("ssh_tunnel: {user: u, password: p}\n", "`ssh_tunnel` needs `host: HOST`"),
            (
                "ssh_tunnel: {host: h, user: u, password: p, port: 0}\n",
                "`ssh_tunnel.port` must be at least 1",
            ),
            (
                "ssh_tunnel: {host: h, user: u, password: p, port: 70000}\n",
                "`ssh_tunnel.port` must be at most",
            ),
            (
                "ssh_tunnel: {host: h, user: u, private_key: '-----BEGIN s3cret'}\n",
                "`ssh_tunnel.private_key` begins like a private key in PEM",
            ),
            ("properties:\n  registry: []\n", "m.yml:2:13: `properties.registry` must be a mapping"),
            (
                "properties: {registry: {username: 'a:b'}}\n",
                "`properties.registry.username` must not contain a colon",
            ),
            ("properties: {registry: {port: x}}\n", "`properties.registry.port` must be a whole number"),
        ] {
            let problem = parse(text).3;
            assert!(problem.contains(expected), "{text}: {problem}");
            assert!(!problem.contains("s3cret"), "{problem}");
        }
    }
}
