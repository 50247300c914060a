//! Downloads one URL to one file: checks the status, hashes while writing, retries and resumes.
//!
//! TLS is rustls with aws-lc. Servers are verified against the certificate authorities of the operating
//! system, not against a list in this binary.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ureq::config::ConfigBuilder;
use ureq::http::{HeaderMap, Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::typestate::AgentScope;

use super::InterruptCheck;
use super::arriving::Arrival;
use super::connection::ProxyDialer;
use super::image::{RegistryAccess, refusal_hint};
use super::redirect::{self, MAX_REDIRECTS, is_redirect};
use crate::archive::UnpackLimits;
use crate::digest::{Algorithm, Digest, Hasher};
use crate::http_url::HttpUrl;
use crate::timeouts::{HEADERS_TIMEOUT, SETUP_TIMEOUT};
use base::events::{Stage, Unit};
use base::files::durable::write_atomically;
use base::text::{format_bytes, format_duration};
use base::{Error, Result};
use net::http_client;
use net::plain_errors::{http_problem, io_problem, is_unresolved, is_untrusted, is_without_tls};
use net::tls_roots;

/// Pauses between attempts. They restart from the first one after an attempt that received more than all
/// before. Tests wait less.
const RETRY_PAUSES: [Duration; 4] = match cfg!(test) {
    false => {
        [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(10)]
    }
    true => [Duration::from_millis(100); 4],
};
/// The maximum number of attempts, for a server that breaks every transfer.
const MAX_ATTEMPTS: usize = 100;
/// The maximum pause that a server can request with `Retry-After`.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The maximum number of attempts in a row that receive nothing new.
const MAX_FUTILE_ATTEMPTS: usize = RETRY_PAUSES.len() + 1;
/// The number of bytes of a wrong file that are read to tell what it is.
const SNIFFED_BYTES: u64 = 512;

/// A failed attempt.
enum AttemptFailure {
    /// A retry may help: no connection, a broken one, an overloaded server. Contains the pause that the
    /// server requests.
    Temporary(Error, Option<Duration>),
    /// A retry cannot help.
    Final(Error),
}

/// An attempt that completed the body.
struct CompletedBody {
    /// Digest of the body. `None` if it was resumed, so this attempt did not read all of it.
    digest: Option<Digest>,
}

/// Creates the HTTP client for downloads, with connections from `dialer`.
pub(super) fn create_client(dialer: ProxyDialer) -> ureq::Agent {
    // `Download::request` follows redirects itself, with rules of its own.
    let config =
        client_config().max_redirects(0).max_redirects_will_error(false).max_idle_connections(0).build();
    http_client::create_client_over(config, None, dialer)
}

/// Returns the configuration that is common to all HTTP clients with connections from a [`ProxyDialer`].
pub(super) fn client_config() -> ConfigBuilder<AgentScope> {
    let roots: Vec<Certificate<'static>> =
        tls_roots::load_system_roots().iter().map(|root| Certificate::from_der(root).to_owned()).collect();
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .build();
    ureq::Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .timeout_connect(Some(SETUP_TIMEOUT))
        .timeout_send_request(Some(HEADERS_TIMEOUT))
        .timeout_recv_response(Some(HEADERS_TIMEOUT))
        .user_agent(concat!("monopile/", env!("CARGO_PKG_VERSION")))
        // The dialer handles proxies. Without this, ureq reads them from the environment.
        .proxy(None)
}

/// A download of one file, with everything that its requests need.
pub(super) struct Download<'a> {
    pub(super) http: &'a ureq::Agent,
    pub(super) url: &'a HttpUrl,
    /// The registry of an image, if the file is part of one.
    pub(super) registry: Option<&'a RegistryAccess<'a>>,
    pub(super) expected: Option<&'a Digest>,
    pub(super) stage: &'a Stage,
    pub(super) interrupt_check: &'a InterruptCheck,
    /// The progress of the file, for its readers.
    pub(super) arrival: &'a Arrival,
}

