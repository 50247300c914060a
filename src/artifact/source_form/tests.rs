use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::ArtifactKind;
use crate::archive::{UnpackOptions, unpack_file};
use crate::tarballs::sha1;
use crate::testing::{identify, stage};
use crate::{Algorithm, ArtifactIdentity, Digest, Release, Source, release, stemcell};
use base::{ErrorKind, Result};

/// A release directory.
struct Dir {
    directory: tempfile::TempDir,
}

impl Dir {
    fn empty() -> Self {
        Dir { directory: tempfile::tempdir().unwrap() }
    }

    fn release() -> Self {
        Self::empty()
            .file("config/final.yml", "name: r\n")
            .file("jobs/j/spec", "name: j\ntemplates: {ctl.erb: bin/ctl}\npackages: [app]\n")
            .file("jobs/j/monit", "check process j\n")
            .file("jobs/j/templates/ctl.erb", "#!/bin/bash\n")
            .file("jobs/j/templates/unused.erb", "not packed\n")
            .file("packages/app/spec", "name: app\ndependencies: [lib]\nfiles: [app/**/*, both]\n")
            .file("packages/app/packaging", "make\n")
            .file(
                "packages/lib/spec",
                "name: lib\nfiles: ['lib/*.c', 'big.tgz']\nexcluded_files: [lib/x*.c]\n",
            )
            .file("packages/lib/packaging", "cc\n")
            .file("src/app/main.c", "int main;")
            .file("src/app/deep/er/.hidden", "h")
            .file("src/both", "from src")
            .file("blobs/both", "from blobs")
            .file("src/lib/a.c", "int a;")
            .file("src/lib/x1.c", "excluded")
            .file("src/lib/deep/b.c", "too deep")
            .file("blobs/big.tgz", "blob")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("form").join(name)
    }

    fn file(self, name: &str, content: &str) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn without_file(self, name: &str) -> Self {
        fs::remove_file(self.path(name)).unwrap();
        self
    }

    fn source(&self) -> Source {
        Source::local(&self.path("")).unwrap()
    }

    fn open_in(&self, work: &str) -> Result<Release> {
        let work = self.directory.path().join(work);
        fs::create_dir(&work).unwrap();
        release::open(&self.source(), None, &work, &stage())
    }

    fn open(&self) -> Release {
        self.open_in("work").unwrap()
    }

    fn identity(&self) -> ArtifactIdentity {
        identify(ArtifactKind::Release, &self.source()).unwrap()
    }

    fn failure(&self) -> String {
        let error = self.open_in("work").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
        assert_eq!(fs::read_dir(self.directory.path().join("work")).unwrap().count(), 0, "{error:?}");
        format!("{} {}", error.chain().join(": "), error.hints().join(" "))
    }
}

/// Returns the names of an archive's files, each with its content or link target.
fn contents(archive: &Path) -> Vec<(String, String)> {
    let directory = tempfile::tempdir().unwrap();
    let destination = directory.path().join("out");
    unpack_file(archive, "it", &destination, None, &UnpackOptions::default(), &mut |_, _| {}).unwrap();
    let mut entries = Vec::new();
    for entry in walkdir::WalkDir::new(&destination).sort_by_file_name() {
        let entry = entry.unwrap();
        let name = entry.path().strip_prefix(&destination).unwrap().display().to_string();
        if entry.path_is_symlink() {
            entries.push((name, format!("-> {}", fs::read_link(entry.path()).unwrap().display())));
        } else if entry.file_type().is_file() {
            let mut content = fs::read_to_string(entry.path()).unwrap();
            if entry.metadata().unwrap().permissions().mode() & 0o100 != 0 {
                content.push_str(" (executable)");
            }
            entries.push((name, content));
        }
    }
    entries
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, content)| ((*name).into(), (*content).into())).collect()
}

