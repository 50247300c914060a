//! Deploys without a network, with the files of a shared cache in a directory.

use std::process::Command;

use super::downloads::{command, serve};
use super::warnings;
use crate::fetch::FetchEnvironment;
use crate::support::process::prepare;

/// Returns the same command in a namespace without a network.
pub(crate) fn without_network(command: &Command) -> Command {
    let mut inside = prepare("unshare");
    if !rustix::process::geteuid().is_root() {
        inside.args(["--user", "--map-root-user"]);
    }
    inside.arg("--net").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => inside.env(name, value),
            None => inside.env_remove(name),
        };
    }
    inside.current_dir(command.get_current_dir().unwrap());
    inside
}

#[test]
fn files_of_a_directory_are_used_without_a_network() {
    let environment = FetchEnvironment::new();
    let server = serve(&environment);
    let url = format!("file://{}", environment.world.path("media").display());
    let offline = |cache: &str| without_network(&command(&environment, cache, &url, &["--offline"]));
    std::fs::create_dir(environment.world.path("media")).unwrap();
    let missing = environment.world.finish(offline("a")).exits_with(1);
    for part in [
        "2 artifacts cannot be used",
        "/x.tgz' is in no cache",
        "/s.tgz' is in no cache",
        "cache export e.yml bundle.tgz",
    ] {
        assert!(missing.stderr.contains(part), "{part}: {}", missing.stderr);
    }
    environment.run_and_fetch_all(command(&environment, "b", &url, &["--cache-write"]));
    environment.run_and_fetch_all(offline("c"));
    // The cache of the machine is enough.
    environment.run_and_fetch_all(without_network(&environment.command(&["--offline", "--cache-dir", "c"])));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn bucket_is_not_asked_offline() {
    let environment = FetchEnvironment::new();
    let server = serve(&environment);
    // Nothing listens there.
    let mut offline = command(&environment, "a", "s3://b", &["--offline"]);
    offline.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    let failed_run = environment.world.finish(offline).exits_with(1);
    assert_eq!(warnings(&failed_run), Vec::<&str>::new());
    assert_eq!(server.requests().len(), 0);
}
