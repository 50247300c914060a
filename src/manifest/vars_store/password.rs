//! Generates passwords of letters and digits, which need no quoting.

use base::{Error, Result};

/// The alphabet of the bosh CLI (config-server, `password_generator.go`).
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// The length in characters if the manifest names none.
pub(super) const DEFAULT_PASSWORD_CHARS: usize = 20;

/// Generates a random password of `length` characters.
pub(super) fn generate(length: usize) -> Result<String> {
    // Bytes from the largest multiple of 36 on are skipped, so that every character is equally likely.
    const FIRST_SKIPPED_BYTE: u8 = (256 / ALPHABET.len() * ALPHABET.len()) as u8;
    let mut password = String::with_capacity(length);
    let mut bytes = [0; 64];
    while password.len() < length {
        aws_lc_rs::rand::fill(&mut bytes)
            .map_err(|_| Error::failure("the system gives no random numbers"))?;
        let letters = bytes.iter().filter(|&&byte| byte < FIRST_SKIPPED_BYTE);
        let letters = letters.map(|&byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]));
        let missing_count = length - password.len();
        password.extend(letters.take(missing_count));
    }
    Ok(password)
}

/// Returns true if the text has the form of a generated password: long enough, and in the alphabet.
pub(super) fn looks_generated(text: &str) -> bool {
    text.len() >= 8 && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_has_the_length_and_uses_the_whole_alphabet() {
        for length in [0, 1, 20, 1000] {
            assert_eq!(generate(length).unwrap().len(), length);
        }
        let mut letters: Vec<char> = generate(5000).unwrap().chars().collect();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), ALPHABET.len());
        assert_ne!(generate(20).unwrap(), generate(20).unwrap());
    }
}
