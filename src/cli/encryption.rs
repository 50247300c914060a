//! The recipients and identities of the state and the vars store, from options and the environment.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::globals::Globals;
use super::paths;
use base::encryption::{Encryption, check_recipient, is_private_key};
use base::files::input;
use base::{Error, Result};

/// The maximum size of a file of recipients or identities, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

static ENCRYPTION: OnceLock<Encryption> = OnceLock::new();

/// Reads recipients and identities from the options and their files. Options that have no effect on the
/// command, according to `has_effect`, are ignored: a variable of the environment may set them for all
/// commands.
pub(super) fn load_keys(globals: &Globals, has_effect: impl Fn(&str) -> bool) -> Result<()> {
    let mut recipients = Vec::new();
    for value in globals.encrypt_to.iter().filter(|_| has_effect("encrypt_to")) {
        match is_recipient(value) || is_private_key(value) {
            true => {
                check_recipient(value).map_err(|error| match is_private_key(value) {
                    true => error.context("--encrypt-to is not valid"),
                    // A recipient is public.
                    false => Error::usage(format!(
                        "'{value}' (--encrypt-to, MONOPILE_ENCRYPT_TO) is not an age recipient"
                    ))
                    .with_hints(error.hints()),
                })?;
                recipients.push(value.clone());
            }
            false => recipients.extend(read_recipients(Path::new(value))?),
        }
    }
    let identities = globals.identity.iter().filter(|_| has_effect("identity")).map(|path| {
        if is_private_key(&path.to_string_lossy()) {
            return Err(key_in_place_of_path_error("--identity"));
        }
        Ok((
            path.display().to_string(),
            read(
                path,
                "an identity (--identity, MONOPILE_IDENTITY)",
                "(--identity, MONOPILE_IDENTITY) does not exist",
                "name the file with the private key (AGE-SECRET-KEY-…) of a recipient",
            )?,
        ))
    });
    let encryption = Encryption::new(recipients, identities.collect::<Result<_>>()?)?;
    let _ = ENCRYPTION.set(encryption);
    Ok(())
}

/// Returns the encryption of this process, which is off before [`load_keys`].
pub(super) fn current() -> Encryption {
    ENCRYPTION.get().cloned().unwrap_or_default()
}

/// Returns true for a recipient. Other values of `--encrypt-to` are paths.
pub(super) fn is_recipient(value: &str) -> bool {
    value.starts_with("age1")
}

/// Returns the error for an option that got a private key itself.
pub(super) fn key_in_place_of_path_error(option: &str) -> Error {
    Error::usage(format!("{option} takes the path of a file, not the private key itself"))
        .with_hint("write the key to a file that only you can read, and name that file")
}

/// Returns the keys in a file, one per line, with the numbers of their lines. `#` begins a comment.
pub(super) fn key_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Reads recipients; see [`key_lines`].
fn read_recipients(path: &Path) -> Result<Vec<String>> {
    let text = read(
        path,
        "recipients (--encrypt-to, MONOPILE_ENCRYPT_TO)",
        "(--encrypt-to, MONOPILE_ENCRYPT_TO) is neither an age recipient (age1…) nor a file",
        "name a public key (age1…), or a file of them; to print that of a private key: `age-keygen -y FILE`",
    )?;
    let mut recipients = Vec::new();
    for (number, line) in key_lines(&text) {
        let problem =
            format!("line {number} of '{}' (--encrypt-to, MONOPILE_ENCRYPT_TO) is not valid", path.display());
        check_recipient(line).map_err(|error| error.context(problem))?;
        recipients.push(line.to_owned());
    }
    if recipients.is_empty() {
        return Err(Error::usage(format!(
            "'{}' (--encrypt-to, MONOPILE_ENCRYPT_TO) has no recipient",
            path.display()
        ))
        .with_hint(
            "write one public key (age1…) per line; to print that of a private key: `age-keygen -y FILE`",
        ));
    }
    Ok(recipients)
}

/// Reads a file of keys. If there is none, `missing` ends the error, and `hint` is its hint. A value that is
/// neither a key nor a file is a usage error, like an invalid key.
pub(super) fn read(path: &Path, content: &str, missing: &str, hint: &str) -> Result<String> {
    let path: PathBuf = paths::expand(path, paths::home().as_deref());
    input::read_text(&path, MAX_FILE_BYTES).map_err(|error| {
        if error.kind() == std::io::ErrorKind::NotFound {
            let message = format!("'{}' {missing}", path.display());
            return match missing.ends_with("nor a file") {
                true => Error::usage(message),
                false => Error::invalid(message),
            }
            .with_hint(hint);
        }
        Error::usage(format!("reading {content} from '{}' failed", path.display())).with_source(error)
    })
}
