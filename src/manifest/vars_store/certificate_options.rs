//! The options of a `certificate` variable.

use std::net::IpAddr;

use super::rsa_key::KeySize;
use crate::node_kind::kind_with_article;
use base::{Error, Result};
use yaml::{Data, Node};

/// The options of one certificate.
#[derive(Debug, Clone, PartialEq)]
pub struct CertificateOptions {
    /// `common_name`: the CN of the subject.
    pub common_name: Option<String>,
    /// `organization`: the O of the subject. [`DEFAULT_ORGANIZATION`] if the manifest has none.
    pub organization: String,
    /// DNS names of `alternative_names`, in order.
    pub dns_names: Vec<String>,
    /// IP addresses of `alternative_names`, in order.
    pub addresses: Vec<IpAddr>,
    /// `is_ca`: true for a certificate that may sign others.
    pub is_ca: bool,
    /// `ca`: the signer. `None` for a self-signed certificate.
    pub ca: Option<CaReference>,
    /// `extended_key_usage` as written.
    pub extended_key_usage: Vec<String>,
    /// Bits of `key_usage`; bit 0 is digitalSignature. `None` means the default for the kind of certificate.
    pub key_usage: Option<u16>,
    /// `duration`: the validity in days.
    pub days: i64,
    /// `key_length`.
    pub key_size: KeySize,
}

/// The CA that signs.
#[derive(Debug, Clone, PartialEq)]
pub enum CaReference {
    /// The CA of the variable with this name.
    Name(String),
    /// The value that `ca: ((name))` resolved to.
    Value(Node),
}

/// The default validity in days.
pub(super) const DEFAULT_DAYS: i64 = 365;
/// The organization if the manifest names none, as in the bosh CLI.
pub(super) const DEFAULT_ORGANIZATION: &str = "Cloud Foundry";

/// The option with the names and addresses of a certificate besides its common name.
pub(crate) const ALTERNATIVE_NAMES: &str = "alternative_names";
/// The option that makes a certificate that of a CA.
pub(crate) const IS_CA: &str = "is_ca";

const OPTION_NAMES: [&str; 9] = [
    "common_name",
    "organization",
    ALTERNATIVE_NAMES,
    IS_CA,
    "ca",
    "extended_key_usage",
    "key_usage",
    "duration",
    "key_length",
];

/// The extended key usages with the last arc of their OIDs, below 1.3.6.1.5.5.7.3.
pub(super) const EXTENDED_KEY_USAGES: [(&str, u64); 5] = [
    ("server_auth", 1),
    ("client_auth", 2),
    ("code_signing", 3),
    ("email_protection", 4),
    ("timestamping", 8),
];

/// The key usages in bit order (RFC 5280, 4.2.1.3).
pub(super) const KEY_USAGES: [&str; 9] = [
    "digital_signature",
    "non_repudiation",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
];

impl CertificateOptions {
    /// Parses the `options` of a definition.
    pub fn parse(options: Option<&Node>) -> Result<Self> {
        check_names(options, &OPTION_NAMES)?;
        let get = |name: &str| options.and_then(|options| options.get(name)).filter(|value| !value.is_null());
        let (dns_names, addresses) = parse_alternative_names(get(ALTERNATIVE_NAMES))?;
        let parsed_options = CertificateOptions {
            common_name: get("common_name")
                .map(|value| string_value("common_name", value))
                .transpose()?
                .filter(|name| !name.is_empty()),
            organization: get("organization")
                .map(|value| string_value("organization", value))
                .transpose()?
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| DEFAULT_ORGANIZATION.to_owned()),
            dns_names,
            addresses,
            is_ca: get(IS_CA).map(parse_flag).transpose()?.unwrap_or(false),
            ca: get("ca").map(parse_ca).transpose()?.flatten(),
            extended_key_usage: parse_extended_key_usage(get("extended_key_usage"))?,
            key_usage: parse_key_usage(get("key_usage"))?,
            days: match get("duration").map(|value| parse_integer("duration", value)).transpose()? {
                Some(days) if days > 0 => days,
                _ => DEFAULT_DAYS,
            },
            key_size: parse_key_length(get("key_length"))?.unwrap_or(KeySize::Rsa3072),
        };
        if !parsed_options.is_ca && parsed_options.ca.is_none() {
            return Err(Error::invalid("option 'ca' is missing: a certificate needs a CA that signs it")
                .with_hint("name the CA variable under 'ca', or make this one a CA with 'is_ca: true'"));
        }
        Ok(parsed_options)
    }
}

