//! The storage tool `lvm+targetcli` with a real LVM and the iSCSI target of a real kernel (user-mode Linux).

use serde_json::{Value, json};

use super::{IQN, Metal, request, short};
use crate::support::uml::Uml;
use crate::support::{MONOPILE, is_long_form};

const PORTALS: [&str; 2] = ["127.0.0.1:3260", "127.0.0.2:3260"];

/// The CPI and its storage in a separate kernel. Ironic runs outside.
pub(super) struct SeparateKernel {
    uml: Uml,
    pub metal: Metal,
}

impl SeparateKernel {
    pub(super) fn new() -> SeparateKernel {
        let metal = Metal::new();
        let uml = Uml::start(&metal.world.path(""));
        SeparateKernel { uml, metal }
    }

    /// Creates a kernel with LVM as its storage.
    fn with_lvm() -> SeparateKernel {
        let kernel = SeparateKernel::new();
        kernel.configure_lvm(&PORTALS);
        kernel
    }

    fn configure_lvm(&self, portals: &[&str]) {
        self.configure(json!({
            "tool": "lvm+targetcli", "volume_group": "vg", "thin_pool": "pool", "portals": portals,
            "iqn": IQN,
        }));
    }

    /// Writes the configuration of the CPI in the kernel.
    pub(super) fn configure(&self, storage: Value) {
        let mut config: Value = serde_json::from_str(&self.metal.world.read("ironic.json")).unwrap();
        config["ironic"]["endpoint"] = json!(self.metal.ironic.url().replace("127.0.0.1", "10.0.2.2"));
        config["storage"] = storage;
        self.metal.world.write("kernel.json", config.to_string());
    }

    fn try_call(&self, method: &str, arguments: Value) -> Value {
        self.metal.world.write("request", request(method, arguments));
        let run = self.uml.run(&format!("{MONOPILE} cpi-exec ironic --config kernel.json < request"));
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"))
    }

    #[track_caller]
    pub(super) fn call(&self, method: &str, arguments: Value) -> Value {
        let answer = self.try_call(method, arguments);
        assert_eq!(answer["error"], Value::Null, "{method}: {}\n{}", answer["error"], answer["log"]);
        answer["result"].clone()
    }

    #[track_caller]
    pub(super) fn sh(&self, script: &str) -> String {
        let run = self.uml.run(script);
        assert_eq!(run.code, 0, "{script}: {}{}", run.stdout, run.stderr);
        run.stdout
    }

    /// Returns the volumes apart from the pool.
    fn volumes(&self) -> Vec<String> {
        let names = self.sh("lvs --noheadings -o lv_name vg");
        names.lines().map(|line| line.trim().to_owned()).filter(|name| name != "pool").collect()
    }

    /// Returns the targets of the kernel, or the targets after its next boot.
    fn read_targets(&self, is_saved: bool) -> Value {
        let save = if is_saved { "" } else { "targetcli saveconfig /run/now.json >/run/said;" };
        let file = if is_saved { "/etc/rtslib-fb-target/saveconfig.json" } else { "/run/now.json" };
        serde_json::from_str(&self.sh(&format!("{save} cat {file}"))).unwrap()
    }

    fn logs_in(&self, portal: &str, volume: &str, initiator: &str, password: &str) -> bool {
        let name = short(volume);
        let url = format!("iscsi://{name}%{password}@{portal}/{IQN}:{name}/0");
        self.uml.run(&format!("iscsi-inq -i {initiator} {url}")).code == 0
    }

    #[track_caller]
    fn assert_clean(&self, volumes: &[&str]) {
        assert_eq!(self.volumes(), volumes);
        for is_saved in [false, true] {
            let targets = self.read_targets(is_saved);
            assert_eq!(
                (&targets["targets"], &targets["storage_objects"]),
                (&json!([]), &json!([])),
                "{is_saved}"
            );
        }
    }
}

