//! What stays behind when a run on a shared state is killed: a process of this program that waits for the answers of the
//! CPI's processes, which outlive the run as well, and puts them into the bucket, where the next run finds them, on
//! whichever machine that is. Meanwhile it goes on with the run's lease, which it gives back at last.

use std::io::{self, BufRead, Read, Write};
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
use crate::state::calls::{self, CallFiles, Progress, Watched};
use crate::state::wait::wait_for_answer;
use base::encryption::Encryption;
use base::{Error, Result};

/// What a run that ends in order says to it.
const DONE: &[u8] = b"done";
/// How long it tries to reach a bucket that cannot be reached: the lease has run out long since, but what it has to tell
/// spares whoever comes next a search.
const INSISTENCE: Duration = Duration::from_secs(3600);
/// How long it waits before it tries again.
const PAUSE: Duration = Duration::from_secs(2);

impl Objects {
    /// Tries until it succeeds, or for as long as that can be of use: what is denied, or not there at all, for no longer
    /// than the lease lasts, in which it may still become so.
    fn insist<T>(&self, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        use io::ErrorKind::{NotFound, PermissionDenied, Unsupported};

        let begun = Instant::now();
        loop {
            let error = match attempt() {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let in_vain = matches!(error.kind(), NotFound | PermissionDenied | Unsupported);
            if begun.elapsed() > if in_vain { self.shared.lease } else { INSISTENCE } {
                return Err(error);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// What it is told when it starts.
#[derive(Serialize, Deserialize)]
struct Order {
    shared: Shared,
    owner: Uuid,
    calls: PathBuf,
    encryption: Encryption,
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
        encryption: &Encryption,
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
        let told =
            Order { shared: shared.clone(), owner, calls: calls.to_owned(), encryption: encryption.clone() };
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
        let pending = |call: &CallFiles| matches!(call.progress(), Ok(Progress::Pending));
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
    // Before anything else: whoever killed the run may be about to remove its files.
    let calls: Vec<_> = calls::announced(&order.calls).into_iter().map(CallFiles::watch).collect();
    let objects = Arc::new(Objects::open(&order.shared)?);
    let lease = objects
        .insist(|| Lease::inherit(&objects, order.owner, &order.calls))
        .map_err(|error| Error::io(format!("going on with the lease of '{}'", objects.url("")), error))?;
    let mut kept = Ok(());
    for call in calls {
        let published = call.map_err(failed).and_then(|call| publish(&objects, &order.encryption, &call));
        kept = kept.and(published);
    }
    match &kept {
        // It goes with the calls' being known.
        Ok(()) => drop(lease),
        Err(_) => lease.into_iter().for_each(Lease::let_run_out),
    }
    kept
}

/// Puts what became of a call into the bucket, once that is known.
fn publish(objects: &Objects, encryption: &Encryption, watched: &Watched) -> Result<()> {
    let call = watched.files();
    let failed = |error| Error::io(format!("keeping the answer to call {}", call.request_id()), error);
    let (kind, bytes) = wait_for_answer(
        || match watched.progress().map_err(failed)? {
            Some(Progress::NeverAsked) => Ok(Some((calls::UNASKED, Vec::new()))),
            Some(Progress::Ended(bytes)) => Ok(Some((calls::ANSWER, bytes))),
            Some(Progress::Pending) => Ok(None),
            None => Err(failed(io::Error::other("its files were removed before it was known"))),
        },
        || {
            let bytes = watched.answer_so_far().map_err(failed)?;
            let is_whole = serde_json::from_slice::<serde_json::Value>(&bytes).is_ok();
            Ok(is_whole.then_some((calls::ANSWER, bytes)))
        },
        || {
            std::thread::sleep(Duration::from_millis(50));
            Ok(())
        },
    )?;
    let bytes = encryption.seal(&bytes).map_err(failed)?;
    let document = |kind| calls::document(call.request_id(), kind);
    objects
        .insist(|| {
            // Another run may have settled it meanwhile: then the answer would stay there for good. That a call was
            // never made may arrive before its announcement does.
            if kind == calls::ANSWER && objects.get(&document(calls::INTENT))?.is_none() {
                return Ok(());
            }
            // One that is there already is the same.
            objects.put(&document(kind), &bytes, &Over::Nothing).map(drop)
        })
        .map_err(failed)?;
    call.is_published();
    Ok(())
}
