//! Runs one CPI process, which can outlive this one.
//!
//! The process gets its own session, so that Ctrl-C in the terminal does not reach it. It reads its request
//! from an unnamed file and writes its answer and log to files, so it does not depend on this process.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::client::StopCause;
use super::error::CpiError;
use super::log::CallLog;
use crate::protocol::RequestId;
use base::files::directory::parent;
use base::files::durable::give_file_to_owner_of;
use base::files::input;

/// The time after which the log of a call shows the number of its process, so that the operator can look at a
/// process that hangs.
const LONG_CALL_DURATION: Duration = Duration::from_secs(30);

/// The command line and environment of a CPI.
#[derive(Debug, Clone)]
pub struct Executable {
    /// The path of the program.
    pub program: PathBuf,
    /// The arguments of the program, the same in each call.
    pub arguments: Vec<String>,
    /// Its whole environment.
    pub env_vars: Vec<(String, String)>,
}

/// The files for the answer and the log of a call.
pub struct OutputFiles {
    /// The answer file, created for this call.
    pub answer: File,
    /// The current path of the answer file, if the process must rename it to `answer_path` when it becomes
    /// the CPI.
    pub prepared_path: Option<PathBuf>,
    /// The path of the same file once the CPI runs.
    pub answer_path: PathBuf,
    /// The path of the log, which `run` creates.
    pub log_path: PathBuf,
    /// The path under which a later run finds how the process of a call without a usable answer ended. None
    /// if no later run asks.
    pub end_path: Option<PathBuf>,
}

impl Executable {
    /// Starts the CPI with request, answer and log in files, so that it can go on when this process ends.
    fn spawn(&self, request: &[u8], files: &OutputFiles) -> Result<std::process::Child, CpiError> {
        let directory = files.log_path.parent().unwrap_or(Path::new("."));
        let local_error = |action: &str| {
            let message = format!("{action} in '{}' failed", directory.display());
            let path = Some(files.log_path.clone());
            move |source| CpiError::Local { message, path, source }
        };
        let mut input =
            tempfile::tempfile_in(directory).map_err(local_error("creating a file for the CPI's request"))?;
        input
            .write_all(request)
            .and_then(|()| input.rewind())
            .map_err(local_error("writing the CPI's request"))?;
        let log = File::options()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&files.log_path)
            .and_then(|log| give_file_to_owner_of(&log, directory).map(|()| log))
            .map_err(local_error("creating a file for the CPI's log"))?;
        let answer = files.answer.try_clone().map_err(local_error("preparing the CPI's answer file"))?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.env_vars.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(answer))
            .stderr(Stdio::from(log));
        let rename = AnswerFileRename::of(files).map_err(local_error("preparing the CPI's answer file"))?;
        // SAFETY: setsid, rename and fsync are async-signal-safe, and their arguments were created before the
        // fork.
        #[expect(unsafe_code, reason = "a session of its own can only be entered between fork and exec")]
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                rename.make()
            });
        }
        command
            .spawn()
            .map_err(|source| CpiError::NotStarted { executable: self.program.display().to_string(), source })
    }

    /// Runs one call to its end and returns its output.
    ///
    /// `on_log` gets the log line by line while it grows. `stop_cause` is called regularly and returns the
    /// cause to stop waiting, if any. The process then continues if the call is in the journal, because a
    /// later run reads its answer; otherwise it is ended.
    pub(super) fn run(
        &self,
        request: &[u8],
        files: OutputFiles,
        on_log: &mut dyn FnMut(&str),
        stop_cause: &dyn Fn() -> Option<StopCause>,
    ) -> Result<ProcessOutcome, CpiError> {
        // The thread is started first: once the process runs, no other step may fail.
        let (child_sender, child_receiver) = mpsc::channel::<std::process::Child>();
        let (exit_sender, exit_receiver) = mpsc::channel();
        std::thread::Builder::new()
            .name("cpi".to_owned())
            .spawn(move || {
                if let Ok(mut child) = child_receiver.recv() {
                    let _ = exit_sender.send(child.wait());
                }
            })
            .map_err(|source| CpiError::Local {
                message: "starting a thread that waits for the CPI failed".to_owned(),
                path: None,
                source,
            })?;
        let child = self.spawn(request, &files)?;
        let group = rustix::process::Pid::from_child(&child);
        let _ = child_sender.send(child);
        // From now on only the child holds the lock on its answer.
        drop(files.answer);
        let mut log = CallLog::open(&files.log_path);
        let mut status = None;
        let start = Instant::now();
        let mut is_pid_shown = false;
        loop {
            let exit_message = exit_receiver.recv_timeout(Duration::from_millis(50));
            log.follow(on_log);
            if !is_pid_shown && start.elapsed() >= LONG_CALL_DURATION {
                is_pid_shown = true;
                on_log(&format!("the CPI is still running, as process {}", group.as_raw_nonzero()));
            }
            truncate_oversized_answer(&files.answer_path);
            match exit_message {
                Ok(result) => {
                    status = result.ok();
                    break;
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    if let Some(cause) = stop_cause() {
                        if files.prepared_path.is_some() {
                            return Ok(ProcessOutcome::Abandoned(cause));
                        }
                        // The process leads a session of its own, so its group has its number.
                        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                        return Ok(ProcessOutcome::Killed(cause));
                    }
                }
            }
        }
        log.read_rest(on_log);
        let mut answer = Vec::new();
        let read = File::open(&files.answer_path).and_then(|file| {
            file.take(super::answer_envelope::MAX_ANSWER_BYTES + 1).read_to_end(&mut answer)
        });
        Ok(match read {
            Ok(_) => ProcessOutcome::Answer { bytes: answer, log, status },
            // This is no `Local` error, because the call was made.
            Err(error) => ProcessOutcome::Unreadable(error),
        })
    }
}

