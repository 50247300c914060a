//! A CA: the certificate and the key that sign others.

use super::signing_key::SigningKey;
use super::x509::Certificate;
use crate::words::a_kind;
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
    /// The CA that is the value of variable `name`: a mapping with `certificate` and `private_key`. Where
    /// `certificate` holds several, the first one signs and all go into the `ca` of what it signs.
    pub fn from_value(name: &str, value: &Node) -> Result<Self> {
        let text = |key: &str| {
            value.get(key).and_then(Node::as_str).ok_or_else(|| {
                Error::invalid(format!("it is {} without a text under '{key}'", a_kind(value)))
            })
        };
        let read = || {
            let certificates = Certificate::from_pem(text("certificate")?)?;
            let key = SigningKey::from_pem(text("private_key")?)?;
            if certificates.first().is_none_or(|first| first.public_bits != key.public_bits()) {
                return Err(Error::invalid("its private key is not that of its certificate"));
            }
            Ok(Authority { name: name.to_owned(), certificates, key })
        };
        read().context(|| format!("variable '{name}' cannot serve as CA"))
    }

    /// The variable it came from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The certificate that signs.
    pub fn certificate(&self) -> &Certificate {
        // `from_pem` gives at least one.
        &self.certificates[0]
    }

    /// All its certificates in PEM form, for the `ca` of what it signs.
    pub fn bundle(&self) -> String {
        self.certificates.iter().map(Certificate::to_pem).collect()
    }

    /// The key that signs.
    pub fn key(&self) -> &SigningKey {
        &self.key
    }
}
