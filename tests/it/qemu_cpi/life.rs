//! VMs that boot Debian with the built-in agent: stemcells of the example, and the life of an environment.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::process::{WaitForEnd as _, answer_within, lines, next};
use crate::support::tarballs::Tar;
use crate::support::{World, debian, free_port};

/// The time limit of a command. A boot without KVM takes a minute of a processor, which other tests may use.
const LIMIT: Duration = Duration::from_secs(600);

/// An environment on a VM, with the state and the manifest of the example.
struct VmLife {
    world: World,
    address: SocketAddr,
    stemcell: String,
    ops: Vec<Value>,
    counter: u64,
}

/// The end of a command.
struct Ended {
    code: i32,
    output: String,
}

impl Ended {
    #[track_caller]
    fn success(self) -> Ended {
        assert_eq!(self.code, 0, "{}", self.output);
        self
    }
}

impl VmLife {
    fn new(stemcell: &str) -> VmLife {
        let world = World::new();
        world.run(["example", "qemu"]).success();
        // The job writes down the kernel that it runs on, and the size of its disk.
        let pre_start = "hello/release/jobs/hello/templates/pre-start.erb";
        let more = "uname -srv >/var/vcap/sys/log/hello/kernel.log\n\
                    df --output=size -m /var/vcap/store >>/var/vcap/sys/log/hello/disk.log\n\
                    df --output=size -m / >>/var/vcap/sys/log/hello/root.log\n\
                    mount >/var/vcap/sys/log/hello/mount.log\n";
        world.write(pre_start, world.read(pre_start) + more);
        let (host, port) = ("127.0.10.3", free_port());
        let mut life = VmLife {
            world,
            address: format!("{host}:{port}").parse().unwrap(),
            stemcell: format!("stemcell=file://{stemcell}"),
            ops: Vec::new(),
            counter: 0,
        };
        let mbus = format!("https://mbus:((mbus_bootstrap_password))@{host}:{}", free_port());
        let ports = json!({"hello": {"host": port, "guest": 8580}});
        let properties = json!({"ram": 256, "ports": ports, "root_disk_size": 3072});
        life.replace("/resource_pools/name=vms/cloud_properties", properties);
        life.replace("/cloud_provider/mbus", json!(mbus));
        life.replace("/cloud_provider/properties", json!({"accelerator": "tcg"}));
        life.replace("/disk_pools/name=disks/disk_size", json!(128));
        life
    }

    fn replace(&mut self, path: &str, value: Value) {
        self.ops.push(json!({"type": "replace", "path": path, "value": value}));
        self.world.write("ops.yml", json!(self.ops).to_string());
    }

    fn command(&self, words: &[&str]) -> Command {
        let (command, more) = words.split_first().unwrap();
        let flags = ["qemu/manifest.yml", "-o", "ops.yml", "-v", &self.stemcell];
        self.world.monopile([&[*command][..], &flags, more].concat())
    }

    /// Runs a command to its end.
    #[track_caller]
    fn run(&self, words: &[&str]) -> Ended {
        let log = self.world.path("log");
        let file = fs::File::create(&log).unwrap();
        let mut command = self.command(words);
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let mut child = command.spawn().unwrap();
        let status = answer_within(LIMIT, &words.join(" "), || child.try_wait().unwrap());
        Ended { code: status.code().unwrap_or(-1), output: fs::read_to_string(log).unwrap() }
    }

