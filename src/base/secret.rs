//! A text that is redacted from the moment it is read.

use std::fmt;

use zeroize::Zeroizing;

use crate::redact::Redactor;

/// A secret text without `Display` and `Serialize`. Its memory is wiped on drop, and `tests/it/secrets.rs`
/// lists the places that call [`Self::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Creates a secret and adds it to the redactor of the run.
    pub fn new(text: impl Into<String>, redactor: &Redactor) -> Self {
        let text = Zeroizing::new(text.into());
        redactor.add(&text);
        Secret(text)
    }

    /// Returns the plain text.
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
    fn secret_is_registered_with_the_redactor_and_not_shown() {
        let redactor = Redactor::default();
        let secret = Secret::new("hunter22", &redactor);
        assert_eq!(redactor.redact("it is hunter22"), "it is <redacted>");
        assert_eq!(format!("{:?}", Some(&secret)), "Some(Secret(<redacted>))");
        assert_eq!(secret.expose(), "hunter22");
    }
}
