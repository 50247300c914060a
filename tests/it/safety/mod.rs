//! Protection of environments: the lock, the log, the check before "nothing changed", failed deletions, an
//! agent that stalls or belongs to another VM, signals, the commands for records, and input that never ends
//! or that would control the terminal.

mod agent;
mod contradiction;
mod deletions;
mod hostile_text;
mod impostor;
mod inputs;
mod interrupts;
mod lock;
mod log;
mod private;
mod records;
mod stalls;
mod state_files;
mod suspects;
mod tasks;
mod untracked;
