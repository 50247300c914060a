//! `status --all`: one line for each environment below a directory or a prefix of a bucket.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::bucket::Bucket;
use crate::support::hello::Hello;
use crate::support::{Run, World};

/// Runs `status --all` on the directory `fleet`.
fn run_status_all(world: &World, extra_args: &[&str]) -> Run {
    let args = ["status", "--all", "fleet", "--agent-timeout", "300ms"];
    world.run(args.iter().chain(extra_args))
}

/// Writes an env file in a directory of the fleet, and trusts it.
fn write_trusted_env_file(world: &World, name: &str, text: &str) {
    let path = world.write(format!("fleet/{name}/.monopile.yml"), text);
    world.run(["trust", path.to_str().unwrap()]).success();
}

/// Returns the column of the row of an environment in the output for a pipe.
fn cell<'o>(output: &'o str, environment: &str, column: usize) -> &'o str {
    let row = output.lines().find(|line| line.split('\t').next() == Some(environment));
    row.unwrap_or_else(|| panic!("{environment}: {output}")).split('\t').nth(column).unwrap()
}

#[test]
fn each_environment_is_a_line_and_the_highest_exit_code_counts() {
    let hello = Hello::new();
    let world = &hello.world;
    hello.create(&[]).success();
    hello.take_requests();
    let path = |name: &str| world.path(name).display().to_string();
    let live = hello.env_file(&path("state.json"), &path("creds.yml"));
    write_trusted_env_file(world, "live", &live);
    let state = hello.state();
    let vm = state["current_vm_cid"].as_str().unwrap();

    let run = run_status_all(world, &[]).success();
    assert_eq!(run.stdout, format!("fleet/live\t0\t{vm}\tanswers\trunning\t-\n"));
    assert_eq!(Hello::methods(&hello.take_requests()), ["info", "has_vm", "has_disk"]);

    // An environment that is not deployed, and an invalid env file.
    write_trusted_env_file(world, "deep/down/empty", &hello.env_file("none.json", &path("creds.yml")));
    world.write("fleet/invalid/.monopile.yml", "no_such_key: 1\n");
    let run = run_status_all(world, &["--no-cpi"]).exits_with(3);
    assert!(hello.take_requests().is_empty(), "--no-cpi");
    let environments: Vec<&str> = run.stdout.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(environments, ["fleet/deep/down/empty", "fleet/invalid", "fleet/live"]);
    assert_eq!(cell(&run.stdout, "fleet/live", 1), "0");
    assert_eq!(cell(&run.stdout, "fleet/deep/down/empty", 1), "3");
    assert!(cell(&run.stdout, "fleet/invalid", 5).contains("no_such_key"), "{}", run.stdout);
    assert!(run.stderr.contains("2 of 3 environments have a problem"), "{}", run.stderr);

    // The agent is dead, which is worse.
    hello.kill_vm();
    let run = run_status_all(world, &["--no-cpi", "--json"]).exits_with(5);
    let rows: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let live = rows.iter().find(|row| row["environment"] == "fleet/live").unwrap();
    assert_eq!(
        (&live["exit_code"], &live["vm"], &live["agent"], &live["jobs"]),
        (&json!(5), &json!(vm), &json!("no"), &json!(null))
    );
    assert!(live["problem"].as_str().unwrap().contains("does not answer"), "{live}");
    assert!(!live["hints"].as_array().unwrap().is_empty(), "{live}");
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn env_files_that_are_not_trusted_run_nothing() {
    let world = World::new();
    let canary = world.path("canary").display().to_string();
    let hostile = format!("manifest: bosh.yml\nvars_exec: [touch, {canary}]\n");
    world.write("fleet/hostile/.monopile.yml", &hostile);
    world.write("fleet/hostile/bosh.yml", "name: x\n");
    let run = run_status_all(&world, &[]).exits_with(3);
    let problem = cell(&run.stdout, "fleet/hostile", 5);
    assert!(problem.contains("is not trusted yet") && !world.exists("canary"), "{problem}");

    // A file above the fleet does not stand in for a link without a target.
    world.write("above.yml", "name: x\n");
    world.write(".monopile.yml", "manifest: above.yml\n");
    world.run(["trust", ".monopile.yml"]).success();
    std::fs::create_dir(world.path("fleet/link")).unwrap();
    symlink("nowhere", world.path("fleet/link/.monopile.yml")).unwrap();
    // Neither is a link followed out of the fleet.
    world.write("elsewhere/env/.monopile.yml", "manifest: bosh.yml\n");
    symlink(world.path("elsewhere"), world.path("fleet/elsewhere")).unwrap();
    let run = run_status_all(&world, &[]).exits_with(3);
    assert!(run.stdout.contains("a link to a file that does not exist"), "{}", run.stdout);
    assert_eq!(run.stdout.lines().count(), 2, "{}", run.stdout);

    // Control characters of a name reach no terminal.
    world.write("fleet/\x1b[31mred/.monopile.yml", "manifest: bosh.yml\n");
    let run = run_status_all(&world, &[]).exits_with(3);
    assert!(!run.stdout.contains('\x1b'), "{:?}", run.stdout);
}

#[test]
fn wrong_places_are_rejected() {
    let world = World::new();
    world.write("file", "");
    std::fs::create_dir(world.path("empty")).unwrap();
    for (place, problem) in [
        ("missing", "'missing' (--all) does not exist"),
        ("file", "'file' (--all) is not a directory"),
        ("empty", "no env file .monopile.yml exists below 'empty'"),
    ] {
        let run = world.run(["status", "--all", place]).exits_with(3);
        assert!(run.stderr.contains(problem) && run.stderr.contains("hint: "), "{}", run.stderr);
    }
    world.run(["status", "--all", "ftp://bucket"]).exits_with(2);
    for extra_args in
        [&["bosh.yml"][..], &["--watch"], &["--state", "x.json"], &["-v", "a=b"], &["--no-env-file"]]
    {
        let run = world.run(["status", "--all", "empty"].iter().chain(extra_args)).exits_with(2);
        assert!(run.stderr.contains("cannot be used with"), "{}", run.stderr);
    }
}

#[test]
fn states_of_a_bucket_are_found_without_their_companions() {
    let mut hello = Hello::new();
    let bucket = hello.share_in(Bucket::new());
    hello.create(&[]).success();
    let state = bucket.get("state.json").unwrap();
    for name in ["envs/a/bosh.json", "envs/b.json", "envs/b.json.versions/1.json", "other/c.json"] {
        bucket.put(name, &state);
    }
    bucket.put("envs/broken.json", b"{");
    bucket.put("envs/creds.yml", b"x: 1\n");
    let run = |prefix: &str| {
        let mut command = hello.world.monopile(["status", "--all", &bucket.url(prefix)]);
        bucket.set_credentials(&mut command);
        hello.world.finish(command)
    };
    let list = run("envs").exits_with(3);
    let rows: Vec<&str> = list.stdout.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(rows, ["envs/a/bosh.json", "envs/b.json", "envs/broken.json"].map(|key| bucket.url(key)));
    let b = bucket.url("envs/b.json");
    let vm = hello.state()["current_vm_cid"].as_str().unwrap().to_owned();
    assert_eq!((cell(&list.stdout, &b, 1), cell(&list.stdout, &b, 2)), ("0", vm.as_str()));
    assert_eq!(cell(&list.stdout, &b, 3), "not asked");
    let problem = cell(&list.stdout, &bucket.url("envs/broken.json"), 5);
    assert!(!problem.is_empty() && problem != "-", "{}", list.stdout);
    assert_eq!(run("other/").success().stdout.lines().count(), 1);
    let none = run("nothing").exits_with(3);
    assert!(none.stderr.contains("there is no state below"), "{}", none.stderr);

    // Each of them can be named alone.
    let mut single_status = hello.world.monopile(["status", &b, "--json"]);
    bucket.set_credentials(&mut single_status);
    let single_status = hello.world.finish(single_status).success();
    assert_eq!(super::parse_document(&single_status)["vm"]["cid"], vm);
    hello.delete(&[]).success();
}
