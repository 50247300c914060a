//! `ssh`: creates and deletes users for one session with the commands of the operating system, in the VM's
//! own `/etc` (`agent/action/ssh.go` and `platform/linux_platform.go` of the bosh-agent).

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tools::run;
use super::{Agent, directories};
use base::error::ResultExt;
use base::{Error, Result};

/// The prefix of the names of session users. `cleanup` deletes only users with this prefix.
const USER_PREFIX: &str = "bosh_";
/// The groups of session users, as far as the VM has them.
const USER_GROUPS: [&str; 4] = ["vcap", "admin", "bosh_sudoers", "bosh_sshers"];
/// The public key of the VM's sshd, which `setup` returns.
const HOST_KEY: &str = "/etc/ssh/ssh_host_rsa_key.pub";
/// The base directory in a VM. With any other base directory, the agent does not own `/etc`.
const VM_BASE_DIRECTORY: &str = "/var/vcap";

/// The second argument of `ssh`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Params {
    /// For `cleanup`: a regular expression for the names of the users to delete.
    pub user_regex: String,
    /// For `setup`: the name of the user to create.
    #[serde(alias = "User")]
    pub user: String,
    /// For `setup`: the public key of the user, one line.
    pub public_key: String,
}

impl Agent {
    /// `ssh setup` and `ssh cleanup`.
    pub(super) fn ssh(&self, command: &str, params: &Params) -> Result<Value> {
        match command {
            "setup" => self.set_up_ssh(params),
            "cleanup" => self.clean_up_ssh(&params.user_regex),
            _ => Err(Error::invalid("Unknown command for SSH method")),
        }
    }

    fn set_up_ssh(&self, params: &Params) -> Result<Value> {
        self.check_may_change_users()?;
        let Params { user, public_key, .. } = params;
        if !is_user_name(user) {
            return Err(Error::invalid(format!(
                "'{user}' is not a valid user: names begin with {USER_PREFIX} and have lower-case letters, \
                    digits, _ and -"
            )));
        }
        if public_key.trim().is_empty() || public_key.trim().contains(['\n', '\r', '\0']) {
            return Err(Error::invalid(format!("the public key of user '{user}' must be one line")));
        }
        let host_key = fs::read_to_string(HOST_KEY)
            .map_err(|error| Error::io(format!("Unable to read host public key file: {HOST_KEY}"), error))
            .context(|| "Getting host public key")?;
        let address = self.default_address()?;
        let homes = self.directories.base().join("bosh_ssh");
        directories::make_directory(&homes, 0o755)?;
        let homes_text = homes.display().to_string();
        // `*` matches no password. The default of useradd, `!`, locks the account for an sshd that does not
        // use PAM.
        run("useradd", &["-m", "-b", &homes_text, "-s", "/bin/bash", "-p", "*", user])
            .context(|| "Creating user")?;
        self.admit(&homes.join(user), user, public_key).inspect_err(|_| {
            let _ = run("userdel", &["-rf", user]);
        })?;
        Ok(json!({"command": "setup", "status": "success", "ip": address, "host_public_key": host_key}))
    }

    /// Adds a new user to its groups and installs its key.
    fn admit(&self, home: &Path, user: &str, public_key: &str) -> Result<()> {
        let groups: Vec<&str> =
            USER_GROUPS.into_iter().filter(|group| directories::group_id(group).is_some()).collect();
        if !groups.is_empty() {
            run("usermod", &["-G", &groups.join(","), user]).context(|| "Adding user to groups")?;
        }
        let key_error = |error| Error::io("Setting ssh public key", error);
        directories::set_mode(home, 0o700)?;
        let (uid, gid) = directories::user_ids(user).ok_or_else(|| {
            Error::failure(format!("useradd succeeded, but /etc/passwd has no user '{user}'"))
        })?;
        let ssh_directory = home.join(".ssh");
        directories::make_directory(&ssh_directory, 0o700)?;
        let keys_file = ssh_directory.join("authorized_keys");
        fs::write(&keys_file, format!("{}\n", public_key.trim())).map_err(key_error)?;
        directories::set_mode(&keys_file, 0o600)?;
        for path in [&ssh_directory, &keys_file] {
            chown(path, Some(uid), Some(gid)).map_err(key_error)?;
        }
        Ok(())
    }

