//! The evaluator: values, evaluation, the methods of Ruby's classes, and parts of Ruby's standard library.
//!
//! The four modules call each other, because a method call needs all of them.

pub(crate) mod eval;
pub(crate) mod methods;
pub(crate) mod stdlib;
pub(crate) mod value;
