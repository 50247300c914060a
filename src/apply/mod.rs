//! Runs a plan: step, effect, state. The only place that sees `cpi`, `agent` and `state` together.

mod request;

pub use request::{CreateEnv, DeleteEnv, Environment, Paths};
