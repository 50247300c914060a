//! Builds stemcell and release tarballs for tests: valid ones and, on request, invalid ones.
//!
//! It does not use the library, so that the library's unit tests can share it.

// Unit and integration tests each use only a part of it.
#![allow(dead_code, reason = "shared by two test crates")]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::{Compression, write::GzEncoder};
use sha1::Digest as _;
use tar::{Builder, EntryType, Header};

/// A tar archive in memory.
pub(crate) struct Tar(Builder<Vec<u8>>);

impl Default for Tar {
    fn default() -> Self {
        Tar(Builder::new(Vec::new()))
    }
}

impl Tar {
    /// Adds a file.
    pub(crate) fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        self.file_with_mode(name, 0o644, content)
    }

    /// Adds a file with this mode.
    pub(crate) fn file_with_mode(self, name: &str, mode: u32, content: impl AsRef<[u8]>) -> Self {
        self.raw(EntryType::Regular, name.as_bytes(), mode, b"", content.as_ref())
    }

    /// Adds a directory.
    pub(crate) fn directory(self, name: &str) -> Self {
        self.raw(EntryType::Directory, name.as_bytes(), 0o755, b"", b"")
    }

    /// Adds a symbolic link.
    pub(crate) fn symlink(self, name: &str, target: &str) -> Self {
        self.raw(EntryType::Symlink, name.as_bytes(), 0o777, target.as_bytes(), b"")
    }

    /// Adds a hard link.
    pub(crate) fn hard_link(self, name: &str, target: &str) -> Self {
        self.raw(EntryType::Link, name.as_bytes(), 0o644, target.as_bytes(), b"")
    }

    /// Adds an entry of any type, with name and link written into the header unchanged.
    pub(crate) fn raw(self, kind: EntryType, name: &[u8], mode: u32, link: &[u8], content: &[u8]) -> Self {
        self.owned_raw((0, 0), kind, name, mode, link, content)
    }

    /// Adds a file with this mode, user id and group id.
    pub(crate) fn owned_file(self, name: &str, mode: u32, owner: (u64, u64), content: &str) -> Self {
        self.owned_raw(owner, EntryType::Regular, name.as_bytes(), mode, b"", content.as_bytes())
    }

    /// Adds an entry like [`Tar::raw`], with this user id and group id.
    pub(crate) fn owned_raw(
        self,
        (uid, gid): (u64, u64),
        kind: EntryType,
        name: &[u8],
        mode: u32,
        link: &[u8],
        content: &[u8],
    ) -> Self {
        let mut header = Header::new_gnu();
        {
            let gnu = header.as_gnu_mut().unwrap();
            assert!(name.len() <= 100 && link.len() <= 100, "use `long_name`");
            gnu.name[..name.len()].copy_from_slice(name);
            gnu.linkname[..link.len()].copy_from_slice(link);
        }
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(1_700_000_000);
        header.set_uid(uid);
        header.set_gid(gid);
        header.set_size(content.len() as u64);
        self.header(header, content)
    }

    /// Adds a GNU long name (`L`) or long link (`K`) for the next entry.
    pub(crate) fn long_name(self, kind: EntryType, name: &[u8]) -> Self {
        let mut content = name.to_vec();
        content.push(0);
        self.raw(kind, b"././@LongLink", 0o644, b"", &content)
    }

    /// Adds PAX records for the next entry (`XHeader`) or all further ones (`XGlobalHeader`).
    pub(crate) fn pax(self, kind: EntryType, records: &[(&str, &str)]) -> Self {
        let mut content = String::new();
        for (key, value) in records {
            // The length counts its own digits.
            let rest = key.len() + value.len() + 3;
            let mut length = rest + rest.to_string().len();
            length = rest + length.to_string().len();
            writeln!(content, "{length} {key}={value}").unwrap();
        }
        self.raw(kind, b"PaxHeaders/x", 0o644, b"", content.as_bytes())
    }

    /// Adds any header with content, and corrects its checksum.
    pub(crate) fn header(mut self, mut header: Header, content: &[u8]) -> Self {
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    /// Returns the archive with its end marker.
    pub(crate) fn tar(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }

    /// Returns the compressed archive.
    pub(crate) fn tgz(self) -> Vec<u8> {
        gzip(&self.tar())
    }
}

/// Compresses with gzip.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns the SHA-1 in hex.
pub(crate) fn sha1(bytes: &[u8]) -> String {
    hex(&sha1::Sha1::digest(bytes))
}

/// Returns `sha256:` and the SHA-256 in hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&sha2::Sha256::digest(bytes)))
}

