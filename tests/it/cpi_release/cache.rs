//! Environments and concurrent runs share compiled packages, and `--package-dir` sets the directory of
//! packages.

use std::path::Path;
use std::time::Duration;

use super::setup::{Env, Machine, files};
use crate::support::process::WaitForEnd;

#[test]
fn two_environments_compile_the_cpi_once() {
    let machine = Machine::new();
    let (one, other) = (Env::new(&machine, &machine.release()), Env::new(&machine, &machine.release()));
    one.create(&[]).success();
    let run = other.create(&[]).success();
    assert!(run.stdout.contains("it is in the cache"), "{}", run.stdout);
    assert_eq!(machine.compiled_packages().len(), 4);
    one.delete(&[]).success();
    other.delete(&[]).success();
    assert_eq!(machine.compiled_packages().len(), 4);
}

#[test]
fn concurrent_environments_compile_the_cpi_once() {
    let machine = Machine::new();
    let mut release = machine.release();
    // Compilation is slow enough for the other runs to arrive meanwhile.
    release.packages[3].files[0].1.push_str("sleep 1\n");
    let envs: Vec<Env> = (0..3).map(|_| Env::new(&machine, &release)).collect();
    std::thread::scope(|scope| {
        for env in &envs {
            scope.spawn(|| env.create(&[]).success());
        }
    });
    assert_eq!(machine.compiled_sorted(), ["base", "left", "recorder", "right"]);
    for env in &envs {
        assert_eq!(env.hello.ask_counter(), 1);
        env.delete(&[]).success();
    }
}

#[test]
fn changed_package_and_its_dependents_are_recompiled() {
    let machine = Machine::new();
    let env = Env::new(&machine, &machine.release());
    env.create(&[]).success();
    let mut new_release = machine.release();
    // The version is unchanged, but the content is part of the key.
    new_release.packages[1].files.push(("more".into(), "more".into()));
    new_release.write(&env.hello.world.path("test-cpi.tgz"));
    env.create(&[]).success();
    assert_eq!(machine.compiled_packages()[4..], ["left", "recorder"]);
    env.delete(&[]).success();
    assert_eq!(machine.compiled_packages().len(), 6);
}

#[test]
fn packages_of_one_fingerprint_and_other_content_share_nothing() {
    let machine = Machine::new();
    let release = || {
        let mut release = machine.release();
        release.packages.iter_mut().for_each(|package| package.fingerprint = Some("f".repeat(40)));
        release
    };
    let mut poisoned_release = release();
    poisoned_release.packages[1].files.push(("more".into(), "more".into()));
    let (one, other) = (Env::new(&machine, &poisoned_release), Env::new(&machine, &release()));
    one.create(&[]).success();
    other.create(&[]).success();
    // `base` and `right` are the same, and the other two depend on the content.
    assert_eq!(machine.compiled_packages()[4..], ["left", "recorder"]);
    one.delete(&[]).success();
    other.delete(&[]).success();
}

#[test]
fn packages_in_use_are_not_pruned() {
    use std::time::SystemTime;
    let machine = Machine::new();
    let env = Env::new(&machine, &machine.release());
    env.create(&[]).success();
    let cache = machine.path("cache");
    let age = || {
        let long_ago = SystemTime::now() - Duration::from_secs(100 * 24 * 60 * 60);
        for entry in walkdir::WalkDir::new(&cache).into_iter().flatten() {
            if !entry.file_type().is_symlink() {
                std::fs::File::open(entry.path()).unwrap().set_modified(long_ago).unwrap();
            }
        }
    };
    let prune = || {
        let mut command = env.hello.world.monopile(["cache", "prune"]);
        command.env("XDG_CACHE_HOME", &cache);
        env.hello.world.finish(command).success().stdout
    };
    age();
    env.create(&["--recreate"]).success();
    // These are four packages of the CPI and two of the job.
    assert!(prune().starts_with("0 removed"), "used today");
    assert_eq!(machine.compiled_packages().len(), 4);
    age();
    assert!(prune().starts_with("6 removed"), "not used for long");
    env.delete(&[]).success();
    assert_eq!(machine.compiled_packages().len(), 8);
}

