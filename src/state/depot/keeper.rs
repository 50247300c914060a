//! What stays behind when a run on a shared state is killed: a process of this program that waits for the answers of the
//! CPI's processes, which outlive the run as well, and puts them into the bucket, where the next run finds them, on
//! whichever machine that is. Meanwhile it goes on with the run's lease.

use std::io::{BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::lease::Lease;
use super::objects::{Objects, Over};
use super::settings::Shared;
use crate::seal::Sealing;
use crate::state::calls::{self, Call, Progress};
use crate::{Error, Result};

/// What a run that ends in order says to it.
const DONE: &[u8] = b"done";
/// How long a whole answer must stand before it counts although something still holds its file.
const GRACE: Duration = Duration::from_secs(5);
/// How long it tries to reach a bucket that cannot be reached.
const INSISTENCE: Duration = Duration::from_secs(3600);

/// What it is told when it starts.
#[derive(Serialize, Deserialize)]
struct Order {
    shared: Shared,
    owner: Uuid,
    calls: PathBuf,
    sealing: Sealing,
}

/// The process, as the run sees it.
#[derive(Debug)]
pub(super) struct Keeper {
    child: Child,
    /// Closed when this process ends, however it does.
    order: ChildStdin,
}

impl Keeper {
    pub(super) fn start(
        executable: &Path,
        shared: &Shared,
        owner: Uuid,
        calls: &Path,
        sealing: &Sealing,
    ) -> Result<Self> {
        let failed = |error| Error::io("starting the process that keeps the answers of the CPI", error);
        let mut command = Command::new(executable);
        // Nothing of it goes to whoever started the run, and no end of a terminal or directory reaches it.
        command.arg("state-keeper").current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let Some(mut order) = child.stdin.take() else {
            return Err(failed(std::io::Error::other("it has no standard input")));
        };
        let told = Order { shared: shared.clone(), owner, calls: calls.to_owned(), sealing: sealing.clone() };
        let mut line = serde_json::to_vec(&told).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        order.write_all(&line).map_err(failed)?;
        Ok(Keeper { child, order })
    }

    /// Nothing is left to be done.
    pub(super) fn dismiss(mut self) {
        let _ = self.order.write_all(DONE);
        drop(self.order);
        let _ = self.child.wait();
    }

    /// Leaves the calls in `calls` to it. It is waited for where it need not wait itself.
    pub(super) fn leave(mut self, calls: &Path) {
        drop(self.order);
        let pending = |call: &Call| matches!(call.progress(), Ok(Progress::Pending));
        if calls::announced(calls).iter().any(pending) {
            return;
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The whole life of that process: standard input says what it is to keep, and ends with the run.
pub fn keep() -> Result<()> {
    let failed = |error| Error::io("reading what to keep", error);
    // Where the terminal's end does not reach. It fails where this leads a session already.
    let _ = rustix::process::setsid();
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line).map_err(failed)?;
    let order: Order = serde_json::from_slice(&line).map_err(|error| failed(error.into()))?;
    let mut rest = Vec::new();
    let _ = input.read_to_end(&mut rest);
    if rest == DONE {
        return Ok(());
    }
    let objects = Arc::new(Objects::open(&order.shared)?);
    let begun = Instant::now();
    let lease = loop {
        match Lease::inherit(&objects, order.owner, &order.calls) {
            Ok(lease) => break lease,
            Err(error) if begun.elapsed() > INSISTENCE => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_secs(2)),
        }
    };
    for call in calls::announced(&order.calls) {
        publish(&objects, &order.sealing, &call)?;
        call.is_published();
    }
    // It goes with the calls' being known.
    drop(lease);
    Ok(())
}

/// Puts what became of a call into the bucket, once that is known.
fn publish(objects: &Objects, sealing: &Sealing, call: &Call) -> Result<()> {
    let failed = |error| Error::io(format!("keeping the answer to call {}", call.request_id()), error);
    let mut whole_since = None;
    let (kind, bytes) = loop {
        match call.progress().map_err(failed)? {
            Progress::NeverAsked => break (calls::UNASKED, Vec::new()),
            Progress::Ended(bytes) => break (calls::ANSWER, bytes),
            Progress::Pending => {}
        }
        // A process that the CPI started and left running holds the file as well; the answer is whole without it.
        let bytes = call.answer_so_far().map_err(failed)?;
        if serde_json::from_slice::<serde_json::Value>(&bytes).is_err() {
            whole_since = None;
        } else if whole_since.get_or_insert_with(Instant::now).elapsed() > GRACE {
            break (calls::ANSWER, bytes);
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let bytes = sealing.seal(&bytes).map_err(failed)?;
    let document = calls::document(call.request_id(), kind);
    let begun = Instant::now();
    loop {
        match objects.put(&document, &bytes, &Over::Nothing) {
            // One that is there already is the same.
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > INSISTENCE => return Err(failed(error)),
            Err(_) => std::thread::sleep(Duration::from_secs(2)),
        }
    }
}
