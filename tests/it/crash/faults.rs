//! A full disk, an unwritable file or an interrupted system call, at every such call of a life.

use super::{Disturbance, LifeSetting, Sweep, reference};

/// System call, error, and whether the error lasts.
const FAULTS: [(&str, &str, bool); 17] = [
    ("openat", "EACCES", false),
    ("openat", "EROFS", false),
    ("openat", "ENOSPC", false),
    ("write", "ENOSPC", false),
    ("write", "ENOSPC", true),
    ("write", "EIO", false),
    ("write", "EINTR", false),
    ("fsync", "EIO", false),
    ("fsync", "ENOSPC", true),
    ("fsync", "EINTR", false),
    ("rename", "ENOSPC", false),
    ("rename", "EACCES", true),
    ("linkat", "EPERM", true),
    ("linkat", "EMLINK", false),
    ("unlink", "EACCES", false),
    ("mkdir", "ENOSPC", false),
    ("mkdir", "EROFS", true),
];

#[test]
fn failing_system_calls_lose_no_resource() {
    let mut sweep = Sweep::new("failing system calls");
    let reference = reference(LifeSetting::V2);
    sweep.add(LifeSetting::V2, 4, |stage| {
        let mut points = Vec::new();
        for (name, errno, is_lasting) in FAULTS {
            for call in reference.syscalls[stage].iter().filter(|call| call.name == name) {
                // A call that does not concern the state fails only once for each kind of file.
                if call.is_durable || (call.is_first && (is_lasting || name == "mkdir")) {
                    points.push(Disturbance::Fault { name, number: call.number, errno, is_lasting });
                }
            }
        }
        points
    });
    sweep.run();
}
