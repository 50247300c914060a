//! Certificates that expire soon.

use std::collections::BTreeSet;

use time::{Duration, OffsetDateTime};

use super::x509::Certificate;
use yaml::{Data, Node};

/// One sentence for each certificate in these variables that has expired or will within `within`.
pub fn warnings<'n>(
    variables: impl Iterator<Item = (&'n str, &'n Node)>,
    now: OffsetDateTime,
    within: Duration,
) -> Vec<String> {
    let mut sentences: Vec<_> = certificates(variables)
        .into_iter()
        .filter(|dated| dated.not_after < now + within)
        .map(|dated| (dated.not_after, sentence(&dated.path, dated.not_after, now)))
        .collect();
    sentences.sort();
    sentences.into_iter().map(|(_, sentence)| sentence).collect()
}

/// A certificate and the moment it stops being valid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dated {
    /// The end of its validity.
    pub not_after: OffsetDateTime,
    /// Where it stands: the variable, or the first key, and what follows below that.
    pub path: String,
}

/// The certificates in these variables, the first to expire first. A CA stands in everything that it signed:
/// it is named once, by the shortest path, its own.
pub fn certificates<'n>(variables: impl Iterator<Item = (&'n str, &'n Node)>) -> Vec<Dated> {
    let mut found = Vec::new();
    for (name, value) in variables {
        walk(name.to_owned(), value, &mut found);
    }
    found.sort_by_key(|(path, _)| (path.len(), path.clone()));
    let mut seen = BTreeSet::new();
    let mut dated: Vec<Dated> = found
        .into_iter()
        .filter(|(_, certificate)| seen.insert(certificate.der.clone()))
        .map(|(path, certificate)| Dated { not_after: certificate.not_after, path })
        .collect();
    dated.sort();
    dated
}

fn sentence(path: &str, end: OffsetDateTime, now: OffsetDateTime) -> String {
    let date = date(end);
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

/// The day, as `2026-11-21`.
pub fn date(moment: OffsetDateTime) -> String {
    moment.to_offset(time::UtcOffset::UTC).date().to_string()
}

fn walk(path: String, node: &Node, found: &mut Vec<(String, Certificate)>) {
    match &node.data {
        Data::String(text) if text.contains("-----BEGIN CERTIFICATE-----") => {
            for certificate in Certificate::from_pem(text).unwrap_or_default() {
                found.push((path.clone(), certificate));
            }
        }
        Data::Map(map) => {
            for (key, value) in map.iter() {
                walk(format!("{path}.{}", key.as_str().unwrap_or("?")), value, found);
            }
        }
        Data::Seq(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(format!("{path}.{index}"), item, found);
            }
        }
        _ => {}
    }
}
