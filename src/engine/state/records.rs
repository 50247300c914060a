//! The content of the state file.
//!
//! The top-level keys are those of the bosh CLI v7 (its `config/deployment_state_service.go`), which ignores
//! keys that it does not know. Everything else that monopile records is under `monopile` and in extra keys of
//! disks, stemcells and releases.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::credentials::CredentialDigests;
use super::durations::Durations;
use super::handle::{
    DiskHandle, Handle, Resource, SnapshotHandle, StemcellHandle, VmHandle, describe_in_iaas,
};
use super::location::CpiLocation;
use super::salted_digests::{Leaves, VmPropertiesDigests};
use super::storage::{BACKUP_DOCUMENT, STATE_DOCUMENT, Storage, VERSIONS_FOLDER};
use crate::protocol::{
    Contract, DiskCid, DiskHint, Networks, RequestId, ResourceKind, SnapshotCid, StemcellCid, Unnamed, VmCid,
    cid_or_empty,
};
use base::encryption::StoredForm;
use base::text::json_problem;
use base::text::shell_word;
use base::{Error, Result};

/// The newest format of the `monopile` section that this version reads, and the one that it writes. Builds
/// before the first release wrote format 1. It has other names for some keys: the aliases of the fields.
pub const FORMAT_VERSION: u32 = 2;
/// The hint for a state of a newer format.
const NEWER_HINT: &str =
    concat!("use the monopile that wrote it, or a newer one; this is ", env!("CARGO_PKG_VERSION"));

/// The keys of the bosh CLI, which ignores their case when it reads them.
const STATE_KEYS: &[&str] = &[
    "director_id",
    "installation_id",
    "current_vm_cid",
    "current_stemcell_id",
    "current_disk_id",
    "current_release_ids",
    "current_manifest_sha",
    "disks",
    "stemcells",
    "releases",
];
/// The keys of the bosh CLI in disks, stemcells and releases.
const RECORD_KEYS: &[&str] = &["id", "cid", "name", "version", "size", "cloud_properties", "api_version"];

/// Returns a key that differs from a known one only in case, and the known one.
fn key_in_other_case(
    keys: &Map<String, Value>,
    known_keys: &[&'static str],
) -> Option<(String, &'static str)> {
    keys.keys().find_map(|key| {
        let known_key = known_keys.iter().find(|name| **name != key && name.eq_ignore_ascii_case(key))?;
        Some((key.clone(), *known_key))
    })
}

/// Like [`key_in_other_case`], but looks anywhere in a state that cannot be read.
fn any_key_in_other_case(state: &Value) -> Option<(String, &'static str)> {
    let state = state.as_object()?;
    let records = ["disks", "stemcells", "releases"].into_iter().filter_map(|key| state.get(key)?.as_array());
    let mut records = records.flatten().filter_map(Value::as_object);
    key_in_other_case(state, STATE_KEYS)
        .or_else(|| records.find_map(|record| key_in_other_case(record, RECORD_KEYS)))
}

/// The whole state file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct State {
    /// The director id, by which monopile identifies itself to CPIs (`director_uuid`) and agents
    /// (`reply_to`).
    pub director_id: String,
    /// The id of the local installation of the CPI.
    #[serde(default)]
    pub installation_id: String,
    /// The VM's CID, if any.
    #[serde(default, with = "cid_or_empty")]
    pub current_vm_cid: Option<VmCid>,
    /// The id of the stemcell record in use.
    #[serde(default)]
    pub current_stemcell_id: String,
    /// The id of the disk record in use.
    #[serde(default)]
    pub current_disk_id: String,
    /// The ids of the release records in use.
    #[serde(default, deserialize_with = "deserialize_null_as_default")]
    pub current_release_ids: Vec<String>,
    /// SHA-512, hex, of the deploy text (`manifest::deploy_text`) of the last successful deploy. Empty
    /// while a deploy runs.
    #[serde(default, rename = "current_manifest_sha")]
    pub current_deploy_digest: String,
    /// The persistent disks on record, those to be deleted included.
    #[serde(default, deserialize_with = "deserialize_null_as_default")]
    pub disks: Vec<DiskRecord>,
    /// The stemcells on record, those to be deleted included.
    #[serde(default, deserialize_with = "deserialize_null_as_default")]
    pub stemcells: Vec<StemcellRecord>,
    /// The releases last deployed.
    #[serde(default, deserialize_with = "deserialize_null_as_default")]
    pub releases: Vec<ReleaseRecord>,
    /// The section that only monopile reads.
    #[serde(default)]
    pub monopile: MonopileSection,
    /// Keys of other tools, kept as they are.
    #[serde(flatten)]
    pub unknown_keys: Map<String, Value>,
}

/// A persistent disk. Before the CPI has named it, `C` is [`Unnamed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskRecord<C = DiskCid> {
    /// The record's id.
    pub id: String,
    /// The disk's CID.
    pub cid: C,
    /// Size in MiB.
    pub size: u64,
    /// The cloud properties with which it was created.
    #[serde(default, deserialize_with = "deserialize_null_as_default")]
    pub cloud_properties: Map<String, Value>,
    /// The disk hint that `attach_disk` returned for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<DiskHint>,
    /// The CPI it belongs to; `None` for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// The availability zone in which it was created, if the manifest had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub az: Option<String>,
    /// The VM of the disk when `attach-disk` replaced this disk with another one, or `update_disk` gave it
    /// another CID. The disk of this record then stays until an operator deletes it.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "replaced_on")]
    pub vm_at_replacement: Option<VmAtReplacement>,
    /// Keys of other tools, kept as they are.
    #[serde(flatten)]
    pub unknown_keys: Map<String, Value>,
}

