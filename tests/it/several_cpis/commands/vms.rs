//! `delete-vm` with several CPIs.

use serde_json::json;

use super::super::{Clouds, assert_output_contains};
use crate::support::hello::Hello;
use crate::support::scripted::{InfoAnswer, Interruption, Script};

impl Clouds {
    /// Creates an untracked VM in the cloud of the third CPI.
    fn create_stray_vm(&self, stemcell: &str) -> String {
        let network = json!({"default": {"type": "dynamic", "cloud_properties": {}}});
        let env = json!({"bosh": {"mbus": {"cert": {}}}});
        self.call_cpi_directly("cloud", "create_vm", json!(["agent", stemcell, {}, network, [], env]))
    }
}

#[test]
fn vm_known_to_the_third_cpi_only_is_deleted() {
    let clouds = Clouds::new();
    let image = clouds.hello.world.path("hello/stemcell/image");
    let stemcell = clouds.call_cpi_directly("cloud", "create_stemcell", json!([image, {}]));
    let vm = clouds.create_stray_vm(&stemcell);
    clouds.run("delete-vm", &[&vm]).exits_with(3);
    clouds.hello.world.write("state.json", json!({"director_id": "d", "installation_id": "i"}).to_string());
    let state_before = clouds.hello.state();
    for (extra_args, expected) in [
        (vec!["vm-nowhere"], "no CPI finds VM 'vm-nowhere', and it is not on record"),
        (vec![vm.as_str(), "--cpi", "west"], "CPI 'west' does not find VM"),
        (vec![vm.as_str(), "--cpi", "eats"], "--cpi names CPI 'eats'"),
    ] {
        assert_output_contains(&clouds.run("delete-vm", &extra_args).exits_with(3), expected);
    }
    assert_eq!(clouds.hello.state(), state_before);
    // A CPI that does not answer stops the search, because it may have the VM.
    clouds.hello.set_script(Script::with_info(InfoAnswer::Local).fail("info", 9, "Down", false));
    clouds.run("delete-vm", &["vm-nowhere"]).exits_with(1);

    // A VM that could not be deleted is on record from now on.
    clouds.hello.set_script(Script::with_info(InfoAnswer::Local).fail("delete_vm", 1, "Busy", false));
    assert_output_contains(&clouds.run("delete-vm", &[&vm]).exits_with(1), "stays on record");
    let undeleted_vm = clouds.hello.state()["monopile"]["undeleted"][0].clone();
    assert_eq!((undeleted_vm["cid"].clone(), undeleted_vm["cpi"].clone()), (json!(vm), json!("foreign")));
    clouds.hello.world.write("state.json", state_before.to_string());

    clouds.hello.set_script(Script::with_info(InfoAnswer::Version(1)));
    clouds.hello.take_requests();
    clouds.run("delete-vm", &[&vm, "-n"]).success();
    assert_eq!(Hello::methods(&clouds.hello.take_requests()), ["info", "has_vm", "has_vm", "delete_vm"]);
    assert_eq!(clouds.counts("cloud"), [0, 0, 1]);

    // The run is killed after the deletion, with the VM still on record.
    let vm = clouds.create_stray_vm(&stemcell);
    clouds.hello.set_script(Script::with_interruption(4, Interruption::Before));
    clouds.run("delete-vm", &[&vm]).exits_with(-1);
    clouds.hello.wait_until_idle();
    let records = clouds.hello.announced_or_recorded();
    assert!(records.contains(&vm), "it is not forgotten: {records}");
    clouds.hello.set_script(Script::with_info(InfoAnswer::Version(1)));
    clouds.run("delete-vm", &[&vm]).exits_with(3);
    assert!(!clouds.hello.announced_or_recorded().contains(&vm));
    assert_eq!(clouds.counts("cloud"), [0, 0, 1]);
    clouds.call_cpi_directly("cloud", "delete_stemcell", json!([stemcell]));
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}

#[test]
fn deleted_vm_is_replaced_by_the_next_deploy() {
    let clouds = Clouds::new();
    clouds.create("z-east", &[]).success();
    assert_eq!(clouds.hello.ask_counter(), 1);
    let vm = clouds.only_resource("east", "vms");
    clouds.run("delete-vm", &[&vm]).success();
    assert_eq!(clouds.counts("east"), [0, 1, 1]);
    clouds.create("z-east", &[]).success();
    assert_eq!(clouds.hello.ask_counter(), 2, "the disk and its data stay");
    clouds.delete("z-east").success();
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}
