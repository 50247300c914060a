//! The built-in `local` CPI, driven like any CPI: `monopile cpi-exec local` with a request on standard input
//! and an answer on standard output. It creates real VMs with the real agent.

#![cfg(target_os = "linux")]

use crate::support::process::{RunToEnd, WaitForEnd, copy_program, prepare, wait_until};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

const NOBODY: u32 = 65534;

/// A cloud in its own directory, with its CPI.
struct Cloud {
    directory: tempfile::TempDir,
    executable: PathBuf,
    /// True if calls are made as user `nobody`.
    runs_as_nobody: bool,
    port: u16,
}

impl Cloud {
    fn new() -> Cloud {
        let directory = crate::support::create_directory();
        let port = crate::support::free_port();
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let config = json!({
            "root": directory.path().join("cloud"),
            "agent": {
                "mbus": format!("https://user:pass@127.0.0.1:{port}"),
                "cert": {"ca": certificate, "certificate": certificate, "private_key": key.serialize_pem()},
            },
            "ntp": [],
        });
        fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
        fs::create_dir_all(directory.path().join("image/etc")).unwrap();
        fs::write(directory.path().join("image/etc/monopile-release"), "hello\n").unwrap();
        let executable = PathBuf::from(env!("CARGO_BIN_EXE_monopile"));
        Cloud { directory, executable, runs_as_nobody: false, port }
    }

