//! The connection to a VM's sshd, as a configuration file for OpenSSH. All arguments are in files, so no
//! shell interprets them.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use base::{Error, Result};

/// The host name of the VM in the configuration, in `known_hosts`, and on the command line of ssh.
pub(super) const VM_HOST_NAME: &str = "monopile-vm";
/// The host name of the jumpbox there.
const GATEWAY_HOST_NAME: &str = "monopile-gateway";

/// The way to the VM's sshd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SshRoute {
    /// Directly from this machine.
    Direct,
    /// Through a jumpbox.
    Gateway(Gateway),
    /// Through a SOCKS proxy, or a jumpbox in its place: a URL in the syntax of `BOSH_ALL_PROXY`.
    Socks5(String),
}

/// A jumpbox, which the bosh CLI calls gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// Its name or address.
    pub host: String,
    /// The user on the jumpbox; by default ssh chooses one.
    pub user: Option<String>,
    /// The private key file; by default ssh finds a key itself.
    pub private_key: Option<PathBuf>,
}

/// The values of a configuration file.
pub(super) struct SshConfig<'a> {
    /// The VM's address.
    pub(super) address: &'a str,
    /// The user on the VM.
    pub(super) user: &'a str,
    /// The file with the private key.
    pub(super) key: &'a Path,
    /// The file with the VM's host key.
    pub(super) known_hosts: &'a Path,
    /// True if the host key is known; otherwise ssh learns it.
    pub(super) is_pinned: bool,
    /// The way to the VM's sshd.
    pub(super) route: &'a SshRoute,
    /// The path of this program, which serves as the proxy command.
    pub(super) executable: &'a Path,
    /// The file with the URL of the proxy.
    pub(super) proxy_file: &'a Path,
}

impl SshConfig<'_> {
    /// Returns the text of a configuration file for ssh and scp (`ssh_config(5)`). The operator's own
    /// settings come last, because the first value of an option takes precedence.
    pub(super) fn text(&self) -> Result<String> {
        let mut text = format!("Host {VM_HOST_NAME}\n");
        let mut option = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {name} {value}");
        };
        option("HostName", check_word("address of the VM", self.address)?);
        option("HostKeyAlias", VM_HOST_NAME);
        option("User", check_word("name of the user", self.user)?);
        option("IdentityFile", &path(self.key)?);
        option("IdentitiesOnly", "yes");
        option("PasswordAuthentication", "no");
        option("KbdInteractiveAuthentication", "no");
        option("ForwardAgent", "no");
        option("ControlMaster", "no");
        option("ControlPath", "none");
        option("ServerAliveInterval", "30");
        option("UserKnownHostsFile", &path(self.known_hosts)?);
        option("GlobalKnownHostsFile", "/dev/null");
        option("UpdateHostKeys", "no");
        option("CheckHostIP", "no");
        option("StrictHostKeyChecking", if self.is_pinned { "yes" } else { "accept-new" });
        option("LogLevel", "ERROR");
        match self.route {
            SshRoute::Direct => option("ProxyJump", "none"),
            SshRoute::Gateway(_) => option("ProxyJump", GATEWAY_HOST_NAME),
            SshRoute::Socks5(_) => {
                // The only option that ssh passes to a shell.
                let command = format!(
                    "{} ssh-proxy {} %h %p",
                    quote_path(self.executable)?,
                    quote_path(self.proxy_file)?
                );
                option("ProxyCommand", &command);
            }
        }
        if let SshRoute::Gateway(gateway) = self.route {
            text.push_str(&gateway.text()?);
        }
        text.push_str("Match all\n  Include ~/.ssh/config\n");
        Ok(text)
    }
}

