//! The store of compiled packages, which several processes share.
//!
//! In the cache each package has a slot, whose name is the beginning of the package's key:
//!
//! ```text
//! cpi/.<key>.lock              locked while the package is compiled, and, shared, while it is in use
//! cpi/<key>/package.json       names the package; its stamp is written last, its time shows the last use
//! cpi/<key>/files.json         the mode and digest of each file of the package
//! cpi/<key>/packaging.log      the output of its packaging script
//! cpi/<key>/signature.json     the signed digest, if the package was copied from a shared cache
//! cpi/<key>/packages/<name>/   the package
//! cpi/<key>/packages/<other>   links to the packages it was compiled with
//! ```
//!
//! A directory named by `--package-dir` holds the packages under their names, and the rest in `.monopile`.

use std::fs::{File, TryLockError};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::StopCondition;
use super::contents::{self, FileRecords};
use super::needed_packages::NeededPackage;
use crate::cpi::create_private_directory;
use artifact::SharedCache;
use artifact::cache::VerifyReport;
use artifact::shared_cache::{PackageId, PackageKind, SignedDigest};
use base::events::Stage;
use base::files::{JsonLayout, UnlockOnDrop, read_json, write_json};
use base::text::shell_word;
use base::{Error, Result, files};

/// The number of digits of a key that name a slot. Paths of packages end up in `#!` lines, which must be
/// short.
const SHORT_KEY_DIGITS: usize = 16;
/// The pause between attempts to take a lock that another process holds.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// A store of compiled packages.
pub(super) struct CpiPackageStore {
    root: PathBuf,
    /// True for the user's cache, false for a `--package-dir`.
    is_cache: bool,
    shared_cache: SharedCache,
}

/// The slot of one package: its directory, and the files about it.
pub(super) struct PackageSlot {
    /// The directory in which its packaging script finds its dependencies.
    pub(super) packages_directory: PathBuf,
    pub(super) package_directory: PathBuf,
    /// The output of its packaging script.
    pub(super) log_path: PathBuf,
    /// The file that marks the package as complete, with its key and stamp.
    marker_path: PathBuf,
    /// The records of its files; see [`contents`].
    records_path: PathBuf,
    /// The signed digest of a package from a shared cache.
    signature_path: PathBuf,
    /// The file whose lock protects the package.
    lock_path: PathBuf,
    pub(super) name: String,
    key: String,
    /// True for a slot of the user's cache, false for one of a `--package-dir`.
    is_cache: bool,
    shared_cache: SharedCache,
}

/// The state of the package in a slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    /// There is no complete package.
    Incomplete,
    /// The package is as it was when it was completed.
    Whole,
    /// This path has changed since the package was completed.
    Changed(PathBuf),
}

/// A lock on a slot or a directory, until it is dropped.
#[derive(Debug)]
pub(super) struct PackageLock {
    file: UnlockOnDrop,
}

impl CpiPackageStore {
    /// Opens the store in the user's cache. Packages from a shared cache count only while `shared_cache`
    /// trusts their keys.
    pub(super) fn open_cache(root: &Path, shared_cache: &SharedCache) -> Result<Self> {
        create_private_directory(root)?;
        Ok(CpiPackageStore { root: root.to_owned(), is_cache: true, shared_cache: shared_cache.clone() })
    }

    /// Opens the store in the directory given with `--package-dir`, like [`Self::open_cache`].
    pub(super) fn open_directory(root: &Path, shared_cache: &SharedCache) -> Result<Self> {
        create_private_directory(&root.join(".monopile"))?;
        Ok(CpiPackageStore { root: root.to_owned(), is_cache: false, shared_cache: shared_cache.clone() })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn slot(&self, package: &NeededPackage<'_>) -> PackageSlot {
        self.slot_of(package.package.name.clone(), package.key.clone())
    }

    /// Returns the slot of the package with this name and key.
    pub(super) fn slot_of(&self, name: String, key: String) -> PackageSlot {
        let shared_cache = self.shared_cache.clone();
        if self.is_cache {
            let short_key = key.get(..SHORT_KEY_DIGITS).unwrap_or(&key);
            let slot_directory = self.root.join(short_key);
            let packages_directory = slot_directory.join("packages");
            PackageSlot {
                package_directory: packages_directory.join(&name),
                packages_directory,
                log_path: slot_directory.join("packaging.log"),
                marker_path: slot_directory.join("package.json"),
                records_path: slot_directory.join("files.json"),
                signature_path: slot_directory.join("signature.json"),
                lock_path: self.root.join(format!(".{short_key}.lock")),
                name,
                key,
                is_cache: true,
                shared_cache,
            }
        } else {
            let monopile_directory = self.root.join(".monopile");
            PackageSlot {
                packages_directory: self.root.clone(),
                package_directory: self.root.join(&name),
                log_path: monopile_directory.join(format!("{name}.log")),
                marker_path: monopile_directory.join(format!("{name}.json")),
                records_path: monopile_directory.join(format!("{name}.files")),
                signature_path: monopile_directory.join(format!("{name}.signature")),
                lock_path: monopile_directory.join("lock"),
                name,
                key,
                is_cache: false,
                shared_cache,
            }
        }
    }

    /// Locks a `--package-dir` against all other runs.
    pub(super) fn lock_exclusively(
        &self,
        stop_condition: &StopCondition<'_>,
        stage: &Stage,
    ) -> Result<PackageLock> {
        PackageLock::take(&self.root.join(".monopile/lock"), File::try_lock, stop_condition, stage)
    }

    /// Locks a `--package-dir` against changes.
    pub(super) fn lock_shared(
        &self,
        stop_condition: &StopCondition<'_>,
        stage: &Stage,
    ) -> Result<PackageLock> {
        PackageLock::take(&self.root.join(".monopile/lock"), File::try_lock_shared, stop_condition, stage)
    }
}

impl PackageSlot {
    /// Locks the package for building or removing it.
    pub(super) fn lock_exclusively(
        &self,
        stop_condition: &StopCondition<'_>,
        stage: &Stage,
    ) -> Result<PackageLock> {
        PackageLock::take(&self.lock_path, File::try_lock, stop_condition, stage)
    }

