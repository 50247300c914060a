//! What keeps an environment from being lost: the lock, the log, the look before "nothing changed", deletions that
//! do not come about, an agent that is another VM's or that stalls, the commands for what is on record.

mod agent;
mod deletions;
mod impostor;
mod lock;
mod log;
mod records;
mod stalls;
mod state_files;
mod suspects;
