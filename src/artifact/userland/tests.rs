use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;

use super::*;
use crate::testing;

struct UserlandWorld {
    directory: tempfile::TempDir,
    cache: Cache,
}

impl UserlandWorld {
    fn new() -> UserlandWorld {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(&directory.path().join("cache")).unwrap();
        UserlandWorld { directory, cache }
    }

    /// Writes a tarball whose entries `fill` appends.
    fn tarball(&self, name: &str, fill: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> PathBuf {
        let mut builder = tar::Builder::new(Vec::new());
        fill(&mut builder);
        let path = self.directory.path().join(name);
        fs::write(&path, builder.into_inner().unwrap()).unwrap();
        path
    }

    /// Makes a disk with ext4.
    fn disk(&self) -> PathBuf {
        let (tree, disk) = (self.directory.path().join("tree"), self.directory.path().join("disk"));
        fs::create_dir_all(tree.join("usr/bin")).unwrap();
        fs::write(tree.join("usr/bin/sh"), "#!").unwrap();
        let mut command = std::process::Command::new("mke2fs");
        command.args(["-q", "-F", "-t", "ext4", "-d"]).arg(tree).arg(&disk).arg("4m");
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        disk
    }

    fn open(&self, path: &Path, expected: Option<&str>) -> Result<Userland> {
        let expected = expected.map(|text| Digest::parse(text, "it").unwrap());
        let source = Source::local(path).unwrap();
        let interrupt_check: InterruptCheck = Arc::new(|| Ok(()));
        open(&self.cache, &source, expected.as_ref(), &interrupt_check, &testing::stage())
    }
}

fn add(builder: &mut tar::Builder<Vec<u8>>, kind: tar::EntryType, path: &str, mode: u32, content: &str) {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(12345);
    header.set_gid(12345);
    if matches!(kind, tar::EntryType::Symlink | tar::EntryType::Link) {
        header.set_link_name(content).unwrap();
        header.set_size(0);
        builder.append_data(&mut header, path, std::io::empty()).unwrap();
    } else {
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, path, content.as_bytes()).unwrap();
    }
}

fn plain(builder: &mut tar::Builder<Vec<u8>>) {
    use tar::EntryType::{Char, Fifo, Regular, Symlink};
    add(builder, Regular, "usr/bin/sh", 0o6755, "#!");
    add(builder, Symlink, "bin", 0o777, "usr/bin");
    add(builder, Symlink, "etc/alternatives/cc", 0o777, "/usr/bin/sh");
    add(builder, Char, "dev/mem", 0o666, "");
    add(builder, Fifo, "dev/initctl", 0o600, "");
    add(
        builder,
        Regular,
        "etc/os-release",
        0o644,
        "ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n",
    );
}

#[test]
fn tarball_is_unpacked_once_without_devices_owners_and_set_uid_bits() {
    let world = UserlandWorld::new();
    let path = world.tarball("root.tar", plain);
    let userland = world.open(&path, None).unwrap();
    let sh = userland.root.join("usr/bin/sh").symlink_metadata().unwrap();
    assert_eq!(sh.permissions().mode() & 0o7777, 0o755);
    assert_eq!(sh.uid(), world.directory.path().metadata().unwrap().uid());
    assert!(!userland.root.join("dev/mem").exists() && !userland.root.join("dev/initctl").exists());
    assert_eq!(fs::read_link(userland.root.join("etc/alternatives/cc")).unwrap(), Path::new("/usr/bin/sh"));
    assert_eq!(userland.operating_systems, ["debian-bookworm", "debian-12"]);
    // The second time, and from another path, the tree in the cache is used.
    fs::write(userland.root.join("mark"), "").unwrap();
    let copy = world.directory.path().join("copy.tar");
    fs::copy(&path, &copy).unwrap();
    let second_userland = world.open(&copy, None).unwrap();
    assert_eq!((second_userland.root.join("mark").exists(), second_userland.digest), (true, userland.digest));
    // A tree without its record, or a part of one, is of a run that was killed.
    fs::remove_file(userland.root.with_extension("json")).unwrap();
    let key = userland.root.file_name().unwrap().to_str().unwrap();
    let partial_tree = userland.root.with_file_name(format!("partial-{key}"));
    fs::create_dir_all(partial_tree.join("content/usr")).unwrap();
    assert!(!world.open(&path, None).unwrap().root.join("mark").exists());
    assert!(!partial_tree.exists());
}

