//! The program is told to stop while a call is at work: once, and again by somebody in a hurry.

use rustix::process::Signal;

use super::{Disturbance, Plot, full, lives, reference, sweep};

#[test]
fn told_to_stop_nothing_is_lost() {
    let reference = reference(Plot::Resize, false);
    let signals = [Signal::INT, Signal::TERM, Signal::HUP];
    let points = [0, 1, 2].map(|stage| {
        let mut points = Vec::new();
        for call in 1..=reference.calls[stage] {
            for signal in signals {
                points.extend([1, 2].map(|times| Disturbance::Signal { call, signal, times }));
            }
        }
        if !full() {
            // Not the first calls, which only ask, and each signal once.
            let (length, own) = (points.len(), [7, 20, 27][stage]);
            points = [own, own + 6 + 3].map(|at| points[at % length].clone()).to_vec();
        }
        points
    });
    sweep("signals", &reference, lives(points));
}
