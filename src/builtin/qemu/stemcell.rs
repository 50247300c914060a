//! Stemcells: each image is stored once, in format qcow2. The root disks of VMs are overlays of it.

use std::path::Path;

use serde_json::{Value, json};

use super::image::Images;
use super::programs::ARCHITECTURE;
use super::rpc::QemuCall;
use crate::cpi::cid::ObjectKind;
use crate::cpi::cloud::Cloud;
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use crate::cpi::records;
use crate::cpi::stemcell_image::StemcellImage;
use base::JsonObject;

/// The image, in the stemcell's directory.
pub(super) const IMAGE: &str = "image.qcow2";
/// The end of the boot sector of a disk that can boot.
const BOOT_SIGNATURE: [u8; 2] = [0x55, 0xaa];

/// `create_stemcell`: `image` is a disk image in format qcow2 or raw, or a tar archive that contains one.
pub(super) fn create(
    call: &mut QemuCall,
    cloud: &Cloud,
    image: &Path,
    cloud_properties: JsonObject,
) -> CpiResult<Value> {
    let images = Images::new(&call.programs()).map_err(CpiFailure::before_any_effect)?;
    let (opened, format) = (|| {
        check_architecture(&cloud_properties)?;
        let opened = StemcellImage::open(image)?;
        let format = check(&images, &opened)?;
        Ok((opened, format))
    })()
    .map_err(CpiFailure::before_any_effect)?;
    let cid = ObjectKind::Stemcell.new_cid();
    let staged = cloud.create_staging(&cid)?;
    if let Err(failure) = images.convert(&opened.path, format, &staged.path.join(IMAGE)) {
        cloud.remove_staged(staged)?;
        return Err(failure);
    }
    let record = json!({"cid": cid.as_str(), "cloud_properties": cloud_properties});
    records::write(&staged, cid.kind(), &record)?;
    cloud.publish(&cid, staged)?;
    call.log(format_args!("stemcell '{cid}' created from '{}' ({format})", image.display()));
    Ok(json!(cid.as_str()))
}

/// Fails if the stemcell is for another processor.
fn check_architecture(cloud_properties: &JsonObject) -> CpiResult<()> {
    let given = cloud_properties.get("architecture").and_then(Value::as_str).unwrap_or(ARCHITECTURE);
    if [ARCHITECTURE, "amd64", "x86-64"].contains(&given) {
        return Ok(());
    }
    Err(CpiFailure::new(
        FailureKind::NotSupported,
        format!(
            "the stemcell is for the architecture '{}', and VMs of the 'qemu' CPI are {ARCHITECTURE}: use a \
             stemcell for {ARCHITECTURE}",
            given.escape_debug()
        ),
    ))
}

/// Returns the format of an image, or an error if it is no disk from which a VM can boot.
fn check(images: &Images, image: &StemcellImage) -> CpiResult<&'static str> {
    let info = images.info(&image.path)?;
    if info.refers_to_another_file() {
        return Err(CpiFailure::cloud(
            "the stemcell's image refers to another file: it must be complete (convert it with `qemu-img \
             convert -O qcow2`)",
        ));
    }
    match info.format.as_str() {
        "qcow2" => Ok("qcow2"),
        "raw" if image.head.get(510..512) == Some(&BOOT_SIGNATURE[..]) => Ok("raw"),
        "raw" => Err(CpiFailure::cloud(
            "the stemcell's image is no image of a disk: it is in no format that qemu-img knows, and its \
             first sector is no boot sector. Use a stemcell for OpenStack (bosh-openstack-kvm-…)",
        )),
        other => Err(CpiFailure::new(
            FailureKind::NotSupported,
            format!(
                "the stemcell's image is in the format {other}, and VMs of the 'qemu' CPI boot from qcow2 or \
                 raw: use a stemcell for OpenStack (bosh-openstack-kvm-…), or convert it (`qemu-img convert \
                 -O qcow2`)"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_architecture_is_accepted() {
        let check = |value: Value| check_architecture(json!({ "architecture": value }).as_object().unwrap());
        assert!(
            check(json!("x86_64")).is_ok() && check(json!("amd64")).is_ok() && check(json!(null)).is_ok()
        );
        let error = check(json!("arm64")).unwrap_err();
        assert!(error.message.contains("'arm64'"), "{error}");
    }
}
