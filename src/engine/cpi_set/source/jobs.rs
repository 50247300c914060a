//! A CPI made of jobs of releases: one job has the template `bin/cpi`, others may be its plug-ins.
//!
//! Cheap checks come first: the jobs must exist, then their templates must render, and only then are their
//! packages compiled.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{CpiInputs, ResolvedCpis, RunnableCpi, directory_env_vars};
use crate::cpi::install::{
    CompileSettings, CpiJob, InstalledPackages, UNCHANGED_PACKAGES, UserlandPackages,
    install as install_packages,
};
use crate::cpi::userland::{JOBS_DIRECTORY, Layout, PACKAGES_DIRECTORY, Userland};
use crate::cpi::{Executable, create_private_directory};
use crate::jobs::render;
use crate::prepare::find_release;
use crate::run_context::RunContext;
use crate::templates;
use artifact::release::Job;
use artifact::{Release, Stemcell};
use base::error::ResultExt;
use base::events::Stage;
use base::{Error, Result};
use manifest::deployment::CpiSource;

/// The target of the template that is the CPI's executable.
const CPI_PROGRAM: &str = "bin/cpi";

/// A job that the manifest names, found in its release.
struct FoundJob<'r> {
    release: &'r Release,
    job: &'r Job,
}

/// The names of a job and its release.
pub(super) type JobName = (String, String);

/// The jobs of a CPI, and the key of its userland if it has one.
pub(super) type InstallKey = (Vec<JobName>, Option<String>);

/// Finds the job that implements CPIs of this type. Releases that `cloud_provider` names come first.
pub(super) fn find_type(kind: &str, inputs: &CpiInputs<'_>) -> Option<JobName> {
    let has_cpi_job = |release: &Release| match &inputs.provider.cpi {
        CpiSource::Jobs(jobs) => jobs.iter().any(|(_, name)| *name == release.name),
        CpiSource::Builtin(_) | CpiSource::Path { .. } | CpiSource::None => false,
    };
    let (named_releases, other_releases): (Vec<&Release>, Vec<&Release>) =
        inputs.releases.iter().partition(|release| has_cpi_job(release));
    let release = named_releases.into_iter().chain(other_releases).find(|release| has_type(release, kind))?;
    Some((job_of_type(kind), release.name.clone()))
}

/// Returns true if a release implements CPIs of this type.
pub(super) fn has_type(release: &Release, kind: &str) -> bool {
    release.job(&job_of_type(kind)).is_ok_and(provides_cpi)
}

fn job_of_type(kind: &str) -> String {
    format!("{kind}_cpi")
}

fn provides_cpi(job: &Job) -> bool {
    job.templates.iter().any(|template| template.target == CPI_PROGRAM)
}

/// Returns the jobs of the default CPI. With a CPI config, `cloud_provider` may also name the jobs of other
/// CPIs: the first one is the default.
pub(super) fn jobs_of_default_cpi(named_jobs: &[JobName], inputs: &CpiInputs<'_>) -> Result<Vec<JobName>> {
    if inputs.config.is_none() {
        return Ok(named_jobs.to_vec());
    }
    let found_jobs = find_jobs(named_jobs, inputs)?;
    match found_jobs.iter().position(|found_job| provides_cpi(found_job.job)) {
        Some(first) => Ok(with_plugins(&named_jobs[first], named_jobs, &found_jobs)),
        None => Ok(named_jobs.to_vec()),
    }
}

/// Returns the jobs of a CPI of the config: its own and the plug-ins that `cloud_provider` names.
pub(super) fn jobs_of_type(job: &JobName, inputs: &CpiInputs<'_>) -> Result<Vec<JobName>> {
    match &inputs.provider.cpi {
        CpiSource::Jobs(named_jobs) => Ok(with_plugins(job, named_jobs, &find_jobs(named_jobs, inputs)?)),
        CpiSource::Builtin(_) | CpiSource::Path { .. } | CpiSource::None => Ok(vec![job.clone()]),
    }
}

