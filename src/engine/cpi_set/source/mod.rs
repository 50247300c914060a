//! Resolves the CPIs in the manifest and the CPI config to executables.
//!
//! A built-in CPI and an executable need no installation; the CPI of a release is installed first, see
//! `jobs`. The CPI of `cloud_provider` is the default one and has no name; those of a CPI config have names,
//! see `entry`.

mod entry;
mod inputs;
mod jobs;
mod location;
mod userland;

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

pub(crate) use inputs::{CpiInputs, OwnedCpiInputs};
pub(crate) use jobs::context as job_context;
pub(crate) use location::LocationSource;

use crate::cpi::install::{InstalledPackages, UserlandPackages};
use crate::cpi::userland::Userland;
use crate::cpi::{Executable, INTERPRETER_HINT, describe_missing_interpreter};
use crate::protocol::BuiltinCpi;
use crate::run_context::RunContext;
use artifact::Stemcell;
use base::events::Stage;
use base::files::directory::parent;
use base::files::durable::write_atomically;
use base::text::shell_word;
use base::{Error, Result};
use entry::ResolvedEntry;
use manifest::UserlandRef;
use manifest::deployment::{CloudProvider, CpiSource};

/// A CPI that can be run: its executable, and the CPI-specific context of its requests.
pub(crate) struct RunnableCpi {
    pub(crate) executable: Executable,
    /// The CPI-specific part of the context in its requests, such as its properties in the CPI config.
    pub(crate) context_properties: Map<String, Value>,
    /// True if it ships inside this program.
    pub(crate) is_builtin: bool,
    /// Its release as `NAME/VERSION`, if it is a job of one.
    pub(crate) release: Option<String>,
    /// Its packages. While they are held, no other run removes or replaces them.
    pub(crate) packages: Option<Arc<InstalledPackages>>,
}

impl RunnableCpi {
    /// Returns its packages if they were compiled in this stemcell.
    pub(crate) fn packages_in_stemcell(&self, stemcell: &Stemcell) -> Option<&UserlandPackages> {
        let userland_packages = self.packages.as_ref()?.shareable.as_ref()?;
        userland_packages.are_compiled_in(stemcell).then_some(userland_packages)
    }
}

/// Installed packages by their jobs and userland. CPIs of one type share them.
type SharedPackages = Vec<(jobs::InstallKey, Arc<InstalledPackages>)>;

/// Userlands that were opened.
type OpenedUserlands = Vec<(UserlandRef, Arc<Userland>)>;

/// All CPIs of a manifest, found but not yet installed.
pub(crate) struct ResolvedCpis<'a> {
    run: &'a RunContext,
    inputs: CpiInputs<'a>,
    /// The CPIs of the CPI config.
    entries: Vec<ResolvedEntry<'a>>,
    shared_packages: RefCell<SharedPackages>,
    userlands: RefCell<OpenedUserlands>,
}

/// The installation of a CPI for others to take, with everything that other CPIs may share with it.
pub(crate) struct ShareableInstallation {
    runnable_cpi: RunnableCpi,
    packages: SharedPackages,
    userlands: OpenedUserlands,
}

impl<'a> ResolvedCpis<'a> {
    /// Resolves the kind of each CPI of the config, without installing any.
    pub(crate) fn find(run: &'a RunContext, inputs: CpiInputs<'a>) -> Result<Self> {
        let cpis = inputs.config.map_or(&[][..], |config| &config.cpis);
        let entries = cpis.iter().map(|cpi| ResolvedEntry::resolve(cpi, &inputs)).collect::<Result<_>>()?;
        Ok(ResolvedCpis {
            run,
            inputs,
            entries,
            shared_packages: RefCell::default(),
            userlands: RefCell::default(),
        })
    }

    /// Returns the names of all CPIs. The default one comes first, if there is one.
    pub(crate) fn names(&self) -> impl Iterator<Item = Option<&str>> {
        let default = (self.inputs.provider.cpi != CpiSource::None).then_some(None);
        default.into_iter().chain(self.entries.iter().map(|entry| Some(entry.cpi.name.as_str())))
    }

    /// Warns if `--cpi-userland` has no effect, because no CPI is the job of a release.
    pub(crate) fn warn_about_unused_userland(&self) {
        let provider = &self.inputs.provider.cpi;
        let has_job =
            matches!(provider, CpiSource::Jobs(_)) || self.entries.iter().any(ResolvedEntry::is_job);
        if self.run.userland(None).is_none() || has_job {
            return;
        }
        let reason = match provider {
            CpiSource::Builtin(name) => format!("the CPI '{name}' is built in"),
            _ => "no CPI of the manifest is the job of a release".to_owned(),
        };
        self.run.reporter.warn(format!("--cpi-userland has no effect: {reason}"));
    }