#[test]
fn directory_is_built_into_a_release() {
    let directory = Dir::release();
    let release = directory.open();
    assert_eq!(release.name, "r");
    assert_eq!(release.version.len(), "0+dev.".len() + 12);
    assert!(release.version.starts_with("0+dev."), "{}", release.version);
    let job = release.job("j").unwrap();
    assert_eq!(
        contents(&job.archive),
        pairs(&[
            ("job.MF", "name: j\ntemplates: {ctl.erb: bin/ctl}\npackages: [app]\n"),
            ("monit", "check process j\n"),
            ("templates/ctl.erb", "#!/bin/bash\n"),
        ])
    );
    assert_eq!(
        contents(&release.package("app").unwrap().archive),
        pairs(&[
            ("app/deep/er/.hidden", "h"),
            ("app/main.c", "int main;"),
            ("both", "from src"),
            ("packaging", "make\n"),
        ])
    );
    assert_eq!(
        contents(&release.package("lib").unwrap().archive),
        pairs(&[("big.tgz", "blob"), ("lib/a.c", "int a;"), ("packaging", "cc\n")])
    );
    let levels = release.package_levels(&["j"]).unwrap();
    assert_eq!(levels.iter().map(|level| level[0].name.as_str()).collect::<Vec<_>>(), ["lib", "app"]);
    assert_eq!(directory.identity(), release.identity());
}

#[test]
fn equal_content_gives_equal_bytes() {
    let (one, two) = (Dir::release(), Dir::release());
    // Times, write permissions of others and other files are ignored.
    let two = two.file("README.md", "beside").file("jobs/.gitkeep", "").file("packages/notes.txt", "");
    fs::set_permissions(two.path("src/both"), fs::Permissions::from_mode(0o666)).unwrap();
    let (one, two) = (one.open(), two.open());
    assert_eq!((&one.version, &one.digest), (&two.version, &two.digest));
    for name in ["app", "lib"] {
        let (one, two) = (one.package(name).unwrap(), two.package(name).unwrap());
        assert_eq!(fs::read(&one.archive).unwrap(), fs::read(&two.archive).unwrap());
        assert_eq!((&one.fingerprint, &one.digest), (&two.fingerprint, &two.digest));
    }
    assert_eq!(one.job("j").unwrap().fingerprint, two.job("j").unwrap().fingerprint);
}

#[test]
fn changed_content_changes_the_version() {
    let identity_before = Dir::release().identity();
    let executable = Dir::release();
    fs::set_permissions(executable.path("src/app/main.c"), fs::Permissions::from_mode(0o755)).unwrap();
    let form_with_link = Dir::release().without_file("src/app/main.c");
    symlink("../both", form_with_link.path("src/app/main.c")).unwrap();
    let form_with_renamed_file =
        Dir::release().without_file("src/app/main.c").file("src/app/niam.c", "int main;");
    let changed_forms = [
        Dir::release().file("src/app/main.c", "int main2;"),
        Dir::release().file("src/app/new.c", ""),
        Dir::release().file("jobs/j/monit", "check\n"),
        Dir::release().file("jobs/j/templates/ctl.erb", "#!/bin/sh\n"),
        Dir::release().file("jobs/j/spec", "name: j\ntemplates: {ctl.erb: bin/ctl2}\npackages: [app]\n"),
        Dir::release().file("packages/lib/packaging", "clang\n"),
        Dir::release().file("packages/app/spec", "name: app\nfiles: [app/**/*, both]\n"),
        Dir::release().file("config/final.yml", "name: s\n"),
        executable,
        form_with_link,
        form_with_renamed_file,
    ];
    let mut versions = vec![identity_before.version.clone()];
    for changed_form in &changed_forms {
        versions.push(changed_form.identity().version);
    }
    let count = versions.len();
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), count);
    // Files that are not packed do not change the version.
    assert_eq!(Dir::release().file("jobs/j/templates/unused.erb", "x").identity(), identity_before);
    assert_eq!(Dir::release().file("src/lib/x1.c", "x").identity(), identity_before);
    assert_eq!(Dir::release().file("blobs/both", "x").identity(), identity_before);
}

