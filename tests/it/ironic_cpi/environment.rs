//! `create-env` on an Ironic machine. While the power of the machine is on, the agent runs with the settings
//! on its config drive. Logging in to storage needs a real machine's kernel. Here, a volume that tgtd exports
//! is a directory at the path at which udev would create its device.

use crate::support::process::{RunToEnd, WaitForEnd, prepare};
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{IQN, Metal, short};
use crate::support::hello::Hello;
use crate::support::ironic::{Ironic, Node};
use crate::support::scripted::wait_until;
use crate::support::tarballs::{StemcellTarball, sha1};
use crate::support::{MONOPILE, Run};

/// Simulates a machine.
struct Machine {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Machine {
    fn plug_in(metal: &Metal, node: &Node) -> Machine {
        let stop = Arc::new(AtomicBool::new(false));
        let (is_stopped, ironic, uuid) = (Arc::clone(&stop), metal.ironic.for_thread(), node.uuid.clone());
        let (volumes, scratch) = (metal.world.path("volumes"), metal.world.path(""));
        let portal = metal.tgtd.portal.clone();
        std::fs::create_dir_all(scratch.join("by-path")).unwrap();
        let thread = std::thread::spawn(move || {
            let mut machine_process: Option<Child> = None;
            while !is_stopped.load(Ordering::SeqCst) {
                for _ in 0..PLUGS_PER_POLL {
                    plug_disks(&volumes, &scratch, &portal);
                    std::thread::sleep(PLUG_PAUSE);
                }
                let node_json = ironic.call("GET", &format!("/v1/nodes/{uuid}"), None);
                match (&mut machine_process, node_json["power_state"] == "power on") {
                    (None, true) => machine_process = boot(ironic, &uuid, &volumes, &scratch),
                    (Some(machine), false) => {
                        end(machine);
                        machine_process = None;
                    }
                    _ => {}
                }
            }
            if let Some(mut machine) = machine_process {
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

/// The pause between two checks for disks and for the power state.
const PLUG_PAUSE: Duration = Duration::from_millis(20);
const PLUGS_PER_POLL: u32 = 20;

/// Creates a path for each exported volume, and removes all others.
fn plug_disks(volumes: &Path, scratch: &Path, portal: &str) {
    let names = |directory: &Path| -> BTreeSet<String> {
        let entries = std::fs::read_dir(directory).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let device = |volume: &str| format!("ip-{portal}-iscsi-{IQN}:{}-lun-1", short(volume));
    let exports = names(&volumes.join("exports"));
    let exports = exports.iter().filter_map(|name| name.strip_suffix(".conf"));
    let exported_volumes: Vec<&str> = exports.filter(|name| name.starts_with("disk-")).collect();
    let plugged_paths = names(&scratch.join("by-path"));
    for name in
        plugged_paths.iter().filter(|name| !exported_volumes.iter().any(|volume| device(volume) == **name))
    {
        std::fs::remove_file(scratch.join("by-path").join(name)).unwrap();
    }
    for volume in exported_volumes.iter().filter(|volume| !plugged_paths.contains(&device(volume))) {
        let data = scratch.join("disks").join(volume);
        std::fs::create_dir_all(&data).unwrap();
        std::os::unix::fs::symlink(data, scratch.join("by-path").join(device(volume))).unwrap();
    }
}

/// Reads the config drive, which is target 1, and starts the agent with its own `/var` and processes.
fn boot(ironic: &Ironic, node: &str, volumes: &Path, scratch: &Path) -> Option<Child> {
    let path = format!("/v1/volume/targets?node={node}&detail=true&sort_key=boot_index");
    let targets = ironic.call("GET", &path, None);
    let volume = volumes.join(format!("config-{}.img", targets["targets"][1]["volume_id"].as_str()?));
    let read = ["-R", "cat ec2/latest/user-data.json"];
    let content = prepare("/usr/sbin/debugfs").args(read).arg(volume).run_to_end();
    let settings = scratch.join("settings.json");
    std::fs::write(&settings, content.stdout).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let script = "set -e\n\
                  mount -t tmpfs tmpfs /mnt; mkdir -p /mnt/dev/disk/by-path\n\
                  for name in null zero full random urandom tty; do\n\
                  : >/mnt/dev/$name; mount --bind /dev/$name /mnt/dev/$name\n\
                  done\n\
                  ln -s /proc/self/fd /mnt/dev/fd; mount --bind \"$1\" /mnt/dev/disk/by-path; mount --rbind \
                  /mnt/dev /dev\n\
                  mount -t tmpfs tmpfs /var; mkdir -p /var/vcap; shift; exec \"$@\"";
    let log = std::fs::File::create(scratch.join("agent.log")).unwrap();
    let mut command = prepare("unshare");
    command.arg(if is_root { "-mpf" } else { "-rmpf" }).args([
        "--mount-proc",
        "--kill-child=KILL",
        "sh",
        "-c",
        script,
        "init",
    ]);
    command.arg(scratch.join("by-path"));
    command.args([MONOPILE, "agent", "--base", "/var/vcap", "--settings"]).arg(&settings);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
    Some(command.spawn().unwrap())
}

fn end(machine: &mut Child) {
    machine.kill().unwrap();
    machine.end();
}

/// Returns the hello environment on this machine.
fn hello_on(metal: &Metal, node: &Node) -> Hello {
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
            "tool": "tgt", "directory": metal.world.path("volumes"), "portals": [metal.tgtd.portal],
            "iqn": IQN,
            "control_port": metal.tgtd.control_port, "ipc_socket": metal.tgtd.socket,
        },
    }});
    let replace = |path: &str, value: Value| json!({"type": "replace", "path": path, "value": value});
    let ops = json!([
        replace("/cloud_provider/cpi", cpi),
        replace("/resource_pools/name=vms/cloud_properties", json!({"resource_class": node.resource_class})),
        replace("/resource_pools/name=vms/stemcell/url", json!(format!("file://{}", path.display()))),
        replace("/resource_pools/name=vms/stemcell/sha1?", json!(sha1(&stemcell))),
    ]);
    hello.add_ops("ironic.yml", &ops.to_string());
    hello
}

#[track_caller]
fn create_env(metal: &Metal, hello: &Hello, extra_args: &[&str]) -> Run {
    let run = hello.create(extra_args);
    let log = std::fs::read_to_string(metal.world.path("agent.log")).unwrap_or_default();
    assert_eq!(run.code, 0, "{}\n{}\n{log}", run.stdout, run.stderr);
    run
}

#[test]
fn environment_is_created_updated_and_deleted() {
    let metal = Metal::new();
    let node = metal.ironic.create_node();
    let hello = hello_on(&metal, &node);
    let machine = Machine::plug_in(&metal, &node);
    let run = create_env(&metal, &hello, &[]);
    let (greeting, first) = hello.ask_greeting_and_counter();
    assert!(greeting.contains("Hello"));
    let node_json = metal.node(&node);
    let cid = hello.state()["current_vm_cid"].as_str().unwrap().to_owned();
    assert_eq!((&node_json["instance_uuid"], &node_json["provision_state"]), (&json!(cid), &json!("active")));
    assert_eq!(node_json["extra"]["bosh_metadata"]["instance_group"], "hello");
    let secret: Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    let secret = secret["mbus_bootstrap_password"].as_str().unwrap();
    assert!(!format!("{}{}", run.stdout, run.stderr).contains(secret));
    // The disk is the third target, and its hint in the state has a path.
    let disk = hello.state()["disks"][0]["cid"].as_str().unwrap().to_owned();
    assert_eq!(metal.targets(&node)[2]["volume_id"], json!(disk));
    assert_eq!(metal.call("get_disks", json!([cid])), json!([disk]));

    create_env(&metal, &hello, &[]);
    assert_eq!(hello.state()["current_vm_cid"], json!(cid));
    create_env(&metal, &hello, &["--recreate"]);
    assert_ne!(hello.state()["current_vm_cid"], json!(cid));
    assert_eq!(hello.ask_counter(), first + 1, "the disk came along");
    let targets = metal.targets(&node);
    assert_eq!((targets.len(), &targets[2]["volume_id"]), (3, &json!(disk)));
    hello.delete(&[]).success();
    drop(machine);
    metal.assert_clean(&node, &[]);
}

/// Kills the program while its CPI creates the VM.
fn kill_while_the_vm_is_made(metal: &Metal, node: &Node, hello: &Hello) {
    let mut command = hello.command("create-env", &[]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = command.spawn().unwrap();
    wait_until("a node is claimed", || metal.node(node)["instance_uuid"].is_string());
    run.kill().unwrap();
    run.end();
}

/// Returns the CPI processes of this environment.
fn cpis(hello: &Hello) -> Vec<Pid> {
    let world = format!("MONOPILE_TEST_WORLD={}", hello.world.root().display());
    let read = |pid: i32, file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let contains_entry =
        |bytes: Vec<u8>, text: &str| bytes.split(|byte| *byte == 0).any(|part| part == text.as_bytes());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        contains_entry(read(*pid, "cmdline"), "cpi-exec") && contains_entry(read(*pid, "environ"), &world)
    })
    .filter_map(Pid::from_raw)
    .collect()
}

#[test]
fn kill_during_create_vm_leaks_nothing() {
    let metal = Metal::new();
    let node = metal.ironic.create_node();
    let hello = hello_on(&metal, &node);
    let machine = Machine::plug_in(&metal, &node);
    let vm = || metal.node(&node)["instance_uuid"].clone();
    // The CPI of the killed run survives, and the next run reads its answer.
    kill_while_the_vm_is_made(&metal, &node, &hello);
    create_env(&metal, &hello, &[]);
    assert_eq!(hello.state()["current_vm_cid"], vm());
    assert_eq!(metal.volumes().len(), 4, "stemcell, root, config, disk: {:?}", metal.volumes());
    hello.delete(&[]).success();
    metal.assert_clean(&node, &[]);

    // The CPI of the killed run is killed too, so the outcome is unknown until the next VM is created.
    kill_while_the_vm_is_made(&metal, &node, &hello);
    let pids = cpis(&hello);
    assert_eq!(pids.len(), 1);
    kill_process(pids[0], Signal::KILL).unwrap();
    let vm_of_killed_run = vm();
    let run = hello.create(&[]).exits_with(1);
    assert!(run.stderr.contains("--forget-open-calls") && run.stderr.contains("agent ID"), "{}", run.stderr);
    assert_eq!(vm(), vm_of_killed_run);
    create_env(&metal, &hello, &["--forget-open-calls"]);
    assert_ne!(vm(), vm_of_killed_run);
    assert_eq!(hello.state()["current_vm_cid"], vm());
    assert_eq!(metal.volumes().len(), 4, "{:?}", metal.volumes());
    hello.delete(&[]).success();
    drop(machine);
    metal.assert_clean(&node, &[]);
}

#[test]
fn ironic_cpi_passes_cpi_check() {
    let metal = Metal::new();
    let node = metal.ironic.create_node();
    let hello = hello_on(&metal, &node);
    let run = hello.world.finish(hello.builtin_command(&["cpi", "check"], &["--json"]));
    let report: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}\n{run:?}"));
    let checks_with_result = |result: &str| -> BTreeSet<String> {
        let checks = report["checks"].as_array().unwrap().iter().filter(|check| check["result"] == result);
        checks.map(|check| check["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(checks_with_result("fail"), BTreeSet::new(), "{report:#}");
    run.success();
    let not_there = [
        "calculate_vm_cloud_properties",
        "configure_networks",
        "current_vm_id",
        "set_disk_metadata",
        "set_disk_metadata of a deleted disk",
        "update_disk",
    ];
    assert_eq!(checks_with_result("skip"), not_there.map(str::to_owned).into());
    assert_eq!(report["left_behind"], json!([]));
    metal.assert_clean(&node, &[]);
}

/// Runs only `monopile`: it enrols the machine, deploys to it, and retires it.
#[test]
fn machine_is_enrolled_deployed_and_retired() {
    let metal = Metal::new();
    let name = format!("rack-{}", rustix::process::getpid().as_raw_nonzero());
    let baremetal = |arguments: &[&str]| -> String {
        let run = metal.world.finish(metal.ironic.monopile(&metal.world, arguments));
        run.success().stdout.trim().to_owned()
    };
    let uuid_of = |arguments: &[&str]| baremetal(&[arguments, &["-f", "value", "-c", "uuid"]].concat());
    let class = format!("class-of-{name}");
    let initiator = format!("iqn.2026-11.test.monopile:{name}");
    let create = ["node", "create", "--driver", "fake-hardware", "--name", &name, "--resource-class", &class];
    let uuid = uuid_of(&[&create[..], &["--property", "capabilities=iscsi_boot:true"]].concat());
    uuid_of(&["port", "create", "52:54:00:fe:00:01", "--node", &name]);
    let connector = ["volume", "connector", "create", "--node", &name, "--type", "iqn", "--connector-id"];
    uuid_of(&[&connector[..], &[&initiator]].concat());
    baremetal(&["node", "manage", &name, "--wait", "60"]);
    baremetal(&["node", "validate", &name]);
    baremetal(&["node", "provide", &name, "--wait", "60"]);
    baremetal(&["node", "power", "off", &name]);

    let node = Node { name: name.clone(), uuid, initiator, resource_class: class };
    let hello = hello_on(&metal, &node);
    let machine = Machine::plug_in(&metal, &node);
    create_env(&metal, &hello, &[]);
    assert!(hello.ask_greeting().contains("Hello"));
    let show = ["node", "show", &name, "-f", "value", "-c", "provision_state"];
    assert_eq!(baremetal(&show), "active");
    let targets = ["volume", "target", "list", "--node", &name, "-f", "value", "-c", "boot_index"];
    assert_eq!(baremetal(&[&targets[..], &["--sort", "boot_index"]].concat()), "0\n1\n2");
    hello.delete(&[]).success();
    drop(machine);
    metal.assert_clean(&node, &[]);

    assert_eq!(baremetal(&show), "available");
    baremetal(&["node", "manage", &name, "--wait", "60"]);
    baremetal(&["node", "delete", &name]);
    let list = ["node", "list", "--resource-class", &node.resource_class, "-f", "value", "-c", "uuid"];
    assert_eq!(baremetal(&list), "");
}
