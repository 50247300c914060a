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
use super::directories::{self, Directories};
use super::spec::Package;
use base::error::ResultExt;
use base::{Error, Result};

/// The directory for [`link_all`] in `data/packages`. No package can have this name.
const LINKS_DIRECTORY: &str = ".links";

fn build_directory(directories: &Directories, package: &Package) -> PathBuf {
    directories.data_packages().join(&package.name).join(package.build_name())
}

/// Unpacks a package unless this build is installed. Returns its directory.
pub(super) fn install(directories: &Directories, blobs: &Blobs, package: &Package) -> Result<PathBuf> {
    package.check()?;
    let target = build_directory(directories, package);
    if target.is_dir() {
        return Ok(target);
    }
    let file =
        blobs.open(&package.blobstore_id, &package.sha1).context(|| "Fetching package blob".to_owned())?;
    let parent = directories.data_packages().join(&package.name);
    directories::make_directory(&parent, 0o755)?;
    directories.give_to_vcap(&parent);
    // Unpack into a temporary directory and rename it, so that a killed agent leaves no incomplete package.
    let scratch = create_scratch(&parent)?;
    let new_package = scratch.path().join("package");
    archive::unpack(file, &format!("package '{}'", package.name), &new_package)
        .context(|| "Decompressing package files".to_owned())?;
    directories::set_mode(&new_package, 0o755)?;
    directories.give_to_vcap(&new_package);
    match fs::rename(&new_package, &target) {
        Ok(()) => Ok(target),
        // Another task has installed the same build.
        Err(_) if target.is_dir() => Ok(target),
        Err(error) => Err(Error::io(format!("moving package '{}' to its place", package.name), error)),
    }
}

/// Returns the directory of [`link_all`] for these packages. Its name depends on all their builds.
fn links_directory(directories: &Directories, packages: &BTreeMap<String, Package>) -> PathBuf {
    let builds: Vec<String> =
        packages.values().map(|package| format!("{} {}\n", package.name, package.build_name())).collect();
    directories.data_packages().join(LINKS_DIRECTORY).join(digest::sha1_hex(&builds.concat()))
}

/// Creates a directory with a link to each of these packages, unless it exists. Returns its path. All jobs
/// share it: if each had its own links, their number would be that of the jobs times that of the packages.
pub(super) fn link_all(directories: &Directories, packages: &BTreeMap<String, Package>) -> Result<PathBuf> {
    let target = links_directory(directories, packages);
    if target.is_dir() {
        return Ok(target);
    }
    let parent = directories.data_packages().join(LINKS_DIRECTORY);
    directories::make_directory(&parent, 0o755)?;
    directories.give_to_vcap(&parent);
    // As for a package, the rename makes it appear as a whole.
    let scratch = create_scratch(&parent)?;
    let new_links = scratch.path().join("links");
    directories::make_directory(&new_links, 0o750)?;
    directories.give_to_vcap(&new_links);
    for package in packages.values() {
        directories::replace_link(&build_directory(directories, package), &new_links.join(&package.name))?;
    }
    fs::rename(&new_links, &target)
        .map_err(|error| Error::io(format!("renaming to '{}'", target.display()), error))?;
    Ok(target)
}

/// Removes links and builds that belong to none of these packages.
pub(super) fn keep_only(directories: &Directories, packages: &BTreeMap<String, Package>) -> Result<()> {
    let names: HashSet<&OsStr> = packages.values().map(|package| OsStr::new(&package.name)).collect();
    for entry in list(&directories.packages()) {
        if !names.contains(&*entry.file_name()) {
            fs::remove_file(entry.path())
                .map_err(|error| Error::io(format!("removing '{}'", entry.path().display()), error))?;
        }
    }
    let mut builds: HashSet<PathBuf> =
        packages.values().map(|package| build_directory(directories, package)).collect();
    builds.insert(links_directory(directories, packages));
    keep_only_builds(&directories.data_packages(), &builds)
}

/// Removes everything in the directories of `parent` that is not in `builds`, and the directories that are
/// empty then.
pub(super) fn keep_only_builds(parent: &Path, builds: &HashSet<PathBuf>) -> Result<()> {
    for package in list(parent) {
        for build in list(&package.path()) {
            if !builds.contains(&build.path()) {
                directories::remove_tree(&build.path())?;
            }
        }
        // Fails if the directory is not empty, which is fine.
        let _ = fs::remove_dir(package.path());
    }
    Ok(())
}

