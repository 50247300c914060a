//! Follows logs through an agent that can only pack them: fetches archives repeatedly, and shows the lines
//! after the last known position. The longer the packing takes, the longer the pause between fetches.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::agent_client::Agent;
use crate::run_context::{RunContext, signals};
use base::{Error, ErrorKind, Result};

/// The minimum pause between two fetches.
const MIN_FETCH_PAUSE: Duration = Duration::from_secs(1);
/// The minimum ratio of the pause to the duration of a fetch, which limits the load on the VM.
const PAUSE_FACTOR: u32 = 4;
/// The maximum shown growth of a file since the last fetch, in bytes. The rest is skipped.
const MAX_SHOWN_GROWTH_BYTES: u64 = 8 << 20;

/// The positions up to which logs were shown.
pub(super) struct Follower {
    /// The position in each file up to which it was shown.
    shown_positions: HashMap<PathBuf, u64>,
    /// True after the first fetch.
    has_fetched: bool,
    /// The number of lines of each file to show first.
    first_lines: usize,
}

impl Follower {
    pub(super) fn new(first_lines: usize) -> Self {
        Follower { shown_positions: HashMap::new(), has_fetched: false, first_lines }
    }

    /// Fetches logs until a signal arrives. Waits up to `timeout` for an agent that does not answer.
    pub(super) fn follow(
        &mut self,
        run: &RunContext,
        agent: &Agent,
        timeout: Duration,
        show_new_lines: &mut dyn FnMut(&Agent, &mut Follower) -> Result<()>,
    ) -> Result<()> {
        while run.signal().is_none() {
            let start = Instant::now();
            match show_new_lines(agent, self) {
                Ok(()) => {}
                Err(_) if run.signal().is_some() => break,
                Err(error) if error.kind() == ErrorKind::AgentUnreachable => {
                    run.reporter.warn(format!("{error}; waiting for the agent"));
                    agent.wait_until_ready(timeout, &mut |_| {})?;
                    continue;
                }
                Err(error) => return Err(error),
            }
            self.has_fetched = true;
            let pause = (start.elapsed() * PAUSE_FACTOR).max(MIN_FETCH_PAUSE);
            // A signal is the regular end.
            if signals::pause(run, pause).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the complete lines of a file that were not shown yet, as one text of at most
    /// [`MAX_SHOWN_GROWTH_BYTES`] bytes.
    pub(super) fn new_lines(&mut self, name: &Path, path: &Path) -> Result<Vec<u8>> {
        let read_error = |error| Error::io(format!("reading '{}'", path.display()), error);
        let mut file = File::open(path).map_err(read_error)?;
        let length = file.metadata().map_err(read_error)?.len();
        let is_new_file = !self.shown_positions.contains_key(name);
        // A file that became shorter has been rotated.
        let shown_position =
            self.shown_positions.get(name).copied().filter(|position| *position <= length).unwrap_or(0);
        let start = shown_position.max(length.saturating_sub(MAX_SHOWN_GROWTH_BYTES));
        file.seek(SeekFrom::Start(start)).map_err(read_error)?;
        let mut bytes = Vec::new();
        file.take(length - start).read_to_end(&mut bytes).map_err(read_error)?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |index| index + 1);
        self.shown_positions.insert(name.to_owned(), start + end as u64);
        bytes.truncate(end);
        if is_new_file && !self.has_fetched {
            let breaks = bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
            let start = breaks.map(|(index, _)| index + 1).nth(self.first_lines);
            bytes.drain(..start.unwrap_or(0));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_complete_lines_are_shown() {
        let directory = tempfile::tempdir().unwrap();
        let (name, path) = (Path::new("a/a.log"), directory.path().join("a.log"));
        let mut follower = Follower::new(1);
        let lines_after = |follower: &mut Follower, text: &str| -> Vec<String> {
            std::fs::write(&path, text).unwrap();
            let new_lines = follower.new_lines(name, &path).unwrap();
            follower.has_fetched = true;
            String::from_utf8(new_lines).unwrap().lines().map(str::to_owned).collect()
        };
        assert_eq!(lines_after(&mut follower, "old\nnewer\nhalf"), ["newer"]);
        assert_eq!(lines_after(&mut follower, "old\nnewer\nhalf a line\nmore\n"), ["half a line", "more"]);
        assert!(lines_after(&mut follower, "old\nnewer\nhalf a line\nmore\n").is_empty());
        // Rotated.
        assert_eq!(lines_after(&mut follower, "fresh\n"), ["fresh"]);
        // A file that appears later is shown from its beginning.
        let other = directory.path().join("b.log");
        std::fs::write(&other, "1\n2\n3\n").unwrap();
        assert_eq!(follower.new_lines(Path::new("b.log"), &other).unwrap(), b"1\n2\n3\n");
    }
}
