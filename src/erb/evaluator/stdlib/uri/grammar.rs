//! The grammar of URIs (RFC 3986), as Ruby's `URI::RFC3986_Parser` reads it.

use std::net::Ipv6Addr;

use super::{Uri, UriKind};

/// The characters of a user, besides letters and digits.
const USER_CHARACTERS: &[u8] = b"!$&'()*+,-.:;=_~";
/// The characters of a host name, besides letters and digits.
const HOST_NAME_CHARACTERS: &[u8] = b"!$&'()*+,-.;=_~";
/// The characters of a path segment, besides letters and digits.
const SEGMENT_CHARACTERS: &[u8] = b"!$&'()*+,-.:;=@_~";

/// Returns true if a text has only letters, digits, these characters and percent-encoded bytes.
fn has_only(text: &str, characters: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let mut index = 0;
    while let Some(byte) = bytes.get(index) {
        match byte {
            b'%' => match bytes.get(index + 1..index + 3) {
                Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => index += 3,
                _ => return false,
            },
            byte if byte.is_ascii_alphanumeric() || characters.contains(byte) => index += 1,
            _ => return false,
        }
    }
    true
}

pub(super) fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

pub(super) fn is_user(text: &str) -> bool {
    has_only(text, USER_CHARACTERS)
}

/// Returns true if a text is a host. Fewer forms of addresses are valid if it is part of a URI.
pub(super) fn is_host(text: &str, in_uri: bool) -> bool {
    let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return has_only(text, HOST_NAME_CHARACTERS);
    };
    if let Some(future) = inner.strip_prefix('v') {
        let parts = future.split_once('.').filter(|(version, rest)| {
            !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_hexdigit()) && !rest.is_empty()
        });
        return parts.is_some_and(|(_, rest)| !rest.contains('%') && has_only(rest, USER_CHARACTERS));
    }
    let is_address = inner.parse::<Ipv6Addr>().is_ok();
    // Ruby's pattern lacks the form with six parts after `::`.
    let parts =
        inner.strip_prefix("::").map_or(0, |rest| rest.split(':').count() + usize::from(rest.contains('.')));
    is_address && !(in_uri && parts == 6)
}

pub(super) fn is_absolute_path(text: &str) -> bool {
    text.starts_with('/') && text.split('/').all(|part| has_only(part, SEGMENT_CHARACTERS))
}

pub(super) fn is_relative_path(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('/')
        && text.split('/').all(|part| has_only(part, SEGMENT_CHARACTERS))
}

/// Returns true for parts that Ruby's older parser reads in the same way. `build` uses that parser.
pub(super) fn is_plain(part: &str, text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    match part {
        "host" => {
            let last_label = text.rsplit('.').next().unwrap_or_default();
            let is_v4 = text.parse::<std::net::Ipv4Addr>().is_ok();
            text.split('.').all(is_label)
                && (is_v4 || last_label.starts_with(|c: char| c.is_ascii_alphabetic()))
        }
        "user" | "password" | "userinfo" => has_only(text, b"-_.!~*'();:&=+$,"),
        "path" => text.is_empty() || text.starts_with('/') && has_only(text, b"/-_.!~*'():@&=+$,;"),
        _ => true,
    }
}

/// Escapes the characters that a query or fragment cannot have.
pub(super) fn escape(text: &str, is_query: bool) -> String {
    use std::fmt::Write as _;
    let mut escaped_text = String::with_capacity(text.len());
    for byte in text.bytes().filter(|byte| !b"\t\r\n".contains(byte)) {
        let is_kept = match byte {
            b'"' | b'#' | b'\'' | b'<' | b'>' | b'`' => !is_query,
            _ => byte.is_ascii_graphic(),
        };
        if is_kept {
            escaped_text.push(char::from(byte));
        } else {
            let _ = write!(escaped_text, "%{byte:02X}");
        }
    }
    escaped_text
}

/// Returns true if a query has a percent sign before two characters that are not hexadecimal digits.
pub(super) fn has_bad_escape(text: &str) -> bool {
    let bytes = text.as_bytes();
    (0..bytes.len()).any(|index| match bytes.get(index..index + 3) {
        Some([b'%', first, second]) => !first.is_ascii_hexdigit() && !second.is_ascii_hexdigit(),
        _ => false,
    })
}

/// Splits a URI of ASCII characters into its parts. Returns `None` if it is not one.
pub(super) fn split(text: &str) -> Option<Uri> {
    let (rest, fragment) = match text.split_once('#') {
        Some((rest, fragment)) => (rest, Some(fragment)),
        None => (text, None),
    };
    if fragment
        .is_some_and(|fragment| !fragment.split(['/', '?']).all(|part| has_only(part, SEGMENT_CHARACTERS)))
    {
        return None;
    }
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let mut uri = Uri { fragment: fragment.map(str::to_owned), ..Uri::default() };
    let mut rest = rest;
    if let Some((scheme, text_after)) = rest.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) {
        uri.kind = UriKind::of(scheme);
        uri.scheme = Some(scheme.to_ascii_lowercase());
        rest = text_after;
    }
    if uri.scheme.is_some() && is_relative_path(rest) {
        uri.opaque = Some(match query {
            Some(query) => format!("{rest}?{query}"),
            None => rest.to_owned(),
        });
        return Some(uri);
    }
    if query.is_some_and(has_bad_escape) {
        uri.has_bad_query = true;
    }
    uri.query = query.map(|query| escape(query, true));
    let Some(authority) = rest.strip_prefix("//") else {
        let is_valid = match &uri.scheme {
            Some(_) => rest.is_empty() || is_absolute_path(rest),
            // The first segment of a relative path has no colon.
            None => {
                rest.is_empty()
                    || is_absolute_path(rest)
                    || is_relative_path(rest) && !rest.split('/').next().unwrap_or_default().contains(':')
            }
        };
        uri.path = Some(rest.to_owned());
        return is_valid.then_some(uri);
    };
    let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
    if !path.is_empty() && !is_absolute_path(path) {
        return None;
    }
    uri.path = Some(path.to_owned());
    let (user, host) = match authority.split_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if let Some(user) = user {
        if !is_user(user) {
            return None;
        }
        uri.set_userinfo(user);
    }
    let colon = host.rfind(':').filter(|colon| !host[*colon..].contains(']'));
    let (host, port) = colon.map_or((host, ""), |colon| (&host[..colon], &host[colon + 1..]));
    if !is_host(host, true) || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // A relative reference has either a host with a name or no host.
    uri.host = (uri.scheme.is_some() || !host.is_empty()).then(|| host.to_owned());
    if !port.is_empty() {
        uri.port = Some(port.parse().ok()?);
    }
    Some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_addresses_or_of_the_future() {
        for (host, in_uri, is_valid_alone) in [
            ("a_b.example.com", true, true),
            ("", true, true),
            ("a:b", false, false),
            ("[::1]", true, true),
            ("[::1:2:3:4:5:6]", false, true),
            ("[::1:2:3:4:1.2.3.4]", false, true),
            ("[::1:2:3:4:5:6:7]", true, true),
            ("[1.2.3.4]", false, false),
            ("[v1.a:b]", true, true),
            ("[]", false, false),
        ] {
            assert_eq!((is_host(host, true), is_host(host, false)), (in_uri, is_valid_alone), "{host}");
        }
    }
}
