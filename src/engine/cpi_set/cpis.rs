//! The CPIs of a run: each is installed and asked for `info` only when it is first needed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;

use super::connection::CpiConnection;
use super::formats::check_formats;
use super::source::{CpiInputs, LocationSource, ResolvedCpis, RunnableCpi, ShareableInstallation};
use crate::cpi::install::UserlandPackages;
use crate::run_context::RunContext;
use crate::state::{CpiLocation, CurrentLocation, Resource, State, VmHandle, is_other_kind};
use artifact::Stemcell;
use base::console::LastBoot;
use base::events::{Stage, Warning};
use base::text::{and_list, shell_word};
use base::vm_directory;
use base::{Error, Result};
use manifest::cpi_label;
use manifest::deployment::{ArtifactOrigin, ArtifactRef};

/// The name of a CPI; `None` for the default CPI of `cloud_provider`.
pub(crate) type CpiName = Option<String>;

/// The CPIs of a run, found, installed and connected as needed.
pub(crate) struct Cpis<'a> {
    run: &'a RunContext,
    resolved_cpis: ResolvedCpis<'a>,
    director_uuid: String,
    /// `--cpi-api-version`.
    highest_api_version: Option<u32>,
    /// The locations of the VM, disks and snapshots on record, one per CPI.
    locations: Vec<CpiLocation>,
    /// The VM, disks and snapshots on record.
    recorded_resources: Vec<Resource>,
    /// The API version of the stemcell that calls to each CPI refer to.
    stemcell_api_versions: BTreeMap<CpiName, u32>,
    /// The CPIs that can be run, but were not connected yet.
    runnable_cpis: RefCell<BTreeMap<CpiName, RunnableCpi>>,
    /// The CPIs that were asked for `info`.
    connections: RefCell<BTreeMap<CpiName, Rc<CpiConnection<'a>>>>,
}

impl<'a> Cpis<'a> {
    /// Finds the CPIs without installing or asking any. Calls refer to the stemcells on record.
    pub(crate) fn find(
        run: &'a RunContext,
        inputs: CpiInputs<'a>,
        state: &State,
        highest_api_version: Option<u32>,
    ) -> Result<Self> {
        let resolved_cpis = ResolvedCpis::find(run, inputs)?;
        resolved_cpis.warn_about_unused_userland();
        let stemcell_api_versions = resolved_cpis
            .names()
            .map(|name| (name.map(str::to_owned), state.stemcell_api_version(name)))
            .collect();
        let keeps_data = |resource: &Resource| !matches!(resource, Resource::Stemcell(_));
        let recorded_resources: Vec<Resource> = state.resources().filter(keeps_data).collect();
        let names_in_use: BTreeSet<CpiName> = names_of(recorded_resources.iter().cloned());
        let locations = state
            .monopile
            .locations
            .iter()
            .filter(|location| names_in_use.contains(&location.cpi))
            .cloned()
            .collect();
        Ok(Cpis {
            run,
            resolved_cpis,
            locations,
            recorded_resources,
            director_uuid: state.director_id.clone(),
            highest_api_version,
            stemcell_api_versions,
            runnable_cpis: RefCell::default(),
            connections: RefCell::default(),
        })
    }

    /// Makes calls to a CPI refer to a stemcell of this API version. Call it before the CPI is connected.
    pub(crate) fn use_stemcell(&mut self, name: Option<&str>, api_version: u32) {
        self.stemcell_api_versions.insert(name.map(str::to_owned), api_version);
    }

    /// Installs a CPI if needed, without asking it for `info`.
    pub(crate) fn install(&self, name: Option<&str>, stage: &Stage) -> Result<()> {
        let runnable_cpi = self.resolved_cpis.install(name, stage)?;
        self.runnable_cpis.borrow_mut().insert(name.map(str::to_owned), runnable_cpi);
        Ok(())
    }

