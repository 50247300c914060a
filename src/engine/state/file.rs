//! What the state file says. The top-level keys are those of `bosh` v7
//! (its `config/deployment_state_service.go`), which ignores what it does not know; what monopile records on
//! top stands under `monopile` and in extra keys of disks and stemcells.

use std::collections::BTreeSet;
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::durations::Durations;
use super::handle::{DiskHandle, Handle, Resource, SnapshotHandle, StemcellHandle, VmHandle, in_iaas};
use super::salted::{Leaves, VmSpecDigests};
use super::storage::{BACKUP, Storage};
use crate::protocol::{
    Contract, DiskCid, DiskHint, Networks, RequestId, ResourceKind, SnapshotCid, StemcellCid, Unnamed, VmCid,
    cid_or_empty,
};
use base::encryption::StoredForm;
use base::{Error, Result};

/// The newest format of the `monopile` section that this version reads and the one it writes.
pub const FORMAT: u32 = 1;

/// The keys of `bosh`, which reads them in any case.
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
/// The same, of disks, stemcells and releases.
const RECORD_KEYS: &[&str] = &["id", "cid", "name", "version", "size", "cloud_properties", "api_version"];

/// Returns a key that differs from a known one by its case alone, and the known one.
fn key_in_other_case(keys: &Map<String, Value>, known: &[&'static str]) -> Option<(String, &'static str)> {
    keys.keys().find_map(|key| {
        let known = known.iter().find(|known| **known != key && known.eq_ignore_ascii_case(key))?;
        Some((key.clone(), *known))
    })
}

/// As [`key_in_other_case`], anywhere in a state that cannot be read.
fn any_key_in_other_case(state: &Value) -> Option<(String, &'static str)> {
    let state = state.as_object()?;
    let records = ["disks", "stemcells", "releases"].into_iter().filter_map(|key| state.get(key)?.as_array());
    let mut records = records.flatten().filter_map(Value::as_object);
    key_in_other_case(state, STATE_KEYS)
        .or_else(|| records.find_map(|record| key_in_other_case(record, RECORD_KEYS)))
}

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct State {
    /// Identifies this tool towards CPIs (`director_uuid`) and agents (`reply_to`).
    pub director_id: String,
    /// Identifies the local installation of the CPI.
    #[serde(default)]
    pub installation_id: String,
    /// The VM's CID, if there is one.
    #[serde(default, with = "cid_or_empty")]
    pub current_vm_cid: Option<VmCid>,
    /// The id of the stemcell record in use.
    #[serde(default)]
    pub current_stemcell_id: String,
    /// The id of the disk record in use.
    #[serde(default)]
    pub current_disk_id: String,
    /// The ids of the release records in use.
    #[serde(default, deserialize_with = "null_is_default")]
    pub current_release_ids: Vec<String>,
    /// SHA-512 (hex) of the interpolated manifest last deployed with success; empty while a deploy is under way.
    #[serde(default)]
    pub current_manifest_sha: String,
    /// Every persistent disk that exists.
    #[serde(default, deserialize_with = "null_is_default")]
    pub disks: Vec<Disk>,
    /// Every stemcell that exists.
    #[serde(default, deserialize_with = "null_is_default")]
    pub stemcells: Vec<Stemcell>,
    /// The releases last deployed.
    #[serde(default, deserialize_with = "null_is_default")]
    pub releases: Vec<Release>,
    /// What only monopile records.
    #[serde(default)]
    pub monopile: Extension,
    /// Keys of other tools; they survive.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A persistent disk. Before the CPI has named it, `C` is [`Unnamed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disk<C = DiskCid> {
    /// The record's id.
    pub id: String,
    /// The disk's CID.
    pub cid: C,
    /// Size in MiB.
    pub size: u64,
    /// The cloud properties it was created with.
    #[serde(default, deserialize_with = "null_is_default")]
    pub cloud_properties: Map<String, Value>,
    /// What `attach_disk` returned for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<DiskHint>,
    /// The CPI it belongs to; none for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// The availability zone it was made in, where the manifest had such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub az: Option<String>,
    /// Set when `attach-disk` put another disk in its place. Such a disk stays until an operator deletes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_on: Option<ReplacedOn>,
    /// Keys of other tools.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// The VM that had a disk when `attach-disk` put another one in its place, if any had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReplacedOn(#[serde(with = "cid_or_empty")] pub Option<VmCid>);

/// A snapshot of a persistent disk. Before the CPI has named it, `C` is [`Unnamed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot<C = SnapshotCid> {
    /// Its CID.
    pub cid: C,
    /// The CPI it belongs to; none for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// The CID of the disk it was taken of, which may be gone.
    pub disk: DiskCid,
    /// When it was taken, RFC 3339 UTC.
    pub created_at: String,
    /// Keys of newer versions that this one does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// An uploaded stemcell. Before the CPI has named it, `C` is [`Unnamed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stemcell<C = StemcellCid> {
    /// The record's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its `api_version`; absent in states of older tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<u32>,
    /// Its CID.
    pub cid: C,
    /// The CPI it was uploaded to; none for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// What identifies its content: `sha1:…` of the tarball, or the fingerprint of a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// An operator uploaded it (`upload-stemcell`): it stays until somebody deletes it, in use or not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// Keys of other tools.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A deployed release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Release {
    /// The record's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What identifies its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Keys of other tools.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// The `monopile` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Extension {
    /// The format of this file.
    pub format: u32,
    /// The VM, in more detail than its CID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<Vm>,
    /// The CPI of the VM where no more is known of it; it counts only while the CID is `current_vm_cid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bare_vm: Option<VmHandle>,
    /// Snapshots of persistent disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<Snapshot>,
    /// What was to be deleted and, as far as anybody can tell, was not. Of disks and stemcells these are marks on
    /// their records; a VM, of which there is one, is on record here alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undeleted: Vec<Undeleted>,
    /// What failed calls may have made all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspects: Vec<Suspect>,
    /// The leaves of the manifest last deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Leaves>,
    /// How long the steps and stages of earlier deploys took.
    #[serde(default, skip_serializing_if = "Durations::is_empty")]
    pub durations: Durations,
    /// Keys of newer versions that this one does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl Default for Extension {
    fn default() -> Self {
        Extension {
            format: FORMAT,
            vm: None,
            bare_vm: None,
            snapshots: Vec::new(),
            undeleted: Vec::new(),
            suspects: Vec::new(),
            manifest: None,
            durations: Durations::default(),
            unknown: Map::new(),
        }
    }
}

/// A deletion that did not come about, to be tried again by the next run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undeleted {
    /// The resource that was to be deleted, with the CPI it is on record with.
    #[serde(flatten)]
    pub resource: Resource,
    /// What the CPI said, without secrets.
    pub said: String,
    /// When it was tried, RFC 3339 UTC.
    pub since: String,
    /// The CPI said that it does not exist, and nothing could confirm that.
    #[serde(default)]
    pub not_found: bool,
}

