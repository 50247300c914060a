//! Ops files (go-patch): operations that change a document before interpolation.
//!
//! ```yaml
//! - type: replace
//!   path: /instance_groups/name=bosh/persistent_disk_pool?
//!   value: disks
//! - type: remove
//!   path: /resource_pools/0
//! - type: test
//!   path: /name
//!   value: bosh
//! ```
//!
//! [`Ops::load`] parses a file, [`Ops::apply`] changes a document, and [`find`] returns the value for
//! `--path`.

mod apply;
mod definition;
mod item_lookup;
mod path;
mod suggest;
mod walk;

pub use definition::{Op, Ops};
pub(crate) use item_lookup::ItemLookup;
pub use path::{Modifier, ParseError, Path, Token};
pub use walk::{PathError, PathErrorKind, find};
