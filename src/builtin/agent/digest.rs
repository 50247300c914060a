//! Checks and computes digests in BOSH's format, with the error messages of the bosh-agent.

use std::io::Read;

use artifact::digest::{Algorithm, Digest, Hasher};
use base::{Error, Result};

/// Fails if `content` does not have the digest. `subject` names the content in the error.
pub(super) fn verify(digest: &str, content: &mut dyn Read, subject: &str) -> Result<()> {
    let expected: Digest = digest.parse().map_err(|error| {
        Error::invalid(format!("{subject} has a digest of unknown form: '{digest}'"))
            .with_source(Error::from(error))
    })?;
    let algorithm = expected.strongest();
    let actual = hash(content, &[algorithm])?;
    if expected.hex(algorithm) == actual.hex(algorithm) {
        Ok(())
    } else {
        let actual = actual.hex(algorithm).unwrap_or_default();
        Err(Error::invalid(format!("Expected {subject} to have digest '{digest}' but was '{actual}'")))
    }
}

/// Returns the digest of a new blob for an answer: SHA-1 for old clients, and SHA-512.
pub(super) fn compute(content: &mut dyn Read) -> Result<String> {
    Ok(hash(content, &[Algorithm::Sha1, Algorithm::Sha512])?.to_string())
}

/// Returns the SHA-1 of a short text in hex, for names of directories.
pub(super) fn sha1_hex(text: &str) -> String {
    Digest::compute(text.as_bytes(), &[Algorithm::Sha1]).to_string()
}

fn hash(content: &mut dyn Read, algorithms: &[Algorithm]) -> Result<Digest> {
    let mut hasher = Hasher::new(algorithms);
    std::io::copy(content, &mut hasher).map_err(|error| Error::io("reading for a digest", error))?;
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA1: &str = "a17c9aaa61e80a1bf71d0d850af4e5baa9800bbd";
    const SHA256: &str = "sha256:3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7";

    #[test]
    fn all_forms_are_checked_by_their_strongest_algorithm() {
        let check = |digest: &str| verify(digest, &mut "data".as_bytes(), "it");
        check(SHA1).unwrap();
        check(&format!("sha1:{SHA1}")).unwrap();
        check(SHA256).unwrap();
        check(&format!("{};{SHA256}", "0".repeat(40))).unwrap();
        check(&format!("{SHA1};sha256:{}", "0".repeat(64))).unwrap_err();
        check(&compute(&mut "data".as_bytes()).unwrap()).unwrap();
        for unknown in ["", "md5:abc", "abc", ";"] {
            check(unknown).unwrap_err();
        }
    }
}
