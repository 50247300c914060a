//! The life of a node, from its enrolment to its end, and changes of its power state.

use serde_json::json;

use super::Bench;
use crate::support::pty::Pty;

const SSH: &str = r##"#!/bin/sh
# Reads a machine whose files are below the directory MACHINE.
[ "$*" = "-T -- root@machine sh -s" ] || exit 255
sed "s#=/etc#=$MACHINE/etc#; s#/sys/class#$MACHINE/sys/class#g" | sh -s
"##;

#[test]
fn node_is_enrolled_made_available_and_retired() {
    let bench = Bench::new();
    let ok = |arguments: &[&str]| bench.run(arguments).success();
    let name = "enrolled-by-hand";
    let options = ["--resource-class", "hand", "--property", "capabilities=iscsi_boot:true", "--driver-info"];
    let extra_args = ["fake_password=s3cretpw1234", "--storage-interface", "external", "-f", "json"];
    let create = ["node", "create", "--driver", "fake-hardware", "--name", name];
    let creation = ok(&[&create[..], &options, &extra_args].concat());
    assert!(!creation.stdout.contains("s3cretpw1234"), "{}", creation.stdout);
    let node = serde_json::from_str::<serde_json::Value>(&creation.stdout).unwrap()["uuid"].clone();
    ok(&["port", "create", "52:54:00:FF:00:01", "--node", name, "--pxe-enabled", "true"]);
    let ports =
        bench.run_json(&["port", "list", "--node", name, "--fields", "address", "node_uuid", "pxe_enabled"]);
    assert_eq!(ports, json!([{"address": "52:54:00:ff:00:01", "node_uuid": node, "pxe_enabled": true}]));

    // The machine reports its initiators, twice.
    for (path, content) in [
        ("etc/iscsi/initiatorname.iscsi", "## comment\nInitiatorName=iqn.2026-11.test:by-hand\n"),
        ("sys/class/fc_host/host0/node_name", "0x200000c0ffee0001\n"),
        ("sys/class/fc_host/host0/port_name", "0x100000c0ffee0001\n"),
        ("sys/class/net/no-such-card/address", "52:54:00:ff:00:01\n"),
        ("sys/class/net/no-such-card/device/x", ""),
        ("sys/class/net/lo/address", "00:00:00:00:00:00\n"),
    ] {
        bench.world.write(format!("machine/{path}"), content);
    }
    let ssh = bench.world.write("bin/ssh", SSH);
    std::fs::set_permissions(ssh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let collect = |extra_args: &[&str]| {
        let words = ["volume", "connector", "collect", "--node", name, "--ssh"];
        let mut command = bench.ironic.monopile(&bench.world, &[&words[..], extra_args].concat());
        let path = format!("{}:{}", bench.world.path("bin").display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("MACHINE", bench.world.path("machine"));
        bench.world.finish(command)
    };
    let columns = ["-f", "value", "-c", "type", "-c", "connector_id"];
    let run = collect(&[&["root@machine", "--type", "iqn"][..], &columns].concat()).success();
    assert_eq!(run.stdout, "iqn iqn.2026-11.test:by-hand\n");
    assert!(run.stderr.contains("created the connector iqn"), "{}", run.stderr);
    let run = collect(&[&["root@machine"][..], &columns].concat()).success();
    let expected = "iqn iqn.2026-11.test:by-hand\nwwnn 20:00:00:c0:ff:ee:00:01\n\
        wwpn 10:00:00:c0:ff:ee:00:01\nmac 52:54:00:ff:00:01\n";
    assert_eq!(run.stdout, expected);
    assert_eq!(run.stderr.matches("created").count(), 3, "{}", run.stderr);
    let failed_run = collect(&["root@other"]).exits_with(1);
    assert!(failed_run.stderr.contains("ssh HOST true"), "{}", failed_run.stderr);
    let empty_collection = collect(&["root@machine", "--type", "portgroup"]).exits_with(1);
    assert!(empty_collection.stderr.contains("reports no initiator"), "{}", empty_collection.stderr);

    let error_parts = ["(400)", "\"provide\"", "in state \"enroll\"", "node manage"];
    bench.expect_error(&["node", "provide", name], 1, &error_parts);
    let management = ok(&["node", "manage", name, "--wait", "1m"]);
    assert!(management.stderr.contains("is 'manageable'"), "{}", management.stderr);
    ok(&["node", "power", "off", name]);
    ok(&["node", "trait", "add", name, "CUSTOM_A", "CUSTOM_B"]);
    ok(&["node", "trait", "remove", name, "CUSTOM_A"]);
    assert_eq!(bench.run_json(&["node", "trait", "list", name]), json!([{"Traits": "CUSTOM_B"}]));
    ok(&["node", "boot", "device", "set", name, "pxe", "--persistent"]);
    // The simulated machine forgets that the device was set for good.
    let device = json!({"boot_device": "pxe", "persistent": false});
    assert_eq!(bench.run_json(&["node", "boot", "device", "show", name]), device);
    ok(&["node", "set", name, "--description", "by hand", "--property", "cpu_arch=x86_64"]);
    ok(&["node", "unset", name, "--description", "--property", "cpu_arch"]);
    let details = bench.run_json(&["node", "show", name, "--fields", "description", "properties"]);
    let capabilities = json!({"capabilities": "iscsi_boot:true"});
    assert_eq!(details, json!({"description": null, "properties": capabilities}));
    ok(&["node", "provide", name, "--wait", "60"]);
    let list = ["node", "list", "--provision-state", "available", "--resource-class", "hand"];
    assert_eq!(bench.run_json(&list)[0]["uuid"], node);
    let verdicts = bench.run_json(&["node", "validate", name]);
    let verdict =
        |name: &str| verdicts.as_array().unwrap().iter().find(|row| row["Interface"] == name).unwrap();
    assert_eq!((&verdict("boot")["Result"], &verdict("storage")["Result"]), (&json!(true), &json!(true)));

    ok(&["node", "maintenance", "set", name, "--reason", "broken fan"]);
    let reason = bench.run_json(&["node", "show", name, "--fields", "maintenance_reason"]);
    assert_eq!(reason, json!({"maintenance_reason": "broken fan"}));
    ok(&["node", "maintenance", "unset", name]);
    let run = bench.run(&["node", "delete", name, "no-such-node"]).exits_with(1);
    assert!(run.stderr.contains("node no-such-node was not deleted"), "{}", run.stderr);
    bench.expect_error(&["node", "show", name], 1, &["(404)"]);
}

#[test]
fn power_off_is_asked_for_before_a_change() {
    let bench = Bench::new();
    let node = bench.ironic.create_node();
    let target = bench.create_target(&node.name, "0");
    bench.run(&["node", "power", "on", &node.name]).success();
    let set = ["volume", "target", "set", &target, "--extra", "a=b"];
    bench.expect_error(&set, 1, &["(400)", "node power off ", "--power-off"]);
    let with_power_off = [&set[..], &["--power-off"]].concat();
    let mut pty = Pty::start(bench.ironic.monopile(&bench.world, &with_power_off), (100, 30));
    pty.wait_for("the question", |screen| screen.contains(&format!("Power off node {}?", node.name)));
    pty.press("n\r");
    assert_eq!(pty.end(), 2, "{}", pty.raw());
    let state =
        || bench.run_json(&["node", "show", &node.name, "--fields", "power_state"])["power_state"].clone();
    assert_eq!(state(), "power on");

    let run = bench.run(&with_power_off).success();
    assert!(run.stderr.contains(&format!("node power on {}", node.name)), "{}", run.stderr);
    assert_eq!(state(), "power off");
    bench.run(&["node", "reboot", &node.name]).success();
    assert_eq!(state(), "power on");
    bench.run(&["volume", "target", "delete", &target, "--power-off"]).success();
    assert!(!bench.ironic.exists(&format!("/v1/volume/targets/{target}")));
}

#[test]
fn bad_input_about_nodes_is_refused() {
    let bench = Bench::new();
    let node = bench.ironic.enroll_node("iscsi_boot:true");
    let name = node.name.as_str();
    for (arguments, code, words) in [
        (&["node", "create", "--name", "x"][..], 2, &["--driver"][..]),
        (&["node", "create", "--driver", "no-such-driver"], 1, &["(400)", "no-such-driver"]),
        (&["node", "create", "--driver", "fake-hardware", "--name", "a b"], 1, &["(400)", "a b"]),
        (&["node", "create", "--driver", "fake-hardware", "--name", name], 1, &["(409)", name]),
        (&["node", "create", "--driver", "x\ny"], 3, &["`driver`", "control characters"]),
        (&["node", "create", "--driver", "x", "--network-data", "{"], 3, &["--network-data is not JSON"]),
        (
            &["node", "create", "--driver", "x", "--automated-clean", "--no-automated-clean"],
            2,
            &["--no-automated-clean"],
        ),
        (&["node", "set", name], 2, &["no field to set is given"]),
        (&["node", "set", name, "--driver-info", "ipmi_password=******"], 3, &["driver_info.ipmi_password"]),
        (&["node", "set", "nope", "--name", "x"], 1, &["(404)", "Node nope"]),
        (&["node", "unset", name], 2, &["no field to unset is given"]),
        (&["node", "unset", name, "--property", "nothing"], 1, &["can't remove a non-existent"]),
        (&["node", "delete", "nope"], 1, &["(404)", "node nope was not deleted"]),
        (&["node", "manage", name, "--wait", "x"], 2, &["--wait"]),
        (&["node", "manage", "nope"], 1, &["(404)", "did not change its state"]),
        (&["node", "inspect", name], 1, &["(400)", "\"inspect\"", "node show "]),
        (&["node", "adopt", name], 1, &["(400)", "\"adopt\""]),
        (&["node", "abort", name], 1, &["(400)", "\"abort\""]),
        (&["node", "undeploy", name], 1, &["(400)", "\"deleted\""]),
        (&["node", "unrescue", name], 1, &["(400)", "\"unrescue\""]),
        (&["node", "rescue", name], 2, &["--rescue-password is missing"]),
        (&["node", "rescue", name, "--rescue-password="], 2, &["is empty"]),
        (&["node", "rescue", name, "--rescue-password", "s3cretpw1234"], 1, &["(400)"]),
        (&["node", "clean", name], 2, &["--clean-steps"]),
        (&["node", "clean", name, "--clean-steps", "x"], 2, &["--clean-steps is not JSON"]),
        (&["node", "power", "on", "nope"], 1, &["(404)", "did not change its power state"]),
        (&["node", "power", "off", name, "--power-timeout", "x"], 2, &["--power-timeout"]),
        (&["node", "reboot"], 2, &["NODE"]),
        (&["node", "boot", "device", "set", name], 2, &["needs a NODE"]),
        (&["node", "boot", "device", "set", name, "floppy-disk"], 1, &["(400)", "floppy-disk"]),
        (&["node", "boot", "device", "show", "nope"], 1, &["(404)"]),
        (&["node", "maintenance", "set", "nope"], 1, &["(404)"]),
        (&["node", "maintenance", "set", name, "--reason", "a\nb"], 3, &["`reason`"]),
        (&["node", "maintenance", "unset", "nope"], 1, &["(404)"]),
        (&["node", "trait", "add", name, "custom"], 1, &["(400)", "trait custom was not added"]),
        (&["node", "trait", "remove", name, "CUSTOM_X"], 1, &["(404)", "trait CUSTOM_X was not removed"]),
        (&["node", "trait", "list", "nope"], 1, &["(404)"]),
        (&["port", "create", "--node", name], 2, &["ADDRESS"]),
        (&["port", "create", "nonsense", "--node", name], 1, &["(400)", "nonsense"]),
        (&["port", "create", "52:54:00:ff:00:02", "--node", "nope"], 1, &["(404)", "Node nope"]),
        (
            &["port", "create", "x", "--node", name, "--pxe-enabled", "perhaps"],
            2,
            &["perhaps", "true and false"],
        ),
        (&["port", "delete", "nope"], 1, &["port nope was not deleted"]),
        (&["volume", "connector", "collect", "--node", name, "--ssh=-oProxyCommand=x"], 2, &["--ssh"]),
        (
            &["volume", "connector", "collect", "--node", name, "--type", "iqm"],
            2,
            &["iqm", "did you mean 'iqn'"],
        ),
        (&["volume", "target", "unset", "x", "--boot_index"], 2, &["cannot be unset", "target set"]),
        (
            &["volume", "target", "list", "--sort", "node_uuid", "--marker", "x"],
            2,
            &["--marker", "node_uuid"],
        ),
        (&["volume", "target", "list", "--boot-index", "x"], 2, &["--boot-index"]),
        (&["volume", "connector", "list", "--type", "iqm"], 2, &["iqm"]),
        (&["volume", "target", "list", "--sort-ascending", "--sort-descending"], 2, &["--sort-descending"]),
        (&["volume", "target", "list", "-f", "shell"], 2, &["shell", "csv"]),
        (&["volume", "target", "list", "-f", "csv", "--quote", "some"], 2, &["some", "nonnumeric"]),
        (&["volume", "target", "list", "--max-width", "wide"], 2, &["--max-width"]),
        (&["volume", "target", "set", "x", "--property", "auth_username=******"], 3, &["user name"]),
    ] {
        bench.expect_error(arguments, code, words);
    }
}
