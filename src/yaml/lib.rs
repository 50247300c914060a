//! YAML 1.1 as BOSH reads and writes it: a loader that keeps positions and resolves plain scalars as upstream
//! does, and an emitter whose output equals upstream's byte for byte.
//!
//! Uses no other crate of this workspace.
//!
//! Entry points: [`load()`], text to [`Node`]; [`emit()`], the way back; [`Error`], with file, line and
//! column; [`tree::parse`], the document before aliases, tags and scalars are resolved.

mod emit;
mod error;
mod load;
mod node;
mod order;
mod position;
mod scalar;
pub mod tree;

pub use emit::emit;
pub use error::Error;
pub use load::load;
pub use node::{Data, Mapping, Node};
pub use position::{Place, Position};
pub use scalar::resettle;
pub use tree::MAX_DEPTH;
