//! Every CPI method in the order of a life.

use crate::support::process::{RunToEnd, prepare};
use crate::support::tarballs::Tar;

use serde_json::{Value, json};

use super::{IQN, Metal, short};

#[test]
fn vm_boots_from_its_volume_and_leaves_nothing() {
    let metal = Metal::new();
    let node = metal.ironic.create_node();
    let info = metal.call("info", json!([]));
    assert_eq!(info["api_version"], 2);
    let stemcell = metal.create_stemcell();
    let vm_answer = metal.call("create_vm", metal.create_vm_arguments(&stemcell, &node));
    let cid = vm_answer[0].as_str().unwrap();
    assert_eq!(cid.len(), 36);
    assert_eq!(vm_answer[1]["default"]["ip"], "10.0.0.5");

    let node_json = metal.node(&node);
    assert_eq!(
        (&node_json["provision_state"], &node_json["power_state"]),
        (&json!("active"), &json!("power on"))
    );
    assert_eq!((&node_json["instance_uuid"], &node_json["allocation_uuid"]), (&json!(cid), &json!(cid)));
    assert_eq!(metal.call("has_vm", json!([cid])), json!(true));

    // Ironic has the boot volume.
    let targets = metal.targets(&node);
    let (root, config) = (format!("root-{cid}"), format!("config-{cid}"));
    for (target, index, volume, role) in
        [(&targets[0], 0, &root, "root"), (&targets[1], 1, &config, "config")]
    {
        assert_eq!((&target["boot_index"], &target["volume_id"]), (&json!(index), &json!(cid)));
        assert_eq!((&target["volume_type"], &target["extra"]["role"]), (&json!("iscsi"), &json!(role)));
        let expected = json!({
            "target_portal": metal.tgtd.portal, "target_iqn": format!("{IQN}:{}", short(volume)),
            "target_lun": 1,
            "auth_method": "CHAP", "auth_username": short(volume), "auth_password": "******",
        });
        assert_eq!(target["properties"], expected);
    }
    let script = metal.ironic.read_file(&format!("httpboot/{}/config", node.uuid));
    let (address, port) = metal.tgtd.portal.split_once(':').unwrap();
    let password = metal.password(&root);
    let name = short(&root);
    for line in [
        format!("iscsi:{address}::{port}:1:{IQN}:{name}"),
        format!("iscsi:{address}::{port}:1:{IQN}:{}", short(&config)),
        format!("set initiator-iqn {}", node.initiator),
        format!("set username {name}"),
        format!("set password {password}"),
    ] {
        assert!(script.contains(&line), "'{line}' is missing:\n{script}");
    }

    // Only this initiator with these credentials has access.
    let inquire = |initiator: &str, password: &str| {
        metal.tgtd.inquire(initiator, &format!("{IQN}:{name}"), &name, password)
    };
    inquire(&node.initiator, &password).unwrap();
    assert!(inquire(&node.initiator, "wr0ngpassw0rd").is_err());
    assert!(inquire("iqn.2026-11.test.monopile:stranger", &password).is_err());

    // The content of the volumes.
    let image = std::fs::read(metal.world.path("image")).unwrap();
    let volume = |name: &str| metal.world.path(format!("volumes/{name}.img"));
    assert_eq!(std::fs::read(volume(&root)).unwrap(), image);
    let on_config_drive = |path: &str| -> Value {
        let output = prepare("/usr/sbin/debugfs")
            .args(["-R", &format!("cat {path}")])
            .arg(volume(&config))
            .run_to_end();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let settings = on_config_drive("ec2/latest/user-data.json");
    assert_eq!((&settings["agent_id"], &settings["vm"]["id"]), (&json!("agent-1"), &json!(cid)));
    assert_eq!(settings["mbus"], "https://mbus:mbus-s3cret@10.0.0.5:6868");
    assert_eq!(settings["env"], json!({"bosh": {"tags": {"a": "b"}, "mbus": {"cert": {"ca": "CA"}}}}));
    assert!(settings["networks"]["default"]["mac"].as_str().unwrap().starts_with("52:54:00:"));
    assert_eq!(on_config_drive("ec2/latest/meta-data.json")["instance-id"], json!(cid));

    metal.call("set_vm_metadata", json!([cid, {"director": "d", "job": "bosh/0"}]));
    assert_eq!(metal.node(&node)["extra"]["bosh_metadata"], json!({"director": "d", "job": "bosh/0"}));
    metal.call("reboot_vm", json!([cid]));
    assert_eq!(metal.node(&node)["power_state"], "power on");

    metal.call("delete_vm", json!([cid]));
    assert_eq!(metal.call("has_vm", json!([cid])), json!(false));
    metal.assert_clean(&node, &[&format!("stemcell-{stemcell}")]);
    assert_eq!(metal.targets(&node), Vec::<Value>::new());
    let connectors = metal.ironic.call("GET", &format!("/v1/volume/connectors?node={}", node.uuid), None);
    assert_eq!(connectors["connectors"][0]["connector_id"], json!(node.initiator));
    // Repeats the deletion, and deletes things that never existed.
    metal.call("delete_vm", json!([cid]));
    metal.call("delete_stemcell", json!([stemcell]));
    metal.call("delete_stemcell", json!([stemcell]));
    metal.assert_clean(&node, &[]);
    metal.expect_error("Bosh::Clouds::VMNotFound", "reboot_vm", json!([cid]));
    metal.expect_error("Bosh::Clouds::VMNotFound", "get_disks", json!(["../../etc"]));
    metal.expect_error("Bosh::Clouds::NotImplemented", "dance", json!([]));
    assert_eq!(metal.call("has_vm", json!(["../../etc"])), json!(false));
}

#[test]
fn disks_attach_and_detach_with_power_on_and_off() {
    let metal = Metal::new();
    let node = metal.ironic.create_node();
    let stemcell = metal.create_stemcell();
    let vm = metal.create_vm(&stemcell, &node);
    let disk = metal.call("create_disk", json!([8, {}, vm])).as_str().unwrap().to_owned();
    assert_eq!(metal.call("has_disk", json!([disk])), json!(true));
    assert_eq!(
        std::fs::metadata(metal.world.path(format!("volumes/disk-{disk}.img"))).unwrap().len(),
        8 << 20
    );

    // With the power on, Ironic accepts new targets but releases none.
    let hint = metal.call("attach_disk", json!([vm, disk]));
    let name = short(&format!("disk-{disk}"));
    let iqn = format!("{IQN}:{name}");
    assert_eq!(
        hint,
        json!({"path": format!("/dev/disk/by-path/ip-{}-iscsi-{iqn}-lun-1", metal.tgtd.portal)})
    );
    let targets = metal.targets(&node);
    assert_eq!((&targets[2]["boot_index"], &targets[2]["volume_id"]), (&json!(2), &json!(disk)));
    assert_eq!(targets[2]["extra"], json!({"role": "persistent"}));
    let login = |password: &str| metal.tgtd.inquire(&node.initiator, &iqn, &name, password);
    login(&metal.password(&format!("disk-{disk}"))).unwrap();
    assert_eq!(metal.call("get_disks", json!([vm])), json!([disk]));
    // Repeating the call gives the same result.
    assert_eq!(metal.call("attach_disk", json!([vm, disk])), hint);
    assert_eq!(metal.targets(&node).len(), 3);
    let message = metal.expect_error("Bosh::Clouds::CloudError", "delete_disk", json!([disk]));
    assert!(message.contains("detach it first"), "{message}");
    metal.expect_error("Bosh::Clouds::CloudError", "resize_disk", json!([disk, 16]));

    let password = metal.password(&format!("disk-{disk}"));
    metal.call("detach_disk", json!([vm, disk]));
    assert!(login(&password).is_err(), "hidden, whatever Ironic says");
    assert_eq!(metal.call("get_disks", json!([vm])), json!([]));
    assert_eq!(metal.targets(&node).len(), 3, "Ironic keeps it");
    assert_eq!(metal.node(&node)["extra"]["monopile_detached"], json!([targets[2]["uuid"]]));
    metal.call("detach_disk", json!([vm, disk]));

    // A disk that is attached again before Ironic released it gets another target.
    metal.call("attach_disk", json!([vm, disk]));
    assert_eq!(metal.targets(&node).len(), 4);
    assert_eq!(metal.call("get_disks", json!([vm])), json!([disk]));
    metal.call("detach_disk", json!([vm, disk]));
    metal.call("reboot_vm", json!([vm]));
    assert_eq!(metal.targets(&node).len(), 2, "off for a moment, it let go");
    assert_eq!(metal.node(&node)["extra"], json!({}));
    assert_eq!(metal.node(&node)["power_state"], "power on");

    // With the power off, both are released at once.
    metal.ironic.set_power(&node, "power off");
    metal.call("attach_disk", json!([vm, disk]));
    assert_eq!(metal.targets(&node).len(), 3);
    metal.call("detach_disk", json!([vm, disk]));
    assert_eq!(metal.targets(&node).len(), 2);
    assert_eq!(metal.node(&node)["extra"], json!({}));
    metal.ironic.set_power(&node, "power on");

    let snapshot = metal.call("snapshot_disk", json!([disk, {}]));
    metal.call("resize_disk", json!([disk, 16]));
    assert_eq!(
        std::fs::metadata(metal.world.path(format!("volumes/disk-{disk}.img"))).unwrap().len(),
        16 << 20
    );
    metal.expect_error("Bosh::Clouds::NotSupported", "resize_disk", json!([disk, 4]));
    metal.call("delete_snapshot", json!([snapshot]));

    // The VM is deleted, and its disk stays.
    metal.call("attach_disk", json!([vm, disk]));
    metal.call("delete_vm", json!([vm]));
    metal.assert_clean(&node, &[&format!("stemcell-{stemcell}"), &format!("disk-{disk}")]);
    metal.call("delete_disk", json!([disk]));
    metal.call("delete_disk", json!([disk]));
    assert_eq!(metal.call("has_disk", json!([disk])), json!(false));
    metal.expect_error("Bosh::Clouds::DiskNotFound", "resize_disk", json!([disk, 16]));
    metal.assert_clean(&node, &[&format!("stemcell-{stemcell}")]);
}

#[test]
fn volume_may_have_several_portals() {
    let metal = Metal::new();
    let node = metal.ironic.create_node();
    let second = metal.tgtd.add_portal("127.0.0.2");
    let portals = json!([metal.tgtd.portal, second]);
    metal.reconfigure(|config| config["storage"]["portals"] = portals.clone());
    let stemcell = metal.create_stemcell();
    let vm = metal.create_vm(&stemcell, &node);
    let root = format!("root-{vm}");
    let (name, iqn) = (short(&root), format!("{IQN}:{}", short(&root)));
    let target = &metal.targets(&node)[0]["properties"];
    assert_eq!((&target["target_portal"], &target["target_portals"]), (&portals[0], &portals));
    assert_eq!((&target["target_iqns"], &target["target_luns"]), (&json!([iqn, iqn]), &json!([1, 1])));
    let password = metal.password(&root);
    for portal in [&metal.tgtd.portal, &second] {
        metal.tgtd.inquire_at(portal, &node.initiator, &iqn, &name, &password).unwrap();
    }
    metal.call("delete_vm", json!([vm]));
    metal.assert_clean(&node, &[&format!("stemcell-{stemcell}")]);
}

#[test]
fn control_characters_reach_neither_ironic_nor_a_boot_script() {
    let metal = Metal::new();
    let node = metal.ironic.create_node();
    let stemcell = metal.create_stemcell();
    let vm = metal.create_vm(&stemcell, &node);
    let message = metal.expect_error(
        "Bosh::Clouds::CloudError",
        "set_vm_metadata",
        json!([vm, {"job": "bosh\nshell"}]),
    );
    assert!(message.contains("`extra.bosh_metadata.job` must not have control characters"), "{message}");
    assert_eq!(metal.node(&node)["extra"], json!({}));
    metal.call("delete_vm", json!([vm]));
    // A program of the operator is checked as strictly.
    metal.reconfigure(|config| {
        config["storage"] = json!({
            "tool": "command", "program": "/bin/sh", "arguments": ["-c", r#"
                case $(cat) in
                *'"export"'*) printf %s '{"result": {"portals": ["127.0.0.1:1"], "iqns": ["iqn.x\nshell"], "luns": [1]}}' ;;
                *) echo '{"result": 1}' ;;
                esac"#],
        });
    });
    let message = metal.expect_error(
        "Bosh::Clouds::CloudError",
        "create_vm",
        metal.create_vm_arguments(&stemcell, &node),
    );
    assert!(message.contains("`properties.target_iqn` must not have control characters"), "{message}");
    assert!(!message.contains("cleaning up failed"), "{message}");
    metal.assert_clean(&node, &[&format!("stemcell-{stemcell}")]);
}

