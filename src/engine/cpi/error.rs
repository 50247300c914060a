//! Errors of CPI calls: the errors that a CPI answers with, and the failures of the call itself.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::client::StopCause;
use super::methods::Method;
use crate::protocol::RequestId;
use base::text::shell_word;
use base::{Error, LogExcerpt};

/// The hint for a call whose process still runs.
pub(crate) const RERUN_WAITS_HINT: &str =
    "run the same command again: it waits for the same process and gets its answer";

/// The hint to correct the cause of an answer that is not as the CPI API says.
pub(crate) const FAULTY_ANSWER_HINT: &str =
    "use another version of the CPI, or correct what its log names; then run the same command again";

/// Returns the command that waits longer than this run did.
fn longer_wait(timeout: Duration) -> String {
    let minutes = (timeout * 2).as_secs().div_ceil(60).max(30);
    format!("`monopile SAME-COMMAND --cpi-timeout {minutes}m`")
}

/// The type of an error that a CPI answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpiErrorKind {
    /// The VM does not exist.
    VmNotFound,
    /// The disk does not exist.
    DiskNotFound,
    /// The stemcell does not exist.
    StemcellNotFound,
    /// The disk is not attached to the VM.
    DiskNotAttached,
    /// The method is not implemented. CPIs report this in several dialects.
    NotImplemented,
    /// The method exists, but does not support this request.
    NotSupported,
    /// The VM could not be created.
    VmCreationFailed,
    /// There is no space for a disk.
    NoDiskSpace,
    /// The IaaS or the CPI failed in a way that has no type of its own.
    Cloud,
    /// A type that the CPI API does not have, as the CPI wrote it.
    Unknown(String),
}

/// The error types of the CPI API that have a kind of their own, without the namespace `Bosh::Clouds`.
const CPI_ERROR_TYPES: [(&str, CpiErrorKind); 10] = [
    ("VMNotFound", CpiErrorKind::VmNotFound),
    ("DiskNotFound", CpiErrorKind::DiskNotFound),
    ("StemcellNotFound", CpiErrorKind::StemcellNotFound),
    ("DiskNotAttached", CpiErrorKind::DiskNotAttached),
    ("NotImplemented", CpiErrorKind::NotImplemented),
    ("NotSupported", CpiErrorKind::NotSupported),
    ("VMCreationFailed", CpiErrorKind::VmCreationFailed),
    ("NoDiskSpace", CpiErrorKind::NoDiskSpace),
    ("CloudError", CpiErrorKind::Cloud),
    ("CpiError", CpiErrorKind::Cloud),
];

impl CpiErrorKind {
    /// Maps a CPI's error type and message to a kind.
    pub fn of(error_type: &str, message: &str) -> Self {
        let short_type = error_type.rsplit("::").next().unwrap_or(error_type);
        match short_type {
            // The dialects of bosh-cpi-go and old Ruby CPIs.
            "CloudError" if message.starts_with("Invalid Method:") => CpiErrorKind::NotImplemented,
            "InvalidCall" if message.starts_with("Method is not known, got") => CpiErrorKind::NotImplemented,
            _ => CPI_ERROR_TYPES
                .into_iter()
                .find(|(name, _)| *name == short_type)
                .map_or_else(|| CpiErrorKind::Unknown(error_type.to_owned()), |(_, kind)| kind),
        }
    }

    /// Describes the cause if a CPI does not find a resource on record.
    fn missing_resource_note(&self) -> Option<String> {
        let resource = match self {
            CpiErrorKind::VmNotFound => "VM",
            CpiErrorKind::DiskNotFound => "disk",
            CpiErrorKind::StemcellNotFound => "stemcell",
            _ => return None,
        };
        Some(format!("the {resource} is gone, or the CPI looks in another account, region or project"))
    }

