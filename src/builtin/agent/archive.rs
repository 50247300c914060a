//! Packs and unpacks tarballs: package sources, compiled packages, rendered templates, logs.
//!
//! Tarballs are unpacked by the rules for untrusted archives (`artifact::archive`). Links are kept, because
//! their targets are valid in `/var/vcap`, and no file is written through a link.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use artifact::archive::{Links, UnpackOptions, unpack_stream};
use base::{Error, Result};

/// Unpacks a tarball, compressed or not, into the new directory `dest`, whose parent must exist.
/// `source_name` names the tarball in errors.
pub(super) fn unpack(file: File, source_name: &str, dest: &Path) -> Result<()> {
    let options = UnpackOptions { links: Links::Verbatim, ..UnpackOptions::default() };
    unpack_stream(file, source_name, dest, None, &options).map(drop)
}

/// Packs all files in a directory. Names in the tarball begin with `./`.
pub(super) fn pack(directory: &Path, tarball: &File) -> Result<()> {
    let compress_error = |error| Error::io(format!("Compressing files in '{}'", directory.display()), error);
    // The tarball stays on this machine, so speed matters more than size.
    let mut builder =
        tar::Builder::new(GzEncoder::new(std::io::BufWriter::new(tarball), Compression::fast()));
    builder.follow_symlinks(false);
    // Not all readers of tarballs support sparse files.
    builder.sparse(false);
    builder.append_dir_all(".", directory).map_err(compress_error)?;
    finish(builder).map_err(compress_error)
}

/// Packs files, given as (path on disk, name in the tarball). Files that cannot be opened are left out.
pub(super) fn pack_files(files: &[(std::path::PathBuf, std::path::PathBuf)], tarball: &File) -> Result<()> {
    let tarball_error = |error| Error::io("Making logs tarball", error);
    let mut builder =
        tar::Builder::new(GzEncoder::new(std::io::BufWriter::new(tarball), Compression::fast()));
    builder.sparse(false);
    for (path, name) in files {
        let Ok(file) = File::open(path) else { continue };
        let metadata = file.metadata().map_err(tarball_error)?;
        let mut header = tar::Header::new_gnu();
        header.set_metadata(&metadata);
        // The entry has the length that the file had when it was opened, even if the log grows or shrinks
        // meanwhile.
        let content = file.take(metadata.len()).chain(std::io::repeat(0)).take(metadata.len());
        builder.append_data(&mut header, name, content).map_err(tarball_error)?;
    }
    finish(builder).map_err(tarball_error)
}

fn finish<W: std::io::Write>(builder: tar::Builder<GzEncoder<W>>) -> std::io::Result<()> {
    let mut inner = builder.into_inner()?.finish()?;
    inner.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn packed_directory_can_be_unpacked() {
        let directory = tempfile::tempdir().unwrap();
        let (source, target) = (directory.path().join("from"), directory.path().join("to"));
        std::fs::create_dir_all(source.join("bin")).unwrap();
        std::fs::write(source.join("bin/x"), "x").unwrap();
        File::create(source.join("holes")).unwrap().set_len(1 << 20).unwrap();
        symlink("/var/vcap/packages/other", source.join("absolute-link")).unwrap();
        let tarball = directory.path().join("t.tgz");
        pack(&source, &File::create(&tarball).unwrap()).unwrap();
        unpack(File::open(&tarball).unwrap(), "it", &target).unwrap();
        assert_eq!(std::fs::read(target.join("bin/x")).unwrap(), b"x");
        assert!(std::fs::read_link(target.join("absolute-link")).unwrap().is_absolute());
    }
}
