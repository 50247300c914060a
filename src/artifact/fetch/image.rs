//! OCI images of registries: downloads the documents and the layers of an image, each into the cache by its
//! digest. Protocol: the OCI distribution specification ("Pulling manifests", "Pulling blobs").
//!
//! A registry that wants a token answers a request with the address of its token server (the challenge
//! `Bearer` of RFC 6750). The token server gets the user and password of the image's address.

use std::path::Path;

use parking_lot::Mutex;
use serde::Deserialize;
use ureq::http::HeaderMap;
use ureq::http::header::{HeaderValue, WWW_AUTHENTICATE};

use super::Fetcher;
use super::download::without_secrets;
use crate::digest::Digest;
use crate::http_url::HttpUrl;
use crate::image_url::ImageUrl;
use crate::limits::MAX_DOCUMENT_BYTES;
use crate::oci::{self, ImageDocument};
use crate::source::{ImageBlob, Source};
use base::encoding::basic_authorization;
use base::events::Reporter;
use base::files::input;
use base::{Error, Result};
use net::plain_errors::{http_problem, is_untrusted};

/// The media types of the documents that [`ImageDocument`] can be.
const DOCUMENT_TYPES: &str = "application/vnd.oci.image.index.v1+json, \
                              application/vnd.oci.image.manifest.v1+json, \
                              application/vnd.docker.distribution.manifest.list.v2+json, \
                              application/vnd.docker.distribution.manifest.v2+json";

/// The requests for one image: their headers, and the token of the registry.
pub(super) struct RegistryAccess<'u> {
    url: &'u ImageUrl,
    /// The header `Authorization` with the token, if the registry wanted one.
    authorization: Mutex<Option<String>>,
}

impl Fetcher<'_> {
    /// Downloads the documents and layers of an image that are not in a cache. `expected` is the digest of
    /// its index or manifest, and replaces the digest in its address.
    pub(super) fn obtain_image(
        &self,
        url: &ImageUrl,
        expected: Option<&Digest>,
        title: &str,
        reporter: &Reporter,
    ) -> Result<Source> {
        let access = RegistryAccess { url, authorization: Mutex::new(None) };
        let download = |part: &HttpUrl, digest: Option<&Digest>, title: &str| {
            self.download(part, Some(&access), digest, title, reporter, None)
        };
        let image_name = format!("the image '{url}'");
        let mut blobs = Vec::new();
        let path = download(&url.first_document_url(), expected.or(url.digest()), title)?;
        let layers = oci::resolve_layers(read_document(&path, &image_name)?, &image_name, &mut |digest| {
            let path = download(&url.document_url(digest), Some(digest), title)?;
            let document = read_document(&path, &image_name);
            blobs.push(ImageBlob { digest: digest.clone(), path, is_layer: false });
            document
        })?;
        let count = layers.len();
        for (index, digest) in layers.into_iter().enumerate() {
            let title = format!("layer {} of {count} of {title}", index + 1);
            let path = download(&url.layer_url(&digest), Some(&digest), &title)?;
            blobs.push(ImageBlob { digest, path, is_layer: true });
        }
        Source::from_image(&path, url, blobs)
    }
}

/// Returns the hint for a request that a registry refuses with `status`.
pub(super) fn refusal_hint(status: u16) -> &'static str {
    match status {
        401 | 403 => "check the name of the image, and the credentials: oci://USER:PASSWORD@HOST/NAME",
        _ => "check the name of the image, its tag and its digest",
    }
}

fn read_document(path: &Path, image_name: &str) -> Result<ImageDocument> {
    let json = input::read(path, MAX_DOCUMENT_BYTES)
        .map_err(|error| Error::io(format!("reading '{}'", path.display()), error))?;
    ImageDocument::decode(&json, &format!("the manifest of {image_name}"))
}

