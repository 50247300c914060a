//! Completions from the state: CIDs and names of CPIs.

use super::typed_command_line::TypedCommandLine;
use base::encoding;
use engine::protocol::ResourceKind;
use engine::record_commands::{self, StateOverview};
use engine::state::{self, Resource, Storage};
use time::OffsetDateTime;

/// A suggestion: a name of the record, and what the shell shows beside it.
pub(super) struct DescribedName {
    pub(super) name: String,
    pub(super) description: String,
}

impl DescribedName {
    fn new(name: &str, description: String) -> DescribedName {
        DescribedName { name: name.to_owned(), description }
    }
}

impl TypedCommandLine {
    fn record(&self) -> Option<StateOverview> {
        // A state in a bucket is too slow for completion.
        record_commands::show(&Storage::from(self.state()?.as_path())).ok()
    }

    /// Returns the recorded resources of a kind.
    pub(super) fn recorded_names(&self, kind: ResourceKind) -> Vec<DescribedName> {
        self.record().map(|record| recorded_resources(&record, kind)).unwrap_or_default()
    }

    /// Returns the recorded stemcells by name and version, then by CID.
    pub(super) fn stemcells(&self) -> Vec<DescribedName> {
        let Some(record) = self.record() else { return Vec::new() };
        let by_name = record
            .stemcells
            .iter()
            .map(|one| DescribedName::new(&format!("{}/{}", one.name, one.version), "stemcell".to_owned()));
        by_name.chain(recorded_resources(&record, ResourceKind::Stemcell)).collect()
    }

    /// Returns open calls and suspects.
    pub(super) fn calls(&self) -> Vec<DescribedName> {
        let Some(record) = self.record() else { return Vec::new() };
        let open_calls = record.open_calls.iter().map(|call| {
            DescribedName::new(call.request_id.as_str(), format!("{}, {}", call.method, call.reason))
        });
        let suspects = record.suspects.iter().map(|suspect| {
            DescribedName::new(
                suspect.request_id.as_str(),
                format!("may have created {}", suspect.description),
            )
        });
        open_calls.chain(suspects).collect()
    }

    /// Returns the kept versions of the state, newest first.
    pub(super) fn versions(&self) -> Vec<DescribedName> {
        let Some(path) = self.state() else { return Vec::new() };
        let storage = Storage::from(path.as_path()).resolve_links();
        let versions = storage.and_then(|storage| state::read_versions(&storage)).unwrap_or_default();
        let names = versions.into_iter().map(|version| {
            let time = encoding::rfc3339(OffsetDateTime::from(version.written_at));
            DescribedName::new(&version.name, format!("written {time}"))
        });
        names.collect()
    }

    /// Returns the CPIs of recorded resources.
    pub(super) fn recorded_cpis(&self) -> Vec<String> {
        let Some(record) = self.record() else { return Vec::new() };
        let vm = record.vm.iter().filter_map(|vm| vm.cpi.clone());
        let disks = record.disks.iter().filter_map(|disk| disk.cpi.clone());
        let stemcells = record.stemcells.iter().filter_map(|stemcell| stemcell.cpi.clone());
        let snapshots = record.snapshots.iter().filter_map(|snapshot| snapshot.cpi.clone());
        let undeleted =
            record.undeleted.iter().filter_map(|undeleted| undeleted.resource.cpi().map(str::to_owned));
        vm.chain(disks).chain(stemcells).chain(snapshots).chain(undeleted).collect()
    }
}

/// Returns the CIDs of a kind that completion offers, described with their size, use and CPI.
fn recorded_resources(record: &StateOverview, kind: ResourceKind) -> Vec<DescribedName> {
    let cpi_suffix = |cpi: Option<&str>| cpi.map(|cpi| format!(", CPI {cpi}")).unwrap_or_default();
    let use_suffix = |in_use: bool| if in_use { ", in use" } else { "" };
    match kind {
        ResourceKind::Vm => {
            let vm = record.vm.iter().map(|vm| {
                let instance = vm.instance.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
                DescribedName::new(vm.cid.as_str(), format!("VM{instance}{}", cpi_suffix(vm.cpi.as_deref())))
            });
            let earlier_vms = record.undeleted.iter().map(|undeleted| &undeleted.resource);
            let earlier_vms = earlier_vms.filter(|resource| matches!(resource, Resource::Vm(_)));
            vm.chain(
                earlier_vms
                    .map(|vm| DescribedName::new(vm.cid(), format!("to be deleted{}", cpi_suffix(vm.cpi())))),
            )
            .collect()
        }
        ResourceKind::Disk => {
            let describe =
                |size, in_use, cpi| format!("disk of {size} MiB{}{}", use_suffix(in_use), cpi_suffix(cpi));
            let disks = record.disks.iter();
            disks
                .map(|disk| {
                    DescribedName::new(
                        disk.cid.as_str(),
                        describe(disk.size, disk.in_use, disk.cpi.as_deref()),
                    )
                })
                .collect()
        }
        ResourceKind::Stemcell => {
            let stemcells = record.stemcells.iter();
            stemcells
                .map(|one| {
                    let description = format!(
                        "{}/{}{}{}",
                        one.name,
                        one.version,
                        use_suffix(one.in_use),
                        cpi_suffix(one.cpi.as_deref())
                    );
                    DescribedName::new(one.cid.as_str(), description)
                })
                .collect()
        }
        ResourceKind::Snapshot => {
            let snapshots = record.snapshots.iter();
            snapshots
                .map(|one| {
                    let description =
                        format!("of disk {}, {}{}", one.disk, one.created_at, cpi_suffix(one.cpi.as_deref()));
                    DescribedName::new(one.cid.as_str(), description)
                })
                .collect()
        }
    }
}
