//! Tests the scripts in `packaging/` with the binary of the tests instead of a release build. A script wraps
//! the binary, because compressing a debug build takes minutes. `packaging/check` tests them on fresh
//! machines.

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

use crate::support::http::{Server, answer};
use crate::support::process::prepare;
use crate::support::{MONOPILE, Run, World};

const TARGET: &str = concat!(env!("CARGO_PKG_VERSION"), "-x86_64-unknown-linux-gnu");

/// The programs that install.sh needs, without those that download and verify.
const TOOLS: [&str; 22] = [
    "awk", "cat", "cp", "cut", "df", "dirname", "find", "grep", "gzip", "head", "mkdir", "mktemp", "mv",
    "rm", "rmdir", "sed", "sh", "sort", "tail", "tar", "tr", "uname",
];

/// The files of a release, signed, on a server.
struct Release {
    world: World,
    server: Server,
    /// The release key in the format of install.sh.
    key: String,
}

fn packaging(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(script)
}

/// Returns a script that runs the binary of the tests.
fn write_wrapper(world: &World) -> PathBuf {
    let binary = world.write("monopile", format!("#!/bin/sh\nexec '{MONOPILE}' \"$@\"\n"));
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    binary
}

/// Prepares a script of `packaging/` that writes into `release`.
fn script(world: &World, name: &str, arguments: &[&str]) -> Command {
    let mut command = prepare(packaging(name));
    world.enter(&mut command).args(arguments).env("PACKAGE_DIR", world.path("release"));
    command
}

/// Runs a script of `packaging/`.
#[track_caller]
fn make(world: &World, name: &str, arguments: &[&str]) -> Run {
    world.finish(script(world, name, arguments)).success()
}

/// Runs a shell script in the working directory and returns its output.
#[track_caller]
fn run_shell(world: &World, text: &str) -> String {
    let mut command = prepare("sh");
    world.enter(&mut command).args(["-ec", text]);
    world.finish(command).success().stdout
}

/// Returns the files below a directory.
fn files(directory: &Path) -> BTreeSet<String> {
    let entries = walkdir::WalkDir::new(directory).into_iter().map(Result::unwrap);
    entries
        .filter(|entry| !entry.file_type().is_dir())
        .map(|entry| entry.path().strip_prefix(directory).unwrap().to_str().unwrap().to_owned())
        .collect()
}

impl Release {
    fn new() -> Self {
        let world = World::new();
        let binary = write_wrapper(&world);
        make(&world, "archive", &[binary.to_str().unwrap(), "x86_64-unknown-linux-gnu"]);
        run_shell(&world, "ssh-keygen -q -t ed25519 -N '' -C release -f key");
        let key = world.read("key.pub").trim().to_owned();
        let directory = world.path("release");
        let server = Server::start(move |request, _| {
            match std::fs::read(directory.join(request.path().trim_start_matches('/'))) {
                Ok(content) => answer("200 OK", &[], &content),
                Err(_) => answer("404 Not Found", &[], b"not here"),
            }
        });
        let release = Release { world, server, key };
        release.sign();
        release
    }

    fn sign(&self) {
        make(&self.world, "checksums", &[]);
        let [key, public] = ["key", "key.pub"].map(|name| self.world.path(name));
        make(&self.world, "sign", &[key.to_str().unwrap(), public.to_str().unwrap()]);
    }

    fn archive(&self) -> PathBuf {
        self.world.path(format!("release/monopile-{TARGET}.tar.gz"))
    }

    /// Returns a command line that installs the release in `$HOME/.local`.
    fn command_line(&self) -> String {
        let script = packaging("install.sh");
        format!("sh '{}' --key '{}' --from {}", script.display(), self.key, self.server.url("/"))
    }

    /// Runs a shell script with the tools that are named, and no others.
    fn run(&self, text: &str, tools: &[&str]) -> Run {
        let bin = self.world.path("bin");
        let _ = std::fs::remove_dir_all(&bin);
        std::fs::create_dir(&bin).unwrap();
        let path = std::env::var("PATH").unwrap();
        for tool in TOOLS.iter().chain(tools) {
            let program =
                path.split(':').map(|directory| Path::new(directory).join(tool)).find(|file| file.exists());
            symlink(program.unwrap_or_else(|| panic!("{tool} is not installed")), bin.join(tool)).unwrap();
        }
        let mut command = prepare(bin.join("sh"));
        self.world.enter(&mut command).args(["-c", text]).env("PATH", &bin);
        self.world.finish(command)
    }

