//! Runs one CPI process so that it outlives us if it must.
//!
//! The process gets a session of its own (Ctrl-C in the terminal does not reach it), reads its request from an
//! unnamed file and writes answer and log into files: nothing it does depends on this process being alive.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::error::CpiError;

/// How a CPI is started.
#[derive(Debug, Clone)]
pub struct Executable {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its environment, whole.
    pub environment: Vec<(String, String)>,
}

/// Where a call's answer and log go.
pub struct Files {
    /// The answer file, created for this call.
    pub answer: File,
    /// The path of the same file.
    pub answer_path: PathBuf,
    /// The path of the log, created here.
    pub log_path: PathBuf,
}

impl Executable {
    fn spawn(&self, request: &[u8], files: &Files) -> Result<std::process::Child, CpiError> {
        let local = |what: &str| {
            let what = what.to_owned();
            move |source| CpiError::Local { what, source }
        };
        let mut input =
            tempfile::tempfile().map_err(local("creating a file for the CPI's request failed"))?;
        input
            .write_all(request)
            .and_then(|()| input.rewind())
            .map_err(local("writing the CPI's request failed"))?;
        let log = File::options()
            .create(true)
            .truncate(true)
            .write(true)
            .open(&files.log_path)
            .map_err(local("creating a file for the CPI's log failed"))?;
        let answer = files.answer.try_clone().map_err(local("preparing the CPI's answer file failed"))?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(answer))
            .stderr(Stdio::from(log));
        // SAFETY: setsid is async-signal-safe and touches nothing of the parent.
        #[expect(unsafe_code, reason = "a session of its own can only be entered between fork and exec")]
        unsafe {
            command.pre_exec(|| rustix::process::setsid().map(drop).map_err(io::Error::from));
        }
        command
            .spawn()
            .map_err(|source| CpiError::NotStarted { executable: self.program.display().to_string(), source })
    }

    /// Runs one call to its end and returns what it wrote. `on_log` sees the log line by line while it grows;
    /// `stop` is asked now and then whether to give up waiting (the process goes on) and because of which
    /// signal.
    pub(super) fn run(
        &self,
        request: &[u8],
        files: Files,
        on_log: &mut dyn FnMut(&str),
        stop: &dyn Fn() -> Option<u8>,
    ) -> Result<Outcome, CpiError> {
        let mut child = self.spawn(request, &files)?;
        // The child alone shall hold the lock on its answer now.
        drop(files.answer);
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || {
            let _ = ended.send(child.wait());
        });
        let mut log = LogTail::open(&files.log_path);
        loop {
            let waited = end.recv_timeout(Duration::from_millis(50));
            log.follow(on_log);
            match waited {
                Ok(_exit_status_means_nothing) => break,
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    if let Some(signal) = stop() {
                        return Ok(Outcome::Abandoned(signal));
                    }
                }
            }
        }
        log.rest(on_log);
        let mut answer = Vec::new();
        File::open(&files.answer_path)
            .and_then(|file| file.take(super::rpc::ANSWER_LIMIT + 1).read_to_end(&mut answer))
            .map_err(|source| CpiError::Local {
                what: "reading the CPI's answer failed".to_owned(),
                source,
            })?;
        Ok(Outcome::Answer { bytes: answer, log_tail: log.tail() })
    }
}

/// How a wait for a process ended.
pub(super) enum Outcome {
    /// It ended; this is what it wrote and the end of its log.
    Answer {
        /// Standard output.
        bytes: Vec<u8>,
        /// The last lines of standard error.
        log_tail: String,
    },
    /// The operator stopped waiting, with this signal.
    Abandoned(u8),
}

/// Reads a growing log file.
pub(super) struct LogTail {
    file: Option<File>,
    pending: Vec<u8>,
    last: std::collections::VecDeque<String>,
}

/// How much of a log goes into an error.
const TAIL_LINES: usize = 12;
const LINE_LIMIT: usize = 16 * 1024;

impl LogTail {
    pub(super) fn open(path: &Path) -> Self {
        LogTail { file: File::open(path).ok(), pending: Vec::new(), last: Default::default() }
    }

    pub(super) fn follow(&mut self, on_log: &mut dyn FnMut(&str)) {
        let Some(file) = &mut self.file else { return };
        let mut chunk = [0; 8192];
        while let Ok(read @ 1..) = file.read(&mut chunk) {
            self.pending.extend_from_slice(&chunk[..read]);
            while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                Self::line(&mut self.last, &line, on_log);
            }
            if self.pending.len() > LINE_LIMIT {
                let line = std::mem::take(&mut self.pending);
                Self::line(&mut self.last, &line, on_log);
            }
        }
    }

    pub(super) fn rest(&mut self, on_log: &mut dyn FnMut(&str)) {
        self.follow(on_log);
        if !self.pending.is_empty() {
            let line = std::mem::take(&mut self.pending);
            Self::line(&mut self.last, &line, on_log);
        }
    }

    fn line(last: &mut std::collections::VecDeque<String>, bytes: &[u8], on_log: &mut dyn FnMut(&str)) {
        let line = String::from_utf8_lossy(bytes).trim_end().to_owned();
        on_log(&line);
        if last.len() == TAIL_LINES {
            last.pop_front();
        }
        last.push_back(line);
    }

    pub(super) fn tail(self) -> String {
        Vec::from(self.last).join("\n")
    }
}

/// Files in `directory` for a call that needs no journal because it changes nothing.
pub(super) fn scratch_files(directory: &Path, request_id: &str) -> Result<Files, CpiError> {
    let answer_path = directory.join(format!("{request_id}.answer"));
    let mut answer = File::options().write(true).create_new(true).open(&answer_path).map_err(|source| {
        CpiError::Local { what: "creating a file for the CPI's answer failed".to_owned(), source }
    })?;
    let _ = answer.seek(SeekFrom::Start(0));
    Ok(Files { answer, answer_path, log_path: directory.join(format!("{request_id}.log")) })
}
