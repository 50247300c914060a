//! The command line of QEMU. Paths are relative to the directory of the VM, in which QEMU runs.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::accelerator::Accelerator;
use super::disk;
use super::kernel::{INITRD_FILE, KERNEL_FILE, KernelStart};
use super::network::NetworksRecord;
use super::properties::VmHardware;
use super::qmp::SOCKET_FILE;
use crate::cpi::cid::Cid;

/// The image that all VMs of a stemcell share.
pub(super) const BASE_IMAGE_FILE: &str = "base.qcow2";
/// The root disk of a VM.
pub(super) const ROOT_IMAGE_FILE: &str = "root.qcow2";
/// The ephemeral disk of a VM.
pub(super) const EPHEMERAL_IMAGE_FILE: &str = "ephemeral.qcow2";
/// The config drive of a VM.
pub(super) const CONFIG_IMAGE_FILE: &str = "config.img";
/// The device of the ephemeral disk in the VM: disks are numbered by their slots on the bus.
pub(super) const EPHEMERAL_DEVICE: &str = "/dev/vdb";
/// The devices and their slots on the PCI bus. Network cards are in slot 3, extra and persistent disks in
/// [`DISK_SLOTS`].
const DEVICE_SLOTS: [(&str, u8); 4] = [("root", 4), ("ephemeral", 5), ("config", 6), ("random", 7)];
/// The slots of extra disks, followed by persistent disks. They come after the slots of all other disks,
/// because the guest numbers disks by their slots when it boots.
pub(super) const DISK_SLOTS: RangeInclusive<u8> = 8..=31;

/// A VM that is about to boot.
pub(super) struct Machine<'a> {
    pub cid: &'a Cid,
    pub accelerator: Accelerator,
    pub hardware: &'a VmHardware,
    pub networks: &'a NetworksRecord,
    /// The attached persistent disks.
    pub disks: &'a [Cid],
    /// The kernel that QEMU loads, unless the VM boots from its disk.
    pub kernel: Option<&'a KernelStart>,
}

/// Returns the serial number of an extra disk, which is also its name in QEMU.
pub(super) fn extra_disk(index: usize) -> String {
    format!("extra-{}", index + 1)
}

/// Returns the file of an extra disk.
pub(super) fn extra_image(index: usize) -> String {
    format!("{}.qcow2", extra_disk(index))
}

/// Returns the device of an extra disk in the VM. udev makes it from the serial number.
pub(super) fn extra_device(index: usize) -> String {
    format!("/dev/disk/by-id/virtio-{}", extra_disk(index))
}

