//! Questions to a person at a terminal. The one file that uses dialoguer.

use std::io::Write;

use crate::{Error, ErrorKind, Result};

/// Asks a yes-or-no question on standard error; no is the default. Ctrl-C is
/// [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted).
pub fn confirm(question: &str) -> Result<bool> {
    // The prompt hides the cursor and turns Ctrl-C into SIGINT, which would end the process before the cursor
    // is back. While it is up the signal only makes the read fail.
    #[cfg(unix)]
    let caught = signal_hook::flag::register(signal_hook::consts::SIGINT, std::sync::Arc::default())
        .map_err(|error| Error::io("installing a signal handler", error))?;
    let answer = dialoguer::Confirm::new().with_prompt(question).default(false).interact();
    #[cfg(unix)]
    signal_hook::low_level::unregister(caught);
    answer.map_err(|dialoguer::Error::IO(error)| {
        // Shows the cursor again (DECTCEM). A terminal that is gone needs none.
        let _ = std::io::stderr().write_all(b"\x1b[?25h\n");
        match error.kind() {
            std::io::ErrorKind::Interrupted => {
                Error::new(ErrorKind::Interrupted(2), "interrupted before anything was done")
            }
            _ => Error::io("asking for confirmation", error),
        }
    })
}
