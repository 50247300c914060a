//! `state backup`: puts a kept version in the place of the state, or keeps the state as one.

use super::Agree;
use crate::environment::Environment;
use crate::environment::lock::{self, no_state};
use crate::state::{Holder, State, Store};
use base::Result;

/// Puts a kept version in the place of the state; returns one sentence that says what came of it.
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
                    "Put version '{version}' in the place of '{}'? It does not know {}, which nothing will know of then",
                    path,
                    lost.join(", ")
                ),
            },
        })
    })?;
    Ok(format!("The state is version '{version}' now; what it was before is kept as a version, too"))
}

/// Keeps the state as it is; returns one sentence that says what came of it.
pub fn keep_version(environment: &Environment) -> Result<String> {
    let store = lock::open(environment, "state backup")?;
    if !store.exists() {
        return Err(no_state(store.storage()));
    }
    Ok(format!("The state is kept as version '{}'", store.keep_version()?))
}

/// What is on record now and not in the other version.
fn lost(present: &State, wanted: &State) -> Vec<String> {
    let known: Vec<_> = wanted.resources().collect();
    let lost = present.resources().filter(|resource| !known.contains(resource));
    lost.map(|resource| resource.to_string()).collect()
}
