//! The life cycle of connectors and targets.

use serde_json::json;

use super::Bench;

#[test]
fn connector_is_created_listed_changed_and_deleted() {
    let bench = Bench::new();
    let node = bench.ironic.enroll_node("iscsi_boot:true");
    bench.ironic.set_power(&node, "power off");
    let id = format!("{}-x", node.initiator);
    let uuid = bench.create(&[
        "volume",
        "connector",
        "create",
        "--node",
        &node.name,
        "--type",
        "iqn",
        "--connector-id",
        &id,
        "--extra",
        "rack=7",
    ]);

    let connectors = bench.run_json(&["volume", "connector", "list", "--node", &node.name]);
    let expected = json!([{"uuid": uuid, "node_uuid": node.uuid, "type": "iqn", "connector_id": id}]);
    assert_eq!(connectors, expected);
    let by_uuid = bench.run_json(&["volume", "connector", "list", "--node", &node.uuid, "--detail"]);
    assert_eq!(by_uuid[0]["extra"], json!({"rack": 7}));

    // Another connector, which only the filters tell apart.
    let other = ["volume", "connector", "create", "--node", &node.name, "--type", "mac", "--connector-id"];
    let other = bench.create(&[&other[..], &["52:54:00:ff:00:09"]].concat());
    let list = |filter: &[&str]| {
        let options = ["volume", "connector", "list", "--node", &node.name, "-f", "value", "-c", "uuid"];
        bench.run(&[&options[..], filter].concat()).success().stdout
    };
    assert_eq!(list(&["--type", "iqn"]), format!("{uuid}\n"));
    assert_eq!(list(&["--type", "mac"]), format!("{other}\n"));
    assert_eq!(list(&["--connector-id", &id]), format!("{uuid}\n"));
    assert_eq!(list(&["--connector_id", "52:54:00:ff:00:09", "--type", "mac"]), format!("{other}\n"));
    assert_eq!(list(&["--connector-id", &id, "--type", "mac"]), "");
    bench.run(&["volume", "connector", "delete", &other]).success();

    let set =
        ["volume", "connector", "set", &uuid, "--connector-id", "iqn.2026-11.test:y", "--extra", "a-b=c"];
    assert_eq!(bench.run(&set).success().stdout, "");
    let show = ["volume", "connector", "show", &uuid, "--fields", "connector_id,extra"];
    let expected = json!({"connector_id": "iqn.2026-11.test:y", "extra": {"rack": 7, "a-b": "c"}});
    assert_eq!(bench.run_json(&show), expected);

    bench.run(&["volume", "connector", "unset", &uuid, "--extra", "rack"]).success();
    assert_eq!(bench.run_json(&show)["extra"], json!({"a-b": "c"}));

    bench.run(&["volume", "connector", "delete", &uuid]).success();
    assert_eq!(bench.run_json(&["volume", "connector", "list", "--node", &node.name]), json!([]));
}

#[test]
fn target_changes_by_key_and_keeps_its_password() {
    let bench = Bench::new();
    let node = bench.ironic.create_node();
    let uuid = bench.create_target(&node.name, "0");
    let stored_properties =
        || bench.ironic.run_sql("select properties from volume_targets where uuid = ?", &[&uuid]);
    assert!(stored_properties().contains("s3cretpw1234"), "{}", stored_properties());

    let run = bench.run(&["volume", "target", "show", &uuid]).success();
    assert!(run.stdout.contains("******") && !run.stdout.contains("s3cretpw1234"), "{}", run.stdout);

    bench
        .run(&["volume", "target", "set", &uuid, "--property", "target_lun=1", "--volume-id", "v2"])
        .success();
    bench.run(&["volume", "target", "set", &uuid, "--boot-index", "5"]).success();
    bench.run(&["volume", "target", "set", &uuid, "--boot-index", "0"]).success();
    let target = bench.run_json(&["volume", "target", "show", &uuid]);
    let properties = json!({"auth_username": "******", "auth_password": "******", "target_lun": 1});
    assert_eq!(target["properties"], properties);
    let with_usernames =
        bench.run_json(&["volume", "target", "show", &uuid, "--show-usernames", "--fields", "properties"]);
    assert_eq!(with_usernames["properties"]["auth_username"], "bosh");
    assert_eq!((&target["volume_id"], &target["boot_index"]), (&json!("v2"), &json!(0)));
    assert!(stored_properties().contains("s3cretpw1234"), "{}", stored_properties());

    bench.run(&["volume", "target", "unset", &uuid, "--property", "target_lun"]).success();
    let other = bench.ironic.create_node();
    bench.run(&["volume", "target", "set", &uuid, "--node", &other.name]).success();
    assert_eq!(bench.run_json(&["volume", "target", "list", "--node", &node.name]), json!([]));
    let targets = bench.run_json(&["volume", "target", "list", "--node", &other.name, "--long"]);
    assert_eq!(targets[0]["properties"], json!({"auth_username": "******", "auth_password": "******"}));
    assert!(stored_properties().contains("s3cretpw1234"), "{}", stored_properties());
    bench.run(&["volume", "target", "delete", &uuid]).success();
    assert!(!bench.ironic.exists(&format!("/v1/volume/targets/{uuid}")));
}