    /// Runs a command, and kills it when its output has this text.
    #[track_caller]
    fn killed_at(&self, words: &[&str], text: &str) {
        let mut command = self.command(words);
        let errors = fs::File::create(self.world.path("errors")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        let lines = lines(child.stdout.take().unwrap());
        while !said.contains(text) {
            let line = next(&format!("the run says '{text}'"), &lines)
                .unwrap_or_else(|| panic!("it ended before '{text}': {said}{}", self.world.read("errors")));
            said.push_str(&line);
            said.push('\n');
        }
        child.kill().unwrap();
        child.end();
    }

    fn cloud(&self) -> PathBuf {
        self.world.home().join(".local/state/monopile/qemu")
    }

    fn vms(&self) -> Vec<String> {
        let vms = fs::read_dir(self.cloud().join("vms")).into_iter().flatten().flatten();
        vms.map(|vm| vm.file_name().into_string().unwrap()).collect()
    }

    /// Returns the only VM.
    #[track_caller]
    fn vm(&self) -> String {
        let vms = self.vms();
        assert_eq!(vms.len(), 1, "{vms:?}");
        vms[0].clone()
    }

    /// Asks the service, whose counter is on the persistent disk, and returns its greeting.
    #[track_caller]
    fn greeting(&mut self) -> String {
        let mut stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(10)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let body = text.split("\r\n\r\n").nth(1).unwrap_or_else(|| panic!("no body: {text}"));
        let (greeting, counter) = body.trim_end().rsplit_once("\ncounter: ").unwrap();
        self.counter += 1;
        assert_eq!(counter.parse(), Ok(self.counter), "the data of the disk is not what it was");
        greeting.to_owned()
    }

    /// Returns the lines of a log of the job.
    #[track_caller]
    fn log(&self, name: &str) -> Vec<String> {
        let filter = format!("hello/{name}.log");
        let run = self.run(&["logs", "--quiet", "--filter", &filter]).success();
        run.output.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    }

    /// Returns the size of a file system in MiB, as the job saw it at its last start.
    #[track_caller]
    fn size(&self, name: &str) -> u64 {
        let lines = self.log(name);
        lines.iter().rev().find_map(|line| line.parse().ok()).unwrap_or_else(|| panic!("{lines:?}"))
    }

    /// Ends the VM's processes without a warning, as a machine that loses power.
    fn cut_power(&self) {
        let path = self.cloud().join("vms").join(self.vm()).join("process.json");
        let process: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(process["pid"].as_i64().unwrap()).unwrap());
        rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::KILL).unwrap();
        answer_within(LIMIT, "the VM's processes have ended", || {
            self.world.leftovers().is_empty().then_some(())
        });
    }
}

/// A failed test must not leave its VM running.
impl Drop for VmLife {
    fn drop(&mut self) {
        for vm in self.vms() {
            self.world.write("config.json", json!({"root": self.cloud()}).to_string());
            let mut command = self.world.monopile(["cpi-exec", "qemu", "--config", "config.json"]);
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            if let Ok(mut child) = command.spawn() {
                let request = json!({"method": "delete_vm", "arguments": [vm], "context": {}});
                let _ = child.stdin.take().unwrap().write_all(request.to_string().as_bytes());
                child.stop();
            }
        }
    }
}

/// Runs one step and prints its duration.
fn step<T>(name: &str, run: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = run();
    eprintln!("{:6.1} s  {name}", started.elapsed().as_secs_f64());
    result
}

