//! Which names inside an archive are acceptable: they stay below the root whatever the archive holds.

use std::path::{Path, PathBuf};

/// Longest name, in bytes, that is accepted (Linux: PATH_MAX).
pub const MAX_NAME: usize = 4096;
/// Longest single component, in bytes, that is accepted (Linux: NAME_MAX).
const MAX_COMPONENT: usize = 255;

/// Why a name or a link is not acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Begins with `/`.
    #[error("it is absolute")]
    Absolute,
    /// Has a `..`, or leads out of the root.
    #[error("it leads out of the archive's root")]
    Escapes,
    /// Nothing there.
    #[error("it is empty")]
    Empty,
    /// Holds a NUL byte.
    #[error("it holds a NUL byte")]
    Nul,
    /// Longer than a file system takes.
    #[error("it is too long")]
    TooLong,
    /// `..` after a name: where it leads depends on whether the name is itself a link.
    #[error("it has '..' after a name")]
    Ambiguous,
    /// Not text on a system whose file names are text.
    #[error("it is not valid text")]
    NotText,
}

/// The path below the root that an entry's name stands for; empty for the root itself (`./`).
pub fn entry_path(name: &[u8]) -> Result<PathBuf, NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    check(name)?;
    if name[0] == b'/' {
        return Err(NameError::Absolute);
    }
    let mut path = PathBuf::new();
    for component in components(name) {
        if component == b".." {
            return Err(NameError::Escapes);
        }
        path.push(os_path(component)?);
    }
    Ok(path)
}

/// The target of a symbolic link, if it stays inside the root when the link stands at `link`.
///
/// Leading `..` climb from the link's own directory, which is a real directory; after the first name no
/// further `..` is accepted, because that name may be a link and `..` would then start elsewhere.
pub fn link_target(link: &Path, target: &[u8]) -> Result<PathBuf, NameError> {
    if target.is_empty() {
        return Err(NameError::Empty);
    }
    check(target)?;
    if target[0] == b'/' {
        return Err(NameError::Absolute);
    }
    let mut depth = link.components().count().saturating_sub(1);
    let mut named = false;
    for component in components(target) {
        match (component == b"..", named) {
            (false, _) => named = true,
            (true, true) => return Err(NameError::Ambiguous),
            (true, false) => depth = depth.checked_sub(1).ok_or(NameError::Escapes)?,
        }
    }
    raw_target(target)
}

/// The target of a symbolic link as it is written, for trees in which `/` means the tree's own root.
pub fn raw_target(target: &[u8]) -> Result<PathBuf, NameError> {
    if target.is_empty() {
        return Err(NameError::Empty);
    }
    check(target)?;
    os_path(target)
}

fn check(name: &[u8]) -> Result<(), NameError> {
    if name.contains(&0) {
        return Err(NameError::Nul);
    }
    if name.len() > MAX_NAME || components(name).any(|component| component.len() > MAX_COMPONENT) {
        return Err(NameError::TooLong);
    }
    Ok(())
}

fn components(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|byte| *byte == b'/').filter(|component| !component.is_empty() && *component != b".")
}

#[cfg(unix)]
fn os_path(bytes: &[u8]) -> Result<PathBuf, NameError> {
    use std::os::unix::ffi::OsStrExt;
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(bytes)))
}

#[cfg(not(unix))]
fn os_path(bytes: &[u8]) -> Result<PathBuf, NameError> {
    let text = std::str::from_utf8(bytes).map_err(|_| NameError::NotText)?;
    // Drive letters and alternate streams are absolute names in disguise.
    if text.contains([':', '\\']) {
        return Err(NameError::Absolute);
    }
    Ok(PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_names() {
        for (name, path) in [
            ("a", "a"),
            ("./a/b", "a/b"),
            ("a//b/", "a/b"),
            ("a/./b", "a/b"),
            ("./", ""),
            ("..a/b..", "..a/b.."),
        ] {
            assert_eq!(entry_path(name.as_bytes()).unwrap(), PathBuf::from(path), "{name}");
        }
    }

    #[test]
    fn names_that_lead_out() {
        for (name, error) in [
            (&b"/etc/passwd"[..], NameError::Absolute),
            (b"../a", NameError::Escapes),
            (b"a/../../b", NameError::Escapes),
            (b"a/..", NameError::Escapes),
            (b"", NameError::Empty),
            (b"a\0b", NameError::Nul),
        ] {
            assert_eq!(entry_path(name), Err(error));
        }
        assert_eq!(entry_path(&[b'x'; 300]), Err(NameError::TooLong));
        assert_eq!(entry_path("x/".repeat(3000).as_bytes()), Err(NameError::TooLong));
    }

    #[test]
    fn links_may_climb_as_far_as_the_root() {
        let link = Path::new("a/b/link");
        for target in ["x", "../x", "../../x", "./x/y"] {
            assert_eq!(link_target(link, target.as_bytes()).unwrap(), PathBuf::from(target));
        }
        assert_eq!(link_target(link, b"../../../x"), Err(NameError::Escapes));
        assert_eq!(link_target(link, b"/x"), Err(NameError::Absolute));
        assert_eq!(link_target(link, b"x/../../../y"), Err(NameError::Ambiguous));
        assert_eq!(link_target(link, b""), Err(NameError::Empty));
    }

    proptest! {
        /// Whatever the bytes, an accepted name has only plain components.
        #[test]
        fn an_accepted_name_stays_below_the_root(name in proptest::collection::vec(
            prop_oneof![Just(b'.'), Just(b'/'), Just(b'a'), Just(0u8), any::<u8>()], 0..40)
        ) {
            if let Ok(path) = entry_path(&name) {
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
            }
        }

        /// Whatever the target, following an accepted link among real directories stays below the root.
        #[test]
        fn an_accepted_link_stays_below_the_root(
            depth in 0usize..4,
            target in proptest::collection::vec(prop_oneof![Just(".."), Just("."), Just("a"), Just("")], 1..8)
        ) {
            let link: PathBuf = std::iter::repeat_n("d", depth).chain(["link"]).collect();
            if let Ok(target) = link_target(&link, target.join("/").as_bytes()) {
                let mut level = depth as i64;
                for part in target.components() {
                    match part {
                        Component::ParentDir => level -= 1,
                        Component::Normal(_) => level += 1,
                        Component::CurDir => {}
                        other => prop_assert!(false, "{other:?}"),
                    }
                    prop_assert!(level >= 0);
                }
            }
        }
    }
}
