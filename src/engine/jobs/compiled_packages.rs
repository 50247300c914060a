//! The cache of compiled packages on this machine. A new VM reuses the packages that an earlier one compiled.
//!
//! The key of a package covers its content, the keys of everything it was compiled with, and the
//! operating system and version of the stemcell. The file name `compiled/<key>.<sha256>.tgz` holds the key
//! and the SHA-256 of the content. A file appears whole, by a rename, and its content is compared with its
//! name on each use. Several processes can therefore share the directory without a lock, and the package
//! of a corrupt file is compiled again.
//!
//! A package that the cache lacks is copied from the shared cache. Its signature stays beside it, as
//! `.json`, and is verified again on each use, so that it counts only while its key is trusted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

use artifact::digest::HashingWriter;
use artifact::release::Package;
use artifact::shared_cache::{BundledPackage, PackageId, PackageKind, SignedDigest};
use artifact::{Algorithm, Digest, SharedCache, Stemcell};
use base::events::{Stage, Unit};
use base::files::durable::create_private_directory;
use base::files::{JsonLayout, write_json};
use base::{Error, Result};

/// The version of the cache format, a part of every key.
const KEY_FORMAT: &str = "monopile-compiled-2";

/// The extension of the signature beside a package from the shared cache.
const SIGNATURE_EXTENSION: &str = "json";

/// The directory of compiled packages.
#[derive(Debug, Clone)]
pub(super) struct CompiledPackageStore {
    directory: PathBuf,
    shared_cache: SharedCache,
    /// The file names at the first search, sorted.
    names: OnceLock<Vec<String>>,
}

/// The key of a compiled package: a digest of its inputs, as 64 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PackageKey(String);

/// A compiled package in the store, its content verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompiledArchive {
    pub(super) path: PathBuf,
    /// The SHA-256 of the archive.
    pub(super) digest: Digest,
}

impl PackageKey {
    /// Computes the key of a package on this stemcell. `all_dependencies` has the keys of its direct and
    /// indirect dependencies. The key covers the SHA-256 of the content, because a fingerprint is only a
    /// claim of the release.
    pub(super) fn new(
        stemcell: &Stemcell,
        package: &Package,
        all_dependencies: &[&PackageKey],
    ) -> PackageKey {
        PackageKey::of(stemcell, package, &package.content_digest.to_string(), all_dependencies)
    }

    /// Computes the key of a package from the claims of its release, without its content.
    pub(super) fn without_content(
        stemcell: &Stemcell,
        package: &Package,
        all_dependencies: &[&PackageKey],
    ) -> PackageKey {
        PackageKey::of(stemcell, package, "", all_dependencies)
    }

    fn of(
        stemcell: &Stemcell,
        package: &Package,
        content: &str,
        all_dependencies: &[&PackageKey],
    ) -> PackageKey {
        let mut all_dependencies: Vec<&str> = all_dependencies.iter().map(|key| key.0.as_str()).collect();
        all_dependencies.sort_unstable();
        let mut hasher = Sha256::new();
        let parts = [
            KEY_FORMAT,
            &stemcell.operating_system,
            &stemcell.version,
            &package.name,
            &package.fingerprint,
            content,
        ];
        for part in parts.into_iter().chain(all_dependencies) {
            // The length makes the boundary between two parts unambiguous.
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        PackageKey(hex::encode(hasher.finalize()))
    }

    /// Returns the id in the shared cache.
    pub(super) fn package_id(&self) -> PackageId<'_> {
        PackageId { kind: PackageKind::Vm, key: &self.0 }
    }
}

impl CompiledPackageStore {
    /// Returns the store below this cache directory, which takes from `shared_cache` what it lacks.
    pub(super) fn in_cache(cache_directory: &Path, shared_cache: &SharedCache) -> CompiledPackageStore {
        let directory = cache_directory.join(PackageKind::Vm.folder());
        CompiledPackageStore { directory, shared_cache: shared_cache.clone(), names: OnceLock::new() }
    }

