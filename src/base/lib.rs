//! The foundation of the other crates: errors, events, redaction, durable files, encryption, encodings.
//!
//! Uses only `yaml`, whose errors it converts.
//!
//! Entry points: [`Error`], whose [`ErrorKind`] decides the exit code; [`events::Reporter`], the only way to
//! report progress; [`redact::Redactor`], the secrets of a run, and [`secret::Secret`], one of them;
//! [`files::durable`], files that survive a crash.

pub mod console;
pub mod encoding;
pub mod encryption;
pub mod error;
pub mod events;
pub mod exit_code;
pub mod files;
#[cfg(target_os = "linux")]
pub mod namespaces;
pub mod redact;
pub mod secret;
pub mod signals;
pub mod stemcell_formats;
pub mod subordinate_ids;
pub mod task_graph;
pub mod text;
pub mod timing;
pub mod vm_directory;

pub use error::{Error, ErrorKind, LogExcerpt, Result, ResultExt};

/// A JSON object.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
