//! The vars store: a YAML file of generated values in the format of the bosh CLI, and their generators.
//!
//! [`VarsStore`] is the file. [`GeneratorSpec`] holds the type and options of a declared variable: it
//! generates values and checks stored ones. [`Authority`] is a CA that signs.
//!
//! The format follows `variable-types.md` of docs-bosh and was compared with the bosh CLI's output field by
//! field.

pub(crate) mod authority;
mod certificate;
mod certificate_options;
pub mod expiry;
mod password;
mod pem_text;
pub(crate) mod previous;
pub(crate) mod rsa_key;
pub(crate) mod signing_key;
pub(crate) mod spec;
pub(crate) mod store;
pub(crate) mod value;
pub(crate) mod x509;

pub use authority::Authority;
pub use certificate::has_key;
pub(crate) use certificate_options::{ALTERNATIVE_NAMES, IS_CA};
pub use certificate_options::{CaReference, CertificateOptions};
pub use rsa_key::{KeyPool, KeySize, SshKeyPair};
pub use spec::GeneratorSpec;
pub(crate) use spec::VARIABLE_TYPES;
pub use store::{VarsStore, new_store_note};
pub(crate) use store::{command_line, default_store_path};
