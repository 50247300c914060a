//! The jobs of an environment: rendered templates, compiled packages, and their lifecycle on the VM.
//!
//! Entry points: [`render`], which renders and packs templates; [`Packages`], which provides compiled
//! packages to the VM; [`Instance`], which deploys jobs to a VM; [`Jobs`], which starts and stops them;
//! [`AgentState`], the state that the agent reports.

mod agent_state;
mod compiled_packages;
mod failed_scripts;
mod instance;
mod lifecycle;
mod logs;
mod packages;
pub(crate) mod render;
mod unknown_properties;

pub(crate) use agent_state::AgentState;
pub(crate) use instance::Instance;
pub(crate) use lifecycle::{JOBS_NOT_STOPPED, Jobs};
pub use packages::PackageCounts;
pub(crate) use packages::{Packages, import_package};
pub(crate) use unknown_properties::unknown_properties;
