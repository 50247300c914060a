//! From the files a person wrote to what is wanted: YAML, ops files, variables, and the typed,
//! validated manifest. No I/O except reading the files it is given.

mod inputs;
pub mod ops;
pub mod yaml;

pub use inputs::Inputs;
