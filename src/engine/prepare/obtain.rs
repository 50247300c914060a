//! Obtains the artifacts of a manifest, several at once, and identifies them.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use crate::cpi::create_private_directory;
use crate::run_context::{RunContext, signals};
use crate::state::State;
use artifact::{
    ArrivingFile, ArtifactIdentity, ArtifactKind, ArtifactUrl, Cache, Digest, Fetcher, ParseDigestError,
    ReadArriving, Release, Source, Stamp, Stemcell, release, stemcell,
};
use base::events::Stage;
use base::files::directory::parent;
use base::text::shell_word;
use base::{Error, ErrorKind, Result};
use manifest::UserlandRef;
use manifest::deployment::{ArtifactOrigin, ArtifactRef, ReleaseRef, digest_hint};

/// An artifact on this machine with its identity, and with its content if it is already unpacked.
pub(crate) struct ObtainedArtifact {
    title: ArtifactTitle,
    pub(crate) source: Source,
    /// True unless it is a file or directory of the operator.
    pub(crate) is_downloaded: bool,
    pub(crate) expected_digest: Option<Digest>,
    pub(crate) identity: ArtifactIdentity,
    /// The stemcell, if it is already unpacked.
    pub(crate) unpacked_stemcell: Option<Stemcell>,
    /// The release, if it is already unpacked.
    unpacked_release: Option<Release>,
}

/// The title of an artifact in errors.
struct ArtifactTitle {
    /// The place in the manifest as the beginning of an error, or nothing.
    place: String,
    title: String,
}

impl fmt::Display for ArtifactTitle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.title)
    }
}

/// Releases that are obtained and unpacked before the other artifacts get any bandwidth.
pub(crate) struct LeadingReleases<'a> {
    /// Returns true if the release with this name in `releases` is one of them.
    pub(crate) includes: Box<dyn Fn(&str) -> bool + 'a>,
    /// Gets them in the order of the manifest, before the other artifacts are obtained. Is not called if
    /// there are none, or if one of them failed.
    pub(crate) on_unpacked: Box<dyn Fn(Vec<Release>) + 'a>,
}

/// The method for identifying a stemcell that must be read as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdentifyBy {
    /// Only reads the stemcell, because it may be the one in use.
    Reading,
    /// Verifies and unpacks the stemcell at once, because it is needed in any case.
    Unpacking,
}

impl IdentifyBy {
    /// Selects the method for a run. A state without a stemcell needs the stemcell unpacked in any case.
    pub(crate) fn for_state(state: &State) -> Self {
        if state.stemcells.is_empty() { IdentifyBy::Unpacking } else { IdentifyBy::Reading }
    }
}

impl ObtainedArtifact {
    /// Returns the stemcell, verified and unpacked.
    pub(crate) fn open_stemcell(&self, run: &RunContext, stage: &Stage) -> Result<Stemcell> {
        let name = || format!("stemcell '{}'", self.identity.name);
        let unpack = || {
            unpack_stemcell(run, &self.source, self.expected_digest.as_ref(), &name(), stage)
                .map_err(|error| unusable_error(&self.title, error))
        };
        self.unpacked_stemcell.clone().map_or_else(unpack, Ok)
    }

    /// Returns the release, verified and unpacked.
    pub(crate) fn open_release(&self, run: &RunContext, stage: &Stage) -> Result<Release> {
        let unpack = || {
            unpack_release(run, &self.source, self.expected_digest.as_ref(), &self.identity.name, stage)
                .map_err(|error| unusable_error(&self.title, error))
        };
        self.unpacked_release.clone().map_or_else(unpack, Ok)
    }
}

/// Unpacks into a new directory with `open`, as a stage below `stage`.
pub(crate) fn unpack<T>(
    title: &str,
    directory: &Path,
    stage: &Stage,
    open: impl FnOnce(&Stage) -> Result<T>,
) -> Result<T> {
    let unpacking = stage.reporter().begin_stage(format!("Unpacking {title}"));
    create_private_directory(directory)?;
    let content = open(&unpacking)?;
    unpacking.finish();
    Ok(content)
}

/// Verifies a stemcell and unpacks it into the scratch directory.
fn unpack_stemcell(
    run: &RunContext,
    source: &Source,
    expected_digest: Option<&Digest>,
    title: &str,
    stage: &Stage,
) -> Result<Stemcell> {
    let directory = run.paths.scratch.join("stemcell");
    unpack(title, &directory, stage, |stage| stemcell::open(source, expected_digest, &directory, stage))
}

