//! Userlands that are images in a registry.

use base64::Engine as _;

use super::setup::UserlandEnv;
use crate::cpi_release::setup::Machine;
use crate::support::image_registry::{ImageRegistry, USER};
use crate::support::process::{RunToEnd, prepare};
use crate::support::tarballs::Tar;
use crate::support::userland::{release, root};

/// Compresses a layer.
fn zstd(content: &[u8]) -> Vec<u8> {
    let mut command = prepare("zstd");
    let output = command.args(["-q", "-c"]).run_with_input(content);
    assert!(output.status.success(), "zstd (tests/run installs it)");
    output.stdout
}

#[test]
fn image_of_a_registry_is_a_userland() {
    let (machine, registry) = (Machine::new(), ImageRegistry::start());
    let layer = std::fs::read(root()).unwrap();
    let upper_layer = zstd(&Tar::default().file("etc/os-release", "ID=testix\nVERSION_ID=8\n").tar());
    let digest = registry.push("org/jammy", "7", &[&layer, &upper_layer]);
    let host = registry.host();
    let userland = |image: &str, user: &str| {
        UserlandEnv::new(&machine, &release(""), &format!("url: 'oci://{user}{host}/{image}'"))
    };
    let user = format!("{}:{}@", USER.0, USER.1);

    let failed_run = userland("org/jammy:7", "").run_info().exits_with(1);
    for part in ["the userland cannot be used", "401 Unauthorized", "oci://USER:PASSWORD@HOST/NAME"] {
        assert!(failed_run.stderr.contains(part), "{part}: {}", failed_run.stderr);
    }
    let failed_run = userland("org/jammy:8", &user).run_info().exits_with(1);
    assert!(
        failed_run.stderr.contains("404") && failed_run.stderr.contains("its tag"),
        "{}",
        failed_run.stderr
    );

    // The host is that of `docker login`.
    let env = userland("org/jammy:7", "");
    let auth = base64::engine::general_purpose::STANDARD.encode(format!("{}:{}", USER.0, USER.1));
    let config = serde_json::json!({"auths": {&host: {"auth": auth}}});
    let world = &env.env.hello.world;
    world.write(world.home().join(".docker/config.json"), config.to_string());
    let run = env.run_info().success();
    assert!(!format!("{run:?}").contains(USER.1));

    let env = userland("org/jammy:7", &user);
    env.run_info().success();
    // A tag has no digest, by which another machine could find the image.
    let failed_run = env.run(&["cache", "export"], &["bundle.tgz"]).exits_with(3);
    assert!(failed_run.stderr.contains("oci://HOST/NAME@sha256:DIGEST"), "{}", failed_run.stderr);

    let env = userland(&format!("org/jammy@{digest}"), "");
    drop(registry);
    env.run_info().success();
    let export_run = env.run(&["cache", "export"], &["bundle.tgz"]).success();
    assert!(export_run.stdout.starts_with("3 downloads and 0 compiled packages exported"), "{export_run:?}");
    let world = &env.env.hello.world;
    let other = Machine::new();
    let mut import = world.monopile(["cache", "import", "bundle.tgz"]);
    import.env("XDG_CACHE_HOME", other.path("cache"));
    assert_eq!(world.finish(import).success().stdout, "3 entries imported\n");
    let user = UserlandEnv::new(&other, &release(""), &format!("url: 'oci://{host}/org/jammy@{digest}'"));
    user.run_info().success();
}

#[test]
fn stemcell_cannot_be_an_image() {
    let machine = Machine::new();
    let mut user = UserlandEnv::new(&machine, &release(""), "url: host");
    user.env.hello.add_ops(
        "stemcell.yml",
        "- {type: replace, path: /resource_pools/name=vms/stemcell/url, value: 'oci://h/stemcell:1'}\n",
    );
    let failed_run = user.run(&["create-env"], &[]).exits_with(3);
    assert!(failed_run.stderr.contains("only a userland can be an image"), "{}", failed_run.stderr);
}
