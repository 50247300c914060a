//! Unpacks an archive in one pass: hash, inflate, check, write.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use flate2::bufread::MultiGzDecoder;
use tar::EntryType;

use super::reader::{BudgetReader, Compression, Entries, Entry, read_error};
use super::{
    ArchiveError, Attributes, Links, UnpackLimits, UnpackOptions, UnpackedArchive, path, printable, zstd,
};
use crate::digest::{Algorithm, Digest, Hasher, HashingReader};
use crate::read_ahead::{self, CopyError, MIN_THREAD_BYTES, ReadAhead};
use base::{Error, Result};

/// The maximum number of directories remembered as checked. The set is emptied when it is full, to bound
/// memory.
const MAX_CHECKED_DIRECTORIES: usize = 10_000;

/// The maximum size in bytes of all names held until the end: those of directories whose mode is set last,
/// of files that are hashed, and of entries whose attributes are returned. Real archives have some MiB.
const MAX_HELD_NAME_BYTES: usize = 64 << 20;
/// Estimated bytes that holding a name takes in addition to the name.
const HELD_NAME_OVERHEAD_BYTES: usize = 128;

/// Size of the read buffer in bytes.
const BUFFER_BYTES: usize = 128 << 10;

/// A function that gets the bytes of the archive read so far and its size, or 0 if the size is unknown.
pub(super) type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Unpacks the archive `file` into the new directory `destination`, whose parent must exist.
///
/// `source_name` names the archive in errors ("the stemcell 'https://…'"). The tree is at
/// `<destination>.partial` until everything is checked, the digest `expected` included, and is removed on
/// failure.
pub fn unpack_file(
    file: &Path,
    source_name: &str,
    destination: &Path,
    expected: Option<&Digest>,
    options: &UnpackOptions<'_>,
    progress: Progress<'_>,
) -> Result<UnpackedArchive> {
    let read_error = |error| {
        let path = format!("'{}'", file.display());
        let name_and_path = if source_name.contains(&path) {
            source_name.to_owned()
        } else {
            format!("{source_name} ({path})")
        };
        Error::io(format!("reading {name_and_path}"), error)
    };
    let input = File::open(file).map_err(read_error)?;
    let total = input.metadata().map_err(read_error)?.len();
    if total < MIN_THREAD_BYTES {
        let input = hashing_reader(input, expected);
        return unpack_input(input, total, progress, source_name, destination, expected, options);
    }
    std::thread::scope(|scope| {
        let read_ahead =
            ReadAhead::start(scope, input, Hasher::new(&algorithms(expected))).map_err(read_error)?;
        unpack_input(read_ahead, total, progress, source_name, destination, expected, options)
    })
}

/// Unpacks an archive of [`pack_tree`](super::pack_tree) into the new directory `destination`, whose parent
/// must exist. Unlike [`unpack_stream`], sets all modes, also those that keep the owner from writing.
pub fn unpack_tree(
    stream: impl Read,
    source_name: &str,
    destination: &Path,
    expected: &Digest,
) -> Result<()> {
    let options =
        UnpackOptions { links: Links::Verbatim, returns_attributes: true, ..UnpackOptions::default() };
    let content = unpack_stream(stream, source_name, destination, Some(expected), &options)?;
    // The last paths come first: a directory that cannot be written or searched comes after its content.
    for (path, attributes) in content.attributes.iter().rev() {
        if path.as_os_str().is_empty() || !(attributes.is_file() || attributes.is_directory()) {
            continue;
        }
        let path = destination.join(path);
        set_mode(&path, attributes.mode & Attributes::ACCESS)
            .map_err(|error| Error::io(format!("setting the mode of '{}'", path.display()), error))?;
    }
    Ok(())
}

/// Like [`unpack_file`], for an archive that arrives as a stream, such as a request body.
pub fn unpack_stream(
    stream: impl Read,
    source_name: &str,
    destination: &Path,
    expected: Option<&Digest>,
    options: &UnpackOptions<'_>,
) -> Result<UnpackedArchive> {
    let input = hashing_reader(stream, expected);
    unpack_input(input, 0, &mut |_, _| {}, source_name, destination, expected, options)
}

/// Returns the algorithms for the archive file: SHA-256 and the strongest of `expected`.
fn algorithms(expected: Option<&Digest>) -> Vec<Algorithm> {
    let mut algorithms = vec![Algorithm::Sha256];
    algorithms.extend(expected.map(Digest::strongest));
    algorithms
}

