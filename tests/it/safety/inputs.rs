//! Every file that a command reads has a size limit, and a signal ends the wait for a file that never
//! arrives.

use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::process::{WaitForEnd, poll};
use crate::support::{World, peak_kib};

/// The memory limit in KiB: a file of the maximum size, its text, and the program itself.
const MEMORY: u64 = 300 << 10;

const STATE: &str = r#"{"director_id": "d", "installation_id": "i", "current_vm_cid": "vm-1",
    "current_stemcell_id": "", "current_disk_id": "", "current_release_ids": [], "current_manifest_sha": "",
    "disks": [], "stemcells": [], "releases": []}"#;

fn world() -> World {
    let world = World::new();
    world.write(
        "bosh.yml",
        "name: x\ncloud_provider: {cpi: {builtin: local}, mbus: 'https://a:b@127.9.9.9:1'}\n",
    );
    world.write("bosh-state.json", STATE);
    world.write("template.erb", "x");
    world
}

#[test]
fn rejects_endless_files() {
    let world = world();
    for args in [
        &["int", "/dev/zero"][..],
        &["int", "bosh.yml", "-o", "/dev/zero"],
        &["int", "bosh.yml", "-l", "/dev/zero"],
        &["int", "bosh.yml", "--var-file", "a=/dev/zero"],
        &["int", "bosh.yml", "--vars-store", "/dev/zero"],
        &["int", "bosh.yml", "--env-file", "/dev/zero"],
        &["int", "bosh.yml", "--encrypt-to", "/dev/zero"],
        &["int", "bosh.yml", "--identity", "/dev/zero"],
        &["vars", "list", "/dev/zero"],
        &["state", "show", "--state", "/dev/zero"],
        &["create-env", "bosh.yml", "--plan", "/dev/zero"],
        &["create-env", "bosh.yml", "--cpi-config", "/dev/zero"],
        &["create-env", "bosh.yml", "--cloud-config", "/dev/zero"],
        &["render-template", "/dev/zero", "--context", "bosh.yml"],
        &["render-template", "template.erb", "--context", "/dev/zero"],
        &["inspect-local-release", "/dev/zero"],
        &["inspect-local-stemcell", "/dev/zero"],
        &["cpi", "replay", "/dev/zero"],
        &["cpi", "call", "--path", "./cpi", "--properties", "@/dev/zero", "info"],
    ] {
        let mut command = world.monopile(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (start, mut peak) = (Instant::now(), 0);
        let code = poll(&format!("{args:?} ends"), || {
            peak = peak.max(peak_kib(child.id()).unwrap_or(0));
            child.try_wait().unwrap()
        });
        assert!(!code.success() && code.code() != Some(101), "{args:?}: {code}");
        assert!(start.elapsed() < Duration::from_secs(60), "{args:?}: {:?}", start.elapsed());
        assert!(peak < if args[0] == "cpi" { 4 * MEMORY } else { MEMORY }, "{args:?} needs {peak} KiB");
    }
}

#[test]
fn signal_ends_the_wait_for_a_pipe() {
    let world = world();
    let mut mkfifo = crate::support::process::prepare("mkfifo");
    mkfifo.arg(world.path("pipe"));
    world.finish(mkfifo).success();
    for args in [
        &["create-env", "pipe", "--state", "s.json"][..],
        &["create-env", "bosh.yml", "-o", "pipe"],
        &["plan", "bosh.yml", "-l", "pipe"],
        &["delete-env", "bosh.yml", "-n", "--vars-store", "pipe"],
        &["int", "pipe"],
    ] {
        let mut child = world.monopile(args);
        child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        assert!(child.try_wait().unwrap().is_none(), "{args:?} does not wait");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let status = poll(&format!("{args:?} ends"), || child.try_wait().unwrap());
        // A command without signal handlers is ended by the signal itself.
        assert!(status.code() == Some(130) || status.signal() == Some(2), "{args:?}: {status}");
        child.end();
    }
    // A file that a shell passes as `<(…)` is read.
    let script = format!("{} int <(sleep 0.3; echo 'name: piped') --path /name", crate::support::MONOPILE);
    let mut shell = crate::support::process::prepare("bash");
    world.enter(&mut shell).args(["-c", &script]);
    assert_eq!(world.finish(shell).success().stdout, "piped\n");
}

#[test]
fn paths_that_are_not_utf8_work_or_are_rejected() {
    let world = world();
    let odd = std::ffi::OsString::from_vec(b"w\xff\xfe".to_vec());
    let home = world.root().join(&odd);
    std::fs::create_dir(&home).unwrap();
    std::fs::copy(world.path("bosh.yml"), home.join("bosh.yml")).unwrap();
    std::fs::write(home.join("bosh-state.json"), STATE).unwrap();
    std::fs::write(home.join(".monopile.yml"), "manifest: bosh.yml\n").unwrap();
    for args in [
        &["int", "bosh.yml"][..],
        &["state", "show", "bosh.yml"],
        &["status", "bosh.yml"],
        &["plan", "bosh.yml"],
        &["create-env", "bosh.yml", "-n"],
        &["delete-env", "bosh.yml", "-n"],
        &["history", "bosh.yml"],
        &["cache", "list"],
        &["vars", "list", "bosh.yml"],
        &["cpi", "info", "bosh.yml"],
        &["trust"],
        &["int"],
        &["--json", "create-env"],
    ] {
        for home_too in [true, false] {
            let mut command = world.monopile(args);
            command.current_dir(&home).env_remove("TMPDIR");
            if home_too {
                command.env("HOME", &home);
            }
            let run = world.finish(command);
            let output = format!("{}{}", run.stdout, run.stderr);
            assert!(
                run.code >= 0 && run.code < 100 && !output.contains("panicked"),
                "{args:?}: {} {output}",
                run.code
            );
            assert!(!output.contains("internal error"), "{args:?}: {output}");
        }
    }
    // This holds for arguments and options.
    for args in [&["int"][..], &["state", "show"], &["int", "bosh.yml", "-o"], &["int", "bosh.yml", "-v"]] {
        let mut command = world.monopile(args);
        command.arg(&odd);
        let run = world.finish(command);
        assert!(
            run.code > 0 && run.code < 100 && !run.stderr.contains("panicked"),
            "{args:?}: {}",
            run.stderr
        );
    }
}
