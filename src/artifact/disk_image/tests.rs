use std::fs::{self, File};
use std::io::Cursor;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::archive::Links;

const MIB: usize = 1 << 20;
/// The type of a Linux partition in a GPT.
const LINUX_PARTITION_TYPE: [u8; 16] =
    [0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4];

struct ImageWorld(tempfile::TempDir);

impl ImageWorld {
    fn new() -> ImageWorld {
        ImageWorld(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a file system of a directory.
    fn file_system(&self, tree: &Path, options: &[&str]) -> Vec<u8> {
        let image = self.path("file-system");
        let _ = fs::remove_file(&image);
        let mut command = Command::new("mke2fs");
        command.args(["-q", "-F", "-t", "ext4", "-d"]).arg(tree).args(options).arg(&image).arg("24m");
        run(&mut command);
        fs::read(image).unwrap()
    }

    /// Runs a command of debugfs on a file system, and returns its output.
    fn debugfs(&self, file_system: &mut Vec<u8>, command: &str) -> String {
        let image = self.path("debugfs");
        fs::write(&image, &file_system).unwrap();
        let output = run(Command::new("debugfs").args(["-w", "-R", command]).arg(&image));
        *file_system = fs::read(&image).unwrap();
        output
    }

    fn qemu_img(&self, arguments: &[&str]) {
        run(Command::new("qemu-img").args(arguments).current_dir(self.0.path()));
    }

    /// Unpacks an image to the directory `out`, or returns the error.
    fn unpack(&self, image: impl Read + Seek) -> std::result::Result<PathBuf, String> {
        let destination = self.path("out");
        let _ = fs::remove_dir_all(&destination);
        let limits = UnpackLimits { entries: 2000, ..UnpackLimits::default() };
        let options =
            UnpackOptions { limits, links: Links::Verbatim, skips_devices: true, ..UnpackOptions::default() };
        let result = unpack(image, "the disk", Path::new("d.img"), &destination, &options, &mut |_| {});
        assert!(!self.path("out.partial").exists());
        result.map(|()| destination).map_err(|error| error.chain().join(": "))
    }

    #[track_caller]
    fn refuse(&self, image: impl Read + Seek, expected: &str) {
        let error = self.unpack(image).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[track_caller]
fn run(command: &mut Command) -> String {
    // Users other than root may lack the directories of mke2fs and debugfs.
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} (see tests/run): {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Makes a small root file system.
fn small_tree(root: &Path) {
    write(&root.join("usr/bin/sh"), "#!");
    write(&root.join("etc/passwd"), "root");
    symlink("usr/bin", root.join("bin")).unwrap();
}

/// Makes a root file system with everything that needs a case of its own.
fn build_tree(root: &Path) {
    small_tree(root);
    write(&root.join("usr/bin/su"), "su");
    fs::set_permissions(root.join("usr/bin/su"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::hard_link(root.join("usr/bin/sh"), root.join("usr/bin/bash")).unwrap();
    write(&root.join("large"), (0..3 * MIB).map(|index| (index / 7 % 251) as u8).collect::<Vec<u8>>());
    // Extents that are not in the inode itself.
    let holes = File::create(root.join("holes")).unwrap();
    for index in 0..40 {
        std::os::unix::fs::FileExt::write_all_at(&holes, b"data", index * 20_000).unwrap();
    }
    holes.set_len(1_000_000).unwrap();
    symlink("/".to_owned() + &"long/".repeat(40), root.join("long-link")).unwrap();
    for index in 0..1000 {
        write(&root.join(format!("many/a-file-with-a-long-name-{index}")), index.to_string());
    }
    fs::create_dir(root.join("private")).unwrap();
    fs::set_permissions(root.join("private"), fs::Permissions::from_mode(0o500)).unwrap();
    run(Command::new("mkfifo").arg(root.join("fifo")));
}

/// Checks that `out` has the tree of [`build_tree`], without its fifo and special permissions.
#[track_caller]
fn check(root: &Path, destination: &Path) {
    let list = |root: &Path| -> Vec<(PathBuf, u32, Vec<u8>)> {
        let entries = walkdir::WalkDir::new(root).min_depth(1).sort_by_file_name().into_iter().flatten();
        let entries =
            entries.filter(|entry| !["fifo", "lost+found"].iter().any(|name| entry.file_name() == *name));
        let entry = |entry: walkdir::DirEntry| {
            let metadata = entry.metadata().unwrap();
            let content = match (metadata.is_file(), metadata.is_symlink()) {
                (true, _) => fs::read(entry.path()).unwrap(),
                (_, true) => fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes(),
                _ => Vec::new(),
            };
            let mode = if metadata.is_symlink() { 0 } else { metadata.mode() & 0o777 | 0o600 };
            (entry.path().strip_prefix(root).unwrap().to_owned(), mode, content)
        };
        entries.map(entry).collect()
    };
    let (expected, actual) = (list(root), list(destination));
    assert!(expected.len() > 1000);
    for (expected, actual) in expected.iter().zip(&actual) {
        assert_eq!((&expected.0, &expected.1), (&actual.0, &actual.1));
        assert!(expected.2 == actual.2, "{:?}", expected.0);
    }
    assert_eq!(expected.len(), actual.len());
    let metadata = |name: &str| destination.join(name).symlink_metadata().unwrap();
    assert_eq!(metadata("usr/bin/su").mode() & 0o7000, 0);
    assert_eq!(metadata("usr/bin/sh").ino(), metadata("usr/bin/bash").ino());
    assert!(!destination.join("fifo").exists());
}

/// Puts file systems into the partitions of a disk with a boot record.
fn with_boot_record(file_systems: &[&[u8]]) -> Vec<u8> {
    let mut disk = vec![0; MIB];
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    for (index, file_system) in file_systems.iter().enumerate() {
        let entry = 446 + 16 * index;
        disk[entry + 4] = 0x83;
        let sectors = |bytes: usize| ((bytes / 512) as u32).to_le_bytes();
        let start = sectors(disk.len());
        disk[entry + 8..entry + 12].copy_from_slice(&start);
        disk[entry + 12..entry + 16].copy_from_slice(&sectors(file_system.len()));
        disk.extend_from_slice(file_system);
    }
    disk
}

/// Puts a file system into the second partition of a disk with a GPT.
fn with_gpt(file_system: &[u8]) -> Vec<u8> {
    let mut disk = with_boot_record(&[file_system]);
    disk[446 + 4] = 0xee;
    disk[512..520].copy_from_slice(b"EFI PART");
    for (offset, number) in [(72, 2), (80, 128), (84, 128)] {
        disk[512 + offset] = number;
    }
    for (index, sector) in [(0, 34_u64), (1, 2048)] {
        let entry = 1024 + 128 * index;
        disk[entry..entry + 16].copy_from_slice(&LINUX_PARTITION_TYPE);
        disk[entry + 32..entry + 40].copy_from_slice(&sector.to_le_bytes());
    }
    disk
}

#[test]
fn disks_of_all_forms_are_unpacked() {
    let world = ImageWorld::new();
    let root = world.path("root");
    build_tree(&root);
    for options in
        [&[][..], &["-b", "1024", "-O", "^64bit,^metadata_csum,^flex_bg"], &["-b", "2048", "-I", "128"]]
    {
        let file_system = world.file_system(&root, options);
        check(&root, &world.unpack(Cursor::new(&file_system)).unwrap());
    }
    let file_system = world.file_system(&root, &[]);
    let boot = world.path("boot");
    write(&boot.join("grub/grub.cfg"), "");
    let disk = with_boot_record(&[&[0; 4096], &world.file_system(&boot, &[]), &file_system]);
    check(&root, &world.unpack(Cursor::new(&disk)).unwrap());
    let disk = with_gpt(&file_system);
    check(&root, &world.unpack(Cursor::new(&disk)).unwrap());
    assert!(is_disk(&disk[..2048]) && is_disk(&file_system[..2048]));

    fs::write(world.path("disk.raw"), &disk).unwrap();
    for options in [
        &[][..],
        &["-c"],
        &["-c", "-o", "compat=0.10"],
        &["-o", "compat=0.10,cluster_size=512"],
        &["-c", "-o", "cluster_size=2M"],
        &["-o", "lazy_refcounts=on"],
    ] {
        world.qemu_img(&[&["convert", "-O", "qcow2"], options, &["disk.raw", "disk.qcow2"]].concat());
        check(&root, &world.unpack(File::open(world.path("disk.qcow2")).unwrap()).unwrap());
    }
    let head = fs::read(world.path("disk.qcow2")).unwrap();
    assert!(is_disk(&head[..2048]));
}

#[test]
fn disks_that_cannot_be_read_are_refused() {
    let world = ImageWorld::new();
    let root = world.path("root");
    small_tree(&root);
    let file_system = world.file_system(&root, &["-O", "^metadata_csum"]);
    fs::write(world.path("raw"), &file_system).unwrap();
    let secret = "secret,id=s,data=secret";
    for (arguments, expected) in [
        (&["create", "-b", "raw", "-F", "raw"][..], "its backing file"),
        (&["create", "-o", "data_file=data"], "data in another file"),
        (&["create", "--object", secret, "-o", "encrypt.format=aes,encrypt.key-secret=s"], "is encrypted"),
        (&["create", "-o", "compression_type=zstd"], "compressed with zstd"),
        (&["create", "-o", "extended_l2=on"], "features of qcow2 that monopile does not know"),
        (&["create"], "no ext4 file system with /bin"),
    ] {
        world.qemu_img(&[arguments, &["-q", "-f", "qcow2", "disk", "24M"]].concat());
        world.refuse(File::open(world.path("disk")).unwrap(), expected);
    }
    world.qemu_img(&["convert", "-O", "vmdk", "raw", "vmdk"]);
    world.refuse(File::open(world.path("vmdk")).unwrap(), "in the format VMDK");
    world.qemu_img(&["convert", "-O", "qcow2", "raw", "disk"]);
    let qcow2 = fs::read(world.path("disk")).unwrap();
    let patched_qcow2 = |offset: usize, bytes: &[u8]| {
        let mut image = qcow2.clone();
        image[offset..offset + bytes.len()].copy_from_slice(bytes);
        Cursor::new(image)
    };
    world.refuse(patched_qcow2(79, &[2]), "marked as corrupt");
    world.refuse(patched_qcow2(7, &[4]), "in version 4 of qcow2");
    world.refuse(patched_qcow2(23, &[22]), "the size of its clusters is wrong");
    world.refuse(patched_qcow2(24, &[0x7f; 8]), "it contains more than 33554432 bytes in a table of qcow2");
    world.refuse(patched_qcow2(36, &[0; 4]), "its table of clusters is too short");
    world.refuse(patched_qcow2(40, &[0x7f; 8]), "it is truncated");
    world.refuse(patched_qcow2(40, &[0, 0, 0, 0, 1, 0, 0, 0]), "it is truncated");
    world.refuse(Cursor::new(&qcow2[..60]), "it is truncated");

    let patched_file_system = |offset: usize, bytes: &[u8]| {
        let mut image = file_system.clone();
        image[1024 + offset..][..bytes.len()].copy_from_slice(bytes);
        Cursor::new(image)
    };
    world.unpack(patched_file_system(0, &[])).unwrap();
    world.refuse(patched_file_system(0x60, &[0xc6]), "was not unmounted");
    world.refuse(patched_file_system(0x61, &[0x82]), "has unknown features (0x8000)");
    world.refuse(patched_file_system(0x18, &[6]), "the size of its blocks is wrong");
    world.refuse(patched_file_system(0x28, &[0; 4]), "its super block is not valid");
    world.refuse(Cursor::new(&file_system[..8192]), "it is truncated");
    let boot = world.path("boot");
    write(&boot.join("grub/grub.cfg"), "");
    world.refuse(Cursor::new(world.file_system(&boot, &[])), "no ext4 file system with /bin or /usr/bin");
}

/// Returns the offset of an inode in a file system, which debugfs knows.
fn inode(world: &ImageWorld, file_system: &mut Vec<u8>, path: &str) -> usize {
    let output = world.debugfs(file_system, &format!("imap {path}"));
    let number = |text_before: &str| {
        let text = output.split(text_before).nth(1).unwrap_or_else(|| panic!("{output}"));
        let digits: String = text.chars().take_while(char::is_ascii_hexdigit).collect();
        digits
    };
    let block: usize = number("located at block ").parse().unwrap();
    block * 1024 + usize::from_str_radix(&number("offset 0x"), 16).unwrap()
}

/// Writes a node of a tree of extents.
fn write_node(image: &mut [u8], offset: usize, depth: u8, entries: &[[u8; 12]]) {
    image[offset..offset + 12].copy_from_slice(&[0x0a, 0xf3, 0, 0, 0, 0, depth, 0, 0, 0, 0, 0]);
    image[offset + 2..offset + 4].copy_from_slice(&(entries.len() as u16).to_le_bytes());
    for (index, entry) in entries.iter().enumerate() {
        image[offset + 12 * (index + 1)..][..12].copy_from_slice(entry);
    }
}

#[test]
fn loops_and_huge_sizes_end_with_an_error() {
    let world = ImageWorld::new();
    let root = world.path("root");
    small_tree(&root);
    let mut file_system = world.file_system(&root, &["-b", "1024", "-O", "^metadata_csum"]);
    let directory = inode(&world, &mut file_system, "/etc");
    let file = inode(&world, &mut file_system, "/etc/passwd");

    let mut looped_file_system = file_system.clone();
    world.debugfs(&mut looped_file_system, "ln /etc /etc/loop");
    world.refuse(Cursor::new(looped_file_system), "a directory is in two places");

    // Each level refers 80 times to the same node of the next one, the last one to no block or to few.
    let first = file_system.len() - 16 * 1024;
    let extent = |first: u8, blocks: u8| [first, 0, 0, 0, blocks, 0, 0, 0, 100, 0, 0, 0];
    for (leaf, expected) in [
        (vec![], "bytes"),
        (vec![extent(0, 0)], "not in order"),
        (vec![extent(0, 1)], "not in order"),
        (vec![extent(4, 1), extent(3, 1)], "not in order"),
    ] {
        for place in [file, directory] {
            let mut image = file_system.clone();
            let child = |depth: usize| {
                let mut entry = [0; 12];
                entry[4..8].copy_from_slice(&((first / 1024 + depth) as u32).to_le_bytes());
                entry
            };
            write_node(&mut image, place + 0x28, 5, &[child(4); 4]);
            for depth in 1..5 {
                write_node(&mut image, first + depth * 1024, depth as u8, &[child(depth - 1); 80]);
            }
            write_node(&mut image, first, 0, &leaf);
            world.refuse(Cursor::new(image), expected);
        }
    }
    for (place, offset, bytes, expected) in [
        (file, 0x6c, [0, 1, 0, 0], "more than"),
        (directory, 0x6c, [0, 1, 0, 0], "more than 67108864 bytes in a directory"),
        (file, 0x28, [0, 0, 0, 0], "the tree of a file's extents is not valid"),
        (file, 0x20, [0, 0, 0, 0], "without extents"),
    ] {
        let mut image = file_system.clone();
        image[place + offset..place + offset + 4].copy_from_slice(&bytes);
        world.refuse(Cursor::new(image), expected);
    }
}

#[test]
fn damaged_images_are_unpacked_or_refused() {
    let world = ImageWorld::new();
    let root = world.path("root");
    small_tree(&root);
    let mut file_system = world.file_system(&root, &["-b", "1024", "-O", "^metadata_csum,^has_journal"]);
    file_system.truncate(24 * MIB);
    fs::write(world.path("raw"), &file_system).unwrap();
    world.qemu_img(&["convert", "-c", "-O", "qcow2", "-o", "cluster_size=4096", "raw", "qcow2"]);
    let qcow2 = fs::read(world.path("qcow2")).unwrap();
    let inodes = inode(&world, &mut file_system, "/") / 1024 * 1024;
    let root_directory = world.debugfs(&mut file_system, "blocks /");
    let directories = root_directory.trim().parse::<usize>().unwrap() * 1024;
    // A generator of random numbers: Marsaglia's xorshift.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    let mut error_count = 0;
    for round in 0..300 {
        let mut image = if round % 4 == 0 { qcow2.clone() } else { file_system.clone() };
        let (start, length) = match round % 4 {
            0 => (0, qcow2.len()),
            1 => (1024, 2048),
            2 => (inodes, 4096),
            _ => (directories, 20 * 1024),
        };
        for _ in 0..=random(4) {
            image[start + random(length)] = [0, 1, 0x7f, 0x80, 0xff, random(256) as u8][random(6)];
        }
        error_count += usize::from(world.unpack(Cursor::new(image)).is_err());
    }
    assert!((1..300).contains(&error_count), "{error_count}");
}
