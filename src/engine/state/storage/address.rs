//! The address of a state in a bucket: `s3://bucket/key`, `gs://bucket/key`, `az://container/key`.

use std::fmt;

use object_store::path::Path;
use serde::{Deserialize, Serialize};

use base::{Error, Result};

/// The service that provides a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Service {
    /// Amazon S3, and services with its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

impl Service {
    /// Returns the variable that names a server in place of the service's own.
    fn endpoint_variable(self) -> &'static str {
        match self {
            Service::S3 => "AWS_ENDPOINT_URL",
            Service::Gcs => "GOOGLE_BASE_URL",
            Service::Azure => "AZURE_STORAGE_ENDPOINT",
        }
    }
}

/// The address of a state in a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketUrl {
    pub(super) service: Service,
    pub(super) bucket: String,
    pub(super) key: String,
}

/// A prefix of a bucket, below which are the states of several environments: `s3://bucket` or
/// `s3://bucket/prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketPrefix(pub(super) BucketUrl);

/// The kinds of URLs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlKind {
    /// The URL of an object.
    State,
    /// The URL of a bucket, with or without a prefix.
    Prefix,
}

const URL_FORMS: &str = "s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/KEY";

impl BucketUrl {
    /// Parses a URL. Returns `None` if `text` is the path of a file.
    pub fn parse(text: &str) -> Result<Option<Self>> {
        Self::parse_as(text, UrlKind::State)
    }

    /// Parses a URL of this kind. Returns `None` if `text` is the path of a file or directory.
    fn parse_as(text: &str, kind: UrlKind) -> Result<Option<Self>> {
        let is_prefix = kind == UrlKind::Prefix;
        if let Some((scheme, rest)) = split_at_single_slash(text) {
            let rest = if rest.is_empty() { "BUCKET" } else { rest };
            let key = if is_prefix || rest.contains('/') { "" } else { "/KEY" };
            return Err(Error::usage(format!("'{text}' is not a URL: a '/' is missing"))
                .with_hint(format!("write {scheme}://{rest}{key}")));
        }
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(None) };
        if scheme.is_empty()
            || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        {
            return Ok(None);
        }
        let url_error = |reason: &str| match kind {
            UrlKind::State => Error::usage(format!("'{text}' is not the URL of a state: {reason}"))
                .with_hint(format!("name a file, or {URL_FORMS}")),
            UrlKind::Prefix => prefix_error(format!("'{text}' is not the URL of a bucket: {reason}")),
        };
        let service = match scheme {
            "s3" => Service::S3,
            "gs" => Service::Gcs,
            "az" => Service::Azure,
            _ => return Err(url_error(&format!("the scheme must be s3, gs or az, not '{scheme}'"))),
        };
        let rest = if is_prefix { rest.trim_end_matches('/') } else { rest };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(url_error("it names no bucket"));
        }
        if key.is_empty() && !is_prefix {
            return Err(url_error("it names a bucket, but no object in it"));
        }
        if !bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
            return Err(url_error(&format!(
                "'{bucket}' is not the name of a bucket; credentials come from environment variables"
            )));
        }
        if key.ends_with('/') {
            return Err(url_error("it ends with '/', so it names no object"));
        }
        if key.contains(['?', '#']) {
            return Err(url_error("the key must not contain '?' or '#'")
                .with_hint(format!("to use another server: `export {}=URL`", service.endpoint_variable())));
        }
        // The key of every document begins with this key.
        Path::parse(key).map_err(|error| url_error("the key cannot be used").with_source(error))?;
        Ok(Some(BucketUrl { service, bucket: bucket.to_owned(), key: key.to_owned() }))
    }

    /// Returns the URL of the object at `key` in the same bucket.
    pub(super) fn sibling(&self, key: &str) -> BucketUrl {
        BucketUrl { key: key.to_owned(), ..self.clone() }
    }

    pub(super) fn scheme(&self) -> &'static str {
        match self.service {
            Service::S3 => "s3",
            Service::Gcs => "gs",
            Service::Azure => "az",
        }
    }
}

