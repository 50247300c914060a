//! Encryption at rest with [age](https://age-encryption.org/v1), so that only holders of an identity can read
//! a state that is kept in a repository.
//!
//! Encrypted documents are armored, so that a repository handles them as text. The first line identifies
//! them.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::io::{self, Read, Write};

use age::armor::{ArmoredReader, ArmoredWriter, Format};
use age::{Decryptor, EncryptError, Encryptor, Identity, IdentityFile, Recipient, x25519};
use age_core::format::{FileKey, Stanza};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Error, Result};

/// The first bytes of armored and of binary files.
const FILE_BEGINNINGS: [&[u8]; 2] = [b"-----BEGIN AGE ENCRYPTED FILE-----", b"age-encryption.org/v1\n"];

/// The beginning of a private key.
const IDENTITY_PREFIX: &str = "AGE-SECRET-KEY-1";

/// The hint for a run without a suitable identity.
const IDENTITY_HINT: &str = "name the private key of one of the recipients: `monopile SAME-COMMAND \
                             --identity FILE`, or MONOPILE_IDENTITY";

/// The hint for a recipient that is not valid.
const RECIPIENT_HINT: &str =
    "name a public key (age1…); to print that of a private key: `age-keygen -y FILE`";

/// The recipients of encrypted documents, and the identities that decrypt them. Both lists may be empty.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Encryption {
    /// Public keys, `age1…`. If there are none, documents are written in plain text.
    recipients: Vec<String>,
    /// The texts of identity files. They are never serialised.
    #[serde(skip)]
    identities: Vec<String>,
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Encryption({:?}, {} identities)", self.recipients, self.identities.len())
    }
}

/// The form of a stored document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredForm {
    /// Plain text.
    Plain,
    /// Encrypted for other recipients, or for unknown ones.
    OtherRecipients,
    /// Encrypted for the current recipients.
    CurrentRecipients,
}

fn is_encrypted(bytes: &[u8]) -> bool {
    FILE_BEGINNINGS.iter().any(|beginning| bytes.starts_with(beginning))
}

/// A hash of the recipients in the header of an encrypted document, so that a change of the recipients is
/// noticed.
///
/// age itself does not record recipients. The hash is a stanza of an unknown type, which other programs
/// ignore.
struct RecipientsMark(String);

const RECIPIENTS_TAG: &str = "monopile-recipients";

impl RecipientsMark {
    fn of(recipients: &[String]) -> Self {
        // Order and repetition do not matter.
        let recipients: BTreeSet<&String> = recipients.iter().collect();
        let digest =
            recipients.iter().fold(Sha256::new(), |digest, one| digest.chain_update(format!("{one}\n")));
        RecipientsMark(hex::encode(digest.finalize()))
    }

    /// Reads the mark of an encrypted document. Returns `None` for a document that another program encrypted.
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut file = Vec::new();
        ArmoredReader::new(bytes).read_to_end(&mut file).ok()?;
        // The header consists of lines of text. Its last line begins with `---`.
        let mut lines = file.split(|byte| *byte == b'\n').take_while(|line| !line.starts_with(b"---"));
        let beginning = format!("-> {RECIPIENTS_TAG} ");
        lines.find_map(|line| {
            str::from_utf8(line).ok()?.strip_prefix(&beginning).map(|mark| RecipientsMark(mark.to_owned()))
        })
    }
}

impl Recipient for RecipientsMark {
    fn wrap_file_key(&self, _: &FileKey) -> Result<(Vec<Stanza>, HashSet<String>), EncryptError> {
        let stanza = Stanza { tag: RECIPIENTS_TAG.to_owned(), args: vec![self.0.clone()], body: Vec::new() };
        Ok((vec![stanza], HashSet::new()))
    }
}

