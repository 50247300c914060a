//! Provides the packages of the jobs to the VM, compiled.
//!
//! A package that the cache or its release has in compiled form is uploaded. One that only the shared cache
//! has is copied from there first. One that was compiled for the CPI, in the stemcell, is put into the cache
//! before there is a VM. Any other package is uploaded as source, compiled on the VM after its
//! dependencies, then downloaded and cached. Uploads and compilations overlap.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::compiled_packages::{CompiledPackageStore, PackageKey};
use super::failed_scripts;
use crate::agent_client::{Agent, CompiledPackage, PackageSource};
use crate::cpi::create_private_directory;
use crate::cpi::install::{ShareablePackage, UserlandPackages};
use crate::prepare::find_release;
use crate::run_context::{RunContext, signals};
use artifact::release::Package;
use artifact::shared_cache::{BundleWriter, BundledPackage};
use artifact::{Algorithm, Digest, Release, Stemcell};
use base::events::{Reporter, Stage, Unit};
use base::task_graph::{self, Lane, Task};
use base::{Error, Result};
use manifest::Deployment;

/// The packages that the jobs need, each after its dependencies.
pub(crate) struct Packages<'r> {
    nodes: Vec<PackageNode<'r>>,
    /// The indices in `nodes` by package name.
    indices: HashMap<&'r str, usize>,
}

/// A package in the graph of those to provide.
struct PackageNode<'r> {
    package: &'r Package,
    /// The name of its release.
    release: &'r str,
    /// The indices of its direct and indirect dependencies, each after its own dependencies.
    all_dependencies: Vec<usize>,
    /// Its key in the cache.
    key: PackageKey,
    /// The key without the content of packages. Releases that share a package agree on it.
    key_without_content: PackageKey,
    /// The length of the longest chain of packages that depend on it.
    height: u64,
}

/// The action of a task on the package with this index.
#[derive(Clone, Copy)]
enum PackageTask {
    /// Uploads its source or its compiled archive.
    Upload(usize),
    /// Compiles it on the VM.
    Compile(usize),
    /// Downloads the compiled package into the cache of this machine.
    Cache(usize),
}

/// The number of packages by source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageCounts {
    /// The number to compile on the VM.
    #[serde(alias = "compile")]
    pub to_compile_count: usize,
    /// The number that the cache of compiled packages has, on this machine or shared, also if the
    /// installation of the CPI puts them there.
    #[serde(alias = "cached")]
    pub cached_count: usize,
    /// The number that their release has in compiled form.
    #[serde(alias = "compiled")]
    pub precompiled_count: usize,
}

/// The archive of a compiled package on this machine.
struct PackageArchive {
    path: PathBuf,
    /// Its verified digest.
    digest: Digest,
}

/// The progress of one package.
#[derive(Default)]
struct PackageProgress {
    /// The compiled archive on this machine, if there is one.
    archive: OnceLock<PackageArchive>,
    /// The id of the source or the compiled archive in the agent's blobstore.
    uploaded_blob_id: OnceLock<String>,
    /// The compiled package in the agent's blobstore.
    package: OnceLock<CompiledPackage>,
    upload_duration: OnceLock<Duration>,
    /// The duration of the compilation.
    compile_duration: OnceLock<Duration>,
}

impl<'r> Packages<'r> {
    /// Collects the packages that the jobs need, and checks that they fit together and fit the stemcell.
    pub(crate) fn collect(
        deployment: &Deployment,
        releases: &'r [Release],
        stemcell: &Stemcell,
    ) -> Result<Self> {
        let mut jobs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for job in &deployment.group.jobs {
            jobs.entry(&job.release).or_default().push(&job.name);
        }
        let mut packages = Packages { nodes: Vec::new(), indices: HashMap::new() };
        for (release, jobs) in jobs {
            let release = find_release(releases, release)?;
            release.check_compiled_for(&stemcell.operating_system, &stemcell.version)?;
            packages.add(release, &jobs, stemcell)?;
        }
        packages.measure_heights();
        Ok(packages)
    }