/// Returns `sha512:` and the SHA-512 in hex.
pub(crate) fn sha512(bytes: &[u8]) -> String {
    format!("sha512:{}", hex(&sha2::Sha512::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A builder for a stemcell tarball.
pub(crate) struct StemcellTarball {
    /// `name` in stemcell.MF.
    pub name: String,
    /// `version` in stemcell.MF.
    pub version: String,
    /// The image; `None` omits it.
    pub image: Option<Vec<u8>>,
    /// The `sha1` of the image; `None` means the correct one.
    pub image_sha1: Option<String>,
    /// `api_version` as written; `None` omits it.
    pub api_version: Option<String>,
    /// Additional lines of stemcell.MF.
    pub extra: String,
    /// True if the tarball has a stemcell.MF.
    pub has_manifest: bool,
}

impl Default for StemcellTarball {
    /// Returns a stemcell of the local CPI, whose image is a small tree.
    fn default() -> Self {
        StemcellTarball {
            name: "bosh-local-test".into(),
            version: "1.10".into(),
            image: Some(Tar::default().directory("etc/").file("etc/monopile-release", "test\n").tgz()),
            image_sha1: None,
            api_version: Some("3".into()),
            extra: "stemcell_formats: [local-directory]\n".into(),
            has_manifest: true,
        }
    }
}

impl StemcellTarball {
    /// Returns the tarball.
    pub(crate) fn build(&self) -> Vec<u8> {
        let mut manifest =
            format!("name: {}\nversion: {}\noperating_system: local\n", self.name, self.version);
        let sha = self.image_sha1.clone().or(self.image.as_deref().map(sha1));
        if let Some(sha) = sha {
            writeln!(manifest, "sha1: {sha}").unwrap();
        }
        if let Some(version) = &self.api_version {
            writeln!(manifest, "api_version: {version}").unwrap();
        }
        if !self.extra.contains("cloud_properties") {
            manifest.push_str("cloud_properties: {name: bosh-local-test, root: {size: 1}}\n");
        }
        manifest.push_str(&self.extra);
        let mut tar = Tar::default();
        if self.has_manifest {
            tar = tar.file("stemcell.MF", manifest);
        }
        if let Some(image) = &self.image {
            tar = tar.file("image", image);
        }
        tar.tgz()
    }

    /// Writes the tarball.
    pub(crate) fn write(&self, path: &Path) -> PathBuf {
        fs::write(path, self.build()).unwrap();
        path.to_owned()
    }
}

/// A builder for a job of a release tarball.
#[derive(Clone, Default)]
pub(crate) struct JobTarball {
    /// Its name.
    pub name: String,
    /// The spec without `name` and `templates`.
    pub spec: String,
    /// The template, target and content of each template.
    pub templates: Vec<(String, String, String)>,
    /// The monit file.
    pub monit: String,
    /// The complete job.MF, which replaces the generated one.
    pub manifest: Option<String>,
}

impl JobTarball {
    /// Creates a job with this name.
    pub(crate) fn new(name: &str) -> Self {
        JobTarball { name: name.into(), ..Default::default() }
    }

    /// Adds lines to its spec.
    pub(crate) fn spec(mut self, lines: &str) -> Self {
        self.spec.push_str(lines);
        self
    }

    /// Adds a template.
    pub(crate) fn template(mut self, source: &str, target: &str, content: &str) -> Self {
        self.templates.push((source.into(), target.into(), content.into()));
        self
    }

    fn build(&self) -> Vec<u8> {
        let mut manifest = format!("name: {}\ntemplates:\n", self.name);
        for (source, target, _) in &self.templates {
            writeln!(manifest, "  {source}: {target}").unwrap();
        }
        manifest.push_str(&self.spec);
        let manifest = self.manifest.clone().unwrap_or(manifest);
        let mut tar = Tar::default().file("./job.MF", manifest).file("./monit", &self.monit);
        for (source, _, content) in &self.templates {
            tar = tar.file(&format!("./templates/{source}"), content);
        }
        tar.tgz()
    }
}

/// A builder for a package of a release tarball.
#[derive(Clone, Default)]
pub(crate) struct PackageTarball {
    /// Its name.
    pub name: String,
    /// The names of its dependencies.
    pub dependencies: Vec<String>,
    /// The name and content of its files, including `packaging`.
    pub files: Vec<(String, String)>,
    /// `os/version` of a compiled package.
    pub compiled_for: Option<String>,
    /// A fingerprint other than the digest of the archive.
    pub fingerprint: Option<String>,
}

impl PackageTarball {
    /// Creates a package with this name, packaging script and dependencies.
    pub(crate) fn new(name: &str, packaging: &str, dependencies: &[&str]) -> Self {
        PackageTarball {
            name: name.into(),
            dependencies: dependencies.iter().map(|name| (*name).into()).collect(),
            files: vec![("packaging".into(), packaging.into())],
            compiled_for: None,
            fingerprint: None,
        }
    }

    /// Adds a file.
    pub(crate) fn file(mut self, name: &str, content: &str) -> Self {
        self.files.push((name.into(), content.into()));
        self
    }

    fn build(&self) -> Vec<u8> {
        self.files.iter().fold(Tar::default(), |tar, (name, content)| tar.file(name, content)).tgz()
    }
}

/// A builder for a release tarball.
#[derive(Clone)]
pub(crate) struct ReleaseTarball {
    /// `name` in release.MF.
    pub name: String,
    /// `version` as written.
    pub version: String,
    /// Its jobs.
    pub jobs: Vec<JobTarball>,
    /// Its packages, including compiled ones.
    pub packages: Vec<PackageTarball>,
    /// Wrong `sha1` values by name (`job/hello`, `package/counter`).
    pub sha1: Vec<(String, String)>,
    /// Paths of inner tarballs to omit.
    pub missing: Vec<String>,
    /// The function that writes inner digests.
    pub digest: fn(&[u8]) -> String,
    /// Lines to add to release.MF.
    pub extra: String,
}

impl ReleaseTarball {
    /// Creates a release without jobs and packages.
    pub(crate) fn new(name: &str, version: &str) -> Self {
        ReleaseTarball {
            name: name.into(),
            version: version.into(),
            jobs: Vec::new(),
            packages: Vec::new(),
            sha1: Vec::new(),
            missing: Vec::new(),
            digest: sha1,
            extra: String::new(),
        }
    }

    /// Adds a job.
    pub(crate) fn job(mut self, job: JobTarball) -> Self {
        self.jobs.push(job);
        self
    }

    /// Adds a package.
    pub(crate) fn package(mut self, package: PackageTarball) -> Self {
        self.packages.push(package);
        self
    }

    /// Sets a wrong sha1 for `job/<name>` or `package/<name>`.
    pub(crate) fn wrong_sha1(mut self, part: &str, sha1: &str) -> Self {
        self.sha1.push((part.into(), sha1.into()));
        self
    }

    /// Returns the tarball.
    pub(crate) fn build(&self) -> Vec<u8> {
        let mut manifest = format!("name: {}\nversion: {}\ncommit_hash: abcdef0\n", self.name, self.version);
        let mut files = Vec::new();
        let (compiled_packages, source): (Vec<_>, Vec<_>) =
            self.packages.iter().partition(|package| package.compiled_for.is_some());
        for (section, packages) in [("packages", source), ("compiled_packages", compiled_packages)] {
            if packages.is_empty() {
                continue;
            }
            writeln!(manifest, "{section}:").unwrap();
            for package in packages {
                let archive = package.build();
                let fingerprint = package.fingerprint.clone().unwrap_or_else(|| sha1(&archive));
                self.entry(&mut manifest, &format!("package/{}", package.name), &archive, &fingerprint);
                writeln!(manifest, "  dependencies: [{}]", package.dependencies.join(", ")).unwrap();
                if let Some(stemcell) = &package.compiled_for {
                    writeln!(manifest, "  stemcell: {stemcell}").unwrap();
                }
                files.push((format!("./{section}/{}.tgz", package.name), archive));
            }
        }
        manifest.push_str("jobs:\n");
        for job in &self.jobs {
            let archive = job.build();
            self.entry(&mut manifest, &format!("job/{}", job.name), &archive, &sha1(&archive));
            files.push((format!("./jobs/{}.tgz", job.name), archive));
        }
        manifest.push_str(&self.extra);
        let mut tar = Tar::default().directory("./").file("./release.MF", manifest);
        for (path, content) in files {
            if !self.missing.iter().any(|missing| path.ends_with(missing)) {
                tar = tar.file(&path, content);
            }
        }
        tar.tgz()
    }

    fn entry(&self, manifest: &mut String, part: &str, archive: &[u8], fingerprint: &str) {
        let name = part.split_once('/').unwrap().1;
        let bad_digest = self.sha1.iter().find(|(other, _)| *other == part).map(|(_, sha1)| sha1.clone());
        let digest = bad_digest.unwrap_or_else(|| (self.digest)(archive));
        writeln!(
            manifest,
            "- name: {name}\n  version: {fingerprint}\n  fingerprint: {fingerprint}\n  sha1: {digest}"
        )
        .unwrap();
    }

    /// Writes the tarball.
    pub(crate) fn write(&self, path: &Path) -> PathBuf {
        fs::write(path, self.build()).unwrap();
        path.to_owned()
    }
}
