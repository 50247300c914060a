//! A CPI under test: an executable or a transcript, with a process for each request. Calls are recorded.

use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value};

use super::exchange::{self, Exchange, ExchangeControl};
use super::replay::TranscriptPlayer;
use super::transcript::Recorder;
use base::Result;
use base::redact::Redactor;
use engine::cpi::{Executable, RequestEnvelope};
use engine::protocol::RequestId;

/// The source of the answers of a CPI under test.
pub enum AnswerSource {
    /// A CPI program, started once for each request.
    Program(Executable),
    /// A transcript that replaces the program.
    Transcript(Mutex<TranscriptPlayer>),
}

/// A CPI, and what its requests have in common.
pub struct CpiUnderTest {
    /// The source of answers.
    pub source: AnswerSource,
    /// Properties for the context of every request, in addition to its ids.
    pub context: Map<String, Value>,
    /// The director id of every request.
    pub director_uuid: String,
    /// The transcript to write.
    pub recorder: Option<Recorder>,
    /// The secrets to redact.
    pub redactor: Redactor,
    /// The time after which a process is killed.
    pub timeout: Duration,
}

/// The versions that a request names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Versions {
    /// `api_version` of the request.
    pub api: Option<u32>,
    /// `vm.stemcell.api_version` of its context.
    pub stemcell: Option<u32>,
}

impl AnswerSource {
    /// Opens the transcript at `path` for replay.
    pub fn open_transcript(path: &Path) -> Result<AnswerSource> {
        Ok(AnswerSource::Transcript(Mutex::new(TranscriptPlayer::read(path)?)))
    }

    /// Returns the settings of the recorded conformance run; `None` for other transcripts.
    pub fn recorded_settings(&self) -> Option<Value> {
        match self {
            AnswerSource::Program(_) => None,
            AnswerSource::Transcript(player) => {
                let player = player.lock();
                Some(player.settings().clone()).filter(|settings| !settings.is_null())
            }
        }
    }
}

impl CpiUnderTest {
    /// Builds a request with a fresh request id.
    pub fn request(&self, method: &str, arguments: &[Value], versions: Versions) -> Value {
        let envelope = RequestEnvelope {
            method,
            arguments,
            api_version: versions.api,
            properties: &self.context,
            director_uuid: &self.director_uuid,
            request_id: &RequestId::fresh(),
            stemcell_api_version: versions.stemcell,
        };
        envelope.to_json()
    }

    /// Runs one process of the CPI with `input` on its standard input.
    pub fn run_exchange(&self, input: &[u8], control: &ExchangeControl<'_>) -> Result<Exchange> {
        let exchange = match &self.source {
            AnswerSource::Program(executable) => exchange::run_exchange(executable, input, control)?,
            AnswerSource::Transcript(player) => player.lock().play(input),
        };
        if let Some(recorder) = &self.recorder {
            recorder.record(&exchange);
        }
        Ok(exchange)
    }
}
