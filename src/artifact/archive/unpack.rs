//! Unpacks one archive in one pass: hash, inflate, check, write.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use flate2::bufread::MultiGzDecoder;
use tar::EntryType;

use super::reader::{Budget, Entries, Entry, read_error};
use super::{ArchiveError, Limits, Links, Options, Unpacked, path, printable};
use crate::digest::{Algorithm, Digest, Hasher, HashingReader};
use crate::overlap::{self, CopyError, ReadAhead, WORTH_A_THREAD};
use base::{Error, Result};

/// Directories known to be real ones; emptied when it grows beyond this, so that memory stays flat.
const KNOWN_DIRECTORIES: usize = 10_000;

/// How many bytes of names are kept until the end: of directories whose mode is set last, of files whose digest is
/// wanted. An archive in use has some MiB.
const KEPT_NAMES: usize = 64 << 20;
/// What keeping a name costs beside the name.
const KEPT_OVERHEAD: usize = 128;

/// How much of an archive is read at once.
const BUFFER: usize = 128 << 10;

/// Called with bytes done and bytes in all.
pub(super) type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Unpacks the archive `file` into the new directory `dest`, which must not exist; its parent must.
///
/// `what` names the archive in errors ("the stemcell 'https://…'"). With `expected`, the archive's own
/// digest is checked in the same pass. Until everything is checked the tree is at `<dest>.partial`; on
/// failure it is removed.
pub fn unpack_file(
    file: &Path,
    what: &str,
    dest: &Path,
    expected: Option<&Digest>,
    options: &Options<'_>,
    progress: Progress<'_>,
) -> Result<Unpacked> {
    let reading = |error| Error::io(format!("reading {what} ('{}')", file.display()), error);
    let input = File::open(file).map_err(reading)?;
    let total = input.metadata().map_err(reading)?.len();
    if total < WORTH_A_THREAD {
        return unpack_counted(here(input, expected), total, progress, what, dest, expected, options);
    }
    std::thread::scope(|scope| {
        let ahead = ReadAhead::start(scope, input, Hasher::new(&algorithms(expected))).map_err(reading)?;
        unpack_counted(ahead, total, progress, what, dest, expected, options)
    })
}

/// Like [`unpack_file`], for an archive that arrives as a stream: a request body, a file in memory.
pub fn unpack_stream(
    stream: impl Read,
    what: &str,
    dest: &Path,
    expected: Option<&Digest>,
    options: &Options<'_>,
) -> Result<Unpacked> {
    unpack_counted(here(stream, expected), 0, &mut |_, _| {}, what, dest, expected, options)
}

/// What an archive's own digest is computed by.
fn algorithms(expected: Option<&Digest>) -> Vec<Algorithm> {
    let mut algorithms = vec![Algorithm::Sha256];
    algorithms.extend(expected.map(Digest::strongest));
    algorithms
}

/// An archive that is hashed as it is read.
trait Hashed: BufRead {
    /// Ends it; all that was used is hashed. Gives what is left of it.
    fn stop(self) -> (impl Read, Hasher);
}

/// One that is read and hashed where it is unpacked.
fn here<R: Read>(input: R, expected: Option<&Digest>) -> BufReader<HashingReader<R>> {
    BufReader::with_capacity(BUFFER, HashingReader::new(input, Hasher::new(&algorithms(expected))))
}

impl<R: Read> Hashed for BufReader<HashingReader<R>> {
    fn stop(self) -> (impl Read, Hasher) {
        self.into_inner().into_parts()
    }
}

impl<'scope, R: Read + Send + 'scope> Hashed for ReadAhead<'scope, R> {
    fn stop(self) -> (impl Read, Hasher) {
        ReadAhead::stop(self)
    }
}

fn unpack_counted(
    mut input: impl Hashed,
    total: u64,
    progress: Progress<'_>,
    what: &str,
    dest: &Path,
    expected: Option<&Digest>,
    options: &Options<'_>,
) -> Result<Unpacked> {
    let partial = Partial::create(dest)?;
    let outcome = {
        let packed = Rc::default();
        let counted = Counting { inner: &mut input, packed: Rc::clone(&packed), total, progress, told: 0 };
        let mut tree = Tree::new(&partial.path, options);
        tree.unpack(counted, packed).map(|entries| (entries, tree.digests))
    };
    let (mut rest, hasher) = input.stop();
    let (entries, files) = match outcome {
        Ok(done) => done,
        Err(error) => return Err(explain(error, &mut rest, hasher, what, expected)),
    };
    let digest = hasher.finish();
    if let Some(expected) = expected {
        expected.check(&digest, what)?;
    }
    partial.keep(dest)?;
    Ok(Unpacked { digest, files, entries })
}