fn with_plugins(job: &JobName, named_jobs: &[JobName], found_jobs: &[FoundJob<'_>]) -> Vec<JobName> {
    let plugins = named_jobs.iter().zip(found_jobs).filter(|(_, found_job)| !provides_cpi(found_job.job));
    std::iter::once(job).chain(plugins.map(|(name, _)| name)).cloned().collect()
}

/// Checks the jobs like [`install`], but compiles no packages.
pub(super) fn check(
    resolved_cpis: &ResolvedCpis<'_>,
    named_jobs: &[JobName],
    properties: &Map<String, Value>,
    root: &Path,
    stage: &Stage,
) -> Result<()> {
    let found_jobs = find_jobs(named_jobs, &resolved_cpis.inputs)?;
    only_cpi_job(&found_jobs, &resolved_cpis.inputs)?;
    render_jobs(&resolved_cpis.inputs, &found_jobs, properties, &root.join("jobs"), stage)
}

/// Plans the packages of the jobs that are compiled in a stemcell. Compiles nothing.
pub(super) fn plan_packages(
    resolved_cpis: &ResolvedCpis<'_>,
    named_jobs: &[JobName],
    stemcell: &Stemcell,
) -> Result<UserlandPackages> {
    let ResolvedCpis { run, inputs, .. } = resolved_cpis;
    let jobs = package_jobs(&find_jobs(named_jobs, inputs)?);
    UserlandPackages::plan(&jobs, stemcell, &run.paths.cache_directory, &run.shared_cache)
}

/// Installs the jobs below `root`, rendered with these properties, with packages from the cache or
/// `--package-dir`.
pub(super) fn install(
    resolved_cpis: &ResolvedCpis<'_>,
    named_jobs: &[JobName],
    properties: &Map<String, Value>,
    userland: Option<Arc<Userland>>,
    root: &Path,
    stage: &Stage,
) -> Result<RunnableCpi> {
    let ResolvedCpis { run, inputs, .. } = resolved_cpis;
    let found_jobs = find_jobs(named_jobs, inputs)?;
    let FoundJob { release, job: cpi } = only_cpi_job(&found_jobs, inputs)?;
    let installing = stage.reporter().begin_stage(format!("Installing CPI '{}'", cpi.name));
    let jobs_directory = root.join("jobs");
    render_jobs(inputs, &found_jobs, properties, &jobs_directory, &installing)?;

    let userland = userland.as_deref();
    let installed_packages =
        install_job_packages(resolved_cpis, named_jobs, &found_jobs, userland, root, &installing)?;
    installing.finish();
    let mut executable = match userland {
        None => Executable {
            program: jobs_directory.join(&cpi.name).join(CPI_PROGRAM),
            arguments: Vec::new(),
            env_vars: directory_env_vars(run, &installed_packages.packages_directory, &jobs_directory),
        },
        Some(userland) => {
            executable_in(userland, run, &cpi.name, &installed_packages, &jobs_directory, root)?
        }
    };
    let unchanged = UNCHANGED_PACKAGES.map(|(name, value)| (name.to_owned(), value.to_owned()));
    executable.env_vars.extend(unchanged);
    Ok(RunnableCpi {
        executable,
        // The configuration of this CPI is in its rendered files.
        context_properties: Map::new(),
        is_builtin: false,
        release: Some(format!("{}/{}", release.name, release.version)),
        packages: Some(installed_packages),
    })
}

/// Returns the executable of a CPI in a userland. `root` is the directory of the CPI on this machine.
fn executable_in(
    userland: &Userland,
    run: &RunContext,
    job: &str,
    installed_packages: &InstalledPackages,
    jobs_directory: &Path,
    root: &Path,
) -> Result<Executable> {
    let scratch = root.join("userland");
    create_private_directory(&scratch)?;
    // Stemcells are unpacked there, maybe after the CPI was installed.
    let images = run.paths.scratch.join("stemcell");
    create_private_directory(&images)?;
    let mut env_vars = directory_env_vars(run, Path::new(PACKAGES_DIRECTORY), Path::new(JOBS_DIRECTORY));
    // A directory for temporary files on this machine.
    env_vars.retain(|(name, _)| name != "TMPDIR");
    let layout =
        Layout::for_cpi(userland, &scratch, &installed_packages.targets, jobs_directory, &images, &env_vars)?;
    let program = format!("{JOBS_DIRECTORY}/{job}/{CPI_PROGRAM}");
    Ok(Executable { program: userland.executable.clone(), arguments: layout.write(&[&program])?, env_vars })
}

/// Renders the templates of the jobs into `<jobs_directory>/<job>`.
fn render_jobs(
    inputs: &CpiInputs<'_>,
    found_jobs: &[FoundJob<'_>],
    properties: &Map<String, Value>,
    jobs_directory: &Path,
    stage: &Stage,
) -> Result<()> {
    create_private_directory(jobs_directory)?;
    let rendering = stage.reporter().begin_stage("Rendering the CPI's templates");
    for FoundJob { job, .. } in found_jobs {
        render_job(inputs, job, properties, jobs_directory)
            .context(|| format!("job '{}' of the CPI cannot be rendered", job.name))?;
    }
    rendering.finish();
    Ok(())
}

/// Installs the packages of these jobs, once per set of jobs and userland.
fn install_job_packages(
    resolved_cpis: &ResolvedCpis<'_>,
    named_jobs: &[JobName],
    found_jobs: &[FoundJob<'_>],
    userland: Option<&Userland>,
    root: &Path,
    stage: &Stage,
) -> Result<Arc<InstalledPackages>> {
    let run = resolved_cpis.run;
    let mut shared_packages = resolved_cpis.shared_packages.borrow_mut();
    let key = (named_jobs.to_vec(), userland.map(Userland::compile_key));
    if let Some((_, installed_packages)) =
        shared_packages.iter().find(|(installed_key, _)| *installed_key == key)
    {
        return Ok(Arc::clone(installed_packages));
    }
    let jobs = package_jobs(found_jobs);
    let is_default = match &resolved_cpis.inputs.provider.cpi {
        CpiSource::Jobs(jobs) => jobs_of_default_cpi(jobs, &resolved_cpis.inputs)? == named_jobs,
        CpiSource::Builtin(_) | CpiSource::Path { .. } | CpiSource::None => false,
    };
    // A package directory holds one package per name, so each other CPI gets a directory of its own.
    let package_directory = run.paths.package_directory.as_ref().map(|directory| match named_jobs {
        [(job, _), ..] if !is_default => directory.join(".monopile/cpis").join(job),
        _ => directory.clone(),
    });
    let compile_settings = CompileSettings {
        cache_directory: &run.paths.cache_directory,
        package_directory: package_directory.as_deref(),
        shared_cache: &run.shared_cache,
        scratch: root,
        keep_scratch: run.keep_scratch,
        userland,
        env_vars: &run.env_vars,
        parallel: run.parallel,
        signal_check: &|| run.signal(),
        redactor: &run.redactor,
    };
    let installed_packages = Arc::new(install_packages(&jobs, &compile_settings, stage)?);
    shared_packages.push((key, Arc::clone(&installed_packages)));
    Ok(installed_packages)
}

/// Returns the jobs whose packages are needed.
fn package_jobs<'r>(found_jobs: &[FoundJob<'r>]) -> Vec<CpiJob<'r>> {
    let cpi_job = |found_job: &FoundJob<'r>| CpiJob { release: found_job.release, name: &found_job.job.name };
    found_jobs.iter().map(cpi_job).collect()
}

