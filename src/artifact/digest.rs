//! Digests as they are written in manifests and `release.MF`, and readers and writers that compute them.
//!
//! A `sha1` value is plain SHA-1 hex, `sha1:…`, `sha256:…`, `sha512:…`, or several of these joined by `;`
//! (docs-bosh `manifest-v2.md`, `sha1` of releases and stemcells). The strongest is checked.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};

use base::files::input;
use base::{Error, Result};

/// A hash algorithm. The variants are ordered from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// SHA-1, 40 hex digits.
    Sha1,
    /// SHA-256, 64 hex digits.
    Sha256,
    /// SHA-512, 128 hex digits.
    Sha512,
}

impl Algorithm {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "sha1" => Some(Algorithm::Sha1),
            "sha256" => Some(Algorithm::Sha256),
            "sha512" => Some(Algorithm::Sha512),
            _ => None,
        }
    }

    /// Returns the name of the algorithm, such as `sha256`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        }
    }

    fn digit_count(self) -> usize {
        match self {
            Algorithm::Sha1 => 40,
            Algorithm::Sha256 => 64,
            Algorithm::Sha512 => 128,
        }
    }
}

/// The reason why a text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseDigestError {
    /// The text is empty.
    #[error("the digest is empty")]
    Empty,
    /// No part has a supported algorithm; holds the name of the last one.
    #[error("the hash function '{0}' is not supported: use sha1, sha256 or sha512")]
    UnknownAlgorithm(String),
    /// A part is not hex, or does not have the length of the algorithm's output.
    #[error("'{text}' is not {expected} hex digits")]
    NotHex {
        /// The part of the text.
        text: String,
        /// The required number of digits.
        expected: usize,
    },
}

impl From<ParseDigestError> for Error {
    fn from(error: ParseDigestError) -> Self {
        Error::invalid(error.to_string())
    }
}

