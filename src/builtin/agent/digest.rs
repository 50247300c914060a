//! BOSH digests: `sha1` plain, `sha1:…`, `sha256:…`, `sha512:…`, or several joined by `;`, of which the
//! strongest known one counts.

use std::fmt::Write as _;
use std::io::Read;

use sha1::{Digest as _, Sha1};
use sha2::{Sha256, Sha512};

use crate::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Algorithm {
    Sha1,
    Sha256,
    Sha512,
}

/// Checks that `content` has the digest; `what` names it in the error.
pub fn verify(digest: &str, content: &mut dyn Read, what: &str) -> Result<()> {
    let (algorithm, expected) = strongest(digest)
        .ok_or_else(|| Error::invalid(format!("{what} has a digest in no known form: '{digest}'")))?;
    let [sha1, sha256, sha512] = all(content, Some(algorithm))?;
    let actual = match algorithm {
        Algorithm::Sha1 => sha1,
        Algorithm::Sha256 => sha256,
        Algorithm::Sha512 => sha512,
    };
    if actual.eq_ignore_ascii_case(expected) {
        Ok(())
    } else {
        Err(Error::invalid(format!("Expected {what} to have digest '{digest}' but was '{actual}'")))
    }
}

/// The digest the agent answers with for what it made: SHA-1 for old readers, SHA-512 for all others.
pub fn of(content: &mut dyn Read) -> Result<String> {
    let [sha1, _, sha512] = all(content, None)?;
    Ok(format!("{sha1};sha512:{sha512}"))
}

/// Hex SHA-1 of a short text, used as directory name.
pub fn short(text: &str) -> String {
    hex(&Sha1::digest(text.as_bytes()))
}

fn strongest(digest: &str) -> Option<(Algorithm, &str)> {
    digest
        .split(';')
        .filter_map(|part| {
            let part = part.trim();
            match part.split_once(':') {
                None if part.len() == 40 => Some((Algorithm::Sha1, part)),
                Some(("sha1", hex)) => Some((Algorithm::Sha1, hex)),
                Some(("sha256", hex)) => Some((Algorithm::Sha256, hex)),
                Some(("sha512", hex)) => Some((Algorithm::Sha512, hex)),
                _ => None,
            }
        })
        .max_by_key(|(algorithm, _)| *algorithm)
}

fn all(content: &mut dyn Read, only: Option<Algorithm>) -> Result<[String; 3]> {
    let wanted = |algorithm| only.is_none_or(|one| one == algorithm);
    let (mut sha1, mut sha256, mut sha512) = (Sha1::new(), Sha256::new(), Sha512::new());
    let mut buffer = vec![0; 128 * 1024];
    loop {
        let count = content.read(&mut buffer).map_err(|e| Error::io("reading for a digest", e))?;
        if count == 0 {
            return Ok([hex(&sha1.finalize()), hex(&sha256.finalize()), hex(&sha512.finalize())]);
        }
        let part = &buffer[..count];
        if wanted(Algorithm::Sha1) {
            sha1.update(part);
        }
        if only == Some(Algorithm::Sha256) {
            sha256.update(part);
        }
        if wanted(Algorithm::Sha512) {
            sha512.update(part);
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA1: &str = "a17c9aaa61e80a1bf71d0d850af4e5baa9800bbd";
    const SHA256: &str = "sha256:3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7";

    #[test]
    fn every_form_is_checked_and_the_strongest_counts() {
        let check = |digest: &str| verify(digest, &mut "data".as_bytes(), "it");
        check(SHA1).unwrap();
        check(&format!("sha1:{SHA1}")).unwrap();
        check(SHA256).unwrap();
        check(&format!("{};{SHA256}", "0".repeat(40))).unwrap();
        check(&format!("{SHA1};sha256:{}", "0".repeat(64))).unwrap_err();
        check(&of(&mut "data".as_bytes()).unwrap()).unwrap();
        for unknown in ["", "md5:abc", "abc", ";"] {
            check(unknown).unwrap_err();
        }
    }
}
