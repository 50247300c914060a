//! YAML 1.1 as BOSH reads and writes it.
//!
//! "Upstream" in this crate is go-yaml, the library of the bosh CLI. The loader resolves plain scalars as
//! upstream does, and keeps the position of every node. The emitter's output equals upstream's byte for byte.
//!
//! Entry points:
//!
//! - [`load()`] turns text into a [`Node`].
//! - [`emit()`] turns a [`Node`] into text, and [`emit_pieces()`] into pieces of text.
//! - [`syntax_tree::parse`] gives the document before aliases, tags and scalars are resolved.
//! - [`Error`] has the file, line and column of a mistake.
//!
//! The crate uses no other crate of this workspace.
//!
//! ```
//! let node = yaml::load("port: 0o17\nname: web", std::path::Path::new("a.yml"))?;
//! assert_eq!(node.get("port").and_then(yaml::Node::as_i64), Some(15));
//! assert_eq!(yaml::emit(&node), "name: web\nport: 15\n");
//! # Ok::<(), yaml::Error>(())
//! ```

mod emit;
mod error;
mod load;
mod node;
mod order;
mod position;
mod scalar;
pub mod syntax_tree;

pub use emit::{emit, emit_pieces};
pub use error::Error;
pub use load::load;
pub use node::{Data, Mapping, Node, Text};
pub use position::{LineColumn, Position};
pub use scalar::after_round_trip;
pub use syntax_tree::MAX_DEPTH;

/// Compiles and runs the examples in the README.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
struct Readme;
