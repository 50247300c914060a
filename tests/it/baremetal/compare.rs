//! Compares the output with that of OpenStack's own client.

use serde_json::Value;

use super::Bench;

/// Checks that both clients print the same.
#[track_caller]
fn same(bench: &Bench, arguments: &[&str]) {
    assert_eq!(bench.json(arguments), bench.ironic.reference_json(arguments), "{arguments:?}");
}

#[test]
fn connectors_and_targets_are_printed_like_openstack() {
    let bench = Bench::new();
    let node = bench.ironic.node();
    let target = bench.target(&node.name, "0");
    bench
        .run(&["volume", "target", "set", &target, "--extra", "role=root", "--property", "target_lun=1"])
        .success();
    let connectors = bench.json(&["volume", "connector", "list", "--node", &node.name]);
    let connector = connectors[0]["uuid"].as_str().unwrap();
    for (kind, uuid) in [("target", target.as_str()), ("connector", connector)] {
        same(&bench, &["volume", kind, "list", "--node", &node.name]);
        same(&bench, &["volume", kind, "list", "--node", &node.name, "--long"]);
        same(&bench, &["volume", kind, "list", "--node", &node.name, "--fields", "extra", "uuid"]);
        same(&bench, &["volume", kind, "show", uuid]);
    }
    same(&bench, &["volume", "target", "show", &target, "--fields", "uuid", "extra"]);
    // Columns are printed in the order of the list, not of the flags.
    let list = ["volume", "target", "list", "--node", &node.name];
    same(&bench, &[&list[..], &["-c", "volume_id", "-c", "uuid"]].concat());
    // Objects in a cell are JSON in our output, and Python in the reference.
    let show = ["volume", "connector", "show", connector];
    let moments = ["--long", "-c", "boot_index", "-c", "created_at", "-c", "uuid"];
    for text in [
        [&list[..], &["-f", "value"]].concat(),
        [&list[..], &moments, &["-f", "csv"]].concat(),
        [&show[..], &["-f", "value"]].concat(),
    ] {
        assert_eq!(bench.run(&text).success().stdout, bench.ironic.reference(&text), "{text:?}");
    }
    let yaml = ["volume", "target", "show", &target, "-f", "yaml"];
    let parsed = |text: &str| serde_yaml::from_str::<Value>(text).unwrap();
    let ours = parsed(&bench.run(&yaml).success().stdout);
    assert_eq!(ours, parsed(&bench.ironic.reference(&yaml)));
}

#[test]
fn created_objects_are_printed_like_openstack() {
    let bench = Bench::new();
    let node = bench.ironic.node();
    // The reference client accepts no name for this argument.
    let make = |node: &str, id: &str| -> Vec<String> {
        let flags = [
            "volume",
            "target",
            "create",
            "--node",
            node,
            "--type",
            "iscsi",
            "--volume-id",
            id,
            "--boot-index",
            id,
        ];
        let more = [
            "--property",
            "target_luns=[1, 2]",
            "--property",
            "auth_password=x",
            "--extra",
            "a=b",
            "--extra",
            "c=null",
        ];
        flags.iter().chain(&more).map(ToString::to_string).collect()
    };
    let texts =
        |arguments: &'_ [String]| arguments.iter().map(String::as_str).map(str::to_owned).collect::<Vec<_>>();
    let (ours, theirs) = (texts(&make(&node.name, "1")), texts(&make(&node.uuid, "2")));
    let ours = bench.json(&ours.iter().map(String::as_str).collect::<Vec<_>>());
    let theirs = bench.ironic.reference_json(&theirs.iter().map(String::as_str).collect::<Vec<_>>());
    for (key, value) in theirs.as_object().unwrap() {
        match key.as_str() {
            "uuid" | "created_at" => assert!(ours[key].is_string()),
            "volume_id" => assert_eq!((&ours[key], value), (&Value::from("1"), &Value::from("2"))),
            "boot_index" => assert_eq!((&ours[key], value), (&Value::from(1), &Value::from(2))),
            _ => assert_eq!(&ours[key], value, "{key}"),
        }
    }
    assert_eq!(ours.as_object().unwrap().len(), theirs.as_object().unwrap().len());
}

#[test]
fn nodes_are_printed_like_openstack() {
    let bench = Bench::new();
    let node = bench.ironic.node();
    let list = ["node", "list", "--resource-class", &node.resource_class];
    same(&bench, &list);
    same(&bench, &[&list[..], &["--fields", "name", "driver"]].concat());
    same(&bench, &["node", "show", &node.name, "--fields", "name", "properties", "provision_state"]);
    same(&bench, &["node", "validate", &node.name]);
    // The reference client omits fields that are newer than itself.
    let includes = |ours: &Value, theirs: &Value| {
        for (key, value) in theirs.as_object().unwrap() {
            assert_eq!(&ours[key], value, "{key}");
        }
    };
    let show = ["node", "show", &node.name];
    includes(&bench.json(&show), &bench.ironic.reference_json(&show));
    let long = [&list[..], &["--long"]].concat();
    includes(&bench.json(&long)[0], &bench.ironic.reference_json(&long)[0]);
}
