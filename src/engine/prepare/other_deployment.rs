//! A state that may be of another environment than the manifest.

use crate::state::State;

/// A deployment on record that has another name than the manifest.
pub struct OtherDeployment {
    /// Its name, if it is on record as text.
    pub name: Option<String>,
    /// The address of its VM, if known.
    address: Option<String>,
    manifest_name: String,
}

impl OtherDeployment {
    /// Returns the deployment on record if the last deploy had another name. The address is not compared,
    /// because a manifest may change it.
    pub(crate) fn find(state: &State, manifest_name: &str) -> Option<Self> {
        let leaves = state.monopile.manifest.as_ref()?;
        let differs = leaves.had_value("/name", &serde_json::json!(manifest_name).to_string()) == Some(false);
        differs.then(|| OtherDeployment {
            name: leaves.shown("/name").map(str::to_owned),
            address: state.vm_address(),
            manifest_name: manifest_name.to_owned(),
        })
    }
}

impl std::fmt::Display for OtherDeployment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let OtherDeployment { name, address, manifest_name } = self;
        let name = name.as_ref().map_or_else(|| "another deployment".to_owned(), |name| format!("'{name}'"));
        let address = address.as_ref().map(|address| format!(" at {address}")).unwrap_or_default();
        write!(f, "this state records {name}{address}, but the manifest is for '{manifest_name}'")
    }
}