#[test]
fn disk_can_be_attached_to_one_machine_only() {
    let metal = Metal::new();
    let (one, two) = (metal.ironic.create_node(), metal.ironic.create_node());
    let stemcell = metal.create_stemcell();
    let (vm, other) = (metal.create_vm(&stemcell, &one), metal.create_vm(&stemcell, &two));
    let disk = metal.call("create_disk", json!([1, {}]));
    metal.call("attach_disk", json!([vm, disk]));
    let message = metal.expect_error("Bosh::Clouds::CloudError", "attach_disk", json!([other, disk]));
    assert!(message.contains(&one.uuid), "{message}");
    metal.call("delete_vm", json!([vm]));
    metal.call("attach_disk", json!([other, disk]));
    assert_eq!(metal.call("get_disks", json!([other])), json!([disk]));
    metal.call("delete_vm", json!([other]));
    metal.call("delete_disk", json!([disk]));
    metal.assert_clean(&two, &[&format!("stemcell-{stemcell}")]);
}

#[test]
fn volumes_can_be_managed_by_a_custom_program() {
    let metal = Metal::with_command();
    let node = metal.ironic.create_node();
    let stemcell = metal.create_stemcell();
    let vm = metal.create_vm(&stemcell, &node);
    assert_eq!(metal.tgtd.targets(), [format!("{IQN}:root-{vm}"), format!("{IQN}:config-{vm}")]);
    let disk = metal.call("create_disk", json!([8, {}])).as_str().unwrap().to_owned();
    let hint = metal.call("attach_disk", json!([vm, disk]));
    let device = format!("ip-{}-iscsi-{IQN}:disk-{disk}-lun-1", metal.tgtd.portal);
    assert_eq!(hint, json!({"path": format!("/dev/disk/by-path/{device}")}));
    // Only the boot script contains the credentials.
    let script = metal.ironic.read_file(&format!("httpboot/{}/config", node.uuid));
    let name = short(&format!("root-{vm}"));
    let login = script.lines().skip_while(|line| *line != format!("set username {name}")).nth(1).unwrap();
    let password = login.strip_prefix("set password ").unwrap();
    let inquire =
        |password: &str| metal.tgtd.inquire(&node.initiator, &format!("{IQN}:root-{vm}"), &name, password);
    inquire(password).unwrap();
    assert!(inquire("wr0ngpassw0rd").is_err());
    metal.call("detach_disk", json!([vm, disk]));
    metal.call("resize_disk", json!([disk, 9]));
    metal.call("delete_disk", json!([disk]));
    metal.expect_error("Bosh::Clouds::DiskNotFound", "snapshot_disk", json!([disk, {}]));
    metal.call("delete_vm", json!([vm]));
    metal.assert_clean(&node, &[&format!("stemcell-{stemcell}")]);
}