impl Encryption {
    /// Encrypts for `recipients` (`age1…`), and decrypts with `identities` (name and text of identity files).
    ///
    /// An invalid text is a usage error. The error names the file, but quotes neither recipients nor
    /// identities, because they are easily confused.
    pub fn new(recipients: Vec<String>, identities: Vec<(String, String)>) -> Result<Self> {
        for (index, recipient) in recipients.iter().enumerate() {
            let problem = || format!("recipient {} of {} is not valid", index + 1, recipients.len());
            check_recipient(recipient).map_err(|error| error.context(problem()))?;
        }
        for (name, text) in &identities {
            let identity_file_error = |reason: String| {
                Error::usage(format!("'{name}' is not an age identity file: {reason}"))
                    .with_hint("name the file with the private key of a recipient")
            };
            if is_encrypted(text.as_bytes()) {
                return Err(identity_file_error(
                    "it is encrypted with a passphrase, which is not supported".into(),
                ));
            }
            // The parser's error is dropped, because it may quote a line.
            let parsed_identities = parse_identities(text).map_err(|_| {
                let is_invalid = |line: &str| parse_identities(line).is_err();
                let index = text.lines().position(is_invalid).unwrap_or_default();
                let number = index + 1;
                let is_key = text.lines().nth(index).is_some_and(|line| line.starts_with(IDENTITY_PREFIX));
                identity_file_error(match is_key {
                    true => format!("the private key in line {number} is not valid"),
                    false => format!("line {number} does not begin with {IDENTITY_PREFIX}"),
                })
            })?;
            if parsed_identities.is_empty() {
                return Err(identity_file_error("it is empty".into()));
            }
        }
        Ok(Encryption { recipients, identities: identities.into_iter().map(|(_, text)| text).collect() })
    }

    /// Returns true if documents are written encrypted.
    pub fn encrypts(&self) -> bool {
        !self.recipients.is_empty()
    }

    /// Fails if documents are encrypted and none of the identities could decrypt them. `document` names the
    /// document in the error.
    pub fn check_decrypts_own(&self, document: &str) -> Result<()> {
        if !self.encrypts() {
            return Ok(());
        }
        let probe = self.encrypt(b"").map_err(|error| Error::io("encrypting for --encrypt-to", error))?;
        if self.decrypt(probe).is_ok() {
            return Ok(());
        }
        Err(match self.identities.is_empty() {
            true => Error::usage(format!(
                "{document} would be encrypted (--encrypt-to), and this run has no identity to read it again"
            ))
            .with_hint(IDENTITY_HINT),
            false => Error::usage(
                "the recipients (--encrypt-to) do not include the owner of the identity (--identity)",
            )
            .with_note(format!("this run could not read {document} again"))
            .with_hint("add your own public key to the recipients, which this prints: `age-keygen -y FILE`"),
        }
        .with_note("nothing was changed"))
    }

    /// Returns the form of a stored document.
    pub fn stored_form(&self, bytes: &[u8]) -> StoredForm {
        match is_encrypted(bytes) {
            false => StoredForm::Plain,
            true if RecipientsMark::read(bytes)
                .is_some_and(|mark| mark.0 == RecipientsMark::of(&self.recipients).0) =>
            {
                StoredForm::CurrentRecipients
            }
            true => StoredForm::OtherRecipients,
        }
    }

