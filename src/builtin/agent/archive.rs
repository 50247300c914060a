//! Tarballs in and out: package sources, compiled packages, rendered templates, logs.
//!
//! What comes in is unpacked inside one directory and nowhere else: no absolute path, no `..`, no link that
//! is written through, no device.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::{Error, Result};

/// More entries than any release has.
const MAX_ENTRIES: u64 = 2_000_000;

/// Unpacks a tarball, compressed or not, into an existing directory; `what` names it in errors.
pub fn unpack(mut file: File, what: &str, into: &Path) -> Result<()> {
    let failed = |e| Error::io(format!("Decompressing {what} to '{}'", into.display()), e);
    let mut magic = [0; 2];
    let gzip = file.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
    file.rewind().map_err(failed)?;
    let reader: Box<dyn Read> = if gzip {
        Box::new(MultiGzDecoder::new(BufReader::new(file)))
    } else {
        Box::new(BufReader::new(file))
    };
    let mut archive = tar::Archive::new(reader);
    archive.set_preserve_ownerships(false);
    archive.set_preserve_mtime(true);
    let mut count = 0;
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        count += 1;
        let kind = entry.header().entry_type();
        let refused = |why: &str, entry: &tar::Entry<'_, _>| {
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            Err(Error::invalid(format!("{what} holds {why}: '{name}'")))
        };
        if count > MAX_ENTRIES {
            return refused("too many entries, of which this is one", &entry);
        }
        if kind.is_block_special() || kind.is_character_special() || kind.is_fifo() {
            return refused("a device", &entry);
        }
        if entry.path().is_ok_and(|path| path.is_absolute()) {
            return refused("an absolute path", &entry);
        }
        if !entry.unpack_in(into).map_err(failed)? {
            return refused("a path that leaves its directory", &entry);
        }
    }
    Ok(())
}

/// Packs everything in a directory, names beginning with `./`.
pub fn pack(dir: &Path, tarball: &File) -> Result<()> {
    let failed = |e| Error::io(format!("Compressing files in '{}'", dir.display()), e);
    // Local disk and loopback are faster than a better compression would be.
    let mut builder =
        tar::Builder::new(GzEncoder::new(std::io::BufWriter::new(tarball), Compression::fast()));
    builder.follow_symlinks(false);
    builder.append_dir_all(".", dir).map_err(failed)?;
    finish(builder).map_err(failed)
}

/// Packs these files: (path on disk, name in the archive).
pub fn pack_files(files: &[(std::path::PathBuf, std::path::PathBuf)], tarball: &File) -> Result<()> {
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
        std::fs::create_dir(&to).unwrap();
        std::fs::write(from.join("bin/x"), "x").unwrap();
        symlink("/var/vcap/packages/other", from.join("absolute-link")).unwrap();
        let tarball = dir.path().join("t.tgz");
        pack(&from, &File::create(&tarball).unwrap()).unwrap();
        unpack(File::open(&tarball).unwrap(), "it", &to).unwrap();
        assert_eq!(std::fs::read(to.join("bin/x")).unwrap(), b"x");
        assert!(std::fs::read_link(to.join("absolute-link")).unwrap().is_absolute());
    }

    #[test]
    fn hostile_entries_leave_the_directory_alone() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        let file = |b: &mut tar::Builder<File>, name: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.as_old_mut().name[..name.len()].copy_from_slice(name);
            header.set_size(1);
            header.set_cksum();
            b.append(&header, &b"x"[..]).unwrap();
        };
        let link = |b: &mut tar::Builder<File>, name: &str, target: &Path, kind| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(0);
            b.append_link(&mut header, name, target).unwrap();
        };
        type Build = Box<dyn Fn(&mut tar::Builder<File>)>;
        let cases: Vec<Build> = vec![
            Box::new(move |b| file(b, b"../outside/x")),
            Box::new(move |b| file(b, b"/tmp/monopile-hostile-x")),
            Box::new({
                let outside = outside.clone();
                move |b| {
                    link(b, "dir", &outside, tar::EntryType::Symlink);
                    file(b, b"dir/x");
                }
            }),
            Box::new(move |b| link(b, "hard", Path::new("/etc/passwd"), tar::EntryType::Link)),
            Box::new(move |b| link(b, "dev", Path::new("x"), tar::EntryType::Char)),
        ];
        for (index, build) in cases.iter().enumerate() {
            let tarball = dir.path().join(format!("{index}.tar"));
            let into = dir.path().join(format!("into{index}"));
            std::fs::create_dir(&into).unwrap();
            let mut builder = tar::Builder::new(File::create(&tarball).unwrap());
            build(&mut builder);
            builder.finish().unwrap();
            unpack(File::open(&tarball).unwrap(), "it", &into).unwrap_err();
            assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "case {index}");
        }
        assert!(!Path::new("/tmp/monopile-hostile-x").exists());
    }
}
