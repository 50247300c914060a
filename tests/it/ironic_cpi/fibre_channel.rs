//! Machines that boot over fibre channel.
//!
//! No emulator has a fibre channel adapter with firmware. The nearest thing is the kernel's own target with
//! its own initiator (`tcm_loop`), which knows ports and initiators by their fibre channel names.

use serde_json::{Value, json};

use super::lvm::SeparateKernel;
use crate::support::process::{RunToEnd, prepare};

const NAMES: [(&str, &str); 2] = [("wwpn", "10:00:00:90:fa:00:01:01"), ("wwnn", "20:00:00:90:fa:00:01:01")];

/// Returns the device of a path of the form `/dev/disk/by-id/wwn-0x…`. This kernel has no udev.
fn device(kernel: &SeparateKernel, path: &Value) -> Option<String> {
    let name = path.as_str().unwrap().strip_prefix("/dev/disk/by-id/wwn-0x").unwrap();
    let wwid_file = kernel.sh(&format!("grep -l naa.{name} /sys/block/sd*/device/wwid || true"));
    wwid_file
        .trim()
        .strip_prefix("/sys/block/")
        .map(|rest| format!("/dev/{}", rest.split('/').next().unwrap()))
}

#[test]
fn machine_finds_its_volumes_over_fibre_channel() {
    let kernel = SeparateKernel::new();
    for module in ["target_core_file", "sd_mod", "tcm_loop"] {
        kernel.sh(&format!("modprobe -d modules {module}"));
    }
    let metal = &kernel.metal;
    kernel.configure(json!({
        "tool": "command",
        "program": concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/uml/storage-command"),
        "arguments": [metal.world.path("volumes")],
    }));
    let node = metal.ironic.create_node();
    metal.use_fibre_channel(&node);
    for (kind, name) in NAMES {
        let connector = json!({"node_uuid": node.uuid, "type": kind, "connector_id": name});
        metal.ironic.call("POST", "/v1/volume/connectors", Some(connector));
    }
    metal.world.write("files/etc/issue", "the root file system");
    let image = metal.world.path("root.img");
    let mut make = prepare("/usr/sbin/mke2fs");
    make.args(["-q", "-t", "ext4", "-d"]).arg(metal.world.path("files")).arg(&image).arg("8M");
    assert!(make.run_to_end().status.success());

    let stemcell = kernel.call("create_stemcell", json!([image, {}]));
    let vm_answer = kernel.call("create_vm", metal.create_vm_arguments(stemcell.as_str().unwrap(), &node));
    let vm = vm_answer[0].as_str().unwrap();
    let targets = metal.targets(&node);
    for (target, role) in targets.iter().zip(["root", "config"]) {
        assert_eq!(
            (&target["volume_type"], &target["extra"]["role"]),
            (&json!("fibre_channel"), &json!(role))
        );
    }
    // The machine finds the root volume at the LUN in Ironic and starts from its file system.
    let root = device(&kernel, &targets[0]["properties"]["device_path"]).unwrap();
    let lun =
        kernel.sh(&format!("basename $(readlink -f /sys/block/{}/device)", root.trim_start_matches("/dev/")));
    assert!(lun.trim().ends_with(&format!(":{}", targets[0]["properties"]["target_lun"])), "{lun}");
    let issue = kernel.sh(&format!("mount -o ro {root} /mnt && cat /mnt/etc/issue && umount /mnt"));
    assert_eq!(issue, "the root file system");
    let config = device(&kernel, &targets[1]["properties"]["device_path"]).unwrap();
    let metadata = kernel.sh(&format!("debugfs -R 'cat ec2/latest/meta-data.json' {config}"));
    assert_eq!(serde_json::from_str::<Value>(&metadata).unwrap()["instance-id"], json!(vm));
    // Only this initiator has a nexus.
    let nexus = kernel.sh("cat /sys/kernel/config/target/loopback/fc.*/tpgt_*/nexus");
    assert_eq!(nexus.trim(), NAMES[0].1.replace(':', ""));

    let disk = kernel.call("create_disk", json!([8, {}, vm]));
    let hint = kernel.call("attach_disk", json!([vm, disk]));
    let persistent = device(&kernel, &hint["path"]).unwrap();
    kernel.sh(&format!("echo data | dd of={persistent} conv=fsync"));
    kernel.call("detach_disk", json!([vm, disk]));
    assert_eq!(device(&kernel, &hint["path"]), None);
    kernel.call("delete_vm", json!([vm]));
    let volume = format!("disk-{}", disk.as_str().unwrap());
    let content = std::fs::read(metal.world.path(format!("volumes/{volume}.img"))).unwrap();
    assert!(content.starts_with(b"data\n"));
    kernel.call("delete_disk", json!([disk]));
    kernel.call("delete_stemcell", json!([stemcell]));
    metal.assert_clean(&node, &[]);
    assert_eq!(kernel.sh("ls /sys/kernel/config/target/core/fileio_0").trim(), "hba_info\nhba_mode");
}
