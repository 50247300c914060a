//! Makes certificates: version 3, RSA key, the extensions upstream gives them.

use std::net::IpAddr;

use time::{Duration, OffsetDateTime};

use super::authority::Authority;
use super::certificate_options::{CertificateOptions, EXTENDED_KEY_USAGES};
use super::rsa_key::RsaKey;
use super::signing_key::SigningKey;
use super::{der, pem_text};
use base::{Error, Result};

const COUNTRY: &[u8] = &[0x55, 0x04, 0x06];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 0x23];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// id-kp, 1.3.6.1.5.5.7.3
const KEY_PURPOSE: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03];

/// keyCertSign and cRLSign.
pub(super) const CA_KEY_USAGE: u16 = 1 << 5 | 1 << 6;
/// digitalSignature and keyEncipherment.
pub(super) const LEAF_KEY_USAGE: u16 = 1 | 1 << 2;

/// A certificate in PEM form for `key`, signed by `authority`, or by itself without one.
pub(super) fn generate(
    options: &CertificateOptions,
    key: &RsaKey,
    authority: Option<&Authority>,
    now: OffsetDateTime,
) -> Result<String> {
    let own = SigningKey::Rsa(Box::new(key.pair().clone()));
    let signer = authority.map_or(&own, Authority::key);
    let subject = subject(options);
    let issuer = authority.map_or(&subject, |authority| &authority.certificate().subject);
    let key_id = key.key_id();
    let authority_key_id = match authority {
        Some(authority) => authority.certificate().subject_key_id.clone(),
        None => Some(key_id.clone()),
    };
    let end = now
        .checked_add(Duration::days(options.days.min(MAX_DAYS)))
        .filter(|end| end.year() <= 9999)
        .ok_or_else(|| {
            Error::invalid(format!(
                "option 'duration' is {} days, which ends after the year 9999",
                options.days
            ))
        })?;
    let extensions = extensions(options, &key_id, authority_key_id.as_deref());
    let algorithm = signer.algorithm();
    let to_be_signed = der::sequence([
        // [0] version: v3
        &der::element(0xa0, &der::unsigned(&[2])),
        &der::unsigned(&serial()?),
        &algorithm,
        issuer,
        &der::sequence([&der::time(now), &der::time(end)]),
        &subject,
        &key.public_info(),
        &der::element(0xa3, &der::element(der::SEQUENCE, &extensions)),
    ]);
    let signature = signer.sign(&to_be_signed)?;
    let certificate = der::sequence([&to_be_signed, &algorithm, &der::bit_string(&signature)]);
    Ok(pem_text::encode("CERTIFICATE", &certificate))
}

/// More days than there are until the year 9999, and few enough to count with.
const MAX_DAYS: i64 = 4_000_000;

/// 128 random bits.
fn serial() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| Error::environment("the system gives no random numbers"))?;
    Ok(bytes)
}

fn subject(options: &CertificateOptions) -> Vec<u8> {
    let attribute = |kind: &[u8], text: &str| der::set(&der::sequence([&der::oid(kind), &der::text(text)]));
    let mut attributes = [attribute(COUNTRY, "US"), attribute(ORGANIZATION, &options.organization)].concat();
    if let Some(name) = &options.common_name {
        attributes.extend(attribute(COMMON_NAME, name));
    }
    der::element(der::SEQUENCE, &attributes)
}

fn extensions(options: &CertificateOptions, key_id: &[u8], authority_key_id: Option<&[u8]>) -> Vec<u8> {
    let critical =
        |id: &[u8], value: &[u8]| der::sequence([&der::oid(id), der::TRUE, &der::octet_string(value)]);
    let plain = |id: &[u8], value: &[u8]| der::sequence([&der::oid(id), &der::octet_string(value)]);
    let usage = options.key_usage.unwrap_or(if options.is_ca { CA_KEY_USAGE } else { LEAF_KEY_USAGE });
    let mut all = critical(KEY_USAGE, &der::flags(usage));
    // Upstream leaves extended key usage and alternative names out of CAs.
    if !options.is_ca {
        all.extend(plain(EXTENDED_KEY_USAGE, &extended_key_usage(&options.extended_key_usage)));
    }
    let constraints: &[u8] = if options.is_ca { der::TRUE } else { &[] };
    all.extend(critical(BASIC_CONSTRAINTS, &der::sequence([constraints])));
    all.extend(plain(SUBJECT_KEY_ID, &der::octet_string(key_id)));
    if let Some(id) = authority_key_id {
        all.extend(plain(AUTHORITY_KEY_ID, &der::sequence([&der::element(0x80, id)])));
    }
    let named = !options.dns_names.is_empty() || !options.addresses.is_empty();
    if named && !options.is_ca {
        all.extend(plain(ALTERNATIVE_NAME, &alternative_name(options)));
    }
    all
}

fn extended_key_usage(names: &[String]) -> Vec<u8> {
    let purpose = |arc: u8| der::oid(&[KEY_PURPOSE, &[arc]].concat());
    let wanted = names.iter().filter_map(|name| {
        EXTENDED_KEY_USAGES.iter().find(|(known, _)| known == name).map(|&(_, arc)| purpose(arc))
    });
    let mut purposes: Vec<u8> = wanted.flatten().collect();
    if purposes.is_empty() {
        purposes = purpose(1);
    }
    der::element(der::SEQUENCE, &purposes)
}

fn alternative_name(options: &CertificateOptions) -> Vec<u8> {
    let names = options.dns_names.iter().map(|name| der::element(0x82, name.as_bytes()));
    let addresses = options.addresses.iter().map(|address| match address {
        IpAddr::V4(four) => der::element(0x87, &four.octets()),
        IpAddr::V6(six) => der::element(0x87, &six.octets()),
    });
    der::element(der::SEQUENCE, &names.chain(addresses).flatten().collect::<Vec<u8>>())
}
