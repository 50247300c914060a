//! Encryption at rest, with [age](https://age-encryption.org/v1): what is kept in a repository can be read by whoever has
//! an identity, and by nobody else.
//!
//! What is sealed is text (armored), so that a repository takes it for such, and is recognised by its first line.

use std::fmt;
use std::io::{self, Read, Write};

use age::armor::{ArmoredReader, ArmoredWriter, Format};
use age::{Decryptor, Encryptor, Identity, IdentityFile, Recipient, x25519};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How armored files begin, and binary ones.
const BEGINNINGS: [&[u8]; 2] = [b"-----BEGIN AGE ENCRYPTED FILE-----", b"age-encryption.org/v1\n"];

/// To whom is sealed, and by whose identity sealed things are opened. Nobody, unless somebody is named.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Sealing {
    /// `age1…`
    recipients: Vec<String>,
    /// The texts of identity files. They are for this process alone.
    #[serde(skip)]
    identities: Vec<String>,
}

impl fmt::Debug for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealing({:?}, {} identities)", self.recipients, self.identities.len())
    }
}

/// Whether this is sealed.
pub fn is_sealed(bytes: &[u8]) -> bool {
    BEGINNINGS.iter().any(|beginning| bytes.starts_with(beginning))
}

impl Sealing {
    /// Seals to these recipients (`age1…`), and opens by these identities (texts of identity files, each with the name of
    /// its file).
    pub fn new(recipients: Vec<String>, identities: Vec<(String, String)>) -> Result<Self> {
        for recipient in &recipients {
            parse(recipient).map_err(|why| {
                Error::usage(format!("'{recipient}' is no recipient: {why}"))
                    .with_hint("a recipient begins with age1; `age-keygen` makes one, with its identity")
            })?;
        }
        for (name, text) in &identities {
            let wrong = |why: String| {
                Error::usage(format!("'{name}' is no file of identities: {why}"))
                    .with_hint("`age-keygen -o FILE` makes one; a line of it begins with AGE-SECRET-KEY-1")
            };
            if is_sealed(text.as_bytes()) {
                return Err(wrong(
                    "it is encrypted with a passphrase, which nobody can be asked for here".into(),
                ));
            }
            // The parser's words may quote a line.
            let parsed = identities_in(text).map_err(|_| wrong("a line of it is no identity".into()))?;
            if parsed.is_empty() {
                return Err(wrong("it is empty".into()));
            }
        }
        Ok(Sealing { recipients, identities: identities.into_iter().map(|(_, text)| text).collect() })
    }

    /// Whether what is written is sealed.
    pub fn seals(&self) -> bool {
        !self.recipients.is_empty()
    }

    /// What must not be shown.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.identities.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("AGE-"))
    }

    /// What is to be written in the place of `bytes`.
    pub(crate) fn seal(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        if !self.seals() {
            return Ok(bytes.to_vec());
        }
        let recipients = self.recipients.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>();
        let recipients = recipients.map_err(io::Error::other)?;
        let recipients = recipients.iter().map(|recipient| recipient as &dyn Recipient);
        let encryptor = Encryptor::with_recipients(recipients).map_err(io::Error::other)?;
        let armor = ArmoredWriter::wrap_output(Vec::new(), Format::AsciiArmor)?;
        let mut writer = encryptor.wrap_output(armor)?;
        writer.write_all(bytes)?;
        writer.finish()?.finish()
    }

    /// What was sealed; what was not is as it is. The kind of the error is `InvalidInput` where another identity may help.
    pub(crate) fn open(&self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        if !is_sealed(&bytes) {
            return Ok(bytes);
        }
        let unreadable = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
        if self.identities.is_empty() {
            return Err(unreadable(
                "it is encrypted with age: name a file with an identity with --identity FILE, or MONOPILE_IDENTITY",
            ));
        }
        let identities: Vec<Box<dyn Identity>> =
            self.identities.iter().filter_map(|text| identities_in(text).ok()).flatten().collect();
        let damaged = |error: age::DecryptError| match error {
            age::DecryptError::NoMatchingKeys => {
                unreadable("it is encrypted with age, and not to the identity that is given (--identity)")
            }
            other => unreadable(&format!("it is encrypted with age, and damaged: {other}")),
        };
        let decryptor = Decryptor::new_buffered(ArmoredReader::new(&bytes[..])).map_err(damaged)?;
        let identities = identities.iter().map(|identity| &**identity);
        let mut opened = Vec::new();
        decryptor.decrypt(identities).map_err(damaged)?.read_to_end(&mut opened)?;
        Ok(opened)
    }
}

