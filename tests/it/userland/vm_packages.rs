//! Packages that a CPI and the jobs of the VM share: compiled once, if the CPI is compiled in the stemcell.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::setup::UserlandEnv;
use crate::cpi_release::setup::{Machine, files};
use crate::shared_cache::generate_key;
use crate::support::Run;
use crate::support::bucket::Bucket;
use crate::support::hello::release_tarball;
use crate::support::process::{RunToEnd, prepare};
use crate::support::proxy::AgentProxy;
use crate::support::tarballs::{PackageTarball, ReleaseTarball, StemcellTarball};
use crate::support::userland::{release, root, run, unpack_root};

/// The packages of the release `hello`, which no CPI has.
const HELLO_PACKAGES: [&str; 2] = ["counter", "greeting"];

/// Returns `tool`, which needs `library`.
fn shared_packages() -> [PackageTarball; 2] {
    let tool = "set -e
        mkdir $BOSH_INSTALL_TARGET/bin
        cp tool $BOSH_INSTALL_TARGET/bin/
        ln -s bin/tool $BOSH_INSTALL_TARGET/link
        cat /var/vcap/packages/library/share >$BOSH_INSTALL_TARGET/share
        id -u >$BOSH_INSTALL_TARGET/user";
    let library = "set -e\necho library >$BOSH_INSTALL_TARGET/share";
    let [mut tool, mut library] = [
        PackageTarball::new("tool", tool, &["library"]).file("tool", "a tool\n"),
        PackageTarball::new("library", library, &[]),
    ];
    tool.fingerprint = Some("a".repeat(40));
    library.fingerprint = Some("b".repeat(40));
    [tool, library]
}

/// Adds packages to a release, and `tool` to those of its job.
fn with_packages(mut release: ReleaseTarball, packages: [PackageTarball; 2]) -> ReleaseTarball {
    let spec = &mut release.jobs[0].spec;
    *spec = match spec.contains("packages: [") {
        true => spec.replace("packages: [", "packages: [tool, "),
        false => spec.replace("packages:\n", "packages:\n- tool\n"),
    };
    release.packages.extend(packages);
    release
}

