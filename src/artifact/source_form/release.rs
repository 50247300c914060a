//! A release in source form: `config/final.yml`, `jobs/`, `packages/`, `src/`, `blobs/`, as
//! `bosh create-release` reads them (docs-bosh `create-release.md`).
//!
//! - A job's archive contains `job.MF` (its `spec`), `monit`, `properties_schema.json` and the templates that
//!   the spec lists.
//! - A package's archive contains `packaging` and the files in `src/` and `blobs/` that match `files` and not
//!   `excluded_files`. If both directories have a file, that of `src/` is used.
//! - A fingerprint is the SHA-256 ([`super::files::compute_fingerprint`]) of names, modes and contents, and
//!   for a package also of the names of its dependencies. Fingerprints differ from those of `create-release`.
//! - The version is `0+dev.` and 12 hex digits of the hash of name, jobs and packages, so that changed
//!   content changes the version.
//! - `pre_packaging` is refused, because it runs arbitrary tools on this machine. Vendored packages
//!   (`spec.lock`) are refused, because their sources are in the release's blobstore.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::files::{FileSet, compute_fingerprint, list, pack, parse_glob};
use crate::ArtifactIdentity;
use crate::archive::Input;
use crate::digest::{Algorithm, Digest};
use crate::documents::{self, FinalConfig, JobSpec, PackageSpec};
use crate::limits::MAX_DOCUMENT_BYTES;
use base::files::durable::create_private_directory;
use base::files::input;
use base::{Error, Result};

/// A release on disk in the layout of an unpacked tarball.
pub(crate) struct BuiltRelease {
    /// SHA-256 of the content.
    pub(crate) digest: Digest,
    /// SHA-1 and SHA-256 digests of its tarballs, by relative path.
    pub(crate) file_digests: BTreeMap<PathBuf, Digest>,
}

/// Returns the name, version and digest of the content, without packing.
pub(crate) fn identify(directory: &Path, source_name: &str) -> Result<ArtifactIdentity> {
    let tree = SourceTree::read(directory, source_name)?;
    Ok(ArtifactIdentity { version: tree.version(), digest: tree.digest()?, name: tree.name, stamp: None })
}

/// Creates the directory `target` with `release.MF`, `jobs/*.tgz` and `packages/*.tgz`.
pub(crate) fn build(directory: &Path, source_name: &str, target: &Path) -> Result<BuiltRelease> {
    let tree = SourceTree::read(directory, source_name)?;
    create_private_directory(target)
        .map_err(|error| Error::io(format!("creating '{}'", target.display()), error))?;
    tree.build(target).inspect_err(|_| {
        let _ = fs::remove_dir_all(target);
    })
}

/// A release directory: its jobs and packages with their files.
struct SourceTree {
    name: String,
    jobs: Vec<ReleasePart>,
    packages: Vec<ReleasePart>,
    /// SHA-256 of the content in hex.
    content_digest: String,
}

/// A job or a package.
struct ReleasePart {
    name: String,
    fingerprint: String,
    files: FileSet,
    dependencies: Vec<String>,
}

impl SourceTree {
    fn read(directory: &Path, source_name: &str) -> Result<Self> {
        let name = read_release_name(directory, source_name)?;
        let sources = PackageSources {
            src: list(&directory.join("src"))?,
            blobs: list(&directory.join("blobs"))?,
            directory,
        };
        let mut packages = Vec::new();
        for path in list_subdirectories(&directory.join("packages"))? {
            packages.push(read_package(&path, &sources, source_name)?);
        }
        let mut jobs = Vec::new();
        for path in list_subdirectories(&directory.join("jobs"))? {
            jobs.push(read_job(&path, source_name)?);
        }
        for (kind, parts) in [("job", &jobs), ("package", &packages)] {
            let mut names = BTreeSet::new();
            if let Some(duplicate) = parts.iter().find(|part| !names.insert(&part.name)) {
                return Err(Error::invalid(format!(
                    "{source_name} has two {kind}s named '{}'",
                    duplicate.name
                ))
                .with_hint(format!("rename one of them in its {kind}s/*/spec")));
            }
        }
        let mut fingerprint_parts = vec!["release", name.as_str()];
        for (kind, parts) in [("job", &jobs), ("package", &packages)] {
            for part in parts {
                fingerprint_parts.extend([kind, part.name.as_str(), part.fingerprint.as_str()]);
            }
        }
        let content_digest = compute_fingerprint(&FileSet::new(), &fingerprint_parts)?;
        Ok(SourceTree { name, jobs, packages, content_digest })
    }

    fn version(&self) -> String {
        // `content_digest` has 64 hex digits.
        format!("0+dev.{}", self.content_digest.get(..12).unwrap_or(&self.content_digest))
    }

