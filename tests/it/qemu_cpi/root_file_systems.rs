//! Stemcells that are root file systems, as those for warden: they become disks, which boot a kernel of the
//! operator.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tar::EntryType;

use super::Cloud;
use crate::support::process::{RunToEnd as _, prepare};
use crate::support::tarballs::Tar;

/// The beginning of the header of a kernel for x86: a jump behind the header, the signature, and the version
/// of the boot protocol.
const HEADER: &[u8] = b"\xeb\x3eHdrS\x00\x02";
/// Code in real mode that writes the arguments of the kernel to the serial port. Their offset is at 0x22.
const CODE: &[u8] = b"\xfc\x8b\x36\x22\x00\xac\x84\xc0\x74\x06\xba\xf8\x03\xee\xeb\xf5\xf4\xeb\xfd";

/// Returns a kernel that only writes its arguments to the console.
pub(super) fn tiny_kernel() -> Vec<u8> {
    let mut kernel = vec![0; 4096];
    for (place, bytes) in [(0x200, HEADER), (0x240, CODE)] {
        kernel[place..][..bytes.len()].copy_from_slice(bytes);
    }
    kernel
}

/// Returns the smallest root file system.
pub(super) fn root_file_system() -> Tar {
    Tar::default().directory("./").file("./etc/hostname", "tiny\n")
}

/// A cloud with a kernel, and an image that is a root file system.
fn cloud_with(image: Tar) -> (Cloud, PathBuf) {
    let cloud = Cloud::new();
    cloud.set("kernel", json!(cloud.world.write("vmlinuz", tiny_kernel())));
    let image = cloud.world.write("image", image.tgz());
    (cloud, image)
}

/// The disk of a stemcell.
struct Disk<'a> {
    cloud: &'a Cloud,
}

impl Disk<'_> {
    /// The name of the only partition for programs of e2fsprogs.
    const PARTITION: &'static str = "disk.raw?offset=1048576";

    fn of<'a>(cloud: &'a Cloud, stemcell: &Path) -> Disk<'a> {
        let mut command = prepare("qemu-img");
        command.args(["convert", "-O", "raw"]).arg(stemcell.join("image.qcow2"));
        let output = command.arg(cloud.world.path("disk.raw")).run_to_end();
        assert!(output.status.success(), "{output:?}");
        Disk { cloud }
    }

    fn run(&self, program: &str, arguments: &[&str]) -> (bool, String) {
        let mut command = prepare(Path::new("/usr/sbin").join(program));
        let output = self.cloud.world.enter(&mut command).args(arguments).arg(Self::PARTITION).run_to_end();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.success(), text)
    }

    fn debugfs(&self, command: &str) -> String {
        self.run("debugfs", &["-R", command]).1
    }

    /// Returns the type, the mode, the user and the group of a file.
    fn stat(&self, path: &str) -> String {
        let text = self.debugfs(&format!("stat \"{path}\""));
        let field = |name: &str| text.split_whitespace().skip_while(|word| *word != name).nth(1);
        let fields = ["Type:", "Mode:", "User:", "Group:"].map(|name| field(name).unwrap_or("?"));
        fields.map(|field| field.trim_start_matches('0')).join(" ")
    }
}

