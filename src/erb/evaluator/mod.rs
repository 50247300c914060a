//! The evaluator: values, evaluation, the methods of Ruby's classes, and the parts of its standard library that
//! templates use. These four call each other: a method call needs all of them.

pub(crate) mod eval;
pub(crate) mod methods;
pub(crate) mod stdlib;
pub(crate) mod value;
