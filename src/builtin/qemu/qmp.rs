//! A client of QMP, QEMU's control protocol: one JSON document a line, over the Unix socket of a VM
//! (QEMU's `docs/interop/qmp-spec`).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cpi::failure::{CpiFailure, CpiResult};

/// The socket, in the VM's directory.
pub(super) const SOCKET_FILE: &str = "qmp";
/// The timeout of one command.
const QMP_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// A connection to the QEMU of one VM.
pub(super) struct Qmp {
    stream: UnixStream,
    buffer: Vec<u8>,
    events: Vec<Value>,
}

impl Qmp {
    /// Connects to the QEMU of the VM in this directory.
    pub(super) fn connect(directory: &Path) -> CpiResult<Qmp> {
        let connect_error = |error: io::Error| {
            CpiFailure::io(
                format_args!("connecting to the QEMU of the VM in '{}'", directory.display()),
                error,
            )
        };
        Qmp::try_connect(directory).map_err(connect_error)
    }

    /// Like [`Qmp::connect`], for callers that try again.
    pub(super) fn try_connect(directory: &Path) -> io::Result<Qmp> {
        // The path of a socket must be short, and that of the directory may be long.
        let directory_file = File::open(directory)?;
        let stream =
            UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET_FILE}", directory_file.as_raw_fd()))?;
        stream.set_write_timeout(Some(QMP_TIMEOUT))?;
        let mut qmp = Qmp { stream, buffer: Vec::new(), events: Vec::new() };
        let greeting = qmp.receive(Instant::now() + QMP_TIMEOUT)?;
        if greeting.get("QMP").is_none() {
            return Err(io::Error::other("the socket does not speak QMP"));
        }
        qmp.exchange("qmp_capabilities", &json!({}))?.map_err(io::Error::other)?;
        Ok(qmp)
    }

    /// Runs a command. The error of QEMU is an error of this call.
    pub(super) fn run(&mut self, command: &str, arguments: &Value) -> CpiResult<Value> {
        self.exchange(command, arguments)
            .map_err(|error| CpiFailure::io(format_args!("QEMU's command '{command}'"), error))?
            .map_err(|error| CpiFailure::io(format_args!("QEMU's command '{command}'"), error))
    }

    /// Runs a command. The inner error is the description that QEMU gives.
    fn exchange(&mut self, command: &str, arguments: &Value) -> io::Result<Result<Value, String>> {
        let request = format!("{}\n", json!({"execute": command, "arguments": arguments}));
        self.stream.write_all(request.as_bytes())?;
        let deadline = Instant::now() + QMP_TIMEOUT;
        loop {
            let message = self.receive(deadline)?;
            if let Some(result) = message.get("return") {
                return Ok(Ok(result.clone()));
            }
            if let Some(error) = message.get("error") {
                return Ok(Err(error["desc"].as_str().unwrap_or("no description").to_owned()));
            }
            self.events.push(message);
        }
    }

    /// Waits for an event that `is_wanted` accepts, and keeps it. Returns false after `timeout`.
    pub(super) fn wait_for(
        &mut self,
        timeout: Duration,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> CpiResult<bool> {
        if self.events.iter().any(&is_wanted) {
            return Ok(true);
        }
        let deadline = Instant::now() + timeout;
        loop {
            match self.receive(deadline) {
                Ok(message) => {
                    let has_come = is_wanted(&message);
                    self.events.push(message);
                    if has_come {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(false),
                Err(error) => return Err(CpiFailure::io("waiting for an event of QEMU", error)),
            }
        }
    }

    /// Removes and returns the last event that `is_wanted` accepts.
    pub(super) fn take_event(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        let index = self.events.iter().rposition(is_wanted)?;
        Some(self.events.remove(index))
    }

    /// Returns the next message, which is one line of JSON. Fails at the deadline and at an overlong line.
    fn receive(&mut self, deadline: Instant) -> io::Result<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(serde_json::from_slice(&line)?);
            }
            if self.buffer.len() > MAX_MESSAGE_BYTES {
                return Err(io::Error::other(format!("a message exceeds {MAX_MESSAGE_BYTES} bytes")));
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "QEMU does not answer"));
            }
            self.stream.set_read_timeout(Some(remaining))?;
            let mut chunk = [0; 8192];
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "QEMU has closed the connection",
                    ));
                }
                Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
                // The loop checks the deadline.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// Serves one connection. Answers each request with the next lines.
    fn qemu(
        directory: &Path,
        greeting: &'static str,
        answers: &'static [&'static str],
    ) -> thread::JoinHandle<()> {
        let listener = UnixListener::bind(directory.join(SOCKET_FILE)).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(greeting.as_bytes()).unwrap();
            let mut requests = BufReader::new(stream.try_clone().unwrap()).lines();
            for answer in answers {
                requests.next().unwrap().unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        })
    }

    const GREETING: &str = "{\"QMP\": {}}\n";

    #[test]
    fn events_and_errors_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let answers: &[&str] = &[
            "{\"return\": {}}\n",
            "{\"event\": \"A\"}\n{\"return\": 7}\n",
            "{\"error\": {\"desc\": \"no device\"}}\n{\"event\": \"B\"}\n",
        ];
        let server = qemu(directory.path(), GREETING, answers);
        let mut qmp = Qmp::connect(directory.path()).unwrap();
        assert_eq!(qmp.run("x", &json!({})).unwrap(), json!(7));
        assert!(qmp.run("y", &json!({})).unwrap_err().message.contains("no device"));
        for name in ["A", "B"] {
            assert!(qmp.wait_for(Duration::from_secs(5), |event| event["event"] == name).unwrap(), "{name}");
        }
        server.join().unwrap();
        assert!(qmp.run("z", &json!({})).is_err(), "QEMU answered after its end");
    }

    #[test]
    fn other_servers_and_silence_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Qmp::connect(directory.path()).is_err(), "it connected without a socket");
        let server = qemu(directory.path(), "{}\n", &[]);
        assert!(Qmp::connect(directory.path()).err().unwrap().message.contains("does not speak QMP"));
        server.join().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let server = qemu(directory.path(), GREETING, &["{\"return\": {}}\n", "{\"return\": 1}\n"]);
        let mut qmp = Qmp::connect(directory.path()).unwrap();
        assert!(!qmp.wait_for(Duration::from_millis(30), |_| true).unwrap());
        qmp.run("x", &json!({})).unwrap();
        server.join().unwrap();
    }
}
