//! Compiled packages on the VM: each build is installed in `data/packages/<name>/<build>`, and the link
//! `packages/<name>` selects the current one.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use parking_lot::{Condvar, Mutex};

use super::archive;
use super::blobs::{Blobs, scratch};
use super::dirs::{self, Dirs};
use super::spec::Package;
use base::error::ResultExt;
use base::{Error, Result};

/// Unpacks a package unless this build is installed. Returns its directory.
pub(super) fn install(dirs: &Dirs, blobs: &Blobs, package: &Package) -> Result<PathBuf> {
    package.check()?;
    let parent = dirs.data_packages().join(&package.name);
    let target = parent.join(package.bundle());
    if target.is_dir() {
        return Ok(target);
    }
    let file =
        blobs.open(&package.blobstore_id, &package.sha1).context(|| "Fetching package blob".to_owned())?;
    dirs::make_dir(&parent, 0o755)?;
    dirs.give_to_vcap(&parent);
    // Unpack into a temporary directory and rename it, so that a killed agent leaves no incomplete package.
    let temporary = scratch(&parent)?;
    let fresh = temporary.path().join("package");
    archive::unpack(file, &format!("package '{}'", package.name), &fresh)
        .context(|| "Decompressing package files".to_owned())?;
    dirs::set_mode(&fresh, 0o755)?;
    dirs.give_to_vcap(&fresh);
    match fs::rename(&fresh, &target) {
        Ok(()) => Ok(target),
        // Another task has installed the same build.
        Err(_) if target.is_dir() => Ok(target),
        Err(e) => Err(Error::io(format!("moving package '{}' to its place", package.name), e)),
    }
}

/// Removes links and builds that belong to no package in `keep`.
pub(super) fn keep_only(dirs: &Dirs, keep: &[&Package]) -> Result<()> {
    for entry in list(&dirs.packages()) {
        let name = entry.file_name();
        if !keep.iter().any(|package| name == package.name.as_str()) {
            fs::remove_file(entry.path())
                .map_err(|e| Error::io(format!("removing '{}'", entry.path().display()), e))?;
        }
    }
    for package in list(&dirs.data_packages()) {
        for build in list(&package.path()) {
            let wanted = keep.iter().any(|kept| {
                package.file_name() == kept.name.as_str() && build.file_name() == kept.bundle().as_str()
            });
            if !wanted {
                dirs::remove_tree(&build.path())?;
            }
        }
        // Fails if the directory is not empty, which is fine.
        let _ = fs::remove_dir(package.path());
    }
    Ok(())
}

/// Returns the entries of a directory, or an empty list if it cannot be read.
pub(super) fn list(dir: &Path) -> Vec<fs::DirEntry> {
    fs::read_dir(dir).map(|entries| entries.flatten().collect()).unwrap_or_default()
}

/// The `packages/<name>` links that running compilations hold. Compilations can run at the same time if their
/// links have the same targets.
#[derive(Default)]
pub(super) struct Links {
    held: Mutex<HashMap<String, HeldLinks>>,
    released: Condvar,
}

struct HeldLinks {
    target: PathBuf,
    users: usize,
    /// The previous target of the link, which is restored.
    before: Option<PathBuf>,
}

/// Links that a compilation holds until this is dropped.
pub(super) struct PackageHold<'a> {
    links: &'a Links,
    dirs: &'a Dirs,
    names: Vec<String>,
}

impl Links {
    /// Waits until no link is held with another target, then creates the links.
    pub(super) fn hold<'a>(
        &'a self,
        dirs: &'a Dirs,
        wanted: &[(String, PathBuf)],
    ) -> Result<PackageHold<'a>> {
        let mut held = self.held.lock();
        while wanted.iter().any(|(name, target)| held.get(name).is_some_and(|held| held.target != *target)) {
            self.released.wait(&mut held);
        }
        let mut hold = PackageHold { links: self, dirs, names: Vec::new() };
        for (name, target) in wanted {
            let link = dirs.packages().join(name);
            let entry = held.entry(name.clone()).or_insert_with(|| HeldLinks {
                target: target.clone(),
                users: 0,
                before: fs::read_link(&link).ok(),
            });
            entry.users += 1;
            hold.names.push(name.clone());
            if let Err(error) = dirs::replace_link(target, &link) {
                drop(held);
                return Err(error);
            }
        }
        drop(held);
        Ok(hold)
    }
}

impl Drop for PackageHold<'_> {
    fn drop(&mut self) {
        let mut held = self.links.held.lock();
        for name in &self.names {
            let Some(entry) = held.get_mut(name) else { continue };
            entry.users -= 1;
            if entry.users == 0 {
                let link = self.dirs.packages().join(name);
                let restored = match &entry.before {
                    Some(target) if target.exists() => dirs::replace_link(target, &link),
                    _ => fs::remove_file(&link)
                        .map_err(|e| Error::io(format!("removing '{}'", link.display()), e)),
                };
                if let Err(error) = restored {
                    tracing::warn!(%error, name, "restoring the link of a package failed");
                }
                held.remove(name);
            }
        }
        drop(held);
        self.links.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn conflicting_holds_wait_and_links_are_restored() {
        let base = tempfile::tempdir().unwrap();
        let dirs = Arc::new(Dirs::new(base.path()));
        dirs.set_up().unwrap();
        let link = dirs.packages().join("p");
        let (old, one, two) = (base.path().join("old"), base.path().join("1"), base.path().join("2"));
        for dir in [&old, &one, &two] {
            fs::create_dir(dir).unwrap();
        }
        dirs::replace_link(&old, &link).unwrap();
        let links = Arc::new(Links::default());
        let first = links.hold(&dirs, &[("p".into(), one.clone())]).unwrap();
        let again = links.hold(&dirs, &[("p".into(), one.clone())]).unwrap();
        let waiting = std::thread::spawn({
            let (links, dirs, two, link) = (links.clone(), dirs.clone(), two.clone(), link.clone());
            move || {
                let _hold = links.hold(&dirs, &[("p".into(), two)]).unwrap();
                fs::read_link(link).unwrap()
            }
        });
        std::thread::sleep(Duration::from_millis(50));
        drop(first);
        assert_eq!(fs::read_link(&link).unwrap(), one);
        drop(again);
        assert_eq!(waiting.join().unwrap(), two);
        assert_eq!(fs::read_link(&link).unwrap(), old);
    }
}
