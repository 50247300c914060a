//! A text that is secret from the moment it is read.

use std::fmt;

use zeroize::Zeroizing;

use crate::redact::Redactor;

/// A secret text. It has no `Display` and no `Serialize`: a place that needs the text asks for it with
/// [`Self::expose`], and `tests/it/secrets.rs` lists these places. Its memory is wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Makes a secret, which from now on is redacted in the run of this redactor.
    pub fn new(text: impl Into<String>, redactor: &Redactor) -> Self {
        let text = Zeroizing::new(text.into());
        redactor.add(&text);
        Secret(text)
    }

    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(<redacted>)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_to_the_redactor_and_never_shown() {
        let redactor = Redactor::default();
        let secret = Secret::new("hunter22", &redactor);
        assert_eq!(redactor.apply("it is hunter22"), "it is <redacted>");
        assert_eq!(format!("{:?}", Some(&secret)), "Some(Secret(<redacted>))");
        assert_eq!(secret.expose(), "hunter22");
    }
}
