//! The disk is full, a file cannot be written, a system call is interrupted: at every such call of a life.

use std::process::Command;

use super::{Disturbance, Plot, full, lives, reference, sweep};

/// What can go wrong with a call, and whether it stays so.
const FAULTS: [(&str, &str, bool); 14] = [
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
fn failing_system_calls_lose_nothing() {
    let traced = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    assert!(traced.is_ok_and(|status| status.success()), "this test needs strace, and the right to trace");
    let reference = reference(Plot::Resize, true);
    let points = [0, 1, 2].map(|stage| {
        let mut points = Vec::new();
        for (name, errno, lasting) in FAULTS {
            for number in 1..=reference.syscalls[stage][name] {
                points.push(Disturbance::Fault { name, number, errno, lasting });
            }
        }
        if !full() {
            // Spread over all faults, and not the same ones in each stage.
            let (length, taken) = (points.len(), 8);
            points =
                (0..taken).map(|at| points[(at * length + stage * 31) / taken % length].clone()).collect();
        }
        points
    });
    sweep("failing system calls", &reference, lives(points));
}