/// Returns the error for a URL that is no prefix of a bucket.
fn prefix_error(problem: String) -> Error {
    Error::usage(problem).with_hint("name a directory, or a prefix of a bucket: s3://BUCKET/PREFIX")
}

/// Splits what begins like the URL of a bucket, but has only one `/` after the scheme.
fn split_at_single_slash(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(":/")?;
    (["s3", "gs", "az"].contains(&scheme) && !rest.starts_with('/')).then_some((scheme, rest))
}

impl BucketPrefix {
    /// Parses a URL.
    pub fn parse(text: &str) -> Result<Self> {
        let url = BucketUrl::parse_as(text, UrlKind::Prefix)?;
        url.map(BucketPrefix).ok_or_else(|| prefix_error(format!("'{text}' is not the URL of a bucket")))
    }
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.scheme(), self.bucket, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_distinguished_from_paths() {
        for (text, hint) in [("az:/container/key", "write az://container/key"), ("s3:/b", "write s3://b/KEY")]
        {
            assert_eq!(BucketUrl::parse(text).unwrap_err().hints(), [hint]);
        }
        for path in ["state.json", "/a/b", "a:/b", "./s3:/x", "://x", "a b://c"] {
            assert_eq!(BucketUrl::parse(path).unwrap(), None, "{path}");
        }
        for (url, service, bucket, key) in [
            ("s3://b/k", Service::S3, "b", "k"),
            ("s3://b.c-d/envs/prod/state.json", Service::S3, "b.c-d", "envs/prod/state.json"),
            ("gs://my_bucket/a", Service::Gcs, "my_bucket", "a"),
            ("az://container/a b", Service::Azure, "container", "a b"),
        ] {
            let address = BucketUrl::parse(url).unwrap().unwrap();
            assert_eq!(
                (address.service, address.bucket.as_str(), address.key.as_str()),
                (service, bucket, key)
            );
            assert_eq!(address.to_string(), url);
        }
    }

    #[test]
    fn prefix_may_be_the_whole_bucket() {
        for (url, key) in
            [("s3://b", ""), ("s3://b/", ""), ("az://c/envs/", "envs"), ("gs://b/envs/prod", "envs/prod")]
        {
            let BucketPrefix(address) = BucketPrefix::parse(url).unwrap();
            assert_eq!(address.key, key, "{url}");
            let state = address.sibling("envs/prod/x.json");
            assert_eq!(BucketUrl::parse(&state.to_string()).unwrap(), Some(state));
        }
        for url in ["ftp://b", "s3://", "s3:///a", "s3://b c", "directory"] {
            let error = BucketPrefix::parse(url).unwrap_err();
            assert!(error.to_string().starts_with(&format!("'{url}' is not the URL of a bucket")), "{error}");
            assert!(error.hints()[0].contains("s3://BUCKET/PREFIX"), "{url}");
        }
        for (url, hint) in [("s3:/b", "write s3://b"), ("s3:/", "write s3://BUCKET")] {
            assert_eq!(BucketPrefix::parse(url).unwrap_err().hints(), [hint]);
        }
    }

    #[test]
    fn rejects_urls_without_an_object_name() {
        for (url, part) in [
            ("s3://bucket", "no object"),
            ("s3://bucket/", "no object"),
            ("s3://", "names no bucket"),
            ("s3:///key", "names no bucket"),
            ("s3://b c/key", "not the name of a bucket"),
            ("s3://user:password@bucket/key", "credentials come from environment variables"),
            ("s3://bucket/dir/", "ends with '/'"),
            ("s3://bucket/a//b", "cannot be used"),
            ("s3://bucket/../b", "cannot be used"),
            ("s3://bucket/a?versionId=1", "'?'"),
            ("ftp://bucket/a", "s3, gs or az, not 'ftp'"),
            ("https://bucket/a", "s3, gs or az, not 'https'"),
            ("s3a://bucket/a", "s3, gs or az, not 's3a'"),
        ] {
            let error = BucketUrl::parse(url).unwrap_err();
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(error.hints()[0].contains("s3://BUCKET/KEY"), "{url}");
        }
    }
}
