//! The evaluator: values, evaluation, the methods of Ruby's classes, and parts of Ruby's standard library.
//!
//! `eval`, `methods`, `stdlib` and `value` call each other, because a method call needs all of them. `meter`
//! accounts for what they use.

pub(crate) mod eval;
pub(crate) mod meter;
pub(crate) mod methods;
pub(crate) mod stdlib;
pub(crate) mod value;