/// The VM to which a disk was attached when `attach-disk` or `update_disk` replaced the disk, if any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VmAtReplacement(#[serde(with = "cid_or_empty")] pub Option<VmCid>);

/// A snapshot of a persistent disk. Before the CPI has named it, `C` is [`Unnamed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotRecord<C = SnapshotCid> {
    /// The CID that the CPI assigned.
    pub cid: C,
    /// The CPI it belongs to; `None` for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// The CID of its disk, which may be gone.
    pub disk: DiskCid,
    /// The time at which it was taken, RFC 3339 UTC.
    pub created_at: String,
    /// The time from which a create-env deletes it, RFC 3339 UTC; `None` if only an operator deletes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_until: Option<String>,
    /// Keys of newer versions, kept as they are.
    #[serde(flatten)]
    pub unknown_keys: Map<String, Value>,
}

/// An uploaded stemcell. Before the CPI has named it, `C` is [`Unnamed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StemcellRecord<C = StemcellCid> {
    /// The record's id.
    pub id: String,
    /// The name in `stemcell.MF`.
    pub name: String,
    /// The version in `stemcell.MF`.
    pub version: String,
    /// Its `api_version`; absent in states of older tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<u32>,
    /// The CID that the CPI assigned.
    pub cid: C,
    /// The CPI it was uploaded to; `None` for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// The identity of its content: `sha1:…` of the tarball, or the fingerprint of a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// True if an operator uploaded it (`upload-stemcell`). It stays until an operator deletes it, even if
    /// unused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "kept")]
    pub is_kept: bool,
    /// Keys of other tools, kept as they are.
    #[serde(flatten)]
    pub unknown_keys: Map<String, Value>,
}

/// A deployed release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReleaseRecord {
    /// The record's id.
    pub id: String,
    /// The name in `release.MF`.
    pub name: String,
    /// The version in `release.MF`.
    pub version: String,
    /// The digest of the tarball, or of the files of a release in source form, as `ArtifactIdentity::digest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Keys of other tools, kept as they are.
    #[serde(flatten)]
    pub unknown_keys: Map<String, Value>,
}

/// The `monopile` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MonopileSection {
    /// The format of this file.
    pub format: u32,
    /// The details of the VM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<VmRecord>,
    /// The CID and CPI of a VM without known details. Valid only while the CID equals `current_vm_cid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "bare_vm")]
    pub vm_without_details: Option<VmHandle>,
    /// Snapshots of persistent disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<SnapshotRecord>,
    /// Resources whose deletion has begun, failed or was not confirmed. For disks and stemcells these are
    /// marks on their records; an earlier VM is on record only here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undeleted: Vec<UndeletedResource>,
    /// Suspects: resources that failed calls may have created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspects: Vec<Suspect>,
    /// Optional methods that a CPI reported as not implemented.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent_methods: Vec<AbsentMethod>,
    /// The locations of the resources, one per CPI.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(alias = "places")]
    pub locations: Vec<CpiLocation>,
    /// A task of the VM's agent that a run waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_task: Option<AgentTask>,
    /// The VM on which the last update in place failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "update_failed")]
    pub vm_of_failed_update: Option<VmCid>,
    /// The change after which the environment no longer counts as deployed, if it was not a deploy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undeployed_by: Option<UndeployedBy>,
    /// The leaves of the manifest last deployed.
    #[serde(alias = "manifest", default, skip_serializing_if = "Option::is_none")]
    pub manifest_leaves: Option<Leaves>,
    /// Digests of the values of declared variables with which the environment was deployed. After a first
    /// deploy that failed, the values of that deploy.
    #[serde(alias = "credentials", default, skip_serializing_if = "Option::is_none")]
    pub credential_digests: Option<CredentialDigests>,
    /// The durations of steps and stages of earlier deploys.
    #[serde(default, skip_serializing_if = "Durations::is_empty")]
    pub durations: Durations,
    /// Keys of newer versions, kept as they are.
    #[serde(flatten)]
    pub unknown_keys: Map<String, Value>,
}

impl Default for MonopileSection {
    fn default() -> Self {
        MonopileSection {
            format: FORMAT_VERSION,
            vm: None,
            vm_without_details: None,
            snapshots: Vec::new(),
            undeleted: Vec::new(),
            suspects: Vec::new(),
            absent_methods: Vec::new(),
            locations: Vec::new(),
            agent_task: None,
            vm_of_failed_update: None,
            undeployed_by: None,
            manifest_leaves: None,
            credential_digests: None,
            durations: Durations::default(),
            unknown_keys: Map::new(),
        }
    }
}