fn find_jobs<'r>(named_jobs: &[JobName], inputs: &CpiInputs<'r>) -> Result<Vec<FoundJob<'r>>> {
    let mut found_jobs: Vec<FoundJob<'r>> = Vec::new();
    for (name, release) in named_jobs {
        let release = find_release(inputs.releases, release)?;
        let place = &inputs.provider.cpi_place;
        let job = release
            .job(name)
            .context(|| format!("{place}: `cloud_provider` names a job that does not exist"))?;
        if found_jobs.iter().any(|other| other.job.name == job.name) {
            return Err(Error::invalid(format!(
                "{place}: `cloud_provider.templates` names job '{name}' twice"
            ))
            .with_hint("jobs are installed by name: remove one of the two"));
        }
        found_jobs.push(FoundJob { release, job });
    }
    Ok(found_jobs)
}

/// Returns the only job with the template `bin/cpi`.
fn only_cpi_job<'f, 'r>(found_jobs: &'f [FoundJob<'r>], inputs: &CpiInputs<'_>) -> Result<&'f FoundJob<'r>> {
    let place = &inputs.provider.cpi_place;
    let cpis: Vec<&'f FoundJob<'r>> =
        found_jobs.iter().filter(|found_job| provides_cpi(found_job.job)).collect();
    let name = |found_job: &&FoundJob<'_>| {
        format!("'{}' of release '{}'", found_job.job.name, found_job.release.name)
    };
    match cpis.as_slice() {
        [one] => Ok(*one),
        [] => {
            let template_lists: Vec<String> = found_jobs
                .iter()
                .map(|found_job| {
                    let targets: Vec<&str> =
                        found_job.job.templates.iter().map(|template| template.target.as_str()).collect();
                    let targets =
                        if targets.is_empty() { "no templates".to_owned() } else { targets.join(", ") };
                    format!("{} has {targets}", name(&found_job))
                })
                .collect();
            Err(Error::invalid(format!(
                "{place}: no job of `cloud_provider` has the template `{CPI_PROGRAM}`, so none is a CPI"
            ))
            .with_source(format!("job {}", template_lists.join("; job ")))
            .with_hint("name the job of the CPI in `cloud_provider.template`"))
        }
        cpi_jobs => {
            let names: Vec<String> = cpi_jobs.iter().map(name).collect();
            Err(Error::invalid(format!(
                "{place}: {} jobs of `cloud_provider` have the template `{CPI_PROGRAM}`, but only one may \
                 be a CPI",
                cpi_jobs.len()
            ))
            .with_source(format!("they are {}", names.join(" and ")))
            .with_hint("keep only the jobs of one CPI and its plug-ins in `cloud_provider.templates`"))
        }
    }
}

