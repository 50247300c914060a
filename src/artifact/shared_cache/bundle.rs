//! Bundles: downloads and compiled packages in one file, for machines without a network.
//!
//! A bundle is a tar archive of the objects of a shared cache, in the gzip format. It is stored without
//! compression, because its entries are compressed already. Unpacked, it is a shared cache in a directory.
//! One more folder has the names of packages of CPIs, which are directories on the machine that imports them:
//!
//! ```text
//! names/<key>    the name of the package
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use super::maintenance::{PACKAGE_KINDS, SIGNED_DIGEST_ENDING, storage_error};
use super::storage::{SharedDirectory, SharedStorage as _};
use super::trust::{PackageId, PackageKind, SignedDigest};
use super::{DOWNLOADS_DIRECTORY, digest_of_download, download_object, maintenance, read_signed_digest};
use crate::archive::{self, Input, Packer, UnpackOptions};
use crate::cache::{Cache, VerifyReport};
use crate::digest::{Algorithm, Digest};
use base::events::{Stage, Unit};
use base::files::directory::{check_directory, parent};
use base::text::shell_word;
use base::{Error, Result};
use net::ssh::{SshKey, VerifyingKey};

/// The folder with the names of packages.
const NAMES_DIRECTORY: &str = "names";
/// The maximum length of the name of a package in bytes: that of a file name.
const MAX_NAME_BYTES: u64 = 255;

/// Writes a bundle.
pub struct BundleWriter<'k> {
    path: PathBuf,
    file: NamedTempFile,
    packer: Packer,
    signing_key: Option<&'k SshKey>,
    objects: BTreeSet<String>,
    content: BundleContent,
}

/// The number of entries in a bundle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct BundleContent {
    /// Number of downloads.
    pub downloads: usize,
    /// Number of compiled packages.
    pub packages: usize,
    /// Size of the bundle in bytes.
    pub bytes: u64,
}

/// A bundle that was unpacked.
pub struct Bundle {
    directory: PathBuf,
    storage: SharedDirectory,
}

/// A verified package of a bundle.
#[derive(Debug)]
pub struct BundledPackage {
    /// Compiled on a VM or in a userland.
    pub kind: PackageKind,
    /// The digest of its inputs.
    pub key: String,
    /// The digest, signed by a trusted key.
    pub signed_digest: SignedDigest,
    /// The SHA-256 of the archive.
    pub digest: Digest,
    /// The archive in the unpacked bundle.
    pub archive: PathBuf,
}

impl<'k> BundleWriter<'k> {
    /// Begins a bundle. It gets its name `path` when it is complete. `signing_key` signs its packages.
    pub fn create(path: &Path, signing_key: Option<&'k SshKey>) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(Error::invalid(format!("'{}' already exists", path.display())).with_hint(format!(
                "name another file for the bundle, or delete this one: `rm {}`",
                shell_word(&path.to_string_lossy())
            )));
        }
        check_directory(parent(path), "")?;
        let file = tempfile::Builder::new()
            .prefix(".bundle-")
            .tempfile_in(parent(path))
            .map_err(|error| bundle_error(path, error))?;
        let packer = Packer::create_uncompressed(file.path())?;
        let (objects, content) = (BTreeSet::new(), BundleContent::default());
        Ok(BundleWriter { path: path.to_owned(), file, packer, signing_key, objects, content })
    }

    /// Adds a download with a verified digest.
    pub fn add_download(&mut self, digest: &Digest, path: &Path) -> Result<()> {
        let is_new = self.add(download_object(digest), &file_input(path))?;
        self.content.downloads += usize::from(is_new);
        Ok(())
    }

    /// Signs a compiled package and adds it. `package` is its name in its release. Does nothing without a
    /// signing key.
    pub fn add_package(
        &mut self,
        id: &PackageId<'_>,
        package: &str,
        archive: &Path,
        digest: &Digest,
    ) -> Result<()> {
        let Some(signing_key) = self.signing_key else { return Ok(()) };
        let size = fs::metadata(archive).map_err(|error| bundle_error(archive, error))?.len();
        let signed_digest = SignedDigest::sign(id, digest, size, signing_key)?;
        let json = serde_json::to_vec(&signed_digest)
            .map_err(|error| Error::failure("writing a signed digest failed").with_source(error))?;
        if self.add(id.signed_digest_object(), &Input::Bytes(json))? {
            self.add(id.archive_object(signed_digest.sha256()), &file_input(archive))?;
            if id.kind == PackageKind::Cpi {
                self.add(format!("{NAMES_DIRECTORY}/{}", id.key), &Input::Bytes(package.into()))?;
            }
            self.content.packages += 1;
        }
        Ok(())
    }

    /// Completes the bundle. Fails if a file of its name was created meanwhile.
    pub fn finish(self) -> Result<BundleContent> {
        let BundleWriter { path, file, packer, content, .. } = self;
        packer.finish()?;
        let bytes = fs::metadata(file.path()).map_err(|error| bundle_error(&path, error))?.len();
        file.persist_noclobber(&path).map_err(|error| bundle_error(&path, error.error))?;
        Ok(BundleContent { bytes, ..content })
    }

    /// Adds an object. Returns false if the bundle has it already.
    fn add(&mut self, object: String, input: &Input) -> Result<bool> {
        if self.objects.contains(&object) {
            return Ok(false);
        }
        self.packer.add(Path::new(&object), input)?;
        Ok(self.objects.insert(object))
    }
}

