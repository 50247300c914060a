//! VMs that boot Debian with the built-in agent: stemcells of the example, and the life of an environment.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::root_file_systems::tiny_kernel;
use crate::pictures::{self, PictureRecorder};
use crate::support::process::{RunToEnd as _, WaitForEnd as _, lines, poll_within, receive};
use crate::support::tarballs::Tar;
use crate::support::{World, debian, is_long_form};

/// The time limit of a command. A boot without KVM takes a minute of a processor, which many other tests use.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1500);

/// An environment on a VM, with the state and the manifest of the example.
struct VmLife {
    /// The directory, and a network namespace in which the addresses of the example are free.
    machine: PictureRecorder,
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

/// The words of a `create-env` whose guest has no agent.
const CREATE_WITHOUT_AGENT: [&str; 3] = ["create-env", "--boot-timeout", super::BOOT_TIMEOUT];

/// The option with the stemcell, which is in the directory.
const STEMCELL: &str = "stemcell=file://$PWD/debian.tgz";

impl VmLife {
    fn new(stemcell: &Path) -> VmLife {
        let machine = PictureRecorder::new();
        let world = &machine.world;
        std::os::unix::fs::symlink(stemcell, world.path("debian.tgz")).unwrap();
        world.run(["example", "qemu"]).success();
        // The job writes down the kernel that it runs on, and the size of its disk.
        let pre_start = "hello/release/jobs/hello/templates/pre-start.erb";
        let kernel_log_script = "uname -srv >/var/vcap/sys/log/hello/kernel.log\n\
                    df --output=size -m /var/vcap/store >>/var/vcap/sys/log/hello/disk.log\n\
                    df --output=size -m / >>/var/vcap/sys/log/hello/root.log\n\
                    mount >/var/vcap/sys/log/hello/mount.log\n\
                    cat /proc/cmdline >/var/vcap/sys/log/hello/cmdline.log\n\
                    stat -c '%a %U:%G %n' / /usr/bin/passwd /etc/shadow /home/vcap \
                    >/var/vcap/sys/log/hello/owners.log\n\
                    for name in /dev/disk/by-id/*; do echo \"$name $(/sbin/blockdev --getsize64 $name)\"; \
                    done >/var/vcap/sys/log/hello/devices.log\n";
        world.write(pre_start, world.read(pre_start) + kernel_log_script);
        let mut life = VmLife { machine, ops: Vec::new(), counter: 0 };
        for (key, value) in [("ram", 256), ("root_disk_size?", 3072)] {
            life.replace(&format!("/resource_pools/name=vms/cloud_properties/{key}"), json!(value));
        }
        life.replace("/cloud_provider/properties/accelerator?", json!("tcg"));
        life.replace("/disk_pools/name=disks/disk_size", json!(128));
        life
    }

    fn world(&self) -> &World {
        &self.machine.world
    }

    fn replace(&mut self, path: &str, value: Value) {
        self.ops.push(json!({"type": "replace", "path": path, "value": value}));
        self.world().write("ops.yml", json!(self.ops).to_string());
    }

    fn command(&self, words: &[&str]) -> Command {
        let (command, extra_args) = words.split_first().unwrap();
        let directory = self.world().path("").display().to_string();
        let stemcell = STEMCELL.replace("$PWD/", &directory);
        let options = ["qemu/manifest.yml", "-o", "ops.yml", "-v", &stemcell];
        self.machine.monopile([&[*command][..], &options, extra_args].concat())
    }

    /// Runs a command to its end.
    #[track_caller]
    fn run(&self, words: &[&str]) -> Ended {
        let log = self.world().path("log");
        let file = fs::File::create(&log).unwrap();
        let mut command = self.command(words);
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let mut child = command.spawn().unwrap();
        let status = poll_within(COMMAND_TIMEOUT, &words.join(" "), || child.try_wait().unwrap());
        Ended { code: status.code().unwrap_or(-1), output: fs::read_to_string(log).unwrap() }
    }

    /// Waits in vain for the agent, as [`super::create_until_console_has`] does.
    #[track_caller]
    fn create_in_vain(&self) -> Ended {
        super::create_until_console_has(&self.cloud(), "tiny guest", || {
            let run = self.run(&CREATE_WITHOUT_AGENT);
            assert_eq!(run.code, 5, "{}", run.output);
            run
        })
    }