#[test]
#[ignore = "boots VMs without KVM for ten minutes; `.ci/run --only qemu` runs it"]
fn environment_lives_on_a_vm_with_a_kernel_of_its_own() {
    let stemcell = step("make the stemcell", debian::stemcell).display().to_string();
    let mut life = VmLife::new(&stemcell);
    step("create", || life.run(&["create-env"]).success());
    let vm = life.vm();
    assert_eq!(life.greeting(), "Hello from the VM");
    let kernel = life.log("kernel");
    assert!(kernel[0].contains("-cloud-amd64 "), "it is the kernel of the stemcell: {kernel:?}");
    let host = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(!kernel[0].contains(host.trim()), "it is the kernel of this machine: {kernel:?}");
    let mounts = life.log("mount").join("\n");
    assert!(mounts.contains("/dev/vdc on /var/vcap/store type ext4"), "{mounts}");
    let small = life.size("disk");
    assert!(small < 128, "{small}");
    let root = life.size("root");
    assert!(root > 2500, "the root file system uses the whole disk: {root}");

    let unchanged = step("create again", || life.run(&["create-env"]).success());
    assert!(unchanged.output.contains("Nothing to do"), "{}", unchanged.output);
    assert_eq!(life.vm(), vm);

    life.replace("/instance_groups/name=hello/jobs/name=hello/properties/greeting?", json!("Ahoy"));
    step("change a property", || life.run(&["create-env"]).success());
    assert_eq!((life.vm(), life.greeting()), (vm.clone(), "Ahoy".to_owned()));

    life.replace("/disk_pools/name=disks/disk_size", json!(256));
    step("grow the disk in place", || life.run(&["create-env"]).success());
    life.greeting();
    let grown = life.size("disk");
    assert!(grown > 128, "{grown}");

    step("stop", || life.run(&["stop-env"]).success());
    assert_eq!(life.run(&["status"]).code, 1, "the jobs are stopped");
    step("start", || life.run(&["start-env"]).success());
    life.greeting();

    // The data of the disk is copied to a smaller one, in a new VM with an ephemeral disk.
    life.replace("/disk_pools/name=disks/disk_size", json!(160));
    let properties = "/resource_pools/name=vms/cloud_properties/ephemeral_disk?";
    life.replace(properties, json!({"size": 512}));
    step("recreate, killed while the VM is deleted", || life.killed_at(&["create-env"], "Deleting VM"));
    step("kill it while the VM is created", || life.killed_at(&["create-env"], "Creating VM"));
    step("kill it while the VM boots", || life.killed_at(&["create-env"], "Waiting for the agent"));
    step("resume", || life.run(&["create-env"]).success());
    life.greeting();
    assert_ne!(life.vm(), vm, "it is a new VM");
    let copied = life.size("disk");
    assert!((small..grown).contains(&copied), "{copied}");
    let mounts = life.log("mount").join("\n");
    assert!(mounts.contains("/dev/vdb on /var/vcap/data type ext4"), "{mounts}");

    // The kernel writes the counter to the disk after some seconds.
    std::thread::sleep(Duration::from_secs(15));
    step("cut the power", || life.cut_power());
    let stopped = life.run(&["status"]);
    assert!(stopped.code == 5 && stopped.output.contains("STOPPED"), "{}", stopped.output);
    step("start it again", || life.run(&["start-env"]).success());
    life.greeting();

    step("delete", || life.run(&["delete-env", "--non-interactive"]).success());
    assert!(!life.cloud().exists(), "{:?}", fs::read_dir(life.cloud()).map(Iterator::count));
    assert_eq!(life.world.leftovers(), Vec::<String>::new());
}

/// Boots a stemcell of prepared files instead of Debian. Its boot loader only prints a text on the console.
#[test]
fn stemcell_without_debian_boots() {
    let world = World::new();
    let base = Tar::default()
        .dir("./boot/grub")
        .file("./boot/grub/boot.img", super::guest())
        .file("./boot/grub/core.img", "")
        .dir("./var/vcap/bosh/bin");
    world.write("base.tar", base.tar());
    let agent = world.write("agent", "#!/bin/sh\n");
    let mut permissions = fs::metadata(&agent).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    fs::set_permissions(&agent, permissions).unwrap();
    let stemcell = world.path("stemcell.tgz");
    debian::make_stemcell(&world.path("base.tar"), &agent, &world.path(""), &stemcell);
    let description = world.run(["inspect-local-stemcell", "stemcell.tgz"]).success();
    assert!(description.stdout.contains("bosh-openstack-kvm-debian-"), "{description:?}");

    let life = VmLife::new(&stemcell.display().to_string());
    let failed = life.run(&["create-env", "--boot-timeout", super::BOOT_TIMEOUT]);
    assert!(failed.code == 5 && failed.output.contains("tiny guest"), "{}", failed.output);
    life.run(&["delete-env", "--non-interactive", "--agent-timeout", "2s"]).success();
}
