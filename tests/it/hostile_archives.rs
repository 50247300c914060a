//! Hostile archives through every entry point of the program: they are rejected with the reason, or accepted
//! if harmless. Nothing is written outside, nothing stays behind, memory is bounded, and no run hangs or
//! panics.

use crate::support::process::{RunToEnd, WAIT_TIMEOUT, WaitForEnd};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::hostile::{self, Case, VICTIM};
use crate::support::tarballs::{StemcellTarball, Tar, sha1};
use crate::support::{Run, World, peak_kib};

/// The memory limit in KiB: the program's code, the stacks of its threads, and the cost of an archive.
const MAX_MEMORY_KIB: u64 = 160 << 10;

/// Returns a world with files that a hostile archive could destroy.
fn world() -> World {
    let world = World::new();
    for place in [world.root().to_owned(), world.root().join("tmp"), world.home(), world.path("")] {
        std::fs::write(place.join(VICTIM), "untouched").unwrap();
    }
    world
}

/// Returns every file, directory and link below a directory, except those of the caches.
fn tree(root: &Path) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    for entry in walkdir::WalkDir::new(root).into_iter().flatten() {
        let name = entry.path().strip_prefix(root).unwrap().display().to_string();
        if name.starts_with("home/.cache") {
            continue;
        }
        let what = match entry.file_type() {
            kind if kind.is_symlink() => format!("link to {:?}", std::fs::read_link(entry.path()).unwrap()),
            kind if kind.is_file() => format!("file {}", sha1(&std::fs::read(entry.path()).unwrap())),
            _ => "directory".to_owned(),
        };
        entries.insert(name, what);
    }
    entries
}

