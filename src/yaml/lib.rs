//! YAML as BOSH reads it: a loader that keeps positions and resolves plain scalars the YAML 1.1 way,
//! and an emitter whose output equals upstream's.
//!
//! It uses no other crate of this workspace. Entry points: [`load`] (text to [`Node`]), [`emit()`] (back), and [`tree`],
//! the document before aliases, tags and scalars are resolved.

mod emit;
mod error;
mod key;
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