    /// Finds the package with this key on this machine. The file must have existed at the first search, and
    /// its content must match its name. If it is from a shared cache, a trusted key must have signed it.
    pub(super) fn find(&self, key: &PackageKey) -> Option<CompiledArchive> {
        let prefix = format!("{}.", key.0);
        let names = self.names.get_or_init(|| self.list());
        let first_index = names.partition_point(|name| *name < prefix);
        for name in names.iter().skip(first_index).take_while(|name| name.starts_with(&prefix)) {
            let Some(sha256) = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".tgz")) else {
                continue;
            };
            let archive = self.directory.join(name);
            let signature = archive.with_extension(SIGNATURE_EXTENSION);
            if !self.shared_cache.trusts(&key.package_id(), &signature) {
                continue;
            }
            match Digest::from_file(&archive, &[Algorithm::Sha256]) {
                Ok(digest) if digest.hex(Algorithm::Sha256) == Some(sha256) => {
                    // The time of last use protects the files from a cleanup of the cache.
                    for path in [&archive, &signature] {
                        let touch_result =
                            File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
                        if let Err(error) = touch_result.or_else(unless_missing) {
                            tracing::debug!(path = %path.display(), %error,
                                "recording the use of a compiled package failed");
                        }
                    }
                    return Some(CompiledArchive { path: archive, digest });
                }
                Ok(_) => {
                    tracing::warn!(path = %archive.display(),
                        "removing a damaged compiled package from the cache");
                    let _ = fs::remove_file(&archive);
                    let _ = fs::remove_file(&signature);
                }
                Err(error) => {
                    tracing::debug!(path = %archive.display(), %error, "reading a compiled package failed")
                }
            }
        }
        None
    }

    /// Returns true if the shared cache has the package with this key.
    pub(super) fn is_shared(&self, key: &PackageKey) -> bool {
        self.shared_cache.find_package(&key.package_id()).is_some()
    }

    /// Copies the package with this key from the shared cache. Returns `None` if the shared cache lacks it or
    /// fails: the package is then compiled.
    pub(super) fn copy_shared(
        &self,
        key: &PackageKey,
        begin_stage: impl FnOnce() -> Stage,
    ) -> Option<CompiledArchive> {
        let package = self.shared_cache.find_package(&key.package_id())?;
        let stage = begin_stage();
        let result = self.write(key, &package.digest, Some(&package.signed_digest), &mut |writer| {
            self.shared_cache
                .copy_package(&package, &mut |part| {
                    stage.report_progress(part.offset, Some(part.total), Unit::Bytes);
                    writer.write_all(part.bytes).map_err(|error| self.write_error(error))
                })?
                .map(drop)
                .ok_or_else(|| Error::failure("the shared cache does not provide it"))
        });
        match result {
            Ok(archive) => {
                stage.finish();
                Some(archive)
            }
            Err(error) => {
                tracing::debug!(?error, "a compiled package is not copied");
                stage.skip("it is compiled instead");
                None
            }
        }
    }

    /// Puts a package of a bundle into the cache of this machine, unless it is there.
    pub(super) fn import(&self, package: &BundledPackage) -> Result<()> {
        let key = PackageKey(package.key.clone());
        if self.find(&key).is_some() {
            return Ok(());
        }
        self.write(&key, &package.digest, Some(&package.signed_digest), &mut |writer| {
            self.copy_file(&package.archive, writer)
        })
        .map(drop)
    }

    fn copy_file(&self, archive: &Path, writer: &mut dyn Write) -> Result<()> {
        let mut file = File::open(archive)
            .map_err(|error| Error::io(format!("reading '{}'", archive.display()), error))?;
        io::copy(&mut file, writer).map(drop).map_err(|error| self.write_error(error))
    }

    fn list(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Stores what `fetch` writes, if it matches the digest `expected`, and uploads it to the shared cache.
    pub(super) fn add(
        &self,
        key: &PackageKey,
        expected: &Digest,
        fetch: &mut dyn FnMut(&mut dyn Write) -> Result<()>,
    ) -> Result<CompiledArchive> {
        let compiled_archive = self.write(key, expected, None, fetch)?;
        self.shared_cache.upload_package(&key.package_id(), &compiled_archive.path, &compiled_archive.digest);
        Ok(compiled_archive)
    }

    /// Does the same as [`Self::add`] with the content of a file.
    pub(super) fn add_file(&self, key: &PackageKey, expected: &Digest, archive: &Path) -> Result<()> {
        self.add(key, expected, &mut |writer| self.copy_file(archive, writer)).map(drop)
    }

    fn write_error(&self, error: io::Error) -> Error {
        Error::io(format!("writing into '{}'", self.directory.display()), error)
    }

    /// Stores what `fetch` writes, with the signature of a package from the shared cache.
    fn write(
        &self,
        key: &PackageKey,
        expected: &Digest,
        signed_digest: Option<&SignedDigest>,
        fetch: &mut dyn FnMut(&mut dyn Write) -> Result<()>,
    ) -> Result<CompiledArchive> {
        let write_error = |error| self.write_error(error);
        create_private_directory(&self.directory).map_err(write_error)?;
        let mut file =
            tempfile::Builder::new().prefix(".new-").tempfile_in(&self.directory).map_err(write_error)?;
        let buffered_file = io::BufWriter::with_capacity(128 * 1024, file.as_file_mut());
        let mut sink = HashingWriter::new(buffered_file, &[expected.strongest(), Algorithm::Sha256]);
        fetch(&mut sink)?;
        let (_, digest) = sink.finish().map_err(write_error)?;
        expected.check(&digest, "the compiled package")?;
        let digest =
            digest.part_for(Algorithm::Sha256).ok_or_else(|| Error::failure("a digest is missing"))?;
        let name = format!("{}.{}.tgz", key.0, digest.hex(Algorithm::Sha256).unwrap_or_default());
        let archive = self.directory.join(name);
        let signature = archive.with_extension(SIGNATURE_EXTENSION);
        file.as_file().sync_all().map_err(write_error)?;
        // Written first, so that a package from the shared cache never lacks its signature.
        if let Some(signed_digest) = signed_digest {
            write_json(&signature, signed_digest, JsonLayout::Compact)?;
        }
        file.persist(&archive).map_err(|error| write_error(error.error))?;
        if signed_digest.is_none() {
            // An earlier run may have copied the same content, signed by a key that is no longer trusted.
            fs::remove_file(&signature).or_else(unless_missing).map_err(write_error)?;
        }
        Ok(CompiledArchive { path: archive, digest })
    }
}

