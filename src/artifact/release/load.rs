//! Opens a release. A tarball is unpacked, a directory in source form is built into the same layout, and that
//! layout is loaded into a [`Release`].

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Job, License, Package, Property, Release, Template, check_name, check_relative, graph};
use crate::archive::{self, ArchiveError, UnpackOptions};
use crate::digest::{Algorithm, Digest};
use crate::documents::{self, ReleaseEntry, ReleaseManifest};
use crate::limits::MAX_DOCUMENT_BYTES;
use crate::{Source, Stamp, source_form, stemcell};
use base::error::ResultExt;
use base::events::{Stage, Unit};
use base::files::durable::create_private_directory;
use base::files::input;
use base::text::shell_word;
use base::{Error, Result};

const MANIFEST_FILE: &str = "release.MF";
/// The hint for an archive that is no release.
const RELEASE_HINT: &str = "name a release tarball, which has release.MF at its top, as `bosh create-release \
                            --tarball` makes it";

/// Returns the name and version of the tarball `source`. Reads it only up to its manifest.
pub(crate) fn read_name_and_version(source: &Source) -> Result<(String, String)> {
    let source_name = source.describe("release");
    let file =
        fs::File::open(&source.path).map_err(|error| input::read_error("release", &source.path, error))?;
    let text = archive::read_member(file, Path::new(MANIFEST_FILE), MAX_DOCUMENT_BYTES)
        .map_err(|error: ArchiveError| error.into_error(&source_name))?
        .ok_or_else(|| {
            let file = fs::File::open(&source.path).ok();
            let is_stemcell = file.is_some_and(|file| stemcell::is_stemcell(file).unwrap_or(false));
            no_release_error(source, is_stemcell)
        })?;
    let manifest: ReleaseManifest = documents::decode(&text, &format!("{MANIFEST_FILE} of {source_name}"))?;
    Ok((manifest.name, manifest.version))
}

/// Verifies and unpacks a release: the tarball into `scratch/release`, its jobs into `scratch/jobs/<name>`.
///
/// `scratch` must exist and be for this release alone. `release` and `jobs` must not exist in it.
pub fn open(source: &Source, expected: Option<&Digest>, scratch: &Path, stage: &Stage) -> Result<Release> {
    let source_name = source.describe("release");
    let (directory, jobs_directory) = (scratch.join("release"), scratch.join("jobs"));
    let (digest, file_digests, stamp) = if source.is_directory {
        source.refuse_digest("release", expected)?;
        let built_release = source_form::release::build(&source.path, &source_name, &directory)?;
        (built_release.digest, built_release.file_digests, None)
    } else {
        let stamp = source.stamp();
        let options =
            UnpackOptions { algorithms: &[Algorithm::Sha1, Algorithm::Sha256], ..UnpackOptions::default() };
        let mut progress = |bytes, total| stage.report_progress(bytes, Some(total), Unit::Bytes);
        let content =
            archive::unpack_file(&source.path, &source_name, &directory, expected, &options, &mut progress)?;
        (content.digest, content.file_digests, stamp)
    };
    let loader = Loader {
        directory: &directory,
        jobs_directory: jobs_directory.clone(),
        file_digests,
        source,
        source_name: &source_name,
    };
    loader.load(digest, stamp).inspect_err(|_| {
        // A failure to clean up must not hide the first error.
        let _ = fs::remove_dir_all(&directory);
        let _ = fs::remove_dir_all(&jobs_directory);
    })
}

/// Returns the error for an archive without a `release.MF`.
fn no_release_error(source: &Source, is_stemcell: bool) -> Error {
    let source_name = source.describe("release");
    if is_stemcell {
        let path = shell_word(&source.path.to_string_lossy()).into_owned();
        return Error::invalid(format!("{source_name} has no {MANIFEST_FILE}: it is a stemcell"))
            .with_hint(RELEASE_HINT)
            .with_hint(format!("to inspect it: `monopile inspect-local-stemcell {path}`"));
    }
    Error::invalid(format!("{source_name} has no {MANIFEST_FILE}")).with_hint(RELEASE_HINT)
}

