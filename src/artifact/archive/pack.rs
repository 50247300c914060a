//! Packs files reproducibly: equal names, modes and contents give equal bytes.
//!
//! Entries are sorted, times and owners are zero, modes are 0755 or 0644, and the gzip header is fixed. Only
//! [`pack_tree`] keeps modes and times.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder, write::GzEncoder};
use tar::{Builder, EntryType, Header};
use walkdir::WalkDir;

use super::Attributes;
use crate::digest::{Algorithm, Digest, HashingWriter};
use base::{Error, Result};

/// The source of one archive entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A file on disk.
    File {
        /// Path of the file. A symbolic link is followed.
        path: PathBuf,
        /// Mode 0755 if true, 0644 if false. `None` takes the executable bits of the file.
        is_executable: Option<bool>,
    },
    /// A symbolic link with this target.
    Link(PathBuf),
    /// A directory.
    Directory,
    /// A file with this content and mode 0644.
    Bytes(Vec<u8>),
}

/// Writes one archive. Entries keep the order in which they are added; sort them for a reproducible result.
pub struct Packer {
    builder: Builder<GzEncoder<HashingWriter<File>>>,
    path: PathBuf,
}

impl Packer {
    /// Creates or overwrites the gzip tar archive `path`.
    pub fn create(path: &Path) -> Result<Self> {
        Packer::with_compression(path, Compression::new(6))
    }

    /// Creates or overwrites the archive `path` for files that are compressed already.
    pub fn create_uncompressed(path: &Path) -> Result<Self> {
        Packer::with_compression(path, Compression::none())
    }

    fn with_compression(path: &Path, compression: Compression) -> Result<Self> {
        let file = File::create(path)
            .map_err(|error| Error::io(format!("creating the archive '{}'", path.display()), error))?;
        let hashing_writer = HashingWriter::new(file, &[Algorithm::Sha1, Algorithm::Sha256]);
        // The header is the same on every machine: no time, no name, operating system "unknown" (255).
        let gzip = GzBuilder::new().mtime(0).operating_system(255).write(hashing_writer, compression);
        Ok(Packer { builder: Builder::new(gzip), path: path.to_owned() })
    }

    /// Adds an entry under `name`, a path relative to the archive's root.
    pub fn add(&mut self, name: &Path, input: &Input) -> Result<()> {
        self.try_add(name, input).map_err(|error| {
            Error::io(format!("packing '{}' into '{}'", name.display(), self.path.display()), error)
        })
    }

    fn try_add(&mut self, name: &Path, input: &Input) -> io::Result<()> {
        match input {
            Input::File { path, is_executable: mode_choice } => {
                let file = File::open(path)?;
                let metadata = file.metadata()?;
                if !metadata.is_file() {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
                }
                let is_executable = mode_choice.unwrap_or_else(|| is_executable(&metadata));
                let mut header = header(EntryType::Regular, if is_executable { 0o755 } else { 0o644 });
                header.set_size(metadata.len());
                // A file that shrinks while it is read would break the archive. `ExactReader` makes that an
                // error.
                let mut reader = ExactReader { file, remaining: metadata.len() };
                self.builder.append_data(&mut header, name, &mut reader)
            }
            Input::Link(target) => {
                self.builder.append_link(&mut header(EntryType::Symlink, 0o777), name, target)
            }
            Input::Directory => {
                self.builder.append_data(&mut header(EntryType::Directory, 0o755), name, io::empty())
            }
            Input::Bytes(content) => {
                let mut header = header(EntryType::Regular, 0o644);
                header.set_size(content.len() as u64);
                self.builder.append_data(&mut header, name, content.as_slice())
            }
        }
    }

