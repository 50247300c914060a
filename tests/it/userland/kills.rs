//! Runs that are killed or interrupted while a userland is unpacked or a package is compiled in it. The kill
//! sweep of `crash` covers the calls of the CPI.

use std::path::Path;
use std::process::{Child, Stdio};

use super::compile::{packages, url_line};
use super::setup::UserlandEnv;
use crate::cpi_release::setup::{Machine, files};
use crate::support::process::{WaitForEnd, interrupt, wait_until};
use crate::support::userland::release;

fn env(machine: &Machine, script: &str) -> UserlandEnv {
    UserlandEnv::new(machine, &release(script), &url_line())
}

fn start(userland_env: &UserlandEnv) -> Child {
    let mut command = userland_env.command(&["cpi", "info"], &[]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Returns true if the script of `base` has come to its command `sleep`.
fn is_sleeping(machine: &Machine) -> bool {
    let root = machine.path("cache/monopile/cpi");
    let logs = files(&root).into_iter().filter(|path| path.ends_with("packaging.log"));
    logs.map(|log| std::fs::read_to_string(root.join(log)).unwrap_or_default())
        .any(|log| log.contains("+ sleep"))
}

/// Returns true if a part of the userland is unpacked.
fn is_unpacking(machine: &Machine) -> bool {
    let entries = std::fs::read_dir(machine.path("cache/monopile/userlands")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().join("content.partial/usr")).any(|path| path.exists())
}

/// Returns the names of the userlands in a cache, with their records and locks.
fn names_of_userlands(cache: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(cache.join("monopile/userlands")).unwrap().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn next_run_continues_after_a_kill() {
    const SCRIPT: &str = "sleep 1";
    let undisturbed_machine = Machine::new();
    env(&undisturbed_machine, SCRIPT).run_info().success();
    for (moment, has_come) in
        [("unpacking", is_unpacking as fn(&Machine) -> bool), ("compiling", is_sleeping)]
    {
        let machine = Machine::new();
        let userland_env = env(&machine, SCRIPT);
        let mut run = start(&userland_env);
        wait_until(moment, || has_come(&machine));
        run.kill().unwrap();
        assert!(!run.end().success(), "{moment}");
        userland_env.run_info().success();
        let caches = [&machine, &undisturbed_machine].map(|machine| machine.path("cache"));
        assert_eq!(names_of_userlands(&caches[0]), names_of_userlands(&caches[1]), "{moment}");
        assert_eq!(packages(&caches[0]), packages(&caches[1]), "{moment}");
        assert_eq!(userland_env.env.hello.world.leftovers(), Vec::<String>::new(), "{moment}");
    }
}

#[test]
fn interrupted_run_ends_the_scripts() {
    let machine = Machine::new();
    let userland_env = env(&machine, "sleep 100 & sleep 100");
    let run = start(&userland_env);
    wait_until("the script runs", || is_sleeping(&machine));
    interrupt(run);
    wait_until("nothing is left", || userland_env.env.hello.world.leftovers().is_empty());
    assert_eq!(packages(&machine.path("cache")).len(), 0);
}