/// Unpacks a stemcell while it is downloaded. Returns `None` if that fails, because the download may fail
/// too, or replace bytes that were read.
fn unpack_arriving(
    run: &RunContext,
    arriving_file: ArrivingFile<'_>,
    url: &ArtifactUrl,
    expected_digest: Option<&Digest>,
    title: &str,
    stage: &Stage,
) -> Option<Stemcell> {
    let unpacking = stage.reporter().begin_stage(format!("Unpacking {title}"));
    let directory = run.paths.scratch.join("stemcell");
    let stemcell = create_private_directory(&directory)
        .and_then(|()| stemcell::open_stream(arriving_file, url, expected_digest, &directory, &unpacking));
    match stemcell {
        Ok(stemcell) => {
            unpacking.finish();
            Some(stemcell)
        }
        Err(error) => {
            unpacking.give_up(error.chain().join(": "));
            None
        }
    }
}

fn unpack_release(
    run: &RunContext,
    source: &Source,
    expected_digest: Option<&Digest>,
    name: &str,
    stage: &Stage,
) -> Result<Release> {
    let (title, directory) = (format!("release '{name}'"), run.paths.scratch.join("releases").join(name));
    unpack(&title, &directory, stage, |stage| release::open(source, expected_digest, &directory, stage))
}

/// The artifacts that [`obtain_all`] obtains.
pub(crate) struct ArtifactRefs<'m> {
    pub(crate) stemcell: &'m ArtifactRef,
    pub(crate) releases: &'m [ReleaseRef],
    /// Userlands that are only put into the cache.
    pub(crate) userlands: &'m [UserlandRef],
}

/// Obtains artifacts. Relative paths start at `directory`, the directory of the manifest.
pub(crate) fn obtain_all(
    run: &RunContext,
    refs: &ArtifactRefs<'_>,
    identify_by: IdentifyBy,
    leading_releases: Option<&LeadingReleases<'_>>,
    directory: &Path,
    stage: &Stage,
) -> Result<(ObtainedArtifact, Vec<ObtainedArtifact>)> {
    let stemcell = WantedArtifact {
        kind: ArtifactKind::Stemcell,
        name: None,
        artifact: refs.stemcell,
        identify_by,
        is_leading: false,
    };
    let releases = refs.releases.iter().map(|release| WantedArtifact {
        is_leading: leading_releases.is_some_and(|leading| (leading.includes)(&release.name)),
        ..WantedArtifact::release(release)
    });
    // The stemcell comes first, because it is the largest artifact.
    let artifacts: Vec<WantedArtifact<'_>> = std::iter::once(stemcell).chain(releases).collect();
    let on_leading_releases = leading_releases.map(|leading| leading.on_unpacked.as_ref());
    let mut obtained_artifacts =
        obtain(run, &artifacts, refs.userlands, on_leading_releases, directory, stage)?.into_iter();
    // `obtain` returns one result per wanted artifact.
    let stemcell =
        obtained_artifacts.next().ok_or_else(|| Error::failure("the stemcell was not obtained"))?;
    Ok((stemcell, obtained_artifacts.collect()))
}

/// Obtains only the stemcell. Relative paths start at `directory`, the directory of the manifest.
pub(crate) fn obtain_stemcell(
    run: &RunContext,
    stemcell: &ArtifactRef,
    identify_by: IdentifyBy,
    directory: &Path,
    stage: &Stage,
) -> Result<ObtainedArtifact> {
    let refs = ArtifactRefs { stemcell, releases: &[], userlands: &[] };
    Ok(obtain_all(run, &refs, identify_by, None, directory, stage)?.0)
}

/// Obtains releases, in their order. Relative paths start at `directory`, the directory of the manifest.
pub(crate) fn obtain_releases(
    run: &RunContext,
    releases: &[ReleaseRef],
    directory: &Path,
    stage: &Stage,
) -> Result<Vec<ObtainedArtifact>> {
    let artifacts: Vec<WantedArtifact<'_>> = releases.iter().map(WantedArtifact::release).collect();
    obtain(run, &artifacts, &[], None, directory, stage)
}

/// The file of `docker login` in the home directory of the operator.
const DOCKER_CONFIG: &str = ".docker/config.json";