/// An archive file that is hashed while it is read.
trait HashedInput: BufRead {
    /// Stops and returns the unread rest and the hasher. All consumed bytes are hashed.
    fn stop(self) -> (impl Read, Hasher);
}

/// Returns a reader that hashes `input` on the thread that unpacks it.
fn hashing_reader<R: Read>(input: R, expected: Option<&Digest>) -> BufReader<HashingReader<R>> {
    BufReader::with_capacity(BUFFER_BYTES, HashingReader::new(input, Hasher::new(&algorithms(expected))))
}

impl<R: Read> HashedInput for BufReader<HashingReader<R>> {
    fn stop(self) -> (impl Read, Hasher) {
        self.into_inner().into_parts()
    }
}

impl<'scope, R: Read + Send + 'scope> HashedInput for ReadAhead<'scope, R> {
    fn stop(self) -> (impl Read, Hasher) {
        ReadAhead::stop(self)
    }
}

/// Unpacks into a directory that is renamed to `destination` at the end, and checks the digest of the whole
/// input. A wrong digest is reported before an error in the archive, which it probably causes.
fn unpack_input(
    mut input: impl HashedInput,
    total: u64,
    progress: Progress<'_>,
    source_name: &str,
    destination: &Path,
    expected: Option<&Digest>,
    options: &UnpackOptions<'_>,
) -> Result<UnpackedArchive> {
    let partial_tree = PartialTree::create(destination)?;
    let outcome = {
        let packed_bytes = Rc::default();
        let inner = &mut input;
        let reader = CountingReader {
            inner,
            packed_bytes: Rc::clone(&packed_bytes),
            total,
            progress,
            reported_bytes: 0,
        };
        let mut tree = UnpackedTree::new(&partial_tree.path, options);
        tree.unpack(reader, packed_bytes).map(|entries| (entries, tree.file_digests, tree.attributes))
    };
    let (mut rest, hasher) = input.stop();
    let (entries, file_digests, attributes) = match outcome {
        Ok(content) => content,
        Err(error) => return Err(unpack_error(error, &mut rest, hasher, source_name, expected)),
    };
    let digest = hasher.finish();
    if let Some(expected) = expected {
        expected.check_with_hint(&digest, source_name)?;
    }
    partial_tree.rename_to(destination)?;
    Ok(UnpackedArchive { digest, file_digests, attributes, entries })
}

