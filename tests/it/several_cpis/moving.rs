//! Moves an environment to another CPI and back.

use super::{Clouds, assert_output_contains, output_of};
use crate::support::hello::Hello;
use crate::support::scripted::{InfoAnswer, Reaction, Script};

#[test]
fn moves_to_another_cpi_and_back_with_a_disk() {
    let clouds = Clouds::new();
    clouds.create("z-east", &[]).success();
    assert_eq!(clouds.hello.ask_counter(), 1);
    let stored_text_before = clouds.hello.world.read("state.json");

    let run = clouds.create("z-west", &[]).exits_with(3);
    assert_output_contains(
        &run,
        "the environment moves from CPI 'east' to CPI 'west', but its persistent disk",
    );
    assert_output_contains(&run, "--recreate-persistent-disks");
    assert_eq!(clouds.hello.world.read("state.json"), stored_text_before);
    assert_eq!(clouds.hello.ask_counter(), 2, "nothing happened to it");

    for (az, cpi, previous_cpi) in
        [("z-west", "west", "east"), ("z-foreign", "cloud", "west"), ("z-east", "east", "cloud")]
    {
        let run = clouds.create(az, &["-n", "--recreate-persistent-disks"]).success();
        assert_eq!(clouds.counts(cpi), [1, 1, 1], "{}", output_of(&run));
        assert_eq!(clouds.counts(previous_cpi), [0, 0, 0], "{}", output_of(&run));
        assert_eq!(clouds.hello.ask_counter(), 1, "the disk is a new one");
        let run = clouds.create(az, &[]).success();
        assert_output_contains(&run, "Nothing to do");
    }
    // The foreign CPI got no request about the disk in the west.
    let requests = clouds.hello.take_requests();
    let create_request = requests.iter().find(|request| request["method"] == "create_vm").unwrap();
    assert_eq!(create_request["arguments"][4], serde_json::json!([]));
    clouds.delete("z-east").success();
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
    assert_eq!(clouds.hello.leftovers(), Vec::<String>::new());
}

/// Checks that the registry is served during the move. The new VM uses contract v2 and needs no registry, but
/// the CPI that deletes the old VM does.
#[test]
fn old_cpi_gets_its_registry_during_a_move() {
    let mut clouds = Clouds::new();
    let ip = clouds.hello.ip().to_owned();
    clouds.hello.add_ops(
        "registry.yml",
        &format!(
            "- {{type: replace, path: /cloud_provider/properties/registry?, \
             value: {{host: {ip}, port: 6901, username: registry, password: no-secret}}}}\n\
             - {{type: remove, path: /instance_groups/name=hello/persistent_disk_pool}}\n"
        ),
    );
    clouds.create("z-foreign", &[]).success();
    assert_eq!(clouds.hello.world.read("registry"), "open\n", "its properties say where it is");
    let mark = clouds.hello.world.path("reached");
    let look = format!("(exec 3<>/dev/tcp/{ip}/6901) && touch {}; cat", mark.display());
    clouds.hello.set_script(Script::with_info(InfoAnswer::Version(1)).first(
        "delete_vm",
        1,
        Reaction::After(look),
    ));
    let run = clouds.create("z-east", &[]).success();
    assert!(mark.exists(), "{}", output_of(&run));
    assert_eq!(clouds.hello.state()["monopile"]["vm"]["contract"], "v2");
    assert_eq!(clouds.nonempty(), ["east"]);
    clouds.delete("z-east").success();
}

#[test]
fn move_without_a_disk_needs_no_option() {
    let mut clouds = Clouds::new();
    clouds
        .hello
        .add_ops("no-disk.yml", "- {type: remove, path: /instance_groups/name=hello/persistent_disk_pool}\n");
    clouds.create("z-default", &[]).success();
    let run = clouds.create("z-east", &[]).success();
    assert_eq!(
        (clouds.counts("default"), clouds.counts("east")),
        ([0, 0, 0], [1, 0, 1]),
        "{}",
        output_of(&run)
    );
    clouds.delete("z-east").success();
}

#[test]
fn terminal_prompts_before_a_disk_is_left_behind() {
    let clouds = Clouds::new();
    clouds.create("z-east", &[]).success();
    let command = clouds.command("create-env", "z-west", &["--recreate-persistent-disks"]);
    let run = clouds.run_on_terminal(&command, "n");
    let flat = output_of(&run).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("of CPI 'east' with all its data once the jobs run? [y/N]"), "{flat}");
    assert_output_contains(&run, "not confirmed: nothing was changed");
    assert_eq!(clouds.nonempty(), ["east"]);
    clouds.delete("z-east").success();
}

#[test]
fn two_clouds_example_moves_between_clouds() {
    // The directory is beside that of the example, whose release and stemcell it uses. The environment has
    // its own address.
    let hello = Hello::new();
    let subnet = hello.ip().strip_suffix(".2").unwrap();
    for (name, text) in [
        ("manifest.yml", include_str!("../../../examples/two-clouds/manifest.yml")),
        ("cpis.yml", include_str!("../../../examples/two-clouds/cpis.yml")),
    ] {
        assert!(name != "manifest.yml" || text.contains("127.0.12.2"));
        hello.world.write(format!("two-clouds/{name}"), text.replace("127.0.12", subnet));
    }
    let clouds = format!("clouds={}", hello.world.path("clouds").display());
    let run = |command: &str, az: &str| {
        let manifest = ["two-clouds/manifest.yml", "--cpi-config", "two-clouds/cpis.yml", "-n"];
        let az = format!("az={az}");
        hello.world.run([&[command], &manifest[..], &["-v", &clouds, "-v", &az]].concat()).success()
    };
    let vms = |cloud: &str| {
        std::fs::read_dir(hello.world.path("clouds").join(cloud).join("vms")).map_or(0, Iterator::count)
    };
    run("create-env", "north");
    assert_eq!((vms("north"), vms("south")), (1, 0));
    run("create-env", "south");
    assert_eq!((vms("north"), vms("south")), (0, 1));
    run("delete-env", "south");
    assert_eq!((vms("north"), vms("south")), (0, 0));
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
