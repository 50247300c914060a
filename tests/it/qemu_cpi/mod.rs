//! The built-in `qemu` CPI, driven like any CPI: real QEMU without KVM, and a guest of one sector that
//! releases disks as an operating system does

#![cfg(target_os = "linux")]

mod kills;
mod life;
mod networks;
mod root_file_systems;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::network::Network;
use crate::support::process::{RunToEnd, WaitForEnd, poll, poll_within, prepare, wait_until};
use crate::support::tarballs::{StemcellTarball, Tar};
use crate::support::{MONOPILE, Run, World, free_port};

/// The guest, in real mode: writes a text to the serial port. Then it waits for interrupts, and releases each
/// PCI device whose removal QEMU requests: port 0xae04 has the requests, and 0xae08 takes the releases
/// (QEMU's `docs/specs/acpi_pci_hotplug`).
const GUEST: &[u8] =
    b"\x31\xc0\x8e\xd8\xfb\xbe\x2d\x7c\xac\x84\xc0\x74\x06\xba\xf8\x03\xee\xeb\xf5\xba\x10\xae\
    \x66\x31\xc0\x66\xef\xba\x04\xae\x66\xed\x66\x85\xc0\x74\x05\xba\x08\xae\x66\xef\xf4\xeb\xe6\
    tiny guest\r\n\0";

/// Returns the image of a disk that boots the guest.
fn guest() -> Vec<u8> {
    let mut image = GUEST.to_vec();
    image.resize(510, 0);
    image.extend([0x55, 0xaa]);
    image.resize(1 << 20, 0);
    image
}

/// The time that a run waits for the agent of a guest without one.
const BOOT_TIMEOUT: &str = "5s";

/// Waits until the guest of the only VM has printed a text, which may take minutes beside other tests.
#[track_caller]
fn wait_for_console(cloud: &Path, text: &str) {
    let vms: Vec<_> = fs::read_dir(cloud.join("vms")).unwrap().flatten().collect();
    assert_eq!(vms.len(), 1, "{vms:?}");
    let console = vms[0].path().join("console.log");
    poll_within(Duration::from_secs(600), &format!("the guest prints '{text}'"), || {
        let output = fs::read(&console).unwrap_or_default();
        String::from_utf8_lossy(&output).contains(text).then_some(())
    });
}

/// Runs `create`, which waits in vain for an agent, before and after the guest has printed a text. Returns
/// the second run.
#[track_caller]
fn create_until_console_has<R>(cloud: &Path, text: &str, create: impl Fn() -> R) -> R {
    create();
    wait_for_console(cloud, text);
    create()
}

/// The methods of contract v2 that a director or `create-env` calls.
const METHODS: [&str; 20] = [
    "info",
    "create_stemcell",
    "delete_stemcell",
    "create_vm",
    "delete_vm",
    "has_vm",
    "reboot_vm",
    "set_vm_metadata",
    "calculate_vm_cloud_properties",
    "create_disk",
    "delete_disk",
    "has_disk",
    "attach_disk",
    "detach_disk",
    "get_disks",
    "set_disk_metadata",
    "resize_disk",
    "update_disk",
    "snapshot_disk",
    "delete_snapshot",
];

/// A cloud in its own directory, with its CPI.
struct Cloud {
    world: World,
    port: u16,
    /// The network namespace of the CPI; `None` for that of the tests.
    network: Option<Network>,
}

impl Cloud {
    fn new() -> Cloud {
        Cloud::with_properties(json!({}))
    }

    /// Creates a cloud with these properties in addition to those that it needs.
    fn with_properties(extra_properties: Value) -> Cloud {
        let cloud = Cloud { world: World::new(), port: free_port(), network: None };
        let mut config = json!({
            "root": cloud.world.path("cloud"),
            "agent": {"mbus": format!("https://user:pass@127.0.0.1:{}", cloud.port)},
            "accelerator": "tcg",
            "guest_timeout": 5,
        });
        config.as_object_mut().unwrap().extend(extra_properties.as_object().unwrap().clone());
        cloud.world.write("config.json", config.to_string());
        cloud.world.write("guest.img", guest());
        cloud
    }