    fn clean_up_ssh(&self, regex: &str) -> Result<Value> {
        self.check_may_change_users()?;
        let deletion_context = || "SSH Cleanup: Deleting Ephemeral Users";
        let pattern = fancy_regex::Regex::new(regex)
            .map_err(|error| Error::invalid("Compiling regexp").with_source(error))
            .context(deletion_context)?;
        let passwd = fs::read_to_string("/etc/passwd")
            .map_err(|error| Error::io("Reading /etc/passwd", error))
            .context(deletion_context)?;
        let users = passwd.lines().filter_map(|line| line.split(':').next());
        for user in
            users.filter(|user| user.starts_with(USER_PREFIX) && pattern.is_match(user).unwrap_or(false))
        {
            run("userdel", &["-rf", user]).context(deletion_context)?;
        }
        Ok(json!({"command": "cleanup", "status": "success"}))
    }

    /// Fails if the agent may not change the users in `/etc`, because it does not run in a VM, or the VM
    /// cannot have users.
    fn check_may_change_users(&self) -> Result<()> {
        if self.directories.base() != Path::new(VM_BASE_DIRECTORY) {
            return Err(Error::failure(format!(
                "this agent does not run in a VM: its base directory is '{}', not {VM_BASE_DIRECTORY}",
                self.directories.base().display()
            )));
        }
        // The user namespace of an ordinary user maps only one id.
        let id_map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        if id_map.split_whitespace().nth(2) == Some("1") {
            return Err(Error::failure(
                "an ordinary user created this VM, so it cannot have more users: create it as root to use \
                    ssh",
            ));
        }
        Ok(())
    }

    fn default_address(&self) -> Result<String> {
        let settings = self.settings()?;
        default_ip(&settings.networks)
            .map(str::to_owned)
            .or_else(|| self.endpoint.own_ip().map(|ip| ip.to_string()))
            .ok_or_else(|| Error::failure("No network of the VM has an address"))
    }
}

/// Returns the address on the network with the default gateway, or on the only network
/// (settings/settings.go).
fn default_ip(networks: &Map<String, Value>) -> Option<&str> {
    let is_default = |network: &&Value| {
        let roles = network.get("default").and_then(Value::as_array);
        networks.len() == 1 || roles.is_some_and(|roles| roles.iter().any(|role| role == "gateway"))
    };
    networks
        .values()
        .find(is_default)
        .and_then(|network| network.get("ip")?.as_str())
        .filter(|ip| !ip.is_empty())
}

/// Returns true for a name that is safe as an argument of commands and has the prefix, by which `cleanup`
/// finds it.
fn is_user_name(name: &str) -> bool {
    name.strip_prefix(USER_PREFIX).is_some_and(|rest| !rest.is_empty())
        && name.len() <= 32
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names_need_the_prefix_and_safe_characters() {
        assert!(is_user_name("bosh_0123456789abcde"));
        for bad in ["", "bosh_", "root", "vcap", "bosh_a b", "bosh_-rf/", "bosh_a:b", "bosh_A", "-bosh_a"] {
            assert!(!is_user_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn default_address_is_on_the_network_with_the_gateway() {
        let address_of = |text: &str| -> Option<String> {
            let networks: Map<String, Value> = serde_json::from_str(text).unwrap();
            default_ip(&networks).map(str::to_owned)
        };
        assert_eq!(address_of(r#"{"a": {"ip": "10.0.0.1"}}"#).as_deref(), Some("10.0.0.1"));
        assert_eq!(
            address_of(
                r#"{"a": {"ip": "10.0.0.1"}, "b": {"ip": "10.1.0.1", "default": ["dns", "gateway"]}}"#
            )
            .as_deref(),
            Some("10.1.0.1")
        );
        assert_eq!(address_of(r#"{"a": {"type": "dynamic"}}"#), None);
        assert_eq!(address_of("{}"), None);
    }
}