/// Only in the long form: the kernel runs each of targetcli's commands for seconds.
#[test]
fn volumes_are_thin_and_exported_by_the_kernel() {
    if !is_long_form() {
        return;
    }
    let kernel = SeparateKernel::with_lvm();
    let node = kernel.metal.ironic.create_node();
    let image = kernel.metal.world.path("image");
    // A volume that a killed call was filling.
    kernel.sh("lvcreate -q -y -T vg/pool -V 4M -n stemcell-x.partial");
    let stemcell = kernel.call("create_stemcell", json!([image, {}]));
    let stemcell = stemcell.as_str().unwrap();
    let template = format!("stemcell-{stemcell}");
    assert_eq!(kernel.volumes(), [template.as_str()]);
    kernel.sh(&format!("cmp -n $(stat -c %s {0}) {0} /dev/vg/{template}", image.display()));

    let vm_answer = kernel.call("create_vm", kernel.metal.create_vm_arguments(stemcell, &node));
    let vm = vm_answer[0].as_str().unwrap();
    let root = format!("root-{vm}");
    kernel.sh(&format!("cmp -n $(stat -c %s {0}) {0} /dev/vg/{root}", image.display()));
    let label = kernel.sh(&format!("blkid -s LABEL -o value /dev/vg/config-{vm}"));
    assert_eq!(label.trim(), "config-2");

    // There are several portals to one volume.
    let target = &kernel.metal.targets(&node)[0]["properties"];
    let iqn = format!("{IQN}:{}", short(&root));
    assert_eq!((&target["target_portal"], &target["target_iqn"]), (&json!(PORTALS[0]), &json!(iqn)));
    assert_eq!(target["target_portals"], json!(PORTALS));
    assert_eq!((&target["target_iqns"], &target["target_luns"]), (&json!([iqn, iqn]), &json!([0, 0])));
    let script = kernel.metal.ironic.read_file(&format!("httpboot/{}/config", node.uuid));
    assert!(script.contains(&format!("iscsi:127.0.0.1::3260:0:{iqn}")), "{script}");

    let configuration = kernel.read_targets(true);
    let acl = configuration["targets"]
        .as_array()
        .unwrap()
        .iter()
        .find(|target| target["wwn"] == json!(iqn))
        .unwrap();
    let acl = &acl["tpgs"][0]["node_acls"];
    assert_eq!((acl.as_array().unwrap().len(), &acl[0]["node_wwn"]), (1, &json!(node.initiator)));
    let password = acl[0]["chap_password"].as_str().unwrap();
    assert!(script.contains(&format!("set password {password}")), "{script}");
    for portal in PORTALS {
        assert!(kernel.logs_in(portal, &root, &node.initiator, password), "{portal}");
    }
    assert!(!kernel.logs_in(PORTALS[0], &root, &node.initiator, "wr0ngpassw0rd"));
    assert!(!kernel.logs_in(PORTALS[0], &root, "iqn.2026-11.test.monopile:stranger", password));

    let disk = kernel.call("create_disk", json!([8, {}, vm]));
    let volume = format!("disk-{}", disk.as_str().unwrap());
    let name = short(&volume);
    let path = format!("/dev/disk/by-path/ip-{}-iscsi-{IQN}:{name}-lun-0", PORTALS[0]);
    assert_eq!(kernel.call("attach_disk", json!([vm, disk])), json!({"path": path}));
    // The second attachment has its own credentials.
    let secret = |configuration: &Value| {
        let targets = configuration["targets"].as_array().unwrap().iter();
        let mut targets = targets.filter(|target| target["wwn"] == json!(format!("{IQN}:{name}")));
        targets.next().map(|target| target["tpgs"][0]["node_acls"][0]["chap_password"].clone())
    };
    let first = secret(&kernel.read_targets(false)).unwrap();
    kernel.call("attach_disk", json!([vm, disk]));
    let second = secret(&kernel.read_targets(false)).unwrap();
    assert_ne!(first, second);
    assert!(!kernel.logs_in(PORTALS[0], &volume, &node.initiator, first.as_str().unwrap()));
    assert!(kernel.logs_in(PORTALS[0], &volume, &node.initiator, second.as_str().unwrap()));
    let snapshot = kernel.call("snapshot_disk", json!([disk, {}]));
    kernel.call("detach_disk", json!([vm, disk]));
    assert_eq!(secret(&kernel.read_targets(true)), None);
    kernel.call("resize_disk", json!([disk, 16]));
    assert_eq!(kernel.sh(&format!("blockdev --getsize64 /dev/vg/{volume}")).trim(), (16 << 20).to_string());
    kernel.call("resize_disk", json!([disk, 16]));

    // A stemcell may be deleted while its clones exist.
    kernel.call("delete_stemcell", json!([stemcell]));
    kernel.sh(&format!("cmp -n $(stat -c %s {0}) {0} /dev/vg/{root}", image.display()));
    kernel.call("delete_vm", json!([vm]));
    for (method, cid) in [("delete_snapshot", snapshot), ("delete_disk", disk.clone()), ("delete_disk", disk)]
    {
        kernel.call(method, json!([cid]));
    }
    kernel.assert_clean(&[]);
}

/// Only in the long form, like the test above.
#[test]
fn failed_export_leaves_nothing() {
    if !is_long_form() {
        return;
    }
    let kernel = SeparateKernel::with_lvm();
    let node = kernel.metal.ironic.create_node();
    let stemcell = kernel.call("create_stemcell", json!([kernel.metal.world.path("image"), {}]));
    let stemcell = stemcell.as_str().unwrap();
    // Another server listens there.
    kernel.sh(
        "python3 -c 'import socket, time; s = socket.create_server((\"127.0.0.1\", 3999)); time.sleep(3600)' \
         </dev/null >/dev/null 2>&1 & sleep 3",
    );
    kernel.configure_lvm(&[PORTALS[0], "127.0.0.1:3999"]);
    let answer = kernel.try_call("create_vm", kernel.metal.create_vm_arguments(stemcell, &node));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("exporting volume 'root-") && message.contains("targetcli: "), "{message}");
    assert!(!message.contains("cleaning up failed") && !message.contains("password="), "{message}");
    kernel.assert_clean(&[&format!("stemcell-{stemcell}")]);

    // The other pool does not exist either.
    kernel.sh("lvrename -q vg pool other");
    let answer = kernel.try_call("create_disk", json!([8, {}, null]));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("lvcreate") && message.contains("pool"), "{message}");
}
