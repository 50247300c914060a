//! Finds the leftovers of the program. They mention the test's directory somewhere, as every process, mount
//! and file of a test does.

use std::path::Path;

pub(super) fn leftovers(root: &Path) -> Vec<String> {
    let mut leftovers = processes(root);
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let root_text = root.to_str().unwrap();
    leftovers
        .extend(mounts.lines().filter(|line| line.contains(root_text)).map(|line| format!("mount {line}")));
    for directory in [root.join("tmp"), root.join("home/.cache/monopile/tmp")] {
        let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
        leftovers.extend(entries.map(|entry| format!("file {}", entry.path().display())));
    }
    leftovers
}

/// Returns other processes whose environment, command line or working directory mentions the world.
fn processes(root: &Path) -> Vec<String> {
    let needle = root.to_str().unwrap().as_bytes();
    let names = |path: &Path| {
        std::fs::read(path).is_ok_and(|text| text.windows(needle.len()).any(|window| window == needle))
    };
    let mut processes = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let directory = entry.path();
        let is_process = entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        if !is_process || entry.file_name().to_str() == Some(&std::process::id().to_string()) {
            continue;
        }
        let is_inside = std::fs::read_link(directory.join("cwd")).is_ok_and(|cwd| cwd.starts_with(root));
        if is_inside || names(&directory.join("environ")) || names(&directory.join("cmdline")) {
            let command = std::fs::read(directory.join("cmdline")).unwrap_or_default();
            // A zombie has no command line.
            if !command.is_empty() {
                let command = String::from_utf8_lossy(&command).replace('\0', " ");
                processes.push(format!("process {} {command}", entry.file_name().display()));
            }
        }
    }
    processes
}

#[cfg(target_os = "linux")]
#[test]
fn finds_processes_and_files() {
    use super::process::{WaitForEnd as _, prepare};
    let world = super::World::new();
    std::fs::write(world.root().join("tmp/forgotten"), "").unwrap();
    let mut sleep = prepare("sleep");
    let mut sleep = world.enter(&mut sleep).arg("60").spawn().unwrap();
    let leftovers = world.leftovers();
    sleep.kill().unwrap();
    sleep.end();
    assert_eq!(leftovers.len(), 2, "{leftovers:?}");
    assert!(leftovers[0].contains("sleep 60") && leftovers[1].ends_with("tmp/forgotten"), "{leftovers:?}");
}