/// Returns the entries of a directory, or an empty list if it cannot be read.
pub(super) fn list(directory: &Path) -> Vec<fs::DirEntry> {
    fs::read_dir(directory).map(|entries| entries.flatten().collect()).unwrap_or_default()
}

/// The `packages/<name>` links that running compilations hold. Compilations can run at the same time if their
/// links have the same targets.
#[derive(Default)]
pub(super) struct Links {
    by_name: Mutex<HashMap<String, HeldLink>>,
    release: Condvar,
}

/// A link of a package, with the number of compilations that hold it.
struct HeldLink {
    target: PathBuf,
    hold_count: usize,
    /// The previous target of the link, which is restored.
    previous_target: Option<PathBuf>,
}

/// Links that a compilation holds until this is dropped.
pub(super) struct PackageHold<'a> {
    links: &'a Links,
    directories: &'a Directories,
    names: Vec<String>,
}

impl Links {
    /// Waits until no link is held with another target, then creates the links.
    pub(super) fn hold<'a>(
        &'a self,
        directories: &'a Directories,
        package_links: &[(String, PathBuf)],
    ) -> Result<PackageHold<'a>> {
        let mut links_by_name = self.by_name.lock();
        while package_links.iter().any(|(name, target)| {
            links_by_name.get(name).is_some_and(|held_link| held_link.target != *target)
        }) {
            self.release.wait(&mut links_by_name);
        }
        let mut hold = PackageHold { links: self, directories, names: Vec::new() };
        for (name, target) in package_links {
            let link = directories.packages().join(name);
            let entry = links_by_name.entry(name.clone()).or_insert_with(|| HeldLink {
                target: target.clone(),
                hold_count: 0,
                previous_target: fs::read_link(&link).ok(),
            });
            entry.hold_count += 1;
            hold.names.push(name.clone());
            if let Err(error) = directories::replace_link(target, &link) {
                drop(links_by_name);
                return Err(error);
            }
        }
        drop(links_by_name);
        Ok(hold)
    }
}

impl Drop for PackageHold<'_> {
    fn drop(&mut self) {
        let mut links_by_name = self.links.by_name.lock();
        for name in &self.names {
            let Some(entry) = links_by_name.get_mut(name) else { continue };
            entry.hold_count -= 1;
            if entry.hold_count == 0 {
                let link = self.directories.packages().join(name);
                let result = match &entry.previous_target {
                    Some(target) if target.exists() => directories::replace_link(target, &link),
                    _ => fs::remove_file(&link)
                        .map_err(|error| Error::io(format!("removing '{}'", link.display()), error)),
                };
                if let Err(error) = result {
                    tracing::warn!(%error, name, "restoring the link of a package failed");
                }
                links_by_name.remove(name);
            }
        }
        drop(links_by_name);
        self.links.release.notify_all();
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
        let directories = Arc::new(Directories::new(base.path()));
        directories.set_up().unwrap();
        let link = directories.packages().join("p");
        let (old, one, two) = (base.path().join("old"), base.path().join("1"), base.path().join("2"));
        for directory in [&old, &one, &two] {
            fs::create_dir(directory).unwrap();
        }
        directories::replace_link(&old, &link).unwrap();
        let links = Arc::new(Links::default());
        let first_hold = links.hold(&directories, &[("p".into(), one.clone())]).unwrap();
        let second_hold = links.hold(&directories, &[("p".into(), one.clone())]).unwrap();
        let thread = std::thread::spawn({
            let (links, directories, two, link) =
                (links.clone(), directories.clone(), two.clone(), link.clone());
            move || {
                let _hold = links.hold(&directories, &[("p".into(), two)]).unwrap();
                fs::read_link(link).unwrap()
            }
        });
        std::thread::sleep(Duration::from_millis(50));
        drop(first_hold);
        assert_eq!(fs::read_link(&link).unwrap(), one);
        drop(second_hold);
        assert_eq!(thread.join().unwrap(), two);
        assert_eq!(fs::read_link(&link).unwrap(), old);
    }
}
