//! A virtual machine that really boots: QEMU with iPXE runs the boot script that Ironic created from the
//! targets, logs in to tgtd and starts the root volume.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::Metal;
use crate::support::process::{WaitForEnd, pieces, prepare};

/// The timeout of booting. Every instruction is emulated, on a machine that may be compiling.
const BOOT_TIMEOUT: Duration = Duration::from_secs(180);
const FIRMWARE_FILE: &str = "/usr/lib/ipxe/ipxe.lkrn";
/// The address of this machine's loopback as seen from the virtual machine.
const HOST: &str = "10.0.2.2";

/// Returns a disk whose boot sector writes a text to the first serial port and halts.
fn disk(text: &str) -> Vec<u8> {
    let mut disk = vec![
        0xfc, // cld
        0x31, 0xc0, // xor ax, ax
        0x8e, 0xd8, // mov ds, ax
        0xbe, 0x17, 0x7c, // mov si, the text
        0xba, 0xf8, 0x03, // mov dx, the port
        0xac, // next: lodsb
        0x84, 0xc0, // test al, al
        0x74, 0x03, // jz end
        0xee, // out dx, al
        0xeb, 0xf8, // jmp next
        0xf4, // end: hlt
        0xeb, 0xfd, // jmp end
        0x90,
    ];
    assert_eq!(disk.len(), 0x17);
    disk.extend(text.as_bytes());
    disk.resize(510, 0);
    disk.extend([0x55, 0xaa]);
    // A disk needs at least one cylinder.
    disk.resize(16 << 20, 0);
    disk
}

/// A running machine. It ends on drop, and with the test process.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.stop();
    }
}

/// Boots a machine with this script, and waits for the words on its serial port. If they do not appear,
/// returns the output as an error.
fn wait_for(metal: &Metal, script: &str, words: &str) -> Result<(), String> {
    metal.world.write("boot.ipxe", script);
    let child = prepare("setpriv")
        .args(["--pdeathsig", "KILL", "qemu-system-x86_64", "-accel", "tcg", "-m", "128"])
        // The firmware also prints to the serial port.
        .args(["-nographic", "-nodefaults", "-no-reboot", "-serial", "stdio"])
        .args(["-netdev", "user,id=net", "-device", "e1000,netdev=net,romfile="])
        .args(["-kernel", FIRMWARE_FILE, "-initrd"])
        .arg(metal.world.path("boot.ipxe"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("qemu-system-x86_64 runs: tests/run installs it");
    let mut machine = Machine(child);
    let console_pieces = pieces(machine.0.stdout.take().unwrap());
    let (start, mut console) = (Instant::now(), Vec::new());
    while let Some(remaining) = BOOT_TIMEOUT.checked_sub(start.elapsed()) {
        match console_pieces.recv_timeout(remaining) {
            Ok(piece) => console.extend(piece),
            Err(_) => break,
        }
        if String::from_utf8_lossy(&console).contains(words) {
            return Ok(());
        }
    }
    Err(String::from_utf8_lossy(&console).into_owned())
}

#[test]
fn machine_boots_from_the_root_volume() {
    let metal = Metal::new();
    let node = metal.ironic.create_node();
    let port = metal.tgtd.portal.split_once(':').unwrap().1;
    metal.reconfigure(|config| config["storage"]["portals"] = json!([format!("{HOST}:{port}")]));
    let words = format!("this is the root of {}", node.name);
    metal.world.write("image", disk(&words));
    let stemcell = metal.create_stemcell();
    let vm = metal.create_vm(&stemcell, &node);

    // The first script is the same for all machines. It loads the script of this one.
    let script = metal.ironic.read_file(&format!("httpboot/{}/config", node.uuid));
    let script = format!("#!ipxe\ndhcp\n{}", script.strip_prefix("#!ipxe\n").unwrap());
    wait_for(&metal, &script, &words)
        .unwrap_or_else(|console| panic!("it does not boot:\n{script}\n{console}"));
    // With other credentials, the machine gets no volume to boot from.
    let password = metal.password(&format!("root-{vm}"));
    let bad_script = script.replace(&password, "wr0ngpassw0rd");
    wait_for(&metal, &bad_script, "Failed to attach iSCSI volume").unwrap();
    metal.call("delete_vm", json!([vm]));
    metal.assert_clean(&node, &[&format!("stemcell-{stemcell}")]);
}

#[test]
fn warns_about_target_names_too_long_for_bios() {
    let metal = Metal::new();
    let node = metal.ironic.create_node();
    let stemcell = metal.create_stemcell();
    let warns = || {
        let answer = metal.try_call("create_vm", metal.create_vm_arguments(&stemcell, &node));
        metal.call("delete_vm", json!([answer["result"][0]]));
        answer["log"].as_str().unwrap().contains("will not boot with BIOS")
    };
    assert!(!warns());
    metal.reconfigure(|config| {
        config["storage"]["iqn"] = json!(format!("iqn.2026-11.test.{}", "x".repeat(60)))
    });
    assert!(warns());
}
