//! Reads any bytes as a CPI's answer to a method: a result, an error of the CPI, or no answer. Messages about
//! it fit on a screen.

#![no_main]

use engine::cpi::{Answer, Method, read_answer};
use engine::protocol::{Contract, RequestId, Terms};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let request_id = RequestId::fresh();
    for (api_version, contract) in [(1, Contract::V1), (2, Contract::V2)] {
        for method in Method::all() {
            let terms = Terms { api_version, contract, is_builtin: false };
            match read_answer(bytes, method, &request_id, terms) {
                Ok(Answer::Stemcell(cid)) => assert!(!cid.as_str().trim().is_empty()),
                Ok(Answer::Vm(vm)) => assert!(!vm.cid.as_str().trim().is_empty()),
                Ok(Answer::Disk(cid)) => assert!(!cid.as_str().trim().is_empty()),
                Ok(Answer::Snapshot(cid)) => assert!(!cid.as_str().trim().is_empty()),
                Ok(Answer::Info(info)) => assert!(info.api_version > 0),
                Ok(_) => {}
                Err(error) => {
                    let chain = base::Error::from(error).chain();
                    assert!(chain.iter().map(String::len).sum::<usize>() < 64 << 10);
                }
            }
        }
    }
});