/// What a creating call may have made before the CPI answered it with an error. Nobody has its CID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    /// What it would be.
    pub what: ResourceKind,
    /// The id of the request, which CPIs write into their logs.
    pub request_id: RequestId,
    /// The name of the CPI that was called; none for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// The id that the agent of a VM was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// How it would be found, in words: `an unattached disk of 1024 MiB`.
    pub looks_like: String,
    /// What the CPI said, without secrets.
    pub said: String,
    /// When that was, RFC 3339 UTC.
    pub since: String,
}

impl Suspect {
    /// How to find it.
    pub fn how_to_find(&self) -> String {
        in_iaas(&self.looks_like, self.cpi.as_deref())
    }
}

/// A VM, in more detail than its CID. Before the CPI has named it, `C` is [`Unnamed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Vm<C = VmCid> {
    /// Its CID; this record counts only while it equals `current_vm_cid`.
    pub cid: C,
    /// The id its agent was given.
    pub agent_id: String,
    /// The contract it was created under.
    pub contract: Contract,
    /// The networks `create_vm` returned (contract v2, or a CPI that returns them anyway).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networks: Option<Networks>,
    /// The CPI it belongs to; none for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// `<instance group>/<index>`, for messages.
    pub instance: String,
    /// The host key its sshd showed first, in OpenSSH's notation (contract v1 with a tunnel).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_host_key: Option<String>,
    /// What it was made from; absent in records of older versions and of imported VMs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_of: Option<VmSpecDigests>,
    /// Agent and disks are as wanted: whatever may be missing are the jobs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ready: bool,
}

impl Disk<Unnamed> {
    /// The record with the CID that the CPI gave.
    pub fn named(self, cid: DiskCid) -> Disk {
        let Disk { id, cid: Unnamed, size, cloud_properties, hint, cpi, az, replaced_on, unknown } = self;
        Disk { id, cid, size, cloud_properties, hint, cpi, az, replaced_on, unknown }
    }
}

