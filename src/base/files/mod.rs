//! Reading, writing, locking and removing files and directories.

pub mod directory;
mod directory_id;
pub mod durable;
pub mod input;
mod inside;
mod json;
mod lines;
mod remove_tree;
mod same_file;
pub mod scratch_claim;
mod unlock_on_drop;

pub use directory_id::{ID_FILE, read_directory_id};
pub use inside::open_inside;
pub use json::{JsonLayout, read_json, write_json};
pub use lines::start_of_last_lines;
pub use remove_tree::remove_tree;
pub use same_file::{is_in_place, is_same_file};
pub use unlock_on_drop::UnlockOnDrop;