    /// Adds the packages that these jobs need, dependencies first, and prefers those compiled for the
    /// stemcell. Equal packages of several releases become one node. Different ones with the same name are an
    /// error, because the agent installs packages by name.
    fn add(&mut self, release: &'r Release, jobs: &[&str], stemcell: &Stemcell) -> Result<()> {
        let stemcell_name = format!("{}/{}", stemcell.operating_system, stemcell.version);
        let fits_stemcell =
            |package: &&Package| package.compiled_for.as_deref() == Some(stemcell_name.as_str());
        let compiled_packages: HashMap<&str, &Package> = release
            .compiled_packages
            .iter()
            .filter(fits_stemcell)
            .map(|package| (package.name.as_str(), package))
            .collect();
        for package in release.package_levels(jobs)?.into_iter().flatten() {
            // A release may have a package compiled for several stemcells.
            let package = compiled_packages.get(package.name.as_str()).copied().unwrap_or(package);
            let mut all_dependencies = BTreeSet::new();
            for name in &package.dependencies {
                let dependency = *self
                    .indices
                    .get(name.as_str())
                    .ok_or_else(|| Error::invalid(format!("there is no package '{name}'")))?;
                all_dependencies.insert(dependency);
                all_dependencies.extend(&self.nodes[dependency].all_dependencies);
            }
            let all_dependencies = Vec::from_iter(all_dependencies);
            let keys: Vec<&PackageKey> =
                all_dependencies.iter().map(|index| &self.nodes[*index].key).collect();
            let key = PackageKey::new(stemcell, package, &keys);
            let keys_without_content: Vec<&PackageKey> =
                all_dependencies.iter().map(|index| &self.nodes[*index].key_without_content).collect();
            let key_without_content = PackageKey::without_content(stemcell, package, &keys_without_content);
            match self.indices.get(package.name.as_str()).map(|index| &self.nodes[*index]) {
                // Releases share packages: the same source with the same dependencies is the same package.
                // The releases may have packed or compiled the package twice, so its content does not count
                // here. The first one is used, under the key of its own content.
                Some(known_node) if known_node.key_without_content == key_without_content => {}
                Some(known_node) => {
                    return Err(Error::invalid(format!(
                        "the releases '{}' and '{}' have different packages called '{}'",
                        known_node.release, release.name, package.name
                    ))
                    .with_note(
                        "the agent installs packages by name, so jobs that need both cannot share a VM",
                    )
                    .with_hint("use versions of the releases that have the same package"));
                }
                None => {
                    self.indices.insert(&package.name, self.nodes.len());
                    let release = &release.name;
                    self.nodes.push(PackageNode {
                        package,
                        release,
                        all_dependencies,
                        key,
                        key_without_content,
                        height: 0,
                    });
                }
            }
        }
        Ok(())
    }

    fn measure_heights(&mut self) {
        for index in (0..self.nodes.len()).rev() {
            let height = self.nodes[index].height + 1;
            for dependency in self.nodes[index].all_dependencies.clone() {
                self.nodes[dependency].height = self.nodes[dependency].height.max(height);
            }
        }
    }

    /// Counts the packages by their current source. Those of `planned_packages` are not in the cache yet, but
    /// will be: see [`Self::take_from_cpi`].
    pub(crate) fn count_by_source(
        &self,
        run: &RunContext,
        planned_packages: Option<&UserlandPackages>,
    ) -> Result<PackageCounts> {
        let package_store = open_package_store(run);
        let mut counts = PackageCounts::default();
        let mut missing_packages = Vec::new();
        let cpi_packages = planned_packages.map(|packages| self.find_in_cpi(packages)).unwrap_or_default();
        for (index, node) in self.nodes.iter().enumerate() {
            let is_planned = cpi_packages.get(index).is_some_and(Option::is_some);
            match (&node.package.compiled_for, node.compiled_archive(&package_store)) {
                (Some(_), _) => counts.precompiled_count += 1,
                (None, Some(_)) => counts.cached_count += 1,
                (None, None) if is_planned => counts.cached_count += 1,
                (None, None) => missing_packages.push(node),
            }
        }
        let shared_count = AtomicUsize::new(0);
        for_each_in_parallel(&missing_packages, run, &|node| {
            shared_count.fetch_add(usize::from(package_store.is_shared(&node.key)), Ordering::SeqCst);
        })?;
        let shared_count = shared_count.into_inner();
        counts.cached_count += shared_count;
        counts.to_compile_count = missing_packages.len() - shared_count;
        Ok(counts)
    }

