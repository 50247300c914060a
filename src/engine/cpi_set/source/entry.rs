//! One CPI of the CPI config: an executable, the job of a release, or a built-in CPI.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{CpiInputs, ResolvedCpis, RunnableCpi, agent_settings, builtin_config, check_program, jobs};
use crate::cpi::create_private_directory;
use crate::protocol::BuiltinCpi;
use base::error::ResultExt;
use base::events::Stage;
use base::files::directory::parent;
use base::text::comma_list;
use base::{Error, Result};
use manifest::CpiEntry;

/// An entry of the CPI config with its resolved kind.
pub(super) struct ResolvedEntry<'a> {
    pub(super) cpi: &'a CpiEntry,
    entry_kind: EntryKind,
}

/// The kind of program that implements an entry.
enum EntryKind {
    Executable(PathBuf),
    Job(jobs::JobName),
    Builtin,
}

impl<'a> ResolvedEntry<'a> {
    /// Resolves the kind of an entry.
    pub(super) fn resolve(cpi: &'a CpiEntry, inputs: &CpiInputs<'_>) -> Result<Self> {
        let entry_kind = entry_kind(cpi, inputs)?;
        if cpi.userland.is_some() && !matches!(entry_kind, EntryKind::Job(_)) {
            return Err(Error::invalid(format!(
                "CPI '{}' has a `userland`, but it is not the job of a release",
                cpi.name
            ))
            .with_hint("remove its `userland`: an executable and a built-in CPI run on this machine"));
        }
        Ok(ResolvedEntry { cpi, entry_kind })
    }

    /// Returns true if a job of a release implements the entry.
    pub(super) fn is_job(&self) -> bool {
        matches!(self.entry_kind, EntryKind::Job(_))
    }

    /// Returns the jobs that implement the entry; `None` if it is no job of a release.
    pub(super) fn jobs(&self, inputs: &CpiInputs<'_>) -> Result<Option<Vec<jobs::JobName>>> {
        match &self.entry_kind {
            EntryKind::Job(job) => jobs::jobs_of_type(job, inputs).map(Some),
            EntryKind::Executable(_) | EntryKind::Builtin => Ok(None),
        }
    }

    /// Returns the built-in CPI that implements the entry, if one does.
    pub(super) fn builtin(&self) -> Option<BuiltinCpi> {
        match &self.entry_kind {
            EntryKind::Builtin => BuiltinCpi::named(&self.cpi.kind),
            EntryKind::Executable(_) | EntryKind::Job(_) => None,
        }
    }

    /// Installs the CPI if needed, with its own files below `root`.
    pub(super) fn install(
        &self,
        resolved_cpis: &ResolvedCpis<'_>,
        root: &Path,
        stage: &Stage,
    ) -> Result<RunnableCpi> {
        let CpiEntry { kind, properties, .. } = self.cpi;
        let provider = resolved_cpis.inputs.provider;
        match &self.entry_kind {
            EntryKind::Executable(program) => Ok(resolved_cpis.locate_program(
                program.clone(),
                Vec::new(),
                with_registry(properties, resolved_cpis),
                root,
            )),
            EntryKind::Builtin => {
                create_private_directory(root)?;
                // The entry's properties are only in the context of requests, where they take precedence.
                let config = builtin_config(resolved_cpis.run, kind, provider, &Map::new());
                let mut context_properties = with_registry(properties, resolved_cpis);
                if properties.contains_key("agent") {
                    context_properties.insert("agent".into(), agent_settings(provider, properties));
                }
                resolved_cpis.locate_builtin(kind, &root.join("cpi.json"), &config, context_properties, root)
            }
            EntryKind::Job(job) => {
                let cpi_jobs = jobs::jobs_of_type(job, &resolved_cpis.inputs)?;
                let mut runnable_cpi = resolved_cpis
                    .open_userland(self.cpi.userland.as_ref(), stage)
                    .and_then(|userland| {
                        let properties = self.job_properties(provider);
                        jobs::install(resolved_cpis, &cpi_jobs, &properties, userland, root, stage)
                    })
                    .context(|| self.installation_problem())?;
                runnable_cpi.context_properties.clone_from(properties);
                Ok(runnable_cpi)
            }
        }
    }

