//! Text without a terminal.

use std::io::Write;

use super::renderer::{Options, Screen};
use super::{Event, Sink};

/// See the module.
pub(super) struct Plain {}

impl Plain {
    pub(super) fn new(_: Options) -> Self {
        Plain {}
    }
}

impl Sink for Plain {
    fn emit(&self, event: &Event) {
        self.log_line(&format!("{event:?}"));
    }
}

impl Screen for Plain {
    fn log_line(&self, line: &str) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}