#[test]
fn removed_packages_are_recompiled() {
    let machine = Machine::new();
    let env = Env::new(&machine, &machine.release());
    env.create(&[]).success();
    let recorder =
        files(&machine.path("cache")).into_iter().find(|path| path.ends_with("recorder/bin/recorder"));
    std::fs::remove_dir_all(machine.path("cache").join(recorder.unwrap()).ancestors().nth(2).unwrap())
        .unwrap();
    env.create(&["--recreate"]).success();
    assert_eq!(machine.compiled_packages()[4..], ["recorder"]);
    env.delete(&[]).success();
}

/// Changes a compiled package, and expects the next run to compile this package again before it is used.
fn expect_compiled_again(machine: &Machine, env: &Env, root: &Path, package: &str, change: &dyn Fn(&Path)) {
    let is_in_package = |path: &String| format!("/{path}").contains(&format!("/{package}/"));
    let file = files(root).into_iter().find(is_in_package).expect("the package has a file");
    let compiled_before = machine.compiled_packages().len();
    // The clock of change times ticks every few milliseconds.
    std::thread::sleep(Duration::from_millis(20));
    change(&root.join(file));
    let run = env.create(&["--recreate"]).success();
    let warning = format!("has changed since package '{package}' of the CPI was installed");
    assert!(run.stderr.contains(&warning), "{package}: {}", run.stderr);
    assert_eq!(machine.compiled_packages()[compiled_before..], [package]);
    assert!(!machine.path("evil").exists(), "{package}: the changed package was used");
    let run = env.create(&["--recreate"]).success();
    assert!(!run.stderr.contains("has changed"), "{package}: {}", run.stderr);
    assert_eq!(machine.compiled_packages().len(), compiled_before + 1);
}