    /// Returns the packages of an installed CPI that was compiled in this stemcell. VMs of it can use them.
    pub(crate) fn packages_in_stemcell(
        &self,
        name: Option<&str>,
        stemcell: &Stemcell,
    ) -> Option<UserlandPackages> {
        let runnable_cpis = self.runnable_cpis.borrow();
        runnable_cpis.get(&name.map(str::to_owned))?.packages_in_stemcell(stemcell).cloned()
    }

    /// Plans the result of [`Self::packages_in_stemcell`] for a CPI that is not installed. Compiles nothing.
    pub(crate) fn plan_packages_in_stemcell(
        &self,
        name: Option<&str>,
        stemcell_ref: &ArtifactRef,
        stemcell: &Stemcell,
    ) -> Result<Option<UserlandPackages>> {
        self.resolved_cpis.plan_packages_in_stemcell(name, stemcell_ref, stemcell)
    }

    /// Takes over a CPI that was installed earlier. The caller then does not call [`Self::install`].
    pub(crate) fn take_installation(&self, name: Option<&str>, installation: ShareableInstallation) {
        let runnable_cpi = self.resolved_cpis.take_installation(installation);
        self.runnable_cpis.borrow_mut().insert(name.map(str::to_owned), runnable_cpi);
    }

    /// Checks this CPI and the CPIs of all resources on record like [`Self::install`], but compiles no
    /// packages.
    pub(crate) fn check(&self, name: Option<&str>, state: &State, stage: &Stage) -> Result<()> {
        let mut names = names_of(state.resources());
        names.insert(name.map(str::to_owned));
        names.iter().try_for_each(|name| {
            self.check_location(name.as_deref())?;
            self.resolved_cpis.check(name.as_deref(), stage)
        })
    }

