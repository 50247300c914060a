//! What a CPI method answers when it fails: a type that callers know, a message, and whether the same
//! call may be tried again (docs-bosh, `cpi-api-rpc.md`, "Response").

use std::fmt;

/// Shorthand for results of CPI methods.
pub(crate) type Outcome<T> = std::result::Result<T, Failure>;

/// The error types of the CPI contract that this CPI uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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

impl Kind {
    /// The name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::InvalidCall => "InvalidCall",
            Kind::NotImplemented => "Bosh::Clouds::NotImplemented",
            Kind::NotSupported => "Bosh::Clouds::NotSupported",
            Kind::VmNotFound => "Bosh::Clouds::VMNotFound",
            Kind::DiskNotFound => "Bosh::Clouds::DiskNotFound",
            Kind::StemcellNotFound => "Bosh::Clouds::StemcellNotFound",
            Kind::VmCreationFailed => "Bosh::Clouds::VMCreationFailed",
            Kind::Cloud => "Bosh::Clouds::CloudError",
        }
    }
}

/// One failed method.
#[derive(Debug)]
pub(crate) struct Failure {
    pub kind: Kind,
    pub message: String,
    /// Whether the same call may succeed later: false, unless what failed may pass by itself.
    pub ok_to_retry: bool,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into(), ok_to_retry: false }
    }

    /// A failure without a type of its own.
    pub(crate) fn cloud(message: impl Into<String>) -> Self {
        Self::new(Kind::Cloud, message)
    }

    /// A malformed request.
    pub(crate) fn call(message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidCall, message)
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
