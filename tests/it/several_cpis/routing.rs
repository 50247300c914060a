//! Each call goes to the correct CPI.

use serde_json::{Value, json};

use super::{Clouds, SECRET, assert_output_contains};
use crate::support::hello::Hello;
use crate::support::scripted::{InfoAnswer, Script};

#[test]
fn availability_zone_selects_the_cpi() {
    let clouds = Clouds::new();
    for (az, cloud, name) in [("z-east", "east", json!("east")), ("z-default", "default", Value::Null)] {
        clouds.create(az, &[]).success();
        assert_eq!(clouds.nonempty(), [cloud]);
        assert_eq!(clouds.counts(cloud), [1, 1, 1]);
        let state = clouds.hello.state();
        for record in [&state["monopile"]["vm"], &state["disks"][0], &state["stemcells"][0]] {
            assert_eq!(record["cpi"], name, "{record}");
        }
        assert!(!state.to_string().contains(SECRET));
        clouds.delete(az).success();
        assert_eq!(clouds.nonempty(), Vec::<&str>::new());
    }
    assert_eq!(clouds.hello.take_requests(), Vec::<Value>::new(), "the foreign CPI was not called");
    assert_eq!(clouds.hello.leftovers(), Vec::<String>::new());
}

#[test]
fn several_zones_share_a_cpi() {
    let clouds = Clouds::new();
    let zone = "- {type: replace, path: /azs/-, value: {name: z-east-2, cpi: east}}\n";
    let ops = clouds.hello.world.read("clouds.yml");
    let (azs, rest) = ops.split_once("- {type: replace, path: /instance_groups").unwrap();
    clouds
        .hello
        .world
        .write("clouds.yml", format!("{azs}{zone}- {{type: replace, path: /instance_groups{rest}"));
    clouds.create("z-east", &[]).success();
    let state_before = clouds.hello.state();
    // A disk cannot be moved to another zone, not even of the same CPI.
    let run = clouds.create("z-east-2", &[]).exits_with(3);
    assert_output_contains(&run, "moves from availability zone 'z-east' to 'z-east-2'");
    clouds.create("z-east-2", &["--recreate-persistent-disks"]).success();
    let state_after = clouds.hello.state();
    for record in ["/stemcells/0/cid", "/monopile/vm/cpi", "/disks/0/cpi"] {
        assert_eq!(state_before.pointer(record).unwrap(), state_after.pointer(record).unwrap(), "{record}");
    }
    assert_eq!(clouds.counts("east"), [1, 1, 1]);
    clouds.delete("z-east-2").success();
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}

