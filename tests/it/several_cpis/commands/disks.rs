//! `disks`, `attach-disk` and `delete-disk` with several CPIs.

use serde_json::json;

use super::super::{Clouds, assert_output_contains};

/// Returns the CID and status of each disk that `disks` lists.
fn statuses(clouds: &Clouds) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    clouds.list("disks").iter().map(|disk| (text(&disk["cid"]), text(&disk["status"]))).collect()
}

#[test]
fn attach_disk_swaps_disks_and_back() {
    let clouds = Clouds::new();
    assert_output_contains(&clouds.run("delete-disk", &["disk-1"]).exits_with(3), "there is no state");
    clouds.create("z-east", &[]).success();
    assert_eq!(clouds.hello.ask_counter(), 1);
    let first = clouds.only_resource("east", "disks");
    assert_eq!(
        clouds.list("disks"),
        [json!({"cid": first, "cpi": "east", "az": "z-east", "size": 1024, "status": "attached",
                "undeleted": null})]
    );
    let second = clouds.call_cpi_directly("east", "create_disk", json!([1024, {}]));
    let foreign_disk = clouds.call_cpi_directly("west", "create_disk", json!([1024, {}]));
    let state_before = clouds.hello.state();
    for (command, extra_args, expected) in [
        ("delete-disk", vec![first.as_str()], "is the persistent disk of this environment"),
        ("delete-disk", vec![second.as_str()], "is on record"),
        ("delete-disk", vec![first.as_str(), "--cpi", "eats"], "--cpi names CPI 'eats'"),
        ("attach-disk", vec!["disk-nowhere"], "the CPI does not find disk 'disk-nowhere' of CPI 'east'"),
        (
            "attach-disk",
            vec![foreign_disk.as_str(), "--cpi", "west"],
            "belongs to CPI 'west', but the VM belongs to CPI 'east'",
        ),
    ] {
        assert_output_contains(&clouds.run(command, &extra_args).exits_with(3), expected);
    }
    assert_eq!(clouds.hello.state(), state_before);
    assert_output_contains(&clouds.run("attach-disk", &[&first]).success(), "already");
    assert_eq!(clouds.hello.state(), state_before);

    assert_output_contains(
        &clouds.run("attach-disk", &[&second]).success(),
        "The next create-env attaches disk",
    );
    let status = |cid: &String, status: &str| (cid.clone(), status.to_owned());
    assert_eq!(statuses(&clouds), [status(&first, "kept"), status(&second, "waiting")]);
    let run = clouds.run("delete-disk", &[&first]).exits_with(3);
    assert_output_contains(&run, "until the next create-env");
    clouds.create("z-east", &[]).success();
    assert_eq!(clouds.hello.ask_counter(), 1, "another disk, other data");
    assert_eq!(statuses(&clouds), [status(&first, "kept"), status(&second, "attached")]);

    // The disk is attached again with its data.
    clouds.run("attach-disk", &[&first]).success();
    clouds.create("z-east", &[]).success();
    assert_eq!(clouds.hello.ask_counter(), 2);
    clouds.create("z-east", &[]).success();
    assert_eq!(statuses(&clouds), [status(&first, "attached"), status(&second, "kept")]);
    clouds.run("delete-disk", &[&second, "-n"]).success();
    assert_eq!(clouds.only_resource("east", "disks"), first);
    clouds.delete("z-east").success();
    clouds.call_cpi_directly("west", "delete_disk", json!([foreign_disk]));
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}
