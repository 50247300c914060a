//! From a request to everything a plan and its run need, without an effect on the world.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha512};

use super::request::Environment;
use super::signals;
use crate::artifact::{
    Cache, Digest, Fetcher, Identity, Kind, Location, Release, Source, Stemcell, release, stemcell,
};
use crate::error::ResultExt;
use crate::manifest::deployment::{ArtifactRef, CpiSource, Deployment, ReleaseRef};
use crate::manifest::{self, Inputs, Loaded, yaml};
use crate::ui::Stage;
use crate::{Error, Result};

/// A manifest that can be deployed, as far as it and its artifacts alone can tell.
pub(super) struct Prepared {
    pub(super) deployment: Deployment,
    pub(super) manifest_sha: String,
    pub(super) manifest_path: PathBuf,
    stemcell: Obtained,
    releases: Vec<Obtained>,
}

/// An artifact on this machine that is not unpacked yet.
struct Obtained {
    source: Source,
    expected: Option<Digest>,
    identity: Identity,
}

/// The artifacts, verified and unpacked.
pub(super) struct Opened {
    pub(super) stemcell: Stemcell,
    pub(super) releases: Vec<Release>,
}

/// Reads a manifest and remembers what in it must not be shown.
pub(super) fn load(environment: &Environment, inputs: &Inputs) -> Result<Loaded> {
    let loaded = manifest::load(inputs)?;
    for secret in &loaded.secrets {
        environment.redactor.add(secret);
    }
    for warning in &loaded.warnings {
        environment.reporter.warn(warning);
    }
    for note in &loaded.notes {
        environment.reporter.note(note);
    }
    Ok(loaded)
}

/// Reads and validates the manifest and finds out what its artifacts are.
pub(super) fn prepare(environment: &Environment, inputs: &Inputs, stage: &Stage) -> Result<Prepared> {
    let loaded = load(environment, inputs)?;
    let deployment = Deployment::parse(&loaded.root)?;
    redact_provider(environment, &deployment.cloud_provider);
    let manifest_sha = crate::notation::hex(&Sha512::digest(yaml::emit(&loaded.root)));
    let directory = inputs.manifest.parent().unwrap_or(Path::new(".")).to_owned();
    let (stemcell, releases) = obtain_all(environment, &deployment, &directory, stage)?;
    Ok(Prepared { deployment, manifest_sha, manifest_path: inputs.manifest.clone(), stemcell, releases })
}

/// Everything in `cloud_provider` that opens doors.
pub(super) fn redact_provider(environment: &Environment, provider: &manifest::deployment::CloudProvider) {
    environment.redactor.add(&provider.mbus);
    if let Ok(url) = url::Url::parse(&provider.mbus)
        && let Some(password) = url.password()
    {
        environment.redactor.add(password);
        environment.redactor.add(&crate::notation::percent_decode(password));
    }
    if let Some(key) = &provider.cert.private_key {
        environment.redactor.add(key);
    }
    // What a built-in CPI's properties hold is known, and nothing of it is secret but what is added above.
    if !matches!(provider.cpi, CpiSource::Builtin(_)) {
        for secret in manifest::secret_texts(&provider.properties) {
            environment.redactor.add(&secret);
        }
    }
}

/// Obtains and opens these releases alone.
pub(super) fn open_releases(
    environment: &Environment,
    wanted: &[ReleaseRef],
    manifest: &Path,
    stage: &Stage,
) -> Result<Vec<Release>> {
    let directory = manifest.parent().unwrap_or(Path::new("."));
    let wanted: Vec<Wanted<'_>> = wanted.iter().map(Wanted::release).collect();
    obtain(environment, &wanted, directory, stage)?
        .iter()
        .map(|obtained| open_release(environment, obtained, stage))
        .collect()
}

fn open_release(environment: &Environment, wanted: &Obtained, stage: &Stage) -> Result<Release> {
    let unpacking = stage.reporter().stage(format!("Unpacking release '{}'", wanted.identity.name));
    let directory = environment.paths.work.join("releases").join(&wanted.identity.name);
    create_directory(&directory)?;
    let release = release::open(&wanted.source, wanted.expected.as_ref(), &directory, &unpacking)?;
    unpacking.finish();
    Ok(release)
}

/// An artifact of the manifest, before it is known to be on this machine.
struct Wanted<'m> {
    kind: Kind,
    /// What `releases` calls it.
    name: Option<&'m str>,
    artifact: &'m ArtifactRef,
}

impl<'m> Wanted<'m> {
    fn release(release: &'m ReleaseRef) -> Self {
        Wanted { kind: Kind::Release, name: Some(&release.name), artifact: &release.artifact }
    }

    fn what(&self) -> String {
        self.name.map_or_else(|| "the stemcell".to_owned(), |name| format!("release '{name}'"))
    }