/// Loads an unpacked release, from a tarball or built from source.
struct Loader<'a> {
    directory: &'a Path,
    jobs_directory: PathBuf,
    /// SHA-1 and SHA-256 digests of the files in `directory`, computed while they were written.
    file_digests: BTreeMap<PathBuf, Digest>,
    source: &'a Source,
    source_name: &'a str,
}

impl Loader<'_> {
    /// Reads `release.MF`, verifies the archives of all packages and jobs by their digests, and unpacks the
    /// jobs.
    fn load(&self, digest: Digest, stamp: Option<Stamp>) -> Result<Release> {
        let manifest_path = self.directory.join(MANIFEST_FILE);
        if !manifest_path.is_file() {
            let is_stemcell = self.directory.join(stemcell::MANIFEST_FILE).is_file();
            return Err(no_release_error(self.source, is_stemcell));
        }
        let text = read_document(&manifest_path)?;
        let file = format!("{MANIFEST_FILE} of {}", self.source_name);
        let manifest: ReleaseManifest = documents::decode(&decode_binary_scalars(text), &file)?;
        check_name(&manifest.name, &format!("the release in {file}"))?;

        let packages = self.load_packages(manifest.packages.unwrap_or_default(), "packages")?;
        let compiled_packages =
            self.load_packages(manifest.compiled_packages.unwrap_or_default(), "compiled_packages")?;
        self.check_dependencies(&packages, &[])?;
        self.check_dependencies(&compiled_packages, &packages)?;

        let entries = manifest.jobs.unwrap_or_default();
        check_unique(&entries, "job", self.source_name)?;
        create_private_directory(&self.jobs_directory).map_err(|error| {
            Error::io(format!("creating the directory '{}'", self.jobs_directory.display()), error)
        })?;
        let mut jobs = Vec::with_capacity(entries.len());
        for entry in entries {
            let job = self.load_job(entry)?;
            for package in &job.packages {
                if !packages.iter().chain(&compiled_packages).any(|candidate| candidate.name == *package) {
                    let names: Vec<&str> = packages.iter().map(|candidate| candidate.name.as_str()).collect();
                    return Err(missing_package_error(
                        &format!("the job '{}'", job.name),
                        package,
                        &names,
                        self.source_name,
                    ));
                }
            }
            jobs.push(job);
        }
        let license = match manifest.license {
            Some(license) if self.directory.join("license.tgz").is_file() => {
                self.verify(Path::new("license.tgz"), license.sha1.as_deref(), "the license")?;
                Some(License {
                    fingerprint: license.fingerprint.or(license.version).unwrap_or_default(),
                    archive: self.directory.join("license.tgz"),
                })
            }
            _ => None,
        };
        Ok(Release {
            name: manifest.name,
            version: manifest.version,
            commit_hash: manifest.commit_hash.unwrap_or_default(),
            has_uncommitted_changes: manifest.has_uncommitted_changes.unwrap_or_default(),
            jobs,
            packages,
            compiled_packages,
            license,
            digest,
            stamp,
        })
    }

    /// Verifies the archives of the packages in a section of the manifest. Compiled packages must say for
    /// which stemcell.
    fn load_packages(&self, entries: Vec<ReleaseEntry>, section: &str) -> Result<Vec<Package>> {
        check_unique(&entries, "package", self.source_name)?;
        let mut packages = Vec::with_capacity(entries.len());
        for entry in entries {
            let owner = format!("the package '{}'", entry.name);
            check_name(&entry.name, &format!("a package of {}", self.source_name))?;
            let path = Path::new(section).join(format!("{}.tgz", entry.name));
            let digest = self.verify(&path, entry.sha1.as_deref(), &owner)?;
            let content_digest = match self
                .file_digests
                .get(&path)
                .and_then(|file_digest| file_digest.part_for(Algorithm::Sha256))
            {
                Some(content_digest) => content_digest,
                None => Digest::from_file(&self.directory.join(&path), &[Algorithm::Sha256])?,
            };
            let (version, fingerprint) = version_and_fingerprint(&entry);
            if section == "compiled_packages" && entry.stemcell.is_none() {
                return Err(Error::invalid(format!(
                    "{owner} of {} is compiled, but has no `stemcell` in {MANIFEST_FILE}",
                    self.source_name
                ))
                .with_hint("export the release again with `bosh export-release`"));
            }
            packages.push(Package {
                name: entry.name,
                version,
                fingerprint,
                digest,
                content_digest,
                dependencies: entry.dependencies.unwrap_or_default(),
                archive: self.directory.join(path),
                compiled_for: if section == "compiled_packages" { entry.stemcell } else { None },
            });
        }
        Ok(packages)
    }

    /// Checks that every dependency of `packages` is in `packages` or `other_packages`, and that there is no
    /// cycle.
    fn check_dependencies(&self, packages: &[Package], other_packages: &[Package]) -> Result<()> {
        let package_names: HashSet<&str> =
            packages.iter().chain(other_packages).map(|package| package.name.as_str()).collect();
        for package in packages {
            for dependency in &package.dependencies {
                if !package_names.contains(dependency.as_str()) {
                    let names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
                    let owner = format!("the package '{}'", package.name);
                    return Err(missing_package_error(&owner, dependency, &names, self.source_name));
                }
            }
        }
        let roots: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
        graph::levels(&roots, packages.iter().chain(other_packages))
            .context(|| format!("the packages of {} cannot be ordered", self.source_name))?;
        Ok(())
    }

    /// Verifies and unpacks the archive of a job, and reads its `job.MF`, which must name the same job.
    /// Templates that are missing or outside of the archive are an error.
    fn load_job(&self, entry: ReleaseEntry) -> Result<Job> {
        let owner = format!("the job '{}'", entry.name);
        check_name(&entry.name, &format!("a job of {}", self.source_name))?;
        let path = Path::new("jobs").join(format!("{}.tgz", entry.name));
        let digest = self.verify(&path, entry.sha1.as_deref(), &owner)?;
        let archive = self.directory.join(&path);
        let directory = self.jobs_directory.join(&entry.name);
        let job_of_release = format!("{owner} of {}", self.source_name);
        archive::unpack_file(
            &archive,
            &job_of_release,
            &directory,
            None,
            &UnpackOptions::default(),
            &mut |_, _| {},
        )?;
        let spec_path = directory.join("job.MF");
        if !spec_path.is_file() {
            return Err(Error::invalid(format!("{job_of_release} has no job.MF")));
        }
        let file = format!("job.MF of {job_of_release}");
        let spec = documents::decode_job_spec(&read_document(&spec_path)?, &file)?;
        if spec.name != entry.name {
            let name = spec.name.escape_debug();
            return Err(Error::invalid(format!("{file} belongs to another job, '{name}'"))
                .with_hint("make the release again: `bosh create-release --tarball release.tgz`"));
        }
        let (version, fingerprint) = version_and_fingerprint(&entry);
        let monit = directory.join("monit");
        let mut job = Job {
            name: entry.name,
            version,
            fingerprint,
            digest,
            archive,
            monit: monit.is_file().then_some(monit),
            directory,
            templates: Vec::with_capacity(spec.templates.len()),
            packages: spec.packages.unwrap_or_default(),
            properties: spec.properties.into_iter().map(property).collect(),
            consumes: spec.consumes.unwrap_or_default(),
            provides: spec.provides.unwrap_or_default(),
        };
        for (source, target) in spec.templates {
            let owner = format!("a template in {file}");
            check_relative(&source, &owner)?;
            check_relative(&target, &owner)?;
            let template = Template { source, target };
            if !job.template_path(&template).is_file() {
                return Err(Error::invalid(format!(
                    "{file} lists the template '{}', but templates/ has no such file",
                    template.source
                ))
                .with_hint("add the file to the job's templates/, or remove it from the job's spec"));
            }
            job.templates.push(template);
        }
        Ok(job)
    }

    /// Checks the digest of a tarball in the release against `sha1` of `release.MF`. Returns the expected
    /// digest.
    fn verify(&self, path: &Path, sha1: Option<&str>, owner: &str) -> Result<Digest> {
        let owner = format!("{owner} of {}", self.source_name);
        let Some(actual) = self.file_digests.get(path) else {
            let path = path.display();
            return Err(Error::invalid(format!("{owner} is missing: the file '{path}' does not exist"))
                .with_hint("make the release again: `bosh create-release --tarball release.tgz`"));
        };
        let text = sha1.map(str::trim).filter(|text| !text.is_empty()).ok_or_else(|| {
            Error::invalid(format!("{MANIFEST_FILE} has no sha1 for {owner}"))
                .with_hint("make the release again: `bosh create-release --tarball release.tgz`")
        })?;
        let expected = Digest::parse(text, &owner)?;
        let description = format!("{owner} ('{}')", path.display());
        let result = match actual.hex(expected.strongest()) {
            Some(_) => expected.check(actual, &description),
            None => expected.check(
                &Digest::from_file(&self.directory.join(path), &[expected.strongest()])?,
                &description,
            ),
        };
        result.map(|()| expected).map_err(|mismatch| {
            mismatch.with_hint(
                "download the release again, or make it again: `bosh create-release --tarball release.tgz`",
            )
        })
    }
}

