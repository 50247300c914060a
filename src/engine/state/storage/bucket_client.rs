//! The client of a bucket: single requests for its objects, with errors that name the object and the next
//! step.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};

use super::http::{Interruption, ServerTime, run_on_condition};
use super::settings::BucketSettings;
use super::{JOURNAL_FOLDER, VERSIONS_FOLDER};
use base::{Error, Result};
use net::http_client::INTERRUPT_CHECK_INTERVAL;

/// The maximum number of objects that a listing of states reads.
const MAX_LISTED_OBJECTS: usize = 1_000_000;
/// The number of attempts at a write or deletion with an unknown outcome.
const MAX_ATTEMPTS: u32 = 3;

/// The client of a bucket: single requests.
pub(super) struct BucketClient {
    pub(super) settings: BucketSettings,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) interruption: Interruption,
}

/// An object as it was read.
pub(super) struct Object {
    pub(super) bytes: Vec<u8>,
    pub(super) version: UpdateVersion,
    /// The time at which it was written, by the server's clock.
    pub(super) written_at: SystemTime,
    /// The current time of that clock, if the server reports it.
    pub(super) now: Option<SystemTime>,
}

/// The condition of a write: the object that it replaces.
#[derive(Debug, Clone)]
pub(super) enum WriteCondition {
    /// No object: the write creates it.
    Absent,
    /// This version of the object.
    Version(UpdateVersion),
}

/// The outcome of a conditional write.
pub(super) enum WriteOutcome {
    /// The object was written, and has this version now.
    Done(UpdateVersion),
    /// The object is not the expected one.
    Conflict,
}

impl fmt::Debug for BucketClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

impl BucketClient {
    /// Creates the client of the bucket. Makes no request.
    pub(super) fn open(settings: &BucketSettings) -> Result<Self> {
        let interruption = settings.interruption();
        let store = settings.create_client(&interruption)?;
        Ok(BucketClient { settings: settings.clone(), store, interruption })
    }

    /// Returns the URL of an object.
    pub(super) fn url(&self, document: &str) -> String {
        format!("{}{document}", self.settings.address)
    }

    pub(super) fn path(&self, document: &str) -> io::Result<Path> {
        Path::parse(format!("{}{document}", self.settings.address.key)).map_err(io::Error::other)
    }

    /// Reads an object, if it exists.
    pub(super) fn get(&self, document: &str) -> io::Result<Option<Object>> {
        let path = self.path(document)?;
        let read = self.run_request(async {
            let answer = self.store.get(&path).await?;
            let version =
                UpdateVersion { e_tag: answer.meta.e_tag.clone(), version: answer.meta.version.clone() };
            let written_at = answer.meta.last_modified.into();
            let now = answer.extensions.get::<ServerTime>().map(|now| now.0);
            let bytes = answer.bytes().await?.to_vec();
            Ok(Object { bytes, version, written_at, now })
        })?;
        match read {
            Ok(object) => Ok(Some(object)),
            Err(object_store::Error::NotFound { source, .. }) if !is_missing_bucket(&source.to_string()) => {
                Ok(None)
            }
            Err(error) => Err(self.storage_error("reading", document, &error)),
        }
    }

