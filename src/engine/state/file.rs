//! What the state file says. The top-level keys are those of `bosh` v7
//! (its `config/deployment_state_service.go`), which ignores what it does not know; what monopile records on
//! top stands under `monopile` and in extra keys of disks and stemcells.

use std::collections::BTreeSet;
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::durations::Durations;
use super::handle::{Handle, in_iaas};
use super::salted::{Leaves, VmSpecDigests};
use super::storage::{BACKUP, Storage};
use crate::protocol::Contract;
use base::encryption::StoredForm;
use base::{Error, Result};

/// The newest format of the `monopile` section that this version reads and the one it writes.
pub const FORMAT: u32 = 1;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct State {
    /// Identifies this tool towards CPIs (`director_uuid`) and agents (`reply_to`).
    pub director_id: String,
    /// Identifies the local installation of the CPI.
    #[serde(default)]
    pub installation_id: String,
    /// The VM's CID; empty when there is none.
    #[serde(default)]
    pub current_vm_cid: String,
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

/// A persistent disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// The record's id.
    pub id: String,
    /// The disk's CID.
    pub cid: String,
    /// Size in MiB.
    pub size: u64,
    /// The cloud properties it was created with.
    #[serde(default, deserialize_with = "null_is_default")]
    pub cloud_properties: Map<String, Value>,
    /// What `attach_disk` returned for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Value>,
    /// The CPI it belongs to; none for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// The availability zone it was made in, where the manifest had such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub az: Option<String>,
    /// The VM that had it when `attach-disk` put another one in its place; empty where none had. Such a disk stays
    /// until somebody deletes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_on: Option<String>,
    /// Keys of other tools.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A snapshot of a persistent disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its CID.
    pub cid: String,
    /// The CPI it belongs to; none for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// The CID of the disk it was taken of, which may be gone.
    pub disk: String,
    /// When it was taken, RFC 3339 UTC.
    pub created_at: String,
    /// Keys of newer versions that this one does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// An uploaded stemcell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stemcell {
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
    pub cid: String,
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
    pub bare_vm: Option<Handle>,
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

/// What a CID names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A VM.
    Vm,
    /// A persistent disk.
    Disk,
    /// A stemcell.
    Stemcell,
    /// A snapshot of a disk.
    Snapshot,
}