/// A change after which the environment no longer counts as deployed, although its last deploy succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndeployedBy {
    /// A `delete-env` began.
    Deletion,
    /// `attach-disk` chose another disk.
    DiskChoice,
    /// The record of the disk in use was dropped.
    ForgottenDisk,
    /// The record of the stemcell in use was dropped.
    ForgottenStemcell,
    /// `state import` recorded the VM.
    Import,
    /// A change that only a newer version knows.
    #[serde(other)]
    Unknown,
}

impl UndeployedBy {
    /// Returns the reason for the next deploy.
    pub fn reason(self) -> &'static str {
        match self {
            UndeployedBy::Deletion => "a delete-env began, but did not finish",
            UndeployedBy::DiskChoice => "attach-disk chose another disk",
            UndeployedBy::ForgottenDisk => "the record of its disk was forgotten",
            UndeployedBy::ForgottenStemcell => "the record of its stemcell was forgotten",
            UndeployedBy::Import => "its VM was recorded by `state import`",
            UndeployedBy::Unknown => "it must be deployed again",
        }
    }
}

/// A task of an agent that may still be at work after the run that started it was interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTask {
    /// The CID of the VM whose agent runs it.
    pub vm: VmCid,
    /// The message that started it.
    pub method: String,
    /// The id that the agent assigned to it.
    pub id: String,
}

/// A resource that should be gone and may still exist. Every run tries again to delete it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndeletedResource {
    /// The resource, with the CPI of its record.
    #[serde(flatten)]
    pub resource: Resource,
    /// The message of the CPI when the deletion failed. For a VM whose deletion has begun, the reason for the
    /// deletion. Without secrets.
    #[serde(alias = "said")]
    pub reason: String,
    /// The time of the first attempt, RFC 3339 UTC.
    #[serde(alias = "since")]
    pub first_attempt_at: String,
    /// True if the CPI reported that it does not exist, without confirmation from another source.
    #[serde(default, rename = "not_found")]
    pub was_not_found: bool,
    /// Keys of newer versions, kept as they are.
    #[serde(flatten)]
    pub unknown_keys: Map<String, Value>,
}

/// A resource that a creating call may have created before the CPI answered with an error. Its CID is
/// unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    /// The kind of resource.
    #[serde(alias = "what")]
    pub kind: ResourceKind,
    /// The id of the request, which CPIs write into their logs.
    pub request_id: RequestId,
    /// The name of the CPI that was called; `None` for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// The agent id given to `create_vm`, for a VM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// A description to find it by, such as `an unattached disk of 1024 MiB`.
    #[serde(alias = "looks_like")]
    pub description: String,
    /// The message of the CPI, without secrets.
    #[serde(alias = "said")]
    pub cpi_message: String,
    /// The time of the call, RFC 3339 UTC.
    #[serde(alias = "since")]
    pub called_at: String,
    /// Keys of newer versions, kept as they are.
    #[serde(flatten)]
    pub unknown_keys: Map<String, Value>,
}

/// An optional method that a CPI reported as not implemented.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsentMethod {
    /// The name of the method.
    pub method: String,
    /// The name of the CPI; `None` for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
}

impl Suspect {
    /// Describes the resource, so that an operator can find it in the IaaS.
    pub fn describe_in_iaas(&self) -> String {
        describe_in_iaas(&self.description, self.cpi.as_deref())
    }
}

/// The details of a VM. Before the CPI has named it, `C` is [`Unnamed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VmRecord<C = VmCid> {
    /// Its CID. The record is valid only while this equals `current_vm_cid`.
    pub cid: C,
    /// The id that `create_vm` gave to its agent.
    pub agent_id: String,
    /// The contract under which it was created.
    pub contract: Contract,
    /// The networks that `create_vm` returned (contract v2, or a CPI that returns them anyway).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networks: Option<Networks>,
    /// The CPI it belongs to; `None` for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// `<instance group>/<index>`, for messages.
    pub instance: String,
    /// The first host key of its sshd, in OpenSSH format (contract v1 with a tunnel).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_host_key: Option<String>,
    /// The digests of its properties; `None` for imported VMs, and in records of builds before the first
    /// release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "made_of")]
    pub property_digests: Option<VmPropertiesDigests>,
    /// True if its agent answers and its disks are mounted, so only jobs may be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "ready")]
    pub is_ready: bool,
    /// Keys of newer versions, kept as they are.
    #[serde(flatten)]
    pub unknown_keys: Map<String, Value>,
}

impl DiskRecord<Unnamed> {
    /// Returns the record with the CID from the CPI.
    pub fn named(self, cid: DiskCid) -> DiskRecord {
        let DiskRecord {
            id,
            cid: Unnamed,
            size,
            cloud_properties,
            hint,
            cpi,
            az,
            vm_at_replacement,
            unknown_keys,
        } = self;
        DiskRecord { id, cid, size, cloud_properties, hint, cpi, az, vm_at_replacement, unknown_keys }
    }
}

impl DiskRecord {
    /// Returns true if cleanups keep the disk although no VM uses it.
    pub fn is_kept(&self) -> bool {
        self.vm_at_replacement.is_some()
    }

    /// Returns the CID with the name of its CPI.
    pub fn handle(&self) -> DiskHandle {
        Handle::new(self.cid.clone(), self.cpi.as_deref())
    }
}

