//! A CA: a certificate and its signing key.

use super::signing_key::SigningKey;
use super::x509::Certificate;
use crate::node_kind::kind_with_article;
use base::Error;
use base::Result;
use base::error::ResultExt;
use yaml::Node;

/// A CA that signs certificates.
pub struct Authority {
    name: String,
    certificates: Vec<Certificate>,
    key: SigningKey,
}

impl Authority {
    /// Reads a CA from the value of variable `name`, a mapping with `certificate` and `private_key`. If
    /// `certificate` is a bundle, the first one signs and all of them go into the `ca` of signed
    /// certificates.
    pub fn from_value(name: &str, value: &Node) -> Result<Self> {
        let text = |key: &str| {
            value.get(key).and_then(Node::as_str).ok_or_else(|| {
                Error::invalid(format!(
                    "its value is {} without a text under '{key}'",
                    kind_with_article(value)
                ))
            })
        };
        let read = || {
            let certificates = Certificate::from_pem(text("certificate")?)?;
            let key = SigningKey::from_pem(text("private_key")?)?;
            if certificates.first().is_none_or(|first| first.public_bits != key.public_bits()) {
                return Err(Error::invalid("its private key does not match its certificate"));
            }
            Ok(Authority { name: name.to_owned(), certificates, key })
        };
        read().context(|| format!("variable '{name}' cannot be used as a CA"))
    }

    /// Returns the name of its variable.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the certificate that signs.
    pub fn certificate(&self) -> &Certificate {
        // `from_pem` returns at least one.
        &self.certificates[0]
    }

    /// Returns all its certificates as PEM, for the `ca` of signed certificates.
    pub fn bundle(&self) -> String {
        self.certificates.iter().map(Certificate::to_pem).collect()
    }

    /// Returns the signing key.
    pub fn key(&self) -> &SigningKey {
        &self.key
    }
}
