//! Userlands: root file systems in which CPIs are compiled and run.
//!
//! A userland comes as a directory, as a tarball, as an OCI image in a file or in a registry, as the image of
//! a disk, or as a stemcell whose image is one of these. A directory is used where it is. A file is unpacked
//! into the cache once, under the name of its content:
//!
//! ```text
//! userlands/.<key>.lock    locked during unpacking
//! userlands/<key>.json     the record, written last; the time of the file shows the last use
//! userlands/<key>/         the root file system
//! userlands/partial-<key>/ the root file system while it is unpacked
//! ```
//!
//! The content is untrusted. Devices are left out, and no file keeps its owner or a set-uid bit. Links may
//! point anywhere: [`open_inside`](base::files::open_inside) opens files of the tree without leaving it.

mod image;
mod tree;

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::archive::{self, ArchiveError, Links, UnpackOptions};
use crate::cache::Cache;
use crate::digest::{Algorithm, Digest};
use crate::limits::MAX_DOCUMENT_BYTES;
use crate::{InterruptCheck, Source, disk_image, stemcell};
use base::events::{Stage, Unit};
use base::files::{JsonLayout, UnlockOnDrop, open_inside, read_json, remove_tree, write_json};
use base::{Error, Result};

/// The directory of userlands in the cache.
const USERLANDS_DIRECTORY: &str = "userlands";
/// A root file system has at least one of these directories.
const ROOT_DIRECTORIES: [&str; 2] = ["bin", "usr/bin"];
/// The image of a disk at the top of an archive.
const DISK_FILE: &str = "root.img";
/// Files at the top of an archive that show that it holds a root file system: a disk, or an OCI image.
const IMAGE_FILES: [&str; 3] = [DISK_FILE, image::INDEX_FILE, image::MANIFEST_FILE];
/// The number of names at the top of an archive that are remembered.
const MAX_TOP_NAMES: usize = 100;
/// The pause between attempts to take the lock of a userland that another run unpacks.
const LOCK_PAUSE: Duration = Duration::from_millis(100);
/// The number of digits of its digest that name a userland in the cache.
const KEY_DIGITS: usize = 32;

/// A root file system on this machine.
#[derive(Debug, Clone)]
pub struct Userland {
    /// Its root directory.
    pub root: PathBuf,
    /// SHA-256 of the tarball, or of the content of a directory, as hex digits.
    pub digest: String,
    /// The names of its operating system, such as `ubuntu-jammy` and `ubuntu-22.04`. The first one is that
    /// of the stemcell, if it is one.
    pub operating_systems: Vec<String>,
}

/// The record of an unpacked tarball, image or disk.
#[derive(Serialize, Deserialize)]
struct UnpackedRecord {
    /// The operating system that its `stemcell.MF` names.
    operating_system: Option<String>,
}

/// Opens a userland. Verifies a tarball, and unpacks it into the cache if it is not there.
pub fn open(
    cache: &Cache,
    source: &Source,
    expected: Option<&Digest>,
    interrupt_check: &InterruptCheck,
    stage: &Stage,
) -> Result<Userland> {
    let source_name = source.describe("userland");
    if source.is_directory {
        source.refuse_digest("userland", expected)?;
        if fs::canonicalize(&source.path).is_ok_and(|path| path == Path::new("/")) {
            return Err(Error::invalid(format!("{source_name} is the root of this machine"))
                .with_hint("to use this machine: `monopile SAME-COMMAND --cpi-userland host`"));
        }
        check_root(&source.path, &source_name)?;
        let digest = tree::compute_digest(cache, &source.path)?;
        let root = fs::canonicalize(&source.path)
            .map_err(|error| Error::io(format!("reading '{}'", source.path.display()), error))?;
        let operating_systems = read_operating_systems(&root);
        return Ok(Userland { root, digest, operating_systems });
    }
    let mut algorithms = vec![Algorithm::Sha256];
    algorithms.extend(expected.map(Digest::strongest));
    let mut progress = |bytes, total| stage.report_progress(bytes, Some(total), Unit::Bytes);
    let digest = cache.obtain_digest(&source.path, &algorithms, &mut progress)?;
    if let Some(expected) = expected {
        expected.check_with_hint(&digest, &source_name)?;
    }
    let digest = digest.hex(Algorithm::Sha256).unwrap_or_default().to_owned();
    let key = digest.get(..KEY_DIGITS).unwrap_or(&digest);
    let directory = cache.create_directory(USERLANDS_DIRECTORY)?;
    let (root, record_path) = (directory.join(key), directory.join(format!("{key}.json")));
    let _lock = lock(&directory.join(format!(".{key}.lock")), interrupt_check, stage)?;
    let record = match read_json::<UnpackedRecord>(&record_path).ok().flatten().filter(|_| root.is_dir()) {
        Some(record) => record,
        None => {
            let work_name = format!("partial-{key}");
            // A killed run may have left a tree without its record, or a part of one.
            for path in [&root, &directory.join(&work_name)] {
                remove_tree(path)
                    .map_err(|error| Error::io(format!("removing '{}'", path.display()), error))?;
            }
            let work = tempfile::Builder::new().prefix(&work_name).rand_bytes(0).tempdir_in(&directory);
            let work = work.map_err(|error| {
                Error::io(format!("creating a directory in '{}'", directory.display()), error)
            })?;
            let unpack_stage = stage.reporter().begin_stage(format!("Unpacking {source_name}"));
            let record = unpack(source, &source_name, work.path(), &root, &unpack_stage)?;
            write_json(&record_path, &record, JsonLayout::Compact)?;
            unpack_stage.finish();
            record
        }
    };
    let result = File::options().append(true).open(&record_path);
    // If this fails, the only effect is that the userland is pruned too early.
    let _ = result.and_then(|file| file.set_modified(SystemTime::now()));
    let mut names: Vec<String> = record.operating_system.into_iter().collect();
    names.extend(read_operating_systems(&root));
    Ok(Userland { root, digest, operating_systems: names })
}