    /// Returns the steps for the operator. The first one ends with running the command again. The message of
    /// a built-in CPI says more about the cause than the kind of the error does.
    fn hints(&self, method: Method, message: &str, is_builtin: bool) -> Vec<String> {
        const OTHER_ACCOUNT_HINT: &str =
            "check the account, region and project in the CPI's properties, then run the same command again";
        const ANY_CAUSE_HINT: &str = "correct the cause, then run the same command again";
        // If the method changes the IaaS, the error of the run names the run's log instead: a second run with
        // --verbose would make further changes.
        let with_log_hint = |hint: &str| {
            let log_hint = "to see the CPI's whole log: `monopile SAME-COMMAND --verbose`".to_owned();
            let log_hint = (!method.facts().changes_iaas).then_some(log_hint);
            std::iter::once(hint.to_owned()).chain(log_hint).collect()
        };
        match self {
            CpiErrorKind::VmNotFound if method == Method::DeleteVm => vec![OTHER_ACCOUNT_HINT.to_owned()],
            CpiErrorKind::VmNotFound => vec![
                OTHER_ACCOUNT_HINT.to_owned(),
                "if the VM is gone, create a new one: `monopile create-env MANIFEST`".to_owned(),
            ],
            CpiErrorKind::DiskNotFound => vec![
                OTHER_ACCOUNT_HINT.to_owned(),
                "only if the disk is gone with its data: `monopile cloud-check MANIFEST --resolution \
                 delete_disk_reference`"
                    .to_owned(),
            ],
            CpiErrorKind::StemcellNotFound => vec![OTHER_ACCOUNT_HINT.to_owned()],
            CpiErrorKind::DiskNotAttached => {
                vec!["check in the IaaS which VM has the disk, then run the same command again".to_owned()]
            }
            CpiErrorKind::NotImplemented => vec![format!(
                "use a version of the CPI that implements `{method}` ({}), then run the same command again",
                method.facts().purpose
            )],
            CpiErrorKind::NotSupported
            | CpiErrorKind::VmCreationFailed
            | CpiErrorKind::NoDiskSpace
            | CpiErrorKind::Cloud
            | CpiErrorKind::Unknown(_)
                if is_builtin =>
            {
                with_log_hint(ANY_CAUSE_HINT)
            }
            CpiErrorKind::NotSupported => vec![
                "compare the `cloud_properties` with the CPI's documentation, then run the same command again"
                    .to_owned(),
            ],
            CpiErrorKind::VmCreationFailed => with_log_hint(
                "check the VM's `cloud_properties` and networks, and quotas and capacity in the IaaS, then \
                 run the same command again",
            ),
            CpiErrorKind::NoDiskSpace => vec![
                "free space in the IaaS, or reduce the disk's size in the manifest, then run the same \
                 command again"
                    .to_owned(),
            ],
            CpiErrorKind::Cloud | CpiErrorKind::Unknown(_) if is_about_request_rate(message) => {
                with_log_hint(
                    "the IaaS limits the rate of requests: wait a few minutes, then run the same command \
                     again",
                )
            }
            CpiErrorKind::Cloud | CpiErrorKind::Unknown(_) if is_about_limits(message) => {
                with_log_hint("check quotas and capacity in the IaaS, then run the same command again")
            }
            CpiErrorKind::Cloud | CpiErrorKind::Unknown(_) if is_about_access(message) => with_log_hint(
                "check credentials and permissions in the CPI's properties, then run the same command again",
            ),
            CpiErrorKind::Cloud | CpiErrorKind::Unknown(_) if message.is_empty() => with_log_hint(
                "look for the cause in the log of the IaaS at the time of this call, then run the same \
                 command again",
            ),
            CpiErrorKind::Cloud | CpiErrorKind::Unknown(_) => with_log_hint(
                "correct the cause in the IaaS or in the CPI's properties, then run the same command again",
            ),
        }
    }
}

/// Returns true if the message is about credentials or permissions.
fn is_about_access(message: &str) -> bool {
    const PARTS: [&str; 8] =
        ["unauthor", "authoriz", "authentic", "authfail", "credential", "permission", "forbidden", "denied"];
    // These may also be a part of an identifier, such as the id of a request.
    const WORDS: [&str; 3] = ["auth", "401", "403"];
    let message = message.to_lowercase();
    let mut words = message.split(|letter: char| !letter.is_alphanumeric() && !"-_".contains(letter));
    PARTS.iter().any(|part| message.contains(part)) || words.any(|word| WORDS.contains(&word))
}

