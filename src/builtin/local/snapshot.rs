//! Snapshots: copies of a disk's data, attached or not.

use serde_json::{Value, json};

use super::copy::copy_tree;
use super::disk;
use super::rpc::LocalCall;
use crate::cpi::cid::{Cid, ObjectKind};
use crate::cpi::cloud::Cloud;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::records;
use base::JsonObject;

/// `snapshot_disk`. The copy of an attached disk is crash-consistent, as after a power failure. A caller that
/// needs a consistent copy stops the jobs first.
pub(super) fn create(
    call: &mut LocalCall,
    cloud: &Cloud,
    disk: &Cid,
    metadata: JsonObject,
) -> CpiResult<Value> {
    let lock = cloud.lock_existing(disk).map_err(CpiFailure::before_any_effect)?;
    let data = disk::data_path(cloud, &lock, disk).map_err(CpiFailure::before_any_effect)?;
    let cid = ObjectKind::Snapshot.new_cid();
    let staging = cloud.create_staging(&cid)?;
    copy_tree(&data, &staging.path.join(disk::DATA_DIRECTORY))?;
    let record = json!({"cid": cid.as_str(), "disk_cid": disk.as_str(), "metadata": metadata});
    records::write(&staging, cid.kind(), &record)?;
    cloud.publish(&cid, staging)?;
    call.log(format_args!("snapshot '{cid}' of disk '{disk}' created"));
    Ok(json!(cid.as_str()))
}
