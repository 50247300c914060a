//! The parts of Ruby's libraries that templates use.
//!
//! In each module `call_class_method` calls a function of the class or module, and `call_method` calls a
//! method of its objects. Both return `Ok(None)` for a name that they do not implement.

pub(crate) mod base64;
pub(crate) mod digest;
pub(crate) mod escape;
pub(crate) mod format;
pub(crate) mod ipaddr;
pub(crate) mod json;
mod json_reader;
pub(crate) mod number;
pub(crate) mod openssl;
pub(crate) mod pack;
pub(crate) mod path;
pub(crate) mod regex;
pub(crate) mod shellwords;
pub(crate) mod string_io;
pub(crate) mod time;
pub(crate) mod uri;
pub(crate) mod yaml;
