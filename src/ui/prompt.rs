//! Questions to a person at a terminal.

use crate::{Error, Result};

/// Asks a yes-or-no question; no is the default.
pub fn confirm(question: &str) -> Result<bool> {
    dialoguer::Confirm::new()
        .with_prompt(question)
        .default(false)
        .interact()
        .map_err(|error| Error::environment("the question could not be asked").with_source(error))
}