impl RegistryAccess<'_> {
    /// Returns the types of a document that a request for `url` accepts; `None` for a layer.
    pub(super) fn accepted_types(&self, url: &HttpUrl) -> Option<&'static str> {
        self.url.is_document_url(url).then_some(DOCUMENT_TYPES)
    }

    /// Returns the header `Authorization` with the token of the registry.
    pub(super) fn authorization(&self) -> Option<String> {
        self.authorization.lock().clone()
    }

    /// Requests a token if the headers of an answer 401 ask for one. Returns false if they do not.
    pub(super) fn renew_token(&self, client: &ureq::Agent, headers: &HeaderMap) -> Result<bool, TokenError> {
        let Some(challenge) = headers.get_all(WWW_AUTHENTICATE).iter().find_map(Challenge::parse) else {
            return Ok(false);
        };
        let token = self.request_token(client, &challenge).map_err(|error| {
            let server = HttpUrl::new(challenge.realm.split('?').next().unwrap_or_default());
            TokenError {
                message: format!(
                    "the token server '{server}' of the registry gave no token: {}",
                    error.message
                ),
                ..error
            }
        })?;
        *self.authorization.lock() = Some(format!("Bearer {token}"));
        Ok(true)
    }

    fn request_token(&self, client: &ureq::Agent, challenge: &Challenge) -> Result<String, TokenError> {
        let refuse = |message: &str| Err(TokenError { message: message.to_owned(), is_temporary: false });
        let realm = HttpUrl::new(&challenge.realm);
        if let Some(problem) = realm.problem() {
            return refuse(problem);
        }
        if self.url.registry().is_https() && !realm.is_https() {
            return refuse("its address is not encrypted");
        }
        let scope = challenge.scope.clone().unwrap_or_else(|| self.url.scope());
        let service = challenge.service.iter().map(|service| ("service", service.as_str()));
        let mut request = client.get(realm.without_user()).query_pairs(service).query("scope", scope);
        if let Some((user, password)) = self.url.registry().user() {
            request = request.header("authorization", basic_authorization(&user, &password));
        }
        let request_error = |error: ureq::Error| TokenError {
            message: without_secrets(&http_problem(&error)),
            is_temporary: !is_untrusted(&error),
        };
        let response = request.call().map_err(request_error)?;
        let status = response.status();
        if status != 200 {
            let is_temporary = status.is_server_error() || status == 429;
            return Err(TokenError { message: format!("it answered {status}"), is_temporary });
        }
        let body = response.into_body().with_config().limit(MAX_DOCUMENT_BYTES).read_to_vec();
        let answer = serde_json::from_slice::<TokenAnswer>(&body.map_err(request_error)?);
        let token = answer.ok().and_then(|answer| answer.token.or(answer.access_token)).unwrap_or_default();
        match !token.is_empty() && HeaderValue::from_str(&token).is_ok() {
            true => Ok(token),
            false => refuse("its answer has no token"),
        }
    }
}

/// A failed request for a token.
pub(super) struct TokenError {
    pub(super) message: String,
    /// True if a retry may help.
    pub(super) is_temporary: bool,
}

/// The answer of a token server.
#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    /// The token, under the name that it has in OAuth 2.
    access_token: Option<String>,
}

/// A challenge `Bearer`.
#[derive(Debug, PartialEq, Eq)]
struct Challenge {
    /// The address of the token server.
    realm: String,
    service: Option<String>,
    scope: Option<String>,
}

impl Challenge {
    /// Parses a header `WWW-Authenticate`. Returns `None` for another kind of challenge.
    fn parse(header: &HeaderValue) -> Option<Self> {
        let (scheme, mut rest) = header.to_str().ok()?.trim().split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service, mut scope) = (None, None, None);
        while let Some((name, tail)) = rest.split_once('=') {
            let (value, tail) = match tail.strip_prefix('"') {
                Some(tail) => tail.split_once('"')?,
                None => tail.split_at(tail.find(',').unwrap_or(tail.len())),
            };
            match name.trim_matches([',', ' ']).to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value.to_owned()),
                "service" => service = Some(value.to_owned()),
                "scope" => scope = Some(value.to_owned()),
                _ => {}
            }
            rest = tail;
        }
        Some(Challenge { realm: realm?, service, scope })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenge_is_parsed() {
        let parse = |text: &'static str| Challenge::parse(&HeaderValue::from_static(text));
        let challenge = Challenge {
            realm: "https://a/token".into(),
            service: Some("r".into()),
            scope: Some("repository:x:pull,push".into()),
        };
        for text in [
            r#"Bearer realm="https://a/token",service="r",scope="repository:x:pull,push""#,
            r#"bearer scope="repository:x:pull,push", error=x, service=r, Realm="https://a/token""#,
        ] {
            assert_eq!(parse(text).as_ref(), Some(&challenge), "{text}");
        }
        for text in [r#"Basic realm="x""#, "Bearer", "Bearer service=x", r#"Bearer realm="x"#] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