/// Returns the URL or path of a userland, and its digest in the manifest, which is in `directory`.
pub(crate) fn locate_userland(
    run: &RunContext,
    userland_ref: &UserlandRef,
    directory: &Path,
) -> Result<(ArtifactUrl, Option<Digest>)> {
    // A path of the command line is absolute.
    let directory = userland_ref.file.as_deref().map_or(directory, parent);
    let directory = fs::canonicalize(directory)
        .map_err(|error| Error::io(format!("reading '{}'", directory.display()), error))?;
    let home = home(run);
    let url = match (ArtifactUrl::parse_userland(&userland_ref.url, &directory, home)?, home) {
        (ArtifactUrl::Image(image), Some(home)) => {
            ArtifactUrl::Image(image.with_login(&home.join(DOCKER_CONFIG))?)
        }
        (url, _) => url,
    };
    url.secrets().iter().for_each(|secret| run.redactor.add(secret));
    let sha1 = userland_ref.sha1.as_deref().map(|text| Digest::parse(text, &url.to_string())).transpose()?;
    let expected_digest = match (&url, sha1) {
        (ArtifactUrl::Image(image), None) => image.digest().cloned(),
        (_, sha1) => sha1,
    };
    Ok((url, expected_digest))
}

/// Returns the home directory of the operator.
pub(crate) fn home(run: &RunContext) -> Option<&Path> {
    let variable = run.env_vars.iter().find(|(name, _)| name == "HOME");
    variable.map(|(_, home)| Path::new(home))
}

/// An artifact of the manifest that may not be on this machine yet.
struct WantedArtifact<'m> {
    kind: ArtifactKind,
    /// Its name in `releases`; `None` for a stemcell.
    name: Option<&'m str>,
    artifact: &'m ArtifactRef,
    identify_by: IdentifyBy,
    /// True for one of [`LeadingReleases`].
    is_leading: bool,
}

/// The context in which artifacts are obtained.
struct ObtainContext<'e> {
    run: &'e RunContext,
    cache: &'e Cache,
    fetcher: &'e Fetcher<'e>,
    directory: &'e Path,
    stage: &'e Stage,
}

impl<'m> WantedArtifact<'m> {
    fn release(release: &'m ReleaseRef) -> Self {
        WantedArtifact {
            kind: ArtifactKind::Release,
            name: Some(&release.name),
            artifact: &release.artifact,
            identify_by: IdentifyBy::Reading,
            is_leading: false,
        }
    }

    fn title(&self) -> String {
        self.name.map_or_else(|| "the stemcell".to_owned(), |name| format!("release '{name}'"))
    }

    /// Returns [`Self::title`] with the place of the artifact in the manifest.
    fn title_with_place(&self) -> ArtifactTitle {
        ArtifactTitle { place: self.artifact.origin.prefix(), title: self.title() }
    }

    /// Like [`Self::title_with_place`], with the place that an error is about.
    fn title_for_error(&self, error: &Error) -> ArtifactTitle {
        match &self.artifact.origin {
            ArtifactOrigin::Manifest { sha1: Some(sha1), .. } if error.has_cause::<ParseDigestError>() => {
                ArtifactTitle { place: format!("{sha1}: "), title: self.title() }
            }
            _ => self.title_with_place(),
        }
    }

    fn expected_digest(&self, url: &ArtifactUrl) -> Result<Option<Digest>> {
        let Some(text) = &self.artifact.sha1 else { return Ok(None) };
        let digest = text.parse().map_err(|problem: ParseDigestError| {
            let error = Error::invalid(format!("the sha1 of '{url}' is not valid")).with_source(problem);
            let (program, digest) = match text.split_once(':') {
                Some(("sha256", _)) => ("sha256sum", "the part after sha256:"),
                Some(("sha512", _)) => ("sha512sum", "the part after sha512:"),
                _ => ("sha1sum", "it"),
            };
            match url {
                ArtifactUrl::Local(path) if path.is_dir() => {
                    error.with_hint("remove it: a directory needs no `sha1`")
                }
                ArtifactUrl::Local(path) if path.is_file() => error.with_hint(format!(
                    "compute {digest}: `{program} {}`",
                    shell_word(&path.to_string_lossy())
                )),
                ArtifactUrl::Http(_) => {
                    error.with_hint(digest_hint(digest, program, &shell_word(&url.to_string())))
                }
                _ => error,
            }
        })?;
        Ok(Some(digest))
    }

