//! What a CPI method answers when it fails: a type that callers know, a message, and whether the same
//! call may be tried again (docs-bosh, `cpi-api-rpc.md`, "Response").

use std::fmt;

/// Shorthand for results of CPI methods.
pub(crate) type Outcome<T> = std::result::Result<T, Failure>;

/// The error types of the CPI contract that this CPI uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The request itself is malformed.
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
    /// The name on the wire.
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

/// One failed method.
#[derive(Debug)]
pub(crate) struct Failure {
    pub kind: FailureKind,
    pub message: String,
    /// Whether the same call may succeed later: false, unless what failed may pass by itself.
    pub ok_to_retry: bool,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into(), ok_to_retry: false }
    }

    /// A failure without a type of its own.
    pub(crate) fn cloud(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Cloud, message)
    }

    /// A malformed request.
    pub(crate) fn call(message: impl Into<String>) -> Self {
        Self::new(FailureKind::InvalidCall, message)
    }

    /// An I/O failure while doing `what` (a gerund).
    pub(crate) fn io(what: impl fmt::Display, source: impl fmt::Display) -> Self {
        Self::cloud(format!("{what} failed: {source}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