fn unless_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ErrorKind;

    fn stemcell(version: &str) -> Stemcell {
        Stemcell {
            name: "s".into(),
            version: version.into(),
            operating_system: "linux".into(),
            api_version: 3,
            cloud_properties: serde_json::json!({}),
            stemcell_formats: Vec::new(),
            image: PathBuf::new(),
            digest: Digest::compute(b"", &[Algorithm::Sha256]),
            image_digest: None,
            stamp: None,
        }
    }

    fn key(
        stemcell: &Stemcell,
        name: &str,
        fingerprint: &str,
        all_dependencies: &[&PackageKey],
    ) -> PackageKey {
        PackageKey::new(stemcell, &package(name, fingerprint, b""), all_dependencies)
    }

    fn package(name: &str, fingerprint: &str, content: &[u8]) -> Package {
        Package {
            name: name.into(),
            version: fingerprint.into(),
            fingerprint: fingerprint.into(),
            digest: digest(content),
            content_digest: Digest::compute(content, &[Algorithm::Sha256]),
            dependencies: Vec::new(),
            archive: PathBuf::new(),
            compiled_for: None,
        }
    }

    fn digest(content: &[u8]) -> Digest {
        Digest::compute(content, &[Algorithm::Sha1])
    }

    fn put(package_store: &CompiledPackageStore, key: &PackageKey, content: &[u8]) -> CompiledArchive {
        package_store
            .add(key, &digest(content), &mut |writer| {
                writer.write_all(content).map_err(|error| Error::io("x", error))
            })
            .unwrap()
    }

    #[test]
    fn key_depends_on_every_input_of_a_package() {
        let one = stemcell("1");
        let base = key(&one, "a", "f", &[]);
        let dependent = key(&one, "b", "f", &[&base]);
        let keys = [
            key(&stemcell("2"), "a", "f", &[]),
            key(&one, "b", "f", &[]),
            key(&one, "a", "g", &[]),
            key(&one, "a", "f", &[&base]),
            key(&one, "af", "", &[]),
            // The same name and fingerprint, and other content.
            PackageKey::new(&one, &package("a", "f", b"evil"), &[]),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert_ne!(*key, base, "{index}");
        }
        assert_eq!(key(&one, "a", "f", &[]), base);
        assert_eq!(key(&one, "c", "f", &[&base, &dependent]), key(&one, "c", "f", &[&dependent, &base]));
    }

    #[test]
    fn find_returns_kept_packages_and_removes_corrupt_ones() {
        let directory = tempfile::tempdir().unwrap();
        let package_store = CompiledPackageStore::in_cache(directory.path(), &SharedCache::default());
        let (key, other) = (key(&stemcell("1"), "a", "f", &[]), key(&stemcell("1"), "a", "g", &[]));
        let find = |key: &PackageKey| {
            CompiledPackageStore::in_cache(directory.path(), &SharedCache::default()).find(key)
        };
        assert_eq!(find(&key), None);
        let archive = put(&package_store, &key, b"content");
        assert_eq!(find(&key), Some(archive.clone()));
        assert_eq!(put(&package_store, &key, b"content"), archive, "the same package is stored twice");
        assert_eq!(find(&other), None);

        fs::write(&archive.path, b"c0ntent").unwrap();
        assert_eq!(find(&key), None);
        assert!(!archive.path.exists(), "a damaged file was kept");
    }

    #[test]
    fn keep_rejects_content_with_another_digest() {
        let directory = tempfile::tempdir().unwrap();
        let package_store = CompiledPackageStore::in_cache(directory.path(), &SharedCache::default());
        let key = key(&stemcell("1"), "a", "f", &[]);
        let error = package_store
            .add(&key, &digest(b"other"), &mut |writer| {
                writer.write_all(b"content").map_err(|error| Error::io("x", error))
            })
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
        let entries: Vec<_> = fs::read_dir(directory.path().join("compiled")).unwrap().flatten().collect();
        assert!(entries.is_empty(), "{entries:?}");
    }
}
