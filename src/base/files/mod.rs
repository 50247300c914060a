//! Durable files, JSON files, file locks that are released on drop, and removal of directory trees.

pub mod durable;
mod json;
mod locked;
mod remove_tree;

pub use json::{JsonLayout, read_json, write_json};
pub use locked::Locked;
pub use remove_tree::remove_tree;
