//! Stemcells: each image is stored once, in format qcow2. The root disks of VMs are overlays of it. If the
//! stemcell is a root file system, the kernel that boots it is beside the image.

use std::path::Path;

use serde_json::{Value, json};

use super::image::QemuImg;
use super::kernel::KernelFiles;
use super::programs::ARCHITECTURE;
use super::root_file_system::RootDisk;
use super::rpc::QemuCall;
use crate::cpi::cid::ObjectKind;
use crate::cpi::cloud::Cloud;
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use crate::cpi::records;
use crate::cpi::stemcell_image::{DiskImage, StemcellImage};
use artifact::disk_image::boot_record::{SECTOR_BYTES, SIGNATURE, SIGNATURE_OFFSET};
use base::JsonObject;

/// The image, in the stemcell's directory.
pub(super) const IMAGE_FILE: &str = "image.qcow2";

/// The checked source of a stemcell.
enum StemcellSource {
    /// A disk that can boot, and its format.
    Disk(DiskImage, &'static str),
    /// A root file system, and the kernel that boots it.
    RootFileSystem(RootDisk, KernelFiles),
}

/// `create_stemcell`: `image` is a disk image in format qcow2 or raw, or a tar archive that contains one or a
/// root file system.
pub(super) fn create(
    call: &mut QemuCall,
    cloud: &Cloud,
    image: &Path,
    cloud_properties: JsonObject,
) -> CpiResult<Value> {
    let qemu_img = QemuImg::new(&call.programs()).map_err(CpiFailure::before_any_effect)?;
    let source = (|| {
        check_architecture(&cloud_properties)?;
        Ok(match StemcellImage::open(image)? {
            StemcellImage::Disk(disk) => {
                let format = check(&qemu_img, &disk)?;
                StemcellSource::Disk(disk, format)
            }
            StemcellImage::RootFileSystem(files) => {
                let kernel = KernelFiles::open(&call.config)?;
                StemcellSource::RootFileSystem(RootDisk::new(files)?, kernel)
            }
        })
    })()
    .map_err(CpiFailure::before_any_effect)?;
    let cid = ObjectKind::Stemcell.new_cid();
    let staging = cloud.create_staging(&cid)?;
    let (result, form) = match &source {
        StemcellSource::Disk(disk, format) => {
            (qemu_img.convert(&disk.path, format, &staging.path.join(IMAGE_FILE)), *format)
        }
        StemcellSource::RootFileSystem(disk, kernel) => {
            let copy_result = kernel.copy_to(&staging.path);
            (copy_result.and_then(|()| disk.make(&qemu_img, &staging.path, IMAGE_FILE)), "root file system")
        }
    };
    if let Err(failure) = result {
        cloud.remove_staged(staging)?;
        return Err(failure);
    }
    let record = json!({"cid": cid.as_str(), "cloud_properties": cloud_properties});
    records::write(&staging, cid.kind(), &record)?;
    cloud.publish(&cid, staging)?;
    call.log(format_args!("stemcell '{cid}' created from '{}' ({form})", image.display()));
    Ok(json!(cid.as_str()))
}

/// Fails if the stemcell is for another processor.
fn check_architecture(cloud_properties: &JsonObject) -> CpiResult<()> {
    let architecture = cloud_properties.get("architecture").and_then(Value::as_str).unwrap_or(ARCHITECTURE);
    if [ARCHITECTURE, "amd64", "x86-64"].contains(&architecture) {
        return Ok(());
    }
    Err(CpiFailure::new(
        FailureKind::NotSupported,
        format!(
            "the stemcell is for the architecture '{}', and VMs of the 'qemu' CPI are {ARCHITECTURE}: use a \
             stemcell for {ARCHITECTURE}",
            architecture.escape_debug()
        ),
    ))
}

/// Returns the format of an image, or an error if it is no disk from which a VM can boot.
fn check(qemu_img: &QemuImg, image: &DiskImage) -> CpiResult<&'static str> {
    let info = qemu_img.read_info(&image.path)?;
    if info.refers_to_another_file() {
        return Err(CpiFailure::cloud(
            "the stemcell's image refers to another file: it must be complete (convert it with `qemu-img \
             convert -O qcow2`)",
        ));
    }
    match info.format.as_str() {
        "qcow2" => Ok("qcow2"),
        "raw" if image.head.get(SIGNATURE_OFFSET..SECTOR_BYTES) == Some(&SIGNATURE[..]) => Ok("raw"),
        "raw" => Err(CpiFailure::cloud(
            "the stemcell's image is not the image of a disk: it is in no format that qemu-img knows, and \
             its first sector is not a boot sector. Use a stemcell for OpenStack (bosh-openstack-kvm-…)",
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
