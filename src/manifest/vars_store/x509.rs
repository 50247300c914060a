//! Parsed X.509 certificates.

use std::net::IpAddr;

use time::OffsetDateTime;
use x509_parser::error::X509Error;
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

use super::pem_text;
use base::{Error, Result};

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The whole certificate.
    pub der: Vec<u8>,
    /// The encoded subject, for comparing and copying.
    pub subject: Vec<u8>,
    /// The encoded issuer.
    pub issuer: Vec<u8>,
    /// `CN` of the subject.
    pub common_name: Option<String>,
    /// `O` of the subject.
    pub organizations: Vec<String>,
    /// True if the subject has other attributes than generated certificates.
    pub has_other_names: bool,
    /// DNS names of the subject alternative name.
    pub dns_names: Vec<String>,
    /// The IP addresses of the subject alternative name.
    pub addresses: Vec<IpAddr>,
    /// The beginning of its validity.
    pub not_before: OffsetDateTime,
    /// The end of its validity.
    pub not_after: OffsetDateTime,
    /// True if the basic constraints say CA.
    pub is_ca: bool,
    /// Bits of the key usage; bit 0 is digitalSignature. `None` without the extension.
    pub key_usage: Option<u16>,
    /// The extended key usages this program knows, by the names of options.
    pub extended_key_usage: Vec<&'static str>,
    /// The subject key identifier.
    pub subject_key_id: Option<Vec<u8>>,
    /// The public key, as in the BIT STRING of SubjectPublicKeyInfo.
    pub public_bits: Vec<u8>,
    /// The size of an RSA key in bits.
    pub rsa_bits: Option<usize>,
}

impl Certificate {
    /// Parses a certificate in DER.
    pub fn from_der(bytes: &[u8]) -> Result<Self> {
        let (rest, x509) = X509Certificate::from_der(bytes).map_err(|error| {
            Error::invalid("the certificate cannot be read").with_source(error.to_string())
        })?;
        if !rest.is_empty() {
            return Err(Error::invalid("the certificate cannot be read: more data follows it"));
        }
        let mut certificate = Certificate {
            der: bytes.to_vec(),
            subject: x509.subject().as_raw().to_vec(),
            issuer: x509.issuer().as_raw().to_vec(),
            common_name: texts(x509.subject().iter_common_name()).pop(),
            organizations: texts(x509.subject().iter_organization()),
            has_other_names: x509.subject().iter_attributes().any(|attribute| {
                !["2.5.4.3", "2.5.4.6", "2.5.4.10"].contains(&attribute.attr_type().to_id_string().as_str())
            }),
            dns_names: Vec::new(),
            addresses: Vec::new(),
            not_before: x509.validity().not_before.to_datetime(),
            not_after: x509.validity().not_after.to_datetime(),
            is_ca: false,
            key_usage: None,
            extended_key_usage: Vec::new(),
            subject_key_id: None,
            public_bits: x509.public_key().subject_public_key.data.to_vec(),
            rsa_bits: match x509.public_key().parsed() {
                Ok(x509_parser::public_key::PublicKey::RSA(key)) => Some(key.key_size()),
                _ => None,
            },
        };
        for extension in x509.extensions() {
            certificate.read_extension(extension.parsed_extension());
        }
        Ok(certificate)
    }

    fn read_extension(&mut self, extension: &ParsedExtension<'_>) {
        match extension {
            ParsedExtension::BasicConstraints(constraints) => self.is_ca = constraints.ca,
            ParsedExtension::KeyUsage(usage) => self.key_usage = Some(usage.flags),
            ParsedExtension::SubjectKeyIdentifier(id) => self.subject_key_id = Some(id.0.to_vec()),
            ParsedExtension::ExtendedKeyUsage(usage) => {
                let usages = [
                    (usage.client_auth, "client_auth"),
                    (usage.server_auth, "server_auth"),
                    (usage.code_signing, "code_signing"),
                    (usage.email_protection, "email_protection"),
                    (usage.time_stamping, "timestamping"),
                ];
                self.extended_key_usage =
                    usages.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
            }
            ParsedExtension::SubjectAlternativeName(names) => {
                for name in &names.general_names {
                    match name {
                        GeneralName::DNSName(name) => self.dns_names.push((*name).to_owned()),
                        GeneralName::IPAddress(bytes) => self.addresses.extend(address(bytes)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// Parses the certificates in a PEM text, in order.
    pub fn from_pem(text: &str) -> Result<Vec<Self>> {
        let certificates: Vec<Self> =
            pem_text::certificates(text).iter().map(|der| Self::from_der(der)).collect::<Result<_>>()?;
        if certificates.is_empty() {
            return Err(Error::invalid("there is no certificate in PEM form"));
        }
        Ok(certificates)
    }

    /// Returns the certificate in PEM.
    pub fn to_pem(&self) -> String {
        pem_text::encode("CERTIFICATE", &self.der)
    }

    /// Returns true if `authority` issued the certificate: the names and the signature match.
    pub fn is_signed_by(&self, authority: &Certificate) -> bool {
        self.issuer == authority.subject && self.verify(authority).unwrap_or(false)
    }

    /// Returns true if the certificate is its own issuer.
    pub fn is_self_signed(&self) -> bool {
        self.is_signed_by(self)
    }

    fn verify(&self, authority: &Certificate) -> Option<bool> {
        let (_, this) = X509Certificate::from_der(&self.der).ok()?;
        let (_, other) = X509Certificate::from_der(&authority.der).ok()?;
        Some(match this.verify_signature(Some(other.public_key())) {
            Ok(()) => true,
            // The parser does not support P-521, but the library below it does.
            Err(X509Error::SignatureUnsupportedAlgorithm)
                if this.signature_algorithm.algorithm.to_id_string() == "1.2.840.10045.4.3.4" =>
            {
                use aws_lc_rs::signature::{ECDSA_P521_SHA512_ASN1, UnparsedPublicKey};
                UnparsedPublicKey::new(&ECDSA_P521_SHA512_ASN1, &authority.public_bits)
                    .verify(this.tbs_certificate.as_ref(), &this.signature_value.data)
                    .is_ok()
            }
            Err(_) => false,
        })
    }
}

fn texts<'a>(
    attributes: impl Iterator<Item = &'a x509_parser::x509::AttributeTypeAndValue<'a>>,
) -> Vec<String> {
    attributes.filter_map(|attribute| attribute.as_str().ok().map(str::to_owned)).collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(four.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}
