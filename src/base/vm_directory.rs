//! The directory of a VM on this machine, as the built-in CPIs keep it.

use std::fs::File;
use std::path::Path;

/// The log of the processes of a `local` VM. Each of them holds a shared lock on it.
pub const AGENT_LOG_FILE: &str = "agent.log";
/// The log of the processes of a `qemu` VM. Each of them holds a shared lock on it.
pub const QEMU_LOG_FILE: &str = "qemu.log";

/// Returns true if all processes of the VM in this directory have ended. Returns false if one runs, or if
/// the directory is not that of a VM.
pub fn is_off(directory: &Path) -> bool {
    let mut logs =
        [AGENT_LOG_FILE, QEMU_LOG_FILE].into_iter().filter_map(|log| File::open(directory.join(log)).ok());
    logs.next().is_some_and(|log| log.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vm_is_off_when_no_process_holds_its_log() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!is_off(directory.path()), "a directory without a VM counts as off");
        for name in [QEMU_LOG_FILE, AGENT_LOG_FILE] {
            let log = File::create(directory.path().join(name)).unwrap();
            log.lock_shared().unwrap();
            assert!(!is_off(directory.path()));
            drop(log);
            assert!(is_off(directory.path()));
        }
    }
}
