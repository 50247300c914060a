//! `upload-stemcell`: uploads a stemcell to every CPI that accepts it, in parallel.

use std::path::PathBuf;

use super::target::{OpenedEnvironment, TargetEnvironment};
use crate::cpi::Answer;
use crate::cpi_set::{self, CpiName, check_formats};
use crate::deploy::vm;
use crate::effects::{Executor, ParallelCall, deletion};
use crate::prepare::obtain;
use crate::run_context::RunContext;
use crate::state::{Change, Resource, State, StemcellHandle, StemcellRecord, Store};
use artifact::{self, ArtifactIdentity};
use base::events::Stage;
use base::{Error, Result};
use manifest::deployment::{ArtifactOrigin, ArtifactRef};
use manifest::{CpiConfig, Deployment, cpi_label};

/// The request of `upload-stemcell`.
#[derive(Debug, Clone)]
pub struct UploadStemcellRequest {
    /// The environment.
    pub target_environment: TargetEnvironment,
    /// The stemcell: `file://`, `http(s)://` or a path.
    pub url: String,
    /// `--sha1`: its digest, in any of BOSH's formats.
    pub sha1: Option<String>,
    /// The base of a relative path.
    pub directory: PathBuf,
    /// `--name` and `--version`: the expected identity. If a stemcell with this identity is already uploaded,
    /// nothing is fetched.
    pub identity: Option<(String, String)>,
    /// `--cpi`: only these CPIs; the empty name is the default CPI.
    pub cpis: Vec<String>,
    /// `--fix`: upload it again even if a CPI has it, and replace the old upload.
    pub fix: bool,
}

const UPLOAD_REASON: &str = "requested on the command line";

/// Uploads the stemcell and returns a summary in one sentence.
pub fn upload_stemcell(request: &UploadStemcellRequest, run: &RunContext) -> Result<String> {
    let OpenedEnvironment { mut store, manifest, cpi_inputs } =
        request.target_environment.open_or_begin(run, "upload-stemcell")?;
    let deployment = manifest.deployment()?;
    let targets = find_targets(&request.cpis, cpi_inputs.config.as_ref(), &deployment, store.state())?;
    if let Some((name, version)) = request.identity.as_ref().filter(|_| !request.fix) {
        let is_on_record = |cpi: &&CpiName| has_record(store.state(), name, version, cpi.as_deref());
        if targets.iter().all(|cpi| is_on_record(&cpi)) {
            targets.iter().try_for_each(|cpi| keep(run, &mut store, name, version, cpi.as_deref()))?;
            return Ok(format!("Stemcell {name}/{version} is uploaded already"));
        }
    }

    let identify_by = obtain::IdentifyBy::for_state(store.state());
    let obtaining = run.reporter.begin_stage("Obtaining the stemcell");
    let stemcell_ref = ArtifactRef {
        url: request.url.clone(),
        sha1: request.sha1.clone(),
        origin: ArtifactOrigin::CommandLine,
    };
    let artifact = obtain::obtain_stemcell(run, &stemcell_ref, identify_by, &request.directory, &obtaining)?;
    let identity = &artifact.identity;
    check_identity(request.identity.as_ref(), identity)?;
    let target_count = targets.len();
    let mut missing = Vec::new();
    for cpi in targets {
        match request.fix || !check_is_uploaded(store.state(), identity, cpi.as_deref())? {
            true => missing.push(cpi),
            false => keep(run, &mut store, &identity.name, &identity.version, cpi.as_deref())?,
        }
    }
    let name = format!("{}/{}", identity.name, identity.version);
    let already_uploaded = || Ok(format!("Stemcell {name} is uploaded already; --fix uploads it again"));
    if missing.is_empty() {
        obtaining.finish();
        return already_uploaded();
    }
    let stemcell = artifact.open_stemcell(run, &obtaining)?;
    obtaining.finish();

    let mut cpis = request.target_environment.find_cpis(run, &cpi_inputs, store.state())?;
    for cpi in &missing {
        cpis.use_stemcell(cpi.as_deref(), stemcell.api_version);
    }
    let mut executor = Executor::new(run, cpis, store);
    // If some CPIs already have it, the others need not accept it.
    let need = match request.cpis.is_empty() {
        false => RequiredCpis::All,
        true if missing.len() < target_count => RequiredCpis::None,
        true => RequiredCpis::One,
    };
    let accepting_cpis = find_accepting_cpis(&executor, run, missing, &stemcell, need)?;
    if accepting_cpis.is_empty() {
        return already_uploaded();
    }
    let upload_stage = run.reporter.begin_stage(format!("Uploading stemcell {name}"));
    let outcomes = upload(&mut executor, &accepting_cpis, &stemcell, &deployment, &upload_stage)?;
    let mut failures = Vec::new();
    for (cpi, outcome) in accepting_cpis.iter().zip(outcomes) {
        match outcome {
            Ok(handle) => {
                delete_superseded(&mut executor, run, &stemcell, &handle, request.fix, &upload_stage)?
            }
            Err(error) => failures.push((cpi_label(cpi.as_deref()), error)),
        }
    }
    let Some(error) = combine_failures(failures, accepting_cpis.len()) else {
        upload_stage.finish();
        let cpi_labels: Vec<String> = accepting_cpis.iter().map(|cpi| cpi_label(cpi.as_deref())).collect();
        return Ok(format!("Uploaded stemcell {name} to {}", cpi_labels.join(", ")));
    };
    Err(error)
}

