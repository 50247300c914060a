//! The records of objects: a JSON document in the directory of each object. The record of a VM begins as the
//! arguments of `create_vm`.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cid::{Cid, ObjectKind};
use super::cloud::ObjectLock;
use super::failure::{CpiFailure, CpiResult};
use super::files::{read_json, write_json};
use base::JsonObject;

/// The arguments of `create_vm`, for CPIs whose cloud is a directory.
pub(crate) struct CreateVmArguments {
    pub agent_id: String,
    pub stemcell: Cid,
    pub cloud_properties: JsonObject,
    pub networks: JsonObject,
    pub disk_cids: Vec<String>,
    pub env: JsonObject,
}

/// The record of a VM. It does not include `env`, which contains secrets that only the agent needs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct VmRecord<T> {
    cid: String,
    agent_id: String,
    stemcell_cid: String,
    /// The contract under which the VM was created: 1 or 2.
    #[serde(rename = "api_version")]
    contract: u8,
    pub cloud_properties: JsonObject,
    networks: JsonObject,
    disk_cids: Vec<String>,
    created_at: String,
    #[serde(default)]
    metadata: JsonObject,
    /// The fields that only one CPI has.
    #[serde(flatten)]
    pub cpi_fields: T,
}

impl<T> VmRecord<T> {
    /// Creates the record of a new VM, with the networks that `create_vm` answers.
    pub(crate) fn new(
        cid: &Cid,
        arguments: &CreateVmArguments,
        is_v2: bool,
        networks: &JsonObject,
        cpi_fields: T,
    ) -> Self {
        VmRecord {
            cid: cid.to_string(),
            agent_id: arguments.agent_id.clone(),
            stemcell_cid: arguments.stemcell.to_string(),
            contract: if is_v2 { 2 } else { 1 },
            cloud_properties: arguments.cloud_properties.clone(),
            networks: networks.clone(),
            disk_cids: arguments.disk_cids.clone(),
            created_at: base::encoding::now(),
            metadata: JsonObject::new(),
            cpi_fields,
        }
    }
}

/// Stores the record of an object of this kind.
pub(crate) fn write(lock: &ObjectLock, kind: ObjectKind, record: &impl Serialize) -> CpiResult<()> {
    write_json(&path(&lock.path, kind), record)
}

/// Returns the record of an object. Fails if it is missing.
pub(crate) fn read<T: DeserializeOwned>(lock: &ObjectLock, cid: &Cid) -> CpiResult<T> {
    read_if_any(lock, cid.kind())?.ok_or_else(|| {
        let path = path(&lock.path, cid.kind());
        let kind = cid.kind().noun();
        CpiFailure::cloud(format!("the record of {kind} '{cid}' is missing: '{}'", path.display()))
    })
}

/// Returns the record of an object, or `None` if it is missing.
pub(crate) fn read_if_any<T: DeserializeOwned>(lock: &ObjectLock, kind: ObjectKind) -> CpiResult<Option<T>> {
    read_json(&path(&lock.path, kind))
}

/// Replaces the metadata in the record of an object.
pub(crate) fn set_metadata(lock: &ObjectLock, cid: &Cid, metadata: JsonObject) -> CpiResult<()> {
    let mut record: JsonObject = read(lock, cid)?;
    record.insert("metadata".to_owned(), json!(metadata));
    write(lock, cid.kind(), &record)
}

fn path(directory: &Path, kind: ObjectKind) -> PathBuf {
    directory.join(match kind {
        ObjectKind::Stemcell => "stemcell.json",
        ObjectKind::Vm => "vm.json",
        ObjectKind::Disk => "disk.json",
        ObjectKind::Snapshot => "snapshot.json",
    })
}
