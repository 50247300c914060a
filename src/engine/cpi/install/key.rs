//! The key of a compiled package: a hash of everything that determines it, which names its place in the
//! cache.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::cpi::userland::PACKAGES_DIRECTORY;
use artifact::release::Package;

/// The version of the cache layout.
const KEY_FORMAT: &str = "monopile CPI package 2";

/// The platform and the directory where packages are compiled. Both are part of the keys of packages,
/// because they determine the content.
pub(super) struct CompileSite<'a> {
    /// The platform of compiled programs.
    platform: String,
    /// The directory in which they are compiled. Its path becomes part of their content.
    root: &'a Path,
}

impl<'a> CompileSite<'a> {
    /// Returns the site for packages in `root` of this machine.
    pub(super) fn on_this_machine(root: &'a Path) -> Self {
        CompileSite { platform: platform(), root }
    }

    /// Returns the site for packages in a userland. Only its key determines them.
    pub(super) fn in_userland(compile_key: &str) -> Self {
        let platform = format!("userland {} {compile_key}", std::env::consts::ARCH);
        CompileSite { platform, root: Path::new(PACKAGES_DIRECTORY) }
    }
}

/// Returns the key of a package.
///
/// The SHA-256 of the content is part of it because a fingerprint is only a claim, and the digest in
/// `release.MF` may be a SHA-1, for which collisions can be made.
pub(super) fn package_key(
    package: &Package,
    dependencies: &[(&str, &str)],
    site: &CompileSite<'_>,
) -> String {
    let mut hash = Sha256::new();
    let mut add = |field: &[u8]| {
        // The length comes first, so that different lists of fields never give the same bytes.
        hash.update((field.len() as u64).to_le_bytes());
        hash.update(field);
    };
    add(KEY_FORMAT.as_bytes());
    add(site.platform.as_bytes());
    add(site.root.as_os_str().as_encoded_bytes());
    add(package.name.as_bytes());
    add(package.fingerprint.as_bytes());
    add(package.content_digest.to_string().as_bytes());
    add(package.compiled_for.as_deref().unwrap_or_default().as_bytes());
    let mut dependencies = dependencies.to_vec();
    dependencies.sort_unstable();
    for (name, key) in dependencies {
        add(name.as_bytes());
        add(key.as_bytes());
    }
    hex::encode(hash.finalize())
}

/// Describes the platform of compiled programs: processor, operating system and its release. Machines that
/// differ in these may share a home directory.
fn platform() -> String {
    let release = ["/etc/os-release", "/usr/lib/os-release"]
        .into_iter()
        .find_map(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_default();
    let mut release_lines: Vec<&str> =
        release.lines().filter(|line| line.starts_with("ID=") || line.starts_with("VERSION_ID=")).collect();
    release_lines.sort_unstable();
    format!("{} {} {}", std::env::consts::OS, std::env::consts::ARCH, release_lines.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, fingerprint: &str) -> Package {
        Package {
            name: name.into(),
            version: "1".into(),
            fingerprint: fingerprint.into(),
            digest: "a".repeat(40).parse().unwrap(),
            content_digest: format!("sha256:{}", "a".repeat(64)).parse().unwrap(),
            dependencies: Vec::new(),
            archive: "/x.tgz".into(),
            compiled_for: None,
        }
    }

    #[test]
    fn every_compilation_input_changes_the_key() {
        let site =
            |platform: &str, root| CompileSite { platform: platform.to_owned(), root: Path::new(root) };
        let this_site = site("linux", "/cache");
        let usual_key = package_key(&package("a", "f"), &[("b", "1"), ("c", "2")], &this_site);
        assert_eq!(usual_key, package_key(&package("a", "f"), &[("c", "2"), ("b", "1")], &this_site));
        let mut other_content = package("a", "f");
        other_content.content_digest = format!("sha256:{}", "b".repeat(64)).parse().unwrap();
        let mut precompiled_package = package("a", "f");
        precompiled_package.compiled_for = Some("ubuntu-jammy/1".into());
        for other_key in [
            package_key(&package("b", "f"), &[("b", "1"), ("c", "2")], &this_site),
            package_key(&package("a", "g"), &[("b", "1"), ("c", "2")], &this_site),
            package_key(&package("a", "f"), &[("b", "1"), ("c", "3")], &this_site),
            package_key(&package("a", "f"), &[("b", "1")], &this_site),
            package_key(&package("a", "f"), &[("b", "1"), ("c", "2")], &site("darwin", "/cache")),
            package_key(&package("a", "f"), &[("b", "1"), ("c", "2")], &site("linux", "/elsewhere")),
            package_key(&package("a", "f"), &[("b", "1"), ("c", "2")], &CompileSite::in_userland("1")),
            package_key(&other_content, &[("b", "1"), ("c", "2")], &this_site),
            package_key(&precompiled_package, &[("b", "1"), ("c", "2")], &this_site),
        ] {
            assert_ne!(usual_key, other_key);
        }
    }
}
