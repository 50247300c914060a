//! A state that may be of another environment than the manifest.

use crate::run_context::RunContext;
use crate::state::State;
use base::Error;
use manifest::Inputs;

/// The environment on record, if it has another name, or other addresses, than that of the manifest.
pub struct OtherEnvironment {
    /// Its name, if it is on record as text.
    pub name: Option<String>,
    /// The address of its VM, if known.
    address: Option<String>,
    manifest_name: String,
    /// The address in the manifest, if the names are equal.
    manifest_address: Option<String>,
}

impl OtherEnvironment {
    /// Returns the environment on record if the last deploy had another name, or if no static address of the
    /// manifest is one of its addresses. A manifest may change its address, so this counts only for a run
    /// that has other credentials as well.
    pub(super) fn find_by_address(run: &RunContext, state: &State, inputs: &Inputs) -> Option<Self> {
        let manifest_name = manifest::read_environment_name(inputs)?;
        if let Some(other) = Self::find(state, &manifest_name) {
            return Some(other);
        }
        let deployed_addresses = state.static_addresses();
        let in_manifest = manifest::read_static_addresses(inputs, &run.redactor);
        let first_address = in_manifest.first()?;
        (!deployed_addresses.is_empty()
            && !in_manifest.iter().any(|address| deployed_addresses.contains(address)))
        .then(|| OtherEnvironment {
            name: Some(manifest_name.clone()),
            address: deployed_addresses.first().cloned(),
            manifest_name,
            manifest_address: Some(first_address.clone()),
        })
    }

    /// Returns the environment on record if the last deploy had another name.
    pub(crate) fn find(state: &State, manifest_name: &str) -> Option<Self> {
        let leaves = state.monopile.manifest_leaves.as_ref()?;
        let differs = leaves.had_value("/name", &serde_json::json!(manifest_name).to_string()) == Some(false);
        differs.then(|| OtherEnvironment {
            name: leaves.description("/name").map(str::to_owned),
            address: state.vm_address(),
            manifest_name: manifest_name.to_owned(),
            manifest_address: None,
        })
    }

    /// Returns the error for a run that failed because of it.
    pub(crate) fn explain(&self, cause: &Error) -> Error {
        Error::invalid(self.to_string())
            .with_source(cause.to_string())
            .with_note("nothing was changed")
            .with_hint("check --state, --vars-store and the manifest: they may be of two environments")
    }
}

impl std::fmt::Display for OtherEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let OtherEnvironment { name, address, manifest_name, manifest_address } = self;
        let name = name.as_ref().map_or_else(|| "another environment".to_owned(), |name| format!("'{name}'"));
        let address = address.as_ref().map(|address| format!(" at {address}")).unwrap_or_default();
        write!(f, "this state records {name}{address}, but the manifest is for '{manifest_name}'")?;
        match manifest_address {
            Some(address) => write!(f, " at {address}"),
            None => Ok(()),
        }
    }
}