    /// Locks the package against being built or removed.
    pub(super) fn lock_shared(
        &self,
        stop_condition: &StopCondition<'_>,
        stage: &Stage,
    ) -> Result<PackageLock> {
        PackageLock::take(&self.lock_path, File::try_lock_shared, stop_condition, stage)
    }

    /// Returns true if the package was completed. Does not look at its files.
    pub(super) fn is_complete(&self) -> bool {
        self.read_stamp().is_some()
    }

    /// Compares the files of the package with their record.
    pub(super) fn state(&self) -> Result<SlotState> {
        let Some(recorded_stamp) = self.read_stamp() else { return Ok(SlotState::Incomplete) };
        // Taken before the files are read, so that a later change will be noticed.
        let stamp = contents::compute_stamp(self.tree())?;
        if stamp == recorded_stamp {
            return Ok(SlotState::Whole);
        }
        let records = contents::read_records(self.tree())?;
        match read_json::<FileRecords>(&self.records_path) {
            Ok(Some(recorded_files)) => match contents::first_difference(&recorded_files, &records) {
                Some(path) => Ok(SlotState::Changed(self.tree().join(path))),
                None => {
                    self.write_marker(Some(&stamp))?;
                    Ok(SlotState::Whole)
                }
            },
            // Without its record, nothing shows that the package is whole.
            Ok(None) | Err(_) => Ok(SlotState::Changed(self.records_path.clone())),
        }
    }

    /// Returns the directory of everything that was made for the package.
    fn tree(&self) -> &Path {
        if self.is_cache { &self.packages_directory } else { &self.package_directory }
    }

    /// Returns the stamp of the package if it was completed, and if it may be used.
    fn read_stamp(&self) -> Option<String> {
        let marker = self.read_marker();
        let is_ours =
            marker.get("key").and_then(Value::as_str) == Some(&self.key) && self.package_directory.is_dir();
        let stamp = marker.get("stamp").and_then(Value::as_str).filter(|_| is_ours).map(str::to_owned);
        stamp.filter(|_| self.shared_cache.trusts(&self.package_id(), &self.signature_path))
    }

    pub(super) fn into_name_and_key(self) -> (String, String) {
        (self.name, self.key)
    }

    /// Returns the id in the shared cache.
    pub(super) fn package_id(&self) -> PackageId<'_> {
        PackageId { kind: PackageKind::Cpi, key: &self.key }
    }

    /// Returns true if the package was copied from the shared cache or a bundle.
    pub(super) fn is_signed(&self) -> bool {
        self.signature_path.exists()
    }

    /// Keeps the signature of a package that was copied from the shared cache.
    pub(super) fn keep_signature(&self, signed_digest: &SignedDigest) -> Result<()> {
        write_json(&self.signature_path, signed_digest, JsonLayout::Compact)
    }

    fn read_marker(&self) -> Value {
        read_json(&self.marker_path).ok().flatten().unwrap_or(Value::Null)
    }

    /// Fails if the directory was not created by this program, and so must not be replaced.
    pub(super) fn check_ours(&self) -> Result<()> {
        if self.package_directory.symlink_metadata().is_ok() && !self.marker_path.is_file() {
            let path = self.package_directory.display().to_string();
            return Err(Error::invalid(format!(
                "the CPI's package '{}' cannot be installed: '{path}' exists, and monopile did not create it",
                self.name
            ))
            .with_hint("choose another directory: `monopile SAME-COMMAND --package-dir DIRECTORY`")
            .with_hint(format!("if it is not needed, remove it: `rm -r {}`", shell_word(&path))));
        }
        Ok(())
    }

