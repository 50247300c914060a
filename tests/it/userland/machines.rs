//! Packages that several users compile and use.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use super::compile::{packages, url_line};
use super::setup::UserlandEnv;
use crate::cpi_release::setup::Machine;
use crate::support::process::{RunToEnd, copy_program, prepare};
use crate::support::userland::{release, root};
use crate::support::{MONOPILE, Run};

const NOBODY: u32 = 65534;
/// The arguments of `setpriv` for the user `nobody`.
const AS_NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// Gives all files below a directory to the user `nobody`.
fn give_to_nobody(directory: &Path) {
    for entry in walkdir::WalkDir::new(directory).into_iter().flatten() {
        std::os::unix::fs::lchown(entry.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// Runs `cpi info` as the user `nobody` on a machine.
fn run_info_as_nobody(machine: &Machine, userland_env: &UserlandEnv) -> Run {
    let world = &userland_env.env.hello.world;
    let program = machine.path("monopile");
    copy_program(MONOPILE.as_ref(), &program);
    for directory in [machine.path(""), world.root().to_owned()] {
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
        give_to_nobody(&directory);
    }
    let command = userland_env.command(&["cpi", "info"], &[]);
    let mut other = prepare("setpriv");
    other.args(AS_NOBODY).arg(program).args(command.get_args());
    for (name, value) in command.get_envs() {
        value.map(|value| other.env(name, value));
    }
    other.current_dir(command.get_current_dir().unwrap());
    world.finish(other)
}

#[test]
fn compiled_packages_do_not_depend_on_the_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not run: only root can become another user");
        return;
    }
    if !prepare("setpriv").args(AS_NOBODY).args(["unshare", "-Urm", "true"]).run_to_end().status.success() {
        eprintln!("not run: this machine allows no user namespaces");
        return;
    }
    let (one, other) = (Machine::new(), Machine::new());
    UserlandEnv::new(&one, &release(""), &url_line()).run_info().success();
    let tarball = other.path("root.tar");
    std::fs::copy(root(), &tarball).unwrap();
    let userland_env = UserlandEnv::new(&other, &release(""), &format!("url: {}", tarball.display()));
    let run = run_info_as_nobody(&other, &userland_env).success();
    assert!(run.stdout.contains("local-directory"), "{}", run.stdout);
    let compiled_packages = packages(&other.path("cache"));
    assert_eq!(compiled_packages, packages(&one.path("cache")));

    // The other user's cache is used by root.
    let userland_env = UserlandEnv::new(&other, &release(""), &format!("url: {}", tarball.display()));
    for entry in
        walkdir::WalkDir::new(other.path("")).into_iter().flatten().filter(|entry| !entry.path_is_symlink())
    {
        chown(entry.path(), Some(0), Some(0)).unwrap();
    }
    let run = userland_env.run_info().success();
    assert!(!(run.stdout + &run.stderr).contains("Compiling package"));
}
