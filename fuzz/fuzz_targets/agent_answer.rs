//! Reads any bytes as an agent's answer: a value, an exception, or an invalid answer.

#![no_main]

use engine::agent_client::{self, Blob};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match agent_client::parse_answer(bytes, "fetch_logs") {
        Ok(value) => {
            let _ = agent_client::running_task(&value);
            let _ = serde_json::from_value::<Blob>(value);
        }
        Err(error) => {
            let chain = base::Error::from(error).chain();
            assert!(chain.iter().map(String::len).sum::<usize>() < 256 << 10);
        }
    }
});