impl StemcellRecord<Unnamed> {
    /// Returns the record with the CID from the CPI.
    pub fn named(self, cid: StemcellCid) -> StemcellRecord {
        let StemcellRecord {
            id,
            name,
            version,
            api_version,
            cid: Unnamed,
            cpi,
            digest,
            is_kept,
            unknown_keys,
        } = self;
        StemcellRecord { id, name, version, api_version, cid, cpi, digest, is_kept, unknown_keys }
    }
}

impl StemcellRecord {
    /// Returns the CID with the name of its CPI.
    pub fn handle(&self) -> StemcellHandle {
        Handle::new(self.cid.clone(), self.cpi.as_deref())
    }
}

impl SnapshotRecord<Unnamed> {
    /// Returns the record with the CID from the CPI.
    pub fn named(self, cid: SnapshotCid) -> SnapshotRecord {
        let SnapshotRecord { cid: Unnamed, cpi, disk, created_at, keep_until, unknown_keys } = self;
        SnapshotRecord { cid, cpi, disk, created_at, keep_until, unknown_keys }
    }
}

impl SnapshotRecord {
    /// Returns the CID with the name of its CPI.
    pub fn handle(&self) -> SnapshotHandle {
        Handle::new(self.cid.clone(), self.cpi.as_deref())
    }

    /// Returns a snapshot of `disk-1` by the default CPI.
    #[cfg(test)]
    pub(crate) fn example(cid: &str) -> Self {
        SnapshotRecord {
            cid: cid.parse().unwrap(),
            cpi: None,
            disk: "disk-1".parse().unwrap(),
            created_at: "2026-01-01T00:00:00Z".to_owned(),
            keep_until: None,
            unknown_keys: Map::new(),
        }
    }
}

impl VmRecord<Unnamed> {
    /// Returns the record with the CID and the networks from the CPI.
    pub fn named(self, cid: VmCid, networks: Option<Networks>) -> VmRecord {
        let VmRecord {
            cid: Unnamed,
            agent_id,
            contract,
            cpi,
            instance,
            ssh_host_key,
            property_digests,
            is_ready,
            unknown_keys,
            networks: _,
        } = self;
        VmRecord {
            cid,
            agent_id,
            contract,
            networks,
            cpi,
            instance,
            ssh_host_key,
            property_digests,
            is_ready,
            unknown_keys,
        }
    }
}

impl VmRecord {
    /// Returns the CID with the name of its CPI.
    pub fn handle(&self) -> VmHandle {
        Handle::new(self.cid.clone(), self.cpi.as_deref())
    }
}

impl State {
    /// Creates a state without resources, with new ids.
    pub fn new() -> Self {
        State {
            director_id: uuid::Uuid::new_v4().to_string(),
            installation_id: uuid::Uuid::new_v4().to_string(),
            ..State::default()
        }
    }

    /// Reads the state, or returns `None` if there is none.
    pub fn read(storage: &Storage) -> Result<Option<Self>> {
        Ok(Self::read_with_form(storage)?.map(|(state, _)| state))
    }

    /// Like [`State::read`]. Also returns whether the state is stored as plain text or encrypted.
    pub(super) fn read_with_form(storage: &Storage) -> Result<Option<(Self, StoredForm)>> {
        let document = storage.read(STATE_DOCUMENT).map_err(|error| match error.kind() {
            // The state is encrypted, but not for an identity of this run.
            io::ErrorKind::InvalidInput => {
                Error::invalid(format!("the state '{storage}' cannot be read")).with_source(error)
            }
            _ => {
                let error = Error::io(format!("reading the state '{storage}'"), error);
                storage.with_path_hint(error)
            }
        })?;
        let Some(document) = document else { return Ok(None) };
        let state = Self::parse_or_explain(&document.bytes);
        state.map(|state| Some((state, document.stored_form))).map_err(|UnusableState { error, is_newer }| {
            if let Some(key) = manifest_key(&document.bytes) {
                return other_file_error(storage, &format!("a manifest, not a state: it has `{key}`"));
            }
            if is_yaml_file(&storage.path_or_url(), &document.bytes) {
                return other_file_error(storage, "a YAML file, such as a vars store, and not a state");
            }
            let error = error
                .context(format!("the state '{storage}' cannot be used"))
                .with_note("nothing was changed");
            if is_newer {
                return error;
            }
            let backup =
                storage.keeps_backup().then(|| storage.read(BACKUP_DOCUMENT).ok().flatten()).flatten();
            let has_backup = backup.is_some_and(|document| Self::parse(&document.bytes).is_ok());
            let location = shell_word(&storage.to_string()).into_owned();
            let error = match has_backup {
                true => error
                    .with_hint(format!(
                        "restore the version before it: `monopile state backup --restore bak --state \
                         {location}`"
                    ))
                    .with_hint(COMPARE_HINT),
                false => error,
            };
            if has_backup || storage.list(VERSIONS_FOLDER).is_ok_and(|versions| !versions.is_empty()) {
                return error
                    .with_hint(format!("list earlier versions: `monopile state backup --state {location}`"));
            }
            match storage.is_shared() {
                true => error.with_hint(OTHER_STATE_HINT),
                false => error
                    .with_hint(OTHER_STATE_HINT)
                    .with_hint(format!("without a copy, move it away: `mv {location} {location}.broken`"))
                    .with_hint(
                        "then record what exists in the IaaS: `monopile state import MANIFEST --vm CID \
                         --disk CID`",
                    ),
            }
        })
    }

