//! Holds a message between the program and the agent until the test lets it pass.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use super::proxy::{Exchange, Listener};

/// A moment relative to a call or message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the other side has received it.
    Before,
    /// While the other side is working on it.
    During,
    /// When the other side has finished, before its answer has arrived.
    After,
}

/// Counts messages. At the chosen message it writes the file `held` and waits for `go`, like the scripted CPI
/// at a call.
pub(crate) struct Gate {
    directory: PathBuf,
    state: Mutex<GateState>,
}

#[derive(Default)]
struct GateState {
    point: Option<(usize, Moment)>,
    count: usize,
    last: String,
}

impl Gate {
    /// Creates a gate that holds no message, with its files in this directory.
    pub(crate) fn new(directory: PathBuf) -> Gate {
        Gate { directory, state: Mutex::default() }
    }

    /// Restarts the count, and sets the message to hold, if any.
    pub(crate) fn set(&self, point: Option<(usize, Moment)>) {
        *self.state.lock().unwrap() = GateState { point, ..GateState::default() };
    }

    /// Returns the number of messages.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().unwrap().count
    }

    fn hold(&self) {
        self.mark_held();
        // A failed test removes its files, which ends the wait.
        while !self.directory.join("go").exists() && self.directory.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn mark_held(&self) {
        std::fs::write(self.directory.join("held"), "").unwrap();
    }
}

/// The gate's listener for the proxy.
pub(crate) struct GateListener(pub std::sync::Arc<Gate>);

impl Listener for GateListener {
    fn hear_request(&self, name: &str) -> usize {
        let (number, side) = {
            let mut state = self.0.state.lock().unwrap();
            // The number of repeated queries differs from run to run.
            let is_repeated = ["ping", "get_state", "get_task"].contains(&name) && state.last == name;
            if is_repeated {
                return 0;
            }
            state.last = name.to_owned();
            state.count += 1;
            (state.count, state.point.filter(|(point, _)| *point == state.count).map(|(_, side)| side))
        };
        match side {
            Some(Moment::Before) => self.0.hold(),
            Some(Moment::During) => self.0.mark_held(),
            Some(Moment::After) | None => {}
        }
        number
    }

    fn hear_answer(&self, number: usize, _exchange: Exchange) {
        let point = self.0.state.lock().unwrap().point;
        if number > 0 && point == Some((number, Moment::After)) {
            self.0.hold();
        }
    }
}
