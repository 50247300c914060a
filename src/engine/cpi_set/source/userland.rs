//! The userland of a CPI: chosen, obtained, verified and entered once, before its packages are compiled.

use std::fs;
use std::iter;
use std::path::PathBuf;
use std::sync::Arc;

use super::{ResolvedCpis, jobs};
use crate::cpi::create_private_directory;
use crate::cpi::install::UserlandPackages;
use crate::cpi::userland::Userland;
use crate::prepare::obtain;
use crate::run_context::interrupt_check;
use artifact::{Algorithm, ArtifactUrl, Cache, Digest, Source, Stemcell};
use base::events::Stage;
use base::files::directory::parent;
use base::subordinate_ids::SubordinateIds;
use base::{Error, Result};
use manifest::UserlandRef;
use manifest::deployment::{ArtifactRef, CpiSource};

impl ResolvedCpis<'_> {
    /// Downloads a userland that is not on this machine. Returns its files, each with its digest. The first
    /// one has the digest of the manifest, which it needs.
    pub(crate) fn download_userland(
        &self,
        userland_ref: &UserlandRef,
        stage: &Stage,
    ) -> Result<Vec<(Digest, PathBuf)>> {
        let LocatedUserland { url, expected_digest, .. } = self.locate(userland_ref)?;
        if matches!(url, ArtifactUrl::Local(_)) {
            return Ok(Vec::new());
        }
        let expected_digest = expected_digest.ok_or_else(|| {
            Error::invalid(format!(
                "the userland '{url}' needs a digest: a cache finds it only by its digest"
            ))
            .with_hint(match &url {
                ArtifactUrl::Image(_) => "add the digest of the image: oci://HOST/NAME@sha256:DIGEST",
                _ => "add the `sha1` to `userland`, such as `sha256:` and the output of `sha256sum FILE`",
            })
        })?;
        let source = self
            .download(&url, Some(&expected_digest), stage)
            .map_err(|error| explain(userland_ref, error))?;
        let blobs = source.image.into_iter().flatten().map(|blob| (blob.digest, blob.path));
        Ok(iter::once((expected_digest, source.path)).chain(blobs).collect())
    }

    /// Plans the packages that a CPI will have from its installation in the stemcell of the VM. Returns
    /// `None` if its userland is not this stemcell, as far as that is known without downloading it.
    pub(crate) fn plan_packages_in_stemcell(
        &self,
        name: Option<&str>,
        stemcell_ref: &ArtifactRef,
        stemcell: &Stemcell,
    ) -> Result<Option<UserlandPackages>> {
        let Some(userland_ref) = self.userland_of(name)? else { return Ok(None) };
        // Only packages in the cache can be shared, and only those that were compiled without a network.
        if self.run.paths.package_directory.is_some()
            || userland_ref.compiles_with_network
            || !self.is_stemcell(&userland_ref, stemcell_ref, stemcell)?
        {
            return Ok(None);
        }
        let named_jobs = match (name, &self.inputs.provider.cpi) {
            (Some(name), _) => self.entry(name)?.0.jobs(&self.inputs)?,
            (None, CpiSource::Jobs(named_jobs)) => Some(jobs::jobs_of_default_cpi(named_jobs, &self.inputs)?),
            (None, CpiSource::Builtin(_) | CpiSource::Path { .. } | CpiSource::None) => None,
        };
        named_jobs.map(|named_jobs| jobs::plan_packages(self, &named_jobs, stemcell)).transpose()
    }

    /// Returns true if a userland is the file of this stemcell. `stemcell_ref` is the stemcell in the
    /// manifest.
    fn is_stemcell(
        &self,
        userland_ref: &UserlandRef,
        stemcell_ref: &ArtifactRef,
        stemcell: &Stemcell,
    ) -> Result<bool> {
        let LocatedUserland { url, expected_digest, .. } = self.locate(userland_ref)?;
        let userland_digest = match &url {
            ArtifactUrl::Local(path) if path.is_dir() => return Ok(false),
            ArtifactUrl::Local(path) => {
                let cache = Cache::open(&self.run.paths.cache_directory)?;
                Some(cache.obtain_digest(path, &[Algorithm::Sha256], &mut |_, _| {})?)
            }
            ArtifactUrl::Http(_) | ArtifactUrl::Image(_) if userland_ref.url == stemcell_ref.url => {
                return Ok(true);
            }
            ArtifactUrl::Http(_) | ArtifactUrl::Image(_) => expected_digest,
        };
        let has_same_digest = |digest: &Digest| {
            let part = digest.part_for(digest.strongest());
            part.is_some() && part == stemcell.digest.part_for(digest.strongest())
        };
        Ok(userland_digest.as_ref().is_some_and(has_same_digest))
    }

    /// Checks a userland as far as possible without downloading or unpacking it.
    pub(super) fn check_userland(&self, declared_ref: Option<&UserlandRef>) -> Result<()> {
        let Some(userland_ref) = self.run.userland(declared_ref) else { return Ok(()) };
        let located_userland = self.locate(&userland_ref)?;
        match &located_userland.url {
            ArtifactUrl::Local(path) => Source::local(path).map(drop),
            ArtifactUrl::Http(_) | ArtifactUrl::Image(_) => Ok(()),
        }
        .map_err(|error| explain(&userland_ref, error))
    }

    /// Opens a userland, once in a run.
    pub(super) fn open_userland(
        &self,
        declared_ref: Option<&UserlandRef>,
        stage: &Stage,
    ) -> Result<Option<Arc<Userland>>> {
        let Some(userland_ref) = self.run.userland(declared_ref) else { return Ok(None) };
        let mut userlands = self.userlands.borrow_mut();
        if let Some((_, open_userland)) = userlands.iter().find(|(opened_ref, _)| *opened_ref == userland_ref)
        {
            return Ok(Some(Arc::clone(open_userland)));
        }
        let mut userland =
            self.obtain_userland(&userland_ref, stage).map_err(|error| explain(&userland_ref, error))?;
        let scratch = self.run.paths.scratch.join("userland-check");
        create_private_directory(&scratch)?;
        userland.check(&scratch)?;
        let open_userland = Arc::new(userland);
        userlands.push((userland_ref, Arc::clone(&open_userland)));
        Ok(Some(open_userland))
    }

    fn obtain_userland(&self, userland_ref: &UserlandRef, stage: &Stage) -> Result<Userland> {
        let run = self.run;
        let LocatedUserland { url, expected_digest, files } = self.locate(userland_ref)?;
        let source = self.download(&url, expected_digest.as_ref(), stage)?;
        let cache = Cache::open(&run.paths.cache_directory)?;
        let interrupt_check = interrupt_check(&run.signals);
        let content =
            artifact::userland::open(&cache, &source, expected_digest.as_ref(), &interrupt_check, stage)?;
        Ok(Userland {
            content,
            name: url.to_string(),
            executable: run.paths.executable.clone(),
            files,
            compiles_with_network: userland_ref.compiles_with_network,
            subordinate_ids: SubordinateIds::find(),
        })
    }

    /// Returns the file or directory of a userland on this machine.
    fn download(&self, url: &ArtifactUrl, expected_digest: Option<&Digest>, stage: &Stage) -> Result<Source> {
        let run = self.run;
        let cache = Cache::open(&run.paths.cache_directory)?;
        let fetcher = run.create_fetcher(&cache, interrupt_check(&run.signals))?;
        fetcher.obtain(url, expected_digest, "the userland", stage.reporter())
    }

    fn locate(&self, userland_ref: &UserlandRef) -> Result<LocatedUserland> {
        let (url, expected_digest) =
            obtain::locate_userland(self.run, userland_ref, parent(self.inputs.manifest))?;
        let home = obtain::home(self.run);
        let mut files = Vec::new();
        for path in &userland_ref.files {
            let path = match (path.strip_prefix("~/"), home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => PathBuf::from(path),
            };
            fs::metadata(&path).map_err(|error| {
                let files_error = |problem: &str| {
                    Error::invalid(format!("'{}' of `userland.files` {problem}", path.display()))
                        .with_hint("create it, or remove it from `files`")
                };
                match error.kind() {
                    std::io::ErrorKind::NotFound => files_error("does not exist"),
                    _ => files_error("cannot be used").with_source(error),
                }
            })?;
            files.push(path);
        }
        Ok(LocatedUserland { url, expected_digest, files })
    }
}

/// A userland with resolved paths.
struct LocatedUserland {
    url: ArtifactUrl,
    expected_digest: Option<Digest>,
    files: Vec<PathBuf>,
}

/// Adds the userland to an error, unless the error names it. Its place in the manifest is added in any case.
fn explain(userland_ref: &UserlandRef, error: Error) -> Error {
    let text = error.to_string();
    let path = userland_ref.url.trim_start_matches("./");
    if !userland_ref.url.contains("://") && text.contains(path) {
        return match &userland_ref.place {
            Some(place) => error.context(format!("{place}: {text}")),
            None => error,
        };
    }
    let title = userland_ref.title();
    error.context(match userland_ref.url.contains("://") {
        // A URL may have credentials.
        true => format!("{title} cannot be used"),
        false => format!("{title} '{}' cannot be used", userland_ref.url),
    })
}
