//! Reads any bytes as the image of a disk, raw or qcow2. It is unpacked or rejected, no file is written
//! outside the directory, and a rejected image leaves nothing behind.

#![no_main]

use std::fs;
use std::io::Cursor;
use std::path::Path;

use artifact::archive::{Links, UnpackLimits, UnpackOptions};
use artifact::disk_image;
use libfuzzer_sys::fuzz_target;

const LIMITS: UnpackLimits = UnpackLimits { entries: 100, bytes: 1 << 20, ratio: 200 };

fuzz_target!(|bytes: &[u8]| {
    let outside = tempfile::tempdir_in("/dev/shm").unwrap();
    let (limits, links) = (LIMITS, Links::Verbatim);
    let options = UnpackOptions { limits, links, skips_devices: true, ..UnpackOptions::default() };
    let root = outside.path().join("out");
    let result = disk_image::unpack(Cursor::new(bytes), "it", Path::new("it"), &root, &options, &mut |_| {});
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), usize::from(result.is_ok()));
});
