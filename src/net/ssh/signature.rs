//! Signatures of messages in the format of OpenSSH, as `ssh-keygen -Y sign` makes them and
//! `ssh-keygen -Y verify` checks them.
//!
//! Only Ed25519 and ECDSA keys sign. A namespace keeps a signature for one purpose from being valid for
//! another.

use russh::keys::ssh_key::{Algorithm, HashAlg, LineEnding, SshSig};
use russh::keys::{PrivateKey, PublicKey};

use super::SshKey;

/// The maximum size of a public key in bytes.
const MAX_PUBLIC_KEY_BYTES: usize = 4 << 10;

/// A public key that verifies signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyingKey(PublicKey);

/// The reason why a message is not signed by any of the given keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The text is no signature.
    #[error("its signature is damaged")]
    Damaged,
    /// The key that signed is none of the given keys.
    #[error("it is signed by a key that is not trusted")]
    Untrusted,
    /// The signature is of another message or namespace.
    #[error("its signature is of another content")]
    OtherMessage,
}

impl VerifyingKey {
    /// Parses a line of a public key file, such as `ssh-ed25519 AAAA… comment`.
    pub fn parse(line: &str) -> Result<Self, &'static str> {
        if line.len() > MAX_PUBLIC_KEY_BYTES {
            return Err("it is too long");
        }
        let key = PublicKey::from_openssh(line.trim()).map_err(|_| "it is not a public key of OpenSSH")?;
        match can_sign(&key.algorithm()) {
            true => Ok(VerifyingKey(key)),
            false => Err("it is neither an Ed25519 nor an ECDSA key"),
        }
    }

    /// Returns the fingerprint that `ssh-keygen -l` shows.
    pub fn fingerprint(&self) -> String {
        self.0.fingerprint(HashAlg::Sha256).to_string()
    }
}

impl SshKey {
    /// Returns the public key that verifies the signatures of this key. Fails if a key of this type does not
    /// sign.
    pub fn verifying_key(&self) -> Result<VerifyingKey, &'static str> {
        let key: &PrivateKey = &self.0;
        match can_sign(&key.algorithm()) {
            true => Ok(VerifyingKey(key.public_key().clone())),
            false => Err("it is neither an Ed25519 nor an ECDSA key"),
        }
    }

    /// Signs a message. Returns the signature as PEM.
    pub fn sign(&self, namespace: &str, message: &[u8]) -> Result<String, String> {
        let signature = self.0.sign(namespace, HashAlg::Sha512, message);
        signature.and_then(|signature| signature.to_pem(LineEnding::LF)).map_err(|error| error.to_string())
    }
}

/// Checks that one of `keys` has signed the message in this namespace, and returns that key.
pub fn verify<'k>(
    signature: &str,
    namespace: &str,
    message: &[u8],
    keys: &'k [VerifyingKey],
) -> Result<&'k VerifyingKey, SignatureError> {
    let signature = SshSig::from_pem(signature).map_err(|_| SignatureError::Damaged)?;
    let signer = keys.iter().find(|key| key.0.key_data() == signature.public_key());
    let signer = signer.ok_or(SignatureError::Untrusted)?;
    match signer.0.verify(namespace, message, &signature) {
        Ok(()) => Ok(signer),
        Err(_) => Err(SignatureError::OtherMessage),
    }
}

fn can_sign(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::Ed25519 | Algorithm::Ecdsa { .. })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::*;

    const NAMESPACE: &str = "tests";

    fn run(directory: &Path, script: &str) -> bool {
        let mut bash = Command::new("bash");
        bash.args(["-ec", script]).current_dir(directory).stdin(Stdio::null());
        bash.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    }

    /// Generates a key pair, and returns both keys.
    fn key_pair(directory: &Path, name: &str, options: &str) -> (SshKey, String) {
        let is_generated =
            run(directory, &format!("rm -f {name} {name}.pub; ssh-keygen -q {options} -N '' -f {name}"));
        assert!(is_generated, "{options}");
        let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        (SshKey::parse(&read(name), None).unwrap(), read(&format!("{name}.pub")))
    }

    #[test]
    fn signatures_are_those_of_openssh() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        for options in ["-t ed25519", "-t ecdsa -b 256", "-t ecdsa -b 384", "-t ecdsa -b 521"] {
            let (key, public) = key_pair(path, "k", options);
            let verifying_key = VerifyingKey::parse(&public).unwrap();
            assert_eq!(key.verifying_key().unwrap().0.key_data(), verifying_key.0.key_data());
            fs::write(path.join("message"), "content").unwrap();
            fs::write(path.join("allowed"), format!("me {public}")).unwrap();

            fs::write(path.join("ours"), key.sign(NAMESPACE, b"content").unwrap()).unwrap();
            let verifies = "ssh-keygen -Y verify -f allowed -I me -n tests -s ours <message";
            assert!(run(path, verifies), "{options}");
            assert!(!run(path, &verifies.replace("-n tests", "-n others")), "{options}");

            assert!(run(path, "rm -f message.sig; ssh-keygen -Y sign -f k -n tests message"));
            let signature = fs::read_to_string(path.join("message.sig")).unwrap();
            verify(&signature, NAMESPACE, b"content", &[verifying_key]).unwrap();
        }
    }

    #[test]
    fn signature_is_valid_for_one_message_namespace_and_key() {
        let directory = tempfile::tempdir().unwrap();
        let (key, _) = key_pair(directory.path(), "a", "-t ed25519");
        let (other, _) = key_pair(directory.path(), "b", "-t ed25519");
        let [verifying_key, other_verifying_key] = [&key, &other].map(|key| key.verifying_key().unwrap());
        let signature = key.sign(NAMESPACE, b"content").unwrap();
        let check = |namespace: &str, message: &[u8], keys: &[VerifyingKey]| {
            verify(&signature, namespace, message, keys).map(VerifyingKey::fingerprint)
        };
        let keys = [other_verifying_key.clone(), verifying_key.clone()];
        assert_eq!(check(NAMESPACE, b"content", &keys), Ok(verifying_key.fingerprint()));
        assert_eq!(check(NAMESPACE, b"c0ntent", &keys), Err(SignatureError::OtherMessage));
        assert_eq!(check("others", b"content", &keys), Err(SignatureError::OtherMessage));
        assert_eq!(check(NAMESPACE, b"content", &[other_verifying_key]), Err(SignatureError::Untrusted));
        assert_eq!(check(NAMESPACE, b"content", &[]), Err(SignatureError::Untrusted));
        for damaged_signature in ["", "no signature", &signature.replace('B', "C")] {
            assert!(verify(damaged_signature, NAMESPACE, b"content", &keys).is_err(), "{damaged_signature}");
        }
    }

    #[test]
    fn other_types_of_keys_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (key, public) = key_pair(directory.path(), "k", "-t rsa -b 2048");
        let reason = "it is neither an Ed25519 nor an ECDSA key";
        assert_eq!(key.verifying_key().unwrap_err(), reason);
        assert_eq!(VerifyingKey::parse(&public).unwrap_err(), reason);
        assert!(VerifyingKey::parse("ssh-ed25519 AAAA").is_err());
        assert!(VerifyingKey::parse(&"x".repeat(MAX_PUBLIC_KEY_BYTES + 1)).is_err());
    }
}
