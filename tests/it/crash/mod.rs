//! Nothing is lost, however a run ends: a real life (create, redeploy, disk migration, recreate, delete) is disturbed
//! at a point, the same command is run again, and the cloud is compared with what the state says, under contract v2
//! and both forms of v1, with a registry.
//!
//! The built-in `local` CPI is the cloud; the scripted CPI stands before it and kills its caller, or itself, exactly
//! before, during or after a call. A proxy stands before the agent and does so at a message. Points between are
//! system calls of the program's main thread (each durable write among them), where `strace` kills it or makes the
//! call fail, and random instants.
//!
//! This is the machinery: `life` is what is lived and checked, `disturbance` what happens to it, `sweep` goes through
//! many lives. `kills`, `moves`, `faults`, `full_disk`, `signals`, `machines` and `shared` say what is disturbed. The default run takes
//! a sample, `MONOPILE_SWEEP=20` twenty lives of each kind; with `MONOPILE_SWEEP=full` every point is taken.

mod disturbance;
mod faults;
mod full_disk;
mod gate;
mod kills;
mod life;
mod machine;
mod machines;
mod moves;
mod shared;
mod signals;
mod sweep;

use disturbance::{Act, ConversationPoint, Disturbance};
use gate::Side;
use life::Contract;
use sweep::{Reference, Sweep, full, reference};