/// Rejects options that the type does not have.
pub(super) fn check_names(options: Option<&Node>, option_names: &[&str]) -> Result<()> {
    let Some(options) = options else { return Ok(()) };
    let Some(map) = options.as_map() else {
        return Err(Error::invalid(format!(
            "{}: 'options' is {}, not a mapping",
            options.position.describe(),
            kind_with_article(options)
        )));
    };
    for (key, _) in map.iter() {
        let name = key.as_str().unwrap_or_default();
        if !option_names.contains(&name) {
            let error = Error::invalid(format!("{}: there is no option '{name}'", key.position.describe()));
            return Err(error.with_nearest(name, option_names.iter().copied(), || {
                Some(format!("the options of this type are {}", option_names.join(", ")))
            }));
        }
    }
    Ok(())
}

/// Parses `key_length`, in bits.
pub(super) fn parse_key_length(value: Option<&Node>) -> Result<Option<KeySize>> {
    let Some(value) = value else { return Ok(None) };
    match parse_integer("key_length", value)? {
        0 => Ok(None),
        bits => KeySize::from_bits(bits).map(Some).ok_or_else(|| {
            Error::invalid(format!(
                "{}: option 'key_length' is {bits}; it must be 2048, 3072 or 4096",
                value.position.describe()
            ))
        }),
    }
}

/// Parses an integer option.
pub(super) fn parse_integer(name: &str, value: &Node) -> Result<i64> {
    value.as_i64().ok_or_else(|| wrong_type_error(name, value, "an integer"))
}

fn wrong_type_error(name: &str, value: &Node, expected: &str) -> Error {
    Error::invalid(format!(
        "{}: option '{name}' is {}, not {expected}",
        value.position.describe(),
        kind_with_article(value)
    ))
}

fn string_value(name: &str, value: &Node) -> Result<String> {
    match &value.data {
        Data::String(text) => Ok(text.as_str().to_owned()),
        Data::Int(number) => Ok(number.to_string()),
        Data::UInt(number) => Ok(number.to_string()),
        Data::Float(number) => Ok(number.to_string()),
        _ => Err(wrong_type_error(name, value, "a string")),
    }
}

fn parse_flag(value: &Node) -> Result<bool> {
    value.as_bool().ok_or_else(|| {
        let shown_value =
            value.as_str().map_or_else(|| kind_with_article(value).to_string(), |text| format!("'{text}'"));
        Error::invalid(format!(
            "{}: option '{IS_CA}' must be true or false, not {shown_value}",
            value.position.describe()
        ))
    })
}

fn parse_ca(value: &Node) -> Result<Option<CaReference>> {
    match &value.data {
        Data::Map(_) => Ok(Some(CaReference::Value(value.clone()))),
        _ => Ok(Some(string_value("ca", value)?).filter(|name| !name.is_empty()).map(CaReference::Name)),
    }
}

fn parse_list<'n>(name: &str, value: Option<&'n Node>) -> Result<&'n [Node]> {
    match value {
        None => Ok(&[]),
        Some(value) => value.as_seq().ok_or_else(|| wrong_type_error(name, value, "a list")),
    }
}

fn parse_alternative_names(value: Option<&Node>) -> Result<(Vec<String>, Vec<IpAddr>)> {
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    for item in parse_list(ALTERNATIVE_NAMES, value)? {
        let name = string_value(ALTERNATIVE_NAMES, item)?;
        match name.parse::<IpAddr>() {
            Ok(address) => addresses.push(address.to_canonical()),
            Err(_) if name.is_ascii() => names.push(name),
            Err(_) => {
                return Err(Error::invalid(format!(
                    "{}: alternative name '{name}' is not ASCII",
                    item.position.describe()
                ))
                .with_hint("write an international domain name in its xn-- form"));
            }
        }
    }
    Ok((names, addresses))
}