    /// Installs a CPI if needed. No name means the default CPI.
    pub(crate) fn install(&self, name: Option<&str>, stage: &Stage) -> Result<RunnableCpi> {
        match name {
            None => self.install_default(&self.default_root(), stage),
            Some(name) => {
                let (entry, root) = self.entry(name)?;
                entry.install(self, &root, stage)
            }
        }
    }

    /// Returns the userland in which a CPI runs; `None` for this machine.
    pub(crate) fn userland_of(&self, name: Option<&str>) -> Result<Option<UserlandRef>> {
        let (is_job, declared_ref) = match name {
            None => {
                let provider = self.inputs.provider;
                (matches!(provider.cpi, CpiSource::Jobs(_)), provider.userland.as_ref())
            }
            Some(name) => {
                let (entry, _) = self.entry(name)?;
                (entry.is_job(), entry.cpi.userland.as_ref())
            }
        };
        Ok(if is_job { self.run.userland(declared_ref) } else { None })
    }

    /// Installs a CPI like [`Self::install`], for other [`ResolvedCpis`] of the same manifest.
    pub(crate) fn install_for_others(
        self,
        name: Option<&str>,
        stage: &Stage,
    ) -> Result<ShareableInstallation> {
        let runnable_cpi = self.install(name, stage)?;
        let (packages, userlands) = (self.shared_packages.into_inner(), self.userlands.into_inner());
        Ok(ShareableInstallation { runnable_cpi, packages, userlands })
    }

    /// Takes over what [`Self::install_for_others`] installed.
    pub(crate) fn take_installation(&self, installation: ShareableInstallation) -> RunnableCpi {
        self.shared_packages.borrow_mut().extend(installation.packages);
        self.userlands.borrow_mut().extend(installation.userlands);
        installation.runnable_cpi
    }

    /// Checks a CPI like [`Self::install`], but compiles no packages.
    pub(crate) fn check(&self, name: Option<&str>, stage: &Stage) -> Result<()> {
        let provider = self.inputs.provider;
        match (name, &provider.cpi) {
            (Some(name), _) => {
                let (entry, root) = self.entry(name)?;
                entry.check(self, &root, stage)
            }
            (None, CpiSource::Jobs(named_jobs)) => {
                let cpi_jobs = jobs::jobs_of_default_cpi(named_jobs, &self.inputs)?;
                self.check_userland(provider.userland.as_ref())?;
                jobs::check(self, &cpi_jobs, &provider.properties, &self.default_root(), stage)
            }
            (None, CpiSource::Builtin(_) | CpiSource::Path { .. } | CpiSource::None) => {
                self.install(None, stage).map(drop)
            }
        }
    }

    /// Returns the entry with this name, and its directory.
    fn entry(&self, name: &str) -> Result<(&ResolvedEntry<'a>, PathBuf)> {
        let indexed_entry = self.entries.iter().enumerate().find(|(_, entry)| entry.cpi.name == name);
        let (index, entry) =
            indexed_entry.ok_or_else(|| Error::invalid(format!("there is no CPI '{name}'")))?;
        Ok((entry, self.run.paths.scratch.join("cpis").join(index.to_string())))
    }

    fn default_root(&self) -> PathBuf {
        self.run.paths.scratch.join("cpi")
    }

    /// Prepares the CPI of `cloud_provider`: a built-in one, an executable, or jobs of releases, which are
    /// compiled and rendered here.
    fn install_default(&self, root: &Path, stage: &Stage) -> Result<RunnableCpi> {
        let (provider, manifest) = (self.inputs.provider, self.inputs.manifest);
        match &provider.cpi {
            CpiSource::Builtin(name) if BuiltinCpi::named(name).is_some() => {
                let file = self.run.paths.scratch.join(format!("{name}-cpi.json"));
                let config = builtin_config(self.run, name, provider, &provider.properties);
                self.locate_builtin(name, &file, &config, Map::new(), root)
            }
            CpiSource::Builtin(name) => {
                let names_note = format!("the built-in CPIs are: {}", BuiltinCpi::names(", "));
                let place = &provider.cpi_place;
                Err(Error::invalid(format!("{place}: there is no built-in CPI '{name}'")).with_nearest(
                    name,
                    BuiltinCpi::ALL.map(BuiltinCpi::name),
                    || Some(names_note),
                ))
            }
            CpiSource::Path { path, arguments } => {
                let program: PathBuf = parent(manifest).join(path).components().collect();
                check_program(&program, &provider.cpi_place)?;
                // A plain executable has no rendered job, so the context carries its properties.
                Ok(self.locate_program(program, arguments.clone(), provider.properties.clone(), root))
            }
            CpiSource::Jobs(named_jobs) => {
                let cpi_jobs = jobs::jobs_of_default_cpi(named_jobs, &self.inputs)?;
                let userland = self.open_userland(provider.userland.as_ref(), stage)?;
                jobs::install(self, &cpi_jobs, &provider.properties, userland, root, stage)
            }
            CpiSource::None => Err(Error::invalid(
                "the default CPI is needed, but `cloud_provider` names none",
            )
            .with_hint("name it in `cloud_provider`: `template: {name, release}` or `cpi: {builtin: NAME}`")
            .with_hint(
                "if a CPI of the CPI config takes its place, name that in the `cpi` of the availability \
                 zone, and add `migrated_from: [{name: \"\"}]` to it",
            )),
        }
    }