    /// Returns the private keys, which must be redacted.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.identities.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("AGE-"))
    }

    /// Encrypts a document for the recipients. Returns it unchanged if there are none.
    pub fn encrypt(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        if !self.encrypts() {
            return Ok(bytes.to_vec());
        }
        let recipients =
            self.recipients.iter().map(|text| parse_recipient(text)).collect::<Result<Vec<_>, _>>();
        let recipients = recipients.map_err(io::Error::other)?;
        let mark = RecipientsMark::of(&self.recipients);
        let recipients = recipients.iter().map(|recipient| recipient as &dyn Recipient).chain([&mark as _]);
        let encryptor = Encryptor::with_recipients(recipients).map_err(io::Error::other)?;
        let armor = ArmoredWriter::wrap_output(Vec::new(), Format::AsciiArmor)?;
        let mut writer = encryptor.wrap_output(armor)?;
        writer.write_all(bytes)?;
        writer.finish()?.finish()
    }

    /// Decrypts a document. Returns a plain one unchanged.
    ///
    /// The kind of the error is `InvalidInput` if the header is damaged or if no identity matches.
    pub fn decrypt(&self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        if !is_encrypted(&bytes) {
            return Ok(bytes);
        }
        let identity_error = |error: Error| io::Error::new(io::ErrorKind::InvalidInput, error);
        if self.identities.is_empty() {
            return Err(identity_error(
                Error::invalid("it is encrypted with age, and this run has no identity")
                    .with_hint(IDENTITY_HINT),
            ));
        }
        let identities: Vec<Box<dyn Identity>> =
            self.identities.iter().filter_map(|text| parse_identities(text).ok()).flatten().collect();
        let decrypt_error = |error: age::DecryptError| match error {
            age::DecryptError::NoMatchingKeys => identity_error(
                Error::invalid("it is encrypted with age, but not for the identity given")
                    .with_hint(IDENTITY_HINT),
            ),
            other => {
                identity_error(Error::invalid(format!("it is encrypted with age, but damaged: {other}")))
            }
        };
        let decryptor = Decryptor::new_buffered(ArmoredReader::new(&bytes[..])).map_err(decrypt_error)?;
        let identities = identities.iter().map(|identity| &**identity);
        let mut plaintext = Vec::new();
        decryptor.decrypt(identities).map_err(decrypt_error)?.read_to_end(&mut plaintext)?;
        Ok(plaintext)
    }
}

/// Checks an age recipient. The error does not quote it, because it may be a private key.
pub fn check_recipient(recipient: &str) -> Result<()> {
    if is_private_key(recipient) {
        return Err(Error::usage("it is a private key, not an age recipient")
            .with_hint("replace the private key if others could have read it: `age-keygen -o FILE`")
            .with_hint(RECIPIENT_HINT));
    }
    parse_recipient(recipient)
        .map_err(|_| Error::usage("it is not an age recipient").with_hint(RECIPIENT_HINT))?;
    Ok(())
}

/// Returns true for the text of an age identity.
pub fn is_private_key(text: &str) -> bool {
    text.trim_start().get(..4).is_some_and(|start| start.eq_ignore_ascii_case("AGE-"))
}

fn parse_recipient(recipient: &str) -> Result<x25519::Recipient, String> {
    recipient.parse().map_err(|error: &str| error.to_owned())
}