fn read_document(path: &Path) -> Result<Vec<u8>> {
    let read_error = |error| Error::io(format!("reading '{}'", path.display()), error);
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(read_error)?;
    file.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut text).map_err(read_error)?;
    if text.len() as u64 > MAX_DOCUMENT_BYTES {
        return Err(Error::invalid(format!(
            "'{}' is larger than {MAX_DOCUMENT_BYTES} bytes",
            path.display()
        )));
    }
    Ok(text)
}

/// Replaces `!binary` scalars with plain ones. Old release tools wrote some digests as `sha1: !binary |-`
/// with base64 in the next line.
fn decode_binary_scalars(text: Vec<u8>) -> Vec<u8> {
    use base64::Engine as _;
    let Ok(document) = std::str::from_utf8(&text) else { return text };
    if !document.contains("!binary |") {
        return text;
    }
    let mut decoded_text = String::with_capacity(document.len());
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        match line.split_once(": !").filter(|(_, rest)| rest.trim_start_matches('!').starts_with("binary |"))
        {
            Some((key, _)) => {
                let base64_text = lines.next().unwrap_or_default().trim();
                let bytes = base64::engine::general_purpose::STANDARD.decode(base64_text).ok();
                let value = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
                decoded_text.push_str(&format!("{key}: {}", serde_json::Value::String(value)));
            }
            None => decoded_text.push_str(line),
        }
        decoded_text.push('\n');
    }
    decoded_text.into_bytes()
}

