//! Snapshots: copies of a disk's data, attached or not.

use serde_json::{Value, json};

use super::copy::copy_tree;
use super::disk;
use super::rpc::LocalCall;
use crate::cpi::cid::{Cid, ObjectKind};
use crate::cpi::cloud::Cloud;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::files::write_json;
use base::JsonObject;

/// `snapshot_disk`. The copy of an attached disk is crash-consistent, as after a power failure. A caller that
/// needs a consistent copy stops the jobs first.
pub(super) fn create(
    call: &mut LocalCall,
    cloud: &Cloud,
    disk: &Cid,
    metadata: JsonObject,
) -> CpiResult<Value> {
    let held = cloud.require(disk).map_err(CpiFailure::before_any_effect)?;
    let data = disk::data(cloud, &held, disk).map_err(CpiFailure::before_any_effect)?;
    let cid = ObjectKind::Snapshot.new_cid();
    let staged = cloud.stage(&cid)?;
    copy_tree(&data, &staged.path.join(disk::DATA))?;
    let document = json!({"cid": cid.as_str(), "disk_cid": disk.as_str(), "metadata": metadata});
    write_json(&staged.path.join("snapshot.json"), &document)?;
    cloud.publish(&cid, staged)?;
    call.log(format_args!("snapshot '{cid}' of disk '{disk}' created"));
    Ok(json!(cid.as_str()))
}

/// `delete_snapshot`.
pub(super) fn delete(call: &mut LocalCall, cloud: &Cloud, cid: &Cid) -> CpiResult<()> {
    match cloud.hold(cid)? {
        Some(held) => cloud.discard(cid, held),
        None => {
            call.log(format_args!("snapshot '{cid}' does not exist: nothing to delete"));
            Ok(())
        }
    }
}
