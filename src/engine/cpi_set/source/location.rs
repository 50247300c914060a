//! The location of a CPI's resources: the directory of the `local` or `qemu` CPI, or the IaaS that
//! properties select.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::ResolvedCpis;
use crate::protocol::{BuiltinCpi, VmCid};
use crate::run_context::RunContext;
use crate::state::CurrentLocation;
use base::files::read_directory_id;
use base::redact::NameClass;
use base::{Error, Result};
use manifest::deployment::CpiSource;

/// Properties that do not identify the location.
const NOT_LOCATION: [&str; 4] = ["agent", "blobstore", "ntp", "registry"];

/// The source of a [`CurrentLocation`].
pub(crate) enum LocationSource {
    /// A directory, which gets its id when the first resource is created in it.
    Directory(PathBuf),
    /// Properties by their paths.
    Properties(Vec<(String, String)>),
}

impl LocationSource {
    /// Returns the location as it is now.
    pub(crate) fn current(&self) -> Result<CurrentLocation> {
        Ok(match self {
            LocationSource::Directory(root) => CurrentLocation::Directory(
                read_directory_id(root)
                    .map_err(|error| Error::io(format!("reading the id of '{}'", root.display()), error))?,
            ),
            LocationSource::Properties(properties) => CurrentLocation::Properties(properties.clone()),
        })
    }

    /// Returns the directory of a VM, if the CPI keeps its VMs on this machine.
    pub(crate) fn vm_directory(&self, vm: &VmCid) -> Option<PathBuf> {
        match self {
            LocationSource::Directory(root) => Some(root.join("vms").join(vm.as_str())),
            LocationSource::Properties(_) => None,
        }
    }
}

impl ResolvedCpis<'_> {
    /// Returns the source of the location of a CPI's resources. No name means the default CPI.
    pub(crate) fn location(&self, name: Option<&str>) -> Result<LocationSource> {
        let (builtin, properties) = self.kind_and_properties(name)?;
        Ok(match builtin {
            Some(cpi @ (BuiltinCpi::Local | BuiltinCpi::Qemu)) => {
                LocationSource::Directory(directory(self.run, cpi, properties))
            }
            Some(BuiltinCpi::Ironic) | None => {
                let mut location_properties = Vec::new();
                let chosen_properties =
                    properties.iter().filter(|(key, _)| !NOT_LOCATION.contains(&key.as_str()));
                chosen_properties
                    .for_each(|(key, value)| leaves(self.run, key, key, value, &mut location_properties));
                LocationSource::Properties(location_properties)
            }
        })
    }

    /// Returns a built-in CPI of another kind than this one, if its usual directory has this id.
    pub(crate) fn find_other_builtin(
        &self,
        name: Option<&str>,
        id: &str,
    ) -> Result<Option<(BuiltinCpi, PathBuf)>> {
        let (builtin, _) = self.kind_and_properties(name)?;
        let other_cpis =
            BuiltinCpi::ALL.into_iter().filter(|cpi| cpi.keeps_vms_here() && Some(*cpi) != builtin);
        let mut directories = other_cpis.map(|cpi| (cpi, directory(self.run, cpi, &Map::new())));
        // A directory that cannot be read explains nothing.
        let has_id = |root: &PathBuf| read_directory_id(root).ok().flatten().as_deref() == Some(id);
        Ok(directories.find(|(_, root)| has_id(root)))
    }

    /// Returns the stemcell formats that a built-in CPI accepts. For other CPIs, only their `info` says it.
    pub(crate) fn builtin_stemcell_formats(&self, name: Option<&str>) -> Result<Option<Vec<String>>> {
        let (builtin, properties) = self.kind_and_properties(name)?;
        let formats = |cpi: BuiltinCpi| match properties.get("stemcell_formats") {
            // The CPI itself refuses a value that is no list. `ironic` has no such property.
            Some(formats) if cpi != BuiltinCpi::Ironic => serde_json::from_value(formats.clone()).ok(),
            _ => Some(cpi.stemcell_formats().iter().map(|format| (*format).to_owned()).collect()),
        };
        Ok(builtin.and_then(formats))
    }

    fn kind_and_properties(&self, name: Option<&str>) -> Result<(Option<BuiltinCpi>, &Map<String, Value>)> {
        Ok(match name {
            None => {
                let provider = self.inputs.provider;
                let builtin = match &provider.cpi {
                    CpiSource::Builtin(name) => BuiltinCpi::named(name),
                    CpiSource::Path { .. } | CpiSource::Jobs(_) | CpiSource::None => None,
                };
                (builtin, &provider.properties)
            }
            Some(name) => {
                let (entry, _) = self.entry(name)?;
                (entry.builtin(), &entry.cpi.properties)
            }
        })
    }
}

/// Returns the directory that is the cloud of a `local` or `qemu` CPI with these properties.
pub(super) fn directory(run: &RunContext, cpi: BuiltinCpi, properties: &Map<String, Value>) -> PathBuf {
    match properties.get("root").and_then(Value::as_str) {
        Some(root) => root.into(),
        None => run.paths.data_directory.join(cpi.name()),
    }
}

/// Collects the scalars below a property with their paths, except those that are named like secrets.
fn leaves(run: &RunContext, key: &str, path: &str, value: &Value, collected: &mut Vec<(String, String)>) {
    if run.redactor.name_class(key) != NameClass::Plain {
        return;
    }
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| {
                leaves(run, key, &format!("{path}/{key}"), value, collected);
            });
        }
        value => collected.push((path.to_owned(), value.to_string())),
    }
}