#[test]
fn wrong_digest_is_refused_before_anything_is_unpacked() {
    let world = UserlandWorld::new();
    let path = world.tarball("root.tar", plain);
    let error = world.open(&path, Some(&"a".repeat(40))).unwrap_err();
    assert!(error.chain().join(": ").contains("aaaa"), "{error}");
    assert!(!world.directory.path().join("cache/userlands").exists());
    let digest = Digest::from_file(&path, &[Algorithm::Sha1]).unwrap().to_string();
    world.open(&path, Some(&digest)).unwrap();
}

#[test]
fn trees_that_are_no_root_file_system_are_refused() {
    use tar::EntryType::{Regular, Symlink};
    let world = UserlandWorld::new();
    type Fill = fn(&mut tar::Builder<Vec<u8>>);
    let cases: [(&str, Fill); 3] = [
        ("it has neither /bin nor /usr/bin", |builder| add(builder, Regular, "a", 0o644, "")),
        ("it is a disk in the format VMDK", |builder| {
            add(builder, Regular, "image.vmdk", 0o644, "");
            add(builder, Regular, "image.ovf", 0o644, "");
        }),
        ("'bin' is not a directory", |builder| {
            add(builder, Symlink, "bin", 0o777, "/etc");
            add(builder, Regular, "bin/passwd", 0o644, "");
        }),
    ];
    for (expected, fill) in cases {
        let path = world.tarball("root.tar", fill);
        let error = world.open(&path, None).unwrap_err().chain().join(": ");
        assert!(error.contains(expected), "{expected}: {error}");
        let entries = fs::read_dir(world.directory.path().join("cache/userlands")).unwrap().flatten();
        assert_eq!(entries.filter(|entry| entry.path().is_dir()).count(), 0, "{expected}");
    }
    let error = world.open(Path::new("/"), None).unwrap_err();
    assert!(error.to_string().ends_with("is the root of this machine"), "{error}");
}