/// Locks a userland of the cache against other runs.
fn lock(path: &Path, interrupt_check: &InterruptCheck, stage: &Stage) -> Result<UnlockOnDrop> {
    let lock_error = |error| Error::io(format!("locking '{}'", path.display()), error);
    let file = File::options().create(true).append(true).mode(0o600).open(path).map_err(lock_error)?;
    let file = UnlockOnDrop::from(file);
    let mut is_reported = false;
    loop {
        match file.try_lock() {
            // On a file system without locks, the record still shows that a tree is complete.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
        }
        if !is_reported {
            is_reported = true;
            stage.log_line("waiting for another run that unpacks the same userland");
        }
        interrupt_check()?;
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// Unpacks a file to `root`: a stemcell, or the root file system itself. `work` is an empty directory beside
/// `root`.
fn unpack(
    source: &Source,
    source_name: &str,
    work: &Path,
    root: &Path,
    stage: &Stage,
) -> Result<UnpackedRecord> {
    if let Some(blobs) = &source.image {
        let tree = work.join("tree");
        let layers = image::open_downloaded_layers(blobs, source_name)?;
        image::unpack(layers, work, &tree, source_name)?;
        install_root(&tree, source_name, root)?;
        return Ok(UnpackedRecord { operating_system: None });
    }
    if scan(&source.path, source_name)? != FileContent::Stemcell {
        unpack_root(&source.path, source_name, work, root, stage)?;
        return Ok(UnpackedRecord { operating_system: None });
    }
    let stemcell = stemcell::open(source, None, work, stage)?;
    let image_name = format!("the image of {source_name}");
    scan(&stemcell.image, &image_name)?;
    unpack_root(&stemcell.image, &image_name, work, root, stage)?;
    let operating_system = Some(stemcell.operating_system).filter(|name| !name.is_empty());
    Ok(UnpackedRecord { operating_system })
}

/// The content of a file, as far as its names show it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileContent {
    Stemcell,
    /// A root file system, an image with one, or a disk.
    Root,
}

/// Reads the names in a file until they show its content. Fails if it can hold no root file system, before
/// anything is unpacked.
fn scan(path: &Path, source_name: &str) -> Result<FileContent> {
    let read_error = |error| Error::io(format!("reading {source_name}"), error);
    let head = read_head(path).map_err(read_error)?;
    if head.is_empty() {
        return Err(not_a_root_error(source_name, "it is empty; it is probably that of a light stemcell"));
    }
    if disk_image::is_disk(&head) {
        return Ok(FileContent::Root);
    }
    let mut top_names: Vec<PathBuf> = Vec::new();
    let mut has_directory = false;
    let file = File::open(path).map_err(read_error)?;
    let content = archive::find_entry(file, true, |path, entry, _| {
        if path == Path::new(stemcell::MANIFEST_FILE) && entry.kind.is_file() {
            return Ok(Some(FileContent::Stemcell));
        }
        if ROOT_DIRECTORIES.iter().any(|directory| path.starts_with(directory))
            || IMAGE_FILES.iter().any(|file| path == Path::new(file))
        {
            return Ok(Some(FileContent::Root));
        }
        // The root itself has no name. The first names are enough for the decision below.
        if let Some(name) = path.iter().next().filter(|_| top_names.len() < MAX_TOP_NAMES) {
            has_directory |= path.iter().nth(1).is_some() || entry.kind.is_dir();
            top_names.push(name.into());
        }
        Ok(None)
    });
    let content = content.map_err(|error| match error {
        ArchiveError::NotAnArchive(_) => {
            Error::invalid(format!("{source_name} cannot be unpacked")).with_source(error).with_hint(
                "check the path or URL: a userland is a tar archive, an OCI image, a disk, a stemcell or a \
                 directory",
            )
        }
        error => error.into_error(source_name),
    })?;
    match (content, top_names.as_slice()) {
        (Some(content), _) => Ok(content),
        // The only file of the archive may be a disk.
        (None, [_]) if !has_directory => Ok(FileContent::Root),
        (None, names) => {
            Err(not_a_root_error(source_name, root_problem(|name| names.contains(&name.into()))))
        }
    }
}

/// Unpacks an image to `root`: a disk, an OCI image, or an archive with a disk or with the root file system
/// itself.
fn unpack_root(image: &Path, source_name: &str, work: &Path, root: &Path, stage: &Stage) -> Result<()> {
    let read_error = |error| Error::io(format!("reading {source_name}"), error);
    let (content, tree) = (work.join("content"), work.join("tree"));
    let tree = if disk_image::is_disk(&read_head(image).map_err(read_error)?) {
        // The operator knows a file in `work` by its name in the stemcell.
        let name = image.file_name().filter(|_| image.starts_with(work)).map_or(image, Path::new);
        unpack_disk(image, source_name, name, &tree, stage)?;
        tree
    } else {
        let mut progress = |bytes, total| stage.report_progress(bytes, Some(total), Unit::Bytes);
        archive::unpack_file(image, source_name, &content, None, &options(), &mut progress)?;
        if let Some(layers) = image::open_layers(&content, source_name)? {
            image::unpack(layers, work, &tree, source_name)?;
            tree
        } else if let Some(disk) = find_disk(&content).map_err(read_error)? {
            let name = disk.file_name().map_or(disk.as_path(), Path::new);
            unpack_disk(&disk, source_name, name, &tree, stage)?;
            tree
        } else {
            content
        }
    };
    install_root(&tree, source_name, root)
}

/// Checks the unpacked `tree`, and moves it to `root`.
fn install_root(tree: &Path, source_name: &str, root: &Path) -> Result<()> {
    check_root(tree, source_name)?;
    fs::rename(tree, root).map_err(|error| Error::io(format!("creating '{}'", root.display()), error))
}

/// Returns the rules for unpacking. Links are for the userland, which has devices of its own.
fn options() -> UnpackOptions<'static> {
    UnpackOptions {
        links: Links::Verbatim,
        skips_devices: true,
        accepts_zstd: true,
        ..UnpackOptions::default()
    }
}

