//! The values that CPI, agent, state and plan have in common.

mod builtin_cpi;

pub use builtin_cpi::BuiltinCpi;
