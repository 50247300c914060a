//! The connection to Ironic, configured by the options and variables of OpenStack's clients.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::cli::paths;
use crate::cli::session::Session;
use base::Result;
use base::files::input;
use ironic::{AccessSettings, Client};

/// The setting that should not be on the command line, where other users can see it.
const PASSWORD: &str = "password";

/// Options with the names and variables of `openstack` (python-openstackclient, "Authentication").
#[derive(Clone, Args)]
#[command(next_help_heading = "Connection to Ironic")]
pub(super) struct Connection {
    /// URL of Ironic [default: from the catalogue of Keystone]
    #[arg(long, visible_alias = "endpoint", global = true, value_name = "URL", env = "OS_ENDPOINT",
          hide_env_values = true,
          value_hint = ValueHint::Url)]
    os_endpoint: Option<String>,

    /// Kind of login: none, http_basic or password (Keystone) [default: from the other options]
    #[arg(long, global = true, value_name = "TYPE", env = "OS_AUTH_TYPE", hide_env_values = true)]
    os_auth_type: Option<String>,

    /// URL of Keystone
    #[arg(long, global = true, value_name = "URL", env = "OS_AUTH_URL", hide_env_values = true,
          value_hint = ValueHint::Url)]
    os_auth_url: Option<String>,

    /// Log in as this user
    #[arg(long, global = true, value_name = "NAME", env = "OS_USERNAME", hide_env_values = true)]
    os_username: Option<String>,

    /// Password of the user
    ///
    /// Other users of this machine can see the command line: prefer OS_PASSWORD.
    #[arg(long, global = true, value_name = "PASSWORD", env = "OS_PASSWORD", hide_env_values = true)]
    os_password: Option<String>,

    /// Domain of the user [default: Default]
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "NAME",
        env = "OS_USER_DOMAIN_NAME",
        hide_env_values = true
    )]
    os_user_domain_name: Option<String>,

    /// Work in this project
    #[arg(long, global = true, value_name = "NAME", env = "OS_PROJECT_NAME", hide_env_values = true)]
    os_project_name: Option<String>,

    /// Domain of the project [default: Default]
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "NAME",
        env = "OS_PROJECT_DOMAIN_NAME",
        hide_env_values = true
    )]
    os_project_domain_name: Option<String>,

    /// Work in the whole system instead of a project, with the value "all"
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "SCOPE",
        env = "OS_SYSTEM_SCOPE",
        hide_env_values = true
    )]
    os_system_scope: Option<String>,

    /// Take the Ironic of this region from the catalogue
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "NAME",
        env = "OS_REGION_NAME",
        hide_env_values = true
    )]
    os_region_name: Option<String>,

    /// Take this interface from the catalogue: public, internal or admin [default: public]
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "INTERFACE",
        env = "OS_INTERFACE",
        hide_env_values = true
    )]
    os_interface: Option<String>,

    /// Verify servers with these CA certificates instead of those of the system
    #[arg(long, global = true, value_name = "FILE", env = "OS_CACERT", hide_env_values = true,
          value_hint = ValueHint::FilePath)]
    os_cacert: Option<PathBuf>,

    /// Use this version of Ironic's API [default: the newest that both sides support]
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "VERSION",
        env = "OS_BAREMETAL_API_VERSION",
        hide_env_values = true
    )]
    os_baremetal_api_version: Option<String>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects with the options and variables of OpenStack's clients. An empty value counts as missing, as
    /// in those clients.
    pub(super) fn connect(&self, session: &Session) -> Result<Client> {
        let nonempty = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        let cacert = match &self.os_cacert {
            None => None,
            Some(path) => {
                let path = paths::expand(path, paths::home().as_deref());
                let read_result = input::read_text(&path, input::MAX_FILE_BYTES);
                Some(
                    read_result
                        .map_err(|error| input::read_error("CA certificate (--os-cacert)", &path, error))?,
                )
            }
        };
        let settings = AccessSettings {
            auth_type: nonempty(&self.os_auth_type),
            endpoint: nonempty(&self.os_endpoint),
            auth_url: nonempty(&self.os_auth_url),
            username: nonempty(&self.os_username),
            password: nonempty(&self.os_password),
            user_domain_name: nonempty(&self.os_user_domain_name),
            project_name: nonempty(&self.os_project_name),
            project_domain_name: nonempty(&self.os_project_domain_name),
            system_scope: nonempty(&self.os_system_scope),
            region_name: nonempty(&self.os_region_name),
            interface: nonempty(&self.os_interface),
            cacert,
            api_version: nonempty(&self.os_baremetal_api_version),
        };
        // A wrong value is named where it is, and a missing one where it belongs.
        let env_vars = paths::env_vars();
        let name = |setting: &str| {
            let (option, variable) = (option_of(setting), variable_of(setting));
            let is_in_variable = env_vars.iter().any(|(name, value)| *name == variable && !value.is_empty());
            let is_option = session.has_option(&option) || !is_in_variable && setting != PASSWORD;
            if is_option { option } else { variable }
        };
        let access =
            settings.check_named(&session.redactor, &name).map_err(|error| match error.is_missing {
                true => error.error.with_hint(missing_setting_hint(error.setting)),
                false => error.error,
            })?;
        let reporter = session.reporter.clone();
        Ok(Client::connect(access)?.with_warnings(move |warning| reporter.warn(warning)))
    }
}

fn option_of(setting: &str) -> String {
    format!("--{}", variable_of(setting).to_lowercase().replace('_', "-"))
}

/// Returns the environment variable of a setting.
fn variable_of(setting: &str) -> String {
    match setting {
        "api_version" => "OS_BAREMETAL_API_VERSION".to_owned(),
        setting => format!("OS_{}", setting.to_uppercase()),
    }
}

fn missing_setting_hint(setting: &str) -> String {
    let (option, variable) = (option_of(setting), variable_of(setting));
    let example = match setting {
        PASSWORD => return format!("set it: `export {variable}=PASSWORD`"),
        "endpoint" => "http://HOST:6385",
        "auth_url" => "https://HOST:5000",
        _ => "NAME",
    };
    format!("pass it: `monopile SAME-COMMAND {option} {example}`, or set {variable}")
}