    /// Parses and checks the bytes of a state file.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Self::parse_or_explain(bytes).map_err(|unusable| unusable.error)
    }

    fn parse_or_explain(bytes: &[u8]) -> Result<Self, UnusableState> {
        let damage_error = |error: Error| UnusableState { error, is_newer: false };
        if bytes.starts_with(b"\xef\xbb\xbf") {
            return Err(damage_error(Error::invalid(
                "line 1: it begins with a byte order mark; save the file as UTF-8 without one",
            )));
        }
        if bytes.trim_ascii().is_empty() {
            return Err(damage_error(Error::invalid("the file is empty")));
        }
        let error_at_line = |word: &str, problem: String| {
            // The line of the problem. The search fails if the word is written with escapes.
            let line = String::from_utf8_lossy(bytes)
                .find(&format!("\"{word}\""))
                .map(|index| bytes.iter().take(index).filter(|byte| **byte == b'\n').count() + 1)
                // In a document of one line, the line says nothing.
                .filter(|_| bytes.trim_ascii().contains(&b'\n'));
            let line_prefix = line.map_or_else(String::new, |line| format!("line {line}: "));
            let error = Error::invalid(format!("{line_prefix}{problem}"));
            match word {
                "format" => UnusableState { error: error.with_hint(NEWER_HINT), is_newer: true },
                _ => damage_error(error),
            }
        };
        let parse_result = serde_json::from_slice::<State>(bytes);
        let misspelt_key = match &parse_result {
            Ok(state) => key_in_other_case(&state.unknown_keys, STATE_KEYS)
                .or_else(|| {
                    state.disks.iter().find_map(|record| key_in_other_case(&record.unknown_keys, RECORD_KEYS))
                })
                .or_else(|| {
                    state
                        .stemcells
                        .iter()
                        .find_map(|record| key_in_other_case(&record.unknown_keys, RECORD_KEYS))
                })
                .or_else(|| {
                    state
                        .releases
                        .iter()
                        .find_map(|record| key_in_other_case(&record.unknown_keys, RECORD_KEYS))
                }),
            // A required key may be written in another case.
            Err(_) => serde_json::from_slice::<Value>(bytes).ok().as_ref().and_then(any_key_in_other_case),
        };
        if let Some((actual_key, correct_key)) = misspelt_key {
            let problem = format!("it has the key '{actual_key}', which must be '{correct_key}'");
            let error = error_at_line(&actual_key, problem).error;
            return Err(damage_error(
                error.with_hint(format!("rename '{actual_key}' to '{correct_key}', or remove it")),
            ));
        }
        let state: State = parse_result.map_err(|error| {
            let value = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
            match parse_problem(&value) {
                Some((word, problem)) => error_at_line(word, problem),
                None if value.is_object() && value.get("director_id").is_none() => {
                    let is_other_file = STATE_KEYS.iter().all(|key| value.get(key).is_none());
                    let conclusion = if is_other_file { ": it is another JSON file" } else { "" };
                    damage_error(Error::invalid(format!(
                        "it has no `director_id`, which every state has{conclusion}"
                    )))
                }
                None => damage_error(Error::invalid(describe_damage(&error, bytes))),
            }
        })?;
        match state.problem() {
            None => {
                let monopile = MonopileSection { format: FORMAT_VERSION, ..state.monopile };
                Ok(State { monopile, ..state })
            }
            Some((word, problem)) => Err(error_at_line(word, problem)),
        }
    }

    /// Describes an inconsistency of the state, if any, and returns a word near it in the file.
    fn problem(&self) -> Option<(&str, String)> {
        if self.monopile.format > FORMAT_VERSION {
            return Some(("format", newer_format_problem(self.monopile.format.into())));
        }
        if self.director_id.trim().is_empty() {
            return Some(("director_id", "`director_id` is empty".to_owned()));
        }
        let disks = self.disks.iter().map(|disk| ("disk", &disk.id, disk.cid.as_str()));
        let stemcells =
            self.stemcells.iter().map(|stemcell| ("stemcell", &stemcell.id, stemcell.cid.as_str()));
        if let Some((kind, _, cid)) = disks.chain(stemcells).find(|(_, id, _)| id.trim().is_empty()) {
            return Some((cid, format!("{kind} '{cid}' has no id")));
        }
        let mut ids = BTreeSet::new();
        let mut cids = BTreeSet::new();
        for disk in &self.disks {
            if !ids.insert(&disk.id) {
                return Some((&disk.id, format!("two disks have the id '{}'", disk.id)));
            }
            // One record could be deleted as unused while the other one is in use.
            if !cids.insert((&disk.cid, &disk.cpi)) {
                return Some((disk.cid.as_str(), format!("two disks have the CID '{}'", disk.cid)));
            }
        }
        let unknown_id_problem =
            |word, kind, id: &str| Some((word, format!("`{word}` is '{id}', but no {kind} has that id")));
        if !self.current_disk_id.is_empty() && self.current_disk().is_none() {
            return unknown_id_problem("current_disk_id", "disk", &self.current_disk_id);
        }
        if !self.current_stemcell_id.is_empty() && self.current_stemcell().is_none() {
            return unknown_id_problem("current_stemcell_id", "stemcell", &self.current_stemcell_id);
        }
        None
    }

    /// Encodes the state as JSON, indented by four spaces like the state of the bosh CLI.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        self.serialize(&mut serializer)
            .map_err(|error| Error::failure("encoding the state failed").with_source(error))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Returns the CID of the VM, if any.
    pub fn vm_cid(&self) -> Option<&VmCid> {
        self.current_vm_cid.as_ref()
    }

    /// Returns the details of the VM, if the record belongs to the current VM.
    pub fn vm(&self) -> Option<&VmRecord> {
        self.monopile.vm.as_ref().filter(|vm| Some(&vm.cid) == self.vm_cid())
    }

    /// Returns the handle of the VM, if any. A VM that another tool recorded belongs to the default CPI.
    pub fn vm_handle(&self) -> Option<VmHandle> {
        let cid = self.vm_cid()?;
        let vm_of_other_tool = self.monopile.vm_without_details.as_ref().filter(|vm| vm.cid == *cid);
        let cpi = match self.vm() {
            Some(vm) => vm.cpi.as_deref(),
            None => vm_of_other_tool.and_then(Handle::cpi),
        };
        Some(Handle::new(cid.clone(), cpi))
    }

    /// Returns the suspect for a VM whose agent has this id.
    pub fn suspected_vm(&self, agent_id: &str) -> Option<&Suspect> {
        self.monopile.suspects.iter().find(|suspect| suspect.agent_id.as_deref() == Some(agent_id))
    }

    /// Returns true if the last update of the VM in place failed.
    pub fn update_failed(&self) -> bool {
        self.monopile.vm_of_failed_update.is_some()
            && self.monopile.vm_of_failed_update.as_ref() == self.vm_cid()
    }

    /// Returns the task of the VM's agent that an earlier run waited for.
    pub fn agent_task(&self) -> Option<&AgentTask> {
        self.monopile.agent_task.as_ref().filter(|task| Some(&task.vm) == self.vm_cid())
    }

    /// Returns the location of the resources of a CPI, if it is on record.
    pub fn location(&self, cpi: Option<&str>) -> Option<&CpiLocation> {
        self.monopile.locations.iter().find(|location| location.cpi.as_deref() == cpi)
    }

    /// Returns the mark on a resource whose deletion failed.
    pub fn undeleted(&self, resource: &Resource) -> Option<&UndeletedResource> {
        self.monopile.undeleted.iter().find(|undeleted| undeleted.resource == *resource)
    }

    /// Returns earlier VMs that may still exist.
    pub fn undeleted_vms(&self) -> impl Iterator<Item = VmHandle> {
        self.monopile.undeleted.iter().filter_map(|undeleted| match &undeleted.resource {
            Resource::Vm(vm) => Some(vm.clone()),
            _ => None,
        })
    }

    /// Returns the VM, then the earlier ones that may still exist.
    pub fn vms(&self) -> impl Iterator<Item = VmHandle> {
        self.vm_handle().into_iter().chain(self.undeleted_vms())
    }

    /// Returns all resources on record.
    pub fn resources(&self) -> impl Iterator<Item = Resource> {
        let vms = self.vms().map(Resource::Vm);
        let snapshots = self.monopile.snapshots.iter().map(|snapshot| Resource::Snapshot(snapshot.handle()));
        let disks = self.disks.iter().map(|disk| Resource::Disk(disk.handle()));
        let stemcells = self.stemcells.iter().map(|stemcell| Resource::Stemcell(stemcell.handle()));
        vms.chain(snapshots).chain(disks).chain(stemcells)
    }

    /// Describes a resource, including the size of a disk, or the name and version of a stemcell.
    pub fn describe(&self, resource: &Resource) -> String {
        let details = match resource {
            Resource::Snapshot(_) => None,
            Resource::Vm(handle) => self.vm_address().filter(|_| self.vm_handle().as_ref() == Some(handle)),
            Resource::Disk(handle) => {
                let disk = self.disks.iter().find(|disk| disk.handle() == *handle);
                disk.map(|disk| format!("{} MiB", disk.size))
            }
            Resource::Stemcell(handle) => {
                let stemcell = self.stemcells.iter().find(|stemcell| stemcell.handle() == *handle);
                stemcell.map(|stemcell| format!("{}/{}", stemcell.name, stemcell.version))
            }
        };
        match details {
            Some(details) => format!("{resource} ({details})"),
            None => resource.to_string(),
        }
    }

    /// Returns the first address of the VM that is on record, if any: that of the CPI, or that of the
    /// manifest last deployed.
    pub fn vm_address(&self) -> Option<String> {
        self.vm_addresses().into_iter().next()
    }

    /// Returns the static addresses of the manifest last deployed.
    pub fn static_addresses(&self) -> Vec<String> {
        let addresses = self.monopile.manifest_leaves.iter().flat_map(|leaves| {
            let paths = leaves
                .paths()
                .filter(|path| path.rsplit_once('/').is_some_and(|(list, _)| list.ends_with("/static_ips")));
            paths.filter_map(|path| serde_json::from_str::<String>(leaves.description(path)?).ok())
        });
        addresses.collect()
    }

    /// Returns the addresses of the VM that are on record: those of the CPI, then those of the manifest last
    /// deployed.
    pub fn vm_addresses(&self) -> Vec<String> {
        let networks = self.vm().and_then(|vm| vm.networks.as_ref()).map(Networks::as_map);
        let cpi_addresses =
            networks.into_iter().flat_map(Map::values).filter_map(|network| network.get("ip")?.as_str());
        let mut addresses: Vec<String> = Vec::new();
        for address in cpi_addresses.map(str::to_owned).chain(self.static_addresses()) {
            if !address.is_empty() && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    /// Returns true if the resource is on record.
    pub fn has_on_record(&self, resource: &Resource) -> bool {
        self.resources().any(|other| other == *resource)
    }

    /// Returns the disk with this handle.
    pub fn disk(&self, handle: &DiskHandle) -> Option<&DiskRecord> {
        self.disks.iter().find(|disk| disk.handle() == *handle)
    }

    /// Returns the disk in use.
    pub fn current_disk(&self) -> Option<&DiskRecord> {
        self.disks.iter().find(|disk| disk.id == self.current_disk_id)
    }

    /// Returns the stemcell in use.
    pub fn current_stemcell(&self) -> Option<&StemcellRecord> {
        self.stemcells.iter().find(|stemcell| stemcell.id == self.current_stemcell_id)
    }

    /// Returns the `api_version` of the stemcell in use. Falls back to another stemcell, preferably of this
    /// CPI, then to 1.
    pub fn stemcell_api_version(&self, cpi: Option<&str>) -> u32 {
        let stemcells = || self.current_stemcell().into_iter().chain(&self.stemcells);
        let stemcell =
            stemcells().find(|stemcell| stemcell.cpi.as_deref() == cpi).or_else(|| stemcells().next());
        stemcell.and_then(|stemcell| stemcell.api_version).unwrap_or(1)
    }

    /// Returns true if a deploy to this environment has succeeded.
    pub fn was_ever_deployed(&self) -> bool {
        !self.current_deploy_digest.is_empty() || self.monopile.manifest_leaves.is_some()
    }

    /// Returns the reason why the environment does not count as deployed although it has a VM, or `None`.
    /// After the first finished deploy, a missing disk has two possible causes in states of builds before the
    /// first release: its record was dropped, or the last deploy did not finish.
    pub fn unfinished_reason(&self) -> Option<&'static str> {
        if self.vm_cid().is_none() || !self.current_deploy_digest.is_empty() {
            return None;
        }
        if let Some(cause) = self.monopile.undeployed_by {
            return Some(cause.reason());
        }
        let property_digests = self.vm().and_then(|vm| vm.property_digests.as_ref());
        let has_disk = property_digests.is_some_and(VmPropertiesDigests::has_persistent_disk);
        Some(match has_disk && self.current_disk().is_none() && self.was_ever_deployed() {
            true => "the record of its disk was forgotten, or the last deploy did not finish",
            false => "the last deploy did not finish",
        })
    }

    /// Returns the releases in use.
    pub fn current_releases(&self) -> impl Iterator<Item = &ReleaseRecord> {
        self.releases.iter().filter(|release| self.current_release_ids.contains(&release.id))
    }

    /// Returns the persistent disk that the VM was created without, because the manifest has none any more.
    /// It is kept with its data.
    pub fn detached_disk(&self) -> Option<&DiskRecord> {
        let digests = self.vm()?.property_digests.as_ref()?;
        self.current_disk().filter(|_| !digests.has_persistent_disk())
    }

    /// Returns the persistent disk that belongs on the VM: the disk in use, unless the VM was created without
    /// it.
    pub fn disk_of_vm(&self) -> Option<&DiskRecord> {
        self.current_disk().filter(|_| self.detached_disk().is_none())
    }

    /// Returns the disk that is still on the VM although the operator chose another one, which the next
    /// deploy attaches.
    pub fn disk_left_on_vm(&self) -> Option<&DiskRecord> {
        let vm = self.vm_cid()?;
        let was_on = |disk: &&DiskRecord| {
            disk.vm_at_replacement
                .as_ref()
                .is_some_and(|vm_at_replacement| vm_at_replacement.0.as_ref() == Some(vm))
        };
        self.disks.iter().find(was_on)
    }

    /// Returns true if no resource is on record.
    pub fn is_empty_of_resources(&self) -> bool {
        self.resources().next().is_none()
    }
}

