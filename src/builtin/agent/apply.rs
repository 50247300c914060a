//! `apply` and `prepare`: installs the jobs and packages of a spec, without starting them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use walkdir::WalkDir;

use super::blobs::scratch;
use super::dirs::{self, Dirs};
use super::spec::{Spec, Template};
use super::{Agent, archive, packages};
use base::error::ResultExt;
use base::{Error, Result};

impl Agent {
    /// Installs jobs and packages, makes them current, and stores the spec.
    pub(super) fn apply(&self, mut spec: Spec) -> Result<Value> {
        spec.check()?;
        spec.resolve_networks(&self.settings()?, &self.endpoint)
            .context(|| "Resolving dynamic networks".to_owned())?;
        if !spec.configuration_hash.is_empty() {
            self.install(&spec).context(|| "Applying".to_owned())?;
        }
        self.spec.set(spec.clone()).context(|| "Persisting apply spec".to_owned())?;
        self.write_instance(&spec)?;
        Ok(json!("applied"))
    }

    /// Installs jobs and packages in addition to the current ones.
    pub(super) fn prepare(&self, spec: &Spec) -> Result<Value> {
        spec.check()?;
        self.unpack_jobs(spec)?;
        for package in spec.packages.values() {
            packages::install(&self.dirs, &self.blobs, package)
                .context(|| format!("Preparing package {}", package.name))?;
        }
        Ok(json!("prepared"))
    }

    fn install(&self, spec: &Spec) -> Result<()> {
        self.supervisor.remove_all_jobs().context(|| "Removing all jobs".to_owned())?;
        self.unpack_jobs(spec)?;
        for job in spec.jobs() {
            self.enable_job(spec, job).context(|| format!("Applying job {}", job.name))?;
        }
        keep_only_jobs(&self.dirs, spec)?;
        for package in spec.packages.values() {
            packages::install(&self.dirs, &self.blobs, package)
                .and_then(|dir| dirs::replace_link(&dir, &self.dirs.packages().join(&package.name)))
                .context(|| format!("Applying package {}", package.name))?;
        }
        packages::keep_only(&self.dirs, &spec.packages.values().collect::<Vec<_>>())?;
        // Rendered templates contain secrets, so the jobs keep the only copy.
        if let Some(archive) = &spec.rendered_templates_archive {
            self.blobs.delete(&archive.blobstore_id)?;
        }
        Ok(())
    }

    /// Unpacks the rendered templates of all jobs that are not installed.
    fn unpack_jobs(&self, spec: &Spec) -> Result<()> {
        let dir_of = |job: &Template| self.dirs.data_jobs().join(&job.name).join(spec.job_bundle(job));
        let missing: Vec<_> = spec.jobs().iter().filter(|job| !dir_of(job).is_dir()).collect();
        let (Some(archive), false) = (&spec.rendered_templates_archive, missing.is_empty()) else {
            return Ok(());
        };
        let file = self
            .blobs
            .open(&archive.blobstore_id, archive.sha1.as_deref().unwrap_or_default())
            .context(|| "Getting job source from blobstore".to_owned())?;
        let all = scratch(&self.dirs.data_jobs())?;
        let unpacked = all.path().join("jobs");
        archive::unpack(file, "the rendered templates archive", &unpacked)?;
        for job in missing {
            let source = unpacked.join(&job.name);
            let target = dir_of(job);
            if !fs::symlink_metadata(&source).is_ok_and(|meta| meta.is_dir()) {
                return Err(Error::invalid(format!(
                    "Installing job bundle: the rendered templates archive has no directory '{}'",
                    job.name
                )));
            }
            fix_permissions(&self.dirs, &source)?;
            let parent = self.dirs.data_jobs().join(&job.name);
            dirs::make_dir(&parent, 0o755)?;
            fs::rename(&source, &target)
                .map_err(|e| Error::io(format!("moving job '{}' to its place", job.name), e))?;
        }
        Ok(())
    }

