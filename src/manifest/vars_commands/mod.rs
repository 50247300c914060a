//! The operations on a vars store that `monopile vars` offers: list, get, check and rotate.

pub mod command;
pub mod report;
pub mod rotate;