    /// Gets the artifact into the cache and identifies it. A stemcell that is downloaded, or takes long to
    /// read, is unpacked meanwhile, because that identifies it as well. A leading release is unpacked, too.
    /// Fails if a release has another name than in the manifest.
    fn obtain(&self, context: &ObtainContext<'_>) -> Result<ObtainedArtifact> {
        let ObtainContext { run, cache, fetcher, directory, stage } = context;
        let url = ArtifactUrl::parse(&self.artifact.url, directory, home(run))?;
        for secret in url.secrets() {
            run.redactor.add(&secret);
        }
        let expected_digest = self.expected_digest(&url)?;
        let title = self.title();
        let needs_unpacking = self.identify_by == IdentifyBy::Unpacking;
        let early_stemcell = Mutex::new(None);
        let unpack_early = |arriving_file: ArrivingFile<'_>| {
            *early_stemcell.lock() =
                unpack_arriving(run, arriving_file, &url, expected_digest.as_ref(), &title, stage);
        };
        let on_arrival = needs_unpacking.then_some(&unpack_early as ReadArriving<'_>);
        let source =
            fetcher.obtain_and_read(&url, expected_digest.as_ref(), &title, stage.reporter(), on_arrival)?;
        let unpacked_stemcell = match early_stemcell.into_inner() {
            Some(stemcell) => Some(Stemcell { stamp: Stamp::of(&source.path).ok(), ..stemcell }),
            None if needs_unpacking && cache.takes_long(&source, expected_digest.as_ref()) => {
                let start = SystemTime::now();
                let stemcell = unpack_stemcell(run, &source, expected_digest.as_ref(), &title, stage)?;
                cache.store_stemcell_identity(&stemcell, start);
                Some(stemcell)
            }
            None => None,
        };
        let identify =
            || cache.identify(self.kind, &source, expected_digest.as_ref(), &title, stage.reporter());
        let identity = unpacked_stemcell.as_ref().map(Stemcell::identity).map_or_else(identify, Ok)?;
        match self.name {
            Some(name) if name != identity.name => Err(Error::invalid(format!(
                "the manifest calls it '{name}' in `releases`, but the release's own name is '{}'",
                identity.name
            ))
            .with_hint(format!("set its `name` in `releases` to '{}'", identity.name))),
            _ => {
                let unpack = || unpack_release(run, &source, expected_digest.as_ref(), &identity.name, stage);
                let unpacked_release = self.is_leading.then(unpack).transpose()?;
                let is_downloaded = !matches!(url, ArtifactUrl::Local(_));
                Ok(ObtainedArtifact {
                    title: self.title_with_place(),
                    source,
                    is_downloaded,
                    expected_digest,
                    identity,
                    unpacked_stemcell,
                    unpacked_release,
                })
            }
        }
    }
}

/// The cause of the failure of an artifact that was stopped because another one had failed.
#[derive(Debug, thiserror::Error)]
#[error("another artifact cannot be used")]
struct StoppedArtifact;

/// The time after a failure in which the other artifacts may fail as well, before they are stopped.
const OTHER_FAILURES_TIMEOUT: Duration = Duration::from_secs(3);