/// Unpacks the disk `disk`, whose name is `name` for the operator.
fn unpack_disk(disk: &Path, source_name: &str, name: &Path, tree: &Path, stage: &Stage) -> Result<()> {
    let file = File::open(disk).map_err(|error| Error::io(format!("reading {source_name}"), error))?;
    disk_image::unpack(file, source_name, name, tree, &options(), &mut |bytes| {
        stage.report_progress(bytes, None, Unit::Bytes)
    })
}

/// Finds the image of a disk in an unpacked archive: [`DISK_FILE`], or the only entry at its top.
fn find_disk(tree: &Path) -> io::Result<Option<PathBuf>> {
    let entries: Vec<fs::DirEntry> = fs::read_dir(tree)?.collect::<io::Result<_>>()?;
    let root_image = entries.iter().find(|entry| entry.file_name() == DISK_FILE);
    let ((Some(entry), _) | (None, [entry])) = (root_image, entries.as_slice()) else { return Ok(None) };
    let is_disk = entry.file_type()?.is_file() && disk_image::is_disk(&read_head(&entry.path())?);
    Ok(is_disk.then(|| entry.path()))
}

/// Reads the beginning of a file, by which a disk is recognised.
fn read_head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(disk_image::HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// Fails if a tree is no root file system.
fn check_root(root: &Path, source_name: &str) -> Result<()> {
    let exists = |name: &str| root.join(name).symlink_metadata().is_ok();
    match ROOT_DIRECTORIES.into_iter().any(exists) {
        true => Ok(()),
        false => Err(not_a_root_error(source_name, root_problem(exists))),
    }
}

/// Says why something is no root file system. `exists` returns true for a name at its top.
fn root_problem(exists: impl Fn(&str) -> bool) -> &'static str {
    match exists("image.vmdk") {
        true => "it is a disk in the format VMDK",
        false => "it has neither /bin nor /usr/bin",
    }
}

fn not_a_root_error(source_name: &str, problem: &str) -> Error {
    Error::invalid(format!("{source_name} has no root file system: {problem}")).with_hint(
        "name a directory, a tarball of a root file system, an OCI image, a disk with ext4, or a stemcell \
         for warden or OpenStack",
    )
}

/// Returns the names of the operating system, as stemcells have them: `<id>-<codename>` and `<id>-<version>`.
fn read_operating_systems(root: &Path) -> Vec<String> {
    let paths = ["etc/os-release", "usr/lib/os-release"];
    let Some(text) = paths.iter().find_map(|path| {
        let mut text = String::new();
        let file = open_inside(root, Path::new(path)).ok()?;
        file.take(MAX_DOCUMENT_BYTES).read_to_string(&mut text).ok().map(|_| text)
    }) else {
        return Vec::new();
    };
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.map(|value| value.trim_matches(['"', '\'']).to_owned()).filter(|value| !value.is_empty())
    };
    let Some(id) = value("ID") else { return Vec::new() };
    ["VERSION_CODENAME", "VERSION_ID"]
        .iter()
        .filter_map(|key| Some(format!("{id}-{}", value(key)?)))
        .collect()
}

#[cfg(test)]
mod tests;