fn parse(recipient: &str) -> Result<x25519::Recipient, String> {
    recipient.parse().map_err(|error: &str| error.to_owned())
}

fn identities_in(text: &str) -> io::Result<Vec<Box<dyn Identity>>> {
    IdentityFile::from_buffer(text.as_bytes())?.into_identities().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use age::secrecy::ExposeSecret;

    /// A recipient and its identity file.
    fn pair() -> (String, (String, String)) {
        let identity = x25519::Identity::generate();
        let text = format!("# created: today\n{}\n", identity.to_string().expose_secret());
        (identity.to_public().to_string(), ("key.txt".to_owned(), text))
    }

    #[test]
    fn each_recipient_opens_what_was_sealed_and_nobody_else() {
        let ((one, first), (two, second), (_, third)) = (pair(), pair(), pair());
        let to_both = Sealing::new(vec![one, two], Vec::new()).unwrap();
        let sealed = to_both.seal(b"a secret").unwrap();
        assert!(sealed.starts_with(BEGINNINGS[0]) && sealed.is_ascii());
        assert_ne!(to_both.seal(b"a secret").unwrap(), sealed);
        for identity in [first, second] {
            let opening = Sealing::new(Vec::new(), vec![identity]).unwrap();
            assert_eq!(opening.open(sealed.clone()).unwrap(), b"a secret");
            assert_eq!(
                opening.open([&sealed[..], b"\n"].concat()).unwrap(),
                b"a secret",
                "one more empty line"
            );
            assert!(opening.secrets().all(|secret| secret.starts_with("AGE-SECRET-KEY-1")));
            assert_eq!(opening.open(b"plain".to_vec()).unwrap(), b"plain");
        }
        let error = Sealing::new(Vec::new(), vec![third]).unwrap().open(sealed.clone()).unwrap_err();
        assert!(error.to_string().contains("not to the identity"), "{error}");
        let error = to_both.open(sealed).unwrap_err();
        assert!(error.to_string().contains("--identity"), "{error}");
        assert_eq!(Sealing::default().seal(b"x").unwrap(), b"x");
    }

    #[test]
    fn damage_is_found() {
        let (recipient, identity) = pair();
        let sealing = Sealing::new(vec![recipient], vec![identity]).unwrap();
        let sealed = sealing.seal(&[b'x'; 500]).unwrap();
        for at in (40..sealed.len() - 40).step_by(37) {
            let mut damaged = sealed.clone();
            damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
            assert!(sealing.open(damaged).is_err(), "at {at}");
        }
        assert!(sealing.open(sealed[..sealed.len() / 2].to_vec()).is_err());
    }

    #[test]
    fn what_is_no_recipient_or_identity_is_told_and_not_quoted() {
        let error = Sealing::new(vec!["age1x".into()], Vec::new()).unwrap_err();
        assert!(error.to_string().contains("'age1x' is no recipient"), "{error}");
        for (text, part) in [
            ("AGE-SECRET-KEY-1WRONG", "a line"),
            ("# nothing\n", "empty"),
            ("age-encryption.org/v1\n", "passphrase"),
        ] {
            let error = Sealing::new(Vec::new(), vec![("key.txt".into(), text.into())]).unwrap_err();
            let said = format!("{error:?}");
            assert!(said.contains("'key.txt'") && said.contains(part) && !said.contains("WRONG"), "{said}");
        }
    }
}
