//! Variables: the values behind `((name))` in a manifest.
//!
//! [`syntax`] finds references in text. [`GivenValues`] holds values from the command line, files and the
//! environment, and [`Definitions`] is the manifest's `variables:` block. [`Resolver`] combines them with the
//! vars store: it looks up names, generates missing values and replaces references in a tree. It collects
//! what is missing, so that one error reports everything.
//!
//! The format is described in docs-bosh, "Manifest variables" (`cli-int.md`, `variable-types.md`).

mod declarations;
mod definitions;
mod descend;
mod given_values;
mod missing;
mod origin;
mod previous_mbus;
mod resolver;
pub mod syntax;
mod values;

pub use declarations::Declarations;
pub use definitions::{Definition, Definitions, UpdateMode};
pub(crate) use given_values::prefix_warnings;
pub use given_values::{GivenValues, PLACEHOLDER};
pub use missing::MissingVariables;
pub use origin::{VariableOrigin, VariableSource};
pub(crate) use previous_mbus::{MbusOutline, PreviousMbus};
pub use resolver::Resolver;
pub use values::VariableValue;
pub(crate) use values::values;
