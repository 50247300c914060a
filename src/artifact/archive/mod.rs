//! Tar archives, plain, gzip or zstd: unpacks untrusted ones, and packs directories reproducibly (equal
//! contents give equal bytes).
//!
//! Every archive is untrusted. [`unpack_file`] writes into a temporary directory beside the destination. It
//! renames that directory after all checks, including the digest. After a failure nothing is left.
//!
//! - Names: relative, without `..` and NUL, and short enough for a file system. A name that occurs twice is
//!   refused, so that no entry can replace a checked one. Directories may repeat.
//! - Types: files, directories, symbolic and hard links. Sparse files are refused, and so are devices and
//!   fifos, unless [`UnpackOptions::skips_devices`] leaves them out.
//! - Links: a symbolic link must stay inside ([`Links::Inside`]) or is written unchanged
//!   ([`Links::Verbatim`]). Nothing is ever written through a link. A hard link must name a file that was
//!   unpacked before it.
//! - Modes: only permission bits, never setuid, setgid or sticky. The owner can always read and write. With
//!   [`UnpackOptions::returns_attributes`], the caller gets the modes and owners that the archive has.
//! - Limits: entries, bytes, compression ratio, name lengths, extension headers ([`UnpackLimits`]). Memory
//!   use is bounded.
//! - Case: two names that differ only in case are distinct, as on Linux. On a file system that ignores case,
//!   the second one is refused as a duplicate.

mod pack;
pub mod path;
mod reader;
mod unpack;
mod zstd;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use pack::{Input, Packer, pack_directory, pack_tree};
pub(crate) use pack::{is_executable, list_tree};
pub use path::NameError;
pub(crate) use reader::{Entry, read_error};
pub(crate) use unpack::{UnpackedTree, find_entry, unpack_entries};
pub use unpack::{read_member, unpack_file, unpack_stream, unpack_tree};

use super::digest::{Algorithm, Digest};
use base::Error;

/// Limits on the content of an archive.
#[derive(Debug, Clone, Copy)]
pub struct UnpackLimits {
    /// Number of entries, including directories and links.
    pub entries: u64,
    /// Size of the uncompressed tar stream in bytes, including headers.
    pub bytes: u64,
    /// Unpacked bytes per byte of the archive. This limit applies above [`UnpackLimits::RATIO_FLOOR_BYTES`].
    pub ratio: u64,
}

impl UnpackLimits {
    /// The ratio is checked above this number of unpacked bytes. Small files of zeros compress a thousandfold
    /// and are harmless.
    pub const RATIO_FLOOR_BYTES: u64 = 128 << 20;

    /// Checks the number of unpacked bytes, and their ratio to the bytes of the source. `ratio_unit` is the
    /// unit of the ratio in the error.
    pub(crate) fn check_bytes(
        &self,
        unpacked_bytes: u64,
        source_bytes: u64,
        ratio_unit: &'static str,
    ) -> Result<(), ArchiveError> {
        if unpacked_bytes > self.bytes {
            return Err(ArchiveError::TooLarge { unit: "bytes", limit: self.bytes });
        }
        if unpacked_bytes > Self::RATIO_FLOOR_BYTES && unpacked_bytes / source_bytes.max(1) > self.ratio {
            return Err(ArchiveError::TooLarge { unit: ratio_unit, limit: self.ratio });
        }
        Ok(())
    }

    /// Checks the number of entries.
    pub(crate) fn check_entries(&self, entries: u64) -> Result<(), ArchiveError> {
        match entries > self.entries {
            true => Err(ArchiveError::TooLarge { unit: "entries", limit: self.entries }),
            false => Ok(()),
        }
    }
}

impl Default for UnpackLimits {
    /// Limits well above real releases and stemcells. The largest have about 100,000 files and 10 GiB.
    fn default() -> Self {
        UnpackLimits { entries: 500_000, bytes: 64 << 30, ratio: 200 }
    }
}

/// Treatment of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Links {
    /// A link's target must be inside the archive's root.
    #[default]
    Inside,
    /// Links are written unchanged, even absolute ones. The root file system of a machine needs this, and
    /// compiled packages, whose links point into `/var/vcap`. Code that reads the tree must not follow them.
    Verbatim,
}

/// Options of [`unpack_file`] and [`unpack_stream`].
#[derive(Default, Clone, Copy)]
pub struct UnpackOptions<'a> {
    /// Limits on the content.
    pub limits: UnpackLimits,
    /// Treatment of symbolic links.
    pub links: Links,
    /// Selects the entries to write by their path; `None` writes all. Other entries are still checked.
    pub selector: Option<&'a dyn Fn(&Path) -> bool>,
    /// Accepts an archive in zstd. For layers of images and root file systems.
    pub accepts_zstd: bool,
    /// Leaves out devices, fifos and sockets instead of refusing the archive. For root file systems.
    pub skips_devices: bool,
    /// Hash algorithms for every file written. Empty for none.
    pub algorithms: &'a [Algorithm],
    /// Returns the owner and the mode of everything written.
    pub returns_attributes: bool,
}

/// The attributes of an entry in the archive. Unpacking does not set all of them: it needs no root, and no
/// file that it writes is setuid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The type and the mode with all bits, as in stat(2).
    pub mode: u32,
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The size in bytes. 0 for anything but a regular file, and for a hard link.
    pub size: u64,
}

