//! The type and options of a declared variable. Generates values, and reports how a stored value differs.

use std::collections::BTreeSet;

use time::OffsetDateTime;

use super::authority::Authority;
use super::certificate_options::{
    CaReference, CertificateOptions, check_names, parse_integer, parse_key_length,
};
use super::rsa_key::{KeyPool, KeySize};
use super::x509::Certificate;
use super::{certificate, password};
use crate::node_kind::kind_with_article;
use base::text::and_list;
use base::{Error, Result};
use yaml::{Data, Mapping, Node};

/// The type and options of one variable.
#[derive(Debug, Clone, PartialEq)]
pub enum GeneratorSpec {
    /// `password` of this length.
    Password(usize),
    /// `certificate`.
    Certificate(Box<CertificateOptions>),
    /// `rsa`.
    Rsa(KeySize),
    /// `ssh`.
    Ssh(KeySize),
}

/// The maximum length of a password, so that a mistyped option does not fill the disk.
const MAX_PASSWORD_CHARS: i64 = 1024 * 1024;

/// The types of variables whose values can be generated.
pub(crate) const VARIABLE_TYPES: [&str; 4] = ["certificate", "password", "rsa", "ssh"];

impl GeneratorSpec {
    /// Parses the type and interpolated options of a definition.
    pub fn parse(kind: &str, options: Option<&Node>) -> Result<Self> {
        let get = |name: &str| options.and_then(|options| options.get(name)).filter(|value| !value.is_null());
        match kind {
            "password" => {
                check_names(options, &["length"])?;
                match get("length").map(|value| parse_integer("length", value)).transpose()? {
                    None | Some(0) => Ok(GeneratorSpec::Password(password::DEFAULT_PASSWORD_CHARS)),
                    Some(length @ 1..=MAX_PASSWORD_CHARS) => Ok(GeneratorSpec::Password(length as usize)),
                    Some(length) => Err(Error::invalid(format!(
                        "option 'length' is {length}; it must be from 1 to {MAX_PASSWORD_CHARS}"
                    ))),
                }
            }
            "certificate" => CertificateOptions::parse(options).map(Box::new).map(GeneratorSpec::Certificate),
            // The bosh CLI ignores the options of these types; `key_length` is CredHub's.
            "rsa" => Ok(GeneratorSpec::Rsa(parse_key_length(get("key_length"))?.unwrap_or(KeySize::Rsa2048))),
            "ssh" => Ok(GeneratorSpec::Ssh(parse_key_length(get("key_length"))?.unwrap_or(KeySize::Rsa2048))),
            other => Err(Error::invalid(format!("there is no variable type '{other}'")).with_nearest(
                other,
                VARIABLE_TYPES,
                || Some(format!("the types are {}", and_list(&VARIABLE_TYPES))),
            )),
        }
    }

    /// Returns the probable key size before options are interpolated.
    pub fn key_size_guess(kind: &str, options: Option<&Node>) -> Option<KeySize> {
        let default = match kind {
            "certificate" => KeySize::Rsa3072,
            "rsa" | "ssh" => KeySize::Rsa2048,
            _ => return None,
        };
        match options.and_then(|options| options.get("key_length")) {
            None => Some(default),
            Some(bits) => bits.as_i64().and_then(KeySize::from_bits),
        }
    }

    /// Returns the CA that signs, if the options name one.
    pub fn ca(&self) -> Option<&CaReference> {
        match self {
            GeneratorSpec::Certificate(options) => options.ca.as_ref(),
            _ => None,
        }
    }

    /// Generates a value.
    pub fn generate(
        &self,
        keys: &mut KeyPool,
        authority: Option<&Authority>,
        now: OffsetDateTime,
    ) -> Result<Node> {
        match self {
            GeneratorSpec::Password(length) => Ok(Node::string(password::generate(*length)?)),
            GeneratorSpec::Rsa(size) => {
                let key = keys.take(*size)?;
                Ok(mapping([("private_key", key.private_pem()), ("public_key", key.public_pem())]))
            }
            GeneratorSpec::Ssh(size) => {
                let key = keys.take(*size)?;
                Ok(mapping([
                    ("private_key", key.private_pem()),
                    ("public_key", key.ssh_public_key()),
                    ("public_key_fingerprint", fingerprint(key.ssh_wire())),
                ]))
            }
            GeneratorSpec::Certificate(options) => {
                let key = keys.take(options.key_size)?;
                let certificate = certificate::generate(options, &key, authority, now)?;
                Ok(mapping([
                    ("ca", authority.map_or_else(|| certificate.clone(), Authority::bundle)),
                    ("certificate", certificate),
                    ("private_key", key.private_pem()),
                ]))
            }
        }
    }

