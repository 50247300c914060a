//! From the files a person wrote to what is wanted: YAML, ops files, variables, and the typed,
//! validated manifest. No I/O except reading the files it is given, and writing the vars store.
//!
//! [`load`] is what commands that deploy use; [`load_with`] is what `interpolate` uses.

pub mod deployment;
mod files;
mod inputs;
mod load;
pub mod ops;
mod secrets;
pub mod variables;
pub mod vars_store;
mod words;
pub mod yaml;

pub use deployment::Deployment;
pub use inputs::Inputs;
pub use load::{Loaded, Options, interpolate, load, load_with};
pub use secrets::texts as secret_texts;