impl Attributes {
    /// The bits of [`Attributes::mode`] with the type.
    const TYPE: u32 = 0o170_000;
    /// The type of a regular file.
    const REGULAR_FILE: u32 = 0o100_000;
    /// The type of a directory.
    const DIRECTORY: u32 = 0o040_000;
    /// The type of a symbolic link.
    const SYMLINK: u32 = 0o120_000;
    /// The bits without the type.
    const PERMISSIONS: u32 = 0o7777;
    /// The bits that say who may read, write and execute.
    const ACCESS: u32 = 0o777;

    /// The attributes of a directory that has no entry of its own.
    const IMPLICIT_DIRECTORY: Attributes =
        Attributes { mode: Attributes::DIRECTORY | 0o755, uid: 0, gid: 0, size: 0 };

    /// Returns true for a regular file.
    pub fn is_file(&self) -> bool {
        self.mode & Attributes::TYPE == Attributes::REGULAR_FILE
    }

    /// Returns true for a directory.
    pub fn is_directory(&self) -> bool {
        self.mode & Attributes::TYPE == Attributes::DIRECTORY
    }
}

/// The result of unpacking an archive.
#[derive(Debug)]
pub struct UnpackedArchive {
    /// Digest of the archive file: SHA-256, and the strongest algorithm of the expected digest.
    pub digest: Digest,
    /// Digests of the files written, by path in the archive. Empty unless [`UnpackOptions::algorithms`] asks
    /// for them.
    pub file_digests: BTreeMap<PathBuf, Digest>,
    /// Attributes of everything written, by path in the archive; those of the root at the empty path. Empty
    /// unless [`UnpackOptions::returns_attributes`] asks for them.
    pub attributes: BTreeMap<PathBuf, Attributes>,
    /// Number of entries in the archive.
    pub entries: u64,
}

/// The reason for refusing an archive. Names and targets in it are printable and at most 120 characters long.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive ends too early.
    #[error("it is truncated")]
    Truncated,
    /// The archive has no content.
    #[error("it is empty")]
    Empty,
    /// The file is neither a tar archive nor a compressed one.
    #[error("{0}")]
    NotAnArchive(String),
    /// The compressed data or a header is damaged.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// Data other than padding follows the end of the archive.
    #[error("there is data after its end")]
    TrailingData,
    /// A limit is exceeded.
    #[error("it contains more than {limit} {unit}")]
    TooLarge {
        /// The limited quantity, such as "entries".
        unit: &'static str,
        /// The maximum.
        limit: u64,
    },
    /// An entry's name is not acceptable.
    #[error("the entry '{name}' is refused: {reason}")]
    Name {
        /// The entry's name, printable.
        name: String,
        /// The reason.
        reason: NameError,
    },
    /// An entry's type is not supported.
    #[error("the entry '{name}' is refused: it is a {kind}")]
    Type {
        /// The entry's name, printable.
        name: String,
        /// The type, such as "fifo".
        kind: String,
    },
    /// A link's target is not acceptable.
    #[error("the link '{name}' to '{target}' is refused: {reason}")]
    Link {
        /// The name of the link.
        name: String,
        /// The target of the link.
        target: String,
        /// The reason.
        reason: String,
    },
    /// An entry's parent is not a directory.
    #[error("the entry '{name}' is refused: '{parent}' is not a directory")]
    Parent {
        /// The name of the entry.
        name: String,
        /// The file or link that is where its parent directory should be.
        parent: String,
    },
    /// Two entries have the same name.
    #[error("the entry '{0}' occurs twice")]
    Duplicate(String),
    /// The image of a disk cannot be used.
    #[error("{problem}")]
    Disk {
        /// The problem.
        problem: String,
        /// The hint of the error.
        hint: String,
    },
    /// The archive cannot be read from disk.
    #[error("it cannot be read")]
    Read(#[source] std::io::Error),
    /// An unpacked file cannot be written.
    #[error("'{path}' cannot be written")]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        source: std::io::Error,
    },
}

impl ArchiveError {
    /// Converts to an error that names `archive`, a description such as "the stemcell '/x.tgz'".
    pub fn into_error(self, archive: &str) -> Error {
        let message = format!("{archive} cannot be unpacked");
        let error = match self {
            ArchiveError::Write { path, source } => {
                return Error::io(format!("writing '{}'", path.display()), source).context(message);
            }
            ArchiveError::Read(_) => Error::failure(message),
            _ => Error::invalid(message),
        };
        let error = match self.hint() {
            Some(hint) => error.with_hint(hint),
            None => error,
        };
        error.with_source(self)
    }

    fn hint(&self) -> Option<&str> {
        match self {
            ArchiveError::Truncated | ArchiveError::Empty => Some("download or copy the file again"),
            ArchiveError::NotAnArchive(_) => Some("name a tar archive (.tgz)"),
            ArchiveError::Damaged(_) | ArchiveError::TrailingData => {
                Some("download or copy the file again; if that does not help, pack the archive again")
            }
            ArchiveError::TooLarge { .. } => {
                Some("use an archive from a source that you trust: unpacking this one could fill the disk")
            }
            ArchiveError::Name { .. }
            | ArchiveError::Type { .. }
            | ArchiveError::Link { .. }
            | ArchiveError::Parent { .. }
            | ArchiveError::Duplicate(_) => {
                Some("use an archive from a source that you trust, or pack it again without this entry")
            }
            ArchiveError::Disk { hint, .. } => Some(hint),
            ArchiveError::Read(_) | ArchiveError::Write { .. } => None,
        }
    }
}

/// Returns bytes from an archive as text for an error: printable, and at most 120 characters of the original.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut line: String = text.chars().take(120).flat_map(char::escape_debug).collect();
    if text.chars().nth(120).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests;
