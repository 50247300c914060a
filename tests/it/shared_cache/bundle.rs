//! `monopile cache export` and `import`: a machine without a network gets everything in one file.

use std::process::Command;

use serde_json::{Value, json};

use super::downloads::{command, serve};
use super::{generate_key, without_network};
use crate::fetch::FetchEnvironment;
use crate::support::hello::{Hello, release_tarball};
use crate::support::http::{Server, part};
use crate::support::process::{RunToEnd, prepare};
use crate::support::tarballs::{StemcellTarball, sha1, sha256};
use crate::support::{MONOPILE, Run};

/// Returns the same command for a machine of its own.
fn on_machine(hello: &Hello, mut command: Command, home: &str) -> Command {
    let home = hello.world.root().join(home);
    std::fs::create_dir_all(&home).unwrap();
    command.env("HOME", home);
    command
}

/// Serves the release and the stemcell of an environment, which has their URLs from now on.
fn serve_artifacts(hello: &mut Hello) -> Server {
    let (release, stemcell) = (release_tarball(hello).build(), StemcellTarball::default().build());
    let digests = (sha256(&release), sha1(&stemcell));
    let server = Server::start(move |request, _| {
        part(request, if request.path() == "/r.tgz" { &release } else { &stemcell }, "\"1\"")
    });
    let ops = format!(
        "- {{type: replace, path: /releases/name=hello/url, value: '{}'}}\n\
         - {{type: replace, path: /releases/name=hello/sha1?, value: '{}'}}\n\
         - {{type: replace, path: /resource_pools/name=vms/stemcell/url, value: '{}'}}\n\
         - {{type: replace, path: /resource_pools/name=vms/stemcell/sha1?, value: '{}'}}\n",
        server.url("/r.tgz"),
        digests.0,
        server.url("/s.tgz"),
        digests.1
    );
    hello.add_ops("served.yml", &ops);
    server
}

#[test]
fn environment_is_deployed_from_a_bundle_without_a_network() {
    let mut hello = Hello::new();
    let server = serve_artifacts(&mut hello);
    generate_key(&hello.world.path(""), "ci");
    // The packages are compiled on a VM.
    hello.create(&[]).success();
    hello.delete(&["--skip-drain"]).success();
    let options = ["bundle.tgz", "--cache-sign", "ci", "--json"];
    let export = hello.subcommand(&["cache", "export"], &options);
    let report = hello.world.finish(export).success();
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!((&report["downloads"], &report["packages"]), (&json!(2), &json!(2)), "{report}");
    let requests = server.requests().len();
    drop(server);
    assert_eq!(requests, 2, "the export downloads nothing again");

    let run_isolated = |command: Command| -> Run {
        hello.world.finish(without_network(&on_machine(&hello, command, "home-b")))
    };
    let trust = ["--cache-trust", "ci.pub"];
    let import = hello.world.monopile([&["cache", "import", "bundle.tgz"][..], &trust].concat());
    assert_eq!(run_isolated(import).success().stdout, "4 entries imported\n");
    let plan =
        run_isolated(hello.command("plan", &[&["--offline", "--json"][..], &trust].concat())).success();
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    assert_eq!(
        plan["packages"],
        json!({"to_compile_count": 0, "cached_count": 2, "precompiled_count": 0}),
        "{plan}"
    );
    // The VM is in the same network namespace.
    let mut script_command = prepare("bash");
    hello.world.enter(&mut script_command);
    let script = "ip link set lo up
        program=$1
        shift 2
        \"$program\" create-env \"$@\" --offline --cache-trust ci.pub
        exec \"$program\" delete-env \"$@\" -n";
    script_command.args(["-ec", script, "bash", MONOPILE]).args(hello.command("create-env", &[]).get_args());
    let run = run_isolated(script_command).success();
    assert!(run.stdout.contains("Uploading compiled package"), "{}", run.stdout);
    assert!(!run.stdout.contains("Compiling package"), "{}", run.stdout);
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn downloads_of_a_bundle_need_no_key() {
    let environment = FetchEnvironment::new();
    let server = serve(&environment);
    let world = &environment.world;
    let export = world.run(["cache", "export", "e.yml", "bundle.tgz", "--cache-dir", "a"]).success();
    assert!(export.stdout.starts_with("2 downloads and 0 compiled packages exported, "), "{export:?}");
    // It is a file like any other, and is not overwritten.
    let failed_run = world.run(["cache", "export", "e.yml", "bundle.tgz", "--cache-dir", "a"]).exits_with(3);
    assert!(failed_run.stderr.contains("'bundle.tgz' already exists"), "{}", failed_run.stderr);
    drop(server);

    let import = world.run(["cache", "import", "bundle.tgz", "--cache-dir", "b"]).success();
    assert_eq!(import.stdout, "2 entries imported\n");
    let offline = environment.command(&["--offline", "--cache-dir", "b"]);
    environment.run_and_fetch_all(without_network(&offline));
    // Unpacked, it is a shared cache in a directory.
    run_script(&environment, "mkdir media && tar -xzf bundle.tgz -C media");
    let url = format!("file://{}", world.path("media").display());
    environment.run_and_fetch_all(without_network(&command(&environment, "c", &url, &["--offline"])));
}

#[test]
fn changed_and_foreign_files_are_not_imported() {
    let environment = FetchEnvironment::new();
    let _server = serve(&environment);
    let world = &environment.world;
    world.run(["cache", "export", "e.yml", "bundle.tgz", "--cache-dir", "a"]).success();
    run_script(
        &environment,
        "mkdir changed && tar -xzf bundle.tgz -C changed
        echo x >>changed/downloads/sha1-*
        tar -czf changed.tgz -C changed downloads
        head -c 1000 bundle.tgz >short.tgz
        mkdir other && echo x >other/x && tar -czf other.tgz other
        tar -czf empty.tgz -T /dev/null",
    );
    let failed_import = world.run(["cache", "import", "changed.tgz", "--cache-dir", "b"]).exits_with(1);
    assert!(failed_import.stdout.contains("downloads\tsha1-"), "{failed_import:?}");
    assert!(
        failed_import.stderr.contains("1 of 2 entries of 'changed.tgz' cannot be used"),
        "{failed_import:?}"
    );
    // An export of a manifest without downloads makes such a file.
    let empty_import = world.run(["cache", "import", "empty.tgz", "--cache-dir", "c"]).success();
    assert!(empty_import.stderr.contains("'empty.tgz' is empty: nothing was imported"), "{empty_import:?}");
    // The other entry is there.
    let list = world.run(["cache", "list", "--cache-dir", "b"]).success();
    assert_eq!(list.stdout.matches("downloads\t").count(), 1, "{}", list.stdout);
    for (file, code, part) in [
        ("short.tgz", 3, "short.tgz"),
        ("other.tgz", 3, "is not a bundle"),
        ("missing.tgz", 3, "the bundle 'missing.tgz' does not exist"),
    ] {
        let failed_run = world.run(["cache", "import", file, "--cache-dir", "c"]).exits_with(code);
        assert!(failed_run.stderr.contains(part), "{}", failed_run.stderr);
    }
}

#[track_caller]
fn run_script(environment: &FetchEnvironment, script: &str) {
    let mut bash = prepare("bash");
    bash.args(["-ec", script]).current_dir(environment.world.path(""));
    assert!(bash.run_to_end().status.success());
}
