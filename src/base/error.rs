//! The error type of all crates: a kind, which decides the exit code, a message, a chain of causes, notes
//! and hints.
//!
//! A module whose callers must distinguish cases has an enum of its own, and converts it to this type.

use std::cmp::Reverse;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use rustix::fs::{Access, access};

use crate::exit_code;

/// The hint for a file system without free space, if it is not known which one.
const FULL_HINT: &str = "free space on that file system, or choose another one with --cache-dir, TMPDIR or \
                         XDG_STATE_HOME";

/// Shorthand for results with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of a failure. Each kind has one exit code, see [`exit_code::CODES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Something outside of monopile failed: CPI, agent, VM, file system, download, bucket. Exit code 1.
    Failure,
    /// The command line is wrong. Exit code 2.
    Usage,
    /// The operator answered a question with no. Exit code 2.
    Declined,
    /// The input is wrong: manifest, variables, release, stemcell, digest, state file. Exit code 3.
    InvalidInput,
    /// Another run holds the state or the cache, or this run lost its lease. Exit code 4.
    Locked,
    /// The agent cannot be reached. Exit code 5.
    AgentUnreachable,
    /// The cloud is not as the state says. Exit code 6.
    Drift,
    /// A signal of this number interrupted the run. The state is saved. Exit code 128 + signal.
    Interrupted(u8),
}

impl ErrorKind {
    /// Returns the exit code of this kind.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Failure => exit_code::FAILURE,
            ErrorKind::Usage | ErrorKind::Declined => exit_code::USAGE,
            ErrorKind::InvalidInput => exit_code::INVALID_INPUT,
            ErrorKind::Locked => exit_code::LOCK_CONFLICT,
            ErrorKind::AgentUnreachable => exit_code::AGENT_UNREACHABLE,
            ErrorKind::Drift => exit_code::DRIFT,
            ErrorKind::Interrupted(signal) => exit_code::SIGNAL_BASE + signal,
        }
    }
}

/// A failure with its message, its causes, and notes and hints for the operator.
pub struct Error {
    inner: Box<Inner>,
}

/// The content of an [`Error`], boxed to keep results small.
struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    notes: Vec<String>,
    hints: Vec<String>,
    /// True if a hint ends with the advice to run the same command again.
    names_rerun: bool,
}

