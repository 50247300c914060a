//! Nothing is lost, however a run ends. A real life (create, redeploy, disk migration, recreate with a larger
//! disk, delete) is disturbed at a point, the same command runs again, and the cloud is compared with the
//! state. This is done under contract v2, both forms of v1 with a registry, and with a CPI in a userland.
//!
//! The cloud is the built-in `local` CPI. The scripted CPI in front of it kills its caller, or itself,
//! exactly before, during or after a call. A proxy in front of the agent does so at a message. Between these
//! points, `strace` kills the program at system calls of its main thread (including each durable write) or
//! makes them fail, and random moments are tried.
//!
//! `life` has the stages and checks, `disturbance` the disturbances, and `sweep` runs many lives. `kills`,
//! `moves`, `faults`, `full_disk`, `signals`, `machines` and `two_machines` choose the points. The default
//! run takes a sample, `MONOPILE_SWEEP=20` twenty lives of each kind, and `MONOPILE_SWEEP=full` every point.

mod disturbance;
mod faults;
mod full_disk;
mod kills;
mod life;
mod machines;
mod moves;
mod signals;
mod sweep;
mod two_machines;

use crate::support::gate::Moment;
use disturbance::{ConversationPoint, Disturbance, MachineAction};
use life::LifeSetting;
use sweep::{Reference, Sweep, reference, settings_of_run};