/// Unpacks entries that do not come from a tar stream into the new directory `destination`, by the same
/// rules. `add_all` adds them to the tree.
pub(crate) fn unpack_entries(
    source_name: &str,
    destination: &Path,
    options: &UnpackOptions<'_>,
    add_all: impl FnOnce(&mut UnpackedTree<'_>) -> Result<(), ArchiveError>,
) -> Result<()> {
    let partial_tree = PartialTree::create(destination)?;
    let mut tree = UnpackedTree::new(&partial_tree.path, options);
    let result = add_all(&mut tree).and_then(|()| tree.set_modes());
    result.map_err(|error| error.into_error(source_name))?;
    partial_tree.rename_to(destination)
}

/// Converts an error of unpacking. If the archive is damaged and its digest is wrong, the wrong digest
/// becomes the message and the damage its cause.
fn unpack_error(
    error: ArchiveError,
    rest: &mut impl Read,
    mut hasher: Hasher,
    source_name: &str,
    expected: Option<&Digest>,
) -> Error {
    let is_damaged = !matches!(error, ArchiveError::Read(_) | ArchiveError::Write { .. });
    if let Some(expected) = expected
        && is_damaged
        && io::copy(rest, &mut hasher).is_ok()
        && let Err(mismatch) = expected.check_with_hint(&hasher.finish(), source_name)
    {
        return mismatch.with_source(error);
    }
    error.into_error(source_name)
}

/// Returns the content of the regular file `name` in an archive, or `None` if there is no such entry.
///
/// Reads no further than to the end of that entry. A content of more than `limit` bytes is an error.
pub fn read_member(stream: impl Read, name: &Path, limit: u64) -> Result<Option<Vec<u8>>, ArchiveError> {
    find_entry(stream, false, |path, entry, data| {
        if path != name || entry.kind != EntryType::Regular {
            return Ok(None);
        }
        if entry.size > limit {
            return Err(ArchiveError::TooLarge { unit: "bytes in one document", limit });
        }
        let mut content = Vec::new();
        data.read_to_end(&mut content).map_err(read_error)?;
        Ok(Some(content))
    })
}

/// Calls `find` with the path, header and content of each entry of an archive, until it returns something.
/// Writes nothing, and leaves out entries whose names are not acceptable.
pub(crate) fn find_entry<T>(
    stream: impl Read,
    accepts_zstd: bool,
    mut find: impl FnMut(&Path, &Entry, &mut dyn Read) -> Result<Option<T>, ArchiveError>,
) -> Result<Option<T>, ArchiveError> {
    let limits = UnpackLimits::default();
    let packed_bytes = Rc::default();
    let inner = BufReader::with_capacity(BUFFER_BYTES, stream);
    let progress: Progress<'_> = &mut |_, _| {};
    let reader = CountingReader {
        inner,
        packed_bytes: Rc::clone(&packed_bytes),
        total: 0,
        progress,
        reported_bytes: 0,
    };
    let (tar, compression) = decompress(reader, accepts_zstd)?;
    let mut entries = Entries::new(BudgetReader::new(tar, limits, packed_bytes), compression, limits);
    while let Some(entry) = entries.next_entry()? {
        let Ok(path) = path::entry_path(&entry.name) else { continue };
        let result = find(&path, &entry, &mut entries.data())?;
        if result.is_some() {
            return Ok(result);
        }
    }
    Ok(None)
}

/// Returns the tar stream of an archive file, decompressed if the file is gzip, or zstd if it is accepted.
fn decompress<'a>(
    mut raw: impl BufRead + 'a,
    accepts_zstd: bool,
) -> Result<(Box<dyn Read + 'a>, Compression), ArchiveError> {
    let start = raw.fill_buf().map_err(read_error)?;
    match start {
        [] => Err(ArchiveError::Empty),
        [0x1f, 0x8b, ..] => Ok((Box::new(MultiGzDecoder::new(raw)), Compression::Gzip)),
        _ if zstd::is_zstd(start) => {
            if !accepts_zstd {
                return Err(not_supported_error("zstd", accepts_zstd));
            }
            Ok((Box::new(zstd::ZstdReader::new(raw)), Compression::Zstd))
        }
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Err(not_supported_error("xz", accepts_zstd)),
        [b'B', b'Z', b'h', ..] => Err(not_supported_error("bzip2", accepts_zstd)),
        [b'P', b'K', 3, 4, ..] => Err(not_supported_error("zip", accepts_zstd)),
        _ => Ok((Box::new(raw), Compression::None)),
    }
}

fn not_supported_error(format: &str, accepts_zstd: bool) -> ArchiveError {
    let accepted_formats = if accepts_zstd { "tar, gzip and zstd" } else { "tar and gzip" };
    ArchiveError::NotAnArchive(format!("it is {format}, but only {accepted_formats} are supported"))
}

/// The directory that receives the tree until the archive is fully checked. Removed on drop unless renamed.
struct PartialTree {
    path: PathBuf,
    is_renamed: bool,
}

impl PartialTree {
    fn create(destination: &Path) -> Result<Self> {
        let mut name = destination.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let path = destination.with_file_name(name);
        if destination.symlink_metadata().is_ok() {
            let destination = destination.display();
            return Err(Error::failure(format!("cannot unpack into '{destination}': it already exists"))
                .with_hint(format!("move it away: `mv '{destination}' '{destination}.old'`")));
        }
        let create_error = |error| Error::io(format!("creating the directory '{}'", path.display()), error);
        // A killed run may have left it behind.
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(create_error(error)),
            _ => {}
        }
        create_partial_tree(&path).map_err(create_error)?;
        Ok(PartialTree { path, is_renamed: false })
    }

    fn rename_to(mut self, destination: &Path) -> Result<()> {
        fs::rename(&self.path, destination).map_err(|error| {
            Error::io(format!("creating the directory '{}'", destination.display()), error)
        })?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for PartialTree {
    fn drop(&mut self) {
        if !self.is_renamed
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a partially unpacked archive");
        }
    }
}