impl Kind {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Vm => "VM",
            Kind::Disk => "disk",
            Kind::Stemcell => "stemcell",
            Kind::Snapshot => "snapshot",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A deletion that did not come about, to be tried again by the next run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undeleted {
    /// What was to be deleted.
    pub what: Kind,
    /// Its CID.
    pub cid: String,
    /// The CPI it is on record with; none for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
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
    pub what: Kind,
    /// The id of the request, which CPIs write into their logs.
    pub request_id: String,
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

/// What is known of the VM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Vm {
    /// Its CID; this record counts only while it equals `current_vm_cid`.
    pub cid: String,
    /// The id its agent was given.
    pub agent_id: String,
    /// The contract it was created under.
    pub contract: Contract,
    /// The networks `create_vm` returned (contract v2, or a CPI that returns them anyway).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networks: Option<Value>,
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

impl Disk {
    /// Whether it stays although nothing uses it.
    pub fn is_kept(&self) -> bool {
        self.replaced_on.is_some()
    }

    /// What it is called.
    pub fn handle(&self) -> Handle {
        Handle::new(&self.cid, self.cpi.as_deref())
    }
}

impl Stemcell {
    /// What it is called.
    pub fn handle(&self) -> Handle {
        Handle::new(&self.cid, self.cpi.as_deref())
    }
}

impl Snapshot {
    /// What it is called.
    pub fn handle(&self) -> Handle {
        Handle::new(&self.cid, self.cpi.as_deref())
    }
}

impl Undeleted {
    /// What it is called.
    pub fn handle(&self) -> Handle {
        Handle::new(&self.cid, self.cpi.as_deref())
    }

    /// Whether it is about this.
    pub fn is(&self, what: Kind, handle: &Handle) -> bool {
        self.what == what && self.cid == handle.cid && self.cpi == handle.cpi
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
                match storage.keeps_backup() {
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
        let state: State = serde_json::from_slice(bytes)
            .map_err(|error| Error::invalid("it is not a valid state").with_source(error))?;
        match state.problem() {
            None => Ok(state),
            Some((word, problem)) => {
                // Where a person looks for it; a word that is written with escapes is on no line.
                let line = String::from_utf8_lossy(bytes)
                    .find(&format!("\"{word}\""))
                    .map(|at| bytes.iter().take(at).filter(|byte| **byte == b'\n').count() + 1);
                let place = line.map_or_else(String::new, |line| format!("line {line}: "));
                Err(Error::invalid(format!("{place}{problem}")))
            }
        }
    }

    /// What cannot be meant, and a word that stands near it in the file.
    fn problem(&self) -> Option<(&str, String)> {
        if self.monopile.format > FORMAT {
            let problem = format!(
                "it has format {}, and this version knows formats up to {FORMAT}: \
                 use the version of monopile that wrote it, or a newer one",
                self.monopile.format
            );
            return Some(("format", problem));
        }
        if self.director_id.trim().is_empty() {
            return Some(("director_id", "`director_id` is empty".to_owned()));
        }
        if self.vm_cid().is_some_and(|cid| cid.trim().is_empty()) {
            return Some(("current_vm_cid", "`current_vm_cid` is blank".to_owned()));
        }
        if let Some(blank) = self.monopile.undeleted.iter().find(|one| one.cid.trim().is_empty()) {
            return Some(("undeleted", format!("in `undeleted` there is a {} without a CID", blank.what)));
        }
        if self.monopile.suspects.iter().any(|one| one.request_id.trim().is_empty()) {
            return Some(("suspects", "in `suspects` there is one without a request id".to_owned()));
        }
        if let Some(blank) = self.monopile.snapshots.iter().find(|one| one.cid.trim().is_empty()) {
            return Some(("snapshots", format!("a snapshot of disk '{}' has no CID", blank.disk)));
        }
        let disks = self.disks.iter().map(|disk| ("disk", disk.id.as_str(), disk.cid.as_str()));
        let stemcells =
            self.stemcells.iter().map(|known| ("stemcell", known.id.as_str(), known.cid.as_str()));
        for (what, id, cid) in disks.chain(stemcells) {
            if cid.trim().is_empty() {
                return Some((id, format!("{what} '{id}' has no CID")));
            }
            if id.trim().is_empty() {
                return Some((cid, format!("{what} '{cid}' has no id")));
            }
        }
        let mut ids = BTreeSet::new();
        let mut cids = BTreeSet::new();
        for disk in &self.disks {
            if !ids.insert(&disk.id) {
                return Some((&disk.id, format!("two disks have the id '{}'", disk.id)));
            }
            // One of them might be deleted as unused while the other one is in use.
            if !cids.insert((&disk.cid, &disk.cpi)) {
                return Some((&disk.cid, format!("two disks have the CID '{}'", disk.cid)));
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
    pub fn vm_cid(&self) -> Option<&str> {
        Some(self.current_vm_cid.as_str()).filter(|cid| !cid.is_empty())
    }

    /// The details of the VM, if the record belongs to the VM that exists.
    pub fn vm(&self) -> Option<&Vm> {
        self.monopile.vm.as_ref().filter(|vm| Some(vm.cid.as_str()) == self.vm_cid())
    }

    /// What the VM is called, if there is one. Of a VM that another tool recorded only the default CPI knows.
    pub fn vm_handle(&self) -> Option<Handle> {
        let cid = self.vm_cid()?;
        let bare = self.monopile.bare_vm.as_ref().filter(|vm| vm.cid == cid);
        let cpi = match self.vm() {
            Some(vm) => vm.cpi.as_deref(),
            None => bare.and_then(Handle::cpi),
        };
        Some(Handle::new(cid, cpi))
    }

    /// The failed call that may have made a VM whose agent has this id.
    pub fn suspected_vm(&self, agent_id: &str) -> Option<&Suspect> {
        self.monopile.suspects.iter().find(|one| one.agent_id.as_deref() == Some(agent_id))
    }

    /// The mark on something that was to be deleted.
    pub fn undeleted(&self, what: Kind, handle: &Handle) -> Option<&Undeleted> {
        self.monopile.undeleted.iter().find(|one| one.is(what, handle))
    }

    /// Earlier VMs that may still exist.
    pub fn undeleted_vms(&self) -> impl Iterator<Item = Handle> {
        self.monopile.undeleted.iter().filter(|one| one.what == Kind::Vm).map(Undeleted::handle)
    }

    /// Everything in the world that is recorded.
    pub fn resources(&self) -> impl Iterator<Item = (Kind, Handle)> {
        let vms = self.vm_handle().into_iter().chain(self.undeleted_vms()).map(|vm| (Kind::Vm, vm));
        let snapshots = self.monopile.snapshots.iter().map(|one| (Kind::Snapshot, one.handle()));
        let disks = self.disks.iter().map(|disk| (Kind::Disk, disk.handle()));
        let stemcells = self.stemcells.iter().map(|stemcell| (Kind::Stemcell, stemcell.handle()));
        vms.chain(snapshots).chain(disks).chain(stemcells)
    }

    /// Whether this is on record.
    pub fn records(&self, what: Kind, handle: &Handle) -> bool {
        self.resources().any(|(kind, known)| kind == what && known == *handle)
    }

    /// The disk that is called so.
    pub fn disk(&self, handle: &Handle) -> Option<&Disk> {
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
        self.disks.iter().find(|disk| disk.replaced_on.as_deref() == Some(vm))
    }

    /// Whether anything in the world is recorded.
    pub fn is_empty_of_resources(&self) -> bool {
        self.resources().next().is_none()
    }
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
