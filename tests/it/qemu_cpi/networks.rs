//! VMs on bridges and tap devices, in a network namespace of the test's own.

use std::process::Command;

use serde_json::{Value, json};

use super::Cloud;
use crate::support::network::Network;
use crate::support::process::{RunToEnd as _, wait_until};

/// A cloud on a machine with the bridge `br0` and the tap device `tap0`.
fn cloud() -> Cloud {
    let mut cloud = Cloud::with_properties(json!({}));
    cloud.network = Some(Network::new());
    let set_up =
        ["link add br0 type bridge", "link set br0 up", "tuntap add dev tap0 mode tap", "link set tap0 up"];
    for arguments in set_up {
        assert!(run_ip(&cloud, arguments).0, "{arguments}");
    }
    cloud
}

/// Runs `ip` in the namespace. Returns true if it succeeded, and what it printed.
fn run_ip(cloud: &Cloud, arguments: &str) -> (bool, String) {
    let mut command: Command = cloud.network.as_ref().unwrap().command("ip");
    let output = command.args(arguments.split(' ')).run_to_end();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

fn on(device: Value, address: &str) -> Value {
    json!({"type": "manual", "ip": address, "netmask": "255.255.255.0", "gateway": "10.7.0.1",
        "cloud_properties": device})
}

/// Returns the arguments of `create_vm` for a VM with these networks.
fn arguments(stemcell: &Value, networks: Value) -> Value {
    let mut arguments = Cloud::create_vm_arguments(stemcell, json!({}));
    arguments[3] = networks;
    arguments
}

#[test]
fn vm_has_networks_on_a_bridge_and_a_tap_device() {
    let cloud = cloud();
    let stemcell = cloud.create_stemcell();
    let networks = json!({"forwarded": {"type": "dynamic"}, "lan": on(json!({"bridge": "br0"}), "10.7.0.2"),
        "point": on(json!({"tap": "tap0"}), "10.8.0.2")});
    let answer = cloud.call("create_vm", arguments(&stemcell, networks));
    let vm = answer[0].as_str().unwrap().to_owned();
    assert_eq!(answer[1]["lan"]["ip"], "10.7.0.2");
    assert_eq!(answer[1]["forwarded"]["ip"], "10.0.2.15");
    let devices = || run_ip(&cloud, "-o link show master br0").1;
    let is_connected = || devices().matches(": mp").count() == 1 && devices().contains(",UP");
    assert!(is_connected(), "{}", devices());
    cloud.wait_for_guest(&vm, 1);
    assert!(run_ip(&cloud, "-o link show dev tap0").1.contains("LOWER_UP"), "QEMU has opened it");

    // A VM that boots again is connected again.
    rustix::process::kill_process(cloud.pid(&vm), rustix::process::Signal::KILL).unwrap();
    wait_until("the tap device of the VM disappears", || devices().is_empty());
    cloud.call("reboot_vm", json!([vm]));
    assert!(is_connected(), "{}", devices());
    cloud.call("delete_vm", json!([vm]));
    assert_eq!(devices(), "");
    assert!(run_ip(&cloud, "link show dev tap0").0, "the device of the administrator is gone");
    cloud.call("delete_stemcell", json!([stemcell]));
    cloud.assert_empty();
}

#[test]
fn devices_that_cannot_be_used_are_named() {
    let cloud = cloud();
    let stemcell = cloud.create_stemcell();
    let lan = |device: Value| json!({"lan": on(device, "10.7.0.2")});
    for (networks, part) in [
        (lan(json!({"bridge": "br1"})), "does not have the bridge 'br1'"),
        (lan(json!({"tap": "tap1"})), "Create it (`ip tuntap add dev tap1 mode tap user $USER`)"),
        (lan(json!({"bridge": "lo"})), "'lo' of this machine is not a bridge"),
        (lan(json!({"tap": "br0"})), "'br0' of this machine is not a tap device"),
        (
            json!({"a": {"type": "dynamic", "cloud_properties": {"bridge": "br0"}}}),
            "the address must be known",
        ),
        (json!({"a": on(json!({"bridge": "br0"}), "127.0.0.1")}), "it is a loopback address"),
    ] {
        let message = cloud.expect_error("create_vm", arguments(&stemcell, networks.clone())).1;
        assert!(message.contains(part), "{networks}: {message}");
    }
    let mut with_ports = arguments(&stemcell, lan(json!({"bridge": "br0"})));
    with_ports[2]["ports"] = json!({"web": 80});
    let message = cloud.expect_error("create_vm", with_ports).1;
    assert!(message.contains("`ports` needs a network without `bridge` or `tap`"), "{message}");

    // Another user, or root without the capability, cannot create a tap device.
    let mut command = cloud.network.as_ref().unwrap().command("setpriv");
    command.args(["--bounding-set=-net_admin", "--inh-caps=-net_admin", crate::support::MONOPILE]);
    cloud.world.enter(&mut command).args(["cpi-exec", "qemu", "--config", "config.json"]);
    let request = super::request("create_vm", arguments(&stemcell, lan(json!({"bridge": "br0"}))));
    let output = command.run_with_input(request.to_string().as_bytes());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("needs root or the capability CAP_NET_ADMIN"), "{message}");
    assert!(message.contains("`ip link set dev tap0 master br0 up`"), "{message}");
    assert_eq!(answer["error"]["made_nothing"], true);
    cloud.call("delete_stemcell", json!([stemcell]));
    cloud.assert_empty();
}
