//! The URL of a shared state: commands that read or change the state there, and invalid URLs.

use serde_json::{Value, json};

use crate::support::World;
use crate::support::bucket::{Bucket, SECRET};
use crate::support::hello::Hello;

fn run(world: &World, bucket: &Bucket, args: &[&str], extra_vars: &[(&str, &str)]) -> crate::support::Run {
    let mut command = world.monopile(args);
    bucket.set_credentials(&mut command);
    command.envs(extra_vars.iter().copied());
    world.finish(command)
}

#[test]
fn every_command_works_on_every_machine() {
    let mut hello = Hello::new();
    let bucket = hello.share();
    hello.create(&[]).success();
    hello.change_machine();
    let vm = hello.state()["current_vm_cid"].as_str().unwrap().to_owned();
    let state = |words: &[&str]| hello.world.finish(hello.state_command(words));
    assert!(state(&["state", "show"]).success().stdout.contains(&vm));
    assert!(state(&["disks"]).success().stdout.contains("disk-"));
    assert!(state(&["stemcells"]).success().stdout.contains("stemcell-"));
    let on = |words: &[&str]| hello.world.finish(hello.subcommand(words, &[]));
    assert!(on(&["status"]).success().stdout.contains(&vm));
    on(&["state", "verify"]).success();
    on(&["plan"]).success();
    on(&["stop-env"]).success();
    on(&["start-env"]).success();
    assert!(on(&["create-env"]).success().stdout.contains("Nothing to do"));
    let history = state(&["history"]).success().stdout;
    assert!(history.contains("stop-env") && !history.contains("Deployed '"), "of this machine: {history}");
    hello.delete(&[]).success();
    assert_eq!(bucket.keys(), Vec::<String>::new());
    for machine in ["home", "home-b"] {
        let calls = hello.world.root().join(machine).join(".local/state/monopile/calls");
        let entries: Vec<_> = walkdir::WalkDir::new(calls).min_depth(1).into_iter().flatten().collect();
        assert!(entries.is_empty(), "{entries:?}");
    }
}