#[test]
fn disk_has_the_owners_and_modes_of_the_archive() {
    let configuration = json!({
        "Platform": {"Linux": {"SkipDiskSetup": true, "ServiceManager": "systemd"}},
        "Infrastructure": {"Settings": {"Sources": [{"Type": "File", "SettingsPath": "/x"}]}},
    });
    let directory = |tar: Tar, name: &str, mode, owner| {
        tar.owned_raw(owner, EntryType::Directory, name.as_bytes(), mode, b"", b"")
    };
    let image = directory(root_file_system(), "./tmp", 0o1777, (0, 0));
    let image = directory(image, "./home/a user", 0o700, (1000, 1001))
        .owned_file("./home/a user/large id", 0o600, (1000, 70_000), "x")
        .owned_raw((1000, 1000), EntryType::Symlink, b"./home/link", 0o777, b"/etc/shadow", b"")
        .owned_file("./etc/shadow", 0o640, (0, 42), "root:*:\n")
        .owned_file("./usr/bin/sudo", 0o4755, (0, 0), "#!\n")
        .hard_link("./usr/bin/sudoedit", "./usr/bin/sudo")
        .raw(EntryType::Char, b"./dev/console", 0o600, b"", b"")
        .file("./var/vcap/bosh/agent.json", configuration.to_string());
    let (cloud, image) = cloud_with(image);
    let stemcell = cloud.call("create_stemcell", json!([image, {"disk_format": "files"}]));
    let stemcell = cloud.root().join("stemcells").join(stemcell.as_str().unwrap());
    let entries = fs::read_dir(&stemcell).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["image.qcow2", "kernel", "stemcell.json"]);
    assert_eq!(fs::read(stemcell.join("kernel")).unwrap(), tiny_kernel());

    let disk = Disk::of(&cloud, &stemcell);
    for (path, expected) in [
        ("/", "directory 755  "),
        ("/etc/shadow", "regular 640  42"),
        ("/tmp", "directory 1777  "),
        ("/usr", "directory 755  "),
        ("/usr/bin/sudo", "regular 4755  "),
        ("/usr/bin/sudoedit", "regular 4755  "),
        ("/home", "directory 755  "),
        ("/home/a user", "directory 700 1000 1001"),
        ("/home/a user/large id", "regular 600 1000 70000"),
        ("/home/link", "symlink 777 1000 1000"),
        ("/dev/console", "? ? ? ?"),
    ] {
        assert_eq!(disk.stat(path), expected, "{path}: {}", disk.debugfs(&format!("stat \"{path}\"")));
    }
    assert!(disk.debugfs("stat /home/link").contains("\"/etc/shadow\""));
    assert!(disk.debugfs("stat /usr/bin/sudo").contains("Links: 2"));
    let configuration = disk.debugfs("cat /var/vcap/bosh/agent.json");
    let configuration: Value = serde_json::from_str(configuration.split("debugfs ").next().unwrap()).unwrap();
    let linux = json!({"ServiceManager": "systemd", "CreatePartitionIfNoEphemeralDisk": true,
        "DevicePathResolutionType": "virtio"});
    assert_eq!(configuration["Platform"]["Linux"], linux);
    let sources = &configuration["Infrastructure"]["Settings"]["Sources"];
    assert_eq!((sources[0]["Type"].as_str(), &sources[1]), (Some("ConfigDrive"), &Value::Null));
    let (is_clean, report) = disk.run("e2fsck", &["-f", "-n"]);
    assert!(is_clean, "{report}");
    let mut record = [0; 512];
    File::open(cloud.world.path("disk.raw")).unwrap().read_exact(&mut record).unwrap();
    assert_eq!((record[450], &record[454..458]), (0x83, &[0, 8, 0, 0][..]), "a partition at sector 2048");
    assert_eq!(record[510..], [0x55, 0xaa]);
}

#[test]
fn vm_boots_the_kernel_of_the_stemcell() {
    let (cloud, image) = cloud_with(root_file_system());
    cloud.set("initrd", json!(cloud.world.write("initrd", "files")));
    cloud.set("kernel_arguments", json!(["tiny", "guest"]));
    let stemcell = cloud.call("create_stemcell", json!([image, {}]));
    // The stemcell has its own copies.
    for name in ["vmlinuz", "initrd", "image"] {
        fs::remove_file(cloud.world.path(name)).unwrap();
    }
    let vm = &cloud.create_vm(&stemcell);
    cloud.wait_for_guest(vm, 1);
    let console = fs::read_to_string(cloud.root().join("vms").join(vm).join("console.log")).unwrap();
    assert!(console.contains("root=/dev/vda1 rw console=ttyS0 net.ifnames=0 tiny guest"), "{console}");
    cloud.call("delete_stemcell", json!([stemcell]));
    cloud.call("reboot_vm", json!([vm]));
    cloud.wait_for_guest(vm, 2);
    cloud.call("delete_vm", json!([vm]));
    cloud.assert_empty();
}

#[test]
fn root_file_systems_that_cannot_boot_are_refused() {
    let (cloud, image) = cloud_with(root_file_system());
    let error_of = |image: &Path| {
        let answer = cloud.try_call("create_stemcell", json!([image, {}]));
        assert_eq!(answer["error"]["made_nothing"], true, "{answer}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    };
    let good = cloud.world.path("vmlinuz");
    let text = cloud.world.write("text", "x".repeat(4096));
    let short = cloud.world.write("short", "MZ");
    for (kernel, part) in [
        (json!(null), "set the CPI's property `kernel`"),
        (json!(cloud.world.path("missing")), "reading the CPI's kernel"),
        (json!(cloud.world.path("")), "is not a regular file of at most 256 MiB"),
        (json!(text), "is not a Linux kernel for x86"),
        (json!(short), "is not a Linux kernel for x86"),
    ] {
        cloud.set("kernel", kernel);
        let error = error_of(&image);
        assert!(error.contains(part), "{error}");
    }
    cloud.set("kernel", json!(good));
    cloud.set("initrd", json!(cloud.world.path("missing")));
    assert!(error_of(&image).contains("reading the CPI's initrd"));
    cloud.set("initrd", json!(null));
    let long = "d/".repeat(45) + &"f".repeat(10);
    let deep = ["x".repeat(200), "x".repeat(200), "x".repeat(200), "x".repeat(200), long].join("/");
    for (image, part) in [
        (root_file_system().file("./etc/a\"b", ""), "contains a quotation mark or a line end"),
        (root_file_system().file("./etc/a\nb", ""), "contains a quotation mark or a line end"),
        (root_file_system().long_name(EntryType::GNULongName, deep.as_bytes()).file("x", ""), "is too long"),
        (root_file_system().file("../outside", ""), "leads out of the archive"),
        (Tar::default().file("a", "").file("b", ""), "none of them root.img"),
    ] {
        let error = error_of(&cloud.world.write("image", image.tgz()));
        assert!(error.contains(part), "{error}");
    }
    cloud.assert_empty();
}