    /// Checks it like [`Self::install`], but compiles no packages.
    pub(super) fn check(&self, resolved_cpis: &ResolvedCpis<'_>, root: &Path, stage: &Stage) -> Result<()> {
        let EntryKind::Job(job) = &self.entry_kind else {
            return self.install(resolved_cpis, root, stage).map(drop);
        };
        let cpi_jobs = jobs::jobs_of_type(job, &resolved_cpis.inputs)?;
        resolved_cpis
            .check_userland(self.cpi.userland.as_ref())
            .and_then(|()| {
                jobs::check(
                    resolved_cpis,
                    &cpi_jobs,
                    &self.job_properties(resolved_cpis.inputs.provider),
                    root,
                    stage,
                )
            })
            .context(|| self.installation_problem())
    }

    fn installation_problem(&self) -> String {
        format!("CPI '{}' of type '{}' cannot be installed", self.cpi.name, self.cpi.kind)
    }

    /// Merges the properties for its templates. CPI configs often have flat properties that jobs expect below
    /// the name of their type, so both forms are provided.
    fn job_properties(&self, provider: &manifest::deployment::CloudProvider) -> Map<String, Value> {
        let mut job_properties = provider.properties.clone();
        job_properties.extend(self.cpi.properties.clone());
        let mut kind_properties = match provider.properties.get(&self.cpi.kind) {
            Some(Value::Object(kind_properties)) => kind_properties.clone(),
            _ => Map::new(),
        };
        kind_properties.extend(self.cpi.properties.clone());
        job_properties.insert(self.cpi.kind.clone(), Value::Object(kind_properties));
        job_properties
    }
}

/// Returns the request context of a CPI without templates, which has to include the registry of contract v1.
fn with_registry(properties: &Map<String, Value>, resolved_cpis: &ResolvedCpis<'_>) -> Map<String, Value> {
    let mut context_properties = properties.clone();
    if let Some(registry) = resolved_cpis.inputs.provider.properties.get("registry") {
        context_properties.entry("registry").or_insert_with(|| registry.clone());
    }
    context_properties
}

/// Decides how the CPI of an entry runs: `exec_path`, else a job of a release with its type, else the
/// built-in CPI of that name.
fn entry_kind(cpi: &CpiEntry, inputs: &CpiInputs<'_>) -> Result<EntryKind> {
    let CpiEntry { name, kind, .. } = cpi;
    if let Some(path) = &cpi.exec_path {
        let program = parent(cpi.file.as_deref().unwrap_or(inputs.manifest)).join(path);
        check_program(&program, &cpi.place)?;
        return Ok(EntryKind::Executable(program));
    }
    match jobs::find_type(kind, inputs) {
        Some(job) => Ok(EntryKind::Job(job)),
        None if BuiltinCpi::named(kind).is_some() => Ok(EntryKind::Builtin),
        None => {
            let release_names: Vec<&str> =
                inputs.releases.iter().map(|release| release.name.as_str()).collect();
            let release_names =
                if release_names.is_empty() { "none".into() } else { comma_list(&release_names) };
            Err(Error::invalid(format!("{}: no program found for CPI '{name}' of type '{kind}'", cpi.place))
                .with_source(format!(
                    "no release has the job '{kind}_cpi' with the template `bin/cpi` (releases: \
                     {release_names}), and the built-in CPIs are {}",
                    BuiltinCpi::names(", ")
                ))
                .with_hint(
                    "add the CPI's release to `releases`, name its executable with `exec_path`, or \
                    correct the `type`",
                ))
        }
    }
}
