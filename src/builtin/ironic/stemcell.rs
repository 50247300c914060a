//! Stemcells: an image is imported once, every VM gets a clone.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::rpc::IronicCall;
use super::volume::{Volume, VolumeKind};
use crate::cpi::failure::{Failure, Outcome};
use artifact::archive::{Options, unpack_file};

/// `create_stemcell`: `image` is a raw disk image, or a tar archive, gzipped or not, with one in it, as stemcells for
/// OpenStack have it (`root.img`).
pub(super) fn create(call: &mut IronicCall, image: &Path) -> Outcome<Value> {
    let volume = Volume::new(VolumeKind::Stemcell);
    let opening =
        |error| Failure::io(format_args!("opening the stemcell's image '{}'", image.display()), error);
    let mut head = [0; 512];
    let read = File::open(image).and_then(|mut file| fill(&mut file, &mut head)).map_err(opening)?;
    let head = &head[..read];
    if is_archive(head) {
        // Beside the image: there is room for it.
        let scratch = tempfile::tempdir_in(base::files::durable::parent(image)).map_err(opening)?;
        let tree = scratch.path().join("image");
        unpack_file(image, "the stemcell's image", &tree, None, &Options::default(), &mut |_, _| {})
            .map_err(|error| Failure::cloud(error.chain().join(": ")))?;
        let found = disk_image(&tree)?;
        check(&found)?;
        call.storage.import(&volume, &found)?;
    } else {
        check(image)?;
        call.storage.import(&volume, image)?;
    }
    call.log(format_args!("stemcell '{}' made of '{}'", volume.cid(), image.display()));
    Ok(json!(volume.cid()))
}

/// `delete_stemcell`. Clones do not need their stemcell any more.
pub(super) fn delete(call: &mut IronicCall, volume: &Volume) -> Outcome<Value> {
    call.storage.delete(volume)?;
    call.log(format_args!("stemcell '{}' deleted", volume.cid()));
    Ok(Value::Null)
}

fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read(&mut buffer[read..])? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

fn is_archive(head: &[u8]) -> bool {
    head.starts_with(&[0x1f, 0x8b]) || head.get(257..262) == Some(b"ustar")
}

/// The disk image of an unpacked archive: `root.img`, or the only file.
fn disk_image(tree: &Path) -> Outcome<PathBuf> {
    let named = tree.join("root.img");
    if named.is_file() {
        return Ok(named);
    }
    let entries = fs::read_dir(tree).map_err(|error| Failure::io("reading the stemcell's image", error))?;
    let files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    match files.as_slice() {
        [only] => Ok(only.clone()),
        _ => Err(Failure::cloud(
            "the stemcell's image holds no root.img, and more or fewer than one other file",
        )),
    }
}

/// Machines boot from the bytes as they are, so the image must be raw.
fn check(image: &Path) -> Outcome<()> {
    let mut head = [0; 4];
    let read = File::open(image)
        .and_then(|mut file| fill(&mut file, &mut head))
        .map_err(|error| Failure::io("reading the stemcell's image", error))?;
    match &head[..read] {
        b"QFI\xfb" => Err(Failure::cloud(
            "the stemcell's image is of format qcow2; machines boot from raw ones: use a stemcell in a raw format, or convert it (qemu-img convert -O raw)",
        )),
        b"KDMV" => Err(Failure::cloud("the stemcell's image is of format VMDK; machines boot from raw ones")),
        b"" => Err(Failure::cloud("the stemcell's image is empty")),
        _ => Ok(()),
    }
}