    fn obtain(&self, surroundings: &Surroundings, stage: &Stage) -> Result<Obtained> {
        let Surroundings { environment, cache, fetcher, directory } = surroundings;
        let home = environment.variables.iter().find(|(name, _)| name == "HOME");
        let home = home.map(|(_, home)| Path::new(home));
        let location = Location::parse(&self.artifact.url, directory, home)?;
        for secret in location.secrets() {
            environment.redactor.add(&secret);
        }
        let expected = match &self.artifact.sha1 {
            Some(text) => Some(Digest::parse(text, &location.to_string())?),
            None => None,
        };
        let what = self.what();
        let source = fetcher.obtain(&location, expected.as_ref(), &what, stage.reporter())?;
        let identity = cache.identify(self.kind, &source, expected.as_ref(), &what, stage.reporter())?;
        match self.name {
            Some(name) if name != identity.name => Err(Error::invalid(format!(
                "`releases` calls it '{name}', but the release's own name is '{}'",
                identity.name
            ))),
            _ => Ok(Obtained { source, expected, identity }),
        }
    }
}

/// What it takes to obtain artifacts.
struct Surroundings<'e> {
    environment: &'e Environment,
    cache: &'e Cache,
    fetcher: &'e Fetcher<'e>,
    directory: &'e Path,
}

/// Brings the stemcell and the releases to this machine and says what they are.
fn obtain_all(
    environment: &Environment,
    deployment: &Deployment,
    directory: &Path,
    stage: &Stage,
) -> Result<(Obtained, Vec<Obtained>)> {
    let stemcell = Wanted { kind: Kind::Stemcell, name: None, artifact: &deployment.stemcell };
    // The stemcell first: it is the largest.
    let wanted: Vec<Wanted<'_>> =
        std::iter::once(stemcell).chain(deployment.releases.iter().map(Wanted::release)).collect();
    let mut obtained = obtain(environment, &wanted, directory, stage)?.into_iter();
    // The stemcell was the first, and nothing failed.
    let stemcell = obtained.next().ok_or_else(|| Error::environment("the stemcell was not looked at"))?;
    Ok((stemcell, obtained.collect()))
}

/// Brings artifacts to this machine, several at once; the result is in their order. After a failure no further
/// one is begun.
fn obtain(
    environment: &Environment,
    wanted: &[Wanted<'_>],
    directory: &Path,
    stage: &Stage,
) -> Result<Vec<Obtained>> {
    let cache = Cache::open(&environment.paths.cache)?;
    let asked = environment.clone();
    let fetcher = Fetcher::new(&cache, &environment.variables, Arc::new(move || signals::check(&asked)))?;
    for secret in fetcher.secrets() {
        environment.redactor.add(secret);
    }
    let surroundings = Surroundings { environment, cache: &cache, fetcher: &fetcher, directory };
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..environment.parallel.clamp(1, wanted.len().max(1)) {
            scope.spawn(|| {
                while let index = next.fetch_add(1, Ordering::SeqCst)
                    && let Some(one) = wanted.get(index)
                {
                    let result =
                        one.obtain(&surroundings, stage).context(|| format!("{} cannot be used", one.what()));
                    if result.is_err() {
                        next.store(wanted.len(), Ordering::SeqCst);
                    }
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

impl Prepared {
    pub(super) fn stemcell_identity(&self) -> &Identity {
        &self.stemcell.identity
    }

    pub(super) fn release_identities(&self) -> Vec<Identity> {
        self.releases.iter().map(|release| release.identity.clone()).collect()
    }

    /// Verifies and unpacks the artifacts, and checks the jobs of the manifest against them.
    pub(super) fn open(&self, environment: &Environment, stage: &Stage) -> Result<Opened> {
        let work = &environment.paths.work;
        let mut releases = Vec::new();
        for wanted in &self.releases {
            releases.push(open_release(environment, wanted, stage)?);
        }
        for job in &self.deployment.group.jobs {
            let release = find(&releases, &job.release)?;
            release.job(&job.name).context(|| format!("{} cannot be deployed", job.place))?;
        }
        let unpacking =
            stage.reporter().stage(format!("Unpacking stemcell '{}'", self.stemcell.identity.name));
        let directory = work.join("stemcell");
        create_directory(&directory)?;
        let stemcell =
            stemcell::open(&self.stemcell.source, self.stemcell.expected.as_ref(), &directory, &unpacking)?;
        unpacking.finish();
        Ok(Opened { stemcell, releases })
    }
}

/// The release of this name; the manifest was checked to name only known ones.
pub(super) fn find<'r>(releases: &'r [Release], name: &str) -> Result<&'r Release> {
    releases
        .iter()
        .find(|release| release.name == name)
        .ok_or_else(|| Error::invalid(format!("there is no release '{name}' in `releases`")))
}

fn create_directory(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Error::io(format!("creating '{}'", path.display()), error))
}