/// A state whose bytes cannot be used, with the error that says why.
struct UnusableState {
    error: Error,
    /// True if a newer version of monopile wrote them.
    is_newer: bool,
}

/// Describes the problem of a state that cannot be parsed: a newer format, or a blank CID or request id. Also
/// returns a word near it in the file.
fn parse_problem(state: &Value) -> Option<(&str, String)> {
    let monopile = &state["monopile"];
    if let Some(format) = monopile["format"].as_u64().filter(|format| *format > FORMAT_VERSION.into()) {
        return Some(("format", newer_format_problem(format)));
    }
    if is_blank(&state["current_vm_cid"]) && state["current_vm_cid"] != "" {
        return Some(("current_vm_cid", "`current_vm_cid` is blank".to_owned()));
    }
    if let Some(blank) = first_blank(&monopile["undeleted"], "cid") {
        let kind = ResourceKind::deserialize(blank.get("kind").or_else(|| blank.get("what"))?).ok()?;
        return Some(("undeleted", format!("a {kind} in `undeleted` has no CID")));
    }
    if first_blank(&monopile["suspects"], "request_id").is_some() {
        return Some(("suspects", "a record in `suspects` has no request ID".to_owned()));
    }
    if let Some(blank) = first_blank(&monopile["snapshots"], "cid") {
        let disk = blank["disk"].as_str()?;
        return Some(("snapshots", format!("a snapshot of disk '{disk}' has no CID")));
    }
    for (kind, list) in [("disk", &state["disks"]), ("stemcell", &state["stemcells"])] {
        if let Some(blank) = first_blank(list, "cid") {
            let id = blank["id"].as_str()?;
            return Some((id, format!("{kind} '{id}' has no CID")));
        }
    }
    None
}

