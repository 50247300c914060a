//! The recipients and identities of state and vars store, from flags and the environment.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::globals::Globals;
use super::paths;
use base::encryption::Encryption;
use base::{Error, Result};

static ENCRYPTION: OnceLock<Encryption> = OnceLock::new();

/// Reads recipients and identities from the flags and their files.
pub(super) fn establish(globals: &Globals) -> Result<()> {
    let mut recipients = Vec::new();
    for given in &globals.encrypt_to {
        match given.starts_with("age1") {
            true => recipients.push(given.clone()),
            false => recipients.extend(recipients_in(Path::new(given))?),
        }
    }
    let identities = globals
        .identity
        .iter()
        .map(|path| Ok((path.display().to_string(), read(path, "an identity (--identity)")?)));
    let encryption = Encryption::new(recipients, identities.collect::<Result<_>>()?)?;
    let _ = ENCRYPTION.set(encryption);
    Ok(())
}

/// Returns the encryption of this process; none before [`establish`].
pub(super) fn current() -> Encryption {
    ENCRYPTION.get().cloned().unwrap_or_default()
}

/// Reads recipients, one per line. `#` begins a comment.
fn recipients_in(path: &Path) -> Result<Vec<String>> {
    let text = read(path, "recipients (--encrypt-to)")?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let recipients: Vec<String> = lines.map(str::to_owned).collect();
    if recipients.is_empty() {
        return Err(Error::usage(format!("'{}' (--encrypt-to) has no recipient", path.display()))
            .with_hint("write one age recipient per line, for instance with age-keygen -y key.txt"));
    }
    Ok(recipients)
}

fn read(path: &Path, content: &str) -> Result<String> {
    let path: PathBuf = paths::expand(path, paths::home().as_deref());
    std::fs::read_to_string(&path).map_err(|error| {
        Error::usage(format!("reading {content} from '{}' failed", path.display())).with_source(error)
    })
}
