//! `create-env` on a machine of Ironic's: while its power is on, the agent runs with the settings that are on its
//! config drive.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use super::{IQN, Metal};
use crate::support::MONOPILE;
use crate::support::hello::Hello;
use crate::support::ironic::{Ironic, Node};
use crate::support::tarballs::{StemcellTarball, sha1};

/// What a machine would do, if there were one.
struct Machine {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Machine {
    fn plug_in(metal: &Metal, node: &Node) -> Machine {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, ironic, uuid) = (Arc::clone(&stop), metal.ironic.for_thread(), node.uuid.clone());
        let (volumes, scratch) = (metal.world.path("volumes"), metal.world.path(""));
        let thread = std::thread::spawn(move || {
            let mut running: Option<Child> = None;
            while !stopped.load(Ordering::SeqCst) {
                let seen = ironic.call("GET", &format!("/v1/nodes/{uuid}"), None);
                match (&mut running, seen["power_state"] == "power on") {
                    (None, true) => running = boot(ironic, &uuid, &volumes, &scratch),
                    (Some(machine), false) => {
                        end(machine);
                        running = None;
                    }
                    _ => {}
                }
                std::thread::sleep(Duration::from_millis(500));
            }
            if let Some(mut machine) = running {
                end(&mut machine);
            }
        });
        Machine { stop, thread: Some(thread) }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Reads the volume that target 1 names, and starts the agent, with a `/var` and processes of its own.
fn boot(ironic: &Ironic, node: &str, volumes: &Path, scratch: &Path) -> Option<Child> {
    let path = format!("/v1/volume/targets?node={node}&detail=true&sort_key=boot_index");
    let targets = ironic.call("GET", &path, None);
    let iqn = targets["targets"][1]["properties"]["target_iqn"].as_str()?.to_owned();
    let volume = volumes.join(format!("{}.img", iqn.strip_prefix(IQN)?.strip_prefix(':')?));
    let read = ["-R", "cat ec2/latest/user-data.json"];
    let content = Command::new("/usr/sbin/debugfs").args(read).arg(volume).output().unwrap();
    let settings = scratch.join("settings.json");
    std::fs::write(&settings, content.stdout).unwrap();
    let root = rustix::process::geteuid().is_root();
    let script = "mount -t tmpfs tmpfs /var && mkdir -p /var/vcap && exec \"$@\"";
    let log = std::fs::File::create(scratch.join("agent.log")).unwrap();
    let mut command = Command::new("unshare");
    command.arg(if root { "-mpf" } else { "-rmpf" }).args([
        "--mount-proc",
        "--kill-child=KILL",
        "sh",
        "-c",
        script,
        "init",
    ]);
    command.args([MONOPILE, "agent", "--base", "/var/vcap", "--settings"]).arg(&settings);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
    Some(command.spawn().unwrap())
}

fn end(machine: &mut Child) {
    machine.kill().unwrap();
    machine.wait().unwrap();
}

#[test]
fn an_environment_is_created_updated_and_deleted() {
    let metal = Metal::new();
    let node = metal.ironic.node();
    let mut hello = Hello::new();
    let image = [&[7; 512][..], &vec![0; 1 << 20]].concat();
    let stemcell = StemcellTarball {
        image: Some(image),
        extra: "stemcell_formats: [openstack-raw]\n".to_owned(),
        ..StemcellTarball::default()
    };
    let stemcell = stemcell.build();
    let path = hello.world.write("stemcell.tgz", &stemcell);
    let cpi = json!({"builtin": "ironic", "properties": {
        "ironic": {"endpoint": metal.ironic.url()},
        "storage": {
            "tool": "tgt", "directory": metal.world.path("volumes"), "portals": [metal.tgtd.portal], "iqn": IQN,
            "control_port": metal.tgtd.control_port, "ipc_socket": metal.tgtd.socket,
        },
    }});
    let replace = |path: &str, value: Value| json!({"type": "replace", "path": path, "value": value});
    let ops = json!([
        replace("/cloud_provider/cpi", cpi),
        replace("/resource_pools/name=vms/cloud_properties", json!({"resource_class": node.resource_class})),
        replace("/resource_pools/name=vms/stemcell/url", json!(format!("file://{}", path.display()))),
        replace("/resource_pools/name=vms/stemcell/sha1?", json!(sha1(&stemcell))),
        // Its device would be there only after a login to the storage, which needs the kernel of a machine.
        {"type": "remove", "path": "/instance_groups/name=hello/persistent_disk_pool"},
        {"type": "remove", "path": "/disk_pools"},
    ]);
    hello.ops("ironic.yml", &ops.to_string());

    let machine = Machine::plug_in(&metal, &node);
    let run = hello.create(&[]);
    let log = std::fs::read_to_string(metal.world.path("agent.log")).unwrap_or_default();
    assert_eq!(run.code, 0, "{}\n{}\n{log}", run.stdout, run.stderr);
    assert!(hello.ask().0.contains("Hello"));
    let seen = metal.node(&node);
    let cid = hello.state()["current_vm_cid"].as_str().unwrap().to_owned();
    assert_eq!((&seen["instance_uuid"], &seen["provision_state"]), (&json!(cid), &json!("active")));
    assert_eq!(seen["extra"]["bosh_metadata"]["instance_group"], "hello");
    let secret: Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    let secret = secret["mbus_bootstrap_password"].as_str().unwrap();
    assert!(!format!("{}{}", run.stdout, run.stderr).contains(secret));

    hello.create(&[]).success();
    assert_eq!(hello.state()["current_vm_cid"], json!(cid));
    hello.create(&["--recreate"]).success();
    assert_ne!(hello.state()["current_vm_cid"], json!(cid));
    hello.delete(&[]).success();
    drop(machine);
    metal.assert_clean(&node, &[]);
}