#[test]
fn changed_packages_are_found_and_compiled_again() {
    let machine = Machine::new();
    let mut env = Env::new(&machine, &machine.release());
    let evil = format!("#!/bin/bash\ntouch {}\n", machine.path("evil").display());
    let rewrite = |path: &Path| {
        // The time of modification stays the same.
        let time = std::fs::metadata(path).unwrap().modified().unwrap();
        std::fs::write(path, &evil).unwrap();
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    let truncate = |path: &Path| drop(std::fs::File::create(path).unwrap());
    let plant = |path: &Path| std::fs::write(path.with_file_name("planted"), &evil).unwrap();
    let remove = |path: &Path| std::fs::remove_file(path).unwrap();
    type Change<'c> = &'c dyn Fn(&Path);
    let changes: [(&str, Change<'_>); 4] =
        [("recorder", &rewrite), ("left", &truncate), ("base", &plant), ("right", &remove)];
    env.create(&[]).success();
    let cache = machine.path("cache/monopile/cpi");
    for (package, change) in changes {
        expect_compiled_again(&machine, &env, &cache, package, change);
    }
    // Other times alone are no change.
    for path in files(&cache) {
        let path = cache.join(path);
        if !path.is_symlink() {
            std::fs::File::open(path).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
    }
    let compiled_before = machine.compiled_packages().len();
    let run = env.create(&["--recreate"]).success();
    assert!(!run.stderr.contains("has changed"), "{}", run.stderr);
    assert_eq!(machine.compiled_packages().len(), compiled_before);

    let directory = machine.path("packages");
    env.options = vec!["--package-dir".into(), directory.display().to_string()];
    env.create(&["--recreate"]).success();
    expect_compiled_again(&machine, &env, &directory, "recorder", &rewrite);
    env.delete(&[]).success();
}

#[test]
fn killed_compilation_is_restarted() {
    let machine = Machine::new();
    let mut release = machine.release();
    let stop = machine.path("stop");
    std::fs::write(&stop, "").unwrap();
    let script = &mut release.packages[0].files[0].1;
    *script = format!(
        "{script}\necho waiting >> {log}\nwhile [ -e {stop} ]; do sleep 0.1; done\n\
         touch $BOSH_INSTALL_TARGET/last\necho recorded >> {log}\n",
        log = machine.path("compiled").display(),
        stop = stop.display(),
    );
    let env = Env::new(&machine, &release);
    let mut child = env.command("create-env", &[]).stdout(std::process::Stdio::null()).spawn().unwrap();
    // The next run removes the source of the killed one, which the script no longer needs.
    machine.wait_for("waiting");
    child.kill().unwrap();
    child.end();
    // The script of the killed run continues. The next run must not take its output for a complete package,
    // nor compile in the same place at the same time.
    std::thread::scope(|scope| {
        let run = scope.spawn(|| env.create(&[]).success());
        std::thread::sleep(std::time::Duration::from_secs(2));
        assert_eq!(machine.compiled_packages().len(), 5);
        std::fs::remove_file(&stop).unwrap();
        run.join().unwrap();
    });
    let expected = ["recorder", "waiting", "recorded"].repeat(2);
    assert_eq!(machine.compiled_packages()[3..], expected);
    assert_eq!(env.hello.ask_counter(), 1);
    env.delete(&[]).success();
}

#[test]
fn compiled_release_is_used_without_compiling() {
    let machine = Machine::new();
    let source = Env::new(&machine, &machine.release());
    source.create(&[]).success();
    source.delete(&[]).success();
    let cache = machine.path("cache");
    let mut release = machine.release();
    for package in &mut release.packages {
        package.compiled_for = Some("local/1.10".into());
        package.files = match package.name.as_str() {
            "recorder" => {
                let program =
                    files(&cache).into_iter().find(|path| path.ends_with("recorder/bin/recorder")).unwrap();
                vec![("bin/recorder".into(), std::fs::read_to_string(cache.join(program)).unwrap())]
            }
            name => vec![("share".into(), format!("{name}\n"))],
        };
    }
    let env = Env::new(&machine, &release);
    // Programs in a tarball of the tests are not executable.
    env.hello.world.write("requests.jsonl.x", "");
    let mut job = release.clone();
    let cpi = &mut job.jobs[0].templates[0].2;
    *cpi = cpi.replace("exec $packages", "exec bash $packages");
    job.write(&env.hello.world.path("test-cpi.tgz"));
    let run = env.create(&[]).success();
    assert!(run.stdout.contains("Unpacking compiled package 'recorder/"), "{}", run.stdout);
    assert_eq!(machine.compiled_packages().len(), 4);
    assert_eq!(env.hello.ask_counter(), 1);
    let run = env.delete(&[]).success();
    assert!(run.stdout.contains("it is in the cache"), "{}", run.stdout);
}

#[test]
fn package_dir_contains_the_packages() {
    let machine = Machine::new();
    let directory = machine.path("packages");
    let mut env = Env::new(&machine, &machine.release());
    env.options = vec!["--package-dir".into(), directory.display().to_string()];
    env.create(&[]).success();
    for name in ["base/share", "left/share", "right/share", "recorder/bin/recorder"] {
        assert!(directory.join(name).is_file(), "{name}");
    }
    let program = std::fs::read_to_string(directory.join("recorder/bin/recorder")).unwrap();
    assert!(program.contains(directory.join("left/share").to_str().unwrap()), "{program}");
    assert!(!machine.path("cache/monopile/cpi").exists());
    env.create(&["--recreate"]).success();
    assert_eq!(machine.compiled_packages().len(), 4);

    // Another CPI in the same directory replaces changed packages.
    let mut new_release = machine.release();
    new_release.packages[1].files.push(("more".into(), "more".into()));
    new_release.write(&env.hello.world.path("test-cpi.tgz"));
    env.delete(&[]).success();
    assert_eq!(machine.compiled_packages()[4..], ["left", "recorder"]);
}

#[test]
fn package_dir_of_another_user_is_not_used() {
    let machine = Machine::new();
    let directory = machine.path("packages");
    std::fs::create_dir_all(directory.join("left")).unwrap();
    std::fs::write(directory.join("left/precious"), "x").unwrap();
    let mut env = Env::new(&machine, &machine.release());
    env.options = vec!["--package-dir".into(), directory.display().to_string()];
    let run = env.create(&[]).exits_with(3);
    assert!(run.stderr.contains("package 'left' cannot be installed"), "{}", run.stderr);
    assert!(directory.join("left/precious").is_file());
    assert!(machine.compiled_packages().is_empty() && !env.hello.world.exists("state.json"));
}
