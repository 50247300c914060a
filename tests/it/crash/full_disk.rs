//! The state's file system is full down to the last page. Writes are short or fail, and the state is the old
//! one or the new one.

use crate::support::process::prepare;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::hello::Hello;

/// Runs a life whose first run has `pages` free pages for the state. Later runs have room. The life uses its
/// own mount namespace. A `long` state has more than one page, so that a write can be short.
fn run_life((pages, long): (u64, bool)) -> bool {
    let hello = Hello::new();
    let world = &hello.world;
    let run = |command: Command| {
        let quoted_arguments =
            command.get_args().map(|word| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''")));
        format!(
            "'{}' {}",
            command.get_program().to_str().unwrap(),
            quoted_arguments.collect::<Vec<_>>().join(" ")
        )
    };
    let create = run(hello.command("create-env", &[]));
    let delete = run(hello.command("delete-env", &["-n"]));
    std::os::unix::fs::symlink("small/state.json", world.path("state.json")).unwrap();
    if long {
        let state =
            serde_json::json!({"director_id": "d", "installation_id": "i", "padding": "x".repeat(9000)});
        world.write("long.json", state.to_string());
    }
    let script = format!(
        "set -u\n\
         mkdir small && mount -t tmpfs -o size=2m,mode=700 tmpfs small || exit 99\n\
         [ -s long.json ] && cp long.json small/state.json\n\
         head -c 2m /dev/zero >small/filler 2>/dev/null\n\
         truncate -s $(($(stat -c %s small/filler) - {pages} * 4096)) small/filler\n\
         {create} >first.out 2>&1; echo $? >first\n\
         cat small/state.json >state.seen 2>/dev/null\n\
         rm small/filler\n\
         {create} >second.out 2>&1; echo $? >second\n\
         cat small/state.json >deployed.json\n\
         ls cloud/vms cloud/disks cloud/stemcells >cloud.seen\n\
         {delete} >third.out 2>&1; echo $? >third\n\
         ls -A small >left\n\
         mv deployed.json state.json\n"
    );
    let path = world.write("life", script);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = prepare("unshare");
    // Root needs no user namespace for a mount.
    command.args(if rustix::process::geteuid().is_root() { "-m" } else { "-rm" }.split(' '));
    command.args(["--propagation", "private", "bash", "life"]);
    world.enter(&mut command);
    let outcome = world.finish(command);
    let output_of = |name: &str| format!("{pages} pages, {name}:\n{}", world.read(format!("{name}.out")));
    assert_eq!(outcome.code, 0, "{pages} pages: {}{}", outcome.stdout, outcome.stderr);

    let state = world.read("state.seen");
    if !state.is_empty() {
        serde_json::from_str::<serde_json::Value>(&state).unwrap_or_else(|error| panic!("{error}: {state}"));
    }
    let first: i32 = world.read("first").trim().parse().unwrap();
    assert!((0..=5).contains(&first), "{}", output_of("first"));
    // No option that selects another directory helps.
    let first_output = world.read("first.out");
    assert!(first == 0 || !first_output.contains("--cache-dir"), "{}", output_of("first"));
    if first_output.contains("recording the next CPI call in") {
        for text in ["` was not made\n", "small/state.json' is full: free space on it\n"] {
            assert!(first_output.contains(text), "{text}: {}", output_of("first"));
        }
    }
    assert_eq!(world.read("second").trim(), "0", "{}{}", output_of("first"), output_of("second"));
    let recorded_cids = hello.recorded_cids();
    let cloud: Vec<String> = world.read("cloud.seen").lines().map(str::to_owned).collect();
    for cid in cloud.iter().filter(|line| !line.is_empty() && !line.starts_with("cloud/")) {
        assert!(recorded_cids.contains(cid), "{pages} pages: {cid} is not on record: {recorded_cids:?}");
    }
    assert_eq!(world.read("third").trim(), "0", "{}", output_of("third"));
    assert_eq!(world.read("left"), "", "{pages} pages: left beside the state");
    let leftovers: Vec<String> = hello.leftovers();
    assert!(leftovers.is_empty(), "{pages} pages: {leftovers:?}");
    first == 0
}

#[test]
fn full_disk_corrupts_no_file() {
    let short = |pages: u64| (pages, false);
    let long = |pages: u64| (pages, true);
    let disks: Vec<(u64, bool)> = match crate::support::is_full_sweep() {
        true => (0..=24).map(short).chain((0..=36).map(long)).collect(),
        false => vec![short(0), short(3), short(6), long(1), long(5), long(11)],
    };
    let outcomes: Vec<bool> = disks.into_iter().map(run_life).collect();
    assert!(outcomes.contains(&false), "the disk was never full: {outcomes:?}");
}
