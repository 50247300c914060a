//! Tarballs in and out: package sources, compiled packages, rendered templates, logs.
//!
//! What comes in is unpacked by the rules for untrusted archives (`artifact::archive`); links are written
//! down as they are, because they are meant for `/var/vcap`, and nothing is written through one.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use artifact::archive::{Links, Options, unpack_stream};
use base::{Error, Result};

/// Unpacks a tarball, compressed or not, into the new directory `dest`, whose parent is there; `what` names it in
/// errors.
pub(super) fn unpack(file: File, what: &str, dest: &Path) -> Result<()> {
    let options = Options { links: Links::Verbatim, ..Options::default() };
    unpack_stream(file, what, dest, None, &options).map(drop)
}

/// Packs everything in a directory, names beginning with `./`.
pub(super) fn pack(dir: &Path, tarball: &File) -> Result<()> {
    let failed = |e| Error::io(format!("Compressing files in '{}'", dir.display()), e);
    // Local disk and loopback are faster than a better compression would be.
    let mut builder =
        tar::Builder::new(GzEncoder::new(std::io::BufWriter::new(tarball), Compression::fast()));
    builder.follow_symlinks(false);
    // Sparse files are a rarity that readers of archives had better not know.
    builder.sparse(false);
    builder.append_dir_all(".", dir).map_err(failed)?;
    finish(builder).map_err(failed)
}

/// Packs these files: (path on disk, name in the archive).
pub(super) fn pack_files(files: &[(std::path::PathBuf, std::path::PathBuf)], tarball: &File) -> Result<()> {
    let failed = |e| Error::io("Making logs tarball", e);
    let mut builder =
        tar::Builder::new(GzEncoder::new(std::io::BufWriter::new(tarball), Compression::fast()));
    builder.sparse(false);
    for (path, name) in files {
        let Ok(file) = File::open(path) else { continue };
        let meta = file.metadata().map_err(failed)?;
        let mut header = tar::Header::new_gnu();
        header.set_metadata(&meta);
        // A log that grows meanwhile is cut where it ended when it was opened.
        let content = file.take(meta.len()).chain(std::io::repeat(0)).take(meta.len());
        builder.append_data(&mut header, name, content).map_err(failed)?;
    }
    finish(builder).map_err(failed)
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
    fn what_is_packed_can_be_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        std::fs::create_dir_all(from.join("bin")).unwrap();
        std::fs::write(from.join("bin/x"), "x").unwrap();
        File::create(from.join("holes")).unwrap().set_len(1 << 20).unwrap();
        symlink("/var/vcap/packages/other", from.join("absolute-link")).unwrap();
        let tarball = dir.path().join("t.tgz");
        pack(&from, &File::create(&tarball).unwrap()).unwrap();
        unpack(File::open(&tarball).unwrap(), "it", &to).unwrap();
        assert_eq!(std::fs::read(to.join("bin/x")).unwrap(), b"x");
        assert!(std::fs::read_link(to.join("absolute-link")).unwrap().is_absolute());
    }
}