#[test]
fn archive_without_a_root_is_refused_before_it_is_unpacked() {
    use tar::EntryType::{Directory, Regular};
    let world = UserlandWorld::new();
    // Unpacking would refuse the second entry of the same name.
    let duplicate_tarball = |name: &str, add_entries: &dyn Fn(&mut tar::Builder<Vec<u8>>)| {
        world.tarball(&format!("{}.tar", name.replace('/', "-")), |builder| {
            add(builder, Regular, name, 0o644, "");
            add(builder, Regular, name, 0o644, "");
            add_entries(builder);
        })
    };
    let error_of = |path: &Path| world.open(path, None).unwrap_err().chain().join(": ");
    for (path, expected) in [
        (duplicate_tarball("src/main.c", &|_| {}), "it has neither /bin nor /usr/bin"),
        (duplicate_tarball("rootfs/bin/sh", &|_| {}), "it has neither /bin nor /usr/bin"),
        (duplicate_tarball("image.vmdk", &|_| {}), "it is a disk in the format VMDK"),
        (duplicate_tarball("a", &|builder| add(builder, Regular, "usr/bin/sh", 0o755, "")), "occurs twice"),
        (world.tarball("one.tar", |builder| add(builder, Directory, "a", 0o755, "")), "neither /bin nor"),
    ] {
        let error = error_of(&path);
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn stemcell_for_warden_has_a_root_file_system() {
    let world = UserlandWorld::new();
    let stemcell = |image: &[u8]| {
        world.tarball("stemcell.tar", |builder| {
            let manifest = "name: s\nversion: '1'\noperating_system: ubuntu-jammy\n";
            add(builder, tar::EntryType::Regular, "stemcell.MF", 0o644, manifest);
            let mut header = tar::Header::new_gnu();
            header.set_size(image.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, "image", image).unwrap();
        })
    };
    let image = fs::read(world.tarball("image", plain)).unwrap();
    let userland = world.open(&stemcell(&image), None).unwrap();
    assert_eq!(userland.operating_systems[0], "ubuntu-jammy");
    assert!(userland.root.join("usr/bin/sh").is_file() && !userland.root.join("stemcell.MF").exists());
    let disk = fs::read(world.disk()).unwrap();
    let in_archive = fs::read(world.tarball("root-image", |builder| {
        let mut header = tar::Header::new_gnu();
        header.set_size(disk.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, "root.img", &disk[..]).unwrap();
    }));
    for image in [disk, in_archive.unwrap()] {
        let userland = world.open(&stemcell(&image), None).unwrap();
        assert_eq!(userland.operating_systems[0], "ubuntu-jammy");
        assert!(userland.root.join("usr/bin/sh").is_file());
    }
    for (image, expected) in [(&b""[..], "light stemcell"), (b"QFI\xfb..", "it is truncated")] {
        let error = world.open(&stemcell(image), None).unwrap_err().chain().join(": ");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn disk_is_unpacked_once() {
    let world = UserlandWorld::new();
    let disk = world.disk();
    let root = world.open(&disk, None).unwrap().root;
    assert_eq!(fs::read_to_string(root.join("usr/bin/sh")).unwrap(), "#!");
    fs::write(root.join("mark"), "").unwrap();
    assert!(world.open(&disk, None).unwrap().root.join("mark").exists());
}

#[test]
fn images_of_docker_and_oci_are_unpacked_layer_by_layer() {
    use tar::EntryType::Regular;
    let world = UserlandWorld::new();
    let layer = |name: &str, fill: &dyn Fn(&mut tar::Builder<Vec<u8>>)| {
        fs::read(world.tarball(name, |builder| fill(builder))).unwrap()
    };
    let lower = layer("lower", &|builder| {
        plain(builder);
        add(builder, Regular, "etc/old", 0o644, "");
    });
    let upper = layer("upper", &|builder| {
        add(builder, Regular, "etc/.wh.old", 0o644, "");
        add(builder, Regular, "usr/bin/cc", 0o755, "#!");
    });
    let file = |builder: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, content).unwrap();
    };
    let docker = world.tarball("docker.tar", |builder| {
        file(
            builder,
            "manifest.json",
            br#"[{"Config": "c.json", "Layers": ["1/layer.tar", "2/layer.tar"]}]"#,
        );
        file(builder, "1/layer.tar", &lower);
        file(builder, "2/layer.tar", &upper);
    });
    let oci = |name: &str, damage: &[u8]| {
        world.tarball(name, |builder| {
            let mut blob = |content: &[u8]| {
                let digest = crate::tarballs::sha256(content);
                let path = format!("blobs/{}", digest.replace(':', "/"));
                file(builder, &path, &[content, damage].concat());
                digest
            };
            let layers = [&lower, &upper].map(|layer| format!(r#"{{"digest": "{}"}}"#, blob(layer)));
            let manifest = blob(format!(r#"{{"layers": [{}]}}"#, layers.join(",")).as_bytes());
            let index = format!(r#"{{"manifests": [{{"digest": "{manifest}"}}]}}"#);
            file(builder, "index.json", index.as_bytes());
            file(builder, "oci-layout", br#"{"imageLayoutVersion": "1.0.0"}"#);
        })
    };
    for image in [docker, oci("oci.tar", b"")] {
        let root = world.open(&image, None).unwrap().root;
        let exists = |path: &str| root.join(path).symlink_metadata().is_ok();
        assert!(
            exists("usr/bin/sh")
                && exists("usr/bin/cc")
                && exists("bin")
                && !exists("etc/old")
                && !exists("index.json")
        );
        assert!(!exists("dev/mem") && !exists("etc/.wh.old"));
    }
    let error = world.open(&oci("damaged.tar", b" "), None).unwrap_err().chain().join(": ");
    assert!(error.contains("the manifest of"), "{error}");
}

#[test]
fn digest_of_a_directory_is_that_of_its_content() {
    let world = UserlandWorld::new();
    let make = |name: &str| {
        let root = world.directory.path().join(name);
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("bin/sh"), "1").unwrap();
        symlink("/usr/bin/sh", root.join("link")).unwrap();
        root
    };
    let (one, two) = (make("one"), make("two"));
    let digest = |root: &Path| world.open(root, None).unwrap().digest;
    assert_eq!(digest(&one), digest(&two));
    let digest_before = digest(&one);
    std::thread::sleep(Duration::from_millis(20));
    fs::write(one.join("bin/sh"), "2").unwrap();
    assert_ne!(digest(&one), digest_before);
    assert!(world.open(&one, Some(&"a".repeat(40))).unwrap_err().to_string().contains("directory"));
}
