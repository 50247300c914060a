//! The values that CPI, agent, state and plan have in common: the contract in force, the terms of a call, and the
//! endpoint of a registry.

mod builtin_cpi;
mod contract;
mod registry_endpoint;
mod terms;

pub use builtin_cpi::BuiltinCpi;
pub use contract::{Contract, HIGHEST_API_VERSION};
pub use registry_endpoint::RegistryEndpoint;
pub use terms::Terms;
