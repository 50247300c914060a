//! Root file systems that try to lead out of the userland.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::setup::UserlandEnv;
use crate::cpi_release::setup::Machine;
use crate::support::userland::{release, run, unpack_root};

/// Replaces entries of a root file system by links to a directory outside.
fn with_links(root: &Path, outside: &Path) {
    unpack_root(root);
    for path in ["tmp", "run", "dev", "proc", "sys", "var/vcap", "var/tmp", "home", "etc/hosts", "etc/passwd"]
    {
        let link = root.join(path);
        let _ = std::fs::remove_dir_all(&link);
        let _ = std::fs::remove_file(&link);
        symlink(outside.join(path.replace('/', "-")), &link).unwrap();
    }
    symlink("/", root.join("all")).unwrap();
    symlink("/proc/1/root/proc/1/root", root.join("trick")).unwrap();
}

#[test]
fn links_of_a_root_file_system_stay_inside() {
    let machine = Machine::new();
    let (root, outside) = (machine.path("root"), machine.path("outside"));
    for name in ["tmp", "run", "dev", "proc", "sys", "var-vcap", "var-tmp", "home"] {
        std::fs::create_dir_all(outside.join(name)).unwrap();
    }
    std::fs::write(outside.join("etc-hosts"), "outside").unwrap();
    with_links(&root, &outside);
    let script = format!(
        "for path in /tmp /var/tmp ~ /dev/shm; do echo x > $path/more; done
        [[ ! -e {outside} && ! -e /all{outside} && ! -e /trick{outside} && ! -e /all/trick{outside} ]]
        grep -q vcap /etc/passwd",
        outside = outside.display()
    );
    let tarball = machine.path("root.tar");
    run(
        "tar",
        &["-C", &root.display().to_string(), "-cf", &tarball.display().to_string(), "."],
        Path::new("/"),
    );
    for userland in [&root, &tarball] {
        let userland_env =
            UserlandEnv::new(&machine, &release(&script), &format!("url: {}", userland.display()));
        userland_env.run_info().success();
    }
    let files =
        walkdir::WalkDir::new(&outside).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    let paths: Vec<_> = files.map(|entry| entry.path().to_owned()).collect();
    assert_eq!(paths, [outside.join("etc-hosts")]);
    assert_eq!(std::fs::read_to_string(outside.join("etc-hosts")).unwrap(), "outside");
}
