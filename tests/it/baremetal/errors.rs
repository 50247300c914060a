//! Requests that Ironic rejects, each with its reason and advice.

use std::time::{Duration, Instant};

use base::redact::Redactor;
use ironic::{AccessSettings, Client, Collection, Patch, Refusal};

use super::Bench;

const MISSING_UUID: &str = "00000000-0000-4000-8000-000000000000";

#[test]
fn rejects_existing_objects() {
    let bench = Bench::new();
    let (node, other) = (bench.ironic.create_node(), bench.ironic.create_node());
    let connector =
        ["volume", "connector", "create", "--node", &other.name, "--type", "iqn", "--connector-id"];
    bench.expect_error(
        &[&connector[..], &[&node.initiator]].concat(),
        1,
        &["(409)", "already exists", "volume connector list --long"],
    );
    let uuid = bench.create_target(&node.name, "0");
    let target = |index: &'static str| {
        let options =
            ["volume", "target", "create", "--node", &node.name, "--type", "iscsi", "--volume-id", "v"];
        let extra_args = ["--boot-index", index, "--property", "auth_password=s3cretpw1234"];
        [&options[..], &extra_args].concat()
    };
    bench.expect_error(&target("0"), 1, &["(409)", "boot index '0'", "choose a free boot index"]);
    bench.expect_error(
        &[target("1"), vec!["--uuid", &uuid]].concat(),
        1,
        &["(409)", "with UUID", "leave out --uuid"],
    );
}

#[test]
fn rejects_missing_objects() {
    let bench = Bench::new();
    let target =
        ["volume", "target", "create", "--type", "iscsi", "--volume-id", "v", "--boot-index", "0", "--node"];
    bench.expect_error(
        &[&target[..], &["no-such-node"]].concat(),
        1,
        &["(404)", "Node no-such-node could not be found", "node list"],
    );
    bench.expect_error(
        &["volume", "target", "list", "--node", "no-such-node"],
        1,
        &["(404)", "Node no-such-node"],
    );
    bench.expect_error(&["node", "show", "no-such-node"], 1, &["(404)", "Node no-such-node"]);
    bench.expect_error(&["node", "validate", "no-such-node"], 1, &["(404)", "Node no-such-node"]);
    for kind in ["connector", "target"] {
        let words = ["(404)", &format!("Volume {kind} {MISSING_UUID} could not be found")];
        bench.expect_error(&["volume", kind, "show", MISSING_UUID], 1, &words);
        bench.expect_error(&["volume", kind, "set", MISSING_UUID, "--extra", "a=b"], 1, &words);
        bench.expect_error(&["volume", kind, "unset", MISSING_UUID, "--extra", "a"], 1, &words);
        bench.expect_error(&["volume", kind, "delete", MISSING_UUID], 1, &words);
        bench.expect_error(&["volume", kind, "list", "--marker", MISSING_UUID], 1, &words);
    }
}

#[test]
fn delete_continues_after_a_missing_object() {
    let bench = Bench::new();
    let node = bench.ironic.create_node();
    let (one, two) = (bench.create_target(&node.name, "0"), bench.create_target(&node.name, "1"));
    bench.run(&["volume", "target", "delete", &one]).success();
    bench.expect_error(&["volume", "target", "delete", &one], 1, &["(404)"]);
    let run = bench.run(&["volume", "target", "delete", &one, &two]).exits_with(1);
    assert!(run.stderr.contains(&format!("volume target {one} was not deleted")), "{}", run.stderr);
    assert!(
        !bench.ironic.exists(&format!("/v1/volume/targets/{two}")),
        "one failure must not keep the other"
    );
}

#[test]
fn rejects_changes_while_the_node_is_on() {
    let bench = Bench::new();
    let node = bench.ironic.create_node();
    let target = bench.create_target(&node.name, "0");
    let connectors = bench.run_json(&["volume", "connector", "list", "--node", &node.name]);
    let connector = connectors[0]["uuid"].as_str().unwrap();
    for (kind, uuid) in [("target", target.as_str()), ("connector", connector)] {
        bench.run(&["volume", kind, "set", uuid, "--extra", "a=b"]).success();
    }
    bench.ironic.set_power(&node, "power on");
    for (kind, uuid) in [("target", target.as_str()), ("connector", connector)] {
        let words = ["(400)", "while it is in state \"power on\"", "power the node off first"];
        bench.expect_error(&["volume", kind, "set", uuid, "--extra", "a=b"], 1, &words);
        bench.expect_error(&["volume", kind, "unset", uuid, "--extra", "a"], 1, &words);
        bench.expect_error(&["volume", kind, "delete", uuid], 1, &words);
    }
    // Creating a target is never rejected.
    bench.create_target(&node.name, "1");
    bench.ironic.set_power(&node, "power off");
    bench.run(&["volume", "target", "set", &target, "--extra", "a=b"]).success();
    bench.run(&["volume", "target", "delete", &target]).success();
    // An unknown power state does not count as off.
    let new = bench.ironic.enroll_node("iscsi_boot:true");
    let target = bench.create_target(&new.name, "0");
    bench.expect_error(
        &["volume", "target", "set", &target, "--extra", "a=b"],
        1,
        &["(400)", "power the node off"],
    );
}