    /// Writes an object if the condition holds.
    pub(super) fn put(
        &self,
        document: &str,
        bytes: &[u8],
        condition: &WriteCondition,
    ) -> io::Result<WriteOutcome> {
        let path = self.path(document)?;
        let mode = match condition {
            WriteCondition::Absent => PutMode::Create,
            WriteCondition::Version(version) => PutMode::Update(version.clone()),
        };
        let write_result = self.retry_change("write", document, || {
            let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
            self.run_request(self.store.put_opts(&path, PutPayload::from(bytes.to_vec()), options))
        })?;
        match write_result {
            Ok(result) => Ok(WriteOutcome::Done(result.into())),
            // The conflict may be with an earlier attempt whose answer was lost.
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(match self.get(document)? {
                    Some(object) if object.bytes == bytes => WriteOutcome::Done(object.version),
                    _ => WriteOutcome::Conflict,
                })
            }
            Err(error) => Err(self.storage_error("writing", document, &error)),
        }
    }

    /// Removes an object. With `version`, removes it only if it is still this version, as far as the service
    /// can check. Returns true if the object no longer exists.
    pub(super) fn delete(&self, document: &str, version: Option<&UpdateVersion>) -> io::Result<bool> {
        let path = self.path(document)?;
        let delete_result = self.retry_change("deletion", document, || {
            let deletion = self.store.delete(&path);
            match version {
                Some(version) => {
                    self.run_request(run_on_condition(self.settings.address.service, version, deletion))
                }
                None => self.run_request(deletion),
            }
        })?;
        match delete_result {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(true),
            // The condition also fails if there is no such object.
            Err(object_store::Error::Precondition { .. }) => Ok(self.get(document)?.is_none()),
            Err(error) => Err(self.storage_error("removing", document, &error)),
        }
    }

    /// Lists the names in a folder with the times at which they were written.
    pub(super) fn list(&self, folder: &str) -> io::Result<Vec<(String, SystemTime)>> {
        let path = self.path(folder)?;
        let listing = self.run_request(self.store.list_with_delimiter(Some(&path)))?;
        let listing = listing.map_err(|error| self.storage_error("listing", folder, &error))?;
        let names = listing
            .objects
            .into_iter()
            .filter_map(|object| Some((object.location.filename()?.to_owned(), object.last_modified.into())));
        Ok(names.collect())
    }

    /// Lists the URLs of the states below the prefix that is the address of this client, sorted. Stops after
    /// `limit` of them.
    pub(super) fn list_states(&self, limit: usize) -> io::Result<Vec<String>> {
        let prefix = Path::parse(&self.settings.address.key).map_err(io::Error::other)?;
        let mut states = Vec::new();
        let list_result = self.run_request(async {
            let mut objects = self.store.list(Some(&prefix));
            for _ in 0..MAX_LISTED_OBJECTS {
                match poll_fn(|context| objects.as_mut().poll_next(context)).await {
                    Some(object) => states.extend(Some(object?.location).filter(is_state)),
                    None => return Ok(true),
                }
                if states.len() >= limit {
                    return Ok(true);
                }
            }
            Ok(false)
        })?;
        match list_result {
            Ok(true) => {}
            Ok(false) => {
                let message = format!("'{}' has more than {MAX_LISTED_OBJECTS} objects", self.url(""));
                let hint = "name a prefix further down: `monopile status --all URL`";
                return Err(io::Error::other(Error::invalid(message).with_hint(hint)));
            }
            Err(error) => return Err(self.storage_error("listing", "", &error)),
        }
        states.sort();
        Ok(states.iter().map(|key| self.settings.address.sibling(key.as_ref()).to_string()).collect())
    }

    /// Repeats a change until its outcome is known, a limited number of times. The caller must check whether
    /// an earlier attempt succeeded although its answer was lost.
    fn retry_change<T>(
        &self,
        operation: &str,
        document: &str,
        mut attempt: impl FnMut() -> io::Result<object_store::Result<T>>,
    ) -> io::Result<object_store::Result<T>> {
        let mut number = 0;
        loop {
            number += 1;
            match attempt()? {
                Err(error @ object_store::Error::Generic { .. })
                    if number < MAX_ATTEMPTS && !self.interruption.is_last_attempt() =>
                {
                    tracing::warn!(document, %error, "retrying a {operation} in the bucket");
                    std::thread::sleep(Duration::from_millis(300) * number);
                }
                outcome => return Ok(outcome),
            }
        }
    }

    /// Runs requests to their end, or until a signal ends them. Each call has a runtime of its own, because
    /// several threads may make requests at a time.
    pub(super) fn run_request<T>(
        &self,
        requests: impl Future<Output = object_store::Result<T>>,
    ) -> io::Result<object_store::Result<T>> {
        let signal = async {
            loop {
                if let Err(error) = self.interruption.check() {
                    return error;
                }
                // The library sleeps between attempts.
                tokio::time::sleep(INTERRUPT_CHECK_INTERVAL).await;
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        runtime.block_on(async {
            tokio::select! {
                biased;
                result = requests => match (result, self.interruption.check()) {
                    (Err(_), Err(error)) => Err(io::Error::other(error)),
                    (result, _) => Ok(result),
                },
                error = signal => Err(io::Error::other(error)),
            }
        })
    }

    /// Converts an error of the bucket library. Finds the cause by words, because the library has no kinds
    /// for a missing bucket, missing credentials or a wrong clock.
    pub(super) fn storage_error(
        &self,
        action: &str,
        document: &str,
        error: &object_store::Error,
    ) -> io::Error {
        use object_store::Error as E;

        let mut cause = error.to_string();
        let mut next_source = std::error::Error::source(error);
        while let Some(source) = next_source {
            let text = source.to_string();
            if !cause.contains(&text) {
                cause = format!("{cause}: {text}");
            }
            next_source = source.source();
        }
        let says = |words: &[&str]| words.iter().any(|word| cause.contains(word));
        let bucket = &self.settings.address.bucket;
        let (kind, reason, hints): FailureParts = match error {
            _ if is_missing_bucket(&cause) => (
                io::ErrorKind::NotFound,
                format!("the bucket '{bucket}' does not exist"),
                &["create the bucket, or correct its name in the URL"],
            ),
            // The library asks these addresses for a role if the environment has no credentials.
            _ if says(&METADATA_HOSTS) => (
                io::ErrorKind::PermissionDenied,
                "no environment variable has credentials, and the metadata service of this machine gave none"
                    .to_owned(),
                self.settings.advice(),
            ),
            // The library does not map these errors for all kinds of requests.
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => access_failure(self.settings.advice()),
            _ if says(&["403 Forbidden", "401 Unauthorized"]) => access_failure(self.settings.advice()),
            E::NotImplemented { .. } | E::NotSupported { .. } => unsupported_failure(),
            _ if says(&["501 Not Implemented"]) => unsupported_failure(),
            _ if says(&["429 Too Many Requests", "503 S"]) => (
                io::ErrorKind::Other,
                "the server is too busy, and all retries failed".to_owned(),
                &["run the same command again later: it continues"],
            ),
            _ if says(&["HTTP error: "]) => (
                io::ErrorKind::Other,
                match self.settings.endpoint() {
                    Some((name, url)) => format!("the server {url} ({name}) cannot be reached"),
                    None => "the server cannot be reached".to_owned(),
                },
                &["check the network, the server, and the proxy variables: `env | grep -i proxy`"],
            ),
            _ => {
                (io::ErrorKind::Other, "the server answered with an error".to_owned(), self.settings.advice())
            }
        };
        let message = format!("{action} '{}': {reason}", self.url(document));
        let plain_cause = match METADATA_HOSTS.iter().find(|host| says(&[host])) {
            Some(host) => format!("at {host}: {}", plain_cause(&cause)),
            None => plain_cause(&cause),
        };
        let error = Error::failure(message).with_source(plain_cause).with_hints(hints.iter().copied());
        io::Error::new(kind, error)
    }
}

/// Returns true for the key of a state, and not of one of its companions.
fn is_state(key: &Path) -> bool {
    let folders = [VERSIONS_FOLDER, JOURNAL_FOLDER];
    let is_companion = key.parts().any(|part| folders.iter().any(|folder| part.as_ref().ends_with(folder)));
    key.extension() == Some("json") && !is_companion
}

/// The hosts that the library asks for the role of this machine.
const METADATA_HOSTS: [&str; 2] = ["169.254.169.254", "metadata.google.internal"];

/// A failure: its kind, its reason, and hints.
type FailureParts = (io::ErrorKind, String, &'static [&'static str]);

