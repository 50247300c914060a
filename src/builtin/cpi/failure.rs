//! The error that a CPI method answers with: a type of the CPI contract, a message, and whether the caller
//! may retry (docs-bosh, `cpi-api-rpc.md`, "Response").

use std::fmt;

/// Shorthand for results of CPI methods.
pub(crate) type CpiResult<T> = std::result::Result<T, CpiFailure>;

/// The error types of the CPI contract that the built-in CPIs use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The request is malformed.
    InvalidCall,
    NotImplemented,
    NotSupported,
    VmNotFound,
    DiskNotFound,
    StemcellNotFound,
    VmCreationFailed,
    Cloud,
}

impl FailureKind {
    /// Returns the name of the type in the answer.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FailureKind::InvalidCall => "InvalidCall",
            FailureKind::NotImplemented => "Bosh::Clouds::NotImplemented",
            FailureKind::NotSupported => "Bosh::Clouds::NotSupported",
            FailureKind::VmNotFound => "Bosh::Clouds::VMNotFound",
            FailureKind::DiskNotFound => "Bosh::Clouds::DiskNotFound",
            FailureKind::StemcellNotFound => "Bosh::Clouds::StemcellNotFound",
            FailureKind::VmCreationFailed => "Bosh::Clouds::VMCreationFailed",
            FailureKind::Cloud => "Bosh::Clouds::CloudError",
        }
    }
}

/// The error of a failed method.
#[derive(Debug)]
pub(crate) struct CpiFailure {
    pub kind: FailureKind,
    pub message: String,
    /// True if the cause is temporary. The same call may then succeed later.
    pub ok_to_retry: bool,
    /// True if the call certainly made nothing. The answer then has `made_nothing`, and the caller records no
    /// suspect.
    pub made_nothing: bool,
    /// The steps for the operator, each in a sentence. Only monopile reads them; other callers show the
    /// message.
    pub hints: Vec<String>,
}

impl CpiFailure {
    /// Creates an error of this type.
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        let message = without_error_numbers(message.into());
        CpiFailure { kind, message, ok_to_retry: false, made_nothing: false, hints: Vec::new() }
    }

    /// Adds steps for the operator.
    #[must_use]
    pub(crate) fn with_hints(mut self, hints: Vec<String>) -> Self {
        self.hints.extend(hints);
        self
    }

    /// States that the call made nothing. Only for failures of checks that come before the first effect.
    #[must_use]
    pub(crate) fn before_any_effect(self) -> Self {
        CpiFailure { made_nothing: true, ..self }
    }

    /// Creates an error of the general type, `CloudError`.
    pub(crate) fn cloud(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Cloud, message)
    }

    /// Creates the error for a malformed request.
    pub(crate) fn invalid_call(message: impl Into<String>) -> Self {
        Self::new(FailureKind::InvalidCall, message)
    }

    /// Creates the error for an I/O failure. `action` is a gerund: "reading 'FILE'".
    pub(crate) fn io(action: impl fmt::Display, source: impl fmt::Display) -> Self {
        Self::cloud(format!("{action} failed: {source}"))
    }
}

/// Removes the numbers that the standard library adds to errors of the system: ` (os error 2)`.
fn without_error_numbers(mut message: String) -> String {
    const START: &str = " (os error ";
    while let Some(start) = message.find(START) {
        let number_bytes = message[start + START.len()..].find(')');
        let end = number_bytes.map_or(message.len(), |count| start + START.len() + count + 1);
        message.replace_range(start..end, "");
    }
    message
}

impl fmt::Display for CpiFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_no_error_numbers() {
        let missing = || std::io::Error::from_raw_os_error(2);
        let failure = CpiFailure::io("reading 'a'", missing());
        assert_eq!(failure.message, "reading 'a' failed: No such file or directory");
        let failure =
            CpiFailure::cloud(format!("'a' cannot be used: {}; try 'b' ({})", missing(), missing()));
        let expected = "'a' cannot be used: No such file or directory; try 'b' (No such file or directory)";
        assert_eq!(failure.message, expected);
    }
}
