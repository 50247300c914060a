//! Questions to a person at a terminal. The one file that uses dialoguer.

use std::io::Write;

use base::{Error, ErrorKind, Result};

/// Asks a yes-or-no question on standard error; no is the default. Ctrl-C is
/// [`ErrorKind::Interrupted`](base::ErrorKind::Interrupted).
pub fn confirm(question: &str) -> Result<bool> {
    #[cfg(unix)]
    let guard = guard::Guard::new()?;
    let answer = dialoguer::Confirm::new().with_prompt(question).default(false).interact();
    #[cfg(unix)]
    guard.over();
    answer.map_err(|error| failed(error, "asking for confirmation"))
}

/// Asks for something that is not shown while it is typed, on standard error. As with [`confirm`], Ctrl-C is an
/// error; an empty answer is an answer.
pub fn secret(question: &str) -> Result<String> {
    #[cfg(unix)]
    let guard = guard::Guard::new()?;
    let answer =
        dialoguer::Password::new().with_prompt(question).allow_empty_password(true).report(false).interact();
    #[cfg(unix)]
    guard.over();
    answer.map_err(|error| failed(error, "asking for a secret"))
}

fn failed(dialoguer::Error::IO(error): dialoguer::Error, what: &str) -> Error {
    show_cursor();
    match error.kind() {
        std::io::ErrorKind::Interrupted => {
            Error::new(ErrorKind::Interrupted(2), "interrupted before anything was done")
        }
        _ => Error::io(what, error),
    }
}

/// Shows the cursor, which the prompt hides (DECTCEM). A terminal that is gone needs none.
fn show_cursor() {
    let _ = std::io::stderr().write_all(b"\x1b[?25h\n");
}

/// Signals while the question is up. The prompt turns a Ctrl-C that it reads into SIGINT and then fails, which
/// [`confirm`] reports. Any other signal, and a Ctrl-C that came before the prompt was reading, ends the process
/// as it would without a handler, but with the terminal as it was.
#[cfg(unix)]
mod guard {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::{Handle, Signals};

    use base::{Error, Result};

    /// How long a Ctrl-C that the prompt has read takes to become its error, amply.
    const GRACE: Duration = Duration::from_millis(300);

    pub(super) struct Guard {
        over: Arc<AtomicBool>,
        signals: Handle,
    }

    impl Guard {
        pub(super) fn new() -> Result<Guard> {
            let failed = |error| Error::io("watching for signals", error);
            let before = tcgetattr(rustix::stdio::stdin()).ok();
            let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
            let guard = Guard { over: Arc::default(), signals: signals.handle() };
            let over = Arc::clone(&guard.over);
            std::thread::Builder::new()
                .name("prompt-signals".into())
                .spawn(move || {
                    for signal in signals.forever() {
                        std::thread::sleep(GRACE);
                        if over.load(Ordering::SeqCst) {
                            return;
                        }
                        leave(before.as_ref(), signal);
                    }
                })
                .map_err(failed)?;
            Ok(guard)
        }

        /// The question was answered.
        pub(super) fn over(self) {
            self.over.store(true, Ordering::SeqCst);
            self.signals.close();
        }
    }

    fn leave(before: Option<&Termios>, signal: i32) {
        if let Some(before) = before {
            // The terminal may be gone: SIGHUP says so.
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, before);
        }
        super::show_cursor();
        // It fails for signals that cannot be, and these can.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}