impl Disk {
    /// Whether it stays although nothing uses it.
    pub fn is_kept(&self) -> bool {
        self.replaced_on.is_some()
    }

    /// Its name towards CPIs.
    pub fn handle(&self) -> DiskHandle {
        Handle::new(self.cid.clone(), self.cpi.as_deref())
    }
}

impl Stemcell<Unnamed> {
    /// The record with the CID that the CPI gave.
    pub fn named(self, cid: StemcellCid) -> Stemcell {
        let Stemcell { id, name, version, api_version, cid: Unnamed, cpi, digest, kept, unknown } = self;
        Stemcell { id, name, version, api_version, cid, cpi, digest, kept, unknown }
    }
}

impl Stemcell {
    /// Its name towards CPIs.
    pub fn handle(&self) -> StemcellHandle {
        Handle::new(self.cid.clone(), self.cpi.as_deref())
    }
}

impl Snapshot<Unnamed> {
    /// The record with the CID that the CPI gave.
    pub fn named(self, cid: SnapshotCid) -> Snapshot {
        let Snapshot { cid: Unnamed, cpi, disk, created_at, unknown } = self;
        Snapshot { cid, cpi, disk, created_at, unknown }
    }
}

impl Snapshot {
    /// Its name towards CPIs.
    pub fn handle(&self) -> SnapshotHandle {
        Handle::new(self.cid.clone(), self.cpi.as_deref())
    }
}

impl Vm<Unnamed> {
    /// The record with the CID and the networks that the CPI gave.
    pub fn named(self, cid: VmCid, networks: Option<Networks>) -> Vm {
        let Vm { cid: Unnamed, agent_id, contract, cpi, instance, ssh_host_key, made_of, ready, .. } = self;
        Vm { cid, agent_id, contract, networks, cpi, instance, ssh_host_key, made_of, ready }
    }
}

impl Vm {
    /// Its name towards CPIs.
    pub fn handle(&self) -> VmHandle {
        Handle::new(self.cid.clone(), self.cpi.as_deref())
    }
}

impl State {
    /// A state in which nothing exists yet.
    pub fn new() -> Self {
        State {
            director_id: uuid::Uuid::new_v4().to_string(),
            installation_id: uuid::Uuid::new_v4().to_string(),
            ..State::default()
        }
    }

    /// Reads a state file; `None` when there is none.
    pub fn read(storage: &Storage) -> Result<Option<Self>> {
        Ok(Self::read_with_sealing(storage)?.map(|(state, _)| state))
    }

    /// As [`State::read`], with how it is kept.
    pub(super) fn read_with_sealing(storage: &Storage) -> Result<Option<(Self, StoredForm)>> {
        let found = storage.read("").map_err(|error| match error.kind() {
            // It is sealed, and not to whoever reads.
            io::ErrorKind::InvalidInput => {
                Error::invalid(format!("the state '{storage}' cannot be read")).with_source(error)
            }
            _ => Error::io(format!("reading the state '{storage}'"), error),
        })?;
        let Some(found) = found else { return Ok(None) };
        Self::parse(&found.bytes).map(|state| Some((state, found.kept))).map_err(|error| {
            let backups = "`monopile state backup` lists earlier ones";
            error.context(format!("the state '{storage}' cannot be used")).with_hint(
                match storage.keeps_backup() && std::path::Path::new(&storage.name(BACKUP)).exists() {
                    true => format!(
                        "nothing was touched; the version before the last change is in '{}', and {backups}",
                        storage.name(BACKUP)
                    ),
                    false => format!("nothing was touched; {backups}"),
                },
            )
        })
    }

