//! The declarations of manifests, for commands that work on a vars store.

use super::{Definition, Definitions, Sources};

/// Declarations of manifests, with the values that their options may refer to.
#[derive(Debug, Default)]
pub struct Declarations {
    /// Values from the command line.
    pub sources: Sources,
    /// The `variables:` of each manifest.
    pub manifests: Vec<Definitions>,
}

impl Declarations {
    /// Returns the declaration of a variable that has a type.
    pub fn get(&self, name: &str) -> Option<(&Definitions, &Definition)> {
        let has_type = |definitions: &'_ Definitions| {
            definitions.get(name).is_some_and(|definition| definition.kind.is_some())
        };
        let definitions = self.manifests.iter().find(|definitions| has_type(definitions))?;
        Some((definitions, definitions.get(name)?))
    }
}
