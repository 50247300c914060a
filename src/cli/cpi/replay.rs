//! `monopile cpi replay`: a CPI that answers from a transcript.

use std::io::Read;
use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::cli::finish::CommandResult;
use crate::cli::paths;
use crate::cli::session::Session;
use crate::conformance::{self, ProcessEnd};
use base::{Error, Result};

/// The maximum size of a request, in bytes.
const MAX_REQUEST_BYTES: u64 = 64 * 1024 * 1024;

/// Replay a recorded CPI transcript
///
/// Reads one request on standard input, and prints the recorded answer. FILE.played keeps the position in the
/// transcript.
///
/// A manifest uses it as its CPI with cloud_provider.cpi: {path: /usr/local/bin/monopile, arguments: [cpi,
/// replay, /tests/FILE]}. A relative path of the program is relative to the manifest, and a relative FILE to
/// the working directory.
#[derive(Debug, Clone, Args)]
pub(super) struct ReplayArgs {
    /// Transcript that `--record FILE` wrote
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    transcript: PathBuf,

    /// Go back to the first recorded call; answer nothing
    #[arg(long)]
    rewind: bool,
}

impl ReplayArgs {
    pub(super) fn run(self, _session: &Session) -> Result<CommandResult> {
        let path = paths::expand(&self.transcript, paths::home().as_deref());
        if self.rewind {
            conformance::rewind(&path)?;
            return Ok(CommandResult::Verdict(Vec::new(), 0));
        }
        let mut input = Vec::new();
        std::io::stdin()
            .lock()
            .take(MAX_REQUEST_BYTES)
            .read_to_end(&mut input)
            .map_err(|error| Error::io("reading the request from standard input", error))?;
        let replayed_call = conformance::play_once(&path, &input)?;
        // The answer is written even if standard error is closed.
        let _ = std::io::stderr().write_all(&replayed_call.stderr);
        let exit_code = match replayed_call.end {
            ProcessEnd::Exited(status) => u8::try_from(status & 0xff).unwrap_or(u8::MAX),
            ProcessEnd::Signalled(signal) => u8::try_from(128 + (signal & 0x7f)).unwrap_or(u8::MAX),
            ProcessEnd::TimedOut | ProcessEnd::Abandoned => u8::MAX,
        };
        Ok(CommandResult::Verdict(replayed_call.stdout, exit_code))
    }
}
