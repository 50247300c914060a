//! What a CPI can say went wrong, and what can go wrong with a CPI.

use crate::Error;

/// The error a CPI answered with, by its `type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpiErrorKind {
    /// The VM does not exist.
    VmNotFound,
    /// The disk does not exist.
    DiskNotFound,
    /// The stemcell does not exist.
    StemcellNotFound,
    /// The method is not implemented, in any of its dialects.
    NotImplemented,
    /// Anything else; the type as the CPI spelt it.
    Other(String),
}

impl CpiErrorKind {
    /// Maps a CPI's error type and message.
    pub fn of(error_type: &str, message: &str) -> Self {
        let short = error_type.rsplit("::").next().unwrap_or(error_type);
        match short {
            "VMNotFound" => CpiErrorKind::VmNotFound,
            "DiskNotFound" => CpiErrorKind::DiskNotFound,
            "StemcellNotFound" => CpiErrorKind::StemcellNotFound,
            "NotImplemented" => CpiErrorKind::NotImplemented,
            // bosh-cpi-go and old Ruby CPIs.
            "CloudError" if message.starts_with("Invalid Method:") => CpiErrorKind::NotImplemented,
            "InvalidCall" if message.starts_with("Method is not known, got") => CpiErrorKind::NotImplemented,
            _ => CpiErrorKind::Other(error_type.to_owned()),
        }
    }
}

/// Why a CPI call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CpiError {
    /// The CPI answered with an error.
    #[error("the CPI's `{method}` failed (request {request_id}): {message}")]
    Answered {
        /// The method called.
        method: String,
        /// The request's id.
        request_id: String,
        /// What kind of error it is.
        kind: CpiErrorKind,
        /// The CPI's message.
        message: String,
        /// Whether the CPI says that trying again may help.
        ok_to_retry: bool,
    },
    /// There is no usable answer: what the call did is not known.
    #[error("the CPI gave no usable answer to `{method}` (request {request_id}): {problem}")]
    NoAnswer {
        /// The method called.
        method: String,
        /// The request's id.
        request_id: String,
        /// What is wrong with the answer.
        problem: String,
        /// The last lines of its log.
        log_tail: String,
    },
    /// The executable could not be started: the call did nothing.
    #[error("the CPI '{executable}' cannot be run")]
    NotStarted {
        /// What was to be run.
        executable: String,
        /// Why it did not start.
        #[source]
        source: std::io::Error,
    },
    /// The operator stopped waiting.
    #[error("stopped waiting for the CPI's `{method}` (request {request_id}), which goes on")]
    Abandoned {
        /// The method called.
        method: String,
        /// The request's id.
        request_id: String,
        /// The signal that ended the wait.
        signal: u8,
    },
    /// A file of this machine could not be used.
    #[error("{what}")]
    Local {
        /// What was tried.
        what: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
}

impl CpiError {
    /// What the CPI says went wrong, if it answered.
    pub fn kind(&self) -> Option<&CpiErrorKind> {
        match self {
            CpiError::Answered { kind, .. } => Some(kind),
            _ => None,
        }
    }

    /// Whether it is certain that the call had no effect, because no process was started for it.
    pub fn never_started(&self) -> bool {
        matches!(self, CpiError::NotStarted { .. } | CpiError::Local { .. })
    }
}

impl From<CpiError> for Error {
    fn from(error: CpiError) -> Self {
        match error {
            CpiError::NoAnswer { ref log_tail, .. } if !log_tail.trim().is_empty() => {
                let tail = format!("the end of its log:\n{}", log_tail.trim_end());
                Error::environment(error.to_string()).with_source(tail)
            }
            CpiError::NotStarted { executable, source } => {
                let hint = match source.kind() {
                    std::io::ErrorKind::PermissionDenied => "make it executable (chmod +x)",
                    std::io::ErrorKind::NotFound => {
                        "check the path, and that the interpreter named in its first line exists"
                    }
                    _ => "check that it is a program for this machine",
                };
                Error::environment(format!("the CPI '{executable}' cannot be run"))
                    .with_source(source)
                    .with_hint(hint)
            }
            CpiError::Local { what, source } => Error::environment(what).with_source(source),
            CpiError::Abandoned { signal, .. } => {
                Error::new(crate::ErrorKind::Interrupted(signal), error.to_string())
                    .with_hint("run the same command again: it picks up the answer")
            }
            CpiError::Answered { ref kind, .. } => {
                let hint = match kind {
                    CpiErrorKind::NotImplemented => Some("this CPI lacks a method that the run needs"),
                    _ => None,
                };
                let error = Error::environment(error.to_string());
                match hint {
                    Some(hint) => error.with_hint(hint),
                    None => error,
                }
            }
            CpiError::NoAnswer { .. } => Error::environment(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_implemented_is_known_in_each_dialect() {
        for (error_type, message) in [
            ("Bosh::Clouds::NotImplemented", "no"),
            ("Bosh::Clouds::CloudError", "Invalid Method: info"),
            ("InvalidCall", "Method is not known, got 'info'"),
        ] {
            assert_eq!(CpiErrorKind::of(error_type, message), CpiErrorKind::NotImplemented);
        }
        assert_eq!(
            CpiErrorKind::of("Bosh::Clouds::CloudError", "boom"),
            CpiErrorKind::Other("Bosh::Clouds::CloudError".into())
        );
    }
}