/// Writes a stemcell whose image is the root file system of the tests, with the user of VMs.
fn write_stemcell(path: &Path, version: &str) {
    let directory = crate::support::create_directory();
    let tree = directory.path().join("root");
    unpack_root(&tree);
    std::fs::write(tree.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\nvcap:x:1000:1000::/:/bin/sh\n")
        .unwrap();
    run("tar", &["--sort=name", "--mtime=@0", "-C", "root", "-cf", "image", "."], directory.path());
    let image = std::fs::read(directory.path().join("image")).unwrap();
    StemcellTarball { version: version.into(), image: Some(image), ..StemcellTarball::default() }.write(path);
}

/// An environment whose CPI and VM need the same packages.
struct SharingEnv {
    user: UserlandEnv,
    proxy: AgentProxy,
}

impl SharingEnv {
    /// Creates an environment that is not deployed. `userland` is the value of the key in the manifest, in
    /// which `STEMCELL` becomes the path of the stemcell. `vm_packages` are those of the VM.
    fn new(machine: &Machine, userland: &str, vm_packages: [PackageTarball; 2]) -> SharingEnv {
        let stemcell = machine.path("stemcell.tgz");
        write_stemcell(&stemcell, "1.10");
        let userland = userland.replace("STEMCELL", &stemcell.display().to_string());
        let mut user = UserlandEnv::new(machine, &with_packages(release(""), shared_packages()), &userland);
        let hello = &mut user.env.hello;
        let release = with_packages(release_tarball(hello), vm_packages);
        let release = release.write(&hello.world.path("hello.tgz"));
        let ops = format!(
            "- {{type: replace, path: /releases/name=hello/url, value: {}}}\n\
             - {{type: replace, path: /resource_pools/name=vms/stemcell/url, value: {}}}\n",
            release.display(),
            stemcell.display()
        );
        hello.add_ops("shared.yml", &ops);
        let proxy = hello.proxy_agent();
        SharingEnv { user, proxy }
    }

    /// Deploys. Returns the run and the packages that the VM compiled, after a check that the plan says the
    /// same.
    #[track_caller]
    fn create(&self, options: &[&str]) -> (Run, Vec<String>) {
        self.create_with(options, &|_| {})
    }

    /// Deploys like [`Self::create`], with a change of each command.
    #[track_caller]
    fn create_with(&self, options: &[&str], change: &dyn Fn(&mut Command)) -> (Run, Vec<String>) {
        let world = &self.user.env.hello.world;
        let command = |words: &[&str]| {
            let mut command = self.user.command(words, options);
            change(&mut command);
            world.finish(command).success()
        };
        let plan = command(&["plan"]);
        self.proxy.take();
        let run = command(&["create-env"]);
        let compiled_name = |exchange: crate::support::proxy::Exchange| {
            let name = exchange.message["arguments"][2].as_str().map(str::to_owned);
            name.filter(|_| exchange.name() == "compile_package")
        };
        let mut names: Vec<String> = self.proxy.take().into_iter().filter_map(compiled_name).collect();
        names.sort();
        let counts = format!("Packages: {} to compile, {} from the cache", names.len(), 4 - names.len());
        assert!(plan.stdout.contains(&counts), "{counts}: {}", plan.stdout);
        assert!(run.stdout.contains(&counts), "{counts}: {}", run.stdout);
        (run, names)
    }

    /// Returns the content of a file in the package `tool` of the VM.
    fn read(&self, name: &str) -> String {
        let cloud = self.user.env.hello.world.path("cloud");
        let names = files(&cloud);
        let is_file =
            |path: &&String| path.contains("/data/packages/tool/") && path.ends_with(&format!("/{name}"));
        let paths: Vec<&String> = names.iter().filter(is_file).collect();
        let [path] = paths[..] else { panic!("not one file '{name}': {paths:?}") };
        std::fs::read_to_string(cloud.join(path)).unwrap()
    }
}

#[test]
fn vm_of_the_stemcell_uses_packages_of_the_cpi() {
    let machine = Machine::new();
    let env = SharingEnv::new(&machine, "url: STEMCELL", shared_packages());
    // The modes of files do not depend on the operator.
    let (run, names) = env.create_with(&[], &|command| {
        let mask = || {
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
            Ok(())
        };
        // SAFETY: umask is async-signal-safe.
        #[expect(unsafe_code, reason = "the mask must be that of the new process only")]
        unsafe {
            command.pre_exec(mask);
        }
    });
    assert_eq!(names, HELLO_PACKAGES);
    assert_eq!(run.stdout.matches("Taking compiled package '").count(), 4, "{}", run.stdout);
    assert_eq!((env.read("share"), env.read("user")), ("library\n".to_owned(), "1000\n".to_owned()));
    assert_eq!(env.read("bin/tool"), "a tool\n");

    let listings: Vec<String> = std::fs::read_dir(machine.path("cache/monopile/compiled"))
        .unwrap()
        .map(|entry| {
            let output =
                prepare("tar").args(["--numeric-owner", "-tvzf"]).arg(entry.unwrap().path()).run_to_end();
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    let listing = listings.iter().find(|listing| listing.contains("bin/tool")).unwrap();
    for line in listing.lines() {
        let mode = match line.chars().next() {
            Some('d') => "drwxr-xr-x 0/0 ",
            Some('l') => "lrwxrwxrwx 0/0 ",
            _ => "-rw-r--r-- 0/0 ",
        };
        assert!(line.starts_with(mode), "{listing}");
    }

    let (_, names) = env.create(&["--recreate"]);
    assert_eq!(names, [""; 0]);
}

#[test]
fn bundle_has_packages_of_the_cpi_for_the_vm() {
    let machine = Machine::new();
    generate_key(&machine.path(""), "ci");
    let [key, bundle] = ["ci", "bundle.tgz"].map(|name| machine.path(name).display().to_string());
    let public_key = format!("{key}.pub");
    let env = SharingEnv::new(&machine, "url: STEMCELL", shared_packages());
    let run = env.user.run(&["cache", "export"], &[&bundle, "--cache-sign", &key]).success();
    // Those of the CPI are `base`, `bridge`, and in both forms `library` and `tool`.
    assert!(run.stdout.starts_with("0 downloads and 6 compiled packages exported"), "{run:?}");
    drop(env);

    let other = Machine::new();
    let env = SharingEnv::new(&other, "url: STEMCELL", shared_packages());
    let world = &env.user.env.hello.world;
    let mut import = world.monopile(["cache", "import", &bundle, "--cache-trust", &public_key]);
    import.env("XDG_CACHE_HOME", other.path("cache"));
    assert_eq!(world.finish(import).success().stdout, "6 entries imported\n");
    let (run, names) = env.create(&["--offline", "--cache-trust", &public_key]);
    assert!(!run.stdout.contains("Taking compiled package"), "{}", run.stdout);
    assert_eq!(names, HELLO_PACKAGES);
}

#[test]
fn other_content_is_compiled_on_the_vm() {
    let machine = Machine::new();
    let [mut tool, library] = shared_packages();
    tool.files[1].1 = "another tool\n".into();
    let env = SharingEnv::new(&machine, "url: STEMCELL", [tool, library]);
    assert_eq!(env.create(&[]).1, ["counter", "greeting", "tool"]);
    assert_eq!((env.read("bin/tool"), env.read("user")), ("another tool\n".to_owned(), "0\n".to_owned()));
}

#[test]
fn package_with_another_dependency_is_compiled_on_the_vm() {
    let machine = Machine::new();
    let [tool, mut library] = shared_packages();
    library.files[0].1 = "echo 'another library' >$BOSH_INSTALL_TARGET/share".into();
    let env = SharingEnv::new(&machine, "url: STEMCELL", [tool, library]);
    assert_eq!(env.create(&[]).1, ["counter", "greeting", "library", "tool"]);
    assert_eq!(env.read("share"), "another library\n");
}

#[test]
fn packages_of_another_userland_are_compiled_on_the_vm() {
    for userland in ["root", "other version", "network"] {
        let machine = Machine::new();
        let value = match userland {
            "root" => format!("url: {}", root().display()),
            "other version" => {
                let path = machine.path("other.tgz");
                write_stemcell(&path, "1.11");
                format!("url: {}", path.display())
            }
            _ => "url: STEMCELL, compile_with_network: true".to_owned(),
        };
        let env = SharingEnv::new(&machine, &value, shared_packages());
        assert_eq!(env.create(&[]).1, ["counter", "greeting", "library", "tool"], "{userland}");
    }
}

#[test]
fn packages_that_were_copied_for_the_cpi_are_compiled_on_the_vm() {
    let (keys, bucket) = (Machine::new(), Bucket::new());
    generate_key(&keys.path(""), "ci");
    let key = keys.path("ci").display().to_string();
    let with_cache = |command: &mut Command| {
        command.args(["--cache", &bucket.url("cache")]);
        bucket.set_credentials(command);
    };
    let machine = Machine::new();
    let env = SharingEnv::new(&machine, "url: STEMCELL", shared_packages());
    let mut info = env.user.command(&["cpi", "info"], &["--cache-write", "--cache-sign", &key]);
    with_cache(&mut info);
    env.user.env.hello.world.finish(info).success();

    // The other machine may cease to trust the key.
    let other = Machine::new();
    let env = SharingEnv::new(&other, "url: STEMCELL", shared_packages());
    let public_key = format!("{key}.pub");
    let (run, names) = env.create_with(&["--cache-trust", &public_key], &with_cache);
    assert!(run.stdout.contains("it is in the shared cache"), "{}", run.stdout);
    assert_eq!(names, ["counter", "greeting", "library", "tool"]);
    drop(env);

    // The first machine uploads what it has compiled, also in the form of the VM.
    let env = SharingEnv::new(&machine, "url: STEMCELL", shared_packages());
    let (_, names) = env.create_with(&["--cache-write", "--cache-sign", &key], &with_cache);
    assert_eq!(names, HELLO_PACKAGES);
    let archives = bucket.keys().into_iter().filter(|key| key.starts_with("cache/compiled/"));
    assert_eq!(archives.filter(|key| key.ends_with(".tgz")).count(), 4);
}