/// An archive that cannot be unpacked and is not the expected one either is reported as not the expected
/// one: that is the more useful thing to know.
fn explain(
    error: ArchiveError,
    rest: &mut impl Read,
    mut hasher: Hasher,
    what: &str,
    expected: Option<&Digest>,
) -> Error {
    let damage = !matches!(error, ArchiveError::Read(_) | ArchiveError::Write { .. });
    if let Some(expected) = expected
        && damage
        && io::copy(rest, &mut hasher).is_ok()
        && let Err(mismatch) = expected.check(&hasher.finish(), what)
    {
        return mismatch.with_source(error);
    }
    error.about(what)
}

/// Reads one small file out of an archive and nothing more than it takes to find it: a stemcell's
/// `stemcell.MF`. None when the archive has no such entry. `limit` bounds its size.
pub fn read_member(stream: impl Read, name: &Path, limit: u64) -> Result<Option<Vec<u8>>, ArchiveError> {
    let limits = Limits::default();
    let packed = Rc::default();
    let inner = BufReader::with_capacity(BUFFER, stream);
    let counted = Counting { inner, packed: Rc::clone(&packed), total: 0, progress: &mut |_, _| {}, told: 0 };
    let mut entries = Entries::new(Budget::new(inflate(counted)?, limits, packed), limits);
    while let Some(entry) = entries.next_entry()? {
        let found = path::entry_path(&entry.name).is_ok_and(|candidate| candidate == name);
        if found && entry.kind == EntryType::Regular {
            if entry.size > limit {
                return Err(ArchiveError::TooLarge { what: "bytes in one document", limit });
            }
            let mut content = Vec::new();
            entries.data().read_to_end(&mut content).map_err(read_error)?;
            return Ok(Some(content));
        }
    }
    Ok(None)
}

/// The tar stream of an archive: inflated if it is gzip.
fn inflate<'a>(mut raw: impl BufRead + 'a) -> Result<Box<dyn Read + 'a>, ArchiveError> {
    let start = raw.fill_buf().map_err(read_error)?;
    match start {
        [] => Err(ArchiveError::Empty),
        [0x1f, 0x8b, ..] => Ok(Box::new(MultiGzDecoder::new(raw))),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Err(not_supported("zstd")),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Err(not_supported("xz")),
        [b'B', b'Z', b'h', ..] => Err(not_supported("bzip2")),
        [b'P', b'K', 3, 4, ..] => Err(not_supported("zip")),
        _ => Ok(Box::new(raw)),
    }
}

fn not_supported(format: &str) -> ArchiveError {
    ArchiveError::NotAnArchive(format!("it is {format}; only tar, plain or gzip, is read"))
}

/// The directory an archive is unpacked into until it is known to be good. Removed when dropped.
struct Partial {
    path: PathBuf,
    kept: bool,
}

impl Partial {
    fn create(dest: &Path) -> Result<Self> {
        let mut name = dest.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let path = dest.with_file_name(name);
        if dest.symlink_metadata().is_ok() {
            return Err(Error::environment(format!("'{}' is in the way: it exists already", dest.display())));
        }
        let making = |error| Error::io(format!("making the directory '{}'", path.display()), error);
        // Left over by a run that was killed.
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(making(error)),
            _ => {}
        }
        create_dir(&path).map_err(making)?;
        Ok(Partial { path, kept: false })
    }

    fn keep(mut self, dest: &Path) -> Result<()> {
        fs::rename(&self.path, dest)
            .map_err(|error| Error::io(format!("making the directory '{}'", dest.display()), error))?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a partly unpacked archive");
        }
    }
}

fn create_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// The tree being written.
struct Tree<'a> {
    root: &'a Path,
    options: &'a Options<'a>,
    /// Below the root; known to be directories and not links.
    directories: HashSet<PathBuf>,
    digests: BTreeMap<PathBuf, Digest>,
    /// Bytes of names that are kept until the end.
    kept: usize,
    /// Directories made, most of which need no entry of their own.
    made: u64,
}

impl<'a> Tree<'a> {
    fn new(root: &'a Path, options: &'a Options<'a>) -> Self {
        Tree { root, options, directories: HashSet::new(), digests: BTreeMap::new(), kept: 0, made: 0 }
    }

