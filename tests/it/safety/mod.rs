//! Protection of environments: lock, log, the check before "nothing changed", failed deletions, an agent that
//! stalls or belongs to another VM, and the commands for records.

mod agent;
mod deletions;
mod impostor;
mod lock;
mod log;
mod records;
mod stalls;
mod state_files;
mod suspects;
