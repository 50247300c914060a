//! The work of the commands of `monopile vars`: list, get, check and rotate. The file that they read and
//! change is [`crate::vars_store`].

pub mod command;
pub mod report;
pub mod rotate;
