//! Flags that every command takes, before or after its name.

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Arg, ArgAction, Args, ValueEnum, ValueHint};

/// The flags valid everywhere. Names and environment variables are upstream's
/// (`docs/cli-global-flags` of bosh.io).
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Globals {
    /// Don't ask for input
    #[arg(short = 'n', long, global = true, env = "BOSH_NON_INTERACTIVE", hide_env_values = true,
          value_parser = FalseyValueParser::new(), action = ArgAction::SetTrue)]
    pub non_interactive: bool,

    /// One JSON object per line instead of text
    #[arg(long, global = true)]
    pub json: bool,

    /// Show progress as on a terminal even if the output is none
    #[arg(long, global = true, env = "BOSH_TTY", hide_env_values = true,
          value_parser = FalseyValueParser::new(), action = ArgAction::SetTrue)]
    pub tty: bool,

    /// No colours
    #[arg(long, global = true)]
    pub no_color: bool,

    /// How many downloads, uploads or compilations at once
    #[arg(long, global = true, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub parallel: u16,

    /// Where downloads and other things worth keeping are kept [default: $XDG_CACHE_HOME/monopile]
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cache_dir: Option<PathBuf>,

    /// Use SHA-256 digests towards the agent
    #[arg(long, global = true, env = "BOSH_SHA2", hide_env_values = true,
          value_parser = FalseyValueParser::new(), action = ArgAction::SetTrue)]
    pub sha2: bool,

    /// Encrypt state and vars store to this age recipient, or to those in this file
    #[arg(long, global = true, value_name = "RECIPIENT|FILE", env = "MONOPILE_ENCRYPT_TO", value_delimiter = ',',
          hide_env_values = true, value_hint = ValueHint::FilePath)]
    pub encrypt_to: Vec<String>,

    /// Read what is encrypted with age by the identity in this file
    #[arg(long, global = true, value_name = "FILE", env = "MONOPILE_IDENTITY", hide_env_values = true,
          value_hint = ValueHint::FilePath)]
    pub identity: Vec<PathBuf>,

    /// Redact the values of variables and properties of this name, besides those that are named like a
    /// password
    #[arg(long, global = true, value_name = "NAME", value_hint = ValueHint::Other)]
    pub redact: Vec<String>,

    /// Show the logs of CPI and scripts as they come; twice: debug log as well; three times: everything
    #[arg(long, global = true, action = ArgAction::Count)]
    pub verbose: u8,

    /// What the lines of the log are that BOSH_LOG_LEVEL or --verbose turns on
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t)]
    pub log_format: LogFormat,
}

/// What a line of the log is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// Text, for people.
    #[default]
    Text,
    /// A JSON object, for programs.
    Json,
}

/// Upstream's global flags that speak to a director. They are accepted, so that a script written for `bosh` runs
/// with the word replaced, and are without effect, as they are on these commands there. They are not part of
/// [`Globals`], so that no help, completion or page shows them.
pub(super) fn ignored() -> impl Iterator<Item = Arg> {
    const FLAGS: [(&str, Option<char>); 7] = [
        ("environment", Some('e')),
        ("deployment", Some('d')),
        ("config", None),
        ("ca-cert", None),
        ("client", None),
        ("client-secret", None),
        ("column", None),
    ];
    FLAGS.into_iter().map(|(name, short)| {
        let arg = Arg::new(format!("ignored-{name}")).long(name).global(true).hide(true);
        let arg = arg.action(ArgAction::Append).value_parser(clap::builder::OsStringValueParser::new());
        match short {
            Some(short) => arg.short(short),
            None => arg,
        }
    })
}
