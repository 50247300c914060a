//! Stemcells: each image is imported as one volume, which every VM clones.

use std::path::Path;

use serde_json::{Value, json};

use super::rpc::IronicCall;
use super::volume::{VolumeKind, VolumeName};
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::stemcell_image::StemcellImage;

/// `create_stemcell`: `image` is a raw disk image, or a tar archive that contains one (`root.img`), gzipped
/// or not.
pub(super) fn create(call: &mut IronicCall, image: &Path) -> CpiResult<Value> {
    let volume = VolumeName::new(VolumeKind::Stemcell);
    let disk = StemcellImage::open(image)
        .and_then(StemcellImage::into_disk)
        .map_err(CpiFailure::before_any_effect)?;
    check(&disk.head).map_err(CpiFailure::before_any_effect)?;
    call.storage.import(&volume, &disk.path)?;
    call.log(format_args!("stemcell '{}' created from '{}'", volume.cid(), image.display()));
    Ok(json!(volume.cid()))
}

/// `delete_stemcell`. Clones of the stemcell are independent of it.
pub(super) fn delete(call: &mut IronicCall, volume: &VolumeName) -> CpiResult<Value> {
    call.storage.delete(volume)?;
    call.log(format_args!("stemcell '{}' deleted", volume.cid()));
    Ok(Value::Null)
}

/// Rejects known formats that are not raw, because machines boot from the bytes as they are.
fn check(head: &[u8]) -> CpiResult<()> {
    let format = match head {
        [b'Q', b'F', b'I', 0xfb, ..] => "qcow2",
        [b'K', b'D', b'M', b'V', ..] => "VMDK",
        _ => return Ok(()),
    };
    Err(CpiFailure::cloud(format!(
        "the stemcell's image is in {format} format, and machines boot only from raw images: use a stemcell \
         in a raw format, or convert it (qemu-img convert -O raw)"
    )))
}
