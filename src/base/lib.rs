//! What the other crates stand on: errors, encodings, durable files, events and redaction.
//!
//! It uses `yaml` only to turn that crate's errors into [`Error`]. Entry points: [`Error`] with its kinds and hints,
//! [`events::Reporter`], [`redact::Redactor`], and [`files`].

pub mod encoding;
pub mod encryption;
pub mod error;
pub mod events;
pub mod files;
pub mod redact;
pub mod task_graph;
pub mod text;
pub mod timing;

pub use error::{Error, ErrorKind, Result, ResultExt};
