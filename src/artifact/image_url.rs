//! Addresses of OCI images in registries: `oci://[USER:PASSWORD@]HOST[:PORT]/NAME[:TAG][@DIGEST]`.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use super::digest::Digest;
use super::docker_login;
use super::http_url::HttpUrl;
use super::oci;
use base::{Error, Result};

/// The scheme, with its separator.
const SCHEME: &str = "oci://";
/// The part of the URLs of indexes and manifests after the name of the image.
const MANIFESTS_PATH: &str = "manifests";
/// The tag of an address without tag and digest.
const DEFAULT_TAG: &str = "latest";
/// The maximum length of a tag.
const MAX_TAG_BYTES: usize = 128;
/// The maximum length of a name, with the host.
const MAX_NAME_BYTES: usize = 255;
/// The host of Docker Hub in addresses, and that of its registry.
const DOCKER_HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// The address of an OCI image in a registry. Displays without user and password.
///
/// The rules for names and tags are those of the OCI distribution specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageUrl {
    /// The address of the registry, with user and password: `https://USER:PASSWORD@HOST`.
    registry: HttpUrl,
    /// The host in the address.
    host: String,
    name: String,
    /// The tag; `None` if there is only a digest.
    tag: Option<String>,
    digest: Option<Digest>,
}

impl ImageUrl {
    /// Returns true for a text that begins with `oci://`.
    pub(super) fn has_scheme(text: &str) -> bool {
        text.get(..SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(SCHEME))
    }

    /// Parses an address. Returns `None` if it does not begin with `oci://`.
    pub(super) fn parse(text: &str) -> Result<Option<Self>> {
        if !Self::has_scheme(text) {
            return Ok(None);
        }
        let rest = &text[SCHEME.len()..];
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (format!("{user}@"), host),
            None => (String::new(), authority),
        };
        let invalid_error = |problem: String| {
            let rest = &rest[user.len()..];
            Error::invalid(format!("'{SCHEME}{rest}' is not the address of an image: {problem}"))
                .with_hint("write it as oci://HOST/NAME:TAG or oci://HOST/NAME@sha256:DIGEST")
        };
        let (path, digest) = match path.split_once('@') {
            Some((path, digest)) => (path, Some(digest)),
            None => (path, None),
        };
        let digest = digest.map(|digest| oci::parse_digest(digest, "the image")).transpose();
        let digest = digest.map_err(|error| invalid_error(error.chain().join(": ")))?;
        let (name, tag) = match path.rsplit_once(':') {
            Some((name, tag)) => (name, Some(tag.to_owned())),
            None => (path, digest.is_none().then(|| DEFAULT_TAG.to_owned())),
        };
        if let Some(tag) = tag.as_ref().filter(|tag| !is_tag(tag)) {
            return Err(invalid_error(format!("'{tag}' is not a tag")));
        }
        let (registry_host, name) = match host == DOCKER_HUB.0 {
            // Docker's own images are in `library`.
            true if !name.contains('/') => (DOCKER_HUB.1, format!("library/{name}")),
            true => (DOCKER_HUB.1, name.to_owned()),
            false => (host, name.to_owned()),
        };
        if !name.split('/').all(is_name_component) || host.len() + name.len() > MAX_NAME_BYTES {
            return Err(invalid_error(match name.is_empty() {
                true => "the name after the host is missing".to_owned(),
                false => format!(
                    "'{name}' is not a name of an image: use lower-case letters and digits, with '.', '_', \
                     '-' and '/' between them"
                ),
            }));
        }
        // As Docker does, a registry on this machine is used without TLS.
        let scheme = if is_loopback(host) { "http" } else { "https" };
        let registry = HttpUrl::new(&format!("{scheme}://{user}{registry_host}"));
        if let Some(problem) = registry.problem() {
            return Err(invalid_error(problem.to_owned()));
        }
        Ok(Some(ImageUrl { registry, host: host.to_owned(), name, tag, digest }))
    }

    /// Adds the credentials of `docker login` in the file `config`, unless the address has others.
    pub fn with_login(self, config: &Path) -> Result<Self> {
        if self.registry.user().is_some() {
            return Ok(self);
        }
        Ok(match docker_login::find(config, &self.host)? {
            Some((user, password)) => {
                ImageUrl { registry: self.registry.with_user(&user, &password), ..self }
            }
            None => self,
        })
    }

    /// Returns the digest in the address.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Returns the parts that must be redacted.
    pub(super) fn secrets(&self) -> Vec<String> {
        self.registry.secrets()
    }

    /// Returns the address of the registry.
    pub(super) fn registry(&self) -> &HttpUrl {
        &self.registry
    }

    /// Returns the scope of a token with which the image can be read.
    pub(super) fn scope(&self) -> String {
        format!("repository:{}:pull", self.name)
    }

    /// Returns the URL of the index or the manifest that the address names.
    pub(super) fn first_document_url(&self) -> HttpUrl {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => self.document_url(digest),
            (None, tag) => self.url(MANIFESTS_PATH, tag.as_deref().unwrap_or(DEFAULT_TAG)),
        }
    }

    /// Returns the URL of an index or a manifest of the image.
    pub(super) fn document_url(&self, digest: &Digest) -> HttpUrl {
        self.url(MANIFESTS_PATH, &reference(digest))
    }

    pub(super) fn layer_url(&self, digest: &Digest) -> HttpUrl {
        self.url("blobs", &reference(digest))
    }

    /// Returns true for a URL of an index or a manifest of the image.
    pub(super) fn is_document_url(&self, url: &HttpUrl) -> bool {
        url.with_credentials().starts_with(self.url(MANIFESTS_PATH, "").with_credentials())
    }

    fn url(&self, kind: &str, reference: &str) -> HttpUrl {
        HttpUrl::new(&format!("{}/v2/{}/{kind}/{reference}", self.registry.with_credentials(), self.name))
    }
}