    fn root(&self) -> PathBuf {
        self.world.path("cloud")
    }

    /// Sets a property of the CPI.
    fn set(&self, key: &str, value: Value) {
        let mut config: Value = serde_json::from_str(&self.world.read("config.json")).unwrap();
        config[key] = value;
        self.world.write("config.json", config.to_string());
    }

    fn spawn(&self, request: &Value) -> Child {
        let mut command = match &self.network {
            Some(network) => network.command(MONOPILE),
            None => prepare(MONOPILE),
        };
        self.world.enter(&mut command).args(["cpi-exec", "qemu", "--config", "config.json"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(request.to_string().as_bytes()).unwrap();
        child
    }

    fn try_call(&self, method: &str, arguments: Value) -> Value {
        let output = self.spawn(&request(method, arguments)).end_with_output();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("exactly one JSON document")
    }

    #[track_caller]
    fn call(&self, method: &str, arguments: Value) -> Value {
        let answer = self.try_call(method, arguments);
        assert_eq!(answer["error"], Value::Null, "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    #[track_caller]
    fn expect_error(&self, method: &str, arguments: Value) -> (String, String) {
        let answer = self.try_call(method, arguments);
        assert_eq!(answer["result"], Value::Null, "{method} succeeded");
        let text = |key: &str| answer["error"][key].as_str().unwrap().to_owned();
        (text("type"), text("message"))
    }

    fn create_stemcell(&self) -> Value {
        self.call("create_stemcell", json!([self.world.path("guest.img"), {"architecture": "x86_64"}]))
    }

    fn create_vm_arguments(stemcell: &Value, properties: Value) -> Value {
        let mut properties = properties;
        properties["ram"] = json!(32);
        json!(["agent-1", stemcell, properties, {"default": {"type": "dynamic"}}, [], {}])
    }

    #[track_caller]
    fn create_vm(&self, stemcell: &Value) -> String {
        let answer = self.call("create_vm", Cloud::create_vm_arguments(stemcell, json!({})));
        answer[0].as_str().unwrap().to_owned()
    }

    /// Waits until the guest runs, which may take a minute beside other tests.
    fn wait_for_guest(&self, vm: &str, boots: usize) {
        let console = self.root().join("vms").join(vm).join("console.log");
        poll("the guest writes to its console", || {
            let text = fs::read_to_string(&console).unwrap_or_default();
            (text.matches("tiny guest").count() >= boots).then_some(())
        });
    }

    /// Returns the process of a VM's QEMU.
    fn pid(&self, vm: &str) -> rustix::process::Pid {
        let text = fs::read_to_string(self.root().join("vms").join(vm).join("process.json")).unwrap();
        let pid = serde_json::from_str::<Value>(&text).unwrap()["pid"].as_i64().unwrap();
        rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
    }

    #[track_caller]
    fn assert_empty(&self) {
        assert!(!self.root().exists(), "{:?}", fs::read_dir(self.root()).map(Iterator::count));
        assert_eq!(self.world.leftovers(), Vec::<String>::new());
    }
}

/// A failed test must not leave its VMs running.
impl Drop for Cloud {
    fn drop(&mut self) {
        let Ok(vms) = fs::read_dir(self.root().join("vms")) else { return };
        for vm in vms {
            self.spawn(&request("delete_vm", json!([vm.unwrap().file_name().to_str()]))).stop();
        }
    }
}

fn request(method: &str, arguments: Value) -> Value {
    json!({
        "method": method, "arguments": arguments, "api_version": 2,
        "context": {"director_uuid": "d", "request_id": "r", "vm": {"stemcell": {"api_version": 2}}},
    })
}

#[test]
fn whole_lifecycle_of_a_vm() {
    let cloud = Cloud::new();
    let stemcell = cloud.create_stemcell();
    let web = free_port();
    let properties = json!({"cpu": 2, "root_disk_size": 16, "ephemeral_disk": {"size": 8},
        "extra_disks": [{"size": 4}, {"size": 8}], "ports": {"web": {"host": web, "guest": 80}}});
    let answer = cloud.call("create_vm", Cloud::create_vm_arguments(&stemcell, properties));
    assert_eq!(answer[1]["default"]["ip"], "10.0.2.15", "the address of the guest");
    let vm = answer[0].as_str().unwrap().to_owned();
    cloud.wait_for_guest(&vm, 1);
    for port in [cloud.port, web] {
        TcpStream::connect(("127.0.0.1", port)).unwrap();
    }

    // The agent's settings are on the config drive.
    let directory = cloud.root().join("vms").join(&vm);
    let drive = directory.join("config.img");
    let read = |path: &str| {
        let command = format!("cat {path}");
        prepare("/usr/sbin/debugfs").args(["-R", &command]).arg(&drive).run_to_end().stdout
    };
    let settings: Value = serde_json::from_slice(&read("ec2/latest/user-data")).unwrap();
    assert_eq!(settings["agent_id"], "agent-1");
    assert_eq!(settings["mbus"], format!("https://user:pass@0.0.0.0:{}", cloud.port));
    assert_eq!(settings["networks"]["default"]["ip"], "10.0.2.15");
    assert_eq!(settings["disks"]["ephemeral"], "/dev/vdb");
    for (index, name) in ["extra-1", "extra-2"].iter().enumerate() {
        let path = format!("/dev/disk/by-id/virtio-{name}");
        assert_eq!(settings["disks"]["raw_ephemeral"][index], json!({"path": path}));
        assert!(directory.join(format!("{name}.qcow2")).exists(), "{name}");
    }
    let metadata: Value = serde_json::from_slice(&read("ec2/latest/meta-data.json")).unwrap();
    assert_eq!(metadata["instance-id"], vm.as_str());

    let disk = cloud.call("create_disk", json!([8, {}, vm]));
    let hint = cloud.call("attach_disk", json!([vm, disk]));
    assert_eq!(hint["id"].as_str().unwrap().len(), 20);
    assert_eq!(cloud.call("attach_disk", json!([vm, disk])), hint, "attaching twice");
    assert_eq!(cloud.call("get_disks", json!([vm])), json!([disk]), "without the extra disks");
    assert!(cloud.expect_error("delete_disk", json!([disk])).1.contains("is attached to VM"));
    assert_eq!(cloud.expect_error("resize_disk", json!([disk, 16])).0, "Bosh::Clouds::NotSupported");
    let snapshot = cloud.call("snapshot_disk", json!([disk, {}]));

    // A VM that was switched off keeps its disk, and gets it again when it boots.
    rustix::process::kill_process(cloud.pid(&vm), rustix::process::Signal::KILL).unwrap();
    assert_eq!(cloud.call("has_vm", json!([vm])), json!(true));
    cloud.call("reboot_vm", json!([vm]));
    cloud.wait_for_guest(&vm, 2);
    assert_eq!(cloud.call("get_disks", json!([vm])), json!([disk]));
    cloud.call("detach_disk", json!([vm, disk]));
    cloud.call("detach_disk", json!([vm, disk]));
    cloud.call("resize_disk", json!([disk, 16]));
    assert_eq!(cloud.expect_error("resize_disk", json!([disk, 15])).0, "Bosh::Clouds::NotSupported");
    for (method, arguments) in
        [("resize_disk", json!([disk, u32::MAX])), ("update_disk", json!([disk, u32::MAX, {}]))]
    {
        let message = cloud.expect_error(method, arguments).1;
        assert!(message.starts_with(&format!("{method}: a disk of 4294967295 MiB is larger")), "{message}");
    }
    cloud.call("attach_disk", json!([vm, disk]));
    cloud.call("set_vm_metadata", json!([vm, {"name": "x"}]));

    // A VM outlives its stemcell.
    cloud.call("delete_stemcell", json!([stemcell]));
    cloud.call("reboot_vm", json!([vm]));
    cloud.wait_for_guest(&vm, 3);
    cloud.call("delete_vm", json!([vm]));
    assert!(TcpListener::bind(("127.0.0.1", cloud.port)).is_ok(), "the port is free again");
    cloud.call("delete_vm", json!([vm]));
    assert_eq!(cloud.call("has_disk", json!([disk])), json!(true));
    cloud.call("delete_disk", json!([disk]));
    cloud.call("delete_snapshot", json!([snapshot]));
    cloud.assert_empty();
}

#[test]
fn every_method_passes_the_check_of_cpis() {
    let cloud = Cloud::new();
    let tarball = StemcellTarball {
        image: Some(Tar::default().file("root.img", guest()).tgz()),
        extra: "stemcell_formats: [openstack-raw]\n".into(),
        ..StemcellTarball::default()
    };
    tarball.write(&cloud.world.path("stemcell.tgz"));
    let config = cloud.world.path("config.json").display().to_string();
    let run = cloud.world.run([
        "cpi",
        "check",
        "--path",
        MONOPILE,
        "--path-arg",
        "cpi-exec",
        "--path-arg",
        "qemu",
        "--path-arg",
        "--config",
        "--path-arg",
        config.as_str(),
        "--stemcell",
        "stemcell.tgz",
        "--cloud-properties",
        r#"{"ram": 32}"#,
        "--disk-size",
        "8",
        "--json",
    ]);
    let report: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}\n{run:?}"));
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.len() > 40, "{}", checks.len());
    let text = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
    let other_checks = checks
        .iter()
        .filter(|check| check["result"] != "pass")
        .map(|check| [text(check, "result"), text(check, "group"), text(check, "name")].join(": "));
    // The program never calls the first one, and the second one is only of contract v1.
    assert_eq!(
        other_checks.collect::<Vec<_>>(),
        ["skip: rpc: current_vm_id", "skip: contract v1: configure_networks"],
        "{}",
        run.stdout
    );
    let timings = report["timings"].as_array().unwrap().iter();
    let called_methods: BTreeSet<String> = timings.map(|timing| text(timing, "method")).collect();
    for method in METHODS {
        assert!(called_methods.contains(method), "{method} was not called: {called_methods:?}");
    }
    cloud.assert_empty();
}

#[test]
fn wrong_images_are_refused() {
    let cloud = Cloud::new();
    let error_of = |name: &str, content: &[u8], properties: Value| {
        let image = cloud.world.write(name, content);
        let answer = cloud.try_call("create_stemcell", json!([image, properties]));
        assert_eq!(answer["error"]["made_nothing"], true, "{answer}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    };
    for (name, content, properties, part) in [
        ("empty", &b""[..], json!({}), "a light stemcell"),
        ("text", &[b'x'; 4096][..], json!({}), "is not the image of a disk"),
        ("arm", &guest()[..], json!({"architecture": "arm64"}), "architecture 'arm64'"),
    ] {
        let error = error_of(name, content, properties);
        assert!(error.contains(part), "{name}: {error}");
    }
    // An image from outside must not read files of this machine.
    let secret = cloud.world.write("secret.img", guest());
    let overlay = cloud.world.path("overlay.qcow2");
    let mut command = prepare("qemu-img");
    command.args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"]).arg(&secret).arg(&overlay);
    assert!(command.run_to_end().status.success());
    let overlay = fs::read(overlay).unwrap();
    assert!(error_of("overlay", &overlay, json!({})).contains("refers to another file"));
    let vmdk = cloud.world.path("x.vmdk");
    let output = prepare("qemu-img").args(["create", "-q", "-f", "vmdk"]).arg(&vmdk).arg("1M").run_to_end();
    assert!(output.status.success());
    let vmdk = fs::read(vmdk).unwrap();
    assert!(error_of("vmdk", &vmdk, json!({})).contains("in the format vmdk"));
    cloud.assert_empty();
}

#[test]
fn failed_creations_are_explained_and_leave_nothing() {
    let cloud = Cloud::new();
    let stemcell = cloud.create_stemcell();
    let listener = TcpListener::bind(("127.0.0.1", cloud.port)).unwrap();
    let (kind, message) = cloud.expect_error("create_vm", Cloud::create_vm_arguments(&stemcell, json!({})));
    assert_eq!(kind, "Bosh::Clouds::VMCreationFailed");
    assert!(message.contains("port 'agent' of the VM is in use: process"), "{message}");
    drop(listener);
    for (properties, part) in [
        (json!({"cpus": 2}), "did you mean 'cpu'?"),
        (json!({"root_disk_size": 1}), ""),
        (json!({"cpu": 255}), "starting the VM failed: QEMU: "),
    ] {
        let answer = cloud.try_call("create_vm", Cloud::create_vm_arguments(&stemcell, properties.clone()));
        match answer["error"]["message"].as_str() {
            Some(message) => assert!(message.contains(part), "{properties}: {message}"),
            // The size of the image itself is allowed, and some versions of QEMU have 255 processors.
            None => drop(cloud.call("delete_vm", json!([answer["result"][0]]))),
        }
        assert!(!cloud.root().join("vms").exists(), "{properties}");
    }
    cloud.call("delete_stemcell", json!([stemcell]));
    cloud.assert_empty();
}

#[test]
fn missing_old_and_broken_qemu_is_an_error() {
    let world = World::new();
    let bin = world.path("bin");
    fs::create_dir(&bin).unwrap();
    let program = |name: &str, script: &str| {
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let cloud = Cloud::with_properties(json!({"program_directory": bin}));
    let image = cloud.world.path("guest.img");
    let missing = cloud.expect_error("create_stemcell", json!([image, {}])).1;
    assert!(
        missing.contains("lacks 'qemu-img'") && missing.contains("`apt-get install qemu-utils`"),
        "{missing}"
    );
    program("qemu-img", "exec /usr/bin/qemu-img \"$@\"");
    let stemcell = cloud.create_stemcell();
    let create = || cloud.expect_error("create_vm", Cloud::create_vm_arguments(&stemcell, json!({}))).1;
    assert!(create().contains("`apt-get install qemu-system-x86`"));
    let version = "echo 'QEMU emulator version 7.2.0'";
    program("qemu-system-x86_64", "echo 'QEMU emulator version 2.11.1'");
    assert!(create().contains("is too old"));
    program(
        "qemu-system-x86_64",
        &format!("case $1 in --version) {version};; *) echo 'qemu: out of luck' >&2; exit 1;; esac"),
    );
    let error = create();
    assert!(error.ends_with("starting the VM failed: QEMU: out of luck"), "{error}");
    // The file system is full.
    program("qemu-img", "echo 'qemu-img: x.qcow2: No space left on device' >&2; exit 1");
    let full = cloud.expect_error("create_disk", json!([1, {}])).1;
    assert!(full.contains("No space left on device. Free some space"), "{full}");
    cloud.call("delete_stemcell", json!([stemcell]));
    cloud.assert_empty();
}

#[test]
fn guest_that_keeps_a_disk_is_described_by_its_console() {
    let cloud = Cloud::new();
    cloud.world.write("guest.img", guest_that_only_prints("Kernel panic - not syncing: no init\r\n"));
    let stemcell = cloud.create_stemcell();
    let vm = cloud.create_vm(&stemcell);
    let console = cloud.root().join("vms").join(&vm).join("console.log");
    wait_until("the guest has ended", || {
        fs::read_to_string(&console).is_ok_and(|text| text.contains("no init"))
    });
    let disk = cloud.call("create_disk", json!([8, {}]));
    cloud.call("attach_disk", json!([vm, disk]));
    let answer = cloud.try_call("detach_disk", json!([vm, disk]));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("did not release disk"), "{message}");
    assert!(
        message.contains(&format!("the kernel of VM '{vm}' panicked: Kernel panic - not syncing: no init")),
        "{message}"
    );
    assert_eq!(answer["error"]["ok_to_retry"], true);
    assert_eq!(cloud.call("get_disks", json!([vm])), json!([disk]), "the disk is no longer attached");
    cloud.call("delete_vm", json!([vm]));
    cloud.call("delete_disk", json!([disk]));
    cloud.call("delete_stemcell", json!([stemcell]));
    cloud.assert_empty();
}

/// Returns the guest with another text, after which it does nothing and never reads requests.
fn guest_that_only_prints(text: &str) -> Vec<u8> {
    let mut image = guest();
    image[45..45 + text.len()].copy_from_slice(text.as_bytes());
    image[45 + text.len()] = 0;
    // `hlt`, and a jump back to it, behind the loop that prints.
    image[19..21].copy_from_slice(&[0xf4, 0xeb]);
    image[21] = 0xfd;
    image
}

/// An environment whose VM boots a guest without an agent.
struct SilentVm {
    world: World,
    stemcell: String,
}

impl SilentVm {
    fn new(guest: Vec<u8>) -> SilentVm {
        let world = World::new();
        world.run(["example", "qemu"]).success();
        let tarball = StemcellTarball {
            image: Some(Tar::default().file("root.img", guest).tgz()),
            extra: "stemcell_formats: [openstack-raw]\n".into(),
            ..StemcellTarball::default()
        };
        let stemcell = format!("stemcell=file://{}", tarball.write(&world.path("stemcell.tgz")).display());
        let mbus = format!("https://mbus:((mbus_bootstrap_password))@127.0.10.3:{}", free_port());
        let replacements = [
            ("/resource_pools/name=vms/cloud_properties", json!({"ram": 32})),
            ("/cloud_provider/mbus", json!(mbus)),
            ("/cloud_provider/properties", json!({"accelerator": "tcg"})),
        ];
        let ops = replacements.map(|(path, value)| json!({"type": "replace", "path": path, "value": value}));
        world.write("ops.yml", json!(ops).to_string());
        SilentVm { world, stemcell }
    }

    fn run(&self, command: &str, extra_args: &[&str]) -> Run {
        let options = ["qemu/manifest.yml", "-o", "ops.yml", "-v", &self.stemcell];
        self.world.run([&[command][..], &options, extra_args].concat())
    }

    /// Waits in vain for the agent, as [`create_until_console_has`] does.
    #[track_caller]
    fn wait_in_vain(&self, text: &str) -> Run {
        let create = || self.run("create-env", &["--boot-timeout", BOOT_TIMEOUT]).exits_with(5);
        create_until_console_has(&self.cloud(), text, create)
    }

    fn cloud(&self) -> PathBuf {
        self.world.home().join(".local/state/monopile/qemu")
    }

    fn delete(&self) {
        self.run("delete-env", &["--non-interactive", "--agent-timeout", "2s"]).success();
        assert!(!self.cloud().exists());
        assert_eq!(self.world.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn agent_that_does_not_start_is_described_by_the_console() {
    let vm = SilentVm::new(guest());
    let failed_run = vm.wait_in_vain("tiny guest");
    assert!(failed_run.stderr.contains("the last lines of the console of VM"), "{}", failed_run.stderr);
    assert!(failed_run.stderr.contains("tiny guest"), "{}", failed_run.stderr);
    assert!(
        failed_run.stderr.contains("hint: see more of its console: `monopile logs "),
        "{}",
        failed_run.stderr
    );
    assert!(!failed_run.stderr.contains("in the IaaS"), "{}", failed_run.stderr);
    assert_eq!(fs::read_dir(vm.cloud().join("vms")).unwrap().count(), 1, "the VM outlives the run");
    assert!(!vm.world.leftovers().is_empty(), "its QEMU runs");
    let console = vm.run("logs", &["--console"]).success().stdout;
    assert!(console.contains("SeaBIOS (version ") && console.contains("tiny guest"), "{console}");
    vm.delete();
}

#[test]
fn kernel_panic_is_named_where_the_agent_is_silent() {
    let vm = SilentVm::new(guest_that_only_prints("[    1.5] Kernel panic - not syncing: no init\r\n"));
    let panic_message = "panicked: Kernel panic - not syncing: no init";
    let stderr = vm.wait_in_vain("Kernel panic").stderr;
    assert!(stderr.contains("note: the kernel of VM 'vm-") && stderr.contains(panic_message), "{stderr}");
    assert!(stderr.contains("hint: use another stemcell, or give the VM more memory: `ram`"), "{stderr}");
    assert!(!stderr.contains("--boot-timeout 30m"), "{stderr}");
    for (command, extra_args, code) in [("status", &[][..], 5), ("cloud-check", &["--report"], 6)] {
        let run = vm.run(command, &[&["--agent-timeout", "2s"][..], extra_args].concat()).exits_with(code);
        let output = run.stdout + &run.stderr;
        assert!(output.contains(panic_message), "{command}: {output}");
    }
    vm.delete();
}
