//! The bosh CLI ignores the keys of userlands, so that one manifest serves both programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::bosh;
use crate::support::hello::Hello;
use crate::support::tarballs::StemcellTarball;

/// Keys of userlands that would make an environment fail if `bosh` read them.
const USERLAND: &str = "{url: /no/such/root.tar, sha1: no-digest, files: [/no/such/file]}";

/// Returns an environment that `bosh` can deploy with the scripted CPI.
fn environment() -> Hello {
    let mut hello = Hello::new();
    let cpi = hello.world.path("scripted");
    bosh::adapt_for_bosh(&mut hello, &cpi);
    StemcellTarball::default().write(&hello.world.path("stemcell.tgz"));
    let stemcell = "- {type: replace, path: /resource_pools/name=vms/stemcell, value: {url: \
        'file://../stemcell.tgz'}}\n";
    hello.add_ops("stemcell.yml", stemcell);
    // The configuration of the CPI has the endpoint of the agent.
    let creds: Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    let password = creds["mbus_bootstrap_password"].as_str().unwrap();
    let config = hello.world.read("local.json").replace("unset:unset", &format!("mbus:{password}"));
    hello.world.write("local.json", config);
    hello
}

/// Deploys an environment with `bosh` and deletes it. Returns the methods that `bosh` called.
fn live(bosh: &Path, hello: &Hello) -> Vec<String> {
    for command in ["create-env", "delete-env"] {
        hello.world.finish(bosh::command(bosh, hello, command)).success();
    }
    assert_eq!(hello.leftovers(), Vec::<String>::new());
    let requests = hello.take_requests();
    Hello::methods(&requests).into_iter().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs the path of a bosh binary in BOSH_CLI"]
fn bosh_ignores_the_keys_of_userlands() {
    let bosh = PathBuf::from(std::env::var_os("BOSH_CLI").expect("the path of a bosh binary in BOSH_CLI"));
    let methods = live(&bosh, &environment());
    assert!(methods.contains(&"create_vm".to_owned()), "{methods:?}");
    let mut hello = environment();
    let ops = format!("- {{type: replace, path: '/cloud_provider/userland?', value: {USERLAND}}}\n");
    hello.add_ops("userland.yml", &ops);
    assert_eq!(live(&bosh, &hello), methods);

    // Both programs print the same manifest and CPI config.
    hello.world.write("cpis.yml", format!("cpis:\n- {{name: a, type: b, userland: {USERLAND}}}\n"));
    let documents = |interpolate: Command, file: &str| {
        let mut command = interpolate;
        command.arg(file).args(["-o", "userland.yml"]);
        let run = hello.world.finish(command).success();
        serde_yaml::from_str::<Value>(&run.stdout).unwrap()
    };
    hello.world.write("userland.yml", "[]\n");
    hello.world.write("m.yml", format!("cloud_provider: {{userland: {USERLAND}}}\n"));
    for file in ["cpis.yml", "m.yml"] {
        let mut theirs = crate::support::process::prepare(&bosh);
        hello.world.enter(&mut theirs).args(["-n", "interpolate"]);
        let theirs = documents(theirs, file);
        assert!(theirs.to_string().contains("no-digest"), "{theirs}");
        assert_eq!(documents(hello.world.monopile(["interpolate"]), file), theirs);
    }
}