    /// Prepares the slot of the package: removes earlier content, and links the dependencies.
    pub(super) fn begin(&self, dependencies: &[PackageSlot]) -> Result<()> {
        if let Some(directory) = self.marker_path.parent() {
            create_private_directory(directory)?;
        }
        self.write_marker(None)?;
        remove_tree(&self.signature_path)?;
        if self.is_cache {
            remove_tree(&self.packages_directory)?;
            create_private_directory(&self.packages_directory)?;
            for dependency in dependencies {
                let link = self.packages_directory.join(&dependency.name);
                symlink(&dependency.package_directory, &link)
                    .map_err(|error| Error::io(format!("linking '{}'", link.display()), error))?;
            }
            return Ok(());
        }
        remove_tree(&self.package_directory)
    }

    /// Marks the package as complete, after all of it is on disk.
    pub(super) fn finish(&self) -> Result<()> {
        #[cfg(target_os = "linux")]
        if let Err(error) =
            File::open(&self.package_directory).and_then(|target| Ok(rustix::fs::syncfs(target)?))
        {
            return Err(Error::io(format!("writing '{}' to disk", self.package_directory.display()), error));
        }
        let stamp = contents::compute_stamp(self.tree())?;
        write_json(&self.records_path, &contents::read_records(self.tree())?, JsonLayout::Compact)?;
        self.write_marker(Some(&stamp))
    }

    /// Records that the package is used now, so that pruning removes only packages that were unused for a
    /// long time.
    pub(super) fn touch(&self) {
        let now = std::time::SystemTime::now();
        if self.is_cache
            && let Err(error) = File::open(&self.marker_path).and_then(|marker| marker.set_modified(now))
        {
            tracing::debug!(%error, "recording the use of a package failed");
        }
    }

    /// Removes the rest of a failed attempt, except its log.
    pub(super) fn discard(&self) {
        if let Err(error) = remove_tree(self.tree()) {
            tracing::warn!(?error, "removing the rest of a failed compilation failed");
        }
    }

    /// Writes the marker of the package. Without a stamp, it marks the package as incomplete.
    fn write_marker(&self, stamp: Option<&str>) -> Result<()> {
        let marker = json!({"package": self.name, "key": self.key, "stamp": stamp});
        write_json(&self.marker_path, &marker, JsonLayout::Compact)
    }
}

impl PackageLock {
    /// Returns an empty input for a process, which then holds the lock as well. The slot stays locked until
    /// that process ends, even if this one is killed.
    pub(super) fn to_input(&self) -> std::io::Result<std::process::Stdio> {
        self.file.try_clone().map(Into::into)
    }

    fn take(
        path: &Path,
        attempt: impl Fn(&File) -> Result<(), TryLockError>,
        stop_condition: &StopCondition<'_>,
        stage: &Stage,
    ) -> Result<PackageLock> {
        let lock_error = |error| Error::io(format!("locking '{}'", path.display()), error);
        let file = File::options().create(true).read(true).append(true).mode(0o600).open(path);
        let file = UnlockOnDrop::from(file.map_err(lock_error)?);
        let mut is_reported = false;
        loop {
            match attempt(&file) {
                Ok(()) => return Ok(PackageLock { file }),
                Err(TryLockError::Error(error)) => return Err(lock_error(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            if !is_reported {
                stage.log_line("waiting for another run that compiles it");
                is_reported = true;
            }
            stop_condition.check()?;
            std::thread::sleep(LOCK_PAUSE);
        }
    }
}

/// Compares the packages in the cache `root` with the records of their files.
pub(super) fn verify(root: &Path, report: &mut VerifyReport) -> Result<()> {
    let mut names: Vec<String> = std::fs::read_dir(root)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort_unstable();
    for name in names {
        let slot_directory = root.join(&name);
        let marker =
            read_json::<Value>(&slot_directory.join("package.json")).ok().flatten().unwrap_or_default();
        // A package that was not completed is never used.
        if marker.get("stamp").is_none_or(Value::is_null) {
            continue;
        }
        let problem = match read_json::<FileRecords>(&slot_directory.join("files.json")) {
            Ok(Some(recorded_files)) => {
                let records = contents::read_records(&slot_directory.join("packages"))?;
                contents::first_difference(&recorded_files, &records)
                    .map(|path| format!("'{path}' has changed"))
            }
            Ok(None) | Err(_) => Some("the record of its files is missing".to_owned()),
        };
        report.add(PackageKind::Cpi.folder(), &name, problem);
    }
    Ok(())
}

/// Removes a directory tree.
pub(super) fn remove_tree(path: &Path) -> Result<()> {
    files::remove_tree(path).map_err(|error| Error::io(format!("removing '{}'", path.display()), error))
}
