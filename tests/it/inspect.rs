//! The commands that inspect artifacts and derive new ones.

use crate::support::process::{RunToEnd, prepare};
use serde_json::{Value, json};

use crate::support::World;
use crate::support::tarballs::{JobTarball, PackageTarball, ReleaseTarball, StemcellTarball, sha1};

fn world() -> World {
    let world = World::new();
    let release = ReleaseTarball::new("rel", "1.10")
        .job(JobTarball::new("zeta").spec("packages: [lib, app]\n").template("ctl", "bin/ctl", "x"))
        .job(JobTarball::new("alpha"))
        .package(PackageTarball::new("lib", "true", &[]))
        .package(PackageTarball::new("app", "true", &["lib"]));
    release.write(&world.path("rel.tgz"));
    let stemcell = StemcellTarball { image: Some(b"image".to_vec()), ..StemcellTarball::default() };
    stemcell.write(&world.path("stemcell.tgz"));
    world
}

fn run_json(world: &World, args: &[&str]) -> Value {
    let run = world.run(args.iter().chain(&["--json"])).success();
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
}

/// Reads a member of a tarball with `tar`.
fn read_member(world: &World, tarball: &str, name: &str) -> Vec<u8> {
    let mut command = prepare("tar");
    // Names may begin with `./`.
    let args = ["xzOf", tarball, "--wildcards", &format!("*{name}")];
    let output = world.enter(&mut command).args(args).run_to_end();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn release_is_printed_sorted_by_name() {
    let world = world();
    let report = run_json(&world, &["inspect-local-release", "rel.tgz"]);
    assert_eq!((&report["name"], &report["version"]), (&json!("rel"), &json!("1.10")));
    let jobs = report["jobs"].as_array().unwrap();
    assert_eq!((&jobs[0]["name"], &jobs[1]["name"]), (&json!("alpha"), &json!("zeta")));
    assert_eq!(jobs[1]["packages"], json!(["lib", "app"]));
    assert_eq!(report["packages"][0]["dependencies"], json!(["lib"]));
    assert_eq!(jobs[1]["digest"], sha1(&read_member(&world, "rel.tgz", "jobs/zeta.tgz")));

    let text = world.run(["inspect-local-release", "rel.tgz"]).success().stdout;
    assert_eq!(text.split("\n\n").count(), 3, "the release, its jobs and its packages: {text}");
    let fingerprint = jobs[1]["fingerprint"].as_str().unwrap();
    let start = format!("job\tzeta/{fingerprint}");
    assert!(text.lines().any(|line| line.starts_with(&start) && line.ends_with("\tlib, app")), "{text}");
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

/// The command in the hint packs the directory.
#[test]
fn stemcell_directory_is_packed_first() {
    let world = world();
    world.write("a/stemcell.MF", read_member(&world, "stemcell.tgz", "stemcell.MF"));
    world.write("a/image", "image");
    world.write("b/stemcell.MF", read_member(&world, "stemcell.tgz", "stemcell.MF"));
    world.write("b/image/etc/hosts", "");
    for directory in ["a", "b"] {
        let run = world.run(["repack-stemcell", directory, "x.tgz"]).exits_with(3);
        let hint = run.stderr.lines().find_map(|line| line.strip_prefix("  hint: pack it: `"));
        let packing_command = hint.unwrap_or_else(|| panic!("{}", run.stderr)).trim_end_matches('`');
        let mut shell = prepare("sh");
        let output = world.enter(&mut shell).args(["-c", packing_command]).run_to_end();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        world.run(["repack-stemcell", "packed.tgz", "x.tgz"]).success();
    }
    let run = world.run(["inspect-local-release", "stemcell.tgz"]).exits_with(3);
    let hint =
        format!("to inspect it: `monopile inspect-local-stemcell {}`", world.path("stemcell.tgz").display());
    assert!(run.stderr.contains(&hint), "{}", run.stderr);
}

#[test]
fn release_in_source_form_is_printed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/hello/release");
    let report = run_json(&World::new(), &["inspect-local-release", path]);
    assert_eq!(report["name"], "hello");
    assert!(!report["packages"].as_array().unwrap().is_empty());
}

#[test]
fn rejects_a_damaged_release() {
    let world = World::new();
    let release = ReleaseTarball::new("rel", "1").job(JobTarball::new("j")).wrong_sha1("job/j", &sha1(b"x"));
    release.write(&world.path("rel.tgz"));
    for args in [vec!["inspect-local-release", "rel.tgz"], vec!["sha2ify-release", "rel.tgz", "new.tgz"]] {
        let run = world.run(&args).exits_with(3);
        assert!(run.stderr.contains("'j'") && run.stdout.is_empty(), "{run:?}");
    }
    world.run(["inspect-local-release", "absent.tgz"]).exits_with(3);
    assert!(!world.exists("new.tgz"));
}

#[test]
fn digests_convert_to_sha256_and_back() {
    let world = world();
    let report_before = run_json(&world, &["inspect-local-release", "rel.tgz"]);
    let text = world.run(["sha2ify-release", "rel.tgz", "sha2.tgz"]).success().stdout;
    assert!(text.contains("sha256:") && text.contains("sha2.tgz"), "{text}");
    let sha2 = run_json(&world, &["inspect-local-release", "sha2.tgz"]);
    for job in sha2["jobs"].as_array().unwrap().iter().chain(sha2["packages"].as_array().unwrap()) {
        assert!(job["digest"].as_str().unwrap().starts_with("sha256:"), "{job}");
    }
    world.run(["sha1ify-release", "sha2.tgz", "sha1.tgz"]).success();
    let mut report_after = run_json(&world, &["inspect-local-release", "sha1.tgz"]);
    report_after["archive"] = report_before["archive"].clone();
    assert_eq!(report_after, report_before);
    let manifest = String::from_utf8(read_member(&world, "sha2.tgz", "release.MF")).unwrap();
    assert!(manifest.contains("version: '1.10'"), "a version is no number: {manifest}");
    // Repeating the command creates the same file.
    world.run(["sha2ify-release", "rel.tgz", "again.tgz"]).success();
    assert!(
        std::fs::read(world.path("again.tgz")).unwrap() == std::fs::read(world.path("sha2.tgz")).unwrap()
    );
}

#[test]
fn stemcell_is_printed() {
    let world = world();
    let report = run_json(&world, &["inspect-local-stemcell", "stemcell.tgz"]);
    assert_eq!(report["os"], "local");
    assert_eq!(report["infrastructure"], "unknown");
    assert_eq!(report["hypervisor"], "-");
    let text = world.run(["inspect-local-stemcell", "stemcell.tgz"]).success().stdout;
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(report["version"].as_str().unwrap()), "{text}");
}