/// Obtains artifacts in parallel and returns them in the order of `artifacts`. The leading releases come
/// first, and are passed to `on_leading_releases`. A failure soon stops the other downloads, whose parts
/// stay for the next run. The error reports all failures up to then.
fn obtain(
    run: &RunContext,
    artifacts: &[WantedArtifact<'_>],
    userlands: &[UserlandRef],
    on_leading_releases: Option<&dyn Fn(Vec<Release>)>,
    directory: &Path,
    stage: &Stage,
) -> Result<Vec<ObtainedArtifact>> {
    let cache = Cache::open(&run.paths.cache_directory)?;
    let first_failure_time = Arc::new(OnceLock::<Instant>::new());
    let is_over = |first_failure_time: &OnceLock<Instant>| {
        first_failure_time.get().is_some_and(|failure_time| failure_time.elapsed() > OTHER_FAILURES_TIMEOUT)
    };
    let (run_for_signal, failure) = (run.clone(), Arc::clone(&first_failure_time));
    let interrupt_check = move || match is_over(&failure) {
        true => signals::check_may_continue(&run_for_signal)
            .and(Err(Error::failure("stopped").with_source(StoppedArtifact))),
        false => signals::check_may_continue(&run_for_signal),
    };
    let fetcher = run.create_fetcher(&cache, Arc::new(interrupt_check))?;
    let context = ObtainContext { run, cache: &cache, fetcher: &fetcher, directory, stage };
    let results = Mutex::new(Vec::with_capacity(artifacts.len()));
    let obtain_each = |indices: &[usize]| {
        let next_index = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..run.parallel.min(indices.len()).max(1) {
                scope.spawn(|| {
                    while !is_over(&first_failure_time)
                        && let Some(index) = indices.get(next_index.fetch_add(1, Ordering::SeqCst))
                        && let Some(artifact) = artifacts.get(*index)
                    {
                        let result = artifact.obtain(&context);
                        if result.is_err() {
                            first_failure_time.get_or_init(Instant::now);
                        }
                        results.lock().push((*index, result));
                    }
                });
            }
        });
        results.lock().sort_by_key(|(index, _)| *index);
    };
    let (leading_indices, other_indices): (Vec<usize>, Vec<usize>) =
        (0..artifacts.len()).partition(|index| artifacts[*index].is_leading);
    if !leading_indices.is_empty() {
        obtain_each(&leading_indices);
        if let Some(on_leading_releases) = on_leading_releases.filter(|_| first_failure_time.get().is_none())
        {
            let unpacked_release = |(_, result): &(usize, Result<ObtainedArtifact>)| {
                result.as_ref().ok().and_then(|artifact| artifact.unpacked_release.clone())
            };
            let releases = results.lock().iter().filter_map(unpacked_release).collect();
            on_leading_releases(releases);
        }
    }
    obtain_each(&other_indices);
    let results = results.into_inner();
    let (mut obtained_artifacts, mut failures) = (Vec::new(), Vec::new());
    for (index, result) in results {
        match result {
            Ok(artifact) => obtained_artifacts.push(artifact),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted(_)) => return Err(error),
            Err(error) if error.has_cause::<StoppedArtifact>() => {}
            Err(error) => failures.push((artifacts[index].title_for_error(&error), error)),
        }
    }
    for userland_ref in userlands {
        let location = locate_userland(run, userland_ref, directory);
        let obtained_userland = location.and_then(|(url, expected)| {
            fetcher.obtain(&url, expected.as_ref(), "the userland", stage.reporter())
        });
        if let Err(error) = obtained_userland {
            failures.push((ArtifactTitle { place: String::new(), title: userland_ref.title() }, error));
        }
    }
    combine_failures(failures).map_or(Ok(obtained_artifacts), Err)
}

/// Adds the place and the title of an artifact to its error. An interruption is not its fault.
fn unusable_error(title: &ArtifactTitle, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Interrupted(_) => error,
        _ => {
            let text = error.to_string();
            // Some errors begin with the artifact themselves.
            let names_artifact =
                ["the stemcell '", "the release '"].iter().any(|name| text.starts_with(name));
            let message = match names_artifact && !title.place.is_empty() {
                true => format!("{}{text}", title.place),
                false => format!("{title} cannot be used: {text}"),
            };
            error.context(message)
        }
    }
}

/// Combines the failures of artifacts into one error.
fn combine_failures(mut failures: Vec<(ArtifactTitle, Error)>) -> Option<Error> {
    /// The maximum number of failures that the error describes.
    const MAX_SHOWN_FAILURES: usize = 10;
    let count = failures.len();
    if count < 2 {
        return failures.pop().map(|(title, error)| unusable_error(&title, error));
    }
    // Invalid input fails again, even if the other artifacts can be used then.
    let is_invalid = failures.iter().any(|(_, error)| error.kind() == ErrorKind::InvalidInput);
    let kind = if is_invalid { ErrorKind::InvalidInput } else { failures[0].1.kind() };
    let shown_failures = failures.iter().take(MAX_SHOWN_FAILURES);
    let mut lines: Vec<String> = shown_failures
        .clone()
        .map(|(title, error)| format!("{title}: {}", error.chain().join(": ")))
        .collect();
    lines.extend((count > MAX_SHOWN_FAILURES).then(|| format!("and {} more", count - MAX_SHOWN_FAILURES)));
    let combined_error =
        Error::new(kind, format!("{count} artifacts cannot be used:\n  {}", lines.join("\n  ")));
    Some(
        shown_failures
            .fold(combined_error, |combined_error, (_, error)| combined_error.with_advice_of(error)),
    )
}
