//! Resolves references against a base URI, as Ruby does (`URI#merge`).

use super::Uri;

/// Resolves a relative reference. The error is the message of an `InvalidURIError`.
pub(super) fn merge(base: &Uri, reference: &Uri) -> Result<Uri, &'static str> {
    let mut target = base.clone();
    let has_authority =
        reference.userinfo().is_some() || reference.host.is_some() || reference.port.is_some();
    let path = reference.path.as_deref().unwrap_or_default();
    if path.is_empty() && !has_authority && reference.query.is_none() {
        if reference.fragment.is_some() {
            target.fragment.clone_from(&reference.fragment);
        }
        return Ok(target);
    }
    target.query = None;
    target.fragment = None;
    if has_authority {
        if !target.is_file() {
            target.user.clone_from(&reference.user);
            if reference.password.is_some() {
                target.password.clone_from(&reference.password);
            }
            target.port = reference.port.or(target.default_port());
        }
        target.set_host(reference.host.clone());
        target.path.clone_from(&reference.path);
    } else if let (Some(base_path), Some(reference_path)) = (&base.path, &reference.path) {
        target.path = Some(merged_path(base_path, reference_path));
    }
    if reference.query.is_some() {
        if target.opaque.is_some() {
            return Err("query conflicts with opaque");
        }
        target.query.clone_from(&reference.query);
    }
    if reference.fragment.is_some() {
        target.fragment.clone_from(&reference.fragment);
    }
    Ok(target)
}

/// Splits a path like `split("/", -1)`.
fn split_path(path: &str) -> Vec<&str> {
    if path.is_empty() { Vec::new() } else { path.split('/').collect() }
}

/// Merges the paths of a base URI and a relative reference with the steps of merge_path in Ruby's
/// `uri/generic.rb`, including its deviations from RFC 3986.
fn merged_path(base: &str, reference: &str) -> String {
    let (mut base, mut reference) = (split_path(base), split_path(reference));
    if base.last() == Some(&"..") {
        base.push("");
    }
    while let Some(index) = base.iter().position(|part| *part == "..") {
        // As in Ruby, index -1 is the last segment.
        let start = index.checked_sub(1).unwrap_or(base.len() - 1);
        let end = (start + 2).min(base.len());
        base.drain(start..end);
    }
    if reference.first() == Some(&"") {
        base.clear();
        reference.remove(0);
    }
    if matches!(reference.last(), Some(&("." | ".."))) {
        reference.push("");
    }
    reference.retain(|part| *part != ".");
    let mut remaining_parts: Vec<&str> = Vec::new();
    for part in reference {
        if part == ".." && remaining_parts.last().is_some_and(|last| *last != "..") {
            remaining_parts.pop();
        } else {
            remaining_parts.push(part);
        }
    }
    let mut ends_with_slash = !remaining_parts.is_empty();
    if base.is_empty() {
        base.push("");
    } else if ends_with_slash {
        base.pop();
    }
    let parent_count = remaining_parts.iter().take_while(|part| **part == "..").count();
    for _ in 0..parent_count {
        if base.len() > 1 {
            base.pop();
        }
    }
    if parent_count < remaining_parts.len() {
        base.extend(&remaining_parts[parent_count..]);
        ends_with_slash = false;
    }
    if ends_with_slash {
        base.push("");
    }
    base.join("/")
}

#[cfg(test)]
mod tests {
    use super::merged_path;

    #[test]
    fn paths_merge_as_in_ruby() {
        for (base, reference, expected) in [
            ("/b/c/d;p", "g", "/b/c/g"),
            ("/b/c/d;p", "./g", "/b/c/g"),
            ("/b/c/d;p", "g/", "/b/c/g/"),
            ("/b/c/d;p", "/g", "/g"),
            ("/b/c/d;p", ".", "/b/c/"),
            ("/b/c/d;p", "..", "/b/"),
            ("/b/c/d;p", "../../../g", "/g"),
            ("", "g", "/g"),
            ("/", "", "/"),
        ] {
            assert_eq!(merged_path(base, reference), expected, "{base} {reference}");
        }
    }
}