    /// Locates a CPI that is built into this program, and writes its configuration to `file`.
    fn locate_builtin(
        &self,
        name: &str,
        file: &Path,
        config: &Value,
        context_properties: Map<String, Value>,
        root: &Path,
    ) -> Result<RunnableCpi> {
        write_atomically(file, config.to_string().as_bytes())
            .map_err(|error| Error::io("writing the configuration of the built-in CPI", error))?;
        let arguments =
            vec!["cpi-exec".into(), name.to_owned(), "--config".into(), file.display().to_string()];
        let program = self.run.paths.executable.clone();
        Ok(RunnableCpi {
            is_builtin: true,
            ..self.locate_program(program, arguments, context_properties, root)
        })
    }

    fn locate_program(
        &self,
        program: PathBuf,
        arguments: Vec<String>,
        context_properties: Map<String, Value>,
        root: &Path,
    ) -> RunnableCpi {
        let env_vars = directory_env_vars(self.run, &root.join("packages"), &root.join("jobs"));
        let executable = Executable { program, arguments, env_vars };
        RunnableCpi { executable, context_properties, is_builtin: false, release: None, packages: None }
    }
}

/// Checks that a program is there and executable, before a CPI call finds out. `place` is for messages.
#[expect(clippy::disallowed_methods, reason = "an error shows where a relative path leads")]
fn check_program(program: &Path, place: &str) -> Result<()> {
    let run_error = || Error::invalid(format!("{place}: the CPI '{}' cannot be run", program.display()));
    let metadata = fs::metadata(program).map_err(|error| {
        match error.kind() {
            std::io::ErrorKind::NotFound => {
                let path = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
                run_error().with_source(format!("the file '{}' does not exist", path.display()))
            }
            _ => run_error().with_source(error),
        }
        .with_hint("correct the path: it is relative to the file that names it")
    })?;
    if metadata.is_dir() {
        return Err(run_error().with_source("it is a directory").with_hint(format!(
            "name the executable in it: `ls {}`",
            shell_word(&program.to_string_lossy())
        )));
    }
    if !metadata.is_file() {
        return Err(run_error()
            .with_source("it is not a file")
            .with_hint("set the path of the CPI's executable"));
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(run_error().with_source("it is not executable").with_hint(format!(
            "make it executable: `chmod +x {}`",
            shell_word(&program.to_string_lossy())
        )));
    }
    if let Some(problem) = describe_missing_interpreter(program) {
        return Err(run_error().with_source(problem).with_hint(INTERPRETER_HINT));
    }
    Ok(())
}

/// Returns the environment of a CPI process: that of this program, plus the directories of packages and jobs.
fn directory_env_vars(
    run: &RunContext,
    packages_directory: &Path,
    jobs_directory: &Path,
) -> Vec<(String, String)> {
    let mut env_vars = run.env_vars.clone();
    env_vars.retain(|(name, _)| name != "BOSH_PACKAGES_DIR" && name != "BOSH_JOBS_DIR");
    env_vars.push(("BOSH_PACKAGES_DIR".into(), packages_directory.display().to_string()));
    env_vars.push(("BOSH_JOBS_DIR".into(), jobs_directory.display().to_string()));
    env_vars
}

/// Returns the configuration of a built-in CPI. By default all CPIs of one kind share one root, so that a
/// renamed CPI finds what it created.
fn builtin_config(
    run: &RunContext,
    name: &str,
    provider: &CloudProvider,
    properties: &Map<String, Value>,
) -> Value {
    let mut config = Map::new();
    if let Some(cpi @ (BuiltinCpi::Local | BuiltinCpi::Qemu)) = BuiltinCpi::named(name) {
        config.insert("root".into(), json!(location::directory(run, cpi, properties)));
    }
    config.extend(properties.clone());
    config.insert("agent".into(), agent_settings(provider, properties));
    Value::Object(config)
}

/// Returns the settings for agents. The properties take precedence over those of `cloud_provider`, as in the
/// job of a CPI release.
fn agent_settings(provider: &CloudProvider, properties: &Map<String, Value>) -> Value {
    let mut agent = json!({"mbus": provider.mbus.expose(), "cert": provider.cert.to_json()});
    if let (Some(Value::Object(agent_properties)), Value::Object(agent)) =
        (properties.get("agent"), &mut agent)
    {
        agent.extend(agent_properties.clone());
    }
    agent
}
