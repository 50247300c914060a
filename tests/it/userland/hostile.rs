//! Root file systems that try to lead out of the userland.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::setup::UserlandEnv;
use crate::cpi_release::setup::Machine;
use crate::support::hostile::{self, VICTIM};
use crate::support::process::{RunToEnd, prepare};
use crate::support::tarballs::Tar;
use crate::support::userland::{release, run, unpack_root};

/// Replaces entries of a root file system by links to a directory outside.
fn with_links(root: &Path, outside: &Path) {
    unpack_root(root);
    for path in ["tmp", "run", "dev", "proc", "sys", "var/vcap", "var/tmp", "home", "etc/hosts", "etc/passwd"]
    {
        let link = root.join(path);
        let _ = std::fs::remove_dir_all(&link);
        let _ = std::fs::remove_file(&link);
        symlink(outside.join(path.replace('/', "-")), &link).unwrap();
    }
    symlink("/", root.join("all")).unwrap();
    symlink("/proc/1/root/proc/1/root", root.join("trick")).unwrap();
}

#[test]
fn links_of_a_root_file_system_stay_inside() {
    let machine = Machine::new();
    let (root, outside) = (machine.path("root"), machine.path("outside"));
    for name in ["tmp", "run", "dev", "proc", "sys", "var-vcap", "var-tmp", "home"] {
        std::fs::create_dir_all(outside.join(name)).unwrap();
    }
    std::fs::write(outside.join("etc-hosts"), "outside").unwrap();
    with_links(&root, &outside);
    let script = format!(
        "for path in /tmp /var/tmp ~ /dev/shm; do echo x > $path/more; done
        [[ ! -e {outside} && ! -e /all{outside} && ! -e /trick{outside} && ! -e /all/trick{outside} ]]
        grep -q vcap /etc/passwd",
        outside = outside.display()
    );
    let tarball = machine.path("root.tar");
    run(
        "tar",
        &["-C", &root.display().to_string(), "-cf", &tarball.display().to_string(), "."],
        Path::new("/"),
    );
    for userland in [&root, &tarball] {
        let userland_env =
            UserlandEnv::new(&machine, &release(&script), &format!("url: {}", userland.display()));
        userland_env.run_info().success();
    }
    let files =
        walkdir::WalkDir::new(&outside).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    let paths: Vec<_> = files.map(|entry| entry.path().to_owned()).collect();
    assert_eq!(paths, [outside.join("etc-hosts")]);
    assert_eq!(std::fs::read_to_string(outside.join("etc-hosts")).unwrap(), "outside");
}

#[test]
fn set_uid_bits_have_no_effect() {
    let machine = Machine::new();
    let root = machine.path("root");
    unpack_root(&root);
    let program = root.join("bin/set-uid");
    std::fs::copy(root.join("bin/bash"), &program).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o6755)).unwrap();
    // With -p, bash keeps the rights of its file.
    let script = "[[ $(/bin/set-uid -p -c 'echo $EUID') = 1000 ]]
        cp /bin/bash $BOSH_INSTALL_TARGET/
        if chmod 6755 $BOSH_INSTALL_TARGET/bash; then
            [[ $($BOSH_INSTALL_TARGET/bash -p -c 'echo $EUID') = 1000 ]]
        fi";
    let userland_env = UserlandEnv::new(&machine, &release(script), &format!("url: {}", root.display()));
    userland_env.run_info().success();
    // Only this user can reach what a script made.
    let mode = machine.path("cache/monopile").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}

#[test]
fn devices_of_a_root_file_system_cannot_be_used() {
    let machine = Machine::new();
    let root = machine.path("root");
    unpack_root(&root);
    let make = |name: &str| {
        let path = root.join(name).display().to_string();
        prepare("mknod").args(["-m", "666", &path, "c", "1", "3"]).run_to_end().status.success()
    };
    if !["device", "usr/device", "dev/device"].map(make).contains(&true) {
        eprintln!("not run: this user cannot make devices");
        return;
    }
    let script = "[[ ! -e /device && ! -e /dev/device && -c /usr/device ]]
        if echo x >/usr/device; then exit 9; fi
        echo x >/dev/null";
    let userland_env = UserlandEnv::new(&machine, &release(script), &format!("url: {}", root.display()));
    userland_env.run_info().success();
}

#[test]
fn proc_of_a_userland_leads_nowhere() {
    let machine = Machine::new();
    let outside = machine.path("outside");
    std::fs::write(&outside, "outside").unwrap();
    let script = format!(
        "for path in /proc/1/root /proc/1/cwd /proc/self/root /proc/$PPID/root /proc/self/task/$$/root; do
            [[ ! -e $path{outside} ]]
        done
        for file in /proc/sysrq-trigger /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname \
            /proc/sys/vm/drop_caches; do
            if echo 1 2>/dev/null >$file; then echo \"$file is writable\"; exit 9; fi
        done
        for pid in /proc/[0-9]*; do
            if tr '\\0' ' ' 2>/dev/null <$pid/environ | grep -q MONOPILE_TEST_WORLD; then
                echo \"$pid shows the environment of the run\"
                exit 9
            fi
        done",
        outside = outside.display()
    );
    let userland_env = UserlandEnv::new(
        &machine,
        &release(&script),
        &format!("url: {}", crate::support::userland::root().display()),
    );
    userland_env.run_info().success();
}

#[test]
fn hostile_archives_are_refused_as_userlands() {
    let machine = Machine::new();
    let tarball = machine.path("root.tgz");
    let userlands = machine.path("cache/monopile/userlands");
    std::fs::create_dir_all(&userlands).unwrap();
    let victims = ["", "cache", "cache/monopile", "cache/monopile/userlands"]
        .map(|name| machine.path(name).join(VICTIM));
    for victim in &victims {
        std::fs::write(victim, "untouched").unwrap();
    }
    let userland_env = UserlandEnv::new(&machine, &release(""), &format!("url: {}", tarball.display()));
    let mut problems = Vec::new();
    let cases = hostile::cases(&|| Tar::default().directory("bin"));
    for case in &cases {
        std::fs::write(&tarball, &case.archive).unwrap();
        let run = userland_env.run_info();
        let error = run.stderr.replace('\n', " ");
        // Devices are left out, links belong to the userland, and zstd is accepted.
        let is_left_out = ["character device", "block device", "fifo"].contains(&case.name);
        let reason = if case.name == "zstd" { Some("damaged") } else { case.reason };
        let is_expected = match reason {
            Some(reason) if !case.is_fine_verbatim && !is_left_out => run.code == 3 && error.contains(reason),
            // It is unpacked, but has no programs.
            _ => run.code == 1 && error.contains("the CPI cannot be compiled in the userland"),
        };
        if !is_expected || error.contains("panicked") {
            problems.push(format!("{} ({:?}): {run:?}", case.name, case.reason));
        }
        let is_untouched = |victim| std::fs::read(victim).is_ok_and(|content| content == b"untouched");
        if !victims.iter().all(is_untouched) || Path::new(&hostile::victim()).exists() {
            problems.push(format!("{}: the victim is hurt", case.name));
        }
        let entries = std::fs::read_dir(&userlands).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        let partial_trees: Vec<String> = names.filter(|name| name.starts_with("partial-")).collect();
        if !partial_trees.is_empty() {
            problems.push(format!("{}: {partial_trees:?} are left", case.name));
        }
    }
    assert!(problems.is_empty(), "{} of {} cases:\n{}", problems.len(), cases.len(), problems.join("\n"));
}
