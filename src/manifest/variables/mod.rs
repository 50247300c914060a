//! Variables: what `((name))` in a manifest stands for.
//!
//! [`syntax`] finds references in text, [`Sources`] holds the values given on the command line, in files
//! and in the environment, [`Definitions`] is the manifest's `variables:` block, and [`Resolver`] brings
//! them together with the vars store: it looks names up, generates what is missing, and replaces
//! references in a tree. What it could not find it remembers, so that everything missing is reported at
//! once.
//!
//! The format is described in docs-bosh, "Manifest variables" (`cli-int.md`, `variable-types.md`).

mod declared;
mod definitions;
mod descend;
mod missing;
mod resolver;
mod sources;
pub mod syntax;

pub use declared::Declared;
pub use definitions::{Definition, Definitions, UpdateMode};
pub use missing::Missing;
pub use resolver::Resolver;
pub use sources::Sources;