/// Returns true if the message of an error is about too many requests, in the words of a cloud.
fn is_about_request_rate(message: &str) -> bool {
    const PARTS: [&str; 5] =
        ["requestlimitexceeded", "throttl", "rate limit", "ratelimit", "too many requests"];
    let message = message.to_lowercase();
    PARTS.iter().any(|part| message.contains(part))
}

/// Returns true if the message of an error is about a quota, or about the capacity of the IaaS.
fn is_about_limits(message: &str) -> bool {
    let message = message.to_lowercase();
    ["quota", "capacity", "limit exceeded", "limitexceeded"].iter().any(|word| message.contains(word))
}

/// The reason why a CPI call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CpiError {
    /// The CPI answered with an error.
    #[error("the CPI's `{method}` failed: {}", message_or_placeholder(message))]
    Answered {
        /// The method of the call.
        method: Method,
        /// The request id.
        request_id: RequestId,
        /// The kind of the error.
        kind: CpiErrorKind,
        /// The type as the CPI spelled it; empty if it gave none.
        error_type: Box<str>,
        /// The CPI's message, or the type in its place; empty if it gave neither.
        message: Box<str>,
        /// True if the CPI marks the call as retryable.
        ok_to_retry: bool,
        /// True if the CPI is a built-in one.
        is_builtin: bool,
        /// True if a built-in CPI states that the call made nothing.
        made_nothing: bool,
        /// The steps of a built-in CPI for the operator.
        hints: Box<[String]>,
        /// The last lines of its log.
        log_tail: Box<str>,
    },
    /// There is no usable answer, so the effect of the call is unknown.
    #[error("the CPI gave no usable answer to `{method}`: {problem}")]
    NoAnswer {
        /// The method of the call.
        method: Method,
        /// The request id.
        request_id: RequestId,
        /// The problem with the answer.
        problem: String,
        /// The last lines of its log.
        log_tail: Box<str>,
        /// The words with which `cpi call` repeats the call, if it changes nothing.
        repetition: Option<String>,
    },
    /// The request was invalid and was not sent.
    #[error("the CPI was not called: {problem}")]
    NotSent {
        /// The method of the call.
        method: Method,
        /// The problem with its arguments.
        problem: String,
    },
    /// The executable could not be started, so the call had no effect.
    #[error("the CPI '{executable}' cannot be run")]
    NotStarted {
        /// The path of the executable.
        executable: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The run stopped waiting for the call.
    #[error("stopped waiting for the CPI's `{method}`, which is still running")]
    Abandoned {
        /// The method of the call.
        method: Method,
        /// The request id.
        request_id: RequestId,
        /// The reason for the end of the wait.
        cause: StopCause,
    },
    /// The run killed the process of a call that has no journal, because the call took too long or a signal
    /// arrived.
    #[error("the CPI's `{method}` was ended without an answer")]
    Killed {
        /// The method of the call.
        method: Method,
        /// The request id.
        request_id: RequestId,
        /// The reason for the end of the wait.
        cause: StopCause,
    },
    /// A file or thread of this machine could not be used.
    #[error("{message}")]
    Local {
        /// The operation that failed.
        message: String,
        /// The file, or a file in the directory that could not be used.
        path: Option<std::path::PathBuf>,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
}

impl CpiError {
    /// Creates the error for the file at `path` that should get the CPI's answer.
    pub(crate) fn answer_file(path: &std::path::Path, source: std::io::Error) -> Self {
        let message = format!("creating '{}' for the CPI's answer failed", path.display());
        CpiError::Local { message, path: Some(path.to_owned()), source }
    }

    /// Returns the type of the CPI's error, if it answered with one.
    pub fn kind(&self) -> Option<&CpiErrorKind> {
        match self {
            CpiError::Answered { kind, .. } => Some(kind),
            _ => None,
        }
    }

    /// Returns true if the CPI says that it does not implement the method of the call. The message must name
    /// that method alone: a CPI may also fail like this after it created something, because it lacks another
    /// method.
    pub(crate) fn lacks_called_method(&self) -> bool {
        let CpiError::Answered { method, kind: CpiErrorKind::NotImplemented, message, .. } = self else {
            return false;
        };
        let words = message.split(|letter: char| letter != '_' && !letter.is_alphanumeric());
        let mut methods = words.filter_map(|word| word.parse::<Method>().ok()).peekable();
        methods.peek().is_some() && methods.all(|mentioned| mentioned == *method)
    }

    /// Creates the error for an answer that cannot be used because of `problem`.
    pub fn no_answer(method: Method, request_id: &RequestId, problem: impl Into<String>) -> Self {
        let (request_id, problem) = (request_id.clone(), problem.into());
        CpiError::NoAnswer { method, request_id, problem, log_tail: Box::default(), repetition: None }
    }

    /// Adds the end of the call's log, and the end of a process without a usable answer. Lines that only
    /// repeat the message of the error are left out.
    pub(crate) fn with_end(mut self, process_end: Option<String>, tail: String) -> Self {
        match &mut self {
            CpiError::NoAnswer { problem, log_tail, .. } => {
                if let Some(end) = process_end {
                    problem.push_str(&format!("; {end}"));
                }
                *log_tail = tail.into();
            }
            CpiError::Answered { message, log_tail, .. } => {
                let message = message.trim();
                let repeats = |line: &str| {
                    let prefix = line.trim().strip_suffix(message);
                    prefix.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with(": "))
                };
                let lines: Vec<&str> = tail.lines().filter(|line| !repeats(line)).collect();
                *log_tail = lines.join("\n").into();
            }
            _ => {}
        }
        self
    }

    /// Adds the arguments of a call that can be repeated by hand, because it changes nothing.
    pub(super) fn with_arguments(mut self, arguments: &[Value]) -> Self {
        if let CpiError::NoAnswer { method, repetition, .. } = &mut self
            && !method.facts().changes_iaas
        {
            let words = arguments.iter().map(|argument| match argument {
                Value::String(text) => shell_word(text).into_owned(),
                other => shell_word(&other.to_string()).into_owned(),
            });
            let words: Vec<String> = std::iter::once(method.name().to_owned()).chain(words).collect();
            *repetition = Some(words.join(" "));
        }
        self
    }

    /// Returns the end of the call's log as the cause to show below the error, if any.
    fn end_of_log(&self) -> Option<String> {
        let (CpiError::Answered { log_tail, .. } | CpiError::NoAnswer { log_tail, .. }) = self else {
            return None;
        };
        let tail = log_tail.trim_end();
        (!tail.trim().is_empty()).then(|| format!("the end of the CPI's log:\n{tail}"))
    }

    /// Returns the request ID, after the type of the error if the message does not say it.
    fn origin_note(&self) -> Option<String> {
        let (request_id, error_type) = match self {
            CpiError::Answered { request_id, error_type, message, .. } => {
                (request_id, Some(error_type.trim()).filter(|error_type| !message.starts_with(error_type)))
            }
            CpiError::NoAnswer { request_id, .. } | CpiError::Killed { request_id, .. } => (request_id, None),
            // The path of the log names the request.
            CpiError::Abandoned { .. } => return None,
            CpiError::NotSent { .. } | CpiError::NotStarted { .. } | CpiError::Local { .. } => return None,
        };
        let type_part = error_type.map(|error_type| format!("type {error_type}, ")).unwrap_or_default();
        Some(format!("{type_part}request ID {request_id}"))
    }

    /// Returns the error with its origin and the end of the call's log, without hints.
    pub(crate) fn without_hints(&self) -> Error {
        let call_error = Error::failure(self.to_string()).with_notes(self.origin_note());
        match self.end_of_log() {
            Some(end) => call_error.with_source(LogExcerpt::new(end)),
            None => call_error,
        }
    }

    /// Like the conversion of an error that the CPI answered with, but these steps come before its own.
    pub(crate) fn with_first_hints(&self, first_hints: impl IntoIterator<Item = String>) -> Error {
        let error = self.without_hints();
        let CpiError::Answered { method, kind, message, ok_to_retry, is_builtin, hints, .. } = self else {
            return error.with_hints(first_hints);
        };
        let mut first_hints = first_hints.into_iter().peekable();
        let prefix = if first_hints.peek().is_some() { "then " } else { "" };
        let error = error.with_notes(kind.missing_resource_note()).with_hints(first_hints);
        let mut hints = match &**hints {
            [] => kind.hints(*method, message, *is_builtin),
            own_hints => [own_hints, &["then run the same command again".to_owned()]].concat(),
        }
        .into_iter();
        let Some(first) = hints.next() else { return error };
        match ok_to_retry {
            true => error
                .with_rerun_hint(format!(
                    "{prefix}run the same command again in a few minutes: the CPI says that a retry may help"
                ))
                .with_hint(format!("if that does not help: {first}")),
            false => error.with_rerun_hint(first),
        }
        .with_hints(hints)
    }
}

