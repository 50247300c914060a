//! The built-in `ironic` CPI, driven like any CPI, with a real Ironic and a real iSCSI target.

#![cfg(target_os = "linux")]

mod boot;
mod environment;
mod failures;
mod faults;
mod fibre_channel;
mod life;
mod lvm;

use crate::support::process::WaitForEnd;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use rustix::process::Pid;
use serde_json::{Value, json};

use crate::support::World;
use crate::support::ironic::{ExclusiveIronic, Node, lock_shared_ironic};
use crate::support::tgt::Tgtd;

/// Returns a request in the format of contract 2.
fn request(method: &str, arguments: Value) -> String {
    let context = json!({"director_uuid": "d", "request_id": "r", "vm": {"stemcell": {"api_version": 3}}});
    json!({"method": method, "arguments": arguments, "context": context, "api_version": 2}).to_string()
}

const IQN: &str = "iqn.2026-11.test.monopile";

/// Returns the name of a volume on machines: its kind, and the end of its UUID.
fn short(volume: &str) -> String {
    let (kind, uuid) = volume.split_once('-').unwrap();
    format!("{kind}-{}", uuid.rsplit('-').next().unwrap())
}

/// Separate storage, with an Ironic that tests share.
struct Metal {
    world: World,
    tgtd: Tgtd,
    // Dropped last, so that the exclusive use ends after everything else.
    ironic: ExclusiveIronic,
}

impl Metal {
    fn new() -> Metal {
        let world = World::new();
        let tgtd = Tgtd::start(&world.path(""));
        let metal = Metal { world, ironic: lock_shared_ironic(), tgtd };
        metal.configure(&json!({}));
        metal.world.write("image", [&[7; 512][..], &vec![0; 4 << 20], b"the end of the image"].concat());
        metal
    }

    /// Configures a program that manages the volumes in place of the CPI.
    fn with_command() -> Metal {
        let metal = Metal::new();
        metal.reconfigure(|config| {
            config["storage"] = json!({
                "tool": "command",
                "program": concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/tgt/storage-command"),
                "arguments": [
                    metal.world.path("volumes"), metal.tgtd.socket, metal.tgtd.control_port.to_string(),
                        metal.tgtd.portal,
                ],
            });
        });
        metal
    }

    /// Writes the CPI's configuration, with additional keys in `ironic`.
    fn configure(&self, extra_settings: &Value) {
        let mut ironic = json!({"endpoint": self.ironic.url()});
        ironic.as_object_mut().unwrap().extend(extra_settings.as_object().unwrap().clone());
        let config = json!({
            "ironic": ironic,
            "storage": {
                "tool": "tgt", "directory": self.world.path("volumes"), "portals": [self.tgtd.portal],
                "iqn": IQN,
                "control_port": self.tgtd.control_port, "ipc_socket": self.tgtd.socket,
            },
            "agent": {"mbus": "https://mbus:mbus-s3cret@10.0.0.5:6868", "cert": {"ca": "CA"}},
            "ntp": ["ntp.example.org"],
            "deploy_timeout": 120,
        });
        self.world.write("ironic.json", config.to_string());
    }

    /// Changes the CPI's configuration.
    fn reconfigure(&self, change: impl FnOnce(&mut Value)) {
        let mut config = serde_json::from_str(&self.world.read("ironic.json")).unwrap();
        change(&mut config);
        self.world.write("ironic.json", config.to_string());
    }

    fn command(&self) -> Command {
        self.world.monopile(["cpi-exec", "ironic", "--config", "ironic.json"])
    }

    /// Calls a CPI and returns its complete answer. Passes its process to `on_start` first.
    fn exchange(mut command: Command, method: &str, arguments: Value, on_start: impl FnOnce(Pid)) -> String {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        on_start(Pid::from_child(&child));
        child.stdin.take().unwrap().write_all(request(method, arguments).as_bytes()).unwrap();
        String::from_utf8(child.end_with_output().stdout).unwrap()
    }