#[test]
fn list_reads_all_pages() {
    let bench = Bench::new();
    let (node, other) = (bench.ironic.create_node(), bench.ironic.create_node());
    let uuids: Vec<String> =
        (0..9).map(|index| bench.create_target(&node.name, &index.to_string())).collect();
    bench.create_target(&other.name, "0");
    let list = |extra_args: &[&str]| -> Vec<String> {
        let options = ["volume", "target", "list", "--node", &node.name, "-f", "value", "-c", "uuid"];
        let run = bench.run(&[&options[..], extra_args].concat()).success();
        run.stdout.lines().map(str::to_owned).collect()
    };
    let sort = |mut uuids: Vec<String>| {
        uuids.sort();
        uuids
    };
    // Ironic returns four objects per page.
    assert_eq!(sort(list(&[])), sort(uuids.clone()));
    assert_eq!(sort(list(&["--limit", "0"])), sort(uuids.clone()));
    assert_eq!(list(&["--sort", "boot_index", "--limit", "8"]), uuids[..8]);
    assert_eq!(list(&["--sort", "boot_index:asc", "--limit", "4"]), uuids[..4]);
    assert_eq!(list(&["--sort", "boot_index", "--marker", &uuids[2]]), uuids[3..]);
    // The list is sorted by several fields. All nine objects have the same type.
    let by_both = ["--sort", "volume_type,boot_index:desc", "--limit", "6"];
    assert_eq!(list(&by_both), uuids.iter().rev().take(6).cloned().collect::<Vec<_>>());
    assert_eq!(list(&["--sort", "volume_type:desc,boot_index", "--fields", "uuid"]), uuids);
    // Ironic does not sort by node_uuid, and does not select by these fields.
    assert_eq!(list(&["--sort", "node_uuid,boot_index", "--limit", "2"]), uuids[..2]);
    assert_eq!(sort(list(&["--sort", "node_uuid"])), sort(uuids.clone()));
    assert_eq!(list(&["--boot-index", "7"]), uuids[7..8]);
    assert_eq!(list(&["--volume_id", "volume-8", "--fields", "uuid", "--limit", "1"]), uuids[8..]);
    assert_eq!(list(&["--type", "iscsi", "--boot_index", "3"]), uuids[3..4]);
    assert_eq!(list(&["--type", "fibre_channel"]), [""; 0]);
    let expected: Vec<String> = uuids.iter().rev().take(6).cloned().collect();
    assert_eq!(list(&["--sort", "boot_index:desc", "--limit", "6"]), expected);
}

#[test]
fn output_formats_match_openstack() {
    let bench = Bench::new();
    let node = bench.ironic.create_node();
    let uuid = bench.create_target(&node.name, "0");
    let list = |format: &str| {
        let run = bench.run(&["volume", "target", "list", "--node", &node.name, "-f", format]).success();
        run.stdout.replace(&uuid, "<target>").replace(&node.uuid, "<node>")
    };
    assert_eq!(list("value"), "<target> <node> iscsi 0 volume-0\n");
    let header = "\"uuid\",\"node_uuid\",\"volume_type\",\"boot_index\",\"volume_id\"";
    assert_eq!(list("csv"), format!("{header}\n\"<target>\",\"<node>\",\"iscsi\",0,\"volume-0\"\n"));
    let yaml = "- boot_index: 0\n  node_uuid: <node>\n  uuid: <target>\n  volume_id: volume-0\n  \
        volume_type: iscsi\n";
    assert_eq!(list("yaml"), yaml);
    let table = list("table");
    let words: Vec<Vec<&str>> =
        table.lines().map(|line| line.split([' ', '|']).filter(|word| !word.is_empty()).collect()).collect();
    assert_eq!(words[1], ["uuid", "node_uuid", "volume_type", "boot_index", "volume_id"]);
    assert_eq!(words[3], ["<target>", "<node>", "iscsi", "0", "volume-0"]);

    // `--json` gives the same objects, and columns accept the headings of older tables.
    let mut arguments =
        vec!["volume", "target", "show", &uuid, "--json", "-c", "Volume ID", "-c", "boot_index"];
    let run = bench.run(&arguments).success();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&run.stdout).unwrap(),
        json!({"boot_index": 0, "volume_id": "volume-0"})
    );
    arguments.extend(["-c", "boot_indx"]);
    bench.expect_error(
        &arguments[..4].iter().copied().chain(["-c", "boot_indx"]).collect::<Vec<_>>(),
        2,
        &["did you mean 'boot_index'"],
    );
}
