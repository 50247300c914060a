//! A CPI on the bench: an executable, or the transcript of one, asked one thing at a time and put on record.

use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value};

use super::exchange::{self, Exchange, Watching};
use super::player::Player;
use super::transcript::Recorder;
use base::Result;
use base::redact::Redactor;
use engine::cpi::{Executable, RequestEnvelope};
use engine::protocol::RequestId;

/// What answers.
pub enum Source {
    /// A program.
    Program(Executable),
    /// A transcript in its place.
    Transcript(Mutex<Player>),
}

/// A CPI and how it is asked.
pub struct Bench {
    /// What answers.
    pub source: Source,
    /// What the context of every request carries besides its ids.
    pub context: Map<String, Value>,
    /// Who asks.
    pub director_uuid: String,
    /// Where it is put on record.
    pub recorder: Option<Recorder>,
    /// What must not be shown.
    pub redactor: Redactor,
    /// After how long a process is killed.
    pub limit: Duration,
}

/// The versions that a request names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Versions {
    /// `api_version` of the request.
    pub api: Option<u32>,
    /// `vm.stemcell.api_version` of its context.
    pub stemcell: Option<u32>,
}

impl Source {
    /// The transcript at `path`, to be played back.
    pub fn transcript(path: &Path) -> Result<Source> {
        Ok(Source::Transcript(Mutex::new(Player::read(path)?)))
    }

    /// The settings of the conformance run that was recorded; `None` if it was none.
    pub fn recorded_settings(&self) -> Option<Value> {
        match self {
            Source::Program(_) => None,
            Source::Transcript(player) => {
                let player = player.lock();
                Some(player.settings().clone()).filter(|settings| !settings.is_null())
            }
        }
    }
}

impl Bench {
    /// A request with ids of its own.
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

    /// Makes one process of the CPI with `input` on its standard input.
    pub fn exchange(&self, input: &[u8], watching: &Watching<'_>) -> Result<Exchange> {
        let exchange = match &self.source {
            Source::Program(executable) => exchange::exchange(executable, input, watching)?,
            Source::Transcript(player) => player.lock().play(input),
        };
        if let Some(recorder) = &self.recorder {
            recorder.record(&exchange);
        }
        Ok(exchange)
    }
}
