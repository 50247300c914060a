//! Credentials that `docker login` wrote into `config.json`: its key `auths`. Stores and helpers for
//! credentials are programs, and are not used.
//!
//! ```json
//! {"auths": {"ghcr.io": {"auth": "<base64 of USER:PASSWORD>"}}}
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use base64::Engine as _;
use serde::Deserialize;

use crate::limits::MAX_DOCUMENT_BYTES;
use base::files::input;
use base::text::json_problem;
use base::{Error, Result};

/// The key of Docker Hub in the file, for its host in addresses.
const DOCKER_HUB: (&str, &str) = ("docker.io", "https://index.docker.io/v1/");

/// The content of the file.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Login>,
}

/// An entry for one registry. It is empty if a store has the credentials.
#[derive(Deserialize)]
struct Login {
    #[serde(default)]
    auth: String,
}

/// Returns the user and password for a registry in the file at `path`, if the file exists and has them.
pub(super) fn find(path: &Path, host: &str) -> Result<Option<(String, String)>> {
    let json = match input::read(path, MAX_DOCUMENT_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        json => json.map_err(|error| Error::io(format!("reading '{}'", path.display()), error))?,
    };
    let invalid_error = |problem: String| {
        Error::invalid(format!("'{}' of `docker login` is not valid", path.display()))
            .with_source(problem)
            .with_hint("write it again: `docker login HOST`")
    };
    let config: Config =
        serde_json::from_slice(&json).map_err(|error| invalid_error(json_problem(&error).to_string()))?;
    let is_for_host = |key: &str| match host == DOCKER_HUB.0 {
        true => key == DOCKER_HUB.1,
        // Old versions wrote URLs.
        false => key.trim_start_matches("https://").trim_end_matches('/') == host,
    };
    let Some((_, login)) = config.auths.iter().find(|(key, _)| is_for_host(key)) else { return Ok(None) };
    if login.auth.is_empty() {
        return Ok(None);
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(&login.auth).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    match text.as_deref().and_then(|text| text.split_once(':')) {
        Some((user, password)) => Ok(Some((user.to_owned(), password.to_owned()))),
        None => Err(invalid_error(format!("the `auth` of '{host}' is not the base64 of USER:PASSWORD"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_belong_to_one_registry() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.json");
        let login = |host: &str| find(&path, host).map_err(|error| error.chain().join(": "));
        assert_eq!(login("ghcr.io"), Ok(None), "a login was found without a file");
        let config = r#"{"auths": {"ghcr.io": {"auth": "bWU6YTpi"}, "https://old:5000/": {"auth": "bWU6Yw=="},
            "https://index.docker.io/v1/": {"auth": "aHViOng=", "email": "x"}, "stored": {}, "bad": {"auth": "!"},
            "none": {"auth": "bWU="}}, "credsStore": "pass"}"#;
        std::fs::write(&path, config).unwrap();
        let pair = |user: &str, password: &str| Ok(Some((user.to_owned(), password.to_owned())));
        assert_eq!(login("ghcr.io"), pair("me", "a:b"));
        assert_eq!(login("old:5000"), pair("me", "c"));
        assert_eq!(login("docker.io"), pair("hub", "x"));
        for host in ["stored", "ghcr.io:443", "old", "index.docker.io"] {
            assert_eq!(login(host), Ok(None), "{host}");
        }
        for host in ["bad", "none"] {
            assert!(login(host).unwrap_err().contains("is not the base64 of USER:PASSWORD"), "{host}");
        }
        for config in ["{", "1", r#"{"auths": {"a": {"auth": 1}}}"#] {
            std::fs::write(&path, config).unwrap();
            assert!(login("a").unwrap_err().contains("of `docker login` is not valid"), "{config}");
        }
    }
}
