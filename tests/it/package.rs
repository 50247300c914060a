//! Tests `.ci/package` with the binary of the tests instead of a release build. A script wraps the binary,
//! because compressing a debug build takes minutes.

use crate::support::process::prepare;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{MONOPILE, World};

#[test]
fn package_is_complete_and_its_program_runs() {
    let world = World::new();
    let binary = world.write("monopile", format!("#!/bin/sh\nexec '{MONOPILE}' \"$@\"\n"));
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/package");
    let mut command = prepare(package);
    world.enter(&mut command).arg(&binary).env("CARGO_TARGET_DIR", world.path("target"));
    let run = world.finish(command).success();
    assert!(run.stderr.contains("Deleted the environment"), "{}", run.stderr);

    let shell = |text: &str| {
        let mut command = prepare("sh");
        world.enter(&mut command).current_dir(world.path("target/package")).args(["-ec", text]);
        world.finish(command).success().stdout
    };
    assert_eq!(shell("sha256sum -c SHA256SUMS | grep -c OK"), "2\n");
    let listed = shell("dpkg-deb -c *.deb");
    let man = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/man")).unwrap().count();
    assert_eq!(listed.matches(".1.gz").count(), man);
    for path in ["usr/bin/monopile", "share/doc/monopile/copyright", "examples/director/.monopile.yml"] {
        assert!(listed.contains(path), "{path} is not in the package:\n{listed}");
    }
    shell("dpkg-deb -x *.deb unpacked");
    let documents = world.path("target/package/unpacked/usr/share/doc/monopile");
    let link = regex::Regex::new(r"\]\(([^)#:\s]+)(#[^)]*)?\)").unwrap();
    let mut links = 0;
    for page in walkdir::WalkDir::new(&documents).into_iter().map(Result::unwrap) {
        if page.path().extension().is_some_and(|extension| extension == "md") {
            let text = std::fs::read_to_string(page.path()).unwrap();
            for found in link.captures_iter(&text) {
                let target = page.path().parent().unwrap().join(&found[1]);
                assert!(target.exists(), "{}: {} is not packed", page.path().display(), &found[1]);
                links += 1;
            }
        }
    }
    assert!(links > 50, "{links} links");
    // dpkg installs the package into a separate root.
    shell(
        "mkdir -p root/var/lib/dpkg && dpkg --root=root --force-not-root --force-depends --log=/dev/null -i \
            *.deb",
    );
    let state = shell("dpkg-query --admindir=root/var/lib/dpkg -W -f '${Status}' monopile");
    assert_eq!(state, "install ok installed");
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn rejects_binaries_over_20_mib() {
    let world = World::new();
    let binary = world.write("monopile", "#!/bin/sh\n");
    let limit = 20 * 1024 * 1024;
    std::fs::OpenOptions::new().write(true).open(&binary).unwrap().set_len(limit + 1).unwrap();
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/package");
    let mut command = prepare(package);
    world.enter(&mut command).arg(&binary).env("CARGO_TARGET_DIR", world.path("target"));
    let run = world.finish(command).exits_with(1);
    assert!(run.stderr.contains("has 20971521 bytes, and may have 20971520"), "{}", run.stderr);
    assert!(!world.path("target").exists());
}
