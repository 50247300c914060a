//! The connection to the VM's sshd: options of `ssh` and `scp`, with the names and variables of the bosh CLI
//! (docs-bosh, `cli-v2.md`, "ssh").

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, ValueHint};

use super::agent_args::AgentTimeoutArgs;
use super::paths;
use base::Result;
use base::files::input;
use engine::inspection::{Gateway, Login, SshAction, SshRequest, SshRoute};
use manifest::Inputs;

/// The connection and login for `ssh` and `scp`.
#[derive(Debug, Clone, Args)]
pub(super) struct GatewayArgs {
    /// Connect directly; ignore all other options and variables for a jumpbox or a proxy
    #[arg(long, env = "BOSH_GW_DISABLE", hide_env_values = true,
          value_parser = FalseyValueParser::new(), action = ArgAction::SetTrue)]
    gw_disable: bool,

    /// Connect through this jumpbox
    #[arg(long, value_name = "HOST", env = "BOSH_GW_HOST", hide_env_values = true,
          value_hint = ValueHint::Hostname)]
    gw_host: Option<String>,

    /// User name on the jumpbox
    #[arg(long, value_name = "USER", env = "BOSH_GW_USER", hide_env_values = true,
          value_hint = ValueHint::Other)]
    gw_user: Option<String>,

    /// Private key for the jumpbox
    #[arg(long, value_name = "FILE", env = "BOSH_GW_PRIVATE_KEY", hide_env_values = true,
          value_hint = ValueHint::FilePath)]
    gw_private_key: Option<PathBuf>,

    /// Connect through this SOCKS proxy
    ///
    /// socks5://HOST:PORT, or through a jumpbox: ssh+socks5://USER@HOST:PORT?private-key=PATH
    #[arg(long, value_name = "URL", env = "BOSH_ALL_PROXY", hide_env_values = true,
          value_hint = ValueHint::Url)]
    gw_socks5: Option<String>,

    /// Log in with this private key, without the agent; the VM must already accept it
    #[arg(short = 'i', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    private_key: Option<PathBuf>,

    /// User name for --private-key
    #[arg(long, value_name = "USER", default_value = "vcap", value_hint = ValueHint::Other)]
    username: String,

    /// Pass options to ssh or scp, such as --opts='-o Port=2222' (repeatable)
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, value_hint = ValueHint::Other)]
    opts: Vec<String>,

    #[command(flatten)]
    timeout_args: AgentTimeoutArgs,
}

impl GatewayArgs {
    /// Returns the request for a session or a copy.
    pub(super) fn request(&self, inputs: Inputs, action: SshAction) -> Result<SshRequest> {
        let home = paths::home();
        let absolute = |path: &PathBuf| paths::absolute(&paths::expand(path, home.as_deref()));
        let nonempty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let route = match (nonempty(&self.gw_socks5), nonempty(&self.gw_host)) {
            _ if self.gw_disable => SshRoute::Direct,
            (Some(url), _) => SshRoute::Socks5(url),
            (None, Some(host)) => SshRoute::Gateway(Gateway {
                host,
                user: nonempty(&self.gw_user),
                private_key: self.gw_private_key.as_ref().map(absolute).transpose()?,
            }),
            (None, None) => SshRoute::Direct,
        };
        let login = self.private_key.as_ref().map(|key| -> Result<Login> {
            let path = paths::expand(key, home.as_deref());
            if !path.is_file() {
                return Err(input::missing_error("private key", &path));
            }
            Ok(Login { user: self.username.clone(), private_key: paths::absolute(&path)? })
        });
        Ok(SshRequest {
            inputs,
            agent_timeout: self.timeout_args.agent_timeout,
            route,
            login: login.transpose()?,
            options: self.opts.iter().flat_map(|opts| opts.split_whitespace()).map(str::to_owned).collect(),
            action,
        })
    }
}