    /// Returns the differences between `value` and this spec, without secrets. `authority` is the CA that
    /// signs, if known.
    pub fn mismatches(&self, value: &Node, authority: Option<&Authority>) -> Vec<String> {
        match self {
            GeneratorSpec::Password(length) => match value.as_str() {
                Some(text) if text.chars().count() == *length => Vec::new(),
                Some(_) => vec![format!("its length is not {length}")],
                None => vec![format!("it is {}, not a password", kind_with_article(value))],
            },
            GeneratorSpec::Rsa(_) | GeneratorSpec::Ssh(_) => {
                let key = value.get("private_key").and_then(Node::as_str);
                let public_key_name = if matches!(self, GeneratorSpec::Ssh(_)) {
                    "public_key_fingerprint"
                } else {
                    "public_key"
                };
                match (key, value.get(public_key_name)) {
                    (Some(_), Some(_)) => Vec::new(),
                    _ => vec!["it is not a key pair".into()],
                }
            }
            GeneratorSpec::Certificate(options) => {
                let text = value.get("certificate").and_then(Node::as_str).unwrap_or_default();
                match Certificate::from_pem(text) {
                    Ok(certificates) => certificates
                        .first()
                        .map_or_else(Vec::new, |first| differences(options, first, authority)),
                    Err(_) => vec!["its certificate cannot be read".into()],
                }
            }
        }
    }
}

fn mapping<const N: usize>(entries: [(&str, String); N]) -> Node {
    let entries = entries.into_iter().map(|(key, text)| (Node::string(key), Node::string(text)));
    Data::Map(entries.collect::<Mapping>()).into()
}

/// Returns the MD5 fingerprint of a public key as `ssh-keygen -l -E md5` prints it, without `MD5:`.
fn fingerprint(wire: &[u8]) -> String {
    use md5::Digest;
    let digest = md5::Md5::digest(wire);
    digest.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// Describes how a certificate differs from its declaration. A key usage that is not declared is not
/// compared.
fn differences(
    options: &CertificateOptions,
    certificate: &Certificate,
    authority: Option<&Authority>,
) -> Vec<String> {
    let mut differences = Vec::new();
    let mut note = |differs: bool, text: String| {
        if differs {
            differences.push(text);
        }
    };
    let quote = |name: Option<&str>| name.map_or("none".to_owned(), |name| format!("'{name}'"));
    note(
        certificate.common_name != options.common_name,
        format!(
            "its common name is {} instead of {}",
            quote(certificate.common_name.as_deref()),
            quote(options.common_name.as_deref())
        ),
    );
    note(
        certificate.organizations != [options.organization.clone()],
        format!("its organization is not '{}'", options.organization),
    );
    note(
        certificate.is_ca != options.is_ca,
        if options.is_ca { "it is not a CA".into() } else { "it is a CA".into() },
    );
    if let Some(usage) = options.key_usage {
        note(certificate.key_usage != Some(usage), "its key usage is not as declared".into());
    }
    if !options.is_ca {
        let names = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
        note(
            names(&certificate.dns_names) != names(&options.dns_names)
                || certificate.addresses.iter().collect::<BTreeSet<_>>()
                    != options.addresses.iter().collect::<BTreeSet<_>>(),
            "its alternative names are not as declared".into(),
        );
        let mut usages: BTreeSet<&str> = options.extended_key_usage.iter().map(String::as_str).collect();
        if usages.is_empty() {
            usages.insert("server_auth");
        }
        note(
            certificate.extended_key_usage.iter().copied().collect::<BTreeSet<_>>() != usages,
            "its extended key usage is not as declared".into(),
        );
    }
    let bits = options.key_size.bits();
    note(certificate.rsa_bits != Some(bits), format!("its key is not RSA of {bits} bits"));
    let days = (certificate.not_after - certificate.not_before).whole_days();
    note(days != options.days, format!("it is valid for {days} days, not {}", options.days));
    match authority {
        Some(authority) => note(
            !certificate.is_signed_by(authority.certificate()),
            format!("it is not signed by '{}'", authority.name()),
        ),
        None => {
            note(options.ca.is_none() && !certificate.is_self_signed(), "it is not signed by itself".into())
        }
    }
    differences
}