    /// Parses and checks a state file's bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes.starts_with(b"\xef\xbb\xbf") {
            return Err(Error::invalid(
                "line 1: it begins with a byte order mark, which no tool that writes states adds",
            ));
        }
        let at_its_line = |word: &str, problem: String| {
            // Where a person looks for it; a word that is written with escapes is on no line.
            let line = String::from_utf8_lossy(bytes)
                .find(&format!("\"{word}\""))
                .map(|at| bytes.iter().take(at).filter(|byte| **byte == b'\n').count() + 1);
            let place = line.map_or_else(String::new, |line| format!("line {line}: "));
            Error::invalid(format!("{place}{problem}"))
        };
        let parsed = serde_json::from_slice::<State>(bytes);
        let misspelt = match &parsed {
            Ok(state) => key_in_other_case(&state.unknown, STATE_KEYS)
                .or_else(|| state.disks.iter().find_map(|one| key_in_other_case(&one.unknown, RECORD_KEYS)))
                .or_else(|| {
                    state.stemcells.iter().find_map(|one| key_in_other_case(&one.unknown, RECORD_KEYS))
                })
                .or_else(|| {
                    state.releases.iter().find_map(|one| key_in_other_case(&one.unknown, RECORD_KEYS))
                }),
            // A key that is needed may be there in another case.
            Err(_) => serde_json::from_slice::<Value>(bytes).ok().as_ref().and_then(any_key_in_other_case),
        };
        if let Some((found, known)) = misspelt {
            return Err(at_its_line(&found, format!("it has the key '{found}', which must be '{known}'"))
                .with_hint(format!("write '{known}' if it is meant, or remove '{found}'")));
        }
        let state: State = parsed.map_err(|error| {
            let untyped = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
            match blank_name(&untyped) {
                Some((word, problem)) => at_its_line(word, problem),
                None => Error::invalid("it is not a valid state").with_source(error),
            }
        })?;
        match state.problem() {
            None => Ok(state),
            Some((word, problem)) => Err(at_its_line(word, problem)),
        }
    }

    /// What cannot be meant, and a word that stands near it in the file.
    fn problem(&self) -> Option<(&str, String)> {
        if self.monopile.format > FORMAT {
            return Some(("format", newer_format(self.monopile.format.into())));
        }
        if self.director_id.trim().is_empty() {
            return Some(("director_id", "`director_id` is empty".to_owned()));
        }
        let disks = self.disks.iter().map(|disk| ("disk", &disk.id, disk.cid.as_str()));
        let stemcells = self.stemcells.iter().map(|known| ("stemcell", &known.id, known.cid.as_str()));
        if let Some((what, _, cid)) = disks.chain(stemcells).find(|(_, id, _)| id.trim().is_empty()) {
            return Some((cid, format!("{what} '{cid}' has no id")));
        }
        let mut ids = BTreeSet::new();
        let mut cids = BTreeSet::new();
        for disk in &self.disks {
            if !ids.insert(&disk.id) {
                return Some((&disk.id, format!("two disks have the id '{}'", disk.id)));
            }
            // One of them might be deleted as unused while the other one is in use.
            if !cids.insert((&disk.cid, &disk.cpi)) {
                return Some((disk.cid.as_str(), format!("two disks have the CID '{}'", disk.cid)));
            }
        }
        let unknown =
            |word, what, id: &str| Some((word, format!("`{word}` is '{id}', but no {what} has that id")));
        if !self.current_disk_id.is_empty() && self.current_disk().is_none() {
            return unknown("current_disk_id", "disk", &self.current_disk_id);
        }
        if !self.current_stemcell_id.is_empty() && self.current_stemcell().is_none() {
            return unknown("current_stemcell_id", "stemcell", &self.current_stemcell_id);
        }
        None
    }

    /// The file's text: JSON with four spaces, as `bosh` writes it.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        self.serialize(&mut serializer)
            .map_err(|error| Error::environment("encoding the state failed").with_source(error))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// The CID of the VM, if there is one.
    pub fn vm_cid(&self) -> Option<&VmCid> {
        self.current_vm_cid.as_ref()
    }

    /// The details of the VM, if the record belongs to the VM that exists.
    pub fn vm(&self) -> Option<&Vm> {
        self.monopile.vm.as_ref().filter(|vm| Some(&vm.cid) == self.vm_cid())
    }

    /// What the VM is called, if there is one. Of a VM that another tool recorded only the default CPI knows.
    pub fn vm_handle(&self) -> Option<VmHandle> {
        let cid = self.vm_cid()?;
        let bare = self.monopile.bare_vm.as_ref().filter(|vm| vm.cid == *cid);
        let cpi = match self.vm() {
            Some(vm) => vm.cpi.as_deref(),
            None => bare.and_then(Handle::cpi),
        };
        Some(Handle::new(cid.clone(), cpi))
    }

    /// The failed call that may have made a VM whose agent has this id.
    pub fn suspected_vm(&self, agent_id: &str) -> Option<&Suspect> {
        self.monopile.suspects.iter().find(|one| one.agent_id.as_deref() == Some(agent_id))
    }

    /// The mark on something that was to be deleted.
    pub fn undeleted(&self, resource: &Resource) -> Option<&Undeleted> {
        self.monopile.undeleted.iter().find(|one| one.resource == *resource)
    }

    /// Earlier VMs that may still exist.
    pub fn undeleted_vms(&self) -> impl Iterator<Item = VmHandle> {
        self.monopile.undeleted.iter().filter_map(|one| match &one.resource {
            Resource::Vm(vm) => Some(vm.clone()),
            _ => None,
        })
    }

    /// The VM and the earlier ones that may still exist.
    pub fn vms(&self) -> impl Iterator<Item = VmHandle> {
        self.vm_handle().into_iter().chain(self.undeleted_vms())
    }

    /// Everything in the world that is recorded.
    pub fn resources(&self) -> impl Iterator<Item = Resource> {
        let vms = self.vms().map(Resource::Vm);
        let snapshots = self.monopile.snapshots.iter().map(|one| Resource::Snapshot(one.handle()));
        let disks = self.disks.iter().map(|disk| Resource::Disk(disk.handle()));
        let stemcells = self.stemcells.iter().map(|stemcell| Resource::Stemcell(stemcell.handle()));
        vms.chain(snapshots).chain(disks).chain(stemcells)
    }

    /// Returns true for what is on record.
    pub fn records(&self, resource: &Resource) -> bool {
        self.resources().any(|known| known == *resource)
    }

    /// The disk that is called so.
    pub fn disk(&self, handle: &DiskHandle) -> Option<&Disk> {
        self.disks.iter().find(|disk| disk.handle() == *handle)
    }

    /// The disk in use.
    pub fn current_disk(&self) -> Option<&Disk> {
        self.disks.iter().find(|disk| disk.id == self.current_disk_id)
    }

    /// The stemcell in use.
    pub fn current_stemcell(&self) -> Option<&Stemcell> {
        self.stemcells.iter().find(|stemcell| stemcell.id == self.current_stemcell_id)
    }

    /// The `api_version` of the stemcell in use, or of any other, of this CPI if it has one; 1 where none says.
    pub fn stemcell_api_version(&self, cpi: Option<&str>) -> u32 {
        let known = || self.current_stemcell().into_iter().chain(&self.stemcells);
        let stemcell = known().find(|stemcell| stemcell.cpi.as_deref() == cpi).or_else(|| known().next());
        stemcell.and_then(|stemcell| stemcell.api_version).unwrap_or(1)
    }

    /// The releases in use.
    pub fn current_releases(&self) -> impl Iterator<Item = &Release> {
        self.releases.iter().filter(|release| self.current_release_ids.contains(&release.id))
    }

    /// The disk that the VM has although another one was chosen for its place, which the next deploy attaches.
    pub fn disk_left_on_vm(&self) -> Option<&Disk> {
        let vm = self.vm_cid()?;
        let was_on = |disk: &&Disk| disk.replaced_on.as_ref().is_some_and(|on| on.0.as_ref() == Some(vm));
        self.disks.iter().find(was_on)
    }

    /// Whether anything in the world is recorded.
    pub fn is_empty_of_resources(&self) -> bool {
        self.resources().next().is_none()
    }
}

