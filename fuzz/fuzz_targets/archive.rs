//! Reads any bytes, and any sequence of entries, as an archive, which is unpacked or rejected. No file is
//! written outside the directory, no link that must stay inside leads out of it, and a rejected archive
//! leaves nothing behind.

#![no_main]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use artifact::archive::{self, Links, UnpackLimits, UnpackOptions};
use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;

/// The fields of an entry whose header is valid enough to be examined.
type Entry<'a> = (&'a [u8], &'a [u8], u8, Option<[u8; 12]>, u16, &'a [u8]);

const TYPES: &[u8] = b"0001122555LKLKxxgS3467M";
const LIMITS: UnpackLimits = UnpackLimits { entries: 100, bytes: 1 << 20, ratio: 200 };

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, rest)) = bytes.split_first() else { return };
    let archive = if mode & 1 == 0 { rest.to_vec() } else { build_archive(rest) };
    let _ = archive::read_member(&archive[..], Path::new("stemcell.MF"), 1 << 16);
    let links = if mode & 2 == 0 { Links::Inside } else { Links::Verbatim };
    let outside = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::write(outside.path().join("victim"), "untouched").unwrap();
    let work = outside.path().join("work");
    fs::create_dir(&work).unwrap();
    let root = work.join("out");
    let options = UnpackOptions { limits: LIMITS, links, ..UnpackOptions::default() };
    let result = archive::unpack_stream(&archive[..], "it", &root, None, &options);
    assert_eq!(fs::read(outside.path().join("victim")).unwrap(), b"untouched");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 2);
    assert_eq!(fs::read_dir(&work).unwrap().count(), usize::from(result.is_ok()));
    if result.is_ok() {
        check(&root, 0, links);
    }
});

/// Checks the content of a directory `depth` levels below the root.
fn check(directory: &Path, depth: usize, links: Links) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        if metadata.is_symlink() {
            if links == Links::Inside {
                let target = fs::read_link(&path).unwrap();
                let parent_count =
                    target.components().take_while(|part| *part == Component::ParentDir).count();
                assert!(target.is_relative() && parent_count <= depth, "{path:?} to {target:?}");
                assert!(
                    !target.components().skip(parent_count).any(|part| part == Component::ParentDir),
                    "{target:?}"
                );
            }
        } else {
            assert!(metadata.is_dir() || metadata.is_file());
            assert_eq!(metadata.permissions().mode() & 0o7000, 0, "{path:?}");
            if metadata.is_dir() {
                check(&path, depth + 1, links);
            }
        }
    }
}

/// Builds a tar archive from arbitrary bytes.
fn build_archive(bytes: &[u8]) -> Vec<u8> {
    let mut source = Unstructured::new(bytes);
    let mut archive = Vec::new();
    while !source.is_empty() && archive.len() < 64 << 10 {
        let Ok((name, link, kind, size, mode, content)) = Entry::arbitrary(&mut source) else { break };
        let mut header = [0; 512];
        put(&mut header, 0, &name[..name.len().min(100)]);
        put(&mut header, 100, format!("{:07o}\0", mode).as_bytes());
        put(&mut header, 124, &size.unwrap_or_else(|| octal(content.len())));
        put(&mut header, 136, &octal(0));
        header[156] = TYPES[usize::from(kind) % TYPES.len()];
        put(&mut header, 157, &link[..link.len().min(100)]);
        put(&mut header, 257, b"ustar  \0");
        put(&mut header, 148, b"        ");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        put(&mut header, 148, format!("{sum:06o}\0 ").as_bytes());
        archive.extend_from_slice(&header);
        archive.extend_from_slice(content);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

fn octal(number: usize) -> [u8; 12] {
    let mut field = [0; 12];
    put(&mut field, 0, format!("{number:011o}").as_bytes());
    field
}

fn put(header: &mut [u8], start: usize, bytes: &[u8]) {
    header[start..start + bytes.len()].copy_from_slice(bytes);
}
