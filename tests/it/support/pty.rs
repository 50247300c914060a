//! Runs the program on a real pseudo-terminal, with an emulator that shows the screen of an operator.
//!
//! Like most terminals, the emulator wraps long lines, and wraps all lines again when it is resized.

use super::process::{WaitForEnd, name_wait};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The mark at the end of a row that the terminal wrapped.
pub(crate) const WRAP_SIGN: &str = "↵";
/// The timeout of a test on a terminal.
const WAIT_TIMEOUT: Duration = Duration::from_secs(90);
/// The time without output after which the output of a program that ended is complete.
const QUIET_TIME: Duration = Duration::from_secs(1);

/// A program on a terminal.
pub(crate) struct Pty {
    child: Child,
    master: OwnedFd,
    terminal: Arc<Mutex<avt::Terminal>>,
    /// The complete output, for failing tests.
    raw: Arc<Mutex<Vec<u8>>>,
    /// Reads the output until all processes have closed the terminal.
    reader: JoinHandle<()>,
}

/// Starts a command on a terminal with colours.
pub(crate) fn start_on_terminal(mut command: Command, size: (u16, u16)) -> Pty {
    command.env("TERM", "xterm-256color");
    Pty::start(command, size)
}

fn winsize((columns, rows): (u16, u16)) -> Winsize {
    Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Pty {
    /// Starts a command on a terminal of this size (columns, rows). Zero columns mean an unknown size.
    pub(crate) fn start(mut command: Command, size: (u16, u16)) -> Pty {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, winsize(size)).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let stdio = || Stdio::from(slave.try_clone().unwrap());
        let child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
        // The command holds copies of the slave. The terminal closes with the last copy.
        drop((command, slave));

        let (columns, rows) = (usize::from(size.0.max(1)), usize::from(size.1.max(1)));
        let terminal = Arc::new(Mutex::new(avt::Terminal::with_scrollback(columns, rows, None).unwrap()));
        let raw = Arc::<Mutex<Vec<u8>>>::default();
        let mut output = File::from(master.try_clone().unwrap());
        let (reader_terminal, reader_raw) = (Arc::clone(&terminal), Arc::clone(&raw));
        let reader = std::thread::spawn(move || {
            let (mut buffer, mut rest) = ([0; 4096], Vec::new());
            // A terminal that no process has open returns EIO.
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                reader_raw.lock().unwrap().extend(&buffer[..count]);
                rest.extend(&buffer[..count]);
                // A character may arrive in two pieces.
                let complete_length = match std::str::from_utf8(&rest) {
                    Ok(text) => text.len(),
                    Err(error) => error.valid_up_to(),
                };
                let text = String::from_utf8(rest.drain(..complete_length).collect()).unwrap();
                reader_terminal.lock().unwrap().feed(text.as_str());
            }
        });
        Pty { child, master, terminal, raw, reader }
    }

    /// Returns the screen without trailing spaces and empty lines. A row that the terminal wrapped ends with
    /// [`WRAP_SIGN`].
    pub(crate) fn screen(&self) -> String {
        let terminal = self.terminal.lock().unwrap();
        let rows = terminal.screen().visible_lines().map(|line| {
            let sign = if line.is_wrapped() { WRAP_SIGN } else { "" };
            format!("{}{sign}", line.text().trim_end())
        });
        rows.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// Returns all lines that are or were on the screen, with wrapped lines joined.
    pub(crate) fn text(&self) -> String {
        self.terminal.lock().unwrap().screen().text().join("\n").trim_end().to_owned()
    }

    /// Returns the rows on the screen, each as texts of one style.
    pub(crate) fn styled_rows(&self) -> Vec<Vec<(String, avt::Pen)>> {
        let terminal = self.terminal.lock().unwrap();
        let rows = terminal.screen().visible_lines().map(|line| {
            let mut texts: Vec<(String, avt::Pen)> = Vec::new();
            for cell in line.cells().iter().filter(|cell| cell.width() > 0) {
                match texts.last_mut() {
                    // A space looks the same in every style.
                    Some((text, pen)) if pen == cell.pen() || cell.char() == ' ' => text.push(cell.char()),
                    _ => texts.push((cell.char().to_string(), *cell.pen())),
                }
            }
            texts
        });
        rows.collect()
    }

    /// Returns the output so far.
    pub(crate) fn raw(&self) -> String {
        String::from_utf8_lossy(&self.raw.lock().unwrap()).into_owned()
    }

    /// Waits until the screen satisfies `is_shown`, and returns it.
    #[track_caller]
    pub(crate) fn wait_for(&self, wait_name: &str, is_shown: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if is_shown(&screen) {
                return screen;
            }
            assert!(start.elapsed() < WAIT_TIMEOUT, "{wait_name} is not shown:\n{screen}\n{:?}", self.raw());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Types on the keyboard.
    pub(crate) fn press(&self, keys: &str) {
        File::from(self.master.try_clone().unwrap()).write_all(keys.as_bytes()).unwrap();
    }

    /// Sends a signal to the program.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Resizes the terminal.
    pub(crate) fn resize(&self, size: (u16, u16)) {
        let mut terminal = self.terminal.lock().unwrap();
        tcsetwinsize(self.master.as_fd(), winsize(size)).unwrap();
        terminal.resize(size.0.into(), size.1.into());
    }

    /// Waits for the program to end, and returns its exit code.
    pub(crate) fn end(&mut self) -> i32 {
        self.end_within(WAIT_TIMEOUT)
    }

    /// Waits like [`Self::end`], with another timeout.
    pub(crate) fn end_within(&mut self, timeout: Duration) -> i32 {
        self.end_with_answers("", timeout)
    }

    /// Waits like [`Self::end_within`], and presses these keys again and again, because a program discards
    /// what was typed before its question.
    pub(crate) fn end_with_answers(&mut self, answer: &str, timeout: Duration) -> i32 {
        let _wait = name_wait("a program on a terminal ends");
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            self.press(answer);
            assert!(start.elapsed() < timeout, "it does not end:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        };
        // Child processes may keep the terminal open. Then the output counts as complete once nothing more
        // arrives for a while.
        let (mut length, mut last_change) = (self.raw().len(), Instant::now());
        while !self.reader.is_finished() && last_change.elapsed() < QUIET_TIME {
            std::thread::sleep(Duration::from_millis(20));
            if self.raw().len() != length {
                (length, last_change) = (self.raw().len(), Instant::now());
            }
        }
        status.code().unwrap_or(-1)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.child.kill();
            self.child.stop();
        }
    }
}
