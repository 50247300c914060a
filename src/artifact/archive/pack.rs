//! Packs files so that equal names, modes and contents give equal bytes: sorted, times and owners zero,
//! modes reduced to whether the file is executable, a fixed gzip header.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder, write::GzEncoder};
use tar::{Builder, EntryType, Header};
use walkdir::WalkDir;

use crate::digest::{Algorithm, Digest, HashingWriter};
use base::{Error, Result};

/// What becomes an entry of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A file on disk. `executable` overrides what its mode says.
    File {
        /// Where it is. A symbolic link is followed.
        path: PathBuf,
        /// 0755 or 0644; as on disk when none.
        executable: Option<bool>,
    },
    /// A symbolic link with this target.
    Link(PathBuf),
    /// A directory.
    Directory,
    /// A file with this content, 0644.
    Bytes(Vec<u8>),
}

/// Writes one archive. Entries must be added in the order wanted; sort them for a reproducible result.
pub struct Packer {
    builder: Builder<GzEncoder<HashingWriter<File>>>,
    path: PathBuf,
}

impl Packer {
    /// Creates (or overwrites) the gzip tar archive `path`.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path)
            .map_err(|error| Error::io(format!("making the archive '{}'", path.display()), error))?;
        let hashing = HashingWriter::new(file, &[Algorithm::Sha1, Algorithm::Sha256]);
        // No time, no name, "unknown" operating system: the same header everywhere.
        let gzip = GzBuilder::new().mtime(0).operating_system(255).write(hashing, Compression::new(6));
        Ok(Packer { builder: Builder::new(gzip), path: path.to_owned() })
    }

    /// Adds one entry.
    pub fn add(&mut self, name: &Path, input: &Input) -> Result<()> {
        self.try_add(name, input).map_err(|error| {
            Error::io(format!("packing '{}' into '{}'", name.display(), self.path.display()), error)
        })
    }

    fn try_add(&mut self, name: &Path, input: &Input) -> io::Result<()> {
        match input {
            Input::File { path, executable } => {
                let file = File::open(path)?;
                let metadata = file.metadata()?;
                if !metadata.is_file() {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
                }
                let executable = executable.unwrap_or_else(|| is_executable(&metadata));
                let mut header = header(EntryType::Regular, if executable { 0o755 } else { 0o644 });
                header.set_size(metadata.len());
                // A file that shrinks meanwhile would leave a broken archive; `take` and the check below
                // make it an error.
                let mut exact = Exact { file, left: metadata.len() };
                self.builder.append_data(&mut header, name, &mut exact)
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

    /// Ends the archive. The digest is that of the archive file, SHA-1 and SHA-256.
    pub fn finish(self) -> Result<Digest> {
        let packing = |error| Error::io(format!("packing '{}'", self.path.display()), error);
        let hashing = self.builder.into_inner().and_then(GzEncoder::finish).map_err(packing)?;
        let (file, digest) = hashing.finish().map_err(packing)?;
        file.sync_data().map_err(packing)?;
        Ok(digest)
    }
}

/// Yields exactly as many bytes as announced, or an error.
struct Exact {
    file: File,
    left: u64,
}

impl io::Read for Exact {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.file.read(&mut buffer[..wanted])?;
        if count == 0 && wanted > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter while it was read"));
        }
        self.left -= count as u64;
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

/// Whether anybody may execute it.
#[cfg(unix)]
pub(crate) fn is_executable(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0
}

/// Whether anybody may execute it.
#[cfg(not(unix))]
pub(crate) fn is_executable(_metadata: &fs::Metadata) -> bool {
    false
}

/// The tree below `root`, sorted by name, as inputs: symbolic links stay links, anything that is neither
/// file, directory nor link is an error.
pub(crate) fn tree(root: &Path) -> Result<Vec<(PathBuf, Input)>> {
    let mut inputs = Vec::new();
    for entry in WalkDir::new(root).min_depth(1).sort_by_file_name() {
        let entry = entry.map_err(|error| {
            Error::environment(format!("reading the directory '{}' failed", root.display()))
                .with_source(error)
        })?;
        // Cannot fail: walkdir yields paths below its root.
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
            Input::File { path: entry.into_path(), executable: None }
        } else {
            return Err(Error::invalid(format!(
                "'{}' cannot be packed: it is neither a file, a directory nor a link",
                entry.path().display()
            )));
        };
        inputs.push((name, input));
    }
    Ok(inputs)
}

/// Packs everything below `root` into the gzip tar archive `path`, which must not lie below `root`.
/// Returns the archive's digest, SHA-1 and SHA-256.
pub fn pack_directory(root: &Path, path: &Path) -> Result<Digest> {
    let mut packer = Packer::create(path)?;
    for (name, input) in tree(root)? {
        packer.add(&name, &input)?;
    }
    packer.finish()
}