fn first_blank<'v>(records: &'v Value, key: &str) -> Option<&'v Value> {
    records.as_array()?.iter().find(|record| is_blank(&record[key]))
}

fn is_blank(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.trim().is_empty())
}

fn newer_format_problem(format: u64) -> String {
    format!("it has format {format}, but this version of monopile reads formats up to {FORMAT_VERSION}")
}

/// Returns the key of a manifest in a file that should be a state.
fn manifest_key(bytes: &[u8]) -> Option<&'static str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let has_key = |key: &&str| {
        text.lines().any(|line| line.strip_prefix(*key).is_some_and(|rest| rest.starts_with(':')))
    };
    manifest::MANIFEST_SECTIONS.into_iter().find(has_key)
}

/// The end of the name of a state, after the name of the manifest without its extension.
pub const STATE_SUFFIX: &str = "-state.json";

/// Returns true for a file with the name of a YAML file and without a JSON object.
fn is_yaml_file(path: &Path, bytes: &[u8]) -> bool {
    let has_name = path.extension().is_some_and(|extension| extension == "yml" || extension == "yaml");
    let text = bytes.trim_ascii_start();
    has_name && !text.is_empty() && !text.starts_with(b"{")
}

/// The hint after an earlier version of a state is restored.
pub(crate) const COMPARE_HINT: &str = "then compare it with the IaaS, because a run may have changed more \
                                       since: `monopile cloud-check MANIFEST --report`";

