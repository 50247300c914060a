//! The complete life of an environment whose CPI comes from a release.

use super::setup::{Env, Machine};
use crate::support::hello::Hello;

#[test]
fn cpi_is_compiled_once_from_create_to_delete() {
    let machine = Machine::new();
    let mut env = Env::new(&machine, &machine.release());

    let run = env.create(&[]).success();
    assert!(run.stdout.contains("Compiling package 'recorder/"), "{}", run.stdout);
    assert_eq!(machine.compiled_sorted(), ["base", "left", "recorder", "right"]);
    assert_eq!(machine.compiled_packages()[0], "base");
    assert_eq!(machine.compiled_packages()[3], "recorder");
    assert_eq!(env.hello.ask_counter(), 1);
    let requests = env.hello.take_requests();
    assert_eq!(
        Hello::methods(&requests),
        [
            "info",
            "create_stemcell",
            "create_vm",
            "set_vm_metadata",
            "create_disk",
            "attach_disk",
            "set_disk_metadata"
        ]
    );
    // The CPI's configuration is in its files, so requests do not contain it.
    for request in &requests {
        assert!(
            request["context"].get("root").is_none() && !request.to_string().contains("hunter2"),
            "{request}"
        );
    }
    assert_eq!(env.hello.world.read("requests.jsonl.shares"), "left of base\nright of base\n");
    let modes = env.hello.world.read("requests.jsonl.modes");
    for line in modes.lines() {
        assert!(line.starts_with("700 600 700 ") && line.ends_with("/jobs/test_cpi/bin/cpi"), "{line}");
    }

    // An unchanged run starts no packaging script and no CPI, and does not read the stemcell.
    let run = env.create(&[]).success();
    assert!(run.stdout.contains("Nothing to do") && !run.stdout.contains("Installing"), "{}", run.stdout);
    assert!(env.hello.take_requests().is_empty());

    env.hello.add_ops(
        "greeting.yml",
        "- {type: replace, path: /instance_groups/0/jobs/0/properties/greeting?, value: Ahoy}",
    );
    let run = env.create(&[]).success();
    assert!(run.stdout.contains("Compiling package 'recorder/"), "{}", run.stdout);
    assert_eq!(env.hello.ask_greeting_and_counter(), ("Ahoy".to_owned(), 2));
    assert_eq!(Hello::methods(&env.hello.take_requests()), ["info"]);

    env.create(&["--recreate"]).success();
    assert_eq!(env.hello.ask_greeting_and_counter(), ("Ahoy".to_owned(), 3));
    assert_eq!(
        Hello::methods(&env.hello.take_requests()),
        ["info", "has_vm", "delete_vm", "create_vm", "set_vm_metadata", "attach_disk", "set_disk_metadata"]
    );

    // A deletion needs the CPI's release, and no other artifact of the manifest.
    std::fs::remove_dir_all(env.hello.world.path("hello/release")).unwrap();
    std::fs::remove_dir_all(env.hello.world.path("hello/stemcell")).unwrap();
    env.delete(&[]).success();
    assert_eq!(
        Hello::methods(&env.hello.take_requests()),
        ["info", "has_vm", "delete_vm", "delete_disk", "delete_stemcell"]
    );
    assert_eq!(machine.compiled_packages().len(), 4);
    assert_eq!(env.hello.leftovers(), Vec::<String>::new());
}

#[test]
fn plugin_is_installed_next_to_the_cpi() {
    use crate::support::tarballs::{JobTarball, ReleaseTarball};
    let machine = Machine::new();
    let mut env = Env::new(&machine, &machine.release());
    let plug_in = JobTarball::new("plug_in")
        .spec("packages: [plugged]\nproperties:\n  greeting: {default: from the plug-in}\n")
        .template("plug.erb", "config/plug", "<%= p('greeting') %> of <%= spec.deployment %>\n")
        .template("plain", "bin/plain", "#!/bin/sh\ntrue\n");
    // The package has the name of a build dependency of the CPI, with other content.
    let plugged_package =
        machine.package("plugged", &["base"], "cp $BOSH_PACKAGES_DIR/base/other $BOSH_INSTALL_TARGET/");
    let base = machine.package("base", &[], "cp other $BOSH_INSTALL_TARGET/").file("other", "other base\n");
    env.add_release(
        &ReleaseTarball::new("plug-ins", "1").job(plug_in).package(plugged_package).package(base),
    );
    env.set_templates("[{name: plug_in, release: plug-ins}, {name: test_cpi, release: test-cpi}]");

    let run = env.create(&["--keep-workdir"]).success();
    assert_eq!(machine.compiled_sorted(), ["base", "base", "left", "plugged", "recorder", "right"]);
    let scratch = env.hello.world.root().join("tmp");
    let scratch = std::fs::read_dir(&scratch).unwrap().next().unwrap().unwrap().path();
    assert!(run.stdout.contains(scratch.to_str().unwrap()), "{}", run.stdout);
    let read = |path: &str| std::fs::read_to_string(scratch.join("cpi").join(path)).unwrap();
    assert_eq!(read("jobs/plug_in/config/plug"), "from the plug-in of hello\n");
    assert_eq!(read("packages/plugged/other"), "other base\n");
    assert_eq!(read("packages/left/share"), "left of base\n");
    std::fs::remove_dir_all(&scratch).unwrap();
    env.delete(&[]).success();
    assert_eq!(env.hello.leftovers(), Vec::<String>::new());
}

#[test]
fn properties_of_the_cpi_are_not_shown() {
    let machine = Machine::new();
    let mut release = machine.release();
    release.jobs[0].templates[0].2 = "#!/bin/bash\necho 'password: hunter2-of-the-cpi' >&2\nexit 1\n".into();
    let env = Env::new(&machine, &release);
    let run = env.create(&["--verbose", "--verbose"]).exits_with(1);
    let output = format!("{}{}", run.stdout, run.stderr);
    assert!(output.contains("password: <redacted>") && !output.contains("hunter2"), "{output}");
    assert!(!env.hello.world.exists("state.json"));
    assert_eq!(env.hello.leftovers(), Vec::<String>::new());
}
