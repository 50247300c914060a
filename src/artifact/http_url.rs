//! `http://` and `https://` URLs, which are displayed without their secrets.

use std::fmt;

use base::encoding::{percent_decode, percent_encode};

/// An `http://` or `https://` URL. Displays without user and password, and without a query that may hold
/// credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpUrl(String);

impl HttpUrl {
    /// Creates a URL from the text of a manifest, which must begin with a scheme and `://`.
    pub(super) fn new(text: &str) -> Self {
        HttpUrl(text.to_owned())
    }

    /// Returns the whole URL, including credentials.
    pub(super) fn with_credentials(&self) -> &str {
        &self.0
    }

    /// Returns the reason why no request can be made for this URL.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let has_odd_letter =
            |letter: char| letter.is_whitespace() || letter.is_control() || "<>`".contains(letter);
        let uri = self.without_user().parse::<ureq::http::Uri>();
        match uri.as_ref().map(|uri| uri.host().unwrap_or_default()) {
            _ if self.0.contains(has_odd_letter) => {
                Some("it has a character that a URL cannot have as it is: write a space as %20")
            }
            Ok("") => Some("it names no host"),
            // The parser accepts any text as the port.
            Ok(_) if self.host_and_port().is_some() => None,
            _ => Some("it is malformed: check its host and its port"),
        }
    }

    /// Returns the URL for the request: without user and password, which go into a header.
    pub(super) fn without_user(&self) -> String {
        match self.split() {
            Some((scheme, Some(_), host, path)) => format!("{scheme}://{host}{path}"),
            _ => self.0.clone(),
        }
    }

    /// Returns the user and password, percent-decoded.
    pub(super) fn user(&self) -> Option<(String, String)> {
        let (_, user, _, _) = self.split()?;
        let (user, password) = user.map(|user| user.split_once(':').unwrap_or((user, "")))?;
        Some((percent_decode(user), percent_decode(password)))
    }

    /// Returns the URL with this user and password, in place of others.
    pub(super) fn with_user(&self, user: &str, password: &str) -> HttpUrl {
        let (user, password) = (percent_encode(user), percent_encode(password));
        match self.split() {
            Some((scheme, _, host, path)) => HttpUrl(format!("{scheme}://{user}:{password}@{host}{path}")),
            None => self.clone(),
        }
    }

    /// Returns true for `https://`.
    pub(super) fn is_https(&self) -> bool {
        self.split().is_some_and(|(scheme, ..)| scheme.eq_ignore_ascii_case("https"))
    }

    /// Returns true if credentials for this URL may be sent to `other`. It must have the same host and port,
    /// and must be encrypted if this URL is.
    pub(super) fn may_share_credentials(&self, other: &HttpUrl) -> bool {
        let host = self.host_and_port();
        host.is_some() && host == other.host_and_port() && (other.is_https() || !self.is_https())
    }

    fn host_and_port(&self) -> Option<(String, u16)> {
        let (_, _, host, _) = self.split()?;
        let (name, port) = match host.rsplit_once(':') {
            // The colons of an IPv6 address are in brackets.
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()?),
            _ => (host, if self.is_https() { 443 } else { 80 }),
        };
        Some((name.to_ascii_lowercase(), port))
    }

    /// Returns the target of a redirect from this URL, or `None` if it is not an HTTP URL.
    pub(super) fn redirect_target(&self, target: &str) -> Option<HttpUrl> {
        let (scheme, _, host, path) = self.split()?;
        let target = target.trim();
        let target = target.split('#').next().unwrap_or_default();
        if let Some((scheme, _)) = target.split_once("://").filter(|(scheme, _)| !scheme.contains(['/', '?']))
        {
            let is_http = ["http", "https"].iter().any(|name| scheme.eq_ignore_ascii_case(name));
            return is_http.then(|| HttpUrl::new(target));
        }
        if let Some(rest) = target.strip_prefix("//") {
            return Some(HttpUrl(format!("{scheme}://{rest}")));
        }
        let path = path.find(['?', '#']).map_or(path, |end| &path[..end]);
        let path = match target.chars().next()? {
            '/' => target.to_owned(),
            '?' => format!("{path}{target}"),
            _ => format!("{}/{target}", path.rsplit_once('/').map_or("", |(parent, _)| parent)),
        };
        Some(HttpUrl(format!("{scheme}://{host}{path}")))
    }

    /// Returns the parts that must be redacted: the password, both encoded and decoded, and the query, which
    /// may be a signature.
    pub(super) fn secrets(&self) -> Vec<String> {
        let mut secrets = Vec::new();
        if let Some((_, user, _, path)) = self.split() {
            let encoded_password =
                user.and_then(|user| user.split_once(':')).map(|(_, password)| password.to_owned());
            secrets.extend(encoded_password);
            secrets.extend(self.user().map(|(_, password)| password));
            let query = path.split_once('?').map(|(_, query)| query);
            secrets.extend(query.filter(|query| !is_harmless(query)).map(str::to_owned));
        }
        secrets.retain(|secret| !secret.is_empty());
        secrets
    }

    /// Returns the scheme, the user information, the host with port, and the rest from the path on.
    fn split(&self) -> Option<(&str, Option<&str>, &str, &str)> {
        let (scheme, rest) = self.0.split_once("://")?;
        let (authority, path) = rest.find(['/', '?', '#']).map_or((rest, ""), |end| rest.split_at(end));
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        Some((scheme, user, host, path))
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((scheme, _, host, path)) = self.split() else { return f.write_str("<url>") };
        // Signed URLs carry their credentials in the query.
        let path = path.split('#').next().unwrap_or_default();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        write!(f, "{scheme}://{host}{path}")?;
        match is_harmless(query) {
            true => write!(f, "?{query}"),
            false => Ok(()),
        }
    }
}

