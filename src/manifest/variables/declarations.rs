//! The declarations of manifests, for commands that work on a vars store.

use super::{Definition, Definitions, GivenValues};

/// Declarations of manifests, with the values that their options may refer to.
#[derive(Debug, Default)]
pub struct Declarations {
    /// Values from the command line.
    pub given_values: GivenValues,
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

    /// Returns the variables that are declared as certificates of this CA.
    pub fn names_signed_by<'a>(&'a self, authority: &'a str) -> impl Iterator<Item = &'a str> {
        let definitions = self.manifests.iter().flat_map(Definitions::iter);
        let signed_definitions = definitions.filter(move |definition| {
            let options = definition.options.as_ref();
            options.and_then(|options| options.get("ca")?.as_str()) == Some(authority)
        });
        signed_definitions.map(|definition| definition.name.as_str())
    }
}