fn parse_extended_key_usage(value: Option<&Node>) -> Result<Vec<String>> {
    parse_list("extended_key_usage", value)?
        .iter()
        .map(|item| {
            let name = string_value("extended_key_usage", item)?;
            if EXTENDED_KEY_USAGES.iter().any(|(usage, _)| *usage == name) {
                return Ok(name);
            }
            let usage_names: Vec<&str> = EXTENDED_KEY_USAGES.iter().map(|(usage, _)| *usage).collect();
            Err(Error::invalid(format!(
                "{}: there is no extended key usage '{name}'",
                item.position.describe()
            ))
            .with_hint(format!("write one of the extended key usages {}", usage_names.join(", "))))
        })
        .collect()
}

fn parse_key_usage(value: Option<&Node>) -> Result<Option<u16>> {
    if value.is_none() {
        return Ok(None);
    }
    let mut bits = 0;
    for item in parse_list("key_usage", value)? {
        let name = string_value("key_usage", item)?;
        match KEY_USAGES.iter().position(|usage| *usage == name) {
            Some(bit) => bits |= 1 << bit,
            None => {
                return Err(Error::invalid(format!(
                    "{}: there is no key usage '{name}'",
                    item.position.describe()
                ))
                .with_hint(format!("write one of the key usages {}", KEY_USAGES.join(", "))));
            }
        }
    }
    Ok((bits != 0).then_some(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CertificateOptions> {
        CertificateOptions::parse(Some(&yaml::load(text, std::path::Path::new("m.yml")).unwrap()))
    }

    #[test]
    fn reads_every_option() {
        let options = parse(
            "{common_name: 10.0.0.1, organization: Me, alternative_names: [a.b, 10.0.0.1, '::1', \
             '::ffff:1.2.3.4'], ca: root, extended_key_usage: [client_auth], key_usage: [digital_signature, \
             crl_sign], duration: 30, key_length: 4096}",
        )
        .unwrap();
        assert_eq!(options.common_name.as_deref(), Some("10.0.0.1"));
        assert_eq!(options.dns_names, ["a.b"]);
        assert_eq!(
            options.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.0.0.1", "::1", "1.2.3.4"]
        );
        assert_eq!(options.ca, Some(CaReference::Name("root".into())));
        assert_eq!(
            (options.key_usage, options.days, options.key_size),
            (Some(0b100_0001), 30, KeySize::Rsa4096)
        );
    }

    #[test]
    fn defaults_equal_those_of_bosh() {
        let options = parse("{is_ca: true}").unwrap();
        assert_eq!(
            (options.organization.as_str(), options.days, options.key_size, options.common_name),
            ("Cloud Foundry", 365, KeySize::Rsa3072, None)
        );
        assert_eq!(parse("{is_ca: true, duration: -3}").unwrap().days, 365);
    }

    #[test]
    fn rejects_invalid_options_with_position_and_hint() {
        for (text, expected, hint) in [
            ("{}", "option 'ca' is missing: a certificate needs a CA that signs it", "name the CA"),
            ("{common_nam: x}", "m.yml:1:2: there is no option 'common_nam'", "did you mean 'common_name'?"),
            ("{foo: x}", "m.yml:1:2: there is no option 'foo'", "the options of this type are common_name"),
            ("5", "m.yml:1:1: 'options' is an integer, not a mapping", ""),
            (
                "{ca: x, key_length: 1024}",
                "m.yml:1:21: option 'key_length' is 1024; it must be 2048, 3072 or 4096",
                "",
            ),
            ("{ca: x, duration: x}", "m.yml:1:19: option 'duration' is a string, not an integer", ""),
            ("{ca: x, is_ca: x}", "m.yml:1:16: option 'is_ca' must be true or false, not 'x'", ""),
            (
                "{ca: x, alternative_names: x}",
                "m.yml:1:28: option 'alternative_names' is a string, not a list",
                "",
            ),
            ("{ca: x, alternative_names: [é]}", "m.yml:1:29: alternative name 'é' is not ASCII", "xn--"),
            (
                "{ca: x, extended_key_usage: [x]}",
                "m.yml:1:30: there is no extended key usage 'x'",
                "client_auth",
            ),
            ("{ca: x, key_usage: [x]}", "m.yml:1:21: there is no key usage 'x'", "crl_sign"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.to_string(), expected);
            let advice = [error.notes(), error.hints()].concat().join("\n");
            assert!(advice.contains(hint), "{advice}");
        }
    }
}