/// Returns the CPIs to upload to. With a CPI config, they include the default CPI only if the environment
/// uses it.
fn find_targets(
    cpi_names: &[String],
    config: Option<&CpiConfig>,
    deployment: &Deployment,
    state: &State,
) -> Result<Vec<CpiName>> {
    let mut targets: Vec<CpiName> = Vec::new();
    if cpi_names.is_empty() {
        cpi_set::check_az(config, deployment.az.as_ref())?;
        let includes_default =
            deployment.cpi().is_none() || state.resources().any(|resource| resource.cpi().is_none());
        targets.extend(includes_default.then_some(None));
        targets.extend(config.into_iter().flat_map(CpiConfig::names).map(|name| Some(name.to_owned())));
    }
    for name in cpi_names {
        let name = cpi_set::check_named_cpi(config, name)?.map(str::to_owned);
        if !targets.contains(&name) {
            targets.push(name);
        }
    }
    Ok(targets)
}

/// Returns the stemcells on record with this name, version and CPI.
fn records<'s>(
    state: &'s State,
    name: &str,
    version: &str,
    cpi: Option<&str>,
) -> impl Iterator<Item = &'s StemcellRecord> {
    state.stemcells.iter().filter(move |record| {
        record.name == name && record.version == version && record.cpi.as_deref() == cpi
    })
}

fn has_record(state: &State, name: &str, version: &str, cpi: Option<&str>) -> bool {
    records(state, name, version, cpi).next().is_some()
}

/// Returns true if a CPI has this stemcell. Fails if it has another one with the same name and version.
fn check_is_uploaded(state: &State, identity: &ArtifactIdentity, cpi: Option<&str>) -> Result<bool> {
    if state.stemcell_at(cpi, identity).is_some() {
        return Ok(true);
    }
    match state.has_other_content_at(cpi, identity) {
        true => Err(Error::invalid(format!(
            "{} has another stemcell under the name {}/{}: its content differs",
            cpi_label(cpi),
            identity.name,
            identity.version
        ))
        .with_note("nothing was changed")
        .with_hint("to replace it with this one: `monopile SAME-COMMAND --fix`")),
        false => Ok(false),
    }
}

/// Marks existing uploads as kept, as if this run had uploaded them.
fn keep(run: &RunContext, store: &mut Store, name: &str, version: &str, cpi: Option<&str>) -> Result<()> {
    let stemcells: Vec<StemcellHandle> =
        records(store.state(), name, version, cpi).map(StemcellRecord::handle).collect();
    for stemcell in stemcells {
        run.reporter.note(format!("stemcell {name}/{version} is uploaded already: {stemcell}"));
        store.commit(Change::StemcellKept { stemcell, is_kept: true })?;
    }
    Ok(())
}

fn check_identity(expected: Option<&(String, String)>, identity: &ArtifactIdentity) -> Result<()> {
    match expected {
        Some((name, version)) if *name != identity.name || *version != identity.version => {
            Err(Error::invalid(format!(
                "the command line says {name}/{version}, but the stemcell is {}/{}",
                identity.name, identity.version
            ))
            .with_note("nothing was changed")
            .with_hint("correct --name and --version, or name the other stemcell"))
        }
        _ => Ok(()),
    }
}

/// The number of CPIs that must accept a stemcell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequiredCpis {
    /// Every CPI, because the operator named them.
    All,
    /// At least one CPI, so that the stemcell can be used.
    One,
    /// No CPI, because another one has the stemcell already.
    None,
}

