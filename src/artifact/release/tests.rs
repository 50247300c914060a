use std::fs;

use serde_json::json;

use super::*;
use crate::ArtifactKind;
use crate::Source;
use crate::tarballs::{JobTarball, PackageTarball, ReleaseTarball, Tar, sha1, sha256, sha512};
use crate::testing::{identify, stage};
use base::ErrorKind;

fn hello() -> ReleaseTarball {
    ReleaseTarball::new("hello", "1.10")
        .job(
            JobTarball::new("hello")
                .template("ctl.erb", "bin/ctl", "#!/bin/bash\n")
                .template("deep/conf.erb", "config/deep/conf", "port=<%= p('port') %>")
                .spec("packages: [app]\nproperties:\n  port: {default: 8580, description: Port.}\n  name:\n"),
        )
        .job(JobTarball::new("other").spec("packages: [lib, zlib]\n"))
        .package(PackageTarball::new("app", "echo app\n", &["lib", "zlib"]).file("src/a.c", "int a;"))
        .package(PackageTarball::new("lib", "echo lib\n", &["base"]))
        .package(PackageTarball::new("zlib", "echo zlib\n", &[]))
        .package(PackageTarball::new("base", "echo base\n", &[]))
        .package(PackageTarball::new("unused", "echo unused\n", &["app"]))
}

struct OpenedRelease {
    directory: tempfile::TempDir,
    result: Result<Release>,
}

impl OpenedRelease {
    /// Returns the message, causes and hints of the failure. Checks that only the tarball is left.
    fn failure(self) -> String {
        let error = self.result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
        assert_eq!(fs::read_dir(self.directory.path()).unwrap().count(), 1, "{error:?}");
        format!("{} {}", error.chain().join(": "), error.hints().join(" "))
    }
}

fn open_bytes(bytes: &[u8], expected: Option<&str>) -> OpenedRelease {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("release.tgz");
    fs::write(&path, bytes).unwrap();
    let expected = expected.map(|text| text.parse().unwrap());
    let result = open(&Source::local(&path).unwrap(), expected.as_ref(), directory.path(), &stage());
    OpenedRelease { directory, result }
}

fn names(levels: &[Vec<&Package>]) -> Vec<Vec<String>> {
    levels.iter().map(|level| level.iter().map(|package| package.name.clone()).collect()).collect()
}

#[test]
fn release_is_loaded() {
    let bytes = hello().build();
    let outcome = open_bytes(&bytes, Some(&sha1(&bytes)));
    let release = outcome.result.unwrap();
    assert_eq!((release.name.as_str(), release.version.as_str()), ("hello", "1.10"));
    assert_eq!(release.commit_hash, "abcdef0");
    assert_eq!(
        release.digest.hex(Algorithm::Sha256).map(|hex| format!("sha256:{hex}")),
        Some(sha256(&bytes))
    );
    let job = release.job("hello").unwrap();
    assert_eq!(
        job.templates,
        [
            Template { source: "ctl.erb".into(), target: "bin/ctl".into() },
            Template { source: "deep/conf.erb".into(), target: "config/deep/conf".into() },
        ]
    );
    assert_eq!(fs::read_to_string(job.template_path(&job.templates[0])).unwrap(), "#!/bin/bash\n");
    assert!(job.monit.as_ref().unwrap().is_file());
    assert_eq!(job.packages, ["app"]);
    assert_eq!(job.properties[0].default, Some(json!(8580)));
    assert_eq!(job.properties[0].description, "Port.");
    assert_eq!(job.properties[1], Property { name: "name".into(), description: "".into(), default: None });
    let package = release.package("app").unwrap();
    assert_eq!(sha1(&fs::read(&package.archive).unwrap()), package.digest.to_string());
    assert_eq!(package.version, package.fingerprint);

    let source = Source::local(&outcome.directory.path().join("release.tgz")).unwrap();
    let identity = identify(ArtifactKind::Release, &source).unwrap();
    assert_eq!(identity, release.identity());
    assert!(identity.has_same_content(&release.identity()));
}

#[test]
fn packages_are_ordered_in_levels() {
    let outcome = open_bytes(&hello().build(), None);
    let release = outcome.result.unwrap();
    let levels = release.package_levels(&["hello"]).unwrap();
    assert_eq!(names(&levels), [vec!["base", "zlib"], vec!["lib"], vec!["app"]]);
    let levels = release.package_levels(&["other"]).unwrap();
    assert_eq!(names(&levels), [vec!["base", "zlib"], vec!["lib"]]);
    assert!(release.package_levels(&[]).unwrap().is_empty());
    let names: Vec<&str> = release
        .dependencies(release.package("app").unwrap())
        .unwrap()
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    assert_eq!(names, ["base", "zlib", "lib"]);
}

