//! `state backup`: restores a kept version of the state, or keeps the current state as a version.

use super::{AskConsent, ConsentRequest};
use crate::run_context::RunContext;
use crate::run_context::state_lock::{self, no_state_error};
use crate::state::{Holder, State, Store};
use base::{Result, text};

/// Replaces the state with a kept version and returns a summary in one sentence.
pub fn restore(run: &RunContext, version: &str, ask_consent: AskConsent<'_>) -> Result<String> {
    let path = &run.paths.storage;
    let holder = Holder::this_process("state backup");
    let mut on_conflict = state_lock::lock_conflict_handler(run);
    let mut replaces_state = false;
    Store::restore(path, &holder, &mut on_conflict, version, &mut |current_state, restored_state| {
        replaces_state = true;
        let missing_names = current_state
            .map(|current_state| missing_resources(current_state, restored_state))
            .unwrap_or_default();
        let consequence = match missing_names.as_slice() {
            [] => String::new(),
            missing_names => format!(
                "version '{version}' does not record {}, which no run of monopile will delete then",
                text::and_list(missing_names)
            ),
        };
        ask_consent(&ConsentRequest {
            change: format!("replacing '{path}' with version '{version}'"),
            consequence,
            question: format!("Replace '{path}' with version '{version}'?"),
        })
    })?;
    let previous_state = match replaces_state {
        true => "the previous state is kept as a version too",
        false => "there was no state",
    };
    Ok(format!(
        "Restored version '{version}'; {previous_state}. To compare it with the IaaS: `monopile cloud-check \
         MANIFEST --report`"
    ))
}

/// Keeps the current state as a version and returns a summary in one sentence.
pub fn keep_version(run: &RunContext) -> Result<String> {
    let store = state_lock::open(run, "state backup")?;
    if !store.has_state() {
        return Err(no_state_error(store.storage()));
    }
    Ok(format!("Kept the state as version '{}'", store.keep_version()?))
}

/// Returns the resources that are on record now but are not in the other version.
fn missing_resources(current_state: &State, restored_state: &State) -> Vec<String> {
    let restored_resources: Vec<_> = restored_state.resources().collect();
    let lost_resources = current_state.resources().filter(|resource| !restored_resources.contains(resource));
    lost_resources.map(|resource| resource.to_string()).collect()
}
