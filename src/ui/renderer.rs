//! Chooses a renderer and wraps it, so that whatever is shown has passed the redactor.

use std::sync::Arc;

use super::plain::Plain;
use super::{Event, Redactor, Sink};

/// How events are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A timestamped line per stage start and end.
    Plain,
    /// A live tree of stages, for terminals.
    Progress,
    /// One JSON object per line.
    Json,
}

/// What to build a renderer from.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How events are shown.
    pub format: Format,
    /// Whether colours may be used.
    pub color: bool,
    /// Whether the log lines of stages are shown as they come, and not only the last one.
    pub verbose: bool,
}

/// A sink that can also take lines of the log, without tearing what it has on the screen.
pub(super) trait Screen: Sink {
    /// Shows one line of the log on standard error.
    fn log_line(&self, line: &str);
}

/// The chosen renderer behind its redactor. Cheap to clone; clones share the screen.
#[derive(Clone)]
pub struct Renderer {
    screen: Arc<dyn Screen>,
    redactor: Redactor,
}

impl Renderer {
    /// The sink for a [`super::Reporter`].
    pub fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(self.clone())
    }

    /// Shows one line of the log, redacted.
    pub fn log_line(&self, line: &str) {
        self.screen.log_line(&self.redactor.apply(line));
    }
}

impl Sink for Renderer {
    fn emit(&self, event: &Event) {
        self.screen.emit(event);
    }
}

/// The renderer that `options` ask for.
pub fn renderer(options: Options, redactor: Redactor) -> Renderer {
    let screen: Arc<dyn Screen> = match options.format {
        Format::Plain | Format::Progress | Format::Json => Arc::new(Plain::new(options)),
    };
    Renderer { screen, redactor }
}