/// Frees the disk space of an answer that exceeds the limit while its process still writes. The length of the
/// file stays above the limit, so every reader comes to the same result, even in a later run.
pub(crate) fn truncate_oversized_answer(answer_path: &Path) {
    let too_long = super::answer_envelope::MAX_ANSWER_BYTES + 1;
    if answer_path.metadata().is_ok_and(|metadata| metadata.len() > too_long)
        && let Ok(file) = File::options().write(true).open(answer_path)
    {
        let result = file.set_len(0).and_then(|()| file.set_len(too_long));
        tracing::debug!(ok = result.is_ok(), "the CPI's answer is too long; its space is freed");
    }
}

/// The outcome of waiting for a process.
pub(super) enum ProcessOutcome {
    /// The process ended with this output.
    Answer {
        /// Standard output.
        bytes: Vec<u8>,
        /// The log of the call, read to the end of standard error.
        log: CallLog,
        /// The exit status, if known.
        status: Option<ExitStatus>,
    },
    /// The process ended, and its output cannot be read.
    Unreadable(io::Error),
    /// The run stopped waiting for the process.
    Abandoned(StopCause),
    /// The run ended the process.
    Killed(StopCause),
}

/// The rename that a new process makes before it becomes the CPI. The name of the answer file then shows that
/// the CPI started.
struct AnswerFileRename(Option<(CString, CString, File)>);

impl AnswerFileRename {
    fn of(files: &OutputFiles) -> io::Result<Self> {
        let Some(prepared_path) = &files.prepared_path else { return Ok(AnswerFileRename(None)) };
        let source = CString::new(prepared_path.as_os_str().as_bytes())?;
        let target = CString::new(files.answer_path.as_os_str().as_bytes())?;
        let directory = files.answer_path.parent().filter(|parent| !parent.as_os_str().is_empty());
        Ok(AnswerFileRename(Some((source, target, File::open(directory.unwrap_or(Path::new(".")))?))))
    }

    /// Makes the rename. Allocates no memory, because it runs between fork and exec.
    fn make(&self) -> io::Result<()> {
        if let Some((source, target, directory)) = &self.0 {
            rustix::fs::rename(source.as_c_str(), target.as_c_str())?;
            rustix::fs::fsync(directory)?;
        }
        Ok(())
    }
}

/// Creates files in `directory` for a call that needs no journal because it changes nothing on record.
pub(super) fn create_scratch_files(
    directory: &Path,
    request_id: &RequestId,
) -> Result<OutputFiles, CpiError> {
    let answer_path = directory.join(format!("{request_id}.answer"));
    let answer = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&answer_path)
        .map_err(|source| CpiError::answer_file(&answer_path, source))?;
    let log_path = directory.join(format!("{request_id}.log"));
    Ok(OutputFiles { answer, prepared_path: None, answer_path, log_path, end_path: None })
}

/// Describes how a process ended, unless it succeeded. The exit status decides nothing, but helps to explain
/// a missing answer.
pub(super) fn describe_end(status: ExitStatus) -> Option<String> {
    match status.code() {
        Some(0) => None,
        Some(code) => Some(format!("the CPI ended with exit status {code}")),
        // The standard library writes `signal: 9 (SIGKILL)`.
        None => {
            let signal = status.to_string().replacen("signal: ", "signal ", 1);
            let cause = match status.signal() {
                Some(9) => ", perhaps because this machine ran out of memory",
                _ => "",
            };
            Some(format!("the CPI was killed by {signal}{cause}"))
        }
    }
}

/// Keeps the end of a process for a later run. A failure only leaves that run without an explanation.
pub(super) fn keep_end(path: &Path, end: &str) {
    let result = File::options().create_new(true).write(true).mode(0o600).open(path).and_then(|mut file| {
        give_file_to_owner_of(&file, parent(path))?;
        file.write_all(end.as_bytes())
    });
    if let Err(error) = result {
        tracing::debug!(%error, "the end of the CPI's process is not kept");
    }
}

/// Returns the end of a process that an earlier run kept with [`keep_end`].
pub(crate) fn read_kept_end(path: &Path) -> Option<String> {
    const MAX_BYTES: u64 = 1024;
    input::read_text(path, MAX_BYTES).ok()
}