    /// Runs a command that must succeed. Prints its duration and the number of CPI calls. Returns the event
    /// of its end.
    #[track_caller]
    fn run_step(&self, name: &str, words: &[&str]) -> Value {
        let start = Instant::now();
        let run = self.run(&[words, &["--json"]].concat()).success();
        let end: Value = serde_json::from_str(run.output.lines().last().unwrap()).unwrap();
        let calls = end["timings"]["cpi_calls"].as_u64().unwrap_or_default();
        eprintln!("{:6.1} s  {calls:3} CPI calls  {name}", start.elapsed().as_secs_f64());
        end
    }

    /// Runs a command, and kills it when its output has this text.
    #[track_caller]
    fn kill_at(&self, words: &[&str], text: &str) {
        let mut command = self.command(words);
        let errors = fs::File::create(self.world().path("errors")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().unwrap();
        let mut output = String::new();
        let lines = lines(child.stdout.take().unwrap());
        while !output.contains(text) {
            let line = receive(&format!("the run says '{text}'"), &lines).unwrap_or_else(|| {
                panic!("it ended before '{text}': {output}{}", self.world().read("errors"))
            });
            output.push_str(&line);
            output.push('\n');
        }
        child.kill().unwrap();
        child.end();
    }

    fn cloud(&self) -> PathBuf {
        self.world().path("var/monopile/qemu")
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
    fn ask(&mut self) -> String {
        self.ask_at("127.0.10.3")
    }

    #[track_caller]
    fn ask_at(&mut self, address: &str) -> String {
        let mut curl = self.machine.network.command("curl");
        let url = format!("http://{address}:8580/");
        let output = curl.args(["--silent", "--show-error", "--max-time", "30", &url]).run_to_end();
        let body = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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
        poll_within(COMMAND_TIMEOUT, "the VM's processes have ended", || {
            self.world().leftovers().is_empty().then_some(())
        });
    }
}

/// A failed test must not leave its VM running.
impl Drop for VmLife {
    fn drop(&mut self) {
        for vm in self.vms() {
            self.world().write("config.json", json!({"root": self.cloud()}).to_string());
            let mut command = self.machine.monopile(["cpi-exec", "qemu", "--config", "config.json"]);
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            if let Ok(mut child) = command.spawn() {
                let request = json!({"method": "delete_vm", "arguments": [vm], "context": {}});
                let _ = child.stdin.take().unwrap().write_all(request.to_string().as_bytes());
                child.stop();
            }
        }
    }
}

/// Does something and prints its duration.
fn time<T>(name: &str, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    eprintln!("{:6.1} s                 {name}", start.elapsed().as_secs_f64());
    result
}

/// Runs in the long form only, because it boots VMs without KVM for ten minutes.
#[test]
fn environment_lives_on_a_vm_with_a_kernel_of_its_own() {
    if !is_long_form() {
        return;
    }
    let mut life = VmLife::new(&time("make the stemcell", debian::stemcell));
    // The picture shows the commands of the documentation, so that these changes are in the manifest itself.
    let manifest = life.world().run(["interpolate", "qemu/manifest.yml", "-o", "ops.yml"]).success().stdout;
    life.world().write("qemu/manifest.yml", manifest);
    let picture = time("create, on a terminal", || {
        life.machine.draw(&format!("create-env qemu/manifest.yml -v {STEMCELL}"), "", COMMAND_TIMEOUT)
    });
    pictures::check(&[("qemu", picture)]);
    let vm = life.vm();
    assert_eq!(life.ask(), "Hello from the VM");
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

    let unchanged = life.run_step("create again", &["create-env"]);
    assert_eq!(unchanged["report"]["steps"], json!([]), "{unchanged}");
    assert_eq!(life.vm(), vm);

    life.replace("/instance_groups/name=hello/jobs/name=hello/properties/greeting?", json!("Ahoy"));
    life.run_step("change a property", &["create-env"]);
    assert_eq!((life.vm(), life.ask()), (vm.clone(), "Ahoy".to_owned()));

    life.replace("/disk_pools/name=disks/disk_size", json!(256));
    life.run_step("grow the disk in place", &["create-env"]);
    life.ask();
    let grown_size = life.size("disk");
    assert!(grown_size > 128, "{grown_size}");

    life.run_step("stop", &["stop-env"]);
    assert_eq!(life.run(&["status"]).code, 1, "the jobs are stopped");
    life.run_step("start", &["start-env"]);
    life.ask();

    // The data of the disk is copied to a smaller one, in a new VM with an ephemeral disk.
    life.replace("/disk_pools/name=disks/disk_size", json!(160));
    let properties = "/resource_pools/name=vms/cloud_properties/ephemeral_disk?";
    life.replace(properties, json!({"size": 512}));
    time("recreate, killed while the VM is deleted", || life.kill_at(&["create-env"], "Deleting VM"));
    time("kill it while the VM is created", || life.kill_at(&["create-env"], "Creating VM"));
    time("kill it while the VM boots", || life.kill_at(&["create-env"], "Waiting for the agent"));
    life.run_step("resume", &["create-env"]);
    life.ask();
    assert_ne!(life.vm(), vm, "the VM was not replaced");
    let size_of_copy = life.size("disk");
    assert!((small..grown_size).contains(&size_of_copy), "{size_of_copy}");
    let mounts = life.log("mount").join("\n");
    assert!(mounts.contains("/dev/vdb on /var/vcap/data type ext4"), "{mounts}");

    // The kernel writes the counter to the disk after some seconds.
    std::thread::sleep(Duration::from_secs(15));
    time("cut the power", || life.cut_power());
    let status = life.run(&["status"]);
    assert!(status.code == 5 && status.output.contains("STOPPED"), "{}", status.output);
    life.run_step("start it again", &["start-env"]);
    life.ask();

    life.run_step("delete", &["delete-env", "--non-interactive"]);
    assert!(!life.cloud().exists(), "{:?}", fs::read_dir(life.cloud()).map(Iterator::count));
    assert_eq!(life.world().leftovers(), Vec::<String>::new());
}

/// Runs in the long form only, because it boots a VM without KVM.
#[test]
fn environment_lives_on_a_root_file_system_with_a_given_kernel() {
    if !is_long_form() {
        return;
    }
    let stemcell = time("make the stemcell", debian::root_file_system);
    let mut life = VmLife::new(&stemcell);
    for name in ["kernel", "initrd"] {
        let file = stemcell.with_extension(name);
        life.replace(&format!("/cloud_provider/properties/{name}?"), json!(file));
    }
    life.replace("/cloud_provider/properties/kernel_arguments?", json!(["loglevel=4", "test=1"]));
    let extra_disks = "/resource_pools/name=vms/cloud_properties/extra_disks?";
    life.replace(extra_disks, json!([{"size": 64}]));
    life.run_step("create from a root file system", &["create-env"]);
    life.ask();
    let kernel = life.log("kernel");
    assert!(kernel[0].contains("-cloud-amd64 "), "it is the kernel of the stemcell: {kernel:?}");
    let arguments = life.log("cmdline").join("\n");
    let expected = "root=/dev/vda1 rw console=ttyS0 net.ifnames=0 loglevel=4 test=1";
    assert!(arguments.ends_with(expected), "{arguments}");
    let mounts = life.log("mount").join("\n");
    assert!(mounts.contains("/dev/vda1 on / type ext4"), "{mounts}");
    let root = life.size("root");
    assert!(root > 2500, "the root file system uses the whole disk: {root}");
    let owners = life.log("owners").join("\n");
    for expected in ["755 root:root /", "4755 root:root /usr/bin/passwd", "640 root:shadow /etc/shadow"] {
        assert!(owners.lines().any(|line| line == expected), "{expected}: {owners}");
    }
    assert!(owners.contains(" vcap:vcap /home/vcap"), "{owners}");
    let devices = life.log("devices").join("\n");
    assert!(devices.contains("/dev/disk/by-id/virtio-extra-1 67108864"), "{devices}");
    assert!(!mounts.contains("/dev/vdc "), "the extra disk is not mounted: {mounts}");
    life.run_step("delete", &["delete-env", "--non-interactive"]);
    assert!(!life.cloud().exists(), "{:?}", fs::read_dir(life.cloud()).map(Iterator::count));
    assert_eq!(life.world().leftovers(), Vec::<String>::new());
}

/// Runs in the long form only, because it boots a VM without KVM.
#[test]
fn environment_has_an_address_on_a_bridge() {
    if !is_long_form() {
        return;
    }
    let mut life = VmLife::new(&time("make the stemcell", debian::stemcell));
    let ip = |arguments: &str| {
        let output = life.machine.network.command("ip").args(arguments.split(' ')).run_to_end();
        assert!(output.status.success(), "ip {arguments}");
        String::from_utf8(output.stdout).unwrap()
    };
    for arguments in ["link add br0 type bridge", "address add 10.77.0.1/24 dev br0", "link set br0 up"] {
        ip(arguments);
    }
    let subnet = json!({"range": "10.77.0.0/24", "gateway": "10.77.0.1", "static": ["10.77.0.6"],
        "cloud_properties": {"bridge": "br0"}});
    life.replace("/networks/-", json!({"name": "lan", "type": "manual", "subnets": [subnet]}));
    let networks = json!([
        {"name": "default"},
        {"name": "lan", "static_ips": ["10.77.0.6"], "default": ["dns", "gateway"]},
    ]);
    life.replace("/instance_groups/name=hello/networks", networks);
    // All ports of the VM are at its own address.
    life.replace("/resource_pools/name=vms/cloud_properties/ports", json!({}));
    let mbus = "https://mbus:((mbus_bootstrap_password))@10.77.0.6:6868";
    life.replace("/cloud_provider/mbus", json!(mbus));
    life.replace("/cloud_provider/properties/agent/mbus", json!(mbus));
    life.replace("/variables/name=mbus_bootstrap_ssl/options/alternative_names", json!(["10.77.0.6"]));
    life.run_step("create on a bridge", &["create-env"]);
    life.ask_at("10.77.0.6");
    life.run_step("delete", &["delete-env", "--non-interactive"]);
    let bridge_ports =
        life.machine.network.command("ip").args(["-o", "link", "show", "master", "br0"]).run_to_end();
    assert_eq!(String::from_utf8(bridge_ports.stdout).unwrap(), "");
    assert_eq!(life.world().leftovers(), Vec::<String>::new());
}

/// Makes a stemcell of prepared files instead of Debian, and checks its name.
fn make_stemcell(world: &World, base: Tar, options: &[&str], name: &str) -> PathBuf {
    world.write("base.tar", base.directory("./var/vcap/bosh/bin").tar());
    let agent = world.write("agent", "#!/bin/sh\n");
    let mut permissions = fs::metadata(&agent).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    fs::set_permissions(&agent, permissions).unwrap();
    let stemcell = world.path("stemcell.tgz");
    debian::make_stemcell(&world.path("base.tar"), &agent, &world.path(""), &stemcell, options);
    let description = world.run(["inspect-local-stemcell", "stemcell.tgz"]).success();
    assert!(description.stdout.contains(name), "{description:?}");
    stemcell
}

/// The kernel of the stemcell only prints its arguments on the console.
#[test]
fn root_file_system_without_debian_boots() {
    let world = World::new();
    let base = Tar::default()
        .directory("./etc")
        .file("./boot/vmlinuz-1", tiny_kernel())
        .file("./boot/initrd-1", "files")
        .symlink("./vmlinuz", "boot/vmlinuz-1")
        .symlink("./initrd.img", "boot/initrd-1");
    let stemcell = make_stemcell(&world, base, &["--root-file-system"], "bosh-warden-boshlite-debian-");
    let mut life = VmLife::new(&stemcell);
    let properties = "/cloud_provider/properties";
    life.replace(&format!("{properties}/kernel_arguments?"), json!("tiny guest"));
    let failed_run = life.run(&CREATE_WITHOUT_AGENT);
    assert!(failed_run.code != 0 && failed_run.output.contains("property `kernel`"), "{}", failed_run.output);
    for name in ["kernel", "initrd"] {
        life.replace(&format!("{properties}/{name}?"), json!(stemcell.with_extension(name)));
    }
    let failed_run = life.create_in_vain();
    assert!(failed_run.output.contains("net.ifnames=0 tiny guest"), "{}", failed_run.output);
    life.run(&["delete-env", "--non-interactive", "--agent-timeout", "2s"]).success();
    assert!(!life.cloud().exists(), "{:?}", fs::read_dir(life.cloud()).map(Iterator::count));
}

/// The boot loader of the stemcell only prints a text on the console.
#[test]
fn stemcell_without_debian_boots() {
    let world = World::new();
    let base = Tar::default()
        .directory("./boot/grub")
        .file("./boot/grub/boot.img", super::guest())
        .file("./boot/grub/core.img", "");
    let stemcell = make_stemcell(&world, base, &[], "bosh-openstack-kvm-debian-");
    let life = VmLife::new(&stemcell);
    let failed_run = life.create_in_vain();
    assert!(failed_run.output.contains("tiny guest"), "{}", failed_run.output);
    life.run(&["delete-env", "--non-interactive", "--agent-timeout", "2s"]).success();
}
