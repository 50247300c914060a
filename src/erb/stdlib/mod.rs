//! The parts of Ruby's libraries that templates use.

pub(super) mod base64;
pub(super) mod digest;
pub(super) mod escape;
pub(super) mod format;
pub(super) mod ipaddr;
pub(super) mod json;
pub(super) mod number;
pub(super) mod openssl;
pub(super) mod pack;
pub(super) mod path;
pub(super) mod reader;
pub(super) mod regex;
pub(super) mod shellwords;
pub(super) mod time;
pub(super) mod uri;
pub(super) mod yaml;
