//! Options of every command. They may come before or after its name.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{
    FalseyValueParser, NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser as _,
};
use clap::{Arg, ArgAction, Args, ValueEnum, ValueHint};

use super::choices::number;

/// The global options, with the names and variables of upstream (`docs/cli-global-flags` of bosh.io).
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Globals {
    /// Do not ask questions
    ///
    /// Commands that delete something then delete it without asking. `state forget` and `state backup
    /// --restore` need --yes; cloud-check repairs only what --auto or --resolution allows.
    #[arg(short = 'n', long, global = true, env = "BOSH_NON_INTERACTIVE", hide_env_values = true,
          value_parser = FalseyValueParser::new(), action = ArgAction::SetTrue)]
    pub non_interactive: bool,

    /// Print JSON and do not ask; `=bosh` uses the format of `bosh --json`
    ///
    /// `--json=bosh` works only with create-env, delete-env, stop-env, start-env, interpolate,
    /// inspect-local-release and inspect-local-stemcell.
    #[arg(long, global = true, value_enum, value_name = "FORM", num_args = 0..=1, require_equals = true,
          default_missing_value = "lines")]
    pub json: Option<JsonForm>,

    /// Print as on a terminal, even without one
    #[arg(long, global = true, hide_short_help = true, env = "BOSH_TTY", hide_env_values = true,
          value_parser = FalseyValueParser::new(), action = ArgAction::SetTrue)]
    pub tty: bool,

    /// Print without colours
    #[arg(long, global = true)]
    pub no_color: bool,

    /// Run at most N downloads, uploads or compilations at once
    #[arg(long, global = true, hide_short_help = true, value_name = "N", allow_negative_numbers = true,
          default_value_t = 5,
          value_parser = number(1_u16, None, 5))]
    pub parallel: u16,

    /// Keep downloads and compiled packages here [default: $XDG_CACHE_HOME/monopile]
    #[arg(long, global = true, hide_short_help = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cache_dir: Option<PathBuf>,

    /// Use this bucket or directory as shared cache of downloads and compiled packages
    ///
    /// s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///DIRECTORY. A run looks up
    /// there what the cache of this machine lacks. If that fails, the run goes on without it.
    #[arg(long, global = true, hide_short_help = true, value_name = "URL", env = "MONOPILE_CACHE",
          hide_env_values = true, value_hint = ValueHint::Other)]
    pub cache: Option<String>,

    /// Also upload to the shared cache (--cache) what this run downloads and compiles
    #[arg(long, global = true, hide_short_help = true, env = "MONOPILE_CACHE_WRITE", hide_env_values = true,
          value_parser = FalseyValueParser::new(), action = ArgAction::SetTrue)]
    pub cache_write: bool,

    /// Sign compiled packages for the shared cache (--cache) with this SSH key
    ///
    /// An Ed25519 or ECDSA key without a passphrase. Without it, --cache-write and `cache export` handle
    /// only downloads.
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE", env = "MONOPILE_CACHE_SIGN",
          hide_env_values = true, value_hint = ValueHint::FilePath)]
    pub cache_sign: Option<OsString>,

    /// Use compiled packages of the shared cache (--cache) if this SSH key signed them (repeatable)
    ///
    /// A public key (ssh-ed25519 …), or a FILE with one key per line. With --cache-write, the key of
    /// --cache-sign is trusted as well.
    #[arg(long, global = true, hide_short_help = true, value_name = "KEY|FILE", env = "MONOPILE_CACHE_TRUST",
          value_delimiter = ',',
          hide_env_values = true, value_hint = ValueHint::FilePath)]
    pub cache_trust: Vec<String>,

    /// Send SHA-256 digests to the agent instead of SHA-1
    #[arg(long, global = true, hide_short_help = true, env = "BOSH_SHA2", hide_env_values = true,
          value_parser = FalseyValueParser::new(), action = ArgAction::SetTrue)]
    pub sha2: bool,

    /// Encrypt state and vars store for this recipient (repeatable)
    ///
    /// A RECIPIENT is the public key of an age identity (age1…). A FILE has one recipient per line. Only the
    /// recipients of the last write can decrypt: name all of them.
    #[arg(long, global = true, hide_short_help = true, value_name = "RECIPIENT|FILE",
          env = "MONOPILE_ENCRYPT_TO",
          value_delimiter = ',',
          hide_env_values = true, value_hint = ValueHint::FilePath)]
    pub encrypt_to: Vec<String>,

    /// Decrypt with the age identities in this file (repeatable)
    ///
    /// Decrypts the state and the vars store.
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE", env = "MONOPILE_IDENTITY",
          hide_env_values = true,
          value_hint = ValueHint::FilePath)]
    pub identity: Vec<PathBuf>,

    /// Redact variables and properties of this name (repeatable)
    ///
    /// Redacts their values in output, logs and history.
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME", value_hint = ValueHint::Other,
          value_parser = NonEmptyStringValueParser::new())]
    pub redact: Vec<String>,

    /// Print the logs of CPI and scripts (repeatable)
    ///
    /// Twice, also debug messages; three times, everything.
    #[arg(long, global = true, action = ArgAction::Count)]
    pub verbose: u8,

    /// Format of the log that BOSH_LOG_LEVEL or --verbose enables
    #[arg(long, global = true, hide_short_help = true, value_enum, value_name = "FORMAT", default_value_t)]
    pub log_format: LogFormat,
}

/// The form of JSON output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum JsonForm {
    /// Events as one object per line, results as one document
    Lines,
    /// One document, as `bosh --json` prints it
    Bosh,
}

impl Globals {
    /// Returns true for `--json` in either form.
    pub(super) fn prints_json(&self) -> bool {
        self.json.is_some()
    }
}

/// Hides `--json=bosh`, for commands that bosh does not have. It is still parsed, so that the error can
/// explain it. `can_ask` is true for commands that may ask questions.
pub(super) fn without_bosh_form(arg: Arg, can_ask: bool) -> Arg {
    let text = if can_ask { "Print JSON, and do not ask questions" } else { "Print JSON" };
    let values = JsonForm::value_variants()
        .iter()
        .filter_map(|form| Some(form.to_possible_value()?.hide(*form == JsonForm::Bosh)));
    let parser = PossibleValuesParser::new(values).try_map(|name| JsonForm::from_str(&name, false));
    arg.help(text).long_help(text).value_parser(parser)
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// Plain text
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// Returns the bosh CLI's global options for a director, which have no effect here. They are accepted for
/// scripts written for the bosh CLI, and hidden from help, completions and documents.
pub(super) fn ignored_args() -> impl Iterator<Item = Arg> {
    const IGNORED_OPTIONS: [(&str, Option<char>); 7] = [
        ("environment", Some('e')),
        ("deployment", Some('d')),
        ("config", None),
        ("ca-cert", None),
        ("client", None),
        ("client-secret", None),
        ("column", None),
    ];
    IGNORED_OPTIONS.into_iter().map(|(name, short)| {
        let arg = Arg::new(format!("ignored-{name}")).long(name).global(true).hide(true);
        let arg = arg.action(ArgAction::Append).value_parser(clap::builder::OsStringValueParser::new());
        match short {
            Some(short) => arg.short(short),
            None => arg,
        }
    })
}