/// Returns the hint to make the bundle `file`.
fn export_hint(file: &Path) -> String {
    let file = shell_word(&file.to_string_lossy()).into_owned();
    format!("make it on a machine with a network: `monopile cache export MANIFEST {file}`")
}

impl Bundle {
    /// Unpacks a bundle into the new directory `directory`. Its content is not verified yet.
    pub fn unpack(file: &Path, directory: &Path, stage: &Stage) -> Result<Self> {
        if file.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Err(base::files::input::missing_error("the bundle", file).with_hint(export_hint(file)));
        }
        let title = format!("the bundle '{}'", file.display());
        let mut report = |bytes, total| stage.report_progress(bytes, Some(total), Unit::Bytes);
        archive::unpack_file(file, &title, directory, None, &UnpackOptions::default(), &mut report)?;
        let storage = SharedDirectory::new(directory, false);
        // An export without downloads and packages makes an empty archive.
        let is_empty = fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none());
        if !is_empty && maintenance::list(&storage)?.is_empty() {
            return Err(Error::invalid(format!("'{}' is not a bundle", file.display()))
                .with_source("it has neither downloads nor compiled packages")
                .with_hint(export_hint(file)));
        }
        Ok(Bundle { directory: directory.to_owned(), storage })
    }

    /// Compares all entries with their digests and signatures.
    pub fn verify(&self, trusted_keys: &[VerifyingKey]) -> Result<VerifyReport> {
        maintenance::verify(&self.storage, trusted_keys)
    }

    /// Moves the downloads in which `verify_report` names no problem into the cache of this machine.
    pub fn import_downloads(&self, cache: &Cache, verify_report: &VerifyReport) -> Result<()> {
        for object in self.storage.list(DOWNLOADS_DIRECTORY).map_err(storage_error)? {
            let name = &object.name;
            if let Some(expected) =
                digest_of_download(name).filter(|_| !verify_report.has_problem(DOWNLOADS_DIRECTORY, name))
            {
                let path = self.directory.join(DOWNLOADS_DIRECTORY).join(name);
                cache
                    .import(&path, &Digest::from_file(&path, &[expected.strongest(), Algorithm::Sha256])?)?;
            }
        }
        Ok(())
    }

    /// Returns the packages in which `verify_report` names no problem.
    pub fn packages(
        &self,
        trusted_keys: &[VerifyingKey],
        verify_report: &VerifyReport,
    ) -> Result<Vec<BundledPackage>> {
        let mut packages = Vec::new();
        for kind in PACKAGE_KINDS {
            let folder = kind.folder();
            for object in self.storage.list(folder).map_err(storage_error)? {
                let Some(key) = object.name.strip_suffix(SIGNED_DIGEST_ENDING) else { continue };
                if verify_report.has_problem(folder, &object.name) {
                    continue;
                }
                // The key becomes a part of paths.
                if !key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return Err(Error::invalid(format!(
                        "'{folder}/{key}' of the bundle is not the key of a package"
                    )));
                }
                let id = PackageId { kind, key };
                let read = read_signed_digest(&self.storage, &id, trusted_keys);
                if let Some(Ok(package)) = read.map_err(storage_error)? {
                    packages.push(BundledPackage {
                        kind,
                        key: key.to_owned(),
                        archive: self.directory.join(package.object),
                        signed_digest: package.signed_digest,
                        digest: package.digest,
                    });
                }
            }
        }
        Ok(packages)
    }

    /// Returns the name of the package of a CPI with this key. Its signature covers the key, and a run finds
    /// the package only under its own name.
    pub fn package_name(&self, key: &str) -> Result<String> {
        let path = self.directory.join(NAMES_DIRECTORY).join(key);
        let mut name = String::new();
        File::open(&path)
            .and_then(|file| file.take(MAX_NAME_BYTES).read_to_string(&mut name))
            .map_err(|error| Error::io(format!("reading '{NAMES_DIRECTORY}/{key}' of the bundle"), error))?;
        let mut components = Path::new(&name).components();
        match (components.next(), components.next()) {
            (Some(Component::Normal(_)), None) => Ok(name),
            _ => Err(Error::invalid(format!(
                "'{NAMES_DIRECTORY}/{key}' of the bundle has no name of a package"
            ))
            .with_hint("make the bundle again: `monopile cache export MANIFEST FILE`")),
        }
    }
}

fn file_input(path: &Path) -> Input {
    Input::File { path: path.to_owned(), is_executable: Some(false) }
}

fn bundle_error(path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("writing the bundle '{}'", path.display()), error)
}