/// The digest of a file, with one or several algorithms.
///
/// Displays in the form of BOSH: SHA-1 plain, others with their name, joined by `;`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Digest {
    /// At least one part, the weakest algorithm first, each algorithm once. Digits are in lower case.
    parts: Vec<(Algorithm, String)>,
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let mut parts: Vec<(Algorithm, String)> = Vec::new();
        let mut unknown_name = None;
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (algorithm, hex) = match part.split_once(':') {
                None => (Algorithm::Sha1, part),
                Some((name, hex)) => match Algorithm::from_name(name.trim()) {
                    Some(algorithm) => (algorithm, hex.trim()),
                    None => {
                        unknown_name = Some(name.to_owned());
                        continue;
                    }
                },
            };
            if hex.len() != algorithm.digit_count() || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(ParseDigestError::NotHex { text: hex.into(), expected: algorithm.digit_count() });
            }
            if !parts.iter().any(|(other, _)| *other == algorithm) {
                parts.push((algorithm, hex.to_ascii_lowercase()));
            }
        }
        parts.sort();
        match (parts.is_empty(), unknown_name) {
            (false, _) => Ok(Digest { parts }),
            (true, Some(name)) => Err(ParseDigestError::UnknownAlgorithm(name)),
            (true, None) => Err(ParseDigestError::Empty),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (algorithm, hex)) in self.parts.iter().enumerate() {
            let separator = if index == 0 { "" } else { ";" };
            let prefix = match algorithm {
                Algorithm::Sha1 => "",
                Algorithm::Sha256 => "sha256:",
                Algorithm::Sha512 => "sha512:",
            };
            write!(f, "{separator}{prefix}{hex}")?;
        }
        Ok(())
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Digest {
    /// Parses a `sha1` value. `owner` names the file in errors ("the stemcell", "job 'hello' in release.MF").
    pub fn parse(text: &str, owner: &str) -> Result<Self> {
        text.parse().map_err(|error: ParseDigestError| {
            let invalid = Error::invalid(format!("the digest of {owner} is not valid: {error}"));
            match error {
                ParseDigestError::NotHex { expected: 40, .. } => invalid.with_hint(
                    "write 40 hex digits, as `sha1sum FILE` prints them, or sha256: and the 64 of `sha256sum \
                     FILE`",
                ),
                _ => invalid,
            }
        })
    }

    /// Returns the strongest algorithm of the digest, which [`Digest::check`] compares.
    pub fn strongest(&self) -> Algorithm {
        // Every constructor adds at least one part.
        self.parts.last().map_or(Algorithm::Sha1, |(algorithm, _)| *algorithm)
    }

    /// Returns the hex digits for `algorithm`, or `None` if the digest lacks it.
    pub fn hex(&self, algorithm: Algorithm) -> Option<&str> {
        self.parts.iter().find(|(candidate, _)| *candidate == algorithm).map(|(_, hex)| hex.as_str())
    }

    /// Returns the part of the digest for `algorithm`, or `None` if the digest lacks it.
    pub fn part_for(&self, algorithm: Algorithm) -> Option<Digest> {
        Some(Digest { parts: vec![(algorithm, self.hex(algorithm)?.to_owned())] })
    }

    /// Returns this digest with the algorithms that it lacks, taken from `other`, a digest of the same bytes.
    pub fn merged_with(&self, other: &Digest) -> Result<Digest> {
        Digest::parse(&format!("{self};{other}"), "a file")
    }

    /// Checks `actual` against this expected digest, with the strongest algorithm of the expected one. `file`
    /// names the file in the error.
    pub fn check(&self, actual: &Digest, file: &str) -> Result<()> {
        let algorithm = self.strongest();
        let expected = self.part_for(algorithm);
        let actual_digest = actual.part_for(algorithm);
        if expected.is_some() && expected == actual_digest {
            return Ok(());
        }
        let show = |digest: Option<Digest>| digest.map_or("nothing".to_owned(), |digest| digest.to_string());
        Err(Error::invalid(format!(
            "the digest of {file} does not match: expected {}, found {}",
            show(expected),
            show(actual_digest)
        )))
    }

    /// Checks the digest of a file like [`Digest::check`], with a hint for a digest that the operator gives.
    pub fn check_with_hint(&self, actual: &Digest, file: &str) -> Result<()> {
        self.check(actual, file).map_err(|mismatch| match actual.part_for(self.strongest()) {
            Some(digest) => mismatch
                .with_hint("compare the digest with the publisher's: the file may be damaged")
                .with_hint(format!("if this is the right file, correct its digest: `sha1: {digest}`")),
            None => mismatch,
        })
    }

    /// Computes the digest of bytes in memory.
    pub fn compute(bytes: &[u8], algorithms: &[Algorithm]) -> Digest {
        let mut hasher = Hasher::new(algorithms);
        hasher.update(bytes);
        hasher.finish()
    }

    /// Computes the digest of a file, which is read once.
    pub fn from_file(path: &Path, algorithms: &[Algorithm]) -> Result<Digest> {
        let read_error = |error| input::read_error("the file", path, error);
        let mut file = std::fs::File::open(path).map_err(read_error)?;
        let mut hasher = Hasher::new(algorithms);
        io::copy(&mut file, &mut hasher).map_err(read_error)?;
        Ok(hasher.finish())
    }
}

/// A writer that hashes the bytes written to it.
pub struct HashingWriter<W> {
    inner: W,
    hasher: Hasher,
}

impl<W: Write> HashingWriter<W> {
    /// Passes bytes to `inner` and hashes them with these algorithms.
    pub fn new(inner: W, algorithms: &[Algorithm]) -> Self {
        HashingWriter { inner, hasher: Hasher::new(algorithms) }
    }