impl Error {
    /// Creates an error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error {
            inner: Box::new(Inner {
                kind,
                message: message.into(),
                source: None,
                notes: Vec::new(),
                hints: Vec::new(),
                names_rerun: false,
            }),
        }
    }

    /// Creates an [`ErrorKind::Failure`] error (exit code 1).
    pub fn failure(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failure, message)
    }

    /// Creates an [`ErrorKind::Usage`] error (exit code 2).
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// Creates an [`ErrorKind::InvalidInput`] error (exit code 3).
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Creates an [`ErrorKind::InvalidInput`] error. A suggestion of [`did_you_mean`] at the end of the
    /// message becomes a hint.
    pub fn from_problem(problem: &str) -> Self {
        let (message, suggestion) = split_suggestion(problem);
        Self::invalid(message).with_hints(suggestion)
    }

    /// Creates an error from an I/O error. `action` is a gerund: "reading '/x/y'".
    ///
    /// The kind is [`ErrorKind::Failure`] (exit code 1), or that of an error of this type inside the I/O
    /// error, whose notes and hints are added. A full file system gets a hint.
    pub fn io(action: impl fmt::Display, source: io::Error) -> Self {
        let kind = error_inside(&source).map_or(ErrorKind::Failure, Error::kind);
        let is_full = is_full(source.kind());
        let error = Self::new(kind, format!("{action} failed")).with_source(without_temporary_path(source));
        if is_full { error.with_hint(FULL_HINT) } else { error }
    }

    /// Like [`Error::io`] for a file that the operator named. A file that does not exist is invalid input
    /// (exit code 3).
    pub fn input(action: impl fmt::Display, source: io::Error) -> Self {
        use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
        match source.kind() {
            NotFound | IsADirectory | NotADirectory => {
                Self::invalid(format!("{action} failed")).with_source(source)
            }
            _ => Self::io(action, source),
        }
    }

    /// Sets the cause, which is shown below the message. If it is an I/O error that contains an error of this
    /// type, the notes and hints of that error are added.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let source = source.into();
        if let Some(error) = source.downcast_ref().and_then(error_inside) {
            self = self.with_advice_of(error);
        }
        self.inner.source = Some(source);
        self
    }

    /// Adds the notes and hints of another error, except those that this one has.
    #[must_use]
    pub fn with_advice_of(mut self, other: &Error) -> Self {
        let Inner { notes, hints, names_rerun, .. } = &mut *self.inner;
        *names_rerun |= other.inner.names_rerun;
        for (texts, new_texts) in [(notes, other.notes()), (hints, other.hints())] {
            new_texts.iter().for_each(|text| {
                if !texts.contains(text) {
                    texts.push(text.clone());
                }
            });
        }
        self
    }

    /// Adds a fact, such as "nothing was changed", which is shown once after the causes.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        let note = note.into();
        if !self.inner.notes.contains(&note) {
            self.inner.notes.push(note);
        }
        self
    }

    /// Adds facts like [`Self::with_note`].
    #[must_use]
    pub fn with_notes(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.inner.notes.extend(notes);
        self
    }

    /// Adds a hint, which tells the operator what to do. It is shown after the notes.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.inner.hints.push(hint.into());
        self
    }

    /// Adds hints like [`Self::with_hint`].
    #[must_use]
    pub fn with_hints<H: Into<String>>(mut self, hints: impl IntoIterator<Item = H>) -> Self {
        self.inner.hints.extend(hints.into_iter().map(Into::into));
        self
    }

    /// Adds a hint that says what to correct and ends with running the same command again.
    #[must_use]
    pub fn with_rerun_hint(mut self, hint: impl Into<String>) -> Self {
        self.inner.names_rerun = true;
        self.with_hint(hint)
    }

    /// Adds the hint to correct the cause and to run the command again, unless a hint of
    /// [`Self::with_rerun_hint`] says so. An interruption needs no correction.
    #[must_use]
    pub fn with_retry_hint(self) -> Self {
        match self.kind() {
            ErrorKind::Interrupted(_) => self,
            _ if self.inner.names_rerun => self,
            _ => self.with_rerun_hint("correct the cause, then run the same command again"),
        }
    }

    /// Corrects the cause if a file cannot be created although its directory exists. Linux says that a new
    /// file in `/proc` does not exist.
    fn with_existing_parent(self, path: &Path) -> Self {
        let cause = self.inner.source.as_ref().and_then(|source| source.downcast_ref::<io::Error>());
        let is_of_system = cause
            .is_some_and(|cause| cause.kind() == io::ErrorKind::NotFound && cause.raw_os_error().is_some());
        match path.parent().filter(|directory| is_of_system && directory.is_dir()) {
            Some(directory) => {
                self.with_source(format!("no file can be created in '{}'", directory.display()))
            }
            None => self,
        }
    }

    /// Adds a hint if the cause is a missing permission, a read-only file system or a full one: which path
    /// cannot be used, and what helps.
    ///
    /// `path` is a file or directory of monopile, which may not exist yet. `option` is the option or variable
    /// that selects another path, such as "--state FILE", or empty.
    #[must_use]
    pub fn with_path_hint(self, path: &Path, option: &str) -> Self {
        let cause = self.inner.source.as_ref().and_then(|source| source.downcast_ref::<io::Error>());
        let Some(cause) = cause.map(io::Error::kind) else { return self };
        let other_path_hint = (!option.is_empty()).then(|| format!("choose another path with {option}"));
        match cause {
            kind if is_full(kind) => return self.with_full_path_hint(path, option),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {}
            // A directory of `/proc`, for example.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                return self.with_existing_parent(path).with_hints(other_path_hint);
            }
            _ => return self,
        }
        let failed_path = path;
        let Some((path, metadata)) = unwritable_ancestor(path) else { return self };
        // A parent directory may be `/` or belong to the system, so it is not to be taken over.
        let is_failed_path = path == failed_path;
        let (path, owner, mode) = (path.display(), metadata.uid(), metadata.mode() & 0o7777);
        let alternatives = |actions: [Option<String>; 3]| {
            let actions: Vec<String> = actions.into_iter().flatten().collect();
            match actions.split_last() {
                Some((last, [])) => last.clone(),
                Some((last, earlier_actions)) => format!("{}, or {last}", earlier_actions.join(", ")),
                None => String::new(),
            }
        };
        self.with_hint(if cause == io::ErrorKind::ReadOnlyFilesystem {
            let actions = alternatives([None, other_path_hint, Some("mount it for writing".to_owned())]);
            format!("'{path}' is on a read-only file system: {actions}")
        } else if owner == rustix::process::geteuid().as_raw() {
            let bits = if metadata.is_dir() { "rwx" } else { "rw" };
            let access = format!("give yourself access: `chmod u+{bits} '{path}'`");
            format!("'{path}' has mode {mode:04o}: {}", alternatives([None, other_path_hint, Some(access)]))
        } else if let Some(directory) = missing_top_directory(failed_path) {
            // The home directory of a user without one, for example.
            let actions = alternatives([other_path_hint, None, Some("create it as root".to_owned())]);
            format!("'{}' does not exist: {actions}", directory.display())
        } else {
            let owner = user_name(owner);
            let chown = is_failed_path.then(|| format!("take it over: `sudo chown \"$(id -u)\" '{path}'`"));
            let actions = alternatives([Some(format!("run as {owner}")), other_path_hint, chown]);
            format!("'{path}' belongs to {owner}: {actions}")
        })
    }

    /// Names the full file system in the hints, if the error has the general hint, and its text has one of
    /// these directories. Each has the option or variable that selects it, and perhaps a further hint.
    #[must_use]
    pub fn with_full_directory(self, directories: &[(PathBuf, &str, Option<&str>)]) -> Self {
        let texts = self.chain().join("\n");
        let mut directories = directories.iter();
        match directories.find(|(path, ..)| texts.contains(&path.display().to_string())) {
            Some((path, option, hint)) if self.hints().iter().any(|hint| hint == FULL_HINT) => {
                self.with_full_path_hint(path, option).with_hints(*hint)
            }
            _ => self,
        }
    }

    /// Replaces the general hint for a full file system by hints that name a path on it.
    fn with_full_path_hint(mut self, path: &Path, option: &str) -> Self {
        let alternative = match option {
            "" => String::new(),
            option => format!(", or choose another path with {option}"),
        };
        let path = unwritable_ancestor(path).map_or(path, |(path, _)| path).display();
        self.inner.hints.retain(|hint| hint != FULL_HINT);
        self.with_hint(format!("the file system of '{path}' is full: free space on it{alternative}"))
            .with_hint(format!("to see how full it is: `df -h '{path}'`"))
    }

    /// Adds a hint with the nearest of `known_names`. If none is near, adds the note that `otherwise`
    /// returns. See [`nearest`].
    #[must_use]
    pub fn with_nearest<'a>(
        self,
        name: &str,
        known_names: impl IntoIterator<Item = &'a str>,
        otherwise: impl FnOnce() -> Option<String>,
    ) -> Self {
        match nearest(name, known_names) {
            Some(suggestion) => self.with_hint(did_you_mean_question(suggestion)),
            None => match otherwise() {
                Some(note) => self.with_note(note),
                None => self,
            },
        }
    }

    /// Wraps this error in an outer message. Kind, notes and hints stay.
    #[must_use]
    pub fn context(mut self, message: impl Into<String>) -> Self {
        let notes = std::mem::take(&mut self.inner.notes);
        let hints = std::mem::take(&mut self.inner.hints);
        let (kind, names_rerun) = (self.inner.kind, self.inner.names_rerun);
        Error {
            inner: Box::new(Inner {
                kind,
                message: message.into(),
                source: Some(Box::new(self)),
                notes,
                hints,
                names_rerun,
            }),
        }
    }

    /// Returns the kind, which decides the exit code.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns the notes in the order in which they were added.
    pub fn notes(&self) -> &[String] {
        &self.inner.notes
    }

    /// Returns the hints in the order in which they were added.
    pub fn hints(&self) -> &[String] {
        &self.inner.hints
    }

    /// Returns true if one of the causes is an error of type `E`.
    pub fn has_cause<E: std::error::Error + 'static>(&self) -> bool {
        let first_cause = std::error::Error::source(self);
        std::iter::successors(first_cause, |cause| cause.source()).any(|cause| cause.is::<E>())
    }

    /// Returns the message and the text of each cause, outermost first.
    pub fn chain(&self) -> Vec<String> {
        self.texts(&|_| true)
    }

    /// Returns the texts of [`Self::chain`] as one, without excerpts of logs.
    pub fn summary(&self) -> String {
        self.texts(&|cause| !cause.is::<LogExcerpt>()).join(": ")
    }

    fn texts(&self, is_shown: &dyn Fn(&(dyn std::error::Error + 'static)) -> bool) -> Vec<String> {
        let mut texts = vec![self.inner.message.clone()];
        let mut next_cause = std::error::Error::source(self);
        while let Some(cause) = next_cause {
            let text = cause.to_string();
            // Some libraries repeat the text of a cause in their own text. The cause is left out then.
            if is_shown(cause) && !texts.last().is_some_and(|last| last.ends_with(&text)) {
                texts.push(cause.downcast_ref::<io::Error>().map_or(text, os_problem));
            }
            next_cause = cause.source();
        }
        texts
    }
}

/// The end of a log, as the cause of an error.
#[derive(Debug, Clone)]
pub struct LogExcerpt(String);

impl fmt::Display for LogExcerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LogExcerpt {}

impl LogExcerpt {
    /// Creates it from a heading and lines.
    pub fn new(text: impl Into<String>) -> Self {
        LogExcerpt(text.into())
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

/// Returns the first of a path and its parent directories that exists and cannot be written, or else the
/// first that exists. A file in a directory that cannot be written cannot be replaced.
fn unwritable_ancestor(path: &Path) -> Option<(&Path, fs::Metadata)> {
    // A bare name is in `.`.
    let named_ancestors = path.ancestors().filter(|path| !path.as_os_str().is_empty());
    let existing_ancestors: Vec<_> = named_ancestors
        .chain([Path::new(".")])
        .filter_map(|path| Some((path, fs::metadata(path).ok()?)))
        .take(2)
        .collect();
    let is_read_only = |(path, _): &(&Path, fs::Metadata)| access(*path, Access::WRITE_OK).is_err();
    let index = existing_ancestors.iter().position(is_read_only).unwrap_or(0);
    existing_ancestors.into_iter().nth(index)
}

/// Returns the directory of the path that is in `/`, if it does not exist.
fn missing_top_directory(path: &Path) -> Option<&Path> {
    let directory = path.ancestors().find(|path| path.parent() == Some(Path::new("/")))?;
    (!directory.exists()).then_some(directory)
}

/// Returns the name of a user of this machine, or `user 1000` if the user has none in `/etc/passwd`.
fn user_name(id: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id.to_string()).then(|| name.to_owned())
    });
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("user {id}"))
}

