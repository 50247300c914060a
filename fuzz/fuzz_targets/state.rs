//! Reads any bytes as a state, which is accepted or rejected. An accepted state survives writing and reading,
//! and every resource in it has a CID to delete it by.

#![no_main]

use engine::state::State;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(state) = State::parse(bytes) else { return };
    assert!(state.resources().all(|resource| !resource.cid().trim().is_empty()));
    assert_eq!(state.current_disk().is_some(), !state.current_disk_id.is_empty());
    assert_eq!(state.current_stemcell().is_some(), !state.current_stemcell_id.is_empty());
    let _ = (state.vm(), state.current_releases().count(), state.is_empty_of_resources());
    let state_bytes = state.to_bytes().unwrap();
    assert_eq!(State::parse(&state_bytes).unwrap(), state);
});
