//! Releases: `version --check`, the scripts that cut a release, and the recipes of package managers.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::http::{Server, answer};
use crate::support::process::prepare;
use crate::support::{Run, World};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn check(world: &World, server: &Server, extra_args: &[&str]) -> Run {
    let feed = format!("--check={}", server.url("/latest"));
    world.run(["version", &feed].iter().chain(extra_args))
}

fn start_feed(body: &'static str) -> Server {
    Server::start(move |_, _| answer("200 OK", &[], body.as_bytes()))
}

#[test]
fn version_check_names_a_newer_release() {
    let world = World::new();
    let page = "https://example.org/v99.1.0";
    let server =
        start_feed(r#"{"tag_name": "v99.1.0", "html_url": "https://example.org/v99.1.0", "assets": []}"#);
    let run = check(&world, &server, &[]).success();
    assert_eq!(run.stdout, format!("monopile 99.1.0 is available: {page}\nThis is {VERSION}.\n"));
    assert_eq!(run.stderr, "");
    let json: serde_json::Value =
        serde_json::from_str(&check(&world, &server, &["--json"]).success().stdout).unwrap();
    let expected = serde_json::json!({"version": VERSION, "newest": "99.1.0", "newer": true, "url": page});
    assert_eq!(json, expected);
    assert_eq!(server.requests().len(), 2);
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn version_check_knows_the_newest_release() {
    let body = format!(r#"{{"tag_name": "v{VERSION}"}}"#);
    let server = Server::start(move |_, _| answer("200 OK", &[], body.as_bytes()));
    let run = check(&World::new(), &server, &[]).success();
    assert_eq!(run.stdout, format!("monopile {VERSION} is the newest release.\n"));
}

#[test]
fn unusable_answers_of_the_feed_are_errors() {
    for (body, reason) in [
        ("<html>", "it is not JSON: line 1, column 1: JSON does not begin like this"),
        ("{}", "it does not have the string `tag_name`"),
        (r#"{"tag_name": 1}"#, "it does not have the string `tag_name`"),
        (r#"{"tag_name": "nightly\u001b[2J"}"#, "is not a version such as v1.2.3"),
    ] {
        let run = check(&World::new(), &start_feed(body), &[]).exits_with(1);
        assert!(run.stderr.contains("the answer of the release feed cannot be used"), "{}", run.stderr);
        assert!(run.stderr.contains(reason) && !run.stderr.contains('\u{1b}'), "{}", run.stderr);
    }
    let server = Server::start(|_, _| answer("404 Not Found", &[], b""));
    let run = check(&World::new(), &server, &[]).exits_with(1);
    assert!(run.stderr.contains("the server answered 404 Not Found"), "{}", run.stderr);
}

#[test]
fn version_check_without_a_known_feed_asks_for_one() {
    // Cargo.toml names no repository on GitHub.
    let run = World::new().run(["version", "--check"]).exits_with(2);
    assert!(run.stderr.contains("does not know where releases are published"), "{}", run.stderr);
    assert!(run.stderr.contains("version --check=URL"), "{}", run.stderr);
}

/// One file in each folder of generated files.
const GENERATED_FILES: [&str; 3] =
    ["completions/monopile.bash", "docs/man/monopile.1", "tests/it/cpi_release/snapshots/created.snap"];

/// A repository with the files that the release scripts read, and a `cargo` that records its calls.
struct Repository(World);

impl Repository {
    /// Creates a repository with the files that the scripts of a release read, and a `cargo` that only
    /// records its calls.
    fn new() -> Self {
        let world = World::new();
        for path in [
            "Cargo.toml",
            "CHANGELOG.md",
            "src/erb/README.md",
            "src/yaml/README.md",
            "packaging/lib.sh",
            "packaging/tools.sh",
            "packaging/cut-release",
            "packaging/release-notes",
            "packaging/release-check",
            "packaging/release-key.pub",
        ] {
            let target = world.path(path);
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::copy(root().join(path), target).unwrap();
        }
        let cargo = world.write("../bin/cargo", "#!/bin/sh\necho \"$@\" >>../cargo-calls\n");
        std::fs::set_permissions(cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
        let repository = Repository(world);
        for path in GENERATED_FILES {
            repository.0.write(path, "old");
        }
        let changelog =
            "# Changelog\n\n## [Unreleased]\n\n### Deploy\n\n- It is [faster](docs/performance.md).\n";
        repository.0.write("CHANGELOG.md", changelog);
        let begin = "git init -q -b main && git config user.name x && git config user.email x@y && \
                     git add -A && git commit -q -m first";
        repository.sh(begin).success();
        repository
    }

    fn sh(&self, script: &str) -> Run {
        let mut command = prepare("bash");
        self.0.enter(&mut command).args(["-euc", script]);
        let path = format!("{}:{}", self.0.root().join("bin").display(), std::env::var("PATH").unwrap());
        self.0.finish({
            command.env("PATH", path);
            command
        })
    }
}

#[test]
fn cut_release_sets_version_changelog_and_tag() {
    let repository = Repository::new();
    let cut = repository.sh("packaging/cut-release 77.0.1 2026-01-31").success();
    assert_eq!(cut.stdout, "Tagged v77.0.1. To publish it: git push origin HEAD v77.0.1\n");
    assert_eq!(repository.sh("git status --porcelain").stdout, "");
    let manifest = repository.0.read("Cargo.toml");
    assert_eq!(manifest.matches("version = \"77.0.1\"").count(), 3, "{manifest}");
    assert!(repository.0.read("src/erb/README.md").contains("version = \"77.0.1\""));
    assert!(
        repository
            .0
            .read("CHANGELOG.md")
            .contains("## [Unreleased]\n\n## [77.0.1] - 2026-01-31\n\n### Deploy")
    );
    let message = repository.sh("git tag -l --format='%(contents)' v77.0.1").stdout;
    assert!(message.starts_with("monopile 77.0.1\n\n### Deploy\n\n- It is [faster]("), "{message}");
    let calls = std::fs::read_to_string(repository.0.root().join("cargo-calls")).unwrap();
    assert!(calls.contains("update --quiet --workspace\n") && calls.contains("generated_files::"), "{calls}");
}

#[test]
fn release_is_checked_before_it_is_built() {
    let repository = Repository::new();
    repository.sh("packaging/cut-release 77.0.1").success();
    let check = |arguments: &str| repository.sh(&format!("packaging/release-check {arguments}"));
    let assert_refused = |arguments: &str, reason: &str| {
        let run = check(arguments).exits_with(1);
        assert!(run.stderr.contains(reason), "{}", run.stderr);
    };
    let set = |field: &str, value: &str| {
        let script =
            format!("sed -i '/^{field} = /d; s,^.workspace.package.$,&\\n{field} = {value},' Cargo.toml");
        repository.sh(&script).success();
    };
    assert_refused("v1.0.0", "'v1.0.0' is not v77.0.1");
    repository.sh("sed -i '/^repository = /d' Cargo.toml").success();
    assert_refused("v77.0.1", "Cargo.toml names no repository");
    set("repository", "\"https://git.test/m\"");
    set("authors", "[\"A B <a@b.example.org>\"]");
    assert_refused("v77.0.1", "the address of the maintainers in Cargo.toml is a placeholder");
    set("authors", "[\"A B <a@b.test>\"]");
    assert_refused("v77.0.1 https://git.test/fork", "and this is 'https://git.test/fork'");
    repository.sh("echo '# none' >packaging/release-key.pub").success();
    assert_refused("v77.0.1 https://git.test/m", "packaging/release-key.pub is a placeholder");
    repository.sh("echo 'ssh-ed25519 AAAA' >packaging/release-key.pub").success();
    check("v77.0.1 https://git.test/m").success();

    // With an address, links of the notes lead there.
    let notes = repository.sh("packaging/release-notes 77.0.1").success().stdout;
    let link = "[faster](https://git.test/m/blob/v77.0.1/docs/performance.md)";
    assert!(notes.contains(link), "{notes}");
    let missing = repository.sh("packaging/release-notes 77.0.2").exits_with(1);
    assert!(missing.stderr.contains("has no entries below '## [77.0.2]'"), "{}", missing.stderr);
}

#[test]
fn cut_release_refuses_what_it_cannot_release() {
    let repository = Repository::new();
    for (version, reason) in
        [("1.0", "is no version like 1.2.3"), ("v1.0.0", "is no version"), ("0.0.1", "0.0.1 is older than")]
    {
        let run = repository.sh(&format!("packaging/cut-release {version}")).exits_with(1);
        assert!(run.stderr.contains(reason), "{}", run.stderr);
    }
    repository.0.write("new", "x");
    let run = repository.sh("packaging/cut-release 77.0.1").exits_with(1);
    assert!(run.stderr.contains("the checkout has changes"), "{}", run.stderr);
    repository.sh("rm new && git tag v77.0.1").success();
    let run = repository.sh("packaging/cut-release 77.0.1").exits_with(1);
    assert!(run.stderr.contains("the tag v77.0.1 exists"), "{}", run.stderr);
    // A step that fails changes nothing.
    repository.sh("printf '#!/bin/sh\\nexit 1\\n' >../bin/cargo").success();
    let run = repository.sh("packaging/cut-release 77.0.2").exits_with(1);
    assert!(run.stderr.contains("nothing was changed"), "{}", run.stderr);
    assert_eq!(repository.sh("git status --porcelain").stdout, "");
    repository.sh("sed -i '/^- /d' CHANGELOG.md && git commit -qam empty").success();
    let run = repository.sh("packaging/cut-release 77.0.2").exits_with(1);
    assert!(run.stderr.contains("has no entries below '## [Unreleased]'"), "{}", run.stderr);
}

#[test]
fn cut_release_commits_new_generated_files() {
    let repository = Repository::new();
    let generate = "#!/bin/sh\necho new >docs/man/monopile.1; echo new >docs/man/monopile-new.1\n";
    repository.0.write("../bin/cargo", generate);
    repository.sh("packaging/cut-release 77.0.1").success();
    assert_eq!(repository.sh("git status --porcelain").stdout, "");
    let committed_files = repository.sh("git show --format= --name-status HEAD -- docs").stdout;
    assert_eq!(committed_files, "A\tdocs/man/monopile-new.1\nM\tdocs/man/monopile.1\n");
}

#[test]
fn failed_cut_release_leaves_no_commit_tag_or_file() {
    let repository = Repository::new();
    let state = || repository.sh("git rev-parse HEAD; git status --porcelain; git tag; ls -R").stdout;
    let state_before = state();
    let assert_undone = |reason: &str| {
        let run = repository.sh("packaging/cut-release 77.0.1").exits_with(1);
        assert!(run.stderr.contains(reason), "{}", run.stderr);
        assert!(run.stderr.contains("nothing was changed"), "{}", run.stderr);
        assert_eq!(state(), state_before);
    };
    repository.0.write("../bin/cargo", "#!/bin/sh\necho new >docs/man/new.1; echo new >stray\n");
    assert_undone("new files outside of completions docs tests/it/cpi_release/snapshots: stray");
    repository.0.write("../bin/cargo", "#!/bin/sh\necho new >docs/man/new.1; kill -INT $PPID\n");
    assert_undone("");
    // The commit exists when signing fails.
    repository.0.write("../bin/cargo", "#!/bin/sh\necho new >docs/man/new.1\n");
    repository.sh("git config user.signingkey missing && git config gpg.program false").success();
    assert_undone("gpg failed to sign the data");
}

#[test]
fn recipes_have_address_and_digest_of_each_archive() {
    let world = World::new();
    let targets = [
        "x86_64-unknown-linux-musl",
        "aarch64-unknown-linux-musl",
        "x86_64-apple-darwin",
        "aarch64-apple-darwin",
    ];
    let sums: Vec<String> = targets
        .iter()
        .enumerate()
        .map(|(number, target)| format!("{:064x}  monopile-{VERSION}-{target}.tar.gz\n", number + 10))
        .collect();
    let write = |sums: &[String]| {
        world.write("package/SHA256SUMS", sums.concat());
        let mut command = prepare(root().join("packaging/recipes"));
        world.enter(&mut command).env("PACKAGE_DIR", world.path("package"));
        command.arg(world.path("package/SHA256SUMS")).arg("https://git.test/m");
        world.finish(command)
    };
    write(&sums).success();
    let formula = world.read("recipes/homebrew/monopile.rb");
    let flake = world.read("recipes/nix/flake.nix");
    let pkgbuild = world.read("recipes/aur/PKGBUILD");
    for (number, target) in targets.iter().enumerate() {
        let digest = format!("{:064x}", number + 10);
        let file = format!("v{VERSION}/monopile-{VERSION}-{target}.tar.gz");
        let url = format!("\"https://git.test/m/releases/download/{file}\"\n      sha256 \"{digest}\"");
        assert!(formula.contains(&url), "{url} is not in:\n{formula}");
        let archive = format!("target = \"{target}\";\n          sha256 = \"{digest}\"");
        assert!(flake.contains(&archive), "{archive} is not in:\n{flake}");
        let architecture = target.split('-').next().unwrap();
        let sum = format!("sha256sums_{architecture}=('{digest}')");
        assert_eq!(pkgbuild.contains(&sum), target.contains("linux"), "{sum}:\n{pkgbuild}");
    }
    // `cargo binstall` downloads the same files.
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let binstall = "{ repo }/releases/download/v{ version }/monopile-{ version }-{ target }.tar.gz";
    assert!(manifest.contains(&format!("pkg-url = \"{binstall}\"")));

    let run = write(&sums[1..]).exits_with(1);
    let missing = format!("has no SHA-256 digest of 'monopile-{VERSION}-{}.tar.gz'", targets[0]);
    assert!(run.stderr.contains(&missing), "{}", run.stderr);
}
