//! `take-snapshot`, `snapshots` and `delete-snapshot` with several CPIs.

use serde_json::json;

use super::super::{Clouds, assert_output_contains};
use crate::support::scripted::{InfoAnswer, Interruption, Script};

#[test]
fn snapshots_belong_to_the_cpi_of_their_disk() {
    let clouds = Clouds::new();
    clouds.run("take-snapshot", &[]).exits_with(3);
    // Each CPI has a disk, and there is no VM.
    let mut disks = Vec::new();
    for (cpi, cloud) in [("east", "east"), ("foreign", "cloud")] {
        let cid = clouds.call_cpi_directly(cloud, "create_disk", json!([8, {}]));
        disks.push(json!({"id": format!("id-{cpi}"), "cid": cid, "size": 8, "cpi": cpi}));
    }
    let (east, foreign) =
        (disks[0]["cid"].as_str().unwrap().to_owned(), disks[1]["cid"].as_str().unwrap().to_owned());
    clouds.hello.world.write(
        "state.json",
        json!({"director_id": "d", "installation_id": "i", "current_disk_id": "id-east", "disks": disks})
            .to_string(),
    );
    clouds.run("take-snapshot", &[]).success();
    let snapshot = clouds.only_resource("east", "snapshots");
    let list = clouds.list("snapshots");
    assert_eq!(list[0]["cid"], json!(snapshot));
    assert_eq!((list[0]["cpi"].clone(), list[0]["disk"].clone()), (json!("east"), json!(east)));
    assert_output_contains(
        &clouds.run("take-snapshot", &["disk-nowhere"]).exits_with(3),
        "no disk 'disk-nowhere' is on record",
    );
    assert_output_contains(
        &clouds.run("take-snapshot", &[&east, "--cpi", "west"]).exits_with(3),
        "of CPI 'west' is on record",
    );

    // The run is killed before the snapshot is on record. The next run records it and takes another one.
    clouds.hello.set_script(Script::with_interruption(2, Interruption::After));
    clouds.run("take-snapshot", &[&foreign]).exits_with(-1);
    clouds.hello.wait_until_idle();
    assert_eq!((clouds.resources("cloud", "snapshots").len(), clouds.list("snapshots").len()), (1, 1));
    clouds.hello.set_script(Script::with_info(InfoAnswer::Local));
    clouds.run("take-snapshot", &[&foreign]).success();
    assert_eq!((clouds.resources("cloud", "snapshots").len(), clouds.list("snapshots").len()), (2, 3));
    clouds.hello.set_script(Script::with_info(InfoAnswer::Local).without_method("snapshot_disk", 0));
    clouds.run("take-snapshot", &[&foreign]).exits_with(1);

    assert_output_contains(
        &clouds.run("delete-snapshot", &["snapshot-nowhere"]).exits_with(3),
        "no snapshot",
    );
    let command = clouds.command("delete-snapshot", "z-east", &[&snapshot]);
    let run = clouds.run_on_terminal(&command, "n");
    assert_output_contains(&run, &format!("Delete snapshot '{snapshot}'"));
    assert_output_contains(&run, "'east'?");
    assert_output_contains(&run, "not confirmed: nothing was changed");
    assert_eq!(clouds.only_resource("east", "snapshots"), snapshot);
    for snapshot in clouds.list("snapshots") {
        clouds.run("delete-snapshot", &[snapshot["cid"].as_str().unwrap(), "-n"]).success();
    }
    assert!(
        clouds.resources("east", "snapshots").is_empty() && clouds.resources("cloud", "snapshots").is_empty()
    );
    assert!(clouds.list("snapshots").is_empty());
    clouds.delete("z-east").success();
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}