    /// Adds a file, a directory or a link with its mode and the time of its last change.
    fn add_exactly(&mut self, name: &Path, path: &Path) -> io::Result<()> {
        let metadata = fs::symlink_metadata(path)?;
        let kind = match metadata.file_type() {
            kind if kind.is_symlink() => EntryType::Symlink,
            kind if kind.is_dir() => EntryType::Directory,
            _ => EntryType::Regular,
        };
        let mut header = header(kind, metadata.mode() & Attributes::ACCESS);
        // Times before 1970 have no form in an archive.
        header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or_default());
        match kind {
            EntryType::Symlink => self.builder.append_link(&mut header, name, fs::read_link(path)?),
            EntryType::Directory => self.builder.append_data(&mut header, name, io::empty()),
            _ => {
                header.set_size(metadata.len());
                let mut reader = ExactReader { file: File::open(path)?, remaining: metadata.len() };
                self.builder.append_data(&mut header, name, &mut reader)
            }
        }
    }

    /// Completes the archive and returns the SHA-1 and SHA-256 digests of its file.
    pub fn finish(self) -> Result<Digest> {
        let pack_error = |error| Error::io(format!("packing '{}'", self.path.display()), error);
        let hashing_writer = self.builder.into_inner().and_then(GzEncoder::finish).map_err(pack_error)?;
        let (file, digest) = hashing_writer.finish().map_err(pack_error)?;
        file.sync_data().map_err(pack_error)?;
        Ok(digest)
    }
}

/// Reads exactly `remaining` bytes of a file. An earlier end of the file is an error.
struct ExactReader {
    file: File,
    remaining: u64,
}

impl io::Read for ExactReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
        let count = self.file.read(&mut buffer[..length])?;
        if count == 0 && length > 0 {
            let text = "the file became shorter while it was being read";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        self.remaining -= count as u64;
        Ok(count)
    }
}

fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header
}

/// Returns true if owner, group or others may execute the file.
pub(crate) fn is_executable(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0
}

/// Lists the tree below `root` as inputs with relative paths, sorted by name. Symbolic links stay links.
/// Anything other than files, directories and links is an error.
pub(crate) fn list_tree(root: &Path) -> Result<Vec<(PathBuf, Input)>> {
    let mut inputs = Vec::new();
    for entry in WalkDir::new(root).min_depth(1).sort_by_file_name() {
        let entry = entry.map_err(|error| {
            Error::failure(format!("reading the directory '{}' failed", root.display())).with_source(error)
        })?;
        // walkdir yields only paths below its root.
        let name = entry.path().strip_prefix(root).unwrap_or(entry.path()).to_owned();
        let kind = entry.file_type();
        let input = if kind.is_symlink() {
            let target = fs::read_link(entry.path()).map_err(|error| {
                Error::io(format!("reading the link '{}'", entry.path().display()), error)
            })?;
            Input::Link(target)
        } else if kind.is_dir() {
            Input::Directory
        } else if kind.is_file() {
            Input::File { path: entry.into_path(), is_executable: None }
        } else {
            let path = entry.path().display();
            let message = format!("'{path}' cannot be packed: it is not a file, a directory or a link");
            return Err(Error::invalid(message).with_hint(format!("delete it: `rm '{path}'`")));
        };
        inputs.push((name, input));
    }
    Ok(inputs)
}

/// Packs everything below `root` into the gzip tar archive `path`, which must not be below `root`. Returns
/// the SHA-1 and SHA-256 digests of the archive.
pub fn pack_directory(root: &Path, path: &Path) -> Result<Digest> {
    let mut packer = Packer::create(path)?;
    for (name, input) in list_tree(root)? {
        packer.add(&name, &input)?;
    }
    packer.finish()
}

/// Packs everything below `root` into the gzip tar archive `path`, which must not be below `root`. With
/// [`unpack_tree`](super::unpack_tree), it gives the same tree again. Returns the SHA-1 and SHA-256 digests
/// of the archive.
pub fn pack_tree(root: &Path, path: &Path) -> Result<Digest> {
    let mut packer = Packer::create(path)?;
    for (name, _) in list_tree(root)? {
        let file = root.join(&name);
        packer
            .add_exactly(&name, &file)
            .map_err(|error| Error::io(format!("packing '{}'", file.display()), error))?;
    }
    packer.finish()
}