/// Removes the path of a temporary file, which the library for these files adds to an error.
fn without_temporary_path(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path \"") {
        Some((problem, _)) => io::Error::new(error.kind(), problem),
        None => error,
    }
}

/// Describes an I/O error without the number that the standard library adds to errors of the system.
pub fn os_problem(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some(_) if error.kind() == io::ErrorKind::NotFound => {
            "the file, or its directory, does not exist".to_owned()
        }
        Some((problem, number)) if number.ends_with(')') => problem.to_owned(),
        _ => text,
    }
}

/// Returns true if a write failed because there is no space left.
pub fn is_full(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns the error of this type inside an I/O error.
fn error_inside(error: &io::Error) -> Option<&Error> {
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
    /// Wraps the error in the outer message that `message` returns.
    fn context<M: Into<String>>(self, message: impl FnOnce() -> M) -> Result<T>;
}

impl<T> ResultExt<T> for Result<T> {
    fn context<M: Into<String>>(self, message: impl FnOnce() -> M) -> Result<T> {
        self.map_err(|error| error.context(message()))
    }
}

/// Returns the one of `known_names` that differs from `name` only by a typing error; letter case is ignored.
///
/// The edit distance may be a third of the length, but at least 1. Of several names that are equally near,
/// the one with more letters in common at the beginning and end is returned, otherwise the first one in
/// alphabetical order.
pub fn nearest<'a>(name: &str, known_names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    let lower = name.to_lowercase();
    known_names
        .into_iter()
        .filter(|candidate| *candidate != name)
        .map(|candidate| (typing_errors(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            // A name in which every letter differs is not a typing error.
            *distance <= (candidate.chars().count().max(length) / 3).max(1) && *distance < length
        })
        .min_by_key(|(distance, candidate)| {
            (*distance, Reverse(common_letters(&lower, candidate)), *candidate)
        })
        .map(|(_, candidate)| candidate)
}

/// Returns the number of letters that the names have in common at the beginning and at the end.
fn common_letters(lower: &str, candidate: &str) -> usize {
    let candidate = candidate.to_lowercase();
    let is_same = |(one, other): &(char, char)| one == other;
    let beginning = lower.chars().zip(candidate.chars()).take_while(is_same).count();
    let end = lower.chars().rev().zip(candidate.chars().rev()).take_while(is_same).count();
    beginning + end
}

/// Returns the number of wrong, missing and surplus letters, and of pairs of letters in the wrong order.
pub fn typing_errors(name: &str, other: &str) -> usize {
    strsim::damerau_levenshtein(name, other)
}

/// Returns true if the names differ by one letter or the order of two, or if long ones differ by an eighth of
/// their letters.
pub fn differ_slightly(name: &str, other: &str) -> bool {
    typing_errors(name, other) <= (name.chars().count() / 8).max(1)
}

/// Returns `; did you mean 'x'?` for a misspelt name, or an empty text.
pub fn did_you_mean<'a>(name: &str, known_names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known_names)
        .map_or_else(String::new, |suggestion| format!("; {}", did_you_mean_question(suggestion)))
}

