//! Private keys: RSA, ECDSA and Ed25519, in the formats OpenSSH, PKCS#1, PKCS#8 and SEC1, with or without a
//! passphrase.

use std::sync::Arc;

use russh::keys::{Error as RusshError, PrivateKey, decode_secret_key};

/// The maximum size of a private key in bytes.
const MAX_KEY_BYTES: usize = 64 * 1024;

/// A parsed private key. Its `Debug` form does not contain the key.
#[derive(Clone)]
pub struct SshKey(pub(super) Arc<PrivateKey>);

impl std::fmt::Debug for SshKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SshKey(…)")
    }
}

/// The reason why a text is not a usable key. Does not quote the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The key has a passphrase, but none was given.
    #[error("it is protected by a passphrase")]
    Encrypted,
    /// The passphrase is wrong.
    #[error("the passphrase is wrong")]
    WrongPassphrase,
    /// The key is encrypted with an unsupported cipher.
    #[error("it is encrypted with {0}, which is not supported")]
    Cipher(String),
    /// The text is not a private key, or is damaged.
    #[error("it is not a private key in OpenSSH or PEM format: {0}")]
    Unreadable(String),
}

impl SshKey {
    /// Parses the text of a key file. A passphrase for an unencrypted key is ignored.
    pub fn parse(text: &str, passphrase: Option<&str>) -> Result<Self, KeyError> {
        if text.len() > MAX_KEY_BYTES {
            return Err(KeyError::Unreadable(format!("it has more than {} KiB", MAX_KEY_BYTES / 1024)));
        }
        // A key from a YAML block or from copy and paste may be indented or have other line ends.
        let text: String = text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
        let legacy = legacy_cipher(&text);
        if let Some(cipher) = &legacy
            && (cipher != "AES-128-CBC" || !text.contains("-----BEGIN RSA PRIVATE KEY-----"))
        {
            return Err(KeyError::Cipher(format!("{cipher} in the old PEM format")));
        }
        let is_encrypted = legacy.is_some() || text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----");
        if is_encrypted && passphrase.is_none() {
            return Err(KeyError::Encrypted);
        }
        // With a passphrase, russh reads every PKCS#8 key as an encrypted one, and fails for a plain key.
        let decode_plain = || decode_secret_key(&text, None);
        let result = match passphrase {
            Some(passphrase) if is_encrypted => decode_secret_key(&text, Some(passphrase)),
            Some(passphrase) => match decode_plain() {
                Err(RusshError::KeyIsEncrypted) => decode_secret_key(&text, Some(passphrase)),
                other => other,
            },
            None => decode_plain(),
        };
        match result {
            Ok(key) => Ok(SshKey(Arc::new(key))),
            Err(RusshError::KeyIsEncrypted) => Err(KeyError::Encrypted),
            // With a wrong passphrase the key decrypts to garbage, which is reported as a malformed key.
            Err(_) if passphrase.is_some() => Err(KeyError::WrongPassphrase),
            Err(error) => Err(KeyError::Unreadable(
                match error {
                    RusshError::CouldNotReadKey => "no private key begins in it",
                    RusshError::UnsupportedKeyType { .. } | RusshError::UnknownAlgorithm(_) => {
                        "its type is not supported"
                    }
                    _ => "it is damaged",
                }
                .to_owned(),
            )),
        }
    }
}

/// Returns the cipher from the header of an encrypted key in the format of old OpenSSL (RFC 1421).
fn legacy_cipher(text: &str) -> Option<String> {
    let header = text.lines().find_map(|line| line.strip_prefix("DEK-Info:"))?;
    Some(header.split(',').next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs a script that writes a key to the file `k`, and returns the text of that file.
    fn generate(script: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let output =
            Command::new("bash").args(["-ec", script]).current_dir(directory.path()).output().expect("bash");
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::read_to_string(directory.path().join("k")).unwrap()
    }

    #[test]
    fn parses_every_key_type_and_format() {
        let pkcs8 = "openssl pkcs8 -topk8";
        for (script, is_encrypted) in [
            ("ssh-keygen -q -t ed25519 -N '' -f k".to_owned(), false),
            ("ssh-keygen -q -t ed25519 -N secret -f k".to_owned(), true),
            ("openssl genpkey -algorithm ed25519 -out k".to_owned(), false),
            (format!("openssl genpkey -algorithm ed25519 | {pkcs8} -passout pass:secret -out k"), true),
            ("ssh-keygen -q -t rsa -b 2048 -N '' -f k".to_owned(), false),
            ("ssh-keygen -q -t rsa -b 2048 -N secret -f k".to_owned(), true),
            ("ssh-keygen -q -t rsa -b 2048 -m PEM -N '' -f k".to_owned(), false),
            ("ssh-keygen -q -t rsa -b 2048 -m PEM -N secret -f k".to_owned(), true),
            ("ssh-keygen -q -t rsa -b 2048 -m PKCS8 -N '' -f k".to_owned(), false),
            ("ssh-keygen -q -t rsa -b 2048 -m PKCS8 -N secret -f k".to_owned(), true),
            ("ssh-keygen -q -t ecdsa -b 256 -N '' -f k".to_owned(), false),
            ("ssh-keygen -q -t ecdsa -b 384 -N secret -f k".to_owned(), true),
            ("ssh-keygen -q -t ecdsa -b 521 -m PKCS8 -N '' -f k".to_owned(), false),
            ("ssh-keygen -q -t ecdsa -b 256 -m PKCS8 -N secret -f k".to_owned(), true),
            ("openssl ecparam -genkey -noout -name prime256v1 -out k".to_owned(), false),
            ("openssl ecparam -genkey -noout -name secp384r1 -out k".to_owned(), false),
        ] {
            let text = generate(&script);
            if is_encrypted {
                assert_eq!(SshKey::parse(&text, None).unwrap_err(), KeyError::Encrypted, "{script}");
                assert_eq!(
                    SshKey::parse(&text, Some("other")).unwrap_err(),
                    KeyError::WrongPassphrase,
                    "{script}"
                );
            } else {
                SshKey::parse(&text, None).unwrap_or_else(|error| panic!("{script}: {error}"));
                let indented_text: String = text.lines().map(|line| format!("  {line}\r\n")).collect();
                SshKey::parse(&indented_text, None).unwrap_or_else(|error| panic!("{script}: {error}"));
            }
            SshKey::parse(&text, Some("secret")).unwrap_or_else(|error| panic!("{script}: {error}"));
        }
    }

    #[test]
    fn errors_do_not_quote_the_text() {
        for text in ["", "s3cret", "-----BEGIN RSA PRIVATE KEY-----\ns3cret\n-----END RSA PRIVATE KEY-----\n"]
        {
            let error = SshKey::parse(text, None).unwrap_err();
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
        assert!(SshKey::parse(&"x".repeat(MAX_KEY_BYTES + 1), None).is_err());
        let old = generate("openssl genrsa -traditional -aes256 -passout pass:secret -out k 2048");
        assert_eq!(
            SshKey::parse(&old, Some("secret")).unwrap_err(),
            KeyError::Cipher("AES-256-CBC in the old PEM format".into())
        );
    }
}