impl Download<'_> {
    /// Downloads into `file`, whose path is `body_path` and which may already contain the beginning.
    ///
    /// Returns the checked digest: SHA-256, and the strongest algorithm of the expected digest. Removes the
    /// file after a failure that a retry cannot correct, such as a wrong digest. Leaves an incomplete file
    /// for the next run.
    pub(super) fn run(&self, file: &File, body_path: &Path) -> Result<Digest> {
        let result = self.fetch(file, body_path);
        match &result {
            Err(AttemptFailure::Final(_)) => remove_download(body_path),
            // The tag is only needed for an incomplete body.
            Ok(_) => drop(fs::remove_file(entity_tag_path(body_path))),
            Err(AttemptFailure::Temporary(..)) => {
                if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
                    remove_download(body_path);
                }
            }
        }
        result.map_err(|failure| match failure {
            AttemptFailure::Temporary(error, _) | AttemptFailure::Final(error) => error,
        })
    }

    /// Repeats [`Self::attempt`] until the body is complete. The number of attempts starts again when one
    /// has received more than all before, so that only a server that makes no progress is given up. A resumed
    /// body with a wrong digest is downloaded again once, because its beginning may be of another version.
    fn fetch(&self, file: &File, body_path: &Path) -> Result<Digest, AttemptFailure> {
        let read_error =
            |error| AttemptFailure::Final(Error::io(format!("reading '{}'", body_path.display()), error));
        let mut pauses = RETRY_PAUSES.iter();
        let mut most_bytes = 0;
        let mut has_restarted = false;
        for attempt_number in 1..=MAX_ATTEMPTS {
            // An interruption is `Temporary`, so that the next run can resume.
            (self.interrupt_check)().map_err(|error| AttemptFailure::Temporary(error, None))?;
            match self.attempt(file, body_path) {
                Ok(completed_body) => {
                    let was_resumed = completed_body.digest.is_none();
                    let digest = match completed_body.digest {
                        Some(digest) => digest,
                        None => {
                            Digest::from_file(body_path, &self.algorithms()).map_err(AttemptFailure::Final)?
                        }
                    };
                    let name = format!("'{}'", self.url);
                    match self.expected.map_or(Ok(()), |expected| expected.check_with_hint(&digest, &name)) {
                        Ok(()) => return Ok(digest),
                        // The existing beginning may be from another version of the file.
                        Err(_) if was_resumed && !has_restarted => {
                            has_restarted = true;
                            self.empty(file).map_err(read_error)?;
                            self.stage.reporter().warn(format!(
                                "the resumed download of {name} has a wrong digest: downloading all of it \
                                 again"
                            ));
                        }
                        Err(error) => {
                            return Err(AttemptFailure::Final(match describe_wrong_content(body_path) {
                                // Without the hint to correct the digest in the manifest, which is probably
                                // right.
                                Some(note) => Error::invalid(error.to_string()).with_note(note),
                                None => error,
                            }));
                        }
                    }
                }
                Err(AttemptFailure::Final(error)) => return Err(AttemptFailure::Final(error)),
                Err(AttemptFailure::Temporary(error, requested_pause)) => {
                    (self.interrupt_check)().map_err(|error| AttemptFailure::Temporary(error, None))?;
                    let received_bytes = file.metadata().map_err(read_error)?.len();
                    if received_bytes > most_bytes {
                        most_bytes = received_bytes;
                        pauses = RETRY_PAUSES.iter();
                    }
                    let next_attempt = MAX_FUTILE_ATTEMPTS - pauses.len() + 1;
                    let Some(pause) = pauses.next() else {
                        let last_error = self
                            .download_error(&format!(" ({attempt_number} attempts)"), reason(&error))
                            .with_advice_of(&error);
                        let last_error = match error.hints() {
                            [] => last_error.with_rerun_hint(self.rerun_hint(file, body_path)),
                            _ => last_error,
                        };
                        return Err(AttemptFailure::Temporary(last_error, None));
                    };
                    let pause = requested_pause
                        .map_or(*pause, |requested_pause| requested_pause.clamp(*pause, MAX_PAUSE));
                    self.stage.reporter().warn(format!(
                        "{}; attempt {next_attempt} of {MAX_FUTILE_ATTEMPTS} in {}",
                        self.download_error("", reason(&error)).chain().join(": "),
                        format_duration(pause)
                    ));
                    self.pause(pause)?;
                }
            }
        }
        let attempts = format!(" ({MAX_ATTEMPTS} attempts)");
        let error = self.download_error(&attempts, "each transfer ended early");
        Err(AttemptFailure::Temporary(error.with_rerun_hint(self.rerun_hint(file, body_path)), None))
    }

    /// Returns the error of the download. Its message ends with `attempts`; `reason` is its source.
    fn download_error(
        &self,
        attempts: &str,
        reason: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error::failure(format!("downloading '{}' failed{attempts}", self.url)).with_source(reason)
    }

    /// Returns the hint for an answer that does not belong to the file.
    fn url_hint(&self) -> String {
        format!("check the URL: `curl -IL '{}'`", self.url)
    }

    /// Returns the hint for a download that failed although it was retried.
    fn rerun_hint(&self, file: &File, body_path: &Path) -> String {
        let is_kept = file.metadata().is_ok_and(|metadata| self.can_resume(metadata.len(), body_path));
        let continuation = if is_kept { ": the download continues where it stopped" } else { "" };
        format!(
            "check the network and the proxy variables (`env | grep -i proxy`), then run the same command \
             again{continuation}"
        )
    }

    /// Returns true if a download continues after these bytes. The tag or the expected digest shows when the
    /// file on the server has changed. Without both, the download starts again.
    fn can_resume(&self, existing_bytes: u64, body_path: &Path) -> bool {
        existing_bytes > 0 && (self.expected.is_some() || read_entity_tag(body_path).is_some())
    }

    /// Empties the file, because its content is of another version.
    pub(super) fn empty(&self, file: &File) -> io::Result<()> {
        self.arrival.set_bytes(0);
        file.set_len(0)
    }

    fn algorithms(&self) -> Vec<Algorithm> {
        let mut algorithms = vec![Algorithm::Sha256];
        algorithms.extend(self.expected.map(Digest::strongest));
        algorithms
    }

    /// Sleeps. Returns early with an error if the run is interrupted.
    fn pause(&self, pause: Duration) -> Result<(), AttemptFailure> {
        let end = Instant::now() + pause;
        while let Some(remaining) = end.checked_duration_since(Instant::now()) {
            (self.interrupt_check)().map_err(|error| AttemptFailure::Temporary(error, None))?;
            std::thread::sleep(remaining.min(Duration::from_millis(50)));
        }
        Ok(())
    }

    fn request_error(&self, reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        self.download_error("", reason)
    }

    /// Makes one request and appends the answer to the file. Continues after the bytes that exist if the
    /// server still has the same version, and otherwise empties the file.
    fn attempt(&self, file: &File, body_path: &Path) -> Result<CompletedBody, AttemptFailure> {
        let write_error =
            |error| AttemptFailure::Final(Error::io(format!("writing '{}'", body_path.display()), error));
        let downloaded_bytes = file.metadata().map_err(write_error)?.len();
        let entity_tag = read_entity_tag(body_path).filter(|_| downloaded_bytes > 0);
        let can_resume = self.can_resume(downloaded_bytes, body_path);
        let mut response = self.request(can_resume.then_some(downloaded_bytes), entity_tag.as_deref())?;
        let (start, total) = match response.status() {
            StatusCode::PARTIAL_CONTENT if can_resume => match parse_content_range(response.headers()) {
                Some((start, total)) if start == downloaded_bytes => (start, total),
                _ => {
                    self.empty(file).map_err(write_error)?;
                    let error = self.request_error("the server sent another part of the file than requested");
                    return Err(AttemptFailure::Temporary(error, None));
                }
            },
            StatusCode::RANGE_NOT_SATISFIABLE if can_resume => {
                self.empty(file).map_err(write_error)?;
                let error =
                    self.request_error("the file on the server is shorter than the part already received");
                return Err(AttemptFailure::Temporary(error, None));
            }
            StatusCode::OK => {
                self.empty(file).map_err(write_error)?;
                write_entity_tag(body_path, response.headers());
                (0, header_number(response.headers(), "content-length"))
            }
            status => return Err(self.status_error(status, response.headers())),
        };
        let limit = UnpackLimits::default().bytes;
        let mut hasher = (start == 0).then(|| Hasher::new(&self.algorithms()));
        let mut writer = file;
        writer.seek(SeekFrom::Start(start)).map_err(write_error)?;
        let mut reader = response.body_mut().as_reader();
        let mut buffer = vec![0; 128 << 10];
        let (mut position, mut last_report) = (start, Instant::now());
        self.stage.report_progress(position, total, Unit::Bytes);
        loop {
            let count = match reader.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.map_err(|error| {
                    AttemptFailure::Temporary(self.request_error(io_problem(&error)), None)
                })?,
            };
            if count == 0 {
                break;
            }
            if let Some(hasher) = &mut hasher {
                hasher.update(&buffer[..count]);
            }
            writer.write_all(&buffer[..count]).map_err(write_error)?;
            position += count as u64;
            self.arrival.set_bytes(position);
            if position > limit {
                return Err(AttemptFailure::Final(
                    self.request_error(format!("the file is larger than {}", format_bytes(limit))),
                ));
            }
            if last_report.elapsed() >= Duration::from_millis(100) {
                last_report = Instant::now();
                self.stage.report_progress(position, total, Unit::Bytes);
                (self.interrupt_check)().map_err(|error| AttemptFailure::Temporary(error, None))?;
            }
        }
        if let Some(total) = total.filter(|total| *total != position) {
            let reason = format!("the connection ended after {position} of {total} bytes");
            return Err(AttemptFailure::Temporary(self.request_error(reason), None));
        }
        self.stage.report_progress(position, total, Unit::Bytes);
        file.sync_all().map_err(write_error)?;
        Ok(CompletedBody { digest: hasher.map(Hasher::finish) })
    }

    /// Sends the request, and follows redirects. `first_byte` is the offset from which the file is requested,
    /// and `entity_tag` the one that the file must still have.
    fn request(
        &self,
        first_byte: Option<u64>,
        entity_tag: Option<&str>,
    ) -> Result<Response<ureq::Body>, AttemptFailure> {
        let mut url = self.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut response = self.request_once(&url, first_byte, entity_tag)?;
            if response.status() == StatusCode::UNAUTHORIZED && self.renew_token(&url, response.headers())? {
                response = self.request_once(&url, first_byte, entity_tag)?;
            }
            if !is_redirect(&response) {
                return Ok(response);
            }
            let target = redirect::target(&response, &url).ok_or_else(|| {
                AttemptFailure::Final(
                    self.request_error("the server answered with a redirect that has no usable target"),
                )
            })?;
            if url.is_https() && !target.is_https() && self.expected.is_none() {
                let reason = format!("it redirects to '{target}', which is not encrypted");
                let hint = "add the `sha1` of the file, by which it can be verified, or use a URL that \
                            stays at https://";
                return Err(AttemptFailure::Final(self.request_error(reason).with_hint(hint)));
            }
            url = target;
        }
        Err(AttemptFailure::Final(
            self.request_error(format!("there are more than {MAX_REDIRECTS} redirects")),
        ))
    }

    /// Requests a token for the image if `headers`, of an answer of `url`, ask for one. Returns false if they
    /// do not.
    fn renew_token(&self, url: &HttpUrl, headers: &HeaderMap) -> Result<bool, AttemptFailure> {
        let Some(registry) = self.registry.filter(|_| self.url.may_share_credentials(url)) else {
            return Ok(false);
        };
        registry.renew_token(self.http, headers).map_err(|error| {
            let request_error = self.request_error(error.message);
            match error.is_temporary {
                true => AttemptFailure::Temporary(request_error, None),
                false => {
                    let hint = refusal_hint(StatusCode::UNAUTHORIZED.as_u16());
                    AttemptFailure::Final(request_error.with_hint(hint))
                }
            }
        })
    }

    /// Returns the header `Authorization` of a request for `url`, to which redirects may have led.
    fn authorization(&self, url: &HttpUrl) -> Option<String> {
        let registry = self.registry.filter(|_| self.url.may_share_credentials(url));
        registry.and_then(RegistryAccess::authorization).or_else(|| redirect::authorization(self.url, url))
    }

    /// Sends one request.
    fn request_once(
        &self,
        url: &HttpUrl,
        first_byte: Option<u64>,
        entity_tag: Option<&str>,
    ) -> Result<Response<ureq::Body>, AttemptFailure> {
        let address = url.without_user();
        let mut request = self.http.get(&address);
        if let Some(authorization) = self.authorization(url) {
            request = request.header("authorization", authorization);
        }
        if let Some(types) = self.registry.and_then(|registry| registry.accepted_types(self.url)) {
            request = request.header("accept", types);
        }
        if let Some(first_byte) = first_byte {
            request = request.header("range", format!("bytes={first_byte}-"));
            if let Some(entity_tag) = entity_tag {
                request = request.header("if-range", entity_tag);
            }
        }
        request.call().map_err(|error| {
            // A proxy that refuses, or a private key that cannot be used, is reported as `PermissionDenied`.
            let is_refusal = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
            let is_temporary = match &error {
                error if is_untrusted(error) || is_without_tls(error) => false,
                ureq::Error::Io(error) => !is_refusal(error),
                ureq::Error::Timeout(_) | ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => true,
                _ => false,
            };
            let request_error = self.request_error(without_secrets(&http_problem(&error)));
            match &error {
                error if is_unresolved(error) => AttemptFailure::Temporary(
                    request_error.with_rerun_hint(
                        "check the host in the URL and the name servers of this machine, then run the same \
                         command again",
                    ),
                    None,
                ),
                _ if is_temporary => AttemptFailure::Temporary(request_error, None),
                error if is_untrusted(error) => AttemptFailure::Final(request_error.with_hint(
                    "if this is the right server, add the certificate authority that signed its \
                     certificate to those of this machine, or name a file with it in SSL_CERT_FILE",
                )),
                ureq::Error::Io(error) if is_refusal(error) => AttemptFailure::Final(
                    request_error.with_hint("check the proxy variables: `env | grep -i proxy`"),
                ),
                _ => AttemptFailure::Final(request_error.with_hint(self.url_hint())),
            }
        })
    }

    fn status_error(&self, status: StatusCode, headers: &HeaderMap) -> AttemptFailure {
        let error = self.request_error(format!("the server answered {status}"));
        match status.as_u16() {
            408 | 425 | 429 | 500..=599 => AttemptFailure::Temporary(
                error,
                header_number(headers, "retry-after").map(Duration::from_secs),
            ),
            status => AttemptFailure::Final(error.with_hint(match (self.registry, status) {
                (Some(_), _) => refusal_hint(status).to_owned(),
                (None, 401 | 403) => {
                    "check the credentials in the URL: https://USER:PASSWORD@HOST/PATH".to_owned()
                }
                (None, _) => self.url_hint(),
            })),
        }
    }
}

