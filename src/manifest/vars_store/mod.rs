//! The vars store: a YAML file of generated values, in upstream's format, and the generators that fill it.
//!
//! [`Store`] is the file, [`Spec`] a declared variable's type and options, from which a value is made and
//! against which one is checked, [`Authority`] a CA that signs.
//!
//! Formats: docs-bosh `variable-types.md`; what upstream makes of them was compared field by field.

pub(crate) mod authority;
mod certificate;
mod certificate_options;
pub mod expiry;
mod password;
mod pem_text;
pub(crate) mod rsa_key;
pub(crate) mod signing_key;
pub(crate) mod spec;
pub(crate) mod store;
pub(crate) mod value;
pub(crate) mod x509;

pub use authority::Authority;
pub use certificate_options::{CaReference, CertificateOptions};
pub use rsa_key::{KeyPool, KeySize, SshKeyPair};
pub use spec::Spec;
pub use store::Store;