fn parse_identities(text: &str) -> io::Result<Vec<Box<dyn Identity>>> {
    IdentityFile::from_buffer(text.as_bytes())?.into_identities().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use age::secrecy::ExposeSecret;

    /// Returns a recipient with the name and text of its identity file.
    fn pair() -> (String, (String, String)) {
        let identity = x25519::Identity::generate();
        let text = format!("# created: today\n{}\n", identity.to_string().expose_secret());
        (identity.to_public().to_string(), ("key.txt".to_owned(), text))
    }

    #[test]
    fn only_recipients_can_decrypt() {
        let ((one, first), (two, second), (_, third)) = (pair(), pair(), pair());
        let to_both = Encryption::new(vec![one, two], Vec::new()).unwrap();
        let ciphertext = to_both.encrypt(b"a secret").unwrap();
        assert!(ciphertext.starts_with(FILE_BEGINNINGS[0]) && ciphertext.is_ascii());
        assert_ne!(to_both.encrypt(b"a secret").unwrap(), ciphertext);
        for identity in [first, second] {
            let decryption = Encryption::new(Vec::new(), vec![identity]).unwrap();
            assert_eq!(decryption.decrypt(ciphertext.clone()).unwrap(), b"a secret");
            assert_eq!(
                decryption.decrypt([&ciphertext[..], b"\n\n\n"].concat()).unwrap(),
                b"a secret",
                "empty lines at the end were not accepted"
            );
            assert!(decryption.secrets().all(|secret| secret.starts_with("AGE-SECRET-KEY-1")));
            assert_eq!(decryption.decrypt(b"plain".to_vec()).unwrap(), b"plain");
        }
        let error =
            Encryption::new(Vec::new(), vec![third]).unwrap().decrypt(ciphertext.clone()).unwrap_err();
        assert!(error.to_string().contains("not for the identity"), "{error}");
        let error = Error::io("reading", to_both.decrypt(ciphertext).unwrap_err());
        assert_eq!(error.hints().len(), 1, "{error:?}");
        assert!(to_both.check_decrypts_own("it").unwrap_err().to_string().contains("no identity"));
        assert_eq!(Encryption::default().encrypt(b"x").unwrap(), b"x");
    }

    #[test]
    fn change_of_recipients_is_noticed() {
        let ((one, _), (two, _)) = (pair(), pair());
        let encryption_for = |recipients: &[&String]| {
            Encryption::new(recipients.iter().map(|text| (*text).clone()).collect(), Vec::new()).unwrap()
        };
        let ciphertext = encryption_for(&[&one, &two]).encrypt(b"a secret").unwrap();
        for (encryption, expected_form) in [
            (encryption_for(&[&one, &two]), StoredForm::CurrentRecipients),
            (encryption_for(&[&two, &one, &two]), StoredForm::CurrentRecipients),
            (encryption_for(&[&one]), StoredForm::OtherRecipients),
            (encryption_for(&[]), StoredForm::OtherRecipients),
        ] {
            assert_eq!(encryption.stored_form(&ciphertext), expected_form, "{encryption:?}");
            assert_eq!(encryption.stored_form(&[&ciphertext[..], b"\n"].concat()), expected_form);
            assert_eq!(encryption.stored_form(b"{}"), StoredForm::Plain);
        }
        let recipient: x25519::Recipient = one.parse().unwrap();
        let foreign = age::encrypt_and_armor(&recipient, b"a secret").unwrap();
        assert_eq!(
            encryption_for(&[&one]).stored_form(foreign.as_bytes()),
            StoredForm::OtherRecipients,
            "a file of another program counts as ours"
        );
    }

    #[test]
    fn damaged_documents_are_an_error() {
        let (recipient, identity) = pair();
        let encryption = Encryption::new(vec![recipient], vec![identity]).unwrap();
        let ciphertext = encryption.encrypt(&[b'x'; 500]).unwrap();
        for index in (40..ciphertext.len() - 40).step_by(37) {
            let mut damaged_bytes = ciphertext.clone();
            damaged_bytes[index] = if damaged_bytes[index] == b'A' { b'B' } else { b'A' };
            assert!(encryption.decrypt(damaged_bytes).is_err(), "at {index}");
        }
        assert!(encryption.decrypt(ciphertext[..ciphertext.len() / 2].to_vec()).is_err());
    }

    #[test]
    fn errors_of_identities_name_the_file_and_do_not_quote_it() {
        let error = Encryption::new(vec!["age1x".into()], Vec::new()).unwrap_err();
        let message = error.chain().join(": ");
        assert!(message.contains("is not an age recipient") && !message.contains("age1x"), "{message}");
        for (text, part) in [
            ("AGE-SECRET-KEY-1WRONG", "the private key in line 1 is not valid"),
            ("# mine\nage1wrong", "line 2 does not begin with AGE-SECRET-KEY-1"),
            ("# nothing\n", "empty"),
            ("age-encryption.org/v1\n", "passphrase"),
        ] {
            let error = Encryption::new(Vec::new(), vec![("key.txt".into(), text.into())]).unwrap_err();
            let message = format!("{error:?}");
            assert!(
                message.contains("'key.txt'") && message.contains(part) && !message.contains("WRONG"),
                "{message}"
            );
        }
    }
}
