//! Signals stop the program while a call is running: once, and again by an impatient operator.

use rustix::process::Signal;

use super::{Disturbance, LifeSetting, Sweep, reference, settings_of_run};

#[test]
fn signals_at_a_cpi_call_lose_no_resource() {
    let mut sweep = Sweep::new("signals");
    for (setting, sample) in
        settings_of_run([(LifeSetting::V2, 1), (LifeSetting::OldCpi, 0), (LifeSetting::OldStemcell, 0)])
    {
        let reference = reference(setting);
        sweep.add(setting, sample, |stage| {
            let mut points = Vec::new();
            for call in 1..=reference.calls[stage] {
                for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
                    points.extend([1, 2].map(|times| Disturbance::Signal { call, signal, times }));
                }
            }
            points
        });
    }
    sweep.run();
}