/// Renders a job's templates into `<jobs_directory>/<job>`. Only this user can read the files, because they
/// hold credentials.
fn render_job(
    inputs: &CpiInputs<'_>,
    job: &Job,
    properties: &Map<String, Value>,
    jobs_directory: &Path,
) -> Result<()> {
    create_private_directory(&jobs_directory.join(&job.name))?;
    let context = templates::context(&context(inputs.environment_name, job, properties))?;
    for file in render::render_templates(inputs.renderer, job, &context, jobs_directory)? {
        if file.is_executable {
            fs::set_permissions(&file.path, fs::Permissions::from_mode(0o700))
                .map_err(|error| Error::io(format!("making '{}' executable", file.path.display()), error))?;
        }
    }
    Ok(())
}

/// Builds the evaluation context as the bosh CLI does for the jobs it installs
/// (`installation/job_renderer.go`). The CPI's properties take the place of the instance group's, and there
/// is neither address nor network.
pub(crate) fn context(environment_name: &str, job: &Job, properties: &Map<String, Value>) -> Value {
    json!({
        "index": 0,
        "id": uuid::Uuid::new_v4().to_string(),
        "az": "unknown",
        "bootstrap": true,
        "job": {"name": job.name},
        "deployment": environment_name,
        "networks": {"default": {"ip": "", "netmask": "", "gateway": ""}},
        "global_properties": {},
        "cluster_properties": properties,
        "job_properties": null,
        "default_properties": render::defaults(job),
    })
}