#[test]
fn stemcell_is_repacked_with_requested_changes() {
    let world = world();
    let report_before = run_json(&world, &["inspect-local-stemcell", "stemcell.tgz"]);
    let args = [
        "repack-stemcell",
        "stemcell.tgz",
        "new.tgz",
        "--name",
        "other",
        "--version",
        "2.0",
        "--cloud-properties",
        "{infrastructure: here, deep: {a: 1}}",
        "--format",
        "f",
        "--format",
        "g",
    ];
    world.run(args).success();
    let report_after = run_json(&world, &["inspect-local-stemcell", "new.tgz"]);
    assert_eq!((&report_after["name"], &report_after["version"]), (&json!("other"), &json!("2.0")));
    assert_eq!(report_after["infrastructure"], "here");
    assert_eq!(report_after["cloud_properties"]["deep"], json!({"a": 1}));
    assert_eq!(report_after["stemcell_formats"], json!(["f", "g"]));
    assert_eq!(
        (&report_after["os"], &report_after["api_version"]),
        (&report_before["os"], &report_before["api_version"])
    );
    assert_eq!(read_member(&world, "new.tgz", "image"), b"image");

    world.run(["repack-stemcell", "--empty-image", "stemcell.tgz", "empty.tgz"]).success();
    assert_eq!(read_member(&world, "empty.tgz", "image"), b"");
    let manifest = String::from_utf8(read_member(&world, "empty.tgz", "stemcell.MF")).unwrap();
    assert!(manifest.contains(&format!("sha1: {}", sha1(b""))), "{manifest}");
    let empty = run_json(&world, &["inspect-local-stemcell", "empty.tgz"]);
    assert_eq!(empty["name"], report_before["name"]);

    let run =
        world.run(["repack-stemcell", "--cloud-properties", "[1]", "stemcell.tgz", "x.tgz"]).exits_with(2);
    assert!(run.stderr.contains("--cloud-properties is not valid: line 1"), "{}", run.stderr);
    // A parser whose time grows with the square of the depth would not end.
    let deep = format!("{{a: {}", "[".repeat(100_000));
    let run =
        world.run(["repack-stemcell", "--cloud-properties", &deep, "stemcell.tgz", "x.tgz"]).exits_with(2);
    assert!(run.stderr.contains("recursion limit"), "{}", run.stderr);
    world.run(["repack-stemcell", "stemcell.tgz", "no/such/dir/x.tgz"]).exits_with(3);
    world.run(["repack-stemcell", "--name", "", "stemcell.tgz", "x.tgz"]).exits_with(2);
    assert!(!world.exists("x.tgz"));
    assert_eq!(world.leftovers(), Vec::<String>::new());
}
