//! The kernel of a stemcell that is a root file system without a boot loader: QEMU loads it. It is a file of
//! the operator. The stemcell and its VMs have a copy, so that later changes of the file do not matter.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::config::QemuConfig;
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use base::files::durable::create_private_file;
use base::files::input;

/// The kernel, in the directories of a stemcell and of a VM.
pub(super) const KERNEL_FILE: &str = "kernel";
/// The initial RAM disk, in the same directories.
pub(super) const INITRD_FILE: &str = "initrd";
/// The offset of the signature in the header of a Linux kernel for x86, and the signature (Linux'
/// `Documentation/arch/x86/boot.rst`).
const HEADER_SIGNATURE: (u64, [u8; 4]) = (0x202, *b"HdrS");
const MAX_KERNEL_BYTES: u64 = 256 << 20;
const MAX_INITRD_BYTES: u64 = 1 << 30;
/// The arguments of every kernel: the root file system, the console of the VM, and the names of network cards
/// that the agents expect.
const KERNEL_ARGUMENTS: &str = "root=/dev/vda1 rw console=ttyS0 net.ifnames=0";

/// The checked files of the configuration.
pub(super) struct KernelFiles {
    kernel: File,
    initrd: Option<File>,
}

/// The start of a VM from a kernel instead of its disk.
pub(super) struct KernelStart {
    pub has_initrd: bool,
    /// The arguments of the kernel.
    pub command_line: String,
}

impl KernelFiles {
    /// Opens the files of the configuration. Fails if it names no kernel, or a file that is not a
    /// kernel.
    pub(super) fn open(config: &QemuConfig) -> CpiResult<KernelFiles> {
        let path = config.kernel.as_deref().ok_or_else(|| {
            CpiFailure::new(
                FailureKind::NotSupported,
                "the stemcell's image is a root file system without a kernel (a stemcell for warden): set \
                 the CPI's property `kernel` to the path of a Linux kernel, and `initrd` if that kernel \
                 needs an initial RAM disk (`cloud_provider.properties`), or use a stemcell for OpenStack \
                 (bosh-openstack-kvm-…)",
            )
        })?;
        let kernel = open("kernel", path, MAX_KERNEL_BYTES)?;
        let (offset, signature) = HEADER_SIGNATURE;
        let mut bytes = [0; 4];
        // A file that is too short has no signature.
        if kernel.read_exact_at(&mut bytes, offset).is_err() || bytes != signature {
            return Err(CpiFailure::cloud(format!(
                "the CPI's kernel '{}' is not a Linux kernel for x86: it lacks the signature HdrS of a \
                 bzImage. Set `kernel` to a file as distributions install it (/boot/vmlinuz-…)",
                path.display()
            )));
        }
        let initrd =
            config.initrd.as_deref().map(|path| open("initrd", path, MAX_INITRD_BYTES)).transpose()?;
        Ok(KernelFiles { kernel, initrd })
    }

    /// Copies the files into the directory of a stemcell.
    pub(super) fn copy_to(&self, directory: &Path) -> CpiResult<()> {
        copy(&self.kernel, &directory.join(KERNEL_FILE), MAX_KERNEL_BYTES)?;
        match &self.initrd {
            Some(initrd) => copy(initrd, &directory.join(INITRD_FILE), MAX_INITRD_BYTES),
            None => Ok(()),
        }
    }
}

/// Opens a file of the configuration, which must be a regular file of at most `limit` bytes.
fn open(key: &str, path: &Path, limit: u64) -> CpiResult<File> {
    let read_error =
        |error| CpiFailure::io(format_args!("reading the CPI's {key} '{}'", path.display()), error);
    let file = input::open(path).map_err(read_error)?;
    let metadata = file.metadata().map_err(read_error)?;
    if !metadata.is_file() || metadata.len() > limit {
        return Err(CpiFailure::cloud(format!(
            "the CPI's {key} '{}' is not a regular file of at most {} MiB: set `{key}` to the path of \
             another file",
            path.display(),
            limit >> 20
        )));
    }
    Ok(file)
}

fn copy(source: &File, target_path: &Path, limit: u64) -> CpiResult<()> {
    let copy = || -> io::Result<()> {
        let mut target = create_private_file(target_path)?;
        // The file may have grown since it was checked.
        io::copy(&mut source.take(limit), &mut target)?;
        target.sync_all()
    };
    copy().map_err(|error| CpiFailure::io(format_args!("writing '{}'", target_path.display()), error))
}

/// Links the files of a stemcell, if it has them, into the directory of a VM.
pub(super) fn link(stemcell_directory: &Path, vm_directory: &Path) -> CpiResult<()> {
    for name in [KERNEL_FILE, INITRD_FILE] {
        match fs::hard_link(stemcell_directory.join(name), vm_directory.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(CpiFailure::io(format_args!("linking the {name} of the stemcell"), error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the start of the VM in this directory, or `None` if it boots from its disk.
pub(super) fn start(vm_directory: &Path, config: &QemuConfig) -> Option<KernelStart> {
    vm_directory.join(KERNEL_FILE).exists().then(|| KernelStart {
        has_initrd: vm_directory.join(INITRD_FILE).exists(),
        command_line: format!("{KERNEL_ARGUMENTS} {}", config.kernel_arguments()).trim_end().to_owned(),
    })
}
