//! Calls that are killed at their system calls. The same call then succeeds, and nothing is lost or left.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::root_file_systems::{root_file_system, tiny_kernel};
use super::{Cloud, request};
use crate::support::process::{RunToEnd as _, prepare, wait_until};
use crate::support::{is_full_sweep, sweep_choice};

/// System calls that create, change or remove files and processes.
const SYSCALLS: [&str; 10] =
    ["mkdir", "rename", "renameat2", "unlink", "rmdir", "linkat", "fsync", "clone3", "vfork", "connect"];

/// A cloud with a VM and two disks, of which the first one is attached, and a snapshot of the second one.
struct Scene {
    cloud: Cloud,
    stemcell: Value,
    vm: String,
    disks: [Value; 2],
    snapshot: Value,
}

/// A call of the CPI, and the way back to the scene before it.
struct Call {
    method: &'static str,
    arguments: fn(&Scene) -> Value,
    /// Undoes the call. Gets the objects that it has created.
    undo: fn(&mut Scene, &BTreeSet<String>),
}

/// All calls that change the cloud.
const CALLS: [Call; 16] = [
    Call {
        method: "create_stemcell",
        arguments: |scene| json!([scene.cloud.world.path("guest.img"), {}]),
        undo: |scene, new_cids| delete(scene, new_cids),
    },
    Call {
        method: "create_stemcell",
        arguments: |scene| json!([scene.cloud.world.path("files.tgz"), {}]),
        undo: |scene, new_cids| delete(scene, new_cids),
    },
    Call {
        method: "create_vm",
        arguments: |scene| {
            let mut arguments =
                Cloud::create_vm_arguments(&scene.stemcell, json!({"ephemeral_disk": {"size": 4}}));
            // The VM of the scene has the agent's port at another address.
            arguments[3] = json!({"default": {"type": "manual", "ip": "127.0.0.2"}});
            arguments
        },
        undo: |scene, new_cids| delete(scene, new_cids),
    },
    Call {
        method: "create_disk",
        arguments: |_| json!([4, {}]),
        undo: |scene, new_cids| delete(scene, new_cids),
    },
    Call {
        method: "snapshot_disk",
        arguments: |scene| json!([scene.disks[0], {}]),
        undo: |scene, new_cids| delete(scene, new_cids),
    },
    Call {
        method: "attach_disk",
        arguments: |scene| json!([scene.vm, scene.disks[1]]),
        undo: |scene, _| drop(scene.cloud.call("detach_disk", json!([scene.vm, scene.disks[1]]))),
    },
    Call {
        method: "detach_disk",
        arguments: |scene| json!([scene.vm, scene.disks[0]]),
        undo: |scene, _| drop(scene.cloud.call("attach_disk", json!([scene.vm, scene.disks[0]]))),
    },
    Call {
        method: "reboot_vm",
        arguments: |scene| json!([scene.vm]),
        undo: |scene, _| scene.wait_for_guest(),
    },
    Call { method: "set_vm_metadata", arguments: |scene| json!([scene.vm, {"name": "x"}]), undo: |_, _| {} },
    Call {
        method: "set_disk_metadata",
        arguments: |scene| json!([scene.disks[1], {"name": "x"}]),
        undo: |_, _| {},
    },
    Call {
        method: "resize_disk",
        arguments: |scene| json!([scene.disks[1], 8]),
        undo: |scene, _| scene.replace_disk(),
    },
    Call {
        method: "update_disk",
        arguments: |scene| json!([scene.disks[1], 8, {}]),
        undo: |scene, _| scene.replace_disk(),
    },
    Call {
        method: "delete_snapshot",
        arguments: |scene| json!([scene.snapshot]),
        undo: |scene, _| scene.snapshot = scene.cloud.call("snapshot_disk", json!([scene.disks[1], {}])),
    },
    Call {
        method: "delete_stemcell",
        arguments: |scene| json!([scene.stemcell]),
        undo: |scene, _| scene.stemcell = scene.cloud.create_stemcell(),
    },
    Call {
        method: "delete_disk",
        arguments: |scene| json!([scene.disks[1]]),
        undo: |scene, _| scene.disks[1] = scene.cloud.call("create_disk", json!([4, {}])),
    },
    Call {
        method: "delete_vm",
        arguments: |scene| json!([scene.vm]),
        undo: |scene, _| {
            scene.vm = scene.cloud.create_vm(&scene.stemcell);
            scene.cloud.call("attach_disk", json!([scene.vm, scene.disks[0]]));
            scene.wait_for_guest();
        },
    },
];

fn delete(scene: &Scene, new_cids: &BTreeSet<String>) {
    for cid in new_cids {
        let kind = cid.split('-').next().unwrap();
        scene.cloud.call(&format!("delete_{kind}"), json!([cid]));
    }
}

impl Scene {
    fn new() -> Scene {
        // Beside other tests, the guest may take a minute to release a disk.
        let cloud = Cloud::with_properties(json!({"guest_timeout": 100}));
        cloud.set("kernel", json!(cloud.world.write("vmlinuz", tiny_kernel())));
        cloud.world.write("files.tgz", root_file_system().tgz());
        let stemcell = cloud.create_stemcell();
        let vm = cloud.create_vm(&stemcell);
        let disks = [4, 4].map(|size| cloud.call("create_disk", json!([size, {}])));
        cloud.call("attach_disk", json!([vm, disks[0]]));
        let snapshot = cloud.call("snapshot_disk", json!([disks[1], {}]));
        let scene = Scene { cloud, stemcell, vm, disks, snapshot };
        scene.wait_for_guest();
        scene
    }