#[test]
fn only_changed_jobs_and_packages_get_new_fingerprints() {
    let release_before = Dir::release().open();
    let release_after = Dir::release().file("src/lib/a.c", "int b;").open();
    let fingerprint = |release: &Release, name: &str| release.package(name).unwrap().fingerprint.clone();
    assert_ne!(fingerprint(&release_before, "lib"), fingerprint(&release_after, "lib"));
    assert_eq!(fingerprint(&release_before, "app"), fingerprint(&release_after, "app"));
    assert_eq!(release_before.job("j").unwrap().fingerprint, release_after.job("j").unwrap().fingerprint);
}

#[test]
fn source_links_stay_links_and_linked_templates_become_files() {
    let directory = Dir::release().file("shared/ctl", "shared\n").without_file("jobs/j/templates/ctl.erb");
    symlink("../../../shared/ctl", directory.path("jobs/j/templates/ctl.erb")).unwrap();
    symlink("deep", directory.path("src/app/link")).unwrap();
    let release = directory.open();
    let job = release.job("j").unwrap();
    assert_eq!(fs::read_to_string(job.template_path(&job.templates[0])).unwrap(), "shared\n");
    let app = contents(&release.package("app").unwrap().archive);
    assert!(app.contains(&("app/link".into(), "-> deep".into())), "{app:?}");
    assert!(!app.iter().any(|(name, _)| name.starts_with("app/link/")), "{app:?}");
}

#[test]
fn executables_stay_executable() {
    let directory = Dir::release();
    fs::set_permissions(directory.path("src/app/main.c"), fs::Permissions::from_mode(0o700)).unwrap();
    let release = directory.open();
    let app = contents(&release.package("app").unwrap().archive);
    assert!(app.contains(&("app/main.c".into(), "int main; (executable)".into())), "{app:?}");
}

#[test]
fn errors_name_the_job_package_or_file() {
    let r = Dir::release;
    let cases: Vec<(Dir, &[&str])> = vec![
        (r().without_file("config/final.yml"), &["has no config/final.yml"]),
        (r().without_file("config/final.yml").file("stemcell.MF", "name: s\n"), &["it is a stemcell"]),
        (r().file("config/final.yml", "blobstore: {}\n"), &["final.yml", "no name"]),
        (r().file("config/final.yml", "name: a\nfinal_name: b\n"), &["both"]),
        (r().file("jobs/j/spec", "name: k\n"), &["another name", "'k'"]),
        (r().without_file("jobs/j/spec"), &["jobs/j", "spec"]),
        (r().without_file("jobs/j/templates/ctl.erb"), &["'ctl.erb'", "jobs/j"]),
        (r().file("jobs/j/spec", "name: j\ntemplates: {../../../x: y}\n"), &["../../../x"]),
        (r().without_file("packages/app/spec"), &["packages/app", "spec"]),
        (r().without_file("packages/app/packaging"), &["no packaging script"]),
        (r().file("packages/app/pre_packaging", ""), &["pre_packaging", "bosh create-release"]),
        (r().file("packages/app/spec.lock", ""), &["spec.lock", "blobstore"]),
        (r().file("packages/lib/spec", "name: app\n"), &["two packages named 'app'"]),
        (
            r().file("packages/app/spec", "name: app\nfiles: ['nothing/*']\n"),
            &["'nothing/*'", "packages/app"],
        ),
        (r().file("packages/app/spec", "name: app\nfiles: ['a[']\n"), &["'a['"]),
        (r().file("packages/app/spec", "name: app\ndependencies: [gone]\n"), &["'app'", "'gone'"]),
        (
            r().file("packages/app/spec", "name: app\nfiles: [packaging]\n").file("src/packaging", ""),
            &["packaging"],
        ),
        (r().file("packages/lib/spec", "name: lib\ndependencies: [app]\n"), &["app -> lib -> app"]),
        (r().file("jobs/j/spec", "name: j\npackages: [gone]\n"), &["'j'", "'gone'"]),
        (r().file("jobs/j/spec", "name: [\n"), &["jobs/j/spec:1:7: "]),
    ];
    for (directory, words) in cases {
        let text = directory.failure();
        for word in words {
            assert!(text.contains(word), "'{text}' does not say '{word}'");
        }
    }
    let blobs = r()
        .without_file("blobs/both")
        .without_file("blobs/big.tgz")
        .file("config/blobs.yml", "big.tgz: {size: 1}\n");
    assert!(blobs.failure().contains("bosh sync-blobs"));
}