    /// Flushes the inner writer, and returns it with the digest of all bytes written.
    pub fn finish(mut self) -> io::Result<(W, Digest)> {
        self.inner.flush()?;
        Ok((self.inner, self.hasher.finish()))
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Computes a [`Digest`] incrementally.
pub struct Hasher {
    sha1: Option<Sha1>,
    sha256: Option<Sha256>,
    sha512: Option<Sha512>,
}

impl Hasher {
    /// Creates a hasher of these algorithms, or of SHA-256 if `algorithms` is empty.
    pub fn new(algorithms: &[Algorithm]) -> Self {
        let algorithms = if algorithms.is_empty() { &[Algorithm::Sha256] } else { algorithms };
        Hasher {
            sha1: algorithms.contains(&Algorithm::Sha1).then(Sha1::new),
            sha256: algorithms.contains(&Algorithm::Sha256).then(Sha256::new),
            sha512: algorithms.contains(&Algorithm::Sha512).then(Sha512::new),
        }
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        if let Some(hasher) = &mut self.sha1 {
            hasher.update(bytes);
        }
        if let Some(hasher) = &mut self.sha256 {
            hasher.update(bytes);
        }
        if let Some(hasher) = &mut self.sha512 {
            hasher.update(bytes);
        }
    }

    /// Returns the digest of all bytes added.
    pub fn finish(self) -> Digest {
        let mut parts = Vec::with_capacity(3);
        if let Some(hasher) = self.sha1 {
            parts.push((Algorithm::Sha1, hex::encode(hasher.finalize())));
        }
        if let Some(hasher) = self.sha256 {
            parts.push((Algorithm::Sha256, hex::encode(hasher.finalize())));
        }
        if let Some(hasher) = self.sha512 {
            parts.push((Algorithm::Sha512, hex::encode(hasher.finalize())));
        }
        Digest { parts }
    }
}

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader that hashes the bytes read from it.
pub struct HashingReader<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> HashingReader<R> {
    /// Reads from `inner` and adds the bytes to `hasher`.
    pub fn new(inner: R, hasher: Hasher) -> Self {
        HashingReader { inner, hasher }
    }

    /// Returns the inner reader at its current position, and the hasher of the bytes read.
    pub fn into_parts(self) -> (R, Hasher) {
        (self.inner, self.hasher)
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA1: &str = "a9993e364706816aba3e25717850c26c9cd0d89d";
    const SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const SHA512: &str = "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                          2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";

    #[test]
    fn parses_every_form_and_checks_the_strongest_function() {
        for (text, strongest) in [
            (SHA1.to_owned(), Algorithm::Sha1),
            (format!("sha1:{SHA1}"), Algorithm::Sha1),
            (format!("sha256:{SHA256}"), Algorithm::Sha256),
            (format!("sha512:{SHA512}"), Algorithm::Sha512),
            (format!("sha256:{SHA256};{SHA1}"), Algorithm::Sha256),
            (format!("{SHA1}; sha512:{SHA512};sha256:{SHA256}"), Algorithm::Sha512),
            (format!("sha3:00;sha1:{SHA1}"), Algorithm::Sha1),
        ] {
            let digest: Digest = text.parse().unwrap();
            assert_eq!(digest.strongest(), strongest, "{text}");
            let all = [Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha512];
            digest.check(&Digest::compute(b"abc", &all), "abc").unwrap();
            assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        }
        assert_eq!(SHA1.to_uppercase().parse::<Digest>().unwrap().to_string(), SHA1);
    }

    #[test]
    fn rejects_invalid_digests() {
        assert_eq!("".parse::<Digest>(), Err(ParseDigestError::Empty));
        assert_eq!(" ; ".parse::<Digest>(), Err(ParseDigestError::Empty));
        assert_eq!("md5:00".parse::<Digest>(), Err(ParseDigestError::UnknownAlgorithm("md5".into())));
        assert!(matches!("abc".parse::<Digest>(), Err(ParseDigestError::NotHex { expected: 40, .. })));
        assert!(matches!(
            format!("sha256:{SHA1}").parse::<Digest>(),
            Err(ParseDigestError::NotHex { expected: 64, .. })
        ));
    }

    #[test]
    fn wrong_sha256_fails_even_if_sha1_matches() {
        let expected: Digest = format!("{SHA1};sha256:{}", "0".repeat(64)).parse().unwrap();
        let actual = Digest::compute(b"abc", &[Algorithm::Sha1, Algorithm::Sha256]);
        let error = expected.check(&actual, "release 'x'").unwrap_err();
        assert_eq!(error.kind(), base::ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(
            text.contains("release 'x'") && text.contains(SHA256) && text.contains("sha256:000"),
            "{text}"
        );
    }

    #[test]
    fn reader_hashes_the_bytes_read() {
        let mut text = String::new();
        let mut reader = HashingReader::new(&b"abc"[..], Hasher::new(&[Algorithm::Sha1]));
        reader.read_to_string(&mut text).unwrap();
        let (_, hasher) = reader.into_parts();
        assert_eq!((text.as_str(), hasher.finish().to_string().as_str()), ("abc", SHA1));
    }
}