    fn try_call(&self, method: &str, arguments: Value) -> Value {
        let text = Metal::exchange(self.command(), method, arguments, |_| ());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[track_caller]
    fn call(&self, method: &str, arguments: Value) -> Value {
        let answer = self.try_call(method, arguments);
        assert_eq!(answer["error"], Value::Null, "{method}: {}\n{}", answer["error"], answer["log"]);
        answer["result"].clone()
    }

    /// Checks that the call fails with this error type, and returns the message.
    #[track_caller]
    fn expect_error(&self, kind: &str, method: &str, arguments: Value) -> String {
        let answer = self.try_call(method, arguments);
        assert_eq!(answer["error"]["type"], json!(kind), "{method}: {answer}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    }

    /// Creates a stemcell, and returns its CID.
    fn create_stemcell(&self) -> String {
        self.call("create_stemcell", json!([self.world.path("image"), {}])).as_str().unwrap().to_owned()
    }

    /// Returns the arguments of `create_vm` for this node. Makes no call.
    fn create_vm_arguments(&self, stemcell: &str, node: &Node) -> Value {
        json!([
            "agent-1", stemcell, {"resource_class": node.resource_class},
            {"default": {"type": "manual", "ip": "10.0.0.5", "netmask": "255.255.255.0",
            "gateway": "10.0.0.1"}},
            [], {"bosh": {"tags": {"a": "b"}}},
        ])
    }

    /// Creates a VM, and returns its CID.
    #[track_caller]
    fn create_vm(&self, stemcell: &str, node: &Node) -> String {
        let answer = self.call("create_vm", self.create_vm_arguments(stemcell, node));
        answer[0].as_str().unwrap().to_owned()
    }

    fn node(&self, node: &Node) -> Value {
        self.ironic.call("GET", &format!("/v1/nodes/{}", node.uuid), None)
    }

    /// Makes a node boot over fibre channel. Ironic then lets the machine boot from its own disk, which fake
    /// hardware cannot do.
    fn use_fibre_channel(&self, node: &Node) {
        let set = |path: &str, value: &str| json!({"op": "add", "path": path, "value": value});
        let changes = json!([
            set("/driver", "manual-management"),
            set("/management_interface", "noop"),
            set("/power_interface", "fake"),
            set("/storage_interface", "external"),
            set("/properties/capabilities", "fibre_channel_boot:true"),
        ]);
        let path = format!("/v1/nodes/{}?reset_interfaces=true", node.uuid);
        self.ironic.call("PATCH", &path, Some(changes));
    }

    fn targets(&self, node: &Node) -> Vec<Value> {
        let path = format!("/v1/volume/targets?node={}&detail=true&sort_key=boot_index", node.uuid);
        self.ironic.call("GET", &path, None)["targets"].as_array().unwrap().clone()
    }

    /// Returns all volumes.
    fn volumes(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.world.path("volumes")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| name.strip_suffix(".img").map(str::to_owned)).collect()
    }

    /// Returns the password of a volume's export, from the file of tgt-admin.
    fn password(&self, volume: &str) -> String {
        let conf = self.world.read(format!("volumes/exports/{volume}.conf"));
        let line = conf.lines().find(|line| line.trim().starts_with("incominguser")).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    }

    /// Checks that only these volumes are left, and that the node is unchanged.
    #[track_caller]
    fn assert_clean(&self, node: &Node, volumes: &[&str]) {
        assert_eq!(self.volumes(), volumes.iter().map(ToString::to_string).collect());
        assert_eq!(self.tgtd.targets(), Vec::<String>::new());
        let exports = std::fs::read_dir(self.world.path("volumes/exports")).map_or(0, Iterator::count);
        assert_eq!(exports, 0);
        let node_json = self.node(node);
        for (key, value) in [
            ("provision_state", json!("available")),
            ("power_state", json!("power off")),
            ("instance_uuid", Value::Null),
            ("allocation_uuid", Value::Null),
            ("extra", json!({})),
        ] {
            assert_eq!(node_json[key], value, "{key}");
        }
        let allocations =
            self.ironic.call("GET", &format!("/v1/allocations?resource_class={}", node.resource_class), None);
        assert_eq!(allocations["allocations"], json!([]));
    }
}