    /// Returns a connected CPI. The first use asks it for `info` as a part of `stage`.
    pub(crate) fn connect(&self, name: Option<&str>, stage: &Stage) -> Result<Rc<CpiConnection<'a>>> {
        let key = name.map(str::to_owned);
        if let Some(connection) = self.connections.borrow().get(&key) {
            return Ok(Rc::clone(connection));
        }
        self.check_location(name)?;
        let runnable_cpi = self.runnable_cpis.borrow_mut().remove(&key);
        let runnable_cpi = match runnable_cpi {
            Some(runnable_cpi) => runnable_cpi,
            None => self.resolved_cpis.install(name, stage)?,
        };
        let stemcell_api_version = self.stemcell_api_versions.get(&key).copied().unwrap_or(1);
        let connection = CpiConnection::open(
            self.run,
            name,
            (runnable_cpi, self.resolved_cpis.location(name)?),
            &self.director_uuid,
            self.highest_api_version,
            stemcell_api_version,
            stage,
        )?;
        let connection = Rc::new(connection);
        self.connections.borrow_mut().insert(key, Rc::clone(&connection));
        Ok(connection)
    }

    /// Returns true if the VM is on this machine, and its processes have ended. Asks no CPI.
    pub(crate) fn is_off(&self, vm: &VmHandle) -> Result<bool> {
        Ok(self.vm_directory(vm)?.is_some_and(|directory| vm_directory::is_off(&directory)))
    }

    /// Returns what the console of the VM shows of its last boot, if the CPI keeps it on this machine. Asks
    /// no CPI.
    pub(crate) fn read_last_boot(&self, vm: &VmHandle) -> Option<LastBoot> {
        // An error is worth showing without the console.
        LastBoot::read(&self.vm_directory(vm).ok()??)
    }

    /// Returns the directory of the VM, if its CPI keeps it on this machine.
    fn vm_directory(&self, vm: &VmHandle) -> Result<Option<PathBuf>> {
        Ok(self.resolved_cpis.location(vm.cpi())?.vm_directory(&vm.cid))
    }

    /// Returns the directory of the VM like [`Self::vm_directory`]. Fails if the records are of another
    /// directory than that of the CPI.
    pub(crate) fn checked_vm_directory(&self, vm: &VmHandle) -> Result<Option<PathBuf>> {
        self.check_location(vm.cpi())?;
        self.vm_directory(vm)
    }

    /// Like [`Self::connect`], with a stage of its own.
    pub(crate) fn connect_in_own_stage(&self, name: Option<&str>) -> Result<Rc<CpiConnection<'a>>> {
        if let Some(connection) = self.connections.borrow().get(&name.map(str::to_owned)) {
            return Ok(Rc::clone(connection));
        }
        let asking = self.run.reporter.begin_stage(info_stage_name(name));
        let connection = self.connect(name, &asking)?;
        asking.finish();
        Ok(connection)
    }

    /// Returns the paths of a CPI's properties that have changed since this state recorded the location of
    /// its resources.
    pub(crate) fn find_changed_location_properties(
        &self,
        state: &State,
        cpi: Option<&str>,
    ) -> Result<Vec<String>> {
        let Some(recorded_location) = state.location(cpi) else { return Ok(Vec::new()) };
        Ok(recorded_location.differences(&self.connect_in_own_stage(cpi)?.location()?))
    }

    /// Returns the hint for a CPI that denies what is on record: where to look for a mistake.
    /// `changed_properties` are those of [`Self::find_changed_location_properties`].
    pub(crate) fn misplacement_hint(&self, cpi: Option<&str>, changed_properties: &[String]) -> String {
        let place = match self.resolved_cpis.location(cpi) {
            _ if is_other_kind(changed_properties) => {
                "pass the manifest and ops files with which it was created".to_owned()
            }
            Ok(LocationSource::Directory(root)) => format!(
                "check HOME, and `root` in the properties of the CPI: it looks in '{}'",
                root.display()
            ),
            _ => "check the account, region and project in the properties of the CPI".to_owned(),
        };
        format!("{place}; then run the same command again")
    }

    /// Returns the warning for VM, disks and snapshots on record that another kind of CPI created.
    pub(crate) fn other_kind_warning(&self) -> Result<Option<Warning>> {
        let mut resources = Vec::new();
        for location in &self.locations {
            let current_location = self.resolved_cpis.location(location.cpi.as_deref())?.current()?;
            if is_other_kind(&location.differences(&current_location)) {
                let is_of_location = |resource: &&Resource| resource.cpi() == location.cpi.as_deref();
                resources
                    .extend(self.recorded_resources.iter().filter(is_of_location).map(Resource::to_string));
            }
        }
        let verb = if resources.len() == 1 { "was" } else { "were" };
        let pronoun = if resources.len() == 1 { "it" } else { "them" };
        let warning = || {
            Warning::new(format!(
                "{} {verb} created by another kind of CPI than that of the manifest. If this CPI does not \
                 find {pronoun}, no later run can replace or delete {pronoun}",
                and_list(&resources)
            ))
            .with_hint("check first: `monopile cloud-check MANIFEST --report`")
        };
        Ok((!resources.is_empty()).then(warning))
    }

    /// Checks that a built-in CPI has what is on record and accepts the format of a stemcell. Other CPIs are
    /// asked later.
    pub(crate) fn check_builtin(
        &self,
        name: Option<&str>,
        stemcell_origin: &ArtifactOrigin,
        stemcell: &Stemcell,
    ) -> Result<()> {
        self.check_location(name)?;
        match self.resolved_cpis.builtin_stemcell_formats(name)? {
            Some(formats) => {
                check_formats(self.run, name, Some(&formats), stemcell_origin, &stemcell.stemcell_formats)
            }
            None => Ok(()),
        }
    }

    /// Installs every CPI that has a resource on record.
    pub(crate) fn install_all_of(&self, state: &State, stage: &Stage) -> Result<()> {
        names_of(state.resources()).iter().try_for_each(|name| self.install(name.as_deref(), stage))
    }

    /// Connects every CPI that has a resource on record, so that a broken one is noticed before any effect.
    pub(crate) fn connect_all_of(&self, state: &State) -> Result<()> {
        names_of(state.resources())
            .iter()
            .try_for_each(|name| self.connect_in_own_stage(name.as_deref()).map(drop))
    }

    /// Fails if a built-in CPI uses another directory than the one with the VM and disks on record.
    fn check_location(&self, name: Option<&str>) -> Result<()> {
        let recorded_location = self.locations.iter().find(|location| location.cpi.as_deref() == name);
        let Some(recorded_id) = recorded_location.and_then(|location| location.id.as_deref()) else {
            return Ok(());
        };
        let location = self.resolved_cpis.location(name)?;
        // If it is no directory, another CPI has become the default one.
        let LocationSource::Directory(root) = &location else { return Ok(()) };
        let actual_id = match location.current()? {
            CurrentLocation::Directory(Some(id)) if id == recorded_id => return Ok(()),
            CurrentLocation::Directory(Some(id)) => format!("has the ID {id}"),
            _ => "does not exist, or has no ID".to_owned(),
        };
        if let Some((recorded_cpi, directory)) = self.resolved_cpis.find_other_builtin(name, recorded_id)? {
            let resources: Vec<String> = self
                .recorded_resources
                .iter()
                .filter(|resource| resource.cpi() == name)
                .map(Resource::to_string)
                .collect();
            let verb = if resources.len() == 1 { "is" } else { "are" };
            let recorded_cpi = recorded_cpi.name();
            return Err(Error::invalid(format!(
                "{} is no longer the built-in CPI `{recorded_cpi}`",
                cpi_label(name)
            ))
            .with_source(format!(
                "{} {verb} in the directory of `{recorded_cpi}`: '{}'",
                and_list(&resources),
                directory.display()
            ))
            .with_note("nothing was changed")
            .with_hint(format!("name the CPI `{recorded_cpi}` again in the manifest or ops file"))
            .with_hint("to move the VM to another CPI: `monopile help several-cpis`"));
        }
        Err(Error::invalid(format!("{} looks in another directory than before", cpi_label(name)))
        .with_source(format!(
            "the recorded VM and disks are in the directory with the ID {recorded_id}, but '{}' {actual_id}",
            root.display()
        ))
        .with_note("nothing was changed")
        .with_hint("run the command as the user, and with the HOME, that created the VM")
        .with_hint("if the directory was moved, set its path as `root` in the properties of the CPI")
        .with_hints(self.forget_hints(name)))
    }

    /// Returns the hints to forget the records of a CPI's VM, disks and snapshots.
    fn forget_hints(&self, name: Option<&str>) -> Vec<String> {
        let resources = self.recorded_resources.iter().filter(|resource| resource.cpi() == name);
        let hints = resources.map(|resource| {
            let option =
                format!("--{} {}", resource.kind().name().to_lowercase(), shell_word(resource.cid()));
            let cpi = name.map(|name| format!(" --cpi {}", shell_word(name))).unwrap_or_default();
            format!(
                "if the directory is lost, forget the record of {resource}: `monopile state forget MANIFEST \
                 {option}{cpi}`"
            )
        });
        hints.collect()
    }

    /// Returns the names of all CPIs except this one.
    pub(crate) fn other_cpis(&self, name: Option<&str>) -> Vec<CpiName> {
        self.resolved_cpis
            .names()
            .filter(|other| *other != name)
            .map(|other| other.map(str::to_owned))
            .collect()
    }
}

fn names_of(resources: impl Iterator<Item = Resource>) -> BTreeSet<CpiName> {
    resources.map(|resource| resource.cpi().map(str::to_owned)).collect()
}

/// Describes a VM for which [`Cpis::is_off`] returns true.
pub(crate) fn describe_off(vm: &VmHandle) -> String {
    format!("VM {vm} is stopped: its processes on this machine have ended")
}

/// Returns the stage name for asking a CPI for `info`.
pub(crate) fn info_stage_name(name: Option<&str>) -> String {
    match name {
        None => "Asking the CPI for its API version".to_owned(),
        Some(name) => format!("Asking CPI '{name}' for its API version"),
    }
}