/// Asks each CPI for `info` and returns those that accept the stemcell.
fn find_accepting_cpis(
    executor: &Executor<'_>,
    run: &RunContext,
    candidates: Vec<CpiName>,
    stemcell: &artifact::Stemcell,
    need: RequiredCpis,
) -> Result<Vec<CpiName>> {
    let mut accepting_cpis = Vec::new();
    let mut format_errors = Vec::new();
    for cpi in candidates {
        let connection = executor.cpis().connect_in_own_stage(cpi.as_deref())?;
        let (accepted, origin) = (connection.stemcell_formats(), ArtifactOrigin::CommandLine);
        let format_check = check_formats(run, cpi.as_deref(), accepted, &origin, &stemcell.stemcell_formats);
        match format_check {
            Ok(()) => accepting_cpis.push(cpi),
            Err(error) => format_errors.push(error),
        }
    }
    if need == RequiredCpis::All || need == RequiredCpis::One && accepting_cpis.is_empty() {
        let mut format_errors = format_errors.into_iter();
        if let Some(first) = format_errors.next() {
            return Err(format_errors.fold(first, |error, next| error.with_note(next.to_string())));
        }
    } else {
        format_errors.iter().for_each(|error| run.reporter.note(format!("{error}: not uploaded there")));
    }
    Ok(accepting_cpis)
}

/// Uploads the stemcell to all CPIs in parallel. The results are in the order of `cpis`.
fn upload(
    executor: &mut Executor<'_>,
    cpis: &[CpiName],
    stemcell: &artifact::Stemcell,
    deployment: &Deployment,
    stage: &Stage,
) -> Result<Vec<Result<StemcellHandle>>> {
    let calls: Vec<ParallelCall> = cpis
        .iter()
        .map(|cpi| {
            let (effect, arguments) = vm::upload_effect(stemcell, deployment, cpi.as_deref(), true);
            ParallelCall {
                stage_name: format!("Uploading to {}", cpi_label(cpi.as_deref())),
                effect,
                arguments,
            }
        })
        .collect();
    let answers = executor.perform_in_parallel(stage, UPLOAD_REASON, &calls)?;
    let handles = cpis.iter().zip(answers).map(|(cpi, answer)| match answer? {
        Answer::Stemcell(cid) => Ok(StemcellHandle { cid, cpi: cpi.clone() }),
        other => Err(Error::failure(format!("{other:?} is not an answer to `create_stemcell`"))),
    });
    Ok(handles.collect())
}

/// Deletes the uploads that a `--fix` replaced. If the VM was made from one of them, a later create-env
/// deletes it.
fn delete_superseded(
    executor: &mut Executor<'_>,
    run: &RunContext,
    stemcell: &artifact::Stemcell,
    handle: &StemcellHandle,
    fix: bool,
    stage: &Stage,
) -> Result<()> {
    if !fix {
        return Ok(());
    }
    let mut old_uploads: Vec<StemcellHandle> =
        records(executor.state(), &stemcell.name, &stemcell.version, handle.cpi())
            .map(StemcellRecord::handle)
            .collect();
    old_uploads.sort();
    old_uploads.dedup();
    old_uploads.retain(|old_upload| old_upload != handle);
    for old_upload in old_uploads {
        executor.commit(Change::StemcellKept { stemcell: old_upload.clone(), is_kept: false })?;
        let is_used =
            executor.state().current_stemcell().is_some_and(|current| current.handle() == old_upload);
        if is_used && executor.state().vm_handle().is_some() {
            run.reporter.note(format!(
                "the VM was created from stemcell {old_upload}, so that stays until create-env replaces \
                 the VM"
            ));
            continue;
        }
        let old_upload = Resource::Stemcell(old_upload);
        if let Some(error) = deletion::delete(executor, &old_upload, "another upload replaced it", stage)? {
            run.reporter.warn(format!(
                "{}; it stays on record, and the next run tries again",
                error.chain().join(": ")
            ));
        }
    }
    Ok(())
}

/// Combines the failed uploads into one error.
fn combine_failures(failures: Vec<(String, Error)>, upload_count: usize) -> Option<Error> {
    let failed_count = failures.len();
    let mut failures = failures.into_iter();
    let (_, first_error) = failures.next()?;
    if upload_count == 1 {
        return Some(first_error);
    }
    let first_error = first_error
        .context(format!("{failed_count} of {upload_count} uploads failed; the others are on record"));
    Some(failures.fold(first_error, |error, (label, next_error)| {
        error.with_note(format!("{label} failed too: {}", next_error.chain().join(": ")))
    }))
}