/// The hint for a file that is no state, and whose state is not beside it.
const OTHER_STATE_HINT: &str =
    "name the state of this environment, or a copy of it: `monopile SAME-COMMAND --state FILE`";

/// Returns the error for another file of an environment in place of its state.
fn other_file_error(storage: &Storage, kind: &str) -> Error {
    let path = storage.path_or_url();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let stem = stem.strip_suffix("-vars").unwrap_or(&stem);
    let sibling = path.with_file_name(format!("{stem}{STATE_SUFFIX}"));
    Error::invalid(format!("'{storage}' (--state) is {kind}")).with_note("nothing was changed").with_hint(
        match !storage.is_shared() && sibling.is_file() {
            true => format!(
                "its state is beside it: `monopile SAME-COMMAND --state {}`",
                shell_word(&sibling.to_string_lossy())
            ),
            false => OTHER_STATE_HINT.to_owned(),
        },
    )
}

fn deserialize_null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Describes the first error in a state file, without the words of the JSON library.
fn describe_damage(error: &serde_json::Error, bytes: &[u8]) -> String {
    if !error.is_data() {
        return format!("not valid JSON, {}", json_problem(error));
    }
    let (line, problem) = (error.line(), json_problem(error));
    match error.to_string() {
        text if text.contains("expected struct State") => {
            let kind = match text {
                text if text.contains("sequence") => "a list",
                text if text.contains("string") => "a string",
                text if text.contains("map") => "an object",
                _ => "a single value",
            };
            format!("line {line}: it is {kind}, but a state is a JSON object")
        }
        _ => match (key_before(error, bytes), split_type_mismatch(&problem)) {
            (Some(key), Some((actual_value, required_type))) => {
                format!("line {line}: `{key}` must be {required_type}, not {actual_value}")
            }
            _ => match problem.split_once("missing field ") {
                Some((place, field)) => format!("{place}{field} is missing"),
                None => problem,
            },
        },
    }
}

/// Splits the description of a value of the wrong type into the value and the type that is needed.
fn split_type_mismatch(problem: &str) -> Option<(String, &str)> {
    let (_, problem) = problem.split_once(": ")?;
    let (actual_value, required_type) = problem.strip_suffix(" is needed")?.split_once(" where ")?;
    let required_type = if required_type == "a text" { "a string" } else { required_type };
    Some((actual_value.replace('`', ""), required_type))
}

/// Returns the key whose value has this error: the last key in its line, if its value is no list of values.
fn key_before<'b>(error: &serde_json::Error, bytes: &'b [u8]) -> Option<&'b str> {
    let line = bytes.split(|byte| *byte == b'\n').nth(error.line().checked_sub(1)?)?;
    let text_before = std::str::from_utf8(line.get(..error.column())?).ok()?;
    let (key, value) = text_before.rsplit_once("\":")?;
    let is_item = value.trim_start().starts_with('[') && value.trim() != "[";
    let (_, key) = key.rsplit_once('"')?;
    (!is_item && !key.is_empty()).then_some(key)
}
