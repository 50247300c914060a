//! Events as JSON lines on standard output. `docs/events.md` describes the format.

use serde::Serialize;

use super::renderer::RenderSink;
use super::text::{self, OutputStreams};
use base::events::{Event, Sink};

/// The version of the format. A version may gain fields, so consumers must ignore unknown ones.
const FORMAT_VERSION: u32 = 1;

/// The JSON renderer.
pub(super) struct Json {
    output: OutputStreams,
}

/// A line of output: an event with its time and the version of the format.
#[derive(Serialize)]
struct EventLine<'a> {
    v: u32,
    time: String,
    #[serde(flatten)]
    event: &'a Event,
}

impl Json {
    pub(super) fn new(output: OutputStreams) -> Self {
        Json { output }
    }
}

impl Sink for Json {
    fn receive(&self, event: &Event) {
        if let Ok(line) =
            serde_json::to_string(&EventLine { v: FORMAT_VERSION, time: text::now_milliseconds(), event })
        {
            self.output.print_out(&base::text::escape_json(&line));
        }
    }
}

impl RenderSink for Json {
    fn log_line(&self, line: &str) {
        self.output.print_err(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::events::Outcome;

    #[test]
    fn outcome_and_event_are_flattened() {
        let event = Event::StageFinished {
            id: 3,
            outcome: Outcome::Skipped { reason: "unchanged".to_owned() },
            elapsed: std::time::Duration::from_millis(1500),
        };
        let line =
            serde_json::to_string(&EventLine { v: FORMAT_VERSION, time: "T".to_owned(), event: &event })
                .unwrap();
        assert_eq!(
            line,
            r#"{"v":1,"time":"T","event":"stage_finished","id":3,"outcome":"skipped","reason":"unchanged","elapsed_ms":1500}"#
        );
    }
}
