//! The one error type that crosses module borders: a kind (which becomes the exit code), a message,
//! a cause chain, and hints that say what to do next.
//!
//! Modules whose callers must tell cases apart have an enum of their own and convert it here.

use std::fmt;

use crate::exit_code;

/// Shorthand for results with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What sort of failure this is. Each kind has one documented exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The world did not do as asked: CPI, agent, VM, file system. Exit code 1.
    Environment,
    /// The command line is wrong. Exit code 2.
    Usage,
    /// The input is wrong: manifest, variables, release, stemcell, digest, state file. Exit code 3.
    InvalidInput,
    /// Another run holds the state. Exit code 4.
    Locked,
    /// The agent cannot be reached. Exit code 5.
    AgentUnreachable,
    /// The world is not as the state says. Exit code 6.
    Drift,
    /// Interrupted by this signal number, state saved. Exit code 128 + signal.
    Interrupted(u8),
}

impl ErrorKind {
    /// The process exit code that stands for this kind.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Environment => exit_code::ENVIRONMENT,
            ErrorKind::Usage => exit_code::USAGE,
            ErrorKind::InvalidInput => exit_code::INVALID_INPUT,
            ErrorKind::Locked => exit_code::LOCKED,
            ErrorKind::AgentUnreachable => exit_code::AGENT_UNREACHABLE,
            ErrorKind::Drift => exit_code::DRIFT,
            ErrorKind::Interrupted(signal) => exit_code::SIGNAL + signal,
        }
    }
}

/// A failure as a person reads it: what failed, why, and what to do next.
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    hints: Vec<String>,
}

impl Error {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { inner: Box::new(Inner { kind, message: message.into(), source: None, hints: Vec::new() }) }
    }

    /// The world did not do as asked (exit code 1).
    pub fn environment(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Environment, message)
    }

    /// The command line is wrong (exit code 2).
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// The input is wrong (exit code 3).
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// An I/O failure while doing `what` (a gerund: "reading '/x/y'"). Exit code 1, unless it is an error of this type in
    /// the form of one, which keeps its kind.
    pub fn io(what: impl fmt::Display, source: std::io::Error) -> Self {
        let kind = within(&source).map_or(ErrorKind::Environment, Error::kind);
        Self::new(kind, format!("{what} failed")).with_source(source)
    }

    /// The cause, shown under the message. What it says to do next stays, where it is an error of this type in the form
    /// of an I/O failure.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let source = source.into();
        if let Some(error) = source.downcast_ref().and_then(within) {
            self.inner.hints.extend_from_slice(error.hints());
        }
        self.inner.source = Some(source);
        self
    }

    /// What to do next, shown after the causes.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.inner.hints.push(hint.into());
        self
    }

    /// A hint at the name that was probably meant by `name`, or else the one that `otherwise` gives.
    #[must_use]
    pub fn with_nearest<'a>(
        self,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
        otherwise: impl FnOnce() -> Option<String>,
    ) -> Self {
        match nearest(name, known).map(|near| format!("did you mean '{near}'?")).or_else(otherwise) {
            Some(hint) => self.with_hint(hint),
            None => self,
        }
    }

    /// Wraps this error in an outer message; kind and hints stay.
    #[must_use]
    pub fn context(mut self, message: impl Into<String>) -> Self {
        let hints = std::mem::take(&mut self.inner.hints);
        let kind = self.inner.kind;
        Error {
            inner: Box::new(Inner { kind, message: message.into(), source: Some(Box::new(self)), hints }),
        }
    }

    /// The kind, which decides the exit code.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// What to do next, in order.
    pub fn hints(&self) -> &[String] {
        &self.inner.hints
    }

    /// The message and each cause below it, outermost first.
    pub fn chain(&self) -> Vec<String> {
        let mut lines = vec![self.inner.message.clone()];
        let mut next = std::error::Error::source(self);
        while let Some(cause) = next {
            let text = cause.to_string();
            // Some libraries repeat their cause in their own text: once is enough.
            if !lines.last().is_some_and(|last| last.ends_with(&text)) {
                lines.push(text);
            }
            next = cause.source();
        }
        lines
    }
}

impl From<yaml::Error> for Error {
    fn from(error: yaml::Error) -> Self {
        let invalid = Error::invalid(error.to_string());
        match error.hint {
            Some(hint) => invalid.with_hint(hint),
            None => invalid,
        }
    }
}

/// The error of this type that an I/O failure was made of.
fn within(error: &std::io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.inner.kind, self.chain().join(": "))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_ref().map(|source| source.as_ref() as &(dyn std::error::Error + 'static))
    }
}

/// Adds context to the error of a result.
pub trait ResultExt<T> {
    /// Wraps the error in an outer message made by `message`.
    fn context<M: Into<String>>(self, message: impl FnOnce() -> M) -> Result<T>;
}

impl<T> ResultExt<T> for Result<T> {
    fn context<M: Into<String>>(self, message: impl FnOnce() -> M) -> Result<T> {
        self.map_err(|error| error.context(message()))
    }
}

/// The name that was probably meant by `name`: the one of `known` that is so near, letter case apart, that a
/// typing error explains the difference. The first by alphabet of several that are equally near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    let lower = name.to_lowercase();
    known
        .into_iter()
        .filter(|candidate| *candidate != name)
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            // All of it mistyped is another name, not an error.
            *distance <= (candidate.chars().count().max(length) / 3).max(1) && *distance < length
        })
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_form_of_an_io_failure_it_keeps_kind_and_hints() {
        let lost = Error::new(ErrorKind::Locked, "it is lost").with_source("gone").with_hint("look");
        let failed = Error::io("writing 'x'", std::io::Error::other(lost)).with_hint("then run it again");
        assert_eq!(failed.kind(), ErrorKind::Locked);
        assert_eq!(failed.hints(), ["look", "then run it again"]);
        assert_eq!(failed.chain(), ["writing 'x' failed", "it is lost", "gone"]);
    }

    #[test]
    fn only_what_is_near_is_meant() {
        assert_eq!(nearest("regoin", ["region", "origin"]), Some("region"));
        assert_eq!(nearest("Region", ["zone", "region"]), Some("region"));
        assert_eq!(nearest("a", ["b"]), None);
        assert_eq!(nearest("region", ["zone"]), None);
        assert_eq!(nearest("region", ["region"]), None);
    }
}