#[test]
fn unknown_job_gets_a_suggestion() {
    let release = open_bytes(&hello().build(), None).result.unwrap();
    let error = release.job("helo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(error.to_string(), "the release 'hello' has no job 'helo'");
    assert_eq!(error.hints(), ["did you mean 'hello'?"]);
    assert_eq!(release.job("database").unwrap_err().notes(), ["its jobs are hello, other"]);
}

#[test]
fn verifies_every_digest_in_the_release() {
    for digest in [sha256, sha512, |bytes: &[u8]| format!("{};{}", sha1(bytes), sha256(bytes))] {
        let mut tarball = hello();
        tarball.digest = digest;
        open_bytes(&tarball.build(), None).result.unwrap();
    }
    let bytes = hello().build();
    let text = open_bytes(&bytes, Some(&sha256(b""))).failure();
    assert!(text.contains("release.tgz") && text.contains(&sha256(b"")), "{text}");
    for (part, owner) in [("job/hello", "the job 'hello'"), ("package/lib", "the package 'lib'")] {
        for digest in [sha1(b"x"), sha256(b"x"), sha512(b"x")] {
            let text = open_bytes(&hello().wrong_sha1(part, &digest).build(), None).failure();
            assert!(text.contains(owner) && text.contains(&digest) && text.contains("found"), "{text}");
        }
        let text = open_bytes(&hello().wrong_sha1(part, "nonsense").build(), None).failure();
        assert!(text.contains(owner), "{text}");
        let text = open_bytes(&hello().wrong_sha1(part, "").build(), None).failure();
        assert!(text.contains(owner) && text.contains("no sha1"), "{text}");
    }
}

#[test]
fn errors_name_the_job_or_package() {
    let job = |lines: &str| ReleaseTarball::new("r", "1").job(JobTarball::new("j").spec(lines));
    let with_job_manifest = |manifest: &str| {
        let mut job = JobTarball::new("j");
        job.manifest = Some(manifest.into());
        ReleaseTarball::new("r", "1").job(job)
    };
    let package = |name: &str, needs: &[&str]| PackageTarball::new(name, "", needs);
    let release = || ReleaseTarball::new("r", "1");
    let mut missing_job = hello();
    missing_job.missing.push("jobs/other.tgz".into());
    let mut missing_package = hello();
    missing_package.missing.push("packages/zlib.tgz".into());
    let mut version = release();
    version.version = "[1]".into();
    let mut compiled_package = PackageTarball::new("c", "", &["gone"]);
    compiled_package.compiled_for = Some("ubuntu/1".into());
    let cases: Vec<(ReleaseTarball, &[&str])> = vec![
        (missing_job, &["the job 'other'", "is missing", "jobs/other.tgz"]),
        (missing_package, &["the package 'zlib'", "is missing"]),
        (version, &["release.MF of", "version"]),
        (job("packages: [nope]\n"), &["the job 'j'", "'nope'", "not in the release"]),
        (job("packages: [helpr]\n").package(package("helper", &[])), &["did you mean 'helper'?"]),
        (release().package(package("a", &["gone"])), &["the package 'a'", "'gone'"]),
        (release().package(compiled_package), &["the package 'c'", "'gone'"]),
        (release().package(package("a", &["a"])), &["dependency cycle", "a -> a"]),
        (
            release()
                .package(package("top", &["a"]))
                .package(package("a", &["b", "leaf"]))
                .package(package("b", &["c"]))
                .package(package("c", &["a"]))
                .package(package("leaf", &[])),
            &["dependency cycle: a -> b -> c -> a"],
        ),
        (release().package(package("a", &[])).package(package("a", &[])), &["twice"]),
        (release().job(JobTarball::new("j")).job(JobTarball::new("j")), &["twice"]),
        (release().job(JobTarball::new(".hidden")), &["'.hidden'", "not allowed"]),
        (with_job_manifest("name: k\n"), &["job.MF of the job 'j'", "another job"]),
        (with_job_manifest("name: [\n"), &["job.MF of the job 'j'", "line"]),
        (
            with_job_manifest("name: j\ntemplates: {a.erb: bin/a}\n"),
            &["the template 'a.erb'", "no such file"],
        ),
        (with_job_manifest("name: j\ntemplates: {../../x: bin/a}\n"), &["'../../x'", "leads out"]),
        (with_job_manifest("name: j\ntemplates: {a: /etc/passwd}\n"), &["/etc/passwd", "absolute"]),
        (with_job_manifest("name: j\ntemplates: {a: ../../etc/x}\n"), &["leads out"]),
        (with_job_manifest("name: j\nproperties: [a]\n"), &["job.MF of the job 'j'"]),
    ];
    for (tarball, words) in cases {
        let text = open_bytes(&tarball.build(), None).failure();
        for word in words {
            assert!(text.contains(word), "'{text}' does not say '{word}'");
        }
    }
    // A name that is a path could select a file outside; it is refused before that.
    let text = open_bytes(
        &Tar::default()
            .file("release.MF", "name: r\nversion: 1\npackages: [{name: ../../x, sha1: aa}]\n")
            .tgz(),
        None,
    )
    .failure();
    assert!(text.contains("'../../x'"), "{text}");
}

#[test]
fn broken_tarballs_are_rejected() {
    let bytes = hello().build();
    assert!(open_bytes(&bytes[..bytes.len() / 2], None).failure().contains("truncated"));
    assert!(open_bytes(b"", None).failure().contains("empty"));
    assert!(open_bytes(&Tar::default().file("x", "y").tgz(), None).failure().contains("no release.MF"));
    let hostile_job = Tar::default().file("../../escape", "x").tgz();
    let manifest =
        format!("name: r\nversion: 1\njobs: [{{name: j, fingerprint: f, sha1: {}}}]\n", sha1(&hostile_job));
    let tarball = Tar::default().file("release.MF", manifest).file("jobs/j.tgz", hostile_job).tgz();
    let text = open_bytes(&tarball, None).failure();
    assert!(text.contains("the job 'j'") && text.contains("leads out"), "{text}");
    let empty_job = Tar::default().directory("templates").tgz();
    let manifest =
        format!("name: r\nversion: 1\njobs: [{{name: j, fingerprint: f, sha1: {}}}]\n", sha1(&empty_job));
    let tarball = Tar::default().file("release.MF", manifest).file("jobs/j.tgz", empty_job).tgz();
    assert!(open_bytes(&tarball, None).failure().contains("no job.MF"));
}

#[test]
fn compiled_release_rejects_other_stemcells() {
    let mut package = PackageTarball::new("app", "", &["lib"]);
    package.compiled_for = Some("ubuntu-jammy/1.199".into());
    let mut library = PackageTarball::new("lib", "", &[]);
    library.compiled_for = Some("ubuntu-jammy/1.199".into());
    let tarball = ReleaseTarball::new("r", "1")
        .job(JobTarball::new("j").spec("packages: [app]\n"))
        .package(package)
        .package(library);
    let release = open_bytes(&tarball.build(), None).result.unwrap();
    assert!(release.packages.is_empty());
    assert_eq!(names(&release.package_levels(&["j"]).unwrap()), [vec!["lib"], vec!["app"]]);
    release.check_compiled_for("ubuntu-jammy", "1.199").unwrap();
    let error = release.check_compiled_for("ubuntu-jammy", "1.200").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error.to_string().contains("ubuntu-jammy/1.199") && error.to_string().contains("ubuntu-jammy/1.200")
    );
}

#[test]
fn license_and_binary_scalars_are_read() {
    let license = Tar::default().file("LICENSE", "free").tgz();
    let package = Tar::default().file("packaging", "").tgz();
    use base64::Engine as _;
    let base64_digest = base64::engine::general_purpose::STANDARD.encode(sha1(&package));
    let manifest = format!(
        "name: r\nversion: !binary |-\n  MS4xMA==\nlicense: {{version: f, fingerprint: f, sha1: \
         {}}}\npackages:\n\
         - name: p\n  sha1: !binary |-\n    {base64_digest}\n  fingerprint: !!binary |-\n    ZnA=\n  \
         dependencies: []\n",
        sha1(&license)
    );
    let tarball = Tar::default()
        .file("release.MF", manifest)
        .file("license.tgz", &license)
        .file("packages/p.tgz", &package)
        .tgz();
    let release = open_bytes(&tarball, None).result.unwrap();
    assert_eq!(release.version, "1.10");
    assert_eq!(release.packages[0].fingerprint, "fp");
    assert_eq!(release.license.unwrap().fingerprint, "f");
}
