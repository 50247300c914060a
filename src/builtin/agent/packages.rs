//! Compiled packages on the VM: each build is installed in `data/packages/<name>/<build>`, and the link
//! `packages/<name>` selects the current one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use parking_lot::{Condvar, Mutex};

use super::archive;
use super::blobs::{Blobs, create_scratch};
use super::digest;
use super::dirs::{self, Dirs};
use super::spec::Package;
use base::error::ResultExt;
use base::{Error, Result};

/// The directory for [`link_all`] in `data/packages`. No package can have this name.
const LINKS: &str = ".links";

/// Returns the directory of this build of a package.
fn build_dir(dirs: &Dirs, package: &Package) -> PathBuf {
    dirs.data_packages().join(&package.name).join(package.bundle())
}

/// Unpacks a package unless this build is installed. Returns its directory.
pub(super) fn install(dirs: &Dirs, blobs: &Blobs, package: &Package) -> Result<PathBuf> {
    package.check()?;
    let target = build_dir(dirs, package);
    if target.is_dir() {
        return Ok(target);
    }
    let file =
        blobs.open(&package.blobstore_id, &package.sha1).context(|| "Fetching package blob".to_owned())?;
    let parent = dirs.data_packages().join(&package.name);
    dirs::make_dir(&parent, 0o755)?;
    dirs.give_to_vcap(&parent);
    // Unpack into a temporary directory and rename it, so that a killed agent leaves no incomplete package.
    let temporary = create_scratch(&parent)?;
    let fresh = temporary.path().join("package");
    archive::unpack(file, &format!("package '{}'", package.name), &fresh)
        .context(|| "Decompressing package files".to_owned())?;
    dirs::set_mode(&fresh, 0o755)?;
    dirs.give_to_vcap(&fresh);
    match fs::rename(&fresh, &target) {
        Ok(()) => Ok(target),
        // Another task has installed the same build.
        Err(_) if target.is_dir() => Ok(target),
        Err(error) => Err(Error::io(format!("moving package '{}' to its place", package.name), error)),
    }
}

/// Returns the directory of [`link_all`] for these packages. Its name depends on all their builds.
fn links_dir(dirs: &Dirs, packages: &BTreeMap<String, Package>) -> PathBuf {
    let builds: Vec<String> =
        packages.values().map(|package| format!("{} {}\n", package.name, package.bundle())).collect();
    dirs.data_packages().join(LINKS).join(digest::sha1_hex(&builds.concat()))
}

/// Creates a directory with a link to each of these packages, unless it exists. Returns its path. All jobs
/// share it: if each had its own links, their number would be that of the jobs times that of the packages.
pub(super) fn link_all(dirs: &Dirs, packages: &BTreeMap<String, Package>) -> Result<PathBuf> {
    let target = links_dir(dirs, packages);
    if target.is_dir() {
        return Ok(target);
    }
    let parent = dirs.data_packages().join(LINKS);
    dirs::make_dir(&parent, 0o755)?;
    dirs.give_to_vcap(&parent);
    // As for a package, the rename makes it appear as a whole.
    let temporary = create_scratch(&parent)?;
    let fresh = temporary.path().join("links");
    dirs::make_dir(&fresh, 0o750)?;
    dirs.give_to_vcap(&fresh);
    for package in packages.values() {
        dirs::replace_link(&build_dir(dirs, package), &fresh.join(&package.name))?;
    }
    fs::rename(&fresh, &target)
        .map_err(|error| Error::io(format!("renaming to '{}'", target.display()), error))?;
    Ok(target)
}

/// Removes links and builds that belong to none of these packages.
pub(super) fn keep_only(dirs: &Dirs, packages: &BTreeMap<String, Package>) -> Result<()> {
    let names: HashSet<&OsStr> = packages.values().map(|package| OsStr::new(&package.name)).collect();
    for entry in list(&dirs.packages()) {
        if !names.contains(&*entry.file_name()) {
            fs::remove_file(entry.path())
                .map_err(|error| Error::io(format!("removing '{}'", entry.path().display()), error))?;
        }
    }
    let mut builds: HashSet<PathBuf> = packages.values().map(|package| build_dir(dirs, package)).collect();
    builds.insert(links_dir(dirs, packages));
    keep_only_builds(&dirs.data_packages(), &builds)
}

/// Removes everything in the directories of `parent` that is not in `builds`, and the directories that are
/// empty then.
pub(super) fn keep_only_builds(parent: &Path, builds: &HashSet<PathBuf>) -> Result<()> {
    for named in list(parent) {
        for build in list(&named.path()) {
            if !builds.contains(&build.path()) {
                dirs::remove_tree(&build.path())?;
            }
        }
        // Fails if the directory is not empty, which is fine.
        let _ = fs::remove_dir(named.path());
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
        package_links: &[(String, PathBuf)],
    ) -> Result<PackageHold<'a>> {
        let mut held = self.held.lock();
        while package_links
            .iter()
            .any(|(name, target)| held.get(name).is_some_and(|held| held.target != *target))
        {
            self.released.wait(&mut held);
        }
        let mut hold = PackageHold { links: self, dirs, names: Vec::new() };
        for (name, target) in package_links {
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
                        .map_err(|error| Error::io(format!("removing '{}'", link.display()), error)),
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