fn version_and_fingerprint(entry: &ReleaseEntry) -> (String, String) {
    let fingerprint = entry.fingerprint.clone().or(entry.version.clone()).unwrap_or_default();
    (entry.version.clone().unwrap_or_else(|| fingerprint.clone()), fingerprint)
}

fn property((name, spec): (String, Option<documents::PropertySpec>)) -> Property {
    let spec = spec.unwrap_or_default();
    Property { name, description: spec.description.unwrap_or_default(), default: spec.default }
}

fn check_unique(entries: &[ReleaseEntry], kind: &str, source_name: &str) -> Result<()> {
    let mut names = BTreeSet::new();
    match entries.iter().find(|entry| !names.insert(&entry.name)) {
        Some(duplicate) => Err(Error::invalid(format!(
            "{MANIFEST_FILE} of {source_name} lists the {kind} '{}' twice",
            duplicate.name
        ))
        .with_hint("make the release again: `bosh create-release --tarball release.tgz`")),
        None => Ok(()),
    }
}

fn missing_package_error(owner: &str, package: &str, package_names: &[&str], source_name: &str) -> Error {
    Error::invalid(format!(
        "{owner} of {source_name} needs the package '{package}', which is not in the release"
    ))
    .with_nearest(package, package_names.iter().copied(), || None)
    .with_hint("add the package to the release, or remove it from the spec that needs it")
}
