//! Flags that every command takes, before or after its name.

use clap::Args;
use clap::builder::FalseyValueParser;

/// The flags valid everywhere. Names and environment variables are upstream's
/// (`docs/cli-global-flags` of bosh.io).
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Don't ask for input
    #[arg(short = 'n', long, global = true, env = "BOSH_NON_INTERACTIVE", hide_env_values = true,
          value_parser = FalseyValueParser::new(), action = clap::ArgAction::SetTrue)]
    pub non_interactive: bool,

    /// One JSON object per line instead of text
    #[arg(long, global = true)]
    pub json: bool,

    /// Show progress as on a terminal even if the output is none
    #[arg(long, global = true, env = "BOSH_TTY", hide_env_values = true,
          value_parser = FalseyValueParser::new(), action = clap::ArgAction::SetTrue)]
    pub tty: bool,

    /// No colours
    #[arg(long, global = true)]
    pub no_color: bool,

    /// How many downloads, uploads or compilations at once
    #[arg(long, global = true, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub parallel: u16,

    /// Use SHA-256 digests towards the agent
    #[arg(long, global = true, env = "BOSH_SHA2", hide_env_values = true,
          value_parser = FalseyValueParser::new(), action = clap::ArgAction::SetTrue)]
    pub sha2: bool,

    /// Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything
    #[arg(long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,

    #[command(flatten)]
    pub ignored: Ignored,
}

/// Upstream's flags that speak to a director. Accepted, so that a script written for `bosh` runs with the
/// word replaced, and without effect, as they have none on these commands there.
#[derive(Debug, Clone, Args)]
pub struct Ignored {
    #[arg(id = "ignored-environment", short = 'e', long = "environment", global = true, hide = true)]
    environment: Option<String>,
    #[arg(id = "ignored-deployment", short = 'd', long = "deployment", global = true, hide = true)]
    deployment: Option<String>,
    #[arg(id = "ignored-config", long = "config", global = true, hide = true)]
    config: Option<String>,
    #[arg(id = "ignored-ca-cert", long = "ca-cert", global = true, hide = true)]
    ca_cert: Option<String>,
    #[arg(id = "ignored-client", long = "client", global = true, hide = true)]
    client: Option<String>,
    #[arg(id = "ignored-client-secret", long = "client-secret", global = true, hide = true)]
    client_secret: Option<String>,
    #[arg(id = "ignored-column", long = "column", global = true, hide = true)]
    column: Vec<String>,
}
