//! Durable files, file locks that are released on drop, and removal of directory trees.

pub mod durable;
mod locked;
mod remove_tree;

pub use locked::Locked;
pub use remove_tree::remove_tree;
