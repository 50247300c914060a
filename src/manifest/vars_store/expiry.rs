//! The expiry of certificates in variables: lists them, describes them, and warns of those that expire soon.

use std::collections::BTreeSet;

use time::{Duration, OffsetDateTime};

use super::x509::Certificate;
use yaml::{Data, Node};

/// Returns a sentence for each certificate in these variables that has expired or expires within
/// `min_validity`.
pub fn warnings<'n>(
    variables: impl Iterator<Item = (&'n str, &'n Node)>,
    now: OffsetDateTime,
    min_validity: Duration,
) -> Vec<String> {
    let mut sentences: Vec<_> = certificates(variables)
        .into_iter()
        .filter(|certificate| certificate.not_after < now + min_validity)
        .map(|certificate| (certificate.not_after, sentence(&certificate.path, certificate.not_after, now)))
        .collect();
    sentences.sort();
    sentences.into_iter().map(|(_, sentence)| sentence).collect()
}

/// The expiry of one certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateExpiry {
    /// The end of its validity.
    pub not_after: OffsetDateTime,
    /// The path of the certificate: the variable or the first key, then the keys below it.
    pub path: String,
}

/// Returns the certificates in these variables, sorted by expiry. A CA, which is also part of the values that
/// it signed, is listed once, with its shortest path.
pub fn certificates<'n>(variables: impl Iterator<Item = (&'n str, &'n Node)>) -> Vec<CertificateExpiry> {
    let mut certificates = Vec::new();
    for (name, value) in variables {
        walk(name.to_owned(), value, &mut certificates);
    }
    certificates.sort_by_key(|(path, _)| (path.len(), path.clone()));
    let mut known_ders = BTreeSet::new();
    let mut expiries: Vec<CertificateExpiry> = certificates
        .into_iter()
        .filter(|(_, certificate)| known_ders.insert(certificate.der.clone()))
        .map(|(path, certificate)| CertificateExpiry { not_after: certificate.not_after, path })
        .collect();
    expiries.sort();
    expiries
}

/// Describes the certificates in a text by the day on which the first of them expires. Returns `None` if the
/// text has no certificate.
pub fn describe_certificates(text: &str) -> Option<String> {
    if !text.contains("-----BEGIN CERTIFICATE-----") {
        return None;
    }
    let certificates = Certificate::from_pem(text).unwrap_or_default();
    let first_day = day(certificates.iter().map(|certificate| certificate.not_after).min()?);
    Some(match certificates.len() {
        1 => format!("certificate, expires {first_day}"),
        count => format!("{count} certificates, the first expires {first_day}"),
    })
}

fn sentence(path: &str, end: OffsetDateTime, now: OffsetDateTime) -> String {
    let date = day(end);
    if end < now {
        format!("certificate '{path}' expired on {date}")
    } else {
        match (end - now).whole_days() {
            0 => format!("certificate '{path}' expires within a day, on {date}"),
            1 => format!("certificate '{path}' expires in 1 day, on {date}"),
            days => format!("certificate '{path}' expires in {days} days, on {date}"),
        }
    }
}

/// Returns the day, as `2026-11-21`.
pub fn day(moment: OffsetDateTime) -> String {
    moment.to_offset(time::UtcOffset::UTC).date().to_string()
}

fn walk(path: String, node: &Node, certificates: &mut Vec<(String, Certificate)>) {
    match &node.data {
        Data::String(text) if text.contains("-----BEGIN CERTIFICATE-----") => {
            for certificate in Certificate::from_pem(text).unwrap_or_default() {
                certificates.push((path.clone(), certificate));
            }
        }
        Data::Map(map) => {
            for (key, value) in map.iter() {
                walk(format!("{path}.{}", key.as_str().unwrap_or("?")), value, certificates);
            }
        }
        Data::Seq(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(format!("{path}.{index}"), item, certificates);
            }
        }
        _ => {}
    }
}
