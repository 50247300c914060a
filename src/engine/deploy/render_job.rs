//! `render`: renders the files of one job without deploying anything.

use std::fs;

use crate::jobs::render;
use crate::run_context::RunContext;
use crate::{cpi_set, prepare, templates};
use base::error::ResultExt;
use base::text;
use base::{Error, Result};
use erb::RendererChoice;
use manifest::Inputs;
use manifest::deployment::CpiSource;

/// A rendered file of a job.
#[derive(Debug, Clone)]
pub struct JobFile {
    /// Its path in the job's directory, such as `bin/ctl` or `monit`.
    pub target: String,
    /// Its content, which may be binary.
    pub content: Vec<u8>,
    /// True for a target below `bin/`.
    pub is_executable: bool,
}

/// The request of `render`.
#[derive(Debug, Clone)]
pub struct RenderJobRequest {
    /// The manifest, its ops files and variables.
    pub inputs: Inputs,
    /// The name of a job of the instance group or of the CPI.
    pub job: String,
    /// `--renderer`: the renderer for templates.
    pub renderer_choice: RendererChoice,
}

/// A placeholder for the random instance id of an environment.
const INSTANCE_ID_PLACEHOLDER: &str = "00000000-0000-0000-0000-000000000000";

/// Renders the files of a job of the instance group or of the CPI. Addresses that only the IaaS assigns are
/// missing, and the instance id is all zeros.
pub fn render_job(request: &RenderJobRequest, run: &RunContext) -> Result<Vec<JobFile>> {
    let rendering = run.reporter.begin_stage(format!("Rendering job '{}'", request.job));
    let manifest = prepare::load(run, &request.inputs)?;
    let deployment = manifest.deployment()?;
    let provider = &deployment.cloud_provider;
    let renderer = templates::create_run_renderer(run, request.renderer_choice)?;
    let cpi_jobs = match &provider.cpi {
        CpiSource::Jobs(jobs) => jobs.as_slice(),
        CpiSource::Builtin(_) | CpiSource::Path { .. } | CpiSource::None => &[],
    };
    let job_reference = deployment.group.jobs.iter().find(|job| job.name == request.job);
    let owner = match job_reference {
        Some(job_reference) => &job_reference.release,
        None => {
            let job_names = deployment.group.jobs.iter().map(|job| job.name.as_str());
            let job_names: Vec<&str> =
                job_names.chain(cpi_jobs.iter().map(|(name, _)| name.as_str())).collect();
            match cpi_jobs.iter().find(|(name, _)| *name == request.job) {
                Some((_, release)) => release,
                None => {
                    let all_jobs = || {
                        Some(match job_names.as_slice() {
                            [name] => format!("its only job is '{name}'"),
                            names => format!("its jobs are {}", text::comma_list(names)),
                        })
                    };
                    return Err(Error::invalid(format!("the manifest has no job '{}'", request.job))
                        .with_nearest(&request.job, job_names.iter().copied(), all_jobs));
                }
            }
        }
    };
    let owner_releases: Vec<_> =
        deployment.releases.iter().filter(|release| release.name == *owner).cloned().collect();
    let releases = prepare::open_releases(run, &owner_releases, &request.inputs.manifest, &rendering)?;
    let release = prepare::find_release(&releases, owner)?;
    let job = release.job(&request.job)?;
    let context = match job_reference {
        Some(job_reference) => render::evaluation_context(
            &deployment,
            release,
            job,
            job_reference,
            &deployment.vm.networks,
            INSTANCE_ID_PLACEHOLDER,
        )?,
        None => templates::context(&cpi_set::job_context(&deployment.name, job, &provider.properties))?,
    };
    let root = run.paths.scratch.join("rendered");
    let mut files = render::render_templates(&renderer, job, &context, &root)
        .context(|| format!("job '{}' cannot be rendered", job.name))?;
    if let (Some(monit), true) = (&job.monit, job_reference.is_some()) {
        files.push(render::render_template(&renderer, job, monit, "monit", &context, &root)?);
    }
    let files = files
        .into_iter()
        .map(|file| {
            let content = fs::read(&file.path)
                .map_err(|error| Error::io(format!("reading '{}'", file.path.display()), error))?;
            let target =
                file.name.split_once('/').map_or(file.name.as_str(), |(_, target)| target).to_owned();
            Ok(JobFile { target, content, is_executable: file.is_executable })
        })
        .collect::<Result<Vec<JobFile>>>()?;
    rendering.finish();
    Ok(files)
}