/// The hint for [`describe_missing_interpreter`].
pub(crate) const INTERPRETER_HINT: &str = "install it, or correct the first line";

/// Describes the interpreter that the first line of a script names, if it does not exist.
pub(crate) fn describe_missing_interpreter(script: &Path) -> Option<String> {
    const MAX_FIRST_LINE_BYTES: u64 = 256;
    let mut start = Vec::new();
    std::fs::File::open(script).ok()?.take(MAX_FIRST_LINE_BYTES).read_to_end(&mut start).ok()?;
    let first_line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let interpreter = Path::new(std::str::from_utf8(first_line).ok()?.split_whitespace().next()?);
    (interpreter.is_absolute() && !interpreter.exists())
        .then(|| format!("its interpreter '{}', named in its first line, is missing", interpreter.display()))
}

/// Returns the message of an error that a CPI answered with, or the words for none.
pub(crate) fn message_or_placeholder(message: &str) -> &str {
    match message {
        "" => "the CPI gave no message",
        message => message,
    }
}

impl From<CpiError> for Error {
    fn from(error: CpiError) -> Self {
        match error {
            CpiError::NotStarted { executable, source } => {
                let run_error = Error::failure(format!("the CPI '{executable}' cannot be run"));
                if source.kind() == std::io::ErrorKind::NotFound
                    && let Some(problem) = describe_missing_interpreter(Path::new(&executable))
                {
                    return run_error.with_source(problem).with_hint(INTERPRETER_HINT);
                }
                let hint = match source.kind() {
                    std::io::ErrorKind::PermissionDenied => {
                        format!("make it executable: `chmod +x {}`", shell_word(&executable))
                    }
                    std::io::ErrorKind::NotFound => {
                        let directory = Path::new(&executable).parent().unwrap_or(Path::new("/"));
                        format!("see what is there: `ls {}`", shell_word(&directory.to_string_lossy()))
                    }
                    _ => "check that it is a program for this machine".to_owned(),
                };
                match source.kind() {
                    std::io::ErrorKind::NotFound => run_error.with_source("it does not exist"),
                    _ => run_error.with_source(source),
                }
                .with_hint(hint)
            }
            CpiError::Local { message, path, source } => {
                let local_error =
                    Error::failure(message).with_source(source).with_note("the CPI was not called");
                match path {
                    Some(path) => local_error.with_path_hint(&path, ""),
                    None => local_error,
                }
            }
            CpiError::Abandoned { cause: StopCause::Signal(signal), .. } => {
                Error::new(base::ErrorKind::Interrupted(signal), error.to_string())
                    .with_rerun_hint(RERUN_WAITS_HINT)
            }
            CpiError::Abandoned { cause: StopCause::Timeout(timeout), .. } => Error::failure(format!(
                "{error}: this run waited {} (--cpi-timeout)",
                base::text::format_duration(timeout)
            ))
            .with_rerun_hint(format!("wait longer for the same process: {}", longer_wait(timeout))),
            CpiError::Killed { cause: StopCause::Signal(signal), .. } => {
                Error::new(base::ErrorKind::Interrupted(signal), format!("interrupted: {error}"))
                    .with_notes(error.origin_note())
            }
            CpiError::Killed { cause: StopCause::Timeout(timeout), .. } => {
                let timeout_text = base::text::format_duration(timeout);
                Error::failure(format!("{error}: this run waited {timeout_text} (--cpi-timeout)"))
                    .with_notes(error.origin_note())
                    .with_hint(format!("wait longer: {}", longer_wait(timeout)))
            }
            CpiError::Answered { .. } => error.with_first_hints([]),
            CpiError::NoAnswer { method: Method::Info, .. } => error.without_hints().with_hint(
                "see the request, the answer and the log of the CPI: `monopile cpi info MANIFEST`",
            ),
            CpiError::NoAnswer { repetition: Some(ref words), .. } => {
                error.without_hints().with_hint(format!(
                    "see the request, the answer and the log of the CPI: `monopile cpi call MANIFEST {words}`"
                ))
            }
            CpiError::NotSent { .. } | CpiError::NoAnswer { .. } => error.without_hints(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_implemented_is_recognised_in_each_dialect() {
        for (error_type, message) in [
            ("Bosh::Clouds::NotImplemented", "no"),
            ("Bosh::Clouds::CloudError", "Invalid Method: info"),
            ("InvalidCall", "Method is not known, got 'info'"),
        ] {
            assert_eq!(CpiErrorKind::of(error_type, message), CpiErrorKind::NotImplemented);
        }
        assert_eq!(CpiErrorKind::of("Bosh::Clouds::CloudError", "boom"), CpiErrorKind::Cloud);
        assert_eq!(
            CpiErrorKind::of("InvalidCall", "arguments"),
            CpiErrorKind::Unknown("InvalidCall".to_owned())
        );
    }

    fn answered_error(error_type: &str, message: &str) -> CpiError {
        CpiError::Answered {
            method: Method::CreateVm,
            request_id: "r-1".parse().unwrap(),
            kind: CpiErrorKind::of(error_type, message),
            error_type: error_type.into(),
            message: message.into(),
            ok_to_retry: false,
            is_builtin: false,
            made_nothing: false,
            hints: Box::default(),
            log_tail: Box::default(),
        }
    }

    #[test]
    fn note_has_the_type_unless_the_message_has_it() {
        for (error_type, message, note) in [
            ("Bosh::Clouds::CloudError", "no quota", "type Bosh::Clouds::CloudError, request ID r-1"),
            ("CloudError", "CloudError: no quota", "request ID r-1"),
            ("", "no quota", "request ID r-1"),
        ] {
            assert_eq!(Error::from(answered_error(error_type, message)).notes(), [note]);
        }
        let missing_disk = Error::from(answered_error("Bosh::Clouds::DiskNotFound", "no disk"));
        let note = "the disk is gone, or the CPI looks in another account, region or project";
        assert_eq!(missing_disk.notes()[1], note);
        assert_eq!(missing_disk.hints().len(), 2);
    }

    #[test]
    fn error_shows_the_end_of_the_log_without_repetition() {
        let error = answered_error("Bosh::Clouds::CloudError", "no quota");
        let tail = "asking for 4 CPUs\nCloudError: no quota\n".to_owned();
        let chain = Error::from(error.with_end(None, tail)).chain();
        let log = "the end of the CPI's log:\nasking for 4 CPUs";
        assert_eq!(chain, ["the CPI's `create_vm` failed: no quota", log]);
    }

    #[test]
    fn unusable_answer_to_a_question_has_hints() {
        let hints = |method: Method, arguments: &[Value]| {
            let error = CpiError::no_answer(method, &RequestId::fresh(), "it wrote nothing");
            Error::from(error.with_arguments(arguments)).hints().to_vec()
        };
        let hints_of_question = hints(Method::HasVm, &["vm 1".into()]);
        assert_eq!(hints_of_question.len(), 1);
        assert!(
            hints_of_question[0].ends_with(": `monopile cpi call MANIFEST has_vm 'vm 1'`"),
            "{hints_of_question:?}"
        );
        let calculated =
            hints(Method::CalculateVmCloudProperties, &[serde_json::json!({"cpu": 2, "ram": 512})]);
        assert!(
            calculated[0].contains(r#" calculate_vm_cloud_properties '{"cpu":2,"ram":512}'`"#),
            "{calculated:?}"
        );
        assert_eq!(
            hints(Method::DeleteVm, &["vm-1".into()]),
            Vec::<String>::new(),
            "a call that changes something has a hint to repeat it"
        );
    }

    #[test]
    fn every_error_type_has_its_hint() {
        let mut hints = std::collections::HashSet::new();
        for error_type in CPI_ERROR_TYPES.map(|(name, _)| name).into_iter().chain(["Surprise"]) {
            let kind = CpiErrorKind::of(&format!("Bosh::Clouds::{error_type}"), "x");
            for ok_to_retry in [false, true] {
                let error = CpiError::Answered {
                    method: Method::AttachDisk,
                    request_id: RequestId::fresh(),
                    kind: kind.clone(),
                    error_type: Box::default(),
                    message: "x".into(),
                    ok_to_retry,
                    is_builtin: false,
                    made_nothing: false,
                    hints: Box::default(),
                    log_tail: Box::default(),
                };
                let error = Error::from(error);
                let mut steps = error.hints().to_vec();
                if ok_to_retry {
                    assert!(steps.remove(0).starts_with("run the same command again in a few "), "{steps:?}");
                    steps[0] = steps[0].strip_prefix("if that does not help: ").unwrap().to_owned();
                }
                assert!(steps[0].ends_with("run the same command again"), "{steps:?}");
                hints.insert(steps);
            }
        }
        // `CloudError`, `CpiError` and an unknown type have the same hint. The VM and the disk have one more
        // than the stemcell.
        assert_eq!(hints.len(), CPI_ERROR_TYPES.len() - 1);
        let first_hint = |kind: CpiErrorKind, message: &str, is_builtin| {
            kind.hints(Method::CreateVm, message, is_builtin).remove(0)
        };
        let missing = CpiErrorKind::NotImplemented.hints(Method::AttachDisk, "", false).remove(0);
        assert!(missing.contains("implements `attach_disk` (attach a disk to a VM)"), "{missing}");
        for message in ["Quota exceeded for cores", "InstanceLimitExceeded: 5", "no capacity in zone a"] {
            let hint = first_hint(CpiErrorKind::Cloud, message, false);
            let expected = "check quotas and capacity in the IaaS, then run the same command again";
            assert_eq!(hint, expected, "{message}");
        }
        for kind in ["NotSupported", "VMCreationFailed", "NoDiskSpace", "CloudError", "InvalidCall"] {
            let hint = first_hint(CpiErrorKind::of(kind, ""), "the port is in use", true);
            let expected = "correct the cause, then run the same command again";
            assert_eq!(hint, expected, "{kind}");
        }
        // Ruby CPIs call every error of an SDK `Unknown`.
        for kind in [CpiErrorKind::Cloud, CpiErrorKind::of("Unknown", "x")] {
            for (message, start) in [
                ("not able to validate the provided access credentials", "check credentials and "),
                ("UnauthorizedOperation: no", "check credentials and "),
                ("Expected(200) <=> Actual(403 Forbidden)", "check credentials and "),
                ("status 401", "check credentials and "),
                ("you have reached your quota", "check quotas and "),
                ("RequestLimitExceeded: no", "the IaaS limits the rate of requests: "),
                ("Throttling: Rate exceeded", "the IaaS limits the rate of requests: "),
                ("", "look for the cause in the log of the IaaS "),
            ] {
                let hint = first_hint(kind.clone(), message, false);
                assert!(hint.starts_with(start), "{message}: {hint}");
            }
            for message in [
                "subnet subnet-0403bb does not exist",
                "instance i-0a401f3 is shutting down",
                "no zone (RequestId: 9b40-403-aa)",
                "the author of the image is gone",
            ] {
                let hint = first_hint(kind.clone(), message, false);
                assert!(hint.starts_with("correct "), "{message}: {hint}");
            }
        }
    }
}