    /// Puts packages that this machine has compiled for the CPI into the cache, if the VM needs the same ones
    /// and the cache lacks them. A package that cannot be packed is compiled on the VM. `cpi_packages` were
    /// compiled in the stemcell.
    pub(crate) fn take_from_cpi(
        &self,
        run: &RunContext,
        cpi_packages: &UserlandPackages,
        stage: &Stage,
    ) -> Result<()> {
        let package_store = open_package_store(run);
        let directory = run.paths.scratch.join("cpi-packages");
        create_private_directory(&directory)?;
        let found_packages = self.nodes.iter().zip(self.find_in_cpi(cpi_packages));
        let found_packages: Vec<_> =
            found_packages.filter_map(|(node, package)| Some((node, package?))).collect();
        for_each_in_parallel(&found_packages, run, &|(node, package)| {
            if package_store.find(&node.key).is_some() || package_store.is_shared(&node.key) {
                return;
            }
            let title = format!("Taking compiled package {node} from the CPI");
            let taking = stage.reporter().begin_timed_stage(node.kind("take"), title);
            match pack_into_store(package, &node.key, &directory, &package_store) {
                Ok(()) => taking.finish(),
                Err(error) => taking.give_up(error.chain().join(": ")),
            }
        })
    }

    /// Returns for each package the one that this machine compiles for the CPI, if that is the same: its
    /// name, content and dependencies are equal.
    fn find_in_cpi<'p>(&self, cpi_packages: &'p UserlandPackages) -> Vec<Option<&'p ShareablePackage>> {
        let mut keys: Vec<String> = Vec::new();
        for node in &self.nodes {
            let dependency = |name: &'r String| {
                let key: &String = keys.get(*self.indices.get(name.as_str())?)?;
                Some((name.as_str(), key.as_str()))
            };
            let dependencies: Vec<_> = node.package.dependencies.iter().filter_map(dependency).collect();
            keys.push(cpi_packages.key(node.package, &dependencies));
        }
        keys.iter().map(|key| cpi_packages.find_own(key)).collect()
    }

    /// Returns true if the VM has exactly these packages, compiled from the same content.
    pub(crate) fn are_installed(&self, run: &RunContext, installed_packages: &[CompiledPackage]) -> bool {
        let package_store = open_package_store(run);
        let is_installed = |node: &PackageNode<'_>| {
            node.compiled_archive(&package_store)
                .is_some_and(|archive| node.find_installed(installed_packages, &archive).is_some())
        };
        installed_packages.len() == self.nodes.len() && self.nodes.iter().all(is_installed)
    }

    /// Provides every package in the agent's blobstore, compiled, sorted by name. Does not send a package
    /// again that is among `installed_packages`.
    pub(crate) fn provide(
        &self,
        run: &RunContext,
        agent: &Agent,
        installed_packages: &[CompiledPackage],
        stage: &Stage,
    ) -> Result<Vec<CompiledPackage>> {
        let start = Instant::now();
        let package_store = open_package_store(run);
        let progress: Vec<PackageProgress> = self
            .nodes
            .iter()
            .map(|node| {
                let archive = node.compiled_archive(&package_store).map(OnceLock::from).unwrap_or_default();
                PackageProgress { archive, ..PackageProgress::default() }
            })
            .collect();
        self.copy_shared(run, &package_store, &progress, stage)?;
        // Compilation needs the dependencies in the blobstore, and the agent does not report whether they are
        // still there. Uploads are therefore skipped only if nothing is compiled.
        if progress.iter().all(|progress| progress.archive.get().is_some()) {
            for (node, progress) in self.nodes.iter().zip(&progress) {
                let archive = progress.archive.get();
                if let Some(compiled_package) =
                    archive.and_then(|archive| node.find_installed(installed_packages, archive))
                {
                    let _ = progress.package.set(compiled_package.clone());
                }
            }
        }
        let (package_tasks, tasks) = self.planned_tasks();
        task_graph::run(&tasks, run.parallel, &|index| {
            signals::check_may_continue(run)?;
            match package_tasks[index] {
                PackageTask::Upload(node) => self.upload(node, &progress[node], agent, stage),
                PackageTask::Compile(node) => self.compile(node, &progress, agent, run.sha2, stage),
                PackageTask::Cache(node) => {
                    self.cache(node, &progress[node], &package_store, agent, stage);
                    Ok(())
                }
            }
        })?;
        let (duration, critical_duration) = (start.elapsed(), self.critical_path(&progress));
        tracing::info!(packages = self.nodes.len(), ?duration, critical_path = ?critical_duration,
            "all packages are on the VM");
        run.clock.count(|counts| {
            counts.packages_ms += u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            counts.packages_critical_path_ms +=
                u64::try_from(critical_duration.as_millis()).unwrap_or(u64::MAX);
        });
        let mut packages: Vec<CompiledPackage> =
            progress.into_iter().filter_map(|progress| progress.package.into_inner()).collect();
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(packages)
    }

    /// Adds the packages that were compiled before to a bundle.
    pub(crate) fn add_to_bundle(&self, run: &RunContext, bundle: &mut BundleWriter<'_>) -> Result<()> {
        let package_store = open_package_store(run);
        for node in self.nodes.iter().filter(|node| node.package.compiled_for.is_none()) {
            signals::check_may_continue(run)?;
            let begin_stage = || node.begin_copy(&run.reporter);
            let archive =
                package_store.find(&node.key).or_else(|| package_store.copy_shared(&node.key, begin_stage));
            if let Some(archive) = archive {
                let name = &node.package.name;
                bundle.add_package(&node.key.package_id(), name, &archive.path, &archive.digest)?;
            }
        }
        Ok(())
    }

    /// Copies packages that this machine lacks from the shared cache.
    fn copy_shared(
        &self,
        run: &RunContext,
        package_store: &CompiledPackageStore,
        progress: &[PackageProgress],
        stage: &Stage,
    ) -> Result<()> {
        let packages: Vec<_> = self.nodes.iter().zip(progress).collect();
        let missing_packages: Vec<_> =
            packages.into_iter().filter(|(_, progress)| progress.archive.get().is_none()).collect();
        for_each_in_parallel(&missing_packages, run, &|(node, progress)| {
            let begin_stage = || node.begin_copy(stage.reporter());
            if let Some(archive) = package_store.copy_shared(&node.key, begin_stage) {
                let _ = progress.archive.set(PackageArchive { path: archive.path, digest: archive.digest });
            }
        })
    }

    fn planned_tasks(&self) -> (Vec<PackageTask>, Vec<Task>) {
        let mut package_tasks = Vec::new();
        let mut tasks = Vec::new();
        let mut ready_tasks: Vec<usize> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let upload = tasks.len();
            package_tasks.push(PackageTask::Upload(index));
            tasks.push(Task { dependencies: Vec::new(), priority: node.height + 1, lane: Lane::Transfer });
            if node.package.compiled_for.is_some() {
                ready_tasks.push(upload);
                continue;
            }
            let dependency_tasks = node.all_dependencies.iter().map(|dependency| ready_tasks[*dependency]);
            let dependencies = dependency_tasks.chain([upload]).collect();
            let compile = tasks.len();
            package_tasks.push(PackageTask::Compile(index));
            tasks.push(Task { dependencies, priority: node.height, lane: Lane::Work });
            ready_tasks.push(compile);
            package_tasks.push(PackageTask::Cache(index));
            // Downloads into the cache have the lowest priority, because no task waits for them.
            tasks.push(Task { dependencies: vec![compile], priority: 0, lane: Lane::Transfer });
        }
        (package_tasks, tasks)
    }

    /// Uploads the source of a package, or the compiled package, unless it was compiled before.
    fn upload(&self, index: usize, progress: &PackageProgress, agent: &Agent, stage: &Stage) -> Result<()> {
        if progress.package.get().is_some() {
            return Ok(());
        }
        let start = Instant::now();
        let node = &self.nodes[index];
        let id = match progress.archive.get() {
            Some(archive) => {
                let upload_stage = stage
                    .reporter()
                    .begin_timed_stage(node.kind("upload"), format!("Uploading compiled package {node}"));
                let id = upload_file(agent, &archive.path, &upload_stage)?;
                upload_stage.finish();
                let _ = progress.package.set(CompiledPackage {
                    name: node.package.name.clone(),
                    version: node.package.fingerprint.clone(),
                    sha1: archive.digest.to_string(),
                    blobstore_id: id.clone(),
                });
                id
            }
            None => {
                let upload_stage = stage
                    .reporter()
                    .begin_timed_stage(node.kind("upload"), format!("Uploading package {node}"));
                let id = upload_file(agent, &node.package.archive, &upload_stage)?;
                upload_stage.finish();
                id
            }
        };
        let _ = progress.uploaded_blob_id.set(id);
        let _ = progress.upload_duration.set(start.elapsed());
        Ok(())
    }

    /// Compiles a package on the VM, unless it was compiled before.
    fn compile(
        &self,
        index: usize,
        progress: &[PackageProgress],
        agent: &Agent,
        uses_sha2: bool,
        stage: &Stage,
    ) -> Result<()> {
        let node = &self.nodes[index];
        let node_progress = &progress[index];
        if node_progress.package.get().is_some() {
            return Ok(());
        }
        let start = Instant::now();
        let compile_stage =
            stage.reporter().begin_timed_stage(node.kind("compile"), format!("Compiling package {node}"));
        let missing_package_error = |name: &str| Error::failure(format!("package '{name}' is not there yet"));
        // Only direct dependencies are installed for the compilation, as under a director. A release that
        // declares too few of them fails here as under a director.
        let dependencies = node
            .all_dependencies
            .iter()
            .filter(|dependency| node.package.dependencies.contains(&self.nodes[**dependency].package.name))
            .map(|dependency| {
                let name = &self.nodes[*dependency].package.name;
                let compiled_package =
                    progress[*dependency].package.get().ok_or_else(|| missing_package_error(name))?;
                Ok((name.clone(), compiled_package.clone()))
            })
            .collect::<Result<BTreeMap<_, _>>>()?;
        let source = PackageSource {
            name: node.package.name.clone(),
            version: node.package.fingerprint.clone(),
            digest: source_digest(node.package, uses_sha2)?.to_string(),
            blobstore_id: node_progress
                .uploaded_blob_id
                .get()
                .ok_or_else(|| missing_package_error(&node.package.name))?
                .clone(),
        };
        let compiled_package = agent.compile_package(&source, &dependencies).map_err(|error| {
            let package = format!("package {node} of release '{}'", node.release);
            failed_scripts::compilation_error(error.with_stage(&compile_stage), &package)
        })?;
        compile_stage.finish();
        let _ = node_progress.package.set(compiled_package);
        let _ = node_progress.compile_duration.set(start.elapsed());
        Ok(())
    }

    /// Downloads a compiled package into the cache. A failure is only a warning, because it merely makes the
    /// next run slower.
    fn cache(
        &self,
        index: usize,
        progress: &PackageProgress,
        package_store: &CompiledPackageStore,
        agent: &Agent,
        stage: &Stage,
    ) {
        let node = &self.nodes[index];
        let (Some(_), Some(package)) = (progress.compile_duration.get(), progress.package.get()) else {
            return;
        };
        let result =
            Digest::parse(&package.sha1, &format!("the compiled package {node}")).and_then(|digest| {
                package_store.add(&node.key, &digest, &mut |writer| {
                    agent.get_blob(&package.blobstore_id, writer).map(drop).map_err(Error::from)
                })
            });
        if let Err(error) = result {
            stage.reporter().warn(format!(
                "compiled package {node} is not kept for the next VM: {}",
                error.chain().join(": ")
            ));
        }
    }

    /// Returns the duration of all tasks with an unlimited number of threads.
    fn critical_path(&self, progress: &[PackageProgress]) -> Duration {
        let duration_of = |time: &OnceLock<Duration>| time.get().copied().unwrap_or_default();
        let mut ends: Vec<Duration> = Vec::new();
        for (node, progress) in self.nodes.iter().zip(progress) {
            let dependencies_end =
                node.all_dependencies.iter().map(|dependency| ends[*dependency]).max().unwrap_or_default();
            ends.push(
                dependencies_end.max(duration_of(&progress.upload_duration))
                    + duration_of(&progress.compile_duration),
            );
        }
        ends.into_iter().max().unwrap_or_default()
    }
}