fn create_partial_tree(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// The tree that is being written.
pub(crate) struct UnpackedTree<'a> {
    root: &'a Path,
    options: &'a UnpackOptions<'a>,
    /// Paths below the root that were found to be directories and not links.
    checked_directories: HashSet<PathBuf>,
    file_digests: BTreeMap<PathBuf, Digest>,
    attributes: BTreeMap<PathBuf, Attributes>,
    /// Size in bytes of the names held until the end.
    held_name_bytes: usize,
    /// Number of directories created. A directory need not have an entry of its own.
    created_directories: u64,
    /// Modes of directories other than 0755. They are set at the end, so that a read-only directory can be
    /// filled.
    modes: Vec<(PathBuf, u32)>,
}

impl<'a> UnpackedTree<'a> {
    fn new(root: &'a Path, options: &'a UnpackOptions<'a>) -> Self {
        let checked_directories = HashSet::new();
        let file_digests = BTreeMap::new();
        let mut attributes = BTreeMap::new();
        if options.returns_attributes {
            attributes.insert(PathBuf::new(), Attributes::IMPLICIT_DIRECTORY);
        }
        UnpackedTree {
            root,
            options,
            checked_directories,
            file_digests,
            attributes,
            held_name_bytes: 0,
            created_directories: 0,
            modes: Vec::new(),
        }
    }

    /// Unpacks all entries and returns their number.
    fn unpack(&mut self, raw: impl BufRead, packed_bytes: Rc<Cell<u64>>) -> Result<u64, ArchiveError> {
        let limits = self.options.limits;
        let (tar, compression) = decompress(raw, self.options.accepts_zstd)?;
        let mut entries = Entries::new(BudgetReader::new(tar, limits, packed_bytes), compression, limits);
        while let Some(entry) = entries.next_entry()? {
            self.add(&entry, entries.data())?;
        }
        let count = entries.count();
        entries.finish()?;
        self.set_modes()?;
        Ok(count)
    }

    /// Writes one entry. `data` is the content of a file.
    pub(crate) fn add(&mut self, entry: &Entry, data: impl Read) -> Result<(), ArchiveError> {
        let name_error = |reason| ArchiveError::Name { name: printable(&entry.name), reason };
        let path = path::entry_path(&entry.name).map_err(name_error)?;
        let is_selected = self.options.selector.is_none_or(|selects| selects(&path));
        match entry.kind {
            EntryType::Regular | EntryType::Continuous if entry.name.ends_with(b"/") => {
                // Before ustar, directories were files with a trailing slash.
                if entry.size > 0 {
                    return Err(ArchiveError::Damaged(format!(
                        "the directory '{}' has data",
                        printable(&entry.name)
                    )));
                }
                self.extract_directory(&path, entry, is_selected)
            }
            EntryType::Regular | EntryType::Continuous => {
                if path.as_os_str().is_empty() {
                    return Err(name_error(path::NameError::Empty));
                }
                if is_selected {
                    self.extract_file(&path, entry, data)?;
                }
                Ok(())
            }
            EntryType::Directory => self.extract_directory(&path, entry, is_selected),
            EntryType::Symlink => self.extract_symlink(&path, entry, is_selected),
            EntryType::Link => self.extract_hard_link(&path, entry, is_selected),
            EntryType::Char | EntryType::Block | EntryType::Fifo if self.options.skips_devices => Ok(()),
            other => {
                let kind = match other {
                    EntryType::Char => "character device".to_owned(),
                    EntryType::Block => "block device".to_owned(),
                    EntryType::Fifo => "fifo".to_owned(),
                    EntryType::GNUSparse => "sparse file".to_owned(),
                    other => format!("'{}' entry", other.as_byte().escape_ascii()),
                };
                Err(ArchiveError::Type { name: printable(&entry.name), kind })
            }
        }
    }

    fn set_modes(&mut self) -> Result<(), ArchiveError> {
        for (path, mode) in self.modes.drain(..) {
            let path = self.root.join(path);
            set_mode(&path, mode).map_err(|source| ArchiveError::Write { path, source })?;
        }
        Ok(())
    }

