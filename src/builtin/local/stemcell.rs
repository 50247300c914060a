//! Stemcells: each image is unpacked once, and every VM gets a copy.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::copy::copy_tree;
use super::rpc::LocalCall;
use crate::cpi::cid::ObjectKind;
use crate::cpi::cloud::Cloud;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::records;
use artifact::archive::{Links, UnpackOptions, unpack_file};
use base::JsonObject;

/// The directory of the image, below the stemcell's directory.
pub(super) const IMAGE_DIRECTORY: &str = "image";

/// `create_stemcell`: `image` is a tar archive, gzipped or not, or a directory.
pub(super) fn create(
    call: &mut LocalCall,
    cloud: &Cloud,
    image: &Path,
    cloud_properties: JsonObject,
) -> CpiResult<Value> {
    let metadata = fs::metadata(image).map_err(|error| {
        CpiFailure::io(format_args!("opening the stemcell's image '{}'", image.display()), error)
            .before_any_effect()
    })?;
    let cid = ObjectKind::Stemcell.new_cid();
    let staging = cloud.create_staging(&cid)?;
    let target = staging.path.join(IMAGE_DIRECTORY);
    if metadata.is_dir() {
        copy_tree(image, &target)?;
    } else {
        // A root file system has absolute links. They are kept, and the CPI never follows them.
        let options = UnpackOptions { links: Links::Verbatim, ..UnpackOptions::default() };
        unpack_file(image, "the stemcell's image", &target, None, &options, &mut |_, _| {})
            .map_err(|error| CpiFailure::cloud(error.chain().join(": ")))?;
    }
    let record = json!({"cid": cid.as_str(), "cloud_properties": cloud_properties});
    records::write(&staging, cid.kind(), &record)?;
    cloud.publish(&cid, staging)?;
    call.log(format_args!("stemcell '{cid}' created from '{}'", image.display()));
    Ok(json!(cid.as_str()))
}