#[test]
fn works_without_the_allocation_api() {
    let metal = Metal::new();
    metal.configure(&json!({"api_version": "1.51"}));
    let node = metal.ironic.create_node();
    let stemcell = metal.create_stemcell();
    let vm = metal.create_vm(&stemcell, &node);
    assert_eq!(metal.node(&node)["instance_uuid"], json!(vm));
    metal.expect_error(
        "Bosh::Clouds::VMCreationFailed",
        "create_vm",
        metal.create_vm_arguments(&stemcell, &node),
    );
    metal.call("delete_vm", json!([vm]));
    metal.assert_clean(&node, &[&format!("stemcell-{stemcell}")]);
}

#[test]
fn image_may_be_archived_but_must_be_raw() {
    let metal = Metal::new();
    metal.world.write("root.img", b"raw image");
    let mut tar = prepare("tar");
    metal.world.finish({
        metal.world.enter(&mut tar).args(["-czf", "image.tgz", "root.img"]);
        tar
    });
    let stemcell = metal.call("create_stemcell", json!([metal.world.path("image.tgz"), {}]));
    let volume = format!("volumes/stemcell-{}.img", stemcell.as_str().unwrap());
    assert_eq!(metal.world.read(volume), "raw image");
    metal.world.write("qcow2", b"QFI\xfb and more");
    let message = metal.expect_error(
        "Bosh::Clouds::CloudError",
        "create_stemcell",
        json!([metal.world.path("qcow2"), {}]),
    );
    assert!(message.contains("qcow2"), "{message}");
    metal.world.write("files.tgz", Tar::default().directory("etc").tgz());
    let message = metal.expect_error(
        "Bosh::Clouds::NotSupported",
        "create_stemcell",
        json!([metal.world.path("files.tgz"), {}]),
    );
    assert!(message.contains("is a root file system"), "{message}");
    assert_eq!(metal.volumes().len(), 1);
}

