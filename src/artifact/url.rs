//! URLs of artifacts, which are displayed without their secrets.

use std::fmt;
use std::path::{Path, PathBuf};

use url::ParseError;

use super::http_url::HttpUrl;
use super::image_url::ImageUrl;
use base::{Error, Result};

/// The parsed `url` of a stemcell, release or userland. Displays without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactUrl {
    /// A tarball, or a directory in source form, on this machine.
    Local(PathBuf),
    /// A tarball to download.
    Http(HttpUrl),
    /// An image in a registry. Only a userland can be one.
    Image(ImageUrl),
}

impl fmt::Display for ArtifactUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArtifactUrl::Local(path) => write!(f, "{}", path.display()),
            ArtifactUrl::Http(url) => url.fmt(f),
            ArtifactUrl::Image(url) => url.fmt(f),
        }
    }
}

impl ArtifactUrl {
    /// Parses the `url` of a manifest in the directory `manifest_directory`, an absolute path.
    ///
    /// Accepts `http://`, `https://`, `file://` and plain paths. A relative path is relative to the manifest,
    /// and `~` stands for `home`.
    pub fn parse(url: &str, manifest_directory: &Path, home: Option<&Path>) -> Result<Self> {
        const KIND: &str = "the `url` of a stemcell or release";
        const FORMS: &str = "http://, https://, file:// or a path";
        if ImageUrl::has_scheme(url.trim()) {
            return Err(Error::invalid(format!(
                "only a userland can be an image: {KIND} begins with oci://"
            ))
            .with_hint(format!("use {FORMS}")));
        }
        Self::parse_kind(KIND, FORMS, url, manifest_directory, home)
    }

    /// Parses like [`Self::parse`]. `kind` and `forms` describe the value in errors.
    fn parse_kind(
        kind: &str,
        forms: &str,
        url: &str,
        manifest_directory: &Path,
        home: Option<&Path>,
    ) -> Result<Self> {
        let url = url.trim();
        let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        let path = match scheme.as_deref() {
            Some("http" | "https") => {
                let url = HttpUrl::new(url);
                return match url.problem() {
                    None => Ok(ArtifactUrl::Http(url)),
                    Some(problem) => {
                        Err(Error::invalid(format!("'{url}' is not a valid URL")).with_source(problem))
                    }
                };
            }
            Some("file") => &url["file://".len()..],
            Some(other) => {
                return Err(Error::invalid(format!("{kind} has the unsupported scheme '{other}://'"))
                    .with_hint(format!("use {forms}")));
            }
            None => url,
        };
        if path.is_empty() {
            return Err(Error::invalid(format!("{kind} is empty")).with_hint(format!("use {forms}")));
        }
        let path = match (path.strip_prefix("~/"), path, home) {
            (Some(rest), _, Some(home)) => home.join(rest),
            (None, "~", Some(home)) => home.to_owned(),
            (Some(_), _, None) | (None, "~", None) => {
                let message = format!("'{path}' cannot be resolved: the home directory is not known");
                return Err(Error::invalid(message).with_hint("set HOME, or write the path without `~`"));
            }
            // `join` keeps an absolute path as it is.
            (None, path, _) => manifest_directory.join(path),
        };
        Ok(ArtifactUrl::Local(path))
    }

    /// Parses the `url` of a userland, which can also begin with `oci://`.
    pub fn parse_userland(url: &str, manifest_directory: &Path, home: Option<&Path>) -> Result<Self> {
        match ImageUrl::parse(url.trim())? {
            Some(url) => Ok(ArtifactUrl::Image(url)),
            None => {
                let forms = "oci://, http://, https://, file:// or a path";
                Self::parse_kind("the URL of the userland", forms, url, manifest_directory, home)
            }
        }
    }

    /// Returns the parts that must be redacted.
    pub fn secrets(&self) -> Vec<String> {
        match self {
            ArtifactUrl::Local(_) => Vec::new(),
            ArtifactUrl::Http(url) => url.secrets(),
            ArtifactUrl::Image(url) => url.secrets(),
        }
    }
}

/// Describes why a text is no URL.
pub fn url_problem(error: ParseError) -> String {
    match error {
        ParseError::RelativeUrlWithoutBase => "it does not begin with SCHEME://".to_owned(),
        ParseError::EmptyHost => "it names no host".to_owned(),
        ParseError::InvalidPort => "its port is not a number up to 65535".to_owned(),
        ParseError::IdnaError | ParseError::InvalidDomainCharacter => {
            "its host has a character that host names cannot have".to_owned()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<ArtifactUrl> {
        ArtifactUrl::parse(url, Path::new("/m"), Some(Path::new("/home/u")))
    }

    #[test]
    fn paths_are_relative_to_the_manifest() {
        for (url, path) in [
            ("file:///a/b.tgz", "/a/b.tgz"),
            ("file://b.tgz", "/m/b.tgz"),
            ("file://./b.tgz", "/m/./b.tgz"),
            ("file://../b.tgz", "/m/../b.tgz"),
            ("FILE://b.tgz", "/m/b.tgz"),
            ("file://~/b.tgz", "/home/u/b.tgz"),
            ("~/b.tgz", "/home/u/b.tgz"),
            ("b.tgz", "/m/b.tgz"),
            ("/a/b.tgz", "/a/b.tgz"),
        ] {
            assert_eq!(parse(url).unwrap(), ArtifactUrl::Local(path.into()), "{url}");
        }
        assert!(ArtifactUrl::parse("file://~/x", Path::new("/m"), None).is_err());
        assert!(parse("file://").is_err());
        assert!(parse("").is_err());
        let error = parse("s3://bucket/x").unwrap_err();
        assert!(error.to_string().contains("s3://"), "{error}");
    }
}
