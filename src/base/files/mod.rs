//! Files that survive a crash, locks that end with their holder, and the removal of whole trees.

pub mod durable;
mod locked;
mod remove_tree;

pub use locked::Locked;
pub use remove_tree::remove_tree;
