//! Any bytes that a CPI writes are an answer, an error of the CPI's, or no answer; and any result is what a
//! method may answer or is refused. What is said about it fits on a screen.

#![no_main]

use libfuzzer_sys::fuzz_target;
use monopile::cpi::{self, CreatedVm, Info};

fuzz_target!(|bytes: &[u8]| {
    let result = match cpi::parse_answer(bytes, "create_vm", "request") {
        Ok(result) => result,
        Err(error) => {
            let chain = monopile::Error::from(error).chain();
            assert!(chain.iter().map(String::len).sum::<usize>() < 64 << 10);
            return;
        }
    };
    if let Ok(info) = Info::from_result(&result) {
        assert!(info.api_version > 0);
    }
    match CreatedVm::from_result(&result) {
        Ok(vm) => assert!(!vm.cid.trim().is_empty()),
        Err(problem) => assert!(problem.len() < 4096),
    }
    match cpi::cid("create_disk", &result) {
        Ok(cid) => assert!(!cid.trim().is_empty()),
        Err(problem) => assert!(problem.len() < 4096),
    }
});