    /// Replaces the disk that is not attached by a new one.
    fn replace_disk(&mut self) {
        self.cloud.call("delete_disk", json!([self.disks[1]]));
        self.disks[1] = self.cloud.call("create_disk", json!([4, {}]));
    }

    /// Waits until the guest of the VM runs.
    fn wait_for_guest(&self) {
        self.cloud.wait_for_guest(&self.vm, 1);
    }

    /// Returns the CIDs of all objects.
    fn objects(&self) -> BTreeSet<String> {
        let kinds = ["stemcells", "vms", "disks", "snapshots"];
        let entries = kinds.iter().flat_map(|kind| fs::read_dir(self.cloud.root().join(kind)));
        entries.flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Returns the number of running QEMU processes.
    fn machines(&self) -> usize {
        self.cloud.world.leftovers().iter().filter(|process| process.contains("qemu-system-x86_64")).count()
    }

    /// Runs a call under `strace` with these arguments. Returns false if it was killed.
    fn run_traced(&self, call: &Call, strace: &[&str]) -> bool {
        let program = self.cloud.world.monopile(["cpi-exec", "qemu", "--config", "config.json"]);
        let mut command: Command = prepare("strace");
        self.cloud.world.enter(&mut command);
        command.args(["-qq", "-e", &format!("trace={}", SYSCALLS.join(",")), "-o", "trace"]).args(strace);
        command.arg(program.get_program()).args(program.get_args()).stderr(Stdio::null());
        let request = request(call.method, (call.arguments)(self)).to_string();
        let output = command.run_with_input(request.as_bytes());
        if output.status.success() {
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(answer["error"], Value::Null, "{}", call.method);
        }
        output.status.success()
    }
}

/// Returns the points of a call: the names of its system calls, each with its number among those of its name.
fn points(scene: &mut Scene, call: &Call) -> Vec<(String, usize)> {
    let objects_before = scene.objects();
    assert!(scene.run_traced(call, &[]), "{}", call.method);
    let new_cids = scene.objects().difference(&objects_before).cloned().collect();
    let trace = scene.cloud.world.read("trace");
    let names = trace.lines().filter_map(|line| line.split_once('(').map(|(name, _)| name.to_owned()));
    let names: Vec<String> = names.filter(|name| SYSCALLS.contains(&name.as_str())).collect();
    let number = |index: usize| names[..=index].iter().filter(|name| **name == names[index]).count();
    let points = (0..names.len()).map(|index| (names[index].clone(), number(index))).collect();
    (call.undo)(scene, &new_cids);
    points
}

#[test]
fn killed_calls_lose_and_leave_nothing() {
    let sample = sweep_choice().map_or(2, |count| count.parse().unwrap_or(usize::MAX).max(4));
    let mut scene = Scene::new();
    let (mut point_count, mut kill_count) = (0, 0);
    for call in CALLS {
        let points = points(&mut scene, &call);
        let sample_size = if is_full_sweep() { points.len() } else { sample.min(points.len()) };
        for index in 0..sample_size {
            let (name, number) = &points[index * points.len() / sample_size + points.len() / sample_size / 2];
            let place = format!("{} killed at {name} {number}", call.method);
            let objects_before = scene.objects();
            let has_ended =
                scene.run_traced(&call, &["-e", &format!("inject={name}:signal=KILL:when={number}")]);
            (point_count, kill_count) = (point_count + 1, kill_count + usize::from(!has_ended));
            // The caller calls again, or finds the object that the call has created.
            let mut new_cids: BTreeSet<String> =
                scene.objects().difference(&objects_before).cloned().collect();
            let is_creating = call.method.starts_with("create_") || call.method == "snapshot_disk";
            if is_creating {
                assert!(new_cids.len() <= 1, "{place}: {new_cids:?}");
            }
            if new_cids.is_empty() {
                let answer = scene.cloud.try_call(call.method, (call.arguments)(&scene));
                assert_eq!(answer["error"], Value::Null, "{place}");
                new_cids = scene.objects().difference(&objects_before).cloned().collect();
                assert_eq!(new_cids.len(), usize::from(is_creating), "{place}: {new_cids:?}");
            }
            (call.undo)(&mut scene, &new_cids);
            // Any changing call removes leftovers, also a QEMU that is not on record.
            let disk = scene.cloud.call("create_disk", json!([4, {}]));
            scene.cloud.call("delete_disk", json!([disk]));
            let staging = scene.cloud.root().join("staging");
            let count = fs::read_dir(staging).into_iter().flatten().count();
            assert_eq!(count, 0, "{place}: leftovers");
            wait_until(&format!("{place}: one machine is left"), || scene.machines() == 1);
            assert_eq!(scene.objects().len(), objects_before.len(), "{place}");
            assert_eq!(scene.cloud.call("get_disks", json!([scene.vm])), json!([scene.disks[0]]), "{place}");
        }
    }
    eprintln!("killed {kill_count} calls at {point_count} points");
    assert!(kill_count * 2 > point_count, "{kill_count} of {point_count}");
    let Scene { cloud, stemcell, vm, disks, snapshot } = scene;
    cloud.call("delete_snapshot", json!([snapshot]));
    cloud.call("delete_vm", json!([vm]));
    disks.iter().for_each(|disk| drop(cloud.call("delete_disk", json!([disk]))));
    cloud.call("delete_stemcell", json!([stemcell]));
    cloud.assert_empty();
}
