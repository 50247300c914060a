//! The userland of a CPI: chosen, obtained, verified and entered once, before its packages are compiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ResolvedCpis;
use crate::cpi::create_private_directory;
use crate::cpi::userland::Userland;
use crate::run_context::interrupt_check;
use artifact::{ArtifactUrl, Cache, Digest};
use base::error::ResultExt;
use base::events::Stage;
use base::files::directory::parent;
use base::{Error, Result};
use manifest::UserlandRef;

impl ResolvedCpis<'_> {
    /// Returns the userland that a CPI gets: that of `--cpi-userland`, or the `declared` one. Returns `None`
    /// for this machine.
    pub(super) fn wanted_userland(&self, declared: Option<&UserlandRef>) -> Option<UserlandRef> {
        match &self.run.cpi_userland {
            Some(url) => UserlandRef::named(url),
            None => declared.cloned(),
        }
    }

    /// Checks a userland as far as possible without downloading or unpacking it.
    pub(super) fn check_userland(&self, declared: Option<&UserlandRef>) -> Result<()> {
        let Some(userland_ref) = self.wanted_userland(declared) else { return Ok(()) };
        let located = self.locate(&userland_ref)?;
        match &located.url {
            ArtifactUrl::Local(path) => artifact::Source::local(path).map(drop),
            ArtifactUrl::Http(_) => Ok(()),
        }
        .context(|| cannot_be_used(&userland_ref))
    }

    /// Opens a userland, once in a run.
    pub(super) fn open_userland(
        &self,
        declared: Option<&UserlandRef>,
        stage: &Stage,
    ) -> Result<Option<Arc<Userland>>> {
        let Some(userland_ref) = self.wanted_userland(declared) else { return Ok(None) };
        let mut opened = self.userlands.borrow_mut();
        if let Some((_, earlier)) = opened.iter().find(|(opened_ref, _)| *opened_ref == userland_ref) {
            return Ok(Some(Arc::clone(earlier)));
        }
        let new =
            Arc::new(self.obtain_userland(&userland_ref, stage).context(|| cannot_be_used(&userland_ref))?);
        let scratch = self.run.paths.scratch.join("userland-check");
        create_private_directory(&scratch)?;
        new.check(&scratch)?;
        opened.push((userland_ref, Arc::clone(&new)));
        Ok(Some(new))
    }

    fn obtain_userland(&self, userland_ref: &UserlandRef, stage: &Stage) -> Result<Userland> {
        let run = self.run;
        let Located { url, expected, files } = self.locate(userland_ref)?;
        url.secrets().iter().for_each(|secret| run.redactor.add(secret));
        let cache = Cache::open(&run.paths.cache)?;
        let interrupt_check = interrupt_check(&run.signals);
        let fetcher = run.fetcher(&cache, Arc::clone(&interrupt_check))?;
        let source = fetcher.obtain(&url, expected.as_ref(), "the userland", stage.reporter())?;
        let content = artifact::userland::open(&cache, &source, expected.as_ref(), &interrupt_check, stage)?;
        Ok(Userland { content, name: url.to_string(), executable: run.paths.executable.clone(), files })
    }

    fn locate(&self, userland_ref: &UserlandRef) -> Result<Located> {
        let home = self.run.env_vars.iter().find(|(name, _)| name == "HOME");
        let home = home.map(|(_, home)| Path::new(home));
        // A path of the command line is absolute.
        let directory = parent(userland_ref.file.as_deref().unwrap_or(self.inputs.manifest));
        let directory = fs::canonicalize(directory)
            .map_err(|error| Error::io(format!("reading '{}'", directory.display()), error))?;
        let url = ArtifactUrl::parse(&userland_ref.url, &directory, home)?;
        let expected =
            userland_ref.sha1.as_deref().map(|text| Digest::parse(text, &url.to_string())).transpose()?;
        let mut files = Vec::new();
        for path in &userland_ref.files {
            let path = match (path.strip_prefix("~/"), home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => PathBuf::from(path),
            };
            fs::metadata(&path).map_err(|error| {
                Error::invalid(format!("'{}' of `userland.files` cannot be used", path.display()))
                    .with_source(error)
                    .with_hint("create it, or remove it from `files`")
            })?;
            files.push(path);
        }
        Ok(Located { url, expected, files })
    }
}

/// A userland with resolved paths.
struct Located {
    url: ArtifactUrl,
    expected: Option<Digest>,
    files: Vec<PathBuf>,
}

fn cannot_be_used(userland_ref: &UserlandRef) -> String {
    let place = userland_ref.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
    match userland_ref.url.contains("://") {
        // A URL may have credentials.
        true => format!("{place}the userland cannot be used"),
        false => format!("{place}the userland '{}' cannot be used", userland_ref.url),
    }
}