    /// Returns how many entries there were.
    fn unpack(&mut self, raw: impl BufRead, packed: Rc<Cell<u64>>) -> Result<u64, ArchiveError> {
        let limits = self.options.limits;
        let mut entries = Entries::new(Budget::new(inflate(raw)?, limits, packed), limits);
        // Directory modes are set last: one without write permission must not stop its own content. Only
        // those that differ from the default are remembered.
        let mut modes = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            let refused = |reason| ArchiveError::Name { name: printable(&entry.name), reason };
            let path = path::entry_path(&entry.name).map_err(refused)?;
            let wanted = self.options.only.is_none_or(|only| only(&path));
            match entry.kind {
                EntryType::Regular | EntryType::Continuous if entry.name.ends_with(b"/") => {
                    // How directories were written before ustar.
                    if entry.size > 0 {
                        return Err(ArchiveError::Damaged(format!(
                            "the directory '{}' has data",
                            printable(&entry.name)
                        )));
                    }
                    self.directory(&path, &entry, wanted, &mut modes)?;
                }
                EntryType::Regular | EntryType::Continuous => {
                    if path.as_os_str().is_empty() {
                        return Err(refused(path::NameError::Empty));
                    }
                    if wanted {
                        self.file(&path, &entry, entries.data())?;
                    }
                }
                EntryType::Directory => self.directory(&path, &entry, wanted, &mut modes)?,
                EntryType::Symlink => self.symlink(&path, &entry, wanted)?,
                EntryType::Link => self.hard_link(&path, &entry, wanted)?,
                other => {
                    let kind = match other {
                        EntryType::Char => "character device".to_owned(),
                        EntryType::Block => "block device".to_owned(),
                        EntryType::Fifo => "fifo".to_owned(),
                        EntryType::GNUSparse => "sparse file".to_owned(),
                        other => format!("'{}' entry", other.as_byte().escape_ascii()),
                    };
                    return Err(ArchiveError::Type { name: printable(&entry.name), kind });
                }
            }
        }
        let count = entries.count();
        entries.finish()?;
        for (path, mode) in modes {
            let path = self.root.join(path);
            set_mode(&path, mode).map_err(|source| ArchiveError::Write { path, source })?;
        }
        Ok(count)
    }

    fn directory(
        &mut self,
        path: &Path,
        entry: &Entry,
        wanted: bool,
        modes: &mut Vec<(PathBuf, u32)>,
    ) -> Result<(), ArchiveError> {
        if !wanted || path.as_os_str().is_empty() {
            return Ok(());
        }
        self.parents(path, entry)?;
        self.real_directory(path, entry)?;
        let mode = entry.mode & 0o777 | 0o700;
        if mode != 0o755 {
            self.keep(path)?;
            modes.push((path.to_owned(), mode));
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, entry: &Entry, mut data: impl Read) -> Result<(), ArchiveError> {
        self.parents(path, entry)?;
        let full = self.root.join(path);
        let write = |source| self.write_error(path, entry, source);
        // `create_new` never follows or replaces what is there.
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&full).map_err(write)?;
        let hasher = (!self.options.hash.is_empty()).then(|| Hasher::new(self.options.hash));
        let hasher = overlap::copy(&mut data, entry.size, &file, hasher).map_err(|error| match error {
            CopyError::Read(error) => read_error(error),
            CopyError::Write(error) => write(error),
        })?;
        // Builds look at times: a generated file must not seem older than what it was generated from.
        if let Some(time) = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(entry.mtime)) {
            let _ = file.set_modified(time);
        }
        drop(file);
        set_mode(&full, entry.mode & 0o777 | 0o600).map_err(write)?;
        if let Some(hasher) = hasher {
            self.keep(path)?;
            self.digests.insert(path.to_owned(), hasher.finish());
        }
        Ok(())
    }

    fn symlink(&mut self, path: &Path, entry: &Entry, wanted: bool) -> Result<(), ArchiveError> {
        let target = entry.link.as_deref().unwrap_or_default();
        let refused = |reason: String| ArchiveError::Link {
            name: printable(&entry.name),
            target: printable(target),
            reason,
        };
        if path.as_os_str().is_empty() {
            return Err(refused("it is the archive's root".into()));
        }
        let checked = match self.options.links {
            Links::Inside => path::link_target(path, target),
            Links::Verbatim => path::raw_target(target),
        };
        let target = checked.map_err(|reason| refused(reason.to_string()))?;
        if !wanted {
            return Ok(());
        }
        self.parents(path, entry)?;
        make_symlink(&target, &self.root.join(path)).map_err(|source| self.write_error(path, entry, source))
    }

    fn hard_link(&mut self, path: &Path, entry: &Entry, wanted: bool) -> Result<(), ArchiveError> {
        let target = entry.link.as_deref().unwrap_or_default();
        let refused = |reason: String| ArchiveError::Link {
            name: printable(&entry.name),
            target: printable(target),
            reason,
        };
        let from = path::entry_path(target).map_err(|reason| refused(reason.to_string()))?;
        if path.as_os_str().is_empty() || from.as_os_str().is_empty() {
            return Err(refused("it is the archive's root".into()));
        }
        if !wanted {
            return Ok(());
        }
        self.parents(&from, entry)?;
        let full = self.root.join(&from);
        // A link to a link would be a second name for something that leads elsewhere.
        if !full.symlink_metadata().is_ok_and(|found| found.is_file()) {
            return Err(refused("there is no such file in the archive before it".into()));
        }
        self.parents(path, entry)?;
        fs::hard_link(&full, self.root.join(path)).map_err(|source| self.write_error(path, entry, source))?;
        if let Some(digest) = self.digests.get(&from).cloned() {
            self.keep(path)?;
            self.digests.insert(path.to_owned(), digest);
        }
        Ok(())
    }

    /// A name is about to be kept until the end.
    fn keep(&mut self, path: &Path) -> Result<(), ArchiveError> {
        self.kept += path.as_os_str().len() + KEPT_OVERHEAD;
        if self.kept > KEPT_NAMES {
            return Err(ArchiveError::TooLarge { what: "bytes of names", limit: KEPT_NAMES as u64 });
        }
        Ok(())
    }

    /// Makes the directories above `path`, and is sure that each is one and no link.
    fn parents(&mut self, path: &Path, entry: &Entry) -> Result<(), ArchiveError> {
        let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
            return Ok(());
        };
        if self.directories.contains(parent) {
            return Ok(());
        }
        let mut ancestors: Vec<&Path> =
            parent.ancestors().take_while(|ancestor| !ancestor.as_os_str().is_empty()).collect();
        ancestors.reverse();
        for ancestor in ancestors {
            self.real_directory(ancestor, entry)?;
        }
        Ok(())
    }

    fn real_directory(&mut self, path: &Path, entry: &Entry) -> Result<(), ArchiveError> {
        if self.directories.contains(path) {
            return Ok(());
        }
        let full = self.root.join(path);
        match full.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                let parent = printable(path.as_os_str().as_encoded_bytes());
                return Err(ArchiveError::Parent { name: printable(&entry.name), parent });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.made += 1;
                let limit = self.options.limits.entries;
                if self.made > limit {
                    return Err(ArchiveError::TooLarge { what: "entries", limit });
                }
                let made = fs::create_dir(&full).and_then(|()| set_mode(&full, 0o755));
                made.map_err(|source| ArchiveError::Write { path: full.clone(), source })?;
            }
            Err(source) => return Err(ArchiveError::Write { path: full, source }),
        }
        if self.directories.len() >= KNOWN_DIRECTORIES {
            self.directories.clear();
        }
        self.directories.insert(path.to_owned());
        Ok(())
    }

    fn write_error(&self, path: &Path, entry: &Entry, source: io::Error) -> ArchiveError {
        match source.kind() {
            io::ErrorKind::AlreadyExists => ArchiveError::Twice(printable(&entry.name)),
            _ => ArchiveError::Write { path: self.root.join(path), source },
        }
    }
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn make_symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn make_symlink(_target: &Path, _link: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "symbolic links are unpacked on Unix only"))
}

/// Counts what is read from the archive file and tells about it now and then.
struct Counting<'p, R> {
    inner: R,
    packed: Rc<Cell<u64>>,
    total: u64,
    progress: Progress<'p>,
    told: u64,
}

impl<R: BufRead> BufRead for Counting<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let bytes = self.inner.fill_buf()?;
        let done = self.packed.get();
        if bytes.is_empty() && done > self.told {
            self.told = done;
            (self.progress)(done, self.total);
        }
        Ok(bytes)
    }

    fn consume(&mut self, count: usize) {
        const STEP: u64 = 1 << 20;
        self.inner.consume(count);
        let done = self.packed.get() + count as u64;
        self.packed.set(done);
        if done - self.told >= STEP {
            self.told = done;
            (self.progress)(done, self.total);
        }
    }
}

impl<R: BufRead> Read for Counting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}
