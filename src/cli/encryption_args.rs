//! To whom state and vars store are encrypted, and by whose identity they are read: flags and the environment, once.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::globals::Globals;
use super::paths;
use base::encryption::Encryption;
use base::{Error, Result};

static SEALING: OnceLock<Encryption> = OnceLock::new();

/// What the flags say, and the files they name.
pub(super) fn establish(globals: &Globals) -> Result<()> {
    let mut recipients = Vec::new();
    for given in &globals.encrypt_to {
        match given.starts_with("age1") {
            true => recipients.push(given.clone()),
            false => recipients.extend(recipients_in(Path::new(given))?),
        }
    }
    let identities =
        globals.identity.iter().map(|path| Ok((path.display().to_string(), read(path, "the identity")?)));
    let encryption = Encryption::new(recipients, identities.collect::<Result<_>>()?)?;
    let _ = SEALING.set(encryption);
    Ok(())
}

/// What was established; nothing before.
pub(super) fn current() -> Encryption {
    SEALING.get().cloned().unwrap_or_default()
}

/// One recipient a line; `#` begins a comment.
fn recipients_in(path: &Path) -> Result<Vec<String>> {
    let text = read(path, "the recipients")?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let recipients: Vec<String> = lines.map(str::to_owned).collect();
    if recipients.is_empty() {
        return Err(Error::usage(format!("'{}' names no recipient", path.display())));
    }
    Ok(recipients)
}

fn read(path: &Path, what: &str) -> Result<String> {
    let path: PathBuf = paths::expand(path, paths::home().as_deref());
    std::fs::read_to_string(&path).map_err(|error| {
        Error::usage(format!("{what} cannot be read from '{}'", path.display())).with_source(error)
    })
}