#[test]
fn rejects_unknown_fields() {
    let bench = Bench::new();
    let node = bench.ironic.create_node();
    let target = bench.create_target(&node.name, "0");
    let unset = |option| ["volume", "target", "unset", &target, option, "nothing"];
    bench.expect_error(
        &unset("--extra"),
        1,
        &["(400)", "can't remove a non-existent object 'nothing'", "the keys that exist"],
    );
    bench.expect_error(&unset("--property"), 1, &["(400)", "can't remove a non-existent object 'nothing'"]);
    bench.expect_error(
        &["volume", "target", "list", "--sort", "properties"],
        1,
        &["(400)", "invalid field for sorting"],
    );
    bench.expect_error(
        &["volume", "target", "list", "--sort", "uuid,properties"],
        1,
        &["(400)", "invalid field for sorting"],
    );
    bench.expect_error(
        &["volume", "target", "show", &target, "--fields", "nothing"],
        1,
        &["(400)", "nothing"],
    );
    bench.expect_error(
        &["volume", "connector", "set", MISSING_UUID, "--node", "no-such-node"],
        1,
        &["(404)", "Node no-such-node"],
    );
}

#[test]
fn invalid_values_are_not_sent() {
    let bench = Bench::new();
    let node = bench.ironic.create_node();
    let target = bench.create_target(&node.name, "0");
    let set = |property: &'static str| ["volume", "target", "set", &target, "--property", property];
    bench.expect_error(
        &set("target_iqn=iqn.x\nshell"),
        3,
        &["`properties.target_iqn` must not have control characters"],
    );
    bench.expect_error(&set("target_portals=[\"a\\u0007\"]"), 3, &["control characters"]);
    bench.expect_error(&set("auth_password=******"), 3, &["the mask that stands for a password"]);
    bench.expect_error(&["volume", "target", "set", &target], 2, &["no field to set is given"]);
    bench.expect_error(&["volume", "target", "unset", &target], 2, &["no field to unset is given"]);
    bench.expect_error(&["volume", "target", "set", &target, "--boot-index=-1"], 2, &["--boot-index"]);
    bench.expect_error(&set("novalue"), 2, &["KEY=VALUE"]);
    bench.expect_error(&["volume", "target", "list", "--long", "--fields", "uuid"], 2, &["--fields"]);
    bench.expect_error(&["volume", "target", "list", "--sort", "uuid:up"], 2, &["KEY:desc"]);
    bench.expect_error(&["volume", "target", "list", "--sort", "uuid,"], 2, &["KEY:desc", "not ''"]);
    bench.expect_error(
        &["volume", "target", "list", "--sort", "uuid,boot_index", "--marker", &target],
        2,
        &["--marker", "several fields"],
    );
    bench.expect_error(&["volume", "target", "list", "--limit=-1"], 2, &["--limit"]);
    // Ironic would accept this type, and no machine would ever boot.
    let connector = ["volume", "connector", "create", "--node", &node.name, "--connector-id", "x", "--type"];
    bench.expect_error(&[&connector[..], &["iqm"]].concat(), 2, &["iqm", "did you mean 'iqn'"]);
    bench.expect_error(
        &["volume", "target", "create", "--node", &node.name],
        2,
        &["--volume-id", "--boot-index"],
    );
    assert_eq!(bench.run_json(&["volume", "target", "show", &target])["updated_at"], serde_json::Value::Null);
}

#[test]
fn node_lock_is_awaited_and_reported_if_it_lasts() {
    let bench = Bench::new();
    let node = bench.ironic.create_node();
    let target = bench.create_target(&node.name, "0");
    let reserve = |host: Option<&str>| {
        let name = &node.name;
        match host {
            Some(host) => {
                bench.ironic.run_sql("update nodes set reservation = ? where name = ?", &[host, name])
            }
            None => bench.ironic.run_sql("update nodes set reservation = null where name = ?", &[name]),
        };
    };
    reserve(Some("other-conductor"));
    let settings = AccessSettings { endpoint: Some(bench.ironic.url()), ..AccessSettings::default() };
    let client = Client::connect(settings.check(&Redactor::default()).unwrap())
        .unwrap()
        .with_lock_retry_timeout(Duration::from_secs(1));
    let patch = Patch::new().set(&["extra", "a"], 1);
    let error = client.update(Collection::Targets, &target, &patch).unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::Locked), "{error}");
    assert!(error.to_string().contains("is locked by host other-conductor"), "{error}");

    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(4));
            reserve(None);
        });
        bench.run(&["volume", "target", "set", &target, "--extra", "a=2"]).success();
    });
    assert!(start.elapsed() >= Duration::from_secs(4));
    assert_eq!(bench.run_json(&["volume", "target", "show", &target])["extra"], serde_json::json!({"a": 2}));
}
