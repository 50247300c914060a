//! Infers the kind of a stored value from its shape, because the store records no types.

use super::certificate_options::{CertificateOptions, DEFAULT_ORGANIZATION};
use super::rsa_key::KeySize;
use super::signing_key::SigningKey;
use super::spec::GeneratorSpec;
use super::x509::Certificate;
use super::{certificate, password, pem_text};
use base::{Error, Result};
use yaml::Node;

/// The kind of a stored value.
#[derive(Debug)]
pub(crate) enum ValueKind {
    /// A mapping with `certificate` and `private_key`. Contains the certificates under `certificate`, at
    /// least one.
    Certificate(Vec<Certificate>),
    /// A mapping with an unreadable `certificate`. Contains the reason.
    BrokenCertificate(String),
    /// A mapping with both keys and a fingerprint: an SSH key pair.
    Ssh,
    /// A mapping with both keys: an RSA key pair.
    Rsa,
    /// A text without a known structure, such as a password.
    Text,
    /// Anything else.
    Other,
}

impl ValueKind {
    /// Returns the kind of `value`.
    pub(crate) fn infer(value: &Node) -> Self {
        let has_text = |key: &str| value.get(key).is_some_and(|part| part.as_str().is_some());
        if has_text("certificate") && has_text("private_key") {
            let text = value.get("certificate").and_then(Node::as_str).unwrap_or_default();
            return Certificate::from_pem(text).map_or_else(
                |error| ValueKind::BrokenCertificate(error.to_string()),
                ValueKind::Certificate,
            );
        }
        match (
            has_text("private_key") && has_text("public_key"),
            has_text("public_key_fingerprint"),
            value.as_str(),
        ) {
            (true, true, _) => ValueKind::Ssh,
            (true, false, _) => ValueKind::Rsa,
            (_, _, Some(_)) => ValueKind::Text,
            _ => ValueKind::Other,
        }
    }

    /// Returns the first certificate, if the value has one.
    pub(crate) fn certificate(&self) -> Option<&Certificate> {
        match self {
            ValueKind::Certificate(certificates) => certificates.first(),
            _ => None,
        }
    }

    /// Returns the type name as in `variables:`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            ValueKind::Certificate(_) | ValueKind::BrokenCertificate(_) => "certificate",
            ValueKind::Ssh => "ssh",
            ValueKind::Rsa => "rsa",
            ValueKind::Text => "text",
            ValueKind::Other => "value",
        }
    }
}

impl GeneratorSpec {
    /// Derives a spec that generates a value like this one, without its CA.
    pub fn like_value(name: &str, value: &Node) -> Result<Self> {
        let unknown_origin_error = |reason: &str| {
            Error::invalid(format!("the vars store does not show how '{name}' was generated: {reason}"))
        };
        match ValueKind::infer(value) {
            ValueKind::Certificate(certificates) => {
                let certificate =
                    certificates.first().ok_or_else(|| unknown_origin_error("it holds no certificate"))?;
                if certificate.has_other_names {
                    return Err(unknown_origin_error(
                        "its subject has attributes that generated certificates do not have",
                    ));
                }
                Ok(GeneratorSpec::Certificate(Box::new(options_like(certificate))))
            }
            ValueKind::BrokenCertificate(reason) => {
                Err(unknown_origin_error(&format!("its certificate cannot be read: {reason}")))
            }
            ValueKind::Ssh => Ok(GeneratorSpec::Ssh(key_size_like(value))),
            ValueKind::Rsa => Ok(GeneratorSpec::Rsa(key_size_like(value))),
            ValueKind::Text => match value.as_str() {
                Some(text) if password::looks_generated(text) => Ok(GeneratorSpec::Password(text.len())),
                _ => Err(unknown_origin_error("its text does not look like a generated password")),
            },
            ValueKind::Other => {
                Err(unknown_origin_error("it is not a password, a key pair or a certificate"))
            }
        }
    }
}

fn options_like(certificate: &Certificate) -> CertificateOptions {
    let default_key_usage =
        if certificate.is_ca { certificate::CA_KEY_USAGE } else { certificate::LEAF_KEY_USAGE };
    CertificateOptions {
        common_name: certificate.common_name.clone(),
        organization: certificate
            .organizations
            .first()
            .cloned()
            .unwrap_or_else(|| DEFAULT_ORGANIZATION.to_owned()),
        dns_names: certificate.dns_names.clone(),
        addresses: certificate.addresses.clone(),
        is_ca: certificate.is_ca,
        ca: None,
        extended_key_usage: certificate.extended_key_usage.iter().map(|&name| name.to_owned()).collect(),
        key_usage: certificate.key_usage.filter(|usage| *usage != default_key_usage),
        days: (certificate.not_after - certificate.not_before).whole_days().max(1),
        key_size: certificate
            .rsa_bits
            .and_then(|bits| KeySize::from_bits(bits as i64))
            .unwrap_or(KeySize::Rsa3072),
    }
}

/// Returns the size of the stored private key.
fn key_size_like(value: &Node) -> KeySize {
    let key = value.get("private_key").and_then(Node::as_str).map(SigningKey::from_pem);
    match key {
        Some(Ok(SigningKey::Rsa(pair))) => {
            KeySize::from_bits((pair.public_modulus_len() * 8) as i64).unwrap_or(KeySize::Rsa2048)
        }
        _ => KeySize::Rsa2048,
    }
}

/// Returns true if the private and public key do not match. Returns `None` if one of them is missing or has
/// an unsupported format.
pub(crate) fn is_mismatched_pair(value: &Node) -> Option<bool> {
    let text = |key: &str| value.get(key).and_then(Node::as_str);
    let key = SigningKey::from_pem(text("private_key")?).ok()?;
    let public_key = text("public_key")?;
    if let Some(encoded_key) = public_key.strip_prefix("ssh-rsa ") {
        use base64::Engine;
        let encoded_key = encoded_key.split_whitespace().next()?;
        let wire = base64::engine::general_purpose::STANDARD.decode(encoded_key).ok()?;
        return Some(super::rsa_key::ssh_wire_of(key.public_bits())? != wire);
    }
    let blocks = pem_text::parse_blocks(public_key);
    let block = blocks.iter().find(|block| block.tag() == "PUBLIC KEY")?;
    Some(!block.contents().ends_with(key.public_bits()))
}
