//! Userlands that are disks with ext4: a CPI is compiled and runs in them for the complete life of an
//! environment.

use std::path::Path;

use super::compile::packages;
use super::setup::{UserlandEnv, without_compilers};
use crate::cpi_release::setup::Machine;
use crate::support::userland::{release, run, unpack_root};

/// Makes the raw disk `disk` with a file system that has the files of `root`.
fn make_disk(root: &Path, disk: &Path) {
    let (root, disk) = (root.display().to_string(), disk.display().to_string());
    // Users other than root may lack its directory.
    let script = "PATH=$PATH:/usr/sbin:/sbin mke2fs -q -F -t ext4 -d \"$0\" \"$1\" 96m";
    run("bash", &["-ec", script, &root, &disk], Path::new("/"));
}

#[test]
fn environment_lives_with_a_cpi_in_a_disk() {
    let machine = Machine::new();
    let [root, raw, qcow2] = ["root", "disk.raw", "disk.qcow2"].map(|name| machine.path(name));
    unpack_root(&root);
    make_disk(&root, &raw);
    std::fs::write(root.join("etc/os-release"), "ID=testix\nVERSION_ID=8\n").unwrap();
    let changed_raw = machine.path("changed.raw");
    make_disk(&root, &changed_raw);
    let paths = [&changed_raw, &qcow2].map(|path| path.display().to_string());
    run("qemu-img", &["convert", "-c", "-O", "qcow2", &paths[0], &paths[1]], Path::new("/"));
    std::fs::remove_dir_all(root).unwrap();

    let mut userland_env = UserlandEnv::new(&machine, &release(""), &format!("url: {}", raw.display()));
    let create = |userland_env: &UserlandEnv| {
        let command = without_compilers(&userland_env.command(&["create-env"], &[]));
        userland_env.env.hello.world.finish(command).success().stdout
    };
    let output = create(&userland_env);
    assert!(output.contains("Unpacking the userland") && output.contains("Compiling package"), "{output}");
    assert_eq!(userland_env.env.hello.ask_counter(), 1);
    assert_eq!(packages(&machine.path("cache")).len(), 2);

    // Another image of a userland changes nothing in the environment.
    let url =
        format!("- {{type: replace, path: /cloud_provider/userland/url, value: {}}}\n", qcow2.display());
    userland_env.env.hello.add_ops("disk.yml", &url);
    let output = create(&userland_env);
    assert!(output.contains("Nothing to do"), "{output}");

    // The new persistent disk needs the CPI. The image is another userland, so its packages are compiled
    // again.
    let size = "- {type: replace, path: /disk_pools/name=disks/disk_size, value: 2048}\n";
    userland_env.env.hello.add_ops("size.yml", size);
    let output = create(&userland_env);
    assert!(output.contains("Unpacking the userland") && output.contains("Compiling package"), "{output}");
    assert_eq!(packages(&machine.path("cache")).len(), 4);
    assert_eq!(userland_env.env.hello.ask_counter(), 2, "the data is on the disk");
    let command = without_compilers(&userland_env.command(&["delete-env"], &["-n"]));
    userland_env.env.hello.world.finish(command).success();
    assert_eq!(userland_env.env.hello.leftovers(), Vec::<String>::new());
}