    fn extract_directory(
        &mut self,
        path: &Path,
        entry: &Entry,
        is_selected: bool,
    ) -> Result<(), ArchiveError> {
        if !is_selected {
            return Ok(());
        }
        let full_mode = Attributes::DIRECTORY | entry.mode & Attributes::PERMISSIONS;
        if path.as_os_str().is_empty() {
            return self.keep_attributes(path, entry, full_mode);
        }
        self.create_parents(path, entry)?;
        self.create_directory(path, entry)?;
        let mode = entry.mode & 0o777 | 0o700;
        if mode != 0o755 {
            self.hold_name(path.as_os_str().len())?;
            self.modes.push((path.to_owned(), mode));
        }
        self.keep_attributes(path, entry, full_mode)
    }

    fn extract_file(&mut self, path: &Path, entry: &Entry, mut data: impl Read) -> Result<(), ArchiveError> {
        self.create_parents(path, entry)?;
        let full_path = self.root.join(path);
        let write_error = |source| self.write_error(path, entry, source);
        // `create_new` never follows a link and never replaces a file.
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&full_path).map_err(write_error)?;
        let hasher = (!self.options.algorithms.is_empty()).then(|| Hasher::new(self.options.algorithms));
        let hasher = read_ahead::copy(&mut data, entry.size, &file, hasher).map_err(|error| match error {
            CopyError::Read(error) => read_error(error),
            CopyError::Write(error) => write_error(error),
        })?;
        // `make` compares times: a generated file must not seem older than its source.
        if let Some(time) = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(entry.mtime)) {
            let _ = file.set_modified(time);
        }
        drop(file);
        set_mode(&full_path, entry.mode & 0o777 | 0o600).map_err(write_error)?;
        if let Some(hasher) = hasher {
            self.hold_name(path.as_os_str().len())?;
            self.file_digests.insert(path.to_owned(), hasher.finish());
        }
        self.keep_attributes(path, entry, Attributes::REGULAR_FILE | entry.mode & Attributes::PERMISSIONS)
    }

    fn extract_symlink(&mut self, path: &Path, entry: &Entry, is_selected: bool) -> Result<(), ArchiveError> {
        let target = entry.link.as_deref().unwrap_or_default();
        let link_error = |reason: String| ArchiveError::Link {
            name: printable(&entry.name),
            target: printable(target),
            reason,
        };
        if path.as_os_str().is_empty() {
            return Err(link_error("it would replace the root of the archive".into()));
        }
        let result = match self.options.links {
            Links::Inside => path::link_target(path, target),
            Links::Verbatim => path::raw_target(target),
        };
        let target = result.map_err(|reason| link_error(reason.to_string()))?;
        if !is_selected {
            return Ok(());
        }
        self.create_parents(path, entry)?;
        make_symlink(&target, &self.root.join(path))
            .map_err(|source| self.write_error(path, entry, source))?;
        // The mode of a link has no effect. Linux shows this one.
        self.keep_attributes(path, entry, Attributes::SYMLINK | 0o777)
    }

    fn extract_hard_link(
        &mut self,
        path: &Path,
        entry: &Entry,
        is_selected: bool,
    ) -> Result<(), ArchiveError> {
        let target = entry.link.as_deref().unwrap_or_default();
        let link_error = |reason: String| ArchiveError::Link {
            name: printable(&entry.name),
            target: printable(target),
            reason,
        };
        let target_path = path::entry_path(target).map_err(|reason| link_error(reason.to_string()))?;
        if path.as_os_str().is_empty() || target_path.as_os_str().is_empty() {
            return Err(link_error("it would replace the root of the archive".into()));
        }
        if !is_selected {
            return Ok(());
        }
        self.create_parents(&target_path, entry)?;
        let full_path = self.root.join(&target_path);
        // The target must be a regular file: a hard link to a symbolic link could point outside.
        if !full_path.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(link_error("the archive has no such file before this link".into()));
        }
        self.create_parents(path, entry)?;
        fs::hard_link(&full_path, self.root.join(path))
            .map_err(|source| self.write_error(path, entry, source))?;
        if let Some(digest) = self.file_digests.get(&target_path).cloned() {
            self.hold_name(path.as_os_str().len())?;
            self.file_digests.insert(path.to_owned(), digest);
        }
        if let Some(attributes) = self.attributes.get(&target_path).copied() {
            self.hold_name(path.as_os_str().len())?;
            self.attributes.insert(path.to_owned(), Attributes { size: 0, ..attributes });
        }
        Ok(())
    }

    /// Keeps the attributes of an entry that was written, if the caller wants them.
    fn keep_attributes(&mut self, path: &Path, entry: &Entry, mode: u32) -> Result<(), ArchiveError> {
        if !self.options.returns_attributes {
            return Ok(());
        }
        let (uid, gid) = entry.owner.ok_or_else(|| {
            ArchiveError::Damaged(format!("the owner of '{}' is not a number", printable(&entry.name)))
        })?;
        self.hold_name(path.as_os_str().len())?;
        self.attributes.insert(path.to_owned(), Attributes { mode, uid, gid, size: entry.size });
        Ok(())
    }

    /// Counts a name that is held until the end against the limit.
    pub(crate) fn hold_name(&mut self, name_bytes: usize) -> Result<(), ArchiveError> {
        self.held_name_bytes += name_bytes + HELD_NAME_OVERHEAD_BYTES;
        if self.held_name_bytes > MAX_HELD_NAME_BYTES {
            return Err(ArchiveError::TooLarge { unit: "bytes of names", limit: MAX_HELD_NAME_BYTES as u64 });
        }
        Ok(())
    }

    /// Creates the directories above `path`. Fails if one of them exists and is a file or a link.
    fn create_parents(&mut self, path: &Path, entry: &Entry) -> Result<(), ArchiveError> {
        let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
            return Ok(());
        };
        if self.checked_directories.contains(parent) {
            return Ok(());
        }
        let mut ancestors: Vec<&Path> =
            parent.ancestors().take_while(|ancestor| !ancestor.as_os_str().is_empty()).collect();
        ancestors.reverse();
        for ancestor in ancestors {
            self.create_directory(ancestor, entry)?;
        }
        Ok(())
    }

    /// Creates the directory `path` unless it exists. Fails if it exists and is a file or a link.
    fn create_directory(&mut self, path: &Path, entry: &Entry) -> Result<(), ArchiveError> {
        if self.checked_directories.contains(path) {
            return Ok(());
        }
        let full_path = self.root.join(path);
        match full_path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => {
                let parent = printable(path.as_os_str().as_encoded_bytes());
                return Err(ArchiveError::Parent { name: printable(&entry.name), parent });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.created_directories += 1;
                self.options.limits.check_entries(self.created_directories)?;
                let result = fs::create_dir(&full_path).and_then(|()| set_mode(&full_path, 0o755));
                result.map_err(|source| ArchiveError::Write { path: full_path.clone(), source })?;
                if self.options.returns_attributes {
                    self.hold_name(path.as_os_str().len())?;
                    self.attributes.insert(path.to_owned(), Attributes::IMPLICIT_DIRECTORY);
                }
            }
            Err(source) => return Err(ArchiveError::Write { path: full_path, source }),
        }
        if self.checked_directories.len() >= MAX_CHECKED_DIRECTORIES {
            self.checked_directories.clear();
        }
        self.checked_directories.insert(path.to_owned());
        Ok(())
    }

    fn write_error(&self, path: &Path, entry: &Entry, source: io::Error) -> ArchiveError {
        match source.kind() {
            io::ErrorKind::AlreadyExists => ArchiveError::Duplicate(printable(&entry.name)),
            _ => ArchiveError::Write { path: self.root.join(path), source },
        }
    }
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn make_symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Counts the bytes read from the archive file, and reports progress after each MiB.
struct CountingReader<'p, R> {
    inner: R,
    packed_bytes: Rc<Cell<u64>>,
    total: u64,
    progress: Progress<'p>,
    /// The value of `packed_bytes` at the last report.
    reported_bytes: u64,
}

impl<R: BufRead> BufRead for CountingReader<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let bytes = self.inner.fill_buf()?;
        let packed_bytes = self.packed_bytes.get();
        if bytes.is_empty() && packed_bytes > self.reported_bytes {
            self.reported_bytes = packed_bytes;
            (self.progress)(packed_bytes, self.total);
        }
        Ok(bytes)
    }

    fn consume(&mut self, count: usize) {
        const CHUNK_BYTES: u64 = 1 << 20;
        self.inner.consume(count);
        let packed_bytes = self.packed_bytes.get() + count as u64;
        self.packed_bytes.set(packed_bytes);
        if packed_bytes - self.reported_bytes >= CHUNK_BYTES {
            self.reported_bytes = packed_bytes;
            (self.progress)(packed_bytes, self.total);
        }
    }
}

impl<R: BufRead> Read for CountingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}
