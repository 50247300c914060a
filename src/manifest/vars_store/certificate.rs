//! Generates certificates of version 3, with an RSA key and the extensions that the bosh CLI gives them.
//!
//! They are written as plain DER, without a library for certificates. An issuer's name must be copied byte
//! for byte from a CA that another program made, but libraries rebuild it and lose repeated attributes.

use std::net::IpAddr;

use time::{Duration, OffsetDateTime};
use yasna::models::{GeneralizedTime, ObjectIdentifier, UTCTime};
use yasna::tags::TAG_PRINTABLESTRING;
use yasna::{DERWriter, DERWriterSeq, Tag, construct_der};

use super::authority::Authority;
use super::certificate_options::{CertificateOptions, EXTENDED_KEY_USAGES};
use super::pem_text;
use super::rsa_key::RsaKey;
use super::signing_key::SigningKey;
use super::x509::Certificate;
use base::{Error, Result};

const COUNTRY: [u64; 4] = [2, 5, 4, 6];
const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];
const COMMON_NAME: [u64; 4] = [2, 5, 4, 3];
const SUBJECT_KEY_ID: [u64; 4] = [2, 5, 29, 14];
const KEY_USAGE: [u64; 4] = [2, 5, 29, 15];
const ALTERNATIVE_NAME: [u64; 4] = [2, 5, 29, 17];
const BASIC_CONSTRAINTS: [u64; 4] = [2, 5, 29, 19];
const AUTHORITY_KEY_ID: [u64; 4] = [2, 5, 29, 35];
const EXTENDED_KEY_USAGE: [u64; 4] = [2, 5, 29, 37];
/// The OID of the arc id-kp, which the key purposes continue.
const KEY_PURPOSE: [u64; 8] = [1, 3, 6, 1, 5, 5, 7, 3];

/// The key usage bits of a CA: keyCertSign and cRLSign.
pub(super) const CA_KEY_USAGE: u16 = 1 << 5 | 1 << 6;
/// The key usage bits of other certificates: digitalSignature and keyEncipherment.
pub(super) const LEAF_KEY_USAGE: u16 = 1 | 1 << 2;

/// Returns true if the private key is that of the certificate, both in PEM form. Returns `None` if the
/// certificate cannot be read, and fails if the key cannot.
pub fn has_key(certificate: &str, private_key: &str) -> Result<Option<bool>> {
    let Ok(certificates) = Certificate::from_pem(certificate) else { return Ok(None) };
    let key = SigningKey::from_pem(private_key)?;
    Ok(certificates.first().map(|certificate| certificate.public_bits == key.public_bits()))
}

/// Generates a certificate for `key` in PEM form, signed by `authority`, or self-signed without one.
pub(super) fn generate(
    options: &CertificateOptions,
    key: &RsaKey,
    authority: Option<&Authority>,
    now: OffsetDateTime,
) -> Result<String> {
    let certificate_key = SigningKey::Rsa(Box::new(key.pair().clone()));
    let signer = authority.map_or(&certificate_key, Authority::key);
    let subject = subject(options);
    let issuer = authority.map_or(&subject, |authority| &authority.certificate().subject);
    let key_id = key.key_id();
    let authority_key_id = match authority {
        Some(authority) => authority.certificate().subject_key_id.clone(),
        None => Some(key_id.to_vec()),
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
    let algorithm = signer.algorithm();
    let serial = generate_serial()?;
    let to_be_signed = sequence(|certificate| {
        certificate.next().write_tagged(Tag::context(0), |version| version.write_u8(2));
        certificate.next().write_bigint_bytes(&serial, true);
        certificate.next().write_der(&algorithm);
        certificate.next().write_der(issuer);
        certificate.next().write_sequence(|validity| {
            write_time(validity.next(), now);
            write_time(validity.next(), end);
        });
        certificate.next().write_der(&subject);
        certificate.next().write_der(key.public_info());
        certificate.next().write_tagged(Tag::context(3), |extensions| {
            extensions
                .write_sequence(|all| write_extensions(all, options, key_id, authority_key_id.as_deref()));
        });
    });
    let signature = signer.sign(&to_be_signed)?;
    let certificate = sequence(|certificate| {
        certificate.next().write_der(&to_be_signed);
        certificate.next().write_der(&algorithm);
        certificate.next().write_bitvec_bytes(&signature, signature.len() * 8);
    });
    Ok(pem_text::encode("CERTIFICATE", &certificate))
}

/// The maximum validity in days. It reaches beyond the year 9999, and cannot overflow.
const MAX_DAYS: i64 = 4_000_000;

/// Returns 128 random bits.
fn generate_serial() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::failure("the system gives no random numbers"))?;
    Ok(bytes)
}

fn subject(options: &CertificateOptions) -> Vec<u8> {
    let attributes = [
        (COUNTRY, Some("US")),
        (ORGANIZATION, Some(options.organization.as_str())),
        (COMMON_NAME, options.common_name.as_deref()),
    ];
    sequence(|name| {
        for (id, text) in attributes {
            let Some(text) = text else { continue };
            name.next().write_set(|set| {
                set.next().write_sequence(|attribute| {
                    attribute.next().write_oid(&ObjectIdentifier::from_slice(&id));
                    write_text(attribute.next(), text);
                });
            });
        }
    })
}