    fn enable_job(&self, spec: &Spec, job: &Template) -> Result<()> {
        for dir in self.dirs.of_job(&job.name) {
            if !dir.exists() {
                dirs::make_dir(&dir, 0o770)?;
                self.dirs.give_to_vcap(&dir);
            }
        }
        let dir = self.dirs.data_jobs().join(&job.name).join(spec.job_bundle(job));
        dirs::replace_link(&dir, &self.dirs.jobs().join(&job.name))?;
        // Each job has links to the packages in its own directory as well.
        let own = dir.join("packages");
        dirs::make_dir(&own, 0o750)?;
        self.dirs.give_to_vcap(&own);
        for package in spec.packages.values() {
            let target = self.dirs.data_packages().join(&package.name).join(package.bundle());
            dirs::replace_link(&target, &own.join(&package.name))?;
        }
        for entry in packages::list(&own) {
            if !spec.packages.values().any(|package| entry.file_name() == package.name.as_str()) {
                fs::remove_file(entry.path())
                    .map_err(|e| Error::io(format!("removing '{}'", entry.path().display()), e))?;
            }
        }
        Ok(())
    }

    fn write_instance(&self, spec: &Spec) -> Result<()> {
        let dir = self.dirs.instance();
        dirs::make_dir(&dir, 0o755)?;
        for (name, value) in
            [("id", &spec.id), ("az", &spec.az), ("name", &spec.name), ("deployment", &spec.deployment)]
        {
            dirs::write_atomically(&dir.join(name), value.as_bytes(), 0o644)?;
        }
        Ok(())
    }

    /// Configures the supervisor with the monit files of the current jobs.
    pub(super) fn configure_jobs(&self) -> Result<()> {
        let spec = self.spec.get();
        let mut files = Vec::new();
        for job in spec.jobs() {
            let dir = self.dirs.data_jobs().join(&job.name).join(spec.job_bundle(job));
            let mut of_job: Vec<_> = packages::list(&dir)
                .into_iter()
                .filter(|entry| {
                    let name = entry.file_name();
                    name == "monit" || Path::new(&name).extension().is_some_and(|ext| ext == "monit")
                })
                .map(|entry| entry.path())
                .collect();
            of_job.sort();
            for path in of_job {
                let label = match path.file_stem().and_then(|stem| stem.to_str()) {
                    Some("monit") | None => job.name.clone(),
                    Some(stem) => format!("{}_{stem}", job.name),
                };
                files.push((label, path));
            }
        }
        self.supervisor.configure(&files).context(|| "Configuring jobs".to_owned())
    }
}

/// Removes links and builds of jobs that are not in the spec.
fn keep_only_jobs(dirs: &Dirs, spec: &Spec) -> Result<()> {
    for entry in packages::list(&dirs.jobs()) {
        if !spec.jobs().iter().any(|job| entry.file_name() == job.name.as_str()) {
            fs::remove_file(entry.path())
                .map_err(|e| Error::io(format!("removing '{}'", entry.path().display()), e))?;
        }
    }
    for job in packages::list(&dirs.data_jobs()) {
        for build in packages::list(&job.path()) {
            let wanted = spec.jobs().iter().any(|kept| {
                job.file_name() == kept.name.as_str() && build.file_name() == spec.job_bundle(kept).as_str()
            });
            if !wanted {
                dirs::remove_tree(&build.path())?;
            }
        }
        // Fails if the directory is not empty, which is fine.
        let _ = fs::remove_dir(job.path());
    }
    Ok(())
}

/// Sets mode 0750 for directories and files in `bin`, 0640 for all other files, and the group `vcap`.
fn fix_permissions(dirs: &Dirs, job: &Path) -> Result<()> {
    let bin = job.join("bin");
    for entry in WalkDir::new(job) {
        let entry = entry.map_err(|e| Error::environment("Correcting file permissions").with_source(e))?;
        dirs.give_to_vcap(entry.path());
        if entry.file_type().is_symlink() {
            continue;
        }
        let executable = entry.file_type().is_dir() || entry.path().starts_with(&bin);
        dirs::set_mode(entry.path(), if executable { 0o750 } else { 0o640 })?;
    }
    Ok(())
}