impl PackageNode<'_> {
    /// Returns the key under which durations are recorded, independent of the package version.
    fn kind(&self, action: &str) -> String {
        format!("{action}/{}", self.package.name)
    }

    /// Returns the compiled archive, from the release or the cache.
    fn compiled_archive(&self, package_store: &CompiledPackageStore) -> Option<PackageArchive> {
        match &self.package.compiled_for {
            Some(_) => Some(PackageArchive {
                path: self.package.archive.clone(),
                digest: self.package.digest.clone(),
            }),
            None => {
                let package = package_store.find(&self.key)?;
                Some(PackageArchive { path: package.path, digest: package.digest })
            }
        }
    }

    /// Begins the stage of copying the compiled package from the shared cache.
    fn begin_copy(&self, reporter: &Reporter) -> Stage {
        let title = format!("Copying compiled package {self} from the shared cache");
        reporter.begin_timed_stage(self.kind("copy"), title)
    }

    /// Finds this package with the same content among those installed on the VM.
    fn find_installed<'i>(
        &self,
        installed_packages: &'i [CompiledPackage],
        archive: &PackageArchive,
    ) -> Option<&'i CompiledPackage> {
        let installed_package = installed_packages.iter().find(|installed_package| {
            (&installed_package.name, &installed_package.version)
                == (&self.package.name, &self.package.fingerprint)
        })?;
        // The agent chooses the digest algorithm for what it compiles, so the archive is hashed with the same
        // algorithm.
        let is_same = || {
            let installed_digest = Digest::parse(&installed_package.sha1, &installed_package.name).ok()?;
            let archive_digest = Digest::from_file(&archive.path, &[installed_digest.strongest()]).ok()?;
            installed_digest.check(&archive_digest, &installed_package.name).ok()
        };
        (installed_package.sha1 == archive.digest.to_string() || is_same().is_some())
            .then_some(installed_package)
    }
}

