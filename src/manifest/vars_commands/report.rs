//! Lists the values of a vars store and checks them. The output contains no secrets.

use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

use super::rotate::RotationProgress;
use crate::variables::{Declarations, Resolver};
use crate::vars_store::authority::Authority;
use crate::vars_store::expiry::day;
use crate::vars_store::signing_key::SigningKey;
use crate::vars_store::store::VarsStore;
use crate::vars_store::value::{ValueKind, is_mismatched_pair};
use crate::vars_store::x509::Certificate;
use base::{Error, Result};
use yaml::Node;

/// One variable of the vars store.
#[derive(Debug, Clone, Serialize)]
pub struct VariableRow {
    /// The key in the vars store.
    pub name: String,
    /// `certificate`, `ssh`, `rsa`, `text` or `value`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The expiry date of a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// The variable whose CA signed a certificate, or its own name if it is self-signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    /// The progress of the rotation of a CA that is not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation: Option<RotationProgress>,
    /// Public details: subject and alternative names, or a fingerprint.
    pub detail: String,
}

/// A problem of one variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VariableFinding {
    /// The variable.
    pub name: String,
    /// The problem as a text for the operator, without secrets.
    pub problem: String,
}

/// The result of [`check`].
#[derive(Debug, Default)]
pub struct VarsCheckResult {
    /// The number of variables that were checked.
    pub variables: usize,
    /// The number of certificates.
    pub certificates: usize,
    /// The problems found.
    pub findings: Vec<VariableFinding>,
    /// True if a certificate has expired or is not valid yet.
    pub has_invalid_dates: bool,
    /// The variables whose certificate cannot be read.
    pub broken_certificates: Vec<String>,
    /// Checks that could not be made, with reasons.
    pub notes: Vec<String>,
}