/// Returns true if a query is only a version, as in URLs of bosh.io.
fn is_harmless(query: &str) -> bool {
    let version = query.strip_prefix("v=").unwrap_or_default();
    !version.is_empty()
        && version.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-+_".contains(letter))
        && version.len() < 24
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_version_is_shown_of_a_query() {
        for (url, display) in [
            ("https://user:pa55@bosh.io/d/x?v=1.2-rc.3", "https://bosh.io/d/x?v=1.2-rc.3"),
            ("https://bosh.io/d/x?sig=abc", "https://bosh.io/d/x"),
            ("https://bosh.io/d/x?v=1&sig=abc", "https://bosh.io/d/x"),
            ("https://bosh.io/d/x#?v=1", "https://bosh.io/d/x"),
        ] {
            let url = HttpUrl::new(url);
            assert_eq!(url.to_string(), display);
            assert!(url.secrets().iter().all(|secret| !display.contains(secret.as_str())));
        }
    }

    #[test]
    fn unusable_urls_have_a_problem() {
        for (url, problem) in [
            ("http://h/a b", Some("it has a character")),
            ("http://h/a\tb", Some("it has a character")),
            ("http://h:port/a", Some("it is malformed")),
            ("http://[::1/a", Some("it is malformed")),
            ("http:///a", Some("it ")),
            ("https://user:p%40ss@[::1]:8443/a%20b?x={y}", None),
        ] {
            let actual = HttpUrl::new(url).problem();
            let begins = |problem: &str| actual.is_some_and(|actual| actual.starts_with(problem));
            assert!(problem.map_or(actual.is_none(), begins), "{url}: {actual:?}");
        }
    }

    #[test]
    fn redirect_targets_are_resolved() {
        let source_url = HttpUrl::new("https://u:p@host:8443/d/x.tgz?q=1");
        for (target, expected) in [
            ("/y?z", "https://host:8443/y?z"),
            ("y", "https://host:8443/d/y"),
            ("?r=2", "https://host:8443/d/x.tgz?r=2"),
            ("//other/y", "https://other/y"),
            ("http://other:1/y#f", "http://other:1/y"),
        ] {
            assert_eq!(source_url.redirect_target(target).unwrap().with_credentials(), expected, "{target}");
        }
        for target in ["ftp://other/y", "file:///etc/passwd", ""] {
            assert!(source_url.redirect_target(target).is_none(), "{target}");
        }
    }

    #[test]
    fn credentials_are_sent_to_the_same_host_and_port_only() {
        let source_url = HttpUrl::new("https://u:p@Host/d/x.tgz");
        for (other, may) in [
            ("https://host/y", true),
            ("https://host:443/y", true),
            ("https://host:8443/y", false),
            ("http://host:443/y", false),
            ("https://other/y", false),
            ("https://host.evil/y", false),
        ] {
            assert_eq!(source_url.may_share_credentials(&HttpUrl::new(other)), may, "{other}");
        }
        let plain = HttpUrl::new("http://u:p@[::1]:80/x");
        assert!(plain.may_share_credentials(&HttpUrl::new("http://[::1]/y")));
        assert!(!plain.may_share_credentials(&HttpUrl::new("https://[::1]/y")));
    }

    #[test]
    fn display_hides_credentials() {
        let url = HttpUrl::new("https://user:p%40ss@host:8443/d/x.tgz?X-Signature=secret#f");
        assert_eq!(url.to_string(), "https://host:8443/d/x.tgz");
        assert_eq!(format!("{url:?}"), "https://host:8443/d/x.tgz");
        assert_eq!(url.user(), Some(("user".into(), "p@ss".into())));
        assert_eq!(url.secrets(), ["p%40ss", "p@ss", "X-Signature=secret#f"]);
        assert_eq!(url.without_user(), "https://host:8443/d/x.tgz?X-Signature=secret#f");
        assert!(HttpUrl::new("http://h/x").secrets().is_empty());
        // An '@' in the path does not end a user name.
        assert_eq!(HttpUrl::new("http://h/a@b").to_string(), "http://h/a@b");
        assert_eq!(HttpUrl::new("http://h/a@b").user(), None);
    }
}