impl std::fmt::Display for PackageNode<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Twelve characters of a fingerprint are enough to tell packages apart.
        let fingerprint = &self.package.fingerprint;
        write!(f, "'{}/{}'", self.package.name, fingerprint.get(..12).unwrap_or(fingerprint))
    }
}

/// Puts a package of a bundle into the cache of this machine.
pub(crate) fn import_package(run: &RunContext, package: &BundledPackage) -> Result<()> {
    open_package_store(run).import(package)
}

/// Packs a package of the CPI in `directory`, and puts it into the store.
fn pack_into_store(
    package: &ShareablePackage,
    key: &PackageKey,
    directory: &Path,
    package_store: &CompiledPackageStore,
) -> Result<()> {
    let archive = directory.join(format!("{}.tgz", package.key));
    let digest = package.pack(&archive)?;
    package_store.add_file(key, &digest, &archive)?;
    fs::remove_file(&archive).map_err(|error| Error::io(format!("removing '{}'", archive.display()), error))
}

/// Returns the store of compiled packages of a run.
fn open_package_store(run: &RunContext) -> CompiledPackageStore {
    CompiledPackageStore::in_cache(&run.paths.cache_directory, &run.shared_cache)
}

/// Calls `work` with each item, several at a time. Fails if the run is interrupted.
fn for_each_in_parallel<T: Sync>(items: &[T], run: &RunContext, work: &(dyn Fn(&T) + Sync)) -> Result<()> {
    let tasks = vec![Task::default(); items.len()];
    task_graph::run(&tasks, run.parallel, &|index| {
        signals::check_may_continue(run)?;
        items.get(index).into_iter().for_each(work);
        Ok(())
    })
}