/// Checks that the VM and the disk are those on record, and that every request has the properties of its CPI.
#[test]
fn calls_go_to_the_cpi_on_record() {
    let mut clouds = Clouds::new();
    clouds.create("z-foreign", &["--verbose", "--verbose"]).success();
    let first = clouds.hello.take_requests();
    assert_eq!(
        Hello::methods(&first),
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
    let state = clouds.hello.state();
    assert_eq!(state["monopile"]["vm"]["contract"], "v1", "its CPI is of version 1");
    clouds
        .hello
        .add_ops("disk.yml", "- {type: replace, path: /disk_pools/name=disks/disk_size, value: 512}\n");
    clouds.create("z-foreign", &[]).success();
    let second = clouds.hello.take_requests();
    assert_eq!(
        Hello::methods(&second),
        [
            "info",
            "has_vm",
            "delete_vm",
            "create_vm",
            "set_vm_metadata",
            "attach_disk",
            "set_disk_metadata",
            "create_disk",
            "attach_disk",
            "set_disk_metadata",
            "detach_disk",
            "has_disk",
            "delete_disk"
        ]
    );
    assert_eq!(clouds.hello.ask_counter(), 1);
    clouds.delete("z-foreign").success();
    let third = clouds.hello.take_requests();
    assert_eq!(
        Hello::methods(&third),
        ["info", "has_vm", "delete_vm", "has_disk", "delete_disk", "delete_stemcell"]
    );
    for request in first.iter().chain(&second).chain(&third) {
        assert_eq!(request["context"]["key"], SECRET, "{request}");
        assert_eq!(request["context"]["root"], clouds.hello.world.path("cloud").to_str().unwrap());
        assert_eq!(request["method"] == "info", request["api_version"].is_null(), "{request}");
    }
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
    let logs = clouds.hello.find("home", ".log");
    let logs: String = logs.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert!(logs.contains("External CPI request") && logs.contains("\"key\":\"<redacted>\""), "{logs}");
    assert!(!logs.contains(SECRET));
}

/// Records a disk that is not in use for a CPI, by rewriting the state.
fn record_stray_disk(clouds: &Clouds, cid: &str, cpi: Option<&str>) {
    clouds.rewrite_state(|state| {
        let mut record =
            json!({"id": format!("{cid}-{cpi:?}"), "cid": cid, "size": 1, "cloud_properties": {}});
        if let Some(cpi) = cpi {
            record["cpi"] = cpi.into();
        }
        state["disks"].as_array_mut().unwrap().push(record);
    });
}

#[test]
fn unknown_disk_is_searched_at_all_cpis() {
    let clouds = Clouds::new();
    clouds.create("z-east", &[]).success();
    let in_use = clouds.hello.state()["disks"][0]["cid"].as_str().unwrap().to_owned();
    for (recorded_cpi, real_cpi, met) in [
        (Some("east"), "east", 0),
        (Some("east"), "west", 0),
        // The default CPI, east and west are asked before this one.
        (Some("west"), "cloud", 1),
        (None, "west", 0),
    ] {
        let cid = clouds.call_cpi_directly(real_cpi, "create_disk", json!([8, {}]));
        record_stray_disk(&clouds, &cid, recorded_cpi);
        assert!(clouds.resources(real_cpi, "disks").contains(&cid));
        let run = clouds.create("z-east", &["--skip-agent-check", "--verbose"]).success();
        assert!(
            !clouds.resources(real_cpi, "disks").contains(&cid),
            "{recorded_cpi:?} {real_cpi}\n{}",
            run.stdout
        );
        assert_eq!(clouds.hello.state()["disks"].as_array().unwrap().len(), 1);
        let requests = clouds.hello.take_requests();
        assert_eq!(
            requests.iter().filter(|request| request["method"] == "delete_disk").count(),
            met,
            "{:?}",
            Hello::methods(&requests)
        );
    }
    // The disk was found in west, so the search ended there. A disk that no CPI has is gone.
    record_stray_disk(&clouds, "disk-00000000-0000-4000-8000-000000000000", Some("east"));
    let run = clouds.create("z-east", &["--skip-agent-check"]).success();
    assert_output_contains(&run, "no CPI finds it");
    assert_eq!(Hello::methods(&clouds.hello.take_requests()), ["info", "has_disk"]);

    // With another record, the same CID means another disk.
    record_stray_disk(&clouds, &in_use, Some("west"));
    clouds.create("z-east", &["--skip-agent-check"]).success();
    assert!(clouds.resources("east", "disks").contains(&in_use));
    assert_eq!(clouds.hello.state()["disks"].as_array().unwrap().len(), 1);
    clouds.delete("z-east").success();
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}

#[test]
fn earlier_vm_is_searched_at_all_cpis_but_the_current_is_not() {
    let clouds = Clouds::new();
    clouds.create("z-east", &[]).success();
    clouds.delete("z-east").success();
    // Only the third CPI has this VM, which is from another image.
    let image = clouds.hello.world.path("hello/stemcell/image");
    let stemcell = clouds.call_cpi_directly("cloud", "create_stemcell", json!([image, {}]));
    let network = json!({"default": {"type": "dynamic", "cloud_properties": {}}});
    let env = json!({"bosh": {"mbus": {"cert": {}}}});
    let vm = clouds.call_cpi_directly("cloud", "create_vm", json!(["agent", stemcell, {}, network, [], env]));
    assert_eq!(clouds.counts("cloud"), [1, 0, 1]);
    clouds.create("z-east", &[]).success();
    clouds.rewrite_state(|state| {
        state["monopile"]["undeleted"] = json!([{
            "kind": "vm", "cid": vm, "cpi": "west", "reason": "", "first_attempt_at": "", "not_found": true,
        }]);
    });
    clouds.create("z-east", &["--skip-agent-check"]).success();
    assert_eq!(clouds.counts("cloud"), [0, 0, 1]);
    assert_eq!(Hello::methods(&clouds.hello.take_requests()), ["info", "has_vm", "delete_vm"]);
    assert!(clouds.hello.state()["monopile"].get("undeleted").is_none());

    // For the VM in use, no other CPI is searched.
    let east = clouds.resources("east", "vms").into_iter().next().unwrap();
    let root = clouds.hello.world.path("east").join("vms").join(&east);
    clouds.hello.kill_vm();
    clouds.call_cpi_directly("east", "delete_vm", json!([east]));
    assert!(!root.exists());
    clouds.create("z-east", &["--recreate"]).success();
    assert_eq!(clouds.hello.take_requests(), Vec::<Value>::new());
    clouds.delete("z-east").success();
    clouds.call_cpi_directly("cloud", "delete_stemcell", json!([stemcell]));
}

/// Creates a disk with a snapshot in the cloud `real_cpi`, records the snapshot for the CPI `recorded_cpi`,
/// and returns the disk.
fn create_stray_snapshot(clouds: &Clouds, real_cpi: &str, recorded_cpi: &str) -> String {
    let disk = clouds.call_cpi_directly(real_cpi, "create_disk", json!([8, {}]));
    let snapshot = clouds.call_cpi_directly(real_cpi, "snapshot_disk", json!([disk, {}]));
    assert!(clouds.resources(real_cpi, "snapshots").contains(&snapshot));
    clouds.rewrite_state(|state| {
        let created_at = "2026-01-01T00:00:00Z";
        state["monopile"]["snapshots"] =
            json!([{"cid": snapshot, "cpi": recorded_cpi, "disk": disk, "created_at": created_at}]);
    });
    disk
}

#[test]
fn snapshot_is_deleted_by_its_cpi() {
    let clouds = Clouds::new();
    clouds.create("z-east", &[]).success();
    let disk = create_stray_snapshot(&clouds, "west", "west");
    clouds.delete("z-east").success();
    assert!(clouds.resources("west", "snapshots").is_empty());
    clouds.call_cpi_directly("west", "delete_disk", json!([disk]));
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}

#[test]
fn snapshot_that_its_cpi_does_not_find_is_deleted_by_another() {
    let clouds = Clouds::new();
    clouds.create("z-east", &[]).success();
    let disk = create_stray_snapshot(&clouds, "default", "foreign");
    let unknown = "Bosh::Clouds::DiskNotFound";
    let script = Script::with_info(InfoAnswer::Version(1)).fail("delete_snapshot", 1, unknown, false);
    clouds.hello.set_script(script);
    clouds.hello.take_requests();
    clouds.delete("z-east").success();
    assert_eq!(Hello::methods(&clouds.hello.take_requests()), ["info", "delete_snapshot"]);
    assert!(clouds.resources("default", "snapshots").is_empty());
    clouds.call_cpi_directly("default", "delete_disk", json!([disk]));
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}