    fn digest(&self) -> Result<Digest> {
        Digest::parse(&format!("sha256:{}", self.content_digest), "the release")
    }

    fn build(&self, target: &Path) -> Result<BuiltRelease> {
        let mut file_digests = BTreeMap::new();
        let mut manifest =
            format!("name: {}\nversion: {}\n", json_string(&self.name), json_string(&self.version()));
        for (section, parts) in [("packages", &self.packages), ("jobs", &self.jobs)] {
            let directory = target.join(section);
            create_private_directory(&directory)
                .map_err(|error| Error::io(format!("creating '{}'", directory.display()), error))?;
            let mut list = Vec::new();
            for part in parts {
                let path = Path::new(section).join(format!("{}.tgz", part.name));
                let digest = pack(&part.files, &target.join(&path))?;
                list.push(serde_json::json!({
                    "name": part.name,
                    "version": part.fingerprint,
                    "fingerprint": part.fingerprint,
                    "sha1": digest.part_for(Algorithm::Sha256).map(|digest| digest.to_string()),
                    "dependencies": part.dependencies,
                }));
                file_digests.insert(path, digest);
            }
            // JSON is YAML. Writing to a String cannot fail.
            let _ = writeln!(manifest, "{section}: {}", serde_json::Value::Array(list));
        }
        let path = target.join("release.MF");
        fs::write(&path, manifest)
            .map_err(|error| Error::io(format!("writing '{}'", path.display()), error))?;
        Ok(BuiltRelease { digest: self.digest()?, file_digests })
    }
}

fn json_string(text: &str) -> serde_json::Value {
    serde_json::Value::String(text.to_owned())
}

fn read_release_name(directory: &Path, source_name: &str) -> Result<String> {
    let path = directory.join("config").join("final.yml");
    let file = format!("'config/final.yml' of {source_name}");
    let text = match input::read(&path, MAX_DOCUMENT_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let is_stemcell = directory.join("stemcell.MF").is_file();
            let explanation = if is_stemcell { ": it is a stemcell" } else { "" };
            return Err(Error::invalid(format!("{source_name} has no config/final.yml{explanation}"))
                .with_hint("name a release tarball, or a release directory with config/final.yml"));
        }
        Err(error) => return Err(Error::io(format!("reading '{}'", path.display()), error)),
    };
    let config: FinalConfig = documents::decode(&text, &file)?;
    match (config.name, config.final_name) {
        (Some(name), None) | (None, Some(name)) if !name.is_empty() => Ok(name),
        (Some(_), Some(_)) => Err(Error::invalid(format!("{file} has both `name` and `final_name`"))
            .with_hint("remove `final_name`")),
        _ => Err(Error::invalid(format!("{file} has no name")).with_hint("add `name: NAME` to it")),
    }
}

/// Lists the subdirectories of `directory`, sorted by name, without hidden ones. Returns an empty list if
/// there is no such directory.
fn list_subdirectories(directory: &Path) -> Result<Vec<PathBuf>> {
    let read_error = |error| {
        Error::io(format!("reading the directory '{}'", directory.display()), error)
            .with_path_hint(directory, "")
    };
    let mut paths = Vec::new();
    match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(paths),
        Err(error) => return Err(read_error(error)),
        Ok(entries) => {
            for entry in entries {
                let path = entry.map_err(read_error)?.path();
                let is_hidden =
                    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
                if path.is_dir() && !is_hidden {
                    paths.push(path);
                }
            }
        }
    }
    paths.sort();
    Ok(paths)
}

fn file(path: PathBuf) -> Input {
    Input::File { path, is_executable: None }
}

fn read(path: &Path, owner: &str) -> Result<Vec<u8>> {
    input::read(path, MAX_DOCUMENT_BYTES).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::invalid(format!("{owner} has no file '{}'", path.display())),
        _ => input::read_error("the file", path, error),
    })
}