    /// Creates a cloud for user `nobody`, who cannot read the build directory.
    fn without_privileges() -> Cloud {
        let mut cloud = Cloud::new();
        let copy = cloud.directory.path().join("monopile");
        copy_program(&cloud.executable, &copy);
        cloud.executable = copy;
        cloud.runs_as_nobody = true;
        fs::set_permissions(cloud.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for path in [cloud.directory.path().to_owned(), cloud.directory.path().join("config.json")] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        cloud
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("cloud")
    }

    fn image(&self) -> String {
        self.directory.path().join("image").display().to_string()
    }

    fn spawn(&self, request: &[u8]) -> Child {
        let mut command = if self.runs_as_nobody {
            let mut command = prepare("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&self.executable);
            command
        } else {
            prepare(&self.executable)
        };
        let mut child = command
            .args(["cpi-exec", "local", "--config"])
            .arg(self.directory.path().join("config.json"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(request).unwrap();
        child
    }

    fn call_raw(&self, request: &[u8]) -> Value {
        let output = self.spawn(request).end_with_output();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("exactly one JSON document")
    }

    fn try_call(&self, method: &str, arguments: Value) -> Value {
        self.call_raw(request(method, arguments, 2).to_string().as_bytes())
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
        self.call("create_stemcell", json!([self.image(), {}]))
    }

    fn create_vm_arguments(&self, stemcell: &Value) -> Value {
        json!(["agent-1", stemcell, {}, {"default": {"type": "dynamic"}}, [], {"bosh": {"tags": {}}}])
    }

    #[track_caller]
    fn create_vm(&self, stemcell: &Value) -> String {
        let result = self.call("create_vm", self.create_vm_arguments(stemcell));
        result[0].as_str().unwrap().to_owned()
    }

    /// Returns the PID of a VM's init.
    fn init(&self, vm: &str) -> i32 {
        let text = fs::read_to_string(self.root().join("vms").join(vm).join("process.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["pid"].as_i64().unwrap() as i32
    }

    /// Runs a shell command in a VM.
    fn run_inside(&self, vm: &str, script: &str) -> String {
        let output = prepare("nsenter")
            .args(["-a", "-w/", "-t", &self.init(vm).to_string(), "sh", "-ec", script])
            .run_to_end();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn wait_for_agent(&self) {
        wait_until("the agent listens", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    /// Returns the processes whose command line names this cloud.
    fn processes(&self) -> Vec<String> {
        let root = self.root().display().to_string();
        let all = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| fs::read(entry.unwrap().path().join("cmdline")).ok());
        all.map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
            .filter(|line| line.contains(&root))
            .collect()
    }
}

/// A failed test must not leave its VMs running.
impl Drop for Cloud {
    fn drop(&mut self) {
        let Ok(vms) = fs::read_dir(self.root().join("vms")) else { return };
        for vm in vms {
            let request = request("delete_vm", json!([vm.unwrap().file_name().to_str()]), 2);
            self.spawn(request.to_string().as_bytes()).stop();
        }
    }
}

fn request(method: &str, arguments: Value, version: u64) -> Value {
    json!({
        "method": method, "arguments": arguments, "api_version": version,
        "context": {"director_uuid": "d", "request_id": "r", "vm": {"stemcell": {"api_version": version}}},
    })
}

/// A PID namespace.
struct Namespace {
    link: PathBuf,
    /// Keeps the kernel from assigning the number of the namespace to another one.
    _open: fs::File,
}

/// Returns the PID namespace of a process.
fn namespace_of(pid: i32) -> Namespace {
    let path = format!("/proc/{pid}/ns/pid");
    Namespace { link: fs::read_link(&path).unwrap(), _open: fs::File::open(&path).unwrap() }
}

/// Counts the processes in a namespace, except zombies that only wait for the machine's init.
fn members(namespace: &Namespace) -> usize {
    let all = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| fs::read_link(path.join("ns/pid")).is_ok_and(|link| link == namespace.link))
        .filter(|path| fs::read(path.join("cmdline")).is_ok_and(|line| !line.is_empty()))
        .count()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Calls every method once in the order of a life. The cloud is empty before and after.
fn run_life(cloud: &Cloud) {
    let mounts = fs::read("/proc/self/mountinfo").unwrap();
    let host_vcap = fs::metadata("/var/vcap").and_then(|metadata| metadata.modified()).ok();
    assert_eq!(
        cloud.call("info", json!([])),
        json!({"stemcell_formats": ["local-directory", "local"], "api_version": 2,
            "version": env!("CARGO_PKG_VERSION")})
    );
    let stemcell = cloud.create_stemcell();
    let answer = cloud.call("create_vm", cloud.create_vm_arguments(&stemcell));
    assert_eq!(answer[1], json!({"default": {"type": "dynamic", "ip": "127.0.0.1"}}));
    let vm = answer[0].as_str().unwrap().to_owned();
    cloud.wait_for_agent();
    assert_eq!(fs::read("/proc/self/mountinfo").unwrap(), mounts, "mounts of a VM are seen by the host");
    let namespace = namespace_of(cloud.init(&vm));
    assert!(members(&namespace) >= 2, "init and agent");

    cloud.call("set_vm_metadata", json!([vm, {"name": "x"}]));
    let disk = cloud.call("create_disk", json!([64, {}, vm]));
    let hint = cloud.call("attach_disk", json!([vm, disk]));
    assert_eq!(hint, json!({"path": format!("/dev/monopile/{}", disk.as_str().unwrap())}));
    assert_eq!(cloud.call("attach_disk", json!([vm, disk])), hint, "attaching twice");
    assert_eq!(cloud.call("get_disks", json!([vm])), json!([disk]));
    cloud.call("set_disk_metadata", json!([disk, {"a": "b"}]));
    assert!(cloud.expect_error("delete_disk", json!([disk])).1.contains("is attached to VM"));
    assert_eq!(cloud.expect_error("resize_disk", json!([disk, 128])).0, "Bosh::Clouds::NotSupported");

    let device = hint["path"].as_str().unwrap();
    let data = cloud.root().join("vms").join(&vm).join("devices").join(disk.as_str().unwrap());
    if is_root() {
        assert_eq!(cloud.run_inside(&vm, "cat /etc/monopile-release"), "hello\n");
        cloud.run_inside(
            &vm,
            &format!("echo 7 > {device}/counter; echo x > /var/vcap/mark; ! echo x 2>&- > /usr/mark"),
        );
        cloud.run_inside(
            &vm,
            "echo x > /etc/own-mark; test $(hostname) != ''; test $(ls /proc | grep -c '^[0-9]*$') -lt 9",
        );
        cloud.run_inside(&vm, "test -c /dev/null; test -d /dev/pts; test -d /dev/shm; test ! -e /dev/kmsg");
        cloud.run_inside(&vm, "touch /home/vcap/x; chown vcap:vcap /home/vcap/x");
        cloud.run_inside(&vm, &format!("mount --bind {device} /mnt"));
        assert!(cloud.expect_error("detach_disk", json!([vm, disk])).1.contains("still mounted"));
        cloud.run_inside(&vm, "umount /mnt");
        for mark in ["/var/vcap/mark", "/usr/mark", "/etc/own-mark"] {
            assert!(!Path::new(mark).exists(), "{mark} is on the host");
        }
    } else {
        fs::write(data.join("counter"), "7\n").unwrap();
    }
    let snapshot = cloud.call("snapshot_disk", json!([disk, {}]));
    cloud.call("detach_disk", json!([vm, disk]));
    cloud.call("detach_disk", json!([vm, disk]));
    cloud.call("resize_disk", json!([disk, 128]));
    assert_eq!(cloud.expect_error("resize_disk", json!([disk, 127])).0, "Bosh::Clouds::NotSupported");
    let document = || {
        let disk = cloud.root().join("disks").join(disk.as_str().unwrap()).join("disk.json");
        serde_json::from_slice::<Value>(&fs::read(disk).unwrap()).unwrap()
    };
    cloud.call("update_disk", json!([disk, 256, {"type": "ssd"}]));
    assert_eq!(cloud.expect_error("update_disk", json!([disk, 255, {}])).0, "Bosh::Clouds::NotSupported");
    assert_eq!(
        (&document()["size"], &document()["cloud_properties"]),
        (&json!(256), &json!({"type": "ssd"}))
    );
    cloud.call("resize_disk", json!([disk, 257]));
    assert_eq!(document()["cloud_properties"], json!({"type": "ssd"}));
    cloud.call("attach_disk", json!([vm, disk]));

    cloud.call("reboot_vm", json!([vm]));
    assert_eq!(members(&namespace), 0, "the first boot is over");
    cloud.wait_for_agent();
    let namespace = namespace_of(cloud.init(&vm));
    assert_eq!(cloud.call("has_vm", json!([vm])), json!(true));
    cloud.call("delete_vm", json!([vm]));
    assert_eq!(members(&namespace), 0, "processes are left");
    cloud.call("delete_vm", json!([vm]));
    assert_eq!(cloud.call("has_vm", json!([vm])), json!(false));

    // `delete_vm` detached the disk, with the data of the VM.
    let home = cloud.root().join("disks").join(disk.as_str().unwrap()).join("data/counter");
    assert_eq!(fs::read_to_string(home).unwrap(), "7\n");
    assert_eq!(cloud.call("has_disk", json!([disk])), json!(true));
    cloud.call("delete_disk", json!([disk]));
    cloud.call("delete_disk", json!([disk]));
    assert_eq!(cloud.call("has_disk", json!([disk])), json!(false));
    cloud.call("delete_snapshot", json!([snapshot]));
    cloud.call("delete_stemcell", json!([stemcell]));
    assert!(!cloud.root().exists(), "an empty cloud leaves nothing");
    assert_eq!(cloud.processes(), Vec::<String>::new());
    assert_eq!(fs::read("/proc/self/mountinfo").unwrap(), mounts);
    assert_eq!(fs::metadata("/var/vcap").and_then(|metadata| metadata.modified()).ok(), host_vcap);
}

#[test]
fn whole_lifecycle_of_a_vm() {
    run_life(&Cloud::new());
}

#[test]
fn whole_lifecycle_as_an_unprivileged_user() {
    if !is_root() {
        eprintln!("not run: the other test is run by an ordinary user already");
        return;
    }
    let output = prepare("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "-Urm", "true"])
        .run_to_end();
    if !output.status.success() {
        eprintln!("not run: this machine allows no user namespaces");
        return;
    }
    run_life(&Cloud::without_privileges());
}

#[test]
fn without_user_namespaces_the_error_says_what_is_missing() {
    // The number of namespaces is limited. With a limit of 0, no process inside can create another one.
    let cloud = Cloud::new();
    let stemcell = cloud.create_stemcell();
    let request = request("create_vm", cloud.create_vm_arguments(&stemcell), 2).to_string();
    let script = format!(
        "echo 0 > /proc/sys/user/max_mnt_namespaces && exec '{}' cpi-exec local --config '{}'",
        cloud.executable.display(),
        cloud.directory.path().join("config.json").display()
    );
    let mut child = prepare("unshare")
        .args(["-Ur", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
    let output = child.end_with_output();
    if output.stdout.is_empty() {
        eprintln!("not run: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["error"]["type"], "Bosh::Clouds::VMCreationFailed");
    assert_eq!(answer["error"]["ok_to_retry"], false);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("namespaces"), "{message}");
    assert!(!cloud.root().join("vms").exists());
    assert!(!cloud.root().join("staging").exists());
    cloud.call("delete_stemcell", json!([stemcell]));
    assert!(!cloud.root().exists());
}

#[test]
fn wrong_requests_get_typed_errors() {
    let cloud = Cloud::new();
    for garbage in [&b""[..], b"{", b"[]", b"{} {}", b"\xff\xfe", b"{\"method\": 7}", b"null"] {
        let answer = cloud.call_raw(garbage);
        assert_eq!(answer["error"]["type"], "InvalidCall", "{}", String::from_utf8_lossy(garbage));
    }
    let unknown = |kind: &str| format!("{kind}-{}", "00000000-0000-4000-8000-000000000000");
    let (vm, disk, stemcell) = (unknown("vm"), unknown("disk"), unknown("stemcell"));
    for _ in 0..2 {
        let expect_error_type = |method: &str, arguments: Value, error_type: &str| {
            assert_eq!(
                cloud.expect_error(method, arguments).0,
                format!("Bosh::Clouds::{error_type}"),
                "{method}"
            );
        };
        expect_error_type("reboot_vm", json!([vm]), "VMNotFound");
        expect_error_type("get_disks", json!([vm]), "VMNotFound");
        expect_error_type("set_vm_metadata", json!([vm, {}]), "VMNotFound");
        expect_error_type("delete_vm", json!(["../../etc"]), "VMNotFound");
        expect_error_type("attach_disk", json!([vm, disk]), "VMNotFound");
        expect_error_type("detach_disk", json!([vm, disk]), "VMNotFound");
        expect_error_type("resize_disk", json!([disk, 1]), "DiskNotFound");
        expect_error_type("update_disk", json!([disk, 1, {}]), "DiskNotFound");
        expect_error_type("set_disk_metadata", json!([disk, {}]), "DiskNotFound");
        expect_error_type("snapshot_disk", json!([disk, {}]), "DiskNotFound");
        expect_error_type("delete_disk", json!(["vol-1"]), "DiskNotFound");
        expect_error_type("create_vm", cloud.create_vm_arguments(&json!(stemcell)), "StemcellNotFound");
        expect_error_type("create_network", json!([{}]), "NotImplemented");
        expect_error_type("configure_networks", json!([vm, {}]), "NotSupported");
        assert_eq!(cloud.call("has_vm", json!(["x"])), json!(false));
        assert_eq!(cloud.call("has_disk", json!([disk])), json!(false));
        assert_eq!(cloud.expect_error("create_disk", json!(["1", {}])).0, "InvalidCall");
        assert_eq!(cloud.expect_error("create_disk", json!([1, {}, "vm", 4])).0, "InvalidCall");
        // The second round uses an existing cloud.
        cloud.create_stemcell();
    }
}

#[test]
fn contract_v1_answers_follow_the_documentation() {
    let cloud = Cloud::new();
    let call = |method: &str, arguments: Value| {
        let answer = cloud.call_raw(request(method, arguments, 1).to_string().as_bytes());
        assert_eq!(answer["error"], Value::Null);
        answer["result"].clone()
    };
    let stemcell = cloud.create_stemcell();
    let vm = call("create_vm", cloud.create_vm_arguments(&stemcell));
    assert!(vm.as_str().unwrap().starts_with("vm-"));
    let disk = cloud.call("create_disk", json!([1, {}]));
    assert_eq!(call("attach_disk", json!([vm, disk])), Value::Null);
    cloud.call("delete_vm", json!([vm]));
    assert_eq!(cloud.call("has_disk", json!([disk])), json!(true));
}

#[test]
fn second_vm_on_the_same_port_fails_and_leaves_nothing() {
    let cloud = Cloud::new();
    let stemcell = cloud.create_stemcell();
    let _taken = TcpListener::bind(("127.0.0.1", cloud.port)).unwrap();
    let (kind, message) = cloud.expect_error("create_vm", cloud.create_vm_arguments(&stemcell));
    assert_eq!(kind, "Bosh::Clouds::VMCreationFailed");
    assert!(message.contains("in use"), "{message}");
    cloud.call("delete_stemcell", json!([stemcell]));
    assert!(!cloud.root().exists());
}

#[test]
fn reboot_restarts_a_dead_agent() {
    let cloud = Cloud::new();
    let stemcell = cloud.create_stemcell();
    let vm = cloud.create_vm(&stemcell);
    cloud.wait_for_agent();
    let init = cloud.init(&vm);
    let children = || fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap();
    let first = children();
    let agent: i32 = first.split_whitespace().next().unwrap().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(agent).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_until("another agent runs", || {
        let now = children();
        !now.trim().is_empty() && now != first
    });
    cloud.wait_for_agent();
    cloud.call("delete_vm", json!([vm]));
    assert_eq!(cloud.processes(), Vec::<String>::new());
}

#[test]
fn killed_create_vm_leaves_no_vm() {
    let cloud = Cloud::new();
    let stemcell = cloud.create_stemcell();
    let request = request("create_vm", cloud.create_vm_arguments(&stemcell), 2).to_string();
    let (mut killed_count, mut finished_count) = (0, 0);
    for step in 0..24 {
        let mut child = cloud.spawn(request.as_bytes());
        thread::sleep(Duration::from_millis(step * 4));
        child.kill().unwrap();
        let output = child.end_with_output();
        let vm_count = fs::read_dir(cloud.root().join("vms")).map_or(0, Iterator::count);
        if vm_count == 0 {
            killed_count += 1;
        } else {
            // The kill came too late: the VM exists, and the answer was sent or was about to be sent.
            finished_count += 1;
            let vms = fs::read_dir(cloud.root().join("vms")).unwrap();
            for vm in vms {
                let vm = vm.unwrap().file_name().into_string().unwrap();
                if let Ok(answer) = serde_json::from_slice::<Value>(&output.stdout) {
                    assert_eq!(answer["result"][0], json!(vm));
                }
                cloud.call("delete_vm", json!([vm]));
            }
        }
        // Any changing call removes leftovers, including VMs that were being created.
        let disk = cloud.call("create_disk", json!([1, {}]));
        cloud.call("delete_disk", json!([disk]));
        assert!(
            !cloud.root().join("staging").exists()
                || fs::read_dir(cloud.root().join("staging")).unwrap().count() == 0
        );
        wait_until("no process is left", || cloud.processes().is_empty());
    }
    println!("{killed_count} calls killed before, {finished_count} after the VM was known");
    assert!(killed_count > 0);
    let vm = cloud.create_vm(&stemcell);
    cloud.wait_for_agent();
    cloud.call("delete_vm", json!([vm]));
    cloud.call("delete_stemcell", json!([stemcell]));
    assert!(!cloud.root().exists());
}

#[test]
fn failed_boot_is_explained_and_leaves_nothing() {
    let cloud = Cloud::new();
    // /var belongs to the VM, and a link in it must not lead outside.
    std::os::unix::fs::symlink("/", cloud.directory.path().join("image/var")).unwrap();
    let stemcell = cloud.create_stemcell();
    let (kind, message) = cloud.expect_error("create_vm", cloud.create_vm_arguments(&stemcell));
    assert_eq!(kind, "Bosh::Clouds::VMCreationFailed");
    assert!(message.contains("'/var") && message.contains("is not a directory"), "{message}");
    assert!(!cloud.root().join("vms").exists());
    cloud.call("delete_stemcell", json!([stemcell]));
    assert!(!cloud.root().exists());
}

#[test]
fn concurrent_calls_do_not_interfere() {
    let cloud = Cloud::new();
    let stemcell = cloud.create_stemcell();
    let vm = cloud.create_vm(&stemcell);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let disk = cloud.call("create_disk", json!([1, {}]));
                cloud.call("attach_disk", json!([vm, disk]));
                cloud.call("set_vm_metadata", json!([vm, {"disk": disk}]));
                cloud.call("detach_disk", json!([vm, disk]));
                cloud.call("delete_disk", json!([disk]));
                let other = cloud.create_stemcell();
                cloud.call("delete_stemcell", json!([other]));
            });
        }
    });
    assert_eq!(cloud.call("get_disks", json!([vm])), json!([]));
    cloud.call("delete_vm", json!([vm]));
    cloud.call("delete_stemcell", json!([stemcell]));
    assert!(!cloud.root().exists());
    // Concurrent calls create and remove the root directory.
    let cids = thread::scope(|scope| {
        let calls: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    let disk = cloud.call("create_disk", json!([1, {}]));
                    cloud.call("delete_disk", json!([disk]));
                    disk.to_string()
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect::<BTreeSet<_>>()
    });
    assert_eq!(cids.len(), 6);
    assert!(!cloud.root().exists());
}
