//! The keeper: a process of this program that outlives a killed run on a shared state.
//!
//! It waits for the answers of the CPI processes, which also outlive the run, and copies them into the
//! bucket, where the next run finds them from any machine. Meanwhile it renews the run's lease, and at the
//! end it gives the lease back.

use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::STATE_DOCUMENT;
use super::bucket_client::{BucketClient, WriteCondition};
use super::lease::Lease;
use super::settings::BucketSettings;
use crate::state::calls::{self, CallFiles, LocalProgress, WatchedCall};
use crate::state::wait::wait_for_answer;
use base::encryption::Encryption;
use base::{Error, Result};

/// The message of a run that ends without being killed.
const END_MESSAGE: &[u8] = b"done";
/// The timeout for reaching an unreachable bucket. The lease expires long before, but a published answer
/// saves the next run a search.
const KEEPER_RETRY_TIMEOUT: Duration = Duration::from_secs(3600);
/// The pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

impl BucketClient {
    /// Repeats `attempt` until it succeeds or until [`KEEPER_RETRY_TIMEOUT`] is over. After an error that is
    /// usually permanent, such as a denied access, it repeats only for the length of the lease.
    fn retry<T>(&self, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        use io::ErrorKind::{NotFound, PermissionDenied, Unsupported};

        let start = Instant::now();
        loop {
            let error = match attempt() {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let is_usually_permanent = matches!(error.kind(), NotFound | PermissionDenied | Unsupported);
            if start.elapsed()
                > if is_usually_permanent { self.settings.lease_duration } else { KEEPER_RETRY_TIMEOUT }
            {
                return Err(error);
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }
}

/// The instructions of the run, read from standard input.
#[derive(Serialize, Deserialize)]
struct Instructions {
    settings: BucketSettings,
    /// The lease that the run holds, and the keeper renews.
    lease_id: Uuid,
    /// The directory to which CPI processes write their answers.
    #[serde(rename = "calls")]
    calls_directory: PathBuf,
    encryption: Encryption,
}

/// The keeper process, as the run sees it.
#[derive(Debug)]
pub(super) struct Keeper {
    child: Child,
    /// Standard input of the keeper. The kernel closes it when this process ends, even by SIGKILL.
    run_pipe: ChildStdin,
}

impl Keeper {
    /// Starts the keeper process, and passes its instructions on standard input.
    pub(super) fn start(
        executable: &Path,
        settings: &BucketSettings,
        lease_id: Uuid,
        calls_directory: &Path,
        encryption: &Encryption,
    ) -> Result<Self> {
        let start_error = |error| Error::io("starting the process that keeps the answers of the CPI", error);
        let mut command = Command::new(executable);
        // In a process group of its own, the keeper gets neither the signal of Ctrl-C nor that of the
        // terminal's end. It outlives the removal of the run's working directory, and its output is
        // discarded.
        command.arg("state-keeper").current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(start_error)?;
        let Some(mut run_pipe) = child.stdin.take() else {
            return Err(start_error(std::io::Error::other("it has no standard input")));
        };
        let instructions = Instructions {
            settings: settings.clone(),
            lease_id,
            calls_directory: calls_directory.to_owned(),
            encryption: encryption.clone(),
        };
        let mut line = serde_json::to_vec(&instructions).map_err(|error| start_error(error.into()))?;
        line.push(b'\n');
        run_pipe.write_all(&line).map_err(start_error)?;
        Ok(Keeper { child, run_pipe })
    }

    /// Ends the keeper of a run that leaves no calls to it.
    pub(super) fn stop(mut self) {
        let _ = self.run_pipe.write_all(END_MESSAGE);
        drop(self.run_pipe);
        let _ = self.child.wait();
    }

    /// Leaves the calls in `calls_directory` to the keeper. Waits briefly for it to end if no call runs.
    pub(super) fn hand_over(mut self, calls_directory: &Path) {
        drop(self.run_pipe);
        let is_running = |call: &CallFiles| matches!(call.read_progress(), Ok(LocalProgress::Running));
        if calls::find_marked_calls(calls_directory).iter().any(is_running) {
            return;
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(5) && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Runs the keeper process. Standard input gives its instructions, and ends with the run.
pub fn run_keeper() -> Result<()> {
    let read_error = |error| Error::io("reading the instructions of the keeper", error);
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line).map_err(read_error)?;
    let instructions: Instructions =
        serde_json::from_slice(&line).map_err(|error| read_error(error.into()))?;
    let mut message = Vec::new();
    let _ = input.read_to_end(&mut message);
    if message == END_MESSAGE {
        return Ok(());
    }
    // The files are opened first, because they may be removed soon after the run was killed.
    let calls: Vec<_> =
        calls::find_marked_calls(&instructions.calls_directory).into_iter().map(CallFiles::watch).collect();
    let client = Arc::new(BucketClient::open(&instructions.settings)?);
    let lease = client
        .retry(|| Lease::inherit(&client, instructions.lease_id, &instructions.calls_directory))
        .map_err(|error| {
            Error::io(format!("continuing the lease of '{}'", client.url(STATE_DOCUMENT)), error)
        })?;
    let mut result = Ok(());
    for call in calls {
        let open_error = |error| Error::io("opening the files of an open call", error);
        let publish_result =
            call.map_err(open_error).and_then(|call| publish(&client, &instructions.encryption, &call));
        result = result.and(publish_result);
    }
    match &result {
        // The lease is given back once the outcome of all calls is known.
        Ok(()) => drop(lease),
        Err(_) => lease.into_iter().for_each(Lease::let_expire),
    }
    result
}

/// Waits for the outcome of a call and copies it into the bucket.
fn publish(client: &BucketClient, encryption: &Encryption, watched_call: &WatchedCall) -> Result<()> {
    let call = watched_call.files();
    let keep_error = |error| Error::io(format!("keeping the answer to call {}", call.request_id()), error);
    let (kind, bytes) = wait_for_answer(
        || match watched_call.read_progress().map_err(keep_error)? {
            Some(LocalProgress::NeverStarted) => Ok(Some((calls::NEVER_STARTED_KIND, Vec::new()))),
            Some(LocalProgress::Ended(bytes)) => Ok(Some((calls::ANSWER_KIND, bytes))),
            Some(LocalProgress::Running) => Ok(None),
            None => Err(keep_error(io::Error::other("its files were removed before the outcome was known"))),
        },
        || {
            let bytes = watched_call.read_answer_so_far().map_err(keep_error)?;
            let is_complete = serde_json::from_slice::<serde_json::Value>(&bytes).is_ok();
            Ok(is_complete.then_some((calls::ANSWER_KIND, bytes)))
        },
        || {
            std::thread::sleep(Duration::from_millis(50));
            Ok(())
        },
    )?;
    let bytes = encryption.encrypt(&bytes).map_err(keep_error)?;
    let document = |kind| calls::document_name(call.request_id(), kind);
    client
        .retry(|| {
            // Another run may have settled the call meanwhile, and the answer would then stay forever. The
            // note that a call was never made may arrive before its announcement.
            if kind == calls::ANSWER_KIND && client.get(&document(calls::INTENT_KIND))?.is_none() {
                return Ok(());
            }
            // A conflict is fine: an existing document has the same content.
            client.put(&document(kind), &bytes, &WriteCondition::Absent).map(drop)
        })
        .map_err(keep_error)?;
    call.remove_mark();
    Ok(())
}