/// Describes a blank CID or request id, because of which a state cannot be read, and a word that stands near
/// it in the file.
fn blank_name(state: &Value) -> Option<(&str, String)> {
    let monopile = &state["monopile"];
    if let Some(format) = monopile["format"].as_u64().filter(|format| *format > FORMAT.into()) {
        return Some(("format", newer_format(format)));
    }
    if is_blank(&state["current_vm_cid"]) && state["current_vm_cid"] != "" {
        return Some(("current_vm_cid", "`current_vm_cid` is blank".to_owned()));
    }
    if let Some(blank) = first_blank(&monopile["undeleted"], "cid") {
        let what = ResourceKind::deserialize(&blank["what"]).ok()?;
        return Some(("undeleted", format!("in `undeleted` there is a {what} without a CID")));
    }
    if first_blank(&monopile["suspects"], "request_id").is_some() {
        return Some(("suspects", "in `suspects` there is one without a request id".to_owned()));
    }
    if let Some(blank) = first_blank(&monopile["snapshots"], "cid") {
        let disk = blank["disk"].as_str()?;
        return Some(("snapshots", format!("a snapshot of disk '{disk}' has no CID")));
    }
    for (what, list) in [("disk", &state["disks"]), ("stemcell", &state["stemcells"])] {
        if let Some(blank) = first_blank(list, "cid") {
            let id = blank["id"].as_str()?;
            return Some((id, format!("{what} '{id}' has no CID")));
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

fn newer_format(format: u64) -> String {
    format!(
        "it has format {format}, and this version knows formats up to {FORMAT}: use the version of monopile \
         that wrote it, or a newer one"
    )
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