    /// Asserts that the script fails with this message and leaves nothing.
    #[track_caller]
    fn assert_refused(&self, text: &str, tools: &[&str], message: &str) {
        let run = self.run(text, tools).exits_with(1);
        assert!(run.stderr.contains(message), "{}", run.stderr);
        assert!(run.stderr.starts_with("install.sh: ") && run.stderr.contains("\n  "), "{}", run.stderr);
        assert_eq!(files(&self.world.home()), BTreeSet::new());
    }
}

const ALL: [&str; 3] = ["curl", "sha256sum", "ssh-keygen"];

#[test]
fn release_is_complete_and_its_program_runs() {
    let world = World::new();
    let binary = write_wrapper(&world);
    for step in ["archive", "deb"] {
        make(&world, step, &[binary.to_str().unwrap(), "x86_64-unknown-linux-gnu"]);
    }
    make(&world, "installer", &[]);
    make(&world, "checksums", &[]);
    assert_eq!(run_shell(&world, "cd release; sha256sum -c SHA256SUMS | grep -c OK"), "3\n");

    // Also links of the pages to files that are not packed.
    run_shell(&world, "tar -xzf release/*.tar.gz; mkdir deb; dpkg-deb -x release/*.deb deb");
    let package = world.path(format!("monopile-{TARGET}"));
    let documents = world.path("deb/usr/share/doc/monopile");
    // A file of every Debian.
    world.write("deb/usr/share/common-licenses/Apache-2.0", "");
    let link = Regex::new(r"\]\(([^)#:\s]+)(#[^)]*)?\)").unwrap();
    for root in [&package, &documents] {
        let mut links = 0;
        for page in files(root).into_iter().filter(|file| file.ends_with(".md")) {
            let page = root.join(page);
            let text = std::fs::read_to_string(&page).unwrap();
            for captures in link.captures_iter(&text) {
                let target = page.parent().unwrap().join(&captures[1]);
                assert!(target.exists(), "{}: {} is not packed", page.display(), &captures[1]);
                links += 1;
            }
        }
        assert!(links > 50, "{links} links");
    }
    let man = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/man")).unwrap().count();
    assert_eq!(files(&package.join("man")).len(), man);
    assert_eq!(files(&world.path("deb/usr/share/man/man1")).len(), man);
    assert!(documents.join("examples/director/.monopile.yml").exists());

    // dpkg installs and removes the package in a separate root.
    let dpkg = "dpkg --root=root --force-not-root --force-depends --log=/dev/null";
    run_shell(&world, &format!("mkdir -p root/var/lib/dpkg; {dpkg} -i release/*.deb"));
    let query = "dpkg-query --admindir=root/var/lib/dpkg -W -f '${Status} ${Maintainer}' monopile";
    assert!(run_shell(&world, query).starts_with("install ok installed The monopile maintainers <"));
    let run = make(&world, "try", &[world.path("root/usr").to_str().unwrap()]);
    assert!(run.stdout.contains("Deleted the environment"), "{}", run.stdout);
    run_shell(&world, &format!("{dpkg} --purge monopile; rm -r root/var"));
    assert_eq!(files(&world.path("root")), BTreeSet::new());
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn two_archives_of_one_commit_are_equal() {
    let world = World::new();
    let binary = write_wrapper(&world);
    let arguments = [binary.to_str().unwrap(), "x86_64-unknown-linux-gnu"];
    let mut digests = Vec::new();
    for (epoch, zone) in [("1700000000", "UTC"), ("1700000000", "Pacific/Kiritimati"), ("1700000001", "UTC")]
    {
        for step in ["archive", "deb"] {
            let mut command = script(&world, step, &arguments);
            command.env("SOURCE_DATE_EPOCH", epoch).env("TZ", zone);
            world.finish(command).success();
        }
        digests.push(run_shell(&world, "cd release; sha256sum *"));
        run_shell(&world, "rm -r release; touch monopile; chmod 700 monopile");
    }
    assert_eq!(digests[0], digests[1]);
    let lines = |index: usize| digests[index].lines().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(
        lines(0).intersection(&lines(2)).count(),
        0,
        "the time of the archives is not SOURCE_DATE_EPOCH"
    );
}

#[test]
fn rejects_binaries_over_20_mib() {
    let world = World::new();
    let binary = world.write("monopile", "#!/bin/sh\n");
    let limit = 20 * 1024 * 1024;
    std::fs::OpenOptions::new().write(true).open(&binary).unwrap().set_len(limit + 1).unwrap();
    let run = script(&world, "archive", &[binary.to_str().unwrap(), "x86_64-unknown-linux-gnu"]);
    let run = world.finish(run).exits_with(1);
    assert!(run.stderr.contains("has 20971521 bytes, and may have 20971520"), "{}", run.stderr);
    assert!(!world.path("release").exists());
}

#[test]
fn signing_needs_the_published_ed25519_key() {
    let release = Release::new();
    run_shell(&release.world, "rm release/SHA256SUMS.sig; ssh-keygen -q -t ecdsa -N '' -f ecdsa");
    run_shell(&release.world, "ssh-keygen -q -t ed25519 -N '' -f other");
    let public = release.world.path("key.pub");
    for (key, message) in [
        ("ecdsa", "is no Ed25519 key of OpenSSH: make one with `ssh-keygen"),
        ("other", "/key.pub': users would reject the signature"),
    ] {
        let key = release.world.path(key);
        let run = script(&release.world, "sign", &[key.to_str().unwrap(), public.to_str().unwrap()]);
        let run = release.world.finish(run).exits_with(1);
        assert!(run.stderr.contains(message), "{}", run.stderr);
        assert!(!release.world.exists("release/SHA256SUMS.sig"));
    }
}

#[test]
fn installer_replaces_and_removes_what_it_installed() {
    let release = Release::new();
    let install = release.command_line();
    let prefix = release.world.home().join(".local");
    for tools in [
        &["curl", "sha256sum", "ssh-keygen"],
        &["wget", "sha256sum", "openssl"],
        &["curl", "shasum", "openssl"],
    ] {
        let run = release.run(&install, tools).success();
        assert!(
            run.stdout.contains(&format!("Installed monopile {}", env!("CARGO_PKG_VERSION"))),
            "{}",
            run.stdout
        );
        assert!(
            run.stdout.contains(&format!("export PATH=\"{}/bin:$PATH\"", prefix.display())),
            "{}",
            run.stdout
        );
    }
    make(&release.world, "try", &[prefix.to_str().unwrap()]);

    // The same places as those of the package.
    let installed_files = files(&prefix);
    make(
        &release.world,
        "deb",
        &[release.world.path("monopile").to_str().unwrap(), "x86_64-unknown-linux-gnu"],
    );
    run_shell(&release.world, "dpkg-deb -x release/*.deb deb; rm release/*.deb");
    let mut packaged_files: BTreeSet<String> = files(&release.world.path("deb/usr"))
        .into_iter()
        .map(|file| file.replace(".1.gz", ".1").replace("vendor-completions", "site-functions"))
        .collect();
    for file in ["changelog.gz", "copyright"] {
        assert!(packaged_files.remove(&format!("share/doc/monopile/{file}")), "{file}");
    }
    assert!(packaged_files.remove("share/lintian/overrides/monopile"));
    packaged_files.insert("share/monopile/installed-files".to_owned());
    assert_eq!(installed_files, packaged_files);

    // The next release lacks a page.
    let archive = release.archive();
    let archive = archive.display();
    run_shell(
        &release.world,
        &format!("tar -xzf {archive}; rm monopile-*/docs/tour.md; tar -czf {archive} monopile-*-gnu"),
    );
    release.sign();
    std::fs::write(prefix.join("bin/other"), "").unwrap();
    release.run(&install, &ALL).success();
    let mut expected = installed_files;
    expected.insert("bin/other".to_owned());
    assert!(expected.remove("share/doc/monopile/docs/tour.md"));
    assert_eq!(files(&prefix), expected);

    let remove = format!("sh '{}' --remove", packaging("install.sh").display());
    release.run(&remove, &ALL).success();
    assert_eq!(files(&prefix), BTreeSet::from(["bin/other".to_owned()]));
    assert!(!prefix.join("share").exists());
    let run = release.run(&remove, &ALL).exits_with(1);
    assert!(run.stderr.contains("has no monopile from this script"), "{}", run.stderr);
}

#[test]
fn installer_refuses_changed_files() {
    let release = Release::new();
    let install = release.command_line();
    let openssl = ["curl", "sha256sum", "openssl"];
    let original = std::fs::read(release.archive()).unwrap();
    let mut bad_archive = original.clone();
    let middle = bad_archive.len() / 2;
    bad_archive[middle] ^= 1;
    std::fs::write(release.archive(), &bad_archive).unwrap();
    release.assert_refused(&install, &ALL, "has the wrong checksum. Nothing was installed");

    // The list of checksums fits the changed archive, and its signature does not.
    let signature = release.world.read("release/SHA256SUMS.sig");
    make(&release.world, "checksums", &[]);
    release.world.write("release/SHA256SUMS.sig", &signature);
    for tools in [&ALL, &openssl] {
        release.assert_refused(&install, tools, "are not signed by the release key. Nothing was installed");
    }
    // Another key signed it.
    release.sign();
    run_shell(&release.world, "ssh-keygen -q -t ed25519 -N '' -f other");
    let other = install.replace(&release.key, release.world.read("other.pub").trim());
    for tools in [&ALL, &openssl] {
        release.assert_refused(&other, tools, "are not signed by the release key. Nothing was installed");
    }
    // A signature of the release key for another purpose.
    run_shell(&release.world, "rm release/*.sig; ssh-keygen -q -Y sign -f key -n git release/SHA256SUMS");
    for tools in [&ALL, &openssl] {
        release.assert_refused(&install, tools, "are not signed by the release key. Nothing was installed");
    }
    run_shell(&release.world, "rm release/*.sig");
    release.assert_refused(&install, &ALL, "/SHA256SUMS.sig' does not exist (404)");
}

#[test]
fn signals_do_not_interrupt_the_replacement() {
    let release = Release::new();
    // Each rename below the prefix sends signals to the script.
    let signals = "mv() { kill -TERM $$; kill -INT $$; command mv \"$@\"; }";
    let text = std::fs::read_to_string(packaging("install.sh")).unwrap();
    let begin = "    trap '' INT TERM HUP\n";
    assert_eq!(text.matches(begin).count(), 1);
    release.world.write("install.sh", text.replace(begin, &format!("{begin}    {signals}\n")));
    let url = release.server.url("/");
    let run = release.run(&format!("sh install.sh --key '{}' --from {url}", release.key), &ALL).success();
    assert!(run.stdout.contains("Installed monopile"), "{}", run.stdout);
    release.run(&format!("sh '{}' --remove", packaging("install.sh").display()), &ALL).success();
    assert_eq!(files(&release.world.home()), BTreeSet::new());
}

#[test]
fn installer_explains_failures() {
    let release = Release::new();
    let install = release.command_line();
    let script = format!("sh '{}'", packaging("install.sh").display());
    let command = format!("{script} --key '{}' --from http://127.0.0.1:1", release.key);
    for loader in ["curl", "wget"] {
        let tools = [loader, "sha256sum", "ssh-keygen"];
        release.assert_refused(&format!("{install}other"), &tools, "/other/SHA256SUMS' does not exist (404)");
        release.assert_refused(&command, &tools, "cannot download 'http://127.0.0.1:1/SHA256SUMS': ");
        let install_in_tmpfs = |options: &str, prefix: &str| {
            format!(
                "mkdir -p small; unshare --map-root-user --mount sh -ec '
                mount -t tmpfs -o {options} tmpfs small
                exec \"$@\"' sh {install} --prefix {prefix}"
            )
        };
        let tools = [&tools[..], &["unshare", "mount"]].concat();
        // The first is too small for the archive, the second for its content.
        let archive = std::fs::metadata(release.archive()).unwrap().len();
        for size in [archive / 2, archive * 2] {
            let small = install_in_tmpfs(&format!("size={size}"), "small");
            release.assert_refused(&small, &tools, "': No space left on device\n  There are 0 MiB free");
        }
        let read_only = install_in_tmpfs("ro", "small/monopile");
        release.assert_refused(&read_only, &tools, "cannot write to 'small/monopile': Read-only file system");
    }
    release.assert_refused(&install, &["sha256sum", "openssl"], "neither curl nor wget is installed");
    let verifiers = "neither ssh-keygen (OpenSSH 8.1 or newer) nor openssl (3.0 or newer) is installed";
    release.assert_refused(&install, &["curl", "sha256sum"], verifiers);
    let digests = "none of sha256sum, shasum and openssl is installed";
    release.assert_refused(&install, &["curl", "ssh-keygen"], digests);
    release.assert_refused(&script, &ALL, "does not know a release");
    release.assert_refused(&format!("{script} --from x"), &ALL, "this copy of install.sh has no release key");
    release.assert_refused(&format!("{install} --key x"), &ALL, "nor such a key");
    release.assert_refused(&format!("{install} --other"), &ALL, "unknown argument '--other'");
    release.assert_refused(&format!("unset HOME; {install}"), &ALL, "HOME is not set");

    // Programs for another machine.
    let archive = release.archive();
    let other = archive.to_str().unwrap().replace("x86_64", "riscv64");
    std::fs::rename(&archive, &other).unwrap();
    release.sign();
    release.assert_refused(&install, &ALL, "It has: monopile-0");
    // A part of the script does nothing.
    let text = std::fs::read_to_string(packaging("install.sh")).unwrap();
    release.world.write("part.sh", text.trim_end().strip_suffix("main \"$@\"").unwrap());
    assert_eq!(release.run("sh part.sh", &ALL).success().stdout, "");
}
