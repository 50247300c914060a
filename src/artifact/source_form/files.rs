//! Sets of files: listing, glob patterns, fingerprints and packing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use walkdir::WalkDir;

use crate::archive::{Input, Packer, is_executable};
use crate::digest::{Algorithm, Digest, Hasher};
use base::files::input;
use base::{Error, Result};

/// The content of an archive: sorted paths relative to its root, and the source of each entry.
pub(crate) type FileSet = BTreeMap<PathBuf, Input>;

/// Parses a pattern of a package spec: `*` matches within a path component, `**` across several; also `{a,b}`
/// and `[…]`.
pub(crate) fn parse_glob(pattern: &str) -> Result<GlobMatcher> {
    let relative_pattern = pattern.trim_start_matches("./");
    GlobBuilder::new(relative_pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map(|parse_glob| parse_glob.compile_matcher())
        .map_err(|error| {
            Error::invalid(format!("the pattern '{pattern}' is not a valid glob"))
                .with_source(error)
                .with_hint("correct `files` or `excluded_files` in the package's spec")
        })
}

/// Lists the files and links below `root` with relative paths. Returns an empty set if there is no such
/// directory. A link to a directory is listed as a link.
pub(crate) fn list(root: &Path) -> Result<FileSet> {
    let mut files = FileSet::new();
    if !root.exists() {
        return Ok(files);
    }
    for entry in WalkDir::new(root).min_depth(1) {
        let entry = entry.map_err(|error| {
            let path = error.path().unwrap_or(root).to_owned();
            let action = format!("reading '{}'", path.display());
            match error.into_io_error() {
                Some(error) => Error::io(action, error).with_path_hint(&path, ""),
                // Links are not followed, so none leads back.
                None => Error::failure(format!("{action} failed")),
            }
        })?;
        let name = entry.path().strip_prefix(root).unwrap_or(entry.path()).to_owned();
        let kind = entry.file_type();
        if kind.is_symlink() {
            let target = fs::read_link(entry.path()).map_err(|error| {
                Error::io(format!("reading the link '{}'", entry.path().display()), error)
            })?;
            files.insert(name, Input::Link(target));
        } else if kind.is_file() {
            files.insert(name, Input::File { path: entry.into_path(), is_executable: None });
        }
    }
    Ok(files)
}

/// Returns the SHA-256, in hex, of a set of files and further `parts`.
///
/// For each file in the order of names, this hashes its name, its type (file, executable, link or directory),
/// and the SHA-256 of its content or the link's target. The further parts follow in the order given. Each
/// part is preceded by its length, so that different sets never give the same bytes.
pub(crate) fn compute_fingerprint(files: &FileSet, parts: &[&str]) -> Result<String> {
    let mut hasher = Hasher::new(&[Algorithm::Sha256]);
    let mut add_part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_be_bytes());
        hasher.update(bytes);
    };
    add_part(b"monopile source form 1");
    for (name, input) in files {
        add_part(name.as_os_str().as_encoded_bytes());
        match input {
            Input::File { path, is_executable: mode_choice } => {
                let is_executable = match mode_choice {
                    Some(is_executable) => *is_executable,
                    None => {
                        let read_error = |error| input::read_error("the file", path, error);
                        is_executable(&fs::metadata(path).map_err(read_error)?)
                    }
                };
                add_part(if is_executable { b"executable" } else { b"file" });
                add_part(sha256(&Digest::from_file(path, &[Algorithm::Sha256])?).as_bytes());
            }
            Input::Bytes(content) => {
                add_part(b"file");
                add_part(sha256(&Digest::compute(content, &[Algorithm::Sha256])).as_bytes());
            }
            Input::Link(target) => {
                add_part(b"link");
                add_part(target.as_os_str().as_encoded_bytes());
            }
            Input::Directory => add_part(b"directory"),
        }
    }
    for fact in parts {
        add_part(fact.as_bytes());
    }
    Ok(sha256(&hasher.finish()))
}

fn sha256(digest: &Digest) -> String {
    digest.hex(Algorithm::Sha256).unwrap_or_default().to_owned()
}

/// Packs a set of files into `archive`. Returns the SHA-1 and SHA-256 digests of the archive.
pub(crate) fn pack(files: &FileSet, archive: &Path) -> Result<Digest> {
    let mut packer = Packer::create(archive)?;
    for (name, input) in files {
        packer.add(name, input)?;
    }
    packer.finish()
}