/// Uploads a file under a fresh id.
fn upload_file(agent: &Agent, archive: &Path, stage: &Stage) -> Result<String> {
    let id = uuid::Uuid::new_v4().to_string();
    let size = std::fs::metadata(archive).map(|metadata| metadata.len()).ok();
    agent.put_blob(&id, archive, &mut |bytes_done| stage.report_progress(bytes_done, size, Unit::Bytes))?;
    Ok(id)
}

/// Returns the digest with which the agent verifies the source. With `--sha2`, a SHA-256 replaces a SHA-1.
fn source_digest(package: &Package, uses_sha2: bool) -> Result<Digest> {
    if !uses_sha2 || package.digest.strongest() != Algorithm::Sha1 {
        return Ok(package.digest.clone());
    }
    Digest::from_file(&package.archive, &[Algorithm::Sha256])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha2_replaces_weak_digests_and_keeps_strong_ones() {
        let directory = tempfile::tempdir().unwrap();
        let archive = directory.path().join("a.tgz");
        std::fs::write(&archive, "content").unwrap();
        let package = |digest: Digest| Package {
            name: "a".into(),
            version: "1".into(),
            fingerprint: "1".into(),
            content_digest: digest.clone(),
            digest,
            dependencies: Vec::new(),
            archive: archive.clone(),
            compiled_for: None,
        };
        let weak = package(Digest::compute(b"content", &[Algorithm::Sha1]));
        let strong = package(Digest::compute(b"content", &[Algorithm::Sha512]));
        assert_eq!(source_digest(&weak, false).unwrap(), weak.digest);
        assert_eq!(source_digest(&weak, true).unwrap(), Digest::compute(b"content", &[Algorithm::Sha256]));
        assert_eq!(source_digest(&strong, true).unwrap(), strong.digest);
    }
}
