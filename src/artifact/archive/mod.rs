//! Tar archives, plain or gzip: unpacking ones nobody vouches for, and packing directories so that equal
//! contents give equal bytes.
//!
//! Every archive is untrusted (DESIGN §6). [`unpack_file`] writes into a directory beside its goal and
//! renames it only when everything, digest included, has been checked; on failure nothing is left.
//!
//! - Names: relative, no `..`, no NUL, lengths a file system takes. A name that occurs twice is refused, so
//!   nothing can be replaced after it was checked; directories may repeat.
//! - Types: files, directories, symbolic and hard links; devices, fifos and sparse files are refused.
//! - Links: a symbolic link must stay inside ([`Links::Inside`]) or is written down as it is
//!   ([`Links::Verbatim`]); nothing is ever written through one. A hard link must name a file unpacked before.
//! - Modes: permission bits only, never setuid, setgid or sticky; the owner can always read and write.
//! - Limits: entries, bytes, expansion, name lengths, extension headers ([`Limits`]). Memory stays flat.
//! - Two names that differ only in case are distinct, as they are on Linux; where the file system thinks
//!   otherwise the second one is refused as occurring twice.

mod pack;
pub mod path;
mod reader;
mod unpack;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use pack::{Input, Packer, pack_directory};
pub(crate) use pack::{is_executable, tree};
pub use path::NameError;
pub use unpack::{read_member, unpack_file, unpack_stream};

use super::digest::{Algorithm, Digest};
use base::Error;

/// How much an archive may hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Entries, directories and links included.
    pub entries: u64,
    /// Bytes of all files, unpacked, headers included.
    pub bytes: u64,
    /// Unpacked bytes per byte of the archive. Not looked at below [`Limits::RATIO_FLOOR`].
    pub ratio: u64,
}

impl Limits {
    /// Below this many unpacked bytes any ratio is harmless: small files of zeros compress a thousandfold.
    pub const RATIO_FLOOR: u64 = 128 << 20;
}

impl Default for Limits {
    /// Far above what releases and stemcells in use hold (the largest have some 100,000 files and 10 GiB),
    /// far below what hurts.
    fn default() -> Self {
        Limits { entries: 500_000, bytes: 64 << 30, ratio: 200 }
    }
}

/// What to do with symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Links {
    /// They must lead to something inside the archive's root.
    #[default]
    Inside,
    /// They are written down as they are, absolute ones too: for the root file system of a machine, and for
    /// compiled packages, whose links are meant for `/var/vcap`. Still nothing is written through them, but
    /// whoever reads the tree must not follow them blindly.
    Verbatim,
}

/// How to unpack.
#[derive(Default, Clone, Copy)]
pub struct Options<'a> {
    /// How much is accepted.
    pub limits: Limits,
    /// What to do with symbolic links.
    pub links: Links,
    /// Which entries are written; all where there is none. What is left out is checked all the same.
    pub only: Option<&'a dyn Fn(&Path) -> bool>,
    /// Compute these digests of every file written, in the same pass.
    pub hash: &'a [Algorithm],
}

/// What came out of an archive.
#[derive(Debug)]
pub struct Unpacked {
    /// Digest of the archive file: SHA-256, and the function of the expected digest.
    pub digest: Digest,
    /// Digests of the files written, where asked for.
    pub files: BTreeMap<PathBuf, Digest>,
    /// How many entries the archive has.
    pub entries: u64,
}

/// Why an archive is refused.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It ends too early.
    #[error("it is truncated")]
    Truncated,
    /// It has no content.
    #[error("it is empty")]
    Empty,
    /// It is neither tar nor gzip of tar.
    #[error("{0}")]
    NotAnArchive(String),
    /// A structure in it is damaged.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// There is something after its end.
    #[error("there is data after its end")]
    TrailingData,
    /// More than the limits allow.
    #[error("it holds more than {limit} {what}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much is accepted.
        limit: u64,
    },
    /// An entry's name is not acceptable.
    #[error("the entry '{name}' is refused: {reason}")]
    Name {
        /// The name, made printable.
        name: String,
        /// Why.
        reason: NameError,
    },
    /// An entry of a type that is not unpacked.
    #[error("the entry '{name}' is refused: it is a {kind}")]
    Type {
        /// The name, made printable.
        name: String,
        /// What it is.
        kind: String,
    },
    /// A link's target is not acceptable.
    #[error("the link '{name}' to '{target}' is refused: {reason}")]
    Link {
        /// The link.
        name: String,
        /// Its target.
        target: String,
        /// Why.
        reason: String,
    },
    /// An entry below something that is not a directory.
    #[error("the entry '{name}' is refused: '{parent}' is not a directory")]
    Parent {
        /// The entry.
        name: String,
        /// The file or link it is below of.
        parent: String,
    },
    /// The same name twice.
    #[error("the entry '{0}' occurs twice")]
    Twice(String),
    /// The archive could not be read from disk.
    #[error("it cannot be read")]
    Read(#[source] std::io::Error),
    /// The unpacked file could not be written.
    #[error("'{path}' cannot be written")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl ArchiveError {
    /// This as an error about `archive`, a description such as "the stemcell '/x.tgz'".
    pub fn about(self, archive: &str) -> Error {
        let kind = match self {
            ArchiveError::Read(_) | ArchiveError::Write { .. } => base::ErrorKind::Environment,
            _ => base::ErrorKind::InvalidInput,
        };
        let error = Error::new(kind, format!("{archive} cannot be unpacked"));
        let error = match &self {
            ArchiveError::Truncated | ArchiveError::Empty => {
                error.with_hint("fetch the file again: it is incomplete")
            }
            _ => error,
        };
        error.with_source(self)
    }
}

/// Bytes from an archive as an error may show them: printable and short.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown: String = text.chars().take(120).flat_map(char::escape_debug).collect();
    if text.chars().nth(120).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests;
