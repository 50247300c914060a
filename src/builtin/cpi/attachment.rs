//! Rules for attached disks that all clouds in directories share.

use super::cid::Cid;
use super::failure::{CpiFailure, CpiResult, FailureKind};

/// Fails if the disk is attached to another VM. Returns true if it is attached to `vm` already.
pub(crate) fn check_before_attach(disk: &Cid, vm: &Cid, vm_of_disk: Option<&Cid>) -> CpiResult<bool> {
    match vm_of_disk {
        Some(other) if other != vm => Err(CpiFailure::cloud(format!(
            "disk '{disk}' cannot be attached to VM '{vm}': it is attached to VM '{other}', detach it first"
        ))),
        other => Ok(other.is_some()),
    }
}

/// Fails if the disk is attached to another VM. Returns true if it is still attached to `vm`.
pub(crate) fn check_before_detach(disk: &Cid, vm: &Cid, vm_of_disk: Option<&Cid>) -> CpiResult<bool> {
    match vm_of_disk {
        Some(other) if other != vm => Err(CpiFailure::cloud(format!(
            "disk '{disk}' cannot be detached from VM '{vm}': it is attached to VM '{other}'"
        ))),
        other => Ok(other.is_some()),
    }
}

/// Fails if the disk is attached.
pub(crate) fn check_before_delete(disk: &Cid, vm_of_disk: Option<&Cid>) -> CpiResult<()> {
    match vm_of_disk {
        Some(vm) => {
            Err(CpiFailure::cloud(format!("disk '{disk}' is attached to VM '{vm}': detach it first")))
        }
        None => Ok(()),
    }
}

/// Fails with `NotSupported`, so that the caller copies the data to a new disk, if the disk cannot change its
/// size from `size` to `new_size` MiB in place.
pub(crate) fn check_before_resize(
    disk: &Cid,
    vm_of_disk: Option<&Cid>,
    size: u64,
    new_size: u64,
) -> CpiResult<()> {
    let refuse =
        |reason: String| Err(CpiFailure::new(FailureKind::NotSupported, format!("disk '{disk}' {reason}")));
    match vm_of_disk {
        Some(vm) => refuse(format!("is attached to VM '{vm}': detach it to change it")),
        None if new_size < size => refuse(format!("has {size} MiB and cannot shrink to {new_size} MiB")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cid::ObjectKind;
    use super::*;

    #[test]
    fn attached_disk_is_neither_moved_nor_deleted_nor_resized() {
        let (disk, vm, other) =
            (ObjectKind::Disk.new_cid(), ObjectKind::Vm.new_cid(), ObjectKind::Vm.new_cid());
        assert!(check_before_attach(&disk, &vm, Some(&vm)).unwrap());
        assert!(!check_before_attach(&disk, &vm, None).unwrap());
        check_before_attach(&disk, &vm, Some(&other)).unwrap_err();
        assert!(check_before_detach(&disk, &vm, Some(&vm)).unwrap());
        assert!(!check_before_detach(&disk, &vm, None).unwrap());
        check_before_detach(&disk, &vm, Some(&other)).unwrap_err();
        check_before_delete(&disk, Some(&vm)).unwrap_err();
        check_before_delete(&disk, None).unwrap();
        check_before_resize(&disk, None, 4, 4).unwrap();
        for (vm_of_disk, new_size) in [(Some(&vm), 5), (None, 3)] {
            let failure = check_before_resize(&disk, vm_of_disk, 4, new_size).unwrap_err();
            assert_eq!(failure.kind, FailureKind::NotSupported);
        }
    }
}