#[test]
fn machine_can_boot_over_fibre_channel() {
    let metal = Metal::with_command();
    let node = metal.ironic.create_node();
    metal.use_fibre_channel(&node);
    let stemcell = metal.create_stemcell();
    // The iSCSI initiator of the machine does not count.
    let message = metal.expect_error(
        "Bosh::Clouds::VMCreationFailed",
        "create_vm",
        metal.create_vm_arguments(&stemcell, &node),
    );
    assert!(message.contains("no volume connector of type 'wwpn'"), "{message}");
    metal.assert_clean(&node, &[&format!("stemcell-{stemcell}")]);
    let names = ["10:00:00:90:fa:00:00:01", "10:00:00:90:fa:00:00:02", "20:00:00:90:fa:00:00:01"];
    for (kind, name) in ["wwpn", "wwpn", "wwnn"].into_iter().zip(names) {
        let connector = json!({"node_uuid": node.uuid, "type": kind, "connector_id": name});
        metal.ironic.call("POST", "/v1/volume/connectors", Some(connector));
    }

    let vm = metal.create_vm(&stemcell, &node);
    let disk = metal.call("create_disk", json!([8, {}, vm]));
    let volume = format!("disk-{}", disk.as_str().unwrap());
    let hint = json!({"path": format!("/dev/disk/by-id/wwn-{volume}")});
    assert_eq!(metal.call("attach_disk", json!([vm, disk])), hint);
    let targets = metal.targets(&node);
    assert_eq!(targets.len(), 3);
    let wwns = ["50:06:01:60:3b:a0:00:01", "50:06:01:68:3b:a0:00:01"];
    for target in &targets {
        assert_eq!(target["volume_type"], "fibre_channel");
        let kind = match target["boot_index"].as_u64() {
            Some(0) => "root",
            Some(1) => "config",
            _ => "disk",
        };
        let device = format!("/dev/disk/by-id/wwn-{kind}-{}", target["volume_id"].as_str().unwrap());
        let expected = json!({
            "target_wwn": wwns, "device_path": device, "target_lun": 3, "target_luns": [3, 3],
        });
        assert_eq!(target["properties"], expected);
    }
    let exported_to = |volume: &str| metal.world.read(format!("volumes/{volume}.img.shown"));
    let mut port_names: Vec<String> = serde_json::from_str(&exported_to(&format!("root-{vm}"))).unwrap();
    port_names.sort();
    assert_eq!(port_names, names);
    assert_eq!(metal.node(&node)["provision_state"], "active");
    metal.call("detach_disk", json!([vm, disk]));
    assert!(!metal.world.path(format!("volumes/{volume}.img.shown")).exists());
    metal.call("delete_vm", json!([vm]));
    metal.call("delete_disk", json!([disk]));
    metal.assert_clean(&node, &[&format!("stemcell-{stemcell}")]);

    // tgt supports only iSCSI.
    metal.configure(&json!({}));
    let stemcell = metal.create_stemcell();
    let message = metal.expect_error(
        "Bosh::Clouds::CloudError",
        "create_vm",
        metal.create_vm_arguments(&stemcell, &node),
    );
    assert!(message.contains("cannot be exported over fibre channel"), "{message}");
}