fn access_failure(advice: &'static [&'static str]) -> FailureParts {
    (io::ErrorKind::PermissionDenied, "access is denied".to_owned(), advice)
}

fn unsupported_failure() -> FailureParts {
    (
        io::ErrorKind::Unsupported,
        "the server does not support conditional writes, so the state cannot be locked there".to_owned(),
        &["use a storage service with conditional writes (If-Match, If-None-Match)"],
    )
}

/// Returns the cause in an error of the library, without its own words about the request.
pub(super) fn plain_cause(error: &str) -> String {
    let cause = match error.split_once("Error performing ") {
        Some((_, request)) => request.split_once(" - ").map_or(request, |(_, cause)| cause),
        None => match error.strip_prefix("Generic ").and_then(|rest| rest.split_once(" error: ")) {
            Some((_, cause)) => cause,
            None => error,
        },
    };
    if cause.starts_with("Unable to decode service account file") {
        return "the key file is not that of a service account".to_owned();
    }
    summarize_xml(cause)
        .replace("Server returned non-2xx status code: ", "the server answered ")
        .replace("Server returned error response: ", "the server answered ")
        .replace("HTTP error: ", "")
        .trim_end_matches([':', ' '])
        .to_owned()
}

/// Replaces an XML answer of the server in an error with its code and message.
fn summarize_xml(cause: &str) -> String {
    let Some(xml_start) = cause.find("<?xml").or_else(|| cause.find("<Error>")) else {
        return cause.to_owned();
    };
    let (text_before, answer) = cause.split_at(xml_start);
    let element = |tag: &str| {
        let (_, rest) = answer.split_once(&format!("<{tag}>"))?;
        Some(rest.split_once("</")?.0.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let texts: Vec<String> = [element("Code"), element("Message")].into_iter().flatten().collect();
    format!("{text_before}{}", texts.join(": "))
}

/// Returns true if the server reports that the bucket does not exist.
pub(super) fn is_missing_bucket(answer: &str) -> bool {
    ["NoSuchBucket", "ContainerNotFound", "bucket does not exist"]
        .iter()
        .any(|phrase| answer.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companions_of_a_state_are_no_states() {
        for (key, expected) in [
            ("envs/a/state.json", true),
            ("bosh.json", true),
            ("envs/a/state.json.versions/3.json", false),
            ("envs/a/state.json.journal/registry.json", false),
            ("envs/a/state.json.lock", false),
            ("envs/a/creds.yml", false),
        ] {
            assert_eq!(is_state(&Path::parse(key).unwrap()), expected, "{key}");
        }
    }

    #[test]
    fn xml_errors_are_shown_on_one_line() {
        let cause = "403 Forbidden: <?xml version=\"1.0\"?>\n<Error>\n<Code>No</Code>\n<Message>not\n \
            you</Message></Error>";
        assert_eq!(summarize_xml(cause), "403 Forbidden: No: not you");
        assert_eq!(summarize_xml("403: <Error></Error>"), "403: ");
        assert_eq!(summarize_xml("io: connection refused"), "io: connection refused");
    }

    #[test]
    fn causes_have_no_words_of_the_library() {
        for (error, cause) in [
            (
                "Generic S3 error: Error performing GET http://h/b/k in 1.2s, after 2 retries, \
                 max_retries: 2, retry_timeout: 10s  - HTTP error: the server did not answer in time",
                "the server did not answer in time",
            ),
            (
                "Generic S3 error: Error performing PUT http://h/b/k in 3ms - Server returned non-2xx status \
                 code: 500 Internal Server Error: ",
                "the server answered 500 Internal Server Error",
            ),
            ("Generic GCS error: the key file is empty", "the key file is empty"),
            (
                "Generic GCS error: Unable to decode service account file: missing field `type` at line 1 \
                 column 2",
                "the key file is not that of a service account",
            ),
        ] {
            assert_eq!(plain_cause(error), cause);
        }
    }
}
