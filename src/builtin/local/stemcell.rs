//! Stemcells: the image is unpacked once, every VM gets a copy.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::args::Hash;
use super::cid::{Cid, Resource};
use super::failure::{Failure, Outcome};
use super::files::{copy_tree, private_dir, write_json};
use super::rpc::Call;
use super::store::Store;

/// The image below a stemcell's directory.
pub const IMAGE: &str = "image";

/// `create_stemcell`: `image` is a tar archive, gzipped or not, or a directory.
pub fn create(call: &mut Call, store: &Store, image: &Path, cloud_properties: Hash) -> Outcome<Value> {
    let metadata = fs::metadata(image).map_err(|error| {
        Failure::io(format_args!("opening the stemcell's image '{}'", image.display()), error)
    })?;
    let cid = Resource::Stemcell.new_cid();
    let staged = store.stage(&cid)?;
    let target = staged.path.join(IMAGE);
    private_dir(&target).map_err(|error| Failure::io("making the image's directory", error))?;
    if metadata.is_dir() {
        copy_tree(image, &target)?;
    } else {
        unpack(image, &target)?;
    }
    write_json(
        &staged.path.join("stemcell.json"),
        &json!({"cid": cid.as_str(), "cloud_properties": cloud_properties}),
    )?;
    store.publish(&cid, staged)?;
    call.log(format_args!("stemcell '{cid}' made of '{}'", image.display()));
    Ok(json!(cid.as_str()))
}

/// `delete_stemcell`. VMs do not need their stemcell any more.
pub fn delete(call: &mut Call, store: &Store, cid: &Cid) -> Outcome<()> {
    match store.hold(cid)? {
        Some(held) => store.discard(cid, held),
        None => {
            call.log(format_args!("stemcell '{cid}' is gone already"));
            Ok(())
        }
    }
}

/// Unpacks the image into an empty directory.
fn unpack(image: &Path, target: &Path) -> Outcome<()> {
    let failed = |error: io::Error| {
        Failure::io(format_args!("unpacking the stemcell's image '{}'", image.display()), error)
    };
    let mut file = fs::File::open(image).map_err(failed)?;
    let mut magic = [0; 2];
    let gzipped = io::Read::read_exact(&mut file, &mut magic).is_ok() && magic == [0x1f, 0x8b];
    io::Seek::rewind(&mut file).map_err(failed)?;
    let reader: Box<dyn io::Read> =
        if gzipped { Box::new(flate2::read::GzDecoder::new(file)) } else { Box::new(file) };
    let mut archive = tar::Archive::new(reader);
    archive.set_preserve_permissions(true);
    archive.unpack(target).map_err(failed)
}