#[test]
fn rejects_a_digest_for_a_directory() {
    let directory = Dir::release();
    let digest: Digest = sha1(b"").parse().unwrap();
    let error =
        release::open(&directory.source(), Some(&digest), directory.directory.path(), &stage()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("source form"), "{error}");
}

fn stemcell_form() -> Dir {
    Dir::empty()
        .file("stemcell.MF", "name: s\nversion: 1.10\noperating_system: o\napi_version: 3\n")
        .file("image/etc/release", "1\n")
        .file("image/bin/tool", "#!/bin/sh\n")
}

#[test]
fn directory_is_built_into_a_stemcell() {
    let open =
        |directory: &Dir| stemcell::open(&directory.source(), None, directory.directory.path(), &stage());
    let (one, two) = (stemcell_form(), stemcell_form());
    symlink("release", one.path("image/etc/link")).unwrap();
    symlink("release", two.path("image/etc/link")).unwrap();
    let (first, second) = (open(&one).unwrap(), open(&two).unwrap());
    assert_eq!((first.name.as_str(), first.version.as_str(), first.api_version), ("s", "1.10", 3));
    assert_eq!(fs::read(&first.image).unwrap(), fs::read(&second.image).unwrap());
    assert_eq!(first.digest, second.digest);
    assert_eq!(
        contents(&first.image),
        pairs(&[("bin/tool", "#!/bin/sh\n"), ("etc/link", "-> release"), ("etc/release", "1\n")])
    );
    assert_eq!(identify(ArtifactKind::Stemcell, &one.source()).unwrap(), first.identity());
    assert_eq!(first.digest.strongest(), Algorithm::Sha256);

    let changed_form = stemcell_form().file("image/etc/release", "2\n");
    let identity = identify(ArtifactKind::Stemcell, &changed_form.source()).unwrap();
    assert!(!identity.has_same_content(&first.identity()));
}

#[test]
fn image_may_be_a_file_and_must_exist() {
    let open =
        |directory: &Dir| stemcell::open(&directory.source(), None, directory.directory.path(), &stage());
    let text = "name: s\nversion: 1\nsha1: ";
    let valid_form =
        Dir::empty().file("image", "raw").file("stemcell.MF", &format!("{text}{}\n", sha1(b"raw")));
    assert_eq!(fs::read(open(&valid_form).unwrap().image).unwrap(), b"raw");
    for (form, word) in [
        (
            Dir::empty().file("image", "raw").file("stemcell.MF", &format!("{text}{}\n", sha1(b"x"))),
            "does not match",
        ),
        (stemcell_form().file("stemcell.MF", &format!("{text}{}\n", sha1(b"x"))), "image/ is a directory"),
        (Dir::empty().file("stemcell.MF", "name: s\nversion: 1\n"), "has no image"),
        (Dir::empty().file("image", "raw"), "has no stemcell.MF"),
        (Dir::empty().file("config/final.yml", "name: r\n"), "it is a release"),
        (stemcell_form().file("stemcell.MF", "name: s\nversion: 1\napi_version: two\n"), "api_version"),
    ] {
        let error = open(&form).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(word), "'{error}' does not say '{word}'");
        assert!(!form.directory.path().join("stemcell").exists(), "{word}");
    }
}
