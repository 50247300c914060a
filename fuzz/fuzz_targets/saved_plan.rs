//! Reads any text as a saved plan, which is accepted or rejected.

#![no_main]

use engine::deploy::PlanReport;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(plan) = PlanReport::parse(text, "plan.json") else { return };
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(PlanReport::parse(&json, "plan.json").unwrap(), plan);
});
