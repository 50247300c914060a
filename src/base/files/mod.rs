//! Durable files, files that others chose, JSON files, file locks that are released on drop, ids of
//! directories, private directories, and removal of directory trees.

pub mod durable;
pub mod input;
mod json;
mod locked;
mod place;
mod remove_tree;
pub mod scratch;

pub use json::{JsonLayout, read_json, write_json};
pub use locked::Locked;
pub use place::{PLACE_ID, place_id};
pub use remove_tree::remove_tree;
