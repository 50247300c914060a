//! `monopile cache`: lists, prunes and verifies the cache.

use crate::support::process::{copy_program, prepare};
use std::fs::File;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::support::World;
use crate::support::tarballs::sha256;

/// Returns a cache with a download from a hundred days ago and a new one.
fn world() -> World {
    let world = World::new();
    let cache = world.home().join(".cache/monopile");
    std::fs::create_dir_all(cache.join("downloads")).unwrap();
    for (name, content, days) in [("old", "12345", 100), ("new", "123", 0)] {
        let path = cache.join("downloads").join(name);
        std::fs::write(path.with_extension("tgz"), content).unwrap();
        let record = json!({"url": format!("https://host/{name}.tgz"),
            "digest": "a9993e364706816aba3e25717850c26c9cd0d89d"});
        std::fs::write(path.with_extension("json"), record.to_string()).unwrap();
        let time = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
        File::options().append(true).open(path.with_extension("json")).unwrap().set_modified(time).unwrap();
    }
    world
}

fn names(world: &World) -> Vec<String> {
    let list: Vec<Value> =
        serde_json::from_str(&world.run(["cache", "list", "--json"]).success().stdout).unwrap();
    list.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn list_shows_entries_with_their_sources() {
    let world = world();
    let text = world.run(["cache", "list"]).success().stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].contains("\tnew.tgz\t3 B\t") && lines[0].ends_with("\thttps://host/new.tgz"), "{text}");
    let output = world.run(["cache", "list", "--tty"]).success().stdout;
    assert!(output.starts_with("KIND") && output.ends_with("\n2 entries, 8 B\n"), "{output}");
    assert_eq!(names(&world), ["new.tgz", "old.tgz"]);

    let empty = World::new();
    assert_eq!(empty.run(["cache", "list", "--json"]).success().stdout.trim(), "[]");
    assert_eq!(empty.run(["cache", "list"]).success().stdout, "");
    assert!(empty.run(["cache", "list", "--tty"]).success().stdout.contains("0 entries"));
    assert!(!empty.home().join(".cache").exists(), "looking makes nothing");
}

/// Root may remove anything, so another user prunes the cache.
#[test]
fn prune_removes_read_only_trees() {
    use std::os::unix::fs::{PermissionsExt, chown};
    const NOBODY: u32 = 65534;
    let world = World::new();
    let package = world.home().join(".cache/monopile/cpi/0123456789abcdef/packages/go/module");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::write(package.join("source.go"), "12345").unwrap();
    let program = world.root().join("monopile");
    copy_program(crate::support::MONOPILE.as_ref(), &program);
    let mut command = prepare(&program);
    if rustix::process::geteuid().is_root() {
        for entry in walkdir::WalkDir::new(world.root()).into_iter().flatten() {
            chown(entry.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command = prepare("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    }
    for directory in [package.as_path(), package.parent().unwrap()] {
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o555)).unwrap();
    }
    world.enter(&mut command).args(["cache", "prune", "--all"]);
    let run = world.finish(command).success();
    assert_eq!(run.stdout, "1 removed, 5 B freed; 0 kept\n");
    assert!(!world.home().join(".cache/monopile/cpi/0123456789abcdef").exists());
}

#[test]
fn prune_removes_entries_unused_for_a_while() {
    let world = world();
    assert_eq!(world.run(["cache", "prune"]).success().stdout, "1 removed, 5 B freed; 1 kept\n");
    assert_eq!(names(&world), ["new.tgz"]);
    let run = world.run(["cache", "prune", "--all", "--json"]).success();
    let result: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result, json!({"removed": 1, "bytes": 3, "kept": 0}));
    assert!(names(&world).is_empty());
    world.run(["cache", "prune", "--unused", "soon"]).exits_with(2);
    world.run(["cache"]).exits_with(2);
}

#[test]
fn verify_finds_damaged_entries() {
    let world = World::new();
    assert_eq!(world.run(["cache", "verify"]).success().stdout, "0 entries verified\n");
    let cache = world.home().join(".cache/monopile");
    let write = |name: String, content: &str| {
        let path = cache.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    let digits = sha256(b"12345").replace("sha256:", "");
    write(format!("downloads/{digits}.tgz"), "12345");
    write(format!("compiled/key.{digits}.tgz"), "12345");
    write("cpi/0123/package.json".into(), r#"{"package": "p", "key": "0123", "stamp": "s"}"#);
    write("cpi/0123/files.json".into(), "{}");
    write("cpi/4567/package.json".into(), r#"{"package": "p", "key": "4567", "stamp": null}"#);
    std::fs::create_dir(cache.join("cpi/0123/packages")).unwrap();
    assert_eq!(world.run(["cache", "verify"]).success().stdout, "3 entries verified\n");
    write("cpi/0123/packages/more".into(), "");
    write(format!("downloads/{digits}.tgz"), "1234");
    let run = world.run(["cache", "verify", "--json"]).exits_with(1);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["entries"], 3, "{report}");
    let problems = report["damaged"].as_array().unwrap();
    assert_eq!(problems.len(), 2, "{report}");
    assert_eq!(problems[1], json!({"kind": "cpi", "name": "0123", "problem": "'more' has changed"}));
    let run = world.run(["cache", "verify"]).exits_with(1);
    assert!(run.stderr.contains("2 of 3 entries of the cache cannot be used"), "{}", run.stderr);
}

#[test]
fn cache_in_use_is_not_pruned() {
    let world = world();
    let path = world.home().join(".cache/monopile/lock");
    let lock = File::create(&path).unwrap();
    lock.lock_shared().unwrap();
    let run = world.run(["cache", "prune", "--all"]).exits_with(4);
    assert!(run.stderr.contains("in use by another run"), "{}", run.stderr);
    assert_eq!(names(&world).len(), 2);
    drop(lock);
    world.run(["cache", "prune", "--all"]).success();
}

#[test]
fn cache_dir_option_moves_the_cache() {
    let world = world();
    assert_eq!(world.run(["cache", "list", "--json", "--cache-dir", "none"]).success().stdout.trim(), "[]");
    let cache_dir = world.home().join(".cache/monopile");
    let run = world.run(["--cache-dir", cache_dir.to_str().unwrap(), "cache", "list"]).success();
    assert!(run.stdout.contains("old.tgz"), "{}", run.stdout);
}
