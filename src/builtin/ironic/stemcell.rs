//! Stemcells: each image is imported as one volume, which every VM clones.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::rpc::IronicCall;
use super::volume::{VolumeKind, VolumeName};
use crate::cpi::failure::{CpiFailure, CpiResult};
use artifact::archive::{Options, unpack_file};

/// `create_stemcell`: `image` is a raw disk image, or a tar archive that contains one (`root.img`), gzipped
/// or not.
pub(super) fn create(call: &mut IronicCall, image: &Path) -> CpiResult<Value> {
    let volume = VolumeName::new(VolumeKind::Stemcell);
    let opening = |error| {
        CpiFailure::io(format_args!("opening the stemcell's image '{}'", image.display()), error)
            .before_any_effect()
    };
    let mut head = [0; 512];
    let read = File::open(image).and_then(|mut file| fill(&mut file, &mut head)).map_err(opening)?;
    let head = &head[..read];
    if is_archive(head) {
        // The directory is next to the image, because the file system with the image has room for such sizes.
        let scratch = tempfile::tempdir_in(base::files::durable::parent(image)).map_err(opening)?;
        let tree = scratch.path().join("image");
        unpack_file(image, "the stemcell's image", &tree, None, &Options::default(), &mut |_, _| {})
            .map_err(|error| CpiFailure::cloud(error.chain().join(": ")).before_any_effect())?;
        let disk_image_path = disk_image(&tree).map_err(CpiFailure::before_any_effect)?;
        check(&disk_image_path).map_err(CpiFailure::before_any_effect)?;
        call.storage.import(&volume, &disk_image_path)?;
    } else {
        check(image).map_err(CpiFailure::before_any_effect)?;
        call.storage.import(&volume, image)?;
    }
    call.log(format_args!("stemcell '{}' created from '{}'", volume.cid(), image.display()));
    Ok(json!(volume.cid()))
}

/// `delete_stemcell`. Clones of the stemcell are independent of it.
pub(super) fn delete(call: &mut IronicCall, volume: &VolumeName) -> CpiResult<Value> {
    call.storage.delete(volume)?;
    call.log(format_args!("stemcell '{}' deleted", volume.cid()));
    Ok(Value::Null)
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes.
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

/// Returns the disk image in an unpacked archive: `root.img`, or the only file.
fn disk_image(tree: &Path) -> CpiResult<PathBuf> {
    let named = tree.join("root.img");
    if named.is_file() {
        return Ok(named);
    }
    let entries =
        fs::read_dir(tree).map_err(|error| CpiFailure::io("reading the stemcell's image", error))?;
    let files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    match files.as_slice() {
        [only] => Ok(only.clone()),
        files => Err(CpiFailure::cloud(format!(
            "the stemcell's image is an archive with {} files, none of them root.img: it must contain \
             root.img, or exactly one file",
            files.len()
        ))),
    }
}

/// Rejects an empty image and known formats that are not raw, because machines boot from the bytes as they
/// are.
fn check(image: &Path) -> CpiResult<()> {
    let mut head = [0; 4];
    let read = File::open(image)
        .and_then(|mut file| fill(&mut file, &mut head))
        .map_err(|error| CpiFailure::io("reading the stemcell's image", error))?;
    match &head[..read] {
        b"QFI\xfb" => Err(CpiFailure::cloud(
            "the stemcell's image is in qcow2 format, and machines boot only from raw images: use a stemcell \
             in a raw format, or convert it (qemu-img convert -O raw)",
        )),
        b"KDMV" => Err(CpiFailure::cloud(
            "the stemcell's image is in VMDK format, and machines boot only from raw images: use a stemcell \
             in a raw format, or convert it (qemu-img convert -O raw)",
        )),
        b"" => Err(CpiFailure::cloud("the stemcell's image is empty: download or build the stemcell again")),
        _ => Ok(()),
    }
}
