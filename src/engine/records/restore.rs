//! `state backup`: restores a kept version of the state, or keeps the current state as a version.

use super::Agree;
use crate::environment::Environment;
use crate::environment::lock::{self, no_state};
use crate::state::{Holder, State, Store};
use base::Result;

/// Replaces the state by a kept version and returns a summary in one sentence.
pub fn restore(environment: &Environment, version: &str, agree: Agree<'_>) -> Result<String> {
    let path = &environment.paths.state;
    let holder = Holder::this_process("state backup");
    let mut waiting = lock::waiting(environment);
    Store::restore(path, &holder, &mut waiting, version, &mut |present, wanted| {
        agree(&match present {
            None => format!("Put version '{version}' in the place of '{}'?", path),
            Some(present) => match lost(present, wanted).as_slice() {
                [] => format!("Put version '{version}' in the place of '{}'?", path),
                lost => format!(
                    "Put version '{version}' in the place of '{}'? It does not know {}, which nothing will \
                        know of then",
                    path,
                    lost.join(", ")
                ),
            },
        })
    })?;
    Ok(format!("The state is version '{version}' now; what it was before is kept as a version, too"))
}

/// Keeps the current state as a version and returns a summary in one sentence.
pub fn keep_version(environment: &Environment) -> Result<String> {
    let store = lock::open(environment, "state backup")?;
    if !store.exists() {
        return Err(no_state(store.storage()));
    }
    Ok(format!("The state is kept as version '{}'", store.keep_version()?))
}

/// Returns the resources that are on record now but not in the other version.
fn lost(present: &State, wanted: &State) -> Vec<String> {
    let known: Vec<_> = wanted.resources().collect();
    let lost = present.resources().filter(|resource| !known.contains(resource));
    lost.map(|resource| resource.to_string()).collect()
}