/// Splits the suggestion of [`did_you_mean`] from the text that ends with it.
pub fn split_suggestion(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once("; ") {
        Some((problem, suggestion)) if suggestion.starts_with("did you mean ") => (problem, Some(suggestion)),
        _ => (text, None),
    }
}

/// Returns `did you mean 'x'?`.
pub fn did_you_mean_question(suggestion: &str) -> String {
    format!("did you mean '{suggestion}'?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_inside_an_io_error_keeps_kind_and_hints() {
        let cause = Error::new(ErrorKind::Locked, "it is lost").with_source("gone").with_note("kept");
        let cause = cause.with_hint("look");
        let error = Error::io("writing 'x'", io::Error::other(cause)).with_hint("then run it again");
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert_eq!(error.notes(), ["kept"]);
        assert_eq!(error.hints(), ["look", "then run it again"]);
        assert_eq!(error.chain(), ["writing 'x' failed", "it is lost", "gone"]);
    }

    #[test]
    fn general_retry_hint_is_added_once() {
        const GENERAL_HINT: &str = "correct the cause, then run the same command again";
        let new_error =
            || Error::failure("it failed").with_hint("run the same command again with --recreate");
        assert_eq!(new_error().with_retry_hint().hints()[1..], [GENERAL_HINT]);
        let general_twice = new_error().with_retry_hint().context("the run failed").with_retry_hint();
        assert_eq!(general_twice.hints().len(), 2);
        let specific = Error::failure("it failed").with_rerun_hint("free space, then run it again");
        let outer = Error::failure("the repair failed").with_advice_of(&specific).with_retry_hint();
        assert_eq!(outer.hints(), ["free space, then run it again"]);
    }

    #[test]
    fn temporary_files_are_not_named() {
        let missing_file_error = tempfile::NamedTempFile::new_in("/no/such/directory").unwrap_err();
        let chain = Error::io("writing 'x'", missing_file_error).chain();
        assert_eq!(chain[1], "the file, or its directory, does not exist");
    }

    #[test]
    fn cause_is_found_by_its_type() {
        let inner = Error::failure("inner").with_source(io::Error::other("broken"));
        let outer = inner.context("outer");
        assert!(outer.has_cause::<io::Error>() && outer.has_cause::<Error>());
        assert!(!outer.has_cause::<fmt::Error>());
    }

    #[test]
    fn summary_has_no_logs() {
        let error = Error::failure("the job failed").with_source(LogExcerpt::new("the end of a.log:\nboom"));
        let outer = error.context("the update failed");
        assert_eq!(outer.summary(), "the update failed: the job failed");
        assert_eq!(outer.chain()[2], "the end of a.log:\nboom");
    }

    #[test]
    fn missing_input_is_invalid() {
        let kind_of = |kind: io::ErrorKind| Error::input("reading 'x'", kind.into()).kind();
        assert_eq!(kind_of(io::ErrorKind::NotFound), ErrorKind::InvalidInput);
        assert_eq!(kind_of(io::ErrorKind::StorageFull), ErrorKind::Failure);
    }

    #[test]
    fn unwritable_path_gets_a_hint() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing/file");
        let hints_for = |kind: io::ErrorKind, path: &Path| {
            Error::io("writing 'x'", kind.into()).with_path_hint(path, "--to FILE").hints().concat()
        };
        let hint = hints_for(io::ErrorKind::PermissionDenied, &path);
        assert!(hint.starts_with(&format!("'{}' has mode ", directory.path().display())), "{hint}");
        assert!(
            hint.contains("choose another path with --to FILE, or give yourself access: `chmod u+rwx"),
            "{hint}"
        );
        let read_only = hints_for(io::ErrorKind::ReadOnlyFilesystem, &path);
        assert!(read_only.contains("is on a read-only file system: choose another path"), "{read_only}");
        let full = hints_for(io::ErrorKind::StorageFull, &path);
        assert!(
            full.contains("' is full: free space on it, or choose another path with --to FILE"),
            "{full}"
        );
        assert_eq!(hints_for(io::ErrorKind::TimedOut, &path), "");
        let refused_file = || io::Error::from_raw_os_error(rustix::io::Errno::NOENT.raw_os_error());
        let cause_for = |path: &Path| {
            Error::io("writing 'x'", refused_file()).with_path_hint(path, "--to FILE").chain()[1].clone()
        };
        assert_eq!(cause_for(Path::new("/proc/x")), "no file can be created in '/proc'");
        assert_eq!(cause_for(&path), "the file, or its directory, does not exist");
        let hints_of_root = hints_for(io::ErrorKind::PermissionDenied, Path::new("/proc/1/comm"));
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(
            hints_of_root.contains("belongs to root: run as root, choose another"),
            !is_root,
            "{hints_of_root}"
        );
    }

    #[test]
    fn full_file_system_is_named_if_the_error_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let other_directory = (PathBuf::from("/elsewhere"), "--cache-dir DIR", Some("prune"));
        let directories = [other_directory, (path.clone(), "TMPDIR=DIR", None)];
        let full_error = |file: &Path| {
            Error::io(format!("writing '{}'", file.display()), io::ErrorKind::StorageFull.into())
        };
        let hints = full_error(&path.join("a")).with_full_directory(&directories).hints().to_vec();
        assert!(hints[0].ends_with("free space on it, or choose another path with TMPDIR=DIR"), "{hints:?}");
        assert_eq!(hints[1..], [format!("to see how full it is: `df -h '{}'`", path.display())]);
        assert_eq!(full_error(Path::new("/x")).with_full_directory(&directories).hints(), [FULL_HINT]);
    }

    #[test]
    fn only_the_named_file_is_offered_to_be_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let path = directory.path().join("file");
        fs::write(&path, "").unwrap();
        std::os::unix::fs::chown(&path, Some(1), None).unwrap();
        let hints_for = |path: &Path, option: &str| {
            let io_error = io::ErrorKind::PermissionDenied.into();
            Error::io("writing 'x'", io_error).with_path_hint(path, option).hints().concat()
        };
        assert!(hints_for(&path, "").contains(": run as ") && hints_for(&path, "").contains("`sudo chown"));
        std::os::unix::fs::chown(directory.path(), Some(1), None).unwrap();
        let hints_of_missing = hints_for(&directory.path().join("missing/file"), "--to FILE");
        assert!(!hints_of_missing.contains("chown"), "{hints_of_missing}");
        assert!(hints_of_missing.ends_with(", or choose another path with --to FILE"), "{hints_of_missing}");
        assert_eq!(hints_for(&directory.path().join("missing"), "").matches(", or ").count(), 0);
    }

    #[test]
    fn suggestion_becomes_a_hint() {
        let suggestion = did_you_mean("regoin", ["region"]);
        let error = Error::from_problem(&format!("no key 'regoin'; none{suggestion}"));
        assert_eq!(error.to_string(), "no key 'regoin'; none");
        assert_eq!(error.hints(), ["did you mean 'region'?"]);
        assert!(Error::from_problem("no key; none").hints().is_empty());
    }

    #[test]
    fn only_near_names_are_suggested() {
        assert_eq!(nearest("regoin", ["region", "origin"]), Some("region"));
        assert_eq!(nearest("Region", ["zone", "region"]), Some("region"));
        assert_eq!(nearest("statu", ["state", "status"]), Some("status"));
        assert_eq!(nearest("stats", ["state", "status"]), Some("status"));
        assert_eq!(nearest("a", ["b"]), None);
        assert_eq!(nearest("region", ["zone"]), None);
        assert_eq!(nearest("region", ["region"]), None);
    }
}
