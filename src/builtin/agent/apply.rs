//! `apply` and `prepare`: installs the jobs and packages of a spec, without starting them.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use walkdir::WalkDir;

use super::blobs::create_scratch;
use super::directories::{self, Directories};
use super::spec::{Job, Spec};
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
        self.platform.sync();
        Ok(json!("applied"))
    }

    /// Installs jobs and packages in addition to the current ones.
    pub(super) fn prepare(&self, spec: &Spec) -> Result<Value> {
        spec.check()?;
        self.unpack_jobs(spec)?;
        for package in spec.packages.values() {
            packages::install(&self.directories, &self.blobs, package)
                .context(|| format!("Preparing package {}", package.name))?;
        }
        Ok(json!("prepared"))
    }

    fn install(&self, spec: &Spec) -> Result<()> {
        self.supervisor.remove_all_jobs().context(|| "Removing all jobs".to_owned())?;
        self.unpack_jobs(spec)?;
        let links_directory = packages::link_all(&self.directories, &spec.packages)
            .context(|| "Linking the packages of the jobs".to_owned())?;
        for job in spec.jobs() {
            self.enable_job(spec, job, &links_directory).context(|| format!("Applying job {}", job.name))?;
        }
        keep_only_jobs(&self.directories, spec)?;
        for package in spec.packages.values() {
            packages::install(&self.directories, &self.blobs, package)
                .and_then(|directory| {
                    directories::replace_link(&directory, &self.directories.packages().join(&package.name))
                })
                .context(|| format!("Applying package {}", package.name))?;
        }
        packages::keep_only(&self.directories, &spec.packages)?;
        // Rendered templates contain secrets, so the jobs keep the only copy.
        if let Some(archive) = &spec.rendered_templates_archive {
            self.blobs.delete(&archive.blobstore_id)?;
        }
        Ok(())
    }

    /// Unpacks the rendered templates of all jobs that are not installed.
    fn unpack_jobs(&self, spec: &Spec) -> Result<()> {
        let missing_jobs: Vec<_> =
            spec.jobs().iter().filter(|job| !job_directory(&self.directories, spec, job).is_dir()).collect();
        let (Some(archive), false) = (&spec.rendered_templates_archive, missing_jobs.is_empty()) else {
            return Ok(());
        };
        let file = self
            .blobs
            .open(&archive.blobstore_id, archive.sha1.as_deref().unwrap_or_default())
            .context(|| "Getting job source from blobstore".to_owned())?;
        let scratch = create_scratch(&self.directories.data_jobs())?;
        let jobs_directory = scratch.path().join("jobs");
        archive::unpack(file, "the rendered templates archive", &jobs_directory)?;
        for job in missing_jobs {
            let source = jobs_directory.join(&job.name);
            let target = job_directory(&self.directories, spec, job);
            if !fs::symlink_metadata(&source).is_ok_and(|metadata| metadata.is_dir()) {
                return Err(Error::invalid(format!(
                    "Installing job bundle: the rendered templates archive has no directory '{}'",
                    job.name
                )));
            }
            fix_permissions(&self.directories, &source)?;
            let parent = self.directories.data_jobs().join(&job.name);
            directories::make_directory(&parent, 0o755)?;
            fs::rename(&source, &target)
                .map_err(|error| Error::io(format!("moving job '{}' to its place", job.name), error))?;
        }
        Ok(())
    }

    /// Makes a job current. `links_directory` is the directory of [`packages::link_all`].
    fn enable_job(&self, spec: &Spec, job: &Job, links_directory: &Path) -> Result<()> {
        for directory in self.directories.job_directories(&job.name) {
            if !directory.exists() {
                directories::make_directory(&directory, 0o770)?;
                self.directories.give_to_vcap(&directory);
            }
        }
        let directory = job_directory(&self.directories, spec, job);
        directories::replace_link(&directory, &self.directories.jobs().join(&job.name))?;
        // Each job finds the packages in its own directory as well.
        let packages_link = directory.join("packages");
        if fs::symlink_metadata(&packages_link).is_ok_and(|metadata| metadata.is_dir()) {
            directories::remove_tree(&packages_link)?;
        }
        directories::replace_link(links_directory, &packages_link)
    }

    fn write_instance(&self, spec: &Spec) -> Result<()> {
        let directory = self.directories.instance();
        directories::make_directory(&directory, 0o755)?;
        for (name, value) in
            [("id", &spec.id), ("az", &spec.az), ("name", &spec.name), ("deployment", &spec.deployment)]
        {
            directories::write_atomically(&directory.join(name), value.as_bytes(), 0o644)?;
        }
        Ok(())
    }

    /// Configures the supervisor with the monit files of the current jobs.
    pub(super) fn configure_jobs(&self) -> Result<()> {
        let spec = self.spec.get();
        let mut files = Vec::new();
        for job in spec.jobs() {
            let directory = job_directory(&self.directories, &spec, job);
            let mut job_files: Vec<_> = packages::list(&directory)
                .into_iter()
                .filter(|entry| {
                    let name = entry.file_name();
                    name == "monit" || Path::new(&name).extension().is_some_and(|ext| ext == "monit")
                })
                .map(|entry| entry.path())
                .collect();
            job_files.sort();
            for path in job_files {
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

/// Returns the directory of a job with the templates of this spec.
fn job_directory(directories: &Directories, spec: &Spec, job: &Job) -> PathBuf {
    directories.data_jobs().join(&job.name).join(spec.job_build_name(job))
}

/// Removes links and builds of jobs that are not in the spec.
fn keep_only_jobs(directories: &Directories, spec: &Spec) -> Result<()> {
    let names: HashSet<&OsStr> = spec.jobs().iter().map(|job| OsStr::new(&job.name)).collect();
    for entry in packages::list(&directories.jobs()) {
        if !names.contains(&*entry.file_name()) {
            fs::remove_file(entry.path())
                .map_err(|error| Error::io(format!("removing '{}'", entry.path().display()), error))?;
        }
    }
    let builds: HashSet<PathBuf> =
        spec.jobs().iter().map(|job| job_directory(directories, spec, job)).collect();
    packages::keep_only_builds(&directories.data_jobs(), &builds)
}

/// Sets mode 0750 for directories and files in `bin`, 0640 for all other files, and the group `vcap`.
fn fix_permissions(directories: &Directories, job_directory: &Path) -> Result<()> {
    let bin = job_directory.join("bin");
    for entry in WalkDir::new(job_directory) {
        let entry =
            entry.map_err(|error| Error::failure("Correcting file permissions").with_source(error))?;
        directories.give_to_vcap(entry.path());
        if entry.file_type().is_symlink() {
            continue;
        }
        let is_executable = entry.file_type().is_dir() || entry.path().starts_with(&bin);
        directories::set_mode(entry.path(), if is_executable { 0o750 } else { 0o640 })?;
    }
    Ok(())
}
