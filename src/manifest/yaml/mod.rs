//! YAML as BOSH reads it: a loader that keeps positions and resolves plain scalars the YAML 1.1 way,
//! and an emitter whose output equals upstream's.

mod node;

pub use node::{Data, Mapping, Node, Position};