impl Machine<'_> {
    /// Returns the arguments of QEMU.
    pub(super) fn arguments(&self) -> Vec<String> {
        let slot = |name: &str| {
            let slot_entry = DEVICE_SLOTS.iter().find(|(device, _)| *device == name);
            slot_entry.map_or(String::new(), |(_, slot)| format!(",bus=pci.0,addr={slot:#x}"))
        };
        let mut arguments: Vec<String> = Vec::new();
        let mut add = |option: &str, value: String| arguments.extend([format!("-{option}"), value]);
        add("name", self.cid.to_string());
        // The firmware and boot loaders write to the console, too.
        add("machine", "pc,graphics=off".to_owned());
        add("accel", self.accelerator.name().to_owned());
        add("cpu", self.accelerator.cpu().to_owned());
        add("smp", self.hardware.cpu.to_string());
        add("m", self.hardware.ram.to_string());
        add("rtc", "base=utc".to_owned());
        if let Some(kernel) = self.kernel {
            add("kernel", KERNEL_FILE.to_owned());
            add("append", kernel.command_line.clone());
            if kernel.has_initrd {
                add("initrd", INITRD_FILE.to_owned());
            }
        }
        add("display", "none".to_owned());
        add("qmp", format!("unix:{SOCKET_FILE},server=on,wait=off"));
        // The standard output is the pipe to the process that keeps the console.
        add("chardev", "file,id=console,path=/dev/stdout".to_owned());
        add("serial", "chardev:console".to_owned());
        for (option, value) in self.networks.options() {
            add(option, value);
        }
        add("object", "rng-random,id=random,filename=/dev/urandom".to_owned());
        add("device", format!("virtio-rng-pci,rng=random{}", slot("random")));
        add("blockdev", node("root", "qcow2", ROOT_IMAGE_FILE, false).to_string());
        add("device", format!("virtio-blk-pci,drive=root,serial=root,bootindex=1{}", slot("root")));
        if self.hardware.ephemeral_disk.is_some() {
            add("blockdev", node("ephemeral", "qcow2", EPHEMERAL_IMAGE_FILE, false).to_string());
            add("device", format!("virtio-blk-pci,drive=ephemeral,serial=ephemeral{}", slot("ephemeral")));
        }
        add("blockdev", node("config", "raw", CONFIG_IMAGE_FILE, true).to_string());
        add("device", format!("virtio-blk-pci,drive=config,serial=config{}", slot("config")));
        let extra_disks = self.hardware.extra_disks.len();
        for (index, slot) in (0..extra_disks).zip(DISK_SLOTS) {
            let name = extra_disk(index);
            add("blockdev", node(&name, "qcow2", &extra_image(index), false).to_string());
            add("device", format!("virtio-blk-pci,drive={name},serial={name},bus=pci.0,addr={slot:#x}"));
        }
        for (disk, slot) in self.disks.iter().zip(DISK_SLOTS.skip(extra_disks)) {
            add("blockdev", disk::node(disk).to_string());
            add("device", disk::device(disk, slot).to_string());
        }
        arguments.extend(["-nodefaults", "-no-user-config"].map(str::to_owned));
        arguments
    }
}

/// Describes an image for QEMU.
pub(super) fn node(name: &str, format: &str, path: &str, is_read_only: bool) -> Value {
    json!({
        "node-name": name,
        "driver": format,
        "read-only": is_read_only,
        "discard": "unmap",
        "file": {"driver": "file", "filename": path},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpi::cid::ObjectKind;

    #[test]
    fn persistent_disks_are_behind_the_own_disks_of_the_vm() {
        let [cid, disk] = [ObjectKind::Vm, ObjectKind::Disk].map(ObjectKind::new_cid);
        let properties = json!({"ephemeral_disk": {"size": 1}, "extra_disks": [{"size": 1}, {"size": 1}]});
        let hardware = VmHardware::parse(properties.as_object().unwrap()).unwrap();
        let kernel = KernelStart { has_initrd: true, command_line: "root=/dev/vda1 a,b".to_owned() };
        let user = json!({"mac": "52:54:00:00:00:01", "forwards": [], "restrict": true});
        let networks: NetworksRecord = serde_json::from_value(json!({"user_network": user})).unwrap();
        let machine = Machine {
            cid: &cid,
            accelerator: Accelerator::Tcg,
            hardware: &hardware,
            networks: &networks,
            disks: std::slice::from_ref(&disk),
            kernel: Some(&kernel),
        };
        let arguments = machine.arguments();
        let value =
            |option: &str| &arguments[arguments.iter().position(|argument| argument == option).unwrap() + 1];
        assert_eq!(value("-name"), cid.as_str());
        assert!(value("-netdev").ends_with("restrict=on,id=net0"));
        assert_eq!([value("-kernel"), value("-initrd")], [KERNEL_FILE, INITRD_FILE]);
        assert_eq!(value("-append"), "root=/dev/vda1 a,b");
        let devices: Vec<&String> =
            arguments.iter().filter(|argument| argument.contains("virtio-blk")).collect();
        let extra = ["serial=extra-1,bus=pci.0,addr=0x8", "serial=extra-2,bus=pci.0,addr=0x9"];
        let parts = ["addr=0x4", "addr=0x5", "addr=0x6", extra[0], extra[1], r#""addr":"0xa""#];
        assert_eq!(devices.len(), parts.len());
        for (device, part) in devices.iter().zip(parts) {
            assert!(device.contains(part), "{device}");
        }
        let from_disk = Machine { kernel: None, ..machine }.arguments();
        assert!(!from_disk.contains(&"-kernel".to_owned()));
    }
}