/// Runs the program and returns its peak memory in KiB.
fn run(world: &World, args: &[&str]) -> (Run, u64) {
    let (out, err) = (world.path("out.txt"), world.path("err.txt"));
    let mut command = world.monopile(args);
    command.stdin(Stdio::null());
    command.stdout(std::fs::File::create(&out).unwrap()).stderr(std::fs::File::create(&err).unwrap());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    let mut peak = 0;
    let code = loop {
        // The kernel keeps the peak, so one reading shortly before the end is enough.
        peak = peak.max(peak_kib(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status.code().unwrap_or(-1);
        }
        if start.elapsed() > WAIT_TIMEOUT {
            child.kill().unwrap();
            child.end();
            panic!("{args:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let read = |path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let run = Run { code, stdout: read(&out), stderr: read(&err) };
    std::fs::remove_file(out).unwrap();
    std::fs::remove_file(err).unwrap();
    (run, peak)
}

/// Runs a case through a command that reads `archive` from `it.tgz`, and returns the peak memory in KiB.
/// `reads_all` is true if the command reads the complete archive.
fn drive(
    world: &World,
    case: &Case,
    archive: &[u8],
    args: &[&str],
    reads_all: bool,
    problems: &mut Vec<String>,
) -> u64 {
    world.write("it.tgz", archive);
    let tree_before = tree(world.root());
    let (run, peak) = run(world, args);
    let _ = std::fs::remove_file(world.path("new.tgz"));
    let mut problem = |text: String| problems.push(format!("{}: {args:?}: {text}: {run:?}", case.name));
    let stderr = run.stderr.replace('\n', " ");
    if stderr.contains("this is a bug") || stderr.contains("panicked") {
        problem("it panics".to_owned());
    }
    if run.stderr.contains(['\x1b', '\0']) {
        problem("it drives the terminal".to_owned());
    }
    match case.reason {
        // A command that reads only the first entries may miss defects in later ones.
        _ if !reads_all && run.code == 0 => {}
        Some(reason) if run.code != 3 || !stderr.contains(reason) => {
            problem(format!("it is not refused because '{reason}'"));
        }
        None if run.code != 0 => problem("it is refused".to_owned()),
        _ => {}
    }
    if peak > MAX_MEMORY_KIB {
        problem(format!("it takes {peak} KiB"));
    }
    if tree(world.root()) != tree_before {
        problem(format!("it leaves something: {:?}", tree(world.root())));
    }
    peak
}

#[track_caller]
fn assert_none(problems: Vec<String>) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

fn release_manifest(job: Option<&[u8]>) -> String {
    let mut manifest = "name: it\nversion: '1'\n".to_owned();
    match job {
        Some(job) => {
            let sha1 = sha1(job);
            write!(manifest, "jobs:\n- {{name: j, version: {sha1}, fingerprint: {sha1}, sha1: {sha1}}}\n")
                .unwrap();
        }
        None => manifest.push_str("jobs: []\n"),
    }
    manifest
}

#[test]
fn rejects_hostile_releases() {
    let world = world();
    let mut problems = Vec::new();
    let cases = hostile::cases(&|| Tar::default().file("release.MF", release_manifest(None)));
    assert!(cases.len() >= 100, "{}", cases.len());
    let mut peak = 0;
    for case in &cases {
        let peak_of_case =
            drive(&world, case, &case.archive, &["inspect-local-release", "it.tgz"], true, &mut problems);
        peak = peak.max(peak_of_case);
        drive(&world, case, &case.archive, &["sha2ify-release", "it.tgz", "new.tgz"], true, &mut problems);
    }
    assert_none(problems);
    assert!(peak > 0, "memory is measured");
    println!("{} hostile archives, each read by 2 commands as a release", cases.len());
}

#[test]
fn rejects_hostile_job_archives() {
    let world = world();
    let mut problems = Vec::new();
    let cases =
        hostile::cases(&|| Tar::default().file("job.MF", "name: j\ntemplates: {}\n").file("monit", ""));
    for case in &cases {
        let release = Tar::default()
            .file("release.MF", release_manifest(Some(&case.archive)))
            .file("jobs/j.tgz", &case.archive)
            .tgz();
        drive(&world, case, &release, &["inspect-local-release", "it.tgz"], true, &mut problems);
    }
    assert_none(problems);
}

#[test]
fn rejects_hostile_stemcells() {
    let world = world();
    let mut problems = Vec::new();
    let manifest = "name: s\nversion: '1'\noperating_system: o\nsha1: \
                    da39a3ee5e6b4b0d3255bfef95601890afd80709\n\
                    cloud_properties: {}\n";
    let cases = hostile::cases(&|| Tar::default().file("stemcell.MF", manifest).file("image", ""));
    for case in &cases {
        drive(&world, case, &case.archive, &["inspect-local-stemcell", "it.tgz"], false, &mut problems);
        drive(&world, case, &case.archive, &["repack-stemcell", "it.tgz", "new.tgz"], true, &mut problems);
    }
    assert_none(problems);
}

/// Passes hostile images of stemcells to the built-in CPI, which unpacks them.
#[test]
fn rejects_hostile_stemcell_images() {
    let world = world();
    let config = json!({
        "root": world.path("cloud"),
        "agent": {"mbus": "https://u:p@127.0.0.1:1"},
    });
    world.write("config.json", config.to_string());
    let request = json!({
        "method": "create_stemcell", "arguments": [world.path("it.tgz"), {}],
        "context": {"director_uuid": "d", "request_id": "r"}, "api_version": 2,
    });
    let mut problems = Vec::new();
    for case in hostile::cases(&|| Tar::default().directory("etc")) {
        world.write("it.tgz", &case.archive);
        let mut command = world.monopile(["cpi-exec", "local", "--config", "config.json"]);
        let tree_before = tree(world.root());
        let output = command.run_with_input(request.to_string().as_bytes());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let message = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
        let is_rejected = match case.reason {
            Some(reason) if !case.is_fine_verbatim => message.contains(reason) && answer["result"].is_null(),
            _ => answer["error"].is_null() && answer["result"].is_string(),
        };
        if !is_rejected {
            problems.push(format!("{}: {answer}", case.name));
        }
        let mut tree_after = tree(world.root());
        tree_after.retain(|name, _| !name.starts_with("work/cloud"));
        let mut tree_before = tree_before;
        tree_before.retain(|name, _| !name.starts_with("work/cloud"));
        if tree_after != tree_before {
            problems.push(format!("{}: it leaves something: {tree_after:?}", case.name));
        }
        let modes = walkdir::WalkDir::new(world.path("cloud")).into_iter().flatten();
        for entry in modes.filter(|entry| entry.file_type().is_file() || entry.file_type().is_dir()) {
            let mode = std::os::unix::fs::PermissionsExt::mode(&entry.metadata().unwrap().permissions());
            if mode & 0o7000 != 0 {
                problems.push(format!("{}: {} has mode {mode:o}", case.name, entry.path().display()));
            }
        }
        let _ = std::fs::remove_dir_all(world.path("cloud"));
    }
    assert_none(problems);
}

/// Passes hostile sources of packages, compiled packages and rendered templates to the built-in agent, which
/// unpacks them.
#[cfg(target_os = "linux")]
#[test]
fn agent_rejects_hostile_blobs() {
    let vm = crate::agent::agent_vm::AgentVm::new();
    let victim = vm.base().join("data").join(VICTIM);
    std::fs::write(&victim, "untouched").unwrap();
    let mut problems = Vec::new();
    for case in hostile::cases(&|| Tar::default().file("packaging", "true\n")) {
        let (id, digest) = vm.upload(&case.archive);
        let package = json!({"name": "d", "version": "1", "sha1": digest, "blobstore_id": id});
        let outcomes = [
            ("source", vm.call("compile_package", json!([id, digest, "p", "1", {}]))),
            ("compiled", vm.call("compile_package", json!([id, digest, "q", "1", {"d": package}]))),
            (
                "templates",
                vm.call(
                    "prepare",
                    json!([{
                        "deployment": "x", "name": "x", "index": 0, "networks": {}, "packages": {},
                        "configuration_hash": case.name,
                        "job": {"name": "x", "templates": [{"name": "no-such-job", "version": "1"}]},
                        "rendered_templates_archive": {"sha1": digest, "blobstore_id": id},
                    }]),
                ),
            ),
        ];
        for (what, outcome) in outcomes {
            let problem = outcome.as_ref().err().cloned().unwrap_or_default();
            let is_expected = match case.reason {
                Some(reason) if !case.is_fine_verbatim => outcome.is_err() && problem.contains(reason),
                // The missing job is reported after the archive was unpacked.
                _ if what == "templates" => problem.contains("no directory"),
                // Sparse scripts and dangling links are compiled and packed like other files.
                _ => outcome.is_ok() || what == "compiled" && !problem.contains("refused"),
            };
            if !is_expected {
                problems.push(format!("{}: {what}: {outcome:?}", case.name));
            }
        }
        if std::fs::read(&victim).unwrap() != b"untouched" || Path::new(&hostile::victim()).exists() {
            problems.push(format!("{}: the victim is hurt", case.name));
        }
        let remaining_files: Vec<_> = walkdir::WalkDir::new(vm.base().join("data"))
            .into_iter()
            .flatten()
            .map(|entry| entry.path().display().to_string())
            .filter(|path| {
                [".partial", ".unpack-", ".incoming-", ".compile-"].iter().any(|part| path.contains(part))
            })
            .collect();
        if !remaining_files.is_empty() {
            problems.push(format!("{}: {remaining_files:?} are left", case.name));
        }
    }
    assert_eq!(vm.send("ping", json!([])), json!({"value": "pong"}));
    assert_none(problems);
}

#[test]
fn bombs_and_many_entries_take_little_memory() {
    let world = world();
    let base = || Tar::default().file("release.MF", release_manifest(None));
    let bomb = hostile::bomb(&base);
    let inner =
        hostile::bomb(&|| Tar::default().file("job.MF", "name: j\ntemplates: {}\n").file("monit", ""));
    let release =
        Tar::default().file("release.MF", release_manifest(Some(&inner))).file("jobs/j.tgz", &inner).tgz();
    let stemcell = StemcellTarball { image: Some(bomb.clone()), ..StemcellTarball::default() }.build();
    let mut problems = Vec::new();
    for (name, archive, command, reason) in [
        ("bomb", bomb, "inspect-local-release", Some("per compressed byte")),
        ("bomb in a release", release, "inspect-local-release", Some("per compressed byte")),
        // Only the CPI reads an image.
        ("bomb in a stemcell", stemcell, "inspect-local-stemcell", None),
        (
            "a million entries",
            hostile::entries(&base, 1_000_000, 0),
            "inspect-local-release",
            Some("entries"),
        ),
        ("names without end", hostile::entries(&base, 20_000, 4000), "inspect-local-release", Some("names")),
    ] {
        let case = Case { name, archive: Vec::new(), reason, is_fine_verbatim: false };
        let start = Instant::now();
        let peak = drive(&world, &case, &archive, &[command, "it.tgz"], true, &mut problems);
        println!(
            "{name}: {} KiB of archive, at most {peak} KiB of memory, {:.1} s",
            archive.len() >> 10,
            start.elapsed().as_secs_f64()
        );
    }
    assert_none(problems);
}
