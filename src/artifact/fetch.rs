//! Downloads over `http://` and `https://`: streamed to a file, status checked, hashed in passing, tried
//! again when that can help.
//!
//! TLS is rustls with aws-lc. Servers are verified against the certificates of the operating system and not
//! against a list in this binary, so that a company's own authority works as it does for every other tool,
//! and a revoked one stops working.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::digest::{Algorithm, Digest, Hasher};
use super::url::HttpUrl;
use crate::ui::{Stage, Unit};
use crate::{Error, Result};

/// Pauses before further attempts.
const PAUSES: [Duration; 3] = [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(4)];
/// How long to wait for a connection.
const CONNECT: Duration = Duration::from_secs(30);
/// How long to wait for an answer to begin.
const ANSWER: Duration = Duration::from_secs(60);

/// What an attempt came to.
enum Failure {
    /// Trying again may help: no connection, a broken one, a server that says it is overloaded.
    Passing(Error),
    /// Trying again will not help.
    Final(Error),
}

/// Downloads `url` into `workdir` and returns the file. A file that is not what `expected` says is removed.
pub(super) fn download(
    url: &HttpUrl,
    expected: Option<&Digest>,
    workdir: &Path,
    stage: &Stage,
) -> Result<PathBuf> {
    let agent = agent()?;
    let name = Digest::of(url.with_credentials().as_bytes(), &[Algorithm::Sha256]);
    let short = name.hex(Algorithm::Sha256).and_then(|hex| hex.get(..16)).unwrap_or("file");
    let path = workdir.join(format!("download-{short}.tgz"));
    let partial = path.with_extension("partial");
    let mut pauses = PAUSES.iter();
    let digest = loop {
        match attempt(&agent, url, expected, &partial, stage) {
            Ok(digest) => break digest,
            Err(failure) => {
                let _ = fs::remove_file(&partial);
                match (failure, pauses.next()) {
                    (Failure::Passing(error), Some(pause)) => {
                        stage.log_line(format!("{error:?}; trying again in {} ms", pause.as_millis()));
                        std::thread::sleep(*pause);
                    }
                    (Failure::Passing(error) | Failure::Final(error), _) => return Err(error),
                }
            }
        }
    };
    let checked = expected.map_or(Ok(()), |expected| expected.check(&digest, &format!("'{url}'")));
    if let Err(error) = checked {
        let _ = fs::remove_file(&partial);
        return Err(error);
    }
    fs::rename(&partial, &path).map_err(|error| Error::io(format!("making '{}'", path.display()), error))?;
    Ok(path)
}

fn agent() -> Result<ureq::Agent> {
    let found = rustls_native_certs::load_native_certs();
    let roots: Vec<Certificate<'static>> =
        found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    for error in &found.errors {
        tracing::debug!(%error, "a certificate of the operating system cannot be read");
    }
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .build();
    let config = ureq::Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(ANSWER))
        .user_agent(concat!("monopile/", env!("CARGO_PKG_VERSION")))
        // Proxies come with the settings `cli` passes in, not from the environment behind its back.
        .proxy(None)
        .build();
    Ok(ureq::Agent::new_with_config(config))
}

fn attempt(
    agent: &ureq::Agent,
    url: &HttpUrl,
    expected: Option<&Digest>,
    partial: &Path,
    stage: &Stage,
) -> Result<Digest, Failure> {
    let failed = || Error::environment(format!("downloading '{url}' failed"));
    let address = url.without_user();
    let mut request = agent.get(&address);
    if let Some((user, password)) = url.user() {
        use base64::Engine as _;
        let credentials = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        request = request.header("authorization", format!("Basic {credentials}"));
    }
    let mut response = request.call().map_err(|error| {
        // The source's text may quote the URL with a signature in its query.
        let reason = error.to_string().replace(&address, &url.to_string());
        let passing = matches!(
            error,
            ureq::Error::Io(_)
                | ureq::Error::Timeout(_)
                | ureq::Error::ConnectionFailed
                | ureq::Error::HostNotFound
        );
        let error = failed().with_source(reason);
        if passing { Failure::Passing(error) } else { Failure::Final(error) }
    })?;
    let status = response.status();
    if !status.is_success() {
        let error = failed().with_source(format!("the server answered {status}"));
        return Err(match status.as_u16() {
            408 | 425 | 429 | 500..=599 => Failure::Passing(error),
            401 | 403 => Failure::Final(error.with_hint("check the credentials in the URL")),
            _ => Failure::Final(error.with_hint("check the URL")),
        });
    }
    let total = response
        .headers()
        .get("content-length")
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse().ok());
    let writing = |error| Failure::Final(Error::io(format!("writing '{}'", partial.display()), error));
    let mut file = File::create(partial).map_err(writing)?;
    let mut algorithms = vec![Algorithm::Sha256];
    algorithms.extend(expected.map(Digest::strongest));
    let mut hasher = Hasher::new(&algorithms);
    let mut body = response.body_mut().as_reader();
    let mut buffer = vec![0; 128 << 10];
    let (mut done, mut told) = (0u64, 0u64);
    loop {
        let count = match body.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result.map_err(|error| Failure::Passing(failed().with_source(error)))?,
        };
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        file.write_all(&buffer[..count]).map_err(writing)?;
        done += count as u64;
        if done - told >= 1 << 20 {
            told = done;
            stage.progress(done, total, Unit::Bytes);
        }
    }
    if total.is_some_and(|total| total != done) {
        let reason = format!("the connection ended after {done} of {} bytes", total.unwrap_or_default());
        return Err(Failure::Passing(failed().with_source(reason)));
    }
    stage.progress(done, total, Unit::Bytes);
    file.sync_all().map_err(writing)?;
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests;