impl fmt::Display for ImageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.host, self.name)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{}", reference(digest)),
            None => Ok(()),
        }
    }
}

/// Returns the digest in the notation of registries, with the name of its strongest algorithm.
fn reference(digest: &Digest) -> String {
    let algorithm = digest.strongest();
    format!("{}:{}", algorithm.name(), digest.hex(algorithm).unwrap_or_default())
}

fn is_tag(text: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.len() <= MAX_TAG_BYTES
        && text.starts_with(is_word)
        && text.chars().all(|letter| is_word(letter) || ".-".contains(letter))
}

fn is_name_component(text: &str) -> bool {
    let is_alphanumeric = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    text.starts_with(is_alphanumeric)
        && text.ends_with(is_alphanumeric)
        && text.chars().all(|letter| is_alphanumeric(letter) || "._-".contains(letter))
}

/// Returns true for a host, perhaps with a port, that is this machine.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn parse(text: &str) -> Result<ImageUrl> {
        ImageUrl::parse(text).map(Option::unwrap)
    }

    #[test]
    fn addresses_lead_to_documents() {
        for (address, expected) in [
            ("oci://ghcr.io/o/jammy:1.5", "https://ghcr.io/v2/o/jammy/manifests/1.5".to_owned()),
            ("OCI://h:5000/jammy", "https://h:5000/v2/jammy/manifests/latest".to_owned()),
            (
                "oci://docker.io/ubuntu:22.04",
                "https://registry-1.docker.io/v2/library/ubuntu/manifests/22.04".to_owned(),
            ),
            ("oci://docker.io/o/x", "https://registry-1.docker.io/v2/o/x/manifests/latest".to_owned()),
            ("oci://localhost:5000/x", "http://localhost:5000/v2/x/manifests/latest".to_owned()),
            ("oci://[::1]:5000/x", "http://[::1]:5000/v2/x/manifests/latest".to_owned()),
            ("oci://127.0.0.1/x", "http://127.0.0.1/v2/x/manifests/latest".to_owned()),
            (&format!("oci://h/x:1@{DIGEST}"), format!("https://h/v2/x/manifests/{DIGEST}")),
            (&format!("oci://u:p%40ss@h/x@{DIGEST}"), format!("https://u:p%40ss@h/v2/x/manifests/{DIGEST}")),
        ] {
            assert_eq!(
                parse(address).unwrap().first_document_url().with_credentials(),
                expected,
                "{address}"
            );
        }
        assert!(ImageUrl::parse("https://h/x").unwrap().is_none());
    }

    #[test]
    fn display_has_no_credentials() {
        let url = parse(&format!("oci://us:pa55@h/x@{DIGEST}")).unwrap();
        assert_eq!(url.to_string(), format!("oci://h/x@{DIGEST}"));
        assert_eq!(url.secrets(), ["pa55", "pa55"]);
        assert_eq!(parse("oci://h/x").unwrap().to_string(), "oci://h/x:latest");
    }

    #[test]
    fn login_is_used_for_an_address_without_a_user() {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("config.json");
        std::fs::write(&config, r#"{"auths": {"h": {"auth": "bUBlOmEvYjpj"}}}"#).unwrap();
        let user_of = |address| parse(address).unwrap().with_login(&config).unwrap().registry.user();
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(user_of("oci://h/x"), pair("m@e", "a/b:c"));
        assert_eq!(user_of("oci://you:x@h/x"), pair("you", "x"));
        assert_eq!(user_of("oci://other/x"), None);
        let url = parse("oci://h/x").unwrap().with_login(&config).unwrap();
        assert_eq!(url.to_string(), "oci://h/x:latest");
        assert!(url.secrets().contains(&"a/b:c".to_owned()));
    }

    #[test]
    fn rejects_wrong_addresses_without_their_password() {
        for (address, problem) in [
            ("oci://", "the name after the host is missing"),
            ("oci://us:pa55@h", "the name after the host is missing"),
            ("oci://h/", "the name after the host is missing"),
            ("oci:///x", "malformed"),
            ("oci://h/X", "'X' is not a name"),
            ("oci://h/a//b", "is not a name"),
            ("oci://h/../x", "is not a name"),
            ("oci://h/x:", "'' is not a tag"),
            ("oci://us:pa55@h/x:a/b", "'a/b' is not a tag"),
            ("oci://us:pa55@h/x@sha256:1", "64 hex digits"),
            ("oci://h/x@a9993e364706816aba3e25717850c26c9cd0d89d", "SHA-1"),
            ("oci://h:port/x", "malformed"),
        ] {
            let error = parse(address).unwrap_err().chain().join(": ");
            assert!(error.contains(problem), "{address}: {error}");
            assert!(!error.contains("pa55"), "{error}");
        }
    }
}
