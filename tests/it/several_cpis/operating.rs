//! Inspecting and repairing an environment of a named CPI.

use serde_json::{Value, json};

use super::{Clouds, assert_output_contains};
use crate::support::Run;
use crate::support::hello::Hello;

fn run(clouds: &Clouds, command: &str, az: &str, extra_args: &[&str]) -> Run {
    clouds.hello.world.finish(clouds.command(command, az, extra_args))
}

fn document(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
}

#[test]
fn commands_use_the_cpi_on_record() {
    let mut clouds = Clouds::new();
    clouds.create("z-east", &[]).success();
    assert_eq!(clouds.hello.ask_counter(), 1);
    let status = document(&run(&clouds, "status", "z-east", &["--json"]).success());
    for resource in [&status["vm"], &status["disks"][0]] {
        assert_eq!((&resource["cpi"], &resource["presence"]), (&json!("east"), &json!("yes")), "{resource}");
    }
    assert_eq!(status["disks"][0]["mounted"], true);

    // The renamed CPI counts as the same one, and commands that read record nothing.
    clouds.change_config(|text| text.replace("name: east,", "name: orient, migrated_from: [{name: east}],"));
    clouds.hello.add_ops("orient.yml", "- {type: replace, path: /azs/name=z-east/cpi, value: orient}\n");
    let state_before = clouds.hello.state();
    let status = document(&run(&clouds, "status", "z-east", &["--json"]).success());
    assert_eq!((&status["vm"]["cpi"], &status["vm"]["presence"]), (&json!("east"), &json!("yes")));
    assert_eq!(clouds.hello.state(), state_before);
    run(&clouds, "restart", "z-east", &[]).success();
    run(&clouds, "recreate", "z-east", &[]).success();
    assert_eq!(clouds.counts("east"), [1, 1, 1]);
    assert_eq!(clouds.hello.ask_counter(), 2, "the disk is the same");

    let vm = clouds.hello.state()["current_vm_cid"].as_str().unwrap().to_owned();
    clouds.call_cpi_directly("east", "delete_vm", json!([vm]));
    let problems = document(&run(&clouds, "cloud-check", "z-east", &["--auto", "--json"]).success());
    let expected = json!([{"kind": "missing_vm", "cid": vm, "cpi": "orient"}]);
    for key in ["kind", "cid", "cpi"] {
        assert_eq!(problems[0][key], expected[0][key], "{problems}");
    }
    assert_eq!(clouds.counts("east"), [1, 1, 1]);
    assert_eq!(clouds.hello.ask_counter(), 3, "the disk is the same");
    clouds.delete("z-east").success();
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}

#[test]
fn recreate_does_not_move_to_another_cpi() {
    let clouds = Clouds::new();
    clouds.create("z-east", &[]).success();
    // The manifest's zone is unchanged but belongs to another CPI, which is not a change of the manifest.
    clouds.hello.world.write("move.yml", "- {type: replace, path: /azs/name=z-east/cpi, value: west}\n");
    let stored_text_before = clouds.hello.world.read("state.json");
    let run = run(&clouds, "recreate", "z-east", &["-o", "move.yml"]).exits_with(3);
    assert_output_contains(&run, "the manifest differs from the deployed one");
    assert_output_contains(&run, "was created by another CPI than CPI 'west'");
    assert_eq!(clouds.hello.world.read("state.json"), stored_text_before);
    assert_eq!(clouds.nonempty(), ["east"]);
    clouds.delete("z-east").success();
}

#[test]
fn check_reboots_the_vm_and_lists_its_disks_at_the_cpi_on_record() {
    let clouds = Clouds::new();
    clouds.create("z-foreign", &[]).success();
    assert_eq!(clouds.hello.ask_counter(), 1);
    let state = clouds.hello.state();
    clouds.hello.kill_vm();
    clouds.hello.call("detach_disk", json!([state["current_vm_cid"], state["disks"][0]["cid"]]));
    clouds.hello.take_requests();
    let extra_args = ["--auto", "--json", "--agent-timeout", "500ms"];
    let problems = document(&run(&clouds, "cloud-check", "z-foreign", &extra_args).success());
    assert_eq!(problems[0]["attempts"], json!([{"repair": "reboot_vm", "error": null}]));
    assert_eq!(problems[1]["attempts"], json!([{"repair": "reattach_disk", "error": null}]));
    let requests = clouds.hello.take_requests();
    let methods = Hello::methods(&requests);
    for method in ["reboot_vm", "get_disks", "attach_disk"] {
        assert!(methods.contains(&method), "{method} is not in {methods:?}");
    }
    assert_eq!(clouds.hello.ask_counter(), 2, "the data are the same");
    clouds.delete("z-foreign").success();
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}
