//! The vars store: a YAML file of generated values, in upstream's format, and the generators that fill it.
//!
//! [`Store`] is the file, [`Spec`] a declared variable's type and options, from which a value is made and
//! against which one is checked, [`Authority`] a CA that signs. [`report`] and [`rotate`] are what
//! `monopile vars` does.
//!
//! Formats: docs-bosh `variable-types.md`; what upstream makes of them was compared field by field.

mod authority;
mod certificate;
mod certificate_options;
pub mod command;
mod der;
pub mod expiry;
mod password;
mod pem_text;
pub mod report;
pub mod rotate;
mod rsa_key;
mod signing_key;
mod spec;
mod store;
mod value;
mod x509;

pub use authority::Authority;
pub use certificate_options::{CaReference, CertificateOptions};
pub use rsa_key::{KeyPool, KeySize, SshKeyPair};
pub use spec::Spec;
pub use store::Store;