impl Gateway {
    /// Returns the section of the jumpbox. Its host key need not be known, because only the VM, whose key
    /// is known, can decrypt the traffic.
    fn text(&self) -> Result<String> {
        let mut text = format!("Host {GATEWAY_HOST_NAME}\n");
        let mut option = |name: &str, value: &str| {
            let _ = writeln!(text, "  {name} {value}");
        };
        option("HostName", check_word("host of the jumpbox", &self.host)?);
        if let Some(user) = &self.user {
            option("User", check_word("user of the jumpbox", user)?);
        }
        if let Some(key) = &self.private_key {
            option("IdentityFile", &path(key)?);
            option("IdentitiesOnly", "yes");
            option("PasswordAuthentication", "no");
        }
        option("ForwardAgent", "no");
        option("ClearAllForwardings", "yes");
        option("ServerAliveInterval", "30");
        option("UserKnownHostsFile", "/dev/null");
        option("GlobalKnownHostsFile", "/dev/null");
        option("StrictHostKeyChecking", "no");
        option("LogLevel", "ERROR");
        Ok(text)
    }
}

/// Checks that a value is one word without characters that are special to ssh.
fn check_word<'t>(kind: &str, text: &'t str) -> Result<&'t str> {
    let is_harmless = |character: char| {
        !character.is_whitespace() && !character.is_control() && !"\"'\\%$#;|&`()<>,".contains(character)
    };
    match !text.is_empty() && !text.starts_with('-') && text.chars().all(is_harmless) {
        true => Ok(text),
        false => Err(Error::usage(format!(
            "the {kind} '{}' is empty, or has characters that ssh does not accept",
            text.escape_debug()
        ))),
    }
}

/// Returns a path in double quotes, with ssh's tokens escaped.
fn path(path: &Path) -> Result<String> {
    let text = text_of(path)?;
    if text.contains(['"', '\\']) || text.contains("${") {
        return Err(Error::usage(format!(
            "the path '{text}' has characters that ssh does not accept in a path"
        )));
    }
    Ok(format!("\"{}\"", text.replace('%', "%%")))
}

/// Returns a path in single quotes for a shell, with ssh's tokens escaped.
fn quote_path(path: &Path) -> Result<String> {
    Ok(format!("'{}'", text_of(path)?.replace('\'', r"'\''").replace('%', "%%")))
}

fn text_of(path: &Path) -> Result<&str> {
    path.to_str().filter(|text| !text.contains(char::is_control)).ok_or_else(|| {
        Error::usage(format!(
            "the path '{}' has characters that ssh does not accept in a path",
            path.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_text(route: &SshRoute) -> Result<String> {
        SshConfig {
            address: "10.0.0.6",
            user: "bosh_1",
            key: Path::new("/w/50% of/key"),
            known_hosts: Path::new("/w/known_hosts"),
            is_pinned: true,
            route,
            executable: Path::new("/it's/monopile"),
            proxy_file: Path::new("/w/proxy"),
        }
        .text()
    }

    #[test]
    fn each_route_writes_its_ssh_options() {
        assert!(config_text(&SshRoute::Direct).unwrap().contains("  ProxyJump none\n"));
        let gateway = Gateway {
            host: "jump.example".into(),
            user: Some("jumper".into()),
            private_key: Some("/home/me/jump key".into()),
        };
        let text = config_text(&SshRoute::Gateway(gateway)).unwrap();
        assert!(
            text.contains("  ProxyJump monopile-gateway\n") && text.contains("  HostName jump.example\n")
        );
        assert!(text.contains("  IdentityFile \"/home/me/jump key\"\n"), "{text}");
        let text = config_text(&SshRoute::Socks5("socks5://secret@h".into())).unwrap();
        assert!(text.contains(r"  ProxyCommand '/it'\''s/monopile' ssh-proxy '/w/proxy' %h %p"), "{text}");
        assert!(text.contains("  IdentityFile \"/w/50%% of/key\"\n") && !text.contains("secret"), "{text}");
    }

    #[test]
    fn values_cannot_inject_ssh_options() {
        for host in ["", "-oProxyCommand=x", "a b", "a\nProxyCommand x", "a;b", "$(x)", "a,b", "%h"] {
            let gateway = Gateway { host: host.into(), user: None, private_key: None };
            assert!(config_text(&SshRoute::Gateway(gateway)).is_err(), "{host}");
        }
        let gateway = Gateway { host: "h".into(), user: Some("a\"".into()), private_key: None };
        assert!(config_text(&SshRoute::Gateway(gateway)).is_err());
        let gateway = Gateway { host: "h".into(), user: None, private_key: Some("/a\"\nb".into()) };
        assert!(config_text(&SshRoute::Gateway(gateway)).is_err());
    }
}