/// Returns the causes of a failed attempt, without the URL.
fn reason(error: &Error) -> String {
    match error.chain().as_slice() {
        [message] => message.clone(),
        [_, causes @ ..] => causes.join(": "),
        [] => String::new(),
    }
}

/// Returns a note about a file with a wrong digest if it is not a tarball at all.
fn describe_wrong_content(body_path: &Path) -> Option<String> {
    let mut start = Vec::new();
    let file = File::open(body_path).ok()?;
    let size = file.metadata().ok()?.len();
    file.take(SNIFFED_BYTES).read_to_end(&mut start).ok()?;
    let start = String::from_utf8_lossy(&start).trim_start().to_ascii_lowercase();
    let is_html = ["<!doctype html", "<html", "<head", "<body"].iter().any(|tag| start.starts_with(tag));
    (is_html || size == 0).then(|| match is_html {
        true => format!("it is {} of HTML, not a tarball: open the URL in a browser", format_bytes(size)),
        false => "it is empty".to_owned(),
    })
}

/// Shortens URLs in an error text, because they may contain passwords and signatures.
pub(super) fn without_secrets(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.find("http") {
        Some(start) if word[start..].contains("://") => {
            format!("{}{}", &word[..start], HttpUrl::new(&word[start..]))
        }
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn header_number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// Returns the first byte and the total number of bytes from `Content-Range: bytes 7-20/21`.
fn parse_content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let text = headers.get("content-range")?.to_str().ok()?;
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (start, _) = range.split_once('-')?;
    Some((start.trim().parse().ok()?, total.trim().parse().ok()))
}

/// Returns the path of the entity tag of an incomplete body. If the server still has that tag, the rest is of
/// the same version.
pub(super) fn entity_tag_path(body_path: &Path) -> PathBuf {
    body_path.with_extension("etag")
}

fn read_entity_tag(body_path: &Path) -> Option<String> {
    fs::read_to_string(entity_tag_path(body_path))
        .ok()
        .filter(|entity_tag| !entity_tag.is_empty() && entity_tag.len() < 1024)
}

fn write_entity_tag(body_path: &Path, headers: &HeaderMap) {
    let entity_tag = headers.get("etag").and_then(|entity_tag| entity_tag.to_str().ok()).unwrap_or_default();
    // Files with the same weak tag (`W/"…"`) may differ in their bytes.
    let result = if entity_tag.starts_with('"') && entity_tag.len() < 1024 {
        write_atomically(&entity_tag_path(body_path), entity_tag.as_bytes())
    } else {
        fs::remove_file(entity_tag_path(body_path))
    };
    // Without a tag the next attempt relies on the digest alone.
    let _ = result;
}

fn remove_download(body_path: &Path) {
    let _ = fs::remove_file(entity_tag_path(body_path));
    let _ = fs::remove_file(body_path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_urls_without_secrets() {
        let text = without_secrets("bad uri: https://u:p@h/x?sig=1 (https://h/y?sig=2)");
        assert_eq!(text, "bad uri: https://h/x (https://h/y");
        assert_eq!(without_secrets("http status: 500"), "http status: 500");
    }

    #[test]
    fn content_range_is_parsed() {
        let range_of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("content-range", text.parse().unwrap());
            parse_content_range(&headers)
        };
        assert_eq!(range_of("bytes 7-20/21"), Some((7, Some(21))));
        assert_eq!(range_of("bytes 7-20/*"), Some((7, None)));
        assert_eq!(range_of("bytes */21"), None);
        assert_eq!(range_of("lines 1-2/3"), None);
    }
}
