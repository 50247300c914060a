//! YAML as BOSH reads it: a loader that keeps positions and resolves plain scalars the YAML 1.1 way,
//! and an emitter whose output equals upstream's.

mod emit;
mod load;
mod node;
mod order;
mod scalar;
pub(crate) mod tree;

pub use emit::emit;
pub use load::{LoadError, load};
pub use node::{Data, Mapping, Node, Position};
pub use tree::MAX_DEPTH;

pub(in crate::manifest) use scalar::resettle;
