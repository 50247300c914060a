//! Files of this machine that a userland needs: name resolution, certificate authorities, its user.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::HOME_DIRECTORY;
use super::layout::MountPoint;
use base::files::durable::write_atomically;
use base::files::open_inside;
use base::{Error, Result};

/// The files of name resolution.
const NETWORK_FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];
/// The bundles of certificate authorities of Linux distributions. The first one that this machine has is
/// mounted at all of these paths.
const CERTIFICATE_BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
/// The variables that name files of certificate authorities.
const BUNDLE_VARIABLES: [&str; 5] =
    ["SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"];
/// The id of the user in a userland, as in stemcells. It is not root, so that programs such as `tar` do not
/// try to change owners. `bosh` compiles CPIs as the operator, who is usually not root either.
pub(super) const USER_ID: u32 = 1000;
/// The maximum size of a list of users, in bytes.
const MAX_USERS_BYTES: u64 = 1 << 20;

/// Returns the files of name resolution.
pub(super) fn name_resolution() -> impl Iterator<Item = MountPoint> {
    NETWORK_FILES.iter().filter_map(|path| Some(MountPoint::read_only(fs::canonicalize(path).ok()?, *path)))
}

/// Returns the certificate authorities that this machine trusts, and those that variables name.
pub(super) fn certificates(env_vars: &[(String, String)]) -> Vec<MountPoint> {
    let bundle = CERTIFICATE_BUNDLES.iter().find_map(|path| fs::canonicalize(path).ok());
    let variable_files = env_vars
        .iter()
        .filter(|(name, path)| BUNDLE_VARIABLES.contains(&name.as_str()) && Path::new(path).is_absolute())
        .filter_map(|(_, path)| Some(MountPoint::read_only(fs::canonicalize(path).ok()?, path)));
    bundle
        .iter()
        .flat_map(|bundle| CERTIFICATE_BUNDLES.map(|path| MountPoint::read_only(bundle, path)))
        .chain(variable_files)
        .collect()
}

/// Returns lists of users and groups with the user of the userland, if its own lack that user. They are
/// written to `scratch`.
pub(super) fn provide_user_lists(root: &Path, scratch: &Path) -> Result<Vec<MountPoint>> {
    let lines = [
        ("passwd", format!("vcap:x:{USER_ID}:{USER_ID}:BOSH System User:{HOME_DIRECTORY}:/bin/sh\n")),
        ("group", format!("vcap:x:{USER_ID}:\n")),
    ];
    let mut mounts = Vec::new();
    for (name, line) in lines {
        let target = PathBuf::from("/etc").join(name);
        let mut text = Vec::new();
        if let Ok(file) = open_inside(root, &target) {
            // An unreadable list is replaced.
            let _ = file.take(MAX_USERS_BYTES).read_to_end(&mut text);
        }
        let mut text = String::from_utf8_lossy(&text).into_owned();
        let id = USER_ID.to_string();
        if text.lines().any(|line| line.split(':').nth(2) == Some(&id)) {
            continue;
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let path = scratch.join(name);
        write_atomically(&path, format!("{text}{line}").as_bytes())
            .map_err(|error| Error::io(format!("writing '{}'", path.display()), error))?;
        mounts.push(MountPoint::read_only(path, target));
    }
    Ok(mounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_added_to_lists_that_lack_it() {
        let (root, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/passwd"), "root:x:0:0::/root:/bin/sh").unwrap();
        fs::write(root.path().join("etc/group"), "me:x:1000:\n").unwrap();
        let mounts = provide_user_lists(root.path(), scratch.path()).unwrap();
        assert_eq!(mounts, [MountPoint::read_only(scratch.path().join("passwd"), "/etc/passwd")]);
        let text = fs::read_to_string(scratch.path().join("passwd")).unwrap();
        assert!(text.starts_with("root:x:0:0::/root:/bin/sh\nvcap:x:1000:1000:"), "{text}");
    }

    #[test]
    fn certificates_that_variables_name_are_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display().to_string();
        let env_vars =
            [("SSL_CERT_FILE", path.as_str()), ("REQUESTS_CA_BUNDLE", "relative"), ("OTHER", &path)];
        let env_vars = env_vars.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mounts: Vec<MountPoint> = certificates(&env_vars);
        assert_eq!(mounts.iter().filter(|mount| mount.target == file.path()).count(), 1);
        assert!(!mounts.iter().any(|mount| mount.is_writable || mount.target == Path::new("relative")));
    }
}
