//! Examples that no other test runs: the manifests that need a cloud are complete, and the CPI in Python
//! passes `cpi check`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::support::process::{WaitForEnd, lines, receive};
use crate::support::{Run, World};

fn example(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(path)
}

/// Returns a copy of an example's directory.
fn world(directory: &str) -> World {
    let world = World::new();
    for entry in std::fs::read_dir(example(directory)).unwrap() {
        let path = entry.unwrap().path();
        world.write(path.file_name().unwrap(), std::fs::read(&path).unwrap());
    }
    world
}

fn manifest(run: &Run) -> Value {
    let manifest: Value = serde_yaml::from_str(&run.stdout).unwrap();
    assert!(!run.stdout.contains("(("), "{}", run.stdout);
    manifest
}

#[test]
fn director_example_interpolates_with_its_env_file() {
    let world = world("director");
    world.run(["trust"]).success();
    let mut command = world.monopile(["interpolate", "--var-errs"]);
    command.env("AWS_access_key_id", "AKIA").env("AWS_secret_access_key", "s3cret");
    let manifest = manifest(&world.finish(command).success());
    assert_eq!(manifest["cloud_provider"]["properties"]["aws"]["access_key_id"], "AKIA");
    assert_eq!(manifest["instance_groups"][0]["networks"][0]["static_ips"][0], "10.0.0.6");
    let releases = manifest["releases"].as_array().unwrap();
    for job in manifest["instance_groups"][0]["jobs"].as_array().unwrap() {
        assert!(releases.iter().any(|release| release["name"] == job["release"]), "{job}");
    }
    // The generated values match their declarations.
    world.run(["vars", "check"]).success();
    let mut with_tunnel = world.monopile(["int", "--path", "/cloud_provider/ssh_tunnel/host"]);
    with_tunnel.args(["-o", "tunnel.yml", "-v", "private_key=x"]);
    assert_eq!(world.finish(with_tunnel).success().stdout, "10.0.0.6\n");
}

#[test]
fn bare_metal_example_interpolates_with_its_options() {
    let world = world("bare-metal");
    let text = world.read("jumpbox.yml");
    // The options come from the example's own comment.
    let options: Vec<&str> = text
        .lines()
        .take_while(|line| !line.starts_with("name:"))
        .flat_map(|line| line.trim_start_matches('#').split_whitespace())
        .filter(|word| word.contains('='))
        .flat_map(|pair| ["-v", pair])
        .collect();
    let args = ["int", "jumpbox.yml", "--var-errs", "--vars-store", "creds.yml", "-l", "versions.yml"];
    let manifest = manifest(&world.run(args.into_iter().chain(options)).success());
    assert_eq!(manifest["cloud_provider"]["cpi"]["builtin"], "ironic");
    assert_eq!(manifest["cloud_provider"]["cpi"]["properties"]["storage"]["portals"][0], "10.0.0.2:3260");
}

#[test]
fn python_cpi_passes_cpi_check() {
    let world = World::new();
    let mut command = world.monopile(["cpi", "check", "--contract", "v2", "--path"]);
    command.arg(example("cpi/cpi.py")).arg("--stemcell").arg(example("hello/stemcell"));
    let mut check = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // A line for each of many checks: the limit applies to one of them.
    let progress = lines(check.stderr.take().unwrap());
    let lines: Vec<String> = std::iter::from_fn(|| receive("the next check", &progress)).collect();
    assert!(check.end().success(), "{lines:#?}");
    // The cloud is empty again.
    assert_eq!(std::fs::read_dir(world.path("cloud")).unwrap().count(), 0);
    let lines = std::fs::read_to_string(example("cpi/cpi.py")).unwrap();
    assert!(lines.lines().filter(|line| !line.trim().is_empty()).count() <= 65, "sixty lines or so");
}