/// Writes the extensions like the bosh CLI, which gives CAs no extended key usage and no alternative names.
fn write_extensions(
    extensions: &mut DERWriterSeq<'_>,
    options: &CertificateOptions,
    key_id: &[u8],
    authority_key_id: Option<&[u8]>,
) {
    let mut add = |id: [u64; 4], is_critical: bool, value: Vec<u8>| {
        extensions.next().write_sequence(|extension| {
            extension.next().write_oid(&ObjectIdentifier::from_slice(&id));
            if is_critical {
                extension.next().write_bool(true);
            }
            extension.next().write_bytes(&value);
        });
    };
    let usage = options.key_usage.unwrap_or(if options.is_ca { CA_KEY_USAGE } else { LEAF_KEY_USAGE });
    add(KEY_USAGE, true, construct_der(|writer| write_flags(writer, usage)));
    if !options.is_ca {
        add(EXTENDED_KEY_USAGE, false, extended_key_usage(&options.extended_key_usage));
    }
    let constraints = sequence(|constraints| {
        if options.is_ca {
            constraints.next().write_bool(true);
        }
    });
    add(BASIC_CONSTRAINTS, true, constraints);
    add(SUBJECT_KEY_ID, false, construct_der(|writer| writer.write_bytes(key_id)));
    if let Some(id) = authority_key_id {
        add(AUTHORITY_KEY_ID, false, sequence(|authority| write_implicit(authority, 0, id)));
    }
    let has_names = !options.dns_names.is_empty() || !options.addresses.is_empty();
    if has_names && !options.is_ca {
        add(ALTERNATIVE_NAME, false, alternative_name(options));
    }
}

fn extended_key_usage(names: &[String]) -> Vec<u8> {
    let arc =
        |name: &String| EXTENDED_KEY_USAGES.iter().find(|(usage, _)| usage == name).map(|(_, arc)| *arc);
    let mut arcs: Vec<u64> = names.iter().filter_map(arc).collect();
    if arcs.is_empty() {
        arcs = vec![1];
    }
    sequence(|purposes| {
        for arc in arcs {
            purposes.next().write_oid(&ObjectIdentifier::new([&KEY_PURPOSE[..], &[arc]].concat()));
        }
    })
}

fn alternative_name(options: &CertificateOptions) -> Vec<u8> {
    sequence(|names| {
        for name in &options.dns_names {
            write_implicit(names, 2, name.as_bytes());
        }
        for address in &options.addresses {
            match address {
                IpAddr::V4(four) => write_implicit(names, 7, &four.octets()),
                IpAddr::V6(six) => write_implicit(names, 7, &six.octets()),
            }
        }
    })
}

fn sequence(write: impl FnOnce(&mut DERWriterSeq<'_>)) -> Vec<u8> {
    construct_der(|writer| writer.write_sequence(write))
}

/// Writes bytes under a context-specific tag.
fn write_implicit(sequence: &mut DERWriterSeq<'_>, tag: u64, bytes: &[u8]) {
    sequence.next().write_tagged_implicit(Tag::context(tag), |writer| writer.write_bytes(bytes));
}

/// Writes a BIT STRING of flags, bit 0 first, without trailing zero bits.
fn write_flags(writer: DERWriter<'_>, bits: u16) {
    let bit_count = 16 - bits.leading_zeros() as usize;
    writer.write_bitvec_bytes(&bits.reverse_bits().to_be_bytes()[..bit_count.div_ceil(8)], bit_count);
}

/// Writes a PrintableString if the text allows it, and otherwise a UTF8String.
fn write_text(writer: DERWriter<'_>, text: &str) {
    let printable = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b' ' | b'\'' | b'(' | b')' | b'+'..=b'/' | b':' | b'=' | b'?')
    };
    if text.bytes().all(printable) {
        // `write_printable_string` panics at a question mark.
        writer.write_tagged_implicit(TAG_PRINTABLESTRING, |writer| writer.write_bytes(text.as_bytes()));
    } else {
        writer.write_utf8_string(text);
    }
}

/// Writes a time to the second: UTCTime up to 2049, GeneralizedTime from 2050 on (RFC 5280, 4.1.2.5).
fn write_time(writer: DERWriter<'_>, moment: OffsetDateTime) {
    let moment = moment.truncate_to_second();
    match UTCTime::from_datetime_opt(moment) {
        Some(time) => writer.write_utctime(&time),
        None => writer.write_generalized_time(&GeneralizedTime::from_datetime(moment)),
    }
}

#[cfg(test)]
mod tests {
    use time::format_description::well_known::Rfc3339;

    use super::*;

    #[test]
    fn key_usage_bits_follow_rfc_5280() {
        let flags = |bits| construct_der(|writer| write_flags(writer, bits));
        // digitalSignature and keyEncipherment; keyCertSign and cRLSign; decipherOnly.
        assert_eq!(flags(0b101), [3, 2, 5, 0xa0]);
        assert_eq!(flags(0b110_0000), [3, 2, 1, 0x06]);
        assert_eq!(flags(1 << 8), [3, 3, 7, 0x00, 0x80]);
        assert_eq!(flags(0), [3, 1, 0]);
    }

    #[test]
    fn times_use_generalized_time_from_2050() {
        let time = |text| {
            let moment = OffsetDateTime::parse(text, &Rfc3339).unwrap();
            construct_der(|writer| write_time(writer, moment))
        };
        assert_eq!(time("2049-12-31T23:59:59.5Z"), b"\x17\x0d491231235959Z");
        assert_eq!(time("2050-01-01T00:00:00+01:00"), b"\x17\x0d491231230000Z");
        assert_eq!(time("2050-01-01T00:00:00.5Z"), b"\x18\x0f20500101000000Z");
    }

    #[test]
    fn names_use_printable_string_if_possible() {
        let text = |text| construct_der(|writer| write_text(writer, text));
        assert_eq!(text("Who? Me"), b"\x13\x07Who? Me");
        assert_eq!(text("*.bosh"), b"\x0c\x06*.bosh");
        assert_eq!(text("é"), b"\x0c\x02\xc3\xa9");
    }
}