/// Collects the files of a job, as `bosh create-release` does, and computes its fingerprint, which differs
/// from that of `create-release`. The name of the directory must be that in the spec.
fn read_job(directory: &Path, source_name: &str) -> Result<ReleasePart> {
    let owner = format!("the job in '{}' of {source_name}", directory.display());
    let spec_path = directory.join("spec");
    let spec: JobSpec = documents::decode(&read(&spec_path, &owner)?, &format!("'{}'", spec_path.display()))?;
    if directory.file_name() != Some(spec.name.as_ref()) {
        return Err(Error::invalid(format!("{owner} has another name in its spec: '{}'", spec.name))
            .with_hint("rename the directory, or change `name` in its spec"));
    }
    let mut files = FileSet::new();
    // The mode of the spec is ignored, because editors and archives change it.
    files.insert("job.MF".into(), Input::File { path: spec_path, is_executable: Some(false) });
    for optional_file in ["monit", "properties_schema.json"] {
        let path = directory.join(optional_file);
        if path.is_file() {
            files.insert(optional_file.into(), file(path));
        }
    }
    for (source, _) in &spec.templates {
        let name = crate::archive::path::entry_path(source.as_bytes()).map_err(|reason| {
            let source = source.escape_debug();
            Error::invalid(format!("{owner} lists the template '{source}', which is not allowed"))
                .with_source(reason)
                .with_hint("write it in the job's spec as a path below templates/ without '..'")
        })?;
        let path = directory.join("templates").join(&name);
        if !path.is_file() {
            return Err(Error::invalid(format!(
                "{owner} lists the template '{source}', but the file '{}' does not exist",
                path.display()
            ))
            .with_hint("add the file, or remove it from the job's spec"));
        }
        files.insert(Path::new("templates").join(name), file(path));
    }
    let fingerprint = compute_fingerprint(&files, &["job", &spec.name])?;
    Ok(ReleasePart { name: spec.name, fingerprint, files, dependencies: Vec::new() })
}

/// The files from which packages are made.
struct PackageSources<'a> {
    src: FileSet,
    blobs: FileSet,
    directory: &'a Path,
}

/// Collects the files of a package, as `bosh create-release` does, and computes its fingerprint, which
/// differs from that of `create-release`. Refuses packages that need a blobstore or run `pre_packaging`.
fn read_package(directory: &Path, sources: &PackageSources<'_>, source_name: &str) -> Result<ReleasePart> {
    let owner = format!("the package in '{}' of {source_name}", directory.display());
    let package_error = |file: &str, reason: &str| {
        Error::invalid(format!("{owner} has a {file}: {reason}"))
            .with_hint("make a tarball, and set `url` to it: `bosh create-release --tarball release.tgz`")
    };
    if directory.join("spec.lock").exists() {
        return Err(package_error(
            "spec.lock",
            "its sources are in the release's blobstore, not in this directory",
        ));
    }
    if directory.join("pre_packaging").exists() {
        return Err(package_error("pre_packaging", "it would run tools on this machine that may be missing"));
    }
    let spec_path = directory.join("spec");
    let spec: PackageSpec =
        documents::decode(&read(&spec_path, &owner)?, &format!("'{}'", spec_path.display()))?;
    let packaging = directory.join("packaging");
    if !packaging.is_file() {
        return Err(Error::invalid(format!("{owner} has no packaging script"))
            .with_hint(format!("add the file '{}'", packaging.display())));
    }
    let mut files = sources.select(spec.files.as_deref().unwrap_or_default(), &owner)?;
    for pattern in spec.excluded_files.unwrap_or_default() {
        let matcher = parse_glob(&pattern)?;
        files.retain(|name, _| !matcher.is_match(name));
    }
    if files.insert("packaging".into(), Input::File { path: packaging, is_executable: Some(false) }).is_some()
    {
        return Err(Error::invalid(format!("`files` of {owner} match a second file 'packaging'"))
            .with_hint("rename that file in src/ or blobs/, or add it to `excluded_files`"));
    }
    let dependencies = spec.dependencies.unwrap_or_default();
    let mut fingerprint_parts = vec!["package", spec.name.as_str()];
    let mut names: Vec<&str> = dependencies.iter().map(String::as_str).collect();
    names.sort_unstable();
    fingerprint_parts.extend(names);
    let fingerprint = compute_fingerprint(&files, &fingerprint_parts)?;
    Ok(ReleasePart { fingerprint, files, dependencies, name: spec.name })
}

impl PackageSources<'_> {
    fn select(&self, patterns: &[String], owner: &str) -> Result<FileSet> {
        let mut files = FileSet::new();
        for pattern in patterns {
            let matcher = parse_glob(pattern)?;
            let mut is_matched = false;
            for (name, input) in self.src.iter().chain(&self.blobs) {
                if matcher.is_match(name) {
                    is_matched = true;
                    files.entry(name.clone()).or_insert_with(|| input.clone());
                }
            }
            if !is_matched {
                let error =
                    Error::invalid(format!("no file in src/ or blobs/ matches '{pattern}' of {owner}"));
                let lists_blobs = fs::metadata(self.directory.join("config").join("blobs.yml"))
                    .is_ok_and(|file| file.len() > 8);
                return Err(if lists_blobs && self.blobs.is_empty() {
                    let directory = self.directory.display();
                    error.with_hint(format!(
                        "download the release's blobs: `bosh sync-blobs --dir '{directory}'`"
                    ))
                } else {
                    error.with_hint("add the file, or remove the pattern from the package's spec")
                });
            }
        }
        Ok(files)
    }
}