#[test]
fn shared_state_can_be_repaired() {
    let mut hello = Hello::new();
    let bucket = hello.share();
    hello.create(&[]).success();
    let state = hello.state();
    let (vm, disk) = (state["current_vm_cid"].as_str().unwrap(), state["disks"][0]["cid"].as_str().unwrap());
    let stemcell = state["stemcells"][0]["cid"].as_str().unwrap();
    let stemcell_with_name = format!("{stemcell}=bosh-local-hello-go_agent/1.0");
    let import = ["--vm", vm, "--disk", disk, "--stemcell", &stemcell_with_name];
    let on = |extra_args: &[&str]| hello.world.finish(hello.subcommand(&["state", "import"], extra_args));
    let failed_run = on(&import).exits_with(3);
    assert!(failed_run.stderr.contains(&format!("the state '{}' exists already", bucket.url("state.json"))));
    bucket.delete("state.json");
    on(&import).success();
    hello.change_machine();
    hello.create(&[]).success();
    assert_eq!(hello.cloud(), hello.recorded_cids());
    let forget =
        |cid: &str| hello.world.finish(hello.state_command(&["state", "forget", "--stemcell", cid, "--yes"]));
    forget(stemcell).success();
    assert!(!hello.recorded_cids().contains(stemcell));
    forget(stemcell).exits_with(3);
    let backup = hello.world.finish(hello.state_command(&["state", "backup"])).success();
    assert!(backup.stdout.contains(stemcell), "{}", backup.stdout);
    hello.call("delete_stemcell", json!([stemcell]));
    hello.delete(&[]).success();
    assert_eq!(bucket.keys(), Vec::<String>::new());
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn newest_ten_versions_are_kept() {
    let (world, bucket) = (World::new(), Bucket::new());
    let url = bucket.url("envs/a.json");
    for number in 1..=12 {
        let state = json!({"director_id": "d", "current_manifest_sha": format!("sha-{number}")});
        bucket.put("envs/a.json", state.to_string().as_bytes());
        let backup = run(&world, &bucket, &["state", "backup", "--keep", "--state", &url], &[]).success();
        assert!(backup.stdout.contains(&format!("as version '{number}'")), "{}", backup.stdout);
    }
    let versions = run(&world, &bucket, &["--json", "state", "backup", "--state", &url], &[]).success();
    let versions: Vec<Value> = serde_json::from_str(&versions.stdout).unwrap();
    let names: Vec<&str> = versions.iter().map(|version| version["version"].as_str().unwrap()).collect();
    assert_eq!(names, ["12", "11", "10", "9", "8", "7", "6", "5", "4", "3"]);
    assert_eq!(versions[9]["path"], format!("{url}.versions/3.json"));
    assert_eq!(bucket.keys().len(), 11);
    run(&world, &bucket, &["state", "backup", "--restore", "5", "--yes", "--state", &url], &[]).success();
    assert!(bucket.read("envs/a.json").contains("sha-5"));
}

#[test]
fn wrong_urls_and_buckets_are_reported() {
    let (world, bucket) = (World::new(), Bucket::new());
    let missing = Bucket { name: "no-such-bucket".into(), ..bucket.clone() };
    let url = bucket.url("a.json");
    let show = |bucket: &Bucket, url: &str, extra_vars: &[(&str, &str)]| {
        run(&world, bucket, &["state", "show", "--state", url], extra_vars)
    };
    let missing_state = show(&bucket, &url, &[]).exits_with(3);
    assert!(missing_state.stderr.contains(&format!("there is no state '{url}'")), "{}", missing_state.stderr);
    let missing_bucket = show(&missing, &missing.url("a.json"), &[]).exits_with(1);
    assert!(
        missing_bucket.stderr.contains("the bucket 'no-such-bucket' does not exist"),
        "{}",
        missing_bucket.stderr
    );
    let backup =
        run(&world, &missing, &["state", "backup", "--keep", "--state", &missing.url("a.json")], &[]);
    assert!(backup.exits_with(1).stderr.contains("the bucket 'no-such-bucket' does not exist"));
    let unreachable_server = show(&bucket, &url, &[("AWS_ENDPOINT_URL", "http://127.0.0.1:1")]).exits_with(1);
    for part in [&url, "cannot be reached", "`env | grep -i proxy`"] {
        assert!(unreachable_server.stderr.contains(part), "{part}: {}", unreachable_server.stderr);
    }
    let plain_http = show(&bucket, &url, &[("AWS_ENDPOINT_URL", "http://192.0.2.1")]).exits_with(2);
    assert!(plain_http.stderr.contains("whole network"), "{}", plain_http.stderr);
    assert!(show(&bucket, "s3://bucket", &[]).exits_with(2).stderr.contains("no object in it"));
    assert!(show(&bucket, "ftp://b/k", &[]).exits_with(2).stderr.contains("s3, gs or az, not 'ftp'"));
    let bad_lease = show(&bucket, &url, &[("MONOPILE_STATE_LEASE", "soon")]).exits_with(2);
    assert!(bad_lease.stderr.contains("MONOPILE_STATE_LEASE"), "{}", bad_lease.stderr);
    bucket.put("a.json", b"{\"director_id\": 1}");
    let damaged_state = show(&bucket, &url, &[]).exits_with(3);
    assert!(
        damaged_state.stderr.contains(&format!("the state '{url}' cannot be used")),
        "{}",
        damaged_state.stderr
    );
}

#[test]
fn generated_values_need_a_named_vars_store() {
    let mut hello = Hello::new();
    hello.share();
    let options: Vec<&str> = hello
        .options()
        .into_iter()
        .filter(|option| !["--vars-store", "creds.yml"].contains(option))
        .collect();
    let bucket = Bucket::new();
    let args: Vec<&str> = ["create-env", "hello/manifest.yml"].into_iter().chain(options).collect();
    let failed_run = run(&hello.world, &bucket, &args, &[]).exits_with(3);
    assert!(failed_run.stderr.contains("--vars-store FILE"), "{}", failed_run.stderr);
    assert!(!hello.world.exists("hello/manifest-vars.yml"));
}

#[test]
fn bucket_credentials_are_never_shown() {
    let mut hello = Hello::new();
    let bucket = hello.share();
    let verbose = ["--verbose", "--verbose", "--verbose"];
    // This value would be shown if it were not known to be secret.
    let mut misplaced_command = hello.world.monopile(["state", "show", "--state", &bucket.url(SECRET)]);
    bucket.set_credentials(&mut misplaced_command);
    let mut output = String::new();
    for (command, code) in [(misplaced_command, 3), (hello.command("create-env", &verbose), 0)] {
        let run = hello.world.finish(command).exits_with(code);
        output += &(run.stdout + &run.stderr);
    }
    hello.delete(&[]).success();
    for path in hello.find("home", "") {
        if path.components().any(|part| ["logs", "history"].iter().any(|name| part.as_os_str() == *name)) {
            output += &String::from_utf8_lossy(&std::fs::read(path).unwrap());
        }
    }
    assert!(output.contains("s3://") && !output.contains(SECRET), "the secret is shown, or the URL is not");
}
