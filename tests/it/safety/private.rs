//! Nothing that a run creates can be read by other users, whatever the umask.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::hello::Hello;

/// Returns everything below a directory that others may read or enter, with its mode. Does not enter the
/// content of archives and of VMs, which have their own modes inside private directories.
fn open_to_others(root: &Path) -> Vec<String> {
    let inside = |path: &Path| {
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        parts.iter().any(|part| part.starts_with("vm-") || part.starts_with("disk-") || part == "stemcells")
    };
    let mut open_paths = Vec::new();
    let walk = walkdir::WalkDir::new(root).min_depth(1).into_iter();
    for entry in walk.filter_entry(|entry| !inside(entry.path().strip_prefix(root).unwrap())).flatten() {
        let mode = entry.path().symlink_metadata().unwrap().permissions().mode();
        if !entry.path_is_symlink() && mode & 0o077 != 0 {
            open_paths.push(format!("{:o} {}", mode & 0o7777, entry.path().display()));
        }
    }
    open_paths
}

#[test]
fn all_files_are_private_with_umask_zero() {
    let hello = Hello::new();
    std::fs::remove_dir(hello.world.root().join("tmp")).unwrap();
    let paths_before: Vec<String> = open_to_others(&hello.world.path(""));
    for words in [&["plan"][..], &["create-env"], &["status"], &["logs"], &["delete-env"]] {
        let command = hello.command(words[0], &[]);
        let mut shell = crate::support::process::prepare("sh");
        hello.world.enter(&mut shell);
        shell
            .args(["-c", "umask 000; exec \"$0\" \"$@\""])
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        hello.world.finish(shell).success();
        for root in [hello.world.home(), hello.world.root().join("tmp")] {
            assert_eq!(open_to_others(&root), Vec::<String>::new(), "after {words:?}");
        }
        let mine: Vec<String> = open_to_others(&hello.world.path(""))
            .into_iter()
            .filter(|path| !paths_before.contains(path))
            .collect();
        // The CPI of the tests writes these files itself.
        let cpi_files = ["/cloud", "/calls.", "/requests.jsonl", "/ledger"];
        let mine: Vec<String> =
            mine.into_iter().filter(|path| !cpi_files.iter().any(|name| path.contains(name))).collect();
        assert_eq!(mine, Vec::<String>::new(), "after {words:?}");
    }
}

#[test]
fn next_run_removes_scratch_files_of_a_killed_one() {
    use crate::support::process::{WaitForEnd, wait_until};
    let hello = Hello::new();
    let scratch = || {
        let entries = std::fs::read_dir(hello.world.root().join("tmp")).unwrap();
        entries.flatten().filter(|entry| entry.path().join(".lock").exists()).count()
    };
    let mut command = hello.command("plan", &[]);
    let mut child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn();
    let child = child.as_mut().unwrap();
    wait_until("scratch space", || scratch() > 0);
    child.kill().unwrap();
    child.end();
    assert_eq!(scratch(), 1);
    hello.world.finish(hello.command("plan", &[])).success();
    assert_eq!(scratch(), 0);
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
