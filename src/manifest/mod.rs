//! From the files a person wrote to what is wanted: YAML, ops files, variables, and the typed,
//! validated manifest. No I/O except reading the files it is given.

pub mod deployment;
mod inputs;
pub mod yaml;

pub use deployment::Deployment;
pub use inputs::Inputs;
