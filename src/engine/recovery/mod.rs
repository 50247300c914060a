//! Recovery from earlier runs: open calls, and suspects of failed calls.
//!
//! Entry points: [`settle_open_calls`], which every command that changes something calls first; [`suspects`];
//! [`legacy_state`].

pub(crate) mod legacy_state;
pub(crate) mod open_calls;
mod resume;
pub(crate) mod suspects;

pub(crate) use resume::settle_open_calls;
