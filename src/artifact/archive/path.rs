//! Checks names and link targets inside an archive. Accepted ones stay below the archive's root.

use std::path::{Path, PathBuf};

/// The maximum length of a name in bytes (PATH_MAX of Linux).
pub const MAX_NAME_BYTES: usize = 4096;
/// The maximum length of a component of a name in bytes (NAME_MAX of Linux).
const MAX_COMPONENT_BYTES: usize = 255;

/// The reason for refusing a name or a link target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name begins with `/`.
    #[error("the path is absolute")]
    Absolute,
    /// The name contains `..`, or the link target is outside the root.
    #[error("the path leads out of the archive")]
    Escapes,
    /// The name is empty.
    #[error("the path is empty")]
    Empty,
    /// The name contains a NUL byte.
    #[error("the path contains a NUL byte")]
    Nul,
    /// The name is longer than file systems allow.
    #[error("the path is too long")]
    TooLong,
    /// The link target has `..` after a name. If that name is a link itself, `..` starts elsewhere.
    #[error("the path has '..' after a name, which may be a link")]
    Ambiguous,
}

/// Returns the path of an entry relative to the archive's root; empty for the root itself (`./`).
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

/// Returns the target of the symbolic link at `link`, if it stays inside the root.
///
/// Leading `..` are counted from the link's own directory, which is never a link. `..` after a name is
/// refused, because that name may be a link and `..` would then start elsewhere.
pub fn link_target(link: &Path, target: &[u8]) -> Result<PathBuf, NameError> {
    if target.is_empty() {
        return Err(NameError::Empty);
    }
    check(target)?;
    if target[0] == b'/' {
        return Err(NameError::Absolute);
    }
    let mut depth = link.components().count().saturating_sub(1);
    let mut has_name = false;
    for component in components(target) {
        match (component == b"..", has_name) {
            (false, _) => has_name = true,
            (true, true) => return Err(NameError::Ambiguous),
            (true, false) => depth = depth.checked_sub(1).ok_or(NameError::Escapes)?,
        }
    }
    raw_target(target)
}

/// Returns the target of a symbolic link unchanged, for trees in which `/` means the tree's own root.
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
    if name.len() > MAX_NAME_BYTES || components(name).any(|component| component.len() > MAX_COMPONENT_BYTES)
    {
        return Err(NameError::TooLong);
    }
    Ok(())
}

fn components(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|byte| *byte == b'/').filter(|component| !component.is_empty() && *component != b".")
}

fn os_path(bytes: &[u8]) -> Result<PathBuf, NameError> {
    use std::os::unix::ffi::OsStrExt;
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn accepts_ordinary_names() {
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
    fn rejects_names_outside_the_root() {
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
    fn link_targets_may_climb_up_to_the_root() {
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
        /// An accepted name has only normal components, for any bytes.
        #[test]
        fn accepted_names_stay_below_the_root(name in proptest::collection::vec(
            prop_oneof![Just(b'.'), Just(b'/'), Just(b'a'), Just(0u8), any::<u8>()], 0..40)
        ) {
            if let Ok(path) = entry_path(&name) {
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
            }
        }

        /// Following an accepted link among real directories stays below the root.
        #[test]
        fn accepted_links_stay_below_the_root(
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