/// Lists the variables of the store by name.
pub fn list(store: &VarsStore) -> Vec<VariableRow> {
    let values = infer_kinds(store);
    let mut rows: Vec<VariableRow> = values
        .iter()
        .map(|(name, value, kind)| {
            let certificate = kind.certificate();
            let rotation = match kind {
                ValueKind::Certificate(certificates) => RotationProgress::of(store, name, certificates),
                _ => None,
            };
            VariableRow {
                name: (*name).to_owned(),
                kind: kind.name(),
                expires: certificate.map(|certificate| day(certificate.not_after)),
                signed_by: certificate.and_then(|certificate| find_signer(&values, certificate)),
                rotation,
                detail: match kind {
                    ValueKind::Ssh => public_text(value, "public_key_fingerprint"),
                    _ => certificate.map(describe).unwrap_or_default(),
                },
            }
        })
        .collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

/// Returns all variables of the store with their values and kinds.
fn infer_kinds(store: &VarsStore) -> Vec<(&str, &Node, ValueKind)> {
    store.iter().map(|(name, value)| (name, value, ValueKind::infer(value))).collect()
}

/// Returns the variable whose certificate signed this one.
fn find_signer(values: &[(&str, &Node, ValueKind)], certificate: &Certificate) -> Option<String> {
    let is_signer =
        |kind: &ValueKind| kind.certificate().is_some_and(|authority| certificate.is_signed_by(authority));
    values.iter().find(|(.., kind)| is_signer(kind)).map(|(name, ..)| (*name).to_owned())
}

fn public_text(value: &Node, key: &str) -> String {
    value.get(key).and_then(Node::as_str).unwrap_or_default().trim().to_owned()
}

fn describe(certificate: &Certificate) -> String {
    let mut parts = Vec::new();
    if certificate.is_ca {
        parts.push("CA".to_owned());
    }
    parts.extend(certificate.common_name.as_ref().map(|name| format!("CN={name}")));
    let names = certificate.dns_names.iter().cloned();
    let names: Vec<String> = names.chain(certificate.addresses.iter().map(ToString::to_string)).collect();
    if !names.is_empty() {
        parts.push(format!("for {}", names.join(", ")));
    }
    parts.join(" ")
}

/// Checks the store: certificates that expire within `min_validity` or do not chain to their CA, mismatched
/// key pairs, and values that differ from their declaration.
pub fn check(
    store: &mut VarsStore,
    declarations: &Declarations,
    min_validity: Duration,
    now: OffsetDateTime,
) -> Result<VarsCheckResult> {
    let mut result = VarsCheckResult::default();
    for (name, value) in store.iter() {
        result.variables += 1;
        let kind = ValueKind::infer(value);
        result.certificates += usize::from(kind.name() == "certificate");
        if let ValueKind::Certificate(certificates) = &kind {
            result.has_invalid_dates |= certificates
                .iter()
                .any(|certificate| !(certificate.not_before..=certificate.not_after).contains(&now));
        }
        let problems = match &kind {
            ValueKind::Certificate(certificates) => {
                certificate_problems(value, certificates, min_validity, now)
            }
            ValueKind::BrokenCertificate(reason) => {
                result.broken_certificates.push(name.to_owned());
                vec![format!("its certificate cannot be read: {reason}")]
            }
            ValueKind::Ssh | ValueKind::Rsa if is_mismatched_pair(value) == Some(true) => {
                vec!["its private key does not match its public key".to_owned()]
            }
            _ => Vec::new(),
        };
        result
            .findings
            .extend(problems.into_iter().map(|problem| VariableFinding { name: name.to_owned(), problem }));
    }
    for name in store.names().map(str::to_owned).collect::<Vec<_>>() {
        compare_with_declaration(store, declarations, &name, now, &mut result)?;
    }
    result.findings.sort_by(|a, b| a.name.cmp(&b.name));
    result.findings.dedup();
    Ok(result)
}

/// Returns the problems of a certificate: its dates, its key, and the chain to its CA.
fn certificate_problems(
    value: &Node,
    certificates: &[Certificate],
    min_validity: Duration,
    now: OffsetDateTime,
) -> Vec<String> {
    let mut problems = Vec::new();
    let Some(certificate) = certificates.first() else { return problems };
    if certificate.not_after < now {
        problems.push(format!("it expired on {}", day(certificate.not_after)));
    } else if certificate.not_after < now + min_validity {
        problems.push(format!("it expires on {}", day(certificate.not_after)));
    }
    if certificate.not_before > now {
        problems.push(format!("it is not valid before {}", day(certificate.not_before)));
    }
    let key = value.get("private_key").and_then(Node::as_str).unwrap_or_default();
    match SigningKey::from_pem(key) {
        Ok(key) if key.public_bits() != certificate.public_bits => {
            problems.push("its private key does not match its certificate".into());
        }
        Ok(_) => {}
        Err(error) => problems.push(error.to_string()),
    }
    match value.get("ca").and_then(Node::as_str).filter(|text| !text.trim().is_empty()) {
        Some(text) => match Certificate::from_pem(text) {
            Ok(bundle) => {
                problems.extend(chain_problem(certificate, certificates, &bundle, min_validity, now))
            }
            Err(_) => problems.push("the certificate under 'ca' cannot be read".into()),
        },
        None if certificate.is_self_signed() => {}
        None => problems.push("it has no 'ca'".into()),
    }
    problems
}

fn chain_problem(
    certificate: &Certificate,
    chain: &[Certificate],
    bundle: &[Certificate],
    min_validity: Duration,
    now: OffsetDateTime,
) -> Option<String> {
    // Intermediate CAs may follow the certificate in its own text.
    let Some(authority) =
        bundle.iter().chain(&chain[1..]).find(|authority| certificate.is_signed_by(authority))
    else {
        return Some("it is not signed by a certificate under 'ca'".into());
    };
    let verb = if authority.not_after < now { "expired" } else { "expires" };
    (authority.der != certificate.der && authority.not_after < now + min_validity)
        .then(|| format!("its CA {verb} on {}", day(authority.not_after)))
}

fn compare_with_declaration(
    store: &mut VarsStore,
    declarations: &Declarations,
    name: &str,
    now: OffsetDateTime,
    result: &mut VarsCheckResult,
) -> Result<()> {
    let Some((definitions, definition)) = declarations.get(name) else { return Ok(()) };
    let (Some(kind), Some(value)) = (&definition.kind, store.get(name).cloned()) else { return Ok(()) };
    let mut resolver = Resolver::new(&declarations.given_values, definitions, Some(store), now).read_only();
    match resolver.resolve_spec(definition, kind)? {
        Some((spec, authority)) => {
            for problem in spec.mismatches(&value, authority.as_ref()) {
                result.findings.push(VariableFinding { name: name.to_owned(), problem });
            }
        }
        None => result
            .notes
            .push(format!("'{name}' is not compared with its options: {}", unresolved_names(&resolver))),
    }
    Ok(())
}

fn unresolved_names(resolver: &Resolver<'_>) -> String {
    match resolver.missing_names().as_slice() {
        [] => "they refer to parts that their variables do not have".into(),
        names => format!("{} has no value", names.join(", ")),
    }
}

/// Returns the CA in the store that signed a value without a declaration.
pub fn authority_of(store: &VarsStore, name: &str, certificate: &Certificate) -> Result<Option<Authority>> {
    if certificate.is_self_signed() {
        return Ok(None);
    }
    let signer = find_signer(&infer_kinds(store), certificate)
        .ok_or_else(|| Error::invalid(format!("the CA that signed '{name}' is not in the vars store")))?;
    let value = store.get(&signer).cloned().unwrap_or_else(|| Node::string(""));
    Authority::from_value(&signer, &value).map(Some)
}
